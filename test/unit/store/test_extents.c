/* store/extents.h: what is recorded is found again, by whoever; what is lost is not taken for nothing. */
#include "scratch.h"

#include <sys/mman.h>
#include <sys/wait.h>

#include "store/extents_cover.h"
#include "util/clock.h"
#include "store/shared_file.h"

#define BOOT "11111111-2222-3333-4444-555555555555"
#define NOW  ((uint64_t)time(NULL) * 1000000000u) /* of a file that was just made */

static struct scratch *scratch;
static struct store_extents *extents;

static int setup(void **state)
{
    if (scratch_setup(state) < 0)
        return -1;
    scratch = *state;
    extents = store_extents_create(scratch->dir, BOOT);
    return extents ? 0 : -1;
}

static int teardown(void **state)
{
    store_extents_destroy(extents);
    return scratch_teardown(state);
}

static uint64_t add(uint64_t ino, uint64_t writer, uint64_t last, uint64_t offset,
                    uint64_t length)
{
    return store_extents_add(extents, ino, NOW, writer, last, offset, length);
}

static struct store_extent_list list_of(uint64_t ino, uint64_t btime, uint64_t writer,
                                        uint64_t but)
{
    struct store_extent_list list;

    assert_int_equal(store_extents_list(extents, ino, btime, NULL, writer, but, &list), 0);
    return list;
}

/* "0+4 8+2 |16": writes, then cuts. */
static void is(struct store_extent_list list, const char *want)
{
    char have[256] = "";
    size_t at = 0;

    for (size_t i = 0; i < list.n + list.ncuts; i++) {
        const struct store_extent *extent = &list.extent[i];
        uint64_t length = extent->length;
        for (; i + 1 < list.n && extent->offset + length == list.extent[i + 1].offset; i++)
            length += list.extent[i + 1].length; /* written at other times */
        at += (size_t)snprintf(
            have + at, sizeof(have) - at, i < list.n ? "%s%llu+%llu" : "%s|%llu",
            at ? " " : "", (unsigned long long)extent->offset, (unsigned long long)length);
    }
    assert_string_equal(have, want);
    store_extent_list_free(&list);
}

static void test_add(void **state)
{
    uint64_t born = NOW, a, b, c;

    (void)state;
    do { /* unless this process is kept from it, it follows at once */
        a = store_extents_add(extents, 1, born, 7, 0, 0, 4);
        assert_true(store_extents_end(extents, a, 4, 4));
        b = store_extents_add(extents, 1, born, 7, a, 4, 4);
        assert_true(store_extents_end(extents, b, 8, 8));
    } while (b && b != a);
    c = store_extents_add(extents, 1, born, 7, b, 100, 1);
    assert_true(a && b == a && c != a);
    store_extents_add(extents, 1, born, 8, 0, 50, 0);
    store_extents_add(extents, 1, born, 8, 0, 99, 3);
    store_extents_add(extents, 2, born, 7, 0, 10, 10);
    store_extents_add(extents, 1, born + 1, 7, 0, 10, 10); /* another file with its inode */
    is(list_of(1, born, 0, 0), "0+8 99+3 |50");
    is(list_of(1, born, 8, 0), "99+3 |50");
    is(list_of(1, born, 0, 8), "0+8 100+1");
    is(list_of(3, born, 0, 0), "");
}

/* A write that is not recorded is as if all were written; where nobody records it costs nothing. */
static void test_unknown(void **state)
{
    struct store_extent_list all;
    uint64_t born = NOW;

    (void)state;
    store_extents_add_unknown(extents, 1, born, 7);
    is(list_of(1, born, 0, 0), "");
    store_extents_begin(extents);
    store_extents_begin(extents);
    store_extents_add_unknown(extents, 1, born, 7);
    all = list_of(1, born, 0, 0);
    assert_int_equal(all.n, 1); /* anywhere, at any time */
    assert_true(all.extent->length > 1ull << 39);
    assert_true(all.extent->first == 0 && all.extent->last == UINT64_MAX);
    store_extent_list_free(&all);
    is(list_of(2, born, 0, 0), "");
    /* A range that is too long to be recorded: nothing of before counts any more. */
    assert_int_equal(store_extents_add(extents, 2, born, 7, 0, 0, 1ull << 41), 0);
    assert_int_equal(store_extents_list(extents, 2, born, NULL, 0, 0, &all), -1);
    is(list_of(2, born + 3600 * 1000000000ull, 0, 0), "");
}

