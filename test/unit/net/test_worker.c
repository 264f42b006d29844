/*
 * test_worker.c - members talk over TCP on the loopback device
 *
 * A node is a loop and a worker on a thread of its own, as in a member. The test's thread
 * makes it do things with call() and waits, always bounded, for what happens. Where a peer
 * must die or be silent, it is a process: this program, started again with "child".
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "net/auth.h"
#include "net/worker_impl.h"
#include "util/clock.h"
#include "util/log.h"

#define BOUND_SEC 30
#define NRANKS    8
#define NOBODY    6 /* a rank that never joins */
#define SMALL     10000
#define AT(rank)  (net_is_guest(rank) ? NRANKS : (rank))

struct node {
    pthread_t thread;
    struct net_loop *loop;
    struct net_worker *worker;
    struct net_peer self;
    bool started;

    /* Under lock; changed is signalled with each change. */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    /* the last is for promoted guests */
    unsigned ups[NRANKS + 1], downs[NRANKS + 1], needs[NRANKS], news; /* news: all three */
    unsigned unanswered;
    int down_error;
    bool down_before_sends; /* peer_down although sends were pending */
    unsigned pings, pongs, datas, dumps, bad;
    uint64_t last_ping;
    unsigned sent_ok, sent_failed;
    unsigned pending;
    int last_status;
};

static void note(struct node *node)
{
    pthread_cond_broadcast(&node->changed);
    pthread_mutex_unlock(&node->lock);
}

/* --- what a payload looks like --- */

static void fill(uint8_t *data, size_t len, uint64_t seed)
{
    for (size_t i = 0; i < len; i++) {
        if (i % 8 == 0)
            seed = seed * 6364136223846793005u + 1442695040888963407u;
        data[i] = (uint8_t)(seed >> (8 * (i % 8)));
    }
}

static uint64_t sum(const uint8_t *data, size_t len)
{
    uint64_t hash = 14695981039346656037u;

    for (size_t i = 0; i < len; i++)
        hash = (hash ^ data[i]) * 1099511628211u;
    return hash;
}

/* --- callbacks of the worker --- */

struct payload_send {
    struct node *node;
    uint8_t *data;
};

static void on_sent(void *arg, int status)
{
    struct node *node = arg;

    pthread_mutex_lock(&node->lock);
    node->pending--;
    if (status == 0)
        node->sent_ok++;
    else
        node->sent_failed++;
    node->last_status = status;
    note(node);
}

static void on_sent_payload(void *arg, int status)
{
    struct payload_send *send = arg;
    struct node *node = send->node;

    free(send->data); /* a later use of it by UCX is seen by the sanitizer */
    free(send);
    on_sent(node, status);
}

/* Loop's thread. */
static int send_message(struct node *node, uint32_t rank, enum net_msg_type type,
                        uint64_t id, size_t len)
{
    struct net_msg msg = {.type = type, .id = id};
    struct payload_send *send = NULL;
    int rc;

    if (type == NET_MSG_DATA) {
        send = malloc(sizeof(*send));
        send->node = node;
        send->data = malloc(len ? len : 1);
        fill(send->data, len, id);
        msg.length = len;
        msg.entry.mtime_nsec = 1;
        msg.entry.size = sum(send->data, len) >> 2;
    }
    pthread_mutex_lock(&node->lock);
    node->pending++;
    pthread_mutex_unlock(&node->lock);
    if (send)
        rc = net_worker_send(node->worker, rank, &msg, len ? send->data : NULL, len,
                             on_sent_payload, send);
    else
        rc = net_worker_send(node->worker, rank, &msg, NULL, 0, on_sent, node);
    if (rc < 0) {
        int saved = errno;
        if (send) {
            free(send->data);
            free(send);
        }
        pthread_mutex_lock(&node->lock);
        node->pending--;
        pthread_mutex_unlock(&node->lock);
        errno = saved;
    }
    return rc;
}

static void on_receive(void *arg, const struct net_msg *msg, void *payload,
                       size_t payload_len)
{
    struct node *node = arg;

    if (msg->type == NET_MSG_PING)
        send_message(node, msg->source, NET_MSG_PONG, msg->id, 0);
    pthread_mutex_lock(&node->lock);
    switch ((int)msg->type) {
    case NET_MSG_PING:
        node->pings++;
        node->bad += msg->id != node->last_ping + 1;
        node->last_ping = msg->id;
        break;
    case NET_MSG_PONG:
        node->pongs++;
        break;
    case NET_MSG_DATA:
        node->datas++;
        node->bad += payload_len != msg->length || !payload != !payload_len ||
                     sum(payload, payload_len) >> 2 != msg->entry.size;
        break;
    case NET_MSG_DUMP_REPLY:
        node->dumps++;
        node->bad += sum(msg->blob, msg->blob_len) != msg->id;
        break;
    default:
        node->bad++;
    }
    bool recycle = node->datas % 2 == 0;
    note(node);
    if (recycle)
        net_worker_recycle(node->worker, payload, payload_len);
    else
        free(payload);
}

static void on_need(void *arg, uint32_t rank)
{
    struct node *node = arg;

    pthread_mutex_lock(&node->lock);
    node->needs[rank]++;
    node->news++;
    note(node);
}

static void on_down(void *arg, uint32_t rank, int error)
{
    struct node *node = arg;

    pthread_mutex_lock(&node->lock);
    node->downs[AT(rank)]++;
    node->news++;
    node->down_error = error;
    node->down_before_sends = node->down_before_sends || node->pending > 0;
    note(node);
}

static void on_up(void *arg, const struct net_peer *peer)
{
    struct node *node = arg;

    pthread_mutex_lock(&node->lock);
    node->ups[AT(peer->rank)]++;
    node->news++;
    note(node);
}

static void on_unanswered(void *arg, uint32_t rank)
{
    struct node *node = arg;

    (void)rank;
    pthread_mutex_lock(&node->lock);
    node->unanswered++;
    note(node);
}

static void on_heard(void *arg, uint32_t rank)
{
    struct node *node = arg;

    net_worker_probe(node->worker, rank);
}

static const struct net_worker_ops ops = {
    .unanswered = on_unanswered,
    .heard = on_heard,
    .receive = on_receive,
    .need_peer = on_need,
    .peer_down = on_down,
    .peer_up = on_up,
};

/* --- a node's life --- */

static void fill_self(struct net_peer *self, uint32_t rank, uint32_t incarnation)
{
    memset(self, 0, sizeof(*self));
    self->rank = rank;
    self->incarnation = incarnation;
    self->pid = getpid();
    self->depth = 2;
    self->bins = 256;
    self->replicas = 2;
    self->integrity = true;
    strcpy(self->node, "here");
    strcpy(self->dmd_producer, "/tmp/p");
}

static void *node_main(void *arg)
{
    struct node *node = arg;

    node->loop = net_loop_create();
    node->worker = net_worker_create(node->loop, &node->self, NRANKS, &ops, node);
    pthread_mutex_lock(&node->lock);
    node->started = true;
    note(node);
    if (!node->worker || net_loop_run(node->loop) != 0)
        abort();
    net_worker_destroy(node->worker, false);
    net_loop_destroy(node->loop);
    return NULL;
}

/* A value of the node of which the loop's thread may have news at any time: of a peer that
 * is about to end. */
