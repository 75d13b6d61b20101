// Compiled code against the interpreter on random architectures: as they are, after a walk of random rewrites (graphs that
// nobody would write, but that a search may come to), with layouts and algorithms at random, and for other CPUs.
//   ISOMER_SEED=n    starts from another seed; a failure prints the one to give
//   ISOMER_CASES=n   another number of networks
#include "codegen/codegen.h"
#include "compile/executable.h"
#include "compile/label_space.h"
#include "driver/labelled.h"
#include "passes/manager.h"
#include "rewrite/apply.h"
#include "rewrite/library.h"
#include "test/compiled_models.h"
#include "test/narrower_targets.h"
#include "test/random_architecture.h"
#include "test/random_bytes.h"

namespace isomer::testing {
namespace {

struct Case {
  uint64_t seed = 0;
  RandomModel model;
  ir::Graph ready;  // the same after all passes
  Reference expected;
  bool poison() const { return seed % 2 == 0; }

  // What is wrong when the model has this graph in place of its own, with the story of how to see it.
  std::string fault_of(ir::Graph graph, const Reference& reference, const Way& way) const {
    const RandomModel m{std::move(graph), model.inputs};
    const std::string why = fault(m, reference, way, poison());
    return why.empty() ? why : story(m, seed, way, poison(), why);
  }
};

Expected<Case> case_of(uint64_t seed) {
  Case out;
  out.seed = seed;
  ISOMER_TRY(out.model, random_architecture(seed, 1 + seed % 5));
  ISOMER_TRY(out.ready, passes::run_pipeline(out.model.graph, ops::table(), "inference"));
  ISOMER_TRY(out.expected, reference(out.model));
  return out;
}

void try_networks(const std::function<std::string(const Case&)>& fault) {
  try_seeds(1, 20, [&](uint64_t seed) {
    const auto c = case_of(seed);
    return c.ok() ? fault(*c) : c.error().to_string();
  });
}

TEST(Architectures, AgreeWithTheInterpreter) {
  try_networks([](const Case& c) {
    return c.fault_of(c.model.graph, c.expected, c.seed % 4 == 0 ? kWithoutPasses : kOptimised);
  });
}

// Some rewrites of the graph, each at a random match.
ir::Graph walked(const ir::Graph& g, std::span<const rewrite::Rule* const> rules, Random random) {
  rewrite::AttrHabitTable habits(ops::table());
  const rewrite::Matcher matcher({rules.begin(), rules.end()}, habits);
  rewrite::EditGraph edit(g, ops::table(), habits);
  rewrite::MatchSet set(matcher, edit);
  for (int64_t i = random.between(1, 25); i > 0 && !set.matches().empty(); --i) {
    const rewrite::Match m = set.matches()[random.below(set.matches().size())];
    if (!matcher.holds(edit, m)) continue;
    const auto done = rewrite::apply(edit, matcher.rule(m.rule), m);
    if (done.ok()) set.update(edit, *done);
  }
  auto after = edit.graph();
  return after.ok() ? *std::move(after) : g;
}

TEST(Architectures, AgreeWithTheInterpreterWhenRewritten) {
  const auto library = rewrite::load_rules(ISOMER_SOURCE_DIR "/rules", ops::table(), rewrite::Trust::AsWritten);
  ASSERT_TRUE(library.ok()) << library.error().to_string();
  std::vector<const rewrite::Rule*> rules;
  for (const rewrite::Rule& r : library->rules) rules.push_back(&r);
  try_networks([&](const Case& c) -> std::string {
    const ir::Graph g = walked(c.ready, rules, Random(c.seed));
    auto after = reference({g, c.model.inputs});
    if (!after.ok()) return after.error().to_string();
    for (size_t k = 0; k < after->tolerance.size(); ++k) after->tolerance[k] += c.expected.tolerance[k];
    const std::string why = difference(c.expected.results, *after);
    return why.empty() ? c.fault_of(g, *after, kOptimised) : "rewrites changed " + why;
  });
}

// Layouts, schemes and cuts, as `--layout` may choose them.
Expected<ir::Graph> with_random_labels(const ir::Graph& g, Random random) {
  compile::KernelCache cache;
  compile::LowerOptions options;
  ISOMER_TRY(options.target, codegen::host_target());
  options.weights = false;
  options.cache = &cache;
  ISOMER_TRY(const auto space, compile::LabelSpace::make(g, ops::table(), options));
  std::vector<size_t> choice;
  for (const auto& v : space.variables()) choice.push_back(random.flip(0.3) ? random.below(v.labels.size()) : 0);
  std::vector<compile::Method> methods(space.factors().size());
  for (compile::Method& m : methods)
    if (random.flip())
      m = {static_cast<compile::Algorithm>(random.below(compile::kAlgorithmCount)),
           {21 * random.between(0, 2), random.between(0, 3), 16 * random.between(0, 2), random.between(0, 4)}};
  return driver::with_labels(g, print(space.labels(choice, methods), options.target));
}

TEST(Architectures, AgreeWithTheInterpreterWhateverTheLabels) {
  try_networks([](const Case& c) {
    auto labelled = with_random_labels(c.ready, Random(c.seed));
    return labelled.ok() ? c.fault_of(*std::move(labelled), c.expected, kWithoutPasses) : labelled.error().to_string();
  });
}

// What is wrong with the code for one of these, or "".
std::string fault_on(const loop::Target& target, const RandomModel& m, const Reference& expected, bool poison,
                     bool strict = false) {
  compile::ExecutableOptions options;
  options.lower.target = target;
  options.lower.winograd = options.lower.split = !strict;
  options.compile_threads = 1;
  const auto made = compile::Executable::build(m.graph, ops::table(), options);
  if (!made.ok()) return "does not compile: " + made.error().to_string();
  auto runner = compile::Runner::make(*made, 2, poison ? ISO_POISON : 0);
  if (!runner.ok()) return runner.error().to_string();
  const auto found = runner->run(m.inputs);
  const std::string why = found.ok() ? difference(*found, expected) : found.error().to_string();
  return why.empty() ? why : target.name + ": " + why;
}

TEST(Architectures, AgreeWithTheInterpreterOnNarrowerCpus) {
  with_narrower_targets([](const std::vector<loop::Target>& targets) {
    try_networks([&](const Case& c) {
      return fault_on(targets[c.seed % targets.size()], {c.ready, c.model.inputs}, c.expected, c.poison());
    });
  });
}

// The graph with other types of inputs and constants; what follows from them is inferred anew.
Expected<ir::Graph> retyped(const ir::Graph& g, const std::function<Type(Type)>& input,
                            const std::function<Tensor(Tensor)>& constant) {
  ir::GraphBuilder b(ops::table(), g.name());
  Copied now;
  for (const ir::Node& n : g.nodes()) {
    if (n.op == &ir::input_op()) {
      ISOMER_TRY(const ir::Value v, b.input(n.names[0], input(n.types[0])));
      now.push_back({v});
    } else if (n.op == &ir::const_op()) {
      now.push_back({b.constant(constant(*n.attrs.get<Tensor>("value")), n.names[0])});
    } else {
      if (n.op->name == "resize") {  // its scales are floats whatever it resizes
        ir::Value& scales = now[n.inputs[2].node][n.inputs[2].index];
        ISOMER_TRY(scales, b.add1("cast", {scales}, {{"to", DType::F32}}));
      }
      ISOMER_TRY(auto made, copied_node(b, n, now));
      now.push_back(std::move(made));
    }
  }
  for (const ir::Output& o : g.outputs()) b.output(o.name, now[o.value.node][o.value.index]);
  return std::move(b).finish();
}

TEST(Architectures, AgreeWithTheInterpreterInOtherFloats) {
  try_networks([](const Case& c) -> std::string {
    const DType to = c.seed % 3 == 0 ? DType::F64 : c.seed % 3 == 1 ? DType::F16 : DType::BF16;
    const auto cast = [&](Tensor t) { return t.dtype() == DType::F32 ? t.cast(to) : t; };
    auto g = retyped(c.model.graph, [&](Type t) { return t.dtype = to, t; }, cast);
    if (!g.ok()) return g.error().to_string();
    const RandomModel m{*std::move(g), {cast(c.model.inputs[0])}};
    auto expected = reference(m);
    if (!expected.ok()) return expected.error().to_string();
    for (double& t : expected->tolerance) t *= 4;  // a result is rounded once, every layer before it too
    const std::string why = fault(m, *expected, kOptimised, c.poison());
    return why.empty() ? why : story(m, c.seed, kOptimised, c.poison(), why);
  });
}

// The number of samples is known to runs alone.
TEST(Architectures, AgreeWithTheInterpreterWithOpenBatches) {
  try_networks([](const Case& c) -> std::string {
    const Tensor& x = c.model.inputs[0];
    if (x.dims()[0] == 1) return "";  // weights may stand for that one sample
    const auto open = [](const Type& t) {
      std::vector<Dim> dims = t.shape.dims();
      dims[0] = Dim::symbol("N");
      return Type{t.dtype, Shape(dims), nullptr};
    };
    const auto g = retyped(c.model.graph, open, [](Tensor t) { return t; });
    if (!g.ok()) return g.error().to_string();
    for (const ir::Graph& now : {*g, *passes::run_pipeline(*g, ops::table(), "inference")})
      if (std::string why = c.fault_of(now, c.expected, kOptimised); !why.empty()) return why;
    return "";
  });
}

TEST(Architectures, OfBytesAreTheSameToTheLastBit) {
  const auto host = codegen::host_target();
  ASSERT_TRUE(host.ok());
  const std::vector<loop::Target> targets = narrower_targets(*host);
  try_seeds(1, 40, [&](uint64_t s) -> std::string {
    const auto m = RandomBytes(s, 1 + s % 5).finish();
    if (!m.ok()) return m.error().to_string();
    const auto expected = reference(*m);
    if (!expected.ok()) return expected.error().to_string();
    // Without tiles of bytes these are products of floats, which the fast algorithms would round.
    const Way way{"strict", s % 4 != 0, false, true};
    if (const std::string why = fault(*m, *expected, way, s % 2 == 0); !why.empty())
      return story(*m, s, way, s % 2 == 0, why);
    const auto ready = passes::run_pipeline(m->graph, ops::table(), "inference");
    if (!ready.ok()) return ready.error().to_string();
    return targets.empty() ? ""
                           : fault_on(targets[s % targets.size()], {*ready, m->inputs}, *expected, s % 2 == 0, true);
  });
}

}  // namespace
}  // namespace isomer::testing
