/*
 * dht/node.c - one rank's part in the table: the modules that it is made of, its life, who
 * is alive
 */
#include "dht/node.h"

#include <errno.h>
#include <stdlib.h>

#include "dht/node_core.h"
#include "dht/node_leave.h"
#include "dht/node_module.h"

/* The order of events. cache: the first to hear that homes may have moved. own to leave:
 * what is to be brought to new homes; in a turn before resync, which says that it has been.
 * own to publish: at the end operations go before what they are on. */
/* clang-format off */
#define MODULES(X)                                                                      \
    /* what is known */   X(cache) X(tentative) X(unrecovered)                          \
    /* ours */            X(writing) X(writing_ask) X(own) X(republish) X(copies) X(leave) \
    /* who is lost */     X(lease) X(resync)                                            \
    /* asked by us */     X(publish) X(lookup)                                          \
    /* asked of us */     X(record) X(invalidation) X(writers) X(home) X(incoming)
/* clang-format on */

#define DECLARE(name) extern const struct node_module node_##name##_module;
MODULES(DECLARE)

#define ENTRY(name) &node_##name##_module,
static const struct node_module *const modules[] = {MODULES(ENTRY) NULL};

struct dht_node *dht_node_create(const struct dht_node_config *config,
                                 const struct dht_node_ops *ops, void *arg)
{
    struct dht_node *node;
    int err;

    if (config->self >= config->nranks || config->replicas < 1 ||
        config->request_timeout == 0 || config->retry_interval == 0 ||
        config->invalidate_timeout == 0) {
        errno = EINVAL;
        return NULL;
    }
    node = calloc(1, sizeof(*node));
    if (node == NULL)
        return NULL;
    node->config = *config;
    /* A home waits no longer than that for the keeper of an answer before a newer version
     * counts. */
    if (node->config.keep_time > config->invalidate_timeout)
        node->config.keep_time = config->invalidate_timeout;
    if (node->config.lease > config->invalidate_timeout)
        node->config.lease = config->invalidate_timeout;
    node->joining = config->absent;
    if (node->config.replicas > config->nranks)
        node->config.replicas = config->nranks;
    if (node->config.replicas > DHT_REPLICAS_MAX)
        node->config.replicas = DHT_REPLICAS_MAX;
    node->modules = modules;
    node->ops = ops;
    node->arg = arg;
    node->ring = (struct dht_ring){.nranks = config->nranks,
                                   .replicas = node->config.replicas,
                                   .node = config->node,
                                   .live = node_rank_live,
                                   .arg = node,
                                   .few = node->few};
    node->nlive = config->nranks;
    for (uint32_t i = 0; i < config->nranks && i < DHT_FEW_LIVE; i++)
        node->few[i] = i;
    node->last_id = (uint64_t)config->incarnation << 40;
    node->armed = UINT64_MAX;
    if (config->absent) {
        node->death = malloc(config->nranks * sizeof(*node->death));
        if (node->death == NULL)
            goto free_node;
        for (uint32_t i = 0; i < config->nranks; i++)
            node->death[i] = i != config->self;
        node->few[0] = config->self;
        node->nlive = node->ring.nfew = 1;
    }
    node->shard = dht_shard_create(config->depth, config->bins);
    if (node->shard == NULL || (config->listing && dht_shard_keep_index(node->shard) < 0) ||
        node_modules_create(node) < 0)
        goto free_node;
    dht_shard_keep_inlined(node->shard, config->inlined_max);
    node_rearm(node);
    return node;

free_node:
    err = errno;
    dht_node_destroy(node);
    errno = err;
    return NULL;
}

void dht_node_destroy(struct dht_node *node)
{
    if (node == NULL)
        return;
    node_timers_forget(node);
    node_modules_destroy(node);
    dht_shard_destroy(node->shard);
    node_core_destroy(node);
    free(node);
}

bool dht_node_receive(struct dht_node *node, const struct net_msg *msg)
{
    /* A message from the network that names us, or no rank, as its source is not
     * answered. */
    if (msg->source >= node->config.nranks || msg->source == node->config.self)
        return node_modules_take(node, msg->type);
    if (!leave_refuses(node, msg) && !node_modules_receive(node, msg))
        return false;
    node_run(node);
    return true;
}

void dht_node_tick(struct dht_node *node)
{
    node_run_timers(node);
    node_run(node);
}

/* The cache is not touched: its answers may not be older than a bound that others hold to,
 * by the clock. */
void dht_node_stood_still(struct dht_node *node, uint64_t ns)
{
    node_timers_stood_still(node, ns);
    node_modules_stood_still(node, ns);
}

void dht_node_set_live(struct dht_node *node, uint32_t rank, bool live)
{
    if (rank >= node->config.nranks || rank == node->config.self ||
        node_rank_live(node, rank) == live)
        return;
    if (node->death == NULL) {
        node->death = calloc(node->config.nranks, sizeof(*node->death));
        if (node->death == NULL)
            return; /* it stays "unknown": requests to it fail or time out one by one */
    }
    node->death[rank] = live ? node->death[rank] & ~1u : ++node->epoch << 1 | 1;
    node_few_update(node, rank, live);
    if (live)
        node_modules_rank_back(node, rank);
    else
        node_modules_rank_lost(node, rank);
    node_modules_homes_changed(node, rank, live);
    node_rearm(node);
}

bool dht_node_is_absent(const struct dht_node *node, uint32_t rank)
{
    /* Dead, and by none of the deaths that were counted. */
    return rank < node->config.nranks && node->death != NULL && node->death[rank] == 1;
}

struct live_with {
    const struct dht_node *node;
    uint32_t rank;
};

static bool rank_live_with(const void *arg, uint32_t rank)
{
    const struct live_with *with = arg;
    return rank == with->rank || node_rank_live(with->node, rank);
}

bool dht_node_concerns(const struct dht_node *node, const char *upath, uint32_t rank)
{
    struct live_with with = {node, rank};
    struct dht_ring ring = node->ring;
    uint32_t homes[DHT_REPLICAS_MAX];
    struct dht_key key;
    bool found = false;

    dht_key_init(&key, upath, node->config.depth);
    ring.live = rank_live_with;
    ring.arg = &with;
    if (!node_rank_live(node, rank))
        ring.nfew = 0; /* it is not among them */
    for (unsigned i = dht_homes_find(&ring, &key, homes); i > 0 && !found; i--)
        found = homes[i - 1] == rank;
    return found;
}

struct dht_shard *dht_node_shard(struct dht_node *node)
{
    return node->shard;
}

const struct dht_node_stats *dht_node_get_stats(const struct dht_node *node)
{
    return &node->stats;
}
