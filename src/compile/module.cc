#include "compile/module.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <set>

#include "compile/elf.h"
#include "compile/link.h"
#include "compile/module_tables.h"
#include "compile/runtime_objects.h"
#include "runtime/isomer_seal.h"
#include "runtime/module/module.h"

namespace isomer::compile {

namespace {

constexpr uint64_t kSegmentAlignment = 65536;  // the largest page of either architecture

static_assert(sizeof(iso_seal) == ISO_SEAL_BYTES);

bool same_ports(const std::vector<Port>& a, const std::vector<Port>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Port& x, const Port& y) {
    return x.name == y.name && x.dtype == y.dtype && x.dims == y.dims;
  });
}

bool same_names(const std::vector<Port>& a, const std::vector<Port>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const Port& x, const Port& y) { return x.name == y.name && x.dtype == y.dtype; });
}

// A run has to tell sizes apart by what it is given.
Expected<void> check_sizes(const std::vector<Variant>& variants, size_t sizes) {
  if (sizes == 0 || variants.size() % sizes != 0)
    return Diagnostic("E-module", "Every variant of a module must have all of its sizes.");
  for (size_t i = 0; i < sizes; ++i) {
    const Plan& plan = variants[i].plan;
    if (!same_names(plan.inputs, variants[0].plan.inputs) || !same_names(plan.outputs, variants[0].plan.outputs))
      return Diagnostic("E-module", "The sizes of a module differ in more than the dims of their inputs and outputs.");
    for (size_t k = 0; k < i; ++k)
      if (same_ports(plan.inputs, variants[k].plan.inputs))
        return Diagnostic("E-module", "Two sizes of a module have the same inputs.");
  }
  return {};
}

Expected<void> check(const std::vector<Variant>& variants, size_t sizes) {
  if (variants.empty()) return Diagnostic("E-module", "A module needs at least one variant.");
  ISOMER_CHECK_OK(check_sizes(variants, sizes));
  const Plan& first = variants[0].plan;
  std::set<std::string_view> kernels;
  for (size_t i = 0; i < variants.size(); ++i) {
    const Plan &plan = variants[i].plan, &like = variants[i % sizes].plan;
    if (plan.target.arch != first.target.arch) {
      return Diagnostic("E-module", "The variants " + isomer::quoted(first.target.name) + " and " +
                                        isomer::quoted(plan.target.name) +
                                        " are for different architectures; write one module for each.");
    }
    if (!same_ports(plan.inputs, like.inputs) || !same_ports(plan.outputs, like.outputs)) {
      return Diagnostic("E-module", "The variants of a module differ in their inputs or outputs.");
    }
    std::set<std::string_view> own;
    for (const Step& step : plan.steps) own.insert(step.function);
    for (const std::string_view name : own) {
      if (!kernels.insert(name).second) {
        return Diagnostic("E-module", "Two variants of a module have a kernel named " + isomer::quoted(name) + ".");
      }
    }
  }
  return {};
}

// The new file beside the one it will replace, removed unless it is finished.
class OutputFile {
 public:
  explicit OutputFile(std::string path)
      : path_(std::move(path)), temporary_(path_ + ".part" + std::to_string(::getpid())) {
    file_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0777);
  }
  ~OutputFile() {
    if (file_ < 0) return;
    ::close(file_);
    ::unlink(temporary_.c_str());
  }
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  bool write(const void* data, uint64_t size, iso_hash& hash) {
    if (file_ < 0) return false;
    iso_hash_add(&hash, data, size);
    const char* at = static_cast<const char*>(data);
    while (size) {
      const ssize_t done = ::write(file_, at, std::min<uint64_t>(size, 1u << 30));
      if (done < 0 && errno == EINTR) continue;
      if (done < 0) return false;
      at += done;
      size -= static_cast<uint64_t>(done);
      written_ += static_cast<uint64_t>(done);
    }
    return true;
  }
  bool zeros(uint64_t size, iso_hash& hash) {
    static constexpr char kZeros[4096] = {};
    for (; size; size -= std::min<uint64_t>(size, sizeof kZeros)) {
      if (!write(kZeros, std::min<uint64_t>(size, sizeof kZeros), hash)) return false;
    }
    return true;
  }
  uint64_t written() const { return written_; }
  bool finish() {
    if (file_ < 0 || ::close(file_) != 0) return false;
    file_ = -1;
    if (::rename(temporary_.c_str(), path_.c_str()) == 0) return true;
    ::unlink(temporary_.c_str());
    return false;
  }

 private:
  std::string path_, temporary_;
  int file_ = -1;
  uint64_t written_ = 0;
};

