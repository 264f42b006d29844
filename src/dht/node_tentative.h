/*
 * dht/node_tentative.h - when this rank's "not published" is tentative; private to dht/
 */
#ifndef DYAD_DHT_NODE_TENTATIVE_H
#define DYAD_DHT_NODE_TENTATIVE_H

#include "dht/node_core.h"

/* Why a rank owes us a RESYNCED. */
enum owed {
    OWED_BACK = 1,   /* live again: it has our RESYNC */
    OWED_MISSED = 2, /* it was missing while we may have been on the minority */
    OWED_JOINED = 4, /* dht_node_set_unsynced(); asked as soon as it is live */
    OWED_LATER = 8,  /* not waited for; OWED_JOINED when it is live again */
};

#define OWED_ASKED ((unsigned)(OWED_BACK | OWED_JOINED))
#define OWED_NOW   (OWED_ASKED | (unsigned)OWED_MISSED)

/* May we have missed what others published? */
bool tentative_is(const struct dht_node *node);
/* ... and may that be over soon? */
bool tentative_may_end(const struct dht_node *node);
/* Nobody is missing, and nobody owes us anything. */
bool tentative_all_synced(const struct dht_node *node);
enum dht_partition tentative_partition(const struct dht_node *node);

unsigned tentative_owed(const struct dht_node *node, uint32_t rank);
void tentative_set_owed(struct dht_node *node, uint32_t rank, unsigned owed);
/* The rank is gone, as far as is known. */
void tentative_put_off(struct dht_node *node, uint32_t rank);
/* Is there a rank that owes OWED_ASKED? */
bool tentative_any_asked(const struct dht_node *node);
/* The rank lives. True: it was missing. What it owes for that is to be set next. */
bool tentative_not_missing(struct dht_node *node, uint32_t rank);
/* Something was set: tell who waits for it if our answers are sure again; `was`: what
 * tentative_is() said before. */
void tentative_look(struct dht_node *node, bool was);

#endif
