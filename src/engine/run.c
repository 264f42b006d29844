/*
 * run.c - a member's life: join, serve, leave
 *
 * member_run() is the loop's thread. The order of joining: a private descriptor table, the
 * DMD and its journals, PMIx (on its own thread), then, when the size of the job is known,
 * UCX, the table and our blob; with DYAD_SESSION_DIR the directory comes before the DMD
 * (session_member.c). Requests of the rank's processes are queued meanwhile.
 * `lock` guards only what leave() writes from a program's thread: `leave_wanted`,
 * `leave_how`, and whether the loop is there to be told.
 */
#include "engine/core/member_impl.h"
#include "engine/core/module.h"
#include "engine/core/storage.h"
#include "engine/core/aborted.h"
#include "engine/fetch/prefetch.h"
#include "engine/membership/partition.h"
#include "engine/membership/session_member.h"
#include "engine/membership/unjoined.h"
#include "engine/membership/unreachable.h"
#include "engine/module_table.h"
#include "engine/promoted/promoted.h"
#include "engine/publish/journal_retry.h"
#include "engine/requests/requests.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "boot/abort.h"
#include "boot/member_claim.h"
#include "boot/fdtable.h"
#include "boot/modules.h"
#include "net/auth.h"
#include "util/crash.h"
#include "util/log.h"
#include "util/wipe.h"

#define IO_THREADS 4

static struct member *member_create(const struct member_params *params)
{
    struct member_run *run = calloc(1, sizeof(*run));
    struct member *member;

    if (!run || modules_create(&run->member, engine_modules) < 0) {
        free(run);
        return NULL;
    }
    pthread_mutex_init(&run->lock, NULL);
    member = &run->member;
    member->config = params->config;
    member->identity = params->identity;
    member->session = params->session;
    member->launch = params->launch;
    member->thread_enter = params->thread_enter;
    run->table_ready = params->table_ready;
    run->tell_lost = params->lost;
    run->apart = params->apart;
    run->table_own = params->table_own;
    run->may_rejoin = params->may_rejoin;
    member->claim_fd = params->claim_fd;
    member->joined_tail = &member->joined;
    member->next_id = 1;
    member->state = MEMBER_JOINING;
    member->line = -1;
    member->modules = engine_modules;
    return member;
}

static void member_destroy(struct member *member)
{
    struct member_run *run = run_of(member);

    if (run->aborted) {
        aborted_keep(run);
        return;
    }
    pthread_mutex_destroy(&run->lock);
    modules_free(member);
    explicit_bzero(&member->self, sizeof(member->self)); /* our key */
    free(run);
}

/* --- joining --- */

static void pmix_ready(void *arg, const struct boot_pmix_job *job, int error)
{
    struct member *member = arg;
    unsigned char blob[NET_PEER_BLOB_MAX];
    int n;

    if (error) {
        log_error("the launcher's PMIx server cannot be reached: %s", strerror(error));
        member_join_failed(member);
        return;
    }
    member->job = job;
    if (modules_sized(member) < 0) {
        member_join_failed(member);
        return;
    }
    n = net_peer_encode(&member->self, 1, blob, sizeof(blob));
    if (n < 0 || boot_pmix_commit(member->pmix, blob, (size_t)n) < 0) {
        log_error("cannot give this rank's address to the launcher: %m");
        member_join_failed(member);
    }
    explicit_bzero(blob, sizeof(blob)); /* our key */
}

static void pmix_committed(void *arg, int status)
{
    struct member *member = arg;

    if (member->state != MEMBER_JOINING)
        return;
    if (status) {
        log_error("the launcher does not take this rank's address: %s", strerror(status));
        member_join_failed(member);
        return;
    }
    if (member->job->nranks <= PREFETCH_RANKS) {
        for (uint32_t r = 0; r < member->job->nranks; r++) {
            if (r != member->self.rank)
                unjoined_ask(member, r);
        }
        boot_pmix_release(member->pmix);
    }
    member_has_joined(member);
}

/* We follow another member of this rank: ranks that knew that one learn of us by our
 * first message. If the link is cut, or the address is out of date, the message is not
 * answered; then that rank is lost, and asked like other lost ranks (unreachable.c). */
static void introduce(struct member *member, uint32_t rank)
{
    if (member->self.incarnation > 0 && member->job->nranks <= PREFETCH_RANKS)
        unreachable_prove(member, rank);
}

