/*
 * dht/shard.h - the part of the table that one rank holds
 *
 * A tree of `depth` levels with `bins` children each, made as keys come (nodes are sparse).
 * Its leaves hold chains that compare the full hash, then the string. An entry also carries
 * the waiters for its upath and the ranks that hold copies. Not thread-safe: belongs to the
 * loop.
 */
#ifndef DYAD_DHT_SHARD_H
#define DYAD_DHT_SHARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dht/inlined.h"
#include "dht/key.h"
#include "util/entry.h"

struct dht_shard;

/* Of one rank, and of those that wait for files: each is an open that a thread of the rank waits in. Of
 * ranks that hold copies (NET_LOOKUP_HELD) any number is kept, as of entries: they would use what is outdated. */
#define DHT_WAITERS_MAX 131072u

struct dht_waiter {
    struct dht_waiter *prev, *next; /* utlist */
    uint32_t rank;
    uint64_t id;   /* of the LOOKUP */
    uint8_t flags; /* NET_LOOKUP_* of the LOOKUP */
    bool counted;  /* for DHT_WAITERS_MAX */
    struct dyad_version newer_than;
    uint64_t since; /* util_clock_now() */
};

struct dht_record {
    struct dyad_entry entry;    /* entry.upath points at this record's own copy */
    uint64_t hash;              /* dht_key.full */
    struct dht_waiter *waiters; /* utlist doubly linked list */
    uint32_t *holders;          /* ranks that hold a copy of entry.version; ascending */
    uint32_t nholders;
    uint32_t owner_incarnation; /* of the owner when it last published this version */
    struct dht_record *next;    /* chain of the leaf */
    struct dht_directory *dir;  /* index.c; NULL: it is in no listing */
    struct dht_record *dir_prev, *dir_next;
    uint64_t dir_number;
    struct dht_inlined_file *inlined; /* bytes of entry.version; NULL: none are kept */
    void *user; /* of the module that uses the shard (node_invalidate.c); NULL at first */
    char upath[];
};

struct dht_shard_stats {
    uint64_t entries;    /* published */
    uint64_t tombstones; /* withdrawn */
    uint64_t waiters;    /* without holders of what has not come here */
    uint64_t occupied;   /* leaves with a record */
    uint64_t nodes;      /* tree nodes */
    uint64_t deepest;    /* longest chain */
    uint64_t bytes;      /* of tree, records and index, without malloc's own */
    uint64_t inlined_files, inlined_bytes; /* struct dht_inlined */
    uint64_t lookups;                      /* searches, those of insert included */
    uint64_t passed;                       /* full hashes that were looked at in leaves */
    uint64_t comparisons, false_matches;   /* strings compared; of these unequal */
    uint64_t ended_at[DHT_DEPTH_MAX +
                      1]; /* searches that ended at each level; [depth]: at a leaf */
};

struct dht_shard *dht_shard_create(unsigned depth,
                                   unsigned bins); /* NULL: EINVAL, ENOMEM */
void dht_shard_destroy(struct dht_shard *shard);

/* The record of a upath or NULL. */
struct dht_record *dht_shard_find(struct dht_shard *shard, const struct dht_key *key,
                                  const char *upath);
/* The record of a upath, made (state DYAD_ENTRY_NONE) if it is not there. NULL: ENOMEM. */
struct dht_record *dht_shard_insert(struct dht_shard *shard, const struct dht_key *key,
                                    const char *upath);
/* Free a record, its waiters and its holders; an earlier pointer to another record stays
 * valid. */
void dht_shard_remove(struct dht_shard *shard, struct dht_record *record);

/* Keep a waiter; one that is there already (rank, id) is brought up to date but keeps its
 * `since`. 0 or -1: ENOMEM; the rank has DHT_WAITERS_MAX of them. */
int dht_shard_add_waiter(struct dht_shard *shard, struct dht_record *record, uint32_t rank,
                         uint64_t id, uint8_t flags, const struct dyad_version *newer_than,
                         uint64_t now);
/* Take a waiter out of the record, and free it. */
void dht_shard_free_waiter(struct dht_shard *shard, struct dht_record *record,
                           struct dht_waiter *waiter);
/* Drop a waiter; false if it is not there. */
bool dht_shard_drop_waiter(struct dht_shard *shard, struct dht_record *record,
                           uint32_t rank, uint64_t id);
int dht_shard_add_holder(struct dht_record *record,
                         uint32_t rank); /* idempotent; 0 or -1 ENOMEM */

/* Keep an index of directories from now on; the shard must be empty. 0 or -1 ENOMEM. */
int dht_shard_keep_index(struct dht_shard *shard);
/* Put a record into the listing of its directory, or take it out. Nothing without an index.
 * 0 or -1 ENOMEM (never for `listed` false). */
int dht_shard_set_listed(struct dht_shard *shard, struct dht_record *record, bool listed);
/* Where a listing goes on; all zero: at the start. */
struct dht_list_at {
    uint64_t after; /* number of the last record that was given */
    uint64_t end;   /* records that came later than the listing began are not given */
};
/* Call fn for each record that is listed directly below `parent` ("": the top), from *at
 * on; name is its last component. If fn returns non-zero the page ends before that record:
 * true, *at is where the next page begins. False: that was all. A record that is listed
 * from the first page to the last comes exactly once, and a listing ends whatever is added
 * meanwhile. fn must not change the shard. */
bool dht_shard_list(struct dht_shard *shard, const char *parent, struct dht_list_at *at,
                    int (*fn)(const char *name, const struct dyad_entry *entry, void *arg),
                    void *arg);

/* Keep bytes of small files from now on, at most `max` in all. */
void dht_shard_keep_inlined(struct dht_shard *shard, uint64_t max);
/* dht_inlined_set() */
void dht_shard_set_inlined(struct dht_shard *shard, struct dht_record *record,
                           const void *bytes, size_t len, uint64_t digest);
/* Call fn for each record with bytes until it returns non-zero; returns that. fn must not
 * insert or remove, or set the bytes of another one. */
int dht_shard_foreach_inlined(struct dht_shard *shard,
                              int (*fn)(struct dht_record *record, void *arg), void *arg);

/* Call fn for each record until it returns non-zero; returns that. fn must not insert or
 * remove. */
int dht_shard_foreach(struct dht_shard *shard,
                      int (*fn)(struct dht_record *record, void *arg), void *arg);

/* Counts by walking the shard (some 0.1 s per million records): for dumps. */
void dht_shard_get_stats(struct dht_shard *shard, struct dht_shard_stats *stats);

#endif
