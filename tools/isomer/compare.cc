#include <fmt/format.h>

#include <cmath>

#include "driver/executor.h"
#include "driver/inputs.h"
#include "driver/model.h"
#include "driver/module_file.h"
#include "driver/quanta.h"
#include "isomer/command.h"
#include "isomer/model_options.h"
#include "isomer/node_list.h"
#include "isomer/run_options.h"
#include "tensor/compare.h"

namespace isomer::tool {
namespace {

struct CompareFlags {
  ModelOptions model;
  RunOptions run;
  std::string other, data;
  double rtol = 1e-3, atol = 1e-5;
  double tolerance = 1e-4;  // of the largest magnitude, when a model is compared with its own meaning
};

struct Pair {
  std::string name;
  Tensor expected, found;
};

// What ran uncompiled goes into `uncompiled`, where somebody asks.
Expected<std::vector<Tensor>> run(const ir::Graph& graph, const std::vector<Tensor>& inputs,
                                  const driver::ExecutorOptions& options,
                                  std::vector<driver::NodeReport>* uncompiled = nullptr) {
  ISOMER_TRY(driver::Executor executor, driver::Executor::make(graph, options));
  auto outputs = executor.run(inputs);
  if (uncompiled && !options.reference) *uncompiled = executor.report();
  return outputs;
}

Answer report(const std::vector<Pair>& pairs, const CompareFlags& o) {
  Answer a;
  a.json = {{"equal", true}, {"rtol", o.rtol}, {"atol", o.atol}, {"outputs", nlohmann::json::array()}};
  a.text = fmt::format("{:<24}{:<24}{:>14}{:>14}  {}\n", "output", "type", "max abs error", "max rel error", "verdict");
  for (const Pair& p : pairs) {
    const Comparison c = isomer::compare(p.found, p.expected, {.absolute = o.atol, .relative = o.rtol});
    const std::string verdict = c.ok() ? "agrees" : c.to_string();
    a.text += fmt::format("{:<24}{:<24}{:>14.3g}{:>14.3g}  {}\n", printable(p.name), p.found.type().to_string(),
                          c.max_abs_error, c.max_rel_error, verdict);
    a.json["outputs"].push_back({{"name", p.name},
                                 {"type", p.found.type().to_string()},
                                 {"equal", c.ok()},
                                 {"max_abs_error", c.max_abs_error},
                                 {"max_rel_error", c.max_rel_error},
                                 {"error_of_largest", c.error_of_largest},
                                 {"mismatches", c.mismatches},
                                 {"verdict", verdict}});
    if (!c.ok()) a.exit_code = 1;
  }
  a.json["equal"] = a.exit_code == 0;
  a.text += a.exit_code == 0 ? fmt::format("equal within rtol {:g}, atol {:g}\n", o.rtol, o.atol)
                             : fmt::format("DIFFERENT beyond rtol {:g}, atol {:g}\n", o.rtol, o.atol);
  return a;
}

void add_uncompiled(const std::vector<driver::NodeReport>& nodes, Answer& a) {
  a.json["reference_nodes"] = node_list(nodes);
  if (nodes.empty()) return;
  a.text += fmt::format("not compiled as a whole: {}\n{}", node_counts(nodes), node_lines(nodes));
}

Expected<std::vector<Tensor>> inputs_of(const driver::DataSet& set, const std::string& folder) {
  std::vector<Tensor> inputs;
  for (size_t i = 0; i < set.inputs.size(); ++i) {
    if (!set.inputs[i])
      return Diagnostic("E-data-set", fmt::format("input_{}.pb is missing in {}", i, isomer::quoted(folder)));
    inputs.push_back(*set.inputs[i]);
  }
  return inputs;
}

Expected<std::vector<Pair>> paired(const std::vector<std::string>& names, const std::vector<Tensor>& found,
                                   const driver::DataSet& set) {
  if (found.size() != set.outputs.size())
    return Diagnostic("E-data-set",
                      fmt::format("the model has {} outputs, the data set {}", found.size(), set.outputs.size()));
  std::vector<Pair> pairs;
  for (size_t i = 0; i < found.size(); ++i) pairs.push_back({names[i], set.outputs[i], found[i]});
  return pairs;
}

Expected<std::vector<Pair>> against_data(const driver::Model& model, const CompareFlags& o,
                                         std::vector<driver::NodeReport>& uncompiled) {
  ISOMER_TRY(const driver::DataSet set, driver::load_data_set(o.data, model.graph.input_count()));
  ISOMER_TRY(const std::vector<Tensor> inputs, inputs_of(set, o.data));
  ISOMER_TRY(const std::vector<Tensor> outputs, run(model.graph, inputs, executor_options(o.run), &uncompiled));
  std::vector<std::string> names;
  for (const ir::Output& output : model.graph.outputs()) names.push_back(output.name);
  return paired(names, outputs, set);
}

Expected<std::vector<Pair>> module_against_data(const CompareFlags& o) {
  ISOMER_TRY(const auto file, driver::ModuleFile::open(o.model.spec));
  ISOMER_TRY(const driver::DataSet set, driver::load_data_set(o.data, file->inputs().size()));
  ISOMER_TRY(const std::vector<Tensor> inputs, inputs_of(set, o.data));
  ISOMER_TRY(driver::ModuleRun module, driver::ModuleRun::make(file, o.run.threads));
  ISOMER_TRY(const std::vector<Tensor> outputs, module.run(inputs));
  std::vector<std::string> names;
  for (const auto& output : file->outputs()) names.push_back(output.name);
  return paired(names, outputs, set);
}

// B's inputs are matched to A's by name, or by position where no name agrees; so are its outputs.
template <class Items, class NameOf>
Expected<std::vector<size_t>> match(const Items& a, const Items& b, NameOf name, const char* what) {
  if (a.size() != b.size())
    return Diagnostic("E-interface", fmt::format("the first model has {} {}, the second {}", a.size(), what, b.size()));
  std::vector<size_t> found;
  for (size_t i = 0; i < a.size(); ++i)
    for (size_t k = 0; k < b.size(); ++k)
      if (name(a[i]) == name(b[k])) found.push_back(k);
  if (found.size() == a.size()) return found;
  if (!found.empty())
    return Diagnostic("E-interface",
                      fmt::format("only {} of {} {} have the same names in both models", found.size(), a.size(), what));
  for (size_t i = 0; i < a.size(); ++i) found.push_back(i);
  return found;
}

Expected<std::vector<Pair>> against_model(const driver::Model& model, const CompareFlags& o) {
  ModelOptions second = o.model;
  second.spec = o.other;
  ISOMER_TRY(const driver::Model other, load(second));
  const auto input_name = [](const ir::Node& n) { return n.names[0]; };
  const auto output_name = [](const ir::Output& x) { return x.name; };
  ISOMER_TRY(const std::vector<size_t> in, match(model.graph.inputs(), other.graph.inputs(), input_name, "inputs"));
  ISOMER_TRY(const std::vector<size_t> out,
             match(model.graph.outputs(), other.graph.outputs(), output_name, "outputs"));
  ISOMER_TRY(const driver::InputOptions options, input_options(o.run));
  ISOMER_TRY(const std::vector<Tensor> inputs, driver::make_inputs(model.graph, options));
  std::vector<Tensor> other_inputs(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) other_inputs[in[i]] = inputs[i];
  ISOMER_TRY(const std::vector<Tensor> expected, run(model.graph, inputs, executor_options(o.run)));
  ISOMER_TRY(const std::vector<Tensor> found, run(other.graph, other_inputs, executor_options(o.run)));
  std::vector<Pair> pairs;
  for (size_t i = 0; i < expected.size(); ++i)
    pairs.push_back({model.graph.outputs()[i].name, expected[i], found[out[i]]});
  return pairs;
}

double largest(const Tensor& t) {
  double out = 0;
  for (int64_t i = 0; i < t.size(); ++i)
    if (const double v = std::abs(t.real(i)); std::isfinite(v)) out = std::max(out, v);
  return out;
}

constexpr double kMostMoved =
    0.1;  // of the largest magnitude: what roundings that fall otherwise may come to at the end

// A second look at a model that is not within the tolerance at its end: every rounding to few bits by itself. Whether all is well then.
Expected<bool> agrees_by_quanta(const driver::Model& model, const std::vector<Tensor>& inputs,
                                const driver::ExecutorOptions& fast, const driver::ExecutorOptions& naive,
                                const std::vector<double>& at_the_end, const CompareFlags& o, Answer& a) {
  ISOMER_TRY(const std::optional<driver::Quanta> q, driver::quanta(model.graph, inputs, fast, naive, o.tolerance));
  if (!q) return false;
  bool fine = q->wrong() == 0;
  nlohmann::json wrong = nlohmann::json::array();
  a.text += fmt::format(
      "{} values are rounded to few bits: {} of {} numbers otherwise than by the reference, {} of them wrongly\n",
      q->values.size(), q->moved(), q->elements(), q->wrong());
  for (const driver::RoundedValue& v : q->values) {
    if (v.wrong == 0) continue;
    wrong.push_back({{"name", v.name}, {"moved", v.moved}, {"wrong", v.wrong}, {"quanta", v.most}});
    a.text += fmt::format("  {:<22}{} of {} numbers wrong, by up to {:.4g} quanta\n", printable(v.name), v.wrong,
                          v.elements, v.most);
  }
  for (size_t i = 0; i < q->found.size(); ++i) {
    auto& output = a.json["outputs"][i];
    if (q->found[i]) {
      const Comparison c = isomer::compare(*q->found[i], *q->expected[i],
                                           {.absolute = o.tolerance * largest(*q->expected[i]), .relative = 0});
      fine = fine && c.ok();
      output["error_behind_roundings"] = c.error_of_largest;
      a.text += fmt::format("  {:<22}{:.3g} of the largest from the roundings before it\n",
                            printable(model.graph.outputs()[i].name), c.error_of_largest);
    }
    fine = fine && at_the_end[i] <= kMostMoved;
  }
  a.json["quanta"] = {
      {"values", q->values.size()}, {"numbers", q->elements()}, {"moved", q->moved()}, {"wrong", wrong}};
  return fine;
}

// What the optimised and compiled model computes against its meaning: plain loops in double, without any pass.
Expected<Answer> against_meaning(const driver::Model& model, const CompareFlags& o) {
  ISOMER_TRY(const driver::InputOptions options, input_options(o.run));
  ISOMER_TRY(const std::vector<Tensor> inputs, driver::make_inputs(model.graph, options));
  driver::ExecutorOptions naive = executor_options(o.run);
  naive.native.naive = true;
  naive.optimise = false;
  naive.wide = naive.reference;
  driver::ExecutorOptions fast = executor_options(o.run);
  fast.reference = false;
  std::vector<driver::NodeReport> uncompiled;
  ISOMER_TRY(const std::vector<Tensor> found, run(model.graph, inputs, fast, &uncompiled));
  ISOMER_TRY(const std::vector<Tensor> expected, run(model.graph, inputs, naive));
  Answer a;
  a.json = {{"equal", true}, {"tolerance", o.tolerance}, {"outputs", nlohmann::json::array()}};
  a.text =
      fmt::format("{:<24}{:<24}{:>14}{:>16}  {}\n", "output", "type", "max abs error", "of the largest", "verdict");
  std::vector<double> at_the_end;  // errors, relative to the largest magnitude
  for (size_t i = 0; i < found.size(); ++i) {
    const Comparison c =
        isomer::compare(found[i], expected[i], {.absolute = o.tolerance * largest(expected[i]), .relative = 0});
    const std::string verdict = c.ok() ? "agrees" : c.to_string();
    at_the_end.push_back(c.comparable && c.special_mismatches == 0 ? c.error_of_largest : 1e30);
    const std::string& name = model.graph.outputs()[i].name;
    a.text += fmt::format("{:<24}{:<24}{:>14.3g}{:>16.3g}  {}\n", printable(name), found[i].type().to_string(),
                          c.max_abs_error, c.error_of_largest, verdict);
    a.json["outputs"].push_back({{"name", name},
                                 {"type", found[i].type().to_string()},
                                 {"equal", c.ok()},
                                 {"max_abs_error", c.max_abs_error},
                                 {"error_of_largest", c.error_of_largest},
                                 {"mismatches", c.mismatches},
                                 {"verdict", verdict}});
    if (!c.ok()) a.exit_code = 1;
  }
  bool by_quanta = false;
  if (a.exit_code != 0) {
    ISOMER_TRY(by_quanta, agrees_by_quanta(model, inputs, fast, naive, at_the_end, o, a));
    if (by_quanta) a.exit_code = 0;
  }
  a.json["equal"] = a.exit_code == 0;
  a.text += fmt::format("{} the reference, {}, within {:g} of the largest magnitude{}\n",
                        a.exit_code == 0 ? "compiled code agrees with" : "compiled code DIFFERS from",
                        naive.reference ? "the interpreter in double" : "plain loops in double", o.tolerance,
                        by_quanta ? " at every rounding to few bits and behind the last one" : "");
  add_uncompiled(uncompiled, a);
  return a;
}

}  // namespace

Action declare_compare(CLI::App& app) {
  auto o = std::make_shared<CompareFlags>();
  app.add_option("A", o->model.spec, "The model whose answer is expected; with --data also a module (*.so)")
      ->required();
  app.add_option("B", o->other, "The model to compare with it; without it and --data, A compiled against A's meaning");
  app.add_option("--data", o->data, "An ONNX test data set folder (input_N.pb, output_N.pb) to compare A with");
  declare_bindings(app, o->model);
  declare_run_options(app, o->run);
  app.add_option("--rtol", o->rtol, "Relative tolerance")->capture_default_str();
  app.add_option("--atol", o->atol, "Absolute tolerance")->capture_default_str();
  app.add_option("--tolerance", o->tolerance, "With A alone: largest error, relative to the output's largest magnitude")
      ->capture_default_str();
  return [o]() -> Expected<Answer> {
    if (!o->other.empty() && !o->data.empty())
      return Diagnostic("E-usage", "expected a second model or --data FOLDER, found both");
    if (!(o->rtol >= 0) || !(o->atol >= 0) || !(o->tolerance >= 0))
      return Diagnostic("E-usage", "expected tolerances of at least 0");
    if (driver::is_module_name(o->model.spec)) {
      if (o->data.empty())
        return Diagnostic("E-usage", "a module is compared with a data set: give --data FOLDER, or compare its model");
      ISOMER_TRY(const std::vector<Pair> pairs, module_against_data(*o));
      return report(pairs, *o);
    }
    ISOMER_TRY(const driver::Model model, load(o->model));
    if (o->other.empty() && o->data.empty()) return against_meaning(model, *o);
    std::vector<driver::NodeReport> uncompiled;
    ISOMER_TRY(const std::vector<Pair> pairs,
               o->data.empty() ? against_model(model, *o) : against_data(model, *o, uncompiled));
    Answer a = report(pairs, *o);
    add_uncompiled(uncompiled, a);
    return a;
  };
}

}  // namespace isomer::tool
