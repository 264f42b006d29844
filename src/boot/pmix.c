/*
 * pmix.c - sessions with the launcher's PMIx server
 *
 * A session is PMIx_Init, some calls, PMIx_Finalize, on a thread that lives as long. It
 * begins when something is asked and ends when boot_pmix_release() was called and nothing
 * is pending. Gets are PMIx_Get_nb with a deadline of our own: PMIX_TIMEOUT does not work
 * across nodes, and a Get of a rank that never joins never returns. An answer of "not
 * found" is asked again after 1 ms, 2 ms, ...: the default store says so when the answer
 * races with the owner's commit, and a server does when the rank had committed something
 * else before (MPI's keys), so those are asked with PMIX_GET_REFRESH_CACHE.
 *
 * A Get says nothing of why it is pending: a rank that never joins, and one whose node is
 * cut off, look alike. But the server of this node keeps what it has got once, and answers
 * an ordinary Get with that, whoever of its clients had asked before (seen with Open MPI
 * 4.1.4 and Slurm 22.05; what was asked for beyond a cut they answer, too, some 5 s after
 * it is over). So whoever follows another member of its rank is told by its own server who
 * was there, and where, also beyond a cut (BOOT_PMIX_BOTH). That may be out of date by as
 * much as the other has executed since; so it is only a second best, for when the newest
 * does not come.
 *
 * A rank must not end while its server waits for what a Get of it has asked another node's
 * server. When the last rank of a node has ended, the server (PMIx 4.2.2) gives up its
 * reference to each such question, and uses it all the same when the answer comes: its
 * thread then waits for ever for a lock in memory that was freed, the orted of that node
 * (Open MPI 4.1.4) waits for that thread before it ends, and mpirun for the orted. (Seen in
 * one of 30 jobs of two plain PMIx clients that end in this way, and in none that wait.) So
 * a member that leaves waits for its answers first. They take milliseconds, unless the link
 * was cut: then the request is sent again some time after that is over. Not waited for is
 * what no server answers, now or later: the Get of a rank that has not joined. Nor does one
 * answer for a rank that was the last of its node and has ended, hence a bound.
 *
 * One PMIx library, two sides. If the program uses MPI, both share one PMIx, initialised
 * and finalised by count. What was measured with PMIx 4.2.2 and Open MPI 4.1.4:
 * - PMIx wakes its progress thread by writing to a descriptor, by number. So all threads
 * that call PMIx, and its progress thread, must use one descriptor table: with our private
 * table in between, MPI_Init (or our Put, if MPI_Init was first) hangs. In an MPI program a
 * session's thread therefore uses the program's table (boot_fdtable_host_thread). A program
 * that loads MPI later, while a session is on, is caught by evproxy.c.
 * - With the default store (ds21), MPI_Init after a PMIx_Finalize of ours aborts ("getting
 * local rank failed"), and a second session of ours finds no key of another rank. So in an
 * MPI program, or where the store is not "hash" (environ.c), a session lasts until
 * boot_pmix_destroy().
 * - The last PMIx_Finalize frees the class tables after it has dropped PMIx's lock. It is
 * another reason not to end a session while MPI may begin.
 * - PMIx_Init and PMIx_Finalize of several threads at once are serialised by PMIx's own
 * lock.
 *
 * Finalize drops pending Gets without calling back, if it is the last; else the callback
 * may come at any later time. So a pending Get is a ticket that holds a reference to struct
 * boot_pmix.
 *
 * Locking: everything in struct boot_pmix below `lock` is guarded by it. It is never held
 * across a PMIx call. Callbacks of PMIx run on its progress thread and only note the
 * answer. Results reach the loop by one post at a time, whose node is part of the struct,
 * which also holds a reference.
 */
#include "boot/pmix.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#include <pmix.h>
#include <uthash.h>
#include <utlist.h>

#include "boot/evproxy.h"
#include "boot/fdtable.h"
#include "boot/libs.h"
#include "boot/pmix_init.h"
#include "boot/pmix_job.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/stack.h"

/* How long destroy waits for a PMIx call that does not return. PMIx_Finalize itself gives
 * up after 2 s. */
#define DESTROY_BOUND_NS (5 * UTIL_NSEC_PER_SEC)
/* How long an answer is waited for: of a rank that may have ended, from the question on; of
 * one that is there, from when we leave on. */
