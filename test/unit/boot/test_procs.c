/* test_procs.c - is everybody asleep? With real processes. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "boot/procs.h"

/* Wait until the answer is `want`: processes need a moment to fall asleep. It must then
 * stay so. */
static bool settles(bool want, pid_t root, bool exiting, const struct boot_blocked *b,
                    size_t nb, const pid_t *ignore, size_t ni)
{
    for (int i = 0; i < 400; i++) {
        if (boot_procs_quiet(root, exiting, b, nb, ignore, ni) == want) {
            for (int j = 0; j < 10; j++)
                if (boot_procs_quiet(root, exiting, b, nb, ignore, ni) != want)
                    break;
                else if (j == 9)
                    return true;
        }
        usleep(5000);
    }
    return false;
}

static pid_t spawn(void (*fn)(void))
{
    pid_t pid = fork();
    if (pid == 0) {
        alarm(60); /* whatever becomes of the test */
        fn();
        _exit(0);
    }
    return pid;
}

static void end(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

static void do_spin(void)
{
    for (volatile unsigned i = 0;; i++)
        ;
}

static void do_nanosleep(void)
{
    struct timespec ts = {.tv_sec = 1000};
    for (;;)
        nanosleep(&ts, NULL);
}

static void do_poll(void)
{
    for (;;)
        poll(NULL, 0, -1);
}

static void do_poll_often(void)
{
    for (;;)
        poll(NULL, 0, 2000);
}

static void do_ppoll_often(void)
{
    struct timespec ts = {.tv_sec = 2};
    for (;;)
        ppoll(NULL, 0, &ts, NULL);
}

static void do_ppoll_long(void)
{
    struct timespec ts = {.tv_sec = 3600};
    for (;;)
        ppoll(NULL, 0, &ts, NULL);
}

static void wait_for(void (*fn)(void))
{
    spawn(fn);
    wait(NULL);
}

static void do_wait_for_poll(void)
{
    wait_for(do_poll);
}

static void do_wait_for_spin(void)
{
    wait_for(do_spin);
}

/* Two threads that wake each other: each sleeps most of the time, never both. */
static int turns[2][2];

static void *alternate(void *arg)
{
    const struct turn {
        int read, write;
    } turn = arg ? (struct turn){turns[0][0], turns[1][1]}
                 : (struct turn){turns[1][0], turns[0][1]};
    struct pollfd p = {.fd = turn.read, .events = POLLIN};
    char c = 0;

    while (poll(&p, 1, -1) == 1 && read(turn.read, &c, 1) == 1 &&
           write(turn.write, &c, 1) == 1)
        ;
    return NULL;
}

static void do_alternate(void)
{
    pthread_t thread;

    if (pipe(turns[0]) < 0 || pipe(turns[1]) < 0 || write(turns[0][1], "", 1) != 1)
        return;
    pthread_create(&thread, NULL, alternate, NULL);
    alternate(&thread);
}

static void *sleeper(void *arg)
{
    if (arg)
        do_nanosleep();
    do_poll();
    return NULL;
}

static void do_threads(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, sleeper, NULL);
    do_poll();
}

static void do_threads_one_busy(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, sleeper, (void *)do_nanosleep);
    do_poll();
}

static void do_first_thread_ends(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, sleeper, NULL);
    pthread_exit(NULL);
}

static void do_zombie_child(void)
{
    if (fork() == 0)
        _exit(0);
    do_poll();
}

static void do_read_stdin_of_pipe(void)
{
    int fd[2];
    char c;
    if (pipe(fd) == 0)
        while (read(fd[0], &c, 1) < 0)
            ;
}

static void test_one_process(void **state)
{
    static const struct {
        void (*fn)(void);
        bool quiet; /* when its first thread is in a wait of ours */
    } cases[] = {{do_poll, true}, {do_threads, true}, {do_threads_one_busy, false}};

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        pid_t pid = spawn(cases[i].fn);
        struct boot_blocked b = {pid, pid};
        assert_true(settles(cases[i].quiet, pid, false, &b, 1, NULL, 0));
        assert_true(
            settles(false, pid, false, NULL, 0, NULL, 0)); /* asleep, but not for us */
        end(pid);
    }
}

