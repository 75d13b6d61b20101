/* Memory of contexts and of weights: mapped from the system, zeroed, at a page's start; large pieces ask for large pages. Out of memory is
 * NULL, never a signal at the time of the call. */
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

void* iso_map(uint64_t bytes);
/* A copy, in large pages, that cannot be written; NULL where they would be of no use or cannot be had. */
void* iso_map_copy(const void* from, uint64_t bytes);
void iso_unmap(void* memory, uint64_t bytes); /* the same bytes; NULL is fine */

#ifdef __cplusplus
}
#endif
