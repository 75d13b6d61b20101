#include "compile/runtime_objects.h"

extern "C" {
struct isomer_embedded_object {
  const char *arch, *name, *begin, *end;
};
extern const isomer_embedded_object isomer_embedded_objects[];  // generated: cmake/runtime_objects.cmake
}

namespace isomer::compile {

std::vector<RuntimeObject> runtime_objects(loop::Arch arch) {
  const std::string_view wanted = arch == loop::Arch::X86_64 ? "x86_64" : "aarch64";
  std::vector<RuntimeObject> objects;
  for (const auto* object = isomer_embedded_objects; object->arch; ++object) {
    if (object->arch != wanted) continue;
    objects.push_back({object->name, {object->begin, static_cast<size_t>(object->end - object->begin)}});
  }
  return objects;
}

}  // namespace isomer::compile
