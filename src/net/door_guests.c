/*
 * door_guests.c - who connects to UCX's listening socket, until he has proved himself
 *
 * Who has been accepted and has not proved himself yet is a guest: for 5 s, and so many at once that the oldest goes for one
 * more, or, where that has come only now, others wait in the kernel's queue. UCX hears of one that was let in by an event.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include <openssl/crypto.h>
#include <utlist.h>

#include "net/door_impl.h"
#include "net/door_real.h"
#include "util/clock.h"
#include "util/log.h"

#define GUESTS_MAX   128 /* at once, or an eighth of the descriptors */
#define PER_TURN     64  /* events, before others have their turn */
#define GUEST_TIME   (5 * UTIL_NSEC_PER_SEC)
#define GUEST_YOUNG  (50 * UTIL_NSEC_PER_MSEC) /* his token may be on its way */
#define PAUSE        (20 * UTIL_NSEC_PER_MSEC)
#define LOG_INTERVAL (10 * UTIL_NSEC_PER_SEC)

struct door_guest {
    struct door_source source;
    struct door_guest *prev, *next; /* utlist */
    struct door_listener *listener;
    int fd;
    uint64_t since;
    struct sockaddr_storage addr;
    size_t got;
    uint8_t token[NET_DOOR_TOKEN_LEN];
};

struct door_ready {
    struct door_ready *prev, *next; /* utlist */
    int fd;
    struct sockaddr_storage addr;
    struct door_peer peer;
    struct door_stream *stream;
};

static atomic_bool behind[DOOR_SIDES]; /* listening sockets that UCX does not have */

static void guest_free(struct door_guest *guest)
{
    struct net_door *door = guest->listener->door;

    DL_DELETE(door->guests, guest);
    door->nguests--;
    if (guest->fd >= 0)
        net_door_real()->close(guest->fd);
    free(guest);
}

void door_guests_free(struct net_door *door)
{
    while (door->guests)
        guest_free(door->guests);
}

static int watch(const struct net_door *door, int op, int fd, uint32_t events,
                 struct door_source *source)
{
    struct epoll_event event = {.events = events, .data.ptr = source};

    return epoll_ctl(door->epoll, op, fd, &event);
}

static struct door_caller *caller_of(struct net_door *door, uint32_t from)
{
    struct door_caller *caller;

    HASH_FIND(hh, door->callers, &from, sizeof(from), caller);
    if (caller || !(caller = calloc(1, sizeof(*caller))))
        return caller;
    caller->from = from;
    HASH_ADD(hh, door->callers, from, sizeof(from), caller);
    if (caller->hh.tbl)
        return caller;
    free(caller);
    return NULL;
}

/* A token that was heard on its way could come once more, from the same address. So a process counts its tokens, and of each
 * rank (or promoted guest) those are remembered of the newest incarnation, among the last DOOR_WINDOW numbers; what is older
 * is refused, whether it was seen or not. So what was seen is remembered or refused, and the memory is bounded by the ranks,
 * however long the session lasts. Who is refused for nothing, because so many have overtaken him, connects anew.
 *
 * A process begins to count at the time of day in ns, so one whose incarnation came before (.dyad was removed) goes on above.
 *
 * No random number of ours is in it, which would make this needless: UCX speaks right behind the token, by sends that block
 * and, where it connects to an endpoint that it knows, with data; an answer would have to come before. */
bool door_is_new(struct net_door *door, const struct net_door_token *token)
{
    struct door_caller *caller = caller_of(door, token->from);
    const uint64_t number = token->number, bit = UINT64_C(1) << number % 64;
    uint64_t *word;

    if (!caller || token->from_incarnation < caller->incarnation)
        return false;
    if (token->from_incarnation > caller->incarnation) {
        caller->incarnation = token->from_incarnation;
        caller->last = 0;
        memset(caller->seen, 0, sizeof(caller->seen));
    }
    if (number <= caller->last && caller->last - number >= DOOR_WINDOW)
        return false;
    if (number > caller->last && number - caller->last >= DOOR_WINDOW) {
        caller->last = number;
        memset(caller->seen, 0, sizeof(caller->seen));
    }
    while (caller->last < number) {
        caller->last++;
        caller->seen[caller->last % DOOR_WINDOW / 64] &=
            ~(UINT64_C(1) << caller->last % 64);
    }
    word = &caller->seen[number % DOOR_WINDOW / 64];
    if (*word & bit)
        return false;
    *word |= bit;
    return true;
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
    if (!door_sign(door, token, guest->token, DOOR_TEXT_LEN, right))
        return "unknown key";
    if (CRYPTO_memcmp(right, guest->token + DOOR_TEXT_LEN, sizeof(right)) != 0)
        return "wrong key";
    if (memcmp(ends, token->ends, sizeof(ends)) != 0)
        return "its addresses are others on the way (NAT)";
    if (token->encrypts != door->encrypts)
        return "it has another value of DYAD_ENCRYPT";
    return door_is_new(door, token) ? NULL : "it was seen before";
}

