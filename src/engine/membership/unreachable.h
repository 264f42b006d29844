/*
 * engine/membership/unreachable.h - who cannot be reached, for how long, and asking whether
 * that is still so
 */
#ifndef DYAD_ENGINE_MEMBERSHIP_UNREACHABLE_H
#define DYAD_ENGINE_MEMBERSHIP_UNREACHABLE_H

#include "engine/core/member.h"

/* Since when the rank cannot be reached (util_clock_now()); 0: it can, as far as we know.
 */
uint64_t unreachable_since(const struct member *member, uint32_t rank);
/* Somebody needs the rank, which is lost: ask now whether it is there. */
void unreachable_ask(struct member *member, uint32_t rank);
/* It has not answered in time: if nothing at all is heard of it in the same time again it
 * is taken for dead. */
void unreachable_suspect(struct member *member, uint32_t rank);
/* A fetch from it was given up without an answer; last act of the caller, as it may bring
 * the news that the rank is lost. And: it did answer one. `size`: of the largest message
 * that was to come, or came. */
void unreachable_unserved(struct member *member, uint32_t rank, uint64_t size);
void unreachable_served(struct member *member, uint32_t rank, uint64_t size);
/* It cannot be reached, and is not known to be dead. */
bool unreachable_is_missing(const struct member *member, uint32_t rank);
/* Nobody listens at its address, and it has not come back from an exec. */
bool unreachable_has_ended(const struct member *member, uint32_t rank);
/* Of the ranks that cannot be reached, one that is not known to be dead; `long_ago`: for
 * longer than DYAD_JOIN_TIMEOUT. DYAD_RANK_NONE: there is none. */
uint32_t unreachable_missing(const struct member *member, bool long_ago);

/* The rank's connection broke, or it is taken for dead; it was live. */
void unreachable_add(struct member *member, uint32_t rank);
/* It is about to be live in the table. */
void unreachable_found(struct member *member, const struct net_peer *peer);
/* It is there. */
void unreachable_back(struct member *member, uint32_t rank);
/* It has left for good: nothing is expected of it. True: its return was. */
bool unreachable_forget(struct member *member, uint32_t rank);
/* Something came from it although it is taken for dead. */
void unreachable_heard(struct member *member, uint32_t rank);
/* A connection that was begun then has failed now: because nobody listens there? */
bool unreachable_refused(const struct member *member, uint32_t rank, uint64_t begun);
/* A question of ours found nobody. */
void unreachable_unanswered(struct member *member, uint32_t rank);
/* May it be on its way through exec, or beyond a cut? For DYAD_JOIN_TIMEOUT it may. */
bool unreachable_may_return(const struct member *member, uint32_t rank);

/* It is there as far as we know: let it say something, or be taken for dead. False: it has
 * been asked, or cannot be. */
bool unreachable_prove(struct member *member, uint32_t rank);
bool unreachable_is_suspect(const struct member *member, uint32_t rank);
/* Is its address what the launcher's server on this node has kept, and no more? */
void unreachable_kept(struct member *member, uint32_t rank, bool kept);
/* When it was asked last, of one that is lost; else 0. */
uint64_t unreachable_asked_at(const struct member *member, uint32_t rank);
/* It is gone for good: nobody waits for its return from exec. */
void unreachable_gone(struct member *member, uint32_t rank);

#endif
