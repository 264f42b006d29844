/*
 * client_ask.c - a request to the rank's member
 *
 * A request is one connection: connect, send, receive, close. It costs some 15 us more
 * than a kept connection would, and nothing can go wrong with it when a program forks,
 * execs or closes every descriptor.
 *
 * What could go wrong: another thread of the program closes our number and opens a file
 * that gets it. Only send, recv and poll are used on the connection, so they fail with
 * ENOTSOCK and touch nothing (poll may wait in vain, for as long as its caller has
 * patience). The member goes away in the midst of a request (ROUNDS), or waits for this
 * very thread (await_answer()).
 */
#include <endian.h>
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "boot/member_claim.h"
#include "client/client.h"
#include "client/client_borrow_fd.h"
#include "client/client_impl.h"
#include "util/clock.h"
#include "util/loader.h"
#include "util/log.h"

static int send_all(int fd, const void *data, size_t len)
{
    const char *p = data;

    while (len > 0) {
        ssize_t n = send(fd, p, len, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        p += n;
        len -= (size_t)n;
    }
    return 0;
}

/* How long an interrupted open still waits for its answer: a file that is there is fetched,
 * whatever timer ticks. */
#define GRACE (200 * UTIL_NSEC_PER_MSEC)

/* recv() was interrupted, so a handler has run that was installed without SA_RESTART. Which
 * one it was nobody says. A signal that is ignored by default (a child's end, above all:
 * perl's $SIG{CHLD}) asks nobody to stop, and one that stands for a fault did not come from
 * outside; where all others restart it was one of these. */
static bool asks_to_stop(void)
{
    static const int others[] = {SIGCHLD, SIGCONT, SIGURG,  SIGWINCH, SIGSEGV, SIGBUS,
                                 SIGFPE,  SIGILL,  SIGTRAP, SIGSYS,   SIGABRT};
    uint64_t passed = 0;

    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        passed |= (uint64_t)1 << others[i];
    for (int number = 1; number < 64; number++) {
        struct sigaction action;
        if (!(passed >> number & 1) && sigaction(number, NULL, &action) == 0 &&
            !(action.sa_flags & SA_RESTART) && action.sa_handler != SIG_DFL &&
            action.sa_handler != SIG_IGN)
            return true;
    }
    return false;
}

/* EINTR; or 0: the answer has come meanwhile. */
static int interrupted(int fd)
{
    struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
    uint64_t now = util_clock_now(), until = now + GRACE;

    do {
        if (poll(&poll_fd, 1, (int)((until - now) / UTIL_NSEC_PER_MSEC) + 1) > 0)
            return 0;
    } while ((now = util_clock_now()) < until);
    return EINTR;
}

/* `interruptible`: EINTR, if nothing has come yet. */
static int recv_all(int fd, void *data, size_t len, bool interruptible)
{
    char *p = data;

    while (len > 0) {
        ssize_t n = recv(fd, p, len, MSG_WAITALL);
        if (n < 0 && errno == EINTR) {
            if (interruptible && p == data && asks_to_stop() &&
                (errno = interrupted(fd)) != 0)
                return -1;
            continue;
        }
        if (n <= 0) {
            if (n == 0)
                errno = ECONNRESET;
            return -1;
        }
        p += n;
        len -= (size_t)n;
    }
    return 0;
}

static void close_cancelled(void *fd)
{
    close(*(int *)fd);
}

/* When it is first looked whether the member waits for this thread, and how often then. */
#define LOADER_FIRST (200 * UTIL_NSEC_PER_MSEC)
#define LOADER_AGAIN (1000 * UTIL_NSEC_PER_MSEC)

/* True if the member behind this connection may wait for this thread. */
static bool may_wait_for_us(const struct client *client, int fd)
{
    struct ucred peer;
    socklen_t len = sizeof(peer);

    return client_member_loads(client) && util_loader_held() &&
           getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0 &&
           peer.pid == getpid();
}

/* Wait until there is something to receive. -1 with EDEADLK: nothing will come before the
 * constructor that this thread runs has ended.
 *
 * A thread that asks in a constructor of a library holds the dynamic loader's lock. If
 * the member is this process, and its thread waits for that lock (UCX and PMIx load
 * libraries up to the join; before, the thread loads the engine, and the member's state
 * says nothing of it yet), no answer can come before the constructor has ended: the
 * request ends instead. Where this thread waits in a constructor poll() does not tell
 * which handler has run: one that restarts ends the wait, too, if the program has another
 * that does not. */
static int await_answer(const struct client_asking *a, int fd)
{
    struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
    bool constructs = may_wait_for_us(a->client, fd);
    uint64_t now = util_clock_now(), check = now + LOADER_FIRST;

    while (a->patience || constructs) {
        int wait_ms = a->patience ? a->patience->wait_ms(a->patience->arg) : -1, rc;

        if (wait_ms == 0) {
            errno = ETIMEDOUT;
            return -1;
        }
        if (constructs) {
            if ((now = util_clock_now()) >= check) {
                if (client_member_loads(a->client) && util_loader_awaited()) {
                    errno = EDEADLK;
                    return -1;
                }
                check = now + LOADER_AGAIN;
            }
            int check_ms = (int)((check - now) / UTIL_NSEC_PER_MSEC) + 1;
            wait_ms = wait_ms < 0 || check_ms < wait_ms ? check_ms : wait_ms;
        }
        rc = poll(&poll_fd, 1, wait_ms);
        if (rc > 0)
            return 0;
        if (rc < 0 && errno != EINTR)
            return -1;
        /* EINTR: patience knows what is left */
        if (rc < 0 && a->interruptible && asks_to_stop() && (errno = interrupted(fd)) != 0)
            return -1;
    }
    return 0;
}

/* DYAD_POLL_US: an answer that comes soon is there before this thread would have slept. A
 * signal handler that runs meanwhile does not end the wait, as one that runs before it. */
static void poll_answer(const struct client *client, int fd)
{
    uint64_t until = util_clock_now() + (uint64_t)client->config.poll_us * 1000;
    char byte;

    while (recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN &&
           util_clock_now() < until)
        sched_yield();
}

static int answer_begins(const struct client_asking *a, int fd, uint32_t *len)
{
    if (a->client->config.poll_us)
        poll_answer(a->client, fd);
    return await_answer(a, fd) < 0 ? -1 : recv_all(fd, len, sizeof(*len), a->interruptible);
}

/* The first bytes of the answer, for which there may be long to wait: handlers of the
 * program run meanwhile, and make requests of their own. One that was installed without
 * SA_RESTART ends the wait of an open, as it does where the kernel makes an open wait (a
 * FIFO). Only a consumer can be cancelled or interrupted: what it asked for ends with its
 * connection. */
static int recv_answer(const struct client_asking *a, int fd, uint32_t *len)
{
    bool consumes = a->request->type == NET_MSG_GUEST_CONSUME;
    const struct client *client = a->client;
    int rc, error;

    if (!client->waits || a->apart)
        return answer_begins(a, fd, len);
    pthread_cleanup_push(close_cancelled, &fd);
    client->waits(true, consumes);
    rc = answer_begins(a, fd, len);
    error = errno;
    client->waits(false, consumes);
    pthread_cleanup_pop(0);
    errno = error;
    return rc;
}

static int recv_frame(const struct client_asking *a, int fd)
{
    uint32_t len;

    if (recv_answer(a, fd, &len) < 0)
        return -1;
    len = le32toh(len);
    if (len > a->size) {
        errno = EPROTO;
        return -1;
    }
    if (recv_all(fd, a->buf, len, false) < 0)
        return -1;
    return net_msg_decode(a->reply, a->buf, len);
}

/* Pages that come before the answer are given to `page`; NULL: none are expected. */
static int exchange(const struct client_asking *a, int fd)
{
    unsigned char frame[4 + NET_MSG_HEADER_MAX + DYAD_UPATH_MAX + 1];
    uint32_t len;
    int n = net_msg_encode(a->request, frame + 4, sizeof(frame) - 4);

    if (n < 0)
        return -1;
    len = htole32((uint32_t)n);
    memcpy(frame, &len, 4);
    if (send_all(fd, frame, 4 + (size_t)n) < 0)
        return -1;
    if (a->page && a->page(a->arg, NULL) < 0)
        return -1;
    for (;;) {
        if (recv_frame(a, fd) < 0)
            return -1;
        if (a->reply->type == NET_MSG_DONE)
            return 0;
        if (!a->page) {
            errno = EPROTO;
            return -1;
        }
        if (a->page(a->arg, a->reply) < 0)
            return -1;
    }
}

/* Connect to a live member, becoming it if there is none and may_start. */
static int member_connect(struct client *client, bool may_start)
{
    int fd;

    if (client_member_over()) {
        errno = ESHUTDOWN;
        return -1;
    }
    fd = boot_member_claim_connect(&client->claim, client->claim_len);
    if (fd < 0 && errno == ECONNREFUSED && may_start && !client->identity.guest_only) {
        if (client_member_start(client) < 0)
            return -1;
        fd = boot_member_claim_connect(&client->claim, client->claim_len);
    }
    if (fd >= 0 && boot_member_claim_peer(fd) < 0) {
        close(fd);
        errno = EPERM;
        return -1;
    }
    return fd;
}

/* A member that execs goes away in the midst of requests; the claim lives on in its next
 * image, and every request may be made twice. Each round needs a member that accepted us.
 */
#define ROUNDS 8

/* The member closes connections of other users' processes without a word: a program that
 * changed its user (setuid, su) is one. */
static bool refuses_user(int fd, uid_t *its_user)
{
    struct ucred peer;
    socklen_t len = sizeof(peer);

    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0 || peer.uid == geteuid())
        return false;
    *its_user = peer.uid;
    return true;
}

