/*
 * dht/node_own.h - our own entries: what they are, and which operations on them are under
 * way; private to dht/
 *
 * Withdrawals are remembered and republished as entries are. So a late old owner finds the
 * tombstone also at a home that is new.
 *
 * An entry lives as long as something of ours is published or withdrawn, or an operation on
 * it is under way (publish_go_on() frees it).
 */
#ifndef DYAD_DHT_NODE_OWN_H
#define DYAD_DHT_NODE_OWN_H

#include "dht/node_core.h"

#define DHT_PROXIED_MAX 8 /* ranks in whose place a publisher asks others */

/* A home that a publish has passed over, or another rank that cannot be reached, and that
 * may have something older. */
struct proxied {
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
    struct proxied proxied[DHT_PROXIED_MAX];
    unsigned nproxied, proxy_step; /* of the time for it: 0 the first half */
    struct timer proxy_timer;
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

struct owns {
    struct own *by_upath;
    struct publish *publishes; /* under way, by id */
    unsigned npublish;         /* queued or under way, without repairs */
    unsigned nrepair;
    uint64_t
        counter_floor; /* of upaths that were forgotten: no version of ours is used twice */
    struct own *review; /* next to be looked at: node_republish.c */
    bool reviewing, review_again, review_all;
    uint64_t nreviews; /* that were begun; all of them are over, but for the last */
    struct timer review_timer, refresh_timer;
};

/* upath's, or NULL; hash: its dht_key's `full`, 32 bits of it. */
struct own *own_find(struct dht_node *node, const char *upath, uint32_t hash);
/* The same, made if it is not there; NULL with ENOMEM. */
struct own *own_get(struct dht_node *node, const char *upath, uint32_t hash);
void own_free(struct dht_node *node, struct own *own);
/* A home holds what is in force: it acknowledged it, and has not died since. */
bool own_is_at(const struct dht_node *node, const struct own *own, uint32_t rank);
/* So do all. */
bool own_is_in_place(struct dht_node *node, const struct own *own);
/* Nothing that was begun before that moment is under way. */
bool own_published(const struct dht_node *node, uint64_t moment);
/* Nor is any repair. */
bool own_all_in_place(const struct dht_node *node, uint64_t moment);
bool own_under_way(struct dht_node *node, const char *upath);
/* Look whether each is in place; `all`: publish each again in any case. */
void own_review(struct dht_node *node, bool all);
/* The number of the next review that begins, and whether that one is over. */
uint64_t own_next_review(const struct dht_node *node);
bool own_reviewed(const struct dht_node *node, uint64_t number);

#endif
