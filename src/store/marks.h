/*
 * store/marks.h - dirty marks: which files of this DMD are being written, and by whom
 *
 * A table in `.dyad/marks`, mapped shared by every process that writes or reads below the DMD.
 * One slot per write-open file description. Lock-free (compare-and-swap on the slot's state), so
 * a process that is killed or stopped at any point blocks nobody; what it left is told from what is live
 * by the kernel: each description carries an OFD write lock on one byte, 2^62 + slot, of the file
 * itself, which lasts exactly as long as the description, through dup, fork, exec and death. Where
 * the file system has no OFD locks, (pid, start time) decides.
 *
 * Life of a slot: FREE -> OPENING (before the real open; found by upath) -> DIRTY (the open
 * returned; found by inode) -> CLOSING (no process holds the description any more; exactly one closer won the
 * compare-and-swap and is publishing) -> FREE. ABANDONED: the member ruled that no writer lives; it
 * stays until the file is opened for writing again, replaced or removed. A closer that was merely slow
 * (its close let the lock go, the ruling came before its compare-and-swap) still wins from ABANDONED to CLOSING.
 *
 * Uses no descriptor after the mapping is made: safe in a program that closes ours. All functions
 * are thread-safe, and safe between processes. A process forked off shares the mapping.
 */
#ifndef DYAD_STORE_MARKS_H
#define DYAD_STORE_MARKS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "store/dir.h"

#define STORE_MARK_LOCK_OFFSET ((off_t)1 << 62)

struct store_marks;

/* Names a slot and one use of it; 0 is none. */
typedef uint64_t store_mark_t;

enum store_mark_state {
    STORE_MARK_FREE = 0,
    STORE_MARK_OPENING,
    STORE_MARK_DIRTY,
    STORE_MARK_CLOSING,
    STORE_MARK_ABANDONED,
};

struct store_mark_info {
    store_mark_t mark;
    enum store_mark_state state;
    pid_t pid; /* who opened it, or who is closing it */
    uint64_t ino, btime;
    bool held; /* its OFD lock is held, or (no OFD locks) its process lives */
};

/* Map the table of a DMD, made if need be. Several processes at once are safe. A table of an
 * earlier boot is started afresh: marks of DIRTY become ABANDONED. NULL with errno. */
struct store_marks *store_marks_create(const struct store_dir *dir);
void store_marks_destroy(struct store_marks *marks);

/* Before the real open for writing: claim a slot for upath. 0: ENOSPC (all slots taken: 65,536
 * files open for writing on this node). ~0.3 us. */
store_mark_t store_marks_begin(struct store_marks *marks, const char *upath);
/* The open failed, or is of no interest (not a regular file). */
void store_marks_abort(struct store_marks *marks, store_mark_t mark);
/* The open returned fd: OPENING -> DIRTY, take the OFD lock. ABANDONED marks of the same inode are
 * freed if `truncated`. 0 or -1 with errno (EBADF). */
int store_marks_opened(struct store_marks *marks, store_mark_t mark, int fd, bool truncated);
/* A new program image, or a process that got a descriptor in some other way: the mark that fd's
 * description carries, or 0. */
store_mark_t store_marks_adopt(struct store_marks *marks, int fd);

/* This process has closed its last descriptor of the description. True for exactly one caller: no process holds the description any more and
 * the caller must publish (or find that there is nothing to publish) and then call
 * store_marks_clear(). False: another process holds it and will do so. `upath`: name of the file now.
 * `last_anyway`: the caller knows that what still holds the lock is a mapping of its own. */
bool store_marks_closed(struct store_marks *marks, store_mark_t mark, const struct store_dir *dir,
                        const char *upath, bool last_anyway);
void store_marks_clear(struct store_marks *marks, store_mark_t mark);

/* Is anything dirty under this name or inode: a mark OPENING with this upath (NULL: not looked at), or
 * DIRTY, CLOSING or ABANDONED with this inode and birth time? `info` (may be NULL): the first found,
 * without its `held`. ~50 ns when neither hash has any mark (a counting filter; it may
 * err towards looking closer after a crash, never the other way). */
bool store_marks_dirty(struct store_marks *marks, const char *upath, uint64_t ino, uint64_t btime,
                       struct store_mark_info *info);
/* As above, but false if every such mark was opened by process `pid`. */
bool store_marks_dirty_by_others(struct store_marks *marks, const char *upath, uint64_t ino,
                                 uint64_t btime, pid_t pid, struct store_mark_info *info);

/* Member only: find out whether a mark still has a live writer, through fd (any new description
 * of the file, opened read-only or read-write; not the writer's). If none: -> ABANDONED, returns true. CLOSING by a live
 * process is not abandoned. Idempotent. */
bool store_marks_rule(struct store_marks *marks, store_mark_t mark, int fd);
/* Block the calling thread until the mark is FREE or ABANDONED (0), or -1 with errno. Waits for the OFD
 * lock's release in the kernel (fd: any new description of the file, not the writer's), and on a futex in the table while a
 * closer publishes; looks once a second whether that closer still lives. */
int store_marks_wait(struct store_marks *marks, store_mark_t mark, int fd);

/* Call fn for each slot that is not FREE. For dyad-dht-dump --waiting ("held open by pid"). */
int store_marks_foreach(struct store_marks *marks,
                        int (*fn)(const struct store_mark_info *info, void *arg), void *arg);

#endif
