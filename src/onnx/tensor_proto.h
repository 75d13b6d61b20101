// Tensors as ONNX files write them. A tensor whose element type Isomer does not compute with (strings, float8, complex)
// is no error: it reads as nothing, and its user carries the bytes.
#pragma once

#include <onnx.pb.h>

#include <optional>

#include "base/expected.h"
#include "base/mapped_file.h"
#include "onnx/external_data.h"
#include "tensor/tensor.h"

namespace isomer::onnx {

// The most axes a tensor or a declared type may have; real models stay below ten.
inline constexpr int kMaxRank = 64;

// Nothing for the types that are carried only; a diagnostic for a number that is no ONNX type at all.
Expected<std::optional<DType>> dtype_of(int32_t onnx_type);
int32_t onnx_type_of(DType type);
// "FLOAT", as the first opset wrote types in attributes.
std::optional<DType> dtype_of_name(std::string_view name);

// Reads the tensors of a message whose raw data was cut out (wire.h): raw_data is an index of a blob.
class TensorReader {
 public:
  // `file` holds the blobs' bytes, and tensors may share them; null: they belong to the caller and are copied.
  TensorReader(std::vector<std::span<const std::byte>> blobs, std::shared_ptr<const MappedFile> file,
               std::string folder)
      : blobs_(std::move(blobs)), file_(std::move(file)), external_(std::move(folder)) {}

  Expected<std::optional<Tensor>> read(const ::onnx::TensorProto& proto);
  // The attribute's bytes as they were in the file, with the cut data in its place again.
  std::string bytes_of(const ::onnx::AttributeProto& attribute) const;

 private:
  std::span<const std::byte> blob(const ::onnx::TensorProto& proto) const;
  void restore(::onnx::TensorProto& proto) const;
  Expected<Tensor> read_external(const ::onnx::TensorProto& proto, DType dtype, std::vector<int64_t> dims);

  std::vector<std::span<const std::byte>> blobs_;
  std::shared_ptr<const MappedFile> file_;
  ExternalFiles external_;
};

void write_tensor(const Tensor& tensor, ::onnx::TensorProto& proto);
// Its two halves.
void write_type(const Tensor& tensor, ::onnx::TensorProto& proto);
void write_data(const Tensor& tensor, ::onnx::TensorProto& proto);

}  // namespace isomer::onnx
