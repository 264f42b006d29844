/*
 * store/marks.h - dirty marks: files of this DMD that are being written, and their
 * writers
 *
 * A table in `.dyad/` is mapped shared by every process of this node that writes or reads
 * below the DMD. It has one slot for each file description that is open for writing. The
 * kernel shows which marks live: each description carries an OFD write lock on a byte of
 * the file itself. The table is lock-free (compare-and-swap on the slot's state), so a
 * process that is killed or stopped at any point blocks no other. All functions are
 * thread-safe, safe between processes, and keep errno unless they fail.
 *
 * What could go wrong: a writer dies, and the member rules its mark ABANDONED; a closer
 * that was merely slow is ruled to be dead, and still wins (enum store_mark_state).
 */
#ifndef DYAD_STORE_MARKS_H
#define DYAD_STORE_MARKS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "store/dmd.h"

/* The OFD lock of a mark is on one byte, STORE_MARK_LOCK_OFFSET + mark, and lasts exactly
 * as long as the description, through dup, fork, exec and death. A byte is never used
 * twice, so a mapping that outlives its mark does no harm. On a file system without OFD
 * locks (pid, start time) of the opener decides. Locks of the program itself must not
 * reach byte 2^62 (the wrapper cuts l_len = 0). */
#define STORE_MARK_LOCK_OFFSET ((off_t)1 << 62)
/* The byte whose lock (OFD) a member holds that puts pieces of other nodes into the file; and that of who
 * appends to a file that several nodes write. Below are the locks of programs. */
#define STORE_LOCK_PIECES (STORE_MARK_LOCK_OFFSET - 1)
#define STORE_LOCK_APPEND (STORE_MARK_LOCK_OFFSET - 2)
#define STORE_LOCKS_END   STORE_LOCK_APPEND

/* It keeps no descriptor, so it is safe in a program that closes ours; a function that
 * needs one has it for the time of the call. A process that is forked off shares the
 * mapping. */
struct store_marks;

/* Names a slot and one use of the slot: with a use that is over, every function does
 * nothing. 0 is none. The top bit is never set. */
typedef uint64_t store_mark_t;

/* How many descriptions may be open for writing at once on a node; and which of that many
 * slots a mark has. */
#define STORE_MARK_SLOTS 65536
static inline unsigned store_mark_slot(store_mark_t mark)
{
    return (unsigned)(mark & (STORE_MARK_SLOTS - 1));
}

/* Life of a slot: FREE -> OPENING -> DIRTY -> CLOSING -> FREE, or ABANDONED.
 *
 * - OPENING: before the real open; the mark is found by upath.
 * - DIRTY: the open returned; the mark is found by inode.
 * - CLOSING: no process holds the description any more; exactly one closer won the
 *   compare-and-swap and is publishing. Then the slot is FREE.
 * - ABANDONED: the member ruled that no writer lives. The mark stays until the file is
 *   opened with truncation, or a later writer of it ends well, or store_marks_forget(). A
 *   closer that was merely slow (its close let the lock go, and the ruling came before
 *   its compare-and-swap) still wins from ABANDONED to CLOSING. */
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
    pid_t pid; /* its opener or, in CLOSING, closer; 0: a process of an earlier boot */
    uint64_t ino, btime;
};

/* Map the table of a DMD; make it if there is none. Several processes at once are safe.
 * After a reboot the table is a new one, and marks that the old one still had are
 * ABANDONED in it. NULL with errno, logged. */
struct store_marks *store_marks_create(const struct store_dir *dir);
void store_marks_destroy(struct store_marks *marks);

/* Note that other nodes use the same storage, whose marks are not in this table. Lasts
 * until the node boots anew. Reading it costs one load. */
void store_marks_share(struct store_marks *marks);
bool store_marks_shared(const struct store_marks *marks);

/* Before the real open for writing: take a slot for upath. 0: ENOSPC (all slots taken:
 * 65,536 files open for writing on this node, or no disk space to enlarge the table). ~0.3
 * us. */
store_mark_t store_marks_begin(struct store_marks *marks, const char *upath);
/* The same before an open that can neither make nor empty the file: such a mark does not
 * count as one that makes the file (store_marks_unfinished()). */
store_mark_t store_marks_begin_joining(struct store_marks *marks, const char *upath);
/* Before a process takes the name upath from its file, to remove or to replace it: a process that
 * opens upath for writing from then on waits in store_marks_await_name(), until
 * store_marks_abort(). The mark counts for nothing else. The caller looks for writers after this,
 * so either it sees a writer's mark or the writer sees this one: no writer makes a second file
 * beside one that another has open and that gets its name back. 0: ENOSPC (no writer gets a
 * mark, either). */
