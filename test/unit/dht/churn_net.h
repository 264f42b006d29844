/*
 * test/unit/dht/churn_net.h - up to 100,000 dht nodes that come and go, and a clock that
 * jumps
 *
 * As fake_net.h, for many ranks and keys: events are in a heap, and a rank's node is made
 * when the rank first does something or is sent something (a node that was told of a change
 * keeps 4 bytes per rank: 100,000 of these would need 40 GB). News of a change travels:
 * each rank that is there learns of it at a time of its own.
 */
#ifndef TEST_CHURN_NET_H
#define TEST_CHURN_NET_H

#include <stdbool.h>
#include <stdint.h>

#include "dht/node.h"

#define SEC  1000000000ull
#define MSEC 1000000ull

#define CHURN_NEVER UINT64_MAX
#define CHURN_CUT   (UINT64_MAX / 2) /* for `changed`: until it is healed */

struct churn_asked;

struct churn_rank {
    struct churn_net *net;
    struct dht_node *node; /* NULL: nothing has come to it yet, or it is not there */
    uint32_t rank, incarnation;
    bool there;        /* its process lives */
    uint8_t group;     /* messages pass within a group only (partition) */
    uint32_t nmissing; /* ranks that it takes for cut off; with cut_seen */
    uint64_t timer;
    uint64_t sent;
    unsigned publishing;       /* begun and not ended: it is not killed meanwhile */
    struct dyad_version *file; /* [keys] its own, as its disk remembers them, or NULL */
    struct dyad_version *copy; /* [keys] or NULL: it has copied nothing */
    struct churn_asked *asked; /* [ranks] as long as it joins, else NULL */
    uint64_t join_until;
};

struct churn_key {
    char upath[32];
    struct dyad_version acked; /* the highest that was acknowledged */
    uint64_t acked_at;
};

struct churn_event;

struct churn_net {
    uint32_t nranks, nkeys;
    struct dht_node_config config;
    struct churn_rank *rank;
    struct churn_key *key;
    uint64_t
        *changed; /* [rank]: last time that anybody's view of it was wrong or changed */
    struct churn_event **heap;
    size_t nheap, heap_cap;
    uint64_t now, rng, order, healed;
    uint64_t cut_at, cut_known; /* begun, and seen by all */
    bool cut_seen;              /* who is beyond it is missing, group 1 is the minority */
    bool refuse;                /* sending to who is not there fails; else it is silence */
    bool told_only; /* news go to owners and holders only: others would not act on them */
    uint64_t sent, sent_type[NET_MSG_TYPE_END];
    uint64_t invalidated; /* ops->invalidate() */
    unsigned publishes;   /* begun and not ended */
    unsigned failed;      /* publishes that ended otherwise than with 0 */
};

/* `live` ranks are there; with fewer than nranks the others are absent slots, and those
 * that are there know each other. */
struct churn_net *churn_create(uint32_t nranks, uint32_t live, uint32_t nkeys,
                               uint32_t replicas, uint64_t seed);
void churn_destroy(struct churn_net *net);
uint32_t churn_random(struct churn_net *net, uint32_t below);
/* A rank that is there and has joined, in that group (-1: any). */
uint32_t churn_any(struct churn_net *net, int group);
/* One that may be joining. */
uint32_t churn_any_there(struct churn_net *net);
struct dht_node *churn_node(struct churn_net *net, uint32_t rank);

void churn_run(struct churn_net *net, uint64_t ns);

/* The process of a rank ends, or one begins (an empty shard, and what its disk remembers);
 * every other learns of it within `spread` ns, each at its own time. Who joins knows all
 * who are there. In a ring with absent slots it has joined when all of these have heard of
 * it and brought it what it is home to, or died; or after 5 s: then it does not trust its
 * own "nothing" until they have. Else (exec) at once. */
void churn_kill(struct churn_net *net, uint32_t rank, uint64_t spread);
void churn_join(struct churn_net *net, uint32_t rank, uint64_t spread);
/* One rank in `part` believes that a live rank is dead, for `length` ns from a time within
 * `spread`; that one sees its connection to them break and return. */
void churn_suspect(struct churn_net *net, uint32_t rank, uint32_t part, uint64_t spread,
                   uint64_t length);
/* Ranks go to group 0 or 1, and believe those of the other dead; heal: the opposite. */
void churn_cut(struct churn_net *net, uint64_t spread);
void churn_heal(struct churn_net *net, uint64_t spread);

void churn_publish(struct churn_net *net, uint32_t rank, uint32_t key);

#endif
