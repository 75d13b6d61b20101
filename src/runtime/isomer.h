/* Isomer's C interface to a compiled model. C99; needs nothing but libc.
 *
 * A module (model.so) holds everything: kernels, weights, plan, runtime. Open it with iso_open (isomer_loader.c beside this
 * header), make one context per concurrent run, run on your own buffers:
 *
 *     iso_error error;
 *     iso_model* model = iso_open("model.so", 0, &error);
 *     iso_context* context = model ? iso_new_context(model, 0, 0, &error) : NULL;
 *     iso_buffer in[] = {{.data = image, .bytes = sizeof image}}, out[] = {{.data = scores, .bytes = sizeof scores}};
 *     if (!context || iso_run(context, in, 1, out, 1, &error)) fprintf(stderr, "%s\n", error.message);
 *
 * A model never changes and may be used by any number of threads. A context belongs to one run at a time. Nothing is global,
 * nothing is written but the context and the outputs. A call that fails returns a code (or NULL) and leaves one sentence in
 * `error`, which may be NULL. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ISO_VERSION 2 /* of this interface: a module of another one is refused */

typedef enum {
  ISO_OK = 0,
  ISO_BAD_ARGUMENT = 1, /* a null pointer, a number out of range */
  ISO_BAD_NAME = 2,     /* the model has no input or output of this name */
  ISO_BAD_SHAPE = 3,    /* wrong number of buffers, of bytes, wrong dims */
  ISO_BAD_TYPE = 4,     /* wrong element type */
  ISO_BAD_FILE = 5,     /* cannot be read, is no module, is truncated or damaged */
  ISO_BAD_VERSION = 6,  /* a module of another version of this interface */
  ISO_BAD_CPU = 7,      /* built for another CPU */
  ISO_NO_MEMORY = 8,
  ISO_NO_THREADS = 9, /* the system gives no more */
  ISO_BUSY = 10,      /* the context runs already, or the model has open contexts */
  ISO_RUN_FAILED = 11 /* a kernel found an index out of range or a division by zero in the data */
} iso_code;

typedef struct {
  int32_t code;
  char message[508]; /* one sentence, ends with a zero */
} iso_error;

/* Element types, by ONNX's numbers. */
typedef enum {
  ISO_F32 = 1,
  ISO_U8 = 2,
  ISO_I8 = 3,
  ISO_U16 = 4,
  ISO_I16 = 5,
  ISO_I32 = 6,
  ISO_I64 = 7,
  ISO_BOOL = 9, /* one byte, 0 or 1 */
  ISO_F16 = 10,
  ISO_F64 = 11,
  ISO_U32 = 12,
  ISO_U64 = 13,
  ISO_BF16 = 16
} iso_dtype;

/* An input or output of a model. Dense, row-major, in the byte order of the machine. */
typedef struct {
  const char* name;
  int32_t dtype;
  int32_t rank;
  const int64_t* dims;
  uint64_t bytes;
  uint32_t alignment; /* a buffer that starts at a multiple of this, */
  uint32_t slack;     /* and behind which this many bytes may be read, is used where it is; others are copied */
  uint32_t varies;    /* not 0: an output whose size the data decides; dims are the most that it can have, and
                       * iso_output_dims tells those of a run, whose elements lie together at the buffer's start */
} iso_tensor;

/* A caller's buffer. Zero fields ask for no check: with data and bytes alone, buffers come in the model's order. */
typedef struct {
  void* data;          /* an input is never written */
  uint64_t bytes;      /* exactly those of the tensor */
  const char* name;    /* NULL: the tensor at this position */
  const int64_t* dims; /* NULL: not checked; else `rank` of them */
  int32_t rank;
  int32_t dtype; /* 0: not checked */
} iso_buffer;

