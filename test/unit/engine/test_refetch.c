/*
 * test_refetch.c - what was made here and written anew elsewhere comes again
 *
 * refetch.c alone: the consume, the look-up and the disk are played by the test.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "engine/coherence/invalidate.h"
#include "engine/coherence/outdated.h"
#include "engine/core/local_file.h"
#include "engine/core/member.h"
#include "engine/core/module.h"
#include "engine/fetch/consume.h"
#include "engine/coherence/refetch.h"
#include "engine/membership/exit_barrier.h"
#include "engine/publish/produce.h"
#include "fake_clock.h"

#define MSEC UTIL_NSEC_PER_MSEC
#define SEC  UTIL_NSEC_PER_SEC

extern const struct member_module refetch_module;
static const struct member_module *const modules[] = {&refetch_module, NULL};

static struct member member_made;
static struct member *const member = &member_made;
static bool superseded, removed;
static unsigned nforgotten;

struct consume {
    consume_fn fn;
    void *arg;
    bool running;
};

static struct consume consumes[16];
static unsigned nconsumes;

struct dht_lookup {
    dht_lookup_fn fn;
    void *arg;
    bool running;
};

static struct dht_lookup lookup;

struct consume *consume_start(struct member *m, const char *upath, uint8_t flags,
                              uint64_t timeout_ms, pid_t pid, pid_t tid, consume_fn fn,
                              void *arg)
{
    (void)m;
    (void)upath;
    (void)timeout_ms;
    (void)pid;
    (void)tid;
    assert_int_equal(flags, NET_CONSUME_WRITER); /* does not wait for a publish */
    assert_true(nconsumes < 16);
    consumes[nconsumes] = (struct consume){fn, arg, true};
    return &consumes[nconsumes++];
}

void consume_cancel(struct consume *c)
{
    assert_true(c->running);
    c->running = false;
}

struct dht_lookup *dht_node_lookup(struct dht_node *node, const char *upath, uint8_t flags,
                                   const struct dyad_version *newer_than, dht_lookup_fn fn,
                                   void *arg)
{
    (void)node;
    (void)newer_than;
    assert_string_equal(upath, "f");
    assert_int_equal(flags, 0);
    lookup = (struct dht_lookup){fn, arg, true};
    return &lookup;
}

void dht_node_cancel(struct dht_node *node, struct dht_lookup *l)
{
    (void)node;
    assert_true(l->running);
    l->running = false;
}

int store_dir_stat(const struct store_dir *dir, const char *upath, struct stat *st)
{
    (void)dir;
    (void)upath;
    memset(st, 0, sizeof(*st));
    return 0;
}

const char *store_dir_path(const struct store_dir *dir)
{
    (void)dir;
    return "/dmd";
}

bool local_file_is_superseded(const struct member_dmd *dmd, const char *upath,
                              const struct stat *st)
{
    (void)dmd;
    (void)upath;
    (void)st;
    return superseded;
}

void local_file_withdrawn(struct member_dmd *dmd, const char *upath)
{
    (void)dmd;
    assert_string_equal(upath, "f");
    removed = true;
}

bool outdated_end(struct member_dmd *dmd, const struct dyad_entry *newer,
                  const struct store_record *record)
{
    (void)dmd;
    (void)newer;
    (void)record;
    return false;
}

bool invalidate_pending(const struct member *m, const char *upath)
{
    (void)m;
    (void)upath;
    return false;
}

void invalidate_forget(struct member *m, const char *upath)
{
    (void)m;
    (void)upath;
    nforgotten++;
}

void exit_barrier_activity(struct member *m)
{
    (void)m;
}

static int setup(void **state)
{
    (void)state;
    memset(member, 0, sizeof(*member));
    assert_int_equal(modules_create(member, modules), 0);
    member->modules = modules;
    member->state = MEMBER_JOINED;
    nconsumes = nforgotten = 0;
    removed = false;
    superseded = true;
    fake_clock_begin(1000 * SEC);
    return refetch_module.start(member);
}

static int teardown(void **state)
{
    (void)state;
    modules_destroy(member);
    modules_free(member);
    fake_clock_end();
    return 0;
}

static void end_consume(unsigned i, int status)
{
    assert_true(consumes[i].running);
    consumes[i].running = false;
    consumes[i].fn(consumes[i].arg, status);
}

/* It comes when nothing newer has been heard of for a moment. */
static void test_quiet(void **state)
{
    (void)state;
    assert_false(refetch_module.pending(member));
    for (int i = 0; i < 5; i++) {
        refetch_want(member, "f");
        assert_true(refetch_module.pending(member));
        fake_clock_pass(60 * MSEC);
        assert_int_equal(nconsumes, 0);
    }
    fake_clock_pass(60 * MSEC);
    assert_int_equal(nconsumes, 1);
    superseded = false;
    end_consume(0, 0);
    assert_false(refetch_module.pending(member));
    assert_false(refetch_wants(member, "f"));
    assert_int_equal(nforgotten, 1);
    assert_int_equal(fake_clock_next(), 0);
}

/* What becomes newer while it is fetched is fetched afterwards, whatever becomes of that.
 */
