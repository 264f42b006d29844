/*
 * engine/inspect/dump_impl.h - private to dump.c, dump_key.c and dump_check.c
 */
#ifndef DYAD_ENGINE_INSPECT_DUMP_IMPL_H
#define DYAD_ENGINE_INSPECT_DUMP_IMPL_H

#include <jansson.h>

#include "engine/core/member.h"

/* Items are added while a page's text is at most this long: one of any size still fits.
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
/* "hash", "bins" and "homes". */
void dump_set_hashes(struct member *member, json_t *object, const char *upath);
json_t *dump_version_json(const struct dyad_version *version);
json_t *dump_entry_json(struct member *member, const struct dht_record *record);
/* Look-ups of other ranks that wait here; now: util_clock_now(). */
json_t *dump_waiters_json(const struct dht_record *record, uint64_t now);
/* The member's description of itself, and those parts of its shard that the flags of
 * `ask` name. `more` may be NULL if no entries are asked for. */
json_t *dump_page_json(struct member *member, const struct net_msg *ask, bool *more);
/* Send the page to the asker. Takes the reference to `page`. */
void dump_reply(struct member *member, const struct net_msg *ask, json_t *page, bool more);

/* --- dump_key.c --- */

/* "key" of a page. */
json_t *dump_key_json(struct member *member, const char *upath);

/* --- dump_check.c --- */

/* Answer a DUMP with NET_DUMP_CHECK or NET_DUMP_WRITER after a look at the disk. 0 or -1
 * ENOMEM. */
int dump_check_serve(struct member *member, const struct net_msg *msg);

#endif