/* A moment at which each thread was seen asleep at another time is none. */
static void test_alternating_threads(void **state)
{
    pid_t pid = spawn(do_alternate);
    struct boot_blocked b = {pid, pid};

    (void)state;
    for (int i = 0; i < 3000; i++)
        assert_false(boot_procs_quiet(pid, false, &b, 1, NULL, 0));
    end(pid);
}

/* A thread of which it is told that it waits for us, and that runs or sleeps elsewhere: in
 * a signal's handler, or cancelled. */
static void test_blocked_and_busy(void **state)
{
    static void (*const cases[])(void) = {do_spin, do_nanosleep};

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        pid_t pid = spawn(cases[i]);
        struct boot_blocked b = {pid, pid};
        for (int j = 0; j < 200; j++)
            assert_false(boot_procs_quiet(pid, false, &b, 1, NULL, 0));
        end(pid);
    }
}

/* What a child does, below a parent that waits for it. The child itself is blocked by us if
 * it polls. */
static pid_t only_child(pid_t pid)
{
    pid_t child = 0;
    for (int i = 0; i < 400 && boot_procs_descendants(pid, &child, 1) != 1; i++)
        usleep(5000);
    return child;
}

static void test_parent_waits(void **state)
{
    (void)state;
    pid_t pid = spawn(do_wait_for_poll), child = only_child(pid);
    struct boot_blocked b = {child, child};
    assert_true(settles(true, pid, false, &b, 1, NULL, 0));
    assert_true(settles(false, pid, false, NULL, 0, NULL,
                        0)); /* the child polls for something else */
    kill(child, SIGKILL);
    end(pid);

    pid = spawn(do_wait_for_spin);
    child = only_child(pid);
    assert_true(settles(false, pid, false, NULL, 0, NULL, 0));
    b = (struct boot_blocked){pid, pid};
    assert_true(settles(false, pid, false, &b, 1, NULL, 0));
    kill(child, SIGKILL);
    end(pid);
}

/* The root is this process, which is at exit: only its children count. */
static void test_children_of_root(void **state)
{
    static const struct {
        void (*fn)(void);
        bool quiet;
    } cases[] = {{do_spin, false},
                 {do_nanosleep, false},
                 {do_poll_often, false},
                 {do_ppoll_often, false},
                 {do_ppoll_long, true},
                 {do_poll, true},
                 {do_first_thread_ends, false},
                 {do_read_stdin_of_pipe, false}};

    (void)state;
    assert_true(boot_procs_quiet(getpid(), true, NULL, 0, NULL, 0)); /* no children */
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        pid_t pid = spawn(cases[i].fn);
        struct boot_blocked b[1] = {{pid, pid}};
        bool in_ours = cases[i].fn == do_poll || cases[i].fn == do_ppoll_long;
        assert_true(settles(cases[i].quiet, getpid(), true, b, in_ours ? 1 : 0, NULL, 0));
        end(pid);
    }
}

/* A parent that sleeps in `fn` while its child is blocked in a wait of ours. */
static void (*parent_fn)(void);

static void do_child_and_fn(void)
{
    spawn(do_poll);
    parent_fn();
}

static void test_sleeping_parents(void **state)
{
    static const struct {
        void (*fn)(void);
        bool quiet;
    } cases[] = {{do_poll, true},
                 {do_ppoll_long, true},
                 {do_poll_often, false},
                 {do_ppoll_often, false},
                 {do_spin, false},
                 {do_nanosleep, false},
                 {do_first_thread_ends, true},
                 {do_read_stdin_of_pipe, false}};

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        parent_fn = cases[i].fn;
        pid_t pid = spawn(do_child_and_fn), child = only_child(pid);
        struct boot_blocked b = {child, child};
        assert_true(settles(cases[i].quiet, pid, false, &b, 1, NULL, 0));
        kill(child, SIGKILL);
        end(pid);
    }
}

/* `missing | wc`: the parent reads what its child, blocked in a wait of ours, would write.
 */
static int between[2];

static void do_read_pipe(void)
{
    char c;
    spawn(do_poll);
    close(between[1]);
    while (read(between[0], &c, 1) < 0)
        ;
}

static void do_read_pipe_of_test(void)
{
    char c;
    int outside = between[1];
    pid_t pid = fork();
    if (pid == 0) {
        alarm(60);
        close(outside);
        do_poll();
    }
    close(outside);
    while (read(between[0], &c, 1) < 0)
        ;
}

