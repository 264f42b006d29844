/*
 * store/extents_impl.h - the ring of extents.c: what is in a place of it
 *
 * Private to extents.c and extents_list.c.
 */
#ifndef DYAD_STORE_EXTENTS_IMPL_H
#define DYAD_STORE_EXTENTS_IMPL_H

#include <stdatomic.h>

#include "store/control.h"
#include "store/extents.h"

#define LENGTH_BITS  40 /* of a span; above UNENDED is the lap, from 1 on */
#define LENGTH_MAX   ((1ull << LENGTH_BITS) - 1)
#define UNENDED      (1ull << LENGTH_BITS)
#define LAP(number)  (((number) / STORE_EXTENTS_MAX + 1) << (LENGTH_BITS + 1))
#define LAP_OF(span) ((span) & ~(UNENDED | LENGTH_MAX))

/* As writer and offset: what came before it is over. */
#define RESET (UINT64_MAX - 1)
/* As writer: the file is the version of that size (`offset`) and mtime (`first`). */
#define VERSION (UINT64_MAX - 2)
/* As writer: the same, and was published as that. */
#define PUBLISHED (UINT64_MAX - 3)

#define HELD_MAX 7 /* files that are held at once; a further one is not */

struct place {
    _Atomic uint64_t span;
    _Atomic uint64_t file, writer, offset;
    _Atomic uint64_t time; /* when it was added: CLOCK_REALTIME, ns */
    _Atomic uint64_t check;
    _Atomic uint64_t first, last; /* when it was written */
};

struct header {
    uint64_t magic;
    uint64_t ino; /* of the table itself */
    char boot[STORE_BOOT_LEN + 1];
    _Alignas(64) _Atomic uint64_t next; /* number of the next range, from 1 on */
    _Atomic uint64_t lost;
    _Atomic uint32_t limit; /* places below it have their disk blocks */
    _Atomic uint32_t nheld; /* of those: some are of killed processes */
    _Atomic uint64_t held[HELD_MAX];
    struct store_seen seen;
};

struct table {
    union {
        struct header header;
        char page[32768];
    };
    struct place places[STORE_EXTENTS_MAX];
};
_Static_assert(sizeof(struct header) <= 32768, "it is in front of the places");

struct store_extents {
    struct table *table;
    char *path; /* to enlarge it */
};

static inline uint64_t mix(uint64_t a, uint64_t b)
{
    a ^= b * 0x9e3779b97f4a7c15ull;
    a *= 0xff51afd7ed558ccdull;
    return a ^ a >> 32;
}

static inline uint64_t file_of(uint64_t ino, uint64_t btime)
{
    return mix(mix(0, ino), btime);
}

static inline uint64_t check_of(uint64_t number, uint64_t file, uint64_t writer,
                                uint64_t offset, uint64_t time)
{
    return mix(mix(mix(mix(number, file), writer), offset), time);
}

static inline uint64_t next_of(const struct store_extents *extents)
{
    return atomic_load(&extents->table->header.next);
}

static inline struct place *place_of(const struct store_extents *extents, uint64_t number)
{
    return &extents->table->places[number % STORE_EXTENTS_MAX];
}

#endif
