/*
 * fuzz_extents.c - the ring in which the writes to shared files are on record
 *
 * The input is steps: a place of the ring is filled with anything, with a right check unless it says otherwise; or something is
 * recorded. Then all lists of each file are made. A list is in order, and each byte is in one of its ranges at most.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz.h"
#include "store/extents_cover.h"
#include "store/extents_impl.h"
#include "util/log.h"

#define BOOT   "11111111-2222-3333-4444-555555555555"
#define BTIME  1000u
#define FILES  2
#define PLACES 32
#define END    ((uint64_t)INT64_MAX) /* no file is longer */

static struct store_extents *extents;
static int table_fd = -1, file_fd = -1;

static void prepare(void)
{
    struct store_dir *dir;
    char path[128];

    if (extents)
        return;
    util_log_setup(UTIL_LOG_ALWAYS, NULL, "fuzz");
    FUZZ_CHECK((dir = store_dir_create(fuzz_directory())));
    FUZZ_CHECK((extents = store_extents_create(dir, BOOT)));
    FUZZ_CHECK((table_fd = open(extents->path, O_RDWR | O_CLOEXEC)) >= 0);
    store_dir_destroy(dir);
    snprintf(path, sizeof(path), "%s/file", fuzz_directory());
    FUZZ_CHECK((file_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600)) >= 0);
    FUZZ_CHECK(pwrite(file_fd, "data", 4, 8192) == 4);
}

static void fresh(void)
{
    FUZZ_CHECK(mmap(extents->table, sizeof(struct table), PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_FIXED, table_fd, 0) == extents->table);
}

/* --- steps --- */

static uint64_t writer_of(uint8_t n)
{
    static const uint64_t writers[] = {1,
                                       2,
                                       STORE_EXTENTS_OTHER | 1,
                                       STORE_EXTENTS_OTHER | STORE_EXTENTS_SHOWN | 1,
                                       RESET,
                                       VERSION,
                                       PUBLISHED,
                                       3};

    return writers[n % 8];
}

/* Small numbers meet each other. */
static uint64_t number_of(struct fuzz_input *in, bool small)
{
    return small ? fuzz_u8(in) : fuzz_u64(in);
}

static void set_place(struct fuzz_input *in)
{
    uint8_t how = fuzz_u8(in), by = fuzz_u8(in);
    uint64_t number = 1 + fuzz_u8(in) % PLACES, file = file_of(1 + (how >> 7), BTIME),
             writer = writer_of(by);
    struct place *place = place_of(extents, number);
    uint64_t offset = number_of(in, how & 1), length = number_of(in, how & 2) & LENGTH_MAX,
             time;

    if (offset > END - length)
        offset = END - length;
    atomic_store(&place->file, file);
    atomic_store(&place->writer, writer);
    atomic_store(&place->offset, offset);
    atomic_store(&place->time, time = number_of(in, how & 4));
    atomic_store(&place->check,
                 check_of(number, file, writer, offset, time) ^ (how & 8 ? 1 : 0));
    atomic_store(&place->first, number_of(in, how & 16));
    atomic_store(&place->last, number_of(in, how & 16));
    atomic_store(&place->span, LAP(number) | (how & 32 ? UNENDED : 0) | length);
    if (how & 64 && by & 128)
        atomic_store(&place->span, fuzz_u64(in));
    if (offset > END - (atomic_load(&place->span) &
                        LENGTH_MAX)) /* only we would make such a range */
        atomic_store(&place->span, LAP(number));
    if (next_of(extents) <= number)
        atomic_store(&extents->table->header.next, number + 1);
}

static void record(struct fuzz_input *in)
{
    uint64_t ino = 1 + (fuzz_u8(in) & 1), offset = fuzz_u16(in), length = fuzz_u8(in),
             number;
    struct dyad_base version = {.size = fuzz_u8(in), .time = fuzz_u8(in)};

    switch (fuzz_u8(in) % 8) {
    case 0:
        store_extents_add_reset(extents, ino, BTIME);
        break;
    case 1:
        store_extents_add_version(extents, ino, BTIME, &version);
        break;
    case 2:
        store_extents_add_published(extents, ino, BTIME, &version, 5);
        break;
    case 3:
        store_extents_add_unknown(extents, ino, BTIME, 1);
        break;
    case 4:
        store_extents_add_other(extents, ino, BTIME, STORE_EXTENTS_OTHER | 1,
                                &(struct store_extent){offset, length, 3, 4});
        break;
    default:
        number =
            store_extents_add(extents, ino, BTIME, 1, next_of(extents) - 1, offset, length);
        if (number)
            store_extents_end(extents, number, offset + length, offset + length / 2);
    }
}

