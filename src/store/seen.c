/*
 * seen.c - a table of a few ways; each place is a sequence lock
 *
 * Who writes makes `lap` odd and then even again; who reads looks at it before and after that. Who finds
 * it odd, or changed, goes on without: of two writers one, and what it would have noted is noted the next
 * time. The place of a writer that was killed over it stays unused.
 */
#include "store/seen.h"

#include <stdatomic.h>
#include <stddef.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

static uint64_t key_of(uint64_t ino, uint64_t btime, uint64_t node)
{
    const uint64_t of[] = {ino, btime, node};

    return XXH3_64bits(of, sizeof(of)) | 1; /* not as of an empty place */
}

#define WAYS 8 /* places that a key may have, one after the other */

static uint64_t place_of(uint64_t key, unsigned way)
{
    return ((key >> 8) + way) % STORE_SEEN_PLACES;
}

/* The key's, or that with the oldest time. */
static struct store_seen_place *choose(struct store_seen *seen, uint64_t key)
{
    struct store_seen_place *chosen = NULL;

    for (unsigned way = 0; way < WAYS; way++) {
        struct store_seen_place *place = &seen->places[place_of(key, way)];
        if (atomic_load(&place->lap) & 1)
            continue;
        if (atomic_load(&place->key) == key)
            return place;
        if (!chosen || atomic_load(&place->until) < atomic_load(&chosen->until))
            chosen = place;
    }
    return chosen;
}

void store_seen_set(struct store_seen *seen, uint64_t ino, uint64_t btime, uint64_t node,
                    uint64_t until)
{
    uint64_t key = key_of(ino, btime, node);
    struct store_seen_place *place = choose(seen, key);
    uint64_t lap = place ? atomic_load(&place->lap) : 1;

    if ((lap & 1) || !atomic_compare_exchange_strong(&place->lap, &lap, lap + 1))
        return;
    if (atomic_load(&place->key) != key || atomic_load(&place->until) < until) {
        atomic_store(&place->key, key);
        atomic_store(&place->until, until);
    }
    atomic_store(&place->lap, lap + 2);
}

uint64_t store_seen_until(const struct store_seen *seen, uint64_t ino, uint64_t btime,
                          uint64_t node)
{
    uint64_t key = key_of(ino, btime, node), newest = 0;

    for (unsigned way = 0; way < WAYS; way++) {
        const struct store_seen_place *place = &seen->places[place_of(key, way)];
        uint64_t lap = atomic_load(&place->lap), found = atomic_load(&place->key);
        uint64_t until = atomic_load(&place->until);
        if (!(lap & 1) && found == key && atomic_load(&place->lap) == lap && until > newest)
            newest = until;
    }
    return newest;
}
