/*
 * net_bench.c - what two members on one machine reach: round-trip time and bandwidth
 *
 * net_bench [ROUNDS]: a child process is the peer. PING/PONG of the smallest message, one
 * at a time (median, 99th percentile), then 1,024 GETs of 1 MiB with 4 in flight, twice.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "net/worker.h"
#include "util/clock.h"

#define CHUNK  (1u << 20)
#define CHUNKS 1024
#define FLIGHT 4

static struct net_loop *loop;
static struct net_worker *worker;
static bool child;
static unsigned rounds = 10000, done, asked;
static uint64_t *times, start;
static void *chunk;
static enum { PINGS, WARM_CHUNKS, CHUNKS_TIMED } phase;

static void ping(void)
{
    struct net_msg msg = {.type = NET_MSG_PING, .id = done};

    start = util_clock_now();
    if (net_worker_send(worker, 1, &msg, NULL, 0, NULL, NULL) < 0)
        abort();
}

static void ask(void)
{
    struct net_msg msg = {.type = NET_MSG_GET,
                          .id = asked,
                          .entry.upath = "dir/file.dat",
                          .offset = (uint64_t)asked * CHUNK,
                          .length = CHUNK};

    if (asked++ < CHUNKS && net_worker_send(worker, 1, &msg, NULL, 0, NULL, NULL) < 0)
        abort();
}

static void ask_first(void)
{
    done = asked = 0;
    start = util_clock_now();
    for (int i = 0; i < FLIGHT; i++)
        ask();
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

static void receive(void *arg, const struct net_msg *msg, void *payload, size_t len)
{
    struct net_msg reply = {.id = msg->id};

    (void)arg;
    switch ((int)msg->type) {
    case NET_MSG_PING:
        reply.type = NET_MSG_PONG;
        net_worker_send(worker, 0, &reply, NULL, 0, NULL, NULL);
        break;
    case NET_MSG_GET:
        reply.type = NET_MSG_DATA;
        reply.length = msg->length;
        net_worker_send(worker, 0, &reply, chunk, msg->length, NULL, NULL);
        break;
    case NET_MSG_PONG:
        times[done++] = util_clock_now() - start;
        if (done < rounds) {
            ping();
            break;
        }
        qsort(times, rounds, sizeof(*times), compare);
        printf("round trip: median %.1f us, 99 %% %.1f us (%u rounds)\n",
               (double)times[rounds / 2] / 1e3, (double)times[rounds * 99 / 100] / 1e3,
               rounds);
        phase = WARM_CHUNKS;
        ask_first();
        break;
    case NET_MSG_DATA:
        if (len != CHUNK)
            abort();
        done++;
        ask();
        if (done < CHUNKS)
            break;
        double seconds = (double)(util_clock_now() - start) / 1e9;
        printf("%s: %u x %u bytes, %d in flight: %.2f GB/s\n",
               phase == WARM_CHUNKS ? "first" : "again", CHUNKS, CHUNK, FLIGHT,
               (double)CHUNKS * CHUNK / seconds / 1e9);
        if (phase == WARM_CHUNKS) {
            phase = CHUNKS_TIMED;
            ask_first();
        } else {
            net_loop_stop(loop);
        }
        break;
    default:
        abort();
    }
    net_worker_recycle(worker, payload, len);
}

static void need(void *arg, uint32_t rank)
{
    (void)arg;
    (void)rank;
}

static void down(void *arg, uint32_t rank, int error)
{
    (void)arg;
    (void)rank;
    (void)error;
    if (!child)
        abort();
    net_loop_stop(loop);
}

static void up(void *arg, const struct net_peer *peer)
{
    (void)arg;
    (void)peer;
}

static const struct net_worker_ops ops = {
    .receive = receive, .need_peer = need, .peer_down = down, .peer_up = up};

int main(int argc, char **argv)
{
    int pipes[2];
    sigset_t all;
    struct net_peer self = {.depth = 2, .bins = 256, .replicas = 2}, peer;

    if (argc > 1)
        rounds = (unsigned)atoi(argv[1]);
    if (rounds == 0 || pipe(pipes) < 0)
        return 1;
    pid_t pid = fork();
    if (pid < 0)
        return 1;
    child = pid == 0;
    self.rank = child;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    loop = net_loop_create();
    worker = loop ? net_worker_create(loop, &self, 2, &ops, NULL) : NULL;
    if (!worker)
        return 1;
    if (child) {
        chunk = malloc(CHUNK);
        memset(chunk, 1, CHUNK);
        if (write(pipes[1], &self, sizeof(self)) != sizeof(self))
            return 1;
    } else {
        times = calloc(rounds, sizeof(*times));
        if (read(pipes[0], &peer, sizeof(peer)) != sizeof(peer))
            return 1;
        net_worker_set_peer(worker, &peer);
        ping();
    }
    net_loop_run(loop);
    net_worker_destroy(worker, false);
    net_loop_destroy(loop);
    if (!child)
        waitpid(pid, NULL, 0);
    free(times);
    free(chunk);
    return 0;
}
