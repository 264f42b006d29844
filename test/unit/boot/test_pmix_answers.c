/* boot/pmix.h: what a member that leaves waits for, with a PMIx of the test's own. The
 * answer to a Get comes when the test says so; PMIx_Finalize notes how many were still out.
 */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <pmix.h>
#include <pthread.h>

#include "../in_memory.h"
#include "boot/pmix.h"
#include "util/clock.h"

#define LATE_MS  300
#define BOUND_MS 2000 /* ANSWER_BOUND_NS */
/* Rank 0 is us; rank 1 is on our node, rank 2 and 3 are not. */
#define NRANKS 4
static const char *const host[NRANKS] = {"here", "here", "there", "there"};

static struct {
    pthread_mutex_t lock;
    pmix_value_cbfunc_t fn[64]; /* of the Gets that were not answered */
    void *arg[64];
    pmix_rank_t rank[64];
    unsigned gets;
    int at_end; /* unanswered at PMIx_Finalize; -1: it was not called */
} server = {.lock = PTHREAD_MUTEX_INITIALIZER};

static struct net_loop *loop;

#define KEY_LEN 32
#define KEY_AT  128             /* not where free() writes */
static char blob[512] = "blob"; /* what the other ranks have given */

/* --- PMIx --- */

static unsigned unanswered(void)
{
    unsigned n = 0;

    for (unsigned i = 0; i < server.gets; i++)
        n += server.fn[i] != NULL;
    return n;
}

/* All Gets so far. */
static unsigned asked(void)
{
    unsigned gets;

    pthread_mutex_lock(&server.lock);
    gets = server.gets;
    pthread_mutex_unlock(&server.lock);
    return gets;
}

pmix_status_t PMIx_Init(pmix_proc_t *proc, pmix_info_t info[], size_t ninfo)
{
    (void)info;
    (void)ninfo;
    PMIX_LOAD_PROCID(proc, "made.up", 0);
    server.at_end = -1;
    return PMIX_SUCCESS;
}

int PMIx_Initialized(void)
{
    return 0; /* not when we are asked: after Finalize */
}

pmix_status_t PMIx_Finalize(const pmix_info_t info[], size_t ninfo)
{
    (void)info;
    (void)ninfo;
    pthread_mutex_lock(&server.lock);
    server.at_end = (int)unanswered();
    server.gets = 0; /* nobody is called back any more */
    pthread_mutex_unlock(&server.lock);
    return PMIX_SUCCESS;
}

pmix_status_t PMIx_Put(pmix_scope_t scope, const char key[], pmix_value_t *value)
{
    (void)scope;
    (void)key;
    (void)value;
    return PMIX_SUCCESS;
}

pmix_status_t PMIx_Commit(void)
{
    return PMIX_SUCCESS;
}

pmix_status_t PMIx_Get(const pmix_proc_t *proc, const char key[], const pmix_info_t info[],
                       size_t ninfo, pmix_value_t **value)
{
    (void)info;
    (void)ninfo;
    if (!(*value = calloc(1, sizeof(**value))))
        return PMIX_ERR_NOMEM;
    if (strcmp(key, PMIX_JOB_SIZE) == 0) {
        (*value)->type = PMIX_UINT32;
        (*value)->data.uint32 = NRANKS;
    } else {
        (*value)->type = PMIX_STRING;
        (*value)->data.string = strdup(host[proc->rank]);
    }
    return PMIX_SUCCESS;
}

pmix_status_t PMIx_Get_nb(const pmix_proc_t *proc, const char key[],
                          const pmix_info_t info[], size_t ninfo,
                          pmix_value_cbfunc_t cbfunc, void *cbdata)
{
    (void)key;
    (void)info;
    (void)ninfo;
    pthread_mutex_lock(&server.lock);
    server.fn[server.gets] = cbfunc;
    server.arg[server.gets] = cbdata;
    server.rank[server.gets++] = proc->rank;
    pthread_mutex_unlock(&server.lock);
    return PMIX_SUCCESS;
}

/* Answer what was asked of the rank (-1: of any) with a blob, or with another status. */
static void answer_so(int64_t rank, pmix_status_t status)
{
    pmix_value_t value = {.type = PMIX_BYTE_OBJECT};
    unsigned gets;

    value.data.bo.bytes = blob;
    value.data.bo.size = sizeof(blob);
    pthread_mutex_lock(&server.lock);
    gets = server.gets; /* not what an answer has somebody ask */
    pthread_mutex_unlock(&server.lock);
    for (unsigned i = 0; i < gets; i++) {
        pthread_mutex_lock(&server.lock);
        pmix_value_cbfunc_t fn =
            rank < 0 || server.rank[i] == (pmix_rank_t)rank ? server.fn[i] : NULL;
        if (fn)
            server.fn[i] = NULL;
        pthread_mutex_unlock(&server.lock);
        if (fn)
            fn(status, status == PMIX_SUCCESS ? &value : NULL, server.arg[i]);
    }
}

static void answer(int64_t rank)
{
    answer_so(rank, PMIX_SUCCESS);
}

