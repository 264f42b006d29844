/*
 * promoted_guest.c - a promoted guest: a loop, a UCX worker, a line to its member
 *
 * It is built of the member's own parts: a struct member without table, launcher, journal
 * and barrier, on which transfer.c and serve.c work as they do in a member. Its transfers
 * end in a complete temporary file (`hands_over`), which goes to the member over the line.
 * Where its member does not know better than to refuse, or is gone, it ends, and the
 * process is a plain guest again.
 *
 * `lock` guards what leave() reads and writes from a program's thread.
 */
#include "engine/core/member_impl.h"
#include "engine/core/storage.h"
#include "engine/core/wreck.h"
#include "engine/fetch/serve.h"
#include "engine/fetch/transfer.h"
#include "engine/promoted/promoted.h"
#include "engine/promoted/promoted_line.h"
#include "engine/publish/shared_storage.h"

#include <endian.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <utlist.h>

#include "boot/abort.h"
#include "boot/claim.h"
#include "boot/fdtable.h"
#include "util/crash.h"
#include "util/log.h"

#define IO_THREADS 2

struct peer {
    struct member member;
    const struct sockaddr_un *claim;
    socklen_t claim_len;
    void (*table_ready)(void);
    struct peer_line *line;
    struct task *tasks;
    pthread_mutex_t lock;
    bool running, leave_wanted, leave_posted, image_ends; /* under `lock` */
    struct net_post leave_post;
    bool over;    /* loop only: the loop is stopped, nothing new is begun */
    bool wrecked; /* wreck.c: nothing is freed */
    int rc;
};

/* A fetch for the member. */
struct task {
    struct task *prev, *next; /* utlist */
    struct peer *peer;
    uint64_t id;
    struct transfer_wait wait;
};

struct peer *peer_create(const struct member_params *params)
{
    struct peer *peer = calloc(1, sizeof(*peer));

    if (!peer)
        return NULL;
    pthread_mutex_init(&peer->lock, NULL);
    peer->claim = params->claim;
    peer->claim_len = params->claim_len;
    peer->table_ready = params->table_ready;
    peer->member.config = params->config;
    peer->member.identity = params->identity;
    peer->member.session = params->session;
    peer->member.thread_enter = params->thread_enter;
    peer->member.hands_over = true;
    peer->member.claim_fd = -1;
    peer->member.next_id = 1;
    peer->member.state = MEMBER_JOINING;
    return peer;
}

void peer_destroy(struct peer *peer)
{
    if (peer->wrecked) {
        aborted_keep(peer);
        return;
    }
    pthread_mutex_destroy(&peer->lock);
    explicit_bzero(&peer->member.self, sizeof(peer->member.self));
    free(peer);
}

static void stop(struct peer *peer)
{
    peer->over = true;
    net_loop_stop(peer->member.loop);
}

/* --- network --- */

static void worker_receive(void *arg, const struct net_msg *msg, void *payload, size_t len)
{
    struct member *member = &((struct peer *)arg)->member;

    DYAD_CRASH_POINT("peer-received");
    switch (msg->type) {
    case NET_MSG_GET_DIRECT:
        serve_get_direct(member, msg);
        break;
    case NET_MSG_DATA:
    case NET_MSG_ERROR:
    case NET_MSG_REDIRECT:
        if (transfer_receive(member, msg, payload, len))
            return; /* the payload is its own now */
        break;
    default:
        break;
    }
    free(payload);
}

/* Addresses come from the member. */
static void worker_need_peer(void *arg, uint32_t rank)
{
    struct peer *peer = arg;
    net_worker_peer_down(peer->member.worker, rank, EHOSTUNREACH);
}

static void worker_peer_down(void *arg, uint32_t rank, int error)
{
    struct peer *peer = arg;

    (void)error;
    transfer_peer_down(&peer->member, rank);
}

static void worker_peer_up(void *arg, const struct net_peer *info)
{
    (void)arg;
    (void)info;
}

static const struct net_worker_ops worker_ops = {
    .receive = worker_receive,
    .need_peer = worker_need_peer,
    .peer_down = worker_peer_down,
    .peer_up = worker_peer_up,
};

/* --- the line --- */

/* The member has said who we are. */
static int join(struct peer *peer, const struct net_msg *msg)
{
    struct member *member = &peer->member;
    unsigned char blob[NET_PEER_BLOB_MAX];
    int n;

    if (member->worker || !msg->blob || msg->length > UINT32_MAX ||
        net_peer_decode(&member->self, msg->blob, msg->blob_len) < 0 ||
        !net_is_guest(member->self.rank)) {
        errno = EPROTO;
        return -1;
    }
    if (!(member->worker = net_worker_create(member->loop, &member->self,
                                             (uint32_t)msg->length, &worker_ops, peer)) ||
        (n = net_peer_encode(&member->self, 0, blob, sizeof(blob))) < 0)
        return -1;
    struct net_msg up = {.type = NET_MSG_PEER_JOIN, .blob = blob, .blob_len = (size_t)n};
    if (peer_line_send(peer->line, &up, -1) < 0)
        return -1;
    member->state = MEMBER_JOINED;
    return 0;
}

