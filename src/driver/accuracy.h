// Accuracy: which algorithms compiled code may use, and the trial of those that round more than a sum of products does.
// What a trial says depends on the graph and on nothing else: its inputs are seeded.
#pragma once

#include <cstdint>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "base/expected.h"
#include "compile/rounding.h"
#include "ir/graph.h"
#include "tensor/tensor.h"

namespace isomer::compile {
class Executable;
class KernelCode;
}  // namespace isomer::compile

namespace isomer::driver {

enum class Accuracy : uint8_t {
  Checked,    // any algorithm, as long as the results of a trial stay near those of the strict form
  Unchecked,  // any algorithm
  Strict,     // every product of floats is a sum of products of floats, in some order
};

// How the algorithms of a compiled graph were chosen.
struct AccuracyFacts {
  compile::Rounding used;
  double difference = -1;  // of the trial from the strict form, of the largest magnitude; negative: no trial was needed
  double given_up = -1;    // the same of the faster algorithms that were given up; negative: none were
  double allowed = 0;
  std::string not_tried = {};  // why a trial that was wanted did not take place

  void add(const AccuracyFacts& other);  // of another piece of the same model
  std::string to_string() const;         // one line; empty where there is nothing to say
};

// What results may differ by from the strict form, of their largest magnitude: half of the 1e-4 that is promised, since the
// strict form has errors of its own; a last bit where the graph has values of a type with fewer bits than that.
double most_difference(const ir::Graph& graph);

// Which algorithms a graph is to be compiled with, attempt by attempt.
class RoundingChoice {
 public:
  RoundingChoice(const ir::Graph& graph, Accuracy accuracy);

  const compile::Rounding& allowed() const { return allowed_; }  // in the next attempt
  // The attempt uses these. Whether that needs no trial.
  bool settled(const compile::Rounding& used);
  // The answer of the trial. Whether the attempt is good; otherwise there is to be another one.
  bool accept(const Expected<double>& difference);
  void cannot_try(std::string why) { facts_.not_tried = std::move(why); }

  const AccuracyFacts& facts() const { return facts_; }

 private:
  bool checked_;
  compile::Rounding allowed_;
  AccuracyFacts facts_;
};

// The strict form of a graph beside one that is faster. It is compiled in the background from the start on.
class Trial {
 public:
  // `code`: kernels that the faster form has may be taken from there.
  Trial(const ir::Graph& graph, int threads, int compile_threads, std::shared_ptr<compile::KernelCode> code = nullptr);
  ~Trial();
  Trial(const Trial&) = delete;
  Trial& operator=(const Trial&) = delete;

  // Random values that the faster form is to be run on.
  Expected<std::vector<Tensor>> inputs() const;
  // The largest difference of any float from the strict form, relative to the largest magnitude of its output.
  Expected<double> difference(const std::vector<Tensor>& outputs);
  Expected<std::shared_ptr<const compile::Executable>> strict();

 private:
  const ir::Graph& graph_;
  int threads_;
  std::future<Expected<std::shared_ptr<const compile::Executable>>> building_;
  std::shared_ptr<const compile::Executable> strict_;
  std::vector<Tensor> expected_;
};

}  // namespace isomer::driver