#define READ(node, value)                    \
    ({                                       \
        pthread_mutex_lock(&(node)->lock);   \
        __typeof__(value) value_ = (value);  \
        pthread_mutex_unlock(&(node)->lock); \
        value_;                              \
    })

/* Wait for a condition on the node; bounded. */
#define WAIT(node, condition)                                                     \
    do {                                                                          \
        struct timespec end_;                                                     \
        clock_gettime(CLOCK_REALTIME, &end_);                                     \
        end_.tv_sec += BOUND_SEC;                                                 \
        pthread_mutex_lock(&(node)->lock);                                        \
        int rc_ = 0;                                                              \
        while (!(condition) && rc_ == 0)                                          \
            rc_ = pthread_cond_timedwait(&(node)->changed, &(node)->lock, &end_); \
        bool held_ = (condition);                                                 \
        pthread_mutex_unlock(&(node)->lock);                                      \
        if (!held_)                                                               \
            fail_msg("after %d s: %s", BOUND_SEC, #condition);                    \
    } while (0)

static struct node *node_start_with(const struct net_peer *self)
{
    struct node *node = calloc(1, sizeof(*node));
    sigset_t all, old;

    assert_non_null(node);
    node->self = *self;
    pthread_mutex_init(&node->lock, NULL);
    pthread_cond_init(&node->changed, NULL);
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &old);
    assert_int_equal(pthread_create(&node->thread, NULL, node_main, node), 0);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    WAIT(node, node->started);
    assert_non_null(node->worker);
    return node;
}

static struct node *node_start(uint32_t rank, uint32_t incarnation)
{
    struct net_peer self;

    fill_self(&self, rank, incarnation);
    return node_start_with(&self);
}

/* Run fn on the node's loop and wait for it. */
struct call {
    struct net_post post;
    struct node *node;
    int (*fn)(struct node *node, void *arg);
    void *arg;
    int rc, error;
    bool done;
};

static void run_call(void *arg)
{
    struct call *call = arg;
    struct node *node = call->node;

    errno = 0;
    call->rc = call->fn(node, call->arg);
    call->error = errno;
    pthread_mutex_lock(&node->lock);
    call->done = true;
    note(node);
}

static int call(struct node *node, int (*fn)(struct node *node, void *arg), void *arg)
{
    struct call c = {.node = node, .fn = fn, .arg = arg};

    net_loop_post(node->loop, &c.post, run_call, &c);
    WAIT(node, c.done);
    errno = c.error;
    return c.rc;
}

static int do_stop(struct node *node, void *arg)
{
    (void)arg;
    net_loop_stop(node->loop);
    return 0;
}

static void node_join(struct node *node)
{
    call(node, do_stop, NULL);
    pthread_join(node->thread, NULL);
}

static void node_free(struct node *node)
{
    pthread_mutex_destroy(&node->lock);
    pthread_cond_destroy(&node->changed);
    free(node);
}

static void node_end(struct node *node)
{
    node_join(node);
    node_free(node);
}

static int do_set_peer(struct node *node, void *arg)
{
    return net_worker_set_peer(node->worker, arg);
}

static int do_peer_down(struct node *node, void *arg)
{
    net_worker_peer_down(node->worker, *(uint32_t *)arg, EHOSTUNREACH);
    return 0;
}

static int do_probe(struct node *node, void *arg)
{
    return net_worker_probe(node->worker, *(uint32_t *)arg);
}

static int do_stats(struct node *node, void *arg)
{
    net_worker_get_stats(node->worker, arg);
    return 0;
}

static struct net_worker_stats stats_of(struct node *node)
{
    struct net_worker_stats stats;

    call(node, do_stats, &stats);
    return stats;
}

static int do_copy_peer(struct node *node, void *arg)
{
    struct net_peer *peer = arg;
    const struct net_peer *known = net_worker_peer(node->worker, peer->rank);

    if (!known)
        return -1;
    *peer = *known;
    return 0;
}

struct batch {
    uint32_t rank;
    enum net_msg_type type;
    uint64_t first_id;
    unsigned count;
    size_t len;
};

static int do_send(struct node *node, void *arg)
{
    struct batch *batch = arg;

    for (unsigned i = 0; i < batch->count; i++) {
        if (send_message(node, batch->rank, batch->type, batch->first_id + i, batch->len) <
            0)
            return -1;
    }
    return 0;
}

static int send_to(struct node *node, uint32_t rank, enum net_msg_type type, uint64_t id,
                   unsigned count, size_t len)
{
    struct batch batch = {rank, type, id, count, len};

    return call(node, do_send, &batch);
}

/* --- tests --- */

/* B knows nothing of A; A has B's blob, as from the launcher. */
static void test_hello(void **state)
{
    struct node *a = node_start(0, 0), *b = node_start(1, 4);
    struct net_peer seen = {.rank = 0};

    (void)state;
    assert_true(a->self.address_len > 0);
    assert_memory_not_equal(a->self.key, b->self.key, NET_PEER_KEY_LEN);
    assert_int_equal(call(b, do_copy_peer, &seen), -1);
    assert_int_equal(call(a, do_set_peer, &b->self), 0);
    assert_int_equal(a->ups[1], 1);
    assert_int_equal(call(a, do_set_peer, &b->self), 0); /* once more: no news */
    assert_int_equal(a->ups[1], 1);
    assert_int_equal(send_to(a, 1, NET_MSG_PING, 1, 1, 0), 0);
    WAIT(a, a->pongs == 1 && a->pending == 0);
    WAIT(b, b->pings == 1 && b->ups[0] == 1 && b->pending == 0);

    seen.rank = 0;
    assert_int_equal(call(b, do_copy_peer, &seen), 0);
    static const uint8_t none[NET_PEER_KEY_LEN];
    assert_memory_equal(seen.key, none, sizeof(none)); /* HELLO does not tell it */
    assert_string_equal(seen.dmd_producer, "/tmp/p");
    assert_int_equal(seen.pid, getpid());
    /* B may now begin by itself, with its own key */
    assert_int_equal(send_to(b, 0, NET_MSG_PING, 1, 1, 0), 0);
    WAIT(b, b->pongs == 1 && b->pending == 0);
    assert_int_equal(a->ups[1], 1);
    WAIT(a, a->bad == 0 && a->news == 1);
    WAIT(b, b->bad == 0 && b->news == 1);
    assert_int_equal(stats_of(a).rejected + stats_of(b).rejected, 0);
    assert_int_equal(stats_of(a).endpoints, 1);
    node_end(a);
    WAIT(b, b->downs[0] == 1); /* a normal exit is seen too */
    node_end(b);
}

static void test_small_messages(void **state)
{
    struct node *a = node_start(0, 0), *b = node_start(1, 0);

    (void)state;
    assert_int_equal(call(a, do_set_peer, &b->self), 0);
    assert_int_equal(send_to(a, 1, NET_MSG_PING, 1, SMALL, 0), 0);
    WAIT(a, a->pongs == SMALL);
    WAIT(a, a->sent_ok == SMALL && a->pending == 0);
    WAIT(b, b->sent_ok == SMALL && b->pending == 0);
    assert_int_equal(b->pings, SMALL);
    assert_int_equal(b->bad, 0); /* in order */
    assert_int_equal(stats_of(b).messages_received, SMALL + 1);
    node_end(a);
    node_end(b);
}

