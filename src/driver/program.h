// Program: a graph with known input sizes as pieces that run one after the other: compiled ones, single nodes by their
// reference kernels, control flow whose bodies are compiled, and at the end what has to wait for sizes that these tell.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "driver/executor.h"
#include "driver/native.h"
#include "driver/partition.h"
#include "driver/piece.h"

namespace isomer::driver {

class Program {
 public:
  static Expected<std::shared_ptr<Program>> build(ir::Graph graph, const ExecutorOptions& options);
  // The interpreter runs all of it.
  static std::shared_ptr<Program> interpreted(ir::Graph graph, const ExecutorOptions& options, std::string reason);

  Expected<std::vector<Tensor>> run(const std::vector<Tensor>& inputs);
  void add_facts(ExecutorFacts& facts) const;
  void add_report(std::vector<NodeReport>& report) const;
  void add_times(std::vector<StepTime>& times) const;

 private:
  struct Unit {
    Piece piece;
    std::shared_ptr<Native> native;                                // compiled, or
    std::shared_ptr<Variants> later;                               // waiting for sizes, or
    uint32_t node = UINT32_MAX;                                    // a node that is no compiled code itself,
    std::map<const ir::Graph*, std::shared_ptr<Variants>> bodies;  // with the bodies of its control flow
    std::vector<ir::Value> dies;                                   // what nothing reads after this unit
    double seconds = 0, fastest = 0;
    uint64_t runs = 0;
  };
  Program(ir::Graph graph, const ExecutorOptions& options) : graph_(std::move(graph)), options_(options) {}
  Expected<void> build_whole();
  Expected<void> build_pieces();
  Expected<void> add(const std::vector<bool>& taken, By by);
  void find_last_uses();
  Expected<std::vector<Tensor>> run_unit(Unit& unit, const std::vector<Tensor>& inputs);
  Expected<std::vector<Tensor>> interpret(Unit& unit, const std::vector<Tensor>& inputs);
  void count_time(Unit& unit, double seconds);

  ir::Graph graph_;
  ExecutorOptions options_;
  Partition partition_;
  std::shared_ptr<Native> whole_;
  bool interpreted_ = false;
  std::vector<Unit> units_;
  double compile_seconds_ = 0;
  mutable std::mutex mutex_;  // of the times
};

// Variants: a graph whose input sizes, or contents that decide about sizes, are known when it runs: a Program for each of
// the last few that came.
class Variants {
 public:
  // `inner`: a part of a model or a body of control flow, which may be too small to be worth compiling.
  Variants(ir::Graph graph, const ExecutorOptions& options, bool inner)
      : graph_(std::move(graph)), options_(options), inner_(inner) {}

  Expected<std::vector<Tensor>> run(const std::vector<Tensor>& inputs);
  struct Found {
    std::shared_ptr<Program> program;
    std::vector<size_t> looked_at;  // inputs that the program has as constants
  };
  Expected<Found> find(const std::vector<Tensor>& inputs);
  // Makes the version for inputs of these shapes, without contents, unless those decide about sizes.
  Expected<void> foresee(const std::vector<Tensor>& shapes);
  std::shared_ptr<Program> latest() const;
  size_t kept() const;
  void add_report(std::vector<NodeReport>& report) const;  // of all versions that are kept, a node of them once
  double pass_seconds() const { return pass_seconds_; }
  const ir::Graph& graph() const { return graph_; }

 private:
  struct Entry {
    std::vector<std::vector<int64_t>> shapes;
    Found found;
    std::vector<Tensor> contents;  // of the inputs looked at
    bool small = false;            // interpreted, since compiling would take longer
    uint64_t used = 0;
  };
  // Nothing where contents are needed and not there.
  Expected<std::optional<Entry>> make(const std::vector<Tensor>& inputs, bool with_contents);
  const Found& keep(Entry entry);
  bool worth_compiling(const ir::Graph& graph) const;
  const Entry* lookup(const std::vector<Tensor>& inputs);

  const ir::Graph graph_;
  const ExecutorOptions options_;
  const bool inner_;
  mutable std::mutex mutex_;
  std::vector<Entry> entries_;
  uint64_t runs_ = 0, misses_ = 0;
  double pass_seconds_ = 0;
};

}  // namespace isomer::driver
