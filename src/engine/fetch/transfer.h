/*
 * engine/fetch/transfer.h - the fetch of one version of one file
 */
#ifndef DYAD_ENGINE_FETCH_TRANSFER_H
#define DYAD_ENGINE_FETCH_TRANSFER_H

#include "engine/core/member.h"

struct transfer_wait {
    struct transfer_wait *prev, *next;
    /* ESTALE: look up again; EBUSY: look here again; EEXIST: the name is taken
     * here, by a writer (as long as it writes, another fetch would end as this one), or
     * in the record of a newer version; EHOSTUNREACH: the owner is gone (not logged as an
     * error) */
    void (*fn)(void *arg, int status);
    void *arg;
    pid_t pid;       /* the process that wants it; 0: none in particular */
    bool background; /* nobody waits for it: others go first, and it ends with this wait */
    void *bytes; /* entry's, malloc'ed, if they came with it; transfer_start() takes them */
    int fd;      /* with hands_over and status 0: the complete file, the callee's; or -1 */
    bool joins;  /* as NET_CONSUME_ANY with WRITER, and ... */
    bool ahead;  /* ... with status 0: it is so, and superseded here */
    struct dyad_version version; /* asked for; set by transfer_start() */
    struct transfer *transfer;
};
/* Fetch entry into the consumer's DMD, or join the fetch of it that is under way. fn is not
 * called before this returns. With wait->bytes nobody is asked for it. 0 or -1 ENOMEM. */
int transfer_start(struct member *member, const struct dyad_entry *entry,
                   struct transfer_wait *wait);
/* wait->fn will not be called. The fetch goes on, unless nobody wanted it now. */
void transfer_leave(struct transfer_wait *wait);
/* DATA or ERROR has come; true if it answers a GET of ours: then payload is the callee's.
 */
bool transfer_receive(struct member *member, const struct net_msg *msg, void *payload,
                      size_t len);
/* For a relay: *fd is a descriptor, the caller's, of what is being fetched as this version,
 * which has its bytes up to `end`. 0; or EAGAIN: it has not yet (the event fetch_grew
 * follows); ENOENT: this version is not being fetched from another rank; or an error. */
int transfer_part(struct member *member, const struct dyad_entry *entry, uint64_t end,
                  int *fd);
/* True if what was read from that descriptor until now are the bytes of that version: the
 * file has no name yet, so no program has changed it. */
bool transfer_is_partial(struct member *member, const struct dyad_entry *entry, int fd);
/* A peer died. */
void transfer_peer_down(struct member *member, uint32_t rank);
/* newer->upath has a newer version: a fetch of an older one must not be put into place.
 */
void transfer_invalidate(struct member *member, const struct dyad_entry *newer);
/* After that: true if an older version is just being put into place. Then wait->fn is
 * called (with any status) when it has been removed again. */
bool transfer_await_commit(struct member *member, const struct dyad_entry *newer,
                           struct transfer_wait *wait);
void transfer_stop(struct member *member);

#endif
