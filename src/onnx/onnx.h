// ONNX files in and out. Nothing of protobuf leaves this folder. Hostile files end in a Diagnostic, never in a crash.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "base/expected.h"
#include "ir/graph.h"
#include "tensor/tensor.h"

namespace isomer::onnx {

// A graph and what the reader found worth saying (future IR version, unknown operators kept as they are).
struct Model {
  ir::Graph graph;
  std::vector<std::string> warnings;
};

// Reads a model file. Large tensors stay in the mapped file, which the graph's constants keep open.
Expected<Model> load(const std::string& path, const ir::OpTable& table);
// The same from memory; `folder` is where external data may lie ("": nowhere).
Expected<Model> load_bytes(std::span<const std::byte> bytes, const ir::OpTable& table, const std::string& folder = "");

struct SaveOptions {
  // Tensors go to a data file beside the model when the model would not fit a protobuf message (2 GB), or always.
  bool external_data = false;
};
Expected<void> save(const ir::Graph& graph, const std::string& path, const SaveOptions& options = {});
Expected<std::string> save_bytes(const ir::Graph& graph);

// A TensorProto in a file of its own, as ONNX test data sets have them (input_0.pb).
Expected<Tensor> load_tensor(const std::string& path);
Expected<void> save_tensor(const Tensor& tensor, const std::string& path, const std::string& name = "");

}  // namespace isomer::onnx
