// TrialKernels: the templates of a family at numbers for sizes, each typed and recorded once and shared by all trials of
// all candidates: recording a convolution costs a hundred times what running it does. Safe to use from many threads;
// what it answers does not depend on what it keeps.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "propose/kernel.h"

namespace isomer::propose {

using Sizes = std::map<std::string, int64_t>;

// A size at these numbers; names without a number stay.
Dim at(const Dim& d, const Sizes& sizes);

struct TrialKernel {
  bool ok = false;
  std::vector<std::vector<int64_t>> results;  // dims
  Tape tape;
};

class TrialKernels {
 public:
  explicit TrialKernels(const ir::OpTable& table) : table_(table) {}
  const ir::OpTable& table() const { return table_; }
  std::shared_ptr<const TrialKernel> find(const Template& t, const std::vector<ResolvedCall>& calls,
                                          const std::vector<std::vector<int64_t>>& operands, const Sizes& sizes);

 private:
  TrialKernel make(const Template& t, const std::vector<ResolvedCall>& calls,
                   const std::vector<std::vector<int64_t>>& operands, const Sizes& sizes) const;

  const ir::OpTable& table_;
  std::mutex mutex_;
  size_t kept_ = 0;  // instructions
  std::unordered_map<std::string, std::shared_ptr<const TrialKernel>> kernels_;
};

}  // namespace isomer::propose
