/*
 * engine/fetch/consume_probe.h - asking for signs that an unpublished name will come
 */
#ifndef DYAD_ENGINE_FETCH_CONSUME_PROBE_H
#define DYAD_ENGINE_FETCH_CONSUME_PROBE_H

#include "engine/core/member.h"

/* Signs that a name which is not published will come, or will not. */
enum consume_says {
    CONSUME_SAYS_WRITTEN = 1 << 0, /* a node has it open for writing */
    /* Another rank, or this one, has published a file of the same series, and is not at
     * its exit. */
    CONSUME_SAYS_SERIES = 1 << 1,
    CONSUME_SAYS_OWN_SERIES = 1 << 2,
    CONSUME_SAYS_FAILED = 1 << 3,  /* a wait for one like it was ended */
    CONSUME_SAYS_UNKNOWN = 1 << 4, /* not all ranks have answered */
    CONSUME_SAYS_JOINS = 1 << 5,   /* it is written by the program, and may be joined */
};
/* Ask all ranks, also about writers that run the program of `pid` (0: do not; -1: any). fn is called
 * once with a set of these, not before this returns. upath must last as long. NULL: ENOMEM. */
typedef void (*consume_probe_fn)(void *arg, unsigned says);
struct consume_probe *consume_probe_start(struct member *member, const char *upath,
                                          pid_t pid, consume_probe_fn fn, void *arg);
void consume_probe_cancel(struct consume_probe *probe);
/* note: a wait for upath was ended, since no rank was left that could publish. like: true
 * if one was for a file called `name`, or of the same series, in whatever directory. */
void consume_failed_note(struct member *member, const char *upath);
bool consume_failed_like(const struct member *member, const char *name);

#endif
