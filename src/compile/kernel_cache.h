// KernelCache: kernels of groups that were lowered before, by what a scheme sees of a group: its stages, the values they
// touch with their layouts, who reads them. A search lowers thousands of graphs that differ in a few groups, and networks
// repeat their blocks. What a constant holds is no part of a key: kernels that were made for its contents may be kept only by
// plans without weights. Any number of threads may share one.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "compile/kernel.h"
#include "compile/labels.h"

namespace isomer::compile {

class KernelCache {
 public:
  explicit KernelCache(size_t capacity = 1 << 13) : capacity_(capacity) {}

  // Arguments below the number of the group's own values name those in the order of Key::values, the others what the
  // scheme added. -1 - v is value v of the graph, which is none of these; such an entry is of use once.
  struct Entry {
    std::vector<Kernel> kernels;
    std::vector<std::string> signatures;  // of their functions
    std::vector<StageValue> added;
  };
  struct Key {
    std::string bytes;
    std::vector<int> values;
  };

  // What an argument of an entry names.
  static const StageValue& value(const Argument& argument, const Key& key, const Entry& entry, const StageGraph& graph);
  static Key key(const Scene& scene, const Group& group, const Method& method = {});
  std::shared_ptr<const Entry> find(const Key& key) const;
  void add(const Key& key, std::shared_ptr<const Entry> entry);

 private:
  const size_t capacity_;
  mutable std::mutex mutex_;
  std::unordered_map<std::string, std::shared_ptr<const Entry>> entries_;
};

}  // namespace isomer::compile
