// Graphs and statements of the graph text.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ir/parser.h"

namespace isomer::ir {
namespace {

// Sets a builder's mode for a while.
class Verbatim {
 public:
  Verbatim(GraphBuilder& builder, bool on) : builder_(builder), before_(builder.verbatim()) {
    builder.set_verbatim(on);
  }
  ~Verbatim() { builder_.set_verbatim(before_); }
  Verbatim(const Verbatim&) = delete;
  Verbatim& operator=(const Verbatim&) = delete;

 private:
  GraphBuilder& builder_;
  bool before_;
};

}  // namespace

Expected<Value> Parser::reference(const GraphBuilder& builder) {
  const size_t start = scan_.position();
  ISOMER_CHECK_OK(scan_.expect('#'));
  const std::string_view text = scan_.word();
  const size_t dot = text.find('.');
  Scanner node(text.substr(0, dot), {}), index(dot == std::string_view::npos ? "" : text.substr(dot + 1), {});
  const auto n = node.integer(), k = index.integer();
  const auto& nodes = builder.graph().nodes();
  if (!n.ok() || !k.ok() || *n < 0 || static_cast<uint64_t>(*n) >= nodes.size() || *k < 0 ||
      static_cast<uint64_t>(*k) >= nodes[static_cast<size_t>(*n)].types.size())
    return scan_.error(fmt::format("expected '#node.result' of an earlier node, found {}", quoted(text)), start);
  return Value{static_cast<uint32_t>(*n), static_cast<uint32_t>(*k)};
}

Expected<Value> Parser::value(const GraphBuilder& builder, const Scope& scope) {
  if (scan_.peek('#')) return reference(builder);
  const size_t start = scan_.position();
  ISOMER_CHECK_OK(scan_.expect('%'));
  ISOMER_TRY(const std::string name, scan_.name("a value's name after '%'"));
  const auto it = scope.find(name);
  if (it == scope.end())
    return scan_.error(fmt::format("there is no value %{} before this line", printable(name)), start);
  return it->second;
}

Value Parser::unnamed_constant(GraphBuilder& builder, Scope& scope, Tensor tensor) {
  const Verbatim off(builder, false);
  const Value v = builder.constant(std::move(tensor));
  scope.emplace(builder.graph().value_name(v), v);
  return v;
}

Expected<Parser::Operand> Parser::plain_operand(GraphBuilder& builder, Scope& scope) {
  Operand o;
  o.position = scan_.position();
  if (scan_.peek('%') || scan_.peek('#')) {
    ISOMER_TRY(o.value, value(builder, scope));
    return o;
  }
  if (scan_.eat_word("_")) return o;
  if (scan_.peek('$')) {
    ISOMER_TRY(o.literal, context_attribute());
    return o;
  }
  if (scan_.peek('[')) {
    ISOMER_TRY(o.literal, attribute_list(nullptr));
    return o;
  }
  if (scan_.peek_number()) {
    ISOMER_TRY(o.literal, number());
    return o;
  }
  if (scan_.eat_word("const")) {
    ISOMER_TRY(const Type t, type());
    ISOMER_TRY(Tensor tensor, data(t));
    o.literal = std::move(tensor);
    return o;
  }
  if (call_depth_ >= kMaxCallDepth)
    return scan_.error(fmt::format("calls are nested more than {} deep; give inner ones a name", kMaxCallDepth),
                       o.position);
  ++call_depth_;
  auto inner = call(builder, scope);
  --call_depth_;
  if (!inner.ok()) return std::move(inner).error();
  const Verbatim off(builder, false);
  ISOMER_TRY(const std::vector<Value> results, build(*std::move(inner), builder, scope, {}, 0));
  if (results.size() != 1)
    return scan_.error(fmt::format("expected one result, the call gives {}; name them", results.size()), o.position);
  o.value = results.front();
  scope.emplace(builder.graph().value_name(o.value), o.value);
  return o;
}

Expected<Parser::Operand> Parser::operand(GraphBuilder& builder, Scope& scope) {
  ISOMER_TRY(Operand o, plain_operand(builder, scope));
  // "%b else 0": what stands in for an optional input that is absent.
  while (scan_.eat_word("else")) {
    ISOMER_TRY(Operand other, plain_operand(builder, scope));
    if (o.value.is_none() && !o.literal) o = std::move(other);
  }
  return o;
}

Expected<Parser::Call> Parser::call(GraphBuilder& builder, Scope& scope) {
  Call c;
  c.position = scan_.position();
  ISOMER_TRY(const std::string name, scan_.name("an operator's name"));
  c.op = table_.find(name);
  if (!c.op)
    return scan_.place(
        Diagnostic("E-unknown-operator", fmt::format("there is no operator {}; `isomer ops` lists them", quoted(name))),
        c.position);
  ISOMER_CHECK_OK(scan_.expect('('));
  if (!scan_.eat(')')) {
    do {
      ISOMER_TRY(Operand o, operand(builder, scope));
      c.operands.push_back(std::move(o));
    } while (scan_.eat(','));
    ISOMER_CHECK_OK(scan_.expect(')'));
  }
  ISOMER_TRY(c.attrs, attributes(c.op));
  return c;
}

Expected<Tensor> Parser::literal_tensor(const AttrValue& literal, DType dtype, size_t position) {
  const auto fits = [&](double v) { return is_float(dtype) || std::trunc(v) == v; };
  switch (kind_of(literal)) {
    case AttrKind::Int: return Tensor::int_scalar(dtype, std::get<int64_t>(literal));
    case AttrKind::Real:
      if (!fits(std::get<double>(literal))) break;
      return Tensor::scalar(dtype, std::get<double>(literal));
    case AttrKind::Ints: return Tensor::ints(std::get<std::vector<int64_t>>(literal));
    case AttrKind::Reals: {
      const auto& v = std::get<std::vector<double>>(literal);
      return Tensor::of(is_float(dtype) ? dtype : DType::F32, {static_cast<int64_t>(v.size())}, v);
    }
    case AttrKind::Tensor: return std::get<Tensor>(literal);
    default: break;
  }
  return scan_.error(fmt::format("this {} cannot be an operand of type {}", name(kind_of(literal)), name(dtype)),
                     position);
}

// Literals become constants. A number takes the element type of the operand that shares its type variable, else of the
// first tensor operand, else i64 or f32 by its own look.
Expected<std::vector<Value>> Parser::operands_of(Call& call, GraphBuilder& builder, Scope& scope) {
  const auto type_of_literal = [&](size_t i) {
    const InputDef* def = call.op->input(i);
    std::optional<DType> first, same;
    for (size_t k = 0; k < call.operands.size(); ++k) {
      const Value v = call.operands[k].value;
      if (v.is_none()) continue;
      const InputDef* other = call.op->input(k);
      if (!first) first = builder.type(v).dtype;
      if (!same && def && other && def->var == other->var) same = builder.type(v).dtype;
    }
    if (same) return *same;
    const bool integer = kind_of(*call.operands[i].literal) == AttrKind::Int;
    if (first && (!def || def->types.contains(*first))) return *first;
    if (integer && (!def || def->types.contains(DType::I64))) return DType::I64;
    return first && !def ? *first : DType::F32;
  };
  std::vector<Value> inputs;
  for (size_t i = 0; i < call.operands.size(); ++i) {
    const Operand& o = call.operands[i];
    if (!o.literal) {
      inputs.push_back(o.value);
      continue;
    }
    ISOMER_TRY(Tensor t, literal_tensor(*o.literal, type_of_literal(i), o.position));
    inputs.push_back(unnamed_constant(builder, scope, std::move(t)));
  }
  return inputs;
}

Expected<std::vector<Value>> Parser::build(Call call, GraphBuilder& builder, Scope& scope, NodeInfo info,
                                           size_t outputs) {
  ISOMER_TRY(std::vector<Value> inputs, operands_of(call, builder, scope));
  auto results = builder.add(*call.op, std::move(inputs), std::move(call.attrs), std::move(info), outputs);
  if (!results.ok()) return scan_.place(std::move(results).error(), call.position);
  return results;
}

Expected<NodeInfo> Parser::annotations() {
  NodeInfo info;
  if (scan_.eat('@')) {
    ISOMER_TRY(info.label, scan_.string());
  }
  if (scan_.eat_word("from")) {
    ISOMER_CHECK_OK(scan_.expect('('));
    do {
      ISOMER_TRY(std::string s, scan_.string());
      info.origin.push_back(std::move(s));
    } while (scan_.eat(','));
    ISOMER_CHECK_OK(scan_.expect(')'));
  }
  return info;
}

Expected<std::vector<std::string>> Parser::result_names(const Scope& scope) {
  std::vector<std::string> names;
  if (scan_.peek('=')) return names;
  do {
    if (scan_.eat_word("_")) {
      names.emplace_back();
      continue;
    }
    const size_t start = scan_.position();
    if (!scan_.eat('%')) return scan_.expected("a statement ('%name = ...') or 'return'");
    ISOMER_TRY(std::string name, scan_.name("a value's name after '%'"));
    const bool twice = std::find(names.begin(), names.end(), name) != names.end();
    if (name.empty()) return scan_.error("a result's name is empty; write '_' for a result without a name", start);
    if (scope.contains(name) || twice)
      return scan_.place(Diagnostic("E-duplicate-name", fmt::format("value %{} is defined twice", printable(name))),
                         start);
    names.push_back(std::move(name));
  } while (scan_.eat(','));
  return names;
}

// What follows a call or a constant: ": types @label from(origin)", all of it optional.
Expected<Parser::Suffix> Parser::suffix(size_t results) {
  Suffix s;
  if (scan_.eat(':')) {
    for (size_t k = 0; k < results; ++k) {
      if (k != 0) ISOMER_CHECK_OK(scan_.expect(','));
      const size_t start = scan_.position();
      ISOMER_TRY(Type t, type());
      s.types.emplace_back(std::move(t), start);
    }
  }
  ISOMER_TRY(s.info, annotations());
  return s;
}

Expected<void> Parser::statement(GraphBuilder& builder, Scope& scope) {
  ISOMER_TRY(std::vector<std::string> names, result_names(scope));
  ISOMER_CHECK_OK(scan_.expect('='));
  const size_t start = scan_.position();
  std::vector<Value> values;
  Suffix tail;
  const std::string_view word = scan_.peek_word();
  const bool is_call = scan_.peek('"') || (!word.empty() && word != "_" && word != "const" && !scan_.peek_number());
  if (is_call) {
    ISOMER_TRY(Call c, call(builder, scope));
    ISOMER_TRY(tail, suffix(names.size()));
    tail.info.names = names;
    ISOMER_TRY(values, build(std::move(c), builder, scope, std::move(tail.info), names.size()));
  } else {
    ISOMER_TRY(const Operand o, operand(builder, scope));
    ISOMER_TRY(tail, suffix(1));
    if (names.size() != 1) return scan_.error("expected one name for one value", start);
    Value v = o.value;
    if (o.literal) {
      const DType dtype = kind_of(*o.literal) == AttrKind::Int ? DType::I64 : DType::F32;
      ISOMER_TRY(Tensor t, literal_tensor(*o.literal, dtype, start));
      v = builder.constant(std::move(t), names[0]);
    } else if (v.is_none() && !context_) {
      return scan_.error("'_' is no value that a name can stand for", start);
    }
    values = {v};
  }
  for (size_t k = 0; k < tail.types.size() && k < values.size(); ++k)
    if (auto r = builder.restate_type(values[k], tail.types[k].first); !r.ok())
      return scan_.place(std::move(r).error(), tail.types[k].second);
  for (size_t k = 0; k < names.size(); ++k)
    if (!names[k].empty()) scope.emplace(std::move(names[k]), values[k]);
  return {};
}

Expected<Output> Parser::returned(GraphBuilder& builder, Scope& scope) {
  Output out;
  bool named = false;
  if (scan_.peek('"')) {
    ISOMER_TRY(out.name, scan_.string());
    ISOMER_CHECK_OK(scan_.expect('='));
    named = true;
  }
  ISOMER_TRY(const Operand o, operand(builder, scope));
  out.value = o.value;
  if (o.literal) {
    const DType dtype = kind_of(*o.literal) == AttrKind::Int ? DType::I64 : DType::F32;
    ISOMER_TRY(Tensor t, literal_tensor(*o.literal, dtype, o.position));
    out.value = unnamed_constant(builder, scope, std::move(t));
  }
  if (out.value.is_none() && !context_) return scan_.error("expected a value to return, found '_'", o.position);
  if (!named && !out.value.is_none()) out.name = builder.graph().value_name(out.value);
  return out;
}

Expected<std::vector<Output>> Parser::statements(GraphBuilder& builder, Scope& scope) {
  while (scan_.peek_word() != "return") ISOMER_CHECK_OK(statement(builder, scope));
  scan_.word();
  std::vector<Output> outputs;
  if (scan_.peek('}') || scan_.at_end()) return outputs;
  do {
    ISOMER_TRY(Output o, returned(builder, scope));
    outputs.push_back(std::move(o));
  } while (scan_.eat(','));
  return outputs;
}

Expected<void> Parser::graph_inputs(GraphBuilder& builder, Scope& scope) {
  ISOMER_CHECK_OK(scan_.expect('('));
  if (scan_.eat(')')) return {};
  do {
    const size_t start = scan_.position();
    ISOMER_CHECK_OK(scan_.expect('%'));
    ISOMER_TRY(std::string name, scan_.name("an input's name after '%'"));
    ISOMER_CHECK_OK(scan_.expect(':'));
    ISOMER_TRY(Type t, type());
    auto v = builder.input(name, std::move(t));
    if (!v.ok()) return scan_.place(std::move(v).error(), start);
    scope.emplace(std::move(name), *v);
  } while (scan_.eat(','));
  return scan_.expect(')');
}

Expected<Graph> Parser::graph() {
  const size_t start = scan_.position();
  if (!scan_.eat_word("graph")) return scan_.expected("'graph'");
  if (graph_depth_ >= kMaxGraphDepth)
    return scan_.place(Diagnostic("E-nesting", fmt::format("graphs are nested more than {} deep", kMaxGraphDepth)),
                       start);
  ISOMER_CHECK_OK(scan_.expect('@'));
  ISOMER_TRY(std::string name, scan_.name("a graph's name after '@'"));
  GraphBuilder builder(table_, std::move(name));
  builder.set_verbatim(true);
  Scope scope;
  ISOMER_CHECK_OK(graph_inputs(builder, scope));
  if (scan_.eat_word("meta")) {
    ISOMER_TRY(Metadata m, metadata());
    builder.set_metadata(std::move(m));
  }
  ISOMER_CHECK_OK(scan_.expect('{'));
  ++graph_depth_;
  auto outputs = statements(builder, scope);
  --graph_depth_;
  if (!outputs.ok()) return std::move(outputs).error();
  ISOMER_CHECK_OK(scan_.expect('}'));
  for (Output& o : *outputs) builder.output(std::move(o.name), o.value);
  auto g = std::move(builder).finish();
  if (!g.ok()) return scan_.place(std::move(g).error(), start);
  return g;
}

Expected<Graph> parse(std::string_view text, const OpTable& table, const ConstantPool* pool, const std::string& file) {
  Parser parser(text, table, pool, file);
  ISOMER_TRY(Graph g, parser.graph());
  if (!parser.scan().at_end()) return parser.scan().expected("the end of the text after the graph");
  return g;
}

Expected<std::vector<Value>> parse_body(std::string_view text, GraphBuilder& builder,
                                        const std::vector<std::pair<std::string, Value>>& bindings,
                                        const OpContext& context) {
  Parser parser(text, context.table(), nullptr, "expansion of " + context.op().name);
  parser.set_context(&context);
  Parser::Scope scope(bindings.begin(), bindings.end());
  const Verbatim off(builder, false);
  ISOMER_TRY(const std::vector<Output> outputs, parser.statements(builder, scope));
  if (!parser.scan().at_end()) return parser.scan().expected("the end after 'return'");
  std::vector<Value> values;
  for (const Output& o : outputs) values.push_back(o.value);
  return values;
}

}  // namespace isomer::ir
