/*
 * member.c - a member's life: join, serve, leave
 *
 * member_run() is the loop's thread. The order of joining: a private descriptor table, the
 * DMD and its journals, PMIx (on its own thread), then, when the size of the job is known,
 * UCX, the table and our blob. Requests of the rank's processes are queued meanwhile.
 * `lock` guards only what leave() writes from a program's thread: `leave_wanted`,
 * `leave_linger`, and whether the loop is there to be told.
 */
#include "engine/member.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "boot/fdtable.h"
#include "store/fetch.h"
#include "util/clock.h"
#include "util/log.h"

/* Blobs of so many ranks are read at join; those of larger jobs when they are needed. */
#define PREFETCH_RANKS 512
#define IO_THREADS     4
/* Seconds that pass at most between a program's stat of a file and its open, as far as
 * inode numbers go. */
#define RESERVED_FOR 60

struct member_run {
    struct member member;
    pthread_mutex_t lock;
    bool leave_wanted, leave_linger, running;
    void (*table_ready)(void);
    uint64_t
        *lost_since; /* loop only; [rank]: when its connection broke, 0: not, or long ago */
    struct net_timer *lost_timer;
    bool image_ends; /* under `lock`: the process exits or execs behind this */
    bool exiting;    /* loop only: linger as soon as we have joined */
    struct net_post leave_post;
    bool leave_posted;
    int rc;
};

static uint64_t seconds_ns(double seconds)
{
    return (uint64_t)(seconds * (double)UTIL_NSEC_PER_SEC);
}

static struct member_run *run_of(struct member *member)
{
    return (struct member_run *)member; /* its first member */
}

static struct member *member_create(const struct member_params *params)
{
    struct member_run *run = calloc(1, sizeof(*run));
    struct member *member;

    if (!run)
        return NULL;
    pthread_mutex_init(&run->lock, NULL);
    member = &run->member;
    member->config = params->config;
    member->identity = params->identity;
    member->session = params->session;
    member->launch = params->launch;
    member->thread_enter = params->thread_enter;
    run->table_ready = params->table_ready;
    member->claim_fd = params->claim_fd;
    member->joined_tail = &member->joined;
    member->next_id = 1;
    member->state = MEMBER_JOINING;
    return member;
}

static void member_destroy(struct member *member)
{
    struct member_run *run = run_of(member);

    pthread_mutex_destroy(&run->lock);
    free(run);
}

/* --- joining --- */

void member_when_joined(struct member *member, struct member_joined *wait,
                        void (*fn)(void *arg, int error), void *arg)
{
    if (member->state != MEMBER_JOINING) {
        fn(arg, member->state == MEMBER_LEAVING ? ESHUTDOWN : 0);
        return;
    }
    wait->fn = fn;
    wait->arg = arg;
    wait->next = NULL;
    *member->joined_tail = wait;
    member->joined_tail = &wait->next;
}

static void run_joined(struct member *member, int error)
{
    struct member_joined *wait = member->joined;

    member->joined = NULL;
    member->joined_tail = &member->joined;
    while (wait) {
        struct member_joined *next = wait->next;
        wait->fn(wait->arg, error);
        wait = next;
    }
}

static void join_failed(struct member *member)
{
    if (member->state == MEMBER_LEAVING)
        return;
    log_error("rank %u could not join: files below its managed directory are not shared",
              member->identity->rank);
    run_of(member)->rc = -1;
    member_stop(member);
}

void member_stop(struct member *member)
{
    if (member->state == MEMBER_LEAVING)
        return;
    member->state = MEMBER_LEAVING;
    run_joined(member, ESHUTDOWN);
    net_loop_stop(member->loop);
}

const char *member_node_name(struct member *member, uint32_t rank)
{
    static char name[NET_PEER_NODE_MAX + 1];
    const struct net_peer *peer = rank == member->self.rank ? &member->self
                                  : member->worker ? net_worker_peer(member->worker, rank)
                                                   : NULL;

    snprintf(name, sizeof(name), "%s", peer ? peer->node : "unknown");
    name[strcspn(name, "/")] = '\0'; /* without the boot id */
    return name;
}

/* --- between the table, the barrier and the network --- */

struct self_message {
    struct net_post post;
    struct member *member;
    struct net_msg msg;
    unsigned char buf[];
};

static void dispatch(struct member *member, const struct net_msg *msg, void *payload,
                     size_t len);

static void self_deliver(void *arg)
{
    struct self_message *own = arg;

    dispatch(own->member, &own->msg, NULL, 0);
    free(own);
}

