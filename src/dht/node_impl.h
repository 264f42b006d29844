/*
 * dht/node_impl.h - what the parts of node.c share; private to dht/
 *
 * node.c: life, timers, queue, liveness. node_home.c: the home role. node_told.c: whom a
 * home tells of a newer version. node_own.c: our own entries. node_publish.c: publish and
 * withdraw. node_incoming.c: what homes tell us. node_passed.c: homes that cannot be told.
 * node_lookup.c: our lookups. node_kept.c: their answers, kept. node_copies.c: who knows of
 * our copies. node_lease.c: how long who is lost is waited for. node_leave.c: giving the
 * shard away. node_doubt.c: when our "not published" may not be true. node_buried.c: the
 * dead of whom heirs do not know all. node_writing.c: who writes what, on storage that
 * nodes share; node_writers.c: as homes know it.
 */
#ifndef DYAD_DHT_NODE_IMPL_H
#define DYAD_DHT_NODE_IMPL_H

/* Out of memory must not end the host program: uthash then leaves hh.tbl NULL. */
#define HASH_NONFATAL_OOM 1
#include <uthash.h>
#include <utlist.h>

#include "dht/node.h"

#define DHT_ASK_MAX       32 /* homes that one operation asks before it gives up */
#define DHT_COUNTER_MAX   (1ull << 62) /* no honest version comes near */
#define DHT_INSTEAD_MAX   4  /* neighbours that are asked in place of one holder */
#define DHT_PASSED_MAX    8  /* ranks in whose place a publisher asks others */
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
    bool pending;  /* no answer yet */
    bool answered; /* publish: acknowledged; lookup: nothing there */
    bool unsure;   /* lookup: as far as it knows */
    bool failed;   /* silent, dead or in error: passed over */
    bool refused;  /* ... it said so: it is no home */
    bool wait;     /* it was asked to keep a waiter */
    bool waiter;   /* it keeps one */
};

struct asks {
    unsigned n;
    struct ask ask[DHT_ASK_MAX];
};

/* A home that a publish has passed over, or another rank that cannot be reached, and that
 * may have something older. */
struct passed {
    uint32_t rank;
    uint32_t instead;        /* the last that was asked in its place, or DYAD_RANK_NONE */
    unsigned asked, pending; /* how many were; of these, without an answer */
};

struct publish {
    struct ready ready;
    struct publish *next; /* queue of the upath */
    struct own *own;
    struct dyad_entry entry; /* upath: that of own */
    struct dht_key key;
    uint64_t id; /* another one for each version that is tried */
    UT_hash_handle hh;
    struct timer timer;
    struct asks asks;
    struct passed passed[DHT_PASSED_MAX];
    unsigned npassed, passed_step; /* of the time for it: 0 the first half */
    struct timer passed_timer;
    unsigned attempts;
    uint32_t epoch; /* deaths that it knew of when it was sent */
    bool repair;    /* of an entry that was published before: same version */
    bool repair_all;
    bool relay; /* repair of somebody else's entry */
    int status;
    dht_ahead_fn ahead; /* NULL: none */
    dht_publish_fn fn;
    void *arg;
};

/* INVALIDATE that waits for us: for the engine (by token), or for a publish of ours to end.
 */
struct incoming {
    struct ready ready;
    struct incoming *next; /* own->deferred */
    uint64_t token;
    UT_hash_handle hh;
    uint32_t rank; /* who wants the reply; DYAD_RANK_NONE: nobody */
    uint64_t id;
    struct dyad_entry newer;
    bool busy;   /* in ops->invalidate() */
    bool gone;   /* dht_node_invalidated() came meanwhile */
    bool stays;  /* dht_node_stays() */
    bool left;   /* NET_INVALIDATE_NODE: in place of `holder` */
    bool unseen; /* what that one has is not in our sight */
    uint32_t holder;
    char upath[];
};

/* A upath that we published or withdrew. */
struct own {
    struct dyad_entry entry; /* state NONE: nothing of ours is in force */
    uint64_t highest;        /* counter known to be taken */
    struct publish *queue;   /* the first is under way */
    struct incoming *deferred;
    bool relay_again; /* when `queue` is empty: what our shard has then */
    bool again;       /* restored while it is brought to its homes: once more after that */
    UT_hash_handle hh;
    uint32_t hash;  /* for uthash */
    uint32_t epoch; /* the homes below acknowledged when that many deaths were known */
    uint32_t nhomes;
    uint32_t homes[DHT_REPLICAS_MAX];
    char upath[];
};

