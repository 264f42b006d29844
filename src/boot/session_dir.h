/*
 * boot/session_dir.h - the names in a session directory (boot/session.h)
 *
 * Every call does file operations that may block without bound, and each leaves the
 * directory valid if the process is killed inside it. One thread at a time. The names are
 * kept as of the last session_dir_list(). Errors are logged, with what to do, where the
 * comment says "logged".
 */
#ifndef DYAD_BOOT_SESSION_DIR_H
#define DYAD_BOOT_SESSION_DIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "boot/identity.h"

#define SESSION_DIR_RANKS_MAX 65536
#define SESSION_DIR_GONE_MAX  64 /* nodes; more are not told */

/* Entries of one slot; incarnations begin at 1, 0: there is none. */
struct session_dir_slot {
    uint32_t link; /* the highest that was claimed */
    uint32_t live; /* equal to link, or 0 */
    uint32_t gone; /* the highest that has gone */
    uint64_t live_node, live_identity, gone_node, gone_identity; /* hashes */
};

/* One gone.* entry of a node. */
struct session_dir_gone {
    uint64_t node, identity;
    uint32_t slot, incarnation;
};

struct session_dir;

/* Copies its arguments; no file operation. NULL ENOMEM. */
struct session_dir *session_dir_create(const char *dir, const char *kvs,
                                       const struct boot_identity *identity);
void session_dir_destroy(struct session_dir *d);

/* Check the directory, or make it; read its id and number of slots, or make them, with
 * `ranks` slots. 0, or -1 with errno, logged. */
int session_dir_open(struct session_dir *d, uint32_t ranks);
/* Warn if other users can put another directory in its place. */
void session_dir_look_above(const struct session_dir *d);
const char *session_dir_id(const struct session_dir *d);
uint32_t session_dir_ranks(const struct session_dir *d);
/* [ranks], as of the last list. */
const struct session_dir_slot *session_dir_slots(const struct session_dir *d);
const struct session_dir_gone *session_dir_gone(const struct session_dir *d, size_t *n);
/* The hash by which this node is named in entries. */
uint64_t session_dir_node(const struct session_dir *d);

/* Read all names. 0 or -1 with errno. */
int session_dir_list(struct session_dir *d);
/* True unless it is certain that no name has changed since the last list but one. */
bool session_dir_changed(struct session_dir *d);

/* Take a slot: the last one of this identity, else one that was never taken, else a dead
 * one. Entries of members that were on this node and are certainly dead become gone.* on
 * the way. 0; or -1 with errno, logged: ENOSPC all slots are taken. The list is fresh then.
 */
int session_dir_take_slot(struct session_dir *d, uint32_t *slot, uint32_t *incarnation);
/* Write our entry, then list. 0, or -1 with errno, logged: ESTALE another has the slot by
 * now. */
int session_dir_commit(struct session_dir *d, const void *blob, size_t len);
/* After a list: write our entry again if it is not there. 0, or -1 with errno: ESTALE as
 * above (logged once). */
int session_dir_keep(struct session_dir *d);
/* Remove the entries of earlier members of our slot, except one that is the only one of
 * its node. */
void session_dir_tidy(struct session_dir *d);
/* Give our slot back: the entry becomes gone.*; a claim that was not committed ends. */
void session_dir_leave(struct session_dir *d);

/* True if this member is known to be dead. Only ever true on its own node: the node was
 * started anew, or the member's claim (boot/member_claim.h) is free. */
bool session_dir_is_dead(struct session_dir *d, uint32_t slot);
/* Rename the live.* entry of a member to gone.*, and update the list. 0, or -1 with
 * errno: ENOENT there is no such entry. */
int session_dir_retire(struct session_dir *d, uint32_t slot, uint32_t incarnation);
/* Read the entry that a slot, or a node, had at the last list. Bytes, or -1 with errno:
 * ESRCH there is none (any more), EMSGSIZE it does not fit with a byte to spare. */
int session_dir_read(const struct session_dir *d, uint32_t slot, void *buf, size_t size);
int session_dir_read_gone(const struct session_dir *d, const struct session_dir_gone *gone,
                          void *buf, size_t size);

#endif
