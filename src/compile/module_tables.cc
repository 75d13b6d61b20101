#include "compile/module_tables.h"

#include <cstring>
#include <map>
#include <utility>

#include "compile/arena.h"
#include "compile/elf.h"
#include "compile/host_program.h"
#include "runtime/isomer_seal.h"
#include "runtime/module/module.h"

namespace isomer::compile {

namespace {

uint64_t content_hash(const Weight& weight) {
  iso_hash hash;
  iso_hash_begin(&hash);
  iso_hash_add(&hash, weight.bytes.get(), weight.size);
  return iso_hash_end(&hash);
}

class Builder {
 public:
  Builder(const std::vector<Variant>& variants, size_t sizes, const WeightLayout& weights)
      : variants_(variants), sizes_(sizes), weights_(weights) {
    object_.arch = variants[0].plan.target.arch;
  }

  Expected<std::string> build() {
    const uint64_t module_at = object_.pointers.reserve(sizeof(iso_module), alignof(iso_module));
    const uint64_t programs_at = object_.pointers.reserve(variants_.size() * sizeof(iso_program), alignof(iso_program));
    iso_module module{};
    module.abi_version = ISO_ABI_VERSION;
    module.variant_count = static_cast<uint32_t>(variants_.size() / sizes_);
    module.size_count = static_cast<uint32_t>(sizes_);
    object_.pointers.set(module_at, &module, sizeof module);
    point(module_at + offsetof(iso_module, programs), Relocation::To::Pointers, programs_at);
    for (size_t i = 0; i < variants_.size(); ++i) {
      ISOMER_CHECK_OK(program(i, programs_at + i * sizeof(iso_program)));
    }
    object_.pointers_symbol = "iso_module_data";
    object_.pointers_symbol_at = module_at;
    object_.place_symbol = "iso_module_weights";
    object_.place.reserve(sizeof(iso_module_place), 8);
    return object_.object();
  }

 private:
  void point(uint64_t at, Relocation::To to, uint64_t offset) { object_.relocations.push_back({at, to, offset, {}}); }

  // The same text is stored once.
  void text(uint64_t at, const std::string& text) {
    auto [known, fresh] = texts_.try_emplace(text, 0);
    if (fresh) known->second = object_.constants.text(text);
    point(at, Relocation::To::Constants, known->second);
  }

  uint64_t tensors(const std::vector<Port>& ports) {
    const uint64_t at = object_.pointers.reserve(ports.size() * sizeof(iso_tensor), alignof(iso_tensor));
    for (size_t i = 0; i < ports.size(); ++i) {
      const Port& port = ports[i];
      iso_tensor tensor{};
      tensor.dtype = onnx_number(port.dtype);
      tensor.rank = static_cast<int32_t>(port.dims.size());
      tensor.bytes = port.byte_size();
      tensor.alignment = port.alignment ? port.alignment : static_cast<uint32_t>(size_of(port.dtype));
      tensor.slack = port.slack;
      tensor.varies = port.run_dims ? 1 : 0;
      const uint64_t here = at + i * sizeof(iso_tensor);
      object_.pointers.set(here, &tensor, sizeof tensor);
      text(here + offsetof(iso_tensor, name), port.name);
      point(here + offsetof(iso_tensor, dims), Relocation::To::Constants,
            object_.constants.put(port.dims.data(), port.dims.size() * sizeof(int64_t), alignof(int64_t)));
    }
    return at;
  }

  Expected<iso_place> place(size_t variant, const Step& step, const Place& place) const {
    switch (place.space) {
      case Space::Arena: return iso_place{ISO_IN_ARENA, 0, place.offset};
      case Space::Input: return iso_place{ISO_IN_INPUT, place.index, place.offset};
      case Space::Output: return iso_place{ISO_IN_OUTPUT, place.index, place.offset};
      case Space::Address:
        return Diagnostic("E-module", "The step " + isomer::quoted(origin_text(step.origin)) +
                                          " is run by a kernel of this process, which a module cannot hold.");
      case Space::Weight: break;
    }
    const Plan& plan = variants_[variant].plan;
    if (place.index >= plan.weights.size() || place.offset > plan.weights[place.index].size) {
      return Diagnostic("E-plan",
                        "The kernel " + isomer::quoted(step.function) + " reads a weight that the plan does not have.");
    }
    return iso_place{ISO_IN_WEIGHTS, 0, weights_.offsets[variant][place.index] + place.offset};
  }

