/*
 * extent_list.c - ranges of one file, sorted; each byte is in one of them at most
 *
 * The sort is a sweep: at each offset at which a range begins or ends the ranges that have
 * the bytes from there on are looked at. A file that is written over and over in the same
 * places has many equal ranges, which are made one first; so these are few.
 */
#include "store/extent_list.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int store_extent_list_add(struct store_extent_list *list, const struct store_extent *extent)
{
    size_t n = list->n;

    if (n == 0 || (n >= 64 && (n & (n - 1)) == 0)) {
        void *more = realloc(list->extent, (n ? 2 * n : 64) * sizeof(*list->extent));
        if (!more)
            return -1;
        list->extent = more;
    }
    list->extent[list->n++] = *extent;
    return 0;
}

void store_extent_list_free(struct store_extent_list *list)
{
    int saved = errno;

    free(list->extent);
    *list = (struct store_extent_list){0};
    errno = saved;
}

/* --- sort --- */

static uint64_t end_of(const struct store_extent *extent)
{
    return extent->offset + extent->length;
}

static int by_kind_and_offset(const void *a, const void *b)
{
    const struct store_extent *x = a, *y = b;

    if (!x->length != !y->length)
        return x->length ? -1 : 1;
    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
    return x->length < y->length ? -1 : x->length > y->length;
}

static void take_times(struct store_extent *to, const struct store_extent *from)
{
    if (to->first < from->first)
        to->first = from->first;
    if (to->last < from->last)
        to->last = from->last;
}

/* Sort, and make one of those that are equal. Returns how many are left. */
static size_t sort_and_join(struct store_extent *extent, size_t n)
{
    size_t to = 0;

    if (n > 0)
        qsort(extent, n, sizeof(*extent), by_kind_and_offset);
    for (size_t i = 1; i < n; i++) {
        if (extent[to].offset == extent[i].offset && extent[to].length == extent[i].length)
            take_times(&extent[to], &extent[i]);
        else
            extent[++to] = extent[i];
    }
    return n ? to + 1 : 0;
}

/* To the end of the list, or as a part of its last. 0 or -1. */
static int emit(struct store_extent_list *list, const struct store_extent *extent)
{
    struct store_extent *last = list->n ? &list->extent[list->n - 1] : NULL;

    if (last && end_of(last) == extent->offset && last->first == extent->first &&
        last->last == extent->last) {
        last->length += extent->length;
        return 0;
    }
    return store_extent_list_add(list, extent);
}

/* The ranges that have the byte at which the sweep is: active[0] to active[n - 1]. */
static int sweep(struct store_extent_list *to, const struct store_extent *extent, size_t n,
                 const struct store_extent **active)
{
    size_t nactive = 0, i = 0;
    uint64_t at = 0;

    while (i < n || nactive > 0) {
        struct store_extent part;
        uint64_t next;
        size_t left = 0;
        if (nactive == 0)
            at = extent[i].offset;
        for (; i < n && extent[i].offset == at; i++)
            active[nactive++] = &extent[i];
        next = i < n ? extent[i].offset : UINT64_MAX;
        part = (struct store_extent){.offset = at};
        for (size_t k = 0; k < nactive; k++) {
            take_times(&part, active[k]);
            if (end_of(active[k]) < next)
                next = end_of(active[k]);
        }
        part.length = next - at;
        if (emit(to, &part) < 0)
            return -1;
        at = next;
        for (size_t k = 0; k < nactive; k++)
            if (end_of(active[k]) > at)
                active[left++] = active[k];
        nactive = left;
    }
    return 0;
}

int store_extent_list_sort(struct store_extent_list *list)
{
    size_t n = sort_and_join(list->extent, list->n), nwrites = 0;
    const struct store_extent **active = malloc((n + 1) * sizeof(*active));
    struct store_extent_list sorted = {0};
    int rc = -1;

    list->n = n;
    while (nwrites < n && list->extent[nwrites].length)
        nwrites++;
    if (!active || sweep(&sorted, list->extent, nwrites, active) < 0)
        goto out;
    for (size_t i = nwrites; i < n; i++)
        if (store_extent_list_add(&sorted, &list->extent[i]) < 0)
            goto out;
    sorted.ncuts = n - nwrites;
    sorted.n -= sorted.ncuts;
    store_extent_list_free(list);
    *list = sorted;
    sorted = (struct store_extent_list){0};
    rc = 0;
out:
    store_extent_list_free(&sorted);
    free(active);
    return rc;
}

/* --- compare --- */

bool store_extent_list_meets(const struct store_extent_list *list,
                             const struct store_extent *with, size_t *n,
                             struct store_extent *both)
{
    for (; *n < list->n; ++*n) {
        const struct store_extent *extent = &list->extent[*n];
        uint64_t end = end_of(extent) < end_of(with) ? end_of(extent) : end_of(with);
        *both = *extent;
        if (both->offset < with->offset)
            both->offset = with->offset;
        both->length = end - both->offset;
        if (both->offset < end)
            return true;
        if (extent->offset >= end_of(with))
            break;
    }
    return false;
}

/* True if `list` has all of those bytes, last written at these times; `under` (may be NULL): or by a
 * write that was newer than that already, and has gone on. */
static bool has(const struct store_extent_list *list, const struct store_extent *extent,
                const struct store_extent *under, size_t *n)
{
    uint64_t at = extent->offset;
    struct store_extent both;

    while (at < end_of(extent) && store_extent_list_meets(list, extent, n, &both)) {
        if (end_of(&both) > at) {
            if (both.offset > at || both.first != extent->first ||
                (both.last != extent->last &&
                 !(under && store_extent_is_newer(&both, under))))
                return false;
            at = end_of(&both);
        }
        if (at < end_of(extent))
            ++*n;
    }
    return at >= end_of(extent);
}