/* One step of a model: what it is, and what it took while profiling was on. */
typedef struct {
  const char* name;   /* of the kernel */
  const char* origin; /* the source nodes, comma-separated */
  int64_t tasks;      /* that may run at the same time */
  double flops;       /* arithmetic of one run, 0 where unknown */
  double bytes;       /* read and written at least, 0 where unknown */
  uint64_t runs;
  double seconds; /* of all these runs together */
  double fastest; /* seconds of the fastest one */
} iso_profile;

typedef struct {
  const char* model;    /* its name */
  const char* target;   /* what it was built for: "x86-64-v4" */
  const char* features; /* what of the CPU it uses, comma-separated, in LLVM's names */
  uint32_t inputs, outputs, steps;
  uint64_t weight_bytes;  /* in the file, and once more in a process (ISO_SHARED_WEIGHTS) */
  uint64_t arena_bytes;   /* of each context */
  uint64_t scratch_bytes; /* of each thread of each context */
} iso_info;

/* Flags of iso_open. */
#define ISO_VERIFY \
  1u /* read the whole file and compare its hash; without it, the weights of a large file are not read */

/* Flags of iso_new_context. */
#define ISO_POISON 1u  /* for tests: fill all memory with NaN before each run and after its last use */
#define ISO_PROFILE 2u /* measure each step */
#define ISO_SHARED_WEIGHTS \
  4u /* read the weights from the pages of the file, which processes share, and not from a copy of this process in large pages, which
      * is some per cent faster */

#define ISO_MAX_THREADS 256

typedef struct iso_model iso_model;
typedef struct iso_context iso_context;

/* The functions of one module's runtime. Called through the inline functions below. */
typedef struct {
  uint32_t version; /* ISO_VERSION */
  uint32_t bytes;   /* of this struct: a later minor version may append */
  int (*info)(const iso_model*, iso_info*, iso_error*);
  const iso_tensor* (*input)(const iso_model*, uint32_t);
  const iso_tensor* (*output)(const iso_model*, uint32_t);
  int (*close)(iso_model*, iso_error*);
  iso_context* (*new_context)(iso_model*, int, uint32_t, iso_error*);
  int (*free_context)(iso_context*, iso_error*);
  int (*set_threads)(iso_context*, int, iso_error*);
  int (*run)(iso_context*, const iso_buffer*, uint32_t, const iso_buffer*, uint32_t, iso_error*);
  int (*set_profile)(iso_context*, int, iso_error*);
  int (*profile)(const iso_context*, uint32_t, iso_profile*, iso_error*);
  uint32_t (*sizes)(const iso_model*);
  const iso_tensor* (*tensor_at)(const iso_model*, uint32_t, int, uint32_t);
  int (*output_dims)(const iso_context*, uint32_t, int64_t*, iso_error*);
} iso_api;

/* What every model and context starts with; the rest is the runtime's own. */
struct iso_model {
  const iso_api* api;
  void* library; /* the loader's, handed to `unload` after closing */
  void (*unload)(void* library);
};
struct iso_context {
  const iso_api* api;
};

/* The one symbol that a module exports: its model, for programs that link it instead of calling iso_open. */
iso_model* iso_module_v2(iso_error* error);

/* Opens a module (isomer_loader.c). Refuses what is no module, truncated, damaged, or built for another machine before any
 * of its code runs. NULL on failure. */
iso_model* iso_open(const char* path, uint32_t flags, iso_error* error);

/* Answers a call on NULL. Not for programs. */
static inline int iso_null(const char* what, iso_error* error) {
  if (!error) return ISO_BAD_ARGUMENT;
  error->code = ISO_BAD_ARGUMENT;
  size_t i = 0;
  for (; what[i] && i + 1 < sizeof error->message; ++i) error->message[i] = what[i];
  error->message[i] = 0;
  return ISO_BAD_ARGUMENT;
}
#define ISO_NULL_MODEL "The model is NULL: iso_open must have given one."
#define ISO_NULL_CONTEXT "The context is NULL: iso_new_context must have given one."

