/*
 * boot/wave_sum.h - the combined state of several ranks; private to the wave
 */
#ifndef DYAD_BOOT_WAVE_SUM_H
#define DYAD_BOOT_WAVE_SUM_H

#include "boot/wave.h"

#define WAVE_AND_BITS ((uint32_t)(BOOT_WAVE_QUIET | BOOT_WAVE_EXITING | BOOT_WAVE_OUTER))
#define WAVE_OR_BITS  ((uint32_t)(BOOT_WAVE_MISSING | BOOT_WAVE_SCRIPT))
#define WAVE_ALL_BITS (WAVE_AND_BITS | WAVE_OR_BITS)

struct wave_sum {
    uint32_t state;
    uint32_t count;
    uint64_t activity;
    uint64_t candidate; /* the lowest, and its name; of answers and verdicts only */
    uint64_t name;
};

static inline void wave_sum_choose(struct wave_sum *sum, uint64_t candidate, uint64_t name)
{
    if (candidate > sum->candidate || (candidate == sum->candidate && name >= sum->name))
        return;
    sum->candidate = candidate;
    sum->name = name;
}

static inline void wave_sum_add(struct wave_sum *sum, const struct wave_sum *other)
{
    sum->state = (sum->state & other->state & WAVE_AND_BITS) |
                 ((sum->state | other->state) & WAVE_OR_BITS);
    sum->count += other->count;
    sum->activity += other->activity;
    wave_sum_choose(sum, other->candidate, other->name);
}

/* True if that suffices for a wave: if some are only OUTER its verdict says so. */
static inline bool wave_sum_quiet(const struct wave_sum *sum)
{
    return sum->state & BOOT_WAVE_OUTER;
}

static inline bool wave_sum_same(const struct wave_sum *a, const struct wave_sum *b)
{
    return a->state == b->state && a->count == b->count && a->activity == b->activity;
}

#endif