static void test_payloads(void **state)
{
    static const size_t sizes[] = {0,     1,      100,     4096,          8191,    8192,
                                   65536, 100000, 1 << 20, (8 << 20) + 1, 32 << 20};
    struct node *a = node_start(0, 0), *b = node_start(1, 0);
    unsigned n = 0;

    (void)state;
    assert_int_equal(call(a, do_set_peer, &b->self), 0);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        unsigned count =
            sizes[i] > 1 << 20 ? 2 : 8; /* several in flight, both ways at once */
        assert_int_equal(send_to(a, 1, NET_MSG_DATA, 1000 * i, count, sizes[i]), 0);
        if (i == 0) /* B learns of A by its HELLO */
            WAIT(b, b->ups[0] == 1);
        assert_int_equal(send_to(b, 0, NET_MSG_DATA, 1000 * i + 500, count, sizes[i]), 0);
        n += count;
        WAIT(b, b->datas == n && b->pending == 0);
        WAIT(a, a->datas == n && a->pending == 0);
        assert_int_equal(a->bad + b->bad, 0);
    }
    assert_int_equal(a->sent_ok, n);
    node_end(a);
    node_end(b);
}

static int do_bad_sends(struct node *node, void *arg)
{
    struct net_msg msg = {.type = NET_MSG_DATA, .length = 10};
    uint8_t data[20] = {0};

    (void)arg;
    errno = 0;
    assert_int_equal(net_worker_send(node->worker, 1, &msg, data, 20, NULL, NULL), -1);
    assert_int_equal(errno, EINVAL);
    assert_int_equal(net_worker_send(node->worker, 1, &msg, NULL, 10, NULL, NULL), -1);
    assert_int_equal(errno, EINVAL);
    msg = (struct net_msg){.type = NET_MSG_PING};
    assert_int_equal(net_worker_send(node->worker, 1, &msg, data, 20, NULL, NULL), -1);
    assert_int_equal(errno, EINVAL);
    assert_int_equal(
        net_worker_send(node->worker, node->self.rank, &msg, NULL, 0, NULL, NULL), -1);
    assert_int_equal(errno, EINVAL);
    assert_int_equal(net_worker_send(node->worker, NRANKS, &msg, NULL, 0, NULL, NULL), -1);
    assert_int_equal(errno, EINVAL);
    msg = (struct net_msg){.type = NET_MSG_DATA, .length = NET_WORKER_PAYLOAD_MAX + 1ul};
    assert_int_equal(net_worker_send(node->worker, 1, &msg, data,
                                     NET_WORKER_PAYLOAD_MAX + 1ul, NULL, NULL),
                     -1);
    assert_int_equal(errno, EMSGSIZE);
    return 0;
}

/* Blobs that do not fit into UCX's header, between small messages: all in order. */
static int do_send_dumps(struct node *node, void *arg)
{
    static uint8_t blob[NET_MSG_BLOB_MAX];

    for (unsigned i = 0; i < 20; i++) {
        struct net_msg msg = {
            .type = NET_MSG_DUMP_REPLY, .blob = blob, .blob_len = sizeof(blob) - i * 3000};
        fill(blob, msg.blob_len, i);
        msg.id = sum(blob, msg.blob_len);
        if (net_worker_send(node->worker, *(uint32_t *)arg, &msg, NULL, 0, NULL, NULL) <
                0 ||
            send_message(node, *(uint32_t *)arg, NET_MSG_PING, i + 1, 0) < 0)
            return -1;
    }
    return 0;
}

static void test_blobs(void **state)
{
    struct node *a = node_start(0, 0), *b = node_start(1, 0);
    uint32_t rank = 1;

    (void)state;
    assert_int_equal(call(a, do_set_peer, &b->self), 0);
    assert_int_equal(call(a, do_send_dumps, &rank), 0);
    WAIT(b, b->dumps == 20 && b->pings == 20);
    assert_int_equal(b->bad, 0);
    assert_int_equal(call(a, do_bad_sends, NULL), 0);
    node_end(a);
    node_end(b);
}

/* A HELLO as large as it can be still comes first. */
static void test_large_hello(void **state)
{
    struct net_peer self;
    fill_self(&self, 0, 0);
    memset(self.dmd_producer, '/', PATH_MAX - 1);
    memset(self.dmd_consumer, '/', PATH_MAX - 1);
    struct node *a = node_start_with(&self), *b = node_start(1, 0);

    (void)state;
    assert_int_equal(call(a, do_set_peer, &b->self), 0);
    assert_int_equal(send_to(a, 1, NET_MSG_PING, 1, 100, 0), 0);
    WAIT(a, a->pongs == 100);
    assert_int_equal(stats_of(b).rejected, 0);
    node_end(a);
    node_end(b);
}

static void test_wrong_key(void **state)
{
    struct node *a = node_start(0, 0), *b = node_start(1, 0);
    struct net_peer forged = b->self;

    (void)state;
    forged.key[5] ^= 0x40;
    assert_int_equal(call(a, do_set_peer, &forged), 0);
    assert_int_equal(send_to(a, 1, NET_MSG_PING, 1, 3, 0), 0);
    WAIT(a, a->downs[1] == 1);
    assert_int_not_equal(stats_of(b).refused, 0);
    assert_int_equal(stats_of(b).rejected, 0); /* UCX has had nothing of it */
    assert_int_equal(b->pings + b->ups[0] + a->pongs, 0);
    assert_int_equal(stats_of(b).messages_received, 0);
    assert_int_equal(stats_of(b).endpoints, 0); /* and nothing was answered */
    node_end(a);
    node_end(b);
}

static void test_mismatch(void **state)
{
    struct net_peer self;
    fill_self(&self, 1, 0);
    self.bins = 128;
    struct node *a = node_start(0, 0), *b = node_start_with(&self);

    (void)state;
    /* by blob: what waits for it fails */
    assert_int_equal(send_to(a, 1, NET_MSG_PING, 1, 3, 0), 0);
    WAIT(a, a->needs[1] == 1);
    assert_int_equal(call(a, do_set_peer, &b->self), -1);
    assert_int_equal(errno, EINVAL);
    WAIT(a, a->downs[1] == 1);
    assert_int_equal(a->sent_failed, 3);
    assert_int_equal(a->ups[1], 0);
    node_end(a);

    /* by HELLO: the other one was told a lie and says hello */
    a = node_start(0, 0);
    struct net_peer lie = b->self;
    lie.bins = 256;
    assert_int_equal(call(a, do_set_peer, &lie), 0);
    assert_int_equal(send_to(a, 1, NET_MSG_PING, 1, 1, 0), 0);
    while (stats_of(b).rejected < 2)
        sched_yield();
    assert_int_equal(b->ups[0] + b->pings, 0);
    node_end(a);
    node_end(b);
}

