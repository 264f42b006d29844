/*
 * engine/membership/unjoined.h - ranks that the launcher knows no address of
 */
#ifndef DYAD_ENGINE_MEMBERSHIP_UNJOINED_H
#define DYAD_ENGINE_MEMBERSHIP_UNJOINED_H

#include "engine/core/member.h"

/* How long the launcher's answer may take before its server on this node is believed. */
uint64_t unjoined_patience(const struct member *member);
/* Ask the launcher for the address of a rank. 0 or -1. */
int unjoined_ask(struct member *member, uint32_t rank);
/* The launcher has no address of the rank: decide whether it has never joined, or is
 * beyond a cut. */
void unjoined_unanswered(struct member *member, uint32_t rank, int error);
/* Ask again for a lost rank whose address is not known, or may be out of date. */
void unjoined_ask_again(struct member *member, uint32_t rank);

#endif
