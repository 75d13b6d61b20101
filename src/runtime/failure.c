#include "runtime/failure.h"

#include "runtime/libc.h"

int iso_fail(iso_error* error, int code, const char* format, ...) {
  if (!error) return code;
  error->code = code;
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(error->message, sizeof error->message, format, arguments);
  va_end(arguments);
  for (char* c = error->message; *c; ++c) {
    if ((unsigned char)*c < 32 || *c == 127) *c = '?';
  }
  return code;
}

static const char* dtype_name(int32_t dtype) {
  static const char* const names[] = {"?",    "f32", "u8",  "i8",  "u16", "i16", "i32", "i64", "?",
                                      "bool", "f16", "f64", "u32", "u64", "?",   "?",   "bf16"};
  return dtype > 0 && dtype <= 16 ? names[dtype] : "?";
}

void iso_type_text(char* text, size_t bytes, int32_t dtype, int32_t rank, const int64_t* dims) {
  size_t used = (size_t)snprintf(text, bytes, "%s[", dtype_name(dtype));
  for (int32_t i = 0; i < rank && used < bytes; ++i) {
    used += (size_t)snprintf(text + used, bytes - used, i ? ",%lld" : "%lld", (long long)dims[i]);
  }
  if (used < bytes) snprintf(text + used, bytes - used, "]");
}
