/*
 * worker.c - UCX's context and worker, and their place in the loop's turn
 *
 * The worker sleeps on its event descriptor: progress until nothing is left, arm, sleep.
 * Where the user has not said otherwise in UCX's own variables, shared memory is left out
 * (endpoints with error handling cannot use it, and its segments cost start-up time), UCP's
 * keepalive timer is off (it would wake an idle member), and TCP's is short, so that the
 * kernel finds a dead link.
 *
 * What could go wrong at the end: a peer that does not take what it was sent. Destruction
 * flushes for at most two seconds, then closes by force, and gives UCX one more to hand
 * back the sends.
 */
#include "net/worker.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "net/devices.h"
#include "net/worker_impl.h"
#include "util/clock.h"
#include "util/log.h"
#include "utlist.h"

#define FLUSH_BOUND   (2 * UTIL_NSEC_PER_SEC)
#define CLOSE_BOUND   (1 * UTIL_NSEC_PER_SEC)
#define DOOR_EACH     64 /* turns of the loop with messages */
#define PROGRESS_EFDS 16 /* there are two or three; others would be heard at the bound */

/* A UCX that is given a name that it does not know says so on the program's standard
 * output: below 1.17 the settings of a transport have their name without its prefix. */
static const struct {
    const char *name, *old_name, *value;
} overrides[] = {
    {"TLS", "TLS", "^sm"},
    {"KEEPALIVE_INTERVAL", "KEEPALIVE_INTERVAL", "inf"},
    {"TCP_KEEPIDLE", "KEEPIDLE", "1s"},
    {"TCP_KEEPINTVL", "KEEPINTVL", "1s"},
    {"TCP_KEEPCNT", "KEEPCNT", "2"},
    {"TCP_CONN_NB", "CONN_NB",
     "y"}, /* a connect to a silent node must not hold up the loop */
    /* One event at a time: the handling of one may close the endpoint of another that
     * epoll has returned in the same call (both ends connect at once, both give up), and
     * UCX ends the process on an assertion then. */
    {"TCP_MAX_POLL", "MAX_POLL", "1"},
    /* A cache of registered memory hooks mmap and brk from our thread, by writing over
     * their code. UCX_MEM_EVENTS=n prevents it too, but is the program's own choice where
     * that uses MPI (boot/environ.h). */
    {"RCACHE_ENABLE", "RCACHE_ENABLE", "n"},
    /* Where a socket fails, or an endpoint is closed by force, with a send without a copy
     * under way, UCX's TCP completes it twice, and leaves the stream cut off in the midst
     * of a message (uct_tcp_ep_sendv, uct_tcp_ep_purge; so still in 1.13 and later): the
     * request is given back twice, and the heap is damaged. So nothing is sent without a
     * copy; with buffers of this size it is about as fast. */
    {"ZCOPY_THRESH", "ZCOPY_THRESH", "inf"},
    {"TCP_TX_SEG_SIZE", "TX_SEG_SIZE", "64kb"},
};

static char devices[1024]; /* "": as UCX_NET_DEVICES says */

void net_worker_use_devices(const char *chosen, bool local)
{
    devices[0] = '\0';
    if (chosen)
        snprintf(devices, sizeof(devices), "%s", chosen);
    else if (local && !getenv("UCX_NET_DEVICES"))
        net_devices_local(devices, sizeof(devices));
}

/* The user's own variables go first. */
static void override(ucp_config_t *config)
{
    unsigned major, minor, release;

    ucp_get_version(&major, &minor, &release);
    bool old = major == 1 && minor < 17;
    for (size_t i = 0; i < sizeof(overrides) / sizeof(overrides[0]); i++) {
        const char *name = old ? overrides[i].old_name : overrides[i].name;
        char variable[64];
        snprintf(variable, sizeof(variable), "UCX_%s", overrides[i].name);
        if (!getenv(variable) &&
            ucp_config_modify(config, name, overrides[i].value) != UCS_OK)
            log_debug("UCX does not take %s=%s", name, overrides[i].value);
    }
    if (devices[0] && ucp_config_modify(config, "NET_DEVICES", devices) != UCS_OK)
        log_warn("UCX does not take the devices %s", devices);
}