static void *answer_late(void *arg)
{
    (void)arg;
    usleep(LATE_MS * 1000);
    answer(-1);
    return NULL;
}

/* --- a member --- */

#define BLOB -1
static int told; /* the error, or BLOB */

static void on_ready(void *arg, const struct boot_pmix_job *job, int error)
{
    (void)arg;
    assert_non_null(job);
    assert_int_equal(error, 0);
    net_loop_stop(loop);
}

static void on_committed(void *arg, int status)
{
    (void)arg;
    (void)status;
}

static void on_blob(void *arg, uint32_t rank, const void *bytes, size_t len, bool kept,
                    int error)
{
    (void)arg;
    (void)rank;
    (void)bytes;
    (void)len;
    (void)kept;
    told = error ? error : BLOB;
    net_loop_stop(loop);
}

static const struct boot_pmix_ops ops = {on_ready, on_committed, on_blob};

static struct boot_pmix *join_for(uint64_t timeout)
{
    static const struct boot_identity self = {.launched = true};
    struct boot_pmix *pmix;

    loop = net_loop_create();
    assert_non_null(loop);
    pmix =
        boot_pmix_create(loop, &self, "test", timeout, 60 * UTIL_NSEC_PER_SEC, &ops, NULL);
    assert_non_null(pmix);
    assert_int_equal(net_loop_run(loop), 0);
    return pmix;
}

static struct boot_pmix *join(void)
{
    return join_for(60 * UTIL_NSEC_PER_SEC);
}

static void await_told(int what)
{
    for (told = 0; told != what;)
        assert_int_equal(net_loop_run(loop), 0);
}

/* Ask, and let `gets` questions be out. */
static void ask(struct boot_pmix *pmix, uint32_t rank, enum boot_pmix_wanted wanted,
                unsigned gets)
{
    assert_int_equal(boot_pmix_get(pmix, rank, wanted), 0);
    do
        usleep(1000);
    while (asked() < gets);
}

/* Leave, and be answered meanwhile. Returns how long that took, in ms. */
static unsigned leave_so(struct boot_pmix *pmix, enum boot_pmix_end how, bool is_answered)
{
    uint64_t begin = util_clock_now();
    pthread_t thread;

    if (is_answered)
        assert_int_equal(pthread_create(&thread, NULL, answer_late, NULL), 0);
    boot_pmix_destroy(pmix, how);
    unsigned took = (unsigned)((util_clock_now() - begin) / UTIL_NSEC_PER_MSEC);
    if (is_answered)
        pthread_join(thread, NULL);
    net_loop_destroy(loop);
    return took;
}

static unsigned leave(struct boot_pmix *pmix, bool is_answered)
{
    return leave_so(pmix, BOOT_PMIX_END, is_answered);
}

/* Its server answers who asks for a newer member. */
static void test_newest(void **state)
{
    struct boot_pmix *pmix = join();

    (void)state;
    ask(pmix, 2, BOOT_PMIX_NEWEST, 1);
    assert_true(leave(pmix, true) >= LATE_MS);
    assert_int_equal(server.at_end, 0);
}

/* Our server has kept something: so the other one will answer. */
static void test_kept(void **state)
{
    struct boot_pmix *pmix = join();

    (void)state;
    ask(pmix, 2, BOOT_PMIX_BOTH, 1);
    answer(2);
    while (unanswered() == 0)
        usleep(1000);
    assert_true(leave(pmix, true) >= LATE_MS);
    assert_int_equal(server.at_end, 0);
}

/* It has spoken to us by itself. */
static void test_there(void **state)
{
    struct boot_pmix *pmix = join();

    (void)state;
    ask(pmix, 2, BOOT_PMIX_ANY, 1);
    boot_pmix_there(pmix, 2, BOOT_PMIX_THERE);
    assert_true(leave(pmix, true) >= LATE_MS);
    assert_int_equal(server.at_end, 0);
}

/* Nothing is known of one that may never join, and other servers are not asked of one of
 * this node. */
static void test_not_awaited(void **state)
{
    struct boot_pmix *pmix = join();

    (void)state;
    ask(pmix, 2, BOOT_PMIX_ANY, 1);
    ask(pmix, 1, BOOT_PMIX_NEWEST, 2);
    boot_pmix_there(pmix, 1, BOOT_PMIX_THERE);
    boot_pmix_there(pmix, 2, BOOT_PMIX_THERE);
    boot_pmix_there(pmix, 2, 0);
    assert_true(leave(pmix, false) < BOUND_MS - 100);
    assert_int_equal(server.at_end, 2);
}

/* No answer comes: its server has ended. That time counts from the question on. */
static void test_bound(void **state)
{
    struct boot_pmix *pmix = join();
    uint64_t begin = util_clock_now();

    (void)state;
    ask(pmix, 2, BOOT_PMIX_NEWEST, 1);
    usleep(BOUND_MS / 2 * 1000);
    assert_true(leave(pmix, false) < BOUND_MS - 100);
    assert_true(util_clock_now() - begin >= BOUND_MS * UTIL_NSEC_PER_MSEC);
    assert_int_equal(server.at_end, 1);
}

