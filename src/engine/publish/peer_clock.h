/*
 * engine/publish/peer_clock.h - by how much another rank's clock is ahead of ours
 *
 * Bounds, from questions and answers: it is ahead by no more than its answer less the time of the question,
 * and by no less than its answer less the time at which that came (D. Mills, RFC 5905, has the same).
 * Loop thread.
 */
#ifndef DYAD_ENGINE_PUBLISH_PEER_CLOCK_H
#define DYAD_ENGINE_PUBLISH_PEER_CLOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <uthash.h>

struct peer_clock {
    UT_hash_handle hh;
    uint32_t rank;
    unsigned answers;
    bool closer;      /* than usual: peer_clock_closer() */
    uint64_t begun;   /* ... since */
    uint64_t when;    /* it was measured */
    int64_t asked;    /* ns, our clock */
    int64_t min, max; /* ns */
};

/* Of the table *clocks (NULL: empty), if it was measured not long ago: true, and *clock with the bounds as they
 * are now; else false, and *clock is to be measured: _ask() when a question is sent, _told() of its answer, the
 * time there, until it _is_measured(). */
bool peer_clock_get(struct peer_clock *clocks, uint32_t rank, struct peer_clock *clock);
void peer_clock_ask(struct peer_clock *clock);
void peer_clock_told(struct peer_clock *clock, int64_t theirs);
bool peer_clock_is_measured(const struct peer_clock *clock);
/* Its bounds were too wide to tell which of two writes was the last: true, and *clock is to be measured again,
 * with more answers, for up to a second; false: that was done a moment ago. */
bool peer_clock_closer(struct peer_clock *clock);
/* Keep a copy in the table; without memory it is measured again the next time. */
void peer_clock_keep(struct peer_clock **clocks, const struct peer_clock *measured);
void peer_clock_forget(struct peer_clock **clocks, uint32_t rank);

#endif