/* A message of ours to ourselves: through the encoder, so that it owns its memory, and the
 * loop. */
static int send_self(struct member *member, struct net_msg *msg)
{
    unsigned char buf[NET_MSG_HEADER_MAX + NET_MSG_BLOB_MAX];
    struct self_message *own;
    int n;

    msg->source = member->self.rank;
    msg->source_incarnation = member->self.incarnation;
    if ((n = net_msg_encode(msg, buf, sizeof(buf))) < 0)
        return -1;
    if (!(own = malloc(sizeof(*own) + (size_t)n)))
        return -1;
    own->member = member;
    memcpy(own->buf, buf, (size_t)n);
    if (net_msg_decode(&own->msg, own->buf, (size_t)n) < 0) {
        free(own);
        return -1;
    }
    net_loop_post(member->loop, &own->post, self_deliver, own);
    return 0;
}

int member_send(struct member *member, uint32_t rank, struct net_msg *msg)
{
    if (rank == member->self.rank)
        return send_self(member, msg);
    return net_worker_send(member->worker, rank, msg, NULL, 0, NULL, NULL);
}

static int table_send(void *arg, uint32_t rank, struct net_msg *msg)
{
    return member_send(arg, rank, msg);
}

static uint64_t table_now(void *arg)
{
    (void)arg;
    return util_clock_now();
}

static void table_set_timer(void *arg, uint64_t when)
{
    struct member *member = arg;

    if (when == UINT64_MAX)
        net_timer_stop(member->dht_timer);
    else
        net_timer_start(member->dht_timer, when);
}

static void table_tick(void *arg)
{
    struct member *member = arg;
    dht_node_tick(member->dht);
}

static void wave_verdict(void *arg, enum boot_wave_verdict verdict)
{
    struct member *member = arg;

    if (verdict == BOOT_WAVE_NO_PRODUCER) {
        consume_fail_waiting(member);
    } else if (member->state == MEMBER_EXITING) {
        member->job_ended = true;
        member_stop(member);
    }
}

/* A rank whose connection broke may be on its way through exec. For so long it counts as
 * there, and busy, in the questions whether all are at exit and whether anybody is left. */
static bool may_return(const struct member *member, uint32_t rank, uint64_t now)
{
    uint64_t since = run_of((struct member *)member)->lost_since[rank];
    return since && now - since < seconds_ns(member->config->join_timeout);
}

static bool wave_live(void *arg, uint32_t rank)
{
    struct member *member = arg;
    return dht_node_is_live(member->dht, rank) ||
           may_return(member, rank, util_clock_now());
}

/* The barrier takes a failed send for a death; what is lost on the way is sent again. */
static int wave_send(void *arg, uint32_t rank, struct net_msg *msg)
{
    if (member_send(arg, rank, msg) == 0 || may_return(arg, rank, util_clock_now()))
        return 0;
    return -1;
}

/* The time of some is over. */
static void lost_look(void *arg)
{
    struct member *member = arg;
    struct member_run *run = run_of(member);
    uint64_t now = util_clock_now(), next = 0;

    for (uint32_t r = 0; r < member->job->nranks; r++) {
        if (!run->lost_since[r])
            continue;
        uint64_t end = run->lost_since[r] + seconds_ns(member->config->join_timeout);
        if (end > now) {
            next = !next || end < next ? end : next;
            continue;
        }
        run->lost_since[r] = 0;
        log_info("rank %u has not come back: going on without it", r);
        boot_wave_rank_changed(member->wave, r);
    }
    if (next)
        net_timer_start(run->lost_timer, next);
}

static void rank_lost(struct member *member, uint32_t rank)
{
    struct member_run *run = run_of(member);
    bool first = true;

    for (uint32_t r = 0; r < member->job->nranks && first; r++)
        first = run->lost_since[r] == 0;
    run->lost_since[rank] = util_clock_now();
    if (first)
        net_timer_start(run->lost_timer,
                        run->lost_since[rank] + seconds_ns(member->config->join_timeout));
}

