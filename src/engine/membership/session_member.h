/*
 * engine/membership/session_member.h - with DYAD_SESSION_DIR, in place of PMIx;
 * member->ring is NULL without
 */
#ifndef DYAD_ENGINE_MEMBERSHIP_SESSION_MEMBER_H
#define DYAD_ENGINE_MEMBERSHIP_SESSION_MEMBER_H

#include "engine/core/member.h"

/* 0 or -1, logged. */
int member_session_start(struct member *member);
/* `leave`: for good, so the slot is free again. */
void member_session_destroy(struct member *member, bool leave);
/* Ask for the blob of a slot, as boot_pmix_get(). */
void member_session_get(struct member *member, uint32_t slot);
/* The connection to it broke. True: it is not to be waited for, as one on its way through
 * exec is. */
bool member_session_peer_down(struct member *member, uint32_t slot);
/* It answers, with the incarnation that it had or a higher one. */
void member_session_peer_up(struct member *member, const struct net_peer *peer);

#endif
