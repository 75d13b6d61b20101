// Attributes of a node: named values in order of their names. Copies share; equality and hash are by content.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/hash.h"
#include "tensor/dim.h"
#include "tensor/dtype.h"
#include "tensor/tensor.h"

namespace isomer::ir {

class Graph;
using GraphRef = std::shared_ptr<const Graph>;

// An attribute of a kind Isomer does not compute with, kept as the bytes of the source file for re-export.
struct Foreign {
  std::string bytes;
  bool operator==(const Foreign&) const = default;
};

// Sizes with symbols where a record declares an integer or integers: how a rule that holds for every stride or pad is
// written down. Made through the interface alone; no file says it, and a graph that is run has none.
struct Sizes {
  explicit Sizes(std::vector<Dim> d) : dims(std::move(d)) {}
  std::vector<Dim> dims;
  bool operator==(const Sizes&) const = default;
};

using AttrValue = std::variant<int64_t, double, std::string, std::vector<int64_t>, std::vector<double>,
                               std::vector<std::string>, Tensor, DType, GraphRef, Foreign, Sizes>;

// In the order of AttrValue's alternatives.
enum class AttrKind : uint8_t { Int, Real, String, Ints, Reals, Strings, Tensor, DType, Graph, Foreign, Sizes };
std::string_view name(AttrKind kind);
inline AttrKind kind_of(const AttrValue& v) { return static_cast<AttrKind>(v.index()); }
bool equal(const AttrValue& a, const AttrValue& b);  // reals by their bits, graphs by structure
Hash128 hash(const AttrValue& v);

class Attrs {
 public:
  Attrs() = default;
  Attrs(std::initializer_list<std::pair<std::string, AttrValue>> items);

  const AttrValue* find(std::string_view name) const;
  bool has(std::string_view name) const { return find(name) != nullptr; }
  void set(std::string name, AttrValue value);
  void erase(std::string_view name);

  // Null when absent or of another kind.
  template <class T>
  const T* get(std::string_view name) const {
    const AttrValue* v = find(name);
    return v ? std::get_if<T>(v) : nullptr;
  }

  bool empty() const { return items_.empty(); }
  auto begin() const { return items_.begin(); }
  auto end() const { return items_.end(); }
  bool operator==(const Attrs& o) const;
  Hash128 hash() const;

 private:
  std::vector<std::pair<std::string, AttrValue>> items_;
};

}  // namespace isomer::ir
