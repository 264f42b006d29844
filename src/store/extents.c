/*
 * extents.c - a ring of ranges, without a lock
 *
 * A writer takes the next number, whose place in the ring is fixed, and fills the place.
 * `span`, which is cleared first and set last, has the lap of the ring and the length, so
 * that one compare-and-swap lengthens the range of that lap and no other. The ring has disk
 * blocks for its first places only, and gets more (a page without them is SIGBUS when the
 * disk is full).
 *
 *  span         its place
 *  0            was never used, or is being filled: that write has not begun yet
 *  lap, length  is a range of that lap; if `check` does not fit, two writers met in it, one
 *               of which was stopped for a whole lap: no list can be made until the next lap
 *  with UNENDED the last write of the range has not ended, or was killed in the midst
 *
 * What a lap overwrites is lost: `lost` has the time of the newest such range. A file that
 * was born before that has no list any more, but for what was written since a version of it.
 */
#include "store/extents_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/shared_file.h"
#include "util/clock.h"
#include "util/fd_close.h"

#define PREFIX "extents-"
#define MAGIC  0x3654584544415944ull /* "DYADEXT6" */
#define STEP   4096u                 /* places that get their disk blocks at a time */

/* Between two writes of one range, ns: no other process can have been told of the first, and
 * have told of its own before the second. */
#define PAUSE 200000
/* From the first to the last write of one range, ns. */
#define STREAK 10000000

/* --- the table --- */

/* Several processes may do so at once: what is there stays as it is. */
static int reserve_places(int fd, uint32_t from)
{
    return fallocate(fd, FALLOC_FL_KEEP_SIZE,
                     (off_t)(offsetof(struct table, places) + from * sizeof(struct place)),
                     STEP * sizeof(struct place));
}

static bool is_whole(const void *map, const char *boot)
{
    const struct header *header = &((const struct table *)map)->header;

    return header->magic == MAGIC && atomic_load(&header->limit) <= STORE_EXTENTS_MAX &&
           (!boot || memcmp(header->boot, boot, STORE_BOOT_LEN) == 0);
}

static int reserve(int fd)
{
    return store_control_reserve(fd, 0, offsetof(struct table, places)) < 0
               ? -1
               : reserve_places(fd, 0);
}

static int fill(const struct store_shared_new *file)
{
    struct header *header = &((struct table *)file->map)->header;
    struct stat st;

    if (fstat(file->fd, &st) < 0)
        return -1;
    header->ino = st.st_ino;
    memcpy(header->boot, file->boot, STORE_BOOT_LEN);
    atomic_store(&header->next, 1);
    atomic_store(&header->limit, STEP);
    header->magic = MAGIC;
    return 0;
}

static const struct store_shared_kind kind;

static int remove_earlier(int control, const char *name, const void *map, void *arg)
{
    const char *boot = arg;

    if (memcmp(((const struct table *)map)->header.boot, boot, STORE_BOOT_LEN) != 0)
        unlinkat(control, name, 0);
    return 0;
}

static void made(const struct store_shared_new *file)
{
    store_shared_each_other(file->control, &kind, PREFIX, file->name, remove_earlier,
                            (void *)file->boot);
}

static const struct store_shared_kind kind = {
    .size = sizeof(struct table),
    .is_whole = is_whole,
    .reserve = reserve,
    .fill = fill,
    .made = made,
};

struct store_extents *store_extents_create(const struct store_dir *dir, const char *boot)
{
    struct store_extents *extents;
    char own[STORE_BOOT_LEN + 1], name[64];

    if (store_dir_shared(dir)) {
        errno = ENOTSUP;
        return NULL;
    }
    if (boot)
        snprintf(own, sizeof(own), "%-*s", STORE_BOOT_LEN, boot);
    else if (store_control_boot(own) < 0)
        return NULL;
    snprintf(name, sizeof(name), PREFIX "%.*s", STORE_BOOT_LEN, own);
    if (!(extents = calloc(1, sizeof(*extents))))
        return NULL;
    if (asprintf(&extents->path, "%s/" STORE_CONTROL_DIR "/%s", store_dir_real_path(dir),
                 name) < 0) {
        extents->path = NULL;
        goto error;
    }
    if ((extents->table = store_shared_map(dir, &kind, name, own)))
        return extents;
error:
    free(extents->path);
    free(extents);
    return NULL;
}