static void dispatch(struct member *member, const struct net_msg *msg, void *payload,
                     size_t len)
{
    if (member->state == MEMBER_LEAVING || !member->dht)
        goto drop;
    switch (msg->type) {
    case NET_MSG_GET:
        serve_get(member, msg);
        break;
    case NET_MSG_DATA:
        if (transfer_receive(member, msg, payload, len))
            return; /* the payload is its own now */
        break;
    case NET_MSG_WAVE:
        boot_wave_receive(member->wave, msg);
        break;
    case NET_MSG_DUMP:
        dump_serve(member, msg);
        break;
    case NET_MSG_DUMP_REPLY:
        dump_receive(member, msg);
        break;
    case NET_MSG_PING: {
        struct net_msg pong = {.type = NET_MSG_PONG, .id = msg->id};
        member_send(member, msg->source, &pong);
        break;
    }
    case NET_MSG_ERROR:
        if (!transfer_receive(member, msg, NULL, 0) && !dump_receive(member, msg))
            dht_node_receive(member->dht, msg);
        break;
    default:
        dht_node_receive(member->dht, msg);
        break;
    }
drop:
    free(payload);
}

static void worker_receive(void *arg, const struct net_msg *msg, void *payload, size_t len)
{
    dispatch(arg, msg, payload, len);
}

static void worker_need_peer(void *arg, uint32_t rank)
{
    struct member *member = arg;

    if (member->state == MEMBER_LEAVING)
        return;
    if (boot_pmix_get(member->pmix, rank, member->self.incarnation > 0) < 0)
        net_worker_peer_down(member->worker, rank, ENOMEM);
}

static void rank_live(struct member *member, uint32_t rank, bool live)
{
    if (!member->dht || dht_node_is_live(member->dht, rank) == live)
        return;
    dht_node_set_live(member->dht, rank, live);
    boot_wave_rank_changed(member->wave, rank);
}

static void worker_peer_down(void *arg, uint32_t rank, int error)
{
    struct member *member = arg;

    if (member->state == MEMBER_LEAVING)
        return;
    log_info("rank %u on node %s is gone: %s", rank, member_node_name(member, rank),
             strerror(error));
    if (member->dht && dht_node_is_live(member->dht, rank))
        rank_lost(member, rank);
    rank_live(member, rank, false);
    transfer_peer_down(member, rank);
    dump_peer_down(member, rank);
}

static void worker_peer_up(void *arg, const struct net_peer *peer)
{
    struct member *member = arg;

    if (member->state == MEMBER_LEAVING)
        return;
    if (run_of(member)->lost_since)
        run_of(member)->lost_since[peer->rank] = 0;
    rank_live(member, peer->rank, true);
    consume_rank_up(member, peer->rank);
}

static const struct net_worker_ops worker_ops = {
    .receive = worker_receive,
    .need_peer = worker_need_peer,
    .peer_down = worker_peer_down,
    .peer_up = worker_peer_up,
};

static const struct dht_node_ops table_ops = {
    .send = table_send,
    .now = table_now,
    .set_timer = table_set_timer,
    .invalidate = produce_invalidate,
};

static bool wave_confirm(void *arg, uint64_t number)
{
    return consume_confirm(arg, number);
}

static const struct boot_wave_ops wave_ops = {
    .send = wave_send,
    .live = wave_live,
    .confirm = wave_confirm,
    .verdict = wave_verdict,
};

void member_find_again(struct member *member, uint32_t rank)
{
    boot_pmix_get(member->pmix, rank, true);
}

/* The size of the job is known: everything that needs it. */
static int member_assemble(struct member *member)
{
    const struct engine_config *config = member->config;
    struct dht_node_config table = {
        .self = member->self.rank,
        .nranks = member->job->nranks,
        .incarnation = member->self.incarnation,
        .depth = member->self.depth,
        .bins = member->self.bins,
        .replicas = member->self.replicas,
        .node = member->job->node,
        .request_timeout = seconds_ns(config->peer_timeout),
        .retry_interval = seconds_ns(MEMBER_ASK_AGAIN),
        .invalidate_timeout = seconds_ns(config->peer_timeout) / 2,
        .refresh_interval = seconds_ns(MEMBER_REFRESH),
    };

    if (member->self.rank >= member->job->nranks) {
        log_error("the launcher says rank %u of a job of %u ranks", member->self.rank,
                  member->job->nranks);
        errno = EINVAL;
        return -1;
    }
    if (!(member->worker = net_worker_create(member->loop, &member->self,
                                             member->job->nranks, &worker_ops, member)) ||
        !(run_of(member)->lost_since =
              calloc(member->job->nranks, sizeof(*run_of(member)->lost_since))) ||
        !(run_of(member)->lost_timer = net_timer_create(member->loop, lost_look, member)) ||
        !(member->dht_timer = net_timer_create(member->loop, table_tick, member)) ||
        !(member->dht = dht_node_create(&table, &table_ops, member)) ||
        !(member->wave =
              boot_wave_create(member->self.rank, member->job->nranks, &wave_ops, member)))
        return -1;
    return linger_start(member);
}

