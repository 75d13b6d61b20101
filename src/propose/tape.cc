#include "propose/tape.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <unordered_map>

#include "te/eval.h"
#include "te/field_domain.h"

namespace isomer::propose {
namespace {

using te::FieldElement;
using Code = Instruction::Code;
constexpr uint64_t kPrime = FieldElement::kPrime;
constexpr uint32_t kConstant = 0x80000000U, kResult = 0x40000000U;  // marks of registers while recording
// More than any operator on shapes worth enumerating; a record that unrolls to more is refused, not waited for.
constexpr size_t kMaxInstructions = 200000;

__extension__ using Wide = unsigned __int128;

uint64_t add(uint64_t a, uint64_t b) {
  const uint64_t s = a + b;
  return s >= kPrime ? s - kPrime : s;
}
uint64_t multiply(uint64_t a, uint64_t b) {
  const Wide w = static_cast<Wide>(a) * b;
  return add(static_cast<uint64_t>(w) & kPrime, static_cast<uint64_t>(w >> 61));
}
uint64_t inverse(uint64_t a) {
  // A division by zero has no value; a symbol of its own keeps it apart from everything else.
  if (a == 0) return te::scrambled(400, FieldElement(0)).value();
  // Enumeration divides by the same few thousand numbers again and again, and a memory of them costs a hundredth of the
  // seventy products.
  struct Known {
    uint64_t of = 0, is = 0;
  };
  thread_local std::array<Known, 4096> known = {};
  Known& k = known[(a * 0x9E3779B97F4A7C15ULL) >> 52];
  if (k.of != a) k = {a, FieldElement(a).inverse().value()};
  return k.is;
}
// 1, 2, ... and 1/1, 1/2, ... as they stand in the constants of operators: the numbers whose sign is known.
constexpr uint64_t kSmall = 64;
bool is_small_positive(uint64_t v) {
  static const std::vector<uint64_t> inverses = [] {
    std::vector<uint64_t> all;
    for (uint64_t k = 1; k <= kSmall; ++k) all.push_back(FieldElement(k).inverse().value());
    std::sort(all.begin(), all.end());
    return all;
  }();
  return (v > 0 && v <= kSmall) || std::binary_search(inverses.begin(), inverses.end(), v);
}

// Max and Min choose by a pseudo-random order, as FieldDomain's do, but with 0 in its middle: a relu that keeps nearly
// all numbers, or none, would make too many graphs look alike.
uint64_t rank(uint64_t v) {
  constexpr uint64_t kMiddle = uint64_t{1} << 63;
  if (v == 0) return kMiddle;
  if (v == te::FieldDomain::lowest().value()) return 0;
  if (v == te::FieldDomain::highest().value()) return ~uint64_t{0};
  if (v <= kSmall) return kMiddle + (v << 40);
  if (is_small_positive(v)) return kMiddle + (uint64_t{1} << 40) / FieldElement(v).inverse().value();
  if (is_small_positive(kPrime - v)) return kMiddle - 1;
  v = (v ^ (v >> 30)) * 0xBF58476D1CE4E5B9ULL;
  v = (v ^ (v >> 27)) * 0x94D049BB133111EBULL;
  return v ^ (v >> 31);
}
uint64_t choose(Code code, uint64_t a, uint64_t b) { return (rank(a) < rank(b)) == (code == Code::Max) ? b : a; }
uint64_t function(uint64_t key, uint64_t a, uint64_t b) {
  return te::scrambled(key, FieldElement(a), FieldElement(b)).value();
}

uint64_t apply(const Instruction& i, uint64_t a, uint64_t b) {
  switch (i.code) {
    case Code::Add: return add(a, b);
    case Code::Sub: return add(a, b == 0 ? 0 : kPrime - b);
    case Code::Mul: return multiply(a, b);
    case Code::Neg: return a == 0 ? 0 : kPrime - a;
    case Code::Inverse: return inverse(a);
    case Code::Max:
    case Code::Min: return choose(i.code, a, b);
    case Code::Function: return function(i.function, a, b);
  }
  return 0;
}

uint64_t apply_term(const Instruction& i, uint64_t a, uint64_t b) {
  const bool commutes = i.code == Code::Add || i.code == Code::Mul || i.code == Code::Max || i.code == Code::Min;
  if (commutes && b < a) std::swap(a, b);
  return function(1000 + static_cast<uint64_t>(i.code) * 1000 + i.function, a, b);
}

// What has been recorded so far; equal operations share a register.
class Recorder {
 public:
  uint32_t input() { return inputs_++; }
  uint32_t constant(uint64_t v) {
    const auto [it, fresh] = known_.try_emplace(v, kConstant | static_cast<uint32_t>(tape_.constants.size()));
    if (fresh) tape_.constants.push_back(v);
    return it->second;
  }
  std::optional<uint64_t> value(uint32_t r) const {
    return r & kConstant ? std::optional(tape_.constants[r & ~kConstant]) : std::nullopt;
  }
  uint32_t emit(Code code, uint32_t a, uint32_t b, uint16_t function = 0) {
    Instruction i{code, function, a, b};
    const auto ca = value(a), cb = value(b);
    if (ca && cb) return constant(apply(i, *ca, *cb));
    if (const auto same = unit(code, a, b, ca, cb)) return *same;
    const Key key{static_cast<uint32_t>(code) << 16 | function, static_cast<uint64_t>(a) << 32 | b};
    const auto [it, fresh] = made_.try_emplace(key, kResult | static_cast<uint32_t>(tape_.code.size()));
    if (fresh) tape_.code.push_back(i);
    return it->second;
  }
  bool full() const { return tape_.code.size() > kMaxInstructions; }

