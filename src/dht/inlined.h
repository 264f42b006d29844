/*
 * dht/inlined.h - the bytes of small files that a shard keeps beside their records
 *
 * They come with a publish, and go when the record has another version, or when there
 * are more than the bound: those that came first go first, and such a file is fetched
 * as any other. Until the publish has ended they are held, and only kept. Private to
 * shard.c. Not thread-safe: belongs to the loop.
 */
#ifndef DYAD_DHT_INLINED_H
#define DYAD_DHT_INLINED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dht_record;

struct dht_inlined_file {
    struct dht_inlined_file *prev, *next; /* utlist, in the order in which they came */
    struct dht_record *record;
    size_t len;
    uint64_t digest; /* as the publisher has it (util/digest.h), or 0 */
    bool held; /* its publish has not ended at all homes: not given, and not dropped */
    unsigned char bytes[];
};

struct dht_inlined {
    struct dht_inlined_file *first;
    uint64_t files, bytes; /* bytes: with what each takes beside its own */
    uint64_t max;          /* of `bytes`; 0: nothing is kept */
};

/* Keep a copy of bytes[len], held, in place of what is kept of the record; len 0: keep
 * nothing. Without memory, or where the bound does not allow it, nothing is kept of it. */
void dht_inlined_set(struct dht_inlined *inlined, struct dht_record *record,
                     const void *bytes, size_t len, uint64_t digest);

#endif
