/*
 * test_abort.c - whose abort() ends the process: test_abort PLUGIN
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static int (*plugin_catch)(void (*fn)(void *arg), void *arg);
static void (*plugin_fault)(void *arg), (*plugin_ucx_fault)(void *arg);

static void nothing(void *arg)
{
    *(bool *)arg = true;
}

static void *fault_main(void *arg)
{
    plugin_fault(arg);
    return NULL;
}

static void program_fault(void *arg)
{
    (void)arg;
    abort();
}

/* The status with which a child ends that runs this. */
static int status_of(void (*child)(void))
{
    int status;
    pid_t pid = fork();

    if (pid == 0) {
        struct rlimit none = {0, 0};
        setrlimit(RLIMIT_CORE, &none);
        child();
        _exit(0);
    }
    assert_true(pid > 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

static void assert_aborts(void (*child)(void))
{
    int status = status_of(child);

    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGABRT);
}

static void in_other_thread(void *arg)
{
    pthread_t thread;

    if (pthread_create(&thread, NULL, fault_main, arg) == 0)
        pthread_join(thread, NULL);
}

static void other_thread(void)
{
    plugin_catch(in_other_thread, NULL);
}

static void uncaught(void)
{
    plugin_fault(NULL);
}

static void after_the_catch(void)
{
    bool ran = false;

    plugin_catch(nothing, &ran);
    plugin_fault(NULL);
}

static void of_program(void)
{
    plugin_catch(program_fault, NULL);
}

static void test_real(void **state)
{
    (void)state;
    assert_aborts(uncaught);
    assert_aborts(other_thread);
    assert_aborts(after_the_catch);
}

/* The program's own, below the very same call, and in a process that has come through one.
 */
static void test_program(void **state)
{
    (void)state;
    assert_aborts(of_program);
    assert_int_equal(plugin_catch(plugin_fault, NULL), -1);
    assert_aborts(of_program);
    assert_aborts(abort);
}

static void test_caught(void **state)
{
    bool ran = false;

    (void)state;
    assert_int_equal(plugin_catch(nothing, &ran), 0);
    assert_true(ran);
    assert_int_equal(plugin_catch(plugin_fault, NULL), -1);
    assert_int_equal(plugin_catch(plugin_fault, NULL), -1); /* as often as need be */
    ran = false;
    assert_int_equal(plugin_catch(nothing, &ran), 0);
    assert_true(ran);
}

static void test_ucx(void **state)
{
    (void)state;
    assert_int_equal(plugin_catch(plugin_ucx_fault, NULL), -1);
}

/* A thread of the library's, after that: it comes no further, and nothing ends. */
static void test_sleeps(void **state)
{
    struct timespec until;
    pthread_t thread;

    (void)state;
    assert_int_equal(plugin_catch(plugin_fault, NULL), -1);
    assert_int_equal(pthread_create(&thread, NULL, fault_main, NULL), 0);
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 1;
    assert_int_equal(pthread_timedjoin_np(thread, NULL, &until), ETIMEDOUT);
    pthread_detach(thread);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_real), /* before anything is caught */
        cmocka_unit_test(test_caught), cmocka_unit_test(test_program),
        cmocka_unit_test(test_ucx),    cmocka_unit_test(test_sleeps),
    };
    void *plugin = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND) : NULL;

    if (!plugin)
        return 1;
    *(void **)&plugin_catch = dlsym(plugin, "plugin_catch");
    *(void **)&plugin_fault = dlsym(plugin, "plugin_fault");
    *(void **)&plugin_ucx_fault = dlsym(plugin, "plugin_ucx_fault");
    if (!plugin_catch || !plugin_fault || !plugin_ucx_fault)
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
