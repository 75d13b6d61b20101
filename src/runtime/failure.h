/* One sentence for the caller. Control characters of names become '?', so that a hostile model cannot write to a terminal. */
#pragma once

#include "runtime/isomer.h"

/* Fills `error`, which may be NULL, and returns `code`. */
__attribute__((format(printf, 3, 4))) int iso_fail(iso_error* error, int code, const char* format, ...);

/* "f32[1,3,224,224]", cut where `text` ends. `dims` may be NULL only where rank is 0. */
void iso_type_text(char* text, size_t bytes, int32_t dtype, int32_t rank, const int64_t* dims);
