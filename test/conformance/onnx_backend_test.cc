// The ONNX project's own cases: every operator's model with inputs and expected outputs. Each case passes or is listed
// in exclusions.txt with one of the allowed reasons; a listed case that passes is an error too.
//   ISOMER_CONFORMANCE_FILTER=substring   only cases whose name contains it
//   ISOMER_CONFORMANCE_VERBOSE=1          one line per failing case, with the reason
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "base/thread_pool.h"
#include "driver/executor.h"
#include "interp/interp.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "onnx/onnx.h"
#include "ops/table.h"
#include "test/conformance/drawn_cases.h"

namespace isomer {
namespace {

namespace fs = std::filesystem;

const std::set<std::string> kReasonKinds = {"sequence", "optional", "map", "string", "training", "random"};

std::map<std::string, std::string> read_exclusions() {
  std::map<std::string, std::string> out;
  std::ifstream file(fs::path(ISOMER_SOURCE_DIR) / "test/conformance/exclusions.txt");
  EXPECT_TRUE(file.good());
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream words(line);
    std::string name, kind;
    words >> name >> kind;
    EXPECT_TRUE(kind.ends_with(":") && kReasonKinds.contains(kind.substr(0, kind.size() - 1))) << line;
    EXPECT_TRUE(out.emplace(name, kind).second) << name << " is listed twice";
  }
  return out;
}

std::vector<std::string> files(const fs::path& folder, const std::string& stem) {
  std::vector<std::string> out;
  for (size_t i = 0; fs::exists(folder / fmt::format("{}_{}.pb", stem, i)); ++i)
    out.push_back((folder / fmt::format("{}_{}.pb", stem, i)).string());
  return out;
}

bool close(double found, double expected, double rtol) {
  if (std::isnan(expected) || std::isnan(found)) return std::isnan(expected) && std::isnan(found);
  if (std::isinf(expected) || std::isinf(found)) return found == expected;
  return std::abs(found - expected) <= 1e-7 + rtol * std::abs(expected);
}

// "" when the value is the expected one.
std::string difference(const Tensor& found, const Tensor& expected) {
  if (found.dtype() != expected.dtype() || found.dims() != expected.dims())
    return fmt::format("type {}, expected {}", found.type().to_string(), expected.type().to_string());
  // The suite cuts the low bits off where bfloat16 rounds: one unit in the last place.
  const double rtol = found.dtype() == DType::BF16 ? 0x1p-7 : 1e-3;
  for (int64_t i = 0; i < found.size(); ++i) {
    const bool same = is_float(found.dtype()) ? close(found.real(i), expected.real(i), rtol)
                                              : found.integer(i) == expected.integer(i);
    if (!same) return fmt::format("element {} is {}, expected {}", i, found.real(i), expected.real(i));
  }
  return "";
}

// The suite stores bfloat16 as the bits in uint16, and one element for a whole tensor of which only the type counts.
Tensor as_declared(const Tensor& value, const Type& declared) {
  const bool bits = declared.dtype == DType::BF16 && value.dtype() == DType::U16;
  const bool one = declared.dtype == value.dtype() && value.size() == 1 && value.rank() == 1;
  if (!declared.shape.is_static() || !(bits || one) || value.size() == 0) return value;
  Tensor out(declared.dtype, declared.shape.values());
  for (int64_t i = 0; i < out.size(); ++i) {
    if (bits)
      out.mutable_as<uint16_t>()[i] = static_cast<uint16_t>(value.integer(i % value.size()));
    else
      is_float(declared.dtype) ? out.set_real(i, value.real(0)) : out.set_integer(i, value.integer(0));
  }
  return out;
}

std::string compare_outputs(const ir::Graph& graph, const std::vector<Tensor>& found, const fs::path& data) {
  const std::vector<std::string> expected = files(data, "output");
  if (found.size() != expected.size()) return fmt::format("{} outputs, expected {}", found.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    const auto want = onnx::load_tensor(expected[i]);
    if (!want.ok()) return want.error().to_string();
    const bool bits = found[i].dtype() == DType::BF16;
    const Tensor declared = bits ? as_declared(*want, found[i].type()) : *want;
    if (const std::string d = difference(found[i], declared); !d.empty())
      return fmt::format("output {}: {}", graph.outputs()[i].name, d);
  }
  return "";
}

// "" when writing the graph and reading it again gives an equal one.
std::string round_trip(const ir::Graph& graph) {
  const auto bytes = onnx::save_bytes(graph);
  if (!bytes.ok()) return "export: " + bytes.error().to_string();
  const auto again = onnx::load_bytes(std::as_bytes(std::span(*bytes)), ops::table());
  if (!again.ok()) return "import of the export: " + again.error().to_string();
  if (ir::equal(graph, again->graph)) return "";
  return fmt::format("the export reads as another graph:\n{}\ninstead of\n{}", ir::print(again->graph),
                     ir::print(graph));
}

struct Case {
  ir::Graph graph;
  std::vector<Tensor> inputs;
};

Expected<Case> load_case(const fs::path& folder) {
  ISOMER_TRY(onnx::Model model, onnx::load((folder / "model.onnx").string(), ops::table()));
  std::vector<Tensor> inputs;
  for (const std::string& file : files(folder / "test_data_set_0", "input")) {
    ISOMER_TRY(Tensor t, onnx::load_tensor(file));
    const bool listed = inputs.size() < model.graph.input_count();
    inputs.push_back(listed ? as_declared(t, model.graph.inputs()[inputs.size()].types[0]) : std::move(t));
  }
  // Test sets of old files give values for the initializers among the inputs too; the graph has them already.
  if (inputs.size() > model.graph.input_count()) inputs.resize(model.graph.input_count());
  return Case{std::move(model.graph), std::move(inputs)};
}

// "" when the case passes, else why not.
std::string run_case(const fs::path& folder) {
  const auto c = load_case(folder);
  if (!c.ok()) return "load: " + c.error().to_string();
  const auto found = interp::run(c->graph, ops::table(), c->inputs);
  if (!found.ok()) return "run: " + found.error().to_string();
  return compare_outputs(c->graph, *found, folder / "test_data_set_0");
}

std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text.substr(0, 300);
}

