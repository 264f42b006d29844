/*
 * dht/node_publish.c - publish and withdraw: one operation, at all homes
 *
 * Operations on one upath run one after the other, so their versions rise in the order of
 * the calls and no two of them share a version. Each goes to all homes at once. A refusal
 * names a higher version: the next above it goes to all homes again. A home that is
 * silent or dead is passed over: the homes are found again without it, and new ones among
 * them are asked. The operation ends when all that could be asked have acknowledged.
 *
 * A home that was passed over has missed the version. It gets it later
 * (node_republish.c), and others of its node remove older copies that it holds
 * (node_proxy.c). An owner that is refused in a republication has been superseded:
 * superseded().
 */
#include "dht/node_publish.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "dht/base.h"
#include "dht/node_copies.h"
#include "dht/node_lease.h"
#include "dht/node_lookup_cache.h"
#include "dht/node_module.h"
#include "dht/node_proxy.h"
#include "dht/node_publish_await.h"
#include "util/digest.h"

#define ATTEMPTS_MAX 64
#define MIXED_MAX    16 /* then it counts as opened anew */

static void publish_start(struct dht_node *node, struct publish *op);
static struct publish *publish_create(struct dht_node *node, struct own *own,
                                      const struct dyad_entry *entry, const void *bytes);

/* Also to those that were silent: they may have it, and hold the bytes. */
static void publish_tell_ended(struct dht_node *node, const struct publish *op)
{
    struct net_msg msg = {.type = NET_MSG_PUBLISH_ENDED, .id = op->id, .entry = op->entry};

    for (unsigned i = 0; i < op->asks.n; i++)
        node_send(node, op->asks.ask[i].rank, &msg);
}

static void publish_without_bytes(struct dht_node *node, struct publish *op)
{
    node->owns->inlined -= op->inlined_len;
    op->inlined_len = 0;
}

/* Its caller comes first: the homes may wait. */
static void publish_done(struct dht_node *node, struct ready *ready)
{
    struct publish *op = (struct publish *)ready;

    node->owns->npublish--;
    publish_without_bytes(node, op);
    if (op->fn != NULL)
        op->fn(op->arg, op->status, &op->entry.version);
    if (op->entry.upath != NULL)
        publish_tell_ended(node, op);
    free(op);
}

/* own, which has the upath, may go before fn is called; where the homes are to be told, it
 * takes the place of the bytes. */
void publish_end(struct dht_node *node, struct publish *op)
{
    op->entry.upath =
        op->inlined_len > 0 ? strcpy((char *)op->inlined, op->entry.upath) : NULL;
    node_ready_push(node, &op->ready, publish_done);
}

static void undefer(struct dht_node *node, struct own *own)
{
    struct incoming *deferred = own->deferred;

    own->deferred = NULL;
    if (deferred != NULL)
        node_modules_publish_over(node, deferred);
}

void publish_go_on(struct dht_node *node, struct own *own)
{
    struct incoming *deferred = own->deferred;

    if (own->queue != NULL) {
        publish_start(node, own->queue);
        return;
    }
    if (own->relay_again) {
        own->relay_again = false;
        if (publish_relay_record(node, own->upath))
            return; /* this is called again at its end */
    }
    own->deferred = NULL;
    if (own->entry.state == DYAD_ENTRY_NONE) {
        if (node->owns->counter_floor < own->highest)
            node->owns->counter_floor = own->highest;
        own_free(node, own);
    } else if (!own_is_in_place(node, own) && !node->owns->review_timer.active) {
        node_timer_start(node, &node->owns->review_timer, TIMER_RETRY);
    }
    if (deferred != NULL)
        node_modules_publish_over(node, deferred);
}

bool publish_relay(struct dht_node *node, const struct dyad_entry *entry)
{
    struct publish *op;
    struct own *own;
    struct dht_key key;

    /* One that we have made is in force, or was given up. */
    if (entry->version.rank == node->config.self &&
        entry->version.incarnation == node->config.incarnation)
        return false;
    dht_key_init(&key, entry->upath, 0);
    own = own_get(node, entry->upath, (uint32_t)key.full);
    if (own == NULL)
        return false;
    own->relay_again = own->queue != NULL;
    /* A rank that has withdrawn a name gets no message when it is published again. */
    if (own->queue == NULL && own->entry.state == DYAD_ENTRY_WITHDRAWN &&
        dyad_version_cmp(&own->entry.version, &entry->version) < 0) {
        if (own->highest < entry->version.counter)
            own->highest = entry->version.counter;
        own->entry.state = DYAD_ENTRY_NONE;
        own->nhomes = 0;
    }
    if (own->queue != NULL || own->entry.state != DYAD_ENTRY_NONE)
        return false; /* what is ours comes after it */
    op = publish_create(node, own, entry, NULL);
    if (op == NULL)
        return false;
    op->repair = op->repair_all = op->relay = true;
    node->owns->nrepair++;
    LL_APPEND(own->queue, op);
    publish_start(node, op);
    return true;
}

