#include "compile/compose.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "compile/assembly.h"
#include "compile/open_composites.h"
#include "compile/procedures.h"
#include "compile/run_sizes.h"
#include "compile/selection.h"
#include "compile/stages.h"
#include "compile/step_loops.h"
#include "passes/manager.h"
#include "passes/piece.h"

namespace isomer::compile {

namespace {

constexpr int kDeepestBody = 16;

// Calls are those nodes that are no expressions. For each node its round: expressions of a round come before its calls, and
// read those of earlier rounds only.
std::vector<uint32_t> rounds_of(const ir::Graph& g, const std::vector<bool>& call) {
  std::vector<uint32_t> rounds(g.nodes().size());
  for (uint32_t i = 0; i < g.nodes().size(); ++i)
    for (const ir::Value& v : g.node(i).inputs) {
      if (v.is_none()) continue;
      rounds[i] = std::max(rounds[i], rounds[v.node] + (call[v.node] && !call[i] ? 1 : 0));
    }
  return rounds;
}

// The dims of a type, or the most that they can be.
std::optional<std::vector<int64_t>> dims_of(const Type& type, const Bounds& bounds) {
  if (!type.shape.has_rank()) return std::nullopt;
  std::vector<int64_t> dims;
  for (const Dim& d : type.shape.dims()) {
    const auto n = most(d, bounds);
    if (!n) return std::nullopt;
    dims.push_back(*n);
  }
  return dims;
}

Expected<Port> port_of(const std::string& name, const Type& type, const Bounds& bounds = {}) {
  const auto dims = dims_of(type, bounds);
  if (!dims) return Diagnostic{"E-compile-size", fmt::format("the size of {} is not a number", isomer::quoted(name))};
  ISOMER_CHECK_OK(checked_elements(type.dtype, *dims));
  return Port{name, type.dtype, *dims};
}

// In a buffer of the bounds, elements of a run lie together.
bool lies_together(const Type& type) {
  for (size_t d = 1; d < type.shape.rank(); ++d)
    if (!type.shape[d].is_const()) return false;
  return true;
}

class Composition {
 public:
  Composition(const Composer& composer, const ir::Graph& g)
      : composer_(composer), g_(g), assembly_(g.name(), composer.options.target) {}

  Expected<Lowered> run() {
    for (const ir::Node& n : g_.inputs()) {
      ISOMER_TRY(Port p, port_of(n.names[0], n.types[0]));
      assembly_.inputs().push_back(std::move(p));
    }
    claim_outputs();
    ISOMER_CHECK_OK(add_units());
    for (const ir::Output& o : g_.outputs()) {
      ISOMER_TRY(Port p, port_of(o.name, g_.type(o.value), bounds_));
      assembly_.outputs().push_back(std::move(p));
    }
    copy_outputs();
    tell_sizes();
    return std::move(assembly_).finish();
  }

 private:
  // An output that is computed is computed in its place.
  void claim_outputs() {
    for (uint32_t i = 0; i < g_.input_count(); ++i) places_[{i, 0}] = {Space::Input, i, 0};
    for (uint32_t k = 0; k < g_.outputs().size(); ++k) {
      const ir::Value v = g_.outputs()[k].value;
      if (ir::is_computed(g_.node(v.node)) && (!g_.type(v).shape.has_rank() || lies_together(g_.type(v))))
        places_.try_emplace(v, Place{Space::Output, k, 0});
    }
  }

  Place place(ir::Value v) {
    const auto it = places_.find(v);
    if (it != places_.end()) return it->second;
    const ir::Node& n = g_.node(v.node);
    return places_[v] = n.op == &ir::const_op() ? assembly_.weight(*n.attrs.get<Tensor>("value"))
                                                : assembly_.memory(bytes_of(g_.type(v)));
  }

  uint64_t bytes_of(const Type& t) const {
    uint64_t bytes = size_of(t.dtype);
    const auto dims = dims_of(t, bounds_);
    for (size_t d = 0; dims && d < dims->size(); ++d) bytes *= static_cast<uint64_t>((*dims)[d]);
    return bytes;
  }

  Expected<void> add_units() {
    std::vector<bool> call(g_.nodes().size());
    for (uint32_t i = 0; i < call.size(); ++i) call[i] = g_.node(i).op->kernel != nullptr;
    const std::vector<uint32_t> rounds = rounds_of(g_, call);
    const uint32_t last = rounds.empty() ? 0 : *std::max_element(rounds.begin(), rounds.end());
    std::vector<std::vector<uint32_t>> pieces(last + 1), calls(last + 1);
    for (uint32_t i = 0; i < call.size(); ++i)
      if (ir::is_computed(g_.node(i))) (call[i] ? calls : pieces)[rounds[i]].push_back(i);
    for (uint32_t round = 0; round <= last; ++round) {
      const std::vector<uint32_t>& all = pieces[round];
      const size_t length =
          std::max<size_t>(all.size() > composer_.options.whole ? composer_.options.whole / 2 : all.size(), 1);
      for (size_t at = 0; at < all.size(); at += length) {
        const auto first = all.begin() + static_cast<ptrdiff_t>(at);
        ISOMER_CHECK_OK(add_piece({first, first + static_cast<ptrdiff_t>(std::min(length, all.size() - at))}));
      }
      for (const uint32_t i : calls[round]) ISOMER_CHECK_OK(add_call(g_.node(i), i));
    }
    return {};
  }

