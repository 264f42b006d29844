/*
 * dht/node_publish.c - our own entries: published, kept in place, given up
 *
 * Operations on one upath run one after the other, so their versions rise in the order of
 * the calls and no two of them share a version. Each goes to all homes at once. A refusal
 * names a higher version: the next above it goes to all homes again, under a new request
 * id, so an old answer is not taken for a new one. Of writers in a race the one with the
 * highest version in flight is refused nowhere, so at least one of them ends at every
 * round.
 *
 * Counters are a hybrid logical clock (Kulkarni, Demirbas, Madappa, Avva, Leone: Logical
 * Physical Clocks, OPODIS 2014) folded into one number: above all that is known of the
 * upath, and not below the wall clock. Where homes answer, the first half decides and
 * clocks do not matter. Where no home can be asked that knows the version before (it is
 * beyond a cut, or stopped; or this rank has come back with an empty shard and knows
 * neither what it published nor what it withdrew) the second half puts the later change
 * above the earlier one, as far as the nodes' clocks agree.
 *
 * A home that is silent or dead is passed over: the homes are found again without it, and
 * who is new among them is asked. It stays a wanted home as long as it is not known to be
 * dead, so the entry is looked at again after retry_interval, and at every change of
 * membership (the "review"), until every home that all ranks would compute holds it. This
 * is half of why no wait is lost; the other half is in node_lookup.c. What it has itself
 * that is older, others of its node see to: node_passed.c.
 *
 * Withdrawals are remembered and republished as entries are. So a late old owner finds the
 * tombstone also at a home that is new. An owner that is refused in a republication has
 * been superseded while it was out of reach: it looks up by whom and treats the answer as
 * the INVALIDATE that it missed. Then it passes that entry on to all homes, for if its
 * publisher has died, nobody else will, and homes that took our older entry for the newest
 * would go on saying so. In a job in which ranks have died it does so at every INVALIDATE.
 *
 * An INVALIDATE that comes while a publish of ours is under way: if it names a version
 * below ours we are ahead and say so; if above, ours may yet be raised over it, so the
 * answer waits until ours has ended or has been raised. Waiting is thus always for lower
 * versions, never in a circle.
 */
#include "dht/node_impl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define ATTEMPTS_MAX  64
#define REVIEW_BUDGET 4096 /* entries per round: ~1 ms of the loop */

static struct publish *publish_create(struct own *own, const struct dyad_entry *entry,
                                      unsigned depth);
static void publish_start(struct dht_node *node, struct publish *op);
static void own_settle(struct dht_node *node, struct own *own);
static void own_route_deferred(struct dht_node *node, struct own *own);
static void incoming_route(struct dht_node *node, struct incoming *in);

static struct own *own_find(struct dht_node *node, const char *upath, uint32_t hash)
{
    struct own *own;

    HASH_FIND_BYHASHVALUE(hh, node->own, upath, strlen(upath), hash, own);
    return own;
}

static struct own *own_get(struct dht_node *node, const char *upath, uint32_t hash)
{
    struct own *own = own_find(node, upath, hash);
    size_t len = strlen(upath);

    if (own != NULL)
        return own;
    own = calloc(1, sizeof(*own) + len + 1);
    if (own == NULL)
        return NULL;
    memcpy(own->upath, upath, len + 1);
    own->hash = hash;
    own->highest = node->counter_floor;
    HASH_ADD_KEYPTR_BYHASHVALUE(hh, node->own, own->upath, len, hash, own);
    if (own->hh.tbl == NULL) {
        free(own);
        errno = ENOMEM;
        return NULL;
    }
    return own;
}

static void own_free(struct dht_node *node, struct own *own)
{
    if (node->review == own)
        node->review = own->hh.next;
    HASH_DEL(node->own, own);
    free(own);
}

bool publish_under_way(struct dht_node *node, const char *upath)
{
    const struct own *own;
    struct dht_key key;

    if (node->publishes == NULL)
        return false;
    dht_key_init(&key, upath, 0);
    own = own_find(node, upath, (uint32_t)key.full);
    return own != NULL && own->queue != NULL;
}

