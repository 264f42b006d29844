/*
 * door.c - descriptors of UCX until both ends have proved that they are of the session
 *
 * One that is not in `sides` is of no interest, or was let in.
 *
 *   side       is                                 until
 *   LISTENS    an event in place of the socket,   UCX closes it
 *              which is readable as long as
 *              somebody is to be accepted
 *   CONNECTS   being connected                    UCX sends for the first time: the token goes ahead
 *   AWAITS     connected; what comes is the       the proof is right: OPEN; or wrong: as if the other end
 *              other end's proof                  had reset it
 *   OPEN       UCX's; so is who was let in        UCX closes it
 *
 * UCX also connects by itself: once more, where it has failed, right after it has closed what was not OPEN, or has received
 * an error from it; and to one that has connected to us, at another address, when it has a request of that one: which came by
 * the last recv(). So one name is enough (`heard`). It is none that lasts: an address may be another rank's by then.
 *
 * `sides` is the loop thread's; UCX's own thread, which accepts, only looks a listening one up.
 */
#include "net/door.h"

#include <dirent.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <openssl/crypto.h>
#include <utlist.h>

#include "net/door_impl.h"
#include "net/door_real.h"
#include "util/clock.h"
#include "util/entry.h"
#include "util/log.h"

#define FULL_PAUSE_MS 20 /* where no descriptor is free */

enum side_kind { LISTENS = 1, CONNECTS, AWAITS, OPEN };

struct side {
    enum side_kind kind;
    struct net_door *door;
    struct door_listener *listener;
    struct door_peer peer;      /* the other end */
    struct door_stream *stream; /* what encrypts, or NULL */
    uint8_t token[NET_DOOR_TOKEN_LEN];
    bool introduced; /* the token is made */
    size_t sent;     /* of the token */
    uint8_t proof[DOOR_PROOF_LEN], come[DOOR_PROOF_LEN];
    size_t got; /* of the proof */
};

static struct side *_Atomic sides[DOOR_SIDES];
static _Thread_local struct net_door *here; /* of the thread's worker */
static bool left_open;

static struct side *side_of(int fd)
{
    return fd >= 0 && fd < DOOR_SIDES ? atomic_load(&sides[fd]) : NULL;
}

/* --- the listening end --- */

int net_door_listen(int fd, int backlog)
{
    struct side *side;

    if (left_open || net_door_real()->listen(fd, backlog) < 0)
        return left_open ? net_door_real()->listen(fd, backlog) : -1;
    if (!here || fd < 0 || fd >= DOOR_SIDES) {
        errno = EMFILE;
        return -1;
    }
    if (!(side = calloc(1, sizeof(*side))))
        return -1;
    *side = (struct side){
        .kind = LISTENS, .door = here, .listener = door_listener_create(here, fd)};
    if (!side->listener) {
        free(side);
        return -1;
    }
    atomic_store(&sides[fd], side);
    return 0;
}

/* For any error but EAGAIN UCX closes its listening socket, for good; and it comes again at once, for somebody is still there. */
static int accept_open(int fd, struct sockaddr *addr, socklen_t *len)
{
    int accepted = net_door_real()->accept(fd, addr, len);

    if (accepted >= 0 || (errno != EMFILE && errno != ENFILE && errno != ENOBUFS &&
                          errno != ENOMEM && errno != ECONNABORTED))
        return accepted;
    poll(NULL, 0, FULL_PAUSE_MS); /* it is UCX's own thread */
    errno = EAGAIN;
    return -1;
}

int net_door_accept(int fd, struct sockaddr *addr, socklen_t *len)
{
    struct side *side = side_of(fd), *open;
    struct door_stream *stream;
    struct door_peer peer;

    if (!side || side->kind != LISTENS)
        return accept_open(fd, addr, len);
    if ((fd = door_listener_take(side->listener, addr, len, &peer, &stream)) < 0)
        return -1;
    if (fd >= DOOR_SIDES || !(open = calloc(1, sizeof(*open)))) {
        door_stream_destroy(stream);
        net_door_real()->close(fd);
        errno = EAGAIN; /* UCX has no use for other errors */
        return -1;
    }
    *open = (struct side){.kind = OPEN, .door = side->door, .peer = peer, .stream = stream};
    atomic_store(&sides[fd], open);
    return fd;
}

int net_door_getsockname(int fd, struct sockaddr *addr, socklen_t *len)
{
    struct side *side = side_of(fd);

    return net_door_real()->getsockname(
        side && side->kind == LISTENS ? side->listener->real : fd, addr, len);
}

/* --- the connecting end --- */

