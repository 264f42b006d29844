/*
 * dht/shard.c - the part of the table that one rank holds
 *
 * A tree node maps a bin to a child: the next node, or at the last level a leaf's chain
 * of records. A search takes the bins in turn. A bin that is missing ends it: no string
 * was touched. In a leaf a record's full 64-bit hash is compared before its string, so
 * strings are compared once for a key that is there and (but for a 2^-64 chance per
 * record) never for one that is not.
 *
 * Memory follows the keys, not bins^depth (struct tree_node). It may run out in the
 * middle of an insert; then what is empty on the way is taken out again (tree_prune()).
 */
#include "dht/shard.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "dht/index.h"
#include "net/msg.h"
#include "util/quota.h"

/* Nodes adapt to how full they are, as in the adaptive radix tree (Leis, Kemper, Neumann,
 * ICDE 2013): a sorted list of bins with their children while few are taken, an array of
 * `bins` pointers once that is no larger.
 *
 * Memory for 10^6 keys in one shard: a record is 160 bytes + upath. The tree beside it,
 * measured by sim_dht: depth 2, 256 bins: 1 MB (257 full arrays); depth 3: 17 MB (65,536
 * nodes with some 15 children); depth 4: 37 MB (970,000 nodes of one child, 20 bytes
 * each, 32 with malloc's). More levels add one such node per key and level, with any
 * number of bins; plain arrays would take 2 KiB for each of them. The unit test holds
 * this to its word. */
struct tree_node {
    uint32_t used; /* children that are there */
    uint32_t
        cap; /* == bins: child[] is indexed by the bin; else sorted by bin[] behind it */
    void *child[];
    /* uint32_t bin[cap]; */
};

struct dht_shard {
    unsigned depth, bins;
    struct tree_node *root;
    struct dht_index *index; /* NULL: no listings */
    struct dht_inlined inlined;
    uint64_t nodes, bytes;
    uint64_t lookups, passed, comparisons, false_matches;
    uint64_t ended_at[DHT_DEPTH_MAX + 1];
    struct util_quota waiting;
};

static uint32_t *node_bins(struct tree_node *node)
{
    return (uint32_t *)(node->child + node->cap);
}

static size_t node_bytes(const struct dht_shard *shard, uint32_t cap)
{
    size_t each = sizeof(void *) + (cap == shard->bins ? 0 : sizeof(uint32_t));
    return sizeof(struct tree_node) + cap * each;
}

static uint32_t key_bin(const struct dht_shard *shard, const struct dht_key *key,
                        unsigned level)
{
    return (uint32_t)(key->level[level] % shard->bins);
}

