// A model that reads a part of what it computes (the first token of the last layer, every second pixel) need not compute the
// rest: a selection along an axis moves before the node whose result it selects from, as long as nobody else reads that result and
// the node computes slices from slices (passes/operand_axes.h). It moves only where a reduction comes to do less by it. The strides of a
// pointwise convolution are such a selection, and every second place of a window's result is a window with twice the stride.
#include <algorithm>

#include "ir/reduces.h"
#include "passes/editor.h"
#include "passes/fold.h"
#include "passes/operand_axes.h"

namespace isomer::passes {
namespace {

using Ints = std::vector<int64_t>;

constexpr int64_t kMostSelected = 1 << 12;  // places in a list of them
constexpr int kMostLookedAt = 256;          // nodes on the ways up from a selection,
constexpr int64_t kMostLooks = 1 << 16;     // and in all: a graph may have as many selections as nodes
constexpr int kMostRounds = 8;

// Some places along one axis of a value: those that a slice or a gather with known operands reads.
struct Selection {
  Value from;
  size_t axis = 0;
  Dim count;
  bool vanishes = false;  // the axis, from what the node gives: its one place was named by a scalar
  Ints places;            // of a gather,
  Ints cut;               // or start, end, step of a slice

  // Every so many-th place from the first to the end, where it is that.
  std::optional<int64_t> comb(const Shape& of) const {
    const auto extent = of[axis].constant();
    const bool is =
        places.empty() && extent && cut[0] == 0 && cut[2] > 1 && count == Dim((*extent + cut[2] - 1) / cut[2]);
    return is ? std::optional(cut[2]) : std::nullopt;
  }
};

size_t counted(int64_t axis, size_t rank) {
  return static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(rank) : axis);
}

std::optional<Selection> gathered(const Editor& e, const ir::Node& n) {
  const Tensor* places = e.constant(n.inputs[1]);
  if (!places || places->rank() > 1 || places->size() > kMostSelected) return std::nullopt;
  const int64_t* axis = n.attrs.get<int64_t>("axis");
  Selection s{n.inputs[0],         counted(axis ? *axis : 0, e.shape(n.inputs[0]).rank()),
              Dim(places->size()), places->rank() == 0,
              places->to_ints(),   {}};
  // Counted from the front where that can be: an axis of another operand may have the same places and no end.
  const auto extent = e.shape(s.from)[s.axis].constant();
  for (int64_t& p : s.places) {
    if (extent && p < 0) p += *extent;
    if (extent && (p < 0 || p >= *extent)) return std::nullopt;
  }
  if (!extent && std::any_of(s.places.begin(), s.places.end(), [](int64_t p) { return p != 0 && p != -1; }))
    return std::nullopt;
  return s;
}

std::optional<Selection> sliced(const Editor& e, const ir::Node& n) {
  Selection s{n.inputs[0], 0, Dim(0), false, {}, {0, 0, 1}};
  int64_t axis = 0;
  for (size_t i = 1; i < n.inputs.size(); ++i) {
    if (n.inputs[i].is_none()) continue;
    const Tensor* t = e.constant(n.inputs[i]);
    if (!t || t->size() != 1) return std::nullopt;
    (i == 3 ? axis : s.cut[i == 4 ? 2 : i - 1]) = t->to_ints()[0];
  }
  s.axis = counted(axis, e.shape(s.from).rank());
  s.count = n.types[0].shape[s.axis];
  if (!s.count.is_const() || !e.shape(s.from)[s.axis].is_const()) return std::nullopt;
  return s;
}

std::optional<Selection> selection(const Editor& e, uint32_t id) {
  const ir::Node& n = e.node(id);
  const bool gathers = n.op->name == "gather";
  if ((!gathers && n.op->name != "slice") || !e.shape(n.inputs[0]).has_rank() || e.shape(n.inputs[0]).rank() == 0)
    return std::nullopt;
  const auto s = gathers ? gathered(e, n) : sliced(e, n);
  if (!s || s->axis >= e.shape(s->from).rank()) return std::nullopt;
  const auto extent = e.shape(s->from)[s->axis].constant();
  return s->count.value() >= 1 && s->count.value() < extent.value_or(2) ? s : std::nullopt;
}

Value list(Editor& e, const Ints& values) { return e.constant(Tensor::ints(values)); }

bool reads(const Editor& e, Value v, const Ints& values) {
  const Tensor* t = e.constant(v);
  return t && t->rank() == 1 && t->to_ints() == values;
}

// The same places along an axis of another value.
Value selected(Editor& e, const Selection& s, Value v, size_t axis) {
  const auto at = static_cast<int64_t>(axis);
  if (!s.places.empty()) {
    if (e.constant(v)) return folded(e, "gather", {v, list(e, s.places)}, {{"axis", at}});
    for (const uint32_t user : e.users(v.node)) {
      const ir::Node& n = e.node(user);
      const auto known = n.op->name == "gather" && n.inputs[0] == v ? gathered(e, n) : std::nullopt;
      if (known && !known->vanishes && known->axis == axis && known->places == s.places) return {user, 0};
    }
    return e.add("gather", {v, list(e, s.places)}, {{"axis", at}});
  }
  const std::vector<Ints> operands = {{s.cut[0]}, {s.cut[1]}, {at}, {s.cut[2]}};
  if (!e.constant(v))
    for (const uint32_t user : e.users(v.node)) {
      const ir::Node& n = e.node(user);
      if (n.op->name != "slice" || n.inputs[0] != v || n.inputs.size() != 5) continue;
      bool same = true;
      for (size_t i = 0; i < 4; ++i) same = same && reads(e, n.inputs[i + 1], operands[i]);
      if (same) return {user, 0};
    }
  std::vector<Value> inputs = {v};
  for (const Ints& o : operands) inputs.push_back(list(e, o));
  return e.constant(v) ? folded(e, "slice", std::move(inputs)) : e.add("slice", std::move(inputs));
}

// A reshape that leaves the axis and all before it as they are.
bool keeps(const Shape& from, const Shape& to, size_t axis) {
  if (!from.has_rank() || axis >= from.rank() || axis >= to.rank()) return false;
  for (size_t k = 0; k <= axis; ++k)
    if (!(from[k] == to[k])) return false;
  return true;
}

// A convolution or a pool whose padding is stated and whose results are as many as its strides leave.
bool has_window(const ir::Node& n) {
  if (n.op->name != "conv" && n.op->name != "max_pool" && n.op->name != "average_pool") return false;
  const std::string* automatic = n.attrs.get<std::string>("auto_pad");
  const int64_t* ceil = n.attrs.get<int64_t>("ceil_mode");
  return (!automatic || *automatic == "NOTSET" || *automatic == "VALID") && (!ceil || *ceil == 0);
}

Ints strides_of(const ir::Node& n) {
  const Ints* strides = n.attrs.get<Ints>("strides");
  return strides && !strides->empty() ? *strides : Ints(n.types[0].shape.rank() - 2, 1);
}

ir::Attrs with_stride(const ir::Node& n, size_t axis, int64_t stride) {
  Ints strides = strides_of(n);
  strides[axis - 2] = stride;
  ir::Attrs attrs = n.attrs;
  attrs.set("strides", std::move(strides));
  return attrs;
}

std::optional<OperandAxes> axes_of(const Editor& e, uint32_t id, size_t axis, const Selection& s) {
  const ir::Node& n = e.node(id);
  if (n.types.size() != 1 || n.op == &ir::const_op() || n.op == &ir::input_op()) return std::nullopt;
  if (axis >= 2 && has_window(n)) {
    Selection here = s;
    here.axis = axis;
    if (here.comb(n.types[0].shape)) return OperandAxes(n.inputs.size());
  }
  if (n.op->name != "reshape") return operand_axes(e.context(id), axis);
  if (!keeps(e.shape(n.inputs[0]), n.types[0].shape, axis)) return std::nullopt;
  return OperandAxes{axis, std::nullopt};
}

// Whether a reduction would do less if only a part of the value along the axis were needed, and nobody needs more of it.
// The value itself may have other readers that are known to need no more.
bool pays(const Editor& e, Value v, size_t axis, const Selection& s, int64_t& left, bool shared = false) {
  if (--left < 0 || v.index != 0 || (!shared && e.uses(v) != 1)) return false;
  const auto axes = axes_of(e, v.node, axis, s);
  if (!axes) return false;
  if (ir::reduces(e.context(v.node))) return true;
  const std::vector<Value>& inputs = e.node(v.node).inputs;
  for (size_t i = 0; i < inputs.size(); ++i)
    if ((*axes)[i] && pays(e, inputs[i], *(*axes)[i], s, left)) return true;
  return false;
}

// Within what may be looked at for one selection and for all.
bool worth(const Editor& e, const Selection& s, int64_t& looks, bool shared = false) {
  const int64_t most = std::min<int64_t>(kMostLookedAt, looks);
  int64_t left = most;
  const bool is = pays(e, s.from, s.axis, s, left, shared);
  looks -= most - std::max<int64_t>(left, 0);
  return is;
}

// The sizes that a reshape keeps are copied; behind them one may be open.
Value reshaped(Editor& e, const Shape& to, Value from, size_t axis) {
  Ints dims(axis + 1, 0);
  for (size_t k = axis + 1; k < to.rank(); ++k) dims.push_back(to[k].constant().value_or(-1));
  if (std::count(dims.begin(), dims.end(), -1) > 1) return Value::none();
  return e.add("reshape", {from, list(e, dims)});
}

bool fits(const Shape& found, const Shape& was, const Selection& s) {
  if (!found.has_rank() || found.rank() != was.rank()) return false;
  for (size_t k = 0; k < was.rank(); ++k)
    if (!(found[k] == (k == s.axis ? s.count : was[k]))) return false;
  return true;
}

// The node on selected operands: none where it refuses them or gives something else than the selection of its result.
Value narrowed(Editor& e, const Selection& s, std::vector<Value> inputs) {
  const ir::Node& n = e.node(s.from.node);
  const Shape was = n.types[0].shape;
  const auto comb = s.comb(was);
  const bool window = s.axis >= 2 && comb && has_window(n);
  const ir::Attrs attrs = window ? with_stride(n, s.axis, strides_of(n)[s.axis - 2] * *comb) : n.attrs;
  const Value now =
      n.op->name == "reshape" ? reshaped(e, was, inputs[0], s.axis) : e.add(n.op->name, std::move(inputs), attrs);
  return !now.is_none() && fits(e.shape(now), was, s) ? now : Value::none();
}

bool move(Editor& e, uint32_t id, int64_t& looks) {
  const auto s = selection(e, id);
  if (!s || !worth(e, *s, looks)) return false;
  const std::vector<std::string> own = e.node(id).origin, before = e.node(s->from.node).origin;
  const uint32_t first_new = e.size();
  const auto axes = axes_of(e, s->from.node, s->axis, *s);
  std::vector<Value> inputs = e.node(s->from.node).inputs;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].is_none() || !(*axes)[i]) continue;
    inputs[i] = selected(e, *s, inputs[i], *(*axes)[i]);
    if (inputs[i].is_none()) return false;
  }
  const Value now = narrowed(e, *s, inputs);
  Value result = now;
  if (!now.is_none() && s->vanishes) result = e.add("squeeze", {now, list(e, {static_cast<int64_t>(s->axis)})});
  if (!e.replace({id, 0}, result)) return false;
  // The selection goes on, and what it passed is what it was: neither comes from the other.
  for (uint32_t fresh = first_new; fresh < e.size(); ++fresh)
    if (e.alive(fresh) && ir::is_computed(e.node(fresh))) e.set_origin(fresh, fresh == now.node ? before : own);
  return true;
}

