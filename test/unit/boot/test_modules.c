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

enum { APART = 1, SETTLE = 2, OPEN = 4, FORK = 8, OPEN_UCX = 16, HAD_UCX = 32 };

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
    void (*tell)(int fd), (*settle)(void);
    bool (*open_other)(const char *path, int fd);
    int status = 0;

    if (!handle || (how & HAD_UCX && !had))
        _exit(2);
    *(void **)&tell = plugin(handle, "plugin_tell");
    *(void **)&settle = plugin(handle, "plugin_settle");
    *(void **)&open_other = plugin(handle, "plugin_open");
    if (how & SETTLE)
        settle();
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

static void test_settled(void **state)
{
    (void)state;
    assert_int_equal(destructors(APART), 1); /* what there would be */
    assert_int_equal(destructors(APART | SETTLE), 0);
    assert_int_equal(destructors(APART | SETTLE | FORK), 0);
    assert_int_equal(destructors(APART | FORK), 1);
}

/* What is opened later, too. */
static void test_opened(void **state)
{
    (void)state;
    assert_int_equal(destructors(APART | OPEN), 0);
    assert_int_equal(destructors(APART | SETTLE | OPEN), 0);
    assert_int_equal(destructors(APART | SETTLE | OPEN | FORK), 0);
}

/* Nothing of it where the program's name space is used, */
static void test_not_apart(void **state)
{
    (void)state;
    assert_int_equal(destructors(SETTLE), 1);
    assert_int_equal(destructors(SETTLE | OPEN), 1);
}

/* but for UCX, unless the program had it. */
static void test_ucx(void **state)
{
    (void)state;
    assert_int_equal(destructors(SETTLE | OPEN_UCX), 0);
    assert_int_equal(destructors(SETTLE | OPEN_UCX | FORK), 0);
    assert_int_equal(destructors(SETTLE | OPEN_UCX | HAD_UCX), 1);
    assert_int_equal(destructors(APART | OPEN_UCX | HAD_UCX), 0);
}

struct opening {
    bool (*open_other)(const char *path, int fd);
    int fd;
};

static void *open_slow(void *arg)
{
    struct opening *opening = arg;

    if (!opening->open_other(SLOW_PLUGIN, opening->fd))
        _exit(4);
    return NULL;
}

static void fork_meanwhile(const int fds[2])
{
    void *handle = dlopen(PLUGIN, RTLD_NOW | RTLD_DEEPBIND);
    struct opening opening = {.fd = fds[1]};
    void (*settle)(void);
    pthread_t thread;
    char number[16], byte;
    int status = -1;

    if (!handle)
        _exit(2);
    *(void **)&settle = plugin(handle, "plugin_settle");
    *(void **)&opening.open_other = plugin(handle, "plugin_open");
    settle();
    snprintf(number, sizeof(number), "%d", fds[1]);
    setenv("DYAD_TEST_TELL", number, 1);
    if (pthread_create(&thread, NULL, open_slow, &opening) != 0 ||
        read(fds[0], &byte, 1) != 1) /* it is being constructed */
        _exit(3);
    if (fork() == 0)
        exit(0);
    wait(&status);
    _exit(status == 0 ? 0 : 5);
}

/* A fork waits until what is being loaded is constructed: in its child it is destructed. */
static void test_fork_meanwhile(void **state)
{
    int fds[2], status = -1;
    char byte;
    pid_t pid;

    (void)state;
    assert_int_equal(pipe(fds), 0);
    if ((pid = fork()) == 0)
        fork_meanwhile(fds);
    close(fds[1]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_equal(read(fds[0], &byte, 1), 0);
    close(fds[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_settled),        cmocka_unit_test(test_opened),
        cmocka_unit_test(test_not_apart),      cmocka_unit_test(test_ucx),
        cmocka_unit_test(test_fork_meanwhile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
