// NumPy files: .npy (versions 1 to 3, C or Fortran order, either byte order), .npz (members that are stored, not
// compressed) and raw .bin. Every number of a header is checked against the bytes at hand before it is used. NumPy has
// no bf16: such tensors are written as uint16 with the same bits, and come back as u16.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/expected.h"
#include "tensor/tensor.h"

namespace isomer {

Expected<Tensor> parse_npy(std::span<const std::byte> bytes);
std::string npy_bytes(const Tensor& tensor);

using NamedTensors = std::vector<std::pair<std::string, Tensor>>;  // in file order, names without ".npy"
Expected<NamedTensors> parse_npz(std::span<const std::byte> bytes);
Expected<std::string> npz_bytes(const NamedTensors& tensors);  // refuses 4 GiB and more, and over 65535 members

// Elements of the type, row-major, little-endian, and nothing else.
Expected<Tensor> parse_raw(std::span<const std::byte> bytes, DType dtype, std::vector<int64_t> dims);

Expected<Tensor> read_npy(const std::string& path);
Expected<NamedTensors> read_npz(const std::string& path);
Expected<Tensor> read_raw(const std::string& path, DType dtype, std::vector<int64_t> dims);
Expected<void> write_npy(const std::string& path, const Tensor& tensor);
Expected<void> write_npz(const std::string& path, const NamedTensors& tensors);

}  // namespace isomer
