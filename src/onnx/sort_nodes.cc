#include <fmt/format.h>

#include <queue>

#include "onnx/import_proto.h"

namespace isomer::onnx {
namespace {

// A node on a cycle: from any node that is left, following producers that are left must come back.
int node_on_cycle(const std::vector<std::vector<int>>& readers, const std::vector<int>& waiting) {
  const size_t n = readers.size();
  std::vector<int> before(n, -1);
  int start = -1;
  for (size_t i = 0; i < n; ++i) {
    if (waiting[i] == 0) continue;
    start = static_cast<int>(i);
    for (int r : readers[i])
      if (waiting[static_cast<size_t>(r)] > 0) before[static_cast<size_t>(r)] = static_cast<int>(i);
  }
  for (size_t steps = 0; steps < n; ++steps) start = before[static_cast<size_t>(start)];
  return start;
}

}  // namespace

Expected<std::vector<int>> sorted_nodes(const Nodes& nodes,
                                        const std::function<std::vector<std::string_view>(int)>& uses) {
  const int n = nodes.size();
  std::unordered_map<std::string_view, int> producer;
  for (int i = 0; i < n; ++i)
    for (const std::string& name : nodes[i].output()) {
      if (name.empty()) continue;
      const auto [it, fresh] = producer.emplace(name, i);
      if (!fresh)
        return Diagnostic("E-duplicate-name", fmt::format("value {} is made twice, by {} and by {}", quoted(name),
                                                          describe(nodes[it->second]), describe(nodes[i])));
    }
  std::vector<std::vector<int>> readers(static_cast<size_t>(n));
  std::vector<int> waiting(static_cast<size_t>(n), 0);
  for (int i = 0; i < n; ++i)
    for (const std::string_view name : uses(i)) {
      const auto it = name.empty() ? producer.end() : producer.find(name);
      if (it == producer.end()) continue;
      readers[static_cast<size_t>(it->second)].push_back(i);
      ++waiting[static_cast<size_t>(i)];
    }
  std::priority_queue<int, std::vector<int>, std::greater<>> ready;
  for (int i = 0; i < n; ++i)
    if (waiting[static_cast<size_t>(i)] == 0) ready.push(i);
  std::vector<int> order;
  while (!ready.empty()) {
    const int i = ready.top();
    ready.pop();
    order.push_back(i);
    for (int r : readers[static_cast<size_t>(i)])
      if (--waiting[static_cast<size_t>(r)] == 0) ready.push(r);
  }
  if (static_cast<int>(order.size()) != n)
    return Diagnostic("E-cycle", fmt::format("the graph has a cycle through {}, which needs its own result",
                                             describe(nodes[node_on_cycle(readers, waiting)])));
  return order;
}

std::string describe(const ::onnx::NodeProto& node) {
  std::string_view name = node.name();
  if (name.empty() && node.output_size() > 0) name = node.output(0);
  return fmt::format("node {} ({})", quoted(name), printable(node.op_type(), 40));
}

}  // namespace isomer::onnx
