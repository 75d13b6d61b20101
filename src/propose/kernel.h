// KernelTable: the templates of a family at the shapes they meet, each typed and recorded once. Shapes are kept with
// symbols, for the rules to come, and as numbers, for the tapes. Safe to use from many threads; the ids of shapes depend
// on who came first, so nothing that is kept or printed may depend on them.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "propose/palette.h"
#include "propose/tape.h"

namespace isomer::propose {

using ShapeId = uint16_t;
// Elements of a tensor; larger ones are not enumerated.
inline constexpr int64_t kMaxElements = 96;

struct ShapeInfo {
  std::vector<Dim> dims;
  std::vector<int64_t> numbers;
  size_t elements = 1;
  uint64_t hash = 0;  // of the numbers
};

// A call with all its sizes known as Dims over the family's symbols.
struct ResolvedCall {
  const CallSpec* spec = nullptr;
  std::vector<std::vector<Dim>> operand_sizes;  // per operand; empty where it is no list
  std::vector<Dim> attr_sizes;                  // per entry of spec->sizes
};

struct Kernel {
  bool ok = false;
  std::vector<ResolvedCall> calls;
  std::vector<ShapeId> results;
  Tape tape;
};

// Where an axis was joined: the ways to write its extent as two parts, each of one or more of its terms.
std::vector<std::array<Dim, 2>> cuts(const Dim& extent);

// Sizes of a template's calls when its operands have these dims; nothing when an axis has no such cut.
std::optional<std::vector<ResolvedCall>> resolve(const Template& t, const std::vector<std::vector<Dim>>& operands);

// Adds the calls to a graph, with sizes replaced by what `value_of` answers; the results of the last call.
using SizeOf = std::function<Dim(const Dim&)>;
Expected<std::vector<ir::Value>> build(const Template& t, const std::vector<ResolvedCall>& calls,
                                       const std::vector<ir::Value>& operands, const SizeOf& value_of,
                                       ir::GraphBuilder& builder);

class KernelTable {
 public:
  KernelTable(const Family& family, const ir::OpTable& table);

  const Family& family() const { return family_; }
  const ir::OpTable& table() const { return table_; }
  ShapeId shape(const std::vector<Dim>& dims);
  const ShapeInfo& info(ShapeId id) const { return *shapes_view_[id]; }
  // Of template `t` on operands of these shapes; `ok` is false where it does not fit.
  const Kernel& find(uint32_t t, const ShapeId* operands);

 private:
  Kernel make(uint32_t t, const ShapeId* operands);
  bool fits(const Template& t, const ShapeId* operands) const;
  Dim numbered(const Dim& d) const;

  const Family& family_;
  const ir::OpTable& table_;
  // Template and operand shapes, packed.
  struct Key {
    std::array<uint64_t, 2> words = {};
    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    size_t operator()(const Key& k) const {
      const uint64_t h = (k.words[0] ^ (k.words[1] * 0xC2B2AE3D27D4EB4FULL)) * 0x9E3779B97F4A7C15ULL;
      return static_cast<size_t>(h ^ (h >> 31));
    }
  };
  std::shared_mutex mutex_;
  std::vector<std::unique_ptr<ShapeInfo>> shapes_;
  std::array<const ShapeInfo*, 65536> shapes_view_ = {};
  std::unordered_map<std::string, ShapeId> shape_ids_;
  std::unordered_map<Key, std::unique_ptr<Kernel>, KeyHash> kernels_;
};

}  // namespace isomer::propose
