/*
 * engine/fetch/serve.h - answering GETs
 */
#ifndef DYAD_ENGINE_FETCH_SERVE_H
#define DYAD_ENGINE_FETCH_SERVE_H

#include "engine/core/member.h"

/* GET_DIRECT, in a promoted guest. */
void serve_get_direct(struct member *member, const struct net_msg *msg);
/* serve_absent_owner.c: what GETs ask for that wait was found, or (error) it is not here.
 */
void serve_searched(struct member *member, const struct dyad_entry *entry, int error);
void serve_stop(struct member *member);

#endif
