// OpDef: everything Isomer knows about one operator, as one constant record. Readers (interpreter, prover, cost model,
// code generator, importer, documentation) take what they need from it; nobody else knows operators by name.
// Invariant: exactly one of compute, expand, kernel says what the operator means (ir's own input and const: none).
#pragma once

#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/expected.h"
#include "ir/attrs.h"
#include "te/program.h"
#include "tensor/tensor.h"
#include "tensor/type.h"

namespace isomer::ir {

struct OpDef;
class OpContext;
class OpTable;
class GraphBuilder;
struct ForeignNode;
struct Value;

enum class Arity : uint8_t { Required, Optional, Variadic };  // Variadic: last only, any number (a minimum may be set)

// An input: its element type is bound to the variable `var`, which must be among `types`; inputs and outputs of one
// variable have one type.
struct InputDef {
  std::string name;
  std::string var;
  DTypeSet types;
  Arity arity = Arity::Required;
  int at_least = 0;  // Variadic: fewest accepted
  int since = 0;     // the opset of ONNX that brought it, where the form is older
};

// An output's element type: a variable ("T"), a type ("i64"), an attribute ("$to": a type, or a tensor of that type), or
// an attribute with a variable that holds when it is absent ("$dtype|T").
struct OutputDef {
  std::string name;
  std::string type;
  Arity arity = Arity::Required;
};

struct AttrDef {
  std::string name;
  AttrKind kind;
  std::optional<AttrValue> standard = std::nullopt;  // the value when absent
  bool required = false;  // absent without a standard value: "not given" is a state of its own
  bool symbolic = false;  // read with size_attr or sizes_attr, so it may be Sizes
  int since = 0;          // the opset of ONNX that brought it, where the form is older
};

// How ONNX files write the operator. `since` lists the opsets at which its form or meaning changed, first to last.
// The record's own inputs and attributes are those of the newest form; `stable` is the first opset that has it, but for
// inputs and attributes with a `since` of their own.
struct OnnxForm {
  std::string type;
  std::vector<int> since = {1};
  int stable = 1;
  std::string domain = "";
  // Turns an older form into Isomer's; absent: inputs and attributes are taken as they are.
  std::function<Expected<std::vector<Value>>(ForeignNode&, GraphBuilder&)> import = nullptr;
  bool always = false;  // `import` is asked about the newest form too
};

using InferFn = std::function<Expected<std::vector<Type>>(const OpContext&)>;
using ComputeFn = std::function<Expected<te::Program>(const OpContext&)>;
using ExpandFn = std::function<Expected<std::vector<Value>>(const OpContext&, GraphBuilder&, std::span<const Value>)>;
using KernelFn = std::function<Expected<std::vector<Tensor>>(const OpContext&)>;

struct OpDef {
  std::string name;
  std::string doc;  // one sentence
  std::vector<InputDef> inputs;
  std::vector<OutputDef> outputs;
  std::vector<AttrDef> attrs = {};

  // Types of the outputs. When absent they are read off `compute`. Called only when every required input has a rank,
  // unless `infer_unranked`. A dim that cannot be known is Dim::invalid(), which the builder names.
  InferFn infer = nullptr;
  bool infer_unranked = false;

  ComputeFn compute = nullptr;  // the meaning as a tensor expression
  ExpandFn expand = nullptr;    // or as a graph of other operators
  std::string expand_text =
      {};  // or the same as text (parse_body): statements over the input names, $attr is an attribute
  KernelFn kernel = nullptr;  // or opaque: data-dependent operators, which provers answer Unsupported for

  std::vector<std::string> laws = {};     // equations over this operator, proved or at least unrefuted by the tests
  std::vector<std::string> samples = {};  // calls that feed every property test: "add(f32[2,3], f32[3])"
  std::vector<OnnxForm> onnx = {};        // the first is used for export
  bool pure = true;                       // false: two equal nodes are two draws (random without seed)
  bool open_attrs = false;                // accepts attributes it does not declare (foreign operators)

  const AttrDef* attr(std::string_view attr_name) const;
  // The definition that input i of a node falls under: the last one repeats when it is variadic.
  const InputDef* input(size_t i) const;
};

// A node as an operator sees it: attributes, the types of its inputs, and those input values that are known already
// (all of them when a node is run; constants and shape arithmetic when a graph is built).
class OpContext {
 public:
  struct Input {
    bool present = false;
    Type type;
    const Tensor* value = nullptr;               // known contents
    const std::vector<Dim>* symbolic = nullptr;  // known contents of a small integer tensor, as sizes
  };

