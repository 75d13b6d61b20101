/* Models and contexts as the runtime sees them. */
#pragma once

#include <stdatomic.h>

#include "runtime/abi.h"
#include "runtime/pool.h"

typedef struct {
  iso_model base;
  const iso_program* program;
  const void* weights; /* of the program, or where its module has them */
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

typedef struct {
  iso_context base;
  iso_model_impl* model;
  _Atomic uint32_t busy;
  uint32_t flags;
  char* arena;
  uint64_t arena_bytes;
  char* scratch; /* one piece for each thread */
  uint64_t scratch_bytes, scratch_stride;
  iso_pool* pool;
  int threads;
  void** arguments; /* of all steps, one after another */
  uint64_t* first;  /* argument of each step */
  iso_patch* patches;
  uint64_t patch_count;
  iso_bound* bound; /* inputs, then outputs */
  iso_time* times;  /* one a step */
} iso_context_impl;

/* A model over a program whose weights lie elsewhere than it says. */
iso_model* iso_open_program_at(const iso_program* program, const void* weights, iso_error* error);

/* Checks the caller's buffers against the model and fills context->bound. */
int iso_bind(iso_context_impl* context, const iso_buffer* inputs, uint32_t input_count, const iso_buffer* outputs,
             uint32_t output_count, iso_error* error);

/* Hands outputs that were computed in a copy to the caller. */
void iso_deliver(iso_context_impl* context);

/* The functions of a context, for the table in model.c. */
iso_context* iso_context_new(iso_model* model, int threads, uint32_t flags, iso_error* error);
int iso_context_free(iso_context* context, iso_error* error);
int iso_context_set_threads(iso_context* context, int threads, iso_error* error);
int iso_context_run(iso_context* context, const iso_buffer* inputs, uint32_t input_count, const iso_buffer* outputs,
                    uint32_t output_count, iso_error* error);
int iso_context_set_profile(iso_context* context, int on, iso_error* error);
int iso_context_profile(const iso_context* context, uint32_t step, iso_profile* profile, iso_error* error);