store_mark_t store_marks_begin_removal(struct store_marks *marks, const char *upath);
/* After store_marks_begin(), and before the real open: wait until no process takes the name
 * from its file, at most a second (that process may be stopped). One load if none does.
 * Async-signal-safe. */
void store_marks_await_name(struct store_marks *marks, const char *upath);
/* The open failed, or is of no interest (not a regular file). */
void store_marks_abort(struct store_marks *marks, store_mark_t mark);
/* The open returned fd: OPENING -> DIRTY, take the OFD lock. ABANDONED marks of the same
 * inode are freed if `truncated` or the file is empty. 0, or -1: EBADF fd, ESTALE mark. */
int store_marks_opened(struct store_marks *marks, store_mark_t mark, int fd,
                       bool truncated);
/* After that, unless the open has made or truncated the file: remember its state, for
 * store_marks_written(). Without this it counts as written. fd is read only if the file
 * is short and its times do not suffice; for a long one the call may last a tick of the
 * kernel's clock (1 to 10 ms). Async-signal-safe. */
void store_marks_look(struct store_marks *marks, store_mark_t mark, int fd);
/* Before the real open: store_marks_look() will say after it what the description began from, and until
 * then nothing does. Async-signal-safe. */
void store_marks_will_look(struct store_marks *marks, store_mark_t mark);
/* What the description began from: the file as store_marks_look() found it (time 0: as another
 * description was changing it, which no version is like; that one's base counts), or, without
 * such a look, the time of the open. For the caller for which store_marks_closed() has
 * returned true, or who acts for it. NONE: the mark is over, or 0. */
void store_marks_base(struct store_marks *marks, store_mark_t mark, struct dyad_base *base);
/* Before the real open: the file is ahead of that version (engine/fetch/transfer_end.c), which is what the
 * description began from: its size and mtime do not tell. Who opens the file beside it began from that, too. */
void store_marks_set_ahead(struct store_marks *marks, store_mark_t mark,
                           const struct dyad_version *version);
/* True if it has begun so: the version. For whom store_marks_base() is for. */
bool store_marks_ahead(struct store_marks *marks, store_mark_t mark,
                       struct dyad_version *version);
/* True if fits(arg, base) is for what one of the descriptions of the file of that inode and
 * birth time began from, open ones and those of killed processes. */
bool store_marks_any_base(struct store_marks *marks, uint64_t ino, uint64_t btime,
                          bool (*fits)(void *arg, const struct dyad_base *base), void *arg);
/* Another node has published `newer` (NULL: not known what): the file of this inode and birth time
 * (0: any) is older. What writes it, as far as it has been opened, has not seen that; it is noted
 * where the newer one has the size and mtime of what it has seen. Also of `mark` (0: none). */
void store_marks_overtaken(struct store_marks *marks, store_mark_t mark, uint64_t ino,
                           uint64_t btime, const struct dyad_entry *newer);
/* Before the real open: it does not empty the file, so that another node may write the file
 * at once, and what is written here is to be recorded (store/extents.h). `joins`:
 * another node is known to write it. Async-signal-safe, as the next five. */
void store_marks_may_record(struct store_marks *marks, store_mark_t mark, bool joins);
/* True if the open of the mark was such a one: a file that it leaves empty is not published. */
bool store_marks_joins(struct store_marks *marks, store_mark_t mark);
/* Before the real open: it makes or empties the file. After it: store_marks_record_later(). */
void store_marks_may_record_later(struct store_marks *marks, store_mark_t mark);
/* After store_marks_look(). True: what is written by way of the description is to be
 * recorded from now on. False: the file had bytes of which there is no record (with `since` its
 * changes suffice: store_extents_add_version()), or others do not record what they write; then,
 * when it is on record that not all is
 * (store_extents_add_unknown()), call store_marks_record_later() if *later, and else
 * store_marks_unrecord(). */
bool store_marks_record(struct store_marks *marks, store_mark_t mark, bool since,
                        bool *later);
/* The file was empty at the open: nothing needs to be recorded, as long as no other node
 * joins. */
void store_marks_record_later(struct store_marks *marks, store_mark_t mark);
/* True if it is about to be decided whether a description of the file is recorded: some us. */
bool store_marks_undecided(struct store_marks *marks, uint64_t ino, uint64_t btime);
/* Another node joins: what is written by way of the descriptions of the file, each of which is to be LATER
 * (store_marks_record_later()), is to be recorded from now on, as if each had found it empty. */