/* First index whose bin is not below `bin`. */
static uint32_t node_lower_bound(struct tree_node *node, uint32_t bin)
{
    const uint32_t *bins = node_bins(node);
    uint32_t low = 0, high = node->used;

    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        if (bins[mid] < bin)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static void **node_find(const struct dht_shard *shard, struct tree_node *node, uint32_t bin)
{
    if (node->cap == shard->bins)
        return node->child[bin] != NULL ? &node->child[bin] : NULL;
    uint32_t i = node_lower_bound(node, bin);
    return i < node->used && node_bins(node)[i] == bin ? &node->child[i] : NULL;
}

static struct tree_node *node_create(struct dht_shard *shard, uint32_t cap)
{
    struct tree_node *node = calloc(1, node_bytes(shard, cap));
    if (node == NULL)
        return NULL;
    node->cap = cap;
    shard->nodes++;
    shard->bytes += node_bytes(shard, cap);
    return node;
}

static void node_free(struct dht_shard *shard, struct tree_node *node)
{
    shard->nodes--;
    shard->bytes -= node_bytes(shard, node->cap);
    free(node);
}

/* Replace a full sparse node by a larger one. */
static int node_grow(struct dht_shard *shard, struct tree_node **slot)
{
    struct tree_node *old = *slot, *node;
    uint64_t cap = 2 * (uint64_t)old->cap;

    if (cap * (sizeof(void *) + sizeof(uint32_t)) >= (uint64_t)shard->bins * sizeof(void *))
        cap = shard->bins;
    node = node_create(shard, (uint32_t)cap);
    if (node == NULL)
        return -1;
    node->used = old->used;
    if (cap == shard->bins) {
        for (uint32_t i = 0; i < old->used; i++)
            node->child[node_bins(old)[i]] = old->child[i];
    } else {
        memcpy(node->child, old->child, old->used * sizeof(void *));
        memcpy(node_bins(node), node_bins(old), old->used * sizeof(uint32_t));
    }
    node_free(shard, old);
    *slot = node;
    return 0;
}

/* Place for a new child of a bin that has none. *slot may be replaced. NULL: ENOMEM. */
static void **node_insert(struct dht_shard *shard, struct tree_node **slot, uint32_t bin)
{
    struct tree_node *node = *slot;

    if (node->cap != shard->bins && node->used == node->cap) {
        if (node_grow(shard, slot) < 0)
            return NULL;
        node = *slot;
    }
    if (node->cap == shard->bins) {
        node->used++;
        return &node->child[bin];
    }
    uint32_t i = node_lower_bound(node, bin), tail = node->used - i;
    uint32_t *bins = node_bins(node);
    memmove(node->child + i + 1, node->child + i, tail * sizeof(void *));
    memmove(bins + i + 1, bins + i, tail * sizeof(uint32_t));
    bins[i] = bin;
    node->child[i] = NULL;
    node->used++;
    return &node->child[i];
}

static void node_delete(struct dht_shard *shard, struct tree_node *node, uint32_t bin)
{
    node->used--;
    if (node->cap == shard->bins) {
        node->child[bin] = NULL;
        return;
    }
    uint32_t i = node_lower_bound(node, bin), tail = node->used - i;
    uint32_t *bins = node_bins(node);
    memmove(node->child + i, node->child + i + 1, tail * sizeof(void *));
    memmove(bins + i, bins + i + 1, tail * sizeof(uint32_t));
}

/* Take out what is empty on the way to the key's leaf. */
static void tree_prune(struct dht_shard *shard, const struct dht_key *key)
{
    struct tree_node **path[DHT_DEPTH_MAX];
    void **slot = (void **)&shard->root;
    unsigned n = 0;

    while (n < shard->depth && slot != NULL && *slot != NULL) {
        path[n] = (struct tree_node **)slot;
        slot = node_find(shard, *path[n], key_bin(shard, key, n));
        n++;
    }
    while (n-- > 0) {
        struct tree_node *node = *path[n];
        if (node->used > 0)
            return;
        node_free(shard, node);
        *path[n] = NULL;
        if (n > 0)
            node_delete(shard, *path[n - 1], key_bin(shard, key, n - 1));
    }
}

struct dht_shard *dht_shard_create(unsigned depth, unsigned bins)
{
    struct dht_shard *shard;

    if (depth < 1 || depth > DHT_DEPTH_MAX || bins < 1) {
        errno = EINVAL;
        return NULL;
    }
    shard = calloc(1, sizeof(*shard));
    if (shard == NULL)
        return NULL;
    shard->depth = depth;
    shard->bins = bins;
    return shard;
}

static size_t record_bytes(const struct dht_record *record)
{
    return sizeof(*record) + strlen(record->upath) + 1;
}

void dht_shard_free_waiter(struct dht_shard *shard, struct dht_record *record,
                           struct dht_waiter *waiter)
{
    DL_DELETE(record->waiters, waiter);
    if (waiter->counted)
        util_quota_return(&shard->waiting, waiter->rank);
    free(waiter);
}

static void record_free(struct dht_shard *shard, struct dht_record *record)
{
    struct dht_waiter *waiter, *tmp;

    DL_FOREACH_SAFE(record->waiters, waiter, tmp)
    {
        dht_shard_free_waiter(shard, record, waiter);
    }
    shard->bytes -= record_bytes(record);
    dht_inlined_set(&shard->inlined, record, NULL, 0, 0);
    if (shard->index != NULL)
        dht_index_remove(shard->index, record);
    free(record->holders);
    free(record);
}

static void tree_free(struct dht_shard *shard, void *at, unsigned level)
{
    if (level == shard->depth) {
        struct dht_record *record, *tmp;
        LL_FOREACH_SAFE((struct dht_record *)at, record, tmp)
        {
            record_free(shard, record);
        }
        return;
    }
    struct tree_node *node = at;
    uint32_t n = node->cap == shard->bins ? node->cap : node->used;
    for (uint32_t i = 0; i < n; i++)
        if (node->child[i] != NULL)
            tree_free(shard, node->child[i], level + 1);
    node_free(shard, node);
}

void dht_shard_destroy(struct dht_shard *shard)
{
    if (shard == NULL)
        return;
    if (shard->root != NULL)
        tree_free(shard, shard->root, 0);
    dht_index_destroy(shard->index);
    util_quota_clear(&shard->waiting);
    free(shard);
}

struct dht_record *dht_shard_find(struct dht_shard *shard, const struct dht_key *key,
                                  const char *upath)
{
    void *at = shard->root;

    shard->lookups++;
    for (unsigned level = 0; level < shard->depth; level++) {
        void **slot = at != NULL ? node_find(shard, at, key_bin(shard, key, level)) : NULL;
        if (slot == NULL) {
            shard->ended_at[level]++;
            return NULL;
        }
        at = *slot;
    }
    shard->ended_at[shard->depth]++;
    for (struct dht_record *record = at; record != NULL; record = record->next) {
        shard->passed++;
        if (record->hash != key->full)
            continue;
        shard->comparisons++;
        if (strcmp(record->upath, upath) == 0)
            return record;
        shard->false_matches++;
    }
    return NULL;
}

struct dht_record *dht_shard_insert(struct dht_shard *shard, const struct dht_key *key,
                                    const char *upath)
{
    struct dht_record *record = dht_shard_find(shard, key, upath);
    size_t len = strlen(upath);
    void **slot = (void **)&shard->root;
    struct tree_node *parent = NULL;
    uint32_t parent_bin = 0;

    if (record != NULL)
        return record;
    record = calloc(1, sizeof(*record) + len + 1);
    if (record == NULL)
        return NULL;
    memcpy(record->upath, upath, len + 1);
    record->entry.upath = record->upath;
    record->entry.owner = DYAD_RANK_NONE;
    record->hash = key->full;

    for (unsigned level = 0; level < shard->depth; level++) {
        struct tree_node **node = (struct tree_node **)slot;
        uint32_t bin = key_bin(shard, key, level);
        if (*node == NULL) {
            *node = node_create(shard, 1);
            if (*node == NULL)
                goto prune;
        }
        parent = NULL; /* has a child now */
        slot = node_find(shard, *node, bin);
        if (slot == NULL) {
            slot = node_insert(shard, node, bin);
            if (slot == NULL)
                goto prune;
            parent = *node;
            parent_bin = bin;
        }
    }
    record->next = *slot;
    *slot = record;
    shard->bytes += record_bytes(record);
    return record;

prune:
    if (parent != NULL) /* the bin was taken, its child could not be made */
        node_delete(shard, parent, parent_bin);
    tree_prune(shard, key);
    free(record);
    errno = ENOMEM;
    return NULL;
}

void dht_shard_remove(struct dht_shard *shard, struct dht_record *record)
{
    struct tree_node *node = shard->root;
    struct dht_record *head;
    struct dht_key key;
    void **slot = NULL;

    dht_key_init(&key, record->upath, shard->depth);
    for (unsigned level = 0; level < shard->depth; level++) {
        if (level > 0)
            node = *slot;
        slot = node_find(shard, node, key_bin(shard, &key, level));
    }
    head = *slot;
    LL_DELETE(head, record);
    record_free(shard, record);
    if (head != NULL) {
        *slot = head;
        return;
    }
    node_delete(shard, node, key_bin(shard, &key, shard->depth - 1));
    tree_prune(shard, &key);
}

int dht_shard_add_waiter(struct dht_shard *shard, struct dht_record *record, uint32_t rank,
                         uint64_t id, uint8_t flags, const struct dyad_version *newer_than,
                         uint64_t now)
{
    struct dht_waiter *waiter;

    DL_FOREACH(record->waiters, waiter)
    {
        if (waiter->rank == rank && waiter->id == id)
            break;
    }
    if (waiter == NULL) {
        bool counted = (flags & NET_LOOKUP_HELD) == 0;
        if (counted && !util_quota_take(&shard->waiting, rank, DHT_WAITERS_MAX,
                                        "look-ups that wait for a publish"))
            return -1;
        waiter = calloc(1, sizeof(*waiter));
        if (waiter == NULL) {
            if (counted)
                util_quota_return(&shard->waiting, rank);
            return -1;
        }
        waiter->counted = counted;
        waiter->rank = rank;
        waiter->id = id;
        waiter->since = now;
        DL_APPEND(record->waiters, waiter);
    }
    waiter->flags = flags;
    waiter->newer_than = *newer_than;
    return 0;
}

bool dht_shard_drop_waiter(struct dht_shard *shard, struct dht_record *record,
                           uint32_t rank, uint64_t id)
{
    struct dht_waiter *waiter;

    DL_FOREACH(record->waiters, waiter)
    {
        if (waiter->rank == rank && waiter->id == id) {
            dht_shard_free_waiter(shard, record, waiter);
            return true;
        }
    }
    return false;
}

int dht_shard_add_holder(struct dht_record *record, uint32_t rank)
{
    uint32_t n = record->nholders, low = 0, high = n;

    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        if (record->holders[mid] < rank)
            low = mid + 1;
        else
            high = mid;
    }
    if (low < n && record->holders[low] == rank)
        return 0;
    if ((n & (n - 1)) == 0) { /* 0 or a power of two: the array is full */
        uint32_t *holders =
            realloc(record->holders, (n ? 2 * (size_t)n : 1) * sizeof(*holders));
        if (holders == NULL)
            return -1;
        record->holders = holders;
    }
    memmove(record->holders + low + 1, record->holders + low,
            (n - low) * sizeof(*record->holders));
    record->holders[low] = rank;
    record->nholders++;
    return 0;
}