  Expected<void> add_piece(const std::vector<uint32_t>& nodes) {
    std::vector<bool> taken(g_.nodes().size());
    for (const uint32_t i : nodes) taken[i] = true;
    ISOMER_TRY(passes::Piece piece, passes::cut(g_, taken, composer_.table));
    if (piece.outputs.empty()) return {};  // nobody reads it
    ISOMER_CHECK_OK(name_sizes(piece));
    Lowered part;
    std::vector<Place> numbers;
    const Bounds bounds = bounds_of(piece.graph, numbers);
    for (const ir::Value& v : piece.outputs)
      if (!dims_of(g_.type(v), bounds_))
        return cannot_compile(g_.node(v.node), "only a run can tell the size of its result");
    if (composer_.lowers) {
      ISOMER_TRY(part, lower_expressions(piece.graph, composer_.table, composer_.options, bounds));
    } else {
      ISOMER_TRY(const StageGraph stages, stages_of(piece.graph, composer_.table));
    }
    assembly_.next_time();
    assembly_.add(part, [&](Space space, uint32_t index) {
      if (space == Space::Input && index >= piece.inputs.size()) return numbers[index - piece.inputs.size()];
      return place(space == Space::Input ? piece.inputs[index] : piece.outputs[index]);
    });
    return {};
  }

  // A size that a run tells is named after a node, which a piece does not have: there it has a name that stays.
  static std::string lasting_name(const std::string& symbol) { return "run " + symbol; }

  Expected<void> name_sizes(passes::Piece& piece) const {
    std::vector<Type> types;
    bool open = false;
    for (const ir::Value& v : piece.inputs) {
      Type t = g_.type(v);
      std::vector<Dim> dims;
      for (size_t d = 0; t.shape.has_rank() && d < t.shape.rank(); ++d) {
        open = open || !t.shape[d].is_const();
        dims.push_back(t.shape[d].substitute([&](const std::string& s) -> std::optional<Dim> {
          return bounds_.contains(s) ? std::optional(Dim::symbol(lasting_name(s))) : std::nullopt;
        }));
      }
      if (t.shape.has_rank()) t.shape = Shape(std::move(dims));
      types.push_back(std::move(t));
    }
    if (!open || bounds_.empty()) return {};
    ISOMER_TRY(piece.graph, passes::specialise(piece.graph, types, std::vector<std::optional<Tensor>>(types.size()),
                                               composer_.table));
    return {};
  }

  // Of the sizes that the piece knows, with the places of their numbers in the same order.
  Bounds bounds_of(const ir::Graph& g, std::vector<Place>& numbers) const {
    Bounds out;
    std::vector<std::string> symbols;
    for (const ir::Node& n : g.nodes())
      for (const Type& t : n.types)
        for (size_t d = 0; t.shape.has_rank() && d < t.shape.rank(); ++d)
          if (!t.shape[d].is_const() && !t.shape[d].is_invalid()) t.shape[d].symbols(symbols);
    for (const auto& [symbol, bound] : bounds_)
      if (std::find(symbols.begin(), symbols.end(), lasting_name(symbol)) != symbols.end()) {
        out[lasting_name(symbol)] = bound;
        numbers.push_back(numbers_.at(symbol));
      }
    return out;
  }

  // A result whose size a run tells: the number is one more output of its part.
  Expected<void> add_selection(const ir::Node& n, uint32_t id, const RunSize& size) {
    const Place number = assembly_.memory(8);
    for (const std::string& symbol : size.symbols) bounds_[symbol] = size.most, numbers_[symbol] = number;
    for (const Type& t : n.types) ISOMER_CHECK_OK(port_of(n.names[0], t, bounds_));
    ISOMER_TRY(const Lowered part, selection(composer_, g_, n));
    assembly_.next_time();
    assembly_.add(part, [&](Space space, uint32_t index) {
      if (space == Space::Output && index == n.types.size()) return number;
      return place(space == Space::Input ? n.inputs[index] : ir::Value{id, index});
    });
    return {};
  }

  Expected<void> add_call(const ir::Node& n, uint32_t id) {
    if (composer_.options.bounded)
      if (const auto size = run_size(g_, n)) return add_selection(n, id, *size);
    ISOMER_TRY(const Lowered part, composer_.node(g_, n));
    assembly_.next_time();
    assembly_.add(part, [&](Space space, uint32_t index) {
      return place(space == Space::Input ? n.inputs[index] : ir::Value{id, index});
    });
    return {};
  }