static void answer(struct peer *peer, uint64_t id, int status, int fd)
{
    struct net_msg msg = {.type = NET_MSG_PEER_FETCHED, .id = id, .status = status};

    if (peer_line_send(peer->line, &msg, fd) < 0)
        stop(peer); /* the member takes it up */
}

static void task_done(void *arg, int status)
{
    struct task *task = arg;
    struct peer *peer = task->peer;
    int fd = task->wait.fd;

    DL_DELETE(peer->tasks, task);
    if (status == 0 && fd < 0) /* another task has got it */
        status = EBUSY;
    answer(peer, task->id, status, fd);
    if (fd >= 0)
        close(fd);
    free(task);
}

static void fetch(struct peer *peer, const struct net_msg *msg)
{
    struct member *member = &peer->member;
    struct net_peer *owner = malloc(sizeof(*owner));
    struct task *task = calloc(1, sizeof(*task));

    if (!owner || !task || !member->worker ||
        net_peer_decode(owner, msg->blob, msg->blob_len) < 0 ||
        owner->rank != msg->entry.owner || net_worker_set_peer(member->worker, owner) < 0)
        goto error;
    task->peer = peer;
    task->id = msg->id;
    task->wait.fn = task_done;
    task->wait.arg = task;
    if (transfer_start(member, &msg->entry, &task->wait) < 0)
        goto error;
    DL_APPEND(peer->tasks, task);
    goto done;
error:
    free(task);
    answer(peer, msg->id, EHOSTUNREACH, -1);
done:
    if (owner)
        explicit_bzero(owner, sizeof(*owner));
    free(owner);
}

static void line_receive(void *arg, const struct net_msg *msg, int fd)
{
    struct peer *peer = arg;

    if (fd >= 0)
        close(fd);
    if (peer->over)
        return;
    if (msg->type == NET_MSG_PEER_FETCH) {
        fetch(peer, msg);
    } else if (msg->type != NET_MSG_PEER_JOIN || join(peer, msg) < 0) {
        log_warn("this process stays a guest of its member: it cannot be a full peer: %m");
        peer->rc = -1;
        stop(peer);
    }
}

static void line_broken(void *arg)
{
    struct peer *peer = arg;

    if (!peer->member.worker) /* refused: there is no room, or the member leaves */
        peer->rc = -1;
    stop(peer);
}

static const struct peer_line_ops line_ops = {
    .receive = line_receive,
    .broken = line_broken,
};

/* --- running --- */

/* Ask the member, as any request begins; the connection then stays open. */
static int line_open(struct peer *peer)
{
    struct net_msg ask = {.type = NET_MSG_PEER_JOIN};
    unsigned char frame[256];
    uint32_t len;
    int fd = boot_claim_connect(peer->claim, peer->claim_len);
    int n = net_msg_encode(&ask, frame + 4, sizeof(frame) - 4);

    if (fd < 0)
        return -1;
    if (n < 0 || !boot_claim_peer_ok(fd)) {
        close(fd);
        return -1;
    }
    len = htole32((uint32_t)n);
    memcpy(frame, &len, 4);
    if (send(fd, frame, 4 + (size_t)n, MSG_NOSIGNAL | MSG_DONTWAIT) != 4 + n) {
        close(fd);
        return -1;
    }
    peer->line = peer_line_create(peer->member.loop, fd, &line_ops, peer);
    return peer->line ? 0 : -1;
}

static int dmd_open(const struct member *member, struct member_dmd *dmd, const char *path)
{
    if (!path)
        return 0;
    if (!(dmd->dir = store_dir_create(path)))
        return -1;
    if (member->config->shared_storage >= 0)
        store_dir_set_shared(dmd->dir, member->config->shared_storage != 0);
    return (dmd->marks = store_marks_create(dmd->dir)) ? 0 : -1;
}

static int guest_dirs_open(struct member *member)
{
    const struct engine_config *config = member->config;
    struct member_dmd *consumer = &member->dmd[ENGINE_CONSUMER];
    struct member_dmd *producer = &member->dmd[ENGINE_PRODUCER];

    if (dmd_open(member, consumer, config->path_consumer) < 0)
        return -1;
    if (config->path_consumer && config->path_producer &&
        strcmp(config->path_consumer, config->path_producer) == 0) {
        *producer = *consumer;
        return 0;
    }
    return dmd_open(member, producer, config->path_producer);
}

static void guest_dirs_close(struct member *member)
{
    if (member->dmd[0].dir == member->dmd[1].dir)
        member->dmd[1] = (struct member_dmd){0};
    for (int s = 0; s < 2; s++) {
        store_marks_destroy(member->dmd[s].marks);
        store_dir_destroy(member->dmd[s].dir);
    }
}