int net_worker_errno(ucs_status_t status)
{
    switch (status) {
    case UCS_OK:
        return 0;
    case UCS_ERR_NO_MEMORY:
        return ENOMEM;
    case UCS_ERR_CANCELED:
        return ECANCELED;
    case UCS_ERR_CONNECTION_RESET:
    case UCS_ERR_NOT_CONNECTED:
        return ECONNRESET;
    case UCS_ERR_UNREACHABLE:
    case UCS_ERR_REJECTED:
        return EHOSTUNREACH;
    case UCS_ERR_TIMED_OUT:
    case UCS_ERR_ENDPOINT_TIMEOUT:
        return ETIMEDOUT;
    default:
        return EIO;
    }
}

static int open_context(struct net_worker *worker)
{
    ucp_config_t *config;
    ucp_params_t params = {
        .field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_NAME,
        .features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP,
        .name = "dyad",
    };

    ucs_status_t status = ucp_config_read(NULL, NULL, &config);
    if (status != UCS_OK)
        goto failed;
    override(config);
    if (worker->self.encrypt) /* the door encrypts nothing else */
        status = ucp_config_modify(config, "TLS", "tcp");
    if (status == UCS_OK)
        status = ucp_init(&params, config, &worker->context);
    ucp_config_release(config);
    if (status == UCS_OK)
        return 0;
failed:
    log_error("UCX cannot be started (%s): check UCX_TLS and DYAD_NET_DEVICES",
              ucs_status_string(status));
    errno = net_worker_errno(status);
    return -1;
}

/* The address that others connect to: network devices only, an endpoint uses no other. */
static int read_address(struct net_worker *worker)
{
    ucp_worker_attr_t attr = {
        .field_mask = UCP_WORKER_ATTR_FIELD_ADDRESS | UCP_WORKER_ATTR_FIELD_ADDRESS_FLAGS |
                      UCP_WORKER_ATTR_FIELD_MAX_AM_HEADER,
        .address_flags = UCP_WORKER_ADDRESS_FLAG_NET_ONLY,
    };

    ucs_status_t status = ucp_worker_query(worker->ucp, &attr);
    if (status != UCS_OK) {
        log_error(
            "UCX has no address for this process (%s): check UCX_TLS and DYAD_NET_DEVICES",
            ucs_status_string(status));
        errno = net_worker_errno(status);
        return -1;
    }

    int rc = 0;
    if (attr.address_length > NET_PEER_ADDRESS_MAX) {
        log_error(
            "the UCX address has %zu bytes, at most %d can be passed on: "
            "name fewer devices in DYAD_NET_DEVICES or fewer transports in UCX_TLS",
            attr.address_length, NET_PEER_ADDRESS_MAX);
        errno = EMSGSIZE;
        rc = -1;
    } else {
        memcpy(worker->self.address, attr.address, attr.address_length);
        worker->self.address_len = attr.address_length;
        worker->header_max = attr.max_am_header;
    }
    ucp_worker_release_address(worker->ucp, attr.address);
    return rc;
}

static int open_worker(struct net_worker *worker)
{
    const ucp_worker_params_t params = {
        .field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
        .thread_mode = UCS_THREAD_MODE_SINGLE,
    };
    const ucp_am_handler_param_t handler = {
        .field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                      UCP_AM_HANDLER_PARAM_FIELD_ARG,
        .id = WORKER_AM_ID,
        .cb = net_worker_am,
        .arg = worker,
    };

    ucs_status_t status = ucp_worker_create(worker->context, &params, &worker->ucp);
    if (status != UCS_OK)
        goto failed;
    status = ucp_worker_set_am_recv_handler(worker->ucp, &handler);
    if (status == UCS_OK)
        status = ucp_worker_get_efd(worker->ucp, &worker->efd);
    if (status != UCS_OK)
        goto destroy_ucp;
    if (read_address(worker) == 0)
        return 0;
    int saved = errno;
    ucp_worker_destroy(worker->ucp);
    errno = saved;
    return -1;

destroy_ucp:
    ucp_worker_destroy(worker->ucp);
failed:
    log_error("UCX cannot open a worker (%s)", ucs_status_string(status));
    errno = net_worker_errno(status);
    return -1;
}