// What a pointwise convolution with strides reads along an axis: a comb of its image.
std::optional<Selection> read_by(const Editor& e, uint32_t id, size_t axis) {
  const ir::Node& n = e.node(id);
  if (n.op->name != "conv" || !has_window(n)) return std::nullopt;
  const Shape &image = e.shape(n.inputs[0]), &taps = e.shape(n.inputs[1]);
  if (!image.has_rank() || !taps.has_rank() || taps.rank() != image.rank() || axis >= image.rank()) return std::nullopt;
  const Ints* pads = n.attrs.get<Ints>("pads");
  if (pads && std::any_of(pads->begin(), pads->end(), [](int64_t p) { return p != 0; })) return std::nullopt;
  for (size_t k = 2; k < taps.rank(); ++k)
    if (!(taps[k] == Dim(1))) return std::nullopt;
  const auto extent = image[axis].constant();
  const int64_t stride = strides_of(n)[axis - 2];
  if (!extent || stride < 2 || *extent < 2) return std::nullopt;
  return Selection{n.inputs[0], axis, Dim((*extent + stride - 1) / stride), false, {}, {0, *extent, stride}};
}

bool is_same(const Selection& a, const Selection& b) {
  return a.from == b.from && a.axis == b.axis && a.places == b.places && a.cut == b.cut;
}