  Tape finish(const std::vector<uint32_t>& outputs) {
    tape_.inputs = inputs_;
    for (Instruction& i : tape_.code) i.a = place(i.a), i.b = place(i.b);
    for (const uint32_t o : outputs) tape_.outputs.push_back(place(o));
    return std::move(tape_);
  }

 private:
  using Key = std::pair<uint32_t, uint64_t>;
  // x + 0, x * 1, 0 * x and max(-inf, x), which padding and empty reductions make many of.
  std::optional<uint32_t> unit(Code code, uint32_t a, uint32_t b, std::optional<uint64_t> ca,
                               std::optional<uint64_t> cb) {
    const auto is = [](const std::optional<uint64_t>& c, uint64_t v) { return c && *c == v; };
    if ((code == Code::Add && is(ca, 0)) || (code == Code::Mul && is(ca, 1))) return b;
    if (((code == Code::Add || code == Code::Sub) && is(cb, 0)) || (code == Code::Mul && is(cb, 1))) return a;
    if (code == Code::Mul && (is(ca, 0) || is(cb, 0))) return constant(0);
    const uint64_t end = (code == Code::Max ? te::FieldDomain::lowest() : te::FieldDomain::highest()).value();
    if ((code == Code::Max || code == Code::Min) && is(ca, end)) return b;
    if ((code == Code::Max || code == Code::Min) && (is(cb, end) || a == b)) return a;
    return std::nullopt;
  }
  uint32_t place(uint32_t r) const {
    if (r & kConstant) return inputs_ + (r & ~kConstant);
    if (r & kResult) return inputs_ + static_cast<uint32_t>(tape_.constants.size()) + (r & ~kResult);
    return r;
  }

  Tape tape_;
  uint32_t inputs_ = 0;
  std::unordered_map<uint64_t, uint32_t> known_;
  std::map<Key, uint32_t> made_;
};

// The evaluator's numbers are registers; integers stay machine integers.
struct RecordDomain : te::FieldDomain {
  struct Real {
    uint32_t id = 0;
  };
  Recorder* recorder = nullptr;
  te::FieldDomain field = {};

  Real real(DType t, double v) const { return {recorder->constant(field.real(t, v).value())}; }
  Real round(DType, const Real& v) const { return v; }
  std::optional<Real> to_real(DType from, const Int& v) const {
    return Real{recorder->constant(field.to_real(from, v)->value())};
  }
  std::optional<Int> to_int(DType, const Real&) const { return std::nullopt; }
  std::optional<Int> test(te::UnaryOp, const Real&) const { return std::nullopt; }
  std::optional<Int> compare(te::BinaryOp, const Real&, const Real&) const { return std::nullopt; }
  std::optional<Real> unary(te::UnaryOp op, const Real& x) const {
    if (recorder->full()) return std::nullopt;
    if (op == te::UnaryOp::Neg) return Real{recorder->emit(Code::Neg, x.id, x.id)};
    return Real{recorder->emit(Code::Function, x.id, recorder->constant(0), static_cast<uint16_t>(op))};
  }
  std::optional<Real> binary(te::BinaryOp op, const Real& a, const Real& b) const {
    if (recorder->full()) return std::nullopt;
    switch (op) {
      case te::BinaryOp::Add: return Real{recorder->emit(Code::Add, a.id, b.id)};
      case te::BinaryOp::Sub: return Real{recorder->emit(Code::Sub, a.id, b.id)};
      case te::BinaryOp::Mul: return Real{recorder->emit(Code::Mul, a.id, b.id)};
      case te::BinaryOp::Div:
        return Real{recorder->emit(Code::Mul, a.id, recorder->emit(Code::Inverse, b.id, recorder->constant(0)))};
      case te::BinaryOp::Max: return Real{recorder->emit(Code::Max, a.id, b.id)};
      case te::BinaryOp::Min: return Real{recorder->emit(Code::Min, a.id, b.id)};
      default:
        return Real{recorder->emit(Code::Function, a.id, b.id, static_cast<uint16_t>(100 + static_cast<int>(op)))};
    }
  }
};

using Array = te::Array<RecordDomain>;

// Contents of a constant: numbers become constants of the tape, integers stay.
Array literal(const Tensor& t, Recorder& recorder) {
  Array a;
  a.dtype = t.dtype();
  a.dims = t.dims();
  const te::FieldDomain field;
  for (int64_t i = 0; i < t.size(); ++i) {
    if (is_float(t.dtype()))
      a.reals.push_back({recorder.constant(field.real(t.dtype(), t.real(i)).value())});
    else
      a.ints.push_back(t.integer(i));
  }
  return a;
}

class GraphRecorder {
 public:
  GraphRecorder(const ir::OpTable& table, Recorder& recorder) : table_(table), recorder_(recorder) {
    domain_.recorder = &recorder;
  }

