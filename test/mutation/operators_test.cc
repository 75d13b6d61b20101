// Every operator's samples with hostile attributes, shapes, types and contents: each is refused or gives what its type
// rule promised. The operator and the changes are printed on a failure; a crash names the sample in the test's trace.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>

#include "base/random.h"
#include "interp/interp.h"
#include "ir/sample.h"
#include "ops/table.h"

namespace isomer {
namespace {

constexpr uint64_t kSeed = 20;
constexpr int kRounds = 10;

class Mutator {
 public:
  explicit Mutator(uint64_t seed) : random_(seed) {}

  bool one_in(uint64_t n) { return random_.below(n) == 0; }
  uint64_t below(uint64_t n) { return random_.below(n); }
  uint64_t next() { return random_.next(); }

  int64_t number() {
    static const int64_t kNumbers[] = {0,
                                       1,
                                       -1,
                                       2,
                                       3,
                                       5,
                                       -7,
                                       1'000'000,
                                       int64_t{1} << 40,
                                       std::numeric_limits<int64_t>::max(),
                                       std::numeric_limits<int64_t>::min()};
    return kNumbers[random_.below(std::size(kNumbers))];
  }
  double real() {
    const double reals[] = {NAN, INFINITY, -1e300, 0, random_.normal(), static_cast<double>(number())};
    return reals[random_.below(std::size(reals))];
  }
  DType dtype() { return kAllDTypes[random_.below(std::size(kAllDTypes))]; }
  Tensor tensor(DType dtype, const std::vector<int64_t>& dims) {
    Tensor t(dtype, dims);
    for (int64_t i = 0; i < t.size(); ++i) is_float(dtype) ? t.set_real(i, real()) : t.set_integer(i, number());
    return t;
  }
  Tensor tensor(DType dtype) {
    std::vector<int64_t> dims;
    for (uint64_t n = below(5); n > 0; --n) dims.push_back(static_cast<int64_t>(below(4)));
    return tensor(dtype, dims);
  }

  // A value of an attribute's kind, most often its own one with an element changed.
  ir::AttrValue attribute(ir::AttrKind kind, const ir::AttrValue* now) {
    switch (kind) {
      case ir::AttrKind::Int: return number();
      case ir::AttrKind::Real: return real();
      case ir::AttrKind::String: return std::string(one_in(2) ? "" : "zz");
      case ir::AttrKind::Ints: return list<int64_t>(now, [this] { return number(); });
      case ir::AttrKind::Reals: return list<double>(now, [this] { return real(); });
      case ir::AttrKind::Strings: return list<std::string>(now, [] { return std::string("zz"); });
      case ir::AttrKind::DType: return dtype();
      default: return tensor(dtype());
    }
  }

 private:
  template <class T, class Make>
  std::vector<T> list(const ir::AttrValue* now, Make make) {
    std::vector<T> v;
    if (now && !one_in(3)) v = std::get<std::vector<T>>(*now);
    if (v.empty()) v.resize(below(5));
    for (T& x : v)
      if (one_in(2)) x = make();
    if (one_in(4) && !v.empty()) v.pop_back();
    return v;
  }