int net_door_connect(int fd, const struct sockaddr *addr, socklen_t len)
{
    struct side *side;
    struct door_peer peer;
    int rc;

    if (left_open || (addr->sa_family != AF_INET && addr->sa_family != AF_INET6))
        return net_door_real()->connect(fd, addr, len);
    if (!here || fd < 0 || fd >= DOOR_SIDES || side_of(fd) ||
        !(side = calloc(1, sizeof(*side)))) {
        errno = ECONNREFUSED;
        return -1;
    }
    peer =
        here->whom == DYAD_RANK_NONE ? here->heard : (struct door_peer){.rank = here->whom};
    rc = net_door_real()->connect(fd, addr, len);
    if (rc < 0 && errno != EINPROGRESS) {
        free(side);
        return rc;
    }
    *side = (struct side){.kind = CONNECTS, .door = here, .peer = peer};
    atomic_store(&sides[fd], side);
    return rc;
}

/* The token of a connection that UCX has made, and the proof that is to come. */
static bool introduce(struct side *side, int fd)
{
    struct net_door *door = side->door;
    struct net_door_token token = {.to = side->peer.rank,
                                   .to_incarnation = side->peer.incarnation};
    struct sockaddr_storage addr;
    socklen_t len = sizeof(addr);

    if (!door->ops->introduce(door->arg, &token) ||
        net_auth_random(token.random, sizeof(token.random)) < 0 ||
        net_door_real()->getsockname(fd, (struct sockaddr *)&addr, &len) < 0)
        return false;
    token.number = ++door->number;
    token.encrypts = door->encrypts;
    door_put_end(token.ends[0], (struct sockaddr *)&addr);
    len = sizeof(addr);
    if (getpeername(fd, (struct sockaddr *)&addr, &len) < 0)
        return false;
    door_put_end(token.ends[1], (struct sockaddr *)&addr);
    return door_token_put(side->token, &token) &&
           door_sign(door, &token, side->token, DOOR_TEXT_LEN,
                     side->token + DOOR_TEXT_LEN) &&
           door_prove(door, &token, side->token, side->proof) &&
           (!door->encrypts ||
            (side->stream = door_stream_create(door, &token, side->token, true)));
}

static void side_free(int fd, struct side *side)
{
    atomic_store(&sides[fd], NULL);
    if (side->kind == LISTENS)
        door_listener_free(side->listener);
    door_stream_destroy(side->stream);
    explicit_bzero(side, sizeof(*side));
    free(side);
}

/* The token goes ahead. 0, or -1: EAGAIN ... */
static int go_ahead(struct side *side, int fd)
{
    ssize_t n;

    if (side->kind != CONNECTS)
        return 0;
    if (!side->introduced && !(side->introduced = introduce(side, fd))) {
        errno = ECONNRESET;
        return -1;
    }
    n = net_door_real()->send(fd, side->token + side->sent, NET_DOOR_TOKEN_LEN - side->sent,
                              MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0)
        return -1;
    side->sent += (size_t)n;
    if (side->sent < NET_DOOR_TOKEN_LEN) {
        errno = EAGAIN;
        return -1;
    }
    side->kind = AWAITS;
    return 0;
}

ssize_t net_door_send(int fd, const void *data, size_t len, int flags)
{
    struct side *side = side_of(fd);

    if (side && go_ahead(side, fd) < 0)
        return -1;
    if (side && side->stream) {
        const struct iovec iov = {.iov_base = (void *)(uintptr_t)data, .iov_len = len};
        return door_stream_send(side->stream, fd, &iov, 1, flags);
    }
    return net_door_real()->send(fd, data, len, flags);
}

ssize_t net_door_sendmsg(int fd, const struct msghdr *msg, int flags)
{
    struct side *side = side_of(fd);

    if (side && go_ahead(side, fd) < 0)
        return -1;
    if (side && side->stream)
        return door_stream_send(side->stream, fd, msg->msg_iov, msg->msg_iovlen, flags);
    return net_door_real()->sendmsg(fd, msg, flags);
}

static void declined(const struct side *side)
{
    const int saved = errno;

    if (side->peer.rank != DYAD_RANK_NONE)
        side->door->ops->declined(side->door->arg, side->peer.rank);
    errno = saved;
}

/* 1: the other end has proved itself. 0: it has closed; -1: EAGAIN, ECONNRESET ... */
static int hear_proof(struct side *side, int fd, int flags)
{
    ssize_t n = net_door_real()->recv(fd, side->come + side->got,
                                      DOOR_PROOF_LEN - side->got, flags & ~MSG_PEEK);
    struct sockaddr_storage addr;
    socklen_t len = sizeof(addr);

    if (n == 0 || (n < 0 && errno == ECONNRESET))
        declined(side);
    if (n <= 0)
        return (int)n;
    side->got += (size_t)n;
    if (side->got < DOOR_PROOF_LEN) {
        errno = EAGAIN;
        return -1;
    }
    if (CRYPTO_memcmp(side->come, side->proof, DOOR_PROOF_LEN) == 0)
        return 1;
    if (getpeername(fd, (struct sockaddr *)&addr, &len) == 0)
        door_refuse(side->door, &addr, "it listens in the place of a rank, and is none");
    declined(side);
    shutdown(fd, SHUT_RDWR);
    errno = ECONNRESET;
    return -1;
}

