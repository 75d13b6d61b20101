/* The few functions of libc that the runtime calls, declared here so that it can be compiled for any Linux target without
 * that target's headers. Sizes and numbers are those of 64-bit Linux, the same for glibc and musl. */
#pragma once

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

void* memcpy(void* restrict to, const void* restrict from, size_t bytes);
void* memset(void* to, int value, size_t bytes);
int strcmp(const char* a, const char* b);
char* strstr(const char* text, const char* part);
int strncmp(const char* a, const char* b, size_t bytes);
size_t strlen(const char* text);
int snprintf(char* restrict to, size_t bytes, const char* restrict format, ...);
int vsnprintf(char* restrict to, size_t bytes, const char* restrict format, va_list arguments);
void* calloc(size_t count, size_t bytes);
void free(void* memory);
char* getenv(const char* name);
void* mmap(void* address, size_t bytes, int protection, int flags, int file, long offset);
int munmap(void* address, size_t bytes);
int madvise(void* address, size_t bytes, int advice);
int mprotect(void* address, size_t bytes, int protection);
int open(const char* path, int flags, ...);
long read(int file, void* to, size_t bytes);
int close(int file);
int sched_getaffinity(int process, size_t bytes, void* mask);
unsigned long getauxval(unsigned long type);
long syscall(long number, ...);

typedef unsigned long iso_pthread; /* pthread_t: an integer in glibc, a pointer in musl */
int pthread_create(iso_pthread* thread, const void* attributes, void* (*start)(void*), void* argument);
int pthread_join(iso_pthread thread, void** result);

typedef struct {
  int64_t seconds, nanoseconds;
} iso_timespec;
int clock_gettime(int clock, iso_timespec* time);

enum {
  ISO_READ_ONLY = 02000000, /* and closed by exec */
  ISO_PROT_READ = 1,
  ISO_PROT_READ_WRITE = 3,
  ISO_MAP_PRIVATE_ANONYMOUS = 0x22,
  ISO_MADV_WILLNEED = 3,
  ISO_MADV_HUGEPAGE = 14,
  ISO_CLOCK_MONOTONIC = 1,
  ISO_FUTEX_WAIT_PRIVATE = 128,
  ISO_FUTEX_WAKE_PRIVATE = 129,
#if defined(__x86_64__)
  ISO_SYS_FUTEX = 202,
  ISO_SYS_ARCH_PRCTL = 158,
  ISO_ARCH_REQUEST_STATE = 0x1023,
  ISO_STATE_TILE_DATA = 18
#else
  ISO_SYS_FUTEX = 98
#endif
};
