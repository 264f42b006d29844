/*
 * dht/node_own.h - our own entries, and the operations on them that are under way;
 * private to dht/
 *
 * Withdrawals are remembered and republished as entries are. So an old owner that comes
 * back late finds the tombstone also at a new home.
 *
 * A struct own lives as long as its upath is published or withdrawn by us, or an
 * operation on it is under way (publish_go_on() frees it).
 */
#ifndef DYAD_DHT_NODE_OWN_H
#define DYAD_DHT_NODE_OWN_H

#include "dht/node_core.h"

#define DHT_PROXIED_MAX 8 /* ranks in whose place a publisher asks others */

/* A home that a publish has passed over, or another rank that cannot be reached, which
 * may have an older version. */
struct proxied {
    uint32_t rank;
    uint32_t instead;        /* the last that was asked in its place, or DYAD_RANK_NONE */
    unsigned asked, pending; /* how many were asked; of these, without an answer */
};

struct publish {
    struct ready ready;
    struct publish *next; /* queue of the upath */
    struct own *own;
    struct dyad_entry entry; /* upath: that of own */
    struct dyad_base base;
    struct dht_key key;
    uint64_t id; /* another one for each version that is tried */
    UT_hash_handle hh;
    struct timer timer;
    struct asks asks;
    struct proxied proxied[DHT_PROXIED_MAX];
    unsigned nproxied, proxy_step; /* proxy_step 0: the first half of the time for it */
    struct timer proxy_timer;
    unsigned attempts,
        mixed;       /* mixed: how often homes did not agree whether it was removed */
    unsigned silent; /* how often homes that live were asked again */
    uint32_t epoch;  /* node->epoch when it was sent */
    bool awaits;     /* a home that is missing: all others have it */
    bool told;       /* ... and somebody was told */
    bool repair;     /* of an entry that was published before: same version */
    bool repair_all;
    bool relay; /* repair of another rank's entry */
    int status;
    dht_ahead_fn ahead; /* NULL: none */
    dht_publish_fn fn;
    void *arg;
    size_t inlined_len;
    uint64_t digest;         /* of them */
    unsigned char inlined[]; /* the file, if it is to go with the entry (publish_end()) */
};

/* A upath that we published or withdrew. */
struct own {
    struct dyad_entry entry; /* state NONE: nothing of ours is in force */
    uint64_t highest;        /* highest counter that is known to be in use */
    struct publish *queue;   /* the first is under way */
    struct incoming *deferred;
    bool relay_again; /* when `queue` is empty, relay what our shard has then */
    bool again;       /* restored while it is republished: republish once more after that */
    UT_hash_handle hh;
    uint32_t hash;  /* for uthash */
    uint32_t epoch; /* node->epoch when the homes below acknowledged */
    uint32_t nhomes;
    uint32_t homes[DHT_REPLICAS_MAX];
    char upath[];
};

struct owns {
    struct own *by_upath;
    struct publish *publishes; /* under way, by id */
    unsigned npublish;         /* queued or under way, without repairs */
    unsigned nrepair;
    uint64_t inlined; /* bytes of files in these */
    uint64_t
        counter_floor; /* of upaths that were forgotten: no version of ours is used twice */
    struct own *review; /* next to be looked at: node_republish.c */
    bool reviewing, review_again, review_all;
    uint64_t nreviews; /* that were begun; all of them are over, but for the last */
    struct timer review_timer, refresh_timer;
};

/* The upath's struct own, or NULL; hash: 32 bits of dht_key.full. */
struct own *own_find(struct dht_node *node, const char *upath, uint32_t hash);
/* The same; creates it if it is not there. NULL: ENOMEM. */
struct own *own_get(struct dht_node *node, const char *upath, uint32_t hash);
void own_free(struct dht_node *node, struct own *own);
/* True if the home has our entry: it acknowledged it, and has not died since. */
bool own_is_at(const struct dht_node *node, const struct own *own, uint32_t rank);
/* True if all homes have it. */
bool own_is_in_place(struct dht_node *node, const struct own *own);
/* True if no operation that was begun before that moment is under way. */
bool own_published(const struct dht_node *node, uint64_t moment);
/* True if, also, no repair is under way. */
bool own_all_in_place(const struct dht_node *node, uint64_t moment);
bool own_under_way(struct dht_node *node, const char *upath);
/* Check whether each entry is in place; `all`: publish each again in any case. */
void own_review(struct dht_node *node, bool all);
/* next: the number of the review that begins next. reviewed: true if that one is over. */
uint64_t own_next_review(const struct dht_node *node);
bool own_reviewed(const struct dht_node *node, uint64_t number);

#endif
