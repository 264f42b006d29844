/*
 * engine/membership/unjoined.h - ranks that the launcher knows no address of
 */
#ifndef DYAD_ENGINE_MEMBERSHIP_UNJOINED_H
#define DYAD_ENGINE_MEMBERSHIP_UNJOINED_H

#include "engine/core/member.h"

/* How long the launcher's answer may take before its server on this node is believed. */
uint64_t unjoined_patience(const struct member *member);
/* Ask the launcher for a rank. 0 or -1. */
int unjoined_ask(struct member *member, uint32_t rank);
/* It has none, as far as it says: never joined, or beyond a cut. Here it is decided. */
void unjoined_unanswered(struct member *member, uint32_t rank, int error);
/* A rank that is lost, and of which there is no address, or one that may be out of date. */
void unjoined_ask_again(struct member *member, uint32_t rank);

#endif
