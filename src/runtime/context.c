#include "runtime/failure.h"
#include "runtime/libc.h"
#include "runtime/memory.h"
#include "runtime/model.h"

#define POISON 0xff /* every float type reads it as NaN, integers as -1 */

static uint64_t rounded_up(uint64_t bytes) { return (bytes + ISO_ALIGNMENT - 1) / ISO_ALIGNMENT * ISO_ALIGNMENT; }

static int64_t now(void) {
  iso_timespec time = {0, 0};
  clock_gettime(ISO_CLOCK_MONOTONIC, &time);
  return time.seconds * 1000000000 + time.nanoseconds;
}

static int available_cpus(void) {
  uint64_t mask[128];
  memset(mask, 0, sizeof mask);
  if (sched_getaffinity(0, sizeof mask, mask) < 0) return 1;
  int count = 0;
  for (size_t i = 0; i < sizeof mask / sizeof mask[0]; ++i) {
    for (uint64_t bits = mask[i]; bits; bits &= bits - 1) ++count;
  }
  return count < 1 ? 1 : count > ISO_MAX_THREADS ? ISO_MAX_THREADS : count;
}

static int no_memory(const iso_context_impl* c, uint64_t bytes, iso_error* error) {
  return iso_fail(error, ISO_NO_MEMORY,
                  "There is no memory for a context of the model '%.80s': %llu bytes were asked for.",
                  c->model->programs->model, (unsigned long long)bytes);
}

static void stop_threads(iso_context_impl* c) {
  if (!(c->flags & ISO_LENT_THREADS)) iso_pool_stop(c->pool);
  iso_unmap(c->scratch, c->scratch_bytes);
  c->pool = NULL;
  c->scratch = NULL;
  c->threads = 0;
}

static int start_threads(iso_context_impl* c, int threads, iso_error* error) {
  c->scratch_bytes = c->scratch_stride * (uint64_t)threads;
  c->scratch = iso_map(c->scratch_bytes);
  if (!c->scratch) return no_memory(c, c->scratch_bytes, error);
  int code = ISO_OK;
  if (!(c->flags & ISO_LENT_THREADS)) c->pool = iso_pool_start(threads, &code);
  if (code == ISO_OK) {
    c->threads = threads;
    return ISO_OK;
  }
  stop_threads(c);
  if (code == ISO_NO_MEMORY) return no_memory(c, sizeof(void*), error);
  return iso_fail(error, code, "The system does not give %d threads to this process.", threads - 1);
}

static int resolve_threads(int* threads, iso_error* error) {
  if (*threads < 0 || *threads > ISO_MAX_THREADS) {
    return iso_fail(error, ISO_BAD_ARGUMENT, "The number of threads must be 1 to %d, or 0 for one per CPU; found %d.",
                    ISO_MAX_THREADS, *threads);
  }
  if (*threads == 0) *threads = available_cpus();
  return ISO_OK;
}

iso_pool* iso_threads_start(int threads, iso_error* error) {
  if (resolve_threads(&threads, error)) return NULL;
  int code = ISO_OK;
  iso_pool* pool = iso_pool_start(threads, &code);
  if (!pool) iso_fail(error, code, "The system does not give %d threads to this process.", threads - 1);
  return pool;
}

void iso_threads_stop(iso_pool* pool) { iso_pool_stop(pool); }

void iso_lend_threads(iso_context* context, iso_pool* pool) {
  iso_context_impl* c = (iso_context_impl*)context;
  c->pool = pool && iso_pool_threads(pool) == c->threads ? pool : NULL;
}

/* All arguments whose address is known before a run; the others become patches. */
static int resolve_arguments(const iso_context_impl* context, iso_sized* c, iso_error* error) {
  const iso_program* p = c->program;
  uint64_t total = 0, patches = 0;
  for (uint32_t s = 0; s < p->step_count; ++s) {
    total += p->steps[s].argument_count;
    for (uint32_t i = 0; i < p->steps[s].argument_count; ++i) {
      const uint32_t space = p->steps[s].arguments[i].space;
      patches += space == ISO_IN_INPUT || space == ISO_IN_OUTPUT;
    }
  }
  c->arguments = calloc(total + 1, sizeof *c->arguments);
  c->patches = calloc(patches + 1, sizeof *c->patches);
  if (!c->arguments || !c->patches) return no_memory(context, total * sizeof(void*), error);
  const char* weights = iso_weights(context->model, context->flags);
  uint64_t slot = 0;
  for (uint32_t s = 0; s < p->step_count; ++s) {
    c->first[s] = slot;
    for (uint32_t i = 0; i < p->steps[s].argument_count; ++i, ++slot) {
      const iso_place place = p->steps[s].arguments[i];
      if (place.space == ISO_IN_ARENA) {
        c->arguments[slot] = context->arena + place.offset;
      } else if (place.space == ISO_IN_WEIGHTS) {
        c->arguments[slot] = (char*)(uintptr_t)weights + place.offset;
      } else if (place.space == ISO_AT_ADDRESS) {
        c->arguments[slot] = (void*)(uintptr_t)place.offset;
      } else {
        c->patches[c->patch_count++] = (iso_patch){slot, place};
      }
    }
  }
  return ISO_OK;
}