/* True if one that was under way counts all the same, now that it has ended: it was newer than what it cuts. */
static bool cut_goes_on(const struct store_extent *cut,
                        const struct store_extent_list *where)
{
    for (size_t i = 0; i < where->n + where->ncuts; i++) {
        const struct store_extent *extent = &where->extent[i];
        if ((!extent->length || end_of(extent) > cut->offset) &&
            !store_extent_is_newer(cut, extent))
            return false;
    }
    return true;
}

/* `under` as in has(). */
static bool cuts_changed(const struct store_extent_list *before,
                         const struct store_extent_list *list,
                         const struct store_extent_list *under, struct store_extent *at)
{
    if (before->ncuts != list->ncuts) {
        *at = list->ncuts ? list->extent[list->n] : (struct store_extent){0};
        return true;
    }
    for (size_t c = 0; c < list->ncuts; c++) {
        const struct store_extent *was = &before->extent[before->n + c];
        const struct store_extent *is = &list->extent[list->n + c];
        if (was->offset == is->offset && was->first == is->first &&
            (was->last == is->last || (under && cut_goes_on(was, under))))
            continue;
        *at = *is;
        return true;
    }
    return false;
}

bool store_extent_list_changed(const struct store_extent_list *before,
                               const struct store_extent_list *list,
                               const struct store_extent_list *where, bool newer_go_on,
                               struct store_extent *at)
{
    struct store_extent unused;
    size_t n = 0, m = 0;

    if (cuts_changed(before, list, newer_go_on ? where : NULL, at ? at : &unused))
        return true;
    for (size_t i = 0; i < where->n; i++) {
        struct store_extent both;
        for (; store_extent_list_meets(list, &where->extent[i], &n, &both); n++) {
            if (!has(before, &both, newer_go_on ? &where->extent[i] : NULL, &m)) {
                if (at)
                    *at = both;
                return true;
            }
            if (end_of(&both) == end_of(&where->extent[i]))
                break; /* it may reach into the next */
        }
    }
    return false;
}

/* --- cuts --- */

struct store_extent store_extent_list_left_of(const struct store_extent *extent,
                                              const struct store_extent_list *by)
{
    struct store_extent left = *extent;

    for (size_t c = 0; c < by->ncuts; c++) {
        const struct store_extent *cut = &by->extent[by->n + c];
        if (cut->offset < end_of(&left) && store_extent_is_newer(cut, extent))
            left.length = cut->offset > left.offset ? cut->offset - left.offset : 0;
    }
    return left;
}

void store_extent_list_cut_off(struct store_extent_list *list,
                               const struct store_extent_list *by)
{
    size_t to = 0;

    for (size_t i = 0; by->ncuts && i < list->n; i++) {
        struct store_extent left = store_extent_list_left_of(&list->extent[i], by);
        if (left.length)
            list->extent[to++] = left;
    }
    if (!by->ncuts || to == list->n)
        return;
    memmove(&list->extent[to], &list->extent[list->n], list->ncuts * sizeof(*list->extent));
    list->n = to;
}

/* --- all of a file --- */

int store_extent_list_of_file(struct store_extent_list *map, int fd)
{
    off_t data = 0, hole = 0;
    struct stat st;

    *map = (struct store_extent_list){0};
    while ((data = lseek(fd, hole, SEEK_DATA)) >= 0) {
        if ((hole = lseek(fd, data, SEEK_HOLE)) < 0)
            goto error;
        struct store_extent extent = {(uint64_t)data, (uint64_t)(hole - data), 0, 0};
        if (store_extent_list_add(map, &extent) < 0)
            goto error;
    }
    if (errno != ENXIO /* no data behind that */ || fstat(fd, &st) < 0 ||
        store_extent_list_add(map, &(struct store_extent){.offset = (uint64_t)st.st_size}) <
            0)
        goto error;
    map->n--;
    map->ncuts = 1;
    return 0;
error:
    store_extent_list_free(map);
    return -1;
}

void store_extent_list_drop_last(struct store_extent_list *list)
{
    list->n--;
    memmove(&list->extent[list->n], &list->extent[list->n + 1],
            list->ncuts * sizeof(*list->extent));
}

bool store_extent_list_covers(const struct store_extent_list *list,
                              const struct store_extent_list *map, uint64_t from,
                              bool (*is_hole)(void *arg, uint64_t offset, uint64_t length),
                              void *arg)
{
    uint64_t end = list->n ? end_of(&list->extent[list->n - 1]) : 0;
    size_t i = 0;

    if (end < from)
        end = from;
    for (size_t cut = 0; cut < list->ncuts; cut++)
        if (list->extent[list->n + cut].offset > end)
            end = list->extent[list->n + cut].offset;
    if (map->extent[map->n].offset > end)
        return false;
    for (size_t m = 0; m < map->n; m++) {
        uint64_t at = map->extent[m].offset > from ? map->extent[m].offset : from;
        while (at < end_of(&map->extent[m])) {
            while (i < list->n && end_of(&list->extent[i]) <= at)
                i++;
            uint64_t next = i < list->n ? list->extent[i].offset : UINT64_MAX;
            if (next > end_of(&map->extent[m]))
                next = end_of(&map->extent[m]);
            if (next > at && !(is_hole && is_hole(arg, at, next - at)))
                return false;
            at = next > at ? next : end_of(&list->extent[i]);
        }
    }
    return true;
}
