#include "tensor/npy.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <bit>
#include <charconv>
#include <cstring>
#include <fstream>

#include "base/mapped_file.h"

namespace isomer {
namespace {

static_assert(std::endian::native == std::endian::little, "element bytes are written as they lie in memory");

constexpr std::string_view kMagic = "\x93NUMPY";

Diagnostic bad(std::string message) { return Diagnostic("E-npy", std::move(message)); }

struct Kind {
  char letter;
  size_t size;
  DType dtype;
};
constexpr Kind kKinds[] = {{'f', 8, DType::F64}, {'f', 4, DType::F32}, {'f', 2, DType::F16}, {'i', 8, DType::I64},
                           {'i', 4, DType::I32}, {'i', 2, DType::I16}, {'i', 1, DType::I8},  {'u', 8, DType::U64},
                           {'u', 4, DType::U32}, {'u', 2, DType::U16}, {'u', 1, DType::U8},  {'b', 1, DType::Bool}};

struct Header {
  std::string descr;
  bool fortran = false;
  std::vector<int64_t> dims;
};

// The header is a Python dict of three known keys with literal values; nothing else is accepted.
class HeaderParser {
 public:
  explicit HeaderParser(std::string_view text) : text_(text) {}

  Expected<Header> parse() {
    bool have[3] = {};
    if (!take('{')) return wrong();
    while (!take('}')) {
      const auto key = string();
      if (!key || !take(':')) return wrong();
      if (*key == "descr") {
        const auto s = string();
        if (!s) return bad("the .npy file holds records or objects; save plain numbers");
        header_.descr = *s;
        have[0] = true;
      } else if (*key == "fortran_order") {
        if (word("True"))
          header_.fortran = true;
        else if (!word("False"))
          return wrong();
        have[1] = true;
      } else if (*key == "shape") {
        if (!shape()) return wrong();
        have[2] = true;
      } else {
        return wrong();
      }
      if (!take(',') && !peek('}')) return wrong();
    }
    if (!have[0] || !have[1] || !have[2]) return wrong();
    return header_;
  }

 private:
  Diagnostic wrong() const {
    return bad(fmt::format("expected a .npy header with descr, fortran_order and shape, found {}", quoted(text_)));
  }
  void space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t')) ++at_;
  }
  bool peek(char c) {
    space();
    return at_ < text_.size() && text_[at_] == c;
  }
  bool take(char c) {
    if (!peek(c)) return false;
    ++at_;
    return true;
  }
  bool word(std::string_view w) {
    space();
    if (text_.substr(at_, w.size()) != w) return false;
    at_ += w.size();
    return true;
  }
  std::optional<std::string> string() {
    space();
    if (at_ >= text_.size() || (text_[at_] != '\'' && text_[at_] != '"')) return std::nullopt;
    const size_t end = text_.find(text_[at_], at_ + 1);
    if (end == std::string_view::npos) return std::nullopt;
    std::string s(text_.substr(at_ + 1, end - at_ - 1));
    at_ = end + 1;
    return s;
  }
  bool shape() {
    if (!take('(')) return false;
    header_.dims.clear();
    while (!take(')')) {
      space();
      int64_t d = 0;
      const char* end = text_.data() + text_.size();
      const auto [next, error] = std::from_chars(text_.data() + at_, end, d);
      if (error != std::errc() || d < 0 || header_.dims.size() >= 64) return false;
      at_ = static_cast<size_t>(next - text_.data());
      if (at_ < text_.size() && text_[at_] == 'L') ++at_;  // Python 2 wrote 3L
      header_.dims.push_back(d);
      if (!take(',') && !peek(')')) return false;
    }
    return true;
  }

  std::string_view text_;
  size_t at_ = 0;
  Header header_;
};

template <class T>
T little(const std::byte* p) {
  T v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

// Copies the elements, turned to row-major order and to this machine's byte order.
Tensor copy_elements(DType dtype, const std::vector<int64_t>& dims, const std::byte* from, bool swap, bool fortran) {
  Tensor t(dtype, dims);
  const size_t size = size_of(dtype);
  std::byte* to = t.mutable_bytes();
  std::vector<int64_t> at(dims.size(), 0);
  std::vector<int64_t> strides(dims.size(), 1);
  for (size_t i = 1; fortran && t.size() > 0 && i < dims.size(); ++i) strides[i] = strides[i - 1] * dims[i - 1];
  int64_t source = 0;
  for (int64_t i = 0; i < t.size(); ++i) {
    const std::byte* p = from + static_cast<size_t>(fortran ? source : i) * size;
    for (size_t k = 0; k < size; ++k) to[static_cast<size_t>(i) * size + k] = p[swap ? size - 1 - k : k];
    for (size_t d = dims.size(); fortran && d-- > 0;) {
      source += strides[d];
      if (++at[d] < dims[d]) break;
      source -= strides[d] * dims[d];
      at[d] = 0;
    }
  }
  return t;
}

Expected<void> write_file(const std::string& path, const std::string& bytes) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  out.close();
  if (!out) return Diagnostic("E-file", fmt::format("cannot write {}", quoted(path)));
  return {};
}

}  // namespace

