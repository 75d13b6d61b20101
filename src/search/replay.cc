#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "rewrite/apply.h"
#include "search/search.h"

namespace isomer::search {
namespace {

// Makes applications again, where nodes that rewrites made may have other numbers than they had.
class Replay {
 public:
  Replay(const ir::Graph& graph, const ir::OpTable& table, const std::vector<const rewrite::Rule*>& rules)
      : habits_(table), matcher_(rules, habits_), now_(graph, table, habits_), known_(now_.slots()) {}

  const rewrite::EditGraph& graph() const { return now_; }

  // Nothing when it does not fit.
  Expected<std::optional<Application>> make(const Application& a, const Look& look) {
    const auto match = find(a);
    if (!match) return std::optional<Application>();
    const rewrite::Rule& rule = matcher_.rule(match->rule);
    if (look) ISOMER_CHECK_OK(look(rule, *match));
    Application made{a.rule, match->nodes, match->inputs, {}, {}};
    for (const uint32_t n : match->nodes) made.names.push_back(now_.node(n).names[0]);
    ISOMER_TRY(const rewrite::Edit edit, rewrite::apply(now_, rule, *match));
    for (const uint32_t n : edit.added)
      if (now_.node(n).op != &ir::const_op()) made.added.push_back(n);
    for (size_t k = 0; k < made.added.size() && k < a.added.size(); ++k) here_[a.added[k]] = made.added[k];
    return std::optional(std::move(made));
  }

 private:
  // What a number of the steps stands for now: itself for a node of the model.
  std::optional<uint32_t> here(uint32_t node) const {
    const auto it = here_.find(node);
    if (it != here_.end()) return it->second;
    return node < known_ ? std::optional(node) : std::nullopt;
  }

  std::optional<rewrite::Match> find(const Application& a) const {
    std::vector<uint32_t> nodes;
    for (const uint32_t n : a.nodes) {
      const auto at = here(n);
      if (!at || !now_.alive(*at)) return std::nullopt;
      nodes.push_back(*at);
    }
    if (nodes.empty()) return std::nullopt;
    const auto same = [&](ir::Value wanted, ir::Value found) {
      const auto at = wanted.is_none() ? std::nullopt : here(wanted.node);
      return !at || found == ir::Value{*at, wanted.index};
    };
    for (rewrite::Match& m : matcher_.around(now_, std::span(nodes.data(), 1)))
      if (m.nodes == nodes && matcher_.rule(m.rule).name == a.rule &&
          std::equal(a.inputs.begin(), a.inputs.end(), m.inputs.begin(), m.inputs.end(), same))
        return std::move(m);
    return std::nullopt;
  }

  rewrite::AttrHabitTable habits_;
  rewrite::Matcher matcher_;
  rewrite::EditGraph now_;
  const size_t known_;
  std::map<uint32_t, uint32_t> here_;
};

}  // namespace

Expected<Replayed> replay(const ir::Graph& graph, const ir::OpTable& table,
                          const std::vector<const rewrite::Rule*>& rules, const std::vector<Step>& steps,
                          const Look& look) {
  Replay replay(graph, table, rules);
  Replayed out;
  size_t count = 0;
  for (const Step& s : steps) {
    Step made{{}, s.before, s.after, s.repeated, s.region, s.alone};
    for (const Application& a : s.applications) {
      ++count;
      ISOMER_TRY(std::optional<Application> done, replay.make(a, look));
      if (done) {
        made.applications.push_back(*std::move(done));
        continue;
      }
      return Diagnostic("E-trace",
                        fmt::format("application {} of the trace, of rule {}, does not fit the model; a trace "
                                    "belongs to one model, and to the rules and passes it was written with",
                                    count, isomer::quoted(a.rule)));
    }
    out.steps.push_back(std::move(made));
  }
  ISOMER_TRY(out.graph, replay.graph().graph());
  return out;
}

}  // namespace isomer::search
