/* engine/publish/pieces_apply.h: bytes of two nodes, in the order in which they were written, by whatever clock. */
#include "../store/scratch.h"

#include <endian.h>
#include <time.h>

#include "engine/publish/pieces.h"
#include "engine/publish/pieces_apply.h"

#define MS 1000000

static struct scratch *scratch;
static struct member_dmd dmd;
static struct pieces_apply apply;
static int file;
static int64_t ahead; /* by which our clock is ahead of the sender's */

static int setup(void **state)
{
    if (scratch_setup(state) < 0)
        return -1;
    scratch = *state;
    dmd = (struct member_dmd){.dir = scratch->dir};
    dmd.marks = store_marks_create(scratch->dir);
    dmd.extents = store_extents_create(scratch->dir, NULL);
    if (!dmd.marks || !dmd.extents)
        return -1;
    store_extents_begin(dmd.extents);
    file = open(scratch_path(scratch, "f"), O_RDWR | O_CREAT, 0644);
    apply = (struct pieces_apply){.dmd = &dmd, .upath = "f"};
    memset(apply.storage, 9, sizeof(apply.storage));
    apply.fd = open(scratch->path, O_TMPFILE | O_RDWR, 0600);
    ahead = 0;
    return apply.fd < 0 || store_identity_read(file, &apply.identity);
}

static int teardown(void **state)
{
    close(file);
    close(apply.fd);
    store_extents_destroy(dmd.extents);
    store_marks_destroy(dmd.marks);
    return scratch_teardown(state);
}

static uint64_t now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_REALTIME, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* A program of this node. */
static void write_here(uint64_t offset, const char *text)
{
    uint64_t n = store_extents_add(dmd.extents, apply.identity.ino, apply.identity.btime, 7,
                                   0, offset, strlen(text));

    assert_int_equal(pwrite(file, text, strlen(text), (off_t)offset), strlen(text));
    store_extents_end(dmd.extents, n, offset + strlen(text), offset + strlen(text));
    usleep(200);
}

/* The other node wrote it then: length 0: a cut. */
static void piece_at(uint64_t offset, const char *text, uint64_t when)
{
    struct store_extent extent = {offset, strlen(text), when, when};
    char head[PIECE_HEAD];

    piece_put(head, &extent);
    assert_int_equal(write(apply.fd, head, sizeof(head)), sizeof(head));
    assert_int_equal(write(apply.fd, text, strlen(text)), strlen(text));
    apply.size += sizeof(head) + strlen(text);
    usleep(200);
}

static void piece(uint64_t offset, const char *text)
{
    piece_at(offset, text, now() - (uint64_t)ahead);
}

/* All that it has sent, with a clock that is known to so many ns, more or less. */
static int applies_within(int64_t ns)
{
    int status;

    apply.ahead_min = ahead - ns;
    apply.ahead_max = ahead + ns;
    status = pieces_apply(&apply);
    apply.size = 0;
    assert_int_equal(ftruncate(apply.fd, 0), 0);
    lseek(apply.fd, 0, SEEK_SET);
    return status;
}

static int applies(void)
{
    return applies_within(20000);
}

static void has(const char *want)
{
    char have[100] = "";

    assert_int_equal(pread(file, have, sizeof(have) - 1, 0), strlen(want));
    assert_string_equal(have, want);
}

static void test_apart(void **state)
{
    (void)state;
    write_here(0, "ours");
    piece(4, "theirs");
    assert_int_equal(applies(), 0);
    has("ourstheirs");
    assert_int_equal(applies(), 0); /* nothing */
    has("ourstheirs");
}

/* The same bytes: the last one counts, in each part. */
static void in_order(void)
{
    write_here(0, "aaaaaaaaaa");
    piece(2, "bbb");
    write_here(4, "cccc");
    piece(7, "dd");
    assert_int_equal(applies(), 0);
    has("aabbcccdda");
}