static void test_never_known(void **state)
{
    struct node *a = node_start(0, 0), *b = node_start(1, 0);
    uint32_t nobody = NOBODY, one = 1;

    (void)state;
    assert_int_equal(send_to(a, NOBODY, NET_MSG_PING, 1, WORKER_QUEUED, 0), 0);
    assert_int_equal(send_to(a, NOBODY, NET_MSG_PING, 1, 1, 0), -1);
    assert_int_equal(errno, ENOBUFS);
    WAIT(a, a->needs[NOBODY] == 1);
    assert_int_equal(a->sent_failed, 0);
    call(a, do_peer_down, &nobody);
    WAIT(a, a->downs[NOBODY] == 1);
    assert_int_equal(a->needs[NOBODY], 1); /* once for all of them */
    assert_int_equal(a->sent_failed, WORKER_QUEUED);
    assert_int_equal(a->last_status, EHOSTUNREACH);
    assert_false(a->down_before_sends);
    assert_int_equal(send_to(a, NOBODY, NET_MSG_PING, 1, 1, 0), -1);
    assert_int_equal(errno, EHOSTUNREACH);

    /* one that was given up, and comes late */
    call(a, do_peer_down, &one);
    WAIT(a, a->downs[1] == 1);
    assert_int_equal(send_to(a, 1, NET_MSG_PING, 1, 1, 0), -1);
    assert_int_equal(call(a, do_set_peer, &b->self), 0);
    assert_int_equal(a->ups[1], 1);
    assert_int_equal(send_to(a, 1, NET_MSG_PING, 1, 1, 0), 0);
    WAIT(a, a->pongs == 1);

    /* messages that wait go out when the blob comes, in order */
    node_end(a);
    WAIT(b, b->downs[0] == 1);
    a = node_start(0, 1);
    b->last_ping = 0;
    assert_int_equal(send_to(a, 1, NET_MSG_PING, 1, 100, 0), 0);
    WAIT(a, a->needs[1] == 1);
    assert_int_equal(call(a, do_set_peer, &b->self), 0);
    WAIT(a, a->pongs == 100 && a->pending == 0);
    assert_int_equal(b->ups[0], 2); /* the higher incarnation of one that was down */
    WAIT(b, b->pings == 101 && b->pending == 0);
    assert_int_equal(b->bad, 0);
    node_end(a);
    node_end(b);
}

static void test_incarnations(void **state)
{
    struct node *a = node_start(0, 0), *b = node_start(1, 3), *c = node_start(1, 4);
    struct net_peer second = b->self;

    (void)state;
    assert_int_equal(call(a, do_set_peer, &b->self), 0);
    assert_int_equal(send_to(a, 1, NET_MSG_PING, 1, 10, 0), 0);
    WAIT(a, a->pongs == 10);
    WAIT(b, b->pings == 10);
    second.address[second.address_len - 1] ^= 1;
    assert_int_equal(call(a, do_set_peer, &second),
                     -1); /* two processes, one incarnation */
    assert_int_equal(errno, EINVAL);
    assert_int_equal(a->ups[1], 1);

    assert_int_equal(call(a, do_set_peer, &c->self), 0);
    assert_int_equal(a->downs[1], 1);
    assert_int_equal(a->down_error, ECONNRESET);
    assert_int_equal(a->ups[1], 2);
    assert_int_equal(call(a, do_set_peer, &b->self), 0); /* old news */
    assert_int_equal(a->ups[1], 2);
    assert_int_equal(send_to(a, 1, NET_MSG_PING, 1, 10, 0), 0);
    WAIT(a, a->pongs == 20);
    WAIT(c, c->pings == 10);
    assert_int_equal(b->pings, 10);

    /* The old one is not heard, whatever it says. */
    node_end(b);
    b = node_start(1, 2);
    assert_int_equal(call(b, do_set_peer, &a->self), 0);
    assert_int_equal(send_to(b, 0, NET_MSG_PING, 1, 5, 0), 0);
    WAIT(b, b->sent_ok == 5);
    struct net_peer seen = {.rank = 1};
    while (stats_of(a).messages_received < 10 + 10 + 2 + 6)
        sched_yield();
    assert_int_equal(call(a, do_copy_peer, &seen), 0);
    assert_int_equal(seen.incarnation, 4);
    assert_int_equal(a->pings, 0);
    assert_int_equal(a->downs[1], 1);
    node_end(b);
    node_end(a);
    node_end(c);
}

static void test_destroy_pending(void **state)
{
    struct node *a = node_start(0, 0), *b = node_start(1, 0);

    (void)state;
    assert_int_equal(call(a, do_set_peer, &b->self), 0);
    assert_int_equal(send_to(a, 1, NET_MSG_PING, 1, 1, 0), 0);
    WAIT(a, a->pongs == 1);
    /* what can get through does before the end, what cannot is cancelled */
    assert_int_equal(send_to(a, NOBODY, NET_MSG_PING, 1, 7, 0), 0);
    struct batch batch = {1, NET_MSG_DATA, 1, 4, 4 << 20};
    assert_int_equal(call(a, do_send, &batch), 0);
    node_join(a);
    assert_int_equal(a->pending, 0);
    assert_int_equal(a->sent_failed, 7);
    assert_int_equal(a->sent_ok, 1 + 4);
    WAIT(b, b->datas == 4);
    assert_int_equal(b->bad, 0);
    node_free(a);
    node_end(b);
}

/* --- hostile frames --- */

static int do_hostile(struct node *node, void *arg)
{
    const ucp_am_recv_param_t eager = {.recv_attr = 0},
                              rendezvous = {.recv_attr = UCP_AM_RECV_ATTR_FLAG_RNDV};
    unsigned rounds = *(unsigned *)arg, seed = 1;
    uint64_t before = node->worker->stats.rejected;

    for (unsigned i = 0; i < rounds; i++) {
        size_t len = (size_t)rand_r(&seed) % 300;
        uint8_t *frame = malloc(len ? len : 1); /* exact, for the sanitizer */
        for (size_t j = 0; j < len; j++)
            frame[j] = (uint8_t)rand_r(&seed);
        if (len > 40 && i % 2) { /* as good as it gets without the key */
            uint32_t message_len = (uint32_t)len - FRAME_OVERHEAD, self = node->self.rank,
                     source = 1;
            memset(frame, 0, FRAME_PREFIX_LEN);
            frame[0] = FRAME_VERSION;
            frame[1] = i % 4 == 1 ? FRAME_KEY_OF_SENDER : i % 8 == 3 ? FRAME_PROOF : 0;
            memcpy(frame + 4, &message_len, 4);
            memcpy(frame + 8, &self, 4);
            frame[12] = NET_MSG_VERSION;
            frame[13] = NET_MSG_PING;
            frame[15] = 0;
            memset(frame + 16, 0, 4);
            memcpy(frame + 20, &source, 4);
        }
        ucs_status_t status =
            i % 3 == 0   ? net_worker_am(node->worker, frame, len, NULL, 0, &eager)
            : i % 3 == 1 ? net_worker_am(node->worker, frame, len, frame, len, &rendezvous)
                         : net_worker_am(node->worker, NULL, 0, frame, len, &eager);
        free(frame);
        if (status == UCS_INPROGRESS)
            return -1;
    }
    return node->worker->stats.rejected - before == rounds ? 0 : -1;
}