  Expected<void> step(size_t variant, const Step& from, uint64_t at) {
    std::vector<iso_place> places;
    for (const Place& argument : from.arguments) {
      ISOMER_TRY(const iso_place resolved, place(variant, from, argument));
      places.push_back(resolved);
    }
    std::vector<iso_range> freed;
    for (const Range& range : from.freed) freed.push_back({range.offset, range.bytes});
    iso_step step{};
    step.argument_count = static_cast<uint32_t>(places.size());
    step.freed_count = static_cast<uint32_t>(freed.size());
    step.backward = from.backward ? 1 : 0;
    step.tasks = from.tasks;
    step.scratch_bytes = from.scratch_bytes;
    step.flops = from.flops;
    step.bytes = from.bytes;
    step.control = static_cast<uint32_t>(from.control);
    step.target = from.target;
    object_.pointers.set(at, &step, sizeof step);
    if (from.control == Control::Kernel)
      object_.relocations.push_back({at + offsetof(iso_step, kernel), Relocation::To::Symbol, 0, from.function});
    text(at + offsetof(iso_step, name), from.function);
    text(at + offsetof(iso_step, origin), origin_text(from.origin));
    point(at + offsetof(iso_step, arguments), Relocation::To::Constants,
          object_.constants.put(places.data(), places.size() * sizeof(iso_place), alignof(iso_place)));
    point(at + offsetof(iso_step, freed), Relocation::To::Constants,
          object_.constants.put(freed.data(), freed.size() * sizeof(iso_range), alignof(iso_range)));
    return {};
  }

  Expected<void> program(size_t variant, uint64_t at) {
    const Plan& plan = variants_[variant].plan;
    iso_program program{};
    program.abi_version = ISO_ABI_VERSION;
    program.input_count = static_cast<uint32_t>(plan.inputs.size());
    program.output_count = static_cast<uint32_t>(plan.outputs.size());
    program.step_count = static_cast<uint32_t>(plan.steps.size());
    program.weight_bytes = weights_.bytes;
    program.arena_bytes = plan.arena_bytes;
    program.scratch_bytes = plan.scratch_bytes();
    object_.pointers.set(at, &program, sizeof program);
    text(at + offsetof(iso_program, model), plan.model);
    text(at + offsetof(iso_program, target), plan.target.name);
    text(at + offsetof(iso_program, features), feature_text(plan.target));
    point(at + offsetof(iso_program, inputs), Relocation::To::Pointers, tensors(plan.inputs));
    point(at + offsetof(iso_program, outputs), Relocation::To::Pointers, tensors(plan.outputs));
    std::vector<uint64_t> run_dims;
    for (const Port& port : plan.outputs) run_dims.push_back(port.run_dims.value_or(UINT64_MAX));
    point(at + offsetof(iso_program, run_dims), Relocation::To::Constants,
          object_.constants.put(run_dims.data(), run_dims.size() * sizeof(uint64_t), alignof(uint64_t)));
    const uint64_t steps_at = object_.pointers.reserve(plan.steps.size() * sizeof(iso_step), alignof(iso_step));
    point(at + offsetof(iso_program, steps), Relocation::To::Pointers, steps_at);
    for (size_t i = 0; i < plan.steps.size(); ++i) {
      ISOMER_CHECK_OK(step(variant, plan.steps[i], steps_at + i * sizeof(iso_step)));
    }
    return {};
  }

  const std::vector<Variant>& variants_;
  const size_t sizes_;
  const WeightLayout& weights_;
  TableObject object_;
  std::map<std::string, uint64_t> texts_;
};

}  // namespace

WeightLayout layout_weights(const std::vector<Variant>& variants) {
  WeightLayout layout;
  std::map<std::pair<const std::byte*, uint64_t>, uint64_t> by_address;
  std::multimap<uint64_t, size_t> by_content;  // hash -> piece
  for (const Variant& variant : variants) {
    std::vector<uint64_t>& offsets = layout.offsets.emplace_back();
    for (const Weight& weight : variant.plan.weights) {
      auto [known, fresh] = by_address.try_emplace({weight.bytes.get(), weight.size}, layout.bytes);
      offsets.push_back(known->second);
      if (!fresh) continue;
      if (variants.size() > 1) {
        const uint64_t hash = content_hash(weight);
        bool found = false;
        for (auto [at, end] = by_content.equal_range(hash); at != end && !found; ++at) {
          const WeightLayout::Piece& piece = layout.pieces[at->second];
          found = piece.size == weight.size && std::memcmp(piece.bytes, weight.bytes.get(), weight.size) == 0;
          if (found) offsets.back() = known->second = piece.offset;
        }
        if (found) continue;
        by_content.emplace(hash, layout.pieces.size());
      }
      layout.pieces.push_back({weight.bytes.get(), weight.size, layout.bytes});
      layout.bytes += rounded_up(weight.size + ISO_SLACK);
    }
  }
  return layout;
}

Expected<std::string> module_tables(const std::vector<Variant>& variants, size_t sizes, const WeightLayout& weights) {
  return Builder(variants, sizes, weights).build();
}

}  // namespace isomer::compile
