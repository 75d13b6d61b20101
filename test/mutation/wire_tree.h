// A protobuf message as a tree of fields, read without its schema: bytes that read as a message are taken for one. Writing
// it again gives right lengths, so that a change deep inside gets past the container.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace isomer::testing {

struct WireField {
  uint64_t key = 0;  // number << 3 | wire type
  uint64_t varint = 0;
  std::string bytes;                // fixed-size or leaf contents
  std::vector<WireField> children;  // of a nested message
  bool nested = false;

  unsigned wire() const { return key & 7; }
};

inline bool read_varint(std::string_view& s, uint64_t& out) {
  out = 0;
  for (unsigned shift = 0; shift < 64 && !s.empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(s[0]);
    s.remove_prefix(1);
    out |= uint64_t{byte & 0x7Fu} << shift;
    if (byte < 0x80) return true;
  }
  return false;
}

inline bool read_wire(std::string_view s, std::vector<WireField>& out, int depth = 0) {
  while (!s.empty()) {
    WireField f;
    if (!read_varint(s, f.key) || f.key >> 3 == 0 || f.key >> 3 > 2000) return false;
    uint64_t size = f.wire() == 1 ? 8 : 4;
    switch (f.wire()) {
      case 0:
        if (!read_varint(s, f.varint)) return false;
        break;
      case 2:
        if (!read_varint(s, size)) return false;
        [[fallthrough]];
      case 1:
      case 5:
        if (size > s.size()) return false;
        f.bytes = s.substr(0, size);
        s.remove_prefix(size);
        break;
      default: return false;
    }
    if (f.wire() == 2 && depth < 12 && !f.bytes.empty()) {
      f.nested = read_wire(f.bytes, f.children, depth + 1);
      if (!f.nested) f.children.clear();
    }
    out.push_back(std::move(f));
  }
  return true;
}

inline void write_varint(uint64_t v, std::string& out) {
  for (; v >= 0x80; v >>= 7) out += static_cast<char>((v & 0x7F) | 0x80);
  out += static_cast<char>(v);
}

inline std::string write_wire(const std::vector<WireField>& fields) {
  std::string out;
  for (const WireField& f : fields) {
    write_varint(f.key, out);
    if (f.wire() == 0) write_varint(f.varint, out);
    const std::string content = f.nested ? write_wire(f.children) : f.bytes;
    if (f.wire() == 2) write_varint(content.size(), out);
    out += f.wire() == 0 ? "" : content;
  }
  return out;
}

// Every field of the tree with the list it is in, in order.
struct WirePlace {
  std::vector<WireField>* list;
  size_t index;
};
inline void wire_places(std::vector<WireField>& fields, std::vector<WirePlace>& out) {
  for (size_t i = 0; i < fields.size(); ++i) {
    out.push_back({&fields, i});
    if (fields[i].nested) wire_places(fields[i].children, out);
  }
}

}  // namespace isomer::testing