static void test_order(void **state)
{
    (void)state;
    in_order();
}

static void test_clock_ahead(void **state)
{
    (void)state;
    ahead = 10 * MS;
    in_order();
}

static void test_clock_behind(void **state)
{
    (void)state;
    ahead = -10000ll * MS;
    in_order();
}

/* A third node's are in the file already. */
static void test_third(void **state)
{
    (void)state;
    write_here(0, "aaaaaaaaaa");
    piece(2, "bbb");
    assert_int_equal(applies(), 0);
    memset(apply.storage, 5, sizeof(apply.storage));
    ahead = 10 * MS;
    piece(3, "ccc");
    assert_int_equal(applies(), 0);
    has("aabcccaaaa");
}

/* Its node has sent them before, and has written them again: whatever their times. */
static void test_again(void **state)
{
    (void)state;
    write_here(0, "aaaa");
    piece(4, "bbbb");
    assert_int_equal(applies(), 0);
    piece(4, "cc");
    assert_int_equal(applies(), 0);
    has("aaaaccbb");
}

/* What was sent first may be the later one. */
static void test_overtaken(void **state)
{
    struct store_extent late;

    (void)state;
    write_here(0, "aaaaaaaaaa");
    piece(2, "old");
    usleep(200);
    late = (struct store_extent){3, 1, now() - (uint64_t)ahead, now() - (uint64_t)ahead};
    assert_true(
        store_extents_add_other(dmd.extents, apply.identity.ino, apply.identity.btime,
                                STORE_EXTENTS_OTHER | 0x0909090909090909 >> 2, &late));
    assert_int_equal(pwrite(file, "N", 1, 3), 1);
    assert_int_equal(applies(), 0);
    has("aaoNdaaaaa");
}

/* Which was the last is not known: by no clock, or since somebody's writes are not recorded. */
static void test_unknown(void **state)
{
    (void)state;
    write_here(0, "aaaa");
    piece(2, "bbb");
    apply.ahead_min = 0;
    apply.ahead_max = -1; /* a clock that was set */
    assert_int_equal(pieces_apply(&apply), EEXIST);
    assert_int_equal(apply.met.offset, 2);
    assert_int_equal(apply.met.length, 2);
    has("aaaa"); /* nothing is changed */
    store_extents_add_unknown(dmd.extents, apply.identity.ino, apply.identity.btime, 7);
    assert_int_equal(applies(), EEXIST);
    assert_int_equal(apply.met.length, 2);
    piece(1, "aa"); /* the same bytes */
    assert_int_equal(applies(), 0);
    has("aaaa");
}

/* Written past the record. */
static void test_unrecorded(void **state)
{
    (void)state;
    write_here(0, "aaaa");
    assert_int_equal(pwrite(file, "x", 1, 10000), 1);
    piece(5, "b");
    assert_int_equal(applies(), EBUSY);
}

static void test_cuts(void **state)
{
    struct stat st;

    (void)state;
    piece(2, ""); /* before anything was written here */
    write_here(0, "aaaa");
    assert_int_equal(applies(), 0);
    has("aaaa");
    piece(100, ""); /* it is longer */
    assert_int_equal(applies(), 0);
    assert_int_equal(fstat(file, &st), 0);
    assert_int_equal(st.st_size, 100);
    /* Shorter than another node has made it, later: also than what this node has written. */
    piece(50, "");
    assert_int_equal(applies(), 0);
    assert_int_equal(fstat(file, &st), 0);
    assert_int_equal(st.st_size, 50);
    piece(3, "");
    assert_int_equal(applies(), 0);
    has("aaa");
    /* At a time that is too near. */
    write_here(3, "bb");
    piece(4, "");
    assert_int_equal(applies_within(10000ll * MS), EEXIST);
    assert_int_equal(apply.met.offset, 4);
    assert_int_equal(apply.met.length, 1);
}

