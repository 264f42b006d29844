/*
 * engine/core/member_impl.h - the member of a rank: what its run has beside what all share
 */
#ifndef DYAD_ENGINE_CORE_MEMBER_IMPL_H
#define DYAD_ENGINE_CORE_MEMBER_IMPL_H

#include <pthread.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "engine/core/member.h"
#include "util/clock.h"

/* Blobs of so many ranks are read at join; those of larger jobs when they are needed. */
#define PREFETCH_RANKS 512

struct member_run {
    struct member member;
    pthread_mutex_t lock;
    bool leave_wanted, running;
    enum member_leave leave_how; /* of use if leave_wanted */
    void (*table_ready)(void);
    void (*tell_lost)(void);
    bool image_ends; /* under `lock`: the process exits or execs behind this */
    bool exiting;    /* loop only: leave_as_wanted() as soon as we have joined */
    struct net_post leave_post;
    bool leave_posted;
    bool apart;      /* our libc is not the caller's */
    bool table_own;  /* as in member_params */
    bool may_rejoin; /* likewise */
    bool wrecked;    /* aborted.c: nothing is freed */
    bool followed;   /* ... and not the end of this rank */
    int rc;
};

static inline uint64_t seconds_ns(double seconds)
{
    return (uint64_t)(seconds * (double)UTIL_NSEC_PER_SEC);
}

/* ns for which a home's answer counts for a holder of a copy: it waits longer for one that
 * is silent (dht/node_invalidate.c). */
static inline uint64_t member_lease(const struct member *member)
{
    return seconds_ns(member->config->peer_timeout) / 2;
}

static inline struct member_run *run_of(struct member *member)
{
    return (struct member_run *)member; /* its first member */
}

/* --- run.c --- */

/* Everything is in place: serve what was queued. */
void member_has_joined(struct member *member);
/* After a log line that says why. */
void member_join_failed(struct member *member);

/* --- member_core.c --- */

/* Leave in the way that a thread of the program has asked for (run->leave_how). */
void member_leave_as_wanted(struct member *member);
/* The process ends, or no image follows. */
bool member_leaves_for_good(struct member *member);
/* The member ends: whoever waits for its join hears of it. */
void member_joined_waits_end(struct member *member);
/* Give a message to whom it concerns; the payload (malloc'ed or NULL) is the callee's. */
void member_receive(struct member *member, const struct net_msg *msg, void *payload,
                    size_t len);

/* The rank was found, or is known to be absent. */
void member_set_live(struct member *member, uint32_t rank, bool live);

#endif
