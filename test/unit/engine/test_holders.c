/*
 * test_holders.c - which processes have a file open for writing, and what they are
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/publish/fd_holders.h"

static char dir[64], path[80], *self;
static struct stat st;

static int setup(void **state)
{
    const char *tmp = getenv("TMPDIR");

    (void)state;
    snprintf(dir, sizeof(dir), "%.40s/dyad-holders-XXXXXX", tmp && tmp[0] ? tmp : "/tmp");
    if (!mkdtemp(dir))
        return -1;
    snprintf(path, sizeof(path), "%s/f", dir);
    int fd = open(path, O_WRONLY | O_CREAT, 0600);
    return fd >= 0 && fstat(fd, &st) == 0 ? close(fd) : -1;
}

static int teardown(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(dir);
}

/* A process that has the file open like that, and has told so; it ends by a signal. */
static pid_t opener(const char *flags, const char *preload)
{
    int line[2];
    char byte, number[16];
    pid_t pid;

    assert_int_equal(pipe(line), 0);
    if ((pid = fork()) == 0) {
        char *argv[] = {self, (char *)"open", path, (char *)flags, number, NULL};
        char *env[] = {(char *)preload, NULL};
        close(line[0]);
        snprintf(number, sizeof(number), "%d", line[1]);
        execve(self, argv, env);
        _exit(98);
    }
    close(line[1]);
    assert_int_equal(read(line[0], &byte, 1), 1);
    close(line[0]);
    return pid;
}

static int open_and_stay(char **argv)
{
    int fd = open(argv[2], argv[3][0] == 'r'   ? O_RDONLY
                           : argv[3][0] == 'w' ? O_WRONLY
                                               : O_RDWR);
    int line = atoi(argv[4]);

    prctl(PR_SET_PDEATHSIG, SIGKILL); /* nothing is left of a test that fails */
    if (fd < 0 || write(line, "o", 1) != 1)
        return 99;
    for (;;)
        pause();
}

static void end(pid_t pid)
{
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static size_t find(const char *below, struct holder holders[8])
{
    return holders_find(&st, below, holders, 8);
}

static void test_find(void **state)
{
    struct holder holders[8];
    siginfo_t info;
    size_t n;

    (void)state;
    assert_int_equal(find(dir, holders), 0);
    pid_t reader = opener("r", NULL);
    assert_int_equal(find(dir, holders), 0);
    pid_t writer = opener("w", NULL);
    assert_int_equal(n = find(dir, holders), 1);
    assert_int_equal(holders[0].pid, writer);
    assert_int_equal(holders[0].kind, HOLDER_FOREIGN);
    assert_true(fcntl(holders[0].pidfd, F_GETFD) & FD_CLOEXEC);
    assert_false(holder_is_dead(&holders[0]));
    kill(writer, SIGKILL);
    assert_int_equal(waitid(P_PID, (id_t)writer, &info, WEXITED | WNOWAIT), 0);
    assert_true(holder_is_dead(&holders[0])); /* a zombie */
    assert_int_equal(waitpid(writer, NULL, 0), writer);
    assert_true(holder_is_dead(&holders[0]));
    int pidfd = holders[0].pidfd;
    holders_close(holders, n);
    assert_int_equal(fcntl(pidfd, F_GETFD), -1);
    assert_int_equal(find(dir, holders), 0);
    end(reader);
}

static void test_which(void **state)
{
    struct holder holders[8];
    struct stat other = st;

    (void)state;
    pid_t a = opener("+", NULL), b = opener("w", NULL);
    assert_int_equal(find(dir, holders), 2);
    assert_true((holders[0].pid == a && holders[1].pid == b) ||
                (holders[0].pid == b && holders[1].pid == a));
    holders_close(holders, 2);
    assert_int_equal(holders_find(&st, dir, holders, 1), 1); /* no more than asked for */
    holders_close(holders, 1);
    assert_int_equal(find("/proc", holders), 0); /* the name is elsewhere */
    other.st_ino++;
    assert_int_equal(holders_find(&other, dir, holders, 8), 0);
    end(a);
    end(b);
}

static void test_ours(void **state)
{
    struct holder holders[8];

    (void)state;
    pid_t pid = opener("w", "LD_PRELOAD=/nowhere/libdyad_wrapper.so");
    assert_int_equal(find(dir, holders), 1);
    assert_int_equal(holders[0].kind, HOLDER_OURS);
    holders_close(holders, 1);
    end(pid);
    pid = opener("w", "LD_PRELOAD=/nowhere/libother.so");
    assert_int_equal(find(dir, holders), 1);
    assert_int_equal(holders[0].kind, HOLDER_FOREIGN);
    holders_close(holders, 1);
    end(pid);
}

static int stay(void *arg)
{
    (void)arg;
    for (;;)
        pause();
    return 0;
}

/* A child before its exec shares its parent's memory. */
static void test_transient(void **state)
{
    static char stack[65536] __attribute__((aligned(16)));
    struct holder holders[8];

    (void)state;
#ifdef __SANITIZE_THREAD__
    skip(); /* its clone() treats the child as one that has memory of its own */
#endif
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    pid_t pid = clone(stay, stack + sizeof(stack), CLONE_VM | SIGCHLD, NULL);
    assert_true(pid > 0);
    close(fd); /* the child has its own */
    assert_int_equal(find(dir, holders), 1);
    assert_int_equal(holders[0].pid, pid);
    assert_int_equal(holders[0].kind, HOLDER_TRANSIENT);
    holders_close(holders, 1);
    end(pid);
    assert_int_equal(find(dir, holders), 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_find),
        cmocka_unit_test(test_which),
        cmocka_unit_test(test_ours),
        cmocka_unit_test(test_transient),
    };
    self = argv[0];
    if (argc == 5 && strcmp(argv[1], "open") == 0)
        return open_and_stay(argv);
    return cmocka_run_group_tests(tests, setup, teardown);
}
