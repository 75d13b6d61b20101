#include "ir/attrs.h"

#include <algorithm>
#include <bit>

#include "ir/graph.h"

namespace isomer::ir {

std::string_view name(AttrKind kind) {
  static constexpr std::string_view kNames[] = {"integer", "real", "string", "integers", "reals", "strings",
                                                "tensor",  "type", "graph",  "foreign",  "sizes"};
  return kNames[static_cast<size_t>(kind)];
}

bool equal(const AttrValue& a, const AttrValue& b) {
  if (a.index() != b.index()) return false;
  if (const auto* x = std::get_if<double>(&a))
    return std::bit_cast<uint64_t>(*x) == std::bit_cast<uint64_t>(std::get<double>(b));
  if (const auto* x = std::get_if<std::vector<double>>(&a)) {
    const auto& y = std::get<std::vector<double>>(b);
    return std::equal(x->begin(), x->end(), y.begin(), y.end(),
                      [](double u, double v) { return std::bit_cast<uint64_t>(u) == std::bit_cast<uint64_t>(v); });
  }
  if (const auto* x = std::get_if<GraphRef>(&a)) {
    const GraphRef& y = std::get<GraphRef>(b);
    return *x == y || (*x && y && equal(**x, *y));
  }
  return a == b;
}

Hash128 hash(const AttrValue& v) {
  Hasher h;
  h.add(v.index());
  struct Visitor {
    Hasher& h;
    void operator()(int64_t x) { h.add(static_cast<uint64_t>(x)); }
    void operator()(double x) { h.add(std::bit_cast<uint64_t>(x)); }
    void operator()(const std::string& x) { h.add(x); }
    void operator()(const std::vector<int64_t>& xs) {
      h.add(xs.size());
      for (int64_t x : xs) (*this)(x);
    }
    void operator()(const std::vector<double>& xs) {
      h.add(xs.size());
      for (double x : xs) (*this)(x);
    }
    void operator()(const std::vector<std::string>& xs) {
      h.add(xs.size());
      for (const std::string& x : xs) (*this)(x);
    }
    void operator()(const Tensor& x) { h.add(x.content_hash()); }
    void operator()(DType x) { h.add(static_cast<uint64_t>(x)); }
    void operator()(const GraphRef& x) { h.add(x ? x->content_hash() : Hash128{}); }
    void operator()(const Foreign& x) { h.add(x.bytes); }
    void operator()(const Sizes& xs) {
      h.add(xs.dims.size());
      for (const Dim& x : xs.dims) h.add(x.to_string());
    }
  };
  std::visit(Visitor{h}, v);
  return h.digest();
}

namespace {

constexpr auto kByName = [](const auto& item, std::string_view name) { return item.first < name; };

}  // namespace

Attrs::Attrs(std::initializer_list<std::pair<std::string, AttrValue>> items) {
  for (const auto& [key, value] : items) set(key, value);
}

const AttrValue* Attrs::find(std::string_view name) const {
  const auto it = std::lower_bound(items_.begin(), items_.end(), name, kByName);
  return it != items_.end() && it->first == name ? &it->second : nullptr;
}

void Attrs::set(std::string name, AttrValue value) {
  const auto it = std::lower_bound(items_.begin(), items_.end(), std::string_view(name), kByName);
  if (it != items_.end() && it->first == name)
    it->second = std::move(value);
  else
    items_.emplace(it, std::move(name), std::move(value));
}

void Attrs::erase(std::string_view name) {
  const auto it = std::lower_bound(items_.begin(), items_.end(), name, kByName);
  if (it != items_.end() && it->first == name) items_.erase(it);
}

bool Attrs::operator==(const Attrs& o) const {
  return std::equal(items_.begin(), items_.end(), o.items_.begin(), o.items_.end(),
                    [](const auto& a, const auto& b) { return a.first == b.first && equal(a.second, b.second); });
}

Hash128 Attrs::hash() const {
  Hasher h;
  for (const auto& [key, value] : items_) h.add(key).add(ir::hash(value));
  return h.digest();
}

}  // namespace isomer::ir
