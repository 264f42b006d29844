/*
 * dht/node_incoming.c - another rank's newer version: the INVALIDATE, from the home's
 * message to the engine and back
 *
 * An INVALIDATE first brings this rank's own records up to date: the lookup cache, the
 * shard, the copies, the entries that it has published. Then the engine removes the older
 * file, and the home gets its answer. If a publish of ours is under way the answer may
 * have to wait for its end (incoming_route()). Two ranks that wait for each other would
 * be the danger, and a copy that gets its name after a withdrawal of our own
 * (incoming_withdrawn()).
 */
#include <stdlib.h>
#include <string.h>

#include "dht/node_copies.h"
#include "dht/node_home_answers.h"
#include "dht/node_lookup_cache.h"
#include "dht/node_lookup_homes.h"
#include "dht/node_module.h"
#include "dht/node_publish.h"
#include "dht/node_publish_await.h"

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
    struct publish *withdrawn; /* ours, which ends then; or NULL */
    char upath[];
};

struct incomings {
    struct incoming *by_token; /* at the engine */
    unsigned count;            /* of all: there, deferred, or soon there */
    uint64_t last_token;
};

static void incoming_reply(struct dht_node *node, const struct incoming *in)
{
    struct net_msg msg = {.type = NET_MSG_INVALIDATE_REPLY,
                          .flags = (uint8_t)((in->left ? NET_INVALIDATE_NODE : 0) |
                                             (in->stays ? NET_INVALIDATE_STAYS : 0)),
                          .status = in->unseen ? ENOENT : 0,
                          .id = in->id,
                          .entry = in->newer,
                          .rank = in->holder};
    if (in->rank != DYAD_RANK_NONE)
        node_send(node, in->rank, &msg); /* if it fails the home's deadline passes */
}

static void incoming_free(struct dht_node *node, struct incoming *in)
{
    if (in->withdrawn != NULL)
        publish_end(node, in->withdrawn);
    node->incomings->count--;
    free(in);
}

bool dht_node_is_invalidating(const struct dht_node *node)
{
    return node->incomings->count > 0;
}

static void incoming_deliver(struct dht_node *node, struct ready *ready)
{
    struct incoming *in = (struct incoming *)ready;

    in->token = ++node->incomings->last_token;
    HASH_ADD(hh, node->incomings->by_token, token, sizeof(in->token), in);
    if (in->hh.tbl == NULL) {
        incoming_free(node, in);
        return;
    }
    in->busy = true;
    if (in->withdrawn != NULL)
        node->ops->withdrawn(node->arg, &in->newer, in->token);
    else if (in->left && node->ops->invalidate_node != NULL)
        node->ops->invalidate_node(node->arg, &in->newer, in->holder, in->token);
    else
        node->ops->invalidate(node->arg, &in->newer, in->token);
    in->busy = false;
    if (in->gone)
        incoming_free(node, in);
}

void dht_node_unseen(struct dht_node *node, uint64_t token)
{
    struct incoming *in;

    HASH_FIND(hh, node->incomings->by_token, &token, sizeof(token), in);
    if (in != NULL)
        in->unseen = true;
}

void dht_node_stays(struct dht_node *node, uint64_t token)
{
    struct incoming *in;

    HASH_FIND(hh, node->incomings->by_token, &token, sizeof(token), in);
    if (in != NULL)
        in->stays = true;
}

void dht_node_invalidated(struct dht_node *node, uint64_t token)
{
    struct incoming *in;

    HASH_FIND(hh, node->incomings->by_token, &token, sizeof(token), in);
    if (in == NULL)
        return;
    HASH_DEL(node->incomings->by_token, in);
    incoming_reply(node, in);
    in->gone = true;
    if (!in->busy)
        incoming_free(node, in);
    node_rearm(node);
}

/* As a present or former home we may have an older version: take the newer one now, since
 * the ranks that would bring it may be dead. */
static void shard_newer(struct dht_node *node, const struct dyad_entry *newer)
{
    struct net_msg msg = {.type = NET_MSG_PUBLISH,
                          .source = node->config.self,
                          .source_incarnation = node->config.incarnation,
                          .entry = *newer};
    struct dht_record *record;
    struct dht_key key;

    dht_key_init(&key, newer->upath, node->config.depth);
    record = dht_shard_find(node->shard, &key, newer->upath);
    if (record != NULL && record->entry.state != DYAD_ENTRY_NONE &&
        !publish_is_left_to_publisher(node, newer) &&
        dyad_version_cmp(&record->entry.version, &newer->version) < 0)
        home_publish(node, &msg); /* no operation has its id: the reply says nothing */
}

/* Answer, put off, or pass on to the engine.
 *
 * If an INVALIDATE comes while a publish of ours is under way: if it names a version
 * below ours we are ahead and say so; if above, ours may yet be raised over it, so the
 * answer waits until ours has ended or has been raised. So only lower versions are waited
 * for, never in a circle. A relay of another rank's entry does not count as a publish of
 * ours. */
