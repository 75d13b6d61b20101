#include "runtime/pool.h"

#include <stdatomic.h>

#include "runtime/libc.h"
#include "runtime/memory.h"

#define SPIN_NANOSECONDS 60000  /* about what waking a sleeping thread costs */
#define REGION_NANOSECONDS 4000 /* a step below this is not worth the other threads' attention */
#define PIECE_NANOSECONDS 2000  /* tasks taken at once last at least this long, */
#define PIECES 8                /* and there are at most this many of them in a share */

typedef struct {
  _Alignas(64) _Atomic int64_t next;
  int64_t begin;
  int64_t end;
} share;

typedef struct {
  iso_pool* pool;
  uint32_t number;
  iso_pthread thread;
} worker;

struct iso_pool {
  /* Odd while a region is open; every region has its own number. Workers wait for it to change. */
  _Alignas(64) _Atomic uint32_t region;
  _Atomic uint32_t sleepers;
  _Atomic uint32_t quit;
  _Alignas(64) _Atomic uint32_t inside; /* workers in the region */
  _Atomic uint32_t caller_sleeps;       /* until none is */
  /* The region. Written only while it is closed and nobody is inside. */
  _Alignas(64) iso_kernel kernel;
  void* const* arguments;
  int64_t piece;
  uint32_t shares_used;
  uint32_t backward;
  _Atomic int32_t status;

  uint32_t threads;
  uint32_t started; /* of the workers */
  char* scratch;
  uint64_t stride;
  share* shares;
  worker* workers;
  uint64_t bytes; /* of this allocation */
};

/* `yield` is no more than a nop on the ARM cores of today; a barrier of instructions lets the core rest for some cycles. */
static void relax(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  __asm__ volatile("isb" ::: "memory");
#endif
}

static int64_t now(void) {
  iso_timespec time = {0, 0};
  clock_gettime(ISO_CLOCK_MONOTONIC, &time);
  return time.seconds * 1000000000 + time.nanoseconds;
}