/* A home holds what is in force: it acknowledged it, and has not died since. */
static bool own_is_at(const struct dht_node *node, const struct own *own, uint32_t rank)
{
    if (node->death != NULL && node->death[rank] >> 1 > own->epoch)
        return false;
    for (uint32_t i = 0; i < own->nhomes; i++)
        if (own->homes[i] == rank)
            return true;
    return false;
}

static bool own_is_in_place(struct dht_node *node, const struct own *own)
{
    uint32_t homes[DHT_REPLICAS_MAX];
    unsigned n = dht_node_homes(node, own->upath, homes);

    for (unsigned i = 0; i < n; i++)
        if (!own_is_at(node, own, homes[i]))
            return false;
    return true;
}

bool dht_node_is_unsettled(struct dht_node *node, const char *upath)
{
    const struct own *own;
    struct dht_key key;

    dht_key_init(&key, upath, 0);
    own = own_find(node, upath, (uint32_t)key.full);
    return own != NULL &&
           (own->queue != NULL || own->deferred != NULL || !own_is_in_place(node, own));
}

static void publish_done(struct dht_node *node, struct ready *ready)
{
    struct publish *op = (struct publish *)ready;

    node->npublish--;
    if (op->fn != NULL)
        op->fn(op->arg, op->status, &op->entry.version);
    free(op);
}

void publish_relay(struct dht_node *node, const struct dyad_entry *entry)
{
    struct publish *op;
    struct own *own;
    struct dht_key key;

    dht_key_init(&key, entry->upath, 0);
    own = own_get(node, entry->upath, (uint32_t)key.full);
    if (own == NULL)
        return;
    own->relay_again = own->queue != NULL && node->leaving;
    if (own->queue != NULL || own->entry.state != DYAD_ENTRY_NONE)
        return; /* what is ours comes after it */
    op = publish_create(own, entry, node->config.depth);
    if (op == NULL) {
        if (!node->leaving) /* else we may have been called from there */
            own_settle(node, own);
        return;
    }
    op->repair = op->repair_all = op->relay = true;
    node->nrepair++;
    LL_APPEND(own->queue, op);
    publish_start(node, op);
}

void publish_missed(struct dht_node *node, const struct dyad_entry *newer)
{
    size_t len = strlen(newer->upath);
    struct incoming *in = calloc(1, sizeof(*in) + len + 1);

    if (in == NULL)
        return;
    in->rank = DYAD_RANK_NONE;
    in->newer = *newer;
    in->newer.upath = memcpy(in->upath, newer->upath, len + 1);
    incoming_route(node, in);
}

static void superseded(void *arg, int status, const struct dyad_entry *entry)
{
    struct dht_node *node = arg;

    (void)status;
    if (entry == NULL)
        return; /* the homes cannot be reached: refused again at the next review */
    publish_missed(node, entry);
    publish_relay(node, entry);
}

static void publish_finish(struct dht_node *node, struct publish *op, int status)
{
    struct own *own = op->own;

    if (op->hh.tbl != NULL)
        HASH_DEL(node->publishes, op);
    node_timer_stop(node, &op->timer);
    passed_forget(node, op);
    LL_DELETE(own->queue, op);
    op->status = status;
    for (unsigned i = 0; node->settling != NULL && i < op->asks.n; i++)
        if (op->asks.ask[i].failed)
            doubt_publish_failed(node, op->asks.ask[i].rank, op->id);

    /* What no home could be told is kept as well: the review tries again. */
    if (!op->repair && (status == 0 || status == EHOSTUNREACH)) {
        own->entry = op->entry;
        if (own->entry.state == DYAD_ENTRY_PUBLISHED &&
            own->entry.owner != node->config.self)
            own->entry.state = DYAD_ENTRY_NONE;
        own->nhomes = 0;
    }
    if (op->repair && own->entry.state != DYAD_ENTRY_NONE &&
        (op->relay || dyad_version_cmp(&op->entry.version, &own->entry.version) != 0)) {
        publish_review(node, false); /* another became ours meanwhile: dht_node_restore() */
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
        node->nrepair--;
        free(op);
    } else {
        op->entry.upath = NULL; /* own may go before fn is called */
        node_ready_push(node, &op->ready, publish_done);
    }
    own_settle(node, own);
}

