/* Memory of contexts: mapped from the system, zeroed, at a page's start; large pieces ask for large pages. Out of memory is
 * NULL, never a signal at the time of the call. */
#pragma once

#include <stdint.h>

void* iso_map(uint64_t bytes);
void iso_unmap(void* memory, uint64_t bytes); /* the same bytes; NULL is fine */
