/*
 * dht/node_core.h - the basis of all parts of a node: liveness, homes, timers, the queue
 * of ready work, messages, and the ranks that an operation has asked; private to dht/
 *
 * Messages to self and completions go through one queue, which is emptied at the end of
 * dht_node_receive() and in dht_node_tick(), so no callback runs inside the call that
 * started its operation and no state machine is entered twice. Work that a callback
 * starts joins the queue; one round is bounded, so that the loop gets its turn. An answer
 * may come late, from an earlier life or for another request: node_next_id() says why it
 * matches nothing.
 */
#ifndef DYAD_DHT_NODE_CORE_H
#define DYAD_DHT_NODE_CORE_H

#include <uthash.h>
#include <utlist.h>

#include "dht/node.h"
#include "util/quota.h"

#define DHT_ASK_MAX       32 /* homes that one operation asks before it gives up */
#define DHT_COUNTER_MAX   (1ull << 62) /* no valid version comes near */
#define DHT_INSTEAD_MAX   4  /* neighbours that are asked in place of one holder */
#define DHT_REPAIR_WINDOW 64 /* republications in flight */

/* Timers of one class all run for the same time, so each class is a list in order of
 * expiry. */
enum timer_class {
    TIMER_PUBLISH, /* a home may wait for holders before it answers */
    TIMER_LOOKUP,
    TIMER_RETRY,
    TIMER_AGAIN,      /* a negative answer that may not be true */
    TIMER_INVALIDATE, /* half of invalidate_timeout */
    TIMER_INSTEAD,    /* DHT_INSTEAD_MAX of them are the other half */
    TIMER_SWEEP,
    TIMER_NOTED,
    TIMER_REFRESH,
    TIMER_LEASE, /* a part of config.lease */
    TIMER_CLASSES
};

struct timer {
    struct timer *prev, *next;
    uint64_t when;
    void (*fn)(struct dht_node *node, struct timer *timer);
    enum timer_class class;
    bool active;
};

/* Something to be done from dht_node_tick() or _receive(), first come, first served. */
struct ready {
    struct ready *prev, *next;
    void (*fn)(struct dht_node *node, struct ready *ready);
    bool queued;
};

/* A rank that an operation has asked. */
struct ask {
    uint64_t sent;
    uint32_t rank;
    bool pending;   /* no answer yet */
    bool answered;  /* publish: acknowledged; lookup: nothing there */
    bool tentative; /* lookup: as far as it knows */
    bool stood_in;  /* ... it is no home, by its own word */
    bool failed;    /* silent, dead or in error: passed over */
    bool refused;   /* ... it answered that it is no home; or publish: with an error */
    bool removed;   /* publish: ... that another node has removed the file meanwhile */
    bool wait;      /* it was asked to keep a waiter */
    bool waiter;    /* it keeps one */
};

struct asks {
    unsigned n;
    struct ask ask[DHT_ASK_MAX];
};

struct dht_node {
    struct dht_node_config config;
    const struct dht_node_ops *ops;
    void *arg;
    const struct node_module *const *modules; /* NULL ends them */
    struct node_table *table;                 /* node_module.c */
    struct dht_ring ring;
    struct dht_shard *shard;
    struct dht_node_stats stats;

    /* Liveness, kept as the number of each rank's last death. An acknowledgement is valid
     * as long as its home has not died since: a death costs no walk over our entries. NULL
     * until the first death; [rank] = number of that death << 1 | dead. */
    uint32_t *death;
    uint32_t epoch;                    /* deaths so far */
    uint32_t nlive, few[DHT_FEW_LIVE]; /* live ranks; listed if no more than that */
    uint8_t *missing;                  /* NULL: none; [rank]: enum dht_missing */
    uint32_t nmissing;                 /* ranks that are not DHT_GONE */
    bool joining;                      /* entries that belong to us may not be here yet */
    bool leaving;                      /* we do not count ourselves as a home any more */