/* A frame that a member has made, with each byte changed. */
static int do_tamper(struct node *node, void *arg)
{
    const ucp_am_recv_param_t eager = {.recv_attr = 0};
    struct net_msg msg = {.type = NET_MSG_PING, .id = 1, .source = 1};
    uint8_t frame[128] = {FRAME_VERSION};
    int len =
        net_msg_encode(&msg, frame + FRAME_PREFIX_LEN, sizeof(frame) - FRAME_OVERHEAD);

    (void)arg;
    memcpy(frame + 4, &(uint32_t){(uint32_t)len}, 4);
    memcpy(frame + 8, &node->self.rank, 4);
    net_auth_sign(node->worker->auth, frame, FRAME_PREFIX_LEN + (size_t)len,
                  frame + FRAME_PREFIX_LEN + len);
    size_t total = FRAME_OVERHEAD + (size_t)len;
    uint64_t received = node->worker->stats.messages_received;
    for (size_t i = 0; i < total; i++) {
        frame[i] ^= 0x10;
        net_worker_am(node->worker, frame, total, NULL, 0, &eager);
        frame[i] ^= 0x10;
    }
    if (node->worker->stats.messages_received != received)
        return -1;
    /* a payload where none belongs */
    net_worker_am(node->worker, frame, total, frame, 10, &eager);
    if (node->worker->stats.messages_received != received)
        return -1;
    /* untouched it is one of the session's; but nobody has said hello */
    net_worker_am(node->worker, frame, total, NULL, 0, &eager);
    return node->worker->stats.messages_received == received + 1 && node->pings == 0 ? 0
                                                                                     : -1;
}

/* DATA of rank 0, which has said hello, as somebody changes it who cannot make a MAC. */
static int do_forge(struct node *node, void *arg)
{
    const struct net_peer *peer = net_worker_peer(node->worker, 0);
    const ucp_am_recv_param_t eager = {.recv_attr = 0};
    uint8_t frame[256] = {FRAME_VERSION, FRAME_PROOF}, payload[100],
            nonce[NET_AUTH_NONCE_LEN];
    struct net_msg msg = {
        .type = NET_MSG_DATA, .id = 9, .source = 0, .length = sizeof(payload)};
    struct net_auth *auth = node->worker->auth;
    uint64_t *rejected = &node->worker->stats.rejected, before = *rejected;

    (void)arg;
    fill(payload, sizeof(payload), 9);
    msg.entry.size = sum(payload, sizeof(payload)) >> 2;
    msg.source_incarnation = peer->incarnation;
    int len = net_msg_encode(&msg, frame + FRAME_PREFIX_LEN, 128);
    uint8_t *proof = frame + FRAME_PREFIX_LEN + len, *tag = proof + FRAME_PROOF_LEN;
    size_t total = (size_t)(tag - frame) + NET_AUTH_TAG_LEN;
    memcpy(frame + 4, &(uint32_t){(uint32_t)len}, 4);
    memcpy(frame + 8, &node->self.rank, 4);
    /* of a member that makes no proof */
    frame[1] = 0;
    net_auth_sign(auth, frame, (size_t)(proof - frame), proof);
    net_worker_am(node->worker, frame, FRAME_OVERHEAD + (size_t)len, payload,
                  sizeof(payload), &eager);
    if (*rejected - before != 1 || node->datas > 0)
        return -1;
    frame[1] = FRAME_PROOF;
    memcpy(proof, "number 7", 8);
    net_worker_nonce(0, peer->incarnation, proof, nonce);
    net_auth_sign_payload(auth, nonce, payload, sizeof(payload), proof + 8);
    net_auth_sign(auth, frame, (size_t)(tag - frame), tag);
    for (size_t i = 0; i < total; i++) { /* the proof is under the frame's MAC */
        frame[i] ^= 0x08;
        net_worker_am(node->worker, frame, total, payload, sizeof(payload), &eager);
        frame[i] ^= 0x08;
    }
    if (*rejected - before != 1 + total || node->datas > 0)
        return -1;
    net_worker_am(node->worker, frame, total, payload, sizeof(payload), &eager);
    if (node->datas != 1 || node->bad > 0)
        return -1;
    payload[77] ^= 0x08;
    net_worker_am(node->worker, frame, total, payload, sizeof(payload), &eager);
    return *rejected - before == 2 + total && node->datas == 1 ? 0 : -1;
}

/* Its bytes are others by the time they go. */
static int do_send_and_change(struct node *node, void *arg)
{
    static uint8_t data[4 << 20];
    struct net_msg msg = {.type = NET_MSG_DATA, .id = 5, .length = sizeof(data)};

    fill(data, sizeof(data), 5);
    if (net_worker_send(node->worker, *(uint32_t *)arg, &msg, data, sizeof(data), NULL,
                        NULL) < 0)
        return -1;
    data[sizeof(data) - 3] ^= 1;
    return 0;
}

/* They are dropped, and the connection with them: so whoever waits for something does not wait for ever. */
static void test_changed_payload(void **state)
{
    (void)state;
    for (int way = 0; way < 2; way++) {
        struct node *a = node_start(0, 0), *b = node_start(1, 0);
        uint32_t rank = 1, zero = 0;
        assert_int_equal(call(a, do_set_peer, &b->self), 0);
        assert_int_equal(send_to(a, 1, NET_MSG_PING, 1, 1, 0), 0);
        WAIT(a, a->pongs == 1);
        if (way == 0)
            assert_int_equal(call(b, do_forge, NULL), 0);
        else
            assert_int_equal(call(a, do_send_and_change, &rank), 0);
        WAIT(b, b->downs[0] == 1);
        assert_int_equal(b->down_error, EBADMSG);
        assert_int_equal(b->datas, way == 0 ? 1 : 0);
        /* as unreachable.c does; the other end hears of it, and ends what it waits for */
        assert_int_equal(call(b, do_probe, &zero), 0);
        WAIT(b, b->ups[0] == 2);
        WAIT(a, a->downs[1] == 1 && a->ups[1] == 2);
        assert_int_equal(send_to(a, 1, NET_MSG_DATA, 7, 2, 4 << 20), 0);
        WAIT(b, b->datas == (way == 0 ? 3 : 2));
        assert_int_equal(b->bad, 0);
        node_end(a);
        node_end(b);
    }
}

/* Who trusts the network makes no proof, and asks for none; but all do, or nobody. */
static void test_no_integrity(void **state)
{
    struct net_peer self[2];

    (void)state;
    for (int both = 0; both < 2; both++) {
        fill_self(&self[0], 0, 0);
        fill_self(&self[1], 1, 0);
        self[0].integrity = false;
        self[1].integrity = !both;
        struct node *a = node_start_with(&self[0]), *b = node_start_with(&self[1]);
        if (!both) {
            assert_int_equal(call(a, do_set_peer, &b->self), -1);
        } else {
            assert_int_equal(call(a, do_set_peer, &b->self), 0);
            assert_int_equal(send_to(a, 1, NET_MSG_DATA, 9, 2, 100), 0);
            assert_int_equal(send_to(a, 1, NET_MSG_DATA, 11, 2, 4 << 20), 0);
            WAIT(b, b->datas == 4);
            assert_int_equal(b->bad, 0);
            assert_int_equal(stats_of(b).rejected, 0);
        }
        node_end(a);
        node_end(b);
    }
}