/* What other nodes have written, in their order; a range that goes on was written in between. */
static void test_others(void **state)
{
    uint64_t born = NOW, node = STORE_EXTENTS_OTHER | 5, a;
    struct store_extent theirs = {100, 10, born + 1, born + 2};
    struct store_extent_list list;

    (void)state;
    a = store_extents_add(extents, 1, born, 7, 0, 0, 8);
    list = list_of(1, born, 0, 0);
    assert_true(list.extent->first == list.extent->last && list.extent->first >= born);
    store_extent_list_free(&list);
    usleep(1000); /* it takes so long, ... */
    store_extents_end(extents, a, 8, 8);
    list = list_of(1, born, 0, 0);
    assert_true(list.extent->last - list.extent->first >= 1000000);
    store_extent_list_free(&list);
    usleep(1000); /* ... and then there is a pause */
    assert_int_not_equal(store_extents_add(extents, 1, born, 7, a, 8, 1), a);
    assert_true(store_extents_add_other(extents, 1, born, node, &theirs));
    theirs.offset = 110;
    assert_true(store_extents_add_other(extents, 1, born, node + 1, &theirs));
    is(list_of(1, born, 0, 0), "0+9 100+20");
    is(list_of(1, born, node, 0), "100+10");
    is(list_of(1, born, 0, node), "0+9 110+10");
    is(list_of(1, born, 0, STORE_EXTENTS_OTHERS), "0+9");
    list = list_of(1, born, node, 0);
    assert_true(list.extent->first == born + 1 && list.extent->last == born + 2);
    store_extent_list_free(&list);
}

static void test_reset(void **state)
{
    uint64_t born = NOW;

    (void)state;
    store_extents_begin(extents);
    store_extents_add_unknown(extents, 1, born, 7);
    store_extents_add(extents, 1, born, 7, 0, 10, 10);
    store_extents_add(extents, 2, born, 7, 0, 10, 10);
    store_extents_add_reset(extents, 1, born);
    store_extents_add(extents, 1, born, 7, 0, 100, 10);
    is(list_of(1, born, 0, 0), "100+10");
    is(list_of(1, born, 7, 0), "100+10");
    is(list_of(2, born, 0, 0), "10+10");
}

static void test_trim(void **state)
{
    uint64_t born = NOW, a, b;

    (void)state;
    a = store_extents_add(extents, 1, born, 7, 0, 10, 10);
    assert_true(store_extents_end(extents, a, 20, 15));
    is(list_of(1, born, 0, 0), "10+5");
    do {
        a = store_extents_add(extents, 1, born, 7, 0, 10, 5);
        /* While that write has not ended nobody lengthens its range. */
        assert_true(store_extents_add(extents, 1, born, 7, a, 15, 5) != a);
        assert_true(store_extents_end(extents, a, 15, 15));
        b = store_extents_add(extents, 1, born, 7, a, 15, 5);
    } while (b != a);
    assert_true(store_extents_end(extents, a, 20, 18));
    assert_false(store_extents_end(extents, a, 20, 17)); /* it was cut since */
    is(list_of(1, born, 0, 0), "10+10");
    a = store_extents_add(extents, 2, born, 7, 0, 10, 10);
    is(list_of(2, born, 0, 0), "10+10");
    assert_true(store_extents_end(extents, a, 20, 10)); /* nothing was written */
    is(list_of(2, born, 0, 0), "");
}

