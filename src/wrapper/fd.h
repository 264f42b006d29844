/*
 * wrapper/fd.h - descriptors of this process that are open for writing below a managed
 * directory
 *
 * A table from descriptor to description. open() makes a description: dup'ed descriptors
 * share it, and it ends, for this process, when the last of them is closed: then the
 * engine is called, and publishes if no other process holds it.
 *
 * Everything is safe between threads and in a signal handler that interrupts any of it:
 * single words and compare-and-swap, no lock.
 */
#ifndef DYAD_WRAPPER_FD_H
#define DYAD_WRAPPER_FD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "client/client_ops.h"

#define WRAPPER_FD_MAX (1 << 20)

struct wrapper_desc;
struct wrapper_call;

extern _Atomic uint32_t wrapper_fd_table[WRAPPER_FD_MAX];

/* One load: false for nearly every descriptor of nearly every program. True also in a
 * vfork child, whose table is its parent's. */
static inline bool wrapper_fd_marked(int fd)
{
    return (unsigned)fd < WRAPPER_FD_MAX &&
           atomic_load_explicit(&wrapper_fd_table[fd], memory_order_relaxed) != 0;
}
/* Track fd, the first descriptor of a new description. 0, or -1 EMFILE: fd is beyond the
 * table; the token was not taken. */
int wrapper_fd_add(int fd, engine_token token, enum engine_role role);
/* The same for a descriptor that was inherited: descriptors with one token share a
 * description. */
int wrapper_fd_inherit(int fd, engine_token token, enum engine_role role);

/* For dup: hold fd's description while the real call runs (NULL: not tracked), then give
 * it to the new descriptor (new_fd < 0: the call failed, drop it). */
struct wrapper_desc *wrapper_fd_hold(int fd);
int wrapper_fd_give(struct wrapper_desc *desc, int new_fd);

/* fd is about to be closed by `closer`, a real call that returns an int and sets errno:
 * take it out of the table, call closer, and settle its description if it was the last.
 * Returns what closer does, or -1 with errno if closer succeeded and the publish failed. fd
 * must be tracked. */
typedef int wrapper_closer(int fd, void *arg);
int wrapper_fd_close(int fd, wrapper_closer *closer, void *arg);

/* fd is about to be replaced by dup2 or freopen, which hide the errors of the close: move
 * its place in the table to a private duplicate. Returns that (close it with
 * wrapper_fd_close_real()), or -1: fd is not tracked, or cannot be duplicated (then its
 * description is settled when it is found to be gone). */
int wrapper_fd_move_aside(int fd);
/* The replacement failed: move the place in the table back to fd. */
void wrapper_fd_move_back(int aside, int fd);
int wrapper_fd_close_real(int fd);

/* For the mappings, which hold descriptions (map_pieces.c). Give up the caller's reference
 * around closer(fd) (may be NULL) and settle the description if it was the last; fd: a
 * descriptor of the file, or -1. Returns as wrapper_fd_close(). */
int wrapper_fd_desc_drop(struct wrapper_desc *desc, int fd, wrapper_closer *closer,
                         void *arg);
/* Take one more reference to a description that the caller holds already. */
void wrapper_fd_desc_again(struct wrapper_desc *desc);
/* True if the caller's reference is the only one. */
bool wrapper_fd_desc_is_last(const struct wrapper_desc *desc);
/* A mapping of this process that is not tracked holds the description. */
void wrapper_fd_desc_mapped(struct wrapper_desc *desc);
/* The file may be written without a change of its times: count it as written. */
void wrapper_fd_desc_stored(struct wrapper_desc *desc);
/* True if what is written to fd, which is marked, is to be recorded (write.c). */
bool wrapper_fd_recorded(int fd);
/* Such a write of `length` bytes at `offset` is about to begin (0: a cut to `offset`);
 * returns a number, or 0: it could not be recorded. Then _end(): it got to `end`, planned was `planned_end` (a
 * cut: another `end` if it has failed). */
uint64_t wrapper_fd_record(int fd, uint64_t offset, uint64_t length);
void wrapper_fd_record_end(int fd, uint64_t number, uint64_t planned_end, uint64_t end);
/* True if other nodes write the file of fd, which is marked, too. Then bring what they have written:
 * 0, or -1 with EIO. */
bool wrapper_fd_joint(int fd);
int wrapper_fd_show(int fd);
/* The same, also of what is not recorded. Then lock `length` bytes at `offset` for this process,
 * on all nodes: 0, or -1 with EAGAIN, EINTR, ENOLCK. */
bool wrapper_fd_shared(int fd);
int wrapper_fd_lock(int fd, uint64_t offset, uint64_t length, enum engine_lock type,
                    unsigned flags);
/* Something is about to be written to fd that cannot be recorded. Any descriptor of a thread of the
 * program. */
void wrapper_fd_unrecord(int fd);
/* fd gets a stream. What libc writes for streams is recorded, if _record_streams() was called; else
 * nothing that is written to fd can be. */
void wrapper_fd_unrecord_stream(int fd);
void wrapper_fd_record_streams(void);
/* True if fd, which is marked, is open with O_APPEND. _flags_changed(): after F_SETFL. */
bool wrapper_fd_appends(int fd);
void wrapper_fd_flags_changed(int fd);
/* fd, whose file other nodes write, too, is about to be appended to: wait until no process of any node
 * does, and bring what they have written. 0: until wrapper_fd_append_end() no signal is
 * handled, and calls of this thread pass through; or -1 with EIO. */
int wrapper_fd_append_begin(int fd, struct wrapper_call *call);
void wrapper_fd_append_end(int fd, struct wrapper_call *call);
/* In the child of a fork: forget the references. */
void wrapper_fd_desc_zero(struct wrapper_desc *desc);

/* Close each tracked descriptor in [first, last], settling. */
void wrapper_fd_close_all(unsigned first, unsigned last);

/* Before exec: settle the descriptions that exec will close. After a failed exec: take them
 * up again. */
void wrapper_fd_exec_begin(void);
void wrapper_fd_exec_failed(void);

/* Before a fork: two processes may hold the present descriptions from now on. */
void wrapper_fd_fork_begin(void);
/* In the child of a fork: count the references anew, since the counts of the copied table
 * may include references of other threads. */
void wrapper_fd_fork_child(void);

/* Call fn for each tracked descriptor. */
void wrapper_fd_foreach(void (*fn)(int fd, void *arg), void *arg);

#endif
