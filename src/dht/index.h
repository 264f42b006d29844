/*
 * dht/index.h - which records of a shard lie directly below which directory
 *
 * Private to src/dht: a shard keeps an index if listings are on. A directory exists as
 * long as a record below it does. Not thread-safe: belongs to the loop.
 */
#ifndef DYAD_DHT_INDEX_H
#define DYAD_DHT_INDEX_H

#include <stdbool.h>
#include <stdint.h>

#include "dht/shard.h"

struct dht_index;

struct dht_index *dht_index_create(void); /* NULL: ENOMEM */
/* The records stay, as if they had never been added. */
void dht_index_destroy(struct dht_index *index);

/* Idempotent. 0 or -1 ENOMEM. */
int dht_index_add(struct dht_index *index, struct dht_record *record);
/* Idempotent. */
void dht_index_remove(struct dht_index *index, struct dht_record *record);

/* As dht_shard_list(). */
bool dht_index_list(struct dht_index *index, const char *parent, struct dht_list_at *at,
                    int (*fn)(const char *name, const struct dyad_entry *entry, void *arg),
                    void *arg);
/* Bytes of the directories, without malloc's own and the hash table's. */
uint64_t dht_index_bytes(const struct dht_index *index);

#endif