static void test_cover(void **state)
{
    static const struct store_extent ranges[] = {
        {10, 10, 0, 0}, {8192, 4096, 0, 0}, {1 << 20, 1, 0, 0}};
    const struct dyad_base version = {.kind = DYAD_BASE_FROM, .size = 4 << 20, .time = 5};
    /* On tmpfs: memfd_create() makes its files there. */
    int fd = memfd_create("cover", MFD_CLOEXEC);
    const volatile char *map;
    uint64_t born = NOW;

    (void)state;
    assert_true(fd >= 0);
    assert_true(store_extents_cover(extents, 1, born, NULL, fd)); /* nothing is there */
    for (int i = 0; i < 3; i++) {
        uint64_t offset = ranges[i].offset;
        assert_int_equal(pwrite(fd, "0123456789", 1, (off_t)offset), 1);
        assert_false(store_extents_cover(extents, 1, born, NULL, fd));
        assert_true(
            store_extents_add(extents, 1, born, 7 + i % 2, 0, offset, ranges[i].length));
        assert_true(store_extents_cover(extents, 1, born, NULL, fd));
    }
    assert_int_equal(ftruncate(fd, 4 << 20), 0);
    assert_false(store_extents_cover(extents, 1, born, NULL, fd)); /* who made it longer? */
    store_extents_add(extents, 1, born, 8, 0, 4 << 20, 0);
    assert_true(store_extents_cover(extents, 1, born, NULL, fd));
    map =
        mmap(NULL, 4 << 20, PROT_READ, MAP_SHARED, fd, 0); /* tmpfs makes pages of holes */
    assert_true(map != MAP_FAILED);
    for (int i = 0; i < 4 << 20; i += 4096)
        assert_true(map[i] != 'x');
    munmap((void *)map, 4 << 20);
    assert_true(store_extents_cover(extents, 1, born, NULL, fd));
    assert_int_equal(pwrite(fd, "x", 1, 30),
                     1); /* past the record, in a block of which it has some */
    assert_false(store_extents_cover(extents, 1, born, NULL, fd));
    assert_true(store_extents_add(extents, 1, born, 8, 0, 30, 1));
    assert_true(store_extents_cover(extents, 1, born, NULL, fd));
    store_extents_add_version(extents, 1, born, &version);
    assert_true(store_extents_cover(extents, 1, born, &version, fd));
    assert_int_equal(pwrite(fd, "x", 1, 4096),
                     1); /* of what the version had nobody knows */
    assert_true(store_extents_cover(extents, 1, born, &version, fd));
    assert_int_equal(pwrite(fd, "xy", 2, 4 << 20), 2);
    assert_false(store_extents_cover(extents, 1, born, &version, fd));
    assert_true(store_extents_add(extents, 1, born, 8, 0, (4 << 20) + 1, 1));
    assert_false(store_extents_cover(extents, 1, born, &version, fd));
    assert_true(store_extents_add(extents, 1, born, 8, 0, 4 << 20, 1));
    assert_true(store_extents_cover(extents, 1, born, &version, fd));
    assert_false(store_extents_cover(extents, 1, born, NULL, fd));
    assert_false(store_extents_cover(extents, 2, born, NULL, fd));
    close(fd);
}

