/*
 * client/client_rejoins.h - how often a process may take another copy of UCX, after one has found a fault in itself
 *
 * Not thread-safe: it belongs to the thread of client_member_run().
 */
#ifndef DYAD_CLIENT_REJOINS_H
#define DYAD_CLIENT_REJOINS_H

#include <stdbool.h>
#include <stdint.h>

#include "util/clock.h"

#define CLIENT_REJOINS_CLOSE \
    3 /* in CLIENT_REJOINS_SPELL: a UCX that fails again and again ends */
#define CLIENT_REJOINS_SPELL (600 * UTIL_NSEC_PER_SEC)
#define CLIENT_REJOINS_MAX   8 /* in all: glibc 2.36 has static TLS for some ten copies */

struct client_rejoins {
    uint64_t at[CLIENT_REJOINS_CLOSE]; /* when the last of them were, in turns */
    unsigned copies;                   /* that have ended themselves */
};

/* True if one more may follow now (util_clock_now()). */
bool client_rejoins_allow(const struct client_rejoins *rejoins, uint64_t now);
/* One has ended itself, now. */
void client_rejoins_count(struct client_rejoins *rejoins, uint64_t now);

#endif
