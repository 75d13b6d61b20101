/* The caller's buffers against the model's tensors. */
#include "runtime/failure.h"
#include "runtime/libc.h"
#include "runtime/memory.h"
#include "runtime/model.h"

#define PAGE 4096u /* the smallest there is: memory up to its end can be read */

/* Where an empty tensor lies. */
static const _Alignas(ISO_ALIGNMENT) char nothing[ISO_ALIGNMENT];

typedef struct {
  const iso_program* program;
  const char* kind; /* "input", "output" */
  const iso_tensor* tensors;
  uint32_t count;
  iso_bound* bound;
} side;

static int find(const side* s, const char* name) {
  for (uint32_t i = 0; i < s->count; ++i) {
    if (strcmp(s->tensors[i].name, name) == 0) return (int)i;
  }
  return -1;
}

static int same_dims(const iso_tensor* tensor, const iso_buffer* buffer) {
  if (buffer->rank != tensor->rank) return 0;
  for (int32_t i = 0; i < tensor->rank; ++i) {
    if (buffer->dims[i] != tensor->dims[i]) return 0;
  }
  return 1;
}

/* Texts are made for a failure alone: they take longer than a small model's kernel. */
static int wrong_type(const side* s, const iso_tensor* tensor, const iso_buffer* buffer, iso_error* error) {
  char wanted[160], found[160];
  iso_type_text(wanted, sizeof wanted, tensor->dtype, tensor->rank, tensor->dims);
  if (buffer->dtype && buffer->dtype != tensor->dtype) {
    iso_type_text(found, sizeof found, buffer->dtype, 0, NULL);
    return iso_fail(error, ISO_BAD_TYPE, "The %s '%.80s' is %s, and the buffer holds %s.", s->kind, tensor->name,
                    wanted, found);
  }
  if (buffer->dims && !same_dims(tensor, buffer)) {
    iso_type_text(found, sizeof found, tensor->dtype, buffer->rank < 0 ? 0 : buffer->rank, buffer->dims);
    return iso_fail(error, ISO_BAD_SHAPE, "The %s '%.80s' is %s, and the buffer is %s.", s->kind, tensor->name, wanted,
                    found);
  }
  return iso_fail(error, ISO_BAD_SHAPE, "The %s '%.80s' is %s, which is %llu bytes, and the buffer has %llu.", s->kind,
                  tensor->name, wanted, (unsigned long long)tensor->bytes, (unsigned long long)buffer->bytes);
}

static int check(const side* s, const iso_tensor* tensor, const iso_buffer* buffer, iso_error* error) {
  if ((buffer->dtype && buffer->dtype != tensor->dtype) || (buffer->dims && !same_dims(tensor, buffer)) ||
      buffer->bytes != tensor->bytes) {
    return wrong_type(s, tensor, buffer, error);
  }
  if (!buffer->data && tensor->bytes) {
    return iso_fail(error, ISO_BAD_ARGUMENT, "The buffer of the %s '%.80s' is NULL.", s->kind, tensor->name);
  }
  if ((uintptr_t)buffer->data > UINTPTR_MAX - tensor->bytes - tensor->slack) {
    return iso_fail(error, ISO_BAD_ARGUMENT, "The buffer of the %s '%.80s' is no memory.", s->kind, tensor->name);
  }
  return ISO_OK;
}

/* The kernels may rely on the start of a buffer and read behind its end. */
static int usable(const iso_tensor* tensor, const void* data) {
  const uintptr_t start = (uintptr_t)data, last = start + tensor->bytes - 1;
  if (tensor->alignment > 1 && start % tensor->alignment) return 0;
  return last / PAGE == (last + tensor->slack) / PAGE;
}

static int place(const side* s, uint32_t index, void* data, iso_error* error) {
  const iso_tensor* tensor = &s->tensors[index];
  iso_bound* bound = &s->bound[index];
  bound->user = data;
  bound->used = tensor->bytes == 0 ? (void*)(uintptr_t)nothing : data;
  if (tensor->bytes == 0 || usable(tensor, data)) return ISO_OK;
  if (!bound->copy) bound->copy = iso_map(tensor->bytes + tensor->slack);
  if (!bound->copy) {
    return iso_fail(error, ISO_NO_MEMORY, "There is no memory for an aligned copy of the %s '%.80s', %llu bytes.",
                    s->kind, tensor->name, (unsigned long long)tensor->bytes);
  }
  bound->used = bound->copy;
  return ISO_OK;
}

