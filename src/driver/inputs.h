// Values for a model's inputs: from files (.npy, .npz, .pb, raw .bin), from an ONNX test data set, or seeded random ones.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/expected.h"
#include "ir/graph.h"
#include "tensor/tensor.h"

namespace isomer::driver {

struct InputOptions {
  std::map<std::string, std::string> files;  // input name -> file
  uint64_t seed = 1;
  // Range of random values; standard: reals in [-1, 1), integers 0 or 1.
  std::optional<std::pair<double, double>> range;
};

using InputSets = std::vector<std::vector<Tensor>>;  // each with a value per graph input

// One value per graph input. A random one needs a static shape; the diagnostic names the open dimension.
Expected<std::vector<Tensor>> make_inputs(const ir::Graph& graph, const InputOptions& options);

// "name=file".
Expected<std::pair<std::string, std::string>> parse_input(const std::string& text);

// A tensor from a file by its ending; `type` is what the file stands for (raw data has no type of its own).
Expected<Tensor> load_value(const std::string& path, const std::string& name, const Type& type);

// An ONNX test data set: input_N.pb and output_N.pb in a folder. An input that is missing there stays empty.
struct DataSet {
  std::vector<std::optional<Tensor>> inputs;
  std::vector<Tensor> outputs;
};
Expected<DataSet> load_data_set(const std::string& folder, size_t inputs);

}  // namespace isomer::driver
