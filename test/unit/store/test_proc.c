/*
 * store/alive.h: which process is this, and does that one still live
 */
#include "scratch.h"

#include <pthread.h>
#include <signal.h>

#include "store/alive.h"

/* A child that tells who it is and waits to be killed. */
static pid_t child(store_proc_t *proc)
{
    int line[2];

    assert_int_equal(pipe(line), 0);
    pid_t pid = fork();
    if (pid == 0) {
        store_proc_t self = store_proc_self(NULL);
        CHILD_CHECK(write(line[1], &self, sizeof(self)) == sizeof(self));
        for (;;)
            pause();
    }
    assert_true(pid > 0);
    assert_int_equal(read(line[0], proc, sizeof(*proc)), sizeof(*proc));
    close(line[0]);
    close(line[1]);
    return pid;
}

static void test_self(void **state)
{
    store_proc_t self, other;
    uint32_t ns = 0;
    struct stat st;

    (void)state;
    errno = 77;
    self = store_proc_self(&ns);
    assert_int_equal(store_proc_pid(self), getpid());
    assert_int_not_equal((uint32_t)self, 0);
    assert_int_equal(stat("/proc/self/ns/pid", &st), 0);
    assert_int_equal(ns, (uint32_t)st.st_ino);
    assert_true(store_proc_self(NULL) == self);
    assert_true(store_proc_alive(self, ns, 0));
    assert_true(store_proc_alive(self, 0, INT32_MAX));
    assert_int_equal(errno, 77);

    /* After a fork it is the child's own. */
    pid_t pid = child(&other);
    assert_int_equal(store_proc_pid(other), pid);
    assert_true(store_proc_self(NULL) == self);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

static void test_life_and_death(void **state)
{
    store_proc_t proc;
    siginfo_t info;
    uint32_t ns;

    (void)state;
    store_proc_self(&ns);
    pid_t pid = child(&proc);
    errno = 77;
    assert_true(store_proc_alive(proc, ns, 0));
    assert_true(store_proc_alive(proc, 0, 0)); /* its namespace is not known */
    /* Another one that had this pid, and one whose start is not known. */
    assert_false(store_proc_alive(proc + 1, ns, 0));
    assert_true(store_proc_alive((uint64_t)pid << 32, ns, 0));
    /* In another namespace it cannot be looked at. */
    assert_true(store_proc_alive(proc + 1, ns + 1, STORE_PROC_FOREIGN_MAX - 1));
    assert_false(store_proc_alive(proc, ns + 1, STORE_PROC_FOREIGN_MAX));
    assert_true(store_proc_alive(proc, ns + 1, -1)); /* it came just now */

    kill(pid, SIGKILL);
    assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
    assert_false(store_proc_alive(proc, ns, 0)); /* a zombie */
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_false(store_proc_alive(proc, ns, 0));
    assert_false(store_proc_alive((uint64_t)pid << 32, ns, 0));
    assert_false(store_proc_alive(0, ns, 0));
    assert_int_equal(errno, 77);
}

static void *go_on(void *arg)
{
    int *line = arg;
    char byte;

    CHILD_CHECK(read(line[0], &byte, 1) == 0);
    _exit(0);
}

/* A process whose first thread has ended looks like a zombie, and lives. */
static void test_leader_gone(void **state)
{
    int line[2];
    char path[64], text[512];

    (void)state;
    assert_int_equal(pipe(line), 0);
    pid_t pid = fork();
    if (pid == 0) {
        pthread_t thread;
        close(line[1]);
        CHILD_CHECK(pthread_create(&thread, NULL, go_on, line) == 0);
        pthread_exit(NULL);
    }
    close(line[0]);
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    for (char seen = 0; seen != 'Z'; usleep(1000)) {
        int fd = open(path, O_RDONLY);
        ssize_t n = read(fd, text, sizeof(text) - 1);
        assert_true(n > 0);
        text[n] = '\0';
        close(fd);
        seen = strrchr(text, ')')[2];
    }
    assert_true(store_proc_alive((uint64_t)pid << 32, 0, 0));
    close(line[1]);
    scratch_join(pid);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_self),
        cmocka_unit_test(test_life_and_death),
        cmocka_unit_test(test_leader_gone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
