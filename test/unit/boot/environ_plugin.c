/*
 * environ_plugin.c - what libdyad_member.so is to UCX and PMIx, in small
 *
 * Linked with the boot room, UCX and PMIx, and opened with RTLD_DEEPBIND by test_environ.c.
 */
#include <stdlib.h>
#include <string.h>

#include <pmix.h>
#include <ucp/api/ucp.h>

#include "boot/fdtable.h"
#include "boot/identity.h"
#include "boot/pmix.h"
#include "net/loop.h"

__attribute__((visibility("default"))) const char *plugin_check(const char *expect_signals,
                                                                const char *expect_gds);
__attribute__((visibility("default"))) int plugin_ucx(void);
__attribute__((visibility("default"))) int plugin_pmix(int own_table);
__attribute__((visibility("default"))) int plugin_pmix_end(void);
__attribute__((visibility("default"))) int plugin_session(void);
__attribute__((visibility("default"))) int plugin_session_end(void);

/* NULL, or what is wrong with the private environment. "-" stands for a variable that is
 * not set. */
const char *plugin_check(const char *expect_signals, const char *expect_gds)
{
    const char *signals = getenv("UCX_ERROR_SIGNALS"), *gds = getenv("PMIX_MCA_gds");

    if (strcmp(signals ? signals : "-", expect_signals) != 0)
        return "UCX_ERROR_SIGNALS";
    if (strcmp(gds ? gds : "-", expect_gds) != 0)
        return "PMIX_MCA_gds";
    if (!getenv("PATH"))
        return "PATH";
    if (setenv("DYAD_TEST_A", "1", 1) || !getenv("DYAD_TEST_A") ||
        setenv("DYAD_TEST_A", "2", 0) || strcmp(getenv("DYAD_TEST_A"), "1") != 0 ||
        setenv("DYAD_TEST_A", "3", 1) || strcmp(getenv("DYAD_TEST_A"), "3") != 0)
        return "setenv";
    if (setenv("A=B", "", 1) != -1 || setenv("", "", 1) != -1)
        return "setenv of a bad name";
    if (putenv((char *)"DYAD_TEST_B=x") || strcmp(secure_getenv("DYAD_TEST_B"), "x") != 0)
        return "putenv";
    if (unsetenv("DYAD_TEST_A") || getenv("DYAD_TEST_A"))
        return "unsetenv";
    return NULL;
}

/* A context and a worker, as the member makes them. */
int plugin_ucx(void)
{
    ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES,
                           .features = UCP_FEATURE_AM};
    ucp_worker_params_t worker_params = {0};
    ucp_context_h context;
    ucp_worker_h worker;

    if (ucp_init(&params, NULL, &context) != UCS_OK)
        return -1;
    if (ucp_worker_create(context, &worker_params, &worker) != UCS_OK)
        return -2;
    ucp_worker_destroy(worker);
    ucp_cleanup(context);
    return 0;
}

int plugin_pmix(int own_table)
{
    pmix_proc_t self;

    if (own_table && boot_fdtable_unshare(NULL, 0) < 0)
        return -1000;
    return PMIx_Init(&self, NULL, 0);
}

/* As the member does it: everything through boot/pmix.h, which finds out which table to
 * use. */
static struct net_loop *loop;
static struct boot_pmix *session;
static int outcome;

static void on_ready(void *arg, const struct boot_pmix_job *job, int error)
{
    (void)arg;
    (void)job;
    if (error || boot_pmix_commit(session, "blob", 4) < 0) {
        outcome = -error;
        net_loop_stop(loop);
    }
}

static void on_committed(void *arg, int status)
{
    (void)arg;
    outcome = status;
    boot_pmix_release(session);
    net_loop_stop(loop);
}

static void on_blob(void *arg, uint32_t rank, const void *blob, size_t len, bool kept,
                    int error)
{
    (void)arg;
    (void)kept;
    (void)rank;
    outcome = error || len != 4 || memcmp(blob, "blob", 4) != 0;
    net_loop_stop(loop);
}

static const struct boot_pmix_ops session_ops = {on_ready, on_committed, on_blob};

int plugin_session(void)
{
    struct boot_identity self;
    const char *bad;

    outcome = -1;
    if (boot_identity_read(&self, environ, &bad) < 0 || boot_fdtable_unshare(NULL, 0) < 0 ||
        !(loop = net_loop_create()) ||
        !(session = boot_pmix_create(loop, &self, "t", 5000000000ull, 1000000000ull,
                                     &session_ops, NULL)))
        return -2;
    net_loop_run(loop);
    return outcome;
}

/* Get the blob of rank 0, then leave. */
int plugin_session_end(void)
{
    outcome = -1;
    if (boot_pmix_get(session, 0, BOOT_PMIX_ANY) < 0)
        return -3;
    net_loop_run(loop);
    boot_pmix_destroy(session, BOOT_PMIX_END);
    net_loop_destroy(loop);
    return outcome;
}

int plugin_pmix_end(void)
{
    return PMIx_Finalize(NULL, 0);
}
