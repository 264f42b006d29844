/*
 * marks_users.h - a table of marks in a scratch directory, and other processes that use it
 */
#ifndef DYAD_TEST_STORE_MARKS_USERS_H
#define DYAD_TEST_STORE_MARKS_USERS_H

#include "scratch.h"

#include <signal.h>

#include "store/marks.h"

static struct scratch *scratch;
static struct store_marks *marks;

static inline int setup(void **state)
{
    if (scratch_setup(state) < 0)
        return -1;
    scratch = *state;
    marks = store_marks_create(scratch->dir);
    return marks ? 0 : -1;
}

static inline int teardown(void **state)
{
    store_marks_destroy(marks);
    return scratch_teardown(state);
}

/* A process that has called fn, which returned true, and lives until end(). */
static inline pid_t begin(bool (*fn)(const void *arg), const void *arg)
{
    int ready[2];
    char byte;
    pid_t pid;

    assert_int_equal(pipe(ready), 0);
    if ((pid = fork()) == 0) {
        if (!fn(arg) || write(ready[1], "x", 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    return pid;
}

/* It is killed. */
static inline void end(pid_t pid)
{
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

#endif
