/* The threads of one context, or of several that take turns. A region runs the tasks of one step: each thread first takes the tasks of its own contiguous
 * share, piece by piece, then helps the others. Between regions the workers spin for a short while, then sleep. The caller
 * waits for the workers that took part, never for one that has not woken up. */
#pragma once

#include "runtime/abi.h"

/* Starts threads - 1 workers. NULL with *code ISO_NO_MEMORY or ISO_NO_THREADS. */
iso_pool* iso_pool_start(int threads, int* code);
void iso_pool_stop(iso_pool* pool); /* NULL is fine */
int iso_pool_threads(const iso_pool* pool);

/* What the next steps have as their own: `scratch` holds one piece of `stride` bytes for each thread. */
void iso_pool_serve(iso_pool* pool, char* scratch, uint64_t stride);

/* Runs all tasks of the step and returns the largest status of its kernel. One thread at a time. */
int32_t iso_pool_run(iso_pool* pool, const iso_step* step, void* const* arguments);
