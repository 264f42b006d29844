/*
 * dht/node_own.c - our own entries: what they are, and which operations on them are under
 * way
 */
#include "dht/node_own.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "dht/node_module.h"

struct own *own_find(struct dht_node *node, const char *upath, uint32_t hash)
{
    struct own *own;

    HASH_FIND_BYHASHVALUE(hh, node->owns->by_upath, upath, strlen(upath), hash, own);
    return own;
}

struct own *own_get(struct dht_node *node, const char *upath, uint32_t hash)
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
    own->highest = node->owns->counter_floor;
    HASH_ADD_KEYPTR_BYHASHVALUE(hh, node->owns->by_upath, own->upath, len, hash, own);
    if (own->hh.tbl == NULL) {
        free(own);
        errno = ENOMEM;
        return NULL;
    }
    return own;
}

void own_free(struct dht_node *node, struct own *own)
{
    if (node->owns->review == own)
        node->owns->review = own->hh.next;
    HASH_DEL(node->owns->by_upath, own);
    free(own);
}

bool own_under_way(struct dht_node *node, const char *upath)
{
    const struct own *own;
    struct dht_key key;

    if (node->owns->publishes == NULL)
        return false;
    dht_key_init(&key, upath, 0);
    own = own_find(node, upath, (uint32_t)key.full);
    return own != NULL && own->queue != NULL;
}

bool own_is_at(const struct dht_node *node, const struct own *own, uint32_t rank)
{
    if (node->death != NULL && node->death[rank] >> 1 > own->epoch)
        return false;
    for (uint32_t i = 0; i < own->nhomes; i++)
        if (own->homes[i] == rank)
            return true;
    return false;
}

bool own_is_in_place(struct dht_node *node, const struct own *own)
{
    uint32_t homes[DHT_REPLICAS_MAX];
    unsigned n = dht_node_homes(node, own->upath, homes);

    for (unsigned i = 0; i < n; i++)
        if (!own_is_at(node, own, homes[i]))
            return false;
    return true;
}

bool own_published(const struct dht_node *node, uint64_t moment)
{
    const struct publish *op;

    for (op = node->owns->publishes; op != NULL; op = op->hh.next)
        if (op->id <= moment && !op->awaits)
            return false;
    return true;
}

bool own_all_in_place(const struct dht_node *node, uint64_t moment)
{
    return !node->owns->reviewing && node->owns->nrepair == 0 &&
           own_published(node, moment);
}

uint64_t own_next_review(const struct dht_node *node)
{
    return node->owns->nreviews + 1;
}

bool own_reviewed(const struct dht_node *node, uint64_t number)
{
    return node->owns->nreviews - node->owns->reviewing >= number;
}

void own_review(struct dht_node *node, bool all)
{
    node->owns->review_all |= all;
    if (node->owns->reviewing) {
        node->owns->review_again = true;
    } else {
        node->owns->reviewing = true;
        node->owns->nreviews++;
        node->owns->review = node->owns->by_upath;
        node_modules_review_begins(node);
    }
}

bool dht_node_owns(const struct dht_node *node)
{
    for (const struct own *own = node->owns->by_upath; own != NULL; own = own->hh.next)
        if (own->queue != NULL || own->entry.state == DYAD_ENTRY_PUBLISHED)
            return true;
    return false;
}

bool dht_node_is_publishing(struct dht_node *node, const char *upath)
{
    const struct own *own;
    struct dht_key key;

    dht_key_init(&key, upath, 0);
    own = own_find(node, upath, (uint32_t)key.full);
    return own != NULL &&
           (own->queue != NULL || own->deferred != NULL || !own_is_in_place(node, own));
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
    if (dyad_version_cmp(&entry->version, &own->entry.version) < 0)
        return 0;
    /* The homes may have got the same version since from another rank that has taken it
     * over as well, and is dead. */
    own->again = own->queue != NULL;
    own->entry = *entry;
    own->entry.upath = own->upath;
    own->nhomes = 0;
    own_review(node, false);
    node_rearm(node);
    return 0;
}

unsigned dht_node_pending(const struct dht_node *node)
{
    return node->owns->npublish + node->owns->nrepair + node->owns->reviewing;
}

static int own_create(struct dht_node *node)
{
    node->owns = calloc(1, sizeof(*node->owns));
    return node->owns != NULL ? 0 : -1;
}

static void own_destroy(struct dht_node *node)
{
    struct own *own, *tmp;

    if (node->owns == NULL)
        return;
    HASH_ITER(hh, node->owns->by_upath, own, tmp)
    {
        own_free(node, own);
    }
    free(node->owns);
}

const struct node_module node_own_module = {.create = own_create, .destroy = own_destroy};