enum store_marks_step {
    STORE_MARKS_LOOK, /* is each? */
    STORE_MARKS_MEET, /* the same, and each is noted as met; then comes the reset of the record */
    STORE_MARKS_BEGIN, /* each must have been met, so what it has on record of all that is not
                        * (store_extents_add_unknown()) is older than the reset */
};
/* 1: so it is. 0: it is not, or no description is open; after _BEGIN perhaps none is recorded nor LATER any more. -1: not yet: one of
 * them is being opened or closed, or was not met. Any process. */
int store_marks_record_all(struct store_marks *marks, uint64_t ino, uint64_t btime,
                           enum store_marks_step step);
/* store_marks_unrecord() of all descriptions of the file. */
void store_marks_unrecord_all(struct store_marks *marks, uint64_t ino, uint64_t btime);
/* Another node writes the file, too: so it is noted of all descriptions of the file of that inode
 * and birth time, and of those that are about to open upath. Any process. */
void store_marks_set_joint(struct store_marks *marks, const char *upath, uint64_t ino,
                           uint64_t btime);
/* True if that is noted of the mark, and what it writes is recorded: who reads by way of the
 * description is to see what other nodes have written. */
bool store_marks_joint(struct store_marks *marks, store_mark_t mark);
/* The same, whether or not what is written is recorded. Async-signal-safe. */
bool store_marks_shared_file(struct store_marks *marks, store_mark_t mark);
/* Something is about to be written that cannot be recorded. */
void store_marks_unrecord(struct store_marks *marks, store_mark_t mark);
/* True if all that the open descriptions of the file write is recorded: of the file of `mark`,
 * which is one of them; or (0) of that inode and birth time, also if there is none. */
bool store_marks_recorded(struct store_marks *marks, store_mark_t mark, uint64_t ino,
                          uint64_t btime);
/* True if all of them (one at least) are still in their opens, and will record, if anything: none
 * has written yet. */
bool store_marks_all_begin(struct store_marks *marks, uint64_t ino, uint64_t btime);
/* For the writer, who has the description open: the inode and birth time of its file. False:
 * what it writes is not recorded; they are set all the same. */
bool store_marks_file(struct store_marks *marks, store_mark_t mark, uint64_t *ino,
                      uint64_t *btime);
/* The file is mapped for writing, and counts as written, without a record, from now on. */
void store_marks_set_written(struct store_marks *marks, store_mark_t mark);
/* True if content, length, mode or mtime have changed since the open, or that cannot be
 * found out. For the caller for which store_marks_closed() has returned true; fd: its
 * probe. Async-signal-safe. */
bool store_marks_written(struct store_marks *marks, store_mark_t mark, int fd);
/* Before store_marks_of_fd(), with the file's name: wait until no other process is
 * opening it (OPENING). The mark of a description that this process inherited between
 * such an open and its lock cannot be found yet. ~50 ns if there is no such open. */
void store_marks_await_opened(struct store_marks *marks, const char *upath);
/* As above, but waits only for opens that could make or empty the file. These do not wait
 * for others, so the caller may have a mark `own` from store_marks_begin_joining() (0:
 * none). */
void store_marks_await_makers(struct store_marks *marks, const char *upath,
                              store_mark_t own);
/* A new program image, or a process that got a descriptor in some other way: the mark that
 * fd's description carries, or 0. */
store_mark_t store_marks_of_fd(struct store_marks *marks, int fd);

/* This process has closed its last descriptor of the description. True for exactly one
 * caller: no process holds the description any more and the caller must publish (or find
 * that there is nothing to publish) and then call store_marks_clear() or
 * store_marks_abandon(). False: another process holds it and will do so. `probe`: a new
 * description of the file that was opened (by way of /proc/self/fd) before the close; -1:
 * none could be had. `last_anyway`: the caller knows that what still holds the lock is a
 * mapping of its own. */
bool store_marks_closed(struct store_marks *marks, store_mark_t mark, int probe,
                        bool last_anyway);
/* The closer, another process, waits for the publish no more: this one sees to the mark, which ends with it. */
void store_marks_take(struct store_marks *marks, store_mark_t mark);
/* After a false: true if the process that holds the description may never report its
 * close, because this process opened it, or its opener is dead. False also if it cannot
 * be watched (no OFD locks). */
