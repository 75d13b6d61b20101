#include "compile/elf.h"

#include <elf.h>

#include <algorithm>
#include <cstring>
#include <map>

namespace isomer::compile {

namespace {

uint64_t aligned(uint64_t value, uint64_t alignment) { return (value + alignment - 1) / alignment * alignment; }

// Sections of a file that is being written, in order; number 0 is the empty one that ELF asks for.
class Writer {
 public:
  Writer(loop::Arch arch, uint16_t type) : arch_(arch), type_(type), sections_(1) {}

  uint32_t add(std::string_view name, uint32_t type, uint64_t flags, uint64_t alignment, std::string bytes,
               uint32_t link = 0, uint32_t info = 0, uint64_t entry = 0) {
    Section section{{}, std::move(bytes)};
    section.header.sh_name = static_cast<uint32_t>(names_.size());
    names_ += name;
    names_ += '\0';
    section.header.sh_type = type;
    section.header.sh_flags = flags;
    section.header.sh_addralign = alignment;
    section.header.sh_link = link;
    section.header.sh_info = info;
    section.header.sh_entsize = entry;
    sections_.push_back(std::move(section));
    return static_cast<uint32_t>(sections_.size() - 1);
  }

  std::string finish() {
    const uint32_t names = add(".shstrtab", SHT_STRTAB, 0, 1, "");
    sections_[names].bytes = names_;
    std::string file(sizeof(Elf64_Ehdr), '\0');
    for (Section& section : sections_) {
      if (section.header.sh_type == SHT_NULL) continue;
      file.resize(aligned(file.size(), section.header.sh_addralign));
      section.header.sh_offset = file.size();
      section.header.sh_size = section.bytes.size();
      file += section.bytes;
    }
    file.resize(aligned(file.size(), 8));
    Elf64_Ehdr header{};
    std::memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64;
    header.e_ident[EI_DATA] = ELFDATA2LSB;
    header.e_ident[EI_VERSION] = EV_CURRENT;
    header.e_type = type_;
    header.e_machine = elf_machine(arch_);
    header.e_version = EV_CURRENT;
    header.e_shoff = file.size();
    header.e_ehsize = sizeof(Elf64_Ehdr);
    header.e_shentsize = sizeof(Elf64_Shdr);
    header.e_shnum = static_cast<uint16_t>(sections_.size());
    header.e_shstrndx = static_cast<uint16_t>(names);
    std::memcpy(file.data(), &header, sizeof header);
    for (const Section& section : sections_)
      file.append(reinterpret_cast<const char*>(&section.header), sizeof(Elf64_Shdr));
    return file;
  }

 private:
  struct Section {
    Elf64_Shdr header{};
    std::string bytes;
  };
  loop::Arch arch_;
  uint16_t type_;
  std::vector<Section> sections_;
  std::string names_ = std::string(1, '\0');
};

class SymbolTable {
 public:
  SymbolTable() : entries_(1) {}
  uint32_t add(std::string_view name, unsigned char bind, unsigned char type, unsigned char visibility,
               uint16_t section, uint64_t value) {
    Elf64_Sym symbol{};
    if (!name.empty()) {
      symbol.st_name = static_cast<uint32_t>(names_.size());
      names_ += name;
      names_ += '\0';
    }
    symbol.st_info = static_cast<unsigned char>(ELF64_ST_INFO(bind, type));
    symbol.st_other = visibility;
    symbol.st_shndx = section;
    symbol.st_value = value;
    entries_.push_back(symbol);
    return static_cast<uint32_t>(entries_.size() - 1);
  }
  const std::string& names() const { return names_; }
  std::string bytes() const {
    return {reinterpret_cast<const char*>(entries_.data()), entries_.size() * sizeof(Elf64_Sym)};
  }

