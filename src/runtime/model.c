#include "runtime/model.h"

#include "runtime/cpu.h"
#include "runtime/failure.h"
#include "runtime/libc.h"
#include "runtime/memory.h"

static const iso_program* program_of(const iso_model* model) { return ((const iso_model_impl*)model)->programs; }

static uint64_t most(uint64_t a, uint64_t b) { return a > b ? a : b; }

static int model_info(const iso_model* model, iso_info* info, iso_error* error) {
  if (!info)
    return iso_fail(error, ISO_BAD_ARGUMENT, "There is no place for the description of the model: it is NULL.");
  const iso_program* p = program_of(model);
  *info = (iso_info){.model = p->model,
                     .target = p->target,
                     .features = p->features,
                     .inputs = p->input_count,
                     .outputs = p->output_count,
                     .steps = p->step_count,
                     .weight_bytes = p->weight_bytes,
                     .arena_bytes = p->arena_bytes,
                     .scratch_bytes = p->scratch_bytes};
  for (uint32_t i = 1; i < ((const iso_model_impl*)model)->sizes; ++i) {
    info->arena_bytes = most(info->arena_bytes, p[i].arena_bytes);
    info->scratch_bytes = most(info->scratch_bytes, p[i].scratch_bytes);
  }
  return ISO_OK;
}

static uint32_t model_sizes(const iso_model* model) { return ((const iso_model_impl*)model)->sizes; }

static const iso_tensor* model_tensor_at(const iso_model* model, uint32_t size, int output, uint32_t index) {
  if (size >= model_sizes(model)) return NULL;
  const iso_program* p = program_of(model) + size;
  if (index >= (output ? p->output_count : p->input_count)) return NULL;
  return output ? &p->outputs[index] : &p->inputs[index];
}

static const iso_tensor* model_input(const iso_model* model, uint32_t index) {
  const iso_program* p = program_of(model);
  return index < p->input_count ? &p->inputs[index] : NULL;
}

static const iso_tensor* model_output(const iso_model* model, uint32_t index) {
  const iso_program* p = program_of(model);
  return index < p->output_count ? &p->outputs[index] : NULL;
}

static int model_close(iso_model* model, iso_error* error) {
  iso_model_impl* impl = (iso_model_impl*)model;
  const uint32_t contexts = atomic_load(&impl->contexts);
  if (contexts) {
    return iso_fail(error, ISO_BUSY, "The model '%.80s' has %u open contexts; free them before it is closed.",
                    impl->programs->model, contexts);
  }
  iso_unmap(atomic_load(&impl->copy), impl->programs->weight_bytes);
  free(impl);
  return ISO_OK;
}

/* A file's pages are small. Of contexts that are made at the same time each may make a copy; the first one stays. */
const char* iso_weights(iso_model_impl* model, uint32_t flags) {
  if (flags & ISO_SHARED_WEIGHTS) return model->weights;
  const uint64_t bytes = model->programs->weight_bytes;
  void* copy = atomic_load(&model->copy);
  if (!copy) {
    void* made = iso_map_copy(model->weights, bytes);
    if (atomic_compare_exchange_strong(&model->copy, &copy, made))
      copy = made;
    else
      iso_unmap(made, bytes);
  }
  return copy ? copy : model->weights;
}

static const iso_api api = {ISO_VERSION,
                            sizeof(iso_api),
                            model_info,
                            model_input,
                            model_output,
                            model_close,
                            iso_context_new,
                            iso_context_free,
                            iso_context_set_threads,
                            iso_context_run,
                            iso_context_set_profile,
                            iso_context_profile,
                            model_sizes,
                            model_tensor_at,
                            iso_context_output_dims};

static int place_is_inside(const iso_program* p, const iso_place* place) {
  switch (place->space) {
    case ISO_IN_ARENA: return place->offset <= p->arena_bytes;
    case ISO_IN_WEIGHTS: return place->offset <= p->weight_bytes;
    case ISO_IN_INPUT: return place->index < p->input_count && place->offset <= p->inputs[place->index].bytes;
    case ISO_IN_OUTPUT: return place->index < p->output_count && place->offset <= p->outputs[place->index].bytes;
    case ISO_AT_ADDRESS: return 1;
    default: return 0;
  }
}

static int control_is_sound(const iso_program* p, const iso_step* step) {
  if (step->control == ISO_RUN_KERNEL) return step->kernel != NULL;
  if (step->control > ISO_JUMP_BACK || step->target > p->step_count) return 0;
  if (step->control == ISO_JUMP_BACK) return step->argument_count == 1;
  /* Only what counts its rounds may go back: every run ends. */
  return &p->steps[step->target] > step && step->argument_count == (step->control == ISO_JUMP_UNLESS);
}

