#include "compile/labels.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <set>

#include "base/contains.h"
#include "compile/byte_stages.h"
#include "compile/constant_stages.h"
#include "compile/integer_products.h"
#include "compile/lower.h"
#include "compile/requantised.h"
#include "compile/widened_products.h"
#include "te/substitute.h"

namespace isomer::compile {
namespace {

constexpr std::string_view kHead = "isomer labels 1 ";
constexpr std::array<std::string_view, kAlgorithmCount> kAlgorithms = {
    "standard", "split", "filtering", "windows", "tiles", "rows", "gathered", "split-filtering"};

std::vector<std::string_view> pieces(std::string_view text, char by) {
  std::vector<std::string_view> out;
  while (true) {
    const size_t end = text.find(by);
    out.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return out;
    text.remove_prefix(end + 1);
  }
}

template <typename Number>
std::optional<Number> number(std::string_view text) {
  Number n = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (failed != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return n;
}

// The numbers of a cut by their names in the text.
constexpr std::array<std::pair<std::string_view, int64_t Cut::*>, 4> kCuts = {
    {{"rows", &Cut::rows}, {"parts", &Cut::parts}, {"columns", &Cut::columns}, {"outputs", &Cut::outputs}}};

std::optional<std::vector<int>> order_of(std::string_view text) {
  std::vector<int> order;
  if (text.empty()) return order;
  for (const std::string_view piece : pieces(text, ',')) {
    const auto dim = number<int>(piece);
    if (!dim) return std::nullopt;
    order.push_back(*dim);
  }
  return order;
}

bool is_order(const std::vector<int>& order, size_t rank) {
  std::vector<bool> seen(rank);
  for (const int d : order) {
    if (d < 0 || static_cast<size_t>(d) >= rank || seen[static_cast<size_t>(d)]) return false;
    seen[static_cast<size_t>(d)] = true;
  }
  return order.size() == rank;
}

te::Expr redirected(const te::Expr& body, int from, int to) {
  te::Substitution substitution;
  substitution.reads([&](const te::Node& read, std::vector<te::Expr> indices) {
    return read.tensor == from ? te::Expr::read(to, read.dtype, std::move(indices)) : te::Expr();
  });
  return substitution(body);
}

// Lets the groups read a copy of the value, except the one that computes it.
void copy_for_readers(Grouped& m, int value, const std::vector<int>& order) {
  StageGraph& g = m.graph;
  const int maker = g.values[static_cast<size_t>(value)].stage;
  // What is never stored has no copy.
  if (std::any_of(m.groups.begin(), m.groups.end(), [&](const Group& x) { return maker >= 0 && x.prologue == maker; }))
    return;
  std::optional<size_t> first;
  int copy = -1;
  for (size_t i = 0; i < m.groups.size(); ++i) {
    Group& group = m.groups[i];
    if (contains(group.stages, maker)) continue;
    for (const int s : group.with_prologue()) {
      ModelStage* stage = &g.stages[static_cast<size_t>(s)];
      if (!contains(values_read(stage->body), value)) continue;
      if (!first) {
        first = i;
        copy = add_copy(g, value);
        stage = &g.stages[static_cast<size_t>(s)];
      }
      stage->body = redirected(stage->body, value, copy);
    }
    if (first && group.contraction)
      group.contraction = contraction(g.stages[static_cast<size_t>(group.stages[0])], g.values);
  }
  if (!first) return;
  m.groups.insert(m.groups.begin() + static_cast<ptrdiff_t>(*first),
                  alone(g, g.values[static_cast<size_t>(copy)].stage));
  m.methods.insert(m.methods.begin() + static_cast<ptrdiff_t>(*first), Method());
  m.names.push_back("");
  m.orders.push_back(order);
}

}  // namespace

std::string_view name(Algorithm algorithm) { return kAlgorithms[static_cast<size_t>(algorithm)]; }

std::string text(const Method& method) {
  std::string out(name(method.algorithm));
  for (const auto& [name, member] : kCuts)
    if (method.cut.*member != 0) out += fmt::format(" {}={}", name, method.cut.*member);
  return out;
}

std::optional<Method> method_of(std::string_view text) {
  const std::vector<std::string_view> words = pieces(text, ' ');
  const auto* algorithm = std::find(kAlgorithms.begin(), kAlgorithms.end(), words[0]);
  if (algorithm == kAlgorithms.end()) return std::nullopt;
  Method out(static_cast<Algorithm>(algorithm - kAlgorithms.begin()));
  for (size_t i = 1; i < words.size(); ++i) {
    const std::vector<std::string_view> sides = pieces(words[i], '=');
    const int64_t value = sides.size() == 2 ? number<int64_t>(sides[1]).value_or(-1) : -1;
    const auto* cut = std::find_if(kCuts.begin(), kCuts.end(), [&](const auto& c) { return c.first == sides[0]; });
    if (value < 0 || cut == kCuts.end()) return std::nullopt;
    out.cut.*(cut->second) = value;
  }
  return out;
}

std::string print(const Labels& labels, const loop::Target& target) {
  std::string out = fmt::format("{}{}\n", kHead, target.cpu);
  for (const auto& [name, l] : labels)
    out += fmt::format("{}\t{}\t{}\t{}\n", name, l.copy ? "copy" : "order", fmt::join(l.order, ","),
                       compile::text(l.method));
  return out;
}

Labels parse_labels(std::string_view text, const loop::Target& target) {
  Labels out;
  const std::vector<std::string_view> lines = pieces(text, '\n');
  if (lines[0] != fmt::format("{}{}", kHead, target.cpu)) return out;
  for (size_t i = 1; i < lines.size(); ++i) {
    const std::vector<std::string_view> fields = pieces(lines[i], '\t');
    if (fields.size() != 4) continue;
    const auto order = order_of(fields[2]);
    const auto method = method_of(fields[3]);
    if (order && method) out[std::string(fields[0])] = {*order, fields[1] == "copy", *method};
  }
  return out;
}

Labels labels_of(const ir::Graph& graph, const loop::Target& target) {
  for (const auto& [key, value] : graph.metadata().properties)
    if (key == kLabelsProperty) return parse_labels(value, target);
  return {};
}

std::vector<std::string> label_names(const StageGraph& graph) {
  std::vector<std::string> out;
  std::map<std::string, int> seen;
  for (const StageValue& v : graph.values) {
    std::string name = v.constant ? "" : v.name;
    // What a line of the text cannot hold has no label.
    if (name.find_first_of("\t\n\r") != std::string::npos) name = "";
    const int count = name.empty() ? 0 : seen[name]++;
    out.push_back(count == 0 ? name : fmt::format("{}#{}", name, count));
  }
  return out;
}

Grouped grouped(StageGraph graph, const LowerOptions& options) {
  Grouped out;
  out.graph = std::move(graph);
  if (options.fuse) {
    if (options.contract) {
      // A part of larger weights counts as weights, and keeps its bytes.
      constant_stages(out.graph, options.weights, Taken::Moves);
      byte_stages(out.graph);
      integer_products(out.graph, options.target);
      widened_products(out.graph);
    }
    constant_stages(out.graph, options.weights);
    merge_products(out.graph);
    split_phases(out.graph);
    host_parts(out.graph);
    inline_stages(out.graph);
    requantised(out.graph);
  }
  out.groups = group_stages(out.graph, options.fuse);
  out.names = label_names(out.graph);
  out.orders.resize(out.graph.values.size());
  out.methods.resize(out.groups.size());
  return out;
}

void open_ports(Grouped& m) {
  constexpr int64_t kColours = 4;  // a picture as it comes into a model is row-major
  for (const int v : m.graph.inputs) {
    const std::vector<int64_t>& dims = m.graph.values[static_cast<size_t>(v)].dims;
    if (dims.size() == 4 && dims[1] > kColours) m.orders[static_cast<size_t>(v)] = {0, 2, 3, 1};
    if (dims.size() == 5 && dims[1] > kColours) m.orders[static_cast<size_t>(v)] = {0, 2, 3, 4, 1};
  }
}

void apply_labels(const Labels& labels, Grouped& m) {
  if (labels.empty()) return;
  const size_t count = m.graph.values.size();
  for (size_t g = 0; g < m.groups.size(); ++g) {
    const int value = m.graph.stages[static_cast<size_t>(m.groups[g].stages.back())].value;
    if (const auto it = labels.find(m.names[static_cast<size_t>(value)]); it != labels.end())
      m.methods[g] = it->second.method;
  }
  for (size_t v = 0; v < count; ++v) {
    const auto it = m.names[v].empty() ? labels.end() : labels.find(m.names[v]);
    if (it == labels.end() || !is_order(it->second.order, m.graph.values[v].dims.size())) continue;
    if (it->second.copy)
      copy_for_readers(m, static_cast<int>(v), it->second.order);
    else
      m.orders[v] = it->second.order;
  }
}

}  // namespace isomer::compile
