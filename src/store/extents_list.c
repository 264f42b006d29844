/*
 * extents_list.c - what the ring of extents.c has of a file
 */
#include <errno.h>

#include "store/extents_impl.h"
#include "util/clock.h"

/* By how much the clock of the birth times may have been set back. */
#define CLOCK_SET (60 * UTIL_NSEC_PER_SEC)
/* So many places in a row that are so much older than a file are of the time before its birth: one alone may be that
 * of a process that was stopped in the midst of adding it. */
#define OLD_ROW 256
#define OLD     (2 * UTIL_NSEC_PER_SEC)

/* Which ranges a list is to have. */
struct filter {
    uint64_t writer, but;
    bool shows; /* store_extents_list_newer() */
    uint64_t newer;
    const struct dyad_base *until;
    bool unended; /* out */
};

static bool is_of(uint64_t by, const struct filter *filter)
{
    uint64_t whose = by & ~STORE_EXTENTS_SHOWN, but = filter->but;

    return by != VERSION && by != PUBLISHED &&
           (!filter->writer || whose == filter->writer) &&
           (!but ||
            (but == STORE_EXTENTS_OTHERS ? !(by & STORE_EXTENTS_OTHER) : whose != but)) &&
           (!filter->shows || whose == by);
}

/* A walk along the ring, for one file. */
struct walk {
    const struct store_extents *extents;
    uint64_t file, number, next;
    uint64_t writer, time; /* of the place that was found */
    bool unended;
    struct store_extent extent;
};

static struct walk walk_begin(const struct store_extents *extents, uint64_t ino,
                              uint64_t btime)
{
    uint64_t next = next_of(extents);

    return (struct walk){.extents = extents,
                         .file = file_of(ino, btime),
                         .number = next > STORE_EXTENTS_MAX ? next - STORE_EXTENTS_MAX : 1,
                         .next = next};
}

/* 1: the next place; 0: there is none; -1: ENODATA. */
static int walk_on(struct walk *walk)
{
    uint32_t limit = atomic_load(&walk->extents->table->header.limit);

    while (walk->number < walk->next) {
        uint64_t number = walk->number++, span, check, of;
        const struct place *place = place_of(walk->extents, number);

        if (number % STORE_EXTENTS_MAX >= limit)
            continue;
        span = atomic_load(&place->span);
        if (LAP_OF(span) != LAP(number)) /* being filled, or lost: `lost` tells */
            continue;
        walk->unended = span & UNENDED;
        of = atomic_load(&place->file);
        walk->writer = atomic_load(&place->writer);
        walk->extent =
            (struct store_extent){atomic_load(&place->offset), span & LENGTH_MAX,
                                  atomic_load(&place->first), atomic_load(&place->last)};
        walk->time = atomic_load(&place->time);
        check = atomic_load(&place->check);
        if (check != check_of(number, of, walk->writer, walk->extent.offset, walk->time) &&
            LAP_OF(atomic_load(&place->span)) == LAP(number)) {
            errno = ENODATA;
            return -1;
        }
        if (of == walk->file)
            return 1;
    }
    return 0;
}

static bool is_version(const struct walk *walk, const struct dyad_base *version)
{
    return (walk->writer == VERSION || walk->writer == PUBLISHED) &&
           walk->extent.offset == version->size && walk->extent.first == version->time;
}

bool store_extents_version(struct store_extents *extents, uint64_t ino, uint64_t btime,
                           struct dyad_base *version)
{
    struct walk walk = walk_begin(extents, ino, btime);
    bool found = false;

    while (walk_on(&walk) > 0) {
        if (walk.writer != VERSION && walk.writer != RESET)
            continue;
        found = walk.writer == VERSION;
        *version = (struct dyad_base){.kind = DYAD_BASE_FROM};
        if (found) {
            version->size = walk.extent.offset;
            version->time = walk.extent.first;
        }
    }
    return found;
}

/* What another node has written comes here later. */
static uint64_t here_since(const struct walk *walk)
{
    return walk->writer & STORE_EXTENTS_OTHER ? walk->time : walk->extent.last;
}

/* True if the range that the walk has found is to be in the list. */
static bool is_wanted(const struct walk *walk, struct filter *filter)
{
    if (!walk->extent.last || !is_of(walk->writer, filter))
        return false;
    filter->unended |= filter->shows && walk->unended;
    return !filter->shows || (!walk->unended && here_since(walk) >= filter->newer);
}

static bool is_cut(const struct walk *walk)
{
    return walk->extent.last && !walk->extent.length &&
           is_of(walk->writer, &(struct filter){0});
}

/* The places of which a list is made. */
struct bounds {
    uint64_t reset, begin, end; /* numbers: behind _reset; that of the version, 0: none */
    uint64_t time;              /* of `begin`, or of the reset, or 0 */
    bool published;             /* `begin` is that */
};

/* -1: ENODATA. */
static int find_bounds(struct store_extents *extents, uint64_t ino, uint64_t btime,
                       const struct dyad_base *since, const struct dyad_base *until,
                       struct bounds *bounds)
{
    struct walk walk = walk_begin(extents, ino, btime);
    bool begun = !since, ended = !until;
    int rc;