static void release_sized(iso_sized* c) {
  const iso_program* p = c->program;
  for (uint32_t i = 0; c->bound && i < p->input_count + p->output_count; ++i) {
    const iso_tensor* tensor = i < p->input_count ? &p->inputs[i] : &p->outputs[i - p->input_count];
    iso_unmap(c->bound[i].copy, tensor->bytes + tensor->slack);
  }
  free(c->bound);
  free(c->dims);
  free(c->times);
  free(c->first);
  free(c->patches);
  free(c->arguments);
}

static void release(iso_context_impl* c) {
  stop_threads(c);
  iso_unmap(c->arena, c->arena_bytes);
  for (uint32_t i = 0; c->sized && i < c->model->sizes; ++i) release_sized(&c->sized[i]);
  free(c->sized);
  atomic_fetch_sub(&c->model->contexts, 1);
  free(c);
}

static void set_dims(iso_sized* c, uint32_t output, const int64_t* dims) {
  const iso_tensor* tensor = &c->program->outputs[output];
  if (tensor->rank > 0) memcpy(c->dims + output * ISO_MAX_RANK, dims, (size_t)tensor->rank * sizeof *dims);
}

static int allocate_sized(const iso_context_impl* context, iso_sized* c, const iso_program* p, iso_error* error) {
  c->program = p;
  c->first = calloc(p->step_count + 1u, sizeof *c->first);
  c->times = calloc(p->step_count + 1u, sizeof *c->times);
  c->bound = calloc(p->input_count + p->output_count + 1u, sizeof *c->bound);
  c->dims = calloc(p->output_count + 1u, ISO_MAX_RANK * sizeof *c->dims);
  for (uint32_t i = 0; c->dims && i < p->output_count; ++i) set_dims(c, i, p->outputs[i].dims);
  if (!c->first || !c->times || !c->bound || !c->dims)
    return no_memory(context, p->step_count * sizeof *c->times, error);
  return resolve_arguments(context, c, error);
}

static int allocate(iso_context_impl* c, int threads, iso_error* error) {
  const iso_program* programs = c->model->programs;
  const uint32_t count = c->model->sizes;
  uint64_t arena = 0, scratch = 0;
  for (uint32_t i = 0; i < count; ++i) {
    if (programs[i].arena_bytes > arena) arena = programs[i].arena_bytes;
    if (programs[i].scratch_bytes > scratch) scratch = programs[i].scratch_bytes;
  }
  c->arena_bytes = arena + ISO_SLACK;
  c->scratch_stride = rounded_up(scratch + ISO_SLACK);
  c->arena = iso_map(c->arena_bytes);
  if (!c->arena) return no_memory(c, c->arena_bytes, error);
  c->sized = calloc(count, sizeof *c->sized);
  if (!c->sized) return no_memory(c, count * sizeof *c->sized, error);
  c->used = c->sized;
  for (uint32_t i = 0; i < count; ++i) c->sized[i].program = &programs[i];
  for (uint32_t i = 0; i < count; ++i) {
    const int code = allocate_sized(c, &c->sized[i], &programs[i], error);
    if (code) return code;
  }
  return start_threads(c, threads, error);
}

iso_context* iso_context_new(iso_model* model, int threads, uint32_t flags, iso_error* error) {
  if (resolve_threads(&threads, error)) return NULL;
  iso_context_impl* c = calloc(1, sizeof *c);
  if (!c) {
    iso_fail(error, ISO_NO_MEMORY, "There is no memory for a context.");
    return NULL;
  }
  c->base.api = model->api;
  c->model = (iso_model_impl*)model;
  c->flags = flags;
  const char* poison = getenv("ISOMER_POISON");
  if (poison && strcmp(poison, "1") == 0) c->flags |= ISO_POISON;
  atomic_fetch_add(&c->model->contexts, 1);
  if (allocate(c, threads, error)) {
    release(c);
    return NULL;
  }
  return &c->base;
}

