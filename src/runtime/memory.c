#include "runtime/memory.h"

#include "runtime/libc.h"

#define LARGE_PAGE ((uint64_t)2 << 20)
/* What is worth one, also where it does not fill it: small pages lie anywhere in memory, so that some of them share a place of the
 * second cache, others in every process. */
#define WORTH_LARGE_PAGES (LARGE_PAGE / 4)

static uint64_t rounded(uint64_t bytes) {
  if (bytes == 0) return 1;
  return bytes < WORTH_LARGE_PAGES ? bytes : (bytes + LARGE_PAGE - 1) & ~(LARGE_PAGE - 1);
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

/* Whether the system gives large pages to those who ask. Where it does not say, it is assumed to. */
static int has_large_pages(void) {
  char text[64] = {0};
  const int file = open("/sys/kernel/mm/transparent_hugepage/enabled", ISO_READ_ONLY);
  if (file < 0) return 1;
  const long length = read(file, text, sizeof text - 1);
  close(file);
  return length <= 0 || !strstr(text, "[never]");
}

void* iso_map_copy(const void* from, uint64_t bytes) {
  if (bytes < WORTH_LARGE_PAGES || !has_large_pages()) return NULL;
  void* copy = iso_map(bytes);
  if (!copy) return NULL;
  madvise((void*)(uintptr_t)from, bytes, ISO_MADV_WILLNEED);
  memcpy(copy, from, bytes);
  mprotect(copy, rounded(bytes), ISO_PROT_READ);
  return copy;
}

void iso_unmap(void* memory, uint64_t bytes) {
  if (memory) munmap(memory, rounded(bytes));
}
