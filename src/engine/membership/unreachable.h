/*
 * engine/membership/unreachable.h - which ranks cannot be reached, for how long, and
 * asking whether that is still so
 */
#ifndef DYAD_ENGINE_MEMBERSHIP_UNREACHABLE_H
#define DYAD_ENGINE_MEMBERSHIP_UNREACHABLE_H

#include "engine/core/member.h"

/* Since when the rank cannot be reached (util_clock_now()); 0: it can, as far as we know.
 */
uint64_t unreachable_since(const struct member *member, uint32_t rank);
/* Somebody needs the rank, which is lost: ask now whether it answers. */
void unreachable_ask(struct member *member, uint32_t rank);
/* The rank has not answered in time: send a PING. If nothing at all comes from it in the
 * same time again it is taken for dead. */
void unreachable_suspect(struct member *member, uint32_t rank);
/* unserved: a fetch from the rank was given up without an answer; may report the rank as
 * lost, so the caller does nothing after it. served: the rank answered a fetch. `size`:
 * of the largest message that was expected, or came. */
void unreachable_unserved(struct member *member, uint32_t rank, uint64_t size);
void unreachable_served(struct member *member, uint32_t rank, uint64_t size);
/* True if the rank cannot be reached, and is not known to be dead. */
bool unreachable_is_missing(const struct member *member, uint32_t rank);
/* True if nobody listens at the rank's address, and it has not come back from an exec. */
bool unreachable_has_ended(const struct member *member, uint32_t rank);
/* A rank that cannot be reached and is not known to be dead; `long_ago`: one that has
 * been lost for longer than DYAD_JOIN_TIMEOUT. DYAD_RANK_NONE: there is none. */
uint32_t unreachable_missing(const struct member *member, bool long_ago);

/* The rank, which was live, has lost its connection or is taken for dead. */
void unreachable_add(struct member *member, uint32_t rank);
/* The rank is about to become live in the table. */
void unreachable_found(struct member *member, const struct net_peer *peer);
/* The rank can be reached again. */
void unreachable_back(struct member *member, uint32_t rank);
/* The rank has left for good. True: its return was still awaited. */
bool unreachable_forget(struct member *member, uint32_t rank);
/* A message came from the rank although it is taken for dead. */
void unreachable_heard(struct member *member, uint32_t rank);
/* True if a connection begun at `begun`, which failed now, failed since nobody listens.
 */
bool unreachable_refused(const struct member *member, uint32_t rank, uint64_t begun);
/* The rank did not answer our request whether it lives. */
void unreachable_unanswered(struct member *member, uint32_t rank);
/* True for DYAD_JOIN_TIMEOUT: the rank may be in exec, or beyond a cut. */
bool unreachable_may_return(const struct member *member, uint32_t rank);

/* The rank lives as far as we know: let it answer a PING, or be taken for dead. False: it
 * has been asked already, or cannot be. */
bool unreachable_prove(struct member *member, uint32_t rank);
bool unreachable_is_suspect(const struct member *member, uint32_t rank);
/* True if it has been asked so, and nothing has come from it since: not only no answer. */
bool unreachable_is_silent(const struct member *member, uint32_t rank);
/* kept: the only address of the rank is the one that the launcher's server here has kept.
 */
void unreachable_kept(struct member *member, uint32_t rank, bool kept);
/* When the rank, which is lost, was last asked; 0 if it is not lost. */
uint64_t unreachable_asked_at(const struct member *member, uint32_t rank);
/* The rank is gone for good: its return from exec is no longer awaited. */
void unreachable_gone(struct member *member, uint32_t rank);

#endif
