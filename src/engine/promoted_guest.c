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
#include "engine/core/module.h"
#include "engine/core/storage.h"
#include "engine/core/aborted.h"
#include "engine/fetch/serve.h"
#include "engine/fetch/transfer.h"
#include "engine/module_table.h"
#include "engine/promoted/promoted.h"
#include "engine/promoted/promoted_connection.h"
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
#include "boot/member_claim.h"
#include "boot/fdtable.h"
#include "net/door.h"
#include "util/crash.h"
#include "util/log.h"

#define IO_THREADS 2

struct promoted_guest {
    struct member member;
    const struct sockaddr_un *claim;
    socklen_t claim_len;
    void (*table_ready)(void);
    struct promoted_connection *line;
    struct task *tasks;
    pthread_mutex_t lock;
    bool running, leave_wanted, leave_posted, image_ends; /* under `lock` */
    struct net_post leave_post;
    bool over;    /* loop only: the loop is stopped, nothing new is begun */
    bool aborted; /* aborted.c: nothing is freed */
    int rc;
};

/* A fetch for the member. */
struct task {
    struct task *prev, *next; /* utlist */
    struct promoted_guest *promoted;
    uint64_t id;
    struct transfer_wait wait;
};

struct promoted_guest *promoted_create(const struct member_params *params)
{
    struct promoted_guest *promoted = calloc(1, sizeof(*promoted));

    if (!promoted || modules_create(&promoted->member, engine_modules) < 0) {
        free(promoted);
        return NULL;
    }
    pthread_mutex_init(&promoted->lock, NULL);
    promoted->claim = params->claim;
    promoted->claim_len = params->claim_len;
    promoted->table_ready = params->table_ready;
    promoted->member.config = params->config;
    promoted->member.identity = params->identity;
    promoted->member.session = params->session;
    promoted->member.thread_enter = params->thread_enter;
    promoted->member.hands_over = true;
    promoted->member.claim_fd = -1;
    promoted->member.next_id = 1;
    promoted->member.state = MEMBER_JOINING;
    return promoted;
}

void promoted_destroy(struct promoted_guest *promoted)
{
    if (promoted->aborted) {
        aborted_keep(promoted);
        return;
    }
    pthread_mutex_destroy(&promoted->lock);
    explicit_bzero(&promoted->member.self, sizeof(promoted->member.self));
    modules_free(&promoted->member);
    free(promoted);
}

static void stop(struct promoted_guest *promoted)
{
    promoted->over = true;
    net_loop_stop(promoted->member.loop);
}

/* --- network --- */

static void worker_receive(void *arg, const struct net_msg *msg, void *payload, size_t len)
{
    struct member *member = &((struct promoted_guest *)arg)->member;

    DYAD_CRASH_POINT("promoted-received");
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
    struct promoted_guest *promoted = arg;
    net_worker_peer_down(promoted->member.worker, rank, EHOSTUNREACH);
}

