// Assembly: one plan put together from parts: other plans, kernels of its own and jumps. Values between the parts lie in the
// arena of the whole for the time in which parts need them; the arena of a part is such a value too. Equal functions of the
// parts are one.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "compile/lower.h"

namespace isomer::compile {

class Assembly {
 public:
  Assembly(std::string model, const loop::Target& target);

  std::vector<Port>& inputs() { return out_.plan.inputs; }
  std::vector<Port>& outputs() { return out_.plan.outputs; }

  // Values that are in use at different times may share memory; times grow by this alone.
  void next_time() { ++time_; }
  // Memory in the arena, in use from its first use to its last one: its place until finish() gives it another.
  Place memory(uint64_t bytes);
  Place weight(const Tensor& contents);
  void use(const Place& place);  // at this time
  // Output `number` has the dims that are at this place when all is done.
  void set_run_dims(size_t number, const Place& place) { run_dims_.emplace_back(number, place.index); }

  // Where the inputs and outputs of a part are: Space::Input or Space::Output, and which one.
  using Find = std::function<Place(Space, uint32_t)>;
  void add(const Lowered& part, const Find& find);
  void add(loop::Function function, std::vector<Place> arguments, double bytes = 0);

  // The next step's number, for jumps to it.
  uint32_t here() const { return static_cast<uint32_t>(out_.plan.steps.size()); }
  // A jump whose target is set by aim().
  uint32_t jump(Control control, std::vector<Place> arguments, const std::vector<std::string>& origin,
                int64_t most = 0);
  void aim(uint32_t jump, uint32_t target) { out_.plan.steps[jump].target = target; }
  // A step that runs whichever way was taken before it, as the last one of a part that jumps.
  void end_of_jumps(const std::vector<std::string>& origin);

  Lowered finish() &&;

 private:
  struct Memory {
    uint64_t bytes = 0;
    int first = -1, last = -1;
    size_t last_step = 0;
  };
  struct Freed {
    size_t step;
    uint32_t memory;
    Range range;
  };
  std::string function_for(loop::Function f, const std::string& signature);

  Lowered out_;
  int time_ = 0;
  std::vector<Memory> memory_;
  std::vector<Freed> freed_;
  std::vector<std::pair<size_t, uint32_t>> run_dims_;  // of an output, in this memory
  std::map<std::string, std::string> names_;           // the signature of a function -> its name
};

// The model's nodes that a node came from, itself where nothing is known.
std::vector<std::string> origin_of(const ir::Node& node);

}  // namespace isomer::compile
