/* Runs a compiled module on command, for bench/suite: a line "run N" on the standard input answers with the nanoseconds of N
 * runs, "quiet N" with those of the N out of up to 2 N from which the host of a virtual machine took the least, "save PREFIX" writes the outputs as PREFIX0, PREFIX1, ...
 *   module_runner MODULE THREADS INPUT...   one raw file for each input */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "isomer.h"

static int fail(const char* what) {
  fprintf(stderr, "%s\n", what);
  return 1;
}

static int64_t now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

enum { kTick = 10000000 }; /* nanoseconds: the least that a system counts */

/* Ticks that the host gave to others since the start; 0 where the system does not tell. */
static long long stolen(void) {
  long long ticks = 0;
  FILE* file = fopen("/proc/stat", "r");
  if (!file || fscanf(file, "cpu %*d %*d %*d %*d %*d %*d %*d %lld", &ticks) != 1) ticks = 0;
  if (file) fclose(file);
  return ticks;
}

/* Runs until so many had their processors to themselves, or twice as many; writes the times of those that lost least. */
static int run_quietly(int wanted, iso_context* context, iso_buffer* in, const iso_info* info, iso_buffer* out,
                       iso_error* error) {
  enum { kMost = 4096 };
  static long long took[kMost], lost[kMost];
  if (wanted > kMost / 2) wanted = kMost / 2;
  int runs = 0, whole = 0;
  for (long long known = stolen(); whole < wanted && runs < 2 * wanted; ++runs) {
    const int64_t start = now();
    if (iso_run(context, in, info->inputs, out, info->outputs, error)) return 1;
    took[runs] = now() - start;
    const long long before = known;
    if (took[runs] >= kTick) known = stolen();
    lost[runs] = known > before ? known - before : 0; /* a processor that left takes its count along */
    whole += lost[runs] == 0;
  }
  for (long long most = 0; wanted > 0; ++most)
    for (int i = 0; i < runs && wanted > 0; ++i)
      if (lost[i] == most) {
        printf("%lld ", took[i]);
        --wanted;
      }
  return 0;
}

static iso_buffer room(const iso_tensor* tensor) {
  iso_buffer buffer = {0};
  buffer.bytes = tensor->bytes;
  buffer.data = aligned_alloc(64, (tensor->bytes + 127) / 64 * 64);
  return buffer;
}

int main(int argc, char** argv) {
  iso_error error;
  if (argc < 3) return fail("usage: module_runner MODULE THREADS INPUT...");
  iso_model* model = iso_open(argv[1], 0, &error);
  iso_info info;
  if (!model || iso_describe(model, &info, &error)) return fail(error.message);
  if ((uint32_t)argc != 3 + info.inputs) return fail("expected one file for each input");
  iso_buffer* in = calloc(info.inputs + 1, sizeof *in);
  iso_buffer* out = calloc(info.outputs + 1, sizeof *out);
  for (uint32_t i = 0; i < info.inputs; ++i) {
    in[i] = room(iso_input(model, i));
    FILE* file = fopen(argv[3 + i], "rb");
    if (!file || !in[i].data || fread(in[i].data, 1, in[i].bytes, file) != in[i].bytes) return fail(argv[3 + i]);
    fclose(file);
  }
  for (uint32_t i = 0; i < info.outputs; ++i) out[i] = room(iso_output(model, i));
  iso_context* context = iso_new_context(model, atoi(argv[2]), 0, &error);
  if (!context) return fail(error.message);
  char line[4096];
  while (fgets(line, sizeof line, stdin)) {
    line[strcspn(line, "\n")] = 0;
    if (!strncmp(line, "run ", 4)) {
      for (int n = atoi(line + 4); n > 0; --n) {
        const int64_t start = now();
        if (iso_run(context, in, info.inputs, out, info.outputs, &error)) return fail(error.message);
        printf("%lld ", (long long)(now() - start));
      }
    } else if (!strncmp(line, "quiet ", 6)) {
      if (run_quietly(atoi(line + 6), context, in, &info, out, &error)) return fail(error.message);
    } else if (!strncmp(line, "save ", 5)) {
      for (uint32_t i = 0; i < info.outputs; ++i) {
        char path[4200];
        snprintf(path, sizeof path, "%s%u", line + 5, i);
        FILE* file = fopen(path, "wb");
        if (!file || fwrite(out[i].data, 1, out[i].bytes, file) != out[i].bytes || fclose(file)) return fail(path);
      }
    }
    printf("\n");
    fflush(stdout);
  }
  return 0;
}