static void sleep_while(_Atomic uint32_t* word, uint32_t value) {
  syscall(ISO_SYS_FUTEX, word, ISO_FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static void wake(_Atomic uint32_t* word, uint32_t count) {
  syscall(ISO_SYS_FUTEX, word, ISO_FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
}

/* Spins until the word changes; 0 when it did not for a while. */
static int changes_soon(_Atomic uint32_t* word, uint32_t value) {
  int64_t end = 0;
  for (uint32_t i = 0;; ++i) {
    if (atomic_load_explicit(word, memory_order_acquire) != value) return 1;
    relax();
    if (i % 32 == 31) {
      const int64_t time = now();
      if (end == 0) end = time + SPIN_NANOSECONDS;
      if (time > end) return 0;
    }
  }
}

static void raise_status(iso_pool* pool, int32_t status) {
  int32_t old = atomic_load_explicit(&pool->status, memory_order_relaxed);
  while (old < status && !atomic_compare_exchange_weak(&pool->status, &old, status)) {
  }
}

static void work(iso_pool* pool, uint32_t number) {
  void* scratch = pool->scratch + number * pool->stride;
  const uint32_t shares = pool->shares_used;
  for (uint32_t i = 0; i < shares; ++i) {
    share* s = &pool->shares[(number + i) % shares];
    while (atomic_load_explicit(&s->next, memory_order_relaxed) < s->end) {
      int64_t begin = atomic_fetch_add_explicit(&s->next, pool->piece, memory_order_relaxed);
      if (begin >= s->end) break;
      int64_t end = s->end - begin < pool->piece ? s->end : begin + pool->piece;
      if (pool->backward) {
        const int64_t sum = s->begin + s->end, first = sum - end;
        end = sum - begin;
        begin = first;
      }
      const int32_t status = pool->kernel(pool->arguments, begin, end, scratch);
      if (status) raise_status(pool, status);
    }
  }
}

static void* worker_main(void* argument) {
  worker* self = argument;
  iso_pool* pool = self->pool;
  uint32_t done = 0; /* the last region taken part in */
  for (;;) {
    const uint32_t region = atomic_load(&pool->region);
    if (atomic_load(&pool->quit)) return NULL;
    if (region % 2 == 1 && region != done) {
      atomic_fetch_add(&pool->inside, 1);
      /* The caller closes the region before it looks who is inside: one of us sees the other. */
      if (atomic_load(&pool->region) == region) {
        done = region;
        work(pool, self->number);
      }
      if (atomic_fetch_sub(&pool->inside, 1) == 1 && atomic_load(&pool->caller_sleeps)) wake(&pool->inside, 1);
    } else if (!changes_soon(&pool->region, region)) {
      atomic_fetch_add(&pool->sleepers, 1);
      if (!atomic_load(&pool->quit)) sleep_while(&pool->region, region);
      atomic_fetch_sub(&pool->sleepers, 1);
    }
  }
}

iso_pool* iso_pool_start(int threads, int* code) {
  const uint64_t count = (uint64_t)threads;
  const uint64_t bytes = sizeof(iso_pool) + count * (sizeof(share) + sizeof(worker));
  iso_pool* pool = iso_map(bytes);
  if (!pool) {
    *code = ISO_NO_MEMORY;
    return NULL;
  }
  pool->bytes = bytes;
  pool->threads = (uint32_t)threads;
  pool->shares = (share*)(pool + 1);
  pool->workers = (worker*)(pool->shares + count);
  for (; pool->started + 1 < pool->threads; ++pool->started) {
    worker* w = &pool->workers[pool->started];
    w->pool = pool;
    w->number = pool->started + 1;
    if (pthread_create(&w->thread, NULL, worker_main, w) != 0) {
      iso_pool_stop(pool);
      *code = ISO_NO_THREADS;
      return NULL;
    }
  }
  return pool;
}

int iso_pool_threads(const iso_pool* pool) { return (int)pool->threads; }

/* Workers look at it inside of regions alone. */
void iso_pool_serve(iso_pool* pool, char* scratch, uint64_t stride) {
  pool->scratch = scratch;
  pool->stride = stride;
}

void iso_pool_stop(iso_pool* pool) {
  if (!pool) return;
  atomic_store(&pool->quit, 1);
  atomic_fetch_add(&pool->region, 2); /* keeps it closed, ends every wait */
  wake(&pool->region, pool->threads);
  for (uint32_t i = 0; i < pool->started; ++i) pthread_join(pool->workers[i].thread, NULL);
  iso_unmap(pool, pool->bytes);
}

/* About how long the step takes on one thread, by careful guesses of speed; 0 when nothing is known of it. */
static double expected_nanoseconds(double flops, double bytes) {
  const double compute = flops / 20, transfer = bytes / 10;
  return compute > transfer ? compute : transfer;
}

int iso_pays_threads(int64_t tasks, double flops, double bytes) {
  const double expected = expected_nanoseconds(flops, bytes);
  return tasks > 1 && (expected <= 0 || expected >= REGION_NANOSECONDS);
}

static void open_region(iso_pool* pool, const iso_step* step, void* const* arguments) {
  const int64_t tasks = step->tasks;
  const uint32_t shares = tasks < (int64_t)pool->threads ? (uint32_t)tasks : pool->threads;
  const int64_t each = tasks / shares, more = tasks % shares;
  int64_t at = 0;
  for (uint32_t i = 0; i < shares; ++i) {
    atomic_store_explicit(&pool->shares[i].next, at, memory_order_relaxed);
    pool->shares[i].begin = at;
    at += each + (i < more);
    pool->shares[i].end = at;
  }
  const double one = expected_nanoseconds(step->flops, step->bytes) / (double)tasks;
  int64_t piece = each / PIECES;
  if (one > 0 && (double)piece * one < PIECE_NANOSECONDS) {
    const double wanted = PIECE_NANOSECONDS / one;
    piece = wanted < (double)each ? (int64_t)wanted : each;
  }
  pool->piece = piece < 1 ? 1 : piece;
  pool->kernel = step->kernel;
  pool->arguments = arguments;
  pool->shares_used = shares;
  pool->backward = step->backward;
  atomic_store_explicit(&pool->status, 0, memory_order_relaxed);
  atomic_fetch_add(&pool->region, 1);
  if (atomic_load(&pool->sleepers)) wake(&pool->region, shares - 1);
}

static void close_region(iso_pool* pool) {
  atomic_fetch_add(&pool->region, 1);
  for (;;) {
    const uint32_t inside = atomic_load(&pool->inside);
    if (inside == 0) return;
    if (changes_soon(&pool->inside, inside)) continue;
    atomic_store(&pool->caller_sleeps, 1);
    const uint32_t still = atomic_load(&pool->inside);
    if (still) sleep_while(&pool->inside, still);
    atomic_store(&pool->caller_sleeps, 0);
  }
}

/* On the caller's thread alone. */
static int32_t run_alone(iso_pool* pool, const iso_step* step, void* const* arguments) {
  if (!step->backward) return step->tasks > 0 ? step->kernel(arguments, 0, step->tasks, pool->scratch) : 0;
  int32_t worst = 0;
  for (int64_t t = step->tasks; t-- > 0;) {
    const int32_t status = step->kernel(arguments, t, t + 1, pool->scratch);
    if (status > worst) worst = status;
  }
  return worst;
}

int32_t iso_pool_run(iso_pool* pool, const iso_step* step, void* const* arguments) {
  if (pool->threads == 1 || !iso_pays_threads(step->tasks, step->flops, step->bytes)) {
    return run_alone(pool, step, arguments);
  }
  open_region(pool, step, arguments);
  work(pool, 0);
  close_region(pool);
  return atomic_load_explicit(&pool->status, memory_order_relaxed);
}
