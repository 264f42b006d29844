/*
 * dht/node_lookup_cache.c - the lookup cache: answers of homes, kept as long as they are
 * true
 *
 * A program that polls (`while [ ! -f x ]`) asks its member thousands of times a second.
 * The member asks the homes once, tells them that it keeps the answer (NET_LOOKUP_KEEP),
 * and answers by itself from then on. Each home that was asked sends the next version by
 * INVALIDATE, as to a holder, and acknowledges that version to its publisher only when we
 * have answered. So a look-up sees what was acknowledged before it began, from the homes
 * or from here. Other members of the node use our answers, too.
 *
 * An answer that outlives its truth would be the error: struct cached says when one is
 * dropped, cache_of_node() when one of another member counts.
 */
#include "dht/node_lookup_cache.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "dht/node_module.h"
#include "dht/node_own.h"

/* How many answers are kept; the oldest goes first. */
#define CACHE_MAX 1024

/* An answer that is in the cache, or (lookup != 0) will be.
 *
 * An answer is dropped, and one that is on its way is not kept,
 * - when an INVALIDATE comes for it;
 * - while a publish of our own is under way: its homes strike the publisher from their
 *   lists, and what comes after it may be acknowledged before it is;
 * - when any rank dies or returns, for homes may have moved;
 * - when keep_time has passed since it was asked for: a home that found us silent, or
 *   that was replaced before we heard of it, does not count us any more. */
struct cached {
    UT_hash_handle hh;          /* by upath */
    struct cached *prev, *next; /* the oldest first */
    uint64_t lookup;            /* id of the lookup that brings it; 0: it is here */
    uint64_t since;
    uint64_t put; /* what ops->answer_put() said */
    int status;
    struct dyad_entry entry;
    char upath[];
};

struct lookup_cache {
    struct cached *by_upath, *order;
    uint64_t floor; /* when homes moved last: what was asked before is not true */
};

static void cache_free(struct dht_node *node, struct cached *cached)
{
    if (cached->put != 0)
        node->ops->answer_drop(node->arg, cached->put);
    DL_DELETE(node->cache->order, cached);
    HASH_DEL(node->cache->by_upath, cached);
    free(cached);
}

static struct cached *cache_get(struct dht_node *node, const char *upath)
{
    struct cached *cached;

    HASH_FIND_STR(node->cache->by_upath, upath, cached);
    if (cached != NULL &&
        cached->since + node->config.keep_time <= node->ops->now(node->arg)) {
        cache_free(node, cached);
        return NULL;
    }
    return cached;
}

/* True if a process of this node may have got the contrary answer since.
 *
 * One home, and the keepers of its answers, may have a publish before another home has
 * it. A process that has learned of the publish from the first must not learn the
 * contrary afterwards from a kept answer of the second, here or by a neighbour (mkdir
 * says EEXIST, and stat ENOENT). So each member that gets an answer notes it for the node
 * (ops->answer_heard), and answers that say otherwise and were asked for before are not
 * used. Between nodes this is not promised before the publish is acknowledged. */
static bool is_contradicted(struct dht_node *node, const struct cached *cached)
{
    return node->ops->answer_heard_at != NULL &&
           cached->since <=
               node->ops->answer_heard_at(node->arg, cached->upath, cached->status != 0);
}

static const struct cached *cache_find(struct dht_node *node, const char *upath)
{
    struct cached *cached = cache_get(node, upath);

    if (cached == NULL || cached->lookup != 0)
        return NULL;
    if (!is_contradicted(node, cached))
        return cached;
    cache_free(node, cached);
    return NULL;
}

/* The answer that is kept may say otherwise and be older. If the node has no table of
 * answers (is_contradicted()), a rank drops at least the one that it keeps itself. */
