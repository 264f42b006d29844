/*
 * dht/node_written.h - as a home: which ranks write a file; private to node_writers.c
 *
 * All of it belongs to the loop's thread. Each upath that is written, was abandoned or is waited for has one
 * object; written_free_empty() when that may be over.
 */
#ifndef DYAD_DHT_NODE_WRITTEN_H
#define DYAD_DHT_NODE_WRITTEN_H

#include "dht/node_core.h"

struct writer {
    uint64_t since; /* writers_note() */
    uint64_t id; /* of the message by which it began; those of a rank rise. 0: not known */
    uint32_t rank;
    struct dyad_version found; /* that was published when it began */
    bool abandoned;
    bool overwritten; /* a version was published since it began, ... */
    bool joined;      /* ... but each writes into a file of its own: so by this rank only */
    bool removed;     /* joined, and another node has removed the name since */
    bool adds; /* joined, to a published version, which is whole without what it writes */
    bool
        quiet; /* joined, and changes a published version, as no other node does yet: nobody waits for it */
};

/* Of one rank: as DHT_WAITERS_MAX. Of writers any number is kept, as of files that are open. */
#define ASKERS_MAX DHT_WAITERS_MAX

struct asker {
    uint32_t rank;
    uint64_t id;
};

struct written {
    UT_hash_handle hh; /* by upath */
    struct writer *writers;
    struct asker *askers;
    unsigned nwriters, naskers;
    struct dyad_base root; /* what the first of them has found; DYAD_BASE_NONE: not known */
    char upath[];
};

/* NULL: there is none. */
struct written *written_find(const struct dht_node *node, const char *upath);
/* The same, made if there is none. NULL: ENOMEM. */
struct written *written_get(struct dht_node *node, const char *upath);
void written_free(struct dht_node *node, struct written *written);
/* ... if it has neither writers nor askers. */
void written_free_empty(struct dht_node *node, struct written *written);
/* What all who join write are changes of what the first one has found; if that is not known, of what the first
 * one has that is known to have the `newest`. */
void written_set_root(struct written *written, const struct dyad_base *found, bool newest);
/* Nobody of that rank's node, each into the node's one file, writes it any more, as the rank has found at
 * `looked`. Who has begun since is not seen by that, though its message may be here first. `id` is of the message that says
 * so. */
void written_remove_node(const struct dht_node *node, struct written *written,
                         uint32_t rank, uint64_t id, uint64_t looked);
/* The record of upath, or NULL. */
const struct dht_record *written_record(const struct dht_node *node, const char *upath);
/* The published version, or NULL. */
const struct dyad_entry *written_published(const struct dht_node *node, const char *upath);
/* The version that a writer that begins now finds published; or none. */
struct dyad_version written_found(const struct dht_node *node, const char *upath);
/* True if the two are ranks of one node. */
bool written_is_beside(const struct dht_node *node, uint32_t rank, uint32_t other);

/* A writer's pointer holds until the next _get() or _remove(). _find: NULL: none. _get: one that begins now,
 * if there was none; NULL: ENOMEM. */
struct writer *writer_find(struct written *written, uint32_t rank);
struct writer *writer_get(const struct dht_node *node, struct written *written,
                          uint32_t rank);
void writer_remove(struct written *written, struct writer *writer);
/* A live writer other than `but`, for whom readers wait; NULL: none. */
struct writer *writer_live(struct written *written, uint32_t but);
/* The next one, from *i on, that writes it into a file of another node than that of `rank`, or
 * NULL. */
const struct writer *writer_elsewhere(const struct dht_node *node,
                                      const struct written *written, uint32_t rank,
                                      unsigned *i);

#endif
