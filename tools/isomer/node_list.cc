#include "isomer/node_list.h"

#include <fmt/format.h>

#include <map>

#include "base/diagnostic.h"

namespace isomer::tool {

nlohmann::ordered_json node_list(const std::vector<driver::NodeReport>& report) {
  auto out = nlohmann::ordered_json::array();
  for (const driver::NodeReport& n : report)
    out.push_back({{"node", n.node},
                   {"operator", n.op},
                   {"when", n.by == driver::By::Later ? "specialised when sizes are known" : "reference kernel"},
                   {"reason", n.reason}});
  return out;
}

std::string node_lines(const std::vector<driver::NodeReport>& report) {
  struct Alike {
    std::string first;
    size_t count = 0;
  };
  std::map<std::pair<std::string, std::string>, Alike> groups;
  for (const driver::NodeReport& n : report) {
    Alike& a = groups[{n.op, n.reason}];
    if (a.count++ == 0) a.first = n.node;
  }
  std::string out;
  for (const auto& [key, a] : groups)
    out += fmt::format("  {:<28}{:>5}  {}{}: {}\n", printable(key.first), a.count, isomer::quoted(a.first),
                       a.count > 1 ? " and others" : "", printable(key.second, 200));
  return out;
}

}  // namespace isomer::tool
