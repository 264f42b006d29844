/*
 * test_locks_held.c - how many locks of one rank are waited for here
 *
 * locks_held.c alone, with a real file that the test holds a lock of.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/core/joined_writers.h"
#include "engine/core/module.h"
#include "engine/publish/locks_held.h"
#include "fake_clock.h"
#include "store/fetch.h"

#define BOUND  16384u /* WAITS_MAX */
#define BROKEN 5u

extern const struct member_module locks_held_module;
static const struct member_module *const modules[] = {&locks_held_module, NULL};

static struct member member_made;
static struct member *const member = &member_made;
static char path[] = "/tmp/dyad-test-locks.XXXXXX";
static unsigned got, refused;

bool joined_writers_find(const struct member_dmd *dmd, const char *upath,
                         struct store_mark_info *info)
{
    (void)dmd;
    (void)upath;
    (void)info;
    return true;
}

int store_fetch_open_named(const struct store_dir *dir, const char *upath, int flags)
{
    (void)dir;
    (void)upath;
    return open(path, flags | O_CLOEXEC);
}

int member_send(struct member *m, uint32_t rank, struct net_msg *msg)
{
    (void)m;
    (void)rank;
    (void)msg;
    abort();
}

static void answered(struct member *m, uint32_t rank, uint64_t id, int status)
{
    (void)m;
    (void)rank;
    (void)id;
    got += status == 0;
    refused += status == ENOLCK;
}

static void lock(uint32_t rank, uint64_t id, uint8_t flags)
{
    const struct locks_request request = {
        .rank = rank, .id = id, .owner = 1, .upath = "f", .length = 10, .flags = flags};

    locks_hold(member, &request, answered);
}

static void test_bound(void **state)
{
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    int fd = mkstemp(path);

    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(fcntl(fd, F_OFD_SETLK, &whole), 0);
    fake_clock_begin(1000);
    member->modules = modules;
    member->dmd[ENGINE_PRODUCER].dir = (struct store_dir *)path; /* any but NULL */
    assert_int_equal(modules_create(member, modules), 0);
    assert_int_equal(modules_start(member), 0);

    for (unsigned i = 1; i <= BOUND; i++)
        lock(BROKEN, i, NET_LOCK_READ | NET_LOCK_WAIT);
    assert_int_equal(refused, 0);
    for (unsigned i = 1; i <= 10; i++)
        lock(BROKEN, BOUND + i, NET_LOCK_READ | NET_LOCK_WAIT);
    assert_int_equal(refused, 10);
    lock(6, 1, NET_LOCK_READ | NET_LOCK_WAIT); /* others wait as before */
    assert_int_equal(refused, 10);
    assert_int_equal(got, 0);

    /* Who gives up makes room; who waits gets it. */
    lock(BROKEN, 1, NET_LOCK_NONE | NET_LOCK_FORGET);
    lock(BROKEN, BOUND + 11, NET_LOCK_READ | NET_LOCK_WAIT);
    assert_int_equal(refused, 10);
    close(fd);
    fake_clock_pass(UTIL_NSEC_PER_SEC);
    assert_int_equal(got, BOUND + 1);

    modules_stop(member);
    modules_destroy(member);
    modules_free(member);
    fake_clock_end();
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_bound)};
    return cmocka_run_group_tests_name("locks_held", tests, NULL, NULL);
}