/* Random writes of several processes at once, against a map of bytes. */
static void test_processes(void **state)
{
    enum { PROCESSES = 4, WRITES = 3000, SIZE = 40000 };
    static unsigned char want[SIZE];
    uint64_t born = NOW;
    struct store_extent_list list;

    (void)state;
    for (unsigned p = 0; p < PROCESSES; p++) {
        unsigned seed = p;
        pid_t pid = fork();
        uint64_t last = 0, end = 0;
        assert_true(pid >= 0);
        for (unsigned i = 0; i < WRITES; i++) {
            uint64_t offset = (unsigned)rand_r(&seed) % (SIZE - 8), length = 1 + i % 7;
            if (i % 3 && end + length <= SIZE)
                offset = end;
            end = offset + length;
            if (pid > 0) {
                memset(want + offset, 1, length);
                continue;
            }
            last = store_extents_add(extents, 5, born, p + 1, last, offset, length);
            if (!last || !store_extents_end(extents, last, end, end))
                _exit(1);
        }
        if (pid == 0)
            _exit(0);
    }
    for (unsigned p = 0; p < PROCESSES; p++) {
        int status;
        assert_true(wait(&status) > 0 && status == 0);
    }
    list = list_of(5, born, 0, 0);
    for (size_t i = 0; i < list.n; i++)
        for (uint64_t k = 0; k < list.extent[i].length; k++)
            assert_int_equal(want[list.extent[i].offset + k]++, 1);
    for (size_t i = 0; i < SIZE; i++)
        assert_true(want[i] != 1);
    store_extent_list_free(&list);
}

/* What another node is to be shown: what has ended, since some time, and was not shown here only. */
static void test_newer(void **state)
{
    const struct store_extent theirs = {100, 10, 5, 6};
    uint64_t born = NOW, node = STORE_EXTENTS_OTHER | 5, a, b, later;
    struct store_extent_list list;
    struct timespec now;
    bool unended;

    (void)state;
    a = store_extents_add(extents, 1, born, 7, 0, 0, 8);
    b = store_extents_add(extents, 1, born, 8, 0, 20, 8);
    assert_true(store_extents_end(extents, a, 8, 8));
    assert_int_equal(
        store_extents_list_newer(extents, 1, born, NULL, 0, 0, &list, &unended), 0);
    is(list, "0+8");
    assert_true(unended);
    is(list_of(1, born, 0, 0), "0+8 20+8"); /* a close gives it away: it may be there */
    usleep(1000);
    assert_int_equal(clock_gettime(CLOCK_REALTIME, &now), 0);
    later = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
    assert_true(store_extents_end(extents, b, 28, 26));
    assert_int_equal(
        store_extents_list_newer(extents, 1, born, NULL, 0, later, &list, &unended), 0);
    is(list, "20+6");
    assert_false(unended);
    assert_true(
        store_extents_add_other(extents, 1, born, node | STORE_EXTENTS_SHOWN, &theirs));
    assert_true(store_extents_add_other(extents, 1, born, node + 1, &theirs));
    assert_int_equal(
        store_extents_list_newer(extents, 1, born, NULL, node, 0, &list, &unended), 0);
    is(list, "0+8 20+6 100+10");
    assert_int_equal(
        store_extents_list_newer(extents, 1, born, NULL, node + 1, 0, &list, &unended), 0);
    is(list, "0+8 20+6");
    /* Written there long ago, it has come here a moment ago. */
    assert_int_equal(
        store_extents_list_newer(extents, 1, born, NULL, node, later, &list, &unended), 0);
    is(list, "20+6 100+10");
    is(list_of(1, born, 0, node + 1), "0+8 20+6 100+10");
    is(list_of(1, born, node, 0), "100+10");
}

/* A cut that is under way is shown when it has ended; one that has failed is none. What it has taken away is not
 * shown, whoever has written it. */