void cache_answered(struct dht_node *node, const struct dht_lookup *l)
{
    struct cached *cached;

    if (l->status != 0 && l->status != ENOENT)
        return;
    HASH_FIND_STR(node->cache->by_upath, l->upath, cached);
    if (cached != NULL && cached->lookup != l->id &&
        (cached->lookup != 0 || cached->status != l->status))
        cache_free(node, cached);
    if (node->ops->answer_heard != NULL)
        node->ops->answer_heard(node->arg, l->upath, node->ops->now(node->arg),
                                l->status == 0);
}

void cache_newer(struct dht_node *node, const struct dyad_entry *newer)
{
    cache_drop(node, newer->upath);
    if (node->ops->answer_heard != NULL)
        node->ops->answer_heard(node->arg, newer->upath, node->ops->now(node->arg),
                                newer->state == DYAD_ENTRY_PUBLISHED);
}

/* True if these are the homes that we would ask. "Published" came from the first of them
 * that has it; "not published" from all of them. */
static bool homes_are_ours(struct dht_node *node, const struct dht_key *key,
                           const struct dyad_answer *answer)
{
    uint32_t homes[DHT_REPLICAS_MAX];
    unsigned n = node_homes(node, key, node->config.replicas, NULL, homes);

    if (answer->nhomes == 0 || (answer->status != 0 && answer->nhomes != n))
        return false;
    for (uint32_t i = 0; i < answer->nhomes; i++) {
        unsigned h = 0;
        while (h < n && homes[h] != answer->homes[i])
            h++;
        if (h == n)
            return false;
    }
    return true;
}

/* An answer that another member of this node keeps. The homes notify its keeper, not its
 * users. So for each way in which the homes may come to acknowledge a newer version, the
 * answer must be gone by then:
 * - They notified the keeper: it withdraws the answer before it answers them.
 * - The keeper publishes itself and is not notified: it withdraws the answer when it
 *   begins.
 * - The keeper has died, so the homes do not wait for it: answer_get() finds no answer of
 *   a dead member, and it knows of a death before any other node can
 *   (store/cache_table.c).
 * - The keeper is silent (stopped), and the homes do not wait for it any more after
 *   invalidate_timeout: the answer's time, counted from before the homes counted it, is
 *   no longer than that (cache_share()). The same holds if the keeper is stopped between
 *   its answer and the put.
 * - The homes that the keeper asked are no homes any more, or were made anew, and the
 *   publisher and we know it while the keeper does not: we use an answer only if it comes
 *   from the homes that we would ask, and was asked for after the last death or return
 *   that we know of. So we rely on no other home than for an answer of our own.
 * - A home that has lost its connection to a keeper that lives takes it for dead. Only
 *   keep_time bounds this case, for users as for the keeper.
 *
 * While we publish a name we ask the homes about it. A user of an answer does not keep
 * it, and does not put it again: it gets the answer anew each time. */
static bool cache_of_node(struct dht_node *node, const struct dht_lookup *l,
                          struct dyad_answer *answer)
{
    return node->ops->answer_get != NULL && !own_under_way(node, l->upath) &&
           node->ops->answer_get(node->arg, l->upath, node->ops->now(node->arg), answer) &&
           answer->since > node->cache->floor && homes_are_ours(node, &l->key, answer);
}

/* Let the other members of the node have it (ops->answer_put), until it is dropped here.
 */
static void cache_share(struct dht_node *node, struct cached *cached,
                        const struct dht_lookup *l)
{
    uint64_t length = node->config.keep_time < node->config.invalidate_timeout
                          ? node->config.keep_time
                          : node->config.invalidate_timeout;
    struct dyad_answer answer = {.status = l->status,
                                 .entry = l->best,
                                 .keeper = node->config.self,
                                 .since = cached->since,
                                 .until = cached->since + length};

    if (node->ops->answer_put == NULL || (l->status != 0 && l->status != ENOENT))
        return;
    answer.entry.upath = NULL;
    for (unsigned i = 0; i < l->asks.n; i++) {
        if (!l->asks.ask[i].answered)
            continue;
        if (answer.nhomes == DYAD_ANSWER_HOMES)
            return;
        answer.homes[answer.nhomes++] = l->asks.ask[i].rank;
    }
    cached->put = node->ops->answer_put(node->arg, cached->upath, &answer);
}

