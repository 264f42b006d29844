/*
 * dht/node_lookup_homes.h - which homes a look-up asks, and what the answers amount to;
 * private to dht/
 */
#ifndef DYAD_DHT_NODE_LOOKUP_HOMES_H
#define DYAD_DHT_NODE_LOOKUP_HOMES_H

#include "dht/node_core.h"

enum lookup_state {
    LOOKUP_FIRST,   /* asking the first home, or the next where one is silent */
    LOOKUP_WAITING, /* that home keeps a waiter */
    LOOKUP_ALL,     /* it had nothing: asking all homes */
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
    bool uncacheable;       /* KEEP: a home that answered will not notify us of a change */
    bool tentative;         /* a home that answered may have missed something */
    bool met;               /* WRITES: another node does so, too */
    struct dyad_entry best; /* what fn gets; state NONE: nothing */
    void *bytes;            /* of best's file, malloc'ed, best.size of them; or NULL */
    dht_lookup_fn fn;
    void *arg;
    char upath[];
};

void lookup_set_timers(struct dht_lookup *l);
/* Ask the home that is to be asked next, or end. */
void lookup_advance(struct dht_node *node, struct dht_lookup *l);
/* Ask all homes that are to be asked, or end. */
void lookup_ask_all(struct dht_node *node, struct dht_lookup *l);
/* round: a look-up that waits asks all homes again; again: one whose negative answer was
 * not believed begins anew. */
void lookup_round(struct dht_node *node, struct dht_lookup *l);
void lookup_again(struct dht_node *node, struct dht_lookup *l);

/* Ask one rank. 0, or -1: it is passed over, or (asks full) cannot be asked. */
int lookup_ask(struct dht_node *node, struct dht_lookup *l, uint32_t rank, bool wait);
void lookup_ask_failed(struct dht_node *node, struct dht_lookup *l, struct ask *ask);
void lookup_send_cancel(struct dht_node *node, struct dht_lookup *l, uint32_t rank);
uint32_t lookup_first_home(struct dht_node *node, struct dht_lookup *l);

void lookup_finish(struct dht_node *node, struct dht_lookup *l, int status);
void lookup_free(struct dht_lookup *l);
/* A newer version is out. A look-up that still waits for other homes must not end with the
 * bytes of an older one: nobody would refuse them. */
void lookup_invalidate(struct dht_node *node, const struct dyad_entry *newer);
/* Remove it from all lists but the ready queue. */
void lookup_unlink(struct dht_node *node, struct dht_lookup *l);
/* Called from the ready queue: complete and free a look-up that has ended. */
void lookup_done(struct dht_node *node, struct ready *ready);

#endif