#define ANSWER_BOUND_NS       (2 * UTIL_NSEC_PER_SEC)
#define ANSWER_THERE_BOUND_NS (10 * UTIL_NSEC_PER_SEC)
#define RETRY_FIRST_NS        UTIL_NSEC_PER_MSEC
#define RETRY_MAX_NS          (256 * UTIL_NSEC_PER_MSEC)
#define SESSION_STACK         (512 * 1024)

enum ask_state {
    ASK_WANTED,  /* to be sent when `when` has come */
    ASK_PENDING, /* a ticket is out */
};

struct ask { /* one rank whose blob is wanted and was not yet delivered */
    UT_hash_handle hh;
    uint32_t rank;
    enum ask_state state;
    bool reported;     /* as absent; the ticket may still bring it */
    bool both;         /* BOOT_PMIX_BOTH, and what the server has kept was not asked for */
    bool past_cache;   /* ... is of no use, or is `kept`: PMIX_GET_REFRESH_CACHE */
    uint64_t when;     /* send at */
    uint64_t delay;    /* before the next try */
    uint64_t deadline; /* report as absent at */
    void *kept;        /* what the server had, to be delivered at `kept_at`; or NULL */
    size_t kept_len;
    uint64_t kept_at;
};

struct ticket { /* a PMIx_Get_nb that was not called back yet */
    struct ticket *prev, *next;
    struct boot_pmix *pmix;
    uint32_t rank;
    bool cancelled;
    bool past_cache; /* its server has something of it, so it answers */
    uint64_t sent;
    pmix_proc_t proc; /* PMIx copies neither this nor the directives: they live as long as
                         the Get */
    pmix_info_t refresh;
};

enum result_kind { RESULT_READY, RESULT_COMMITTED, RESULT_BLOB, RESULT_KEPT };

struct result {
    struct result *prev, *next;
    enum result_kind kind;
    uint32_t rank;
    int error;
    void *blob;
    size_t len;
};

struct boot_pmix {
    struct net_loop *loop;
    const struct boot_pmix_ops *ops;
    void *arg;
    uint64_t timeout_ns, kept_ns;
    char key[PMIX_MAX_KEYLEN + 1];
    struct boot_pmix_job job; /* written once, before RESULT_READY is queued */
    bool *there;              /* [job.nranks], boot_pmix_there(); made with job */
    pmix_proc_t self;         /* of the session's thread */
    struct net_post post;

    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned refs; /* the owner, the session's thread, each ticket, the post in the loop's
                      queue */
    bool closed;   /* boot_pmix_destroy() was called: no callback any more */
    bool leave_up; /* ... without PMIx_Finalize */
    uint64_t destroy_bound; /* ... and waits so long for the session to end */
    bool running;           /* a session's thread exists that has not said it is done */
    bool joinable;          /* `thread` is to be joined */
    bool released;
    bool have_job;
    bool posted;
    pthread_t thread;
    void *blob; /* to be committed */
    size_t blob_len;
    struct ask *asks;
    struct ticket *tickets;
    struct result *results;
};

static void *session_main(void *arg);
static int session_start(struct boot_pmix *pmix);

/* --- life --- */

static void ask_free(struct boot_pmix *pmix, struct ask *ask)
{
    HASH_DEL(pmix->asks, ask);
    free(ask->kept);
    free(ask);
}

static void asks_free(struct boot_pmix *pmix)
{
    struct ask *ask, *next;

    HASH_ITER(hh, pmix->asks, ask, next)
    {
        ask_free(pmix, ask);
    }
}

static void results_free(struct boot_pmix *pmix)
{
    struct result *result, *next;

    DL_FOREACH_SAFE(pmix->results, result, next)
    {
        free(result->blob);
        free(result);
    }
    pmix->results = NULL;
}

/* Give up one reference; the lock is held, and is no more afterwards. */
static void unref_unlock(struct boot_pmix *pmix)
{
    bool last = --pmix->refs == 0;

    pthread_mutex_unlock(&pmix->lock);
    if (!last)
        return;
    asks_free(pmix);
    results_free(pmix);
    free(pmix->blob);
    free(pmix->job.node);
    free(pmix->there);
    pthread_cond_destroy(&pmix->changed);
    pthread_mutex_destroy(&pmix->lock);
    free(pmix);
}