/* All goes over connections that are encrypted; but so do all, or nobody. */
static void test_encrypt(void **state)
{
    struct net_peer self[2];

    (void)state;
#ifdef DYAD_SANITIZED
    skip(); /* UCX does not come to the door */
#endif
    for (int both = 0; both < 2; both++) {
        fill_self(&self[0], 0, 0);
        fill_self(&self[1], 1, 0);
        self[0].integrity = self[1].integrity = false;
        self[0].encrypt = true;
        self[1].encrypt = both;
        struct node *a = node_start_with(&self[0]), *b = node_start_with(&self[1]);
        if (!both) {
            assert_int_equal(call(a, do_set_peer, &b->self), -1);
        } else {
            assert_int_equal(call(a, do_set_peer, &b->self), 0);
            assert_int_equal(send_to(a, 1, NET_MSG_DATA, 9, 2, 100), 0);
            assert_int_equal(send_to(a, 1, NET_MSG_DATA, 11, 2, 64 << 20), 0);
            WAIT(b, b->datas == 4);
            assert_int_equal(send_to(b, 0, NET_MSG_DATA, 13, 2, 4 << 20), 0);
            WAIT(a, a->datas == 2);
            assert_int_equal(a->bad + b->bad, 0);
            assert_int_equal(stats_of(b).rejected + stats_of(b).refused, 0);
        }
        node_end(a);
        node_end(b);
    }
}

static void test_hostile(void **state)
{
    struct node *a = node_start(0, 0);
    unsigned rounds = 20000;

    (void)state;
    assert_int_equal(call(a, do_hostile, &rounds), 0);
    assert_int_equal(call(a, do_tamper, NULL), 0);
    assert_int_equal(a->news + a->pings + a->datas, 0);
    node_end(a);
}

/* --- peers that die: processes --- */

struct child {
    bool stays; /* when its peer is gone */
    pid_t pid;
    int out;
    struct net_peer peer;
};

/* The child: its blob to stdout, then a byte for each message that it gets. */
static int child_main(bool stays)
{
    struct node *node = node_start(1, 0);

    if (write(STDOUT_FILENO, &node->self, sizeof(node->self)) != sizeof(node->self))
        return 1;
    for (unsigned seen = 0;;) {
        WAIT(node, node->pings > seen || (node->downs[0] > 0 && !stays));
        if (node->downs[0] > 0 && !stays)
            break;
        seen++;
        if (write(STDOUT_FILENO, "x", 1) != 1)
            return 1;
    }
    node_end(node);
    return 0;
}

static char program[PATH_MAX];

static void read_all(int fd, void *buf, size_t len)
{
    for (size_t got = 0; got < len;) {
        ssize_t n = read(fd, (uint8_t *)buf + got, len - got);
        assert_true(n > 0);
        got += (size_t)n;
    }
}

static void child_start(struct child *child)
{
    int out[2];

    assert_int_equal(pipe(out), 0);
    child->pid = fork();
    assert_true(child->pid >= 0);
    if (child->pid == 0) {
        dup2(out[1], STDOUT_FILENO);
        close(out[0]);
        close(out[1]);
        execl(program, program, child->stays ? "stays" : "child", (char *)NULL);
        _exit(127);
    }
    close(out[1]);
    child->out = out[0];
    read_all(child->out, &child->peer, sizeof(child->peer));
}

static void child_stop(struct child *child)
{
    int status;

    kill(child->pid, SIGSTOP);
    assert_int_equal(waitpid(child->pid, &status, WUNTRACED), child->pid);
    assert_true(WIFSTOPPED(status));
}

static void child_kill(struct child *child)
{
    kill(child->pid, SIGKILL);
    assert_int_equal(waitpid(child->pid, NULL, 0), child->pid);
    close(child->out);
}

static void connect_child(struct node *a, struct child *child)
{
    char seen;

    child_start(child);
    assert_int_equal(call(a, do_set_peer, &child->peer), 0);
    assert_int_equal(send_to(a, 1, NET_MSG_PING, 1, 1, 0), 0);
    WAIT(a, a->pongs == 1 && a->pending == 0);
    read_all(child->out, &seen, 1);
    assert_int_equal(seen, 'x');
}

static void test_peer_killed(void **state)
{
    struct node *a = node_start(0, 0);
    struct child child = {0};

    (void)state;
    connect_child(a, &child);
    /* It stands still, so that these are pending when it dies. */
    child_stop(&child);
    assert_int_equal(send_to(a, 1, NET_MSG_DATA, 1, 6, 16 << 20), 0);
    assert_int_equal(send_to(a, 1, NET_MSG_DATA, 1, 100, 4096), 0);
    pthread_mutex_lock(&a->lock);
    unsigned pending = a->pending;
    pthread_mutex_unlock(&a->lock);
    assert_true(pending >= 6);
    uint64_t start = util_clock_now();
    child_kill(&child);
    WAIT(a, a->downs[1] == 1);
    uint64_t took = util_clock_now() - start;
    assert_true(took < 5 * UTIL_NSEC_PER_SEC);
    print_message("peer_down %.1f ms after kill -9\n", (double)took / 1e6);
    assert_false(a->down_before_sends);
    assert_int_equal(a->pending, 0);
    assert_true(a->sent_failed >= 6);
    assert_int_equal(send_to(a, 1, NET_MSG_PING, 1, 1, 0), -1);
    assert_int_equal(errno, EHOSTUNREACH);
    assert_int_equal(stats_of(a).endpoints, 0);

    /* nobody listens at a dead one's address */
    child.peer.incarnation++;
    assert_int_equal(call(a, do_set_peer, &child.peer), 0);
    if (send_to(a, 1, NET_MSG_PING, 1, 1, 0) < 0) /* UCX may see it at once */
        assert_int_equal(errno, EHOSTUNREACH);
    WAIT(a, a->downs[1] == 2);
    assert_int_equal(a->pending, 0);
    node_end(a);
}

static void test_peer_silent(void **state)
{
    struct node *a = node_start(0, 0);
    struct child child = {0};
    uint32_t one = 1;

    (void)state;
    connect_child(a, &child);
    child_stop(&child);
    assert_int_equal(send_to(a, 1, NET_MSG_DATA, 1, 4, 16 << 20), 0);
    /* The user's deadline passes: the buffers come back although the peer does nothing. */
    call(a, do_peer_down, &one);
    WAIT(a, a->downs[1] == 1);
    assert_int_equal(a->pending, 0);
    assert_int_equal(a->sent_failed, 4);
    assert_false(a->down_before_sends);
    assert_int_equal(a->last_status, EHOSTUNREACH);
    child_kill(&child);
    node_end(a);
}

/* --- taken for dead --- */

static void two_that_talk(struct node **a, struct node **b)
{
    *a = node_start(0, 0);
    *b = node_start(1, 0);
    assert_int_equal(call(*a, do_set_peer, &(*b)->self), 0);
    assert_int_equal(send_to(*a, 1, NET_MSG_PING, 1, 1, 0), 0);
    WAIT(*a, (*a)->pongs == 1);
    assert_int_equal((*b)->ups[0], 1);
}

/* Both ways, over connections that are new. Afterwards no end owes the other an answer of UCX's own: a worker that is destroyed while
 * it does ends the process on an assertion ("got REP message"). */
static void talk_both(struct node *a, struct node *b)
{
    assert_int_equal(send_to(a, 1, NET_MSG_PING, 2, 1, 0), 0);
    WAIT(a, a->pongs == 2);
    assert_int_equal(send_to(b, 0, NET_MSG_PING, 1, 1, 0), 0);
    WAIT(b, b->pongs == 1);
}

