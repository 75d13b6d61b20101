// A module file (model.so) as the tools see it. It never changes; any number of ModuleRuns may run it at the same time.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/expected.h"
#include "ir/graph.h"
#include "runtime/isomer.h"
#include "tensor/tensor.h"

namespace isomer::driver {

// Whether MODEL names a module: it ends in ".so".
bool is_module_name(std::string_view spec);

class ModuleFile {
 public:
  struct Port {
    std::string name;
    DType dtype = DType::F32;
    std::vector<int64_t> dims;
  };

  // `verify` reads the whole file, weights included. Nothing of a damaged or foreign file is run.
  static Expected<std::shared_ptr<const ModuleFile>> open(const std::string& path, bool verify = false);
  ~ModuleFile();
  ModuleFile(const ModuleFile&) = delete;
  ModuleFile& operator=(const ModuleFile&) = delete;

  const iso_info& info() const { return info_; }
  // At the first of the sizes that it was compiled at.
  const std::vector<Port>& inputs() const { return sizes_[0].inputs; }
  const std::vector<Port>& outputs() const { return sizes_[0].outputs; }
  size_t size_count() const { return sizes_.size(); }
  // The outputs of a run on these inputs; those of the first sizes where none fits, and then the run says so.
  const std::vector<Port>& outputs_for(const std::vector<Tensor>& inputs) const;
  // A graph of the inputs alone, for make_inputs.
  Expected<ir::Graph> input_graph() const;

 private:
  friend class ModuleRun;
  explicit ModuleFile(iso_model* model) : model_(model) {}
  iso_model* model_;
  iso_info info_{};
  struct Ports {
    std::vector<Port> inputs, outputs;
  };
  std::vector<Ports> sizes_;
};

// The memory and threads of one run at a time.
class ModuleRun {
 public:
  // `threads` 0: one per CPU. `flags` of iso_new_context (ISO_POISON, ISO_PROFILE).
  static Expected<ModuleRun> make(std::shared_ptr<const ModuleFile> file, int threads, uint32_t flags = 0);
  ModuleRun(ModuleRun&& o) noexcept : file_(std::move(o.file_)), context_(std::exchange(o.context_, nullptr)) {}
  ModuleRun& operator=(ModuleRun&&) = delete;
  ~ModuleRun();

  // Values in the order of the module's inputs.
  Expected<std::vector<Tensor>> run(const std::vector<Tensor>& inputs);
  // The same into tensors of an earlier run, which nothing else refers to.
  Expected<void> run_into(const std::vector<Tensor>& inputs, std::vector<Tensor>& outputs);
  std::vector<iso_profile> profile() const;

 private:
  ModuleRun(std::shared_ptr<const ModuleFile> file, iso_context* context) : file_(std::move(file)), context_(context) {}
  std::shared_ptr<const ModuleFile> file_;
  iso_context* context_ = nullptr;
};

}  // namespace isomer::driver
