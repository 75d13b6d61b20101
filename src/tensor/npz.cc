// The zip container of .npz: stored members only, sizes below 4 GiB, every checksum verified.
#include <fmt/format.h>

#include <array>
#include <cstring>

#include "tensor/npy.h"

namespace isomer {
namespace {

constexpr uint32_t kLocal = 0x04034b50, kCentral = 0x02014b50, kEnd = 0x06054b50;
constexpr size_t kLocalSize = 30, kCentralSize = 46, kEndSize = 22;

Diagnostic bad(std::string message) { return Diagnostic("E-npz", std::move(message)); }

uint32_t crc32(const char* data, size_t size) {
  static const auto kTable = [] {
    std::array<uint32_t, 256> t{};
    for (uint32_t i = 0; i < 256; ++i) {
      uint32_t c = i;
      for (int k = 0; k < 8; ++k) c = c & 1 ? 0xEDB88320u ^ (c >> 1) : c >> 1;
      t[i] = c;
    }
    return t;
  }();
  uint32_t c = 0xFFFFFFFFu;
  for (size_t i = 0; i < size; ++i) c = kTable[(c ^ static_cast<unsigned char>(data[i])) & 255] ^ (c >> 8);
  return c ^ 0xFFFFFFFFu;
}

void put(std::string& out, uint32_t v, int bytes) {
  for (int i = 0; i < bytes; ++i) out += static_cast<char>((v >> (8 * i)) & 255);
}
uint32_t get(std::string_view text, size_t at, int bytes) {
  uint32_t v = 0;
  for (int i = 0; i < bytes; ++i)
    v |= static_cast<uint32_t>(static_cast<unsigned char>(text[at + static_cast<size_t>(i)])) << (8 * i);
  return v;
}

// Version needed, flags, method, time, date (1 January 1980, so that equal tensors give equal files), checksum, sizes.
void put_common(std::string& out, uint32_t crc, size_t size, size_t name_size) {
  put(out, 20, 2);
  put(out, 0, 2);
  put(out, 0, 2);
  put(out, 0, 2);
  put(out, 0x21, 2);
  put(out, crc, 4);
  put(out, static_cast<uint32_t>(size), 4);
  put(out, static_cast<uint32_t>(size), 4);
  put(out, static_cast<uint32_t>(name_size), 2);
  put(out, 0, 2);
}

// The bytes of one member, found through its central entry at `at`, which is advanced.
Expected<std::pair<std::string, std::string_view>> member(std::string_view file, size_t& at) {
  if (at > file.size() || file.size() - at < kCentralSize || get(file, at, 4) != kCentral)
    return bad("the directory of the .npz file is broken");
  const uint32_t flags = get(file, at + 8, 2), method = get(file, at + 10, 2), crc = get(file, at + 16, 4);
  const uint32_t packed = get(file, at + 20, 4), size = get(file, at + 24, 4), local = get(file, at + 42, 4);
  const size_t name_size = get(file, at + 28, 2), rest = get(file, at + 30, 2) + get(file, at + 32, 2);
  if (file.size() - at - kCentralSize < name_size + rest) return bad("the directory of the .npz file is broken");
  std::string name(file.substr(at + kCentralSize, name_size));
  at += kCentralSize + name_size + rest;
  if (method != 0 || (flags & 1))
    return bad(
        fmt::format("member {} of the .npz file is compressed or encrypted; save it with numpy.savez, not "
                    "savez_compressed",
                    quoted(name)));
  if (packed == 0xFFFFFFFFu || size == 0xFFFFFFFFu || local == 0xFFFFFFFFu)
    return bad(fmt::format("member {} of the .npz file is larger than 4 GiB; save it as .npy", quoted(name)));
  if (packed != size || local > file.size() || file.size() - local < kLocalSize || get(file, local, 4) != kLocal)
    return bad(fmt::format("member {} of the .npz file is not where the directory says", quoted(name)));
  const size_t start = size_t{local} + kLocalSize + get(file, local + 26, 2) + get(file, local + 28, 2);
  if (start > file.size() || file.size() - start < size)
    return bad(fmt::format("member {} of the .npz file is cut short", quoted(name)));
  if (crc32(file.data() + start, size) != crc)
    return bad(fmt::format("member {} of the .npz file is damaged: its checksum differs", quoted(name)));
  return std::pair(std::move(name), file.substr(start, size));
}

}  // namespace

Expected<NamedTensors> parse_npz(std::span<const std::byte> bytes) {
  const std::string_view file(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (file.size() < kEndSize) return bad("the file is no .npz file: it is too short for a zip archive");
  // The end record may be followed by a comment of up to 65535 bytes.
  size_t end = file.size() - kEndSize;
  const size_t lowest = end > 65535 ? end - 65535 : 0;
  while (get(file, end, 4) != kEnd) {
    if (end == lowest) return bad("the file is no .npz file: it has no zip directory");
    --end;
  }
  const uint32_t count = get(file, end + 10, 2);
  size_t at = get(file, end + 16, 4);
  NamedTensors out;
  uint64_t total = 0;
  for (uint32_t i = 0; i < count; ++i) {
    ISOMER_TRY(auto entry, member(file, at));
    auto& [name, data] = entry;
    total += data.size();
    if (total > file.size()) return bad("members of the .npz file overlap");
    if (name.size() > 4 && name.ends_with(".npy")) name.resize(name.size() - 4);
    auto tensor = parse_npy(std::as_bytes(std::span(data.data(), data.size())));
    if (!tensor.ok()) {
      tensor.error().note("in member " + quoted(name));
      return std::move(tensor).error();
    }
    out.emplace_back(std::move(name), *std::move(tensor));
  }
  return out;
}

Expected<std::string> npz_bytes(const NamedTensors& tensors) {
  if (tensors.size() > 65535) return bad("a .npz file has at most 65535 members");
  std::string out, directory;
  for (const auto& [name, tensor] : tensors) {
    const std::string file_name = name + ".npy";
    if (size_of(tensor.dtype()) == 0 || file_name.size() > 65535)
      return bad(fmt::format("value {} cannot be written to a .npz file", quoted(name)));
    if (out.size() + tensor.byte_size() + file_name.size() > 0xFFFF0000u)
      return bad("a .npz file is smaller than 4 GiB; write large tensors as .npy");
    const std::string data = npy_bytes(tensor);
    const uint32_t crc = crc32(data.data(), data.size());
    const auto offset = static_cast<uint32_t>(out.size());
    put(out, kLocal, 4);
    put_common(out, crc, data.size(), file_name.size());
    out += file_name;
    out += data;
    put(directory, kCentral, 4);
    put(directory, 20, 2);
    put_common(directory, crc, data.size(), file_name.size());
    put(directory, 0, 2);  // comment
    put(directory, 0, 2);  // disk
    put(directory, 0, 2);  // internal attributes
    put(directory, 0, 4);  // external attributes
    put(directory, offset, 4);
    directory += file_name;
  }
  const auto start = static_cast<uint32_t>(out.size());
  out += directory;
  put(out, kEnd, 4);
  put(out, 0, 4);
  put(out, static_cast<uint32_t>(tensors.size()), 2);
  put(out, static_cast<uint32_t>(tensors.size()), 2);
  put(out, static_cast<uint32_t>(directory.size()), 4);
  put(out, start, 4);
  put(out, 0, 2);
  return out;
}

}  // namespace isomer
