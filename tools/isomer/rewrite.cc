#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "driver/model.h"
#include "driver/rule_files.h"
#include "isomer/command.h"
#include "isomer/model_options.h"
#include "ops/table.h"
#include "rewrite/apply.h"

namespace isomer::tool {
namespace {

struct RewriteFlags {
  ModelOptions model;
  std::string rules, at, out;
  std::vector<std::string> names;
  bool all = false, explain = false;
  int64_t limit = 0;
};

constexpr int64_t kStandardLimit = 1000;

Expected<std::vector<const rewrite::Rule*>> chosen(const rewrite::RuleLibrary& library, const RewriteFlags& o) {
  if (o.all == !o.names.empty())
    return Diagnostic("E-usage", "say which rules: --rule NAME, any number of times, or --all");
  std::vector<const rewrite::Rule*> rules;
  for (const rewrite::Rule& r : library.rules)
    if (o.all) rules.push_back(&r);
  for (const std::string& name : o.names) {
    const rewrite::Rule* r = library.find(name);
    if (!r)
      return Diagnostic("E-rule-name",
                        fmt::format("there is no rule {}; `isomer rules list` shows them", isomer::quoted(name)));
    rules.push_back(r);
  }
  return rules;
}

// The node whose label or a result has this name.
Expected<uint32_t> find_node(const rewrite::EditGraph& g, const std::string& name) {
  for (uint32_t id = 0; id < g.slots(); ++id) {
    if (!g.alive(id)) continue;
    const ir::Node& n = g.node(id);
    if (n.label == name || std::find(n.names.begin(), n.names.end(), name) != n.names.end()) return id;
  }
  return Diagnostic(
      "E-node-name",
      fmt::format("--at: the model has no node {}; `isomer show --text` prints their names", isomer::quoted(name)));
}

std::string operators(const rewrite::EditGraph& g, const std::vector<uint32_t>& nodes) {
  std::string out;
  for (const uint32_t id : nodes)
    if (g.node(id).op != &ir::const_op()) out += (out.empty() ? "" : ", ") + g.node(id).op->name;
  return out.empty() ? "nothing" : out;
}

// Nodes that a rewrite made may have no name yet.
std::string name_of(const ir::Node& n) { return n.names[0].empty() ? "new " + n.op->name : n.names[0]; }

struct Work {
  const RewriteFlags& options;
  rewrite::EditGraph graph;
  const rewrite::Matcher& matcher;
  Answer answer = {};
  std::map<std::string, int64_t> counts = {};
  int64_t applied = 0;

  // Of all rules, some undo others: each is applied as often as it has matches when its turn comes, so the walk ends.
  uint32_t turn = 0;

  static int64_t count(const rewrite::MatchSet& set, uint32_t rule) {
    return std::count_if(set.matches().begin(), set.matches().end(),
                         [&](const rewrite::Match& m) { return m.rule == rule; });
  }

  // The first match that contains the wanted node, when one is wanted, and that has not failed before.
  const rewrite::Match* next(const rewrite::MatchSet& set, std::optional<uint32_t> at,
                             const std::set<std::vector<uint32_t>>& failed) const {
    for (const rewrite::Match& m : set.matches()) {
      if (options.all && m.rule != turn) continue;
      if (at && std::find(m.nodes.begin(), m.nodes.end(), *at) == m.nodes.end()) continue;
      if (!failed.contains(m.nodes) && matcher.holds(graph, m)) return &m;
    }
    return nullptr;
  }

