#include "rewrite/absent_attrs.h"

#include <algorithm>
#include <functional>
#include <optional>

#include "ir/sample.h"

namespace isomer::rewrite {
namespace {

// A sample's node with its attributes replaced.
class Probe {
 public:
  Probe(const ir::Graph& graph, const ir::Node& node, const ir::OpTable& table)
      : graph_(graph), node_(node), table_(table) {
    for (const ir::Value& v : node.inputs) shapes_.push_back(v.is_none() ? Shape::unknown() : graph.type(v).shape);
  }

  const ir::Node& node() const { return node_; }
  std::span<const Shape> shapes() const { return shapes_; }

  std::optional<te::Program> program(const ir::Attrs& attrs) const {
    std::vector<ir::OpContext::Input> inputs;
    for (const ir::Value& v : node_.inputs) {
      ir::OpContext::Input i;
      if (!v.is_none()) i = {true, graph_.type(v), graph_.node(v.node).attrs.get<Tensor>("value"), nullptr};
      inputs.push_back(std::move(i));
    }
    const ir::OpContext c(*node_.op, std::move(inputs), attrs, node_.types.size(), table_);
    if (!ir::check_signature(c).ok()) return std::nullopt;
    auto p = node_.op->compute(c);
    return p.ok() ? std::optional(*std::move(p)) : std::nullopt;
  }

 private:
  const ir::Graph& graph_;
  const ir::Node& node_;
  const ir::OpTable& table_;
  std::vector<Shape> shapes_;
};

// Whether writing the attribute out in this way changes nothing; no answer when the attribute cannot be left out.
std::optional<bool> agrees(const Probe& probe, const AbsentAttr& guess) {
  constexpr size_t kLongest = 8;
  ir::Attrs attrs = probe.node().attrs;
  attrs.erase(guess.name);
  const auto without = probe.program(attrs);
  if (!without) return std::nullopt;
  for (size_t n = 1; n <= kLongest; ++n) {
    const std::vector<int64_t> value = AttrHabits::meaning(guess, n, probe.shapes());
    if (value.empty()) continue;
    attrs.set(guess.name, value);
    const auto with = probe.program(attrs);
    if (with && te::equal(*with, *without)) return true;
  }
  return false;
}

bool holds(std::span<const Probe> probes, const std::function<std::optional<bool>(const Probe&)>& test) {
  size_t yes = 0;
  for (const Probe& p : probes) {
    const auto answer = test(p);
    if (answer && !*answer) return false;
    yes += answer.has_value();
  }
  return yes > 0;
}

std::optional<bool> counts_from_end(const Probe& probe, const ir::AttrDef& def) {
  if (probe.shapes().empty() || !probe.shapes()[0].has_rank()) return std::nullopt;
  const auto rank = static_cast<int64_t>(probe.shapes()[0].rank());
  for (int64_t axis = 0; axis < rank; ++axis) {
    ir::Attrs attrs = probe.node().attrs;
    attrs.set(def.name, axis);
    const auto front = probe.program(attrs);
    attrs.set(def.name, axis - rank);
    const auto back = probe.program(attrs);
    if (front.has_value() != back.has_value() || (front && !te::equal(*front, *back))) return false;
  }
  return true;
}

}  // namespace

bool AttrHabits::is_axis(std::string_view name) const {
  return std::find(axes.begin(), axes.end(), name) != axes.end();
}

const AbsentAttr* AttrHabits::find(std::string_view name) const {
  const auto it = std::find_if(absent.begin(), absent.end(), [&](const AbsentAttr& a) { return a.name == name; });
  return it == absent.end() ? nullptr : &*it;
}

std::vector<int64_t> AttrHabits::meaning(const AbsentAttr& a, size_t length, std::span<const Shape> inputs) {
  std::vector<int64_t> out;
  switch (a.kind) {
    case AbsentAttr::Kind::Zeros: return std::vector<int64_t>(length, 0);
    case AbsentAttr::Kind::Ones: return std::vector<int64_t>(length, 1);
    case AbsentAttr::Kind::Reversed:
      for (size_t i = length; i-- > 0;) out.push_back(static_cast<int64_t>(i));
      return out;
    case AbsentAttr::Kind::DimsOfInput: {
      if (a.input >= inputs.size() || !inputs[a.input].has_rank() || inputs[a.input].rank() < length) return {};
      const Shape& s = inputs[a.input];
      for (size_t i = s.rank() - length; i < s.rank(); ++i) {
        if (!s[i].is_const()) return {};
        out.push_back(s[i].value());
      }
      return out;
    }
  }
  return out;
}

ir::Attrs AttrHabits::canonical(const ir::Attrs& attrs, std::span<const Shape> inputs) const {
  ir::Attrs out = attrs;
  for (const AbsentAttr& a : absent)
    if (const auto* value = attrs.get<std::vector<int64_t>>(a.name))
      if (!value->empty() && *value == meaning(a, value->size(), inputs)) out.erase(a.name);
  for (const std::string& name : axes)
    if (const auto* value = attrs.get<int64_t>(name); value && *value < 0 && !inputs.empty() && inputs[0].has_rank())
      out.set(name, *value + static_cast<int64_t>(inputs[0].rank()));
  return out;
}

const AttrHabits& AttrHabitTable::of(const ir::OpDef& op) {
  const std::lock_guard lock(mutex_);
  if (const auto it = known_.find(op.name); it != known_.end()) return it->second;
  AttrHabits& habits = known_[op.name];
  if (!op.compute || op.attrs.empty()) return habits;
  std::vector<ir::Sample> samples;
  for (const std::string& text : op.samples)
    if (auto s = ir::make_sample(text, *table_, 1); s.ok()) samples.push_back(*std::move(s));
  std::vector<Probe> probes;
  for (const ir::Sample& s : samples)
    for (const ir::Node& n : s.graph.nodes())
      if (n.op == &op) probes.emplace_back(s.graph, n, *table_);
  for (const ir::AttrDef& def : op.attrs) {
    if (def.kind == ir::AttrKind::Int && holds(probes, [&](const Probe& p) { return counts_from_end(p, def); }))
      habits.axes.push_back(def.name);
    if (def.kind != ir::AttrKind::Ints || def.standard || def.required) continue;
    std::vector<AbsentAttr> guesses = {{def.name, AbsentAttr::Kind::Zeros},
                                       {def.name, AbsentAttr::Kind::Ones},
                                       {def.name, AbsentAttr::Kind::Reversed}};
    for (size_t i = 0; i < op.inputs.size(); ++i) guesses.push_back({def.name, AbsentAttr::Kind::DimsOfInput, i});
    for (const AbsentAttr& guess : guesses)
      if (holds(probes, [&](const Probe& p) { return agrees(p, guess); })) {
        habits.absent.push_back(guess);
        break;
      }
  }
  return habits;
}

}  // namespace isomer::rewrite
