/*
 * engine/promoted/promoted.h - promoted guests: processes that read many files fetch and
 * serve by themselves
 *
 * A guest that turns out long-lived and busy is promoted (client_promoted.c): a thread of
 * its own opens dyad/libdyad_member.so, makes a UCX worker and a line to the rank's
 * member. The member keeps all knowledge of files (shard, journal, publishes, look-ups,
 * waits); the guest only moves bytes, and knows nothing that the member does not.
 *
 * What could go wrong: the guest ends, execs or is killed. Then its line breaks: the
 * member takes up its fetches and serves its files. docs/engine.md, "Promoted guests".
 */
#ifndef DYAD_ENGINE_PROMOTED_PROMOTED_H
#define DYAD_ENGINE_PROMOTED_PROMOTED_H

#include "engine/core/member.h"

/* --- promoted_member.c: at the member --- */

struct promoted_link;
struct promoted_fetch;

/* status 0: fd is a complete temporary file for store_fetch_adopt(), the callee's. Else fd
 * is -1: ESTALE, EBUSY as of transfers; any other: the member has to fetch it itself. */
typedef void (*promoted_fetched_fn)(void *arg, int status, int fd);

/* A process asked to be a promoted guest over fd, which becomes the callee's. */
void promoted_link_accept(struct member *member, int fd, pid_t pid);
/* The member, asked for a file by a promoted guest, has it fetched by that guest, and
 * gets the complete temporary file with its lock; the member alone puts it into place and
 * keeps the record, as with its own fetches, so an invalidation in between is seen. NULL:
 * process pid is no promoted guest, or cannot fetch the entry. fn is called once, not
 * before this returns, unless promoted_fetch_forget() is called first. */
struct promoted_fetch *promoted_fetch_start(struct member *member, pid_t pid,
                                            const struct dyad_entry *entry,
                                            promoted_fetched_fn fn, void *arg);
void promoted_fetch_forget(struct promoted_fetch *fetch);
/* Process pid is about to publish upath. */
void promoted_produces(struct member *member, pid_t pid, const char *upath);
/* A member that is asked for a large file which a promoted guest produced names the guest
 * to the asker of GET `id` (REDIRECT), and the reader asks that one (GET_DIRECT). False:
 * there is no such guest, or it is not worth it. */
bool promoted_redirect(struct member *member, uint32_t rank, uint64_t id,
                       const struct store_record *record);

/* --- promoted_guest.c: in the promoted guest; see member_ops.h --- */

struct member_params;
struct promoted_guest *promoted_create(const struct member_params *params);
int promoted_run(struct promoted_guest *promoted);
void promoted_leave(struct promoted_guest *promoted, bool image_ends);
void promoted_nudge(struct promoted_guest *promoted);
void promoted_destroy(struct promoted_guest *promoted);

#endif
