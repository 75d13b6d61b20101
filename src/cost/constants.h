// Constants: what constant subexpressions of a graph become when nobody wants their values. Small ones are computed, since
// shapes and patterns depend on their contents; large ones become hollow tensors: of the right type, with contents that
// nobody may rely on, told apart by the expression they stand for, and without memory behind them. The same expression
// gives the same tensor, so a search that meets it again pays nothing.
#pragma once

#include <mutex>
#include <optional>
#include <shared_mutex>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/expected.h"
#include "ir/op.h"

namespace isomer::cost {

class Constants {
 public:
  explicit Constants(size_t capacity = 1 << 13) : capacity_(capacity) {}

  // Held as long as somebody has tensors that came from here; what is known is forgotten only while nobody does.
  std::shared_lock<std::shared_mutex> use();

  // The results of a node whose inputs are all known. A diagnostic where they must be computed and an input is hollow.
  // May be called by any number of threads.
  Expected<std::vector<Tensor>> evaluate(const ir::OpContext& node);
  bool is_hollow(const Tensor& tensor) const;

 private:
  struct Entry {
    std::string op;  // the expression: equality beside the hash
    ir::Attrs attrs;
    std::vector<std::optional<Tensor>> inputs;
    std::vector<Tensor> results;
  };
  static bool same(const Entry& entry, const ir::OpContext& node);
  bool hollow(const Tensor& tensor) const { return hollow_.count(tensor.bytes()) > 0; }
  Expected<std::vector<Tensor>> make(const ir::OpContext& node, const Hash128& hash);

  const size_t capacity_;
  std::shared_mutex users_;
  mutable std::mutex mutex_;
  std::unordered_map<Hash128, Entry> entries_;
  std::unordered_set<const std::byte*> hollow_;  // first bytes of the hollow tensors, which entries_ keeps alive
};

}  // namespace isomer::cost
