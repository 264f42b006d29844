/*
 * dht/node_kept.c - answers of look-ups, kept as long as they are true
 *
 * A program that polls (`while [ ! -f x ]`, os.path.exists in a loop) asks its member
 * thousands of times a second; the member asks the homes once, tells them that it keeps the
 * answer (NET_LOOKUP_KEEP), and answers by itself from then on. Each home that was asked
 * sends the next version by INVALIDATE, as to the holder of a copy, and acknowledges that
 * version to its publisher only when we have answered. So what was acknowledged before a
 * look-up began is seen by that look-up, from the homes or from here.
 *
 * An answer is dropped, and one that is on its way is not kept, when an INVALIDATE comes
 * for it, while a publish of our own is under way (its homes strike the publisher from
 * their lists, and what comes after it may be acknowledged before it is), when any rank
 * dies or returns (homes may have moved), and when keep_time has passed since it was
 * asked for: a home that found us silent, or that was replaced before we heard of it, does
 * not count us any more. Answers that were pieced together while a home was passed over are
 * not kept at all.
 *
 * The place is taken when the look-up begins, so an INVALIDATE that overtakes the answer
 * finds something to drop. KEPT_MAX bounds the number; the oldest goes first.
 */
#include "dht/node_impl.h"

#include <stdlib.h>
#include <string.h>

#define KEPT_MAX 1024

static void kept_free(struct dht_node *node, struct kept *kept)
{
    DL_DELETE(node->kept_order, kept);
    HASH_DEL(node->kept, kept);
    free(kept);
}

static struct kept *kept_get(struct dht_node *node, const char *upath)
{
    struct kept *kept;

    HASH_FIND_STR(node->kept, upath, kept);
    if (kept != NULL && kept->since + node->config.keep_time <= node->ops->now(node->arg)) {
        kept_free(node, kept);
        return NULL;
    }
    return kept;
}

const struct kept *kept_find(struct dht_node *node, const char *upath)
{
    const struct kept *kept = kept_get(node, upath);

    return kept != NULL && kept->lookup == 0 ? kept : NULL;
}

void kept_expect(struct dht_node *node, const struct dht_lookup *l)
{
    struct kept *kept = kept_get(node, l->upath);
    size_t len = strlen(l->upath);

    /* If there is one, another look-up brings it. */
    if ((l->flags & NET_LOOKUP_KEEP) == 0 || kept != NULL ||
        publish_under_way(node, l->upath))
        return;
    if (HASH_COUNT(node->kept) >= KEPT_MAX)
        kept_free(node, node->kept_order);
    kept = calloc(1, sizeof(*kept) + len + 1);
    if (kept == NULL)
        return;
    memcpy(kept->upath, l->upath, len + 1);
    kept->lookup = l->id;
    kept->since = node->ops->now(node->arg);
    HASH_ADD_KEYPTR(hh, node->kept, kept->upath, len, kept);
    if (kept->hh.tbl == NULL)
        free(kept);
    else
        DL_APPEND(node->kept_order, kept);
}

void kept_settle(struct dht_node *node, const struct dht_lookup *l, bool whole)
{
    struct kept *kept;

    if ((l->flags & NET_LOOKUP_KEEP) == 0)
        return;
    HASH_FIND_STR(node->kept, l->upath, kept);
    if (kept == NULL || kept->lookup != l->id)
        return;
    if (!whole) {
        kept_free(node, kept);
        return;
    }
    kept->lookup = 0;
    kept->status = l->status;
    kept->entry = l->best;
    kept->entry.upath = kept->upath;
}

void kept_drop(struct dht_node *node, const char *upath)
{
    struct kept *kept;

    HASH_FIND_STR(node->kept, upath, kept);
    if (kept != NULL)
        kept_free(node, kept);
}

void kept_drop_all(struct dht_node *node)
{
    struct kept *kept, *tmp;

    DL_FOREACH_SAFE(node->kept_order, kept, tmp)
    {
        kept_free(node, kept);
    }
}