static int step_is_sound(const iso_program* p, const iso_step* step) {
  if (!control_is_sound(p, step) || !step->name || !step->origin || step->tasks < 0) return 0;
  if (step->scratch_bytes > p->scratch_bytes) return 0;
  if (step->argument_count && !step->arguments) return 0;
  for (uint32_t i = 0; i < step->argument_count; ++i) {
    if (!place_is_inside(p, &step->arguments[i])) return 0;
  }
  for (uint32_t i = 0; i < step->freed_count; ++i) {
    const iso_range* range = &step->freed[i];
    if (range->offset > p->arena_bytes || range->bytes > p->arena_bytes - range->offset) return 0;
  }
  return 1;
}

static int outputs_are_sound(const iso_program* p) {
  for (uint32_t i = 0; i < p->output_count; ++i) {
    const iso_tensor* tensor = &p->outputs[i];
    if (tensor->rank < 0 || tensor->rank > ISO_MAX_RANK) return 0;
    if (!tensor->varies) continue;
    const uint64_t bytes = (uint64_t)tensor->rank * sizeof(int64_t);
    if (!p->run_dims || p->run_dims[i] > p->arena_bytes || bytes > p->arena_bytes - p->run_dims[i]) return 0;
  }
  return 1;
}

static int check_program(const iso_program* p, const void* weights, iso_error* error) {
  if (p->abi_version != ISO_ABI_VERSION) {
    return iso_fail(error, ISO_BAD_VERSION,
                    "The program has version %u of the kernels' interface, this runtime has %u.", p->abi_version,
                    (unsigned)ISO_ABI_VERSION);
  }
  const int whole = p->model && p->target && p->features && (p->inputs || !p->input_count) &&
                    (p->outputs || !p->output_count) && (p->steps || !p->step_count) && (weights || !p->weight_bytes);
  if (!whole) return iso_fail(error, ISO_BAD_FILE, "The program lacks one of its tables.");
  if (!outputs_are_sound(p))
    return iso_fail(error, ISO_BAD_FILE, "The outputs of the program '%.80s' do not fit its tables.", p->model);
  for (uint32_t i = 0; i < p->step_count; ++i) {
    if (!step_is_sound(p, &p->steps[i])) {
      return iso_fail(error, ISO_BAD_FILE, "Step %u of the program '%.80s' does not fit its tables.", i, p->model);
    }
  }
  size_t length = 0;
  const char* missing = iso_missing_feature(p->features, &length);
  if (missing) {
    return iso_fail(
        error, ISO_BAD_CPU,
        "The model '%.80s' was built for %.40s and needs the CPU feature %.*s, which this machine does not have; "
        "compile it for this machine.",
        p->model, p->target, (int)(length < 40 ? length : 40), missing);
  }
  return ISO_OK;
}

/* What iso_choose and the callers rely on. */
static int same_ports(const iso_program* a, const iso_program* b) {
  if (a->input_count != b->input_count || a->output_count != b->output_count) return 0;
  for (uint32_t i = 0; i < a->input_count; ++i) {
    if (strcmp(a->inputs[i].name, b->inputs[i].name) || a->inputs[i].dtype != b->inputs[i].dtype) return 0;
  }
  for (uint32_t i = 0; i < a->output_count; ++i) {
    if (strcmp(a->outputs[i].name, b->outputs[i].name) || a->outputs[i].dtype != b->outputs[i].dtype) return 0;
  }
  return 1;
}

iso_model* iso_open_programs_at(const iso_program* program, uint32_t count, const void* weights, iso_error* error) {
  if (!program || !count) {
    iso_fail(error, ISO_BAD_ARGUMENT, "The program is NULL.");
    return NULL;
  }
  for (uint32_t i = 0; i < count; ++i) {
    if (check_program(&program[i], weights, error)) return NULL;
    if (same_ports(program, &program[i])) continue;
    iso_fail(error, ISO_BAD_FILE, "The sizes of the model '%.80s' have different inputs or outputs.", program->model);
    return NULL;
  }
  iso_model_impl* model = calloc(1, sizeof *model);
  if (!model) {
    iso_fail(error, ISO_NO_MEMORY, "There is no memory to open the model '%.80s'.", program->model);
    return NULL;
  }
  model->base.api = &api;
  model->programs = program;
  model->sizes = count;
  model->weights = weights;
  return &model->base;
}

iso_model* iso_open_program(const iso_program* program, iso_error* error) {
  return iso_open_programs_at(program, 1, program ? program->weights : NULL, error);
}
