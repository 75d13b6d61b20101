#include "onnx/type_proto.h"

#include <fmt/format.h>

#include "onnx/tensor_proto.h"

namespace isomer::onnx {

using ::onnx::TypeProto;

namespace {

Type opaque(const TypeProto& proto) {
  return {DType::Opaque, Shape::unknown(), std::make_shared<const std::string>(proto.SerializeAsString())};
}

Expected<Shape> read_shape(const ::onnx::TensorShapeProto& proto, std::string_view owner) {
  if (proto.dim_size() > kMaxRank)
    return Diagnostic("E-onnx-type", fmt::format("the declared type of {} has {} axes, at most {} are taken",
                                                 quoted(owner), proto.dim_size(), kMaxRank));
  std::vector<Dim> dims;
  for (int i = 0; i < proto.dim_size(); ++i) {
    const auto& d = proto.dim(i);
    if (d.has_dim_value() && d.dim_value() >= 0) {
      dims.emplace_back(d.dim_value());
    } else if (d.has_dim_param() && !d.dim_param().empty() && d.dim_param()[0] != '?') {
      dims.push_back(Dim::symbol(d.dim_param()));
    } else if (d.has_dim_value() && d.dim_value() < -1) {
      return Diagnostic("E-onnx-type",
                        fmt::format("the declared type of {} has a dimension {}", quoted(owner), d.dim_value()));
    } else {  // several exporters write -1 for a size they do not know
      dims.push_back(owner.empty() ? Dim::invalid() : Dim::symbol(fmt::format("?{}.{}", owner, i)));
    }
  }
  return Shape(std::move(dims));
}

}  // namespace

Expected<Type> read_type(const TypeProto& proto, std::string_view owner) {
  if (proto.value_case() == TypeProto::VALUE_NOT_SET) return Type{DType::Opaque, Shape::unknown(), nullptr};
  if (proto.value_case() != TypeProto::kTensorType) return opaque(proto);
  const auto& tensor = proto.tensor_type();
  if (tensor.elem_type() == ::onnx::TensorProto::UNDEFINED) return Type{DType::Opaque, Shape::unknown(), nullptr};
  const auto dtype = dtype_of(tensor.elem_type());
  if (!dtype.ok())
    return Diagnostic(dtype.error().code,
                      fmt::format("the declared type of {}: {}", quoted(owner), dtype.error().message));
  if (!*dtype) return opaque(proto);
  Type type{**dtype, Shape::unknown(), nullptr};
  if (tensor.has_shape()) {
    ISOMER_TRY(type.shape, read_shape(tensor.shape(), owner));
  }
  return type;
}

bool says_nothing(const Type& type) { return type.dtype == DType::Opaque && !type.foreign; }

void write_type(const Type& type, TypeProto& proto) {
  if (type.dtype == DType::Opaque) {
    if (type.foreign) proto.ParseFromString(*type.foreign);
    return;
  }
  auto& tensor = *proto.mutable_tensor_type();
  tensor.set_elem_type(onnx_type_of(type.dtype));
  if (!type.shape.has_rank()) return;
  auto& shape = *tensor.mutable_shape();
  for (const Dim& d : type.shape.dims()) {
    auto& dim = *shape.add_dim();
    if (d.is_const()) {
      dim.set_dim_value(d.value());
    } else if (const auto symbol = d.as_symbol()) {
      if (!symbol->starts_with('?')) dim.set_dim_param(*symbol);
    } else if (!d.is_invalid()) {
      dim.set_dim_param(d.to_string());
    }
  }
}

}  // namespace isomer::onnx
