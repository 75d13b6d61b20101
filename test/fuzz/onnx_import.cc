// libFuzzer: any bytes as a model. Reading ends in a graph or a Diagnostic, and a graph can be written again.
#include <cstddef>
#include <cstdint>
#include <span>

#include "onnx/onnx.h"
#include "ops/table.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto model = isomer::onnx::load_bytes(std::as_bytes(std::span(data, size)), isomer::ops::table());
  if (model.ok()) (void)isomer::onnx::save_bytes(model->graph);
  return 0;
}
