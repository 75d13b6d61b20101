// Random valid graphs for the tests of the graph text: nodes from the operators' own samples, element-wise chains over
// what is there, opaque nodes with attributes of every kind, hostile names, odd floats. One seed, one graph.
#pragma once

#include <fmt/format.h>

#include <bit>

#include "base/random.h"
#include "ir/graph.h"
#include "ir/sample.h"
#include "ops/table.h"

namespace isomer::testing {

class RandomGraph {
 public:
  RandomGraph() {
    for (const ir::OpDef& op : ops::table().records()) {
      if (op.open_attrs) opaque_ = &op;
      if (op.inputs.size() == 1 && op.attrs.empty() && op.inputs[0].types.contains(DType::F32)) simple_.push_back(&op);
      for (const std::string& text : op.samples)
        if (auto s = ir::make_sample(text, ops::table(), 1); s.ok() && s->graph.nodes().size() < 12)
          samples_.push_back(std::move(s->graph));
    }
  }

  // `steps`: most nodes to add; a failing case is made smaller by lowering it.
  ir::Graph make(uint64_t seed, size_t steps) const { return build(seed, steps, 0); }

 private:
  struct State {
    Random random;
    ir::GraphBuilder builder;
    std::vector<ir::Value> values;
    size_t names = 0;
  };

  static std::string text(Random& r) {
    static const char* const kOdd[] = {"",   "a/b:0",    "\"", "\\",  "\n",       "%x",
                                       "//", "\xff\xfe", "}",  "nan", "\xc3\xa9", "_"};
    std::string out;
    for (uint64_t n = r.below(4); n > 0; --n)
      out += r.flip(0.3) ? std::string(1, static_cast<char>(r.below(256))) : kOdd[r.below(std::size(kOdd))];
    return out;
  }
  static std::string fresh(State& s) {
    return fmt::format("{}{}", s.random.flip(0.4) ? text(s.random) : "v", s.names++);
  }

  static double real(Random& r) {
    switch (r.below(5)) {
      case 0: return std::bit_cast<double>(r.next());
      case 1: return static_cast<double>(r.between(-3, 3));
      case 2: return r.flip() ? -0.0 : std::bit_cast<double>(uint64_t{0x7FF8000000000000});
      case 3: return std::bit_cast<float>(static_cast<uint32_t>(r.next()));
      default: return r.normal();
    }
  }

  static Tensor tensor(Random& r) {
    const DType t = kAllDTypes[r.below(std::size(kAllDTypes))];
    std::vector<int64_t> dims;
    for (uint64_t n = r.below(3); n > 0; --n) dims.push_back(static_cast<int64_t>(r.below(4)));
    Tensor v(t, dims);
    const bool splat = r.flip(0.2);
    for (size_t i = 0; i < v.byte_size(); ++i)
      v.mutable_bytes()[i] = splat ? std::byte{0x7f} : static_cast<std::byte>(r.flip(0.3) ? 0xff : r.below(256));
    return v;
  }

  static Dim dim(Random& r) {
    static const char* const kNames[] = {"N", "M", "batch", "seq len", "?q", "\"", "max"};
    const auto symbol = [&] { return Dim::symbol(kNames[r.below(std::size(kNames))]); };
    switch (r.below(6)) {
      case 0: return symbol();
      case 1: return symbol() * Dim(r.between(1, 4)) + Dim(r.between(0, 3));
      case 2: return floor_div(symbol() + Dim(1), Dim(r.between(2, 3)));
      case 3: return max(symbol(), symbol() * symbol());
      default: return Dim(r.between(0, 5));
    }
  }

  static Type type(Random& r) {
    Type t{r.flip() ? DType::F32 : kAllDTypes[r.below(std::size(kAllDTypes))], {}, nullptr};
    if (r.flip(0.1)) {
      t.dtype = DType::Opaque;
      if (r.flip()) t.foreign = std::make_shared<const std::string>(text(r));
    }
    std::vector<Dim> dims;
    for (uint64_t n = r.below(4); n > 0; --n) dims.push_back(dim(r));
    t.shape = r.flip(0.1) ? Shape::unknown() : Shape(std::move(dims));
    return t;
  }

  ir::AttrValue attribute(Random& r, int depth) const {
    const auto list = [&](auto each) {
      std::vector<decltype(each())> out;
      for (uint64_t n = r.below(3); n > 0; --n) out.push_back(each());
      return out;
    };
    switch (r.below(10)) {
      case 0: return static_cast<int64_t>(r.flip() ? r.next() : r.below(4));
      case 1: return real(r);
      case 2: return text(r);
      case 3: return list([&] { return r.between(-5, 5); });
      case 4: return list([&] { return real(r); });
      case 5: return list([&] { return text(r); });
      case 6: return tensor(r);
      case 7: return kAllDTypes[r.below(std::size(kAllDTypes))];
      case 8:
        if (depth < 2) return std::make_shared<const ir::Graph>(build(r.next(), 2, depth + 1));
        [[fallthrough]];
      default: return ir::Foreign{text(r)};
    }
  }

