// Every operator's own samples, made hostile one change at a time: attributes of absurd value, length or kind, inputs of
// another rank, extent or element type, constants with edge values, inputs taken away or added. Building the node and
// running it with small limits ends in values or in a Diagnostic.
//   ISOMER_HOSTILE_OP   only the operator of this name
#include <limits>

#include "base/random.h"
#include "interp/interp.h"
#include "ir/sample.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "onnx/onnx.h"
#include "ops/table.h"
#include "test/mutation/isolated.h"
#include "test/setting.h"

namespace isomer {
namespace {

constexpr int64_t kBig = int64_t{1} << 62, kLowest = std::numeric_limits<int64_t>::min();
constexpr int64_t kInts[] = {0, 1, -1, 2, -2, 5, 1 << 20, int64_t{1} << 31, kBig, kLowest, kLowest + 1, ~kLowest};
const double kReals[] = {0.0,
                         -1.0,
                         0.5,
                         1e308,
                         -1e308,
                         1e-320,
                         std::numeric_limits<double>::infinity(),
                         std::numeric_limits<double>::quiet_NaN()};

// A call of one operator, as data that can be changed before it is built.
struct Call {
  const ir::OpDef* op;
  struct Argument {
    bool present = false;
    bool constant = false;
    Type type;
    Tensor value;
  };
  std::vector<Argument> arguments;
  ir::Attrs attrs;
  size_t outputs = 0;
};

Call call_of(const ir::Sample& sample) {
  const ir::Graph& g = sample.graph;
  const ir::Node& n = g.nodes().back();
  Call call{.op = n.op, .arguments = {}, .attrs = n.attrs, .outputs = n.types.size()};
  for (const ir::Value& v : n.inputs) {
    Call::Argument a;
    if (!v.is_none()) {
      a.present = true;
      a.type = g.type(v);
      a.constant = v.node >= g.input_count();
      a.value = a.constant ? *g.node(v.node).attrs.get<Tensor>("value") : sample.inputs[v.node];
    }
    call.arguments.push_back(std::move(a));
  }
  return call;
}

Tensor drawn(DType dtype, const std::vector<int64_t>& dims, Random& r) {
  Tensor t(dtype, dims);
  const uint64_t style = r.below(4);
  for (int64_t i = 0; i < t.size(); ++i) {
    if (is_float(dtype))
      t.set_real(i, style == 0 ? kReals[r.below(std::size(kReals))] : r.normal());
    else
      t.set_integer(i, style == 0 ? kInts[r.below(std::size(kInts))] : r.between(-2, 5));
  }
  return t;
}

ir::AttrValue hostile_value(const ir::AttrValue* now, ir::AttrKind kind, Random& r) {
  const auto some = [&](auto list, auto change) {
    switch (r.below(5)) {
      case 0: return decltype(list)();
      case 1: list.resize(r.below(2) ? list.size() + 1 : list.size() / 2, change()); break;
      case 2: list.assign(1 + r.below(6), change()); break;
      case 3: list.assign(70, change()); break;
      default:
        if (list.empty()) list.resize(1);
        list[r.below(list.size())] = change();
    }
    return list;
  };
  const auto integer = [&] { return kInts[r.below(std::size(kInts))]; };
  const auto real = [&] { return kReals[r.below(std::size(kReals))]; };
  const auto text = [&]() -> std::string {
    static const char* const kTexts[] = {"",   "nonsense", "constant", "SAME_UPPER", "NOTSET",
                                         "->", "i,i->",    "...",      "%s"};
    return r.below(8) == 0 ? std::string(3000, 'x') : kTexts[r.below(std::size(kTexts))];
  };
  const auto as = [&]<class T>(T otherwise) { return now && std::get_if<T>(now) ? std::get<T>(*now) : otherwise; };
  switch (kind) {
    case ir::AttrKind::Int: return integer();
    case ir::AttrKind::Real: return real();
    case ir::AttrKind::String: return text();
    case ir::AttrKind::Ints: return some(as(std::vector<int64_t>()), integer);
    case ir::AttrKind::Reals: return some(as(std::vector<double>()), real);
    case ir::AttrKind::Strings: return some(as(std::vector<std::string>()), text);
    case ir::AttrKind::DType: return static_cast<DType>(r.below(14));
    case ir::AttrKind::Tensor: {
      std::vector<int64_t> dims;
      for (uint64_t n = r.below(4); n > 0; --n) dims.push_back(r.between(0, 3));
      return drawn(kAllDTypes[r.below(std::size(kAllDTypes))], dims, r);
    }
    case ir::AttrKind::Graph: {
      if (r.below(3) == 0) return ir::GraphRef();
      ir::GraphBuilder b(ops::table(), "body");
      std::vector<ir::Value> values;
      for (uint64_t n = r.below(5), k = 0; k < n; ++k)
        values.push_back(
            *b.input(fmt::format("b{}", k), {kAllDTypes[r.below(13)], r.below(2) ? Shape() : Shape{2}, {}}));
      values.push_back(b.constant(drawn(kAllDTypes[r.below(13)], {}, r)));
      for (uint64_t n = r.below(5), k = 0; k < n; ++k) b.output(fmt::format("o{}", k), values[r.below(values.size())]);
      return std::make_shared<const ir::Graph>(*std::move(b).finish());
    }
    case ir::AttrKind::Foreign: return ir::Foreign{text()};
    case ir::AttrKind::Sizes: return ir::Sizes({Dim::symbol("S")});
  }
  return integer();
}

void change_attribute(Call& call, Random& r) {
  const ir::AttrDef& def = call.op->attrs[r.below(call.op->attrs.size())];
  const uint64_t how = r.below(12);
  if (how == 0) return call.attrs.erase(def.name);
  const ir::AttrKind kind = how == 1 ? static_cast<ir::AttrKind>(r.below(10)) : def.kind;
  const ir::AttrValue* now = call.attrs.find(def.name);
  if (!now && def.standard) now = &*def.standard;
  call.attrs.set(def.name, hostile_value(now, kind, r));
}

void change_shape(Call::Argument& a, Random& r) {
  if (!a.type.shape.has_rank()) return;
  std::vector<Dim> dims = a.type.shape.dims();
  const size_t at = dims.empty() ? 0 : r.below(dims.size());
  switch (r.below(8)) {
    case 0: dims.clear(); break;
    case 1: dims.insert(dims.begin(), Dim(1)); break;
    case 2: dims.insert(dims.begin() + static_cast<std::ptrdiff_t>(at), Dim(r.between(0, 3))); break;
    case 3:
      if (!dims.empty()) dims.erase(dims.begin() + static_cast<std::ptrdiff_t>(at));
      break;
    case 4: dims.assign(r.below(10), Dim(r.between(0, 2))); break;
    case 5:
      if (!dims.empty()) dims[at] = Dim(int64_t{1} << r.below(63));
      break;
    default:
      if (!dims.empty()) dims[at] = Dim(r.between(0, 4));
  }
  a.type.shape = Shape(std::move(dims));
}

void change_argument(Call& call, Random& r) {
  if (call.arguments.empty() || r.below(12) == 0) {
    Call::Argument extra;
    extra.present = r.below(4) != 0;
    extra.type = {kAllDTypes[r.below(13)], Shape{2}, nullptr};
    extra.value = drawn(extra.type.dtype, {2}, r);
    call.arguments.push_back(extra);
    return;
  }
  Call::Argument& a = call.arguments[r.below(call.arguments.size())];
  switch (r.below(8)) {
    case 0: a.present = false; break;
    case 1: a.constant = !a.constant; break;
    case 2: a.type.dtype = kAllDTypes[r.below(13)]; break;
    case 3: call.arguments.pop_back(); return;
    case 4: a.value = drawn(a.value.dtype(), a.value.dims(), r); return;
    default: change_shape(a, r); break;
  }
  if (!a.present || (a.type.dtype == a.value.dtype() && a.type.shape == a.value.type().shape)) return;
  int64_t elements = 1;
  for (const Dim& d : a.type.shape.dims())
    elements = elements > 4096 ? elements : elements * std::min<int64_t>(d.constant().value_or(2), 5000);
  if (elements > 4096) {
    a.constant = false;  // declared only
    return;
  }
  std::vector<int64_t> dims;
  for (const Dim& d : a.type.shape.dims()) dims.push_back(d.constant().value_or(2));
  a.value = drawn(a.type.dtype, dims, r);
}

// Hides what a run would know: unknown rank or symbolic extents where the value has numbers.
void forget(Call& call, Random& r) {
  for (Call::Argument& a : call.arguments) {
    if (!a.present || a.constant || r.below(2)) continue;
    if (r.below(4) == 0) {
      a.type.shape = Shape::unknown();
      continue;
    }
    std::vector<Dim> dims = a.type.shape.dims();
    for (Dim& d : dims)
      if (r.below(2)) d = Dim::symbol(r.below(2) ? "N" : "M");
    if (a.type.shape.has_rank()) a.type.shape = Shape(std::move(dims));
  }
}

Call mutant(const Call& original, uint64_t seed) {
  Random r(seed);
  Call call = original;
  for (uint64_t n = 1 + r.below(2); n > 0; --n)
    r.below(5) < 3 && !call.op->attrs.empty() ? change_attribute(call, r) : change_argument(call, r);
  if (r.below(8) == 0) forget(call, r);
  if (r.below(16) == 0) call.outputs = r.below(5);
  return call;
}

Expected<ir::Sample> built(const Call& call) {
  ir::GraphBuilder b(ops::table(), "hostile");
  ir::Sample s;
  std::vector<ir::Value> values(call.arguments.size());
  for (size_t i = 0; i < values.size(); ++i) {
    const Call::Argument& a = call.arguments[i];
    if (!a.present || a.constant) continue;
    ISOMER_TRY(values[i], b.input(fmt::format("x{}", i), a.type));
    s.inputs.push_back(a.value);
  }
  for (size_t i = 0; i < values.size(); ++i)
    if (call.arguments[i].present && call.arguments[i].constant)
      values[i] = b.constant(call.arguments[i].value, fmt::format("c{}", i));
  ISOMER_TRY(const std::vector<ir::Value> results, b.add(*call.op, values, call.attrs, {}, call.outputs));
  for (size_t k = 0; k < results.size(); ++k) b.output(fmt::format("y{}", k), results[k]);
  ISOMER_TRY(s.graph, std::move(b).finish());
  return s;
}

void attempt(const Call& call, testing::Progress& progress) {
  const auto sample = built(call);
  if (!sample.ok()) {
    EXPECT_FALSE(sample.error().message.empty());
    return;
  }
  ++progress.built;
  const std::string text = ir::print(sample->graph);
  const auto back = ir::parse(text, ops::table());
  EXPECT_TRUE(back.ok() && ir::identical(*back, sample->graph)) << text.substr(0, 2000);
  (void)onnx::save_bytes(sample->graph);
  interp::Options limits;
  limits.max_value_bytes = 1 << 24;
  limits.max_live_bytes = 1 << 25;
  limits.max_loop_iterations = 100;
  limits.max_seconds = 1;
  limits.threads = 1;
  if (interp::run(sample->graph, ops::table(), sample->inputs, limits).ok()) ++progress.ran;
}

// A call in words: it may be one that cannot be built.
std::string describe(const Call& call) {
  std::string out = call.op->name + "(";
  for (const Call::Argument& a : call.arguments)
    out += !a.present ? "_, " : fmt::format("{}{}, ", a.constant ? "const " : "", a.type.to_string());
  out += fmt::format(") -> {} ", call.outputs);
  for (const auto& [key, value] : call.attrs) {
    out += key + "=";
    if (const auto* i = std::get_if<int64_t>(&value)) out += std::to_string(*i);
    if (const auto* v = std::get_if<std::vector<int64_t>>(&value)) out += fmt::format("[{}]", fmt::join(*v, ","));
    if (const auto* d = std::get_if<double>(&value)) out += std::to_string(*d);
    if (const auto* t = std::get_if<std::string>(&value)) out += isomer::quoted(*t);
    out += " ";
  }
  return out;
}

constexpr size_t kParts = 2;  // of the samples, for tests that run side by side

class HostileAttributes : public ::testing::TestWithParam<size_t> {};
INSTANTIATE_TEST_SUITE_P(Part, HostileAttributes, ::testing::Range(size_t{0}, kParts));

TEST_P(HostileAttributes, EveryOperatorGivesAValueOrADiagnostic) {
  const uint64_t seed = testing::setting("ISOMER_MUTATION_SEED", 20240607);
  const uint64_t each = testing::setting("ISOMER_HOSTILE_EACH", 100);
  const char* only = std::getenv("ISOMER_HOSTILE_OP");
  std::vector<Call> calls;
  size_t samples = 0;
  for (const ir::OpDef& op : ops::table().records()) {
    if (only && op.name != only) continue;
    for (const std::string& text : op.samples)
      if (samples++ % kParts == GetParam())
        if (auto s = ir::make_sample(text, ops::table(), 3); s.ok()) calls.push_back(call_of(*s));
  }
  fmt::print("seed {}, {} mutants of {} samples\n", seed, each * calls.size(), calls.size());
  testing::Isolated isolated;
  const auto nth = [&](uint64_t i) { return mutant(calls[i / each], seed + i); };
  isolated.run(
      each * calls.size(), [&](uint64_t i) { attempt(nth(i), isolated.progress()); },
      [&](uint64_t i) { return describe(nth(i)); }, static_cast<int>(testing::setting("ISOMER_MOST_FAILURES", 20)));
  fmt::print("{} of them are still nodes, {} have run\n", isolated.progress().built, isolated.progress().ran);
}

}  // namespace
}  // namespace isomer
