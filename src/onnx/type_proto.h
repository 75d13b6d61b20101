// Types as ONNX files declare them. A value that is no tensor of a supported type becomes DType::Opaque and carries the
// bytes of its declaration.
#pragma once

#include <onnx.pb.h>

#include "base/expected.h"
#include "tensor/type.h"

namespace isomer::onnx {

// `owner`: the value's name, which unknown dims are called after ("?x.0"); empty: unknown dims are Dim::invalid().
// A declaration without an element type gives Opaque of unknown rank without foreign bytes.
Expected<Type> read_type(const ::onnx::TypeProto& proto, std::string_view owner);
void write_type(const Type& type, ::onnx::TypeProto& proto);

// True for a type that says nothing at all.
bool says_nothing(const Type& type);

}  // namespace isomer::onnx
