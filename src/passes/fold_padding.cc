// A pad with a constant in front of a window becomes the window's own padding. What the window does with its padding
// decides which constant that may be: a convolution adds zeros, a maximum never takes padding, an average may count it.
#include <algorithm>
#include <cmath>
#include <limits>

#include "passes/editor.h"

namespace isomer::passes {
namespace {

using Ints = std::vector<int64_t>;

// Padding of the spatial axes, [begin..., end...], when a pad node pads nothing else, takes nothing away and is known.
struct Padding {
  Value x;
  Ints pads;
  double value = 0;
};

std::optional<Padding> padding(const Editor& e, Value v) {
  const ir::Node* n = e.made_by(v, "pad");
  if (!n || !e.shape(n->inputs[0]).has_rank() || e.shape(n->inputs[0]).rank() < 3) return std::nullopt;
  if (const std::string* mode = n->attrs.get<std::string>("mode"); mode && *mode != "constant") return std::nullopt;
  const auto operand = [&](size_t i) { return i < n->inputs.size() ? n->inputs[i] : Value::none(); };
  const Tensor* given = e.constant(operand(1));
  if (!given) return std::nullopt;
  Padding p{n->inputs[0], {}, 0};
  if (!operand(2).is_none()) {
    const Tensor* value = e.constant(operand(2));
    if (!value || value->size() != 1) return std::nullopt;
    p.value = is_float(value->dtype()) ? value->real(0) : real_from_int(value->dtype(), value->integer(0));
  }
  const auto rank = static_cast<int64_t>(e.shape(p.x).rank());
  Ints axes;
  if (operand(3).is_none()) {
    for (int64_t a = 0; a < rank; ++a) axes.push_back(a);
  } else {
    const Tensor* listed = e.constant(operand(3));
    if (!listed) return std::nullopt;
    for (int64_t a : listed->to_ints()) axes.push_back(a < 0 ? a + rank : a);
  }
  const Ints amounts = given->to_ints();
  p.pads.assign(static_cast<size_t>(2 * (rank - 2)), 0);
  for (size_t k = 0; k < axes.size(); ++k)
    for (size_t side : {0, 1}) {
      const int64_t amount = amounts[side * axes.size() + k];
      if (amount < 0 || (amount > 0 && axes[k] < 2)) return std::nullopt;
      if (axes[k] >= 2) p.pads[static_cast<size_t>(axes[k] - 2 + static_cast<int64_t>(side) * (rank - 2))] = amount;
    }
  return p;
}

// The node's own padding as numbers; nothing when only a run tells.
std::optional<Ints> own_pads(const ir::Node& n, size_t spatial) {
  const std::string* automatic = n.attrs.get<std::string>("auto_pad");
  if (automatic && *automatic != "NOTSET" && *automatic != "VALID") return std::nullopt;
  const Ints* pads = n.attrs.get<Ints>("pads");
  return pads && !(automatic && *automatic == "VALID") ? *pads : Ints(2 * spatial, 0);
}

bool is_lowest(const Editor& e, Value x, double value) {
  switch (e.type(x).dtype) {
    case DType::I8: return value == std::numeric_limits<int8_t>::min();
    case DType::U8: return value == 0;
    // The lowest finite number would win against an input that is minus infinity.
    default: return value == -std::numeric_limits<double>::infinity();
  }
}

bool zero(const Ints& v) {
  return std::all_of(v.begin(), v.end(), [](int64_t x) { return x == 0; });
}

// Pads of a pool must be smaller than its window, or some window would see padding alone.
bool pads_fit(const ir::Node& n, const Ints& pads) {
  const Ints* kernel = n.attrs.get<Ints>("kernel_shape");
  if (!kernel || kernel->size() * 2 != pads.size()) return false;
  for (size_t i = 0; i < pads.size(); ++i)
    if (pads[i] >= (*kernel)[i % kernel->size()]) return false;
  return true;
}

bool fold(Editor& e, uint32_t id) {
  const ir::Node& n = e.node(id);
  const std::string& op = n.op->name;
  const auto p = padding(e, n.inputs[0]);
  if (!p || n.types.size() != 1) return false;
  const auto own = own_pads(n, p->pads.size() / 2);
  if (!own || own->size() != p->pads.size()) return false;
  Ints pads = *own;
  for (size_t i = 0; i < pads.size(); ++i) pads[i] += p->pads[i];
  ir::Attrs attrs = n.attrs;
  attrs.erase("auto_pad");
  attrs.set("pads", pads);
  if (op == "conv") {
    if (p->value != 0) return false;
  } else {
    // With ceil_mode the last window depends on what is padding and what is not.
    const int64_t* ceil = n.attrs.get<int64_t>("ceil_mode");
    const int64_t* counted = n.attrs.get<int64_t>("count_include_pad");
    if ((ceil && *ceil != 0) || !pads_fit(n, pads)) return false;
    if (op == "max_pool" && !is_lowest(e, p->x, p->value)) return false;
    if (op == "average_pool" && (p->value != 0 || !((counted && *counted != 0) || zero(*own)))) return false;
    if (op == "average_pool") attrs.set("count_include_pad", int64_t{1});
  }
  std::vector<Value> inputs = n.inputs;
  inputs[0] = p->x;
  return e.replace({id, 0}, e.add(op, std::move(inputs), std::move(attrs)));
}

}  // namespace

Expected<ir::Graph> fold_padding(const ir::Graph& graph, PassContext& context) {
  return rewrite_everywhere(graph, context, [](Editor& e, uint32_t id) {
    const std::string& op = e.node(id).op->name;
    return (op == "conv" || op == "max_pool" || op == "average_pool") && fold(e, id);
  });
}

}  // namespace isomer::passes