Expected<Tensor> parse_npy(std::span<const std::byte> bytes) {
  if (bytes.size() < 10 || std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) != 0)
    return bad("the file is no .npy file: it does not begin with the mark \\x93NUMPY");
  const auto version = static_cast<unsigned>(bytes[6]);
  if (version < 1 || version > 3)
    return bad(fmt::format("expected a .npy file of version 1 to 3, found version {}", version));
  const size_t prefix = version == 1 ? 10 : 12;
  if (bytes.size() < prefix) return bad("the .npy file ends inside its header");
  const size_t length = version == 1 ? little<uint16_t>(&bytes[8]) : little<uint32_t>(&bytes[8]);
  if (length > bytes.size() - prefix) return bad("the .npy file ends inside its header");
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + prefix, length);
  ISOMER_TRY(const Header h, HeaderParser(text).parse());
  const Kind* kind = nullptr;
  const bool ordered = h.descr.size() == 3 && std::string_view("<>|=").find(h.descr[0]) != std::string_view::npos;
  for (const Kind& k : kKinds)
    if (ordered && h.descr[1] == k.letter && h.descr[2] == static_cast<char>('0' + k.size)) kind = &k;
  if (!kind) return bad(fmt::format("element type {} of a .npy file is not supported", quoted(h.descr)));
  ISOMER_TRY(const int64_t elements, checked_elements(kind->dtype, h.dims));
  const auto data = bytes.subspan(prefix + length);
  if (data.size() != static_cast<size_t>(elements) * kind->size)
    return bad(fmt::format("expected {} bytes of elements for shape [{}], found {}",
                           static_cast<size_t>(elements) * kind->size, fmt::join(h.dims, ","), data.size()));
  return copy_elements(kind->dtype, h.dims, data.data(), h.descr[0] == '>', h.fortran);
}

std::string npy_bytes(const Tensor& t) {
  const DType stored = t.dtype() == DType::BF16 ? DType::U16 : t.dtype();
  std::string descr;
  for (const Kind& k : kKinds)
    if (k.dtype == stored) descr = fmt::format("{}{}{}", k.size == 1 ? '|' : '<', k.letter, k.size);
  std::string shape;
  for (int64_t d : t.dims()) shape += fmt::format("{}, ", d);
  if (t.rank() > 1) shape.resize(shape.size() - 2);
  if (t.rank() == 1) shape.pop_back();
  std::string header = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", descr, shape);
  // The elements begin at a multiple of 64 bytes, and the header's last byte is a line feed, as NumPy asks.
  const size_t prefix = header.size() + 11 <= 65535 ? 10 : 12;
  header.append(63 - (prefix + header.size()) % 64, ' ');
  header += '\n';
  std::string out(kMagic);
  out += prefix == 10 ? '\x01' : '\x02';
  out += '\0';
  for (size_t i = 0; i < prefix - 8; ++i) out += static_cast<char>((header.size() >> (8 * i)) & 255);
  out += header;
  out.append(reinterpret_cast<const char*>(t.bytes()), t.byte_size());
  return out;
}

Expected<Tensor> parse_raw(std::span<const std::byte> bytes, DType dtype, std::vector<int64_t> dims) {
  if (size_of(dtype) == 0) return Diagnostic("E-raw", "a raw file needs an element type");
  ISOMER_TRY(const int64_t elements, checked_elements(dtype, dims));
  if (bytes.size() != static_cast<size_t>(elements) * size_of(dtype))
    return Diagnostic(
        "E-raw", fmt::format("expected {} bytes for {}[{}], found {}", static_cast<size_t>(elements) * size_of(dtype),
                             name(dtype), fmt::join(dims, ","), bytes.size()));
  return copy_elements(dtype, dims, bytes.data(), false, false);
}

Expected<Tensor> read_npy(const std::string& path) {
  ISOMER_TRY(const auto file, MappedFile::open(path));
  return parse_npy(file->bytes());
}
Expected<NamedTensors> read_npz(const std::string& path) {
  ISOMER_TRY(const auto file, MappedFile::open(path));
  return parse_npz(file->bytes());
}
Expected<Tensor> read_raw(const std::string& path, DType dtype, std::vector<int64_t> dims) {
  ISOMER_TRY(const auto file, MappedFile::open(path));
  return parse_raw(file->bytes(), dtype, std::move(dims));
}
Expected<void> write_npy(const std::string& path, const Tensor& t) {
  if (size_of(t.dtype()) == 0) return bad("a value without element type cannot be written as .npy");
  return write_file(path, npy_bytes(t));
}
Expected<void> write_npz(const std::string& path, const NamedTensors& tensors) {
  ISOMER_TRY(const std::string bytes, npz_bytes(tensors));
  return write_file(path, bytes);
}

}  // namespace isomer
