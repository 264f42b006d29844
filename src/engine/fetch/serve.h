/*
 * engine/fetch/serve.h - answering GETs
 */
#ifndef DYAD_ENGINE_FETCH_SERVE_H
#define DYAD_ENGINE_FETCH_SERVE_H

#include "engine/core/member.h"

/* Answer a GET_DIRECT, in a promoted guest. */
void serve_get_direct(struct member *member, const struct net_msg *msg);
/* From serve_absent_owner.c: the file that waiting GETs ask for was found, or (error) is
 * not here. */
void serve_searched(struct member *member, const struct dyad_entry *entry, int error);
void serve_stop(struct member *member);

#endif