enum lookup_state {
    LOOKUP_FIRST,   /* asking the first home, or the next where one is silent */
    LOOKUP_WAITING, /* that home keeps a waiter */
    LOOKUP_ALL,     /* it had nothing: what do all of them say? */
};

struct dht_lookup {
    struct ready ready;
    struct dht_lookup *prev, *next; /* node->lookups */
    uint64_t id;
    UT_hash_handle hh;
    struct dht_key key;
    uint8_t flags;
    enum lookup_state state;
    struct dyad_version newer_than;
    struct timer timer, retry, again;
    struct asks asks;
    uint32_t home;
    int status;
    uint64_t since;         /* when it began */
    bool untold;            /* KEEP: a home that answered will not tell us of a change */
    bool unsure;            /* a home that answered may have missed something */
    struct dyad_entry best; /* what fn gets; state NONE: nothing */
    dht_lookup_fn fn;
    void *arg;
    char upath[];
};

/* Holders of older versions that a home has told and that have not answered yet. */
struct told {
    uint64_t id;
    UT_hash_handle hh;
    struct told *prev, *next; /* record->user: those of one record */
    struct dht_record *record;
    struct dyad_version version;
    struct timer timer;
    struct reply_to {
        uint32_t rank;
        uint64_t id;
    } * replies; /* PUBLISHes to be acknowledged */
    unsigned nreplies;
    struct told_rank *ranks; /* still to answer */
    unsigned nranks;
    uint32_t publisher;
    unsigned step; /* of the time for it: 0 the first half */
};

struct told_rank {
    uint32_t rank;           /* has something older */
    uint32_t instead;        /* the last that was asked in its place, or DYAD_RANK_NONE */
    unsigned asked, pending; /* how many were; of these, without an answer */
    bool dead;               /* it will not answer itself */
    bool seen_to;            /* nobody else of its node finds there what is older */
};

/* Holders of nothing: ranks that keep the answer that nothing is published here. */
struct noted {
    struct dht_record *record; /* the key */
    UT_hash_handle hh;
    struct timer timer;
};

/* An answer that we keep, or (lookup != 0) will keep. */
struct kept {
    UT_hash_handle hh;        /* by upath */
    struct kept *prev, *next; /* node->kept_order, the oldest first */
    uint64_t lookup;          /* id of the lookup that brings it; 0: it is here */
    uint64_t since;
    uint64_t put; /* what ops->answer_put() said */
    int status;
    struct dyad_entry entry;
    char upath[];
};

struct dht_node {
    struct dht_node_config config;
    const struct dht_node_ops *ops;
    void *arg;
    struct dht_ring ring;
    struct dht_shard *shard;

    /* Liveness: NULL until the first death; [rank] = number of that death << 1 | dead. */
    uint32_t *death;
    uint32_t epoch;                    /* deaths so far */
    uint32_t nlive, few[DHT_FEW_LIVE]; /* who they are, if no more than that */
    uint64_t *lost_at;                 /* NULL: none yet; [rank]: node_lease.c */
    uint8_t *missing;                  /* NULL: none; [rank]: enum dht_missing */

    uint8_t *doubt; /* NULL: none yet; [rank]: see node_doubt.c */
    uint32_t ndoubted, nback, nmissing, nmissing_short;
    struct buried *buried; /* NULL: nobody has died */
    enum dht_side side;
    bool side_lasts;           /* dht_node_side_lasts() */
    bool ask_untold;           /* at the end of this turn */
    struct settling *settling; /* ranks that have asked us */
    struct timer doubt_timer;

    uint64_t last_id;
    struct timer *timers[TIMER_CLASSES];
    uint64_t armed; /* what the user's timer is set to */
    struct ready *ready;
    bool running; /* in node_run() */

    struct publish *publishes; /* under way, by id */
    struct own *own;           /* by upath */
    struct incoming *incoming; /* at the engine, by token */
    uint64_t last_token;
    uint64_t
        counter_floor; /* of upaths that were forgotten: no version of ours is used twice */
    unsigned npublish; /* queued or under way, without repairs */
    unsigned nrepair;
    struct own *review; /* next to be looked at */
    bool reviewing, review_again, review_all;
    struct timer review_timer, refresh_timer, sweep_timer;

    struct dht_lookup *lookups; /* all but those that are done */
    struct dht_lookup *lookups_by_id;

    struct told *told;   /* by id */
    struct noted *noted; /* by record */

    struct kept *kept, *kept_order;
    uint64_t kept_floor; /* when homes moved last: what was asked before is not true */