bool publish_relay_record(struct dht_node *node, const char *upath)
{
    struct dht_record *record;
    struct dht_key key;

    dht_key_init(&key, upath, node->config.depth);
    record = dht_shard_find(node->shard, &key, upath);
    return record != NULL && record->entry.state != DYAD_ENTRY_NONE &&
           publish_relay(node, &record->entry);
}

/* An owner that is refused in a republication has been superseded while it was out of reach: it looks up by whom and
 * treats the answer as the INVALIDATE that it missed (node_incoming.c). Then it passes that entry on to all homes, for if
 * its publisher has died, nobody else will, and homes that took our older entry for the newest would go on saying so. In
 * a job in which ranks have died it does so at every INVALIDATE. */
static void superseded(void *arg, int status, const struct dyad_entry *entry)
{
    struct dht_node *node = arg;

    (void)status;
    /* The homes cannot be reached, or it is not known yet which of the two they will have: refused again at the next review. */
    if (entry == NULL || publish_is_left_to_publisher(node, entry))
        return;
    node_modules_missed(node, entry);
    publish_relay(node, entry);
}

static void publish_next_version(struct dht_node *node, struct publish *op,
                                 const struct dyad_entry *refused);

static void publish_finish(struct dht_node *node, struct publish *op, int status)
{
    struct own *own = op->own;

    if (status == 0 && op->base.kind == DYAD_BASE_FROM && op->ahead != NULL &&
        op->ahead(op->arg, NULL, NULL, &op->entry, &op->base) != DHT_AHEAD_GO) {
        publish_next_version(node, op, NULL);
        return;
    }

    if (op->hh.tbl != NULL)
        HASH_DEL(node->owns->publishes, op);
    node_timer_stop(node, &op->timer);
    proxy_forget(node, op);
    LL_DELETE(own->queue, op);
    op->status = status;
    for (unsigned i = 0; i < op->asks.n; i++)
        if (op->asks.ask[i].failed)
            node_modules_publish_failed(node, op->asks.ask[i].rank, op->id);

    /* An entry that no home has got is kept as well: the review tries again. */
    if (!op->repair && (status == 0 || status == EHOSTUNREACH)) {
        own->entry = op->entry;
        if (own->entry.state == DYAD_ENTRY_PUBLISHED &&
            own->entry.owner != node->config.self)
            own->entry.state = DYAD_ENTRY_NONE;
        own->nhomes = 0;
    }
    if (op->repair && own->entry.state != DYAD_ENTRY_NONE &&
        (op->relay || own->again ||
         dyad_version_cmp(&op->entry.version, &own->entry.version) != 0)) {
        own->again = false; /* another became ours meanwhile: dht_node_restore() */
        node_modules_publish_failed(node, DYAD_RANK_NONE, op->id);
        own_review(node, false);
    } else if (status == 0) {
        own->nhomes = 0;
        own->epoch = op->epoch;
        for (unsigned i = 0; i < op->asks.n && own->nhomes < DHT_REPLICAS_MAX; i++)
            if (op->asks.ask[i].answered)
                own->homes[own->nhomes++] = op->asks.ask[i].rank;
    }
    if (op->repair && status == ESTALE)
        dht_node_lookup(node, own->upath, 0, &op->entry.version, superseded, node);

    if (op->repair) {
        node->owns->nrepair--;
        free(op);
    } else if (op->entry.state == DYAD_ENTRY_WITHDRAWN && own->queue == NULL &&
               (status == 0 || status == EHOSTUNREACH) && node->ops->withdrawn != NULL) {
        node_modules_withdrawn(node, op);
    } else {
        publish_end(node, op);
    }
    publish_go_on(node, own);
}

