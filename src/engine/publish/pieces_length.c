/*
 * pieces_length.c - how long a file is that two nodes have written, cut and extended
 */
#include "engine/publish/pieces_length.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static bool are_ordered(const struct store_extent *a, const struct store_extent *b)
{
    return store_extent_is_newer(a, b) || store_extent_is_newer(b, a);
}

/* A cut takes away what was written before it: it must be known which. */
static bool is_cut(const struct store_extent_list *cuts,
                   const struct store_extent_list *writes, struct store_extent *met)
{
    for (size_t c = 0; c < cuts->ncuts; c++) {
        const struct store_extent *cut = &cuts->extent[cuts->n + c];
        for (size_t i = writes->n; i-- > 0;) {
            const struct store_extent *write = &writes->extent[i];
            uint64_t end = write->offset + write->length;
            if (end <= cut->offset)
                break;
            if (are_ordered(write, cut))
                continue;
            met->offset = write->offset > cut->offset ? write->offset : cut->offset;
            met->length = end - met->offset;
            return true;
        }
    }
    return false;
}

/* Where that ends of all that one of them has written. */
static uint64_t end_left(const struct store_extent_list *writes,
                         const struct store_extent_list *other)
{
    uint64_t end = 0;

    for (size_t i = writes->n; i-- > 0;) {
        const struct store_extent *write = &writes->extent[i];
        struct store_extent left = store_extent_list_left_of(write, writes);
        left = store_extent_list_left_of(&left, other);
        if (left.length && left.offset + left.length > end)
            end = left.offset + left.length;
        if (write->offset <= end)
            break;
    }
    return end;
}

/* One node has made the file longer than the other one says it is, and than what is written
 * needs: it must be known which is the later one. */
static bool is_longer(const struct store_extent_list *a, const struct store_extent_list *b,
                      uint64_t end, struct store_extent *met)
{
    for (size_t i = 0; i < a->ncuts; i++) {
        const struct store_extent *longer = &a->extent[a->n + i];
        for (size_t k = 0; longer->offset > end && k < b->ncuts; k++) {
            const struct store_extent *cut = &b->extent[b->n + k];
            if (longer->offset <= cut->offset || are_ordered(longer, cut))
                continue;
            met->offset = cut->offset;
            met->length = longer->offset - cut->offset;
            return true;
        }
    }
    return false;
}

bool pieces_lengths_differ(const struct store_extent_list *theirs,
                           const struct store_extent_list *ours, struct store_extent *met)
{
    const uint64_t a = end_left(theirs, ours), b = end_left(ours, theirs);
    const uint64_t end = a > b ? a : b;

    return is_cut(theirs, ours, met) || is_cut(ours, theirs, met) ||
           is_longer(theirs, ours, end, met) || is_longer(ours, theirs, end, met);
}

/* --- the file --- */

/* False: it was cut to less here, later. */
static bool is_last_length(const struct store_extent *cut,
                           const struct store_extent_list *ours)
{
    for (size_t c = 0; c < ours->ncuts; c++) {
        const struct store_extent *other = &ours->extent[ours->n + c];
        if (other->offset < cut->offset && store_extent_is_newer(other, cut))
            return false;
    }
    return true;
}

/* A cut to more than the file has makes it longer. No call that could cut off what is
 * written here at this moment. */
static int lengthen(int fd, uint64_t size)
{
    struct stat st;

    if (fstat(fd, &st) < 0)
        return -1;
    if ((uint64_t)st.st_size >= size)
        return 0;
    return fallocate(fd, 0, (off_t)size - 1, 1);
}

/* A cut to less than the file has: what was written there before goes, and what the version had
 * from which both began. What was written here since stays; of what is written at this moment the
 * caller hears. */
static int shorten(int fd, const struct store_extent *cut,
                   const struct store_extent_list *ours)
{
    uint64_t size = cut->offset, at = size, end = size;
    struct stat st;

    if (fstat(fd, &st) < 0)
        return -1;
    if ((uint64_t)st.st_size <= size)
        return 0;
    for (size_t i = 0; i < ours->n + ours->ncuts; i++) {
        const struct store_extent *since = &ours->extent[i];
        if (since->offset + since->length > end && !store_extent_is_newer(cut, since))
            end = since->offset + since->length;
    }
    for (size_t i = 0; i <= ours->n; i++) {
        const struct store_extent *write = i < ours->n ? &ours->extent[i] : NULL;
        uint64_t until = write ? write->offset : end;
        if (write && store_extent_is_newer(cut, write))
            continue;
        if (until > at && fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                                    (off_t)at, (off_t)(until - at)) < 0)
            return -1;
        if (write && write->offset + write->length > at)
            at = write->offset + write->length;
    }
    return (uint64_t)st.st_size > end ? ftruncate(fd, (off_t)end) : 0;
}

int pieces_shorten(int fd, const struct store_extent_list *theirs,
                   const struct store_extent_list *ours)
{
    for (size_t c = 0; c < theirs->ncuts; c++)
        if (shorten(fd, &theirs->extent[theirs->n + c], ours) < 0)
            return -1;
    return 0;
}

int pieces_lengthen(int fd, const struct store_extent_list *theirs,
                    const struct store_extent_list *ours)
{
    for (size_t c = 0; c < theirs->ncuts; c++) {
        const struct store_extent *cut = &theirs->extent[theirs->n + c];
        if (is_last_length(cut, ours) && lengthen(fd, cut->offset) < 0)
            return -1;
    }
    return 0;
}