static void test_cuts(void **state)
{
    const uint64_t born = NOW, node = STORE_EXTENTS_OTHER | 5;
    const struct store_extent theirs = {10, 10, born - 5, born - 5};
    struct store_extent_list list;
    bool unended;
    uint64_t a;

    (void)state;
    assert_true(store_extents_end(extents, add(1, 7, 0, 0, 8), 8, 8));
    assert_true(store_extents_add_other(extents, 1, born, node, &theirs));
    usleep(10);
    a = store_extents_add(extents, 1, born, 7, 0, 30, 0);
    assert_true(store_extents_end(extents, a, 30, ~30ull));
    is(list_of(1, born, 0, 0), "0+8 10+10");
    a = store_extents_add(extents, 1, born, 7, 0, 4, 0);
    assert_int_equal(
        store_extents_list_newer(extents, 1, born, NULL, 0, 0, &list, &unended), 0);
    is(list, "0+4");
    assert_true(unended);
    assert_true(store_extents_end(extents, a, 4, 4));
    assert_int_equal(
        store_extents_list_newer(extents, 1, born, NULL, 7, 0, &list, &unended), 0);
    is(list, "");
    assert_int_equal(
        store_extents_list_newer(extents, 1, born, NULL, 0, 0, &list, &unended), 0);
    is(list, "0+4 |4");
    assert_false(unended);
}

/* What was written since the file was some version; the first such place counts. */
static void test_version(void **state)
{
    const struct dyad_base old = {DYAD_BASE_FROM, 10, 5, false, false, false, 0, false};
    struct dyad_base other = {DYAD_BASE_FROM, 10, 6, false, false, false, 0, false}, last;
    uint64_t born = NOW;
    struct store_extent_list list;

    (void)state;
    store_extents_add(extents, 1, born, 7, 0, 0, 4);
    assert_false(store_extents_version(extents, 1, born, &last));
    store_extents_add_version(extents, 1, born, &old);
    assert_int_equal(store_extents_list(extents, 1, born, &old, 0, 0, &list), 0);
    is(list, "");
    store_extents_add(extents, 1, born, 7, 0, 8, 2);
    store_extents_add_version(extents, 1, born, &old); /* who opened it at the same time */
    store_extents_add(extents, 1, born, 8, 0, 12, 2);
    assert_int_equal(store_extents_list(extents, 1, born, &old, 0, 0, &list), 0);
    is(list, "8+2 12+2");
    is(list_of(1, born, 0, 0), "0+4 8+2 12+2");
    assert_int_equal(store_extents_list(extents, 1, born, &other, 0, 0, &list), -1);
    assert_int_equal(errno, ENODATA);
    store_extents_add_version(extents, 1, born, &other);
    assert_true(store_extents_version(extents, 1, born, &last));
    assert_int_equal(last.time, 6);
    assert_int_equal(store_extents_list(extents, 1, born, &other, 0, 0, &list), 0);
    is(list, "");
    store_extents_add_reset(extents, 1, born); /* it was emptied */
    assert_false(store_extents_version(extents, 1, born, &last));
    assert_int_equal(last.size, 0);
    assert_int_equal(store_extents_list(extents, 1, born, &other, 0, 0, &list), -1);
    assert_int_equal(errno, ENODATA);
}

/* What was being written when the file was published may be in that version, or not. */
static void test_published(void **state)
{
    const struct dyad_base old = {.kind = DYAD_BASE_FROM, .size = 10, .time = 5};
    const struct dyad_base newer = {.kind = DYAD_BASE_FROM, .size = 12, .time = 9};
    struct store_extent_list list;
    uint64_t born = NOW, ended, begun, looked, during;
    struct dyad_base last;

    (void)state;
    store_extents_add_version(extents, 1, born, &old);
    ended = store_extents_add(extents, 1, born, 7, 0, 0, 4);
    assert_true(store_extents_end(extents, ended, 4, 4));
    usleep(1000);
    begun = store_extents_add(extents, 1, born, 8, 0, 20, 4);
    looked = util_clock_wall_ns();
    during = store_extents_add(extents, 1, born, 7, 0, 40, 4); /* after the look */
    assert_true(store_extents_end(extents, during, 44, 44));
    assert_int_equal(store_extents_list(extents, 1, born, &newer, 0, 0, &list), -1);
    assert_int_equal(store_extents_list_until(extents, 1, born, &old, &newer, &list), -1);
    store_extents_add_published(extents, 1, born, &newer, looked);
    store_extents_add(extents, 1, born, 7, 0, 30, 4);
    assert_int_equal(store_extents_list(extents, 1, born, &newer, 0, 0, &list), 0);
    is(list, "20+4 30+4 40+4");
    assert_true(store_extents_end(extents, begun, 24, 22));
    assert_int_equal(store_extents_list(extents, 1, born, &newer, 0, 0, &list), 0);
    is(list, "20+2 30+4 40+4");
    assert_int_equal(store_extents_list_until(extents, 1, born, &old, &newer, &list), 0);
    is(list, "0+4 20+2 40+4");
    assert_int_equal(store_extents_list(extents, 1, born, &old, 0, 0, &list), 0);
    is(list, "0+4 20+2 30+4 40+4");
    assert_true(store_extents_version(extents, 1, born, &last));
    assert_int_equal(last.time, 5);
}