static void pmix_blob(void *arg, uint32_t rank, const void *blob, size_t len, bool kept,
                      int error)
{
    struct member *member = arg;
    struct net_peer *peer;

    if (!member->worker)
        return;
    if (error) {
        unjoined_unanswered(member, rank, error);
        return;
    }
    if (!(peer = malloc(sizeof(*peer))))
        return;
    if (net_peer_decode(peer, blob, len) < 0 || peer->rank != rank) {
        log_error(
            "rank %u gave an address that cannot be read: %m; do all ranks run one version "
            "of "
            "dyad?",
            rank);
        member_set_live(member, rank, false);
        net_worker_peer_down(member->worker, rank, EPROTO);
    } else if (net_worker_set_peer(member->worker, peer) < 0) {
        if (errno != EHOSTUNREACH) /* else it is lost, and asked (unreachable.c) */
            member_set_live(member, rank, false);
    } else { /* worker_peer_up() has come, unless it is one that we know to be dead */
        introduce(member, rank);
        if (kept && !net_worker_heard_at(member->worker, rank)) {
            unreachable_kept(member, rank, true);
            partition_joined_anew(member);
        }
    }
    if (!kept) /* the newest, though it may be lost already */
        unreachable_kept(member, rank, false);
    util_wipe_free(peer, sizeof(*peer));
}

static const struct boot_pmix_ops pmix_ops = {
    .ready = pmix_ready,
    .committed = pmix_committed,
    .blob = pmix_blob,
};

/* --- running --- */

/* On the loop, because a program's thread wants us gone. */
static void leave_begin(void *arg)
{
    struct member_run *run = arg;

    pthread_mutex_lock(&run->lock);
    run->leave_posted = false;
    pthread_mutex_unlock(&run->lock);
    member_leave_as_wanted(&run->member);
}

static void member_leave(struct member *member, enum member_leave how, bool image_ends)
{
    struct member_run *run = run_of(member);

    pthread_mutex_lock(&run->lock);
    run->leave_wanted = true;
    run->leave_how = how;
    run->image_ends = image_ends;
    if (run->running && !run->leave_posted) {
        run->leave_posted = true;
        net_loop_post(member->loop, &run->leave_post, leave_begin, run);
    }
    pthread_mutex_unlock(&run->lock);
}

static void member_nudge(struct member *member)
{
    struct member_run *run = run_of(member);

    pthread_mutex_lock(&run->lock);
    if (run->running && run->leave_posted)
        net_loop_ring(member->loop);
    pthread_mutex_unlock(&run->lock);
}

static void stats_log(struct member *member)
{
    struct prefetch_info ahead;
    const struct member_stats *s = &member->stats;
    static const struct dht_node_stats none;
    const struct dht_node_stats *table =
        member->dht ? dht_node_get_stats(member->dht) : &none;

    prefetch_get_info(member, &ahead);
    util_log(
        member->config->stats ? UTIL_LOG_ALWAYS : UTIL_LOG_INFO,
        "statistics: published %llu, withdrawn %llu, fetched %llu files (%llu bytes), "
        "copied "
        "on the node %llu, served %llu bytes, look-ups: sent %llu, answered %llu, kept "
        "%llu, node %llu; %llu promoted guests, which fetched %llu files (%llu bytes); "
        "%llu requests "
        "sent on to them; prefetched %llu files, %llu of them were opened, %llu bytes were "
        "not; %llu of the fetched files had come with the look-up",
        (unsigned long long)s->published, (unsigned long long)s->withdrawn,
        (unsigned long long)s->fetches, (unsigned long long)s->bytes_fetched,
        (unsigned long long)s->local_copies, (unsigned long long)s->bytes_served,
        (unsigned long long)table->asked, (unsigned long long)table->answered,
        (unsigned long long)table->kept, (unsigned long long)table->node,
        (unsigned long long)s->promoted, (unsigned long long)s->promoted_fetches,
        (unsigned long long)s->promoted_bytes, (unsigned long long)s->redirected,
        (unsigned long long)ahead.files, (unsigned long long)ahead.hits,
        (unsigned long long)ahead.unused, (unsigned long long)s->inlined);
}