/* Ask the homes that have not been asked; end when no answer is outstanding. */
void publish_advance(struct dht_node *node, struct publish *op)
{
    uint32_t homes[DHT_REPLICAS_MAX];
    bool again, full = false;

    do {
        unsigned n = node_homes(node, &op->key, node->config.replicas, &op->asks, homes);
        again = false;
        for (unsigned i = 0; i < n && !full; i++) {
            struct net_msg msg = {
                .type = NET_MSG_PUBLISH, .id = op->id, .entry = op->entry};
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
    if (!op->repair && lease_of_home_may_last(node, op)) {
        node_timer_start(node, &op->timer, TIMER_LEASE);
        return;
    }
    for (unsigned i = 0; i < op->asks.n; i++) {
        if (op->asks.ask[i].answered) {
            if (!passed_see_to(node, op))
                publish_finish(node, op, 0);
            return;
        }
    }
    publish_finish(node, op, EHOSTUNREACH);
}

/* To all homes, with a new id. Those that were silent stay passed over. */
static void publish_send(struct dht_node *node, struct publish *op)
{
    unsigned left = 0;

    for (unsigned i = 0; i < op->asks.n; i++)
        if (op->asks.ask[i].failed)
            op->asks.ask[left++] = op->asks.ask[i];
    op->asks.n = left;
    node_timer_stop(node, &op->timer);
    passed_forget(node, op);
    if (op->hh.tbl != NULL)
        HASH_DEL(node->publishes, op);
    memset(&op->hh, 0, sizeof(op->hh));
    op->id = node_next_id(node);
    op->epoch = node->epoch;
    HASH_ADD(hh, node->publishes, id, sizeof(op->id), op);
    if (op->hh.tbl == NULL)
        publish_finish(node, op, ENOMEM);
    else
        publish_advance(node, op);
}

static void publish_next_version(struct dht_node *node, struct publish *op)
{
    struct own *own = op->own;
    uint64_t wall = node->ops->wall != NULL ? node->ops->wall(node->arg) : 0;

    if (own->highest >= DHT_COUNTER_MAX) {
        publish_finish(node, op, EOVERFLOW);
        return;
    }
    if (++op->attempts > ATTEMPTS_MAX) {
        publish_finish(node, op, ESTALE);
        return;
    }
    own->highest = wall > own->highest && wall < DHT_COUNTER_MAX ? wall : own->highest + 1;
    op->entry.version = (struct dyad_version){
        .counter = own->highest,
        .rank = node->config.self,
        .incarnation = node->config.incarnation,
    };
    own_route_deferred(node, own); /* before op can end: own is there */
    publish_send(node, op);
}

static void publish_start(struct dht_node *node, struct publish *op)
{
    struct own *own = op->own;
    struct dht_record *record;

    kept_drop(node, own->upath);
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
    publish_next_version(node, op);
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

static struct publish *publish_create(struct own *own, const struct dyad_entry *entry,
                                      unsigned depth)
{
    struct publish *op = calloc(1, sizeof(*op));

    if (op == NULL)
        return NULL;
    op->own = own;
    op->entry = *entry;
    op->entry.upath = own->upath;
    op->timer.fn = publish_timeout;
    dht_key_init(&op->key, own->upath, depth);
    return op;
}

int dht_node_publish(struct dht_node *node, const struct dyad_entry *entry,
                     dht_publish_fn fn, void *arg)
{
    struct publish *op;
    struct own *own;
    struct dht_key key;

    dht_key_init(&key, entry->upath, 0);
    own = own_get(node, entry->upath, (uint32_t)key.full);
    if (own == NULL)
        return -1;
    op = publish_create(own, entry, node->config.depth);
    if (op == NULL) {
        if (own->queue == NULL)
            own_settle(node, own);
        errno = ENOMEM;
        return -1;
    }
    op->fn = fn;
    op->arg = arg;
    node->npublish++;
    LL_APPEND(own->queue, op);
    if (own->queue == op)
        publish_start(node, op);
    node_rearm(node);
    return 0;
}

int dht_node_restore(struct dht_node *node, const struct dyad_entry *entry)
{
    const struct publish *op;
    struct own *own;
    struct dht_key key;

    if (entry->version.counter == 0 || entry->version.counter > DHT_COUNTER_MAX ||
        (entry->state != DYAD_ENTRY_PUBLISHED && entry->state != DYAD_ENTRY_WITHDRAWN)) {
        errno = EINVAL;
        return -1;
    }
    dht_key_init(&key, entry->upath, 0);
    own = own_get(node, entry->upath, (uint32_t)key.full);
    if (own == NULL)
        return -1;
    if (own->highest < entry->version.counter)
        own->highest = entry->version.counter;
    /* A publish of this incarnation, done or under way, is newer. What only brings to the
     * homes what we had published or withdrawn before, or passes on an entry of another,
     * perhaps this one with its dead owner, is not. */
    LL_FOREACH(own->queue, op)
    {
        if (!op->repair)
            return 0;
    }
    if (dyad_version_cmp(&entry->version, &own->entry.version) <= 0)
        return 0;
    own->entry = *entry;
    own->entry.upath = own->upath;
    own->nhomes = 0;
    publish_review(node, false);
    node_rearm(node);
    return 0;
}

bool publish_reply(struct dht_node *node, const struct net_msg *msg)
{
    const struct dyad_version *version = &msg->entry.version;
    struct publish *op;
    struct ask *ask;

    HASH_FIND(hh, node->publishes, &msg->id, sizeof(msg->id), op);
    if (op == NULL)
        return false;
    ask = asks_find(&op->asks, msg->source);
    if (ask == NULL || !ask->pending)
        return true;
    ask->pending = false;
    if (msg->type == NET_MSG_PUBLISH_REPLY && msg->status == 0) {
        ask->answered = true;
    } else if (msg->type == NET_MSG_PUBLISH_REPLY && msg->status == ESTALE &&
               dyad_version_cmp(version, &op->entry.version) >= 0) {
        if (op->own->highest < version->counter)
            op->own->highest = version->counter;
        if (op->repair)
            publish_finish(node, op, ESTALE);
        else
            publish_next_version(node, op);
        return true;
    } else {
        ask->failed = true;
    }
    publish_advance(node, op);
    return true;
}

void publish_rank_dead(struct dht_node *node, uint32_t rank)
{
    struct publish *op, *tmp;

    HASH_ITER(hh, node->publishes, op, tmp)
    {
        struct ask *ask = asks_find(&op->asks, rank);
        bool asked_instead = passed_rank_dead(node, op, rank);
        if (ask != NULL && !ask->failed) {
            ask->pending = ask->answered = false;
            ask->failed = true;
        } else if (!asked_instead) {
            continue;
        }
        publish_advance(node, op);
    }
}

/* ---- somebody else's newer version ---- */

static void incoming_reply(struct dht_node *node, const struct incoming *in)
{
    struct net_msg msg = {.type = NET_MSG_INVALIDATE_REPLY,
                          .flags = in->left ? NET_INVALIDATE_LEFT : 0,
                          .status = in->unseen ? ENOENT : 0,
                          .id = in->id,
                          .entry = in->newer,
                          .length = in->holder};
    if (in->rank != DYAD_RANK_NONE)
        node_send(node, in->rank, &msg); /* if it fails the home's deadline passes */
}

static void incoming_deliver(struct dht_node *node, struct ready *ready)
{
    struct incoming *in = (struct incoming *)ready;

    in->token = ++node->last_token;
    HASH_ADD(hh, node->incoming, token, sizeof(in->token), in);
    if (in->hh.tbl == NULL) {
        free(in);
        return;
    }
    in->busy = true;
    if (in->left && node->ops->invalidate_left != NULL)
        node->ops->invalidate_left(node->arg, &in->newer, in->holder, in->token);
    else
        node->ops->invalidate(node->arg, &in->newer, in->token);
    in->busy = false;
    if (in->gone)
        free(in);
}

void dht_node_unseen(struct dht_node *node, uint64_t token)
{
    struct incoming *in;

    HASH_FIND(hh, node->incoming, &token, sizeof(token), in);
    if (in != NULL)
        in->unseen = true;
}

void dht_node_invalidated(struct dht_node *node, uint64_t token)
{
    struct incoming *in;

    HASH_FIND(hh, node->incoming, &token, sizeof(token), in);
    if (in == NULL)
        return;
    HASH_DEL(node->incoming, in);
    incoming_reply(node, in);
    in->gone = true;
    if (!in->busy)
        free(in);
    node_rearm(node);
}

/* As a home, or as one that was a home once, we may have something older: nobody else need
 * tell us, if those who would have to are dead. */
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
        dyad_version_cmp(&record->entry.version, &newer->version) < 0)
        home_publish(node, &msg); /* no operation has its id: the reply says nothing */
}

/* Answer, put off, or pass on to the engine. */
static void incoming_route(struct dht_node *node, struct incoming *in)
{
    struct own *own;
    struct dht_key key;

    kept_newer(node, &in->newer);
    shard_newer(node, &in->newer);
    copies_newer(node, &in->newer);
    dht_key_init(&key, in->upath, 0);
    own = own_find(node, in->upath, (uint32_t)key.full);
    if (own != NULL) {
        const struct dyad_version *ours =
            own->queue != NULL ? &own->queue->entry.version : &own->entry.version;
        if (own->highest < in->newer.version.counter &&
            in->newer.version.counter <= DHT_COUNTER_MAX)
            own->highest = in->newer.version.counter;
        if (dyad_version_cmp(&in->newer.version, ours) <= 0) {
            incoming_reply(node, in);
            free(in);
            return;
        }
        if (own->queue != NULL) {
            LL_APPEND(own->deferred, in);
            return;
        }
        own->entry.state = DYAD_ENTRY_NONE;
        own_settle(node, own);
        /* Its publisher may have died before it had told all homes. */
        if (node->epoch > 0)
            publish_relay(node, &in->newer);
    }
    node_ready_push(node, &in->ready, incoming_deliver);
}

void publish_invalidate(struct dht_node *node, const struct net_msg *msg)
{
    bool left = (msg->flags & NET_INVALIDATE_LEFT) != 0;
    size_t len = strlen(msg->entry.upath);
    struct incoming *in;

    if (left && msg->length >= node->config.nranks)
        return; /* there is no such rank */
    in = calloc(1, sizeof(*in) + len + 1);
    if (in == NULL)
        return; /* silent: dropped by the home after its bound */
    in->rank = msg->source;
    in->id = msg->id;
    in->left = left;
    in->holder = left ? (uint32_t)msg->length : 0;
    in->newer = msg->entry;
    in->newer.upath = memcpy(in->upath, msg->entry.upath, len + 1);
    incoming_route(node, in);
}

/* ---- keeping entries in place ---- */

static void repair_start(struct dht_node *node, struct own *own)
{
    struct publish *op = publish_create(own, &own->entry, node->config.depth);

    if (op == NULL) {
        node_timer_start(node, &node->review_timer, TIMER_RETRY);
        return;
    }
    op->repair = true;
    op->repair_all = node->review_all;
    node->nrepair++;
    LL_APPEND(own->queue, op);
    publish_start(node, op);
}

static void incoming_route_all(struct dht_node *node, struct incoming *list)
{
    struct incoming *in, *tmp;

    LL_FOREACH_SAFE(list, in, tmp)
    {
        in->next = NULL;
        incoming_route(node, in); /* finds own by name, if it is still there */
    }
}

/* Some may be below our version now; the others are put off again. */
static void own_route_deferred(struct dht_node *node, struct own *own)
{
    struct incoming *deferred = own->deferred;

    own->deferred = NULL;
    incoming_route_all(node, deferred);
}

/* After an operation or an invalidation: go on with what waited for its end. */
static void own_settle(struct dht_node *node, struct own *own)
{
    struct incoming *deferred = own->deferred;

    if (own->queue != NULL) {
        publish_start(node, own->queue);
        return;
    }
    if (own->relay_again) {
        own->relay_again = false;
        leave_again(node, own->upath);
        if (own->queue != NULL)
            return;
    }
    own->deferred = NULL;
    if (own->entry.state == DYAD_ENTRY_NONE) {
        if (node->counter_floor < own->highest)
            node->counter_floor = own->highest;
        own_free(node, own);
    } else if (!own_is_in_place(node, own) && !node->review_timer.active) {
        node_timer_start(node, &node->review_timer, TIMER_RETRY);
    }
    incoming_route_all(node, deferred);
}

void publish_review(struct dht_node *node, bool all)
{
    if (node->own == NULL)
        return;
    node->review_all |= all;
    if (node->reviewing) {
        node->review_again = true;
    } else {
        node->reviewing = true;
        node->review = node->own;
        doubt_review_begins(node);
    }
}

void publish_review_step(struct dht_node *node)
{
    for (int i = 0; i < REVIEW_BUDGET && node->reviewing; i++) {
        struct own *own = node->review;
        if (own == NULL) {
            node->reviewing = node->review_again && node->own != NULL;
            node->review_again = false;
            node->review_all &= node->reviewing;
            node->review = node->own;
            if (node->reviewing)
                doubt_review_begins(node);
            continue;
        }
        if (node->nrepair >= DHT_REPAIR_WINDOW)
            return;
        node->review = own->hh.next;
        if (own->queue != NULL || own->entry.state == DYAD_ENTRY_NONE)
            continue;
        if (node->review_all || !own_is_in_place(node, own))
            repair_start(node, own);
    }
}

bool publish_in_place(const struct dht_node *node, uint64_t moment)
{
    const struct publish *op;

    if (node->reviewing || node->nrepair > 0)
        return false;
    for (op = node->publishes; op != NULL; op = op->hh.next)
        if (op->id <= moment)
            return false;
    return true;
}

void publish_review_timer(struct dht_node *node, struct timer *timer)
{
    (void)timer;
    publish_review(node, false);
}

void publish_refresh_timer(struct dht_node *node, struct timer *timer)
{
    publish_review(node, true);
    node_timer_start(node, timer, TIMER_REFRESH);
}

void publish_stood_still(struct dht_node *node, uint64_t ns)
{
    struct publish *op;

    for (op = node->publishes; op != NULL; op = op->hh.next)
        asks_stood_still(&op->asks, ns, node->ops->now(node->arg));
}

static void incoming_free(struct incoming *list)
{
    struct incoming *in, *tmp;

    LL_FOREACH_SAFE(list, in, tmp)
    {
        free(in);
    }
}

void publish_destroy(struct dht_node *node)
{
    struct ready *ready, *rtmp;
    struct incoming *in, *itmp;
    struct own *own, *otmp;

    DL_FOREACH_SAFE(node->ready, ready, rtmp)
    {
        if (ready->fn == publish_done || ready->fn == incoming_deliver) {
            node_ready_remove(node, ready);
            free(ready);
        }
    }
    HASH_ITER(hh, node->incoming, in, itmp)
    {
        HASH_DEL(node->incoming, in);
        free(in);
    }
    HASH_CLEAR(hh, node->publishes); /* each is in its own's queue */
    HASH_ITER(hh, node->own, own, otmp)
    {
        struct publish *op, *ptmp;
        LL_FOREACH_SAFE(own->queue, op, ptmp)
        {
            free(op);
        }
        incoming_free(own->deferred);
        own_free(node, own);
    }
}
