/*
 * bench_ucx.c - a round trip of an active message over UCX's TCP, both ends asleep in epoll
 *
 *   bench_ucx ROUNDS     prints "round-trip" and the microseconds of each
 *
 * What a message between two members costs at least: one worker each, woken by its event
 * descriptor, 200 bytes there and back. The child answers.
 */
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <ucp/api/ucp.h>
#include <unistd.h>

#define BYTES 200
#define AM    1

struct end {
    ucp_context_h context;
    ucp_worker_h worker;
    ucp_ep_h ep;
    int efd;
    unsigned arrived;
};

static void must(int ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "bench_ucx: %s\n", what);
        exit(1);
    }
}

static ucs_status_t arrived(void *arg, const void *header, size_t header_len, void *data,
                            size_t len, const ucp_am_recv_param_t *param)
{
    struct end *end = arg;

    (void)header;
    (void)header_len;
    (void)data;
    (void)len;
    (void)param;
    end->arrived++;
    return UCS_OK;
}

static void swap(int fd, const void *own, size_t len, void *other, size_t size)
{
    uint32_t n = (uint32_t)len;

    must(write(fd, &n, 4) == 4 && write(fd, own, len) == (ssize_t)len, "write");
    must(recv(fd, &n, 4, MSG_WAITALL) == 4 && n <= size &&
             recv(fd, other, n, MSG_WAITALL) == (ssize_t)n,
         "read");
}

static void connect_to(struct end *end, int fd)
{
    ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES,
                           .features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP};
    ucp_worker_params_t single = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                  .thread_mode = UCS_THREAD_MODE_SINGLE};
    ucp_am_handler_param_t am = {.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID |
                                               UCP_AM_HANDLER_PARAM_FIELD_CB |
                                               UCP_AM_HANDLER_PARAM_FIELD_ARG,
                                 .id = AM,
                                 .cb = arrived,
                                 .arg = end};
    ucp_ep_params_t to = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS};
    ucp_address_t *address;
    ucp_config_t *config;
    size_t len;
    char other[4096];

    must(ucp_config_read(NULL, NULL, &config) == UCS_OK, "ucp_config_read");
    must(ucp_init(&params, config, &end->context) == UCS_OK, "ucp_init");
    ucp_config_release(config);
    must(ucp_worker_create(end->context, &single, &end->worker) == UCS_OK &&
             ucp_worker_set_am_recv_handler(end->worker, &am) == UCS_OK &&
             ucp_worker_get_efd(end->worker, &end->efd) == UCS_OK &&
             ucp_worker_get_address(end->worker, &address, &len) == UCS_OK,
         "a worker");
    swap(fd, address, len, other, sizeof(other));
    to.address = (const ucp_address_t *)other;
    must(ucp_ep_create(end->worker, &to, &end->ep) == UCS_OK, "ucp_ep_create");
    ucp_worker_release_address(end->worker, address);
}

/* Until so many have arrived: progress, then sleep. */
static void await(struct end *end, unsigned n)
{
    while (end->arrived < n) {
        if (ucp_worker_progress(end->worker) || ucp_worker_arm(end->worker) == UCS_ERR_BUSY)
            continue;
        struct pollfd efd = {.fd = end->efd, .events = POLLIN};
        must(poll(&efd, 1, 10000) == 1, "nothing arrives");
    }
}

static void say(struct end *end)
{
    static const char bytes[BYTES];
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
                                 .flags = UCP_AM_SEND_FLAG_EAGER};
    void *request = ucp_am_send_nbx(end->ep, AM, bytes, BYTES, NULL, 0, &param);

    must(!UCS_PTR_IS_ERR(request), "ucp_am_send_nbx");
    while (request && ucp_request_check_status(request) == UCS_INPROGRESS)
        ucp_worker_progress(end->worker);
    if (request)
        ucp_request_free(request);
}

static double now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec * 1e6 + (double)ts.tv_nsec / 1e3;
}

int main(int argc, char **argv)
{
    unsigned rounds = argc == 2 ? (unsigned)atoi(argv[1]) : 0;
    struct end end = {0};
    int fds[2];

    if (rounds == 0) {
        fputs("usage: bench_ucx ROUNDS\n", stderr);
        return 2;
    }
    setenv("UCX_TLS", "tcp,self", 0);
    setenv("UCX_NET_DEVICES", "lo", 0);
    must(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0, "socketpair");
    pid_t child = fork(); /* before UCX, which does not survive it */
    close(fds[child != 0]);
    connect_to(&end, fds[child == 0]);
    if (child == 0) {
        for (unsigned i = 1; i <= rounds; i++) {
            await(&end, i);
            say(&end);
        }
        await(&end, rounds + 1); /* the last answer has left */
        _exit(0);
    }
    printf("round-trip");
    for (unsigned i = 1; i <= rounds; i++) {
        double start = now();
        say(&end);
        await(&end, i);
        printf(" %.1f", now() - start);
    }
    printf("\n");
    fflush(stdout);
    say(&end);
    while (waitpid(child, NULL, WNOHANG) == 0)
        ucp_worker_progress(end.worker);
    _exit(0);
}