static void incoming_route(struct dht_node *node, struct incoming *in)
{
    struct own *own;
    struct dht_key key;

    cache_newer(node, &in->newer);
    lookup_invalidate(node, &in->newer);
    shard_newer(node, &in->newer);
    copies_newer(node, &in->newer);
    dht_key_init(&key, in->upath, 0);
    own = own_find(node, in->upath, (uint32_t)key.full);
    if (own != NULL) {
        const struct publish *op = own->queue;
        bool relay = op != NULL && op->relay;
        const struct dyad_version *ours =
            op != NULL && !relay ? &op->entry.version : &own->entry.version;
        if (own->highest < in->newer.version.counter &&
            in->newer.version.counter <= DHT_COUNTER_MAX)
            own->highest = in->newer.version.counter;
        if (dyad_version_cmp(&in->newer.version, ours) <= 0) {
            if (op != NULL && in->newer.state == DYAD_ENTRY_PUBLISHED &&
                node->ops->overtaken != NULL)
                node->ops->overtaken(node->arg, &in->newer);
            incoming_reply(node, in);
            incoming_free(node, in);
            return;
        }
        if (op != NULL && (!relay || op->next != NULL)) {
            LL_APPEND(own->deferred, in);
            return;
        }
        if (op == NULL) {
            own->entry.state = DYAD_ENTRY_NONE;
            publish_go_on(node, own);
        }
        /* Its publisher may have died before the version was at all homes. */
        if (node->epoch > 0 && !publish_is_left_to_publisher(node, &in->newer))
            publish_relay(node, &in->newer);
    }
    node_ready_push(node, &in->ready, incoming_deliver);
}

/* Of the deferred ones some may be below our version now; the others wait on. */
static void incoming_undefer(struct dht_node *node, struct incoming *list)
{
    struct incoming *in, *tmp;

    LL_FOREACH_SAFE(list, in, tmp)
    {
        in->next = NULL;
        incoming_route(node, in); /* finds own by name, if it is still there */
    }
}

/* NULL: ENOMEM. */
static struct incoming *incoming_new(struct dht_node *node, const struct dyad_entry *newer)
{
    size_t len = strlen(newer->upath);
    struct incoming *in = calloc(1, sizeof(*in) + len + 1);

    if (in == NULL)
        return NULL;
    node->incomings->count++;
    in->rank = DYAD_RANK_NONE;
    in->newer = *newer;
    in->newer.upath = memcpy(in->upath, newer->upath, len + 1);
    return in;
}

static bool incoming_invalidate(struct dht_node *node, const struct net_msg *msg)
{
    bool left = (msg->flags & NET_INVALIDATE_NODE) != 0;
    struct incoming *in;

    if (left && msg->rank >= node->config.nranks)
        return true; /* there is no such rank */
    in = incoming_new(node, &msg->entry);
    if (in == NULL)
        return true; /* silent: dropped by the home after its bound */
    in->rank = msg->source;
    in->id = msg->id;
    in->left = left;
    in->holder = left ? msg->rank : 0;
    incoming_route(node, in);
    return true;
}

static void incoming_missed(struct dht_node *node, const struct dyad_entry *newer)
{
    struct incoming *in = incoming_new(node, newer);

    if (in != NULL)
        incoming_route(node, in);
}

/* No home sends this rank an INVALIDATE for its own withdrawal, nor need it: its program
 * has removed the file. But a copy of the version before may have been on its way, and
 * get the name after that. So the engine is called as for an INVALIDATE when the homes
 * know, and the withdrawal ends when the copy is gone: later no home would ever notify
 * this rank, which counts as no holder any more. */
static void incoming_withdrawn(struct dht_node *node, struct publish *op)
{
    struct incoming *in = incoming_new(node, &op->entry);

    if (in == NULL) {
        publish_end(node, op);
        return;
    }
    in->withdrawn = op;
    node_ready_push(node, &in->ready, incoming_deliver);
}

static int incoming_create(struct dht_node *node)
{
    node->incomings = calloc(1, sizeof(*node->incomings));
    if (node->incomings == NULL)
        return -1;
    node->incomings->last_token = node->last_id;
    return 0;
}

static void incoming_destroy(struct dht_node *node)
{
    struct ready *ready, *tmpready;
    struct incoming *in, *intmp;
    struct own *own, *tmp;

    if (node->incomings == NULL)
        return;
    DL_FOREACH_SAFE(node->ready, ready, tmpready)
    {
        if (ready->fn == incoming_deliver) {
            node_ready_remove(node, ready);
            free(((struct incoming *)ready)->withdrawn);
            free(ready);
        }
    }
    HASH_ITER(hh, node->incomings->by_token, in, intmp)
    {
        HASH_DEL(node->incomings->by_token, in);
        free(in->withdrawn);
        free(in);
    }
    HASH_ITER(hh, node->owns->by_upath, own, tmp)
    {
        LL_FOREACH_SAFE(own->deferred, in, intmp)
        {
            free(in);
        }
    }
    free(node->incomings);
}

static const struct node_message messages[] = {
    {NET_MSG_INVALIDATE, true, incoming_invalidate},
    {0},
};

const struct node_module node_incoming_module = {
    .messages = messages,
    .create = incoming_create,
    .destroy = incoming_destroy,
    .publish_over = incoming_undefer,
    .missed = incoming_missed,
    .withdrawn = incoming_withdrawn,
};