int client_request(struct client *client, const struct net_msg *request,
                   struct net_msg *reply, void *buf)
{
    return client_request_pages(client, request, reply, buf, NET_MSG_HEADER_MAX, NULL,
                                NULL);
}

/* On the connection that is there already. It may be of no use any more (the member has
 * gone; the program has closed the number): then as without it. */
static bool ask_early(struct client_asking *a)
{
    int fd = a->connection && !a->apart ? *a->connection : -1;
    bool answered;

    if (fd < 0)
        return false;
    *a->connection = -1;
    answered = exchange(a, fd) == 0 && a->reply->status != ESHUTDOWN;
    close(fd);
    return answered;
}

static int ask(void *arg)
{
    struct client_asking *a = arg;
    const struct net_msg *request = a->request;
    int fd = -1;
    int error = 0;
    uid_t user;

    if (ask_early(a)) {
        errno = a->reply->status;
        return a->reply->status ? -1 : 0;
    }
    for (int round = 0; round < ROUNDS; round++) {
        if ((fd = member_connect(a->client, !a->apart)) < 0)
            break;
        if (exchange(a, fd) == 0) {
            close(fd);
            if (a->reply->status != ESHUTDOWN) {
                errno = a->reply->status;
                return a->reply->status ? -1 : 0;
            }
            error = ESHUTDOWN;
            continue;
        }
        error = errno;
        if ((error == ECONNRESET || error == EPIPE) && refuses_user(fd, &user)) {
            close(fd);
            log_error(
                "%s of \"%s\": this rank's member runs as user %u and serves no process of "
                "user %u: a program that changes its user cannot share files",
                net_msg_name(request->type), request->entry.upath, (unsigned)user,
                (unsigned)geteuid());
            if (a->patience)
                a->patience->refused = true;
            errno = EACCES;
            return -1;
        }
        close(fd);
        if (error == EDEADLK && a->patience) {
            a->patience->loader = true;
            error = ETIMEDOUT;
        }
        if (error == EDEADLK) {
            log_error(
                "%s of \"%s\": this rank's member begins in this process, and waits for "
                "the library that is being loaded here, whose constructor asks: what needs "
                "the member is for after the loading",
                net_msg_name(request->type), request->entry.upath);
            errno = EHOSTUNREACH;
            return -1;
        }
        if (error == EINTR || (error == ETIMEDOUT && a->patience)) {
            errno = error;
            return -1;
        }
        if (error != ECONNRESET && error != EPIPE)
            break;
    }
    if (a->patience)
        a->patience->refused = fd < 0 && errno == EPERM;
    a->full = fd < 0 && errno == EMFILE;
    if (a->full && !a->apart)
        return -1;
    log_error("%s of \"%s\": %s: %s", net_msg_name(request->type), request->entry.upath,
              fd < 0 ? "this rank's member cannot be reached on this node"
                     : "this rank's member went away before it answered",
              strerror(error ? error : errno));
    errno = EHOSTUNREACH;
    return -1;
}

