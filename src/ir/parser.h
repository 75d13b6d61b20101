// Parser: reads graphs, statements, types and constants of the graph text into a GraphBuilder. text.h and sample.h are
// its users. Recursion is bounded: graphs nest kMaxGraphDepth deep, calls inside calls kMaxCallDepth deep.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "ir/graph.h"
#include "ir/scanner.h"
#include "ir/text.h"

namespace isomer::ir {

inline constexpr int kMaxGraphDepth = 64;
inline constexpr int kMaxCallDepth = 128;

class Parser {
 public:
  Parser(std::string_view text, const OpTable& table, const ConstantPool* pool, std::string file)
      : scan_(text, std::move(file)), table_(table), pool_(pool), splat_budget_(kSplatBytes + 1024 * text.size()) {}

  Scanner& scan() { return scan_; }
  // `$name` becomes an attribute of this node.
  void set_context(const OpContext* context) { context_ = context; }

  Expected<Graph> graph();
  Expected<Type> type();
  // The data after "const TYPE": [..], splat(v), ref(key), or a single number for a scalar.
  Expected<Tensor> data(const Type& type);
  // {name=value, ...}; `op` gives the kinds that the bare text leaves open. Nothing when there is no '{'.
  Expected<Attrs> attributes(const OpDef* op);

  // The names a graph's statements may use.
  using Scope = std::unordered_map<std::string, Value>;
  // Statements up to and with `return`; what it returns, with names where the text gives them.
  Expected<std::vector<Output>> statements(GraphBuilder& builder, Scope& scope);

 private:
  static constexpr size_t kSplatBytes = size_t{64} << 20;

  // An operand: a value, or a literal that becomes a constant once the call's element types are known.
  struct Operand {
    Value value;
    std::optional<AttrValue> literal;
    size_t position = 0;
  };
  struct Call {
    const OpDef* op = nullptr;
    std::vector<Operand> operands;
    Attrs attrs;
    size_t position = 0;
  };

  struct Suffix {
    std::vector<std::pair<Type, size_t>> types;  // with their places
    NodeInfo info;
  };

  Expected<Shape> shape();
  Expected<Dim> dim();
  Expected<void> element(Tensor& tensor, int64_t i);
  Expected<Tensor> list_data(const Type& type, const std::vector<int64_t>& dims, int64_t elements);
  Expected<AttrValue> attribute(const AttrDef* def);
  Expected<AttrValue> attribute_list(const AttrDef* def);
  Expected<AttrValue> number();
  // Nothing when the node has no such attribute and the record no standard value.
  Expected<std::optional<AttrValue>> context_attribute();
  Expected<Metadata> metadata();
  Expected<void> graph_inputs(GraphBuilder& builder, Scope& scope);

  Expected<void> statement(GraphBuilder& builder, Scope& scope);
  Expected<Output> returned(GraphBuilder& builder, Scope& scope);
  Expected<Operand> operand(GraphBuilder& builder, Scope& scope);
  Expected<Operand> plain_operand(GraphBuilder& builder, Scope& scope);
  Expected<Value> value(const GraphBuilder& builder, const Scope& scope);
  Expected<Value> reference(const GraphBuilder& builder);
  Expected<Call> call(GraphBuilder& builder, Scope& scope);
  Expected<std::vector<Value>> build(Call call, GraphBuilder& builder, Scope& scope, NodeInfo info, size_t outputs);
  Expected<std::vector<Value>> operands_of(Call& call, GraphBuilder& builder, Scope& scope);
  Expected<Tensor> literal_tensor(const AttrValue& literal, DType dtype, size_t position);
  Expected<std::vector<std::string>> result_names(const Scope& scope);
  Expected<Suffix> suffix(size_t results);
  Expected<NodeInfo> annotations();
  Value unnamed_constant(GraphBuilder& builder, Scope& scope, Tensor tensor);

  Scanner scan_;
  const OpTable& table_;
  const ConstantPool* pool_;
  const OpContext* context_ = nullptr;
  size_t splat_budget_;
  int graph_depth_ = 0;
  int call_depth_ = 0;
};

}  // namespace isomer::ir
