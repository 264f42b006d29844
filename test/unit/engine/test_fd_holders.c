/*
 * test_fd_holders.c - which processes have a file open for writing, and what they are
 */
#include <dirent.h>
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
#include <sys/mman.h>
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

/* What such a child does when it was just seen to have the file open. */
enum { TO_WAIT, TO_EXEC, TO_EXIT };
static volatile int deed;
static volatile pid_t watched;
static int born, line_of_child[2];

static int child(void *preload)
{
    char *argv[] = {self, (char *)"stay", NULL};
    char *env[] = {preload, NULL};

    while (deed == TO_WAIT)
        usleep(1000);
    if (deed == TO_EXEC)
        execve(self, argv, env);
    _exit(97);
}

int __real_closedir(DIR *stream);
int __wrap_closedir(DIR *stream);

/* holders_find() has looked at a process' descriptors: the one that is watched goes on now,
 * and has executed, or is gone, when holders_find() does. */
int __wrap_closedir(DIR *stream)
{
    char link[64], shown[64], wanted[64], byte;
    ssize_t n;
    int rc;

    snprintf(link, sizeof(link), "/proc/self/fd/%d", dirfd(stream));
    n = readlink(link, shown, sizeof(shown) - 1);
    shown[n > 0 ? n : 0] = '\0';
    rc = __real_closedir(stream);
    snprintf(wanted, sizeof(wanted), "/proc/%d/fd", (int)watched);
    if (watched && deed == TO_WAIT && strcmp(shown, wanted) == 0) {
        deed = born;
        assert_int_equal(read(line_of_child[0], &byte, 1), 0); /* closed by exec, or exit */
        if (born == TO_EXIT)
            assert_int_equal(waitpid(watched, NULL, 0), watched);
    }
    return rc;
}

/* A child before its exec holds the file through a descriptor with these flags, and does
 * `what` in the midst of holders_find(). */
static enum holder_kind kind_after(int what, int flags, const char *preload)
{
    static char stack[65536] __attribute__((aligned(16)));
    struct holder holders[8];
    enum holder_kind kind;

    assert_int_equal(pipe2(line_of_child, O_CLOEXEC), 0);
    int fd = open(path, O_WRONLY | flags);
    assert_true(fd >= 0);
    deed = TO_WAIT;
    born = what;
    watched =
        clone(child, stack + sizeof(stack), CLONE_VM | SIGCHLD, (void *)(uintptr_t)preload);
    assert_true(watched > 0);
    close(fd);
    close(line_of_child[1]);
    assert_int_equal(find(dir, holders), 1);
    assert_int_equal(holders[0].pid, watched);
    kind = holders[0].kind;
    holders_close(holders, 1);
    close(line_of_child[0]);
    if (what != TO_EXIT)
        end(watched);
    watched = 0;
    assert_int_equal(find(dir, holders), 0);
    return kind;
}

/* It executes while it is looked at: what its exec has closed it held as a child, and its
 * end, some time later, says nothing of the file. */
static void test_exec_meanwhile(void **state)
{
    (void)state;
#if defined(__SANITIZE_THREAD__)
    skip();
#endif
    const char *ours = "LD_PRELOAD=/nowhere/libdyad_wrapper.so";
    assert_int_equal(kind_after(TO_EXEC, O_CLOEXEC, ours), HOLDER_TRANSIENT);
    assert_int_equal(kind_after(TO_EXEC, 0, ours), HOLDER_OURS);
    assert_int_equal(kind_after(TO_EXEC, 0, "A=b"), HOLDER_FOREIGN);
    assert_int_equal(kind_after(TO_EXIT, O_CLOEXEC, NULL), HOLDER_TRANSIENT);
}