    struct copy *copies, *copy_next; /* next to be looked at */
    struct note *notes;              /* homes that are to know of one, by id */
    bool copies_reviewing, copies_again;
    unsigned ncopies_asking, copy_tries;
    struct timer copy_timer;

    struct passing *passing; /* what is being passed on to other homes, or NULL */
    struct timer orphan_timer;
    uint32_t removed_since, published_since; /* epochs whose orphans have been passed on */
    bool *reborn; /* NULL: none; [rank]: it is another process than the one it was */
    bool leaving, retired;

    struct written *written; /* as a home, by upath */
    struct writing *writing; /* what we write, by upath */
    struct tell *tells;      /* utlist: BEGINs and ENDs without an answer */
    struct dht_settle *settles;

    bool joining;   /* what belongs to us may not be here yet */
    bool restoring; /* dht_node_restored() has not been called */
    struct dht_node_stats stats;
};

/* node_writers.c */
void home_writing(struct dht_node *node, const struct net_msg *msg);
/* A newer version of upath is in force. */
void home_written(struct dht_node *node, const char *upath);
void home_writers_rank_dead(struct dht_node *node, uint32_t rank);
void home_writers_destroy(struct dht_node *node);

/* node_writing.c */
void writing_reply(struct dht_node *node, const struct net_msg *msg);
/* A rank died, or came. */
void writing_rank_changed(struct dht_node *node, uint32_t rank, bool live);
void writing_destroy(struct dht_node *node);

/* node.c */
void node_timer_start(struct dht_node *node, struct timer *timer, enum timer_class class);
void node_timer_stop(struct dht_node *node, struct timer *timer);
void node_ready_push(struct dht_node *node, struct ready *ready,
                     void (*fn)(struct dht_node *node, struct ready *ready));
void node_ready_remove(struct dht_node *node, struct ready *ready);
/* Remove and free() all that have this fn. */
void node_ready_free(struct dht_node *node,
                     void (*fn)(struct dht_node *node, struct ready *ready));
void node_rearm(struct dht_node *node);
uint64_t node_next_id(struct dht_node *node);
/* To any rank; to self through the queue. 0 or -1. */
int node_send(struct dht_node *node, uint32_t rank, struct net_msg *msg);
bool node_rank_live(const void *arg, uint32_t rank);
/* The rank has not answered in time. */
void node_silent(struct dht_node *node, uint32_t rank);
/* Homes of a key without those that `asks` (may be NULL) has passed over. */
unsigned node_homes(struct dht_node *node, const struct dht_key *key, unsigned replicas,
                    const struct asks *asks, uint32_t homes[DHT_REPLICAS_MAX]);
/* Homes of a key if all who are missing, or buried, were live. */
unsigned node_homes_all(const struct dht_node *node, const struct dht_key *key,
                        uint32_t homes[DHT_REPLICAS_MAX]);
struct ask *asks_find(struct asks *asks, uint32_t rank);
/* The rank's slot, made if need be. NULL: all are taken. */
struct ask *asks_get(struct asks *asks, uint32_t rank);
bool asks_pending(const struct asks *asks);
void asks_stood_still(struct asks *asks, uint64_t ns, uint64_t now);

/* node_home.c */
void home_publish(struct dht_node *node, const struct net_msg *msg);
void home_lookup(struct dht_node *node, const struct net_msg *msg);
void home_lookup_cancel(struct dht_node *node, const struct net_msg *msg);
void home_reply_publish(struct dht_node *node, uint32_t rank, uint64_t id, int status,
                        const struct dyad_entry *entry);
void home_sweep(struct dht_node *node, struct timer *timer);
void home_destroy(struct dht_node *node);

/* node_told.c */
/* The PUBLISH is to be acknowledged when all holders have been told. NULL: ENOMEM */
struct told *told_create(struct dht_node *node, struct dht_record *record,
                         const struct net_msg *msg);
/* So is this one; false: ENOMEM. */
bool told_add_reply(struct told *told, uint32_t rank, uint64_t id);
/* Move the ranks that hold something older from the record, which has not the new version
 * yet, to `told`. */
void told_take_ranks(struct dht_node *node, struct told *told, const struct net_msg *msg);
/* The record has the new version. May end and free it. */
void told_start(struct dht_node *node, struct told *told);
/* What the holder has is nobody's any more, or its heir's. */
bool told_holder_is_gone(const struct dht_node *node, uint32_t rank);
void told_reply(struct dht_node *node, const struct net_msg *msg);
void told_rank_dead(struct dht_node *node, uint32_t rank);
void told_destroy(struct dht_node *node);

