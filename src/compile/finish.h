// What every scheme ends with: the rows of a kernel as tasks, and all that a kernel says of itself.
#pragma once

#include <vector>

#include "compile/accesses.h"
#include "compile/kernel.h"

namespace isomer::compile {

// The source nodes of the group's stages, each once.
void add_origin(loop::Function& function, const Scene& scene, const Group& group);

// Its origin, its work, and its arguments before all other buffers.
void finish(Kernel& kernel, const Scene& scene, const Group& group, double flops);

// `body` for every point of `axes`, outermost first, so many points after another that a task does `work` operations, but no
// more than `most` tasks.
struct TaskSize {
  double work = 1;
  int64_t most = 1;
};
constexpr TaskSize kWindowTasks{40000, 256};  // of sums over windows
loop::Stmt as_tasks(loop::Stmt body, const std::vector<LoopAxis>& axes, double flops, const TaskSize& size,
                    int& next_var);

// The same where `chunk` runs outside of the other axes, but only within bands of these: bands of a result are read and
// written by the thread that has the same band of what comes before and after, and need not travel between caches.
loop::Stmt as_banded_tasks(loop::Stmt body, const LoopAxis& chunk, const std::vector<LoopAxis>& axes, double flops,
                           const TaskSize& size, int& next_var);

}  // namespace isomer::compile