/* Executes itself again and again, with the file open. */
static int again(char **argv)
{
    char left[16];
    char *next[] = {self, (char *)"again", argv[2], left, NULL};
    char *env[] = {(char *)"LD_PRELOAD=/nowhere/libdyad_wrapper.so", NULL};
    int n = atoi(argv[3]);

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (n == 0)
        stay(NULL);
    if (!argv[2][0] && dup2(open("/dev/null", O_WRONLY), STDERR_FILENO) < 0)
        return 99;
    next[2] = (char *)"quiet"; /* the loader says that it finds no such library */
    snprintf(left, sizeof(left), "%d", n - 1);
    execve(self, next, env);
    return 98;
}

/* Whoever is to settle the file is known as such at every moment of its exec. */
static void test_execs(void **state)
{
    struct holder holders[8];
    int status, line[2];
    unsigned seen = 0;
    char byte;

    (void)state;
    int fd = open(path, O_WRONLY);
    assert_true(fd >= 0);
    assert_int_equal(pipe2(line, O_CLOEXEC), 0);
    pid_t pid = fork();
    if (pid == 0) {
        char *argv[] = {self, (char *)"again", (char *)"", (char *)"2000", NULL};
        char *env[] = {(char *)"LD_PRELOAD=/nowhere/libdyad_wrapper.so", NULL};
        dup2(open("/dev/null", O_WRONLY), STDERR_FILENO);
        execve(self, argv, env);
        _exit(98);
    }
    assert_true(pid > 0);
    close(fd);
    close(line[1]);
    assert_int_equal(read(line[0], &byte, 1), 0); /* it is in its first exec, or past it */
    close(line[0]);
    while (seen < 500) {
        size_t n = find(dir, holders);
        for (size_t i = 0; i < n; i++)
            assert_int_equal(holders[i].kind, HOLDER_OURS);
        seen += n > 0;
        holders_close(holders, n);
        assert_int_equal(waitpid(pid, &status, WNOHANG), 0);
    }
    end(pid);
}

/* Has the file open, and much memory to give back when it ends. */
static int end_large(char **argv)
{
    int line = atoi(argv[3]);
    size_t size = (size_t)64 << 20;
    char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (memory == MAP_FAILED || open(argv[2], O_WRONLY) < 0)
        return 99;
    return write(line, memory, 1) == 1 ? 0 : 99;
}

/* A program without the library that ends by itself is not taken for one of ours that was
 * killed, at whatever moment of its end. */
static void test_ends(void **state)
{
    struct holder holders[8];
    int line[2], status;
    char byte, number[16];
    size_t n;

    (void)state;
    for (int i = 0; i < 8; i++) {
        assert_int_equal(pipe(line), 0);
        pid_t pid = fork();
        if (pid == 0) {
            char *argv[] = {self, (char *)"end", path, number, NULL};
            char *env[] = {NULL};
            snprintf(number, sizeof(number), "%d", line[1]);
            execve(self, argv, env);
            _exit(98);
        }
        assert_true(pid > 0);
        close(line[1]);
        assert_int_equal(read(line[0], &byte, 1), 1);
        close(line[0]);
        do {
            n = find(dir, holders);
            for (size_t k = 0; k < n; k++) /* a leak checker of its has a process, too */
                if (holders[k].pid == pid)
                    assert_int_equal(holders[k].kind, HOLDER_FOREIGN);
            holders_close(holders, n);
        } while (n > 0);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
    }
}

static int stay_only(void)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    return stay(NULL);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_find),           cmocka_unit_test(test_which),
        cmocka_unit_test(test_ours),           cmocka_unit_test(test_transient),
        cmocka_unit_test(test_exec_meanwhile), cmocka_unit_test(test_execs),
        cmocka_unit_test(test_ends),
    };
    self = argv[0];
    if (argc == 5 && strcmp(argv[1], "open") == 0)
        return open_and_stay(argv);
    if (argc == 4 && strcmp(argv[1], "end") == 0)
        return end_large(argv);
    if (argc == 4 && strcmp(argv[1], "again") == 0)
        return again(argv);
    if (argc == 2 && strcmp(argv[1], "stay") == 0)
        return stay_only();
    return cmocka_run_group_tests(tests, setup, teardown);
}