/* It has written behind an end to which the file was cut here, before and after that. */
static void test_cut_here(void **state)
{
    uint64_t n;

    (void)state;
    write_here(0, "aaaaaaaa");
    piece(6, "zz");
    n = store_extents_add(dmd.extents, apply.identity.ino, apply.identity.btime, 7, 0, 3,
                          0);
    assert_int_not_equal(n, 0);
    assert_int_equal(ftruncate(file, 3), 0);
    usleep(200);
    assert_int_equal(applies(), 0);
    has("aaa");
    piece(4, "y");
    assert_int_equal(applies(), 0);
    assert_int_equal(lseek(file, 0, SEEK_END), 5);
    piece(100, ""); /* longer, and before this one: */
    store_extents_add(dmd.extents, apply.identity.ino, apply.identity.btime, 7, 0, 2, 0);
    assert_int_equal(ftruncate(file, 2), 0);
    usleep(200);
    assert_int_equal(applies(), 0);
    has("aa");
}

/* Both have cut it, at times that are too near, to different lengths: what lay there before is cut off by both. */
static void test_cuts_too_near(void **state)
{
    const uint64_t then = now() - 60000ull * MS;
    const struct store_extent before = {0, 8, then, then};

    (void)state;
    assert_true(store_extents_add_other(dmd.extents, apply.identity.ino,
                                        apply.identity.btime, STORE_EXTENTS_OTHER | 5,
                                        &before));
    store_extents_add(dmd.extents, apply.identity.ino, apply.identity.btime, 7, 0, 0, 0);
    piece(5, "");
    assert_int_equal(applies_within(10000ll * MS), EEXIST);
    assert_int_equal(apply.met.offset, 0);
    assert_int_equal(apply.met.length, 5);
    piece_at(0, "aaaaaaaa", then);
    piece(5, "");
    assert_int_equal(applies_within(10000ll * MS), EEXIST);
    assert_int_equal(apply.met.length, 5);
    has("");
}

/* Both nodes change one version, in place. What was written before counts no more. */
static void is_version(const char *text)
{
    write_here(0, "aaaaaaaaaaaaaaa");
    store_extents_add_unknown(dmd.extents, apply.identity.ino, apply.identity.btime, 7);
    assert_int_equal(ftruncate(file, 0), 0);
    assert_int_equal(pwrite(file, text, strlen(text), 0), strlen(text));
    apply.base = (struct dyad_base){DYAD_BASE_FROM, strlen(text), 1000, false,
                                    false,          false,        0,    false};
    store_extents_add_version(dmd.extents, apply.identity.ino, apply.identity.btime,
                              &apply.base);
}

static void test_version(void **state)
{
    (void)state;
    is_version("0123456789");
    write_here(0, "ours");
    piece(3, "xy");
    piece(8, "zzz");
    assert_int_equal(applies(), 0);
    has("ourxy567zzz");
    /* What it has is another version. */
    apply.base.time++;
    piece(0, "n");
    assert_int_equal(applies(), EBUSY);
    apply.base.time--;
    apply.base.size--;
    piece(0, "n");
    assert_int_equal(applies(), EBUSY);
    has("ourxy567zzz");
}

/* That version is empty: it was cut to nothing. */
static void test_version_empty(void **state)
{
    const struct dyad_base later = {.kind = DYAD_BASE_FROM, .size = 4, .time = 2000};

    (void)state;
    is_version("");
    write_here(0, "ours");
    store_extents_add_version(dmd.extents, apply.identity.ino, apply.identity.btime,
                              &later);
    piece(3, "xy");
    assert_int_equal(applies(), 0);
    has("ourxy");
}

/* The other one's changes are of an empty file. Ours, which is not on record from its making, says from which
 * version on it is. */
