/*
 * dht/node_module.h - what a part of the node may hear of; private to dht/
 *
 * Calls between the parts go down (test/layers). What a part has to say to those above it
 * is an event: it calls the function below, which calls each module that has a place for
 * it, in the order of the table in node.c (node->modules), or in the reverse order where
 * things end.
 */
#ifndef DYAD_DHT_NODE_MODULE_H
#define DYAD_DHT_NODE_MODULE_H

#include <stdbool.h>
#include <stdint.h>

#include "dht/node.h"

struct incoming;
struct publish;

struct node_message {
    enum net_msg_type type; /* 0 ends a list */
    bool upath;             /* without one it is ignored */
    /* False: it is for another module. */
    bool (*fn)(struct dht_node *node, const struct net_msg *msg);
};

struct node_module {
    const struct node_message *messages; /* NULL: none */

    /* 0 or -1 ENOMEM. The end, also where create() failed or was not called: nobody is
     * called back, and no message goes out. */
    int (*create)(struct dht_node *node);
    void (*destroy)(struct dht_node *node);

    /* A rank is dead, or lives again; the death table says it already. When all modules
     * know: names may have other homes by it. */
    void (*rank_lost)(struct dht_node *node, uint32_t rank);
    void (*rank_back)(struct dht_node *node, uint32_t rank);
    void (*homes_changed)(struct dht_node *node, uint32_t rank, bool live);
    /* What is known of a rank that is not live is not what it was. */
    void (*missing_changed)(struct dht_node *node, uint32_t rank, enum dht_missing was);
    /* Nobody is missing, nor owes us a RESYNCED. */
    void (*all_synced)(struct dht_node *node);
    /* Negative answers of ours are sure again. */
    void (*sure_again)(struct dht_node *node);

    /* Is there more to be done than was, and may it be now? Do as much as fits in. */
    bool (*has_step)(const struct dht_node *node);
    void (*step)(struct dht_node *node);
    /* dht_node_stood_still() */
    void (*stood_still)(struct dht_node *node, uint64_t ns);

    /* The review of our own entries begins. An entry of ours has not got to that rank by
     * the publish `id`. What waited for a publish of ours: it has ended, or has a higher
     * version.
     */
    void (*review_begins)(struct dht_node *node);
    /* To bring what is published to that home; DYAD_RANK_NONE: to any, for it was not the
     * newest. The next review does. */
    void (*publish_failed)(struct dht_node *node, uint32_t rank, uint64_t id);
    void (*publish_over)(struct dht_node *node, struct incoming *deferred);
    /* There is a version that a home should have told us of, and did not. */
    void (*missed)(struct dht_node *node, const struct dyad_entry *newer);
    /* A withdrawal of ours is over, and nothing of ours comes after it: its completion is
     * due when nothing older is here. */
    void (*withdrawn)(struct dht_node *node, struct publish *op);
};

int node_modules_create(struct dht_node *node);
void node_modules_destroy(struct dht_node *node);
/* Is there a module for messages of this type? */
bool node_modules_take(const struct dht_node *node, enum net_msg_type type);
/* False: there is none. */
bool node_modules_receive(struct dht_node *node, const struct net_msg *msg);
void node_modules_rank_lost(struct dht_node *node, uint32_t rank);
void node_modules_rank_back(struct dht_node *node, uint32_t rank);
void node_modules_homes_changed(struct dht_node *node, uint32_t rank, bool live);
void node_modules_missing_changed(struct dht_node *node, uint32_t rank,
                                  enum dht_missing was);
void node_modules_all_synced(struct dht_node *node);
void node_modules_sure_again(struct dht_node *node);
bool node_modules_have_step(const struct dht_node *node);
void node_modules_step(struct dht_node *node);
void node_modules_stood_still(struct dht_node *node, uint64_t ns);
void node_modules_review_begins(struct dht_node *node);
void node_modules_publish_failed(struct dht_node *node, uint32_t rank, uint64_t id);
void node_modules_publish_over(struct dht_node *node, struct incoming *deferred);
void node_modules_missed(struct dht_node *node, const struct dyad_entry *newer);
void node_modules_withdrawn(struct dht_node *node, struct publish *op);

#endif
