/* The end of a module file, by which a reader knows that the file is whole before anything of it is mapped or run.
 * A module is an ELF library (the head), then its weights, then this seal. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define ISO_SEAL_MAGIC "ISOMODL1"
#define ISO_SEAL_BYTES 80

typedef struct {
  char magic[8];
  uint32_t version; /* ISO_VERSION of the runtime inside */
  uint32_t machine; /* ELF's number of the CPU's architecture */
  uint64_t file_bytes;
  uint64_t weights_offset; /* where the head ends */
  uint64_t weights_bytes;  /* up to this seal */
  uint64_t head_hash;
  uint64_t weights_hash;
  uint64_t reserved[2];
  uint64_t seal_hash; /* of all fields above */
} iso_seal;

/* A hash against accidents, not against enemies: any change of one word changes it. Four lanes, so that it reads about as
 * fast as memory gives. */
typedef struct {
  uint64_t lane[4];
  uint64_t bytes;
  unsigned char rest[32]; /* the last bytes % 32 of them */
} iso_hash;

static inline void iso_hash_begin(iso_hash* h) {
  memset(h, 0, sizeof *h);
  for (int i = 0; i < 4; ++i) h->lane[i] = 0x9E3779B97F4A7C15u * (uint64_t)(i + 1);
}

static inline uint64_t iso_hash_mix(uint64_t lane, uint64_t word) {
  lane = (lane ^ word) * 0xD6E8FEB86659FD93u;
  return lane ^ (lane >> 32);
}

static inline void iso_hash_block(iso_hash* h, const unsigned char* block) {
  uint64_t words[4];
  memcpy(words, block, sizeof words);
  for (int i = 0; i < 4; ++i) h->lane[i] = iso_hash_mix(h->lane[i], words[i]);
}

static inline void iso_hash_add(iso_hash* h, const void* data, uint64_t bytes) {
  const unsigned char* at = (const unsigned char*)data;
  size_t held = (size_t)(h->bytes % 32);
  h->bytes += bytes;
  if (held) {
    const size_t take = bytes < 32 - held ? (size_t)bytes : 32 - held;
    memcpy(h->rest + held, at, take);
    at += take;
    bytes -= take;
    if (held + take < 32) return;
    iso_hash_block(h, h->rest);
  }
  for (; bytes >= 32; bytes -= 32, at += 32) iso_hash_block(h, at);
  if (bytes) memcpy(h->rest, at, (size_t)bytes);
}

static inline uint64_t iso_hash_end(iso_hash* h) {
  const size_t held = (size_t)(h->bytes % 32);
  if (held) {
    memset(h->rest + held, 0, 32 - held);
    iso_hash_block(h, h->rest);
  }
  uint64_t result = h->bytes;
  for (int i = 0; i < 4; ++i) result = iso_hash_mix(result, h->lane[i]);
  return result;
}

static inline uint64_t iso_seal_hash(const iso_seal* seal) {
  iso_hash h;
  iso_hash_begin(&h);
  iso_hash_add(&h, seal, offsetof(iso_seal, seal_hash));
  return iso_hash_end(&h);
}
