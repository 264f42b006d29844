/*
 * engine/core/member_impl.h - the member of a rank: state of its run that modules do not
 * use
 */
#ifndef DYAD_ENGINE_CORE_MEMBER_IMPL_H
#define DYAD_ENGINE_CORE_MEMBER_IMPL_H

#include <pthread.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "engine/core/member.h"
#include "util/clock.h"

/* In jobs of at most so many ranks their blobs are read at the join, else when needed. */
#define PREFETCH_RANKS 512

struct member_run {
    struct member member;
    pthread_mutex_t lock;
    bool leave_wanted, running;
    enum member_leave leave_how; /* valid if leave_wanted */
    void (*table_ready)(void);
    void (*tell_lost)(void);
    bool image_ends; /* under `lock`: the process exits or execs behind this */
    bool exiting;    /* loop only: leave_as_wanted() as soon as we have joined */
    struct net_post leave_post;
    bool leave_posted;
    bool apart;               /* our libc is not the caller's */
    bool table_own;           /* as in member_params */
    bool (*may_rejoin)(void); /* likewise */
    bool aborted;             /* a library has aborted (aborted.c): nothing is freed */
    bool followed;            /* ... and another member of this rank follows */
    int rc;
};

static inline uint64_t seconds_ns(double seconds)
{
    return (uint64_t)(seconds * (double)UTIL_NSEC_PER_SEC);
}

/* ns for which a holder of a copy may rely on a home's answer: a home waits longer than
 * that for a silent holder (dht/node_invalidate.c). */
static inline uint64_t member_lease(const struct member *member)
{
    return seconds_ns(member->config->peer_timeout) / 2;
}

static inline struct member_run *run_of(struct member *member)
{
    return (struct member_run *)member; /* its first member */
}

/* --- run.c --- */

/* The join is complete: serve the requests that were queued. */
void member_has_joined(struct member *member);
/* The join has failed; the caller has logged why. */
void member_join_failed(struct member *member);

/* --- member_core.c --- */

/* Leave in the way that a thread of the program has asked for (run->leave_how). */
void member_leave_as_wanted(struct member *member);
/* True if the process ends, or no image follows. */
bool member_leaves_for_good(struct member *member);
/* The member ends: call back each member_when_joined() that still waits, with an error.
 */
void member_joined_waits_end(struct member *member);
/* Give a message to the module that handles its type. Takes the payload (malloc'ed or
 * NULL). */
void member_receive(struct member *member, const struct net_msg *msg, void *payload,
                    size_t len);

/* Set in the table and the barrier that the rank was found, or is known to be absent. */
void member_set_live(struct member *member, uint32_t rank, bool live);

#endif