  OpContext(const OpDef& op, std::vector<Input> inputs, const Attrs& attrs, size_t outputs, const OpTable& table)
      : op_(&op), inputs_(std::move(inputs)), attrs_(&attrs), outputs_(outputs), table_(&table) {}

  // Runs a body (a Graph attribute) on values; set by whoever runs nodes, for kernels of control flow.
  using Runner = std::function<Expected<std::vector<Tensor>>(const Graph&, std::vector<Tensor>)>;
  void set_runner(Runner runner) { runner_ = std::move(runner); }
  Expected<std::vector<Tensor>> run(const Graph& body, std::vector<Tensor> inputs) const;
  // Most iterations a loop may make before it counts as one without end; set beside the runner.
  int64_t loop_limit() const { return loop_limit_; }
  void set_loop_limit(int64_t limit) { loop_limit_ = limit; }

  const OpDef& op() const { return *op_; }
  const Attrs& attrs() const { return *attrs_; }
  const OpTable& table() const { return *table_; }
  size_t input_count() const { return inputs_.size(); }  // as written; trailing absent inputs may be left out
  size_t output_count() const { return outputs_; }

  bool has(size_t i) const { return i < inputs_.size() && inputs_[i].present; }
  const Type& type(size_t i) const { return inputs_[i].type; }
  DType dtype(size_t i) const { return inputs_[i].type.dtype; }
  const Shape& shape(size_t i) const { return inputs_[i].type.shape; }
  size_t rank(size_t i) const { return inputs_[i].type.shape.rank(); }
  const Dim& dim(size_t i, size_t axis) const { return inputs_[i].type.shape[axis]; }

  // Contents of input i when known, else null.
  const Tensor* value(size_t i) const { return has(i) ? inputs_[i].value : nullptr; }
  // Contents of a small integer input as sizes (numbers or symbols) when known.
  std::optional<std::vector<Dim>> sizes(size_t i) const;
  // Contents as integers when known as numbers.
  std::optional<std::vector<int64_t>> ints_value(size_t i) const;

  // Attributes; the record's standard value when absent. Asking for the wrong kind is our bug.
  bool has_attr(std::string_view name) const;
  int64_t integer(std::string_view name) const;
  bool flag(std::string_view name) const { return integer(name) != 0; }
  double real(std::string_view name) const;
  const std::string& text(std::string_view name) const;
  std::vector<int64_t> ints(std::string_view name) const;  // empty when absent
  // An integer or integers as sizes, for attributes that are declared `symbolic`.
  Dim size_attr(std::string_view name) const;
  std::vector<Dim> sizes_attr(std::string_view name) const;  // empty when absent
  std::vector<double> reals(std::string_view name) const;
  std::vector<std::string> strings(std::string_view name) const;
  DType dtype_attr(std::string_view name) const;
  const Tensor* tensor(std::string_view name) const;
  GraphRef graph(std::string_view name) const;

  // An axis attribute value brought into [0, rank); a diagnostic when it is out of range.
  Expected<size_t> axis(int64_t axis, size_t rank) const;
  // Output i's type by the record's OutputDef, with this shape.
  Type out(size_t i, Shape shape) const;
  // "op: message", as a diagnostic with code E-op.
  Diagnostic error(std::string message) const;

  // Declares all present inputs on a te builder, in order; absent ones get an unusable handle at their place.
  std::vector<te::Handle> declare(te::Builder& builder) const;

 private:
  const OpDef* op_;
  std::vector<Input> inputs_;
  const Attrs* attrs_;
  size_t outputs_;
  const OpTable* table_;
  Runner runner_;
  int64_t loop_limit_ = int64_t{1} << 22;
};

// The operators by name, and by ONNX domain and type. Built once from the records, in sorted order.
class OpTable {
 public:
  explicit OpTable(std::vector<OpDef> records);
  const OpDef* find(std::string_view name) const;
  struct OnnxEntry {
    const OpDef* op;
    const OnnxForm* form;
  };
  std::optional<OnnxEntry> find_onnx(std::string_view domain, std::string_view type) const;
  const std::vector<OpDef>& records() const { return records_; }

 private:
  std::vector<OpDef> records_;
  std::map<std::string, const OpDef*, std::less<>> by_name_;
  std::map<std::pair<std::string, std::string>, OnnxEntry> by_onnx_;
};

// Checks counts, attribute names and kinds, and element types against the record; fills nothing in.
Expected<void> check_signature(const OpContext& context);
// Output types: check_signature, then `infer`, or the shape of `compute`, or the types of the expansion.
Expected<std::vector<Type>> infer_types(const OpContext& context);
// A composite operator at these types, as a graph whose inputs are the operator's present inputs in order.
Expected<Graph> expand(const OpContext& context);

}  // namespace isomer::ir
