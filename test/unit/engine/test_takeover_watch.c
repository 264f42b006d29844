/*
 * test_takeover_watch.c - the end of a process that had a connection to its member
 *
 * takeover_watch.c alone. A connection may end without a request before the module has
 * been started.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/core/module.h"
#include "engine/recovery/takeover.h"
#include "engine/recovery/takeover_impl.h"

static struct member member_made;
static struct member *const member = &member_made;
static struct takeover takeover;
static unsigned nlooks, nwatches;
static net_watch_fn ended;
static void *ended_arg;

void takeover_look(struct member *m)
{
    assert_ptr_equal(m, member);
    nlooks++;
}

struct net_watch *net_loop_watch(struct net_loop *loop, int fd, uint32_t events,
                                 net_watch_fn fn, void *arg)
{
    (void)loop;
    (void)events;
    assert_true(fd >= 0);
    ended = fn;
    ended_arg = arg;
    nwatches++;
    return (struct net_watch *)&nwatches;
}

void net_watch_destroy(struct net_watch *watch)
{
    assert_ptr_equal(watch, &nwatches);
    nwatches--;
}

static int setup(void **state)
{
    (void)state;
    takeover = (struct takeover){.member = member, .fd = -1, .neighbour_fd = -1};
    member->own[MODULE_takeover] = &takeover;
    nlooks = nwatches = 0;
    return 0;
}

static pid_t child(void)
{
    pid_t pid = fork();

    if (pid == 0) {
        pause();
        _exit(0);
    }
    return pid;
}

static void end(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

/* Its end is waited for, once, and then looked. */
static void test_ends(void **state)
{
    pid_t pid;

    (void)state;
    if (getenv("DYAD_TEST_VALGRIND")) /* which has no pidfd_open */
        skip();
    pid = child();
    takeover_watch(member, pid);
    takeover_watch(member, pid);
    assert_int_equal(nwatches, 1);
    assert_int_equal(nlooks, 0);
    end(pid);
    ended(ended_arg, -1, 0);
    assert_int_equal(nwatches, 0);
    assert_int_equal(nlooks, 1);
    takeover_watch(member, pid); /* has ended before we could wait for it */
    assert_int_equal(nlooks, 2);
    takeover_watch(member, getpid());
    takeover_watch(member, 0);
    assert_int_equal(nlooks, 2);
    takeover_watch_stop(&takeover);
}

/* A member that has not joined looks when it has; nothing is kept until then. */
static void test_before_start(void **state)
{
    pid_t pid = child();

    (void)state;
    takeover = (struct takeover){0};
    takeover_watch(member, pid);
    assert_int_equal(nwatches, 0);
    assert_null(takeover.dying);
    end(pid);
    takeover_watch(member, pid);
    assert_int_equal(nlooks, 0);
}

/* What is still waited for at the end is let go. */
static void test_stop(void **state)
{
    pid_t pid = child();

    (void)state;
    takeover_watch(member, pid);
    takeover_watch_stop(&takeover);
    assert_int_equal(nwatches, 0);
    assert_null(takeover.dying);
    end(pid);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_ends, setup),
        cmocka_unit_test_setup(test_before_start, setup),
        cmocka_unit_test_setup(test_stop, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
