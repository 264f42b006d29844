/*
 * peer_clock.c - by how much another rank's clock is ahead of ours
 */
#include "engine/publish/peer_clock.h"

#include <stdlib.h>

#include "engine/publish/pieces.h"
#include "util/clock.h"

/* The quickest of so many answers count, and of more until the clock is known to NARROW ns: on a machine that
 * is busy each may be late. */
#define ASKS     16u
#define ASKS_MAX 64u
#define NARROW   50000
/* And of so many more, or of those of so many ns, where it matters: most answers of a machine that is busy come
 * late, but not all. */
#define CLOSER_ASKS     256u
#define CLOSER_ASKS_MAX 4096u
#define CLOSER_TIME     UTIL_NSEC_PER_SEC
#define STEP            1000 /* ns, of util_clock_wall() */
#define KEPT            (10 * UTIL_NSEC_PER_SEC)

static struct peer_clock *find(struct peer_clock *clocks, uint32_t rank)
{
    struct peer_clock *clock;

    HASH_FIND(hh, clocks, &rank, sizeof(rank), clock);
    return clock;
}

bool peer_clock_get(struct peer_clock *clocks, uint32_t rank, struct peer_clock *clock)
{
    const struct peer_clock *known = find(clocks, rank);
    uint64_t age = known ? util_clock_now() - known->when : 0;

    if (!known || age >= KEPT) {
        *clock = (struct peer_clock){.rank = rank, .min = INT64_MIN, .max = INT64_MAX};
        return false;
    }
    *clock = *known;
    clock->min -= (int64_t)(age / PIECE_DRIFT);
    clock->max += (int64_t)(age / PIECE_DRIFT);
    return true;
}

void peer_clock_ask(struct peer_clock *clock)
{
    clock->asked = (int64_t)util_clock_wall_ns();
}

void peer_clock_told(struct peer_clock *clock, int64_t theirs)
{
    int64_t least = theirs - (int64_t)util_clock_wall_ns() - STEP,
            most = theirs - clock->asked + STEP;

    clock->answers++;
    if (least > clock->min)
        clock->min = least;
    if (most < clock->max)
        clock->max = most;
}

bool peer_clock_is_measured(const struct peer_clock *clock)
{
    unsigned most = clock->closer ? CLOSER_ASKS_MAX : ASKS_MAX,
             least = clock->closer ? CLOSER_ASKS : ASKS;

    return clock->answers >= most ||
           (clock->answers >= least && clock->max - clock->min <= NARROW) ||
           (clock->closer && util_clock_now() - clock->begun >= CLOSER_TIME);
}

bool peer_clock_closer(struct peer_clock *clock)
{
    uint64_t now = util_clock_now();

    if (clock->closer && now - clock->begun < 2 * CLOSER_TIME)
        return false;
    clock->closer = true;
    clock->begun = now;
    clock->answers = 0;
    return true;
}

void peer_clock_forget(struct peer_clock **clocks, uint32_t rank)
{
    struct peer_clock *clock = find(*clocks, rank);

    if (!clock)
        return;
    HASH_DEL(*clocks, clock);
    free(clock);
}

void peer_clock_keep(struct peer_clock **clocks, const struct peer_clock *measured)
{
    struct peer_clock *clock;

    peer_clock_forget(clocks, measured->rank);
    if (!(clock = malloc(sizeof(*clock))))
        return;
    *clock = *measured;
    clock->when = util_clock_now();
    HASH_ADD(hh, *clocks, rank, sizeof(clock->rank), clock);
    if (!clock->hh.tbl)
        free(clock);
}
