/*
 * engine/fetch/consume.h - make a file present and complete on this node, or say why not
 */
#ifndef DYAD_ENGINE_FETCH_CONSUME_H
#define DYAD_ENGINE_FETCH_CONSUME_H

#include "engine/core/member.h"

/* A flag of consume_start(), beside those of net/msg.h: nobody waits for it. It ends at the
 * first failure, without a word to people, and lets fetches that somebody waits for go
 * first. */
#define CONSUME_BACKGROUND 0x80u

typedef void (*consume_fn)(void *arg, int status);
/* Bring upath here, complete. flags: NET_LOOKUP_WAIT, NET_CONSUME_WRITER,
 * CONSUME_BACKGROUND. EUCLEAN: with WRITER and NET_CONSUME_ANY: it is here, ahead of what is published, and
 * superseded. timeout_ms 0: none. pid and tid: the blocked process and thread. fn is not called before this
 * returns. NULL: ENOMEM. */
struct consume *consume_start(struct member *member, const char *upath, uint8_t flags,
                              uint64_t timeout_ms, pid_t pid, pid_t tid, consume_fn fn,
                              void *arg);
/* Where to say, before fn(arg, EUCLEAN) is called, of which version it is ahead. Not if it ends otherwise. */
void consume_set_ahead(struct consume *consume, struct dyad_version *ahead);
void consume_cancel(struct consume *consume);
/* True if a file is being fetched for a process of this rank. */
bool consume_is_fetching(const struct member *member);
/* newer->upath has a newer version: an older one that was found must not be fetched. */
void consume_invalidate(struct member *member, const struct dyad_entry *newer);
/* For dump: call fn for each wait. home DYAD_RANK_NONE: no look-up is under way. */
struct consume_info {
    const char *upath;
    pid_t pid;
    uint64_t since;
    uint32_t home;
    uint64_t timeout_ms;
    pid_t writer; /* > 0: being written here by this process */
};
void consume_foreach(struct member *member,
                     void (*fn)(const struct consume_info *info, void *arg), void *arg);

#endif
