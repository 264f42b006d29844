/*
 * engine/core/joined_writers.h - files that several nodes write, each into one of its own: what
 * the homes are told of this rank
 *
 * Loop thread.
 */
#ifndef DYAD_ENGINE_CORE_JOINED_WRITERS_H
#define DYAD_ENGINE_CORE_JOINED_WRITERS_H

#include "engine/core/member.h"

/* A look-up has told the homes of an open that may make upath, whose mark is yet to come. */
void joined_writers_noted(struct member *member, const char *upath);
/* True if that was a moment ago. */
bool joined_writers_is_noted(const struct member *member, const char *upath);
/* That open has its mark by now, as a rule: it is being closed. */
void joined_writers_opened(struct member *member, const char *upath);
/* A process of this rank is about to open the file, in which it changes what is there: tell the homes. flags:
 * NET_WRITING_NEWEST: they are to say (ESTALE) if what is here is not; NET_WRITING_WAITED: readers wait for it, though
 * a version is published. fn, 0 or -1: as dht_node_writing_from(). */
int joined_writers_begin(struct member *member, enum engine_role role, const char *upath,
                         uint8_t flags, dht_writing_fn fn, void *arg);
/* A process of this rank does not write upath any more, and no publish has told the homes: they are
 * told if nobody of this node does. fn (may be NULL) is called when they know, or cannot be told. */
void joined_writers_closed(struct member *member, const char *upath, dht_writing_fn fn,
                           void *arg);
/* A process that opens upath has no mark yet: call fn, some milliseconds from now; once, if that is
 * asked for more than once until then, with one fn. */
void joined_writers_later(struct member *member, const char *upath,
                          void (*fn)(void *member, const char *upath));
/* True if both ranks are of one node, and have a storage in common. */
bool joined_writers_are_beside(const struct net_peer *a, const struct net_peer *b);
/* True if a process of this node has upath open for writing, opens it, or was killed over it; *info: the
 * first of them, with the inode of the file also if that one is only about to open it (0: there is no file). */
bool joined_writers_find(const struct member_dmd *dmd, const char *upath,
                         struct store_mark_info *info);

#endif
