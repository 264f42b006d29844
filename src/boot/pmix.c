/*
 * pmix.c - sessions with the launcher's PMIx server
 *
 * A session is PMIx_Init, some calls, PMIx_Finalize, on a thread that lives as long. It
 * begins when something is asked (pmix_ask.c says how) and ends when boot_pmix_release()
 * was called and nothing is pending. Callbacks of PMIx run on its progress thread and
 * only note the answer; results reach the loop by a post (pmix_result.c). struct
 * boot_pmix says what its lock guards.
 *
 * What could go wrong: a program that uses MPI shares one PMIx with us, initialised and
 * finalised by count, and either side hangs or aborts if ours is used from another
 * descriptor table (program_shares()) or ended at the wrong time (may_end()). A PMIx call
 * does not return: boot_pmix_destroy() waits for DESTROY_BOUND_NS.
 */
#include "boot/pmix_impl.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#include "boot/libevent_proxy.h"
#include "boot/fdtable.h"
#include "boot/libs.h"
#include "boot/pmix_init.h"
#include "boot/pmix_job.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/stack.h"
#include "util/wipe.h"

/* How long destroy waits for a PMIx call that does not return. PMIx_Finalize itself gives
 * up after 2 s. */
#define DESTROY_BOUND_NS (5 * UTIL_NSEC_PER_SEC)
#define SESSION_STACK    (512 * 1024)

static int session_start(struct boot_pmix *pmix);

/* --- what a session does --- */

static bool stopping(void *arg)
{
    struct boot_pmix *pmix = arg;

    pthread_mutex_lock(&pmix->lock);
    bool stop = pmix->closed;
    pthread_mutex_unlock(&pmix->lock);
    return stop;
}

/* Put and commit the blob, if there is one to commit. */
static void do_commit(struct boot_pmix *pmix)
{
    pmix_value_t value;
    pmix_status_t rc;
    void *blob;
    size_t len;

    pthread_mutex_lock(&pmix->lock);
    blob = pmix->blob;
    len = pmix->blob_len;
    pmix->blob = NULL;
    pthread_mutex_unlock(&pmix->lock);
    if (!blob)
        return;

    PMIX_VALUE_CONSTRUCT(&value);
    value.type = PMIX_BYTE_OBJECT;
    value.data.bo.bytes = blob;
    value.data.bo.size = len;
    rc = PMIx_Put(PMIX_GLOBAL, pmix->key, &value);
    if (rc == PMIX_SUCCESS)
        rc = PMIx_Commit();
    util_wipe_free(blob, len);
    if (boot_pmix_error_of(rc))
        log_debug("PMIx_Put or PMIx_Commit: %s", PMIx_Error_string(rc));
    pthread_mutex_lock(&pmix->lock);
    boot_pmix_result_put(pmix, RESULT_COMMITTED, 0, boot_pmix_error_of(rc), NULL, 0);
    pthread_mutex_unlock(&pmix->lock);
}

static void wait_until(struct boot_pmix *pmix, uint64_t when)
{
    struct timespec ts = {.tv_sec = (time_t)(when / UTIL_NSEC_PER_SEC),
                          .tv_nsec = (long)(when % UTIL_NSEC_PER_SEC)};

    if (when)
        pthread_cond_timedwait(&pmix->changed, &pmix->lock, &ts);
    else
        pthread_cond_wait(&pmix->changed, &pmix->lock);
}

bool boot_pmix_shared; /* boot/libevent_proxy.h */

/* True if the program uses PMIx as well, or may do so at any moment. The session's thread
 * then uses the program's table (boot_fdtable_host_thread()): PMIx wakes its progress
 * thread by writing to a descriptor, by number, so all threads that call PMIx, and its
 * progress thread, must use one descriptor table. With our private table in between,
 * MPI_Init (or our Put, if MPI_Init was first) hangs (measured with PMIx 4.2.2 and Open
 * MPI 4.1.4). A program that loads MPI later, while a session is on, is caught by
 * libevent_proxy.c. PMIx_Init and PMIx_Finalize of several threads at once are serialised
 * by PMIx's own lock. */
static bool program_shares(void)
{
    return (boot_libs_before_us() & (BOOT_LIBS_MPI | BOOT_LIBS_PMIX)) ||
           (boot_libs_loaded() & BOOT_LIBS_MPI) ||
           __atomic_load_n(&boot_pmix_shared, __ATOMIC_RELAXED);
}

/* True if the session may end, and another begin. In an MPI program, or where the store
 * is not "hash" (environ.c), a session lasts until boot_pmix_destroy():
 *
 * - With the default store (ds21), MPI_Init after a PMIx_Finalize of ours aborts
 *   ("getting local rank failed"), and a second session of ours finds no key of another
 *   rank (PMIx 4.2.2, Open MPI 4.1.4).
 * - The last PMIx_Finalize frees the class tables after it has dropped PMIx's lock:
 *   another reason not to end a session while MPI may begin.
 *
 * This getenv is the one that PMIx uses, with environ.c or without. */
