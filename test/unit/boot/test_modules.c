/* Libraries in a name space of their own: opened with RTLD_GLOBAL, and not destructed at
 * the end of a process. In the program's: of those that came with us only UCX is not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/client_loading.h"

enum { APART = 1, VISIT = 2, OPEN = 4, FORK = 8, OPEN_UCX = 16, HAD_UCX = 32 };

static void *plugin(void *handle, const char *name)
{
    void *symbol = dlsym(handle, name);

    if (!symbol)
        _exit(3);
    return symbol;
}

static void child(int how, int fd)
{
    void *had = how & HAD_UCX ? dlopen(UCX_PLUGIN, RTLD_NOW) : NULL;
    void *handle = how & APART ? dlmopen(LM_ID_NEWLM, PLUGIN, RTLD_NOW)
                               : dlopen(PLUGIN, RTLD_NOW | RTLD_DEEPBIND);
    void (*tell)(int fd), (*visit)(const struct boot_loading *loading);
    void *(*open_other)(const char *path, int fd);
    int status = 0;

    if (!handle || (how & HAD_UCX && !had))
        _exit(2);
    *(void **)&tell = plugin(handle, "plugin_tell");
    *(void **)&visit = plugin(handle, "plugin_visit");
    *(void **)&open_other = plugin(handle, "plugin_open");
    if (how & VISIT)
        visit(&client_loading);
    if (how & OPEN && !open_other(OPENED_PLUGIN, fd))
        _exit(4);
    if (how & OPEN_UCX && !open_other(UCX_PLUGIN, fd))
        _exit(4);
    if (!(how & (OPEN | OPEN_UCX)))
        tell(fd);
    if (how & FORK) {
        if (fork() == 0)
            exit(0);
        wait(&status);
        _exit(status == 0 ? 0 : 5); /* so that the child's are all that are counted */
    }
    exit(0);
}