static void change_header(struct fuzz_input *in)
{
    struct header *header = &extents->table->header;
    uint8_t what = fuzz_u8(in);

    if (what % 4 == 0)
        atomic_store(&header->lost, fuzz_u8(in));
    else if (what % 4 == 1)
        atomic_store(&header->held[what >> 2 & 3], file_of(1, BTIME));
    else if (what % 4 == 2)
        atomic_store(&header->nheld, fuzz_u8(in));
    else
        fuzz_take(in, &header->seen.places[what >> 2], sizeof(header->seen.places[0]));
}

/* --- what is asked --- */

static bool listed;

static void check_list(int rc, struct store_extent_list *list)
{
    if (rc < 0)
        return;
    listed |= list->n > 0;
    for (size_t i = 0; i < list->n; i++) {
        const struct store_extent *extent = &list->extent[i];
        FUZZ_CHECK(extent->length > 0 && extent->offset <= END - extent->length);
        FUZZ_CHECK(i == 0 || extent[-1].offset + extent[-1].length <= extent->offset);
    }
    for (size_t i = list->n; i < list->n + list->ncuts; i++)
        FUZZ_CHECK(list->extent[i].length == 0);
    store_extent_list_free(list);
}

static void ask_of_file(uint64_t ino)
{
    struct dyad_base version = {.size = 1, .time = 1}, until = {.size = 2, .time = 2};
    struct store_extents *e = extents;
    struct store_extent_list list;
    bool unended;

    check_list(store_extents_list(e, ino, BTIME, NULL, 0, 0, &list), &list);
    check_list(store_extents_list(e, ino, BTIME, NULL, 1, 0, &list), &list);
    check_list(store_extents_list(e, ino, BTIME, &version, 0, STORE_EXTENTS_OTHERS, &list),
               &list);
    check_list(store_extents_list_until(e, ino, BTIME, &version, &until, &list), &list);
    check_list(store_extents_list_newer(e, ino, BTIME, NULL, STORE_EXTENTS_OTHER | 1, 3,
                                        &list, &unended),
               &list);
    store_extents_cover(e, ino, BTIME, NULL, file_fd);
    store_extents_was(e, ino, BTIME, &version);
    store_extents_published(e, ino, BTIME, &version);
    store_extents_any(e, ino, BTIME, STORE_EXTENTS_OTHERS);
    if (store_extents_version(e, ino, BTIME, &version))
        check_list(store_extents_list(e, ino, BTIME, &version, 0, 0, &list), &list);
    store_extents_hold(e, ino, BTIME);
    store_extents_held(e, ino, BTIME);
    store_extents_release(e, ino, BTIME);
    FUZZ_CHECK(!atomic_load(&e->table->header.nheld) || !store_extents_held(e, 99, BTIME));
    store_seen_set(store_extents_seen(e), ino, BTIME, 7, 5);
    store_seen_until(store_extents_seen(e), ino, BTIME, 7);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static void (*const steps[])(struct fuzz_input *) = {set_place, record, change_header};
    struct fuzz_input in = {data, len};

    prepare();
    fresh();
    listed = false;
    store_extents_begin(extents);
    for (int i = 0; i < 100 && in.left > 0; i++)
        steps[fuzz_u8(&in) % 3](&in);
    for (uint64_t ino = 1; ino <= FILES; ino++)
        ask_of_file(ino);
    fuzz_taken += listed;
    return 0;
}

void fuzz_seeds(void)
{
    /* place: step, how, by, number, offset, length, time, first, last */
    static const uint8_t meet[] = {
        0, 31 & ~8, 0, 1, 0,  10, 1, 2, 2, 0, 31 & ~8, 1, 2, 5,  10, 2, 4, 4,
        0, 31 & ~8, 2, 3, 20, 4,  3, 6, 6, 0, 31 & ~8, 1, 4, 30, 0,  4, 7, 7};
    static const uint8_t versions[] = {
        0, 31 & ~8, 5, 1, 1, 0, 1, 1, 1, 0, 31 & ~8, 0, 2, 5, 10, 2, 4, 4,
        0, 31 & ~8, 6, 3, 2, 0, 3, 2, 2, 0, 31 & ~8, 4, 4, 0, 0,  4, 7, 7};
    /* record: step, file, offset, length, size, time, what */
    static const uint8_t records[] = {1, 0, 0, 0, 4, 0, 0, 5, 1, 0, 4, 0, 4, 0, 0, 6,
                                      1, 0, 9, 0, 2, 1, 1, 2, 1, 0, 9, 0, 2, 1, 1, 4,
                                      1, 1, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 9, 0, 0, 7};
    static const uint8_t wrong[] = {0, 31, 0, 1, 0, 10, 1, 2, 2, 2, 0, 3};

    fuzz_seed("meet", meet, sizeof(meet));
    fuzz_seed("versions", versions, sizeof(versions));
    fuzz_seed("records", records, sizeof(records));
    fuzz_seed("wrong", wrong, sizeof(wrong));
}