static void leave_begin(void *arg)
{
    stop(arg);
}

/* With the lock. */
static void leave_post(struct peer *peer)
{
    if (peer->running && peer->leave_wanted && !peer->leave_posted) {
        peer->leave_posted = true;
        net_loop_post(peer->member.loop, &peer->leave_post, leave_begin, peer);
    }
}

void peer_leave(struct peer *peer, bool image_ends)
{
    pthread_mutex_lock(&peer->lock);
    peer->leave_wanted = true;
    peer->image_ends = image_ends;
    leave_post(peer);
    pthread_mutex_unlock(&peer->lock);
}

void peer_nudge(struct peer *peer)
{
    pthread_mutex_lock(&peer->lock);
    if (peer->running && peer->leave_posted)
        net_loop_ring(peer->member.loop);
    pthread_mutex_unlock(&peer->lock);
}

static int start(struct peer *peer)
{
    struct member *member = &peer->member;

    return (member->loop = net_loop_create()) &&
                   (member->io = engine_iopool_create(member->loop, IO_THREADS,
                                                      member->thread_enter)) &&
                   guest_dirs_open(member) == 0 && line_open(peer) == 0
               ? 0
               : -1;
}

static void say_statistics(const struct member *member)
{
    const struct member_stats *s = &member->stats;

    util_log(member->config->stats ? UTIL_LOG_ALWAYS : UTIL_LOG_INFO,
             "statistics of promoted process %d: fetched %llu files (%llu bytes), served "
             "%llu bytes",
             (int)getpid(), (unsigned long long)s->fetches,
             (unsigned long long)s->bytes_fetched, (unsigned long long)s->bytes_served);
}

static void worker_end(void *arg)
{
    struct peer *peer = arg;
    net_worker_destroy(peer->member.worker, false);
}

/* What this guest holds for others goes back: the locks of its fetches first, then the
 * line, at whose end the member begins them anew. If the image ends, no time is spent on
 * UCX: whoever is being served turns to the member. Buffers that UCX may still read stay.
 */
static void teardown(struct peer *peer)
{
    struct member *member = &peer->member;
    struct task *task, *tmp;

    member->state = MEMBER_LEAVING;
    engine_iopool_destroy(member->io);
    transfer_stop(member);
    DL_FOREACH_SAFE(peer->tasks, task, tmp)
    {
        free(task);
    }
    peer->tasks = NULL;
    peer_line_destroy(peer->line);
    if (member->worker && peer->image_ends) {
        net_worker_abandon(member->worker);
        return;
    }
    if (boot_abort_catch(worker_end, peer) < 0) {
        peer->wrecked = true;
        boot_fdtable_close_all();
        return;
    }
    serve_stop(member);
    guest_dirs_close(member);
    net_loop_destroy(member->loop);
}

static void live(void *arg)
{
    struct peer *peer = arg;
    struct member *member = &peer->member;

    if (start(peer) < 0) {
        log_info("this process stays a guest of its member: %m");
        peer->rc = -1;
        return;
    }
    pthread_mutex_lock(&peer->lock);
    peer->running = true;
    leave_post(peer);
    pthread_mutex_unlock(&peer->lock);
    if (net_loop_run(member->loop) < 0)
        peer->rc = -1;
}

static void not_running(struct peer *peer)
{
    pthread_mutex_lock(&peer->lock);
    peer->running = false;
    pthread_mutex_unlock(&peer->lock);
}

static void *run_main(void *arg)
{
    struct peer *peer = arg;
    struct member *member = &peer->member;
    char tag[48];

    if (member->thread_enter)
        member->thread_enter();
    snprintf(tag, sizeof(tag), "rank %u, process %d", member->identity->rank,
             (int)getpid());
    util_log_setup((enum util_log_level)member->config->log_level, member->config->log_file,
                   tag);
    prctl(PR_SET_NAME, "dyad-peer");
    if (boot_fdtable_unshare(NULL, 0) < 0) {
        peer->table_ready();
        peer->rc = -1;
        return NULL;
    }
    storage_drop_stdio(member);
    peer->table_ready();
    if (boot_abort_catch(live, peer) < 0) { /* the broken line tells the member */
        not_running(peer);
        log_warn(
            "UCX has found a fault in itself: this process is a guest of its member again");
        peer->wrecked = true;
        peer->rc = -1;
        aborted_leave(member, false);
        return NULL;
    }
    not_running(peer);
    if (member->worker)
        say_statistics(member);
    teardown(peer);
    return NULL;
}

/* On a thread that this library's own libc made: it may be another one than the caller's,
 * and has prepared only its own threads. */
int peer_run(struct peer *peer)
{
    pthread_t thread;
    int rc = pthread_create(&thread, NULL, run_main, peer);

    if (rc) {
        errno = rc;
        peer->table_ready();
        return -1;
    }
    pthread_join(thread, NULL);
    return peer->rc;
}