static void pmix_ready(void *arg, const struct boot_pmix_job *job, int error)
{
    struct member *member = arg;
    unsigned char blob[NET_PEER_BLOB_MAX];
    int n;

    if (error) {
        log_error("the launcher's PMIx server cannot be reached: %s", strerror(error));
        join_failed(member);
        return;
    }
    member->job = job;
    if (member_assemble(member) < 0) {
        join_failed(member);
        return;
    }
    n = net_peer_encode(&member->self, 1, blob, sizeof(blob));
    if (n < 0 || boot_pmix_commit(member->pmix, blob, (size_t)n) < 0) {
        log_error("cannot give this rank's address to the launcher: %m");
        join_failed(member);
    }
}

static void exit_begin(struct member *member)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    /* The wrapper lets go of the program's standard output; ours would keep a reader of the
     * pipe waiting as well. Log lines go to standard error. */
    if (null >= 0) {
        dup2(null, STDOUT_FILENO);
        close(null);
    }
    member->state = MEMBER_EXITING;
    linger_exiting(member);
}

static void pmix_committed(void *arg, int status)
{
    struct member *member = arg;

    if (member->state != MEMBER_JOINING)
        return;
    if (status) {
        log_error("the launcher does not take this rank's address: %s", strerror(status));
        join_failed(member);
        return;
    }
    if (member->job->nranks <= PREFETCH_RANKS) {
        for (uint32_t r = 0; r < member->job->nranks; r++) {
            if (r != member->self.rank)
                boot_pmix_get(member->pmix, r, member->self.incarnation > 0);
        }
        boot_pmix_release(member->pmix);
    }
    member->state = MEMBER_JOINED;
    log_info(
        "joined as rank %u of %u on node %s, incarnation %u, key depth %u, bins %u, "
        "replicas %u",
        member->self.rank, member->job->nranks, member_node_name(member, member->self.rank),
        member->self.incarnation, member->self.depth, member->self.bins,
        member->self.replicas);
    produce_restore(member);
    run_joined(member, 0);
    if (run_of(member)->exiting && member->state == MEMBER_JOINED)
        exit_begin(member);
}

/* We follow another member of this rank: whoever knew that one learns of us by our first
 * message. */
static void introduce(struct member *member, uint32_t rank)
{
    struct net_msg ping = {.type = NET_MSG_PING, .id = member->next_id};

    if (member->self.incarnation == 0 || member->job->nranks > PREFETCH_RANKS)
        return;
    member->next_id += 2;
    member_send(member, rank, &ping);
}

static void pmix_blob(void *arg, uint32_t rank, const void *blob, size_t len, int error)
{
    struct member *member = arg;
    struct net_peer *peer;

    if (!member->worker)
        return;
    if (error) {
        log_warn(
            "rank %u has not joined (%s): going on without it; is its program static, or "
            "started "
            "without LD_PRELOAD?",
            rank, strerror(error));
        rank_live(member, rank, false); /* first: it is not one that may return from exec */
        net_worker_peer_down(member->worker, rank, error);
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
        rank_live(member, rank, false);
        net_worker_peer_down(member->worker, rank, EPROTO);
    } else if (net_worker_set_peer(member->worker, peer) < 0) {
        rank_live(member, rank, false);
    } else {
        rank_live(member, rank, true);
        introduce(member, rank);
    }
    free(peer);
}

static const struct boot_pmix_ops pmix_ops = {
    .ready = pmix_ready,
    .committed = pmix_committed,
    .blob = pmix_blob,
};

/* --- the DMDs --- */

