/*
 * dht/node_module.h - modules of the node: their messages and events; private to dht/
 *
 * Calls between the parts go down (test/layers). A part notifies those above it by an
 * event: it calls a node_modules_*() function below, which calls each module that has a
 * function for it, in the order of the table in node.c (node->modules), or in the reverse
 * order where things end.
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
    bool upath;             /* a message without a upath is ignored */
    /* False: the message is for another module. */
    bool (*fn)(struct dht_node *node, const struct net_msg *msg);
};

struct node_module {
    const struct node_message *messages; /* NULL: none */

    /* create: 0 or -1 ENOMEM. destroy: also where create() failed or was not called;
     * makes no callback and sends no message. */
    int (*create)(struct dht_node *node);
    void (*destroy)(struct dht_node *node);

    /* lost, back: a rank is dead, or lives again; the death table says so already.
     * homes_changed, after all modules had that: names may have other homes now. */
    void (*rank_lost)(struct dht_node *node, uint32_t rank);
    void (*rank_back)(struct dht_node *node, uint32_t rank);
    void (*homes_changed)(struct dht_node *node, uint32_t rank, bool live);
    /* The enum dht_missing of a rank that is not live has changed. */
    void (*missing_changed)(struct dht_node *node, uint32_t rank, enum dht_missing was);
    /* No rank is missing, nor owes us a RESYNCED. */
    void (*all_synced)(struct dht_node *node);
    /* Our negative answers are not tentative any more. */
    void (*sure_again)(struct dht_node *node);

    /* has_step: true if work is left that may be done now. step: do a bounded part of it.
     */
    bool (*has_step)(const struct dht_node *node);
    void (*step)(struct dht_node *node);
    /* dht_node_stood_still() */
    void (*stood_still)(struct dht_node *node, uint64_t ns);

    /* The review of our own entries begins. */
    void (*review_begins)(struct dht_node *node);
    /* The publish `id` of our entry has not reached that home; DYAD_RANK_NONE: any home,
     * for it was not the newest. The next review tries again. */
    void (*publish_failed)(struct dht_node *node, uint32_t rank, uint64_t id);
    /* `deferred` waited for a publish of ours, which has ended, or has a higher version.
     */
    void (*publish_over)(struct dht_node *node, struct incoming *deferred);
    /* A version exists for which a home should have sent us an INVALIDATE, and did not.
     */
    void (*missed)(struct dht_node *node, const struct dyad_entry *newer);
    /* A withdrawal of ours has ended, and no other operation of ours follows it: complete
     * it when no older version is here. */
    void (*withdrawn)(struct dht_node *node, struct publish *op);
};

int node_modules_create(struct dht_node *node);
void node_modules_destroy(struct dht_node *node);
/* True if a module takes messages of this type. */
bool node_modules_take(const struct dht_node *node, enum net_msg_type type);
/* False: no module takes it. */
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