/* Ask the homes that have not been asked; end when no answer is outstanding. */
static void publish_advance(struct dht_node *node, struct publish *op)
{
    uint32_t homes[DHT_REPLICAS_MAX];
    bool again, full = false, answered = false, removed = false;

    publish_asks_again(node, op);
    do {
        unsigned n = node_homes(node, &op->key, node->config.replicas, &op->asks, homes);
        again = false;
        for (unsigned i = 0; i < n && !full; i++) {
            struct net_msg msg = {
                .type = NET_MSG_PUBLISH,
                .id = op->id,
                .entry = op->entry,
                .base = op->base,
                .blob = op->inlined,
                .blob_len = op->inlined_len,
                .digest = op->digest,
            };
            struct ask *ask;
            if (asks_find(&op->asks, homes[i]) != NULL)
                continue;
            ask = asks_get(&op->asks, homes[i]);
            full = ask == NULL;
            if (full)
                break;
            if (op->repair && !op->repair_all && own_is_at(node, op->own, homes[i])) {
                ask->answered = true;
                continue;
            }
            ask->sent = node->ops->now(node->arg);
            ask->pending = node_send(node, homes[i], &msg) == 0;
            ask->failed = !ask->pending;
            again |= ask->failed;
        }
    } while (again && !full);

    if (asks_pending(&op->asks)) {
        if (!op->timer.active)
            node_timer_start(node, &op->timer, TIMER_PUBLISH);
        return;
    }
    if (publish_awaits_home(node, op))
        return;
    if (!op->repair && lease_of_home_may_last(node, &op->key, &op->asks)) {
        node_timer_start(node, &op->timer, TIMER_LEASE);
        return;
    }
    for (unsigned i = 0; i < op->asks.n; i++) {
        answered |= op->asks.ask[i].answered;
        removed |= op->asks.ask[i].removed;
    }
    if (removed && answered) {
        /* The removal has not reached all homes yet; or it was opened again in its midst. */
        op->base.joint = ++op->mixed < MIXED_MAX;
        publish_next_version(node, op, NULL);
    } else if (!answered) {
        publish_finish(node, op, removed ? EIDRM : EHOSTUNREACH);
    } else if (!proxy_see_to(node, op)) {
        publish_finish(node, op, 0);
    }
}

/* To all homes, with a new id, so that an old answer is not taken for a new one. Those
 * that were silent stay passed over. */
static void publish_send(struct dht_node *node, struct publish *op)
{
    unsigned left = 0;

    for (unsigned i = 0; i < op->asks.n; i++)
        if (op->asks.ask[i].failed)
            op->asks.ask[left++] = op->asks.ask[i];
    op->asks.n = left;
    node_timer_stop(node, &op->timer);
    proxy_forget(node, op);
    if (op->hh.tbl != NULL)
        HASH_DEL(node->owns->publishes, op);
    memset(&op->hh, 0, sizeof(op->hh));
    op->id = node_next_id(node);
    op->epoch = node->epoch;
    HASH_ADD(hh, node->owns->publishes, id, sizeof(op->id), op);
    if (op->hh.tbl == NULL)
        publish_finish(node, op, ENOMEM);
    else
        publish_advance(node, op);
}

/* Of writers in a race the one with the highest version in flight is refused nowhere, so at least one ends at every round.
 *
 * Counters are a hybrid logical clock (Kulkarni, Demirbas, Madappa, Avva, Leone: Logical
 * Physical Clocks, OPODIS 2014) folded into one number: above all that is known of the
 * upath, and not below the wall clock. Where homes answer, the first half decides and
 * clocks do not matter. Where no home can be asked that knows the version before (it is
 * beyond a cut, or stopped; or this rank has come back with an empty shard and knows
 * neither what it published nor what it withdrew) the second half puts the later change
 * above the earlier one, as far as the nodes' clocks agree. */