static int member_start(struct member *member)
{
    static const char prefix[] = "dyad";

    if (!(member->loop = net_loop_create())) {
        log_error("cannot make an event loop: %m");
        return -1;
    }
    net_loop_set_polling(member->loop, (uint64_t)member->config->poll_us * 1000);
    if (!(member->io =
              engine_iopool_create(member->loop, IO_THREADS, member->thread_enter)))
        return -1;
    if (member->config->session_dir)
        return request_start(member) < 0 ? -1 : member_session_start(member);
    if (storage_open(member) < 0)
        return -1;
    storage_describe(member);
    if (request_start(member) < 0)
        return -1;
    /* It is because the program may use PMIx, too, in a copy that ours does not see: a
     * PMIx_Finalize of ours would make the server remove what MPI has below /dev/shm. */
    if (run_of(member)->apart)
        boot_pmix_hold_ns = UINT64_MAX / 2;
    member->pmix = boot_pmix_create(
        member->loop, member->identity,
        member->config->kvs_namespace ? member->config->kvs_namespace : prefix,
        seconds_ns(member->config->join_timeout), unjoined_patience(member), &pmix_ops,
        member);
    return member->pmix ? 0 : -1;
}

static void worker_end(void *arg)
{
    struct member *member = arg;

    DYAD_CRASH_POINT("worker-end");
    net_worker_destroy(member->worker, run_of(member)->image_ends);
}

static enum boot_pmix_end pmix_end(struct member *member)
{
    struct member_run *run = run_of(member);
    enum boot_pmix_end how = BOOT_PMIX_END;

    pthread_mutex_lock(&run->lock);
    if (run->leave_wanted && run->leave_how == MEMBER_LEAVE_IN_MPI)
        how = BOOT_PMIX_END_UP;
    else if (run->leave_wanted && run->leave_how == MEMBER_LEAVE_EXEC)
        how = BOOT_PMIX_END_SOON;
    pthread_mutex_unlock(&run->lock);
    return how;
}

static void member_teardown(struct member *member)
{
    struct member_run *run = run_of(member);

    member->state = MEMBER_LEAVING;
    member_joined_waits_end(member);
    modules_void_promises(member);
    modules_shut(member);
    request_stop(member); /* cancels what the guests asked */
    modules_stop(member);
    engine_iopool_destroy(member->io); /* nothing is in another thread's hands any more */
    if (boot_abort_catch(worker_end, member) < 0) { /* as if the image ended: it stays */
        log_info("UCX has found a fault in itself while this rank left");
        run->aborted = true;
    }
    if (member->pmix)
        boot_pmix_destroy(member->pmix, pmix_end(member));
    member_session_destroy(member, member_leaves_for_good(member));
    modules_destroy(member);
    dht_node_destroy(member->dht);
    boot_wave_destroy(member->wave);
    if (member->dht_timer)
        net_timer_destroy(member->dht_timer);
    journal_retry_stop(member);
    storage_close(member);
    net_loop_destroy(member->loop);
    if (member->claim_fd >= 0)
        close(member->claim_fd);
    if (run->aborted) /* its connections */
        boot_fdtable_close_all();
}

/* This library has its own copy of util/log.c. */
static void log_setup(const struct member *member)
{
    char tag[64];

    if (member->identity->solo)
        snprintf(tag, sizeof(tag), "%.60s", member->identity->nspace);
    else if (member->config->session_dir) /* ranks of several launches in one log file */
        snprintf(tag, sizeof(tag), "rank %u of %.40s", member->identity->rank,
                 member->identity->nspace);
    else
        snprintf(tag, sizeof(tag), "rank %u", member->identity->rank);
    util_log_setup((enum util_log_level)member->config->log_level, member->config->log_file,
                   tag);
}

static void live(void *arg)
{
    struct member *member = arg;
    struct member_run *run = run_of(member);

    if (member_start(member) < 0) {
        log_error(
            "rank %u could not join: files below its managed directory are not shared",
            member->identity->rank);
        run->rc = -1;
        return;
    }
    pthread_mutex_lock(&run->lock);
    run->running = true;
    if (run->leave_wanted && !run->leave_posted) {
        run->leave_posted = true;
        net_loop_post(member->loop, &run->leave_post, leave_begin, run);
    }
    pthread_mutex_unlock(&run->lock);
    if (net_loop_run(member->loop) < 0) {
        log_error("the event loop of rank %u failed: %m", member->identity->rank);
        run->rc = -1;
    }
}

static void not_running(struct member_run *run)
{
    pthread_mutex_lock(&run->lock);
    run->running = false;
    pthread_mutex_unlock(&run->lock);
}

