/* util/proc.h: parents, whatever the processes are called; who runs the same program. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "util/proc.h"

static void own_parent(void **state)
{
    (void)state;
    assert_int_equal(util_proc_parent(getpid()), getppid());
    assert_int_equal(util_proc_parent(1), 0); /* the first of its name space */
    assert_int_equal(util_proc_parent(0x7fffffff), 0);
}

/* A child that calls itself so; then a zombie of it, and nothing. */
static void named(const char *name)
{
    int ready[2], status;
    char byte;

    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        prctl(PR_SET_NAME, name);
        if (write(ready[1], "", 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_int_equal(util_proc_parent(child), getpid());
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitid(P_PID, (id_t)child, &(siginfo_t){0}, WEXITED | WNOWAIT), 0);
    assert_int_equal(util_proc_parent(child), getpid());
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(util_proc_parent(child), 0);
    close(ready[0]);
    close(ready[1]);
}

static void hostile_names(void **state)
{
    (void)state;
    named("plain");
    named(") S 1 (");
    named("a b) R 77 8");
    named("(((");
    named(")))))))))))))))");
    named("new\nline");
}

/* A child that waits to be killed: forked, or another image of this executable. */
static pid_t waiting(bool executed)
{
    int ready[2];
    char byte;

    assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        close(ready[0]);
        if (executed)
            execl("/proc/self/exe", "test", "wait", (char *)NULL);
        close(ready[1]);
        for (;;)
            pause();
    }
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 0); /* exec closes it */
    close(ready[0]);
    return child;
}

static void end(pid_t child)
{
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
}

static void relatives(void **state)
{
    (void)state;
    assert_true(util_proc_is_self_or_ancestor(getpid()));
    assert_true(util_proc_is_self_or_ancestor(getppid()) || getppid() <= 1);
    pid_t child = waiting(false);
    assert_false(util_proc_is_self_or_ancestor(child));
    end(child);
}

static void programs(void **state)
{
    (void)state;
    if (getenv("DYAD_TEST_VALGRIND")) /* the program that /proc knows is valgrind */
        skip();
    assert_true(util_proc_is_same_program(getpid()));
    pid_t child = waiting(false);
    assert_true(util_proc_is_same_program(child));
    end(child);
    assert_false(util_proc_is_same_program(child));
    child = waiting(true); /* other arguments */
    assert_false(util_proc_is_same_program(child));
    end(child);
    assert_false(util_proc_is_same_program(getppid())); /* another executable */
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(own_parent), cmocka_unit_test(hostile_names),
        cmocka_unit_test(relatives), cmocka_unit_test(programs)};

    if (argc > 1 && strcmp(argv[1], "wait") == 0)
        for (;;)
            pause();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