  Random random_;
};

// A sample's only node, rebuilt from changed parts.
struct Mutant {
  ir::GraphBuilder builder{ops::table(), "mutant"};
  std::vector<Tensor> given;
  std::vector<ir::Value> inputs;
  ir::Attrs attrs;
};

Expected<void> change_inputs(const ir::Sample& s, Mutator& m, Mutant& mutant) {
  const ir::Graph& g = s.graph;
  std::map<uint32_t, ir::Value> values;
  for (uint32_t i = 0; i < g.input_count(); ++i) {
    Tensor t = s.inputs[i];
    Type type = g.inputs()[i].types[0];
    switch (m.below(12)) {
      case 0: t = m.tensor(m.one_in(5) ? m.dtype() : t.dtype()), type = t.type(); break;
      case 1: t = m.tensor(t.dtype(), t.dims()), type = t.type(); break;
      case 2: type.shape = Shape::unknown(); break;
      case 3: {
        std::vector<Dim> dims = type.shape.dims();
        for (size_t a = 0; a < dims.size(); ++a)
          if (m.one_in(2)) dims[a] = Dim::symbol(fmt::format("s{}_{}", i, a));
        type.shape = Shape(std::move(dims));
        break;
      }
      default: break;
    }
    ISOMER_TRY(values[i], mutant.builder.input(fmt::format("x{}", i), type));
    mutant.given.push_back(std::move(t));
  }
  for (auto i = static_cast<uint32_t>(g.input_count()); i + 1 < g.nodes().size(); ++i)
    if (const Tensor* t = g.node(i).attrs.get<Tensor>("value"))
      values[i] = mutant.builder.constant(m.one_in(4) ? m.tensor(t->dtype(), t->dims()) : *t);
  for (const ir::Value& v : g.nodes().back().inputs)
    mutant.inputs.push_back(v.is_none() || m.one_in(25) ? ir::Value::none() : values[v.node]);
  if (m.one_in(15) && !mutant.inputs.empty()) mutant.inputs.pop_back();
  if (m.one_in(20) && !mutant.inputs.empty()) mutant.inputs.push_back(mutant.inputs[0]);
  return {};
}

Expected<std::vector<Tensor>> run(const ir::OpDef& op, Mutant mutant, size_t outputs, std::vector<Type>& promised) {
  ISOMER_TRY(const std::vector<ir::Value> results,
             mutant.builder.add(op, std::move(mutant.inputs), std::move(mutant.attrs), {}, outputs));
  for (size_t k = 0; k < results.size(); ++k) mutant.builder.output(fmt::format("y{}", k), results[k]);
  ISOMER_TRY(const ir::Graph g, std::move(mutant.builder).finish());
  for (const ir::Output& o : g.outputs()) promised.push_back(g.type(o.value));
  const interp::Options limits{.max_value_bytes = 1 << 20,
                               .max_live_bytes = 1 << 26,
                               .max_loop_iterations = 100,
                               .threads = 1,
                               .max_seconds = 1};
  return interp::run(g, ops::table(), mutant.given, limits);
}

TEST(OperatorMutation, HostileNodesAreRefusedOrKeepTheirPromise) {
  size_t ran = 0, refused = 0;
  for (const ir::OpDef& op : ops::table().records()) {
    Mutator m(kSeed * 1000 + ran + refused);
    for (const std::string& text : op.samples)
      for (int round = 0; round < kRounds; ++round) {
        SCOPED_TRACE(fmt::format("seed {}, round {}: {}", kSeed, round, text));
        const auto sample = ir::make_sample(text, ops::table(), m.next());
        ASSERT_TRUE(sample.ok()) << sample.error().to_string();
        const ir::Node& node = sample->graph.nodes().back();
        if (node.op != &op) continue;  // the builder knew the result
        Mutant mutant;
        mutant.attrs = node.attrs;
        for (uint64_t n = m.below(3); n > 0 && !op.attrs.empty(); --n) {
          const ir::AttrDef& def = op.attrs[m.below(op.attrs.size())];
          if (def.kind != ir::AttrKind::Graph)
            mutant.attrs.set(def.name, m.attribute(def.kind, mutant.attrs.find(def.name)));
        }
        ASSERT_TRUE(change_inputs(*sample, m, mutant).ok());
        std::vector<Type> promised;
        const size_t outputs = m.one_in(10) ? m.below(5) : node.types.size();
        const auto y = run(op, std::move(mutant), outputs, promised);
        (y.ok() ? ran : refused)++;
        for (size_t k = 0; y.ok() && k < y->size(); ++k)
          EXPECT_TRUE(promised[k].dtype == y->at(k).dtype() &&
                      (!promised[k].shape.is_static() || ir::agree(promised[k], y->at(k).type())))
              << promised[k].to_string() << ", found " << y->at(k).type().to_string();
      }
  }
  fmt::print("{} mutants ran, {} were refused\n", ran, refused);
  EXPECT_GT(ran, 500u);
  EXPECT_GT(refused, 500u);
}

}  // namespace
}  // namespace isomer