/* True if an open waits for this request: without a free number the open would fail, too.
 */
static bool is_for_open(const struct net_msg *request)
{
    return request->type == NET_MSG_GUEST_CONSUME &&
           (request->flags & (NET_LOOKUP_WAIT | NET_CONSUME_WRITER));
}

int client_ask(struct client_asking *a)
{
    int rc = ask(a);

    if (rc < 0 && a->full && !is_for_open(a->request)) {
        a->apart = true; /* no number is free here: by a thread that has some */
        rc = client_borrow_fd(ask, a);
    }
    return rc;
}

int client_request_pages(struct client *client, const struct net_msg *request,
                         struct net_msg *reply, void *buf, size_t size, front_page_fn page,
                         void *arg)
{
    struct client_asking a = {.client = client,
                              .request = request,
                              .reply = reply,
                              .buf = buf,
                              .size = size,
                              .page = page,
                              .arg = arg};

    return client_ask(&a);
}

/* A connection may be made before it is needed: it tells the member of this process's
 * end. */
int client_connect(struct client *client)
{
    int saved = errno, fd = member_connect(client, false);

    errno = saved;
    return fd;
}

/* A byte that is no request: the member waits for nothing of us. */
void client_disconnect(int connection)
{
    int saved = errno;

    if (connection >= 0) {
        send(connection, "", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
        close(connection);
    }
    errno = saved;
}