/* --- results, to the loop --- */

static void deliver(void *arg)
{
    struct boot_pmix *pmix = arg;
    struct result *list, *result, *next;
    bool closed;

    pthread_mutex_lock(&pmix->lock);
    pmix->posted = false;
    closed = pmix->closed;
    list = pmix->results;
    pmix->results = NULL;
    pthread_mutex_unlock(&pmix->lock);

    DL_FOREACH_SAFE(list, result, next)
    {
        /* closed is written on this thread only, so between callbacks it needs no lock */
        if (closed || pmix->closed)
            ;
        else if (result->kind == RESULT_READY)
            pmix->ops->ready(pmix->arg, result->error ? NULL : &pmix->job, result->error);
        else if (result->kind == RESULT_COMMITTED)
            pmix->ops->committed(pmix->arg, result->error);
        else
            pmix->ops->blob(pmix->arg, result->rank, result->blob, result->len,
                            result->kind == RESULT_KEPT, result->error);
        free(result->blob);
        free(result);
    }
    pthread_mutex_lock(&pmix->lock);
    unref_unlock(pmix);
}

/* Queue a result; the lock is held; blob becomes the result's. Without memory the result is
 * lost, and the deadlines of those who asked must do. */
static void result_put(struct boot_pmix *pmix, enum result_kind kind, uint32_t rank,
                       int error, void *blob, size_t len)
{
    struct result *result = pmix->closed ? NULL : malloc(sizeof(*result));

    if (!result) {
        free(blob);
        return;
    }
    *result = (struct result){
        .kind = kind, .rank = rank, .error = error, .blob = blob, .len = len};
    DL_APPEND(pmix->results, result);
    if (!pmix->posted) {
        pmix->posted = true;
        pmix->refs++;
        net_loop_post(pmix->loop, &pmix->post, deliver, pmix);
    }
}

/* --- what a session does --- */

/* PMIx's status as an errno value. */
static int error_of(pmix_status_t status)
{
    switch (status) {
    case PMIX_SUCCESS:
    case PMIX_OPERATION_SUCCEEDED:
        return 0;
    case PMIX_ERR_NOMEM:
    case PMIX_ERR_OUT_OF_RESOURCE:
        return ENOMEM;
    case PMIX_ERR_UNREACH:
    case PMIX_ERR_LOST_CONNECTION:
    case PMIX_ERR_COMM_FAILURE:
        return ENOTCONN;
    case PMIX_ERR_NO_PERMISSIONS:
        return EACCES;
    case PMIX_ERR_NOT_FOUND:
        return EHOSTUNREACH;
    case PMIX_ERR_NOT_SUPPORTED:
        return ENOTSUP;
    default:
        return EPROTO;
    }
}

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
    free(blob);
    if (error_of(rc))
        log_debug("PMIx_Put or PMIx_Commit: %s", PMIx_Error_string(rc));
    pthread_mutex_lock(&pmix->lock);
    result_put(pmix, RESULT_COMMITTED, 0, error_of(rc), NULL, 0);
    pthread_mutex_unlock(&pmix->lock);
}

/* A server knows the newest of its own clients; asked to refresh one of these, it answers
 * with nothing. */
static bool has_cache(const struct boot_pmix *pmix, uint32_t rank)
{
    return pmix->have_job && rank < pmix->job.nranks &&
           pmix->self.rank < pmix->job.nranks &&
           pmix->job.node[rank] != pmix->job.node[pmix->self.rank];
}

