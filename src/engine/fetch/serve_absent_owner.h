/*
 * engine/fetch/serve_absent_owner.h - files of other ranks of this node, served in their
 * place
 */
#ifndef DYAD_ENGINE_FETCH_SERVE_ABSENT_OWNER_H
#define DYAD_ENGINE_FETCH_SERVE_ABSENT_OWNER_H

#include "engine/core/member.h"

/* A GET asks us for a file that another rank of our node has published. 0: it is here,
 * *dmd and *record (its upath is not set) say where; EINPROGRESS: call this again after
 * serve_searched(); EHOSTUNREACH: it is not here; ENOMEM. */
int serve_absent_owner_find(struct member *member, const struct dyad_entry *entry,
                            struct member_dmd **dmd, struct store_record *record);

#endif