/* ISO_BUSY while it has contexts. NULL is fine. */
static inline int iso_close(iso_model* model, iso_error* error) {
  if (!model) return ISO_OK;
  void* library = model->library;
  void (*unload)(void*) = model->unload;
  int code = model->api->close(model, error);
  if (code == ISO_OK && unload) unload(library);
  return code;
}

static inline int iso_describe(const iso_model* model, iso_info* info, iso_error* error) {
  return model ? model->api->info(model, info, error) : iso_null(ISO_NULL_MODEL, error);
}
/* NULL past the last one. They live as long as the model. */
static inline const iso_tensor* iso_input(const iso_model* model, uint32_t index) {
  return model ? model->api->input(model, index) : NULL;
}
static inline const iso_tensor* iso_output(const iso_model* model, uint32_t index) {
  return model ? model->api->output(model, index) : NULL;
}

/* A model that was compiled at several sizes has a list of them: the same inputs and outputs with other dims. iso_input and
 * iso_output tell of the first; iso_run takes the one that its input buffers have, whose outputs are those to be given. */
static inline uint32_t iso_size_count(const iso_model* model) {
  if (!model) return 0;
  return model->api->bytes > offsetof(iso_api, sizes) ? model->api->sizes(model) : 1;
}
static inline const iso_tensor* iso_input_at(const iso_model* model, uint32_t size, uint32_t index) {
  if (size == 0 || !model || size >= iso_size_count(model)) return size == 0 ? iso_input(model, index) : NULL;
  return model->api->tensor_at(model, size, 0, index);
}
static inline const iso_tensor* iso_output_at(const iso_model* model, uint32_t size, uint32_t index) {
  if (size == 0 || !model || size >= iso_size_count(model)) return size == 0 ? iso_output(model, index) : NULL;
  return model->api->tensor_at(model, size, 1, index);
}

/* Memory and threads of one run at a time. `threads` counts the caller of iso_run; 0 means one per CPU of this process. The
 * results do not depend on it. */
static inline iso_context* iso_new_context(iso_model* model, int threads, uint32_t flags, iso_error* error) {
  if (model) return model->api->new_context(model, threads, flags, error);
  iso_null(ISO_NULL_MODEL, error);
  return NULL;
}
/* ISO_BUSY while it runs. NULL is fine. */
static inline int iso_free_context(iso_context* context, iso_error* error) {
  return context ? context->api->free_context(context, error) : ISO_OK;
}
static inline int iso_set_threads(iso_context* context, int threads, iso_error* error) {
  return context ? context->api->set_threads(context, threads, error) : iso_null(ISO_NULL_CONTEXT, error);
}

/* Runs the model on the caller's buffers: all inputs, all outputs, each once. Outputs overlap nothing. */
static inline int iso_run(iso_context* context, const iso_buffer* inputs, uint32_t input_count,
                          const iso_buffer* outputs, uint32_t output_count, iso_error* error) {
  return context ? context->api->run(context, inputs, input_count, outputs, output_count, error)
                 : iso_null(ISO_NULL_CONTEXT, error);
}

/* The dims that an output had in the context's last run, `rank` of them: those of its tensor, but for an output that varies. */
static inline int iso_output_dims(const iso_context* context, uint32_t index, int64_t* dims, iso_error* error) {
  return context ? context->api->output_dims(context, index, dims, error) : iso_null(ISO_NULL_CONTEXT, error);
}

/* Turns the measuring of steps on (from zero) or off. */
static inline int iso_set_profile(iso_context* context, int on, iso_error* error) {
  return context ? context->api->set_profile(context, on, error) : iso_null(ISO_NULL_CONTEXT, error);
}
static inline int iso_step_profile(const iso_context* context, uint32_t step, iso_profile* profile, iso_error* error) {
  return context ? context->api->profile(context, step, profile, error) : iso_null(ISO_NULL_CONTEXT, error);
}

#ifdef __cplusplus
}
#endif