  Expected<std::vector<Array>> run(const ir::Graph& graph, std::vector<Array> inputs) {
    std::vector<std::vector<Array>> values(graph.nodes().size());
    std::map<uint32_t, Tensor> known;
    for (uint32_t id = 0; id < graph.nodes().size(); ++id) {
      const ir::Node& n = graph.node(id);
      if (id < graph.input_count()) {
        values[id] = {std::move(inputs[id])};
      } else if (n.op == &ir::const_op()) {
        const Tensor* t = n.attrs.get<Tensor>("value");
        if (!t) return Diagnostic("E-eval", "a constant holds sizes that are not known");
        known.emplace(id, *t);
        values[id] = {literal(*t, recorder_)};
      } else {
        ISOMER_TRY(values[id], node(graph, n, values, known));
      }
    }
    std::vector<Array> out;
    for (const ir::Output& o : graph.outputs()) out.push_back(values[o.value.node][o.value.index]);
    return out;
  }

 private:
  Expected<std::vector<Array>> node(const ir::Graph& graph, const ir::Node& n,
                                    const std::vector<std::vector<Array>>& values,
                                    const std::map<uint32_t, Tensor>& known) {
    std::vector<ir::OpContext::Input> in;
    std::vector<Array> arrays;
    for (const ir::Value& v : n.inputs) {
      ir::OpContext::Input i;
      arrays.push_back(v.is_none() ? Array() : values[v.node][v.index]);
      if (!v.is_none()) {
        i = {true, graph.type(v), nullptr, nullptr};
        if (const auto it = known.find(v.node); it != known.end()) i.value = &it->second;
      }
      in.push_back(std::move(i));
    }
    const ir::OpContext c(*n.op, std::move(in), n.attrs, n.types.size(), table_);
    if (n.op->compute) {
      ISOMER_TRY(const te::Program program, n.op->compute(c));
      return te::Evaluator<RecordDomain>(domain_).run(program, std::move(arrays));
    }
    if (n.op->kernel) return Diagnostic("E-eval", n.op->name + " has no tensor expression");
    ISOMER_TRY(const ir::Graph body, ir::expand(c));
    std::vector<Array> present;
    for (size_t i = 0; i < n.inputs.size(); ++i)
      if (!n.inputs[i].is_none()) present.push_back(std::move(arrays[i]));
    return run(body, std::move(present));
  }

  const ir::OpTable& table_;
  Recorder& recorder_;
  RecordDomain domain_;
};

}  // namespace

void Tape::run(std::vector<uint64_t>& r, Algebra algebra) const {
  if (r.size() < registers() * kLanes) r.resize(registers() * kLanes);
  uint64_t* at = r.data() + inputs * kLanes;
  for (const uint64_t c : constants)
    for (size_t l = 0; l < kLanes; ++l) *at++ = c;
  for (const Instruction& i : code) {
    const uint64_t *a = r.data() + i.a * kLanes, *b = r.data() + i.b * kLanes;
    if (algebra == Algebra::Terms) {
      for (size_t l = 0; l < kLanes; ++l) at[l] = apply_term(i, a[l], b[l]);
    } else if (i.code == Code::Mul) {
      for (size_t l = 0; l < kLanes; ++l) at[l] = multiply(a[l], b[l]);
    } else if (i.code == Code::Add) {
      for (size_t l = 0; l < kLanes; ++l) at[l] = add(a[l], b[l]);
    } else {
      for (size_t l = 0; l < kLanes; ++l) at[l] = apply(i, a[l], b[l]);
    }
    at += kLanes;
  }
}

Expected<Tape> record(const ir::Graph& graph, const ir::OpTable& table) {
  Recorder recorder;
  std::vector<Array> inputs;
  for (const ir::Node& n : graph.inputs()) {
    const Type& t = n.types[0];
    if (!is_float(t.dtype) || !t.shape.has_rank() || !t.shape.is_static())
      return Diagnostic("E-eval", "a tape needs inputs of real numbers with known shapes");
    Array a;
    a.dtype = t.dtype;
    a.dims = t.shape.values();
    int64_t count = 1;
    for (const int64_t d : a.dims) count *= d;
    for (int64_t i = 0; i < count; ++i) a.reals.push_back({recorder.input()});
    inputs.push_back(std::move(a));
  }
  GraphRecorder walk(table, recorder);
  ISOMER_TRY(const std::vector<Array> results, walk.run(graph, std::move(inputs)));
  std::vector<uint32_t> outputs;
  std::vector<std::vector<int64_t>> dims;
  for (const Array& a : results) {
    if (!is_float(a.dtype)) return Diagnostic("E-eval", "a result is no real number");
    for (const auto& r : a.reals) outputs.push_back(r.id);
    dims.push_back(a.dims);
  }
  Tape tape = recorder.finish(outputs);
  tape.output_dims = std::move(dims);
  return tape;
}

}  // namespace isomer::propose
