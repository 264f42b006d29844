/* boot/pmix.h where there is no PMIx server: an error is all that comes of it, as often as
 * it is tried. PMIx is what it is in a process, so each case has one of its own. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <pmix.h>

#include "boot/pmix.h"
#include "pmix_proxy.h"
#include "util/log.h"

extern char **environ;

static struct net_loop *loop;
static int said; /* what `ready` was told */

static void on_ready(void *arg, const struct boot_pmix_job *job, int error)
{
    (void)arg;
    said = job ? -1 : error;
    net_loop_stop(loop);
}

static void on_committed(void *arg, int status)
{
    (void)arg;
    (void)status;
}

static void on_blob(void *arg, uint32_t rank, const void *blob, size_t len, bool kept,
                    int error)
{
    (void)arg;
    (void)kept;
    (void)rank;
    (void)blob;
    (void)len;
    (void)error;
}

static const struct boot_pmix_ops ops = {on_ready, on_committed, on_blob};

/* Two members after one another try to join. 0, or which step was wrong. */
static int join_twice(void)
{
    struct boot_identity self;
    const char *bad;
    sigset_t all;

    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL); /* as an engine's thread has it */
    if (getenv("PROBE_DEBUG"))
        util_log_setup(UTIL_LOG_DEBUG, NULL, "gone");
    if (boot_identity_read(&self, environ, &bad) < 0 || !self.launched)
        return 1;
    for (int i = 0; i < 2; i++) {
        struct boot_pmix *pmix;
        said = 0;
        if (!(loop = net_loop_create()) ||
            !(pmix = boot_pmix_create(loop, &self, "test", 1000000, 1000000, &ops, NULL)))
            return 2;
        if (net_loop_run(loop) < 0)
            return 3;
        boot_pmix_destroy(pmix, BOOT_PMIX_END);
        net_loop_destroy(loop);
        if (said <= 0)
            return 4 + i;
    }
    return 0;
}

static void in_child(const char *uri, int proxy, const char *name, const char *value)
{
    int status;
    pid_t child = fork();

    assert_true(child >= 0);
    if (child == 0) {
        setenv("PMIX_NAMESPACE", "gone", 1);
        setenv("PMIX_RANK", "0", 1);
        if (uri)
            setenv("PMIX_SERVER_URI41", uri, 1);
        if (name)
            setenv(name, value, 1);
        _exit(proxy >= 0 && pmix_proxy_start((enum pmix_proxy)proxy) < 0 ? 9
                                                                         : join_twice());
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFSIGNALED(status))
        fail_msg("it was ended by signal %d", WTERMSIG(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* The variables name none: somebody has kept only some of them. */
static void test_not_named(void **state)
{
    (void)state;
    in_child(NULL, -1, NULL, NULL);
}

/* The launcher has ended. */
static void test_refused(void **state)
{
    (void)state;
    in_child("gone.0;tcp4://127.0.0.1:1", PROXY_REFUSES, NULL, NULL);
}

/* Something else has its port now. */
static void test_closed(void **state)
{
    (void)state;
    in_child("gone.0;tcp4://127.0.0.1:1", PROXY_CLOSES, NULL, NULL);
}

/* PMIx cannot set itself up, with a setting that its user made. */
static void test_setting(void **state)
{
    (void)state;
    in_child("gone.0;tcp4://127.0.0.1:1", PROXY_REFUSES, "PMIX_MCA_psec", "none-such");
}

/* The program has begun to use PMIx, in vain, and ends it later. */
static void test_of_program(void **state)
{
    int status;
    pid_t child = fork();

    (void)state;
    assert_true(child >= 0);
    if (child == 0) {
        pmix_proc_t self;
        setenv("PMIX_NAMESPACE", "gone", 1);
        setenv("PMIX_RANK", "0", 1);
        int rc = PMIx_Init(&self, NULL, 0) == PMIX_ERR_UNREACH ? join_twice() : 8;
        PMIx_Finalize(NULL, 0);
        _exit(rc);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_not_named),  cmocka_unit_test(test_refused),
        cmocka_unit_test(test_closed),     cmocka_unit_test(test_setting),
        cmocka_unit_test(test_of_program),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