/* It was heard of since, and has left before us: its server may answer yet. Not if it was not heard of. */
static void test_left(void **state)
{
    struct boot_pmix *pmix = join();

    (void)state;
    ask(pmix, 2, BOOT_PMIX_NEWEST, 1);
    usleep(BOUND_MS * 1000);
    boot_pmix_there(pmix, 2, util_clock_now());
    assert_true(leave(pmix, true) >= LATE_MS);
    assert_int_equal(server.at_end, 0);

    pmix = join();
    boot_pmix_there(pmix, 2, util_clock_now());
    ask(pmix, 2, BOOT_PMIX_NEWEST, 1);
    usleep(BOUND_MS * 1000);
    assert_true(leave(pmix, false) < LATE_MS);
    assert_int_equal(server.at_end, 1);
}

/* It is there and no answer comes: the program that waits for us goes on. */
static void test_soon(void **state)
{
    struct boot_pmix *pmix = join();
    unsigned took;

    (void)state;
    ask(pmix, 2, BOOT_PMIX_ANY, 1);
    boot_pmix_there(pmix, 2, BOOT_PMIX_THERE);
    took = leave_so(pmix, BOOT_PMIX_END_SOON, false);
    assert_in_range(took, BOUND_MS, 2 * BOUND_MS);
    assert_int_equal(server.at_end, 1);

    pmix = join();
    ask(pmix, 2, BOOT_PMIX_ANY, 1);
    boot_pmix_there(pmix, 2, BOOT_PMIX_THERE);
    assert_true(leave_so(pmix, BOOT_PMIX_END_SOON, true) >= LATE_MS);
    assert_int_equal(server.at_end, 0);

    pmix = join();
    ask(pmix, 2, BOOT_PMIX_ANY, 1);
    boot_pmix_there(pmix, 2, BOOT_PMIX_THERE);
    assert_true(leave_so(pmix, BOOT_PMIX_END_UP, true) >= LATE_MS);
    assert_int_equal(server.at_end, -1);
}

/* Its server says that it has no blob (the rank has joined and not committed yet), before or after it was reported as absent: the
 * blob still comes. */
static void test_joins_late(void **state)
{
    (void)state;
    for (int before = 0; before < 2; before++) {
        struct boot_pmix *pmix = join_for(UTIL_NSEC_PER_SEC / 5);
        unsigned gets = 1;

        ask(pmix, 2, BOOT_PMIX_ANY, gets);
        for (uint64_t end = util_clock_now() + UTIL_NSEC_PER_SEC / 4;
             before &&
             util_clock_now() < end;) { /* asked again and again until it is reported */
            answer_so(2, PMIX_ERR_NOT_FOUND);
            usleep(1000);
        }
        await_told(EHOSTUNREACH);
        while (unanswered() == 0)
            usleep(1000);
        gets = asked();
        answer_so(2, PMIX_ERR_NOT_FOUND);
        while (asked() == gets)
            usleep(1000);
        answer_so(2, PMIX_ERR_NOT_FOUND); /* the pause is a second, perhaps: */
        gets = asked();
        assert_int_equal(boot_pmix_get(pmix, 2, BOOT_PMIX_ANY), 0);
        await_told(EHOSTUNREACH);
        assert_true(asked() > gets); /* not for who asks anew */
        answer(2);
        await_told(BLOB);
        assert_true(leave(pmix, false) < BOUND_MS - 100);
    }
}

/* The keys in blobs are in no memory of ours when they have been handed on. */
static void test_wiped(void **state)
{
    static const uint8_t masked[KEY_LEN] = "some bytes, not like any other..";
    struct boot_pmix *pmix = join();

    (void)state;
    in_memory_unmask(blob + KEY_AT, masked, KEY_LEN);
    assert_int_equal(boot_pmix_commit(pmix, blob, sizeof(blob)), 0);
    ask(pmix, 1, BOOT_PMIX_ANY, 1);
    ask(pmix, 2, BOOT_PMIX_BOTH, 2);
    answer(-1);
    await_told(BLOB);   /* of rank 1 */
    while (asked() < 3) /* of rank 2 the newest is asked for, too */
        usleep(1000);
    assert_true(in_memory(masked, KEY_LEN) > 1);
    answer(-1);
    await_told(BLOB);
    explicit_bzero(blob, sizeof(blob));
    leave(pmix, false);
    assert_int_equal(in_memory(masked, KEY_LEN), 0);
    memcpy(blob, "blob", 5);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_newest),      cmocka_unit_test(test_kept),
        cmocka_unit_test(test_wiped),       cmocka_unit_test(test_there),
        cmocka_unit_test(test_not_awaited), cmocka_unit_test(test_bound),
        cmocka_unit_test(test_left),        cmocka_unit_test(test_soon),
        cmocka_unit_test(test_joins_late),
    };
    sigset_t all;

    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL); /* as an engine's thread has it */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
