/*
 * door_guests.c - who connects to UCX's listening socket, until he has proved himself
 *
 * Who has been accepted and has not proved himself yet is a guest: for 5 s, and so many at once that the oldest goes for one
 * more. UCX hears of one that was let in by an event.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <openssl/crypto.h>
#include <utlist.h>

#include "net/door_impl.h"
#include "net/door_real.h"
#include "util/clock.h"
#include "util/log.h"

#define GUESTS       128 /* at once, of one listening socket */
#define PER_TURN     64  /* accepted, before others have their turn */
#define GUEST_TIME   (5 * UTIL_NSEC_PER_SEC)
#define NO_FD_PAUSE  (100 * UTIL_NSEC_PER_MSEC) /* no descriptor was left */
#define NONCES       (1u << 20)
#define LOG_INTERVAL (10 * UTIL_NSEC_PER_SEC)

struct door_guest {
    struct door_guest *prev, *next; /* utlist, the oldest first */
    struct door_listener *listener;
    int fd;
    struct net_watch *watch;
    uint64_t until;
    struct sockaddr_storage addr;
    size_t got;
    uint8_t token[NET_DOOR_TOKEN_LEN];
};

struct door_ready {
    struct door_ready *prev, *next; /* utlist */
    int fd;
    struct sockaddr_storage addr;
    uint32_t rank;
};

static atomic_bool behind[DOOR_SIDES]; /* listening sockets that UCX does not have */

static const char *say_end(const struct sockaddr_storage *addr, char *to, size_t size)
{
    const struct sockaddr_in6 *in6 = (const void *)addr;
    const struct sockaddr_in *in = (const void *)addr;
    bool six = addr->ss_family == AF_INET6;

    if (!inet_ntop(addr->ss_family, six ? (const void *)&in6->sin6_addr : &in->sin_addr, to,
                   (socklen_t)size))
        snprintf(to, size, "?");
    return to;
}

void door_refuse(struct net_door *door, const struct sockaddr_storage *addr,
                 const char *why)
{
    char from[INET6_ADDRSTRLEN];
    uint64_t now = util_clock_now();

    door->refused++;
    if (door->logged_at && now - door->logged_at < LOG_INTERVAL)
        return;
    log_warn(
        "%llu connection(s) refused that did not prove to be of this session; the last "
        "one, from %s: %s",
        (unsigned long long)(door->refused - door->refused_logged),
        say_end(addr, from, sizeof(from)), why);
    door->refused_logged = door->refused;
    door->logged_at = now;
}

static void guest_free(struct door_guest *guest)
{
    DL_DELETE(guest->listener->guests, guest);
    guest->listener->nguests--;
    if (guest->watch)
        net_watch_destroy(guest->watch);
    if (guest->fd >= 0)
        net_door_real()->close(guest->fd);
    free(guest);
}

static bool is_new(struct net_door *door, const uint8_t nonce[16])
{
    struct door_nonce *known;

    HASH_FIND(hh, door->nonces, nonce, 16, known);
    if (known || HASH_COUNT(door->nonces) >= NONCES || !(known = calloc(1, sizeof(*known))))
        return false;
    memcpy(known->nonce, nonce, 16);
    HASH_ADD(hh, door->nonces, nonce, 16, known);
    if (known->hh.tbl)
        return true;
    free(known);
    return false;
}

/* NULL: it is let in; or why not. */
static const char *judge(struct door_guest *guest, struct net_door_token *token)
{
    struct net_door *door = guest->listener->door;
    uint8_t ends[2][DOOR_END_LEN], right[NET_AUTH_TAG_LEN];
    struct sockaddr_storage addr;
    socklen_t len = sizeof(addr);

    if (!door_token_get(guest->token, token))
        return "it is not a connection of this version of the library";
    if (net_door_real()->getsockname(guest->fd, (struct sockaddr *)&addr, &len) < 0)
        return strerror(errno);
    door_put_end(ends[0], (struct sockaddr *)&guest->addr);
    door_put_end(ends[1], (struct sockaddr *)&addr);
    if (!door->ops->admits(door->arg, token))
        return "it is for another rank";
    if (!door->ops->sign(door->arg, token, guest->token, DOOR_TEXT_LEN, right))
        return "unknown key";
    if (CRYPTO_memcmp(right, guest->token + DOOR_TEXT_LEN, sizeof(right)) != 0)
        return "wrong key";
    if (memcmp(ends, token->ends, sizeof(ends)) != 0)
        return "its addresses are others on the way (NAT)";
    return is_new(door, token->nonce) ? NULL : "it was seen before";
}