/* Whether there is anything, and whose; also behind places of other files, which are older than this one. */
static void test_any(void **state)
{
    const struct dyad_base version = {.kind = DYAD_BASE_FROM, .size = 0, .time = 5};
    const struct dyad_base other = {.kind = DYAD_BASE_FROM, .size = 0, .time = 6};
    const struct store_extent theirs = {10, 4, 1, 1};
    uint64_t born = NOW, number;

    (void)state;
    for (int i = 0; i < 1000; i++)
        add(2, 7, 0, (uint64_t)i * 10, 4);
    assert_false(store_extents_any(extents, 1, born, 0));
    store_extents_add_version(extents, 1, born, &version);
    assert_false(store_extents_any(extents, 1, born, 0));
    assert_false(store_extents_published(extents, 1, born, &version));
    store_extents_add_published(extents, 1, born, &version, born);
    assert_false(store_extents_any(extents, 1, born, 0));
    assert_true(store_extents_published(extents, 1, born, &version));
    assert_false(store_extents_published(extents, 1, born, &other));
    assert_true(
        store_extents_add_other(extents, 1, born, STORE_EXTENTS_OTHER | 5, &theirs));
    assert_true(store_extents_any(extents, 1, born, 0));
    assert_false(store_extents_any(extents, 1, born, STORE_EXTENTS_OTHERS));
    number = store_extents_add(extents, 1, born, 7, 0, 20, 4);
    assert_true(store_extents_end(extents, number, 24, 20)); /* it has failed */
    assert_false(store_extents_any(extents, 1, born, STORE_EXTENTS_OTHERS));
    store_extents_add(extents, 1, born, 7, 0, 0, 0);
    for (int i = 0; i < 1000; i++)
        add(2, 7, 0, (uint64_t)i * 10, 4);
    assert_true(store_extents_any(extents, 1, born, STORE_EXTENTS_OTHERS));
    assert_false(store_extents_any(extents, 1, 0, 0)); /* no times of birth */
    /* Of a file that is born a minute later nothing can be there. */
    assert_false(store_extents_any(extents, 1, born + 60000000000ull, 0));
    store_extents_add_reset(extents, 1, born);
    assert_false(store_extents_any(extents, 1, born, 0));
}

/* A lap later an early file's ranges are lost, and it is said so; a late file's are there. */
static void test_lap(void **state)
{
    struct store_extent_list list;
    uint64_t born = NOW, late = born + 3600 * 1000000000ull;

    (void)state;
    store_extents_begin(extents);
    assert_int_equal(add(1, 7, 0, 0, 4), 2);
    for (uint64_t i = 0; i < STORE_EXTENTS_MAX - 2; i++)
        assert_true(store_extents_add(extents, 2, born, 7, 0, 2 * i, 1));
    store_extents_add(extents, 3, late, 7, 0, 5, 5);
    list = list_of(2, born, 0, 0);
    assert_int_equal(list.n, STORE_EXTENTS_MAX - 2);
    store_extent_list_free(&list);
    add(4, 7, 0, 0, 4); /* in the place of the first */
    assert_int_equal(store_extents_list(extents, 2, born, NULL, 0, 0, &list), -1);
    assert_int_equal(errno, ENODATA);
    is(list_of(3, late, 0, 0), "5+5");
    assert_int_equal(store_extents_list(extents, 3, 0, NULL, 0, 0, &list),
                     -1); /* born when? */
    assert_int_equal(errno, ENODATA);
}

