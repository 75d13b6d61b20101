#include "isomer/node_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/diagnostic.h"

namespace isomer::tool {

namespace {

const char* when(driver::By by) {
  if (by == driver::By::Later) return "specialised when sizes are known";
  return by == driver::By::Driven ? "driven, with compiled bodies" : "reference kernel";
}

}  // namespace

nlohmann::ordered_json node_list(const std::vector<driver::NodeReport>& report) {
  auto out = nlohmann::ordered_json::array();
  // One by one: a list in braces is built three times over, which shows where a model has 200,000 nodes.
  for (const driver::NodeReport& n : report) {
    auto& entry = out.emplace_back(nlohmann::ordered_json::object());
    entry["node"] = n.node;
    entry["operator"] = n.op;
    entry["when"] = when(n.by);
    entry["reason"] = n.reason;
  }
  return out;
}

std::string node_counts(const std::vector<driver::NodeReport>& report) {
  const auto count = [&](driver::By by) {
    return std::count_if(report.begin(), report.end(), [&](const driver::NodeReport& n) { return n.by == by; });
  };
  std::string out;
  const auto add = [&](ptrdiff_t n, const char* what) {
    if (n > 0) out += fmt::format("{}{} {}{}", out.empty() ? "" : ", ", n, n > 1 ? "nodes " : "node ", what);
  };
  add(count(driver::By::Reference), "by reference kernels");
  add(count(driver::By::Driven), "driven round by round with compiled bodies");
  add(count(driver::By::Later), "compiled when a run tells their sizes");
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