static bool may_end(void)
{
    const char *store = getenv("PMIX_MCA_gds");

    return store && strcmp(store, "hash") == 0 && !program_shares();
}

/* Wait for the answers that are under way (pmix_ask.c). Lock held. */
static void await_answers(struct boot_pmix *pmix)
{
    uint64_t left = util_clock_now(), until;
    bool waited = false;

    while ((until = boot_pmix_answers_until(pmix, left))) {
        if (!waited)
            log_info(
                "waits for answers of the launcher's servers, without which it may not "
                "end");
        waited = true;
        pmix->destroy_bound = until + DESTROY_BOUND_NS;
        wait_until(pmix, until);
    }
    if (waited)
        log_debug("waited %.1f ms for answers of the launcher's servers",
                  (double)(util_clock_now() - left) / 1e6);
}

uint64_t boot_pmix_hold_ns = 10 * UTIL_NSEC_PER_SEC;

/* Until there is nothing to do. Lock held. */
static void session_serve(struct boot_pmix *pmix)
{
    uint64_t idle_until = 0; /* 0: not idle */
    bool idle;

    while (!pmix->closed) {
        if (pmix->blob) {
            pthread_mutex_unlock(&pmix->lock);
            do_commit(pmix);
            pthread_mutex_lock(&pmix->lock);
            continue;
        }
        uint64_t wake = boot_pmix_asks_serve(pmix, &idle);
        if (pmix->closed || pmix->blob)
            continue;
        if (!idle || !pmix->released || !may_end()) {
            idle_until = 0;
        } else {
            uint64_t now = util_clock_now();
            if (!idle_until)
                idle_until = now + boot_pmix_hold_ns;
            if (now < idle_until) {
                if (!wake || idle_until < wake)
                    wake = idle_until;
            } else if (!(wake = boot_pmix_answers_until(pmix, now))) {
                break;
            }
        }
        wait_until(pmix, wake);
    }
}

/* Everything that waits for this session fails. Lock held. */
static void session_fail(struct boot_pmix *pmix, int error)
{
    if (!pmix->have_job)
        boot_pmix_result_put(pmix, RESULT_READY, 0, error, NULL, 0);
    if (pmix->blob) {
        util_wipe_free(pmix->blob, pmix->blob_len);
        pmix->blob = NULL;
        boot_pmix_result_put(pmix, RESULT_COMMITTED, 0, error, NULL, 0);
    }
    boot_pmix_asks_fail(pmix);
}

static void *session_main(void *arg)
{
    struct boot_pmix *pmix = arg;
    uint64_t start;
    pmix_status_t rc;
    bool up, down;
    int error;

    prctl(PR_SET_NAME, "dyad-pmix");
    /* In the program's table it is the program's connection, too, and is not watched: MPI's
     * ranks do not finalise while others initialise. */
    rc = boot_pmix_init(&pmix->self, !program_shares(), may_end(), stopping, pmix);
    up = rc == PMIX_SUCCESS;
    error = up ? 0 : boot_pmix_error_of(rc);
    /* Written by the first session only; the lock below orders it before any reader. */
    if (!error && !pmix->job.node)
        error = boot_pmix_job_read(pmix->self.nspace, &pmix->job, stopping, pmix);
    if (!error && !pmix->heard_at &&
        !(pmix->heard_at = calloc(pmix->job.nranks, sizeof(*pmix->heard_at))))
        error = ENOMEM;

    pthread_mutex_lock(&pmix->lock);
    if (error) {
        session_fail(pmix, error);
    } else {
        if (!pmix->have_job) {
            pmix->have_job = true;
            boot_pmix_result_put(pmix, RESULT_READY, 0, 0, NULL, 0);
        }
        session_serve(pmix);
        if (pmix->closed)
            await_answers(pmix);
    }
    up = up && pmix->how != BOOT_PMIX_END_UP;
    pthread_mutex_unlock(&pmix->lock);

    start = util_clock_now();
    if (up) {
        rc = PMIx_Finalize(NULL, 0);
        log_debug("PMIx_Finalize: %s after %.1f ms", PMIx_Error_string(rc),
                  (double)(util_clock_now() - start) / 1e6);
    }
    down = !PMIx_Initialized();
    pthread_mutex_lock(&pmix->lock);
    boot_pmix_tickets_drop(pmix, down);
    pmix->running = false;
    /* Asked while we were finalising: another session, in the table that is right by then.
     */
    if (!pmix->closed && (pmix->asks || pmix->blob) && session_start(pmix) != 0)
        session_fail(pmix, EAGAIN);
    pthread_cond_broadcast(&pmix->changed);
    boot_pmix_unref_unlock(pmix);
    return NULL;
}

