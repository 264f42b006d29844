/*
 * engine/fetch/prefetch.h - the next files of a series are brought here before they are
 * asked for
 *
 * All functions: loop's thread.
 */
#ifndef DYAD_ENGINE_FETCH_PREFETCH_H
#define DYAD_ENGINE_FETCH_PREFETCH_H

#include "engine/core/member.h"

/* A process of this rank asks for upath, which is not here. */
void prefetch_asked(struct member *member, const char *upath);
/* It is here, and about to be opened. */
void prefetch_opened(struct member *member, const char *upath);
/* This member is about to open its copy of upath itself, for another rank (relay.c). Opens
 * of it are not noticed any more: the reader's next open that has to ask moves the window. */
void prefetch_is_read(struct member *member, const char *upath);
/* Bring upath when it is published, series or not; with DYAD_PREFETCH=off nothing is done.
 * Of many, the last 256 are brought. 0 or -1 ENOMEM. */
int prefetch_want(struct member *member, const char *upath);
/* The patterns of names that are to be brought, separated by ':', or NULL. */
const char *prefetch_patterns(const struct member *member);
/* A real fetch may have ended: prefetches that gave way to it may begin. */
void prefetch_resume(struct member *member);
/* For DYAD_STATS and the dump; `unused`: bytes that were brought and not opened so far. */
struct prefetch_info {
    uint64_t files, hits, unused;
    unsigned series, awaited; /* series at present; names that homes are asked for */
};
void prefetch_get_info(struct member *member, struct prefetch_info *info);

#endif