struct Count {
  int passed = 0, failed = 0, excluded = 0;
};

fs::path data_root() {
#ifdef ISOMER_ONNX_TESTDATA
  return ISOMER_ONNX_TESTDATA;
#else
  return std::getenv("ISOMER_ONNX_TESTDATA") ? std::getenv("ISOMER_ONNX_TESTDATA") : "";
#endif
}

const char* const kCategories[] = {"node", "simple", "pytorch-converted", "pytorch-operator"};

// The cases of a category that the filter lets through, sorted by name.
std::set<fs::path> cases_of(const char* category) {
  const char* text = std::getenv("ISOMER_CONFORMANCE_FILTER");
  const std::string filter = text ? text : "";
  std::set<fs::path> cases;
  for (const auto& entry : fs::directory_iterator(data_root() / category))
    if (entry.path().filename().string().find(filter) != std::string::npos) cases.insert(entry.path());
  return cases;
}

TEST(OnnxBackend, EveryCasePassesOrIsExcludedForAReason) {
  if (data_root().empty())
    FAIL() << "the ONNX test data is not installed; scripts/bootstrap installs it (libonnx-testdata)";
  const bool verbose = std::getenv("ISOMER_CONFORMANCE_VERBOSE") != nullptr;
  const auto exclusions = read_exclusions();
  const char* line = "{:<20} {:>7} {:>7} {:>9}\n";
  fmt::print(fmt::runtime(line), "category", "passed", "failed", "excluded");
  for (const char* category : kCategories) {
    Count count;
    for (const fs::path& folder : cases_of(category)) {
      const std::string name = folder.filename().string();
      const bool excluded = exclusions.contains(name);
      const std::string why = run_case(folder);
      (excluded ? count.excluded : why.empty() ? count.passed : count.failed)++;
      if (excluded && why.empty()) ADD_FAILURE() << name << " is in exclusions.txt, but passes";
      if (verbose && !excluded && !why.empty()) fmt::print("FAIL {}: {}\n", name, one_line(why));
    }
    fmt::print(fmt::runtime(line), category, count.passed, count.failed, count.excluded);
    EXPECT_EQ(count.failed, 0) << "in category " << category;
  }
}

// How much of a case compiled code took, and what is wrong with its results.
struct Compiled {
  std::string why;       // "" when it passes
  std::string not_code;  // the first node that no compiled code took, and why
  bool some = false;     // compiled code took a part
  bool driven = false;   // a loop round by round, its body compiled
};

Compiled run_compiled(const fs::path& folder) {
  Compiled out;
  const auto c = load_case(folder);
  if (!c.ok()) return {"load: " + c.error().to_string()};
  driver::ExecutorOptions options;
  options.native.threads = 2;
  options.native.compile_threads = 1;
  options.native.poison = true;
  options.native.accuracy = driver::Accuracy::Unchecked;  // the fast algorithms themselves are tested
  options.eager = true;
  auto executor = driver::Executor::make(c->graph, options);
  if (!executor.ok()) return {"compile: " + executor.error().to_string()};
  const auto found = executor->run(c->inputs);
  if (!found.ok()) return {"run: " + found.error().to_string()};
  const std::vector<driver::NodeReport> report = executor->report();
  for (const driver::NodeReport& n : report)
    if (n.reason.starts_with("compiling failed")) return {n.reason};
  const driver::ExecutorFacts facts = executor->facts();
  out.some = facts.pieces > 0;
  for (const driver::NodeReport& n : report) {
    if (n.by == driver::By::Driven)
      out.driven = true;
    else if (out.not_code.empty())
      out.not_code = fmt::format("{} ({}): {}", n.node, n.op, n.reason);
  }
  out.why = compare_outputs(c->graph, *found, folder / "test_data_set_0");
  return out;
}