/* A Get was answered: on PMIx's progress thread. The value stays PMIx's. */
static void got(pmix_status_t status, pmix_value_t *value, void *arg)
{
    struct ticket *ticket = arg;
    struct boot_pmix *pmix = ticket->pmix;
    struct ask *ask;

    pthread_mutex_lock(&pmix->lock);
    DL_DELETE(pmix->tickets, ticket);
    HASH_FIND(hh, pmix->asks, &ticket->rank, sizeof(ticket->rank), ask);
    if (!ticket->cancelled && ask) {
        void *blob = NULL;
        size_t len = 0;
        if (error_of(status) == 0 && value && value->type == PMIX_BYTE_OBJECT &&
            value->data.bo.size > 0 && (blob = malloc(value->data.bo.size))) {
            len = value->data.bo.size;
            memcpy(blob, value->data.bo.bytes, len);
        }
        if (blob && ask->both && !ask->reported && has_cache(pmix, ask->rank)) {
            ask->both = false;
            ask->kept = blob;
            ask->kept_len = len;
            ask->past_cache = true;
            ask->state = ASK_WANTED;
            ask->when = util_clock_now();
            ask->kept_at = ask->when + pmix->kept_ns;
        } else if (blob) {
            result_put(pmix, RESULT_BLOB, ask->rank, 0, blob, len);
            ask_free(pmix, ask);
        } else if (ask->reported) {
            ask_free(pmix, ask); /* the answer is final enough */
        } else {
            ask->state = ASK_WANTED;
            ask->past_cache = true;
            ask->when = util_clock_now() + ask->delay;
            ask->delay = ask->delay < RETRY_MAX_NS ? ask->delay * 2 : RETRY_MAX_NS;
        }
    }
    pthread_cond_broadcast(&pmix->changed);
    free(ticket);
    unref_unlock(pmix);
}

/* Send the Get of `rank`. The lock is held, and dropped meanwhile: the caller must look at
 * the table anew. */
static void send_get(struct boot_pmix *pmix, struct ask *ask)
{
    struct ticket *ticket = calloc(1, sizeof(*ticket));
    uint32_t rank = ask->rank;
    bool past_cache = ask->past_cache && has_cache(pmix, rank);
    pmix_status_t rc;

    if (!ticket) {
        ask->when = util_clock_now() + RETRY_MAX_NS;
        return;
    }
    ticket->pmix = pmix;
    ticket->rank = rank;
    ticket->past_cache = past_cache;
    ticket->sent = util_clock_now();
    DL_APPEND(pmix->tickets, ticket);
    pmix->refs++;
    ask->state = ASK_PENDING;
    pthread_mutex_unlock(&pmix->lock);

    PMIX_LOAD_PROCID(&ticket->proc, pmix->self.nspace, rank);
    PMIX_INFO_LOAD(&ticket->refresh, PMIX_GET_REFRESH_CACHE, NULL, PMIX_BOOL);
    rc = PMIx_Get_nb(&ticket->proc, pmix->key, past_cache ? &ticket->refresh : NULL,
                     past_cache ? 1 : 0, got, ticket);
    if (rc != PMIX_SUCCESS) {
        log_debug("PMIx_Get_nb of rank %u: %s", rank, PMIx_Error_string(rc));
        got(rc, NULL, ticket);
    }
    pthread_mutex_lock(&pmix->lock);
}

/* The newest has not come. Lock held. */
static void give_kept(struct boot_pmix *pmix, struct ask *ask)
{
    log_debug("rank %u: what the launcher's server on this node has kept of it", ask->rank);
    result_put(pmix, RESULT_KEPT, ask->rank, 0, ask->kept, ask->kept_len);
    ask->kept = NULL;
}

/* Send what is due, report what is late. Lock held. Returns when to look again (0: only at
 * an event); *idle: nothing is wanted that was not reported. */