/* UCX is told by the event. */
static bool hand_over(struct door_guest *guest, const struct net_door_token *token)
{
    struct door_listener *listener = guest->listener;
    struct door_ready *ready = calloc(1, sizeof(*ready));
    uint64_t one = 1;

    if (!ready)
        return false;
    if (token->encrypts &&
        !(ready->stream = door_stream_create(listener->door, token, guest->token, false))) {
        free(ready);
        return false;
    }
    ready->fd = guest->fd;
    ready->addr = guest->addr;
    ready->peer = (struct door_peer){token->from, token->from_incarnation};
    guest->fd = -1;
    pthread_mutex_lock(&listener->lock);
    DL_APPEND(listener->ready, ready);
    pthread_mutex_unlock(&listener->lock);
    if (write(listener->fd, &one, sizeof(one)) != sizeof(one))
        log_error("a connection cannot be accepted: %m");
    return true;
}

/* True: he is none any more, whatever has become of him. */
static bool guest_speaks(struct door_guest *guest)
{
    struct net_door *door = guest->listener->door;
    struct net_door_token token;
    uint8_t proof[DOOR_PROOF_LEN];
    const char *why = NULL;
    ssize_t n = net_door_real()->recv(guest->fd, guest->token + guest->got,
                                      sizeof(guest->token) - guest->got, MSG_DONTWAIT);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    if (n <= 0) {
        if (guest->got) /* a port scan says nothing */
            door_refuse(door, &guest->addr, "it was closed");
        guest_free(guest);
        return true;
    }
    guest->got += (size_t)n;
    if (memcmp(guest->token, door_magic,
               guest->got < sizeof(door_magic) ? guest->got : sizeof(door_magic)) != 0)
        why = "it is none of this library";
    else if (guest->got < sizeof(guest->token))
        return false;
    if (!why)
        why = judge(guest, &token);
    watch(door, EPOLL_CTL_DEL, guest->fd, 0, NULL);
    if (!why && (!door_prove(door, &token, guest->token, proof) ||
                 net_door_real()->send(guest->fd, proof, DOOR_PROOF_LEN,
                                       MSG_DONTWAIT | MSG_NOSIGNAL) != DOOR_PROOF_LEN ||
                 !hand_over(guest, &token)))
        why = "it is gone, or there is no memory";
    if (why)
        door_refuse(door, &guest->addr, why);
    guest_free(guest);
    return true;
}

static void set_due(struct net_door *door, uint64_t when)
{
    if (!door->timer || (door->due && door->due <= when))
        return;
    door->due = when;
    net_timer_start(door->timer, when);
}

static void watch_listeners(struct net_door *door, bool on)
{
    struct door_listener *listener;

    door->paused = !on;
    DL_FOREACH(door->listeners, listener)
    {
        watch(door, EPOLL_CTL_MOD, listener->real, on ? EPOLLIN : 0, &listener->source);
    }
    if (!on)
        set_due(door, util_clock_now() + PAUSE);
}

/* Guests whose time is over: but what they have said in it counts, which nobody may have had the time to hear. */
void door_on_time(void *arg)
{
    struct net_door *door = arg;
    uint64_t now = util_clock_now();

    door->due = 0;
    while (door->guests && door->guests->since + GUEST_TIME <= now) {
        struct door_guest *guest = door->guests;
        if (guest_speaks(guest))
            continue;
        door_refuse(door, &guest->addr, "it said nothing in time");
        guest_free(guest);
    }
    if (door->paused)
        watch_listeners(door, true);
    if (door->guests)
        set_due(door, door->guests->since + GUEST_TIME);
}

