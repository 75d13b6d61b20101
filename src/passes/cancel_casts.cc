// Casts that change nothing go, and a cast after one that lost nothing reads the first value.
#include "passes/editor.h"

namespace isomer::passes {
namespace {

int precision(DType t) {  // bits that a float type keeps exactly
  switch (t) {
    case DType::F64: return 53;
    case DType::F32: return 24;
    case DType::F16: return 11;
    case DType::BF16: return 8;
    default: return 0;
  }
}

bool is_signed(DType t) { return t == DType::I8 || t == DType::I16 || t == DType::I32 || t == DType::I64; }

// Every value of `from` is one of `to`.
bool keeps_all(DType from, DType to) {
  if (from == to || from == DType::Bool) return true;
  if (to == DType::Bool || from == DType::Opaque || to == DType::Opaque) return false;
  if (is_float(from)) {
    // f16 has more digits than bf16 and fewer powers: neither holds the other.
    return is_float(to) && precision(to) > precision(from) && !(from == DType::BF16 && to == DType::F16);
  }
  const int bits = static_cast<int>(size_of(from)) * 8 - (is_signed(from) ? 1 : 0);
  if (is_float(to)) return bits <= precision(to);
  const int room = static_cast<int>(size_of(to)) * 8 - (is_signed(to) ? 1 : 0);
  return (is_signed(to) || !is_signed(from)) && bits <= room;
}

// cast(cast(x, middle), to) is cast(x, to). An integer that passes through a float saturates where one that is cast
// directly wraps, so the detour must be of one kind.
bool detour(DType from, DType middle, DType to) {
  if (!keeps_all(from, middle)) return false;
  if (to == from || to == DType::Bool) return true;
  return is_float(from) == is_float(middle) || from == DType::Bool;
}

bool is_cast(const Editor& e, Value v) {
  if (v.is_none() || v.index != 0) return false;
  const std::string& op = e.node(v.node).op->name;
  return op == "cast" || op == "cast_like";
}

bool simplify_cast(Editor& e, uint32_t id) {
  const Value y{id, 0}, x = e.node(id).inputs[0];
  const DType to = e.type(y).dtype;
  if (e.type(x).dtype == to) return e.replace(y, x);
  if (is_cast(e, x)) {
    const Value source = e.node(x.node).inputs[0];
    const DType from = e.type(source).dtype;
    if (detour(from, e.type(x).dtype, to))
      return e.replace(y, from == to ? source : e.add("cast", {source}, {{"to", to}}));
  }
  return e.node(id).op->name == "cast_like" && e.replace(y, e.add("cast", {x}, {{"to", to}}));
}

}  // namespace

Expected<ir::Graph> cancel_casts(const ir::Graph& graph, PassContext& context) {
  return rewrite_everywhere(graph, context,
                            [](Editor& e, uint32_t id) { return is_cast(e, {id, 0}) && simplify_cast(e, id); });
}

}  // namespace isomer::passes
