#include <fmt/format.h>

#include <algorithm>

#include "onnx/export_proto.h"
#include "onnx/tensor_proto.h"
#include "onnx/type_proto.h"
#include "ops/table.h"

namespace isomer::onnx {

using ::onnx::AttributeProto;
using ::onnx::GraphProto;
using ::onnx::NodeProto;

bool is_reserved(std::string_view name) {
  return name == "op_type" || name == "op_domain" || name == "op_version" || name == "op_captures" ||
         name == "op_types" || name == "op_foreign";
}

namespace {

bool is_const(const ir::Node& n) { return n.op == &ir::const_op(); }

// The format's version that came with an operator set.
int64_t ir_version_of(int64_t opset) {
  if (opset <= 18) return 8;
  if (opset <= 20) return 9;
  if (opset <= 22) return 10;
  if (opset <= 24) return opset - 12;
  return opset <= 27 ? 13 : 14;
}

int64_t captures_of(const ir::Node& n) {
  if (const auto* count = n.attrs.get<int64_t>("op_captures")) return *count;
  const auto* count = n.op->attr("captures") ? n.attrs.get<int64_t>("captures") : nullptr;
  return count ? *count : 0;
}

// The newest opset that an input or attribute of the node asks for by itself; 0: none does.
int newest_part(const ir::Node& n) {
  int newest = 0;
  for (size_t i = 0; i < std::min(n.inputs.size(), n.op->inputs.size()); ++i)
    if (!n.inputs[i].is_none()) newest = std::max(newest, n.op->inputs[i].since);
  for (const auto& [name, value] : n.attrs)
    if (const ir::AttrDef* attr = n.op->attr(name)) newest = std::max(newest, attr->since);
  return newest;
}

void write_alias(const std::string& value, const std::string& name, GraphProto& out) {
  NodeProto& copy = *out.add_node();
  copy.set_op_type("Identity");
  copy.set_doc_string(kAliasMark);
  copy.add_input(value);
  copy.add_output(name);
}

}  // namespace

bool Exporter::Frame::taken(const std::string& name) const {
  for (const Frame* f = this; f; f = f->outer)
    if (f->used.contains(name)) return true;
  return false;
}

std::string Exporter::Frame::unique(const std::string& wanted) {
  std::string name = wanted;
  if (name.empty() || taken(name)) {
    uint64_t& counter = next[wanted];
    do name = fmt::format("{}.{}", wanted.empty() ? "value" : wanted, ++counter);
    while (taken(name));
  }
  used.insert(name);
  return name;
}

std::string Exporter::Frame::unique_label(const std::string& wanted) {
  std::string label = wanted;
  for (uint64_t k = 1; !label.empty() && !labels.insert(label).second; ++k) label = fmt::format("{}.{}", wanted, k);
  return label;
}

void Exporter::need(const std::string& domain, int64_t version) {
  int64_t& v = opsets_[domain];
  v = std::max(v, version);
}

Expected<::onnx::ModelProto> Exporter::run(const ir::Graph& graph) {
  const ir::Metadata& m = graph.metadata();
  for (const auto& [domain, version] : m.opsets) need(domain, version);
  ::onnx::ModelProto model;
  Frame frame;
  main_ = model.mutable_graph();
  ISOMER_CHECK_OK(write_graph(graph, {}, frame, *model.mutable_graph()));
  // Old operator sets are read by few; but an operator Isomer does not know keeps the one it was written for.
  if (!keeps_opset_) need("", 13);
  model.set_ir_version(std::max(m.ir_version, ir_version_of(opsets_[""])));
  model.set_producer_name(m.producer.empty() ? "isomer" : m.producer);
  if (!m.doc.empty()) model.set_doc_string(m.doc);
  for (const auto& [domain, version] : opsets_) {
    auto& entry = *model.add_opset_import();
    entry.set_domain(domain);
    entry.set_version(version);
  }
  for (const auto& [key, value] : m.properties) {
    auto& entry = *model.add_metadata_props();
    entry.set_key(key);
    entry.set_value(value);
  }
  return model;
}

Expected<void> Exporter::write_graph(const ir::Graph& graph, const std::vector<std::string>& captured, Frame& frame,
                                     GraphProto& out) {
  if (++depth_ > 64) return Diagnostic("E-nesting", "graphs are nested more than 64 deep");
  if (captured.size() > graph.input_count())
    return Diagnostic("E-onnx-export", fmt::format("graph {} takes {} inputs, but captures {} values",
                                                   quoted(graph.name()), graph.input_count(), captured.size()));
  out.set_name(graph.name().empty() ? "graph" : graph.name());
  ValueNames names(graph.nodes().size());
  for (size_t i = 0; i < names.size(); ++i) names[i].resize(graph.nodes()[i].types.size());
  const size_t formal = graph.input_count() - captured.size();
  for (size_t i = 0; i < graph.input_count(); ++i) {
    names[i][0] = i < formal ? frame.unique(graph.inputs()[i].names[0]) : captured[i - formal];
    if (i >= formal) continue;
    auto& input = *out.add_input();
    input.set_name(names[i][0]);
    write_type(graph.inputs()[i].types[0], *input.mutable_type());
  }
  ISOMER_TRY(const std::vector<std::string> aliases, name_outputs(graph, formal, frame, names));
  ISOMER_CHECK_OK(write_nodes(graph, names, frame, out));
  for (size_t i = 0; i < graph.outputs().size(); ++i) {
    const ir::Output& o = graph.outputs()[i];
    const std::string& alias = aliases[i];
    auto& output = *out.add_output();
    output.set_name(alias.empty() ? names[o.value.node][o.value.index] : alias);
    write_type(graph.type(o.value), *output.mutable_type());
    if (!alias.empty()) write_alias(names[o.value.node][o.value.index], alias, out);
  }
  --depth_;
  return {};
}

Expected<std::vector<std::string>> Exporter::name_outputs(const ir::Graph& graph, size_t formal, Frame& frame,
                                                          ValueNames& names) {
  std::vector<std::string> aliases;
  for (const ir::Output& o : graph.outputs()) {
    std::string& alias = aliases.emplace_back();
    std::string& name = names[o.value.node][o.value.index];
    const bool captured = o.value.node >= formal && o.value.node < graph.input_count();
    if (name == o.name && !name.empty() && !captured) continue;
    if (!frame.outer && frame.taken(o.name))
      return Diagnostic("E-onnx-export", fmt::format("output {} and another value have one name, which ONNX cannot "
                                                     "express; rename one of them",
                                                     quoted(o.name)));
    if (name.empty() && (!is_const(graph.node(o.value.node)) || graph.value_name(o.value) == o.name))
      name = frame.unique(o.name);
    else
      alias = frame.unique(o.name);
  }
  return aliases;
}

Expected<void> Exporter::write_nodes(const ir::Graph& graph, ValueNames& names, Frame& frame, GraphProto& out) {
  for (size_t i = graph.input_count(); i < graph.nodes().size(); ++i) {
    const ir::Node& n = graph.nodes()[i];
    for (size_t k = 0; k < n.types.size(); ++k)
      if (names[i][k].empty() && !n.names[k].empty()) names[i][k] = frame.unique(n.names[k]);
  }
  for (size_t i = graph.input_count(); i < graph.nodes().size(); ++i) {
    const ir::Node& n = graph.nodes()[i];
    if (const Tensor* value = n.attrs.get<Tensor>("value"); value && is_const(n)) {
      const bool apart = &out == main_ && value->byte_size() >= kWorthLeavingOut;
      if (apart) data_.emplace(out.initializer_size(), *value);
      auto& tensor = *out.add_initializer();
      tensor.set_name(names[i][0]);
      write_type(*value, tensor);
      if (!apart) write_data(*value, tensor);
      continue;
    }
    ISOMER_CHECK_OK(write_node(graph, n, names, names[i], frame, out));
    for (size_t k = 0; k < n.types.size(); ++k) {
      if (names[i][k].empty() || (n.types[k].dtype == DType::Opaque && !n.types[k].foreign)) continue;
      auto& info = *out.add_value_info();
      info.set_name(names[i][k]);
      write_type(n.types[k], *info.mutable_type());
    }
  }
  return {};
}

Expected<void> Exporter::write_node(const ir::Graph& graph, const ir::Node& n, const ValueNames& names,
                                    const std::vector<std::string>& results, Frame& frame, GraphProto& out) {
  std::vector<std::string> inputs;
  for (const ir::Value& v : n.inputs) inputs.push_back(v.is_none() ? "" : names[v.node][v.index]);
  const auto* foreign = n.op->open_attrs ? n.attrs.get<std::string>("op_type") : nullptr;
  if (!foreign && n.op->onnx.empty()) return write_expanded(graph, n, inputs, results, frame, out);
  const int64_t captures = captures_of(n);
  if (captures < 0 || static_cast<size_t>(captures) > inputs.size())
    return Diagnostic("E-onnx-export",
                      fmt::format("node {} captures {} of its {} inputs", quoted(n.label), captures, inputs.size()));
  const auto own = inputs.end() - static_cast<ptrdiff_t>(captures);
  const std::vector<std::string> captured(own, inputs.end());
  inputs.erase(own, inputs.end());
  while (!inputs.empty() && inputs.back().empty()) inputs.pop_back();
  NodeProto& node = *out.add_node();
  if (foreign) {
    const auto* domain = n.attrs.get<std::string>("op_domain");
    const auto* version = n.attrs.get<int64_t>("op_version");
    node.set_op_type(*foreign);
    node.set_domain(domain ? *domain : "");
    need(node.domain(), version ? *version : 1);
    keeps_opset_ |= node.domain().empty();
  } else {
    const ir::OnnxForm& form = n.op->onnx.front();
    node.set_op_type(form.type);
    if (!form.domain.empty()) node.set_domain(form.domain);
    need(form.domain, std::max(form.stable, newest_part(n)));
  }
  if (!n.label.empty()) node.set_name(frame.unique_label(n.label));
  for (const std::string& name : inputs) node.add_input(name);
  for (const std::string& name : results) node.add_output(name);
  for (const auto& [name, value] : n.attrs) {
    if (foreign ? is_reserved(name) : name == "captures") continue;
    ISOMER_CHECK_OK(write_attribute(name, value, captured, frame, node));
  }
  return {};
}

Expected<void> Exporter::write_attribute(const std::string& name, const ir::AttrValue& value,
                                         const std::vector<std::string>& captured, Frame& frame, NodeProto& out) {
  AttributeProto& a = *out.add_attribute();
  if (const auto* x = std::get_if<ir::Foreign>(&value)) {
    if (!a.ParseFromString(x->bytes))
      return Diagnostic("E-onnx-export", fmt::format("attribute {} is no ONNX attribute", quoted(name)));
    a.set_name(name);
    return {};
  }
  a.set_name(name);
  if (const auto* i = std::get_if<int64_t>(&value)) {
    a.set_type(AttributeProto::INT);
    a.set_i(*i);
  } else if (const auto* f = std::get_if<double>(&value)) {
    a.set_type(AttributeProto::FLOAT);
    a.set_f(static_cast<float>(*f));
  } else if (const auto* s = std::get_if<std::string>(&value)) {
    a.set_type(AttributeProto::STRING);
    a.set_s(*s);
  } else if (const auto* is = std::get_if<std::vector<int64_t>>(&value)) {
    a.set_type(AttributeProto::INTS);
    a.mutable_ints()->Add(is->begin(), is->end());
  } else if (std::holds_alternative<ir::Sizes>(value)) {
    return Diagnostic("E-onnx-export", fmt::format("attribute {} holds symbols, expected numbers", quoted(name)));
  } else if (const auto* fs = std::get_if<std::vector<double>>(&value)) {
    a.set_type(AttributeProto::FLOATS);
    for (double x : *fs) a.add_floats(static_cast<float>(x));
  } else if (const auto* ss = std::get_if<std::vector<std::string>>(&value)) {
    a.set_type(AttributeProto::STRINGS);
    for (const std::string& x : *ss) a.add_strings(x);
  } else if (const auto* t = std::get_if<Tensor>(&value)) {
    a.set_type(AttributeProto::TENSOR);
    write_tensor(*t, *a.mutable_t());
  } else if (const auto* d = std::get_if<DType>(&value)) {
    a.set_type(AttributeProto::INT);
    a.set_i(onnx_type_of(*d));
  } else if (const auto* g = std::get_if<ir::GraphRef>(&value)) {
    a.set_type(AttributeProto::GRAPH);
    Frame inner{.outer = &frame};
    return write_graph(**g, captured, inner, *a.mutable_g());
  }
  return {};
}

// An operator that ONNX does not have is written as what it is made of.
Expected<void> Exporter::write_expanded(const ir::Graph& graph, const ir::Node& n,
                                        const std::vector<std::string>& inputs, const std::vector<std::string>& results,
                                        Frame& frame, GraphProto& out) {
  const auto refuse = [&](std::string why) {
    return Diagnostic("E-onnx-export", fmt::format("operator {} cannot be written as ONNX: {}", n.op->name, why));
  };
  if (!n.op->expand && n.op->expand_text.empty()) return refuse("ONNX has no such operator");
  if (++depth_ > 64) return refuse("it is nested more than 64 deep");
  std::vector<ir::OpContext::Input> in;
  for (const ir::Value& v : n.inputs) {
    ir::OpContext::Input i;
    if (!v.is_none()) {
      const ir::Node& from = graph.node(v.node);
      i = {true, graph.type(v), is_const(from) ? from.attrs.get<Tensor>("value") : nullptr, nullptr};
    }
    in.push_back(std::move(i));
  }
  ISOMER_TRY(const ir::Graph body,
             ir::expand(ir::OpContext(*n.op, std::move(in), n.attrs, n.types.size(), ops::table())));
  ValueNames names(body.nodes().size());
  for (size_t i = 0; i < names.size(); ++i) names[i].resize(body.nodes()[i].types.size());
  size_t next = 0;
  for (const std::string& name : inputs)
    if (!name.empty() && next < body.input_count()) names[next++][0] = name;
  std::vector<std::pair<ir::Value, std::string>> copies;
  for (size_t k = 0; k < body.outputs().size() && k < results.size(); ++k) {
    const ir::Value v = body.outputs()[k].value;
    if (names[v.node][v.index].empty() && !is_const(body.node(v.node)))
      names[v.node][v.index] = results[k];
    else
      copies.emplace_back(v, results[k]);
  }
  ISOMER_CHECK_OK(write_nodes(body, names, frame, out));
  for (const auto& [v, name] : copies) write_alias(names[v.node][v.index], name, out);
  --depth_;
  return {};
}

}  // namespace isomer::onnx
