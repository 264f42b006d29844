/*
 * engine/namespace/listing.h - the names that are published in a directory
 */
#ifndef DYAD_ENGINE_NAMESPACE_LISTING_H
#define DYAD_ENGINE_NAMESPACE_LISTING_H

#include "engine/core/member.h"

/* Of list_start(): any. */
#define LIST_ANY_PROGRAM UINT64_MAX

/* List the names published directly below upath ("": the DMD): page() for each page of
 * names that have not come yet (net_list_next() reads it), then done(). status: 0, or an
 * errno value: EHOSTUNREACH so many ranks are silent that names may be missing, ENOMEM.
 * Neither is called before this returns. `like` not NULL: ask instead whether that name
 * is likely to come (NET_LIST_LIKE), or is written by that program (util_proc_program(); 0:
 * do not ask). NULL: ENOMEM, ENOTSUP DYAD_LISTING is off. */
typedef void (*list_page_fn)(void *arg, const void *names, size_t len);
typedef void (*list_done_fn)(void *arg, int status);
struct list_request *list_start(struct member *member, const char *upath, const char *like,
                                uint64_t program, list_page_fn page, list_done_fn done,
                                void *arg);
void list_cancel(struct list_request *list);

#endif