// Linked library, weights, seal. False with errno set.
bool write_parts(OutputFile& file, const std::string& head, const WeightLayout& weights, uint16_t machine) {
  iso_seal seal{};
  iso_hash hash;
  iso_hash_begin(&hash);
  if (!file.write(head.data(), head.size(), hash)) return false;
  seal.head_hash = iso_hash_end(&hash);
  seal.weights_offset = head.size();

  iso_hash_begin(&hash);
  for (const WeightLayout::Piece& piece : weights.pieces) {
    if (!file.zeros(seal.weights_offset + piece.offset - file.written(), hash)) return false;
    if (!file.write(piece.bytes, piece.size, hash)) return false;
  }
  if (!file.zeros(seal.weights_offset + weights.bytes - file.written(), hash)) return false;
  seal.weights_hash = iso_hash_end(&hash);
  seal.weights_bytes = weights.bytes;

  std::memcpy(seal.magic, ISO_SEAL_MAGIC, sizeof seal.magic);
  seal.version = ISO_VERSION;
  seal.machine = machine;
  seal.file_bytes = file.written() + sizeof seal;
  seal.seal_hash = iso_seal_hash(&seal);
  return file.write(&seal, sizeof seal, hash);
}

// The library that the linker made, with the place of the weights filled in, up to where they begin.
Expected<std::string> linked_head(const std::vector<Variant>& variants, size_t sizes, const WeightLayout& weights) {
  const loop::Arch arch = variants[0].plan.target.arch;
  const std::vector<RuntimeObject> runtime = runtime_objects(arch);
  if (runtime.empty()) {
    return Diagnostic("E-module", "This build of Isomer has no runtime for " +
                                      isomer::quoted(variants[0].plan.target.name) +
                                      "; build it where clang-19 is installed.");
  }
  ISOMER_TRY(const std::string tables, module_tables(variants, sizes, weights));
  std::vector<LinkInput> inputs = {{"the module's tables", tables}};
  for (const Variant& variant : variants) {
    for (size_t i = 0; i < variant.objects.size(); ++i) {
      inputs.push_back({"object " + std::to_string(i) + " of " + variant.plan.target.name, variant.objects[i]});
    }
  }
  for (const RuntimeObject& object : runtime)
    inputs.push_back({"the runtime's " + std::string(object.name), object.bytes});
  ISOMER_TRY(std::string head, link_shared(arch, inputs));
  if (weights.bytes == 0) return head;
  const uint64_t offset = (head.size() + kSegmentAlignment - 1) / kSegmentAlignment * kSegmentAlignment;
  const auto address = add_segment(head, offset, weights.bytes, kSegmentAlignment);
  const auto place_at = section_offset(head, kPlaceSection);
  if (!address || !place_at) {
    return Diagnostic("E-linker", "The linker made a library of an unknown form; use LLVM's linker of version 19.");
  }
  const iso_module_place place{*address, weights.bytes};
  std::memcpy(head.data() + *place_at, &place, sizeof place);
  head.resize(offset);
  return head;
}

}  // namespace

Expected<ModuleSize> write_module(const std::string& path, const std::vector<Variant>& variants, size_t sizes) {
  ISOMER_CHECK_OK(check(variants, sizes));
  const WeightLayout weights = layout_weights(variants);
  ISOMER_TRY(const std::string head, linked_head(variants, sizes, weights));
  OutputFile file(path);
  const uint16_t machine = elf_machine(variants[0].plan.target.arch);
  if (!write_parts(file, head, weights, machine)) {
    return Diagnostic("E-file",
                      "The module " + isomer::quoted(path) + " cannot be written: " + std::strerror(errno) + ".");
  }
  const ModuleSize size{file.written(), weights.bytes};
  if (!file.finish()) {
    return Diagnostic("E-file",
                      "The module " + isomer::quoted(path) + " cannot be written: " + std::strerror(errno) + ".");
  }
  return size;
}

}  // namespace isomer::compile