/* Have a session's thread run. Lock held. 0 or an errno value. */
static int session_start(struct boot_pmix *pmix)
{
    pthread_attr_t attr;
    int rc;

    if (pmix->running) {
        pthread_cond_broadcast(&pmix->changed);
        return 0;
    }
    if (pmix->joinable) /* the last one is past its last use of the lock, or about to be */
        pthread_detach(pmix->thread);
    pmix->joinable = false;
    pmix->refs++;
    pmix->running = true;
    rc = program_shares() ? boot_fdtable_host_thread(&pmix->thread, session_main, pmix)
                          : ESRCH;
    if (rc == ESRCH) { /* no need for the program's table, or there is no other */
        pthread_attr_init(&attr);
        util_stack_set(&attr, SESSION_STACK);
        rc = pthread_create(&pmix->thread, &attr, session_main, pmix);
        pthread_attr_destroy(&attr);
    }
    if (rc != 0) {
        pmix->running = false;
        pmix->refs--;
    } else {
        pmix->joinable = true;
    }
    return rc;
}

/* --- interface --- */

struct boot_pmix *boot_pmix_create(struct net_loop *loop,
                                   const struct boot_identity *identity, const char *prefix,
                                   uint64_t timeout_ns, uint64_t kept_ns,
                                   const struct boot_pmix_ops *ops, void *arg)
{
    struct boot_pmix *pmix;
    pthread_condattr_t attr;
    int rc;

    if (!identity->launched) {
        errno = ENOTCONN;
        return NULL;
    }
    if (!(pmix = calloc(1, sizeof(*pmix))))
        return NULL;
    if ((size_t)snprintf(pmix->key, sizeof(pmix->key), "dyad.%s", prefix ? prefix : "") >=
        sizeof(pmix->key)) {
        free(pmix);
        errno = ENAMETOOLONG;
        return NULL;
    }
    pmix->loop = loop;
    pmix->ops = ops;
    pmix->arg = arg;
    pmix->timeout_ns = timeout_ns;
    pmix->kept_ns = kept_ns;
    pmix->refs = 1;
    pthread_mutex_init(&pmix->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&pmix->changed, &attr);
    pthread_condattr_destroy(&attr);

    pthread_mutex_lock(&pmix->lock);
    rc = session_start(pmix);
    if (rc != 0) {
        boot_pmix_unref_unlock(pmix);
        errno = rc;
        return NULL;
    }
    pthread_mutex_unlock(&pmix->lock);
    return pmix;
}

void boot_pmix_destroy(struct boot_pmix *pmix, enum boot_pmix_end how)
{
    pthread_t thread;
    bool joinable, running;

    if (!pmix)
        return;
    pthread_mutex_lock(&pmix->lock);
    pmix->closed = true;
    pmix->how = how;
    pmix->destroy_bound = util_clock_now() + DESTROY_BOUND_NS;
    boot_pmix_results_free(pmix);
    pthread_cond_broadcast(&pmix->changed);
    while (pmix->running && util_clock_now() < pmix->destroy_bound)
        wait_until(pmix, pmix->destroy_bound);
    running = pmix->running;
    joinable = pmix->joinable;
    thread = pmix->thread;
    pmix->joinable = false;
    boot_pmix_unref_unlock(pmix);
    if (running) {
        log_warn(
            "the launcher's PMIx server does not answer: leaving without PMIx_Finalize; "
            "the launcher "
            "may report an abnormal end");
        pthread_detach(thread);
    } else if (joinable) {
        pthread_join(thread, NULL);
    }
}

int boot_pmix_commit(struct boot_pmix *pmix, const void *blob, size_t len)
{
    void *copied = malloc(len ? len : 1);
    int rc;

    if (!copied)
        return -1;
    memcpy(copied, blob, len);
    pthread_mutex_lock(&pmix->lock);
    util_wipe_free(pmix->blob, pmix->blob_len);
    pmix->blob = copied;
    pmix->blob_len = len;
    rc = session_start(pmix);
    if (rc != 0) {
        util_wipe_free(pmix->blob, len);
        pmix->blob = NULL;
    }
    pthread_mutex_unlock(&pmix->lock);
    errno = rc ? rc : errno;
    return rc ? -1 : 0;
}

int boot_pmix_get(struct boot_pmix *pmix, uint32_t rank, enum boot_pmix_wanted wanted)
{
    struct pmix_ask *ask;
    int rc;

    pthread_mutex_lock(&pmix->lock);
    ask = boot_pmix_ask_add(pmix, rank, wanted);
    if (!ask) {
        pthread_mutex_unlock(&pmix->lock);
        errno = ENOMEM;
        return -1;
    }
    rc = session_start(pmix);
    if (rc != 0) {
        boot_pmix_ask_free(pmix, ask);
    }
    pthread_mutex_unlock(&pmix->lock);
    errno = rc ? ENOMEM : errno;
    return rc ? -1 : 0;
}

void boot_pmix_there(struct boot_pmix *pmix, uint32_t rank, uint64_t heard_at)
{
    pthread_mutex_lock(&pmix->lock);
    if (pmix->have_job && rank < pmix->job.nranks)
        pmix->heard_at[rank] = heard_at;
    pthread_mutex_unlock(&pmix->lock);
}

void boot_pmix_release(struct boot_pmix *pmix)
{
    pthread_mutex_lock(&pmix->lock);
    pmix->released = true;
    pthread_cond_broadcast(&pmix->changed);
    pthread_mutex_unlock(&pmix->lock);
}