// No node of a case that passes may be left to a reference kernel; there are no exceptions.
TEST(OnnxBackend, EveryCasePassesCompiled) {
  if (data_root().empty())
    FAIL() << "the ONNX test data is not installed; scripts/bootstrap installs it (libonnx-testdata)";
  const auto exclusions = read_exclusions();
  ThreadPool pool;
  const char* line = "{:<20} {:>9} {:>7} {:>7} {:>12} {:>7}\n";
  fmt::print(fmt::runtime(line), "category", "compiled", "driven", "partly", "interpreted", "failed");
  for (const char* category : kCategories) {
    std::vector<fs::path> cases;
    for (const fs::path& folder : cases_of(category))
      if (!exclusions.contains(folder.filename().string())) cases.push_back(folder);
    std::vector<Compiled> results(cases.size());
    pool.run(static_cast<int>(cases.size()), [&](int i) {
      const auto k = static_cast<size_t>(i);
      results[k] = run_compiled(cases[k]);
    });
    int all = 0, driven = 0, some = 0, none = 0, failed = 0;
    for (size_t i = 0; i < cases.size(); ++i) {
      const Compiled& r = results[i];
      (!r.why.empty() ? failed : !r.not_code.empty() ? (r.some ? some : none) : r.driven ? driven : all)++;
      EXPECT_EQ(r.not_code, "") << cases[i].filename().string();
      if (!r.why.empty()) ADD_FAILURE() << cases[i].filename().string() << ": " << one_line(r.why);
    }
    fmt::print(fmt::runtime(line), category, all, driven, some, none, failed);
  }
}

// Draws are on the list since no file holds the state of the generator; all that their definition says holds all the same.
TEST(OnnxBackend, EveryDrawComesAsOftenAsItsChanceSays) {
  if (data_root().empty())
    FAIL() << "the ONNX test data is not installed; scripts/bootstrap installs it (libonnx-testdata)";
  for (const auto& [name, kind] : read_exclusions()) {
    if (kind != "random:") continue;
    const fs::path folder = data_root() / "node" / name;
    const auto c = load_case(folder);
    const auto stored = onnx::load_tensor((folder / "test_data_set_0" / "output_0.pb").string());
    ASSERT_TRUE(c.ok() && stored.ok()) << name;
    EXPECT_EQ(testing::unlike_coins(c->graph, c->inputs, *stored), "") << name;
    driver::ExecutorOptions options;
    options.eager = true;
    auto executor = driver::Executor::make(c->graph, options);
    ASSERT_TRUE(executor.ok()) << name << ": " << executor.error().to_string();
    const auto compiled = executor->run(c->inputs), plain = interp::run(c->graph, ops::table(), c->inputs);
    ASSERT_TRUE(compiled.ok() && plain.ok()) << name;
    EXPECT_EQ(difference(compiled->at(0), plain->at(0)), "") << name;
    EXPECT_TRUE(executor->report().empty()) << name << ": a node is left to a reference kernel";
  }
}

TEST(OnnxBackend, EveryExclusionIsACase) {
  if (data_root().empty())
    FAIL() << "the ONNX test data is not installed; scripts/bootstrap installs it (libonnx-testdata)";
  for (const auto& [name, kind] : read_exclusions()) {
    bool found = false;
    for (const char* category : kCategories) found |= fs::exists(data_root() / category / name);
    EXPECT_TRUE(found) << name;
  }
}

TEST(OnnxBackend, EveryGraphIsValidAndItsTextReadsBack) {
  if (data_root().empty())
    FAIL() << "the ONNX test data is not installed; scripts/bootstrap installs it (libonnx-testdata)";
  for (const char* category : kCategories)
    for (const fs::path& folder : cases_of(category)) {
      const auto model = onnx::load((folder / "model.onnx").string(), ops::table());
      if (!model.ok()) continue;  // the first test says so
      const auto valid = ir::verify(model->graph, ops::table());
      EXPECT_TRUE(valid.ok()) << folder.filename() << ": " << valid.error().to_string();
      const std::string text = ir::print(model->graph);
      const auto again = ir::parse(text, ops::table());
      if (!again.ok())
        ADD_FAILURE() << folder.filename() << ": " << again.error().to_string();
      else
        EXPECT_TRUE(ir::identical(model->graph, *again)) << folder.filename();
    }
}

TEST(OnnxBackend, EveryModelSurvivesExportAndImport) {
  if (data_root().empty())
    FAIL() << "the ONNX test data is not installed; scripts/bootstrap installs it (libonnx-testdata)";
  for (const char* category : kCategories)
    for (const fs::path& folder : cases_of(category)) {
      const auto model = onnx::load((folder / "model.onnx").string(), ops::table());
      if (!model.ok()) continue;  // the first test says so
      EXPECT_EQ(round_trip(model->graph), "") << folder.filename();
    }
}

}  // namespace
}  // namespace isomer
