/*
 * engine/publish/lock_ranges.h - the bytes of a file that a process has locked
 *
 * Ranges that do not meet, in no order. No locks.
 */
#ifndef DYAD_ENGINE_PUBLISH_LOCK_RANGES_H
#define DYAD_ENGINE_PUBLISH_LOCK_RANGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lock_range {
    uint64_t begin, end; /* bytes; the first behind it */
    uint8_t type;        /* NET_LOCK_READ, _WRITE */
};

/* All zero: none. */
struct lock_ranges {
    struct lock_range *range;
    size_t n;
};

void lock_ranges_free(struct lock_ranges *ranges);
bool lock_range_meets(const struct lock_range *a, const struct lock_range *b);
/* Add one that meets none. 0, or -1: no memory. */
int lock_ranges_add(struct lock_ranges *ranges, const struct lock_range *range);
/* Cut `gone` out of all. 0, or -1: no memory, and some of what was to stay is gone, too. */
int lock_ranges_remove(struct lock_ranges *ranges, const struct lock_range *gone);
/* True if any has bytes of `range`. *same: one of its type has all of them. */
bool lock_ranges_meet(const struct lock_ranges *ranges, const struct lock_range *range,
                      bool *same);

#endif
