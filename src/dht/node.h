/*
 * dht/node.h - one rank's part in the table: it keeps a shard, and it asks the others
 *
 * As a home: serves PUBLISH, LOOKUP, LOOKUP_CANCEL; notifies waiters; tells holders of old copies
 * before it acknowledges a newer version. As a client: publishes to the homes of a key, looks up with
 * retry at the next home, registers again after the death of a home, republishes what a change of
 * membership moved. Knows no network: it is given a function that sends a message to a rank, so
 * 100,000 of them run in one process. Not thread-safe: belongs to the loop.
 *
 * Callbacks are never made from inside the function that started the operation unless said so.
 */
#ifndef DYAD_DHT_NODE_H
#define DYAD_DHT_NODE_H

#include <stdbool.h>
#include <stdint.h>

#include "dht/homes.h"
#include "dht/shard.h"
#include "net/msg.h"

struct dht_node;
struct dht_lookup;

struct dht_node_config {
    uint32_t self, nranks;
    uint32_t incarnation;
    uint32_t depth, bins, replicas; /* replicas is clamped to nranks */
    const uint32_t *node;           /* node number of each rank, or NULL; borrowed */
    uint64_t request_timeout;       /* ns until a silent home is passed over for this request */
    uint64_t retry_interval;        /* ns after which a waiting lookup asks again (5 s) */
    uint64_t invalidate_timeout;    /* ns until a silent holder is dropped */
};

struct dht_node_ops {
    /* Send to another rank (never self). 0 or -1 with errno; failure counts as a silent home.
     * The reply comes back by dht_node_receive(). */
    int (*send)(void *arg, uint32_t rank, struct net_msg *msg);
    uint64_t (*now)(void *arg); /* ns, monotonic */
    /* The node's next deadline changed: call dht_node_tick() at `when` (UINT64_MAX: none). */
    void (*set_timer)(void *arg, uint64_t when);
    /* This rank's node holds a copy (or the old original) older than newer->version: it must
     * not be used any more. Call dht_node_invalidated(token) when it is gone; may be at once. */
    void (*invalidate)(void *arg, const struct dyad_entry *newer, uint64_t token);
};

/* status 0 or errno value. */
typedef void (*dht_publish_fn)(void *arg, int status, const struct dyad_version *version);
/* status 0 and entry (lives until return); ENOENT: not published (entry->state WITHDRAWN if there
 * is a tombstone, entry may be NULL); EHOSTUNREACH: no home could be reached. */
typedef void (*dht_lookup_fn)(void *arg, int status, const struct dyad_entry *entry);

struct dht_node *dht_node_create(const struct dht_node_config *config, const struct dht_node_ops *ops, void *arg);
void dht_node_destroy(struct dht_node *node);

/* Publish (entry->state PUBLISHED) or withdraw (WITHDRAWN) at all homes. entry->version is the
 * last version known (zero if none): the next one is chosen, and chosen again if a home knows
 * better. fn once all live homes have acknowledged (or the bounds have passed for those that
 * are silent, as long as one has). entry is copied. The node remembers its own published
 * entries (owner == self) for republication. 0 or -1 ENOMEM. */
int dht_node_publish(struct dht_node *node, const struct dyad_entry *entry, dht_publish_fn fn, void *arg);

/* Put an entry of ours back that an earlier incarnation of this rank published (from the catalogue):
 * same version, owner's new incarnation. Asynchronous, no completion. */
int dht_node_restore(struct dht_node *node, const struct dyad_entry *entry);

/* Look up; flags NET_LOOKUP_*. With WAIT, fn is called when a version above newer_than is
 * published (no bound: the caller cancels). Without, a negative answer needs all homes.
 * newer_than may be NULL. NULL: ENOMEM. After fn the handle is gone. */
struct dht_lookup *dht_node_lookup(struct dht_node *node, const char *upath, uint8_t flags,
                                   const struct dyad_version *newer_than, dht_lookup_fn fn, void *arg);
/* fn will not be called. */
void dht_node_cancel(struct dht_node *node, struct dht_lookup *lookup);
/* Where a waiting lookup waits now: rank of its home, or DYAD_RANK_NONE. For messages to people. */
uint32_t dht_lookup_home(const struct dht_lookup *lookup);

/* A message of type PUBLISH .. INVALIDATE_REPLY, or ERROR, arrived. Others are ignored (false). */
bool dht_node_receive(struct dht_node *node, const struct net_msg *msg);
void dht_node_invalidated(struct dht_node *node, uint64_t token);
void dht_node_tick(struct dht_node *node);

/* A rank became unreachable (dead or never joined) or reachable again. Moves homes, waiters
 * and our own entries. */
void dht_node_set_live(struct dht_node *node, uint32_t rank, bool live);
bool dht_node_is_live(const struct dht_node *node, uint32_t rank);

struct dht_shard *dht_node_shard(struct dht_node *node);
unsigned dht_node_homes(struct dht_node *node, const char *upath, uint32_t homes[DHT_REPLICAS_MAX]);
/* Publishes and withdrawals that were begun and not yet acknowledged. */
unsigned dht_node_pending(const struct dht_node *node);

#endif