/* The journal's name: of this rank in this launch. */
static void journal_name(const struct member *member, char *name, size_t size)
{
    unsigned n = 0;

    snprintf(name, size, "%s.%016llx.%u", member->session,
             (unsigned long long)member->launch, member->identity->rank);
    for (char *p = name; *p; p++, n++) {
        if (!((*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') ||
              (*p >= '0' && *p <= '9') || *p == '.' || *p == '-' || *p == '_') ||
            n >= 200)
            *p = n >= 200 ? '\0' : '_';
    }
}

static int side_open(struct member *member, struct member_side *side, const char *path,
                     uint32_t *incarnation)
{
    char name[512];

    if (!path)
        return 0;
    if (!(side->dir = store_dir_create(path)) ||
        !(side->marks = store_marks_create(side->dir)))
        return -1;
    journal_name(member, name, sizeof(name));
    if (!(side->journal = store_journal_create(side->dir, name, incarnation))) {
        log_error("cannot open this rank's record below %s/" STORE_CONTROL_DIR ": %m",
                  path);
        return -1;
    }
    store_fetch_clean(side->dir, RESERVED_FOR);
    return 0;
}

static int sides_open(struct member *member)
{
    const struct engine_config *config = member->config;
    struct member_side *consumer = &member->side[ENGINE_CONSUMER];
    struct member_side *producer = &member->side[ENGINE_PRODUCER];
    uint32_t c = 0, p = 0;

    if (side_open(member, consumer, config->path_consumer, &c) < 0)
        return -1;
    if (config->path_consumer && config->path_producer &&
        strcmp(config->path_consumer, config->path_producer) == 0)
        *producer = *consumer;
    else if (side_open(member, producer, config->path_producer, &p) < 0)
        return -1;
    member->self.incarnation = c > p ? c : p;
    return 0;
}

static void side_close(struct member_side *side, bool job_ended)
{
    if (job_ended && side->dir)
        store_fetch_clean(side->dir, 0);
    store_journal_destroy(side->journal);
    store_marks_destroy(side->marks);
    store_dir_destroy(side->dir);
    *side = (struct member_side){0};
}

static void sides_close(struct member *member)
{
    if (member->side[0].dir == member->side[1].dir)
        member->side[1] = (struct member_side){0};
    side_close(&member->side[0], member->job_ended);
    side_close(&member->side[1], member->job_ended);
}

static void self_describe(struct member *member)
{
    const struct engine_config *config = member->config;
    struct net_peer *self = &member->self;

    self->rank = member->identity->rank;
    self->pid = getpid();
    self->depth = (uint32_t)config->key_depth;
    self->bins = (uint32_t)config->key_bins;
    self->replicas = (uint32_t)config->replicas;
    snprintf(self->node, sizeof(self->node), "%.*s", NET_PEER_NODE_MAX,
             member->identity->node);
    if (member->side[ENGINE_CONSUMER].dir) {
        snprintf(self->dmd_consumer, sizeof(self->dmd_consumer), "%s",
                 config->path_consumer);
        memcpy(self->storage_consumer, store_dir_id(member->side[ENGINE_CONSUMER].dir),
               DYAD_STORAGE_ID_LEN);
    }
    if (member->side[ENGINE_PRODUCER].dir) {
        snprintf(self->dmd_producer, sizeof(self->dmd_producer), "%s",
                 config->path_producer);
        memcpy(self->storage_producer, store_dir_id(member->side[ENGINE_PRODUCER].dir),
               DYAD_STORAGE_ID_LEN);
    }
}

/* --- running --- */

/* On the loop, because a program's thread wants us gone. */
static void leave_begin(void *arg)
{
    struct member_run *run = arg;
    struct member *member = &run->member;
    bool linger;

    pthread_mutex_lock(&run->lock);
    run->leave_posted = false;
    linger = run->leave_linger;
    pthread_mutex_unlock(&run->lock);
    if (!linger) {
        linger_leave_soon(member);
    } else if (member->state != MEMBER_LEAVING) {
        /* Others may wait at our shard or for our address: if we have not joined yet, we do
         * first. */
        run->exiting = true;
        if (member->state == MEMBER_JOINED)
            exit_begin(member);
    }
}

static void member_leave(struct member *member, bool linger, bool image_ends)
{
    struct member_run *run = run_of(member);

    pthread_mutex_lock(&run->lock);
    run->leave_wanted = true;
    run->leave_linger = linger;
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

static void stats_log(const struct member *member)
{
    const struct member_stats *s = &member->stats;

    util_log(member->config->stats ? UTIL_LOG_ALWAYS : UTIL_LOG_INFO,
             "statistics: published %llu, withdrawn %llu, fetched %llu files (%llu bytes), "
             "copied "
             "on the node %llu, served %llu bytes",
             (unsigned long long)s->published, (unsigned long long)s->withdrawn,
             (unsigned long long)s->fetches, (unsigned long long)s->bytes_fetched,
             (unsigned long long)s->local_copies, (unsigned long long)s->bytes_served);
}

static int member_start(struct member *member)
{
    static const char prefix[] = "dyad";

    if (!(member->loop = net_loop_create())) {
        log_error("cannot make an event loop: %m");
        return -1;
    }
    if (!(member->io =
              engine_iopool_create(member->loop, IO_THREADS, member->thread_enter)))
        return -1;
    if (sides_open(member) < 0)
        return -1;
    self_describe(member);
    if (request_start(member) < 0)
        return -1;
    member->pmix = boot_pmix_create(
        member->loop, member->identity,
        member->config->kvs_namespace ? member->config->kvs_namespace : prefix,
        seconds_ns(member->config->join_timeout), &pmix_ops, member);
    return member->pmix ? 0 : -1;
}

static void member_teardown(struct member *member)
{
    member->state = MEMBER_LEAVING;
    run_joined(member, ESHUTDOWN);
    request_stop(member); /* cancels what the guests asked */
    dump_stop(member);
    engine_iopool_destroy(member->io); /* nothing is in another thread's hands any more */
    net_worker_destroy(member->worker, run_of(member)->image_ends);
    boot_pmix_destroy(member->pmix);
    transfer_stop(member);
    serve_stop(member);
    produce_stop(member);
    consume_stop(member);
    linger_stop(member);
    dht_node_destroy(member->dht);
    boot_wave_destroy(member->wave);
    if (member->dht_timer)
        net_timer_destroy(member->dht_timer);
    if (run_of(member)->lost_timer)
        net_timer_destroy(run_of(member)->lost_timer);
    free(run_of(member)->lost_since);
    sides_close(member);
    net_loop_destroy(member->loop);
    if (member->claim_fd >= 0)
        close(member->claim_fd);
}

static bool is_managed(const char *dmd, const char *path)
{
    char real[PATH_MAX];
    size_t n;

    if (!dmd || !realpath(dmd, real))
        return false;
    n = strlen(real);
    return strncmp(path, real, n) == 0 && path[n] == '/';
}

/* Standard output and error are the program's, in our table too: for UCX and for log lines.
 * If one is a file below a DMD, our copy would keep its description from ever being closed.
 */
static void stdio_let_go(const struct member *member)
{
    char link[32], path[PATH_MAX];
    struct stat st;

    for (int fd = STDOUT_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
            continue;
        /* thread-self: ours is not the table that /proc/self shows */
        snprintf(link, sizeof(link), "/proc/thread-self/fd/%d", fd);
        ssize_t n = readlink(link, path, sizeof(path) - 1);
        path[n > 0 ? n : 0] = '\0';
        if (n > 0 && !is_managed(member->config->path_consumer, path) &&
            !is_managed(member->config->path_producer, path))
            continue;
        int null = open("/dev/null", O_RDWR | O_CLOEXEC);
        if (null >= 0) {
            dup2(null, fd);
            close(null);
        }
    }
}

/* This library has its own copy of util/log.c. */
static void log_setup(const struct member *member)
{
    char tag[32];

    snprintf(tag, sizeof(tag), "rank %u", member->identity->rank);
    util_log_setup((enum util_log_level)member->config->log_level, member->config->log_file,
                   tag);
}

static int member_run(struct member *member)
{
    struct member_run *run = run_of(member);

    if (member->thread_enter)
        member->thread_enter();
    log_setup(member);
    prctl(PR_SET_NAME, "dyad-loop");
    member->started = util_clock_now();
    if (boot_fdtable_unshare(&member->claim_fd, 1) < 0) {
        log_error("cannot have a descriptor table of our own: %m");
        member->claim_fd = -1;
        run->table_ready();
        return -1;
    }
    stdio_let_go(member);
    run->table_ready();
    if (member_start(member) < 0) {
        log_error(
            "rank %u could not join: files below its managed directory are not shared",
            member->identity->rank);
        run->rc = -1;
    } else {
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
        pthread_mutex_lock(&run->lock);
        run->running = false;
        pthread_mutex_unlock(&run->lock);
        if (run->rc == 0)
            stats_log(member);
    }
    if (run->rc < 0 && member->claim_fd >= 0)
        shutdown(member->claim_fd,
                 SHUT_RDWR); /* whoever queues there must not wait for nobody */
    member_teardown(member);
    return run->rc;
}

static const struct member_ops member_table = {
    .abi = MEMBER_ABI,
    .create = member_create,
    .run = member_run,
    .leave = member_leave,
    .nudge = member_nudge,
    .destroy = member_destroy,
};

__attribute__((visibility("default"))) const struct member_ops *dyad_member_ops(
    unsigned abi);

const struct member_ops *dyad_member_ops(unsigned abi)
{
    return abi == MEMBER_ABI ? &member_table : NULL;
}