static void test_again(void **state)
{
    (void)state;
    refetch_want(member, "f");
    fake_clock_pass(200 * MSEC);
    refetch_want(member, "f");
    fake_clock_pass(200 * MSEC);
    assert_int_equal(nconsumes, 1);
    end_consume(0, EHOSTUNREACH);
    assert_true(refetch_module.pending(member));
    fake_clock_pass(1 * MSEC);
    assert_int_equal(nconsumes, 2);
    superseded = false;
    end_consume(1, 0);
    assert_false(refetch_wants(member, "f"));
}

/* What cannot be had does not hold up the end, and is tried again, ever less often. */
static void test_fails(void **state)
{
    (void)state;
    refetch_want(member, "f");
    fake_clock_pass(200 * MSEC);
    for (unsigned i = 0; i < 10; i++) {
        end_consume(i, EHOSTUNREACH);
        assert_false(refetch_module.pending(member));
        assert_true(refetch_wants(member, "f"));
        uint64_t pause = fake_clock_next() - fake_now;
        assert_in_range(pause, 2 * SEC, 60 * SEC);
        assert_int_equal(pause, i < 5 ? (2 * SEC) << i : 60 * SEC);
        fake_clock_pass(pause);
        assert_int_equal(nconsumes, i + 2);
    }
    superseded = false;
    end_consume(10, 0);
    assert_false(refetch_wants(member, "f"));
}

/* At the end of the program at once. */
static void test_hurry(void **state)
{
    (void)state;
    refetch_module.exiting(member, false);
    refetch_want(member, "f");
    refetch_module.exiting(member, false);
    member->state = MEMBER_EXITING;
    refetch_want(member, "g");
    fake_clock_pass(1);
    assert_int_equal(nconsumes, 2);
    assert_true(refetch_module.pending(member));
    superseded = false;
    end_consume(1, 0);
    assert_true(refetch_module.pending(member));
    end_consume(0, 0);
    assert_false(refetch_module.pending(member));
}

/* So many at once. */
static void test_many(void **state)
{
    char name[2] = "a";

    (void)state;
    for (; name[0] < 'a' + 10; name[0]++)
        refetch_want(member, name);
    fake_clock_pass(200 * MSEC);
    assert_int_equal(nconsumes, 8);
    superseded = false;
    end_consume(3, 0);
    end_consume(4, 0);
    fake_clock_pass(1 * MSEC);
    assert_int_equal(nconsumes, 10);
}

/* Not published: it goes if it was withdrawn, and else it may be all that is left. */
static void test_not_published(void **state)
{
    struct dyad_entry gone = {.upath = "f", .state = DYAD_ENTRY_WITHDRAWN};

    (void)state;
    refetch_want(member, "f");
    fake_clock_pass(200 * MSEC);
    end_consume(0, ENOENT);
    assert_true(refetch_module.pending(member));
    lookup.fn(lookup.arg, ENOENT, NULL);
    assert_false(removed);
    assert_false(refetch_module.pending(member));
    fake_clock_pass(2 * SEC);
    end_consume(1, ENOENT);
    lookup.fn(lookup.arg, ENOENT, &gone);
    assert_true(removed);
    assert_false(refetch_wants(member, "f"));
    assert_int_equal(nforgotten, 1);
}

/* Its pieces are in another node's file. The file here is not the one of its record, for others of
 * the node have written to it since: it comes if it is superseded. */
static void test_overtaken(void **state)
{
    const struct dyad_entry newer = {.upath = "f", .state = DYAD_ENTRY_PUBLISHED};
    const struct store_record record = {.kind = STORE_RECORD_ORIGINAL};
    struct member_dmd dmd = {.brings = false};

    (void)state;
    assert_false(refetch_module.overtaken(member, &dmd, &newer, &record));
    dmd.brings = true;
    superseded = false;
    assert_false(refetch_module.overtaken(member, &dmd, &newer, &record));
    assert_false(refetch_wants(member, "f"));
    superseded = true;
    assert_true(refetch_module.overtaken(member, &dmd, &newer, &record));
    assert_true(refetch_wants(member, "f"));
}

static void test_forgotten(void **state)
{
    (void)state;
    refetch_want(member, "f");
    fake_clock_pass(200 * MSEC);
    refetch_forget(member, "f");
    refetch_forget(member, "f");
    assert_false(consumes[0].running);
    assert_false(refetch_module.pending(member));
    refetch_want(member, "f");
    fake_clock_pass(200 * MSEC);
    end_consume(1, ENOENT);
    refetch_forget(member, "f");
    assert_false(lookup.running);
    assert_false(refetch_wants(member, "f"));
    /* The end, in the midst of it. */
    refetch_want(member, "f");
    fake_clock_pass(200 * MSEC);
    modules_destroy(member);
    assert_false(consumes[2].running);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_quiet, setup, teardown),
        cmocka_unit_test_setup_teardown(test_again, setup, teardown),
        cmocka_unit_test_setup_teardown(test_fails, setup, teardown),
        cmocka_unit_test_setup_teardown(test_hurry, setup, teardown),
        cmocka_unit_test_setup_teardown(test_many, setup, teardown),
        cmocka_unit_test_setup_teardown(test_not_published, setup, teardown),
        cmocka_unit_test_setup_teardown(test_overtaken, setup, teardown),
        cmocka_unit_test_setup_teardown(test_forgotten, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
