// ByContent: what was found out about graphs, by their content: equality beside the hash. It is bounded: when it is full it
// forgets everything. Any number of threads may use one.
#pragma once

#include <mutex>
#include <optional>
#include <unordered_map>

#include "base/hash.h"
#include "ir/graph.h"

namespace isomer::cost {

template <typename T>
class ByContent {
 public:
  explicit ByContent(size_t capacity) : capacity_(capacity) {}

  std::optional<T> find(const ir::Graph& graph) {
    const std::lock_guard lock(mutex_);
    const auto it = entries_.find(graph.content_hash());
    if (it == entries_.end() || !ir::equal(it->second.graph, graph)) return std::nullopt;
    return it->second.value;
  }

  void add(const ir::Graph& graph, T value) {
    const std::lock_guard lock(mutex_);
    if (entries_.size() >= capacity_) entries_.clear();
    entries_.insert_or_assign(graph.content_hash(), Entry{graph, std::move(value)});
  }

 private:
  struct Entry {
    ir::Graph graph;
    T value;
  };
  const size_t capacity_;
  std::mutex mutex_;  // of what follows
  std::unordered_map<Hash128, Entry> entries_;
};

}  // namespace isomer::cost
