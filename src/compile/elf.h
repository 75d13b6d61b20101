// The little of ELF that a module needs: an object that holds tables with relocations, a shared library that is nothing but a
// name and symbols (so that a linker knows what libc gives), and the headers of a linked library. 64-bit, little-endian.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "loop/target.h"

namespace isomer::compile {

uint16_t elf_machine(loop::Arch arch);

// Bytes of one section, written piece by piece.
class SectionBytes {
 public:
  uint64_t size() const { return bytes_.size(); }
  const std::string& bytes() const { return bytes_; }
  // Each returns where the bytes begin.
  uint64_t put(const void* data, size_t size, size_t alignment);
  uint64_t reserve(size_t size, size_t alignment);  // zeros
  uint64_t text(std::string_view text);             // ends with a zero
  void set(uint64_t offset, const void* data, size_t size);

 private:
  std::string bytes_;
};

// A 64-bit address at `offset` of the section of pointers: of a symbol, or of a place in one of our own sections.
struct Relocation {
  enum class To : uint8_t { Constants, Pointers, Symbol };
  uint64_t offset = 0;
  To to = To::Constants;
  uint64_t addend = 0;  // Constants, Pointers: the offset there
  std::string symbol;   // Symbol
};

struct TableObject {
  loop::Arch arch = loop::Arch::X86_64;
  SectionBytes constants;  // read-only, shared between processes
  SectionBytes pointers;   // read-only once its relocations are done
  SectionBytes place;      // filled in after linking: a section of its own, kPlaceSection
  std::vector<Relocation> relocations;
  // Names of places in the sections, for the other objects.
  std::string pointers_symbol;  // at offset pointers_symbol_at
  uint64_t pointers_symbol_at = 0;
  std::string place_symbol;  // at offset 0

  std::string object() const;  // a relocatable ELF file
};

inline constexpr std::string_view kPlaceSection = ".isomer_place";
inline constexpr std::string_view kWeightsSection = ".isomer_weights";

// A shared library for the linker's eyes only.
std::string stub_library(loop::Arch arch, std::string_view soname, std::span<const std::string_view> symbols);

// Gives a linked library one more segment: `size` bytes at the file's offset `offset`, read-only, at the first free address
// that is congruent to it. Returns the address. The segment takes the place of the note's program header, the section
// kWeightsSection describes it. Nothing when the library has no such header or section.
std::optional<uint64_t> add_segment(std::string& library, uint64_t offset, uint64_t size, uint64_t alignment);

// Where a section's bytes lie in the file.
std::optional<uint64_t> section_offset(std::string_view library, std::string_view name);

}  // namespace isomer::compile
