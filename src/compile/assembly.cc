#include "compile/assembly.h"

#include <fmt/format.h>

#include "compile/arena.h"
#include "loop/signature.h"

namespace isomer::compile {

Assembly::Assembly(std::string model, const loop::Target& target) {
  out_.plan.model = std::move(model);
  out_.plan.target = target;
}

Place Assembly::memory(uint64_t bytes) {
  memory_.push_back({bytes});
  return {Space::Arena, static_cast<uint32_t>(memory_.size() - 1), 0};
}

Place Assembly::weight(const Tensor& contents) {
  const auto tensor = std::make_shared<Tensor>(contents);
  Weight& w = out_.plan.weights.emplace_back();
  w.bytes = std::shared_ptr<const std::byte>(tensor, tensor->bytes());
  w.size = tensor->byte_size();
  return {Space::Weight, static_cast<uint32_t>(out_.plan.weights.size() - 1), 0};
}

void Assembly::use(const Place& place) {
  if (place.space != Space::Arena) return;
  Memory& m = memory_[place.index];
  if (m.first < 0) m.first = time_;
  m.last = time_;
  m.last_step = out_.plan.steps.empty() ? 0 : out_.plan.steps.size() - 1;
}

std::string Assembly::function_for(loop::Function f, const std::string& signature) {
  auto [it, fresh] = names_.try_emplace(signature, "");
  if (!fresh) return it->second;
  it->second = fmt::format("kernel_{}", out_.functions.size());
  f.name = it->second;
  out_.functions.push_back(std::move(f));
  out_.signatures.push_back(signature);
  return it->second;
}

void Assembly::add(const Lowered& part, const Find& find) {
  const Place arena = memory(part.plan.arena_bytes);
  const auto first_weight = static_cast<uint32_t>(out_.plan.weights.size());
  const uint32_t first_step = here();
  out_.plan.rounding.split |= part.plan.rounding.split;
  out_.plan.rounding.filtering |= part.plan.rounding.filtering;
  out_.plan.weights.insert(out_.plan.weights.end(), part.plan.weights.begin(), part.plan.weights.end());
  std::map<std::string, std::string> names;
  std::vector<Place> places;
  for (size_t i = 0; i < part.functions.size(); ++i)
    names[part.functions[i].name] = function_for(part.functions[i], part.signatures[i]);
  for (Step step : part.plan.steps) {
    if (step.control == Control::Kernel) step.function = names.at(step.function);
    step.target += step.control == Control::Kernel ? 0 : first_step;
    for (const Range& r : step.freed) freed_.push_back({out_.plan.steps.size(), arena.index, r});
    step.freed.clear();
    for (Place& at : step.arguments) {
      Place place = at;
      if (at.space == Space::Arena) place = {Space::Arena, arena.index, at.offset};
      if (at.space == Space::Weight) place.index += first_weight;
      if (at.space == Space::Input || at.space == Space::Output) {
        place = find(at.space, at.index);
        place.offset += at.offset;
      }
      places.push_back(place);
      at = place;
    }
    out_.plan.steps.push_back(std::move(step));
  }
  // In use until the part ends: a step of a loop is not the last one that reads its arguments.
  for (const Place& place : places) use(place);
  if (!part.plan.steps.empty()) use(arena);
}

void Assembly::add(loop::Function function, std::vector<Place> arguments, double bytes) {
  Step step;
  step.origin = function.origin;
  step.tasks = function.tasks();
  step.scratch_bytes = static_cast<uint64_t>(function.scratch_bytes());
  step.bytes = bytes;
  step.arguments = arguments;
  const std::string signature = loop::signature(function);
  step.function = function_for(std::move(function), signature);
  out_.plan.steps.push_back(std::move(step));
  for (const Place& place : arguments) use(place);
}

uint32_t Assembly::jump(Control control, std::vector<Place> arguments, const std::vector<std::string>& origin,
                        int64_t most) {
  Step step;
  step.function = control == Control::JumpUnless ? "jump_unless" : control == Control::JumpBack ? "jump_back" : "jump";
  step.origin = origin;
  step.arguments = arguments;
  step.tasks = most;
  step.control = control;
  out_.plan.steps.push_back(std::move(step));
  for (const Place& place : arguments) use(place);
  return here() - 1;
}

void Assembly::end_of_jumps(const std::vector<std::string>& origin) {
  const uint32_t last = jump(Control::Jump, {}, origin);
  aim(last, last + 1);
}

Lowered Assembly::finish() && {
  for (const auto& [number, memory] : run_dims_) memory_[memory].last = time_;
  std::vector<Interval> intervals;
  std::vector<size_t> interval_of(memory_.size(), SIZE_MAX);
  for (size_t i = 0; i < memory_.size(); ++i) {
    if (memory_[i].first < 0 || memory_[i].bytes == 0) continue;
    interval_of[i] = intervals.size();
    intervals.push_back({memory_[i].bytes, memory_[i].first, memory_[i].last});
  }
  const Arena arena = plan_arena(intervals);
  const auto offset = [&](size_t i) { return interval_of[i] == SIZE_MAX ? 0 : arena.offsets[interval_of[i]]; };
  for (Step& step : out_.plan.steps)
    for (Place& place : step.arguments)
      if (place.space == Space::Arena) place = {Space::Arena, 0, offset(place.index) + place.offset};
  for (const Freed& f : freed_)
    out_.plan.steps[f.step].freed.push_back({offset(f.memory) + f.range.offset, f.range.bytes});
  // A jump may leave out the steps before its target, never what is freed: parts end with a step that always runs.
  std::vector<bool> kept(memory_.size());
  for (const auto& [number, memory] : run_dims_) {
    kept[memory] = true;
    out_.plan.outputs[number].run_dims = offset(memory);
  }
  for (size_t i = 0; i < memory_.size(); ++i)
    if (interval_of[i] != SIZE_MAX && time_ > 0 && !kept[i])
      out_.plan.steps[memory_[i].last_step].freed.push_back({offset(i), memory_[i].bytes});
  out_.plan.arena_bytes = arena.bytes;
  out_.least_arena_bytes = arena.lower_bound;
  return std::move(out_);
}

std::vector<std::string> origin_of(const ir::Node& n) {
  return n.origin.empty() ? std::vector<std::string>{n.names.empty() ? n.label : n.names[0]} : n.origin;
}

}  // namespace isomer::compile