int dht_shard_keep_index(struct dht_shard *shard)
{
    if (shard->index == NULL)
        shard->index = dht_index_create();
    return shard->index != NULL ? 0 : -1;
}

int dht_shard_set_listed(struct dht_shard *shard, struct dht_record *record, bool listed)
{
    if (shard->index == NULL)
        return 0;
    if (listed)
        return dht_index_add(shard->index, record);
    dht_index_remove(shard->index, record);
    return 0;
}

bool dht_shard_list(struct dht_shard *shard, const char *parent, struct dht_list_at *at,
                    int (*fn)(const char *name, const struct dyad_entry *entry, void *arg),
                    void *arg)
{
    return shard->index != NULL && dht_index_list(shard->index, parent, at, fn, arg);
}

void dht_shard_keep_inlined(struct dht_shard *shard, uint64_t max)
{
    shard->inlined.max = max;
}

void dht_shard_set_inlined(struct dht_shard *shard, struct dht_record *record,
                           const void *bytes, size_t len, uint64_t digest)
{
    dht_inlined_set(&shard->inlined, record, bytes, len, digest);
}

int dht_shard_foreach_inlined(struct dht_shard *shard,
                              int (*fn)(struct dht_record *record, void *arg), void *arg)
{
    struct dht_inlined_file *file, *next;
    int rc = 0;

    for (file = shard->inlined.first; file != NULL && rc == 0; file = next) {
        next = file->next;
        rc = fn(file->record, arg);
    }
    return rc;
}