static uint64_t serve_asks(struct boot_pmix *pmix, bool *idle)
{
    struct ask *ask, *next;
    uint64_t now, wake;
    bool sent;

    do {
        sent = false;
        wake = 0;
        *idle = true;
        now = util_clock_now();
        HASH_ITER(hh, pmix->asks, ask, next)
        {
            if (!ask->reported && ask->kept &&
                (ask->kept_at <= now || ask->deadline <= now))
                give_kept(pmix, ask);
            if (!ask->reported && ask->deadline <= now) {
                ask->reported = true;
                result_put(pmix, RESULT_BLOB, ask->rank, EHOSTUNREACH, NULL, 0);
                if (ask->state == ASK_WANTED) {
                    ask_free(pmix, ask);
                    continue;
                }
            }
            if (ask->reported)
                continue;
            *idle = false;
            if (ask->state == ASK_WANTED && ask->when <= now) {
                send_get(pmix, ask);
                sent = true;
                break;
            }
            uint64_t when = ask->deadline;
            if (ask->state == ASK_WANTED && ask->when < when)
                when = ask->when;
            if (ask->kept && ask->kept_at < when)
                when = ask->kept_at;
            if (!wake || when < wake)
                wake = when;
        }
    } while (sent && !pmix->closed);
    return wake;
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

bool boot_pmix_shared; /* boot/evproxy.h */

/* Does the program use PMIx as well, or may it at any moment? See the top. */
static bool program_shares(void)
{
    return (boot_libs_before_us() & (BOOT_LIBS_MPI | BOOT_LIBS_PMIX)) ||
           (boot_libs_loaded() & BOOT_LIBS_MPI) ||
           __atomic_load_n(&boot_pmix_shared, __ATOMIC_RELAXED);
}

/* May the session end, and another begin? With ds21 the second one of a process finds no
 * key of others, nor does MPI. This getenv is the one that PMIx uses, with environ.c or
 * without. */
static bool may_end(void)
{
    const char *store = getenv("PMIX_MCA_gds");

    return store && strcmp(store, "hash") == 0 && !program_shares();
}

/* Until when the answers that are under way are to be waited for by who leaves at `left`;
 * 0: there are none. Lock held. */
static uint64_t answers_until(const struct boot_pmix *pmix, uint64_t left)
{
    const struct ticket *ticket;
    uint64_t now = util_clock_now(), last = 0;

    DL_FOREACH(pmix->tickets, ticket)
    {
        uint64_t until = 0;
        if (!has_cache(pmix, ticket->rank))
            continue; /* no other server is asked */
        if (pmix->there[ticket->rank])
            until = left + ANSWER_THERE_BOUND_NS;
        else if (ticket->past_cache)
            until = ticket->sent + ANSWER_BOUND_NS;
        if (until > now && until > last)
            last = until;
    }
    return last;
}

/* See the top. Lock held. */
static void await_answers(struct boot_pmix *pmix)
{
    uint64_t left = util_clock_now(), until;
    bool waited = false;

    while ((until = answers_until(pmix, left))) {
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
        uint64_t wake = serve_asks(pmix, &idle);
        if (pmix->closed || pmix->blob)
            continue;
        if (!idle || !pmix->released || !may_end()) {
            idle_until = 0;
        } else {
            uint64_t now = util_clock_now();
            if (!idle_until)
                idle_until = now + boot_pmix_hold_ns;
            if (now < idle_until)
                wake = idle_until; /* reported asks have no deadline */
            else if (!(wake = answers_until(pmix, now)))
                break;
        }
        wait_until(pmix, wake);
    }
}

/* The tickets of a session that is over: they are called back no more if PMIx is down, else
 * perhaps. Those who had been reported absent are forgotten, others are asked again by the
 * next session. Lock held. */
static void tickets_drop(struct boot_pmix *pmix, bool down)
{
    struct ticket *ticket, *next_ticket;
    struct ask *ask, *next;

    DL_FOREACH_SAFE(pmix->tickets, ticket, next_ticket)
    {
        ticket->cancelled = true;
        if (down) {
            DL_DELETE(pmix->tickets, ticket);
            free(ticket);
            pmix->refs--; /* the caller has one of its own */
        }
    }
    HASH_ITER(hh, pmix->asks, ask, next)
    {
        if (ask->reported) {
            ask_free(pmix, ask);
        } else {
            ask->state = ASK_WANTED;
        }
    }
}

/* Everything that waits for this session fails. Lock held. */
static void session_fail(struct boot_pmix *pmix, int error)
{
    struct ask *ask, *next;

    if (!pmix->have_job)
        result_put(pmix, RESULT_READY, 0, error, NULL, 0);
    if (pmix->blob) {
        free(pmix->blob);
        pmix->blob = NULL;
        result_put(pmix, RESULT_COMMITTED, 0, error, NULL, 0);
    }
    HASH_ITER(hh, pmix->asks, ask, next)
    {
        if (ask->kept)
            give_kept(pmix, ask);
        if (!ask->reported)
            result_put(pmix, RESULT_BLOB, ask->rank, EHOSTUNREACH, NULL, 0);
        ask_free(pmix, ask);
    }
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
    error = up ? 0 : error_of(rc);
    /* Written by the first session only; the lock below orders it before any reader. */
    if (!error && !pmix->job.node)
        error = boot_pmix_job_read(pmix->self.nspace, &pmix->job, stopping, pmix);
    if (!error && !pmix->there &&
        !(pmix->there = calloc(pmix->job.nranks, sizeof(*pmix->there))))
        error = ENOMEM;

    pthread_mutex_lock(&pmix->lock);
    if (error) {
        session_fail(pmix, error);
    } else {
        if (!pmix->have_job) {
            pmix->have_job = true;
            result_put(pmix, RESULT_READY, 0, 0, NULL, 0);
        }
        session_serve(pmix);
        if (pmix->closed)
            await_answers(pmix);
    }
    up = up && !pmix->leave_up;
    pthread_mutex_unlock(&pmix->lock);

    start = util_clock_now();
    if (up) {
        rc = PMIx_Finalize(NULL, 0);
        log_debug("PMIx_Finalize: %s after %.1f ms", PMIx_Error_string(rc),
                  (double)(util_clock_now() - start) / 1e6);
    }
    down = !PMIx_Initialized();
    pthread_mutex_lock(&pmix->lock);
    tickets_drop(pmix, down);
    pmix->running = false;
    /* Asked while we were finalising: another session, in the table that is right by then.
     */
    if (!pmix->closed && (pmix->asks || pmix->blob) && session_start(pmix) != 0)
        session_fail(pmix, EAGAIN);
    pthread_cond_broadcast(&pmix->changed);
    unref_unlock(pmix);
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
        unref_unlock(pmix);
        errno = rc;
        return NULL;
    }
    pthread_mutex_unlock(&pmix->lock);
    return pmix;
}