/* How many destructors have run at the end of a process. */
static int destructors(int how)
{
    int fds[2], status = -1, n = 0;
    char byte;
    pid_t pid;

    assert_int_equal(pipe(fds), 0);
    if ((pid = fork()) == 0)
        child(how, fds[1]);
    close(fds[1]);
    while (read(fds[0], &byte, 1) == 1)
        n++;
    close(fds[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    return n;
}

static void test_visited(void **state)
{
    (void)state;
    assert_int_equal(destructors(APART), 1); /* what there would be */
    assert_int_equal(destructors(APART | VISIT), 0);
    assert_int_equal(destructors(APART | VISIT | FORK), 0);
    assert_int_equal(destructors(APART | FORK), 1);
}

/* What is opened later, too. */
static void test_opened(void **state)
{
    (void)state;
    assert_int_equal(destructors(APART | OPEN), 0);
    assert_int_equal(destructors(APART | VISIT | OPEN), 0);
    assert_int_equal(destructors(APART | VISIT | OPEN | FORK), 0);
}

/* Nothing of it where the program's name space is used, */
static void test_not_apart(void **state)
{
    (void)state;
    assert_int_equal(destructors(VISIT), 1);
    assert_int_equal(destructors(VISIT | OPEN), 1);
}

/* but for UCX, unless the program had it. */
static void test_ucx(void **state)
{
    (void)state;
    assert_int_equal(destructors(VISIT | OPEN_UCX), 0);
    assert_int_equal(destructors(VISIT | OPEN_UCX | FORK), 0);
    assert_int_equal(destructors(VISIT | OPEN_UCX | HAD_UCX), 1);
    assert_int_equal(destructors(APART | OPEN_UCX | HAD_UCX), 0);
}

struct opening {
    void *(*open_other)(const char *path, int fd);
    int fd;
};

static void *open_slow(void *arg)
{
    struct opening *opening = arg;

    if (!opening->open_other(SLOW_PLUGIN, opening->fd))
        _exit(4);
    return NULL;
}

/* A plugin that waits for forks, in a name space of its own or not, is asked by another
 * thread to open what takes its time, which has begun when this returns. */
static void open_meanwhile(int how, const int fds[2])
{
    static struct opening opening;
    void (*visit)(const struct boot_loading *loading);
    void *handle;
    pthread_t thread;
    char number[16], byte;

    snprintf(number, sizeof(number), "%d", fds[1]);
    setenv("DYAD_TEST_TELL", number, 1); /* first: another libc reads it once */
    handle = how & APART ? dlmopen(LM_ID_NEWLM, PLUGIN, RTLD_NOW)
                         : dlopen(PLUGIN, RTLD_NOW | RTLD_DEEPBIND);
    if (!handle)
        _exit(2);
    opening.fd = fds[1];
    *(void **)&visit = plugin(handle, "plugin_visit");
    *(void **)&opening.open_other = plugin(handle, "plugin_open");
    visit(&client_loading);
    if (pthread_create(&thread, NULL, open_slow, &opening) != 0 ||
        read(fds[0], &byte, 1) != 1) /* it is being constructed */
        _exit(3);
}

static void fork_meanwhile(int how, const int fds[2])
{
    int status = -1;

    open_meanwhile(how, fds);
    if (fork() == 0)
        exit(0);
    wait(&status);
    _exit(status == 0 ? 0 : 5);
}

static void forks_meanwhile(int how)
{
    int fds[2], status = -1;
    char byte;
    pid_t pid;

    assert_int_equal(pipe(fds), 0);
    if ((pid = fork()) == 0)
        fork_meanwhile(how, fds);
    close(fds[1]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_equal(read(fds[0], &byte, 1), 0);
    close(fds[0]);
}

/* A fork waits until what is being loaded is constructed: in its child it is destructed,
 * and the loader's lists are whole. */
static void test_fork_meanwhile(void **state)
{
    (void)state;
    forks_meanwhile(0);
    /* Of that libc valgrind replaces no string functions, which read more than is theirs. */
    if (!getenv("DYAD_TEST_VALGRIND"))
        forks_meanwhile(APART);
}

struct closing {
    void (*close_other)(void *handle);
    void *opened;
};

static void *close_slow(void *arg)
{
    struct closing *closing = arg;

    closing->close_other(closing->opened);
    return NULL;
}

static void fork_while_closing(const int fds[2])
{
    void *handle = dlopen(PLUGIN, RTLD_NOW | RTLD_DEEPBIND),
         *(*open_other)(const char *, int);
    void (*visit)(const struct boot_loading *loading);
    struct closing closing;
    pthread_t thread;
    char bytes[3] = "";

    if (!handle)
        _exit(2);
    *(void **)&visit = plugin(handle, "plugin_visit");
    *(void **)&open_other = plugin(handle, "plugin_open");
    *(void **)&closing.close_other = plugin(handle, "plugin_close");
    visit(&client_loading);
    closing.opened = open_other(SLOW_END_PLUGIN, fds[1]);
    if (!closing.opened || pthread_create(&thread, NULL, close_slow, &closing) != 0 ||
        read(fds[0], bytes, 1) != 1) /* it is being destructed */
        _exit(3);
    if (fork() == 0) {
        (void)!write(fds[1], "f", 1);
        _exit(0);
    }
    wait(NULL);
    _exit(read(fds[0], bytes, 2) == 2 && bytes[0] == 'y' && bytes[1] == 'f' ? 0 : 5);
}

/* A fork waits until what is given back is gone, too. */
static void test_fork_while_closing(void **state)
{
    int fds[2], status = -1;
    pid_t pid;

    (void)state;
    assert_int_equal(pipe(fds), 0);
    if ((pid = fork()) == 0)
        fork_while_closing(fds);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    close(fds[0]);
    close(fds[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_visited),        cmocka_unit_test(test_opened),
        cmocka_unit_test(test_not_apart),      cmocka_unit_test(test_ucx),
        cmocka_unit_test(test_fork_meanwhile), cmocka_unit_test(test_fork_while_closing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