static int bind_side(const side* s, const iso_buffer* buffers, uint32_t count, iso_error* error) {
  if (count != s->count) {
    return iso_fail(error, ISO_BAD_SHAPE, "The model '%.80s' has %u %ss, and %u buffers were given.", s->program->model,
                    s->count, s->kind, count);
  }
  if (!buffers && count) return iso_fail(error, ISO_BAD_ARGUMENT, "The list of %s buffers is NULL.", s->kind);
  for (uint32_t i = 0; i < count; ++i) s->bound[i].used = NULL;
  for (uint32_t i = 0; i < count; ++i) {
    const int index = buffers[i].name ? find(s, buffers[i].name) : (int)i;
    if (index < 0) {
      return iso_fail(error, ISO_BAD_NAME, "The model '%.80s' has no %s named '%.80s'; its first one is '%.80s'.",
                      s->program->model, s->kind, buffers[i].name, s->tensors[0].name);
    }
    if (s->bound[index].used) {
      return iso_fail(error, ISO_BAD_NAME, "The %s '%.80s' was given twice.", s->kind, s->tensors[index].name);
    }
    int code = check(s, &s->tensors[index], &buffers[i], error);
    if (code || (code = place(s, (uint32_t)index, buffers[i].data, error))) return code;
  }
  return ISO_OK;
}

static int overlap(const void* a, uint64_t a_bytes, const void* b, uint64_t b_bytes) {
  const uintptr_t x = (uintptr_t)a, y = (uintptr_t)b;
  return a_bytes && b_bytes && x < y + b_bytes && y < x + a_bytes;
}

static int check_overlap(const side* in, const side* out, iso_error* error) {
  for (uint32_t o = 0; o < out->count; ++o) {
    const iso_tensor* tensor = &out->tensors[o];
    const void* data = out->bound[o].user;
    for (uint32_t i = 0; i < in->count + o; ++i) {
      const side* s = i < in->count ? in : out;
      const uint32_t k = i < in->count ? i : i - in->count;
      if (overlap(data, tensor->bytes, s->bound[k].user, s->tensors[k].bytes)) {
        return iso_fail(error, ISO_BAD_ARGUMENT, "The buffer of the output '%.80s' overlaps that of the %s '%.80s'.",
                        tensor->name, s->kind, s->tensors[k].name);
      }
    }
  }
  return ISO_OK;
}

static int fits(const iso_program* p, const iso_buffer* inputs, uint32_t count) {
  const side s = {p, "input", p->inputs, p->input_count, NULL};
  for (uint32_t i = 0; i < count; ++i) {
    const int index = inputs[i].name ? find(&s, inputs[i].name) : (int)i;
    if (index < 0 || (uint32_t)index >= s.count) return 0;
    const iso_tensor* tensor = &s.tensors[index];
    if (inputs[i].bytes != tensor->bytes || (inputs[i].dims && !same_dims(tensor, &inputs[i]))) return 0;
  }
  return 1;
}

iso_sized* iso_choose(iso_context_impl* c, const iso_buffer* inputs, uint32_t input_count, iso_error* error) {
  const uint32_t count = c->model->sizes;
  const iso_program* p = c->model->programs;
  if (count == 1 || !inputs || input_count != p->input_count) return c->sized;
  for (uint32_t i = 0; i < count; ++i) {
    if (fits(&p[i], inputs, input_count)) return &c->sized[i];
  }
  const side s = {p, "input", p->inputs, p->input_count, NULL};
  for (uint32_t i = 0; i < input_count; ++i) {
    if (inputs[i].name && find(&s, inputs[i].name) < 0) return c->sized; /* no matter of sizes */
  }
  char first[160];
  iso_type_text(first, sizeof first, p->inputs[0].dtype, p->inputs[0].rank, p->inputs[0].dims);
  iso_fail(
      error, ISO_BAD_SHAPE,
      "The model '%.80s' was compiled at %u sizes, and the inputs have none of them; at the first one '%.80s' is %s.",
      p->model, count, p->inputs[0].name, first);
  return NULL;
}

int iso_bind(iso_sized* c, const iso_buffer* inputs, uint32_t input_count, const iso_buffer* outputs,
             uint32_t output_count, iso_error* error) {
  const iso_program* p = c->program;
  const side in = {p, "input", p->inputs, p->input_count, c->bound};
  const side out = {p, "output", p->outputs, p->output_count, c->bound + p->input_count};
  int code = bind_side(&in, inputs, input_count, error);
  if (code || (code = bind_side(&out, outputs, output_count, error))) return code;
  code = check_overlap(&in, &out, error);
  if (code) return code;
  for (uint32_t i = 0; i < in.count; ++i) {
    if (in.bound[i].used == in.bound[i].copy) memcpy(in.bound[i].used, in.bound[i].user, in.tensors[i].bytes);
  }
  return ISO_OK;
}

void iso_deliver(iso_sized* c) {
  const iso_program* p = c->program;
  for (uint32_t i = 0; i < p->output_count; ++i) {
    const iso_bound* bound = &c->bound[p->input_count + i];
    if (bound->used == bound->copy) memcpy(bound->user, bound->used, p->outputs[i].bytes);
  }
}