/* --- the loop's turn --- */

static unsigned progress(void *arg)
{
    struct net_worker *worker = arg;
    unsigned n = net_worker_progress(worker);

    if (++worker->turns % DOOR_EACH ==
        0) /* as long as there is anything the loop looks at no event */
        net_door_turn(worker->door);
    return n + net_worker_tidy(worker);
}

static bool arm(void *arg)
{
    return net_worker_arm(arg);
}

/* UCX's port takes what it gets from anybody, and what goes past the door is not encrypted. False: so it is, EPERM. */
static bool is_shut(const struct net_worker *worker)
{
#ifdef DYAD_SANITIZED /* whose runtime keeps our functions from UCX */
    const bool needed = worker->self.encrypt;
#else
    const bool needed = true;
#endif
    if (!needed || !net_door_is_passed())
        return true;
    log_error(
        "UCX's port cannot be guarded against other users and hosts: UCX was loaded "
        "before this library, and a second copy of it cannot be had (glibc 2.34 can). %s",
        worker->self.encrypt
            ? "So nothing can be encrypted (DYAD_ENCRYPT)"
            : "DYAD_PORT_GUARD=0, in the whole session, leaves the port open");
    errno = EPERM;
    return false;
}

static int open_door(struct net_worker *worker)
{
    worker->door = net_door_create(worker->loop, &net_worker_door_ops, worker);
    if (!worker->door)
        return -1;
    if (!worker->self.encrypt || net_door_encrypt(worker->door) == 0)
        return 0;
    net_door_destroy(worker->door);
    log_error("DYAD_ENCRYPT=1 needs DYAD_PORT_GUARD=1, in the whole session");
    errno = EPERM;
    return -1;
}

/* The event is only there to wake the loop, which calls progress before it sleeps again. */
static void on_event(void *arg, int fd, uint32_t events)
{
    (void)arg;
    (void)fd;
    (void)events;
}

struct net_worker *net_worker_create(struct net_loop *loop, struct net_peer *self,
                                     uint32_t nranks, const struct net_worker_ops *ops,
                                     void *arg)
{
    struct net_worker *worker = calloc(1, sizeof(*worker));
    int saved;

    if (!worker)
        return NULL;
    if (!net_is_guest(self->rank) && net_auth_random(self->key, sizeof(self->key)) < 0)
        goto free_worker;
    /* Of an incarnation that came twice (.dyad was removed) numbers are others. */
    if (net_auth_random(&worker->proofs, sizeof(worker->proofs)) < 0)
        goto free_worker;
    worker->loop = loop;
    worker->self = *self;
    worker->nranks = nranks;
    worker->ops = ops;
    worker->arg = arg;
    worker->peers = calloc(nranks ? nranks : 1, sizeof(*worker->peers));
    if (!worker->peers)
        goto free_worker;
    worker->auth = net_auth_create(self->key);
    if (!worker->auth)
        goto free_peers;
    if (open_door(worker) < 0)
        goto destroy_auth;
    if (open_context(worker) < 0)
        goto destroy_door;
    if (open_worker(worker) < 0)
        goto cleanup_context;
    if (!is_shut(worker))
        goto destroy_ucp;
    worker->watch = net_loop_watch(loop, worker->efd, EPOLLIN, on_event, worker);
    if (!worker->watch)
        goto destroy_ucp;
    net_loop_set_progress(loop, progress, arm, worker);

    memcpy(self->address, worker->self.address, worker->self.address_len);
    self->address_len = worker->self.address_len;
    return worker;

destroy_ucp:
    saved = errno;
    ucp_worker_destroy(worker->ucp);
    errno = saved;
cleanup_context:
    saved = errno;
    ucp_cleanup(worker->context);
    errno = saved;
destroy_door:
    saved = errno;
    net_door_destroy(worker->door);
    errno = saved;
destroy_auth:
    net_auth_destroy(worker->auth);
free_peers:
    free(worker->peers);
free_worker:
    saved = errno;
    log_error("the network part cannot be started: %m");
    explicit_bzero(worker, sizeof(*worker));
    free(worker);
    errno = saved;
    return NULL;
}