/* node_kept.c */
/* The answer that is kept for a upath, or NULL. */
const struct kept *kept_find(struct dht_node *node, const char *upath);
/* The answer that another member of this node keeps for the lookup; false: none that counts
 * for us. */
bool kept_of_node(struct dht_node *node, const struct dht_lookup *l,
                  struct dyad_answer *answer);
/* A lookup has begun that would bring one. */
void kept_expect(struct dht_node *node, const struct dht_lookup *l);
/* It has ended with `best` and `status`; `whole`: all who answered will tell us. */
void kept_settle(struct dht_node *node, const struct dht_lookup *l, bool whole);
/* The homes have answered this one (status 0 or ENOENT): what is kept and says otherwise
 * may be older. */
void kept_told(struct dht_node *node, const struct dht_lookup *l);
/* The same of an INVALIDATE. */
void kept_newer(struct dht_node *node, const struct dyad_entry *newer);
/* Something happened to the upath: what is kept or on its way is not true any more. */
void kept_drop(struct dht_node *node, const char *upath);
/* Homes may have moved. */
void kept_drop_all(struct dht_node *node);

/* node_passed.c */
/* All homes that could be asked have answered: have somebody see to what those have that
 * could not. True: that is waited for, and publish_advance() called when it has changed. */
bool passed_see_to(struct dht_node *node, struct publish *op);
/* The publish ends, or begins anew with another version. */
void passed_forget(struct dht_node *node, struct publish *op);
/* That rank is dead: was it asked in the place of a home? */
bool passed_rank_dead(struct dht_node *node, struct publish *op, uint32_t rank);
/* Both may end and free it. */
void passed_timeout(struct dht_node *node, struct timer *timer);
void passed_reply(struct dht_node *node, const struct net_msg *msg);

/* node_copies.c */
/* The home has noted us as a holder of that version (DYAD_RANK_NONE: none has); the others
 * are told. */
void copies_note(struct dht_node *node, const char *upath,
                 const struct dyad_version *version, uint32_t home);
/* A home told us of a newer version, and counts us no more. */
void copies_newer(struct dht_node *node, const struct dyad_entry *newer);
/* We publish it ourselves. */
void copies_drop(struct dht_node *node, const char *upath);
/* Homes may have moved. */
void copies_review(struct dht_node *node);
void copies_review_step(struct dht_node *node);
void copies_timer(struct dht_node *node, struct timer *timer);
/* False: the id is not of a home that was told of a copy. */
bool copies_reply(struct dht_node *node, const struct net_msg *msg);
void copies_destroy(struct dht_node *node);

/* node_own.c */
/* upath's, or NULL; hash: its dht_key's `full`, 32 bits of it. */
struct own *own_find(struct dht_node *node, const char *upath, uint32_t hash);
/* The same, made if it is not there; NULL with ENOMEM. */
struct own *own_get(struct dht_node *node, const char *upath, uint32_t hash);
/* A home holds what is in force: it acknowledged it, and has not died since. */
bool own_is_at(const struct dht_node *node, const struct own *own, uint32_t rank);
/* After an operation or an invalidation: go on with what waited for its end. `own` may be
 * gone then. */
void own_settle(struct dht_node *node, struct own *own);
bool own_under_way(struct dht_node *node, const char *upath);
/* Look whether each is in place; `all`: publish each again in any case. */
void own_review(struct dht_node *node, bool all);
void own_review_step(struct dht_node *node);
void own_review_timer(struct dht_node *node, struct timer *timer);
void own_refresh_timer(struct dht_node *node, struct timer *timer);
/* Nothing that was begun before that moment, and no repair, is under way. */
bool own_all_in_place(const struct dht_node *node, uint64_t moment);
void own_destroy(struct dht_node *node);

/* node_publish.c; _reply: false if the id is not of a publish */
/* Not queued yet; NULL with ENOMEM. */
struct publish *publish_create(struct own *own, const struct dyad_entry *entry,
                               unsigned depth);
/* The first of its own's queue. */
void publish_start(struct dht_node *node, struct publish *op);
/* Bring what is ours to homes that lack it. */
void publish_repair(struct dht_node *node, struct own *own);
/* Give an entry that another rank published to all homes, if nothing of ours is there. */
void publish_relay(struct dht_node *node, const struct dyad_entry *entry);
/* Something was heard: ask who is to be asked, or end. */
void publish_advance(struct dht_node *node, struct publish *op);
bool publish_reply(struct dht_node *node, const struct net_msg *msg);
void publish_rank_dead(struct dht_node *node, uint32_t rank);
void publish_stood_still(struct dht_node *node, uint64_t ns);
void publish_queue_free(struct own *own);
void publish_destroy(struct dht_node *node);

