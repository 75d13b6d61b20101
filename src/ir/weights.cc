// The binary file of large constants: a header, a table, then the data of each tensor at a multiple of 64.
//   header: "ISOMERW\n", u32 version, u32 count, u64 bytes of the table, u64 bytes of the file
//   entry:  key (32 digits), element type (8 bytes, zero-filled name), u32 rank, u32 zero, u64 offset, u64 size, i64 dims
// Numbers are little-endian. Entries are in order of their offsets, which do not overlap.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/mapped_file.h"
#include "ir/file.h"

namespace isomer::ir {
namespace {

static_assert(std::endian::native == std::endian::little, "tensors are kept in the byte order of the file");

constexpr std::string_view kMagic = "ISOMERW\n";
constexpr uint32_t kVersion = 1;
constexpr size_t kHeaderBytes = 32, kKeyBytes = 32, kTypeBytes = 8, kAlignment = 64;
constexpr size_t kEntryBytes = kKeyBytes + kTypeBytes + 24;
constexpr uint32_t kMaxRank = 1024;

uint64_t aligned(uint64_t n) { return (n + kAlignment - 1) / kAlignment * kAlignment; }

template <class T>
void put(std::string& out, T v) {
  out.append(reinterpret_cast<const char*>(&v), sizeof v);
}

// Takes numbers off the front of a table that may end at any byte.
struct Reader {
  std::span<const std::byte> bytes;
  size_t at = 0;

  bool has(size_t n) const { return n <= bytes.size() - at; }
  std::string_view text(size_t n) {
    const std::string_view s(reinterpret_cast<const char*>(bytes.data()) + at, n);
    at += n;
    return s;
  }
  template <class T>
  T take() {
    T v;
    std::memcpy(&v, bytes.data() + at, sizeof v);
    at += sizeof v;
    return v;
  }
};

struct Entry {
  std::string_view key;
  DType dtype = DType::F32;
  std::vector<int64_t> dims;
  uint64_t offset = 0, size = 0;
};

// What is wrong with the entry, or nothing.
const char* read_entry(Reader& r, Entry& e) {
  if (!r.has(kEntryBytes)) return "its table ends too early";
  e.key = r.text(kKeyBytes);
  std::string_view type = r.text(kTypeBytes);
  const size_t end = std::min(type.find('\0'), type.size());
  if (type.find_first_not_of('\0', end) != std::string_view::npos) return "a field that must be zero is not";
  type = type.substr(0, end);
  const auto dtype = dtype_from_name(type);
  if (!dtype || *dtype == DType::Opaque) return "an element type is unknown";
  e.dtype = *dtype;
  const auto rank = r.take<uint32_t>();
  if (r.take<uint32_t>() != 0) return "a field that must be zero is not";
  e.offset = r.take<uint64_t>();
  e.size = r.take<uint64_t>();
  if (rank > kMaxRank) return "a rank is too large";
  if (!r.has(rank * sizeof(int64_t))) return "its table ends too early";
  e.dims.clear();
  for (uint32_t i = 0; i < rank; ++i) e.dims.push_back(r.take<int64_t>());
  const auto elements = checked_elements(e.dtype, e.dims);
  if (!elements.ok()) return "the size of a tensor is impossible";
  if (static_cast<uint64_t>(*elements) * size_of(e.dtype) != e.size)
    return "the bytes of a tensor do not fit its shape";
  return nullptr;
}

std::string table_of(const ConstantPool& pool, size_t table_bytes, uint64_t& file_bytes) {
  std::string out;
  uint64_t offset = aligned(kHeaderBytes + table_bytes);
  for (const auto& [key, t] : pool.tensors()) {
    out += key;
    std::string type(name(t.dtype()));
    type.resize(kTypeBytes, '\0');
    out += type;
    put(out, static_cast<uint32_t>(t.rank()));
    put(out, uint32_t{0});
    put(out, offset);
    put(out, static_cast<uint64_t>(t.byte_size()));
    for (int64_t d : t.dims()) put(out, d);
    file_bytes = offset + t.byte_size();
    offset = aligned(file_bytes);
  }
  return out;
}

}  // namespace

Expected<void> save_weights(const ConstantPool& pool, const std::string& path) {
  size_t table_bytes = 0;
  for (const auto& [key, t] : pool.tensors()) table_bytes += kEntryBytes + t.rank() * sizeof(int64_t);
  uint64_t file_bytes = kHeaderBytes;
  const std::string table = table_of(pool, table_bytes, file_bytes);
  std::string head(kMagic);
  put(head, kVersion);
  put(head, static_cast<uint32_t>(pool.tensors().size()));
  put(head, static_cast<uint64_t>(table_bytes));
  put(head, file_bytes);
  head += table;
  const std::string beside = path + ".part";
  std::ofstream file(beside, std::ios::binary | std::ios::trunc);
  file.write(head.data(), static_cast<std::streamsize>(head.size()));
  uint64_t at = head.size();
  for (const auto& [key, t] : pool.tensors()) {
    const std::string gap(aligned(at) - at, '\0');
    file.write(gap.data(), static_cast<std::streamsize>(gap.size()));
    file.write(reinterpret_cast<const char*>(t.bytes()), static_cast<std::streamsize>(t.byte_size()));
    at = aligned(at) + t.byte_size();
  }
  file.close();
  if (!file) return Diagnostic("E-file", fmt::format("cannot write {}", isomer::quoted(beside)));
  std::error_code failed;
  std::filesystem::rename(beside, path, failed);
  if (failed) return Diagnostic("E-file", fmt::format("cannot write {}: {}", isomer::quoted(path), failed.message()));
  return {};
}

Expected<ConstantPool> load_weights(const std::string& path) {
  ISOMER_TRY(const auto file, MappedFile::open(path));
  const auto bad = [&](std::string_view why) {
    return Diagnostic("E-weights", fmt::format("{} is no weights file of this version: {}; write it again with the "
                                               "graph it belongs to",
                                               isomer::quoted(path), why));
  };
  Reader r{file->bytes()};
  if (!r.has(kHeaderBytes) || r.text(kMagic.size()) != kMagic) return bad("it does not begin with its magic");
  if (r.take<uint32_t>() != kVersion) return bad("its version differs");
  const auto count = r.take<uint32_t>();
  const auto table_bytes = r.take<uint64_t>();
  if (r.take<uint64_t>() != r.bytes.size()) return bad("it is not as long as it says");
  if (table_bytes > r.bytes.size() - kHeaderBytes || table_bytes / kEntryBytes < count)
    return bad("its table does not fit in it");
  uint64_t used = kHeaderBytes + table_bytes;
  r.bytes = r.bytes.first(used);
  ConstantPool pool;
  for (uint32_t i = 0; i < count; ++i) {
    Entry e;
    if (const char* why = read_entry(r, e)) return bad(why);
    const uint64_t total = file->bytes().size();
    if (e.offset % kAlignment != 0 || e.offset < used || e.offset > total || e.size > total - e.offset)
      return bad("a tensor lies outside the file or on another");
    used = e.offset + e.size;
    // The key is the hash of the content: a damaged tensor is not what the text refers to.
    const Tensor t(e.dtype, e.dims, file->bytes().data() + e.offset, file);
    if (pool.find(e.key)) return bad("a key is there twice");
    if (pool.add(t) != e.key) return bad("a tensor is not the one its key names");
  }
  if (r.at != r.bytes.size()) return bad("its table is longer than its entries");
  return pool;
}

}  // namespace isomer::ir
