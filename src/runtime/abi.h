/* What generated code and the runtime agree on. C, so that a module needs nothing of Isomer on the target.
 * A program is data: kernels in order, each with the places of its arguments; it never changes after it is made, so that
 * any number of contexts may run it at the same time. */
#pragma once

#include <stdint.h>

#include "runtime/isomer.h"

#ifdef __cplusplus
extern "C" {
#endif

#define ISO_ABI_VERSION 3
#define ISO_ALIGNMENT 64 /* of every buffer in the arena and in the weights */
#define ISO_SLACK 64     /* bytes after each of them that may be read, never written */
#define ISO_MAX_RANK 16

/* Runs tasks begin <= t < end. `scratch` is one worker's own. 0, or a loop::Status: 1 an index out of range, 2 a division by
 * zero. */
typedef int32_t (*iso_kernel)(void* const* arguments, int64_t begin, int64_t end, void* scratch);

typedef enum {
  ISO_IN_ARENA = 0,
  ISO_IN_WEIGHTS = 1,
  ISO_IN_INPUT = 2,
  ISO_IN_OUTPUT = 3,
  ISO_AT_ADDRESS = 4 /* in this process; never in a module */
} iso_space;

/* The place of one argument: an offset in the arena or the weights, or in the caller's input or output number `index`, or an
 * address. */
typedef struct {
  uint32_t space;
  uint32_t index;
  uint64_t offset;
} iso_place;

typedef struct {
  uint64_t offset;
  uint64_t bytes;
} iso_range;

/* A step that runs no kernel says which step is next. Its conditions and counters are values that steps before it computed, so
 * that a model's loops and branches need no memory outside of the arena. */
typedef enum {
  ISO_RUN_KERNEL = 0,
  ISO_JUMP = 1,        /* to `target`, which is behind it */
  ISO_JUMP_UNLESS = 2, /* to `target`, behind it, when the byte at argument 0 is zero */
  ISO_JUMP_BACK = 3    /* to `target`; argument 0 counts the rounds (int64_t), and `tasks` of them are too many */
} iso_control;

typedef struct {
  iso_kernel kernel;  /* NULL where `control` is not ISO_RUN_KERNEL */
  const char* name;   /* of the kernel */
  const char* origin; /* the source nodes, comma-separated */
  const iso_place* arguments;
  const iso_range* freed; /* ranges of the arena that nothing reads after this step, for the poison mode */
  uint32_t argument_count;
  uint32_t freed_count;
  int64_t tasks;
  uint64_t scratch_bytes; /* of one worker */
  double flops;           /* arithmetic of one run, 0 where unknown */
  double bytes;           /* read and written at least, 0 where unknown */
  uint32_t control;
  uint32_t target;   /* the step that is next when control jumps; the number of steps ends the run */
  uint32_t backward; /* not 0: a thread takes its tasks from the last to the first */
} iso_step;

typedef struct {
  uint32_t abi_version;
  uint32_t input_count;
  uint32_t output_count;
  uint32_t step_count;
  const char* model;    /* its name, for messages */
  const char* target;   /* "x86-64-v4", for messages */
  const char* features; /* what the CPU must have, comma-separated, in LLVM's names */
  const iso_tensor* inputs;
  const iso_tensor* outputs;
  const iso_step* steps;
  const void* weights;
  uint64_t weight_bytes;
  uint64_t arena_bytes;
  uint64_t scratch_bytes; /* the most any step wants of one worker */
  /* For each output that varies where its dims (int64_t) lie in the arena after the last step; NULL where none does. */
  const uint64_t* run_dims;
} iso_program;

/* A model over a program that outlives it: the way in for code that lives in this process. */
iso_model* iso_open_program(const iso_program* program, iso_error* error);

/* Whether a step with so much to do is shared out among threads; one that is not has the caller's alone. */
int iso_pays_threads(int64_t tasks, double flops, double bytes);

/* Threads that contexts of this process take turns with. */
typedef struct iso_pool iso_pool;
iso_pool* iso_threads_start(int threads, iso_error* error); /* 0: one per CPU */
void iso_threads_stop(iso_pool* pool);                      /* NULL is fine; no context has them any more */

#define ISO_LENT_THREADS \
  0x80000000u /* of iso_new_context: it has no threads of its own, and runs on those that it is lent */
/* For the runs from now on; as many as the context was made for. NULL takes them back. */
void iso_lend_threads(iso_context* context, iso_pool* pool);

#ifdef __cplusplus
}
#endif
