/* Models and contexts as the runtime sees them. */
#pragma once

#include <stdatomic.h>

#include "runtime/abi.h"
#include "runtime/pool.h"

typedef struct {
  iso_model base;
  const iso_program*
      programs; /* the model at each of its sizes: nothing but dims differs in their inputs and outputs */
  uint32_t sizes;
  const void* weights; /* of the programs, or where their module has them */
  void* _Atomic copy;  /* of the weights in large pages, from the first context on that wants it; NULL: there is none */
  _Atomic uint32_t contexts;
} iso_model_impl;

/* An argument of some step that lies in a caller's buffer, so that its address is known only when a run starts. */
typedef struct {
  uint64_t slot;
  iso_place place;
} iso_patch;

/* A buffer of the caller, or our copy of it where the kernels cannot use his. */
typedef struct {
  void* user;
  void* used;
  void* copy; /* mapped when first needed, then kept */
} iso_bound;

typedef struct {
  uint64_t runs;
  int64_t total, fastest; /* nanoseconds */
} iso_time;

/* What a context needs of one program of its model. */
typedef struct {
  const iso_program* program;
  void** arguments; /* of all steps, one after another */
  uint64_t* first;  /* argument of each step */
  iso_patch* patches;
  uint64_t patch_count;
  iso_bound* bound; /* inputs, then outputs */
  iso_time* times;  /* one a step */
  int64_t* dims;    /* of the outputs in the last run, ISO_MAX_RANK for each */
} iso_sized;

typedef struct {
  iso_context base;
  iso_model_impl* model;
  _Atomic uint32_t busy;
  uint32_t flags;
  char* arena; /* and scratch: enough for any of the programs */
  uint64_t arena_bytes;
  char* scratch; /* one piece for each thread */
  uint64_t scratch_bytes, scratch_stride;
  iso_pool* pool;
  int threads;
  iso_sized* sized; /* one a program */
  iso_sized* used;  /* of the last run */
} iso_context_impl;

/* A model over programs whose weights lie elsewhere than they say. */
iso_model* iso_open_programs_at(const iso_program* programs, uint32_t count, const void* weights, iso_error* error);

/* Where a context with these flags reads the model's weights. */
const char* iso_weights(iso_model_impl* model, uint32_t flags);

/* The program whose inputs these are, by their dims where those are given, else by their bytes; NULL when there is none. A
 * model of one size has it whatever the inputs are, so that binding says what is wrong. */
iso_sized* iso_choose(iso_context_impl* context, const iso_buffer* inputs, uint32_t input_count, iso_error* error);

/* Checks the caller's buffers against the program and fills sized->bound. */
int iso_bind(iso_sized* sized, const iso_buffer* inputs, uint32_t input_count, const iso_buffer* outputs,
             uint32_t output_count, iso_error* error);

/* Hands outputs that were computed in a copy to the caller. */
void iso_deliver(iso_sized* sized);

/* The functions of a context, for the table in model.c. */
iso_context* iso_context_new(iso_model* model, int threads, uint32_t flags, iso_error* error);
int iso_context_free(iso_context* context, iso_error* error);
int iso_context_set_threads(iso_context* context, int threads, iso_error* error);
int iso_context_run(iso_context* context, const iso_buffer* inputs, uint32_t input_count, const iso_buffer* outputs,
                    uint32_t output_count, iso_error* error);
int iso_context_output_dims(const iso_context* context, uint32_t index, int64_t* dims, iso_error* error);
int iso_context_set_profile(iso_context* context, int on, iso_error* error);
int iso_context_profile(const iso_context* context, uint32_t step, iso_profile* profile, iso_error* error);