/* UCX is told by the event. */
static bool hand_over(struct door_guest *guest, uint32_t rank)
{
    struct door_listener *listener = guest->listener;
    struct door_ready *ready = calloc(1, sizeof(*ready));
    uint64_t one = 1;

    if (!ready)
        return false;
    ready->fd = guest->fd;
    ready->addr = guest->addr;
    ready->rank = rank;
    guest->fd = -1;
    pthread_mutex_lock(&listener->lock);
    DL_APPEND(listener->ready, ready);
    pthread_mutex_unlock(&listener->lock);
    if (write(listener->fd, &one, sizeof(one)) != sizeof(one))
        log_error("a connection cannot be accepted: %m");
    return true;
}

static void guest_speaks(void *arg, int fd, uint32_t events)
{
    struct door_guest *guest = arg;
    struct net_door *door = guest->listener->door;
    struct net_door_token token;
    uint8_t proof[DOOR_PROOF_LEN];
    const char *why;
    ssize_t n;

    (void)events;
    n = net_door_real()->recv(fd, guest->token + guest->got,
                              sizeof(guest->token) - guest->got, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        if (guest->got) /* a port scan says nothing */
            door_refuse(door, &guest->addr, "it was closed");
        guest_free(guest);
        return;
    }
    guest->got += (size_t)n;
    if (memcmp(guest->token, door_magic,
               guest->got < sizeof(door_magic) ? guest->got : sizeof(door_magic)) != 0) {
        door_refuse(door, &guest->addr, "it is none of this library");
        guest_free(guest);
        return;
    }
    if (guest->got < sizeof(guest->token))
        return;
    net_watch_destroy(guest->watch);
    guest->watch = NULL;
    why = judge(guest, &token);
    if (!why && (!door_prove(door, &token, guest->token, proof) ||
                 net_door_real()->send(fd, proof, DOOR_PROOF_LEN,
                                       MSG_DONTWAIT | MSG_NOSIGNAL) != DOOR_PROOF_LEN ||
                 !hand_over(guest, token.from)))
        why = strerror(errno);
    if (why)
        door_refuse(door, &guest->addr, why);
    guest_free(guest);
}

static void watch_listener(struct door_listener *listener, bool on)
{
    net_watch_modify(listener->watch, on ? EPOLLIN : 0);
}

static void set_timer(struct net_door *door, uint64_t when)
{
    net_timer_start(door->timer, when);
}

/* Guests whose time is over; and sockets that were left alone for a while. */
void door_on_time(void *arg)
{
    struct net_door *door = arg;
    uint64_t now = util_clock_now(), next = 0;
    struct door_listener *listener;

    DL_FOREACH(door->listeners, listener)
    {
        while (listener->guests && listener->guests->until <= now) {
            door_refuse(door, &listener->guests->addr, "it said nothing in time");
            guest_free(listener->guests);
        }
        if (listener->guests && (!next || listener->guests->until < next))
            next = listener->guests->until;
        watch_listener(listener, true);
    }
    if (next)
        set_timer(door, next);
}

