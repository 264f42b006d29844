/*
 * store/extents.h - the record of what programs write to files that other nodes may write too
 *
 * A table in `.dyad/`, `extents-BOOT`, that every process of the node maps: of each write to
 * a recorded file (store_marks_recorded()) the range of bytes, before it is written. So the
 * node's members can tell what was written here of a file that another node has written as
 * well, and put the two together (engine/publish/pieces_take.c). The newest
 * STORE_EXTENTS_MAX ranges are kept. All functions are thread-safe, async-signal-safe but
 * for create and list, safe between processes, and never wait.
 */
#ifndef DYAD_STORE_EXTENTS_H
#define DYAD_STORE_EXTENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/dmd.h"
#include "store/extent_list.h"
#include "store/seen.h"

#define STORE_EXTENTS_MAX (1u << 20)

struct store_extents;

/* A writer that is another node: this, and any number below 2^62 for the node. No mark has that
 * bit. */
#define STORE_EXTENTS_OTHER (1ull << 63)
/* Beside that: it was shown here (engine/publish/pieces_show.c), and no close of that node has
 * given it away yet. */
#define STORE_EXTENTS_SHOWN (1ull << 62)
/* As `but` of store_extents_list(): all other nodes. */
#define STORE_EXTENTS_OTHERS UINT64_MAX

/* Map the table of this boot; make it if there is none. NULL with errno, not logged: nothing
 * is recorded then. ENOTSUP: other kernels may see the directory. */
struct store_extents *store_extents_create(const struct store_dir *dir, const char *boot);
void store_extents_destroy(struct store_extents *extents);
/* What other nodes have shown of the files; lives as long as `extents`. */
struct store_seen *store_extents_seen(struct store_extents *extents);

/* Record a range of the file of that inode and birth time, which `writer` (a mark, or any
 * other number but 0) is about to write. `last`: what the writer's call before this one
 * returned, or 0; a range that follows on that one, at once, extends it. Returns a number for
 * store_extents_end(), or 0: it could not be recorded (no space); then
 * nobody gets a list any more of a file that there is now. ~20 ns. */
uint64_t store_extents_add(struct store_extents *extents, uint64_t ino, uint64_t btime,
                           uint64_t writer, uint64_t last, uint64_t offset,
                           uint64_t length);
/* The same of a range that another node has written, at times by our clock, with which nothing
 * is joined. False: it could not be recorded. */
bool store_extents_add_other(struct store_extents *extents, uint64_t ino, uint64_t btime,
                             uint64_t writer, const struct store_extent *extent);
/* A file is about to be opened whose writes are to be recorded. Before it is looked who else
 * has it open. */
void store_extents_begin(struct store_extents *extents);
/* Something is about to be written to the file, anywhere, that is not recorded; by a writer
 * whom others can see already. As if all of it were written. */
void store_extents_add_unknown(struct store_extents *extents, uint64_t ino, uint64_t btime,
                               uint64_t writer);
/* The file is empty, and nobody is writing to it who records: what was recorded before counts
 * no more. */
void store_extents_add_reset(struct store_extents *extents, uint64_t ino, uint64_t btime);
/* The file, in which nobody has written yet who records, is `version` (its size and
 * mtime): what is recorded from now on are changes of that. */
void store_extents_add_version(struct store_extents *extents, uint64_t ino, uint64_t btime,
                               const struct dyad_base *version);
/* The file was that version after `looked` (ns, util_clock_wall_ns()), when nothing that was recorded was on its
 * way into it from another node (_held()). Then the list can be had since, and until, that version, too:
 * with what was being written then, which may be in it, or not. */
void store_extents_add_published(struct store_extents *extents, uint64_t ino,
                                 uint64_t btime, const struct dyad_base *version,
                                 uint64_t looked);
/* The last of store_extents_add_version(). False: there is none, and the record, if any, is of all of the file; *version
 * is as it was, or empty. */
bool store_extents_version(struct store_extents *extents, uint64_t ino, uint64_t btime,
                           struct dyad_base *version);
/* For who changes what the record says of a file, and holds the lock of those who do: who writes to the
 * file, and has added its range after this, is to take that back and to wait for the lock. If too many
 * files are held this one is not. _release() while the lock is held. */
void store_extents_hold(struct store_extents *extents, uint64_t ino, uint64_t btime);
void store_extents_release(struct store_extents *extents, uint64_t ino, uint64_t btime);
/* A load, if none is held. Async-signal-safe. */
bool store_extents_held(const struct store_extents *extents, uint64_t ino, uint64_t btime);
/* The range that was added last is written, up to `end`, which may be below `planned_end`; of a cut `end` is
 * `planned_end`, or anything else if it has failed. False: that cannot be said any more, and the record has too much. */
bool store_extents_end(struct store_extents *extents, uint64_t number, uint64_t planned_end,
                       uint64_t end);

/* The ranges that are recorded of the file, since it was that version (NULL: all), sorted, by
 * `writer` only (0: by all) but not by
 * `but` (0: nobody; STORE_EXTENTS_OTHERS). 0 and *list, to be freed by store_extent_list_free();
 * or -1: ENOMEM, or ENODATA: some of it is not kept any more, it is not known to have been that
 * version, or the file system keeps no times of birth. */
int store_extents_list(struct store_extents *extents, uint64_t ino, uint64_t btime,
                       const struct dyad_base *since, uint64_t writer, uint64_t but,
                       struct store_extent_list *list);
/* True if the file was that version once, and the list can be had since. */
bool store_extents_was(struct store_extents *extents, uint64_t ino, uint64_t btime,
                       const struct dyad_base *version);
/* True if something is recorded of the file that `but` (as above) has not done: of a young file that costs a few
 * loads. Not by what is lost, or where the file system keeps no times of birth. */
bool store_extents_any(struct store_extents *extents, uint64_t ino, uint64_t btime,
                       uint64_t but);
/* True if the file was published as that version (store_extents_add_published()). The same holds. */
bool store_extents_published(struct store_extents *extents, uint64_t ino, uint64_t btime,
                             const struct dyad_base *version);
/* As store_extents_list(), of all that the file had when it was the version `until`, too, for the first time since. */
int store_extents_list_until(struct store_extents *extents, uint64_t ino, uint64_t btime,
                             const struct dyad_base *since, const struct dyad_base *until,
                             struct store_extent_list *list);
/* What is to be shown to another node: the same, by all but `but`, of what is in the file at `newer`
 * ns or later, by the node's clock, and was not shown here only. *unended: more is about to be
 * written, or was when its writer was killed, and is left out. */
int store_extents_list_newer(struct store_extents *extents, uint64_t ino, uint64_t btime,
                             const struct dyad_base *since, uint64_t but, uint64_t newer,
                             struct store_extent_list *list, bool *unended);
#endif