static void talk_again(struct node *a, struct node *b)
{
    talk_both(a, b);
    assert_int_equal(stats_of(a).endpoints, 1);
    assert_int_equal(stats_of(b).endpoints, 1);
    assert_int_equal(a->bad + b->bad, 0);
}

/* One took the other for dead, which learns of it by the question. */
static void test_revive_one_sided(void **state)
{
    struct node *a, *b;
    uint32_t zero = 0, one = 1;

    (void)state;
    two_that_talk(&a, &b);
    assert_int_equal(call(a, do_probe, &one), -1);
    assert_int_equal(errno, EINVAL); /* it is not down */
    call(a, do_peer_down, &one);
    WAIT(a, a->downs[1] == 1);
    assert_int_equal(send_to(a, 1, NET_MSG_PING, 2, 1, 0), -1);
    assert_int_equal(errno, EHOSTUNREACH);
    assert_int_equal(b->downs[0], 0);
    assert_int_equal(call(a, do_probe, &one), 0);
    WAIT(a, a->ups[1] == 2);
    WAIT(b, b->ups[0] == 2);
    assert_int_equal(b->downs[0], 1);
    assert_int_equal(b->down_error, ECONNRESET);
    talk_again(a, b);

    /* The same the other way round. */
    call(b, do_peer_down, &zero);
    WAIT(b, b->downs[0] == 2);
    assert_int_equal(call(b, do_probe, &zero), 0);
    WAIT(b, b->ups[0] == 3);
    WAIT(a, a->ups[1] == 3);
    assert_int_equal(a->downs[1], 2);
    node_end(a);
    node_end(b);
}

/* Both took each other for dead, and ask: one after the other, or at once. */
static void test_revive_both(void **state)
{
    uint32_t zero = 0, one = 1;

    (void)state;
    for (int at_once = 0; at_once < 2; at_once++) {
        struct node *a, *b;
        two_that_talk(&a, &b);
        call(a, do_peer_down, &one);
        call(b, do_peer_down, &zero);
        WAIT(a, a->downs[1] == 1);
        WAIT(b, b->downs[0] == 1);
        assert_int_equal(call(a, do_probe, &one), 0);
        if (at_once)
            call(b, do_probe, &zero); /* or A's question was first */
        WAIT(a, a->ups[1] == 2);
        WAIT(b, b->ups[0] == 2);
        if (!at_once)
            talk_again(a, b);
        else
            talk_both(a, b);
        assert_int_equal(a->downs[1], 1);
        assert_int_equal(b->downs[0], 1);
        node_end(a);
        node_end(b);
    }
}

/* Who does not know that it is taken for dead says something: it is asked, and then knows.
 */
static void test_revive_unasked(void **state)
{
    struct node *a, *b;
    uint32_t one = 1;

    (void)state;
    two_that_talk(&a, &b);
    call(a, do_peer_down, &one);
    WAIT(a, a->downs[1] == 1);
    if (send_to(b, 0, NET_MSG_PING, 1, 1, 0) < 0)
        fail_msg("B knows that A has lost it");
    WAIT(a, a->ups[1] == 2);
    WAIT(b, b->ups[0] == 2);
    assert_int_equal(a->pings, 0); /* that one did not count */
    talk_again(a, b);
    node_end(a);
    node_end(b);
}

/* Stopped for longer than anybody's patience, then not. */
static void test_revive_stopped(void **state)
{
    struct node *a = node_start(0, 0);
    struct child child = {.stays = true};
    uint32_t one = 1;

    (void)state;
    connect_child(a, &child);
    child_stop(&child);
    call(a, do_peer_down, &one);
    WAIT(a, a->downs[1] == 1);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(call(a, do_probe, &one), 0);
        assert_true(stats_of(a).endpoints <= 1);
    }
    assert_int_equal(READ(a, a->ups[1]), 1);
    kill(child.pid, SIGCONT);
    WAIT(a, a->ups[1] == 2);
    assert_int_equal(send_to(a, 1, NET_MSG_PING, 2, 1, 0), 0);
    WAIT(a, a->pongs == 2);
    assert_int_equal(READ(a, a->downs[1]), 1);
    child_kill(&child);
    node_end(a);
}

static sem_t goes_on;

static void stand_still(void *arg)
{
    (void)arg;
    sem_wait(&goes_on);
}

/* One takes the other for dead and asks `asks` times, of which the last can be heard. Then
 * a large payload comes through both ways. */
static void lose_and_find(struct node *loser, struct node *lost, unsigned asks)
{
    uint32_t rank = lost->self.rank, back = loser->self.rank;
    struct net_post post;
    unsigned loser_ups = READ(loser, loser->ups[rank]),
             lost_ups = READ(lost, lost->ups[back]);
    unsigned loser_datas = READ(loser, loser->datas), lost_datas = READ(lost, lost->datas);

    net_loop_post(lost->loop, &post, stand_still, NULL);
    call(loser, do_peer_down, &rank);
    for (unsigned i = 0; i < asks; i++)
        assert_int_equal(call(loser, do_probe, &rank), 0);
    sem_post(&goes_on);
    WAIT(loser, loser->ups[rank] == loser_ups + 1);
    WAIT(lost, lost->ups[back] == lost_ups + 1);
    assert_int_equal(send_to(loser, rank, NET_MSG_DATA, 1, 1, 1 << 20), 0);
    assert_int_equal(send_to(lost, back, NET_MSG_DATA, 2, 1, 1 << 20), 0);
    WAIT(lost, lost->datas == lost_datas + 1 && lost->pending == 0);
    WAIT(loser, loser->datas == loser_datas + 1 && loser->pending == 0);
    assert_int_equal(loser->bad + lost->bad, 0);
}

/* One has made more connections than the other, which comes to make as many later. */
static void test_revive_uneven(void **state)
{
    struct node *a, *b;

    (void)state;
    assert_int_equal(sem_init(&goes_on, 0, 0), 0);
    two_that_talk(&a, &b);
    lose_and_find(a, b, 5);
    for (int i = 0; i < 8; i++)
        lose_and_find(a, b, 1);
    for (int i = 0; i < 4; i++)
        lose_and_find(b, a, 4);
    assert_int_equal(stats_of(a).endpoints, 1);
    assert_int_equal(stats_of(b).endpoints, 1);
    node_end(a);
    node_end(b);
    sem_destroy(&goes_on);
}

/* The dead do not answer, and to ask them costs nothing that stays. */
static void test_revive_dead(void **state)
{
    struct node *a = node_start(0, 0);
    struct child child = {0};
    uint32_t one = 1, nobody = NOBODY;

    (void)state;
    connect_child(a, &child);
    child_kill(&child);
    WAIT(a, a->downs[1] == 1);
    for (unsigned i = 1; i <= 3; i++) {
        uint64_t start = util_clock_now();
        assert_int_equal(call(a, do_probe, &one), 0);
        WAIT(a, a->unanswered == i);
        print_message("a question to nobody fails after %.1f ms\n",
                      (double)(util_clock_now() - start) / 1e6);
        assert_int_equal(stats_of(a).endpoints, 0);
    }
    assert_int_equal(a->downs[1], 1);
    assert_int_equal(a->ups[1], 1);
    assert_int_equal(call(a, do_probe, &nobody), -1);
    assert_int_equal(errno, EINVAL);
    node_end(a);
}

