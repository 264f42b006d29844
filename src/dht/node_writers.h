/*
 * dht/node_writers.h - as a home: the ranks that write a file, and those that wait for
 * the end of that; private to dht/
 */
#ifndef DYAD_DHT_NODE_WRITERS_H
#define DYAD_DHT_NODE_WRITERS_H

#include "dht/node_core.h"

/* The version `entry`, which rank `by` has told, is in force: it is not abandoned any more. base->ends: that
 * rank's node does not write it any more, as was found at base->looked. If it is a removal, what ranks of
 * other nodes write together is a removed file, until they open the name anew or one of their node
 * publishes. */
void writers_published(struct dht_node *node, const struct dyad_entry *entry, uint32_t by,
                       const struct dyad_base *base);
#define WRITERS_UNMARKED UINT64_MAX
/* That rank opens upath for writing; others may do so, too. `since` when its node knows that, by its
 * clock, or WRITERS_UNMARKED: not yet. `id` is of the message that says so; 0: of none of that rank's. */
void writers_note(struct dht_node *node, const char *upath, uint32_t rank, uint64_t id,
                  uint64_t since);
/* True if a rank other than `but` writes upath into a file of its own, or has died over that
 * and nobody has published it since: readers wait for that. */
bool writers_join(struct dht_node *node, const char *upath, uint32_t but);
/* True if a rank of another node than that of `rank` does so. */
bool writers_elsewhere(struct dht_node *node, const char *upath, uint32_t rank);
/* True if what `rank`, and all others of its node, have declared that they write was removed. */
bool writers_are_removed(struct dht_node *node, const char *upath, uint32_t rank);
/* Answer a PUBLISH; with 0 it says also whether others write the file. */
void node_reply_publish(struct dht_node *node, uint32_t rank, uint64_t id, int status,
                        const struct dyad_entry *entry);

#endif