    uint64_t last_id;
    struct timer *timers[TIMER_CLASSES];
    uint64_t armed; /* what the user's timer is set to */
    struct ready *ready;
    bool running; /* in node_run() */

    struct owns *owns;          /* node_own.h: our entries, published or withdrawn */
    struct dht_lookup *lookups; /* node_lookup_homes.h: all but those that are done */
    struct dht_lookup *lookups_by_id;

    /* Each of these is private to one module. */
    struct copies *copies;
    struct incomings *incomings;
    struct invalidation *invalidations; /* by id */
    struct leave *leave;
    struct lookup_cache *cache;
    struct noted *noted; /* node_record.c: by record */
    struct resyncs *resyncs;
    struct dht_writing_ask *writing_asks;
    struct tentative *tentative;
    struct unrecovered *unrecovered;
    struct writings *writings;
    struct written *written;  /* by upath */
    struct util_quota askers; /* of these */
    struct timer sweep_timer; /* node_home_answers.c */
    uint64_t *lost_at;        /* node_lease.c; [rank]; NULL: none yet */
};

void node_timer_start(struct dht_node *node, struct timer *timer, enum timer_class class);
void node_timer_stop(struct dht_node *node, struct timer *timer);
/* This process did not run for `ns`: put all timers off by that, at most to full length.
 */
void node_timers_stood_still(struct dht_node *node, uint64_t ns);
/* At the end: empty the lists, so that timers in objects that are freed later are in
 * none. */
void node_timers_forget(struct dht_node *node);

void node_ready_push(struct dht_node *node, struct ready *ready,
                     void (*fn)(struct dht_node *node, struct ready *ready));
void node_ready_remove(struct dht_node *node, struct ready *ready);
/* Remove and free() all that have this fn. */
void node_ready_free(struct dht_node *node,
                     void (*fn)(struct dht_node *node, struct ready *ready));

/* Set the user's timer (ops->set_timer) to the next deadline. */
void node_rearm(struct dht_node *node);
/* run: do the queued work, then steps of the modules. run_timers: call expired timers. */
void node_run(struct dht_node *node);
void node_run_timers(struct dht_node *node);

/* Requests carry an id that starts at incarnation << 40, so an answer to an earlier
 * member of this rank matches nothing. An answer counts only from a rank that was asked
 * under that id and has not answered. */
uint64_t node_next_id(struct dht_node *node);
/* Send to any rank; to self through the queue. 0 or -1. */
int node_send(struct dht_node *node, uint32_t rank, struct net_msg *msg);
/* The rank has not answered in time. */
void node_silent(struct dht_node *node, uint32_t rank);
/* Free the messages to self that are still queued. */
void node_core_destroy(struct dht_node *node);

bool node_rank_live(const void *arg, uint32_t rank);
/* True if the rank is not live, and not known to be gone. */
bool node_rank_missing(const struct dht_node *node, uint32_t rank);
/* True if it is neither live nor missing: its files are its successor's, or lost. Files
 * of a missing rank (stopped, or beyond a cut) are not taken over, so others of its node
 * must be asked in its place at each version. */
bool node_rank_gone(const struct dht_node *node, uint32_t rank);
/* Bring nlive and few up to date after a change of the death table. */
void node_few_update(struct dht_node *node, uint32_t rank, bool live);
/* Find the homes of a key, without those that `asks` (may be NULL) has passed over.
 * Returns how many. */
unsigned node_homes(struct dht_node *node, const struct dht_key *key, unsigned replicas,
                    const struct asks *asks, uint32_t homes[DHT_REPLICAS_MAX]);

struct ask *asks_find(struct asks *asks, uint32_t rank);
/* The rank's slot; a new one if it has none. NULL: all are taken. */
struct ask *asks_get(struct asks *asks, uint32_t rank);
bool asks_pending(const struct asks *asks);
void asks_stood_still(struct asks *asks, uint64_t ns, uint64_t now);

#endif
