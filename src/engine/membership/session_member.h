/*
 * engine/membership/session_member.h - membership by a session directory, in place of
 * PMIx; member->ring is NULL without DYAD_SESSION_DIR
 */
#ifndef DYAD_ENGINE_MEMBERSHIP_SESSION_MEMBER_H
#define DYAD_ENGINE_MEMBERSHIP_SESSION_MEMBER_H

#include "engine/core/member.h"

/* Begin to join. 0, or -1 after a log line. */
int member_session_start(struct member *member);
/* `leave`: the member leaves for good, and its slot becomes free. */
void member_session_destroy(struct member *member, bool leave);
/* After an abort() of UCX's: the directory is not looked at any more. Its entry stays: another member follows, or
 * the claim says that this one is dead. */
void member_session_aborted(struct member *member);
/* Ask for the blob of a slot, as boot_pmix_get(). */
void member_session_get(struct member *member, uint32_t slot);
/* The connection to that rank broke. True: it is not to be waited for, as a rank on its
 * way through exec would be. */
bool member_session_peer_down(struct member *member, uint32_t slot);
/* The rank answers, with the incarnation that it had or a higher one. */
void member_session_peer_up(struct member *member, const struct net_peer *peer);

#endif