// Takes the stride along an axis out of a pointwise convolution, where all who read its image read the same comb of it and what makes the
// image does less for that.
bool unstride(Editor& e, uint32_t id, int64_t& looks) {
  for (size_t axis = 2; axis < e.node(id).types[0].shape.rank(); ++axis) {
    const auto s = read_by(e, id, axis);
    if (!s || e.is_output(s->from) || s->from.index != 0) continue;
    const std::vector<uint32_t>& users = e.users(s->from.node);
    const bool alike = std::all_of(users.begin(), users.end(), [&](uint32_t user) {
      const auto other = e.node(user).op->name == "slice" ? selection(e, user) : read_by(e, user, axis);
      return other && is_same(*other, *s);
    });
    if (!alike || !worth(e, *s, looks, true)) continue;
    std::vector<Value> inputs = e.node(id).inputs;
    inputs[0] = selected(e, *s, inputs[0], axis);
    if (!inputs[0].is_none() && e.replace({id, 0}, e.add("conv", std::move(inputs), with_stride(e.node(id), axis, 1))))
      return true;
  }
  return false;
}

bool apply(Editor& e, uint32_t id, int64_t& looks) {
  const ir::Node& n = e.node(id);
  if (n.op->name == "conv") return n.types.size() == 1 && n.types[0].shape.has_rank() && unstride(e, id, looks);
  return move(e, id, looks);
}

}  // namespace

// A selection that had to wait for another reader of its value is asked again when that one selects the same.
Expected<ir::Graph> select_early(const ir::Graph& graph, PassContext& context) {
  ir::Graph now = graph;
  int64_t looks = kMostLooks, before = -1;
  for (int round = 0; round < kMostRounds && before != context.applications(); ++round) {
    before = context.applications();
    ISOMER_TRY(now, rewrite_everywhere(now, context, [&](Editor& e, uint32_t id) { return apply(e, id, looks); }));
  }
  return now;
}

}  // namespace isomer::passes