    *bounds = (struct bounds){.end = UINT64_MAX};
    while ((rc = walk_on(&walk)) > 0) {
        if (walk.writer == RESET) {
            begun = !since;
            *bounds =
                (struct bounds){.reset = walk.number, .end = UINT64_MAX, .time = walk.time};
        } else if (!begun && is_version(&walk, since)) {
            begun = true;
            bounds->begin = walk.number;
            bounds->time = walk.time;
            bounds->published = walk.writer == PUBLISHED;
        }
        if (until && begun && is_version(&walk, until)) {
            bounds->end = walk.number;
            ended = true;
            break;
        }
    }
    errno = ENODATA;
    return rc < 0 || !begun || !ended ? -1 : 0;
}

/* A write that was under way when the file was published need not be in that version. */
static bool is_within(const struct walk *walk, const struct bounds *bounds)
{
    if (walk->number <= bounds->reset || walk->number > bounds->end)
        return false;
    return walk->number > bounds->begin ||
           (bounds->published && (walk->unended || here_since(walk) >= bounds->time));
}

static int list_filtered(struct store_extents *extents, uint64_t ino, uint64_t btime,
                         const struct dyad_base *since, struct filter *filter,
                         struct store_extent_list *list)
{
    struct store_extent_list cuts = {0};
    struct walk walk;
    struct bounds bounds;
    uint64_t lost, from;
    int rc;

    *list = (struct store_extent_list){0};
    if (find_bounds(extents, ino, btime, since, filter->until, &bounds) < 0)
        return -1;
    walk = walk_begin(extents, ino, btime);
    while ((rc = walk_on(&walk)) > 0)
        if (is_within(&walk, &bounds) &&
            ((is_wanted(&walk, filter) && store_extent_list_add(list, &walk.extent) < 0) ||
             (filter->shows && is_cut(&walk) &&
              store_extent_list_add(&cuts, &walk.extent) < 0)))
            goto error;
    cuts.ncuts = cuts.n;
    cuts.n = 0;
    from = bounds.time ? bounds.time : btime;
    /* After the walk: what was lost meanwhile counts. */
    lost = atomic_load(&extents->table->header.lost);
    if (rc < 0 || !btime || (lost && lost + CLOCK_SET >= from)) {
        errno = ENODATA;
        goto error;
    }
    if (store_extent_list_sort(list) < 0)
        goto error;
    store_extent_list_cut_off(list, &cuts);
    store_extent_list_free(&cuts);
    return 0;

error:
    store_extent_list_free(&cuts);
    store_extent_list_free(list);
    return -1;
}

int store_extents_list(struct store_extents *extents, uint64_t ino, uint64_t btime,
                       const struct dyad_base *since, uint64_t writer, uint64_t but,
                       struct store_extent_list *list)
{
    struct filter filter = {.writer = writer, .but = but};

    return list_filtered(extents, ino, btime, since, &filter, list);
}

bool store_extents_was(struct store_extents *extents, uint64_t ino, uint64_t btime,
                       const struct dyad_base *version)
{
    struct store_extent_list list;

    if (store_extents_list(extents, ino, btime, version, 0, 0, &list) < 0)
        return false;
    store_extent_list_free(&list);
    return true;
}

int store_extents_list_until(struct store_extents *extents, uint64_t ino, uint64_t btime,
                             const struct dyad_base *since, const struct dyad_base *until,
                             struct store_extent_list *list)
{
    struct filter filter = {.until = until};

    return list_filtered(extents, ino, btime, since, &filter, list);
}

int store_extents_list_newer(struct store_extents *extents, uint64_t ino, uint64_t btime,
                             const struct dyad_base *since, uint64_t but, uint64_t newer,
                             struct store_extent_list *list, bool *unended)
{
    struct filter filter = {.but = but, .shows = true, .newer = newer};
    int rc = list_filtered(extents, ino, btime, since, &filter, list);

    *unended = filter.unended;
    return rc;
}

/* From the newest place back, until they are older than the file. */
static bool any_back(const struct store_extents *extents, uint64_t ino, uint64_t btime,
                     bool (*fits)(const struct walk *walk, const void *arg),
                     const void *arg)
{
    const struct walk all = walk_begin(extents, ino, btime);
    uint64_t number = all.next;
    unsigned row = 0;

    while (btime && number > all.number && row < OLD_ROW) {
        struct walk walk = all;
        walk.next = number;
        walk.number = --number;
        if (walk_on(&walk) > 0) {
            if (walk.writer == RESET)
                return false;
            if (fits(&walk, arg))
                return true;
        }
        row = atomic_load(&place_of(extents, number)->time) + OLD < btime ? row + 1 : 0;
    }
    return false;
}

static bool is_done(const struct walk *walk, const void *arg)
{
    return walk->extent.last && is_of(walk->writer, arg);
}

bool store_extents_any(struct store_extents *extents, uint64_t ino, uint64_t btime,
                       uint64_t but)
{
    const struct filter filter = {.but = but};

    return any_back(extents, ino, btime, is_done, &filter);
}

static bool is_published(const struct walk *walk, const void *arg)
{
    return walk->writer == PUBLISHED && is_version(walk, arg);
}

bool store_extents_published(struct store_extents *extents, uint64_t ino, uint64_t btime,
                             const struct dyad_base *version)
{
    return any_back(extents, ino, btime, is_published, version);
}
