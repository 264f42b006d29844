/*
 * engine/inspect/dump_impl.h - between dump.c and dump_check.c, for nobody else
 */
#ifndef DYAD_ENGINE_INSPECT_DUMP_IMPL_H
#define DYAD_ENGINE_INSPECT_DUMP_IMPL_H

#include <jansson.h>

#include "engine/core/member.h"

/* Text of a page up to which another item is added: one of any size still fits behind it.
 */
#define DUMP_PAGE_MAX (NET_MSG_BLOB_MAX - 12288)

struct dump {
    struct dump_request *requests; /* utlist: dump.c */
    struct dump_check *checks;     /* utlist: dump_check.c */
};

/* --- dump.c: parts of a page (docs/dht-dump.md) --- */

/* "upath", or "upath_hex" where it is not UTF-8. */
void dump_set_name(json_t *object, const char *upath);
/* "homes", as this rank computes them. */
void dump_set_homes(struct member *member, json_t *object, const char *upath);
json_t *dump_version_json(const struct dyad_version *version);
/* What the member says of itself, and what the flags of `ask` want of its shard. `more` may
 * be NULL where no entries are asked for. */
json_t *dump_page_json(struct member *member, const struct net_msg *ask, bool *more);
/* Send the page (taken) to who asked. */
void dump_reply(struct member *member, const struct net_msg *ask, json_t *page, bool more);

/* --- dump_check.c --- */

/* A DUMP with NET_DUMP_CHECK or NET_DUMP_WRITER: answered when the disk was looked at. 0 or
 * -1 ENOMEM. */
int dump_check_serve(struct member *member, const struct net_msg *msg);

#endif