  Expected<void> run(int64_t limit) {
    std::optional<uint32_t> at;
    if (!options.at.empty()) {
      ISOMER_TRY(at, find_node(graph, options.at));
    }
    rewrite::MatchSet set(matcher, graph);
    std::set<std::vector<uint32_t>> failed;
    int64_t left = options.all && !matcher.patterns().empty() ? count(set, 0) : kStandardLimit;
    while (applied < limit) {
      const rewrite::Match* found = left > 0 ? next(set, at, failed) : nullptr;
      if (!found && options.all && turn + 1 < matcher.patterns().size()) {
        left = count(set, ++turn);
        continue;
      }
      if (!found) break;
      --left;
      const rewrite::Match m = *found;
      const rewrite::Rule& rule = matcher.rule(m.rule);
      const std::string before = operators(graph, m.nodes);
      const std::string where = name_of(graph.node(m.nodes.back()));
      const auto edit = rewrite::apply(graph, rule, m);
      if (!edit.ok()) {
        failed.insert(m.nodes);
        continue;
      }
      const std::string after = operators(graph, edit->added);
      answer.text += fmt::format("{} at {}: {} => {}\n", rule.name, isomer::quoted(where), before, after);
      answer.json["applied"].push_back({{"rule", rule.name}, {"at", where}, {"removed", before}, {"added", after}});
      ++counts[rule.name];
      ++applied;
      set.update(graph, *edit);
      if (at && !graph.alive(*at)) break;
    }
    return {};
  }

  Expected<void> explain() {
    std::optional<uint32_t> at;
    if (!options.at.empty()) {
      ISOMER_TRY(at, find_node(graph, options.at));
    }
    answer.json["declined"] = nlohmann::json::array();
    for (uint32_t r = 0; r < matcher.patterns().size(); ++r)
      for (const rewrite::Decline& d : matcher.explain(graph, r, at)) {
        if (options.all && d.matched == 0) continue;  // another operator altogether
        const std::string node = name_of(graph.node(d.node));
        answer.text += fmt::format("{} declined at {}: {}\n", matcher.rule(r).name, isomer::quoted(node), d.reason);
        answer.json["declined"].push_back({{"rule", matcher.rule(r).name}, {"at", node}, {"reason", d.reason}});
      }
    return {};
  }
};

Expected<Answer> run(const RewriteFlags& o) {
  ISOMER_TRY(const rewrite::RuleLibrary library, driver::load_rule_library(o.rules, rewrite::Trust::Proved));
  ISOMER_TRY(const std::vector<const rewrite::Rule*> rules, chosen(library, o));
  ISOMER_TRY(const driver::Model model, load(o.model));
  rewrite::AttrHabitTable habits(ops::table());
  const rewrite::Matcher matcher(rules, habits);
  Work work{o, rewrite::EditGraph(model.graph, ops::table(), habits), matcher};
  work.answer.json = {{"applied", nlohmann::json::array()}};
  if (o.explain) ISOMER_CHECK_OK(work.explain());
  if (!o.explain) ISOMER_CHECK_OK(work.run(o.limit > 0 ? o.limit : kStandardLimit));
  Answer a = std::move(work.answer);
  ISOMER_TRY(const ir::Graph result, work.graph.graph());
  if (!o.explain)
    a.text += fmt::format("{} applications; {} nodes -> {}\n", work.applied, model.graph.nodes().size(),
                          result.nodes().size());
  a.json["applications"] = work.counts;
  a.json["nodes_before"] = model.graph.nodes().size();
  a.json["nodes_after"] = result.nodes().size();
  if (!o.out.empty()) {
    ISOMER_CHECK_OK(driver::save_model(result, o.out));
    a.text += fmt::format("wrote {}\n", printable(o.out));
    a.json["out"] = o.out;
  }
  return a;
}

}  // namespace

Action declare_rewrite(CLI::App& app) {
  auto o = std::make_shared<RewriteFlags>();
  declare_model(app, o->model);
  app.add_option("--rule", o->names, "A rule to apply; may be given several times");
  app.add_flag("--all", o->all, "Every rule of the library");
  app.add_option("--at", o->at, "Only where the match contains this node (its name, or that of a result)");
  app.add_option("--limit", o->limit, "Most applications")->check(CLI::PositiveNumber);
  app.add_flag("--explain", o->explain, "Say where the rules nearly fit and which condition fails; change nothing");
  app.add_option("--rules", o->rules, "A .rules file or a folder of them in place of the library");
  app.add_option("-o,--out", o->out, "Write the result (.onnx or .iso)");
  return [o] { return run(*o); };
}

}  // namespace isomer::tool