/* Others of the boot see it; the next boot begins anew, and removes the table of before. */
static void test_boots(void **state)
{
    struct store_extents *same = store_extents_create(scratch->dir, BOOT), *next;
    uint64_t born = NOW;
    char path[PATH_MAX];
    struct store_extent_list list;

    (void)state;
    assert_non_null(same);
    store_extents_add(same, 1, born, 7, 0, 0, 4);
    is(list_of(1, born, 0, 0), "0+4");
    store_extents_destroy(same);
    snprintf(path, sizeof(path), "%s/.dyad/extents-" BOOT, scratch->path);
    assert_int_equal(access(path, F_OK), 0);
    next = store_extents_create(scratch->dir, "another");
    assert_non_null(next);
    assert_int_equal(store_extents_list(next, 1, born, NULL, 0, 0, &list), 0);
    assert_int_equal(list.n, 0);
    store_extent_list_free(&list);
    store_extents_destroy(next);
    assert_true(access(path, F_OK) < 0);
    store_dir_set_shared(scratch->dir, true);
    assert_null(store_extents_create(scratch->dir, BOOT));
    assert_int_equal(errno, ENOTSUP);
}

/* Held by another process, seen here; what a killed one has left is taken by the next, and let go once. */
static void test_held(void **state)
{
    struct store_extents *other = store_extents_create(scratch->dir, BOOT);

    (void)state;
    assert_non_null(other);
    assert_false(store_extents_held(extents, 1, 5));
    store_extents_hold(other, 1, 5);
    assert_true(store_extents_held(extents, 1, 5));
    assert_false(store_extents_held(extents, 1, 6));
    assert_false(store_extents_held(extents, 2, 5));
    store_extents_hold(extents, 1, 5); /* the other one was killed */
    store_extents_release(extents, 1, 5);
    assert_false(store_extents_held(extents, 1, 5));
    store_extents_release(extents, 1, 5);    /* by two who have found it left */
    for (uint64_t ino = 1; ino <= 20; ino++) /* more than there is room for */
        store_extents_hold(extents, ino, 5);
    assert_true(store_extents_held(other, 1, 5));
    assert_false(store_extents_held(other, 20, 5));
    for (uint64_t ino = 1; ino <= 20; ino++)
        store_extents_release(extents, ino, 5);
    for (uint64_t ino = 1; ino <= 20; ino++)
        assert_false(store_extents_held(other, ino, 5));
    store_extents_hold(extents, 20, 5);
    assert_true(store_extents_held(other, 20, 5));
    store_extents_destroy(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_add, setup, teardown),
        cmocka_unit_test_setup_teardown(test_unknown, setup, teardown),
        cmocka_unit_test_setup_teardown(test_others, setup, teardown),
        cmocka_unit_test_setup_teardown(test_reset, setup, teardown),
        cmocka_unit_test_setup_teardown(test_trim, setup, teardown),
        cmocka_unit_test_setup_teardown(test_cover, setup, teardown),
        cmocka_unit_test_setup_teardown(test_processes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_newer, setup, teardown),
        cmocka_unit_test_setup_teardown(test_cuts, setup, teardown),
        cmocka_unit_test_setup_teardown(test_version, setup, teardown),
        cmocka_unit_test_setup_teardown(test_published, setup, teardown),
        cmocka_unit_test_setup_teardown(test_any, setup, teardown),
        cmocka_unit_test_setup_teardown(test_lap, setup, teardown),
        cmocka_unit_test_setup_teardown(test_boots, setup, teardown),
        cmocka_unit_test_setup_teardown(test_held, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
