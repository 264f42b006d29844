/*
 * dht/key.h - from a upath to hashes: the multi-seed hashed key
 *
 * Level i of a shard's tree uses hash_i(upath) mod bins with a seed of its own for each
 * level. Further seeds give the probe order of homes (dht/homes.h). XXH3 64-bit with seed
 * (xxHash). Pure; thread-safe.
 */
#ifndef DYAD_DHT_KEY_H
#define DYAD_DHT_KEY_H

#include <stddef.h>
#include <stdint.h>

#define DHT_DEPTH_MAX 16

struct dht_key {
    uint64_t level[DHT_DEPTH_MAX]; /* full hash at each level; bin = level % bins */
    uint64_t full;                 /* compared in a leaf before the string */
    uint64_t probe_start;          /* a of the probe order */
    uint64_t probe_step;           /* b of the probe order */
};

/* Hash upath (NUL-terminated) for a tree of `depth` levels (1..DHT_DEPTH_MAX). */
void dht_key_init(struct dht_key *key, const char *upath, unsigned depth);

#endif