 private:
  std::vector<Elf64_Sym> entries_;
  std::string names_ = std::string(1, '\0');
};

// The note's only purpose is its program header, which add_segment takes.
std::string note() {
  const Elf64_Nhdr header{7, 4, 1};
  std::string bytes(reinterpret_cast<const char*>(&header), sizeof header);
  bytes.append("Isomer\0\0", 8);
  bytes.append("\1\0\0\0", 4);
  return bytes;
}

template <class T>
T read(std::string_view file, uint64_t offset) {
  T value{};
  std::memcpy(&value, file.data() + offset, sizeof value);
  return value;
}

bool holds(std::string_view file, uint64_t offset, uint64_t size) {
  return offset <= file.size() && size <= file.size() - offset;
}

// The offset of a section's header; nothing when there is none, or the file is no ELF file.
std::optional<uint64_t> find_section(std::string_view file, std::string_view name) {
  if (!holds(file, 0, sizeof(Elf64_Ehdr))) return std::nullopt;
  const auto header = read<Elf64_Ehdr>(file, 0);
  if (!holds(file, header.e_shoff, header.e_shnum * sizeof(Elf64_Shdr))) return std::nullopt;
  if (header.e_shstrndx >= header.e_shnum) return std::nullopt;
  const auto names = read<Elf64_Shdr>(file, header.e_shoff + header.e_shstrndx * sizeof(Elf64_Shdr));
  for (uint64_t i = 0; i < header.e_shnum; ++i) {
    const uint64_t at = header.e_shoff + i * sizeof(Elf64_Shdr);
    const uint64_t text = names.sh_offset + read<Elf64_Shdr>(file, at).sh_name;
    if (holds(file, text, name.size() + 1) && file.substr(text, name.size()) == name && file[text + name.size()] == 0) {
      return at;
    }
  }
  return std::nullopt;
}

}  // namespace

uint16_t elf_machine(loop::Arch arch) { return arch == loop::Arch::X86_64 ? EM_X86_64 : EM_AARCH64; }

uint64_t SectionBytes::reserve(size_t size, size_t alignment) {
  bytes_.resize(aligned(bytes_.size(), alignment));
  const uint64_t at = bytes_.size();
  bytes_.resize(at + size);
  return at;
}

uint64_t SectionBytes::put(const void* data, size_t size, size_t alignment) {
  const uint64_t at = reserve(size, alignment);
  set(at, data, size);
  return at;
}

uint64_t SectionBytes::text(std::string_view text) {
  const uint64_t at = put(text.data(), text.size(), 1);
  bytes_ += '\0';
  return at;
}

void SectionBytes::set(uint64_t offset, const void* data, size_t size) {
  if (size) std::memcpy(bytes_.data() + offset, data, size);
}

std::string TableObject::object() const {
  Writer file(arch, ET_REL);
  const auto constants_at =
      static_cast<uint16_t>(file.add(".rodata.isomer", SHT_PROGBITS, SHF_ALLOC, 64, constants.bytes()));
  const auto pointers_at =
      static_cast<uint16_t>(file.add(".data.rel.ro.isomer", SHT_PROGBITS, SHF_ALLOC | SHF_WRITE, 64, pointers.bytes()));
  const auto place_at = static_cast<uint16_t>(file.add(kPlaceSection, SHT_PROGBITS, SHF_ALLOC, 8, place.bytes()));
  file.add(".note.isomer", SHT_NOTE, SHF_ALLOC, 4, note());
  file.add(kWeightsSection, SHT_PROGBITS, 0, 1, std::string(1, '\0'));
  file.add(".note.GNU-stack", SHT_PROGBITS, 0, 1, "");

  SymbolTable symbols;
  const uint32_t constants_symbol = symbols.add("", STB_LOCAL, STT_SECTION, STV_DEFAULT, constants_at, 0);
  const uint32_t own_pointers_symbol = symbols.add("", STB_LOCAL, STT_SECTION, STV_DEFAULT, pointers_at, 0);
  const uint32_t first_global = own_pointers_symbol + 1;
  symbols.add(pointers_symbol, STB_GLOBAL, STT_OBJECT, STV_HIDDEN, pointers_at, pointers_symbol_at);
  symbols.add(place_symbol, STB_GLOBAL, STT_OBJECT, STV_HIDDEN, place_at, 0);
  std::map<std::string_view, uint32_t> undefined;
  std::string entries;
  const uint64_t type = arch == loop::Arch::X86_64 ? uint64_t{R_X86_64_64} : uint64_t{R_AARCH64_ABS64};
  for (const Relocation& relocation : relocations) {
    uint64_t symbol = relocation.to == Relocation::To::Constants ? constants_symbol : own_pointers_symbol;
    if (relocation.to == Relocation::To::Symbol) {
      auto [at, fresh] = undefined.try_emplace(relocation.symbol, 0);
      if (fresh) at->second = symbols.add(relocation.symbol, STB_GLOBAL, STT_NOTYPE, STV_HIDDEN, SHN_UNDEF, 0);
      symbol = at->second;
    }
    const Elf64_Rela entry{relocation.offset, ELF64_R_INFO(symbol, type), static_cast<int64_t>(relocation.addend)};
    entries.append(reinterpret_cast<const char*>(&entry), sizeof entry);
  }
  const uint32_t names = file.add(".strtab", SHT_STRTAB, 0, 1, symbols.names());
  const uint32_t table = file.add(".symtab", SHT_SYMTAB, 0, 8, symbols.bytes(), names, first_global, sizeof(Elf64_Sym));
  file.add(".rela.data.rel.ro.isomer", SHT_RELA, SHF_INFO_LINK, 8, entries, table, pointers_at, sizeof(Elf64_Rela));
  return file.finish();
}

std::string stub_library(loop::Arch arch, std::string_view soname, std::span<const std::string_view> symbols) {
  Writer file(arch, ET_DYN);
  SymbolTable table;
  for (const std::string_view symbol : symbols) table.add(symbol, STB_GLOBAL, STT_FUNC, STV_DEFAULT, 1, 0);
  std::string names = table.names();
  const uint64_t soname_at = names.size();
  names += soname;
  names += '\0';
  const uint32_t names_at = file.add(".dynstr", SHT_STRTAB, SHF_ALLOC, 1, names);
  file.add(".dynsym", SHT_DYNSYM, SHF_ALLOC, 8, table.bytes(), names_at, 1, sizeof(Elf64_Sym));
  const Elf64_Dyn dynamic[] = {{DT_SONAME, {soname_at}}, {DT_NULL, {0}}};
  file.add(".dynamic", SHT_DYNAMIC, SHF_ALLOC, 8, {reinterpret_cast<const char*>(dynamic), sizeof dynamic}, names_at, 0,
           sizeof(Elf64_Dyn));
  return file.finish();
}

std::optional<uint64_t> section_offset(std::string_view library, std::string_view name) {
  const auto at = find_section(library, name);
  if (!at) return std::nullopt;
  const auto section = read<Elf64_Shdr>(library, *at);
  if (!holds(library, section.sh_offset, section.sh_size)) return std::nullopt;
  return section.sh_offset;
}

std::optional<uint64_t> add_segment(std::string& library, uint64_t offset, uint64_t size, uint64_t alignment) {
  const auto section_at = find_section(library, kWeightsSection);
  if (!section_at) return std::nullopt;
  const auto header = read<Elf64_Ehdr>(library, 0);
  if (!holds(library, header.e_phoff, header.e_phnum * sizeof(Elf64_Phdr))) return std::nullopt;
  uint64_t end = 0, note_at = 0, last_load = 0;
  for (uint64_t i = 0; i < header.e_phnum; ++i) {
    const uint64_t at = header.e_phoff + i * sizeof(Elf64_Phdr);
    const auto segment = read<Elf64_Phdr>(library, at);
    if (segment.p_type == PT_NOTE) note_at = at;
    if (segment.p_type != PT_LOAD) continue;
    end = std::max(end, segment.p_vaddr + segment.p_memsz);
    last_load = at;
  }
  // Loaders want the segments that they load in the order of their addresses.
  if (note_at == 0 || note_at < last_load) return std::nullopt;
  const uint64_t address = aligned(end, alignment) + offset % alignment;
  const Elf64_Phdr segment{PT_LOAD, PF_R, offset, address, address, size, size, alignment};
  std::memcpy(library.data() + note_at, &segment, sizeof segment);
  auto section = read<Elf64_Shdr>(library, *section_at);
  section.sh_flags = SHF_ALLOC;
  section.sh_addr = address;
  section.sh_offset = offset;
  section.sh_size = size;
  section.sh_addralign = 64;
  std::memcpy(library.data() + *section_at, &section, sizeof section);
  return address;
}

}  // namespace isomer::compile
