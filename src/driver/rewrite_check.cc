#include "driver/rewrite_check.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "base/random.h"
#include "ops/table.h"
#include "propose/tape.h"
#include "rewrite/instantiate.h"
#include "te/field_domain.h"
#include "tensor/compare.h"

namespace isomer::driver {
namespace {

constexpr int64_t kSmall = 7;          // sizes up to this stay as they are: kernels, strides, pads
constexpr size_t kMostWork = 1 << 18;  // elements that a tape may compute
constexpr int kTries = 60;
constexpr double kOfRounding = 2;  // times what rounding does to an output counts as rounding

rewrite::Bindings at(const rewrite::Rule& rule, const rewrite::Match& match, Random& random) {
  rewrite::Bindings b;
  const auto smaller = [&](int64_t value) { return value > kSmall ? random.between(1, kSmall) : value; };
  for (size_t i = 0; i < rule.symbols.size(); ++i) b.sizes[rule.symbols[i].name] = smaller(match.sizes.symbols[i]);
  for (size_t i = 0; i < rule.lists.size(); ++i) {
    const auto& dims = match.sizes.lists[i];
    b.lengths[rule.lists[i].name] = dims ? static_cast<int64_t>(dims->size()) : 0;
    for (size_t k = 0; dims && k < dims->size(); ++k)
      b.sizes[rule.lists[i].name + "_" + std::to_string(k)] = smaller((*dims)[k]);
  }
  for (size_t i = 0; i < rule.attributes.size(); ++i)
    if (match.attributes[i]) b.attributes[rule.attributes[i].name] = *match.attributes[i];
  for (size_t i = 0; i < rule.types.size(); ++i) b.types[rule.types[i].name] = match.types[i];
  return b;
}

bool meets_conditions(const rewrite::Rule& rule, const rewrite::Bindings& b) {
  rewrite::SizeValues values;
  for (const rewrite::Symbol& s : rule.symbols) values.symbols.push_back(b.sizes.at(s.name));
  for (const rewrite::ListSymbol& l : rule.lists) {
    std::vector<int64_t> dims;
    for (int64_t k = 0; k < b.lengths.at(l.name); ++k) dims.push_back(b.sizes.at(l.name + "_" + std::to_string(k)));
    values.lists.emplace_back(std::move(dims));
  }
  return rewrite::admits(rule, values);
}

// Products of all extents bound the work well enough: a tape of many instructions is not made.
bool cheap(const ir::Graph& g) {
  size_t work = 0;
  for (const ir::Node& n : g.nodes())
    for (const Type& t : n.types) {
      size_t all = 1;
      for (const int64_t d : t.shape.values()) all *= static_cast<size_t>(std::max<int64_t>(d, 1));
      work += all;
    }
  return work <= kMostWork / 64;
}

std::optional<std::vector<uint64_t>> outputs_of(const ir::Graph& g) {
  const auto tape = propose::record(g, ops::table());
  if (!tape.ok()) return std::nullopt;
  Random random(17);
  std::vector<uint64_t> registers(tape->inputs * propose::Tape::kLanes);
  for (uint64_t& w : registers) w = random.below(te::FieldElement::kPrime);
  tape->run(registers);
  std::vector<uint64_t> out;
  for (const uint32_t o : tape->outputs)
    for (size_t l = 0; l < propose::Tape::kLanes; ++l) out.push_back(registers[o * propose::Tape::kLanes + l]);
  return out;
}

Expected<std::vector<Tensor>> run(const ir::Graph& graph, const std::vector<Tensor>& inputs, bool plain) {
  ExecutorOptions options;
  options.native.naive = plain;
  options.optimise = !plain;
  ISOMER_TRY(Executor executor, Executor::make(graph, options));
  return executor.run(inputs);
}

}  // namespace

FieldAnswer test_over_field(const rewrite::Rule& rule, const rewrite::Match& match) {
  for (const DType t : match.types)
    if (!is_float(t)) return FieldAnswer::Untested;
  Random random(1);
  for (int i = 0; i < kTries; ++i) {
    const rewrite::Bindings b = at(rule, match, random);
    if (!meets_conditions(rule, b)) continue;
    const auto left = rewrite::instantiate_side(rule, rule.lhs, b, ops::table());
    if (!left.ok() || !cheap(*left)) continue;
    const auto right = rewrite::instantiate_side(rule, rule.rhs, b, ops::table());
    if (!right.ok()) return FieldAnswer::Fails;
    if (!cheap(*right)) continue;
    for (size_t k = 0; k < left->outputs().size(); ++k)
      if (!(left->type(left->outputs()[k].value) == right->type(right->outputs()[k].value))) return FieldAnswer::Fails;
    const auto a = outputs_of(*left), c = outputs_of(*right);
    if (!a || !c) return FieldAnswer::Untested;
    return *a == *c ? FieldAnswer::Holds : FieldAnswer::Fails;
  }
  return FieldAnswer::Untested;
}

Expected<FieldTests> test_over_field(const ir::Graph& start, const std::vector<const rewrite::Rule*>& rules,
                                     const std::vector<search::Step>& steps) {
  std::vector<const search::Application*> all;
  for (const search::Step& s : steps)
    for (const search::Application& a : s.applications) all.push_back(&a);
  FieldTests out;
  std::map<std::string, FieldAnswer> known;
  size_t at = 0;
  const search::Look look = [&](const rewrite::Rule& rule, const rewrite::Match& match) -> Expected<void> {
    const search::Application& a = *all[at++];
    std::string key = rule.name;
    for (const int64_t s : match.sizes.symbols) key += fmt::format(" {}", s);
    for (const auto& list : match.sizes.lists) key += fmt::format(" /{}", fmt::join(*list, ","));
    auto it = known.find(key);
    if (it == known.end()) it = known.emplace(key, test_over_field(rule, match)).first;
    ++(it->second == FieldAnswer::Untested ? out.untested : out.tested);
    if (it->second == FieldAnswer::Fails && !out.culprit) out.culprit = Culprit{at, a.rule, a.names, 0, true};
    return {};
  };
  ISOMER_CHECK_OK(search::replay(start, ops::table(), rules, steps, look));
  return out;
}

Expected<std::vector<Tensor>> reference_outputs(const ir::Graph& graph, const std::vector<Tensor>& inputs) {
  return run(graph, inputs, true);
}

std::vector<OutputError> output_errors(const ir::Graph& graph, const std::vector<Tensor>& found,
                                       const std::vector<Tensor>& expected) {
  std::vector<OutputError> out;
  for (size_t i = 0; i < expected.size(); ++i) {
    OutputError e{graph.outputs()[i].name, 1e30, !is_float(expected[i].dtype())};
    if (i < found.size()) {
      const Comparison c = compare(found[i], expected[i]);
      if (c.comparable && c.special_mismatches == 0) e.of_largest = c.error_of_largest;
      if (e.exact && c.comparable && c.elements > 0)
        e.of_largest = static_cast<double>(c.mismatches) / static_cast<double>(c.elements);
    }
    out.push_back(std::move(e));
  }
  return out;
}

double worst(const std::vector<OutputError>& errors) {
  double out = 0;
  for (const OutputError& e : errors) out = std::max(out, e.exact && e.of_largest > 0 ? 1e30 : e.of_largest);
  return out;
}

Expected<std::vector<OutputError>> own_errors(const ir::Graph& graph, const std::vector<Tensor>& inputs,
                                              const std::vector<Tensor>& expected) {
  ExecutorOptions options;
  options.native.accuracy = Accuracy::Strict;
  options.optimise = false;
  ISOMER_TRY(Executor executor, Executor::make(graph, options));
  ISOMER_TRY(const std::vector<Tensor> found, executor.run(inputs));
  return output_errors(graph, found, expected);
}

std::vector<OutputError> beyond(std::vector<OutputError> errors, const std::vector<OutputError>& own) {
  for (size_t i = 0; i < std::min(errors.size(), own.size()); ++i)
    if (errors[i].of_largest <= kOfRounding * own[i].of_largest && own[i].of_largest < 1) errors[i].of_largest = 0;
  return errors;
}

Expected<std::optional<Culprit>> find_culprit(const ir::Graph& start, const std::vector<const rewrite::Rule*>& rules,
                                              const std::vector<search::Application>& applications,
                                              const std::vector<Tensor>& inputs, const std::vector<Tensor>& expected,
                                              const std::vector<OutputError>& own, double tolerance) {
  const auto error_after = [&](size_t count) -> Expected<double> {
    search::Step some;
    some.applications.assign(applications.begin(), applications.begin() + static_cast<ptrdiff_t>(count));
    ISOMER_TRY(const search::Replayed replayed, search::replay(start, ops::table(), rules, {some}));
    ISOMER_TRY(const std::vector<Tensor> found, run(replayed.graph, inputs, false));
    return worst(beyond(output_errors(start, found, expected), own));
  };
  ISOMER_TRY(double error, error_after(applications.size()));
  if (!(error > tolerance)) return std::optional<Culprit>();
  // After `good` applications the outputs are right, after `bad` they are not.
  size_t good = 0, bad = applications.size();
  ISOMER_TRY(const double at_start, error_after(0));
  if (at_start > tolerance || bad == 0) return std::optional<Culprit>();
  while (bad - good > 1) {
    const size_t middle = good + (bad - good) / 2;
    ISOMER_TRY(const double e, error_after(middle));
    if (e > tolerance) {
      bad = middle;
      error = e;
    } else {
      good = middle;
    }
  }
  return std::optional(Culprit{bad, applications[bad - 1].rule, applications[bad - 1].names, error, false});
}

}  // namespace isomer::driver
