/*
 * store/extent_list.h - ranges of bytes of one file, and when they were written
 *
 * A list is built by appending, and put in order by store_extent_list_sort(). Nothing here is
 * shared; all functions but those that grow a list are async-signal-safe.
 */
#ifndef DYAD_STORE_EXTENT_LIST_H
#define DYAD_STORE_EXTENT_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A range of bytes; length 0: the file was cut, or extended, to `offset` bytes. It was last
 * written at some time from `first` to `last`, ns since the epoch by the node's clock. */
struct store_extent {
    uint64_t offset, length;
    uint64_t first, last;
};

struct store_extent_list {
    struct store_extent *extent; /* writes: ascending, none meets the next; then cuts */
    size_t n, ncuts;             /* `ncuts` cuts follow n writes */
};

/* Append a range; it counts in `n`, whatever it is. 0 or -1: ENOMEM. */
int store_extent_list_add(struct store_extent_list *list,
                          const struct store_extent *extent);
/* Put what was appended in order. Where ranges meet, the newest write counts: it came at the
 * earliest when the latest of them began, and at the latest when the latest of them ended. 0
 * or -1: ENOMEM, and the list is as it was. */
int store_extent_list_sort(struct store_extent_list *list);
/* Free what a list has, and empty it. Leaves errno alone. */
void store_extent_list_free(struct store_extent_list *list);

/* True if all of `a` was written after all of `b`, as far as their clock tells. */
static inline bool store_extent_is_newer(const struct store_extent *a,
                                         const struct store_extent *b)
{
    return a->first > b->last;
}

/* The n-th range of `list`, or the next, that has bytes in common with *with, in *both: those
 * bytes, with the times of the one of the list. *n: where to look, and where it was found; it
 * may begin at 0, or at what it was for an earlier range. False: there is none (any more). */
bool store_extent_list_meets(const struct store_extent_list *list,
                             const struct store_extent *with, size_t *n,
                             struct store_extent *both);
/* True if `list` was written somewhere in `where`, or was cut, since it was as `before`; *at (may
 * be NULL): the first such bytes. newer_go_on: a write, or a cut, that was newer than those of
 * `where` before may have gone on. */
bool store_extent_list_changed(const struct store_extent_list *before,
                               const struct store_extent_list *list,
                               const struct store_extent_list *where, bool newer_go_on,
                               struct store_extent *at);

/* What of the write *extent no cut of `by` has taken away later, by their clock; length 0: nothing. */
struct store_extent store_extent_list_left_of(const struct store_extent *extent,
                                              const struct store_extent_list *by);
/* Shorten the writes of `list` to that, and forget those of which nothing is left. `by` may be `list`. */
void store_extent_list_cut_off(struct store_extent_list *list,
                               const struct store_extent_list *by);
/* Forget the last of the writes; there is one. */
void store_extent_list_drop_last(struct store_extent_list *list);
/* Where the file has data, and, as the only cut, its length. 0 or -1 with errno. */
int store_extent_list_of_file(struct store_extent_list *map, int fd);
/* True if `list` has all of such a map that lies at `from` or behind it, but for parts of which
 * is_hole() (NULL: of none) says that they are as a hole. */
bool store_extent_list_covers(const struct store_extent_list *list,
                              const struct store_extent_list *map, uint64_t from,
                              bool (*is_hole)(void *arg, uint64_t offset, uint64_t length),
                              void *arg);

#endif