static void publish_next_version(struct dht_node *node, struct publish *op,
                                 const struct dyad_entry *refused)
{
    struct own *own = op->own;
    uint64_t wall = node->ops->wall != NULL ? node->ops->wall(node->arg) : 0;
    struct dyad_version version = {.rank = node->config.self,
                                   .incarnation = node->config.incarnation};
    enum dht_ahead ahead = DHT_AHEAD_GO;

    if (own->highest >= DHT_COUNTER_MAX) {
        publish_finish(node, op, EOVERFLOW);
        return;
    }
    if (++op->attempts > ATTEMPTS_MAX) {
        publish_finish(node, op, ESTALE);
        return;
    }
    own->highest = wall > own->highest && wall < DHT_COUNTER_MAX ? wall : own->highest + 1;
    version.counter = own->highest;
    if (op->ahead != NULL)
        ahead = op->ahead(op->arg, &version, refused, &op->entry, &op->base);
    if (ahead == DHT_AHEAD_STOP) {
        publish_finish(node, op, ECANCELED);
        return;
    }
    /* Once more only if it has found another file than before. */
    op->base.looks = op->ahead != NULL && (refused == NULL || ahead == DHT_AHEAD_CHANGED);
    /* What was read before others could publish, and write, may be older than the version. */
    if (ahead == DHT_AHEAD_CHANGED || op->entry.conflict || refused != NULL)
        publish_without_bytes(node, op);
    op->entry.version = version;
    publish_note_change(op);
    undefer(node, own); /* before op can end: own is there */
    publish_send(node, op);
}

static void publish_start(struct dht_node *node, struct publish *op)
{
    struct own *own = op->own;
    struct dht_record *record;

    cache_drop(node, own->upath);
    if (op->repair) {
        publish_send(node, op);
        return;
    }
    copies_drop(node, own->upath);
    if (op->entry.version.counter > own->highest)
        own->highest = op->entry.version.counter;
    /* If we are a home: spares a refusal where writers take turns. */
    record = dht_shard_find(node->shard, &op->key, own->upath);
    if (record != NULL && record->entry.version.counter > own->highest)
        own->highest = record->entry.version.counter;
    publish_next_version(node, op, NULL);
}

static void publish_timeout(struct dht_node *node, struct timer *timer)
{
    struct publish *op =
        (struct publish *)((char *)timer - offsetof(struct publish, timer));
    uint64_t length = node->config.request_timeout + node->config.invalidate_timeout;
    uint64_t now = node->ops->now(node->arg);

    for (unsigned i = 0; i < op->asks.n; i++) {
        struct ask *ask = &op->asks.ask[i];
        if (ask->pending && ask->sent + length <= now) {
            ask->pending = false;
            ask->failed = true;
            node_silent(node, ask->rank);
        }
    }
    publish_advance(node, op);
}

/* The one that was asked before may answer yet. */
static void publish_proxy_timeout(struct dht_node *node, struct timer *timer)
{
    struct publish *op =
        (struct publish *)((char *)timer - offsetof(struct publish, proxy_timer));

    proxy_timeout(node, op);
    publish_advance(node, op);
}

/* bytes: entry->size of them, or NULL. They stay behind where as many are under way as a home keeps. */
static struct publish *publish_create(struct dht_node *node, struct own *own,
                                      const struct dyad_entry *entry, const void *bytes)
{
    size_t len = bytes != NULL ? (size_t)entry->size : 0, upath = strlen(own->upath) + 1;
    struct publish *op;

    if (len > node->config.inlined_max - node->owns->inlined)
        len = 0;
    op = calloc(1, sizeof(*op) + (len > 0 && len < upath ? upath : len));

    if (op == NULL)
        return NULL;
    op->inlined_len = len;
    node->owns->inlined += len;
    if (len > 0)
        op->digest = util_digest(memcpy(op->inlined, bytes, len), len);
    op->own = own;
    op->entry = *entry;
    op->entry.upath = own->upath;
    op->timer.fn = publish_timeout;
    op->proxy_timer.fn = publish_proxy_timeout;
    dht_key_init(&op->key, own->upath, node->config.depth);
    return op;
}

int dht_node_publish(struct dht_node *node, const struct dyad_entry *entry,
                     dht_publish_fn fn, void *arg)
{
    return dht_node_publish_ahead(node, entry, NULL, NULL, NULL, fn, arg);
}

int dht_node_publish_ahead(struct dht_node *node, const struct dyad_entry *entry,
                           const struct dyad_base *base, const void *bytes,
                           dht_ahead_fn ahead, dht_publish_fn fn, void *arg)
{
    struct publish *op;
    struct own *own;
    struct dht_key key;

    dht_key_init(&key, entry->upath, 0);
    own = own_get(node, entry->upath, (uint32_t)key.full);
    if (own == NULL)
        return -1;
    op = publish_create(node, own, entry, own->queue == NULL ? bytes : NULL);
    if (op == NULL) {
        if (own->queue == NULL)
            publish_go_on(node, own);
        errno = ENOMEM;
        return -1;
    }
    if (base != NULL)
        op->base = *base;
    op->ahead = ahead;
    op->fn = fn;
    op->arg = arg;
    node->owns->npublish++;
    LL_APPEND(own->queue, op);
    if (own->queue == op)
        publish_start(node, op);
    node_rearm(node);
    return 0;
}