ssize_t net_door_recv(int fd, void *data, size_t len, int flags)
{
    struct side *side = side_of(fd);
    int rc;

    if (!side)
        return net_door_real()->recv(fd, data, len, flags);
    if (side->kind != OPEN) {
        if (go_ahead(side, fd) < 0)
            return -1;
        if ((rc = hear_proof(side, fd, flags)) <= 0)
            return rc;
        explicit_bzero(side->token, sizeof(side->token));
        side->kind = OPEN;
    }
    side->door->heard = side->peer;
    if (side->stream)
        return door_stream_recv(side->stream, fd, data, len, flags);
    return net_door_real()->recv(fd, data, len, flags);
}

int net_door_close(int fd)
{
    struct side *side = side_of(fd);

    if (side && (side->kind == CONNECTS || side->kind == AWAITS))
        side->door->heard = side->peer;
    if (side)
        side_free(fd, side);
    return net_door_real()->close(fd);
}

/* --- the door --- */

void net_door_leave_open(void)
{
    left_open = true;
}

static void on_event(void *arg, int fd, uint32_t events)
{
    (void)fd;
    (void)events;
    net_door_turn(arg);
}

struct net_door *net_door_create(struct net_loop *loop, const struct net_door_ops *ops,
                                 void *arg)
{
    struct net_door *door = calloc(1, sizeof(*door));

    if (!door)
        return NULL;
    *door = (struct net_door){.ops = ops,
                              .arg = arg,
                              .guests_max = door_guests_max(),
                              .number = util_clock_wall_ns(),
                              .whom = DYAD_RANK_NONE,
                              .heard.rank = DYAD_RANK_NONE};
    if ((door->epoll = epoll_create1(EPOLL_CLOEXEC)) < 0)
        goto free_door;
    if (!(door->timer = net_timer_create(loop, door_on_time, door)))
        goto close_epoll;
    if (!(door->watch = net_loop_watch(loop, door->epoll, EPOLLIN, on_event, door)))
        goto destroy_timer;
    here = door;
    return door;

destroy_timer:
    net_timer_destroy(door->timer);
close_epoll:
    net_door_real()->close(door->epoll);
free_door:
    free(door);
    errno = ENOMEM;
    return NULL;
}

int net_door_encrypt(struct net_door *door)
{
    if (left_open) {
        errno = EPERM;
        return -1;
    }
    door->encrypts = true;
    return 0;
}

int net_door_fd(const struct net_door *door)
{
    return door->epoll;
}

void net_door_sleep(struct net_door *door)
{
    if (door->watch)
        net_watch_destroy(door->watch);
    if (door->timer)
        net_timer_destroy(door->timer);
    door->watch = NULL;
    door->timer = NULL;
}

void net_door_shut(struct net_door *door)
{
    net_door_sleep(door);
    door_guests_free(door);
}

void net_door_destroy(struct net_door *door)
{
    struct door_caller *caller, *tmp;

    if (!door)
        return;
    net_door_shut(door);
    for (int fd = 0; fd < DOOR_SIDES; fd++) {
        struct side *side = side_of(fd);
        if (side && side->door == door)
            side_free(fd, side);
    }
    HASH_ITER(hh, door->callers, caller, tmp)
    {
        HASH_DEL(door->callers, caller);
        free(caller);
    }
    if (here == door)
        here = NULL;
    net_door_real()->close(door->epoll);
    free(door);
}

void net_door_expect(struct net_door *door, uint32_t rank)
{
    door->whom = rank;
}

uint64_t net_door_refused(const struct net_door *door)
{
    return door->refused;
}

bool net_door_is_passed(void)
{
    DIR *dir = opendir("/proc/thread-self/fd");
    const struct dirent *entry;
    bool passed = false;

    if (!dir)
        return !left_open;
    while (!left_open && !passed && (entry = readdir(dir))) {
        int fd = atoi(entry->d_name), listens = 0, domain = 0;
        socklen_t len = sizeof(listens), domain_len = sizeof(domain);
        passed = entry->d_name[0] != '.' && !door_is_behind(fd) &&
                 getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &len) == 0 &&
                 getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &domain_len) == 0 &&
                 listens && (domain == AF_INET || domain == AF_INET6);
    }
    closedir(dir);
    return passed;
}