/* The oldest one goes. False: there is none, or it has come only now. */
static bool make_room(struct net_door *door, uint64_t now)
{
    struct door_guest *guest = door->guests;

    if (!guest || now - guest->since < GUEST_YOUNG)
        return false;
    door_refuse(door, &guest->addr, "it said nothing, and others came");
    guest_free(guest);
    return true;
}

static void no_descriptor(struct net_door *door, uint64_t now)
{
    static uint64_t said;

    if (make_room(door, now))
        return;
    if (!said || now - said >= LOG_INTERVAL)
        log_warn("a connection of another rank waits: %m");
    said = now;
    watch_listeners(door, false);
}

static void somebody_comes(struct door_listener *listener)
{
    struct net_door *door = listener->door;
    uint64_t now = util_clock_now();
    struct sockaddr_storage addr;
    socklen_t len = sizeof(addr);
    struct door_guest *guest;
    int fd;

    if (door->nguests >= door->guests_max && !make_room(door, now)) {
        watch_listeners(door, false);
        return;
    }
    fd = accept4(listener->real, (struct sockaddr *)&addr, &len,
                 SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0 &&
        (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM))
        no_descriptor(door, now);
    if (fd < 0)
        return;
    if (!(guest = calloc(1, sizeof(*guest)))) {
        net_door_real()->close(fd);
        return;
    }
    *guest =
        (struct door_guest){.listener = listener, .fd = fd, .addr = addr, .since = now};
    DL_APPEND(door->guests, guest);
    door->nguests++;
    if (watch(door, EPOLL_CTL_ADD, fd, EPOLLIN, &guest->source) < 0)
        guest_free(guest);
    else
        set_due(door, now + GUEST_TIME);
}

/* One event at a time: what it is about may be gone by the next. */
void net_door_turn(struct net_door *door)
{
    struct epoll_event event;

    for (unsigned i = 0; i < PER_TURN && epoll_wait(door->epoll, &event, 1, 0) == 1; i++) {
        struct door_source *source = event.data.ptr;
        if (source->listens)
            somebody_comes((struct door_listener *)source);
        else
            guest_speaks((struct door_guest *)source);
    }
}

unsigned door_guests_max(void)
{
    struct rlimit limit;

    return getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur / 8 < GUESTS_MAX
               ? (unsigned)(limit.rlim_cur / 8)
               : GUESTS_MAX;
}

void door_listener_free(struct door_listener *listener)
{
    struct door_guest *guest, *next_guest;
    struct door_ready *ready, *next;

    DL_DELETE(listener->door->listeners, listener);
    DL_FOREACH_SAFE(listener->door->guests, guest, next_guest)
    {
        if (guest->listener == listener)
            guest_free(guest);
    }
    DL_FOREACH_SAFE(listener->ready, ready, next)
    {
        door_stream_destroy(ready->stream);
        net_door_real()->close(ready->fd);
        free(ready);
    }
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
    listener->source.listens = true;
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
    if (watch(door, EPOLL_CTL_ADD, listener->real, EPOLLIN, &listener->source) < 0 ||
        dup3(bell, fd, O_CLOEXEC) < 0)
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
                       socklen_t *len, struct door_peer *peer, struct door_stream **stream)
{
    struct door_ready *ready;
    uint64_t one;
    int accepted;

    if (read(listener->fd, &one, sizeof(one)) < 0) {
        errno = EAGAIN; /* for any other UCX would close it */
        return -1;
    }
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
    *peer = ready->peer;
    *stream = ready->stream;
    if (addr && len) {
        socklen_t size = ready->addr.ss_family == AF_INET6 ? sizeof(struct sockaddr_in6)
                                                           : sizeof(struct sockaddr_in);
        memcpy(addr, &ready->addr, *len < size ? *len : size);
        *len = size;
    }
    free(ready);
    return accepted;
}

bool door_is_behind(int fd)
{
    return fd >= 0 && fd < DOOR_SIDES && atomic_load(&behind[fd]);
}
