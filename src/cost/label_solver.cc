#include "cost/label_solver.h"

#include <limits>
#include <set>

namespace isomer::cost {
namespace {

// What was decided about a variable, for each choice of those it depends on.
struct Decision {
  size_t variable = 0;
  std::vector<size_t> others;
  std::vector<size_t> best;
};

class Elimination {
 public:
  Elimination(const std::vector<size_t>& sizes, std::vector<CostTable> tables, size_t limit)
      : sizes_(sizes), tables_(std::move(tables)), limit_(limit), touching_(sizes.size()), price_(sizes.size()) {
    for (size_t t = 0; t < tables_.size(); ++t)
      for (const size_t v : tables_[t].variables) touching_[v].insert(t);
  }

  std::optional<Assignment> run() {
    std::set<std::pair<size_t, size_t>> left;  // how many entries the others have together, variable
    for (size_t v = 0; v < sizes_.size(); ++v) left.emplace(price_[v] = entries(neighbours(v)), v);
    while (!left.empty()) {
      const auto [fewest, variable] = *left.begin();
      if (fewest > limit_ / sizes_[variable]) return std::nullopt;
      left.erase(left.begin());
      for (const size_t v : eliminate(variable)) {
        left.erase({price_[v], v});
        left.emplace(price_[v] = entries(neighbours(v)), v);
      }
    }
    Assignment out;
    for (const CostTable& t : tables_)
      if (!t.costs.empty()) out.cost += t.costs[0];
    out.choice.assign(sizes_.size(), 0);
    for (auto d = decisions_.rbegin(); d != decisions_.rend(); ++d)
      out.choice[d->variable] = d->best[index(d->others, out.choice)];
    return out;
  }

 private:
  std::vector<size_t> neighbours(size_t variable) const {
    std::set<size_t> all;
    for (const size_t t : touching_[variable]) all.insert(tables_[t].variables.begin(), tables_[t].variables.end());
    all.erase(variable);
    return {all.begin(), all.end()};
  }
  // How many choices the variables have together, at most so many that nobody can want them.
  size_t entries(const std::vector<size_t>& variables) const {
    size_t n = 1;
    for (const size_t v : variables) n = n > limit_ ? n : n * sizes_[v];
    return n;
  }
  size_t index(const std::vector<size_t>& variables, const std::vector<size_t>& choice) const {
    size_t at = 0;
    for (const size_t v : variables) at = at * sizes_[v] + choice[v];
    return at;
  }

  // One table over the variable's neighbours in place of all tables that it is in; the neighbours.
  std::vector<size_t> eliminate(size_t variable) {
    const std::vector<size_t> others = neighbours(variable);
    CostTable made{others, std::vector<double>(entries(others), std::numeric_limits<double>::infinity())};
    Decision d{variable, others, std::vector<size_t>(made.costs.size())};
    std::vector<size_t>& choice = choice_;
    choice.resize(sizes_.size());
    for (size_t at = 0; at < made.costs.size(); ++at) {
      size_t code = at;
      for (size_t i = others.size(); i-- > 0;) {
        choice[others[i]] = code % sizes_[others[i]];
        code /= sizes_[others[i]];
      }
      for (size_t c = 0; c < sizes_[variable]; ++c) {
        choice[variable] = c;
        double sum = 0;
        for (const size_t t : touching_[variable]) sum += tables_[t].costs[index(tables_[t].variables, choice)];
        if (sum < made.costs[at]) made.costs[at] = sum, d.best[at] = c;
      }
    }
    const std::set<size_t> gone = std::move(touching_[variable]);
    for (const size_t t : gone) {
      for (const size_t v : tables_[t].variables)
        if (v != variable) touching_[v].erase(t);
      tables_[t] = {};
    }
    for (const size_t v : others) touching_[v].insert(tables_.size());
    tables_.push_back(std::move(made));
    decisions_.push_back(std::move(d));
    return others;
  }

  const std::vector<size_t>& sizes_;
  std::vector<CostTable> tables_;
  const size_t limit_;
  std::vector<std::set<size_t>> touching_;  // by variable: tables
  std::vector<size_t> price_;               // by variable: entries of its neighbours
  std::vector<size_t> choice_;
  std::vector<Decision> decisions_;
};

}  // namespace

std::optional<Assignment> solve(const std::vector<size_t>& sizes, const std::vector<CostTable>& tables, size_t limit) {
  return Elimination(sizes, tables, limit).run();
}

}  // namespace isomer::cost
