/*
 * store/cache_table.h - answers of look-ups that the members of a node share
 *
 * A table in `.dyad/`, `answers-BOOT`, is mapped shared by every member of this node: a
 * member that asked the homes of a name and may keep the answer puts it there, and the
 * others of its session look there before they ask. An answer lives no longer than the
 * member that put it: the death of the member, of whatever kind, makes its answers void
 * before anybody outside of the node can know of the death. The caller decides when an
 * answer is true (dht/node_lookup_cache.c). All functions keep errno unless they fail.
 */
#ifndef DYAD_STORE_CACHE_TABLE_H
#define DYAD_STORE_CACHE_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/dmd.h"
#include "util/answer.h"

/* Longer upaths are not shared. */
#define STORE_ANSWERS_UPATH_MAX 224

/* The functions of one object are for one thread, the one that made it: its end counts as
 * the member's. Different objects, of one process or of many, may be used at once; none
 * ever waits for another, wherever that one is stopped or killed. */
struct store_answers;

/* Map the table of this node; make it if there is none. Members with the same `session`
 * (any `len` bytes) use each other's answers: a rank's number must mean the same rank to
 * all of them. NULL with errno, not logged: without the table each member asks by itself.
 */
struct store_answers *store_answers_create(const struct store_dir *dir, const void *session,
                                           size_t len);
/* Make all answers of this object void, and free it.  NULL is allowed. */
void store_answers_destroy(struct store_answers *answers);

/* Put an answer, in the place of any other for upath.  Returns what store_answers_drop()
 * needs, or 0: it is not shared (the name is too long, the place is taken by others, too
 * many members).  Never fails otherwise; ~0.1 us. */
uint64_t store_answers_put(struct store_answers *answers, const char *upath,
                           const struct dyad_answer *answer);
/* After this no store_answers_get() that begins finds the answer.  Nothing happens if
 * another one has taken its place. */
void store_answers_drop(struct store_answers *answers, uint64_t put);
/* A home has told this member at `now` that upath is published, or that it is not. An
 * answer that says otherwise and was asked for before `now` may be older, and is not
 * found any more. */
void store_answers_heard(struct store_answers *answers, const char *upath, uint64_t now,
                         bool published);
/* When a home last told any member so, of this name or of one that shares its place. */
uint64_t store_answers_heard_at(const struct store_answers *answers, const char *upath,
                                bool published);
/* The answer to upath that a living member of the session has put and not dropped, if it
 * counts at `now` (util_clock_now()).  ~0.1 us. */
bool store_answers_get(struct store_answers *answers, const char *upath, uint64_t now,
                       struct dyad_answer *answer);

#endif