struct walk {
    struct dht_shard *shard;
    int (*fn)(struct dht_record *record, void *arg); /* NULL: count */
    void *arg;
    struct dht_shard_stats *stats;
};

static void count_chain(struct dht_shard_stats *stats, const struct dht_record *chain)
{
    uint64_t length = 0;

    stats->occupied++;
    for (const struct dht_record *record = chain; record != NULL; record = record->next) {
        const struct dht_waiter *waiter;
        length++;
        stats->entries += record->entry.state == DYAD_ENTRY_PUBLISHED;
        stats->tombstones += record->entry.state == DYAD_ENTRY_WITHDRAWN;
        DL_FOREACH(record->waiters, waiter)
        {
            stats->waiters += (waiter->flags & NET_LOOKUP_HELD) == 0;
        }
    }
    if (length > stats->deepest)
        stats->deepest = length;
}

static int tree_walk(const struct walk *walk, void *at, unsigned level)
{
    int rc = 0;

    if (level == walk->shard->depth) {
        if (walk->fn == NULL)
            count_chain(walk->stats, at);
        else
            for (struct dht_record *record = at; record != NULL && rc == 0;
                 record = record->next)
                rc = walk->fn(record, walk->arg);
        return rc;
    }
    struct tree_node *node = at;
    uint32_t n = node->cap == walk->shard->bins ? node->cap : node->used;
    for (uint32_t i = 0; i < n && rc == 0; i++)
        if (node->child[i] != NULL)
            rc = tree_walk(walk, node->child[i], level + 1);
    return rc;
}

int dht_shard_foreach(struct dht_shard *shard,
                      int (*fn)(struct dht_record *record, void *arg), void *arg)
{
    struct walk walk = {.shard = shard, .fn = fn, .arg = arg};
    return shard->root != NULL ? tree_walk(&walk, shard->root, 0) : 0;
}

void dht_shard_get_stats(struct dht_shard *shard, struct dht_shard_stats *stats)
{
    struct walk walk = {.shard = shard, .stats = stats};

    memset(stats, 0, sizeof(*stats));
    stats->nodes = shard->nodes;
    stats->bytes =
        shard->bytes + (shard->index != NULL ? dht_index_bytes(shard->index) : 0);
    stats->inlined_files = shard->inlined.files;
    stats->inlined_bytes = shard->inlined.bytes;
    stats->lookups = shard->lookups;
    stats->passed = shard->passed;
    stats->comparisons = shard->comparisons;
    stats->false_matches = shard->false_matches;
    memcpy(stats->ended_at, shard->ended_at, sizeof(stats->ended_at));
    if (shard->root != NULL)
        tree_walk(&walk, shard->root, 0);
}