/* The place is taken when the look-up begins, so an INVALIDATE that overtakes the answer
 * finds something to drop. */
void cache_expect(struct dht_node *node, const struct dht_lookup *l)
{
    struct cached *cached = cache_get(node, l->upath);
    size_t len = strlen(l->upath);

    /* If there is one, another look-up brings it. */
    if ((l->flags & NET_LOOKUP_KEEP) == 0 || cached != NULL ||
        own_under_way(node, l->upath))
        return;
    if (HASH_COUNT(node->cache->by_upath) >= CACHE_MAX)
        cache_free(node, node->cache->order);
    cached = calloc(1, sizeof(*cached) + len + 1);
    if (cached == NULL)
        return;
    memcpy(cached->upath, l->upath, len + 1);
    cached->lookup = l->id;
    cached->since = node->ops->now(node->arg);
    HASH_ADD_KEYPTR(hh, node->cache->by_upath, cached->upath, len, cached);
    if (cached->hh.tbl == NULL)
        free(cached);
    else
        DL_APPEND(node->cache->order, cached);
}

/* An answer that is not `whole` was pieced together while a home was passed over, and is
 * not kept: that home would not tell us of the next version. */
void cache_fill(struct dht_node *node, const struct dht_lookup *l, bool whole)
{
    struct cached *cached;

    if ((l->flags & NET_LOOKUP_KEEP) == 0)
        return;
    HASH_FIND_STR(node->cache->by_upath, l->upath, cached);
    if (cached == NULL || cached->lookup != l->id)
        return;
    if (!whole) {
        cache_free(node, cached);
        return;
    }
    cached->lookup = 0;
    cached->status = l->status;
    cached->entry = l->best;
    cached->entry.upath = cached->upath;
    cache_share(node, cached, l);
}

void cache_drop(struct dht_node *node, const char *upath)
{
    struct cached *cached;

    HASH_FIND_STR(node->cache->by_upath, upath, cached);
    if (cached != NULL)
        cache_free(node, cached);
}

void cache_drop_all(struct dht_node *node)
{
    struct cached *cached, *tmp;

    DL_FOREACH_SAFE(node->cache->order, cached, tmp)
    {
        cache_free(node, cached);
    }
}

bool cache_answers(struct dht_node *node, struct dht_lookup *l)
{
    const struct cached *cached;
    struct dyad_answer answer;

    if ((l->flags & NET_LOOKUP_KEEP) == 0)
        return false;
    cached = cache_find(node, l->upath);
    if (cached == NULL && !cache_of_node(node, l, &answer))
        return false;
    l->status = cached != NULL ? cached->status : answer.status;
    /* That this rank is known as a holder must be as of now. */
    if (l->status == 0 && (l->flags & NET_LOOKUP_COPY) != 0)
        return false;
    l->best = cached != NULL ? cached->entry : answer.entry;
    l->best.upath = l->upath;
    node->stats.kept += cached != NULL;
    node->stats.node += cached == NULL;
    return true;
}

static void cache_rank_changed(struct dht_node *node, uint32_t rank)
{
    (void)rank;
    cache_drop_all(node);
    node->cache->floor = node->ops->now(node->arg);
}

static int cache_create(struct dht_node *node)
{
    node->cache = calloc(1, sizeof(*node->cache));
    return node->cache != NULL ? 0 : -1;
}

static void cache_destroy(struct dht_node *node)
{
    if (node->cache == NULL)
        return;
    cache_drop_all(node);
    free(node->cache);
}

const struct node_module node_cache_module = {
    .create = cache_create,
    .destroy = cache_destroy,
    .rank_lost = cache_rank_changed,
    .rank_back = cache_rank_changed,
};