static void test_pipes(void **state)
{
    static const struct {
        void (*fn)(void);
        bool quiet;
    } cases[] = {{do_read_pipe, true}, {do_read_pipe_of_test, false}};

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(pipe(between), 0);
        pid_t pid = spawn(cases[i].fn), child = only_child(pid);
        struct boot_blocked b = {child, child};
        assert_true(settles(cases[i].quiet, pid, false, &b, 1, NULL, 0));
        kill(child, SIGKILL);
        end(pid);
        close(between[0]);
        close(between[1]);
    }
}

static void test_zombies(void **state)
{
    pid_t found[4];

    (void)state;
    pid_t zombie = fork();
    if (zombie == 0)
        _exit(0);
    siginfo_t info;
    waitid(P_PID, (id_t)zombie, &info, WEXITED | WNOWAIT);
    assert_int_equal(boot_procs_descendants(getpid(), found, 4), 0);
    assert_true(boot_procs_quiet(getpid(), true, NULL, 0, NULL, 0));
    waitpid(zombie, NULL, 0);

    /* A parent whose only child is a zombie has nobody to wait for. */
    pid_t pid = spawn(do_zombie_child);
    assert_true(settles(false, pid, false, NULL, 0, NULL, 0));
    end(pid);
}

/* Threads that are to be ignored: ours. */
static int tell[2];

static void *engine_thread(void *arg)
{
    pid_t tid = (pid_t)syscall(SYS_gettid);

    if (write(tell[1], &tid, sizeof(tid)) == sizeof(tid))
        do_spin();
    return arg;
}

static void do_with_engine(void)
{
    pthread_t thread;

    pthread_create(&thread, NULL, engine_thread, NULL);
    do_poll();
}

static void test_ignored(void **state)
{
    pid_t pid, ours;

    (void)state;
    assert_int_equal(pipe(tell), 0);
    pid = spawn(do_with_engine);
    struct boot_blocked b = {pid, pid};
    assert_int_equal(read(tell[0], &ours, sizeof(ours)), sizeof(ours));
    assert_true(settles(false, pid, false, &b, 1, NULL, 0));
    assert_true(settles(true, pid, false, &b, 1, &ours, 1));
    end(pid);
    close(tell[0]);
    close(tell[1]);
}

static void test_descendants(void **state)
{
    pid_t found[8];

    (void)state;
    pid_t a = spawn(do_wait_for_poll), b = spawn(do_poll);
    size_t n = 0;
    for (int i = 0; i < 400 && (n = boot_procs_descendants(getpid(), found, 8)) != 3; i++)
        usleep(5000);
    assert_int_equal(n, 3);
    assert_int_equal(boot_procs_descendants(getpid(), found, 1),
                     3); /* no more than there is room for */
    pid_t grandchild = only_child(a);
    kill(grandchild, SIGKILL);
    end(a);
    end(b);
    assert_int_equal(boot_procs_descendants(getpid(), found, 8), 0);
}

static void do_serve(void)
{
    pid_t self = getpid();

    if (fork() == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != self) /* it has been killed before that */
            _exit(0);
        pause();
    }
    prctl(PR_SET_NAME, BOOT_PROCS_SERVER);
    pause();
}

/* It is a rank of its own, with what is below it. */
static void test_server(void **state)
{
    pid_t found[4];
    size_t n = 1;

    (void)state;
    pid_t pid = spawn(do_serve), child = only_child(pid);
    for (int i = 0; i < 400 && (n = boot_procs_descendants(getpid(), found, 4)) != 0; i++)
        usleep(5000);
    end(pid);
    assert_true(child > 0);
    assert_int_equal(n, 0);
}

static void test_unreadable(void **state)
{
    (void)state;
    pid_t pid = spawn(do_poll);
    end(pid);
    assert_false(boot_procs_quiet(pid, false, NULL, 0, NULL, 0)); /* gone */
    assert_false(boot_procs_quiet(pid, true, NULL, 0, NULL, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_process),
        cmocka_unit_test(test_alternating_threads),
        cmocka_unit_test(test_blocked_and_busy),
        cmocka_unit_test(test_parent_waits),
        cmocka_unit_test(test_children_of_root),
        cmocka_unit_test(test_sleeping_parents),
        cmocka_unit_test(test_pipes),
        cmocka_unit_test(test_zombies),
        cmocka_unit_test(test_ignored),
        cmocka_unit_test(test_descendants),
        cmocka_unit_test(test_server),
        cmocka_unit_test(test_unreadable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
