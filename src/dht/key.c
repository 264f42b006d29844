/*
 * dht/key.c - from a upath to hashes
 *
 * Every member must hash alike for ever, so the seeds are fixed: the outputs of splitmix64
 * (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", OOPSLA 2014;
 * constants of the reference code by S. Vigna, prng.di.unimi.it/splitmix64.c) started at 0.
 * Output i is the seed of level i; those after the last level seed the full hash and the
 * probe order. A shard's levels are thus independent of each other and of the choice of
 * homes: all keys of one shard share their homes, and would crowd a few of its bins if one
 * hash served both.
 */
#include "dht/key.h"

#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#define SEED_FULL        DHT_DEPTH_MAX
#define SEED_PROBE_START (DHT_DEPTH_MAX + 1)
#define SEED_PROBE_STEP  (DHT_DEPTH_MAX + 2)

/* Output number i (from 0) of splitmix64 started at 0: its state after i steps is known. */
static uint64_t key_seed(unsigned i)
{
    uint64_t z = (i + 1) * UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

void dht_key_init(struct dht_key *key, const char *upath, unsigned depth)
{
    size_t len = strlen(upath);

    for (unsigned i = 0; i < depth; i++)
        key->level[i] = XXH3_64bits_withSeed(upath, len, key_seed(i));
    key->full = XXH3_64bits_withSeed(upath, len, key_seed(SEED_FULL));
    key->probe_start = XXH3_64bits_withSeed(upath, len, key_seed(SEED_PROBE_START));
    key->probe_step = XXH3_64bits_withSeed(upath, len, key_seed(SEED_PROBE_STEP));
}