bool store_marks_left(struct store_marks *marks, store_mark_t mark);
/* After a false: block while another closer of the description publishes the file. */
void store_marks_await_closer(struct store_marks *marks, store_mark_t mark);
/* True if another description than fd's holds the mark's lock. */
bool store_marks_held(store_mark_t mark, int fd);
/* Block until none does; fd is readable. 0 or -1 with errno. */
int store_marks_await_release(store_mark_t mark, int fd);
/* Wait, at most `msec`, as long as the mark is DIRTY. True: it still is. */
bool store_marks_stays_dirty(struct store_marks *marks, store_mark_t mark, long msec);
/* The file was published, or needs no publish: -> FREE. */
void store_marks_clear(struct store_marks *marks, store_mark_t mark);
/* The close failed and the file must not count as complete: -> ABANDONED. */
void store_marks_abandon(struct store_marks *marks, store_mark_t mark);
/* The publish has failed: the file is complete here all the same; but EIO: it cannot be read, or another node has
 * written it, too. */
void store_marks_settle(struct store_marks *marks, store_mark_t mark, int error);
/* The file of this inode was removed or replaced (its last name): frees its ABANDONED
 * marks. Without it they only cost their slots, except where the file system has no birth
 * times and uses an inode number again. */
void store_marks_forget(struct store_marks *marks, uint64_t ino, uint64_t btime);

/* True if there is a mark OPENING with this upath (NULL: not looked at), or DIRTY,
 * CLOSING or ABANDONED with this inode (0: not looked at) and birth time (0: any). `info`
 * (may be NULL): the first found, live ones before ABANDONED ones. ~50 ns when neither
 * hash has any mark (a counting filter; after a crash it may cause needless searches,
 * never a miss). */
bool store_marks_dirty(struct store_marks *marks, const char *upath, uint64_t ino,
                       uint64_t btime, struct store_mark_info *info);

/* True if there is one with this inode and birth time that is DIRTY: what is closed is as it will be
 * published. */
bool store_marks_any_open(struct store_marks *marks, uint64_t ino, uint64_t btime);

/* A number that rises when a mark ends. */
uint32_t store_marks_released(const struct store_marks *marks);

/* True if there is a mark DIRTY, CLOSING or ABANDONED with this inode and birth time (0:
 * any), or one that is OPENING upath (NULL: not looked at), other than `own` (0: none). ~50 ns if there
 * is no other. */
bool store_marks_dirty_beside(struct store_marks *marks, store_mark_t own,
                              const char *upath, uint64_t ino, uint64_t btime);

/* True if the file of this inode is being made, or was left unfinished: if it has a mark
 * of a description that found it empty or truncated it, or that began while there was
 * such a mark, or whose opener is dead; any mark that is CLOSING or ABANDONED; or one
 * that is OPENING upath (NULL: not looked at), unless that open can neither make nor
 * empty the file. A mark that began with a whole file does not count. `own`: as for
 * store_marks_await_makers(). `info` as above. */
bool store_marks_unfinished(struct store_marks *marks, const char *upath, uint64_t ino,
                            uint64_t btime, store_mark_t own, struct store_mark_info *info);

/* Member only: find out whether a mark still has a live writer, through fd (any new
 * description of the file, opened read-only or read-write; not the writer's; -1: the mark
 * is OPENING and there is no file of that name). If none: -> ABANDONED, returns true.
 * CLOSING by a live process is not abandoned. Idempotent. OPENING by a dead process:
 * ABANDONED if the file is empty (it may have been truncated), else nothing was done to it:
 * the mark is freed, returns false. After false look again with store_marks_dirty(). */
bool store_marks_rule(struct store_marks *marks, store_mark_t mark, int fd);
/* True if the mark has no live writer although no ruling has been made yet. fd: as for
 * rule. Only true at that moment: a closer may be about to take the mark over. */
bool store_marks_ruling_due(struct store_marks *marks, store_mark_t mark, int fd);
/* Block the calling thread until the mark is FREE or ABANDONED (0), or -1 with errno:
 * EAGAIN fd is -1 and the file exists by now, ESTALE fd is not the file of the mark (in
 * both cases: open the name again), EINTR. Waits for the OFD lock's release in the kernel
 * (fd: as for rule, and readable), and on a futex in the table while a closer publishes;
 * looks once a second whether that closer still lives. When the lock has been free for a
 * second and no closer has taken the mark over, it rules: member only. */
int store_marks_wait(struct store_marks *marks, store_mark_t mark, int fd);

/* Free the marks of a file whose last closer was killed after all had been written: true
 * if every mark of this inode is ABANDONED, and was CLOSING before (not given up by
 * store_marks_abandon()), or the mark of its next opener was. True also if there is none;
 * false: nothing is changed. The caller must know otherwise that this is the file which
 * was published: a dead rank of this node has said so. */
bool store_marks_take_closed(struct store_marks *marks, uint64_t ino, uint64_t btime);

#endif