void boot_pmix_destroy(struct boot_pmix *pmix, bool finalize)
{
    pthread_t thread;
    bool joinable, running;

    if (!pmix)
        return;
    pthread_mutex_lock(&pmix->lock);
    pmix->closed = true;
    pmix->leave_up = !finalize;
    pmix->destroy_bound = util_clock_now() + DESTROY_BOUND_NS;
    results_free(pmix);
    pthread_cond_broadcast(&pmix->changed);
    while (pmix->running && util_clock_now() < pmix->destroy_bound)
        wait_until(pmix, pmix->destroy_bound);
    running = pmix->running;
    joinable = pmix->joinable;
    thread = pmix->thread;
    pmix->joinable = false;
    unref_unlock(pmix);
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
    free(pmix->blob);
    pmix->blob = copied;
    pmix->blob_len = len;
    rc = session_start(pmix);
    if (rc != 0) {
        free(pmix->blob);
        pmix->blob = NULL;
    }
    pthread_mutex_unlock(&pmix->lock);
    errno = rc ? rc : errno;
    return rc ? -1 : 0;
}

int boot_pmix_get(struct boot_pmix *pmix, uint32_t rank, enum boot_pmix_wanted wanted)
{
    uint64_t now = util_clock_now();
    struct ask *ask;
    int rc;

    pthread_mutex_lock(&pmix->lock);
    HASH_FIND(hh, pmix->asks, &rank, sizeof(rank), ask);
    if (!ask) {
        if (!(ask = calloc(1, sizeof(*ask)))) {
            pthread_mutex_unlock(&pmix->lock);
            errno = ENOMEM;
            return -1;
        }
        ask->rank = rank;
        ask->when = now;
        ask->both = wanted == BOOT_PMIX_BOTH;
        ask->past_cache = wanted == BOOT_PMIX_NEWEST;
        ask->delay = RETRY_FIRST_NS;
        HASH_ADD(hh, pmix->asks, rank, sizeof(ask->rank), ask);
    }
    if (ask->state == ASK_WANTED || ask->reported) {
        /* new, or it was reported absent: count the time anew */
        ask->reported = false;
        ask->deadline = now + pmix->timeout_ns;
    }
    rc = session_start(pmix);
    if (rc != 0) {
        ask_free(pmix, ask);
    }
    pthread_mutex_unlock(&pmix->lock);
    errno = rc ? ENOMEM : errno;
    return rc ? -1 : 0;
}

void boot_pmix_there(struct boot_pmix *pmix, uint32_t rank, bool is_there)
{
    pthread_mutex_lock(&pmix->lock);
    if (pmix->have_job && rank < pmix->job.nranks)
        pmix->there[rank] = is_there;
    pthread_mutex_unlock(&pmix->lock);
}

void boot_pmix_release(struct boot_pmix *pmix)
{
    pthread_mutex_lock(&pmix->lock);
    pmix->released = true;
    pthread_cond_broadcast(&pmix->changed);
    pthread_mutex_unlock(&pmix->lock);
}