/* A context serves one call at a time; a second one is answered, not raced with. */
static int enter(iso_context_impl* c, iso_error* error) {
  uint32_t idle = 0;
  if (atomic_compare_exchange_strong(&c->busy, &idle, 1)) return ISO_OK;
  return iso_fail(error, ISO_BUSY,
                  "The context is in use by another thread; make one context for each concurrent run.");
}

static void leave(iso_context_impl* c) { atomic_store(&c->busy, 0); }

int iso_context_free(iso_context* context, iso_error* error) {
  iso_context_impl* c = (iso_context_impl*)context;
  const int code = enter(c, error);
  if (code) return code;
  release(c);
  return ISO_OK;
}

int iso_context_set_threads(iso_context* context, int threads, iso_error* error) {
  iso_context_impl* c = (iso_context_impl*)context;
  int code = resolve_threads(&threads, error);
  if (code || (code = enter(c, error))) return code;
  if (threads != c->threads) {
    stop_threads(c);
    code = start_threads(c, threads, error);
    if (code) start_threads(c, 1, NULL); /* a context that cannot have them goes on alone */
  }
  leave(c);
  return code;
}

static int step_failed(const iso_program* p, const iso_step* step, int32_t status, iso_error* error) {
  const char* what = status == 1   ? "an index is out of range"
                     : status == 2 ? "an integer is divided by zero"
                                   : "the kernel failed";
  return iso_fail(error, ISO_RUN_FAILED,
                  "The model '%.80s' stopped at the kernel %.80s, which computes '%.120s': %s (status %d).", p->model,
                  step->name, step->origin, what, (int)status);
}

static void poison_before(iso_context_impl* c) {
  const iso_program* p = c->used->program;
  memset(c->arena, POISON, c->arena_bytes);
  memset(c->scratch, POISON, c->scratch_bytes);
  for (uint32_t i = 0; i < p->output_count; ++i)
    memset(c->used->bound[p->input_count + i].used, POISON, p->outputs[i].bytes);
}

static void poison_after(iso_context_impl* c, const iso_step* step) {
  memset(c->scratch, POISON, c->scratch_bytes);
  for (uint32_t i = 0; i < step->freed_count; ++i) {
    memset(c->arena + step->freed[i].offset, POISON, step->freed[i].bytes);
  }
}

static void count_time(iso_time* time, int64_t nanoseconds) {
  if (time->runs == 0 || nanoseconds < time->fastest) time->fastest = nanoseconds;
  time->total += nanoseconds;
  ++time->runs;
}

/* The step after one that runs no kernel. */
static int follow(const iso_program* p, const iso_step* step, void* const* arguments, uint32_t* next,
                  iso_error* error) {
  if (step->control == ISO_JUMP_UNLESS && *(const unsigned char*)arguments[0]) return ISO_OK;
  if (step->control == ISO_JUMP_BACK && *(const int64_t*)arguments[0] >= step->tasks)
    return iso_fail(error, ISO_RUN_FAILED, "The model '%.80s' stopped at '%.120s': a loop runs more than %lld times.",
                    p->model, step->origin, (long long)step->tasks);
  *next = step->target;
  return ISO_OK;
}

static int run_steps(iso_context_impl* c, iso_error* error) {
  const iso_sized* sized = c->used;
  const iso_program* p = sized->program;
  const int profile = (c->flags & ISO_PROFILE) != 0, poison = (c->flags & ISO_POISON) != 0;
  iso_pool_serve(c->pool, c->scratch, c->scratch_stride);
  if (poison) poison_before(c);
  int64_t start = profile ? now() : 0;
  for (uint32_t s = 0, next = 0; s < p->step_count; s = next) {
    const iso_step* step = &p->steps[s];
    void* const* arguments = sized->arguments + sized->first[s];
    next = s + 1;
    if (step->control) {
      const int code = follow(p, step, arguments, &next, error);
      if (code) return code;
    } else {
      const int32_t status = iso_pool_run(c->pool, step, arguments);
      if (status) return step_failed(p, step, status, error);
    }
    if (profile) {
      const int64_t end = now();
      count_time(&sized->times[s], end - start);
      start = end;
    }
    if (poison) poison_after(c, step);
  }
  return ISO_OK;
}

