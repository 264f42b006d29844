/*
 * boot/session.h - several launches, or none: members meet in a directory
 *
 * With DYAD_SESSION_DIR, ranks of all launches, and processes that no launcher started,
 * are one ring of a fixed number of *slots* (SESSION_RANKS of the directory). A process
 * that joins takes a slot, whose number is its rank in the table, in messages and in
 * entries; a free slot counts as dead, so the ring grows and shrinks in the same way as
 * it survives deaths. PMIx is not used. The directory is on a file system that all nodes
 * see, and holds addresses and keys only, for each DYAD_KVS_NAMESPACE:
 *
 *   id                   symbolic link: the session's random id, 16 hexadecimal digits
 *   ranks                symbolic link: how many slots
 *   slot.NNNNN.I         symbolic link: the slot's holder (hashes of launch, rank, node);
 *                        the highest I counts
 *   live.NNNNN.I.H.J     a member: its blob (net/peer.h). I: incarnation, H: hash of its
 *                        node, J: of its identity
 *   gone.NNNNN.I.H.J     one that has left, or was found dead
 *   new.NNNNN.I          an entry that is being written
 *
 * What could go wrong: a process is killed, but each name is created in one step (by
 * symlink, rename), so none is half made. A slow file system holds up our thread only.
 */
#ifndef DYAD_BOOT_SESSION_H
#define DYAD_BOOT_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "boot/identity.h"
#include "boot/pmix.h"
#include "net/loop.h"

#define BOOT_SESSION_ID_LEN 16 /* hexadecimal digits */

/* Time between two looks at the directory while it changes (2 s); up to four times that
 * while it does not. Members learn of others by reading the directory at their join and
 * by these looks, and from each other, by HELLO. The names alone say which members are
 * there and on which node; a blob is read when it is needed. Set before the first session
 * only; tests shorten it. */
extern uint64_t boot_session_scan_ns;

struct boot_session;

/* The result of a join. */
struct boot_session_place {
    char id[BOOT_SESSION_ID_LEN + 1];
    uint32_t slot;
    uint32_t incarnation;            /* from 1, above those of all earlier members of the
                                      * slot */
    const struct boot_pmix_job *job; /* nranks: slots; node[slot]: number of the node, of a
                                      * slot that was never taken: one of its own; nnodes: a
                                      * bound. Owned by the session; node[] of others
                                      * changes just before their found() */
};

struct boot_session_ops { /* all called on the loop's thread */
    /* The slot is ours, or error (errno value, already logged with what to do). */
    void (*ready)(void *arg, const struct boot_session_place *place, int error);
    /* Our blob is there (status 0); found() was called for each member that was live
     * before. Else an errno value, logged; ESTALE: another has the slot by now. */
    void (*committed)(void *arg, int status);
    /* A member that was not known, or a higher incarnation of one. */
    void (*found)(void *arg, uint32_t slot, uint32_t incarnation);
    /* A member has left or is known to be dead: it has no entry any more. Our own slot
     * and incarnation: we had been found dead, and the slot is another's now (logged). */
    void (*gone)(void *arg, uint32_t slot, uint32_t incarnation);
    /* As boot_pmix_ops.blob; error ESRCH: the slot has no entry. */
    void (*blob)(void *arg, uint32_t slot, const void *blob, size_t len, int error);
};

/* Start the thread: check or make the directory, take a slot (the one that this identity
 * had, if any; else one that was never taken; else one of a dead member). The directory,
 * and a subdirectory of it for each DYAD_KVS_NAMESPACE, belongs to the user and is closed
 * to all others (0700, files 0600). The claim of the identity (boot/member_claim.h) must
 * be held: without it others of this node take us for dead. `dir`: absolute. `kvs`:
 * DYAD_KVS_NAMESPACE or NULL. `ranks`: slots if the session is new. The caller is an
 * engine thread (own descriptor table, signals blocked). NULL with errno. */
struct boot_session *boot_session_create(struct net_loop *loop, const char *dir,
                                         const char *kvs, uint32_t ranks,
                                         const struct boot_identity *identity,
                                         const struct boot_session_ops *ops, void *arg);
/* `leave`: our entry becomes gone.*. Joins the thread in bounded time (2 s, then it is left
 * behind and ends by itself). No callback after. */
void boot_session_destroy(struct boot_session *session, bool leave);

/* After ready(): put our entry there. Copied. Once. 0 or -1 ENOMEM. */
int boot_session_commit(struct boot_session *session, const void *blob, size_t len);
/* The member of a slot has sent us HELLO, perhaps before we have read the directory
 * again: note its node. On the loop's thread. */
void boot_session_met(struct boot_session *session, uint32_t slot, const char *node);
/* Read the blob of a slot. 0 or -1 ENOMEM. */
int boot_session_get(struct boot_session *session, uint32_t slot);
/* A member cannot be reached. If it was on our node and is certainly dead its entry is
 * renamed to gone.*, and gone() comes at once; else the directory is read again soon. If
 * the entry of a member that lives is renamed all the same, that member puts it back at its
 * next look. */
void boot_session_lost(struct boot_session *session, uint32_t slot, uint32_t incarnation);
/* The blob of a slot could not be read: call found() again at the next look, if the entry
 * is still there. */
void boot_session_find(struct boot_session *session, uint32_t slot);
/* For people: nodes (without boot ids) that have a gone.* but no live.* entry, separated by
 * ", "; "" if none. Valid until the loop runs again. */
const char *boot_session_empty_nodes(struct boot_session *session);

#endif
