/* iso_open: opens a module file. Compile it into your program, beside isomer.h and isomer_seal.h; it needs a C99 compiler and
 * POSIX, and -ldl where glibc is older than 2.34.
 *
 * The file is checked by reading it, since a library that is truncated or damaged would crash while it is loaded. */
#define _POSIX_C_SOURCE 200809L

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "isomer.h"
#include "isomer_seal.h"

/* Weights up to this size are always compared with their hash: it takes about a millisecond. */
#define SMALL_WEIGHTS (8u << 20)

__attribute__((format(printf, 3, 4))) static int refuse(iso_error* error, int code, const char* format, ...) {
  if (!error) return code;
  va_list arguments;
  error->code = code;
  va_start(arguments, format);
  vsnprintf(error->message, sizeof error->message, format, arguments);
  va_end(arguments);
  for (char* c = error->message; *c; ++c) {
    if ((unsigned char)*c < 32 || *c == 127) *c = '?';
  }
  return code;
}

static int read_at(int file, void* to, size_t bytes, uint64_t offset) {
  char* at = to;
  while (bytes) {
    const ssize_t got = pread(file, at, bytes, (off_t)offset);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return 0;
    at += got;
    bytes -= (size_t)got;
    offset += (uint64_t)got;
  }
  return 1;
}

static const char* machine_name(uint32_t machine) {
  return machine == 62 ? "x86-64" : machine == 183 ? "aarch64" : "an unknown architecture";
}

static uint32_t this_machine(void) {
#if defined(__x86_64__)
  return 62;
#elif defined(__aarch64__)
  return 183;
#else
  return 0;
#endif
}

static int hash_matches(int file, uint64_t offset, uint64_t bytes, uint64_t expected) {
  const size_t piece = 1u << 18;
  unsigned char* buffer = malloc(piece);
  if (!buffer) return -1;
  iso_hash hash;
  iso_hash_begin(&hash);
  int whole = 1;
  while (bytes && whole) {
    const size_t take = bytes < piece ? (size_t)bytes : piece;
    whole = read_at(file, buffer, take, offset);
    if (whole) iso_hash_add(&hash, buffer, take);
    offset += take;
    bytes -= take;
  }
  free(buffer);
  return whole && iso_hash_end(&hash) == expected;
}

static int check_hash(int file, const char* path, const char* what, uint64_t offset, uint64_t bytes, uint64_t expected,
                      iso_error* error) {
  const int matches = hash_matches(file, offset, bytes, expected);
  if (matches > 0) return ISO_OK;
  if (matches < 0) return refuse(error, ISO_NO_MEMORY, "There is no memory to check the file '%.200s'.", path);
  return refuse(error, ISO_BAD_FILE, "The file '%.200s' is damaged: its %s are not those that were written.", path,
                what);
}

static int check_seal(const iso_seal* seal, uint64_t file_bytes, const char* path, iso_error* error) {
  if (memcmp(seal->magic, ISO_SEAL_MAGIC, sizeof seal->magic) != 0) {
    return refuse(error, ISO_BAD_FILE, "The file '%.200s' is no Isomer module, or it is truncated or was changed.",
                  path);
  }
  const int sound = seal->seal_hash == iso_seal_hash(seal) && seal->file_bytes == file_bytes &&
                    seal->weights_offset <= file_bytes - ISO_SEAL_BYTES &&
                    seal->weights_bytes == file_bytes - ISO_SEAL_BYTES - seal->weights_offset;
  if (!sound) return refuse(error, ISO_BAD_FILE, "The file '%.200s' is a damaged Isomer module.", path);
  if (seal->version != ISO_VERSION) {
    return refuse(error, ISO_BAD_VERSION,
                  "The module '%.200s' has version %u of the interface, and this program has %u.", path, seal->version,
                  (unsigned)ISO_VERSION);
  }
  if (this_machine() && seal->machine != this_machine()) {
    return refuse(error, ISO_BAD_CPU, "The module '%.200s' is for %s, and this machine is %s.", path,
                  machine_name(seal->machine), machine_name(this_machine()));
  }
  return ISO_OK;
}

static int check_file(int file, const char* path, uint32_t flags, iso_error* error) {
  struct stat info;
  if (fstat(file, &info) != 0 || !S_ISREG(info.st_mode)) {
    return refuse(error, ISO_BAD_FILE, "'%.200s' is no regular file.", path);
  }
  const uint64_t size = (uint64_t)info.st_size;
  unsigned char head[4];
  iso_seal seal;
  if (size < sizeof head + ISO_SEAL_BYTES || !read_at(file, head, sizeof head, 0) || memcmp(head, "\177ELF", 4) != 0 ||
      !read_at(file, &seal, sizeof seal, size - sizeof seal)) {
    return refuse(error, ISO_BAD_FILE, "The file '%.200s' is no Isomer module.", path);
  }
  int code = check_seal(&seal, size, path, error);
  if (code) return code;
  code = check_hash(file, path, "code and tables", 0, seal.weights_offset, seal.head_hash, error);
  if (code) return code;
  if (!(flags & ISO_VERIFY) && seal.weights_bytes > SMALL_WEIGHTS) return ISO_OK;
  return check_hash(file, path, "weights", seal.weights_offset, seal.weights_bytes, seal.weights_hash, error);
}

static void* load(const char* path, iso_error* error) {
  /* Without a slash the loader would search the system's folders instead of this one. */
  const size_t length = strlen(path);
  char* full = malloc(length + 3);
  if (!full) {
    refuse(error, ISO_NO_MEMORY, "There is no memory to open '%.200s'.", path);
    return NULL;
  }
  snprintf(full, length + 3, "%s%s", strchr(path, '/') ? "" : "./", path);
  void* library = dlopen(full, RTLD_NOW | RTLD_LOCAL);
  free(full);
  if (!library) {
    const char* why = dlerror();
    refuse(error, ISO_BAD_FILE, "The module '%.200s' cannot be loaded: %.250s.", path, why ? why : "unknown reason");
  }
  return library;
}

static void unload(void* library) { dlclose(library); }

iso_model* iso_open(const char* path, uint32_t flags, iso_error* error) {
  if (!path) {
    iso_null("The path of the module is NULL.", error);
    return NULL;
  }
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) {
    refuse(error, ISO_BAD_FILE, "The file '%.200s' cannot be opened: %s.", path, strerror(errno));
    return NULL;
  }
  const int code = check_file(file, path, flags, error);
  close(file);
  if (code) return NULL;
  void* library = load(path, error);
  if (!library) return NULL;
  iso_model* (*entry)(iso_error*) = NULL;
  *(void**)(&entry) = dlsym(library, "iso_module_v2");
  iso_model* model = NULL;
  if (entry) {
    model = entry(error);
  } else {
    refuse(error, ISO_BAD_FILE, "The library '%.200s' has no symbol iso_module_v2.", path);
  }
  if (!model) {
    dlclose(library);
    return NULL;
  }
  model->library = library;
  model->unload = unload;
  return model;
}