static void worker_peer_down(void *arg, uint32_t rank, int error)
{
    struct promoted_guest *promoted = arg;

    (void)error;
    transfer_peer_down(&promoted->member, rank);
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

/* The member has sent our peer blob. */
static int join(struct promoted_guest *promoted, const struct net_msg *msg)
{
    struct member *member = &promoted->member;
    unsigned char blob[NET_PEER_BLOB_MAX];
    int n;

    if (member->worker || !msg->blob ||
        net_peer_decode(&member->self, msg->blob, msg->blob_len) < 0 ||
        !net_is_guest(member->self.rank)) {
        errno = EPROTO;
        return -1;
    }
    if (!member->config->port_guard)
        net_door_leave_open();
    net_worker_use_devices(member->config->net_devices, msg->flags & NET_PROMOTED_LOCAL);
    if (!(member->worker = net_worker_create(member->loop, &member->self, msg->nranks,
                                             &worker_ops, promoted)) ||
        (n = net_peer_encode(&member->self, 0, blob, sizeof(blob))) < 0)
        return -1;
    struct net_msg up = {
        .type = NET_MSG_PROMOTED_JOIN, .blob = blob, .blob_len = (size_t)n};
    if (promoted_connection_send(promoted->line, &up, -1) < 0)
        return -1;
    member->state = MEMBER_JOINED;
    return 0;
}

static void answer(struct promoted_guest *promoted, uint64_t id, int status, int fd)
{
    struct net_msg msg = {.type = NET_MSG_PROMOTED_FETCHED, .id = id, .status = status};

    if (promoted_connection_send(promoted->line, &msg, fd) < 0)
        stop(promoted); /* the member takes it up */
}

static void task_done(void *arg, int status)
{
    struct task *task = arg;
    struct promoted_guest *promoted = task->promoted;
    int fd = task->wait.fd;

    DL_DELETE(promoted->tasks, task);
    if (status == 0 && fd < 0) /* another task has got it */
        status = EBUSY;
    answer(promoted, task->id, status, fd);
    if (fd >= 0)
        close(fd);
    free(task);
}

static void fetch(struct promoted_guest *promoted, const struct net_msg *msg)
{
    struct member *member = &promoted->member;
    struct net_peer *owner = malloc(sizeof(*owner));
    struct task *task = calloc(1, sizeof(*task));

    if (!owner || !task || !member->worker ||
        net_peer_decode(owner, msg->blob, msg->blob_len) < 0 ||
        owner->rank != msg->entry.owner || net_worker_set_peer(member->worker, owner) < 0)
        goto error;
    task->promoted = promoted;
    task->id = msg->id;
    task->wait.fn = task_done;
    task->wait.arg = task;
    if (transfer_start(member, &msg->entry, &task->wait) < 0)
        goto error;
    DL_APPEND(promoted->tasks, task);
    goto done;
error:
    free(task);
    answer(promoted, msg->id, EHOSTUNREACH, -1);
done:
    if (owner)
        explicit_bzero(owner, sizeof(*owner));
    free(owner);
}

static void line_receive(void *arg, const struct net_msg *msg, int fd)
{
    struct promoted_guest *promoted = arg;

    if (fd >= 0)
        close(fd);
    if (promoted->over)
        return;
    if (msg->type == NET_MSG_PROMOTED_FETCH) {
        fetch(promoted, msg);
    } else if (msg->type != NET_MSG_PROMOTED_JOIN || join(promoted, msg) < 0) {
        log_warn("this process stays a guest of its member: it cannot be promoted: %m");
        promoted->rc = -1;
        stop(promoted);
    }
}

static void line_broken(void *arg)
{
    struct promoted_guest *promoted = arg;

    if (!promoted->member.worker) /* refused: there is no room, or the member leaves */
        promoted->rc = -1;
    stop(promoted);
}

static const struct promoted_connection_ops line_ops = {
    .receive = line_receive,
    .broken = line_broken,
};

/* --- running --- */

/* Ask the member, as any request begins; the connection then stays open. */
static int line_open(struct promoted_guest *promoted)
{
    struct net_msg ask = {.type = NET_MSG_PROMOTED_JOIN};
    unsigned char frame[256];
    uint32_t len;
    int fd = boot_member_claim_connect(promoted->claim, promoted->claim_len);
    int n = net_msg_encode(&ask, frame + 4, sizeof(frame) - 4);

    if (fd < 0)
        return -1;
    if (n < 0 || boot_member_claim_peer(fd) < 0) {
        close(fd);
        return -1;
    }
    len = htole32((uint32_t)n);
    memcpy(frame, &len, 4);
    if (send(fd, frame, 4 + (size_t)n, MSG_NOSIGNAL | MSG_DONTWAIT) != 4 + n) {
        close(fd);
        return -1;
    }
    promoted->line =
        promoted_connection_create(promoted->member.loop, fd, &line_ops, promoted);
    return promoted->line ? 0 : -1;
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
static void leave_post(struct promoted_guest *promoted)
{
    if (promoted->running && promoted->leave_wanted && !promoted->leave_posted) {
        promoted->leave_posted = true;
        net_loop_post(promoted->member.loop, &promoted->leave_post, leave_begin, promoted);
    }
}

void promoted_leave(struct promoted_guest *promoted, bool image_ends)
{
    pthread_mutex_lock(&promoted->lock);
    promoted->leave_wanted = true;
    promoted->image_ends = image_ends;
    leave_post(promoted);
    pthread_mutex_unlock(&promoted->lock);
}

void promoted_nudge(struct promoted_guest *promoted)
{
    pthread_mutex_lock(&promoted->lock);
    if (promoted->running && promoted->leave_posted)
        net_loop_ring(promoted->member.loop);
    pthread_mutex_unlock(&promoted->lock);
}

static int start(struct promoted_guest *promoted)
{
    struct member *member = &promoted->member;

    if (!(member->loop = net_loop_create()))
        return -1;
    net_loop_set_polling(member->loop, (uint64_t)member->config->poll_us * 1000);
    return (member->io =
                engine_iopool_create(member->loop, IO_THREADS, member->thread_enter)) &&
                   guest_dirs_open(member) == 0 && line_open(promoted) == 0
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
    struct promoted_guest *promoted = arg;
    net_worker_destroy(promoted->member.worker, false);
}

/* Release what this guest holds for others: the locks of its fetches first, then the
 * line, at whose end the member begins them anew. If the image ends, no time is spent on
 * UCX: readers that are being served turn to the member. Buffers that UCX may still read
 * stay. */
static void teardown(struct promoted_guest *promoted)
{
    struct member *member = &promoted->member;
    struct task *task, *tmp;

    member->state = MEMBER_LEAVING;
    engine_iopool_destroy(member->io);
    transfer_stop(member);
    DL_FOREACH_SAFE(promoted->tasks, task, tmp)
    {
        free(task);
    }
    promoted->tasks = NULL;
    promoted_connection_destroy(promoted->line);
    if (member->worker && promoted->image_ends) {
        net_worker_abandon(member->worker);
        return;
    }
    if (boot_abort_catch(worker_end, promoted) < 0) {
        promoted->aborted = true;
        promoted->rc = -1; /* not once more with this copy of the libraries */
        boot_fdtable_close_all();
        return;
    }
    serve_stop(member);
    guest_dirs_close(member);
    net_loop_destroy(member->loop);
}

static void live(void *arg)
{
    struct promoted_guest *promoted = arg;
    struct member *member = &promoted->member;

    if (start(promoted) < 0) {
        log_info("this process stays a guest of its member: %m");
        promoted->rc = -1;
        return;
    }
    pthread_mutex_lock(&promoted->lock);
    promoted->running = true;
    leave_post(promoted);
    pthread_mutex_unlock(&promoted->lock);
    if (net_loop_run(member->loop) < 0)
        promoted->rc = -1;
}

static void not_running(struct promoted_guest *promoted)
{
    pthread_mutex_lock(&promoted->lock);
    promoted->running = false;
    pthread_mutex_unlock(&promoted->lock);
}

static void *run_main(void *arg)
{
    struct promoted_guest *promoted = arg;
    struct member *member = &promoted->member;
    char tag[48];

    if (member->thread_enter)
        member->thread_enter();
    snprintf(tag, sizeof(tag), "rank %u, process %d", member->identity->rank,
             (int)getpid());
    util_log_setup((enum util_log_level)member->config->log_level, member->config->log_file,
                   tag);
    prctl(PR_SET_NAME, "dyad-promoted");
    if (boot_fdtable_unshare(NULL, 0) < 0) {
        promoted->table_ready();
        promoted->rc = -1;
        return NULL;
    }
    storage_drop_stdio(member);
    promoted->table_ready();
    if (boot_abort_catch(live, promoted) < 0) { /* the broken line tells the member */
        not_running(promoted);
        log_warn(
            "UCX has found a fault in itself: this process is a guest of its member again");
        promoted->aborted = true;
        promoted->rc = -1;
        aborted_leave(member, false);
        return NULL;
    }
    not_running(promoted);
    if (member->worker)
        say_statistics(member);
    teardown(promoted);
    return NULL;
}

/* On a thread that this library's own libc made: it may be another one than the caller's,
 * and has prepared only its own threads. */
int promoted_run(struct promoted_guest *promoted)
{
    pthread_t thread;
    int rc = pthread_create(&thread, NULL, run_main, promoted);

    if (rc) {
        errno = rc;
        promoted->table_ready();
        return -1;
    }
    pthread_join(thread, NULL);
    return promoted->rc;
}