void store_extents_destroy(struct store_extents *extents)
{
    if (!extents)
        return;
    munmap(extents->table, sizeof(*extents->table));
    free(extents->path);
    free(extents);
}

struct store_seen *store_extents_seen(struct store_extents *extents)
{
    return &extents->table->header.seen;
}

/* --- record --- */

/* Disk blocks up to that place. 0 or -1. */
static int grow(struct store_extents *extents, uint32_t place)
{
    struct header *header = &extents->table->header;
    uint32_t limit;
    struct stat st;
    int saved = errno, fd, rc;

    fd = open(extents->path, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    rc = fd >= 0 && fstat(fd, &st) == 0 && st.st_ino == header->ino ? 0 : -1;
    while (rc == 0 && (limit = atomic_load(&header->limit)) <= place) {
        rc = reserve_places(fd, limit);
        if (rc == 0)
            atomic_compare_exchange_strong(&header->limit, &limit, limit + STEP);
    }
    util_fd_close(fd);
    errno = saved;
    return rc;
}

/* From 1 on; 1 itself is not used, so that it shows whether there is anything. */
void store_extents_begin(struct store_extents *extents)
{
    uint64_t none = 1;

    atomic_compare_exchange_strong(&extents->table->header.next, &none, 2);
}

/* A field of a place that nobody reads yet. */
#define SET(field, value) \
    atomic_store_explicit(&place->field, (value), memory_order_release)

static void note_lost(struct header *header, uint64_t time)
{
    uint64_t lost = atomic_load(&header->lost);

    while (lost < time && !atomic_compare_exchange_weak(&header->lost, &lost, time))
        ;
}

static void set_last(struct place *place, uint64_t now)
{
    uint64_t last = atomic_load(&place->last);

    while (last < now && !atomic_compare_exchange_weak(&place->last, &last, now))
        ;
}

/* True: the range of `last` is as long as to begin at `offset`, has ended, and was lengthened. That it
 * may be said to be written later than it was, if somebody else is about to lengthen it, or if
 * the place has another use by then, does no harm. */
static bool extend(struct store_extents *extents, uint64_t last, uint64_t offset,
                   uint64_t length, uint64_t now)
{
    struct place *place = place_of(extents, last);
    uint64_t span = atomic_load(&place->span), has = span & LENGTH_MAX;

    if (!length || !has || (span & UNENDED) || LAP_OF(span) != LAP(last) ||
        atomic_load(&place->offset) + has != offset || has + length > LENGTH_MAX ||
        atomic_load(&place->last) + PAUSE < now ||
        atomic_load(&place->first) + STREAK < now)
        return false;
    set_last(place, now);
    return atomic_compare_exchange_strong(&place->span, &span, (span + length) | UNENDED);
}

static uint64_t add(struct store_extents *extents, uint64_t ino, uint64_t btime,
                    uint64_t writer, const struct store_extent *extent, uint64_t time,
                    uint64_t unended)
{
    struct header *header = &extents->table->header;
    uint64_t number = atomic_fetch_add(&header->next, 1), file = file_of(ino, btime);
    uint64_t offset = extent->offset, length = extent->length;
    struct place *place = place_of(extents, number);

    if (length > LENGTH_MAX ||
        (number % STORE_EXTENTS_MAX >= atomic_load(&header->limit) &&
         grow(extents, (uint32_t)(number % STORE_EXTENTS_MAX)) < 0)) {
        note_lost(header, time);
        return 0;
    }
    if (atomic_load(&place->span))
        note_lost(header, atomic_load(&place->time));
    atomic_store(&place->span, 0);
    SET(file, file);
    SET(writer, writer);
    SET(offset, offset);
    SET(time, time);
    SET(check, check_of(number, file, writer, offset, time));
    SET(first, extent->first);
    SET(last, extent->last);
    atomic_store(&place->span,
                 LAP(number) | unended | length); /* before the write begins */
    return number;
}

uint64_t store_extents_add(struct store_extents *extents, uint64_t ino, uint64_t btime,
                           uint64_t writer, uint64_t last, uint64_t offset, uint64_t length)
{
    uint64_t now = util_clock_wall_ns();
    struct store_extent extent = {offset, length, now, now};

    return last && extend(extents, last, offset, length, now)
               ? last
               : add(extents, ino, btime, writer, &extent, now, UNENDED);
}

bool store_extents_add_other(struct store_extents *extents, uint64_t ino, uint64_t btime,
                             uint64_t writer, const struct store_extent *extent)
{
    return add(extents, ino, btime, writer, extent, util_clock_wall_ns(), 0) != 0;
}

/* At any time. */
void store_extents_add_unknown(struct store_extents *extents, uint64_t ino, uint64_t btime,
                               uint64_t writer)
{
    const struct store_extent all = {0, LENGTH_MAX, 0, UINT64_MAX};

    if (next_of(extents) > 1)
        add(extents, ino, btime, writer, &all, util_clock_wall_ns(), 0);
}

void store_extents_add_reset(struct store_extents *extents, uint64_t ino, uint64_t btime)
{
    store_extents_begin(extents);
    add(extents, ino, btime, RESET, &(struct store_extent){.offset = RESET},
        util_clock_wall_ns(), 0);
}

void store_extents_add_version(struct store_extents *extents, uint64_t ino, uint64_t btime,
                               const struct dyad_base *version)
{
    const struct store_extent extent = {version->size, 0, version->time, version->time};

    add(extents, ino, btime, VERSION, &extent, util_clock_wall_ns(), 0);
}

void store_extents_add_published(struct store_extents *extents, uint64_t ino,
                                 uint64_t btime, const struct dyad_base *version,
                                 uint64_t looked)
{
    const struct store_extent extent = {version->size, 0, version->time, version->time};

    add(extents, ino, btime, PUBLISHED, &extent, looked, 0);
}

bool store_extents_end(struct store_extents *extents, uint64_t number, uint64_t planned_end,
                       uint64_t end)
{
    struct place *place = place_of(extents, number);
    uint64_t span = atomic_load(&place->span), offset = atomic_load(&place->offset);
    uint64_t length = span & LENGTH_MAX;

    if (LAP_OF(span) != LAP(number)) /* lost: `lost` tells */
        return end == planned_end;
    if (offset + length != planned_end) /* another thread has cut it */
        return false;
    if (length ? end <= offset : end != planned_end) { /* as if it had not been added */
        SET(first, 0);
        SET(last, 0);
    } else {
        set_last(place, util_clock_wall_ns());
        length = end - offset; /* of a cut: 0 */
    }
    return atomic_compare_exchange_strong(&place->span, &span, LAP(number) | length);
}

/* A process that was killed leaves its file held: the next one, which has the same lock, takes its
 * place, or lets it go. */
void store_extents_hold(struct store_extents *extents, uint64_t ino, uint64_t btime)
{
    struct header *header = &extents->table->header;
    uint64_t file = file_of(ino, btime);

    for (int i = 0; i < HELD_MAX; i++)
        if (atomic_load(&header->held[i]) == file)
            return;
    for (int i = 0; i < HELD_MAX; i++) {
        uint64_t none = 0;
        if (!atomic_compare_exchange_strong(&header->held[i], &none, file))
            continue;
        atomic_fetch_add(&header->nheld, 1);
        return;
    }
}

void store_extents_release(struct store_extents *extents, uint64_t ino, uint64_t btime)
{
    struct header *header = &extents->table->header;

    for (int i = 0; i < HELD_MAX; i++) {
        uint64_t file = file_of(ino, btime);
        if (atomic_compare_exchange_strong(&header->held[i], &file, 0))
            atomic_fetch_sub(&header->nheld, 1);
    }
}

bool store_extents_held(const struct store_extents *extents, uint64_t ino, uint64_t btime)
{
    const struct header *header = &extents->table->header;
    bool held = false;

    if (atomic_load(&header->nheld) == 0)
        return false;
    for (int i = 0; i < HELD_MAX; i++)
        held |= atomic_load(&header->held[i]) == file_of(ino, btime);
    return held;
}
