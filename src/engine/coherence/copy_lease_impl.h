/*
 * engine/coherence/copy_lease_impl.h - the state of copy_lease.c and copy_lease_ask.c,
 * which only they and their test use
 */
#ifndef DYAD_ENGINE_COHERENCE_COPY_LEASE_IMPL_H
#define DYAD_ENGINE_COHERENCE_COPY_LEASE_IMPL_H

#include "engine/coherence/copy_lease.h"
#include "engine/core/member_impl.h"

struct lease_home {
    uint64_t id, sent; /* of the PING that is under way; id 0: none */
    uint64_t good;     /* when the last PING was sent whose answer counts; 0: none */
    uint32_t losses;   /* as the home said */
};

struct lease {
    struct member *member;
    struct net_timer *timer;
    uint64_t length, term;
    uint64_t until;     /* end of the lease that this member's line says, or has said */
    uint64_t wanted_at; /* last */
    uint64_t collected; /* when the fields below were filled in */
    /* copy_lease_ask.c */
    struct net_timer *ask_timer;
    struct lease_wait *waits; /* utlist */
    struct lease_job *jobs;   /* utlist */
    uint64_t no_answer;       /* a neighbour was asked in vain */
    unsigned ncopies;
    bool known;
    bool *home;   /* [nranks]: the rank is a home of a copy */
    bool *unsure; /* [nranks]: as the rank said last */
    uint32_t nranks;
    struct lease_home *rank; /* [nranks] */
};

/* copy_lease_ask.c; 0 or -1 */
int lease_ask_start(struct member *member);
/* After the pool's threads were joined. */
void lease_ask_free(struct member *member);

#endif