/* Destruction waits for a silent peer no longer than its bound. */
static void test_destroy_silent(void **state)
{
    struct node *a = node_start(0, 0);
    struct child child = {0};

    (void)state;
    connect_child(a, &child);
    child_stop(&child);
    assert_int_equal(send_to(a, 1, NET_MSG_DATA, 1, 4, 16 << 20), 0);
    uint64_t start = util_clock_now();
    node_join(a);
    assert_true(util_clock_now() - start < 6 * UTIL_NSEC_PER_SEC);
    assert_int_equal(a->pending, 0);
    assert_int_equal(a->sent_failed, 4);
    assert_int_equal(a->last_status, ECANCELED);
    child_kill(&child);
    node_free(a);
}

/* --- promoted guests --- */

static struct node *guest_start(const struct node *member, uint32_t slot,
                                uint32_t incarnation, const uint8_t *key)
{
    struct net_peer self;

    fill_self(&self, net_guest_id(member->self.rank, slot), incarnation);
    if (key)
        memcpy(self.key, key, sizeof(self.key));
    else
        assert_int_equal(
            net_auth_derive(member->self.key, self.rank, incarnation, self.key), 0);
    return node_start_with(&self);
}

/* What a member tells of its guest: all but the key. */
static int name_guest(struct node *node, const struct node *guest)
{
    struct net_peer info = guest->self;

    memset(info.key, 0, sizeof(info.key));
    return call(node, do_set_peer, &info);
}

/* A guest begins, with what its member told it of A; A has heard of the member only. */
static void test_guest_asks(void **state)
{
    struct node *a = node_start(0, 0), *member = node_start(1, 3);
    struct node *guest = guest_start(member, 5, 7, NULL);

    (void)state;
    assert_int_equal(call(a, do_set_peer, &member->self), 0);
    assert_int_equal(call(guest, do_set_peer, &a->self), 0);
    assert_int_equal(send_to(guest, 0, NET_MSG_PING, 1, 10, 0), 0);
    WAIT(guest, guest->pongs == 10 && guest->pending == 0);
    WAIT(a, a->ups[NRANKS] == 1 && a->pings == 10 && a->pending == 0);
    assert_int_equal(send_to(a, guest->self.rank, NET_MSG_DATA, 1, 2, 1 << 20), 0);
    WAIT(guest, guest->datas == 2 && guest->bad == 0);
    WAIT(a, a->pending == 0);

    /* Its slot is given to another. */
    node_end(guest);
    WAIT(a, a->downs[NRANKS] == 1);
    assert_int_equal(send_to(a, net_guest_id(1, 5), NET_MSG_PING, 1, 1, 0), -1);
    assert_int_equal(errno, EHOSTUNREACH);
    guest = guest_start(member, 5, 8, NULL);
    assert_int_equal(call(guest, do_set_peer, &a->self), 0);
    assert_int_equal(send_to(guest, 0, NET_MSG_PING, 11, 1, 0), 0);
    WAIT(guest, guest->pongs == 1 && guest->pending == 0);
    WAIT(a, a->ups[NRANKS] == 2 && a->pending == 0 && a->bad == 0);
    assert_int_equal(stats_of(a).rejected + stats_of(guest).rejected, 0);
    assert_int_equal(a->needs[0] + a->needs[1], 0);
    node_end(guest);
    node_end(member);
    node_end(a);
}

/* A guest is asked, by whom its member has named it to; it knows nobody. */
static void test_guest_is_asked(void **state)
{
    struct node *a = node_start(0, 0), *member = node_start(1, 0);
    struct node *guest = guest_start(member, 0, 1, NULL);

    (void)state;
    /* Whose member is not known has no key. */
    assert_int_equal(send_to(a, guest->self.rank, NET_MSG_PING, 1, 1, 0), -1);
    assert_int_equal(errno, EHOSTUNREACH);
    assert_int_equal(call(a, do_set_peer, &member->self), 0);
    assert_int_equal(name_guest(a, guest), 0);
    assert_int_equal(send_to(a, guest->self.rank, NET_MSG_PING, 1, 1, 0), 0);
    WAIT(a, a->pongs == 1 && a->pending == 0); /* signed with the guest's own key */
    WAIT(guest, guest->pings == 1 && guest->pending == 0);
    assert_int_equal(stats_of(a).rejected + stats_of(guest).rejected, 0);
    node_end(a);
    node_end(guest);
    node_end(member);
}

/* Nobody is a guest of a rank without that rank's key. */
static void test_guest_forged(void **state)
{
    static const uint8_t other[NET_PEER_KEY_LEN] = {1, 2, 3};
    struct node *a = node_start(0, 0), *member = node_start(1, 0);
    struct node *forger = guest_start(member, 1, 1, other);
    struct node *nowhere = guest_start(a, 1, 1, NULL);

    (void)state;
    assert_int_equal(call(a, do_set_peer, &member->self), 0);
    assert_int_equal(name_guest(a, forger), 0);
    assert_int_equal(send_to(a, forger->self.rank, NET_MSG_PING, 1, 1, 0), 0);
    WAIT(a, a->pending == 0);
    assert_int_not_equal(stats_of(forger).refused, 0);
    assert_int_equal(stats_of(forger).rejected, 0);
    assert_int_equal(forger->pings, 0);
    /* The guest of a rank that A does not know: not even its name gets in. */
    struct net_peer unknown = nowhere->self;
    unknown.rank = net_guest_id(2, 1);
    memset(unknown.key, 0, sizeof(unknown.key));
    assert_int_equal(call(a, do_set_peer, &unknown), -1);
    assert_int_equal(errno, EINVAL);
    unknown.rank = net_guest_id(NRANKS, 1);
    assert_int_equal(call(a, do_set_peer, &unknown), -1);
    assert_false(net_is_guest(DYAD_RANK_NONE));
    assert_false(net_is_guest(NRANKS));
    node_end(a);
    node_end(member);
    node_end(forger);
    node_end(nowhere);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hello),
        cmocka_unit_test(test_small_messages),
        cmocka_unit_test(test_payloads),
        cmocka_unit_test(test_blobs),
        cmocka_unit_test(test_large_hello),
        cmocka_unit_test(test_wrong_key),
        cmocka_unit_test(test_mismatch),
        cmocka_unit_test(test_never_known),
        cmocka_unit_test(test_incarnations),
        cmocka_unit_test(test_destroy_pending),
        cmocka_unit_test(test_changed_payload),
        cmocka_unit_test(test_no_integrity),
        cmocka_unit_test(test_encrypt),
        cmocka_unit_test(test_hostile),
        cmocka_unit_test(test_peer_killed),
        cmocka_unit_test(test_peer_silent),
        cmocka_unit_test(test_destroy_silent),
        cmocka_unit_test(test_guest_asks),
        cmocka_unit_test(test_guest_is_asked),
        cmocka_unit_test(test_guest_forged),
        cmocka_unit_test(test_revive_one_sided),
        cmocka_unit_test(test_revive_both),
        cmocka_unit_test(test_revive_unasked),
        cmocka_unit_test(test_revive_stopped),
        cmocka_unit_test(test_revive_uneven),
        cmocka_unit_test(test_revive_dead),
    };

    if (readlink("/proc/self/exe", program, sizeof(program) - 1) < 0)
        return 1;
    if (argc > 1)
        return child_main(strcmp(argv[1], "stays") == 0);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
