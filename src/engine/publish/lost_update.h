/*
 * engine/publish/lost_update.h - a publish that would lose what another node has written;
 * private to publish/, but for lost_update_say()
 */
#ifndef DYAD_ENGINE_PUBLISH_LOST_UPDATE_H
#define DYAD_ENGINE_PUBLISH_LOST_UPDATE_H

#include "engine/publish/produce_impl.h"

/* A version of p was refused for `there`, and is to go on as `go` says: what is to be done,
 * if that entry has come between the version and its base. As dht_ahead_fn. */
enum dht_ahead lost_update_judge(struct produce *p, const struct dyad_entry *there,
                                 enum dht_ahead go, struct dyad_entry *entry,
                                 struct dyad_base *base);
/* All homes have acknowledged p. As dht_ahead_fn. */
enum dht_ahead lost_update_confirm(struct produce *p, struct dyad_entry *entry,
                                   struct dyad_base *base);
/* The publish has ended, and the mark is still there: see that nobody here takes the file
 * for the newest. */
void lost_update_settle(struct produce *p);
/* Say that upath of this node, below dmd, and the one of rank `other` (DYAD_RANK_NONE: not
 * known) are in conflict. */
void lost_update_say(struct member *member, const struct member_dmd *dmd, const char *upath,
                     uint32_t other);

/* Another node has removed the file while p's was open, whose mark has ended: it goes, or stays superseded
 * as long as others have it open for writing. */
void lost_update_removed(struct produce *p);

#endif
