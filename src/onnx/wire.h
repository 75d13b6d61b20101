// Protobuf's wire format, as far as a model has to be read without its message classes: the bytes of tensors are cut
// out before the rest is parsed, so that they are never copied and can stay in a mapped file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/expected.h"

namespace isomer::onnx {

enum class Message { Model, Graph, Node, Attribute, Tensor, SparseTensor, Function };

struct Cut {
  std::string rest;                               // the message, raw_data replaced by its 8-byte index in `blobs`
  std::vector<std::span<const std::byte>> blobs;  // pieces of the bytes given
};

// A diagnostic when the bytes are no such message or it is nested too deep.
Expected<Cut> cut_tensor_data(std::span<const std::byte> bytes, Message kind);

// The contents of every field of this number that has a length, at the top of a well-formed message.
std::vector<std::string_view> fields_with_length(std::span<const std::byte> bytes, uint32_t field);

}  // namespace isomer::onnx