/* For the calling thread, and those that come of it. */
static int table_get(struct member *member)
{
    struct member_run *run = run_of(member);
    int rc = run->table_own ? boot_fdtable_take(&member->claim_fd)
                            : boot_fdtable_unshare(&member->claim_fd, 1);

    if (rc < 0) {
        log_error("cannot have a descriptor table of our own: %m");
        /* Whichever table this thread has by now, the number is the claim's or nobody's. */
        boot_member_claim_shut(member->claim_fd);
        member->claim_fd = -1;
    } else {
        storage_drop_stdio(member);
    }
    run->table_ready();
    return rc;
}

/* The loop's thread, after boot_abort_catch() was left by an abort(). */
static void aborted(struct member *member)
{
    struct member_run *run = run_of(member);
    bool execs;

    pthread_mutex_lock(&run->lock);
    run->running = false;
    execs = run->leave_wanted && run->leave_how == MEMBER_LEAVE_EXEC;
    pthread_mutex_unlock(&run->lock);
    run->aborted = true;
    run->followed = run->may_rejoin() || execs;
    if (run->followed)
        log_warn(
            "UCX has found a fault in itself: rank %u leaves, and joins anew with another "
            "copy of it",
            member->identity->rank);
    else
        log_error(
            "UCX has found a fault in itself: files below the managed directory of rank %u "
            "are no longer shared by its processes, and what they ask for fails; the "
            "program goes on. What it has published is served by another rank of its "
            "node, if there is one. To share again it must be started anew",
            member->identity->rank);
    stats_log(member);
    if (!run->followed)
        run->tell_lost();          /* before anybody is refused */
    modules_void_promises(member); /* before the directory, which may be slow */
    member_session_aborted(member);
    aborted_leave(member, run->followed);
}

static void run_here(struct member *member)
{
    struct member_run *run = run_of(member);

    if (member->thread_enter)
        member->thread_enter();
    prctl(PR_SET_NAME, "dyad-loop");
    member->started = util_clock_now();
    net_auth_prepare(); /* before the program, which may use libcrypto, can end */
    if (boot_abort_catch(live, member) < 0) {
        aborted(member);
        run->rc = run->followed ? MEMBER_ABORTED : -1;
        return;
    }
    not_running(run);
    if (run->rc == 0)
        stats_log(member);
    if (run->rc < 0 && member->claim_fd >= 0)
        boot_member_claim_shut(
            member->claim_fd); /* who queues there must not wait for nobody */
    member_teardown(member);
}

static void *run_main(void *member)
{
    run_here(member);
    return NULL;
}

/* A libc has prepared only the threads that it made itself for its use. */
static int run_apart(struct member *member)
{
    pthread_t thread;
    int error;

    if ((error = pthread_create(&thread, NULL, run_main, member)) != 0) {
        log_error("no thread for the member of rank %u: %s", member->identity->rank,
                  strerror(error));
        boot_member_claim_shut(member->claim_fd);
        return -1;
    }
    pthread_join(thread, NULL);
    return 0;
}

static int member_run(struct member *member, int *claim_fd)
{
    struct member_run *run = run_of(member);

    log_setup(member);
    if (table_get(member) < 0)
        return -1;
    if (!run->apart)
        run_here(member);
    else if (run_apart(member) < 0)
        return -1;
    if (run->rc == MEMBER_ABORTED) {
        *claim_fd = boot_fdtable_move(member->claim_fd);
        if (*claim_fd < 0) { /* as if nobody followed */
            run->tell_lost();
            log_error("rank %u cannot join anew: %m", member->identity->rank);
            boot_member_claim_shut(member->claim_fd);
            boot_fdtable_close_all();
            run->rc = -1;
        }
    }
    return run->rc;
}

static const struct member_ops member_table = {
    .abi = MEMBER_ABI,
    .create = member_create,
    .run = member_run,
    .leave = member_leave,
    .nudge = member_nudge,
    .destroy = member_destroy,
    .promoted_create = promoted_create,
    .promoted_run = promoted_run,
    .promoted_leave = promoted_leave,
    .promoted_nudge = promoted_nudge,
    .promoted_destroy = promoted_destroy,
};

__attribute__((visibility("default"))) const struct member_ops *dyad_member_ops(
    unsigned abi, const struct boot_loading *loading);

const struct member_ops *dyad_member_ops(unsigned abi, const struct boot_loading *loading)
{
    if (abi == MEMBER_ABI)
        boot_modules_visit(loading);
    return abi == MEMBER_ABI ? &member_table : NULL;
}