/* What the run says of the outputs that vary; never more than there is room for. */
static int take_dims(const iso_context_impl* c, iso_sized* sized, iso_error* error) {
  const iso_program* p = sized->program;
  for (uint32_t i = 0; i < p->output_count; ++i) {
    const iso_tensor* tensor = &p->outputs[i];
    if (!tensor->varies) continue;
    int64_t dims[ISO_MAX_RANK];
    memcpy(dims, c->arena + p->run_dims[i], (size_t)tensor->rank * sizeof *dims);
    for (int32_t d = 0; d < tensor->rank; ++d) {
      if (dims[d] < 0 || dims[d] > tensor->dims[d]) {
        return iso_fail(error, ISO_RUN_FAILED, "The output '%.80s' has a size that it cannot have.", tensor->name);
      }
    }
    set_dims(sized, i, dims);
  }
  return ISO_OK;
}

static int bind_and_run(iso_context_impl* c, const iso_buffer* inputs, uint32_t input_count, const iso_buffer* outputs,
                        uint32_t output_count, iso_error* error) {
  if (!c->pool)
    return iso_fail(error, ISO_NO_MEMORY, "The context has no threads left, since the system refused them.");
  iso_sized* sized = iso_choose(c, inputs, input_count, error);
  if (!sized) return ISO_BAD_SHAPE;
  int code = iso_bind(sized, inputs, input_count, outputs, output_count, error);
  if (code) return code;
  c->used = sized;
  const uint32_t base = sized->program->input_count;
  for (uint64_t i = 0; i < sized->patch_count; ++i) {
    const iso_place place = sized->patches[i].place;
    const iso_bound* bound = &sized->bound[place.space == ISO_IN_INPUT ? place.index : base + place.index];
    sized->arguments[sized->patches[i].slot] = (char*)bound->used + place.offset;
  }
  code = run_steps(c, error);
  if (code == ISO_OK) code = take_dims(c, sized, error);
  if (code == ISO_OK) iso_deliver(sized);
  return code;
}

int iso_context_run(iso_context* context, const iso_buffer* inputs, uint32_t input_count, const iso_buffer* outputs,
                    uint32_t output_count, iso_error* error) {
  iso_context_impl* c = (iso_context_impl*)context;
  int code = enter(c, error);
  if (code) return code;
  code = bind_and_run(c, inputs, input_count, outputs, output_count, error);
  leave(c);
  return code;
}

int iso_context_output_dims(const iso_context* context, uint32_t index, int64_t* dims, iso_error* error) {
  const iso_sized* used = ((const iso_context_impl*)context)->used;
  const iso_program* p = used->program;
  if (!dims) return iso_fail(error, ISO_BAD_ARGUMENT, "There is no place for the dims: it is NULL.");
  if (index >= p->output_count) {
    return iso_fail(error, ISO_BAD_ARGUMENT, "The model '%.80s' has %u outputs, and output %u was asked for.", p->model,
                    p->output_count, index);
  }
  memcpy(dims, used->dims + index * ISO_MAX_RANK, (size_t)p->outputs[index].rank * sizeof *dims);
  return ISO_OK;
}

int iso_context_set_profile(iso_context* context, int on, iso_error* error) {
  iso_context_impl* c = (iso_context_impl*)context;
  const int code = enter(c, error);
  if (code) return code;
  c->flags = on ? c->flags | ISO_PROFILE : c->flags & ~ISO_PROFILE;
  for (uint32_t i = 0; on && i < c->model->sizes; ++i) {
    iso_sized* sized = &c->sized[i];
    memset(sized->times, 0, sized->program->step_count * sizeof *sized->times);
  }
  leave(c);
  return ISO_OK;
}

int iso_context_profile(const iso_context* context, uint32_t step, iso_profile* profile, iso_error* error) {
  const iso_context_impl* c = (const iso_context_impl*)context;
  const iso_program* p = c->used->program;
  if (!profile) return iso_fail(error, ISO_BAD_ARGUMENT, "There is no place for the profile: it is NULL.");
  if (step >= p->step_count) {
    return iso_fail(error, ISO_BAD_ARGUMENT, "The model '%.80s' has %u steps, and step %u was asked for.", p->model,
                    p->step_count, step);
  }
  const iso_step* s = &p->steps[step];
  const iso_time* t = &c->used->times[step];
  *profile = (iso_profile){
      s->name, s->origin, s->tasks, s->flops, s->bytes, t->runs, (double)t->total * 1e-9, (double)t->fastest * 1e-9};
  return ISO_OK;
}