  static ir::NodeInfo info(State& s, size_t results) {
    ir::NodeInfo i;
    for (size_t k = 0; k < results; ++k) i.names.push_back(s.random.flip(0.1) ? "" : fresh(s));
    if (s.random.flip(0.3)) i.label = text(s.random);
    for (uint64_t n = s.random.below(3); n > 0; --n) i.origin.push_back(text(s.random));
    return i;
  }

  void add(State& s, const ir::OpDef& op, std::vector<ir::Value> inputs, ir::Attrs attrs, size_t results) const {
    const auto added = s.builder.add(op, std::move(inputs), std::move(attrs), info(s, results), results);
    if (!added.ok()) return;
    s.values.insert(s.values.end(), added->begin(), added->end());
  }

  void add_sample(State& s, const ir::Graph& sample, const std::vector<ir::Value>& inputs) const {
    std::vector<ir::Value> map = inputs;
    for (size_t i = sample.input_count(); i < sample.nodes().size(); ++i) {
      const ir::Node& n = sample.nodes()[i];
      if (n.op == &ir::const_op()) {
        map.push_back(s.builder.constant(*n.attrs.get<Tensor>("value"), fresh(s)));
        continue;
      }
      std::vector<ir::Value> in;
      for (const ir::Value& v : n.inputs) in.push_back(v.is_none() ? v : map[v.node]);
      add(s, *n.op, std::move(in), n.attrs, n.types.size());
      return;
    }
  }

  void step(State& s, int depth) const {
    Random& r = s.random;
    const auto any = [&] { return s.values.empty() ? ir::Value::none() : s.values[r.below(s.values.size())]; };
    switch (r.below(4)) {
      case 0: s.values.push_back(s.builder.constant(tensor(r), fresh(s))); return;
      case 1: {
        if (!opaque_) return;
        ir::Attrs attrs{{"op_type", text(r)}};
        for (uint64_t n = r.below(4); n > 0; --n) attrs.set("a" + text(r), attribute(r, depth));
        std::vector<ir::Value> in;
        for (uint64_t n = r.below(3); n > 0; --n) in.push_back(r.flip(0.2) ? ir::Value::none() : any());
        return add(s, *opaque_, std::move(in), std::move(attrs), r.below(3));
      }
      default:
        if (simple_.empty() || s.values.empty()) return;
        return add(s, *simple_[r.below(simple_.size())], {any()}, {}, 1);
    }
  }

  ir::Graph build(uint64_t seed, size_t steps, int depth) const {
    State s{Random(seed), ir::GraphBuilder(ops::table(), ""), {}};
    s.builder = ir::GraphBuilder(ops::table(), text(s.random));
    s.builder.set_verbatim(s.random.flip());
    for (uint64_t n = s.random.below(3); n > 0; --n)
      if (auto v = s.builder.input(fresh(s), type(s.random)); v.ok()) s.values.push_back(*v);
    const ir::Graph* sample = nullptr;
    std::vector<ir::Value> sample_inputs;
    if (!samples_.empty() && steps > 0 && s.random.flip()) {
      sample = &samples_[s.random.below(samples_.size())];
      for (const ir::Node& n : sample->inputs()) sample_inputs.push_back(*s.builder.input(fresh(s), n.types[0]));
      s.values.insert(s.values.end(), sample_inputs.begin(), sample_inputs.end());
    }
    if (sample) add_sample(s, *sample, sample_inputs);
    for (size_t i = 0; i < steps; ++i) step(s, depth);
    for (size_t i = 0; i < s.values.size(); ++i)
      if (i + 1 == s.values.size() || s.random.flip(0.2))
        s.builder.output(s.random.flip() ? s.builder.graph().value_name(s.values[i]) + "'" : fmt::format("o{}", i),
                         s.values[i]);
    if (s.random.flip(0.2)) s.builder.set_metadata(metadata(s.random));
    auto g = std::move(s.builder).finish();
    return g.ok() ? *std::move(g) : ir::Graph();
  }

  static ir::Metadata metadata(Random& r) {
    ir::Metadata m;
    if (r.flip()) m.opsets = {{text(r), r.between(-1, 30)}, {text(r), 1}};
    if (r.flip()) m.properties = {{text(r), text(r)}};
    if (r.flip()) m.producer = text(r);
    if (r.flip()) m.doc = text(r);
    m.ir_version = r.between(0, 11);
    return m;
  }

  const ir::OpDef* opaque_ = nullptr;
  std::vector<const ir::OpDef*> simple_;
  std::vector<ir::Graph> samples_;
};

}  // namespace isomer::testing