  void copy_outputs() {
    for (uint32_t k = 0; k < g_.outputs().size(); ++k) {
      const ir::Value v = g_.outputs()[k].value;
      const Place to{Space::Output, k, 0}, from = place(v);
      const Port& p = assembly_.outputs()[k];
      if (from == to || p.byte_size() == 0) continue;
      assembly_.next_time();
      const Type& type = g_.type(v);
      if (!lies_together(type)) {
        std::vector<Place> places = {from, to};
        add_numbers(type.shape, places);
        assembly_.add(pack_loops(p.dtype, p.dims, type.shape, p.name), places, 2 * static_cast<double>(p.byte_size()));
        continue;
      }
      loop::Function copy = copy_loops(p.dtype, static_cast<int64_t>(p.byte_size() / size_of(p.dtype)));
      copy.origin = {p.name};
      assembly_.add(std::move(copy), {from, to}, 2 * static_cast<double>(p.byte_size()));
    }
  }

  // The numbers of all symbols of a shape, in order.
  void add_numbers(const Shape& shape, std::vector<Place>& places) const {
    for (const std::string& s : symbols_of(shape)) places.push_back(numbers_.at(s));
  }

  // Dims of outputs whose size a run tells.
  void tell_sizes() {
    for (uint32_t k = 0; k < g_.outputs().size(); ++k) {
      const Shape& shape = g_.type(g_.outputs()[k].value).shape;
      if (shape.is_static()) continue;
      assembly_.next_time();
      const Place dims = assembly_.memory(8 * shape.rank());
      std::vector<Place> places = {dims};
      add_numbers(shape, places);
      assembly_.add(dims_loops(shape, g_.outputs()[k].name), places);
      assembly_.set_run_dims(k, dims);
    }
  }

  const Composer& composer_;
  const ir::Graph& g_;
  Assembly assembly_;
  std::map<ir::Value, Place> places_;
  Bounds bounds_;                         // of the symbols that were met so far
  std::map<std::string, Place> numbers_;  // and where their numbers are
};

bool wants_pieces(const ir::Graph& g, size_t whole) {
  if (g.nodes().size() > whole) return true;
  return std::any_of(g.nodes().begin(), g.nodes().end(), [](const ir::Node& n) { return n.op->kernel != nullptr; });
}

}  // namespace

Diagnostic cannot_compile(const ir::Node& n, std::string_view why) {
  return {"E-compile-node", fmt::format("node {} ({}) cannot be compiled: {}",
                                        n.names.empty() || n.names[0].empty() ? n.label : n.names[0], n.op->name, why)};
}

Expected<Lowered> Composer::graph(const ir::Graph& whole) const {
  ISOMER_TRY(const std::optional<ir::Graph> opened, open_composites(whole, table));
  const ir::Graph& g = opened ? *opened : whole;
  if (wants_pieces(g, options.whole)) return Composition(*this, g).run();
  if (lowers) return lower_expressions(g, table, options);
  ISOMER_TRY(const StageGraph stages, stages_of(g, table));
  return Lowered{};
}

Expected<Composer::Body> Composer::body(const ir::Graph& g, const std::vector<Type>& types,
                                        const std::vector<std::optional<Tensor>>& contents) const {
  if (depth >= kDeepestBody) return Diagnostic{"E-compile-node", "bodies of control flow are nested too deeply"};
  ISOMER_TRY(ir::Graph sized, passes::specialise(g, types, contents, table));
  // Naive code is the reference for the other, and keeps to what is written.
  ISOMER_TRY(const auto plain, passes::parse_passes("fold_constants,inline_branches,dead_code"));
  if (options.fuse) {
    ISOMER_TRY(sized, passes::run_pipeline(sized, table, "inference"));
  } else {
    ISOMER_TRY(passes::Result result, passes::run(sized, table, plain));
    sized = std::move(result.graph);
  }
  Body out;
  for (size_t i = 0; i < types.size(); ++i)
    if (i >= contents.size() || !contents[i]) out.inputs.push_back(i);
  Composer inner = *this;
  ++inner.depth;
  ISOMER_TRY(out.lowered, inner.graph(sized));
  if (!lowers)  // a plan without steps has no ports
    for (const ir::Output& o : sized.outputs()) {
      ISOMER_TRY(Port p, port_of(o.name, sized.type(o.value)));
      out.lowered.plan.outputs.push_back(std::move(p));
    }
  return out;
}

Expected<Lowered> Composer::node(const ir::Graph& g, const ir::Node& n) const {
  for (const ir::Value& v : n.inputs)
    if (!v.is_none() && !g.type(v).shape.is_static())
      return cannot_compile(n, "the sizes of its inputs follow from data");
  for (const Type& t : n.types)
    if (t.dtype == DType::Opaque || !t.shape.is_static())
      return cannot_compile(n, "only a run can tell the size of its result");
  if (is_control_flow(n)) return control_flow(*this, g, n);
  if (auto made = procedure(*this, g, n)) return *std::move(made);
  return cannot_compile(n, "its result depends on data in a way that no expression says");
}

Expected<void> can_lower(const ir::Graph& graph, const ir::OpTable& table, bool bounded) {
  LowerOptions options;
  options.bounded = bounded;
  ISOMER_TRY(const Lowered plan, (Composer{table, options, false}.graph(graph)));
  return {};
}

Expected<Lowered> lower(const ir::Graph& graph, const ir::OpTable& table, const LowerOptions& options) {
  return Composer{table, options}.graph(graph);
}

}  // namespace isomer::compile