static void test_version_since(void **state)
{
    const struct dyad_base version = {.kind = DYAD_BASE_FROM, .size = 10, .time = 1000};

    (void)state;
    assert_int_equal(pwrite(file, "0123456789", 10, 0), 10);
    store_extents_add_version(dmd.extents, apply.identity.ino, apply.identity.btime,
                              &version);
    write_here(0, "ours");
    piece(3, "xy");
    assert_int_equal(applies(), EBUSY);
    assert_int_equal(apply.met.offset, 10);
    assert_int_equal(apply.met.length, 1000);
}

/* Ours has been replaced by the other one's, of which nothing is recorded. */
static void test_version_copy(void **state)
{
    (void)state;
    assert_int_equal(pwrite(file, "copy", 4, 0), 4);
    apply.base = (struct dyad_base){DYAD_BASE_FROM, 4, 1000, false, false, false, 0, false};
    piece(0, "n");
    assert_int_equal(applies(), ESTALE);
    has("copy");
}

/* The sender has cut it off: so does what the version had there go. */
static void test_version_cut(void **state)
{
    struct stat st;
    char have[6];

    (void)state;
    is_version("0123456789");
    piece(3, "");
    usleep(1000);
    write_here(5, "o");
    assert_int_equal(applies(), 0);
    assert_int_equal(fstat(file, &st), 0);
    assert_int_equal(st.st_size, 6);
    assert_int_equal(pread(file, have, sizeof(have), 0), sizeof(have));
    assert_memory_equal(have, "012\0\0o", sizeof(have));
}

static void test_version_shorter(void **state)
{
    (void)state;
    is_version("0123456789");
    piece(2, "x");
    piece(8, "");
    assert_int_equal(applies(), 0);
    has("01x34567");
}

/* Ours was emptied, the other one's made: both began with nothing. */
static void test_emptied(void **state)
{
    (void)state;
    is_version("");
    apply.base.time = 77;
    write_here(0, "ours");
    piece(4, "theirs");
    assert_int_equal(applies(), 0);
    has("ourstheirs");
}

static void test_bad(void **state)
{
    (void)state;
    write_here(0, "aaaa");
    piece(10, "b");
    piece(5, "b"); /* not in order */
    assert_int_equal(applies(), EPROTO);
    piece(10, "bbbb");
    apply.size--;
    assert_int_equal(applies(), EPROTO);
    has("aaaa");
    assert_int_equal(unlink(scratch_path(scratch, "f")), 0);
    piece(10, "b");
    assert_int_equal(applies(), ENOENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_apart, setup, teardown),
        cmocka_unit_test_setup_teardown(test_order, setup, teardown),
        cmocka_unit_test_setup_teardown(test_clock_ahead, setup, teardown),
        cmocka_unit_test_setup_teardown(test_clock_behind, setup, teardown),
        cmocka_unit_test_setup_teardown(test_third, setup, teardown),
        cmocka_unit_test_setup_teardown(test_again, setup, teardown),
        cmocka_unit_test_setup_teardown(test_overtaken, setup, teardown),
        cmocka_unit_test_setup_teardown(test_unknown, setup, teardown),
        cmocka_unit_test_setup_teardown(test_unrecorded, setup, teardown),
        cmocka_unit_test_setup_teardown(test_cuts, setup, teardown),
        cmocka_unit_test_setup_teardown(test_cut_here, setup, teardown),
        cmocka_unit_test_setup_teardown(test_version, setup, teardown),
        cmocka_unit_test_setup_teardown(test_cuts_too_near, setup, teardown),
        cmocka_unit_test_setup_teardown(test_version_empty, setup, teardown),
        cmocka_unit_test_setup_teardown(test_version_since, setup, teardown),
        cmocka_unit_test_setup_teardown(test_version_copy, setup, teardown),
        cmocka_unit_test_setup_teardown(test_version_cut, setup, teardown),
        cmocka_unit_test_setup_teardown(test_version_shorter, setup, teardown),
        cmocka_unit_test_setup_teardown(test_emptied, setup, teardown),
        cmocka_unit_test_setup_teardown(test_bad, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