void publish_repair(struct dht_node *node, struct own *own)
{
    struct publish *op = publish_create(node, own, &own->entry, NULL);

    if (op == NULL) {
        node_timer_start(node, &node->owns->review_timer, TIMER_RETRY);
        return;
    }
    op->repair = true;
    op->repair_all = node->owns->review_all;
    node->owns->nrepair++;
    LL_APPEND(own->queue, op);
    publish_start(node, op);
}

static bool publish_reply(struct dht_node *node, const struct net_msg *msg)
{
    const struct dyad_version *version = &msg->entry.version;
    struct publish *op;
    struct ask *ask;

    HASH_FIND(hh, node->owns->publishes, &msg->id, sizeof(msg->id), op);
    if (op == NULL)
        return false;
    ask = asks_find(&op->asks, msg->source);
    if (ask == NULL || !ask->pending)
        return true;
    ask->pending = false;
    if (msg->type == NET_MSG_PUBLISH_REPLY && msg->status == 0) {
        ask->answered = true;
        if (msg->entry.written && node->ops->written != NULL && !op->repair)
            node->ops->written(node->arg, op->entry.upath);
    } else if (msg->type == NET_MSG_PUBLISH_REPLY && msg->status == ESTALE &&
               (dyad_version_cmp(version, &op->entry.version) >= 0 ||
                dht_base_is_overtaken(&op->base, &msg->entry, op->entry.storage) ||
                dht_base_is_behind(&op->base, &op->entry, &msg->entry))) {
        if (op->own->highest < version->counter)
            op->own->highest = version->counter;
        if (op->repair)
            publish_finish(node, op, ESTALE);
        else
            publish_next_version(node, op, &msg->entry);
        return true;
    } else if (msg->type == NET_MSG_PUBLISH_REPLY && msg->status == EIDRM &&
               op->base.joint) {
        if (op->own->highest < version->counter)
            op->own->highest = version->counter;
        ask->removed = true;
    } else {
        ask->failed = ask->refused = true;
    }
    publish_advance(node, op);
    return true;
}

static void publish_rank_lost(struct dht_node *node, uint32_t rank)
{
    struct publish *op, *tmp;

    HASH_ITER(hh, node->owns->publishes, op, tmp)
    {
        struct ask *ask = asks_find(&op->asks, rank);
        bool asked_instead = proxy_rank_dead(node, op, rank);
        if (ask != NULL && !ask->failed) {
            ask->pending = ask->answered = false;
            ask->failed = true;
        } else if (!asked_instead) {
            continue;
        }
        publish_advance(node, op);
    }
}

static void publish_stood_still(struct dht_node *node, uint64_t ns)
{
    struct publish *op;

    for (op = node->owns->publishes; op != NULL; op = op->hh.next)
        asks_stood_still(&op->asks, ns, node->ops->now(node->arg));
}

/* Somebody has answered in the place of a rank that cannot be reached. */
static bool publish_proxy_reply(struct dht_node *node, const struct net_msg *msg)
{
    struct publish *op;

    HASH_FIND(hh, node->owns->publishes, &msg->id, sizeof(msg->id), op);
    if (op == NULL || (msg->flags & NET_INVALIDATE_NODE) == 0)
        return false;
    if (proxy_reply(node, op, msg))
        publish_advance(node, op);
    return true;
}

static void publish_destroy(struct dht_node *node)
{
    struct publish *op, *optmp;
    struct own *own, *tmp;

    if (node->owns == NULL)
        return;
    node_ready_free(node, publish_done);
    HASH_CLEAR(hh, node->owns->publishes); /* each is in its own's queue */
    HASH_ITER(hh, node->owns->by_upath, own, tmp)
    {
        LL_FOREACH_SAFE(own->queue, op, optmp)
        {
            free(op);
        }
    }
}

static const struct node_message messages[] = {
    {NET_MSG_PUBLISH_REPLY, false, publish_reply},
    {NET_MSG_ERROR, false, publish_reply},
    {NET_MSG_INVALIDATE_REPLY, false, publish_proxy_reply},
    {0},
};

const struct node_module node_publish_module = {
    .messages = messages,
    .destroy = publish_destroy,
    .rank_lost = publish_rank_lost,
    .stood_still = publish_stood_still,
};
