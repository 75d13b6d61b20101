#include "driver/model.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "driver/piece.h"
#include "ir/file.h"
#include "onnx/onnx.h"
#include "ops/table.h"
#include "passes/rebuild.h"

namespace isomer::driver {
namespace {

std::optional<int64_t> number(std::string_view text) {
  int64_t v = 0;
  const auto r = std::from_chars(text.data(), text.data() + text.size(), v);
  return r.ec == std::errc() && r.ptr == text.data() + text.size() ? std::optional(v) : std::nullopt;
}

std::vector<std::string> pieces(std::string_view text, std::string_view separators) {
  std::vector<std::string> out;
  while (true) {
    const size_t at = text.find_first_of(separators);
    out.emplace_back(text.substr(0, at));
    if (at == std::string_view::npos) return out;
    text.remove_prefix(at + 1);
  }
}

}  // namespace

Expected<zoo::Options> parse_zoo_options(const std::string& text) {
  zoo::Options o;
  if (text.empty()) return o;
  for (const std::string& item : pieces(text, ",")) {
    const size_t equals = item.find('=');
    const std::string key = item.substr(0, equals);
    const auto value = equals == std::string::npos ? std::nullopt : number(item.substr(equals + 1));
    if (!value || *value < 0)
      return Diagnostic("E-zoo-option",
                        fmt::format("expected KEY=NUMBER in zoo options, found {}", isomer::quoted(item)));
    if (key == "batch")
      o.batch = *value;
    else if (key == "image")
      o.image = *value;
    else if (key == "sequence")
      o.sequence = *value;
    else if (key == "layers")
      o.layers = *value;
    else if (key == "seed")
      o.seed = static_cast<uint64_t>(*value);
    else if (key == "fused_norms")
      o.fused_norms = *value != 0;
    else
      return Diagnostic(
          "E-zoo-option",
          fmt::format("expected batch, image, sequence, layers, fused_norms or seed, found {}", isomer::quoted(key)));
  }
  return o;
}

Expected<Model> load_model(const std::string& spec) {
  if (spec.starts_with("zoo:")) {
    const std::string rest = spec.substr(4);
    const size_t comma = rest.find(',');
    ISOMER_TRY(const zoo::Options options, parse_zoo_options(comma == std::string::npos ? "" : rest.substr(comma + 1)));
    ISOMER_TRY(ir::Graph g, zoo::build(rest.substr(0, comma), ops::table(), options));
    return Model{std::move(g), spec, {}};
  }
  if (spec.ends_with(".iso")) {
    ISOMER_TRY(ir::Graph g, ir::load_text(spec, ops::table()));
    return Model{std::move(g), spec, {}};
  }
  ISOMER_TRY(onnx::Model m, onnx::load(spec, ops::table()));
  return Model{std::move(m.graph), spec, std::move(m.warnings)};
}

Expected<void> save_model(const ir::Graph& graph, const std::string& path) {
  if (path.ends_with(".iso")) return ir::save_text(graph, path);
  if (path.ends_with(".onnx")) return onnx::save(graph, path);
  return Diagnostic("E-output-name",
                    fmt::format("expected an output named *.onnx or *.iso, found {}", isomer::quoted(path)));
}

Expected<std::pair<std::string, std::vector<int64_t>>> parse_shape(const std::string& text) {
  const size_t colon = text.rfind(':');
  const auto wrong = [&] {
    return Diagnostic("E-shape-option",
                      fmt::format("expected a shape such as name:1x3x224x224, found {}", isomer::quoted(text)));
  };
  if (colon == std::string::npos || colon == 0) return wrong();
  std::string dims = text.substr(colon + 1);
  if (dims.starts_with('[') && dims.ends_with(']')) dims = dims.substr(1, dims.size() - 2);
  std::vector<int64_t> out;
  if (!dims.empty())
    for (const std::string& d : pieces(dims, "x,")) {
      const auto v = number(d);
      if (!v || *v < 0) return wrong();
      out.push_back(*v);
    }
  return std::pair(text.substr(0, colon), std::move(out));
}

Expected<std::pair<std::string, int64_t>> parse_dim(const std::string& text) {
  const size_t equals = text.rfind('=');
  const auto v = equals == std::string::npos ? std::nullopt : number(std::string_view(text).substr(equals + 1));
  if (!v || *v < 0 || equals == 0)
    return Diagnostic("E-dim-option",
                      fmt::format("expected a dimension such as batch=4, found {}", isomer::quoted(text)));
  return std::pair(text.substr(0, equals), *v);
}

namespace {

// The type an input has once the bindings hold.
Expected<Type> bound_type(const ir::Node& input, const Bindings& b) {
  Type t = input.types[0];
  if (const auto given = b.shapes.find(input.names[0]); given != b.shapes.end()) {
    const Shape wanted = Shape::of(given->second);
    bool fits = !t.shape.has_rank() || t.shape.rank() == wanted.rank();
    for (size_t i = 0; fits && t.shape.has_rank() && i < wanted.rank(); ++i)
      fits = !t.shape[i].is_const() || t.shape[i] == wanted[i];
    if (!fits)
      return Diagnostic("E-shape-option",
                        fmt::format("input {} is declared {}, the shape given is {}", isomer::quoted(input.names[0]),
                                    t.to_string(), wanted.to_string()));
    t.shape = wanted;
  }
  if (!t.shape.has_rank()) return t;
  std::vector<Dim> dims;
  for (const Dim& d : t.shape.dims())
    dims.push_back(d.substitute([&](const std::string& s) -> std::optional<Dim> {
      const auto it = b.dims.find(s);
      return it == b.dims.end() ? std::nullopt : std::optional(Dim(it->second));
    }));
  t.shape = Shape(std::move(dims));
  return t;
}

Expected<void> check_names(const ir::Graph& g, const Bindings& b) {
  for (const auto& [name, shape] : b.shapes) {
    bool known = false;
    std::string all;
    for (const ir::Node& n : g.inputs()) {
      known |= n.names[0] == name;
      all += (all.empty() ? "" : ", ") + isomer::quoted(n.names[0]);
    }
    if (!known)
      return Diagnostic("E-input-name", fmt::format("the model has no input {}; it has {}", isomer::quoted(name), all));
  }
  std::vector<std::string> symbols;
  for (const ir::Node& n : g.inputs())
    for (const Dim& d : n.types[0].shape.dims()) d.symbols(symbols);
  for (const auto& [name, value] : b.dims)
    if (std::find(symbols.begin(), symbols.end(), name) == symbols.end()) {
      std::string all;
      for (const std::string& s : symbols) all += (all.empty() ? "" : ", ") + isomer::quoted(s);
      return Diagnostic("E-dim-name", fmt::format("the model has no dynamic dimension {}; it has {}",
                                                  isomer::quoted(name), all.empty() ? "none" : all));
    }
  return {};
}

}  // namespace

Expected<ir::Graph> bind(const ir::Graph& g, const Bindings& given) {
  Bindings b = given;
  ISOMER_CHECK_OK(check_names(g, b));
  // A shape also says what the symbols in it stand for, for the other inputs that have them.
  for (const ir::Node& n : g.inputs()) {
    const auto it = b.shapes.find(n.names[0]);
    if (it == b.shapes.end() || !n.types[0].shape.has_rank()) continue;
    for (size_t i = 0; i < n.types[0].shape.rank() && i < it->second.size(); ++i)
      if (const auto s = n.types[0].shape[i].as_symbol()) b.dims.emplace(*s, it->second[i]);
  }
  std::vector<Type> types;
  for (const ir::Node& n : g.inputs()) {
    ISOMER_TRY(Type t, bound_type(n, b));
    types.push_back(std::move(t));
  }
  return specialise(g, types, {});
}

namespace {

Expected<ir::Output> find_output(const ir::Graph& g, const std::string& name) {
  for (const ir::Output& o : g.outputs())
    if (o.name == name) return o;
  for (uint32_t i = 0; i < g.nodes().size(); ++i)
    for (uint32_t k = 0; k < g.node(i).names.size(); ++k)
      if (g.node(i).names[k] == name && !name.empty()) return ir::Output{name, {i, k}};
  std::string all;
  for (const ir::Output& o : g.outputs()) all += (all.empty() ? "" : ", ") + isomer::quoted(o.name);
  return Diagnostic("E-output-name",
                    fmt::format("the model has no value {}; its outputs are {}", isomer::quoted(name), all));
}

}  // namespace

Expected<ir::Graph> with_outputs(const ir::Graph& g, const std::vector<std::string>& names) {
  std::vector<ir::Output> wanted;
  std::vector<bool> needed(g.nodes().size());
  for (const std::string& name : names) {
    ISOMER_TRY(const ir::Output o, find_output(g, name));
    if (std::ranges::any_of(wanted, [&](const ir::Output& w) { return w.name == name; }))
      return Diagnostic("E-output-name", fmt::format("output {} is given twice", isomer::quoted(name)));
    needed[o.value.node] = true;
    wanted.push_back(o);
  }
  for (size_t i = g.nodes().size(); i-- > 0;)
    if (needed[i])
      for (const ir::Value& v : g.nodes()[i].inputs)
        if (!v.is_none()) needed[v.node] = true;
  passes::Rebuild r(g, ops::table());
  for (uint32_t i = 0; i < g.nodes().size(); ++i)
    if (needed[i] || i < g.input_count()) ISOMER_CHECK_OK(r.copy(i));
  return std::move(r).finish(wanted);
}

}  // namespace isomer::driver