/* --- the end --- */

/* Progress until `ready` or until the time is up. */
static void progress_until(struct net_worker *worker,
                           bool (*ready)(struct net_worker *worker), uint64_t bound)
{
    uint64_t end = util_clock_now() + bound;

    for (;;) {
        net_door_turn(worker->door); /* who leaves, too, may have to be let in first */
        while (net_worker_progress(worker) + net_worker_run_done(worker) > 0)
            ;
        uint64_t now = util_clock_now();
        if (ready(worker) || now >= end)
            return;
        if (!net_worker_arm(worker))
            continue;
        struct pollfd efds[PROGRESS_EFDS] = {
            {.fd = worker->efd, .events = POLLIN},
            {.fd = net_door_fd(worker->door), .events = POLLIN}};
        struct later_worker *later;
        nfds_t n = 2;
        DL_FOREACH(worker->later_workers, later)
        {
            if (n < PROGRESS_EFDS)
                efds[n++] = (struct pollfd){.fd = later->efd, .events = POLLIN};
        }
        poll(efds, n, (int)((end - now) / UTIL_NSEC_PER_MSEC) + 1);
    }
}

static bool all_flushed(struct net_worker *worker)
{
    struct conn *conn;

    DL_FOREACH(worker->conns, conn)
    {
        if (!conn->failed && (conn->flush || conn->inflight))
            return false;
    }
    return true;
}

static bool all_returned(struct net_worker *worker)
{
    struct conn *conn;

    DL_FOREACH(worker->conns, conn)
    {
        if (conn->inflight || conn->flush)
            return false;
    }
    return true;
}

static void on_flushed(void *request, ucs_status_t status, void *arg)
{
    struct conn *conn = arg;

    (void)status;
    conn->flush = NULL;
    ucp_request_free(request);
}

static void start_flush(struct net_worker *worker)
{
    struct conn *conn;

    DL_FOREACH(worker->conns, conn)
    {
        const ucp_request_param_t param = {
            .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
            .cb.send = on_flushed,
            .user_data = conn,
        };
        if (conn->failed)
            continue;
        void *request = ucp_ep_flush_nbx(conn->ep, &param);
        conn->flush = UCS_PTR_IS_PTR(request) ? request : NULL;
    }
}

/* Not lost: it goes with the image. */
static void leave_to_image(struct net_worker *worker)
{
    static struct net_worker *volatile left __attribute__((used, unused));
    left = worker;
}

void net_worker_abandon(struct net_worker *worker)
{
    worker->destroying = true;
    net_loop_set_progress(worker->loop, NULL, NULL, NULL);
    net_watch_destroy(worker->watch);
    net_worker_later_sleep(worker);
    net_door_shut(worker->door);
    leave_to_image(worker);
}

void net_worker_destroy(struct net_worker *worker, bool image_ends)
{
    if (!worker)
        return;

    worker->destroying = true; /* nothing is accepted or delivered any more */
    net_loop_set_progress(worker->loop, NULL, NULL, NULL);
    net_watch_destroy(worker->watch);
    net_worker_later_sleep(worker);
    net_door_sleep(worker->door);

    net_worker_cancel_queued(worker, ECANCELED);
    start_flush(worker);
    progress_until(worker, all_flushed, FLUSH_BOUND);
    net_worker_close_all(worker);
    progress_until(worker, all_returned, CLOSE_BOUND);

    if (image_ends) { /* see the header */
        net_door_shut(worker->door);
        leave_to_image(worker);
        return;
    }
    net_worker_later_free(worker, true);
    ucp_worker_destroy(worker->ucp);
    ucp_cleanup(worker->context);
    net_door_destroy(worker->door);
    /* UCX touches no buffer any more, so what it has not given back is ours again. */
    net_worker_free_receives(worker);
    net_worker_free_conns(worker);
    net_worker_free_peers(worker);
    net_auth_destroy(worker->auth);
    free(worker->peers);
    explicit_bzero(worker, sizeof(*worker)); /* keys */
    free(worker);
}

void net_worker_get_stats(struct net_worker *worker, struct net_worker_stats *stats)
{
    *stats = worker->stats;
    stats->refused = net_door_refused(worker->door);
}