/* False: nobody is there, or no descriptor. */
static bool let_wait(struct door_listener *listener)
{
    struct net_door *door = listener->door;
    struct sockaddr_storage addr;
    socklen_t len = sizeof(addr);
    struct door_guest *guest;
    int fd = accept4(listener->real, (struct sockaddr *)&addr, &len,
                     SOCK_NONBLOCK | SOCK_CLOEXEC);

    if (fd < 0 &&
        (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)) {
        log_warn("a connection of another rank waits: %m");
        watch_listener(listener, false);
        set_timer(door, util_clock_now() + NO_FD_PAUSE);
    }
    if (fd < 0)
        return errno == ECONNABORTED || errno == EINTR;
    if (listener->nguests == GUESTS) {
        door_refuse(door, &listener->guests->addr, "it said nothing, and others came");
        guest_free(listener->guests);
    }
    if (!(guest = calloc(1, sizeof(*guest)))) {
        net_door_real()->close(fd);
        return true;
    }
    *guest = (struct door_guest){.listener = listener,
                                 .fd = fd,
                                 .addr = addr,
                                 .until = util_clock_now() + GUEST_TIME};
    DL_APPEND(listener->guests, guest);
    listener->nguests++;
    guest->watch = net_loop_watch(door->loop, fd, EPOLLIN, guest_speaks, guest);
    if (!guest->watch)
        guest_free(guest);
    else if (listener->nguests == 1)
        set_timer(door, guest->until);
    return true;
}

static void somebody_comes(void *arg, int fd, uint32_t events)
{
    (void)fd;
    (void)events;
    for (unsigned i = 0; i < PER_TURN && let_wait(arg); i++)
        ;
}

void door_listener_free(struct door_listener *listener)
{
    struct door_ready *ready, *next;

    DL_DELETE(listener->door->listeners, listener);
    while (listener->guests)
        guest_free(listener->guests);
    DL_FOREACH_SAFE(listener->ready, ready, next)
    {
        net_door_real()->close(ready->fd);
        free(ready);
    }
    if (listener->watch)
        net_watch_destroy(listener->watch);
    if (listener->real >= 0) {
        atomic_store(&behind[listener->real], false);
        net_door_real()->close(listener->real);
    }
    pthread_mutex_destroy(&listener->lock);
    free(listener);
}

struct door_listener *door_listener_create(struct net_door *door, int fd)
{
    struct door_listener *listener = calloc(1, sizeof(*listener));
    int bell, saved;

    if (!listener)
        return NULL;
    pthread_mutex_init(&listener->lock, NULL);
    listener->door = door;
    listener->fd = fd;
    DL_APPEND(door->listeners, listener);
    bell = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC | EFD_SEMAPHORE);
    listener->real = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (listener->real >= DOOR_SIDES) {
        net_door_real()->close(listener->real);
        listener->real = -1;
        errno = EMFILE;
    }
    if (listener->real < 0 || bell < 0)
        goto error;
    listener->watch =
        net_loop_watch(door->loop, listener->real, EPOLLIN, somebody_comes, listener);
    if (!listener->watch || dup3(bell, fd, O_CLOEXEC) < 0)
        goto error;
    net_door_real()->close(bell);
    atomic_store(&behind[listener->real], true);
    return listener;
error:
    saved = errno;
    if (bell >= 0)
        net_door_real()->close(bell);
    door_listener_free(listener);
    errno = saved;
    return NULL;
}

int door_listener_take(struct door_listener *listener, struct sockaddr *addr,
                       socklen_t *len, uint32_t *rank)
{
    struct door_ready *ready;
    uint64_t one;
    int accepted;

    if (read(listener->fd, &one, sizeof(one)) < 0)
        return -1; /* EAGAIN */
    pthread_mutex_lock(&listener->lock);
    ready = listener->ready;
    if (ready)
        DL_DELETE(listener->ready, ready);
    pthread_mutex_unlock(&listener->lock);
    if (!ready) {
        errno = EAGAIN;
        return -1;
    }
    accepted = ready->fd;
    *rank = ready->rank;
    if (addr && len) {
        socklen_t size = ready->addr.ss_family == AF_INET6 ? sizeof(struct sockaddr_in6)
                                                           : sizeof(struct sockaddr_in);
        memcpy(addr, &ready->addr, *len < size ? *len : size);
        *len = size;
    }
    free(ready);
    return accepted;
}

void door_listener_shut(struct door_listener *listener)
{
    while (listener->guests)
        guest_free(listener->guests);
    if (listener->watch)
        net_watch_destroy(listener->watch);
    listener->watch = NULL;
}

bool door_is_behind(int fd)
{
    return fd >= 0 && fd < DOOR_SIDES && atomic_load(&behind[fd]);
}