/* node_incoming.c */
void incoming_invalidate(struct dht_node *node, const struct net_msg *msg);
/* A version that a home should have told us of, and did not. */
void incoming_missed(struct dht_node *node, const struct dyad_entry *newer);
/* What was put off: some may be below our version now; the others are put off again. */
void incoming_route_deferred(struct dht_node *node, struct own *own);
void incoming_route_all(struct dht_node *node, struct incoming *list);
void incoming_list_free(struct incoming *list);
void incoming_destroy(struct dht_node *node);

/* node_doubt.c */
/* May we have missed what others published? */
bool doubt_is(const struct dht_node *node);
/* ... and may that be over soon? */
bool doubt_may_end(const struct dht_node *node);
void doubt_missing(struct dht_node *node, uint32_t rank, enum dht_missing missing);
/* It is live again, or dead; homes are found accordingly by now. */
void doubt_rank_live(struct dht_node *node, uint32_t rank);
void doubt_rank_dead(struct dht_node *node, uint32_t rank);
void doubt_settle(struct dht_node *node, const struct net_msg *msg);
void doubt_settled(struct dht_node *node, const struct net_msg *msg);
/* An entry of ours has not got to that rank; a review begins that tries it again. */
void doubt_publish_failed(struct dht_node *node, uint32_t rank, uint64_t id);
void doubt_review_begins(struct dht_node *node);
/* Answer who has asked and can be answered. */
void doubt_step(struct dht_node *node);
void doubt_timer(struct dht_node *node, struct timer *timer);
void doubt_destroy(struct dht_node *node);

/* node_buried.c */
/* The rank, which was missing, is dead, or another incarnation. */
void buried_died(struct dht_node *node, uint32_t rank);
/* One more is missing. */
void buried_missing(struct dht_node *node);
/* Fewer may be missing, or in doubt. */
void buried_look(struct dht_node *node);
/* Dead, or back with an empty shard: not all that it was told is with its heirs. */
bool buried_is(const struct dht_node *node, uint32_t rank);
/* ... back, and not to be believed. */
bool buried_is_empty(const struct dht_node *node, uint32_t rank);
/* As a home of the key we stand in for some that are missing, or buried. */
bool buried_stands_in(const struct dht_node *node, const struct dht_key *key);
void buried_destroy(struct dht_node *node);

/* node_lease.c */
void lease_rank_dead(struct dht_node *node, uint32_t rank);
/* May the rank, which is taken for dead, use its copies without having asked? */
bool lease_may_last(const struct dht_node *node, uint32_t rank);
/* May holders that only lost homes know, of whom none has acknowledged this? */
bool lease_of_home_may_last(const struct dht_node *node, struct publish *op);
void lease_destroy(struct dht_node *node);

/* node_leave.c */
/* It is about to be live. */
void leave_rank_live(struct dht_node *node, uint32_t rank);
/* Records of the shard are still to be passed on: leave_step() does, as far as fits. */
bool leave_has_more(const struct dht_node *node);
void leave_step(struct dht_node *node);
/* Ranks have died: pass on what they have removed, or published; node_leave.c says when. */
void leave_orphans_removed(struct dht_node *node, struct timer *timer);
void leave_orphans_published(struct dht_node *node);
/* As a home we took a newer version. */
void leave_note(struct dht_node *node, const struct dyad_entry *entry);
/* Pass on what the shard has of upath now. */
void leave_again(struct dht_node *node, const char *upath);
/* True: we are no home any more, and said so. */
bool leave_refuses(struct dht_node *node, const struct net_msg *msg);
void leave_destroy(struct dht_node *node);

/* node_lookup.c */
void lookup_reply(struct dht_node *node, const struct net_msg *msg);
void lookup_notify(struct dht_node *node, const struct net_msg *msg);
void lookup_rank_dead(struct dht_node *node, uint32_t rank);
void lookup_rank_live(struct dht_node *node);
/* Answers of ours are sure again: what was not believed is asked for again. */
void lookup_wake(struct dht_node *node);
void lookup_stood_still(struct dht_node *node, uint64_t ns);
void lookup_destroy(struct dht_node *node);

#endif
