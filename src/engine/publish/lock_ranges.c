/*
 * lock_ranges.c - the bytes of a file that a process has locked
 */
#include "engine/publish/lock_ranges.h"

#include <stdlib.h>

void lock_ranges_free(struct lock_ranges *ranges)
{
    free(ranges->range);
    *ranges = (struct lock_ranges){0};
}

bool lock_range_meets(const struct lock_range *a, const struct lock_range *b)
{
    return a->begin < b->end && b->begin < a->end;
}

int lock_ranges_add(struct lock_ranges *ranges, const struct lock_range *range)
{
    struct lock_range *grown =
        realloc(ranges->range, (ranges->n + 1) * sizeof(*ranges->range));

    if (!grown)
        return -1;
    ranges->range = grown;
    ranges->range[ranges->n++] = *range;
    return 0;
}

int lock_ranges_remove(struct lock_ranges *ranges, const struct lock_range *gone)
{
    for (size_t i = 0; i < ranges->n;) {
        struct lock_range *held = &ranges->range[i], behind = *held;
        if (!lock_range_meets(held, gone)) {
            i++;
            continue;
        }
        behind.begin = gone->end;
        if (held->begin < gone->begin)
            held->end = gone->begin;
        else
            *held = ranges->range[--ranges->n]; /* is looked at next */
        if (behind.begin < behind.end && lock_ranges_add(ranges, &behind) < 0)
            return -1;
    }
    return 0;
}

bool lock_ranges_meet(const struct lock_ranges *ranges, const struct lock_range *range,
                      bool *same)
{
    bool any = false;

    *same = false;
    for (size_t i = 0; i < ranges->n; i++) {
        const struct lock_range *held = &ranges->range[i];
        if (!lock_range_meets(held, range))
            continue;
        any = true;
        *same |= held->type == range->type && held->begin <= range->begin &&
                 held->end >= range->end;
    }
    return any;
}
