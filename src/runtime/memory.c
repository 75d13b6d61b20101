#include "runtime/memory.h"

#include "runtime/libc.h"

#define LARGE_PAGE ((uint64_t)2 << 20)

static uint64_t rounded(uint64_t bytes) {
  if (bytes == 0) return 1;
  return bytes < LARGE_PAGE ? bytes : (bytes + LARGE_PAGE - 1) & ~(LARGE_PAGE - 1);
}

void* iso_map(uint64_t bytes) {
  if (bytes > UINT64_MAX / 2) return NULL;
  const uint64_t size = rounded(bytes);
  /* Large pages start at multiples of their size: map one more and give back both ends. */
  const uint64_t spare = size < LARGE_PAGE ? 0 : LARGE_PAGE;
  char* memory = mmap(NULL, size + spare, ISO_PROT_READ_WRITE, ISO_MAP_PRIVATE_ANONYMOUS, -1, 0);
  if (memory == (char*)-1) return NULL;
  if (spare == 0) return memory;
  char* start = memory + ((LARGE_PAGE - (uintptr_t)memory % LARGE_PAGE) % LARGE_PAGE);
  const uint64_t before = (uint64_t)(start - memory);
  if (before) munmap(memory, before);
  if (before < spare) munmap(start + size, spare - before);
  madvise(start, size, ISO_MADV_HUGEPAGE);
  return start;
}

void iso_unmap(void* memory, uint64_t bytes) {
  if (memory) munmap(memory, rounded(bytes));
}
