// Plan: a compiled model as data, before it becomes a program in memory (compile/host_program.h) or a module on disk
// (compile/module.h). Steps run in order; each names a kernel and the places of its arguments. Offsets in the arena are
// final. Weights have no offsets yet: whoever stores them lays them out, each at a multiple of ISO_ALIGNMENT and with
// ISO_SLACK readable bytes behind it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compile/rounding.h"
#include "loop/target.h"
#include "tensor/dtype.h"

namespace isomer::compile {

enum class Space : uint8_t {
  Arena,    // offset bytes into the arena
  Weight,   // offset bytes into weight number `index`
  Input,    // offset bytes into the caller's input number `index`
  Output,   // offset bytes into the caller's output number `index`
  Address,  // offset is an address of this process: data of a kernel of ours. A module cannot hold it.
};

struct Place {
  Space space = Space::Arena;
  uint32_t index = 0;
  uint64_t offset = 0;
  bool operator==(const Place&) const = default;
};

// Bytes in the arena.
struct Range {
  uint64_t offset = 0;
  uint64_t bytes = 0;
  bool operator==(const Range&) const = default;
};

// Which step is next; see iso_control.
enum class Control : uint8_t { Kernel, Jump, JumpUnless, JumpBack };

struct Step {
  std::string function;             // symbol of the kernel, unique in the module; of a jump: what reports call it
  std::vector<std::string> origin;  // the source nodes
  std::vector<Place> arguments;     // in the order of the kernel's buffers
  int64_t tasks = 1;                // loop::Function::tasks; of a JumpBack: the most rounds
  bool backward = false;            // they run from the last to the first: what was read last is still near
  uint64_t scratch_bytes = 0;       // of one worker
  double flops = 0, bytes = 0;      // of one run, for reports and for the choice whether threads pay; 0: unknown
  std::vector<Range> freed;         // what nothing reads after this step; only the poison mode looks at it
  Control control = Control::Kernel;
  uint32_t target = 0;  // of a jump: the number of a step, or of all steps
};

// An input or output of the model.
struct Port {
  std::string name;
  DType dtype = DType::F32;
  std::vector<int64_t> dims;
  // What the kernels take for granted of its first byte and behind its last one. The runtime copies a caller's buffer
  // that does not have it. Loops ask for no more than the alignment of their elements.
  uint32_t alignment = 0;  // 0: the size of an element
  uint32_t slack = 0;
  // Of an output whose size a run tells: its dims are the most that they can be, and those of a run lie here in the arena, as
  // int64_t, when the last step is done.
  std::optional<uint64_t> run_dims = {};

  uint64_t byte_size() const;
};

struct Weight {
  std::shared_ptr<const std::byte> bytes;  // aliases its owner
  uint64_t size = 0;
  bool padded = false;  // starts at a multiple of ISO_ALIGNMENT and has ISO_SLACK readable bytes behind it
};

struct Plan {
  std::string model;  // its name, for messages
  loop::Target target;
  std::vector<Port> inputs, outputs;
  std::vector<Step> steps;
  std::vector<Weight> weights;
  uint64_t arena_bytes = 0;
  Rounding rounding;  // of any of the steps

  uint64_t scratch_bytes() const;  // the most that a step wants of one worker
  uint64_t weight_bytes() const;   // of all, without padding
};

// The number that ONNX and the C interface give an element type; 0 for Opaque.
int32_t onnx_number(DType type);

}  // namespace isomer::compile
