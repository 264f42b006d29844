/*
 * dht/node_tentative.h - when this rank's "not published" is tentative; private to dht/
 */
#ifndef DYAD_DHT_NODE_TENTATIVE_H
#define DYAD_DHT_NODE_TENTATIVE_H

#include "dht/node_core.h"

/* The reasons for which a rank owes us a RESYNCED. */
enum owed {
    OWED_BACK = 1,   /* live again: it has our RESYNC */
    OWED_MISSED = 2, /* it was missing while we may have been on the minority */
    OWED_JOINED = 4, /* dht_node_set_unsynced(); asked as soon as it is live */
    OWED_LATER = 8,  /* not waited for; OWED_JOINED when it is live again */
};

#define OWED_ASKED ((unsigned)(OWED_BACK | OWED_JOINED))
#define OWED_NOW   (OWED_ASKED | (unsigned)OWED_MISSED)

/* True if we may have missed what others published. */
bool tentative_is(const struct dht_node *node);
/* True if, also, that may be over soon. */
bool tentative_may_end(const struct dht_node *node);
/* True if no rank is missing, and none owes us a RESYNCED. */
bool tentative_all_synced(const struct dht_node *node);
enum dht_partition tentative_partition(const struct dht_node *node);

unsigned tentative_owed(const struct dht_node *node, uint32_t rank);
void tentative_set_owed(struct dht_node *node, uint32_t rank, unsigned owed);
/* The rank is gone, as far as is known. */
void tentative_put_off(struct dht_node *node, uint32_t rank);
/* True if a rank owes OWED_ASKED. */
bool tentative_any_asked(const struct dht_node *node);
/* The rank lives. True: it was missing, and the caller sets what it owes next. */
bool tentative_not_missing(struct dht_node *node, uint32_t rank);
/* The state was changed: send the event sure_again if our answers are sure again; `was`:
 * the result of tentative_is() before. */
void tentative_look(struct dht_node *node, bool was);

#endif
