/*
 * guest.c - the connections of the rank's processes to their member
 *
 * A connection that closes takes its request with it: a consumer that died is no longer
 * waited for, a publish goes on to its end.
 */
#include "engine/requests/guest.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>
#include <utlist.h>

#include "boot/member_claim.h"
#include "util/log.h"

/* Replies queued for a slow reader (dyad-dht-dump) before it is taken for dead. */
#define OUT_MAX (256u << 20)
/* Descriptors that waiting processes may not use up. */
#define FDS_FREE 64

struct guest_listener {
    const struct guest_ops *ops;
    struct net_watch *watch;
    bool full; /* too many connections: not watched */
    struct guest *guests;
};

/* A descriptor has become free. */
static void accept_again(struct member *member)
{
    struct guest_listener *listener = member->listener;

    if (listener->full && listener->watch &&
        net_watch_modify(listener->watch, EPOLLIN) == 0)
        listener->full = false;
}

static void guest_free(struct guest *guest)
{
    struct member *member = guest->member;

    DL_DELETE(member->listener->guests, guest);
    guest->ops->cancel(guest);
    if (guest->watch)
        net_watch_destroy(guest->watch);
    if (guest->fd >= 0)
        close(guest->fd);
    free(guest->out);
    free(guest);
    accept_again(member);
}

/* The process is not there any more. */
static void guest_drop(struct guest *guest)
{
    if (guest->pending == 0) {
        guest_free(guest);
        return;
    }
    guest->gone = true;
    net_watch_destroy(guest->watch);
    guest->watch = NULL;
    close(guest->fd);
    guest->fd = -1;
    accept_again(guest->member);
}

/* Send what is queued; false: the guest is gone and freed. */
static bool guest_flush(struct guest *guest)
{
    while (guest->out_sent < guest->out_len) {
        ssize_t n = send(guest->fd, guest->out + guest->out_sent,
                         guest->out_len - guest->out_sent, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            net_watch_modify(guest->watch, EPOLLIN | EPOLLRDHUP | EPOLLOUT);
            return true;
        }
        if (n < 0) {
            guest_drop(guest);
            return false;
        }
        guest->out_sent += (size_t)n;
    }
    guest->out_len = guest->out_sent = 0;
    if (guest->answered) {
        guest_drop(guest);
        return false;
    }
    net_watch_modify(guest->watch, EPOLLIN | EPOLLRDHUP);
    return true;
}

/* Remove sent bytes from the buffer, but only when they are at least half: so each byte
 * is moved at most once on the average, however slow the reader is. */
static void guest_compact(struct guest *guest)
{
    if (guest->out_sent < guest->out_len / 2)
        return;
    guest->out_len -= guest->out_sent;
    memmove(guest->out, guest->out + guest->out_sent, guest->out_len);
    guest->out_sent = 0;
}

/* Queue one frame. 0 or -1: it does not fit, or no memory. */
static int guest_queue(struct guest *guest, const struct net_msg *msg)
{
    static unsigned char buf[NET_MSG_HEADER_MAX + NET_MSG_BLOB_MAX]; /* loop thread only */
    unsigned char *out;
    uint32_t len;
    int n = net_msg_encode(msg, buf, sizeof(buf));

    if (guest->out_sent > 0)
        guest_compact(guest);
    if (n < 0 || guest->out_len - guest->out_sent + 4 + (size_t)n > OUT_MAX ||
        !(out = realloc(guest->out, guest->out_len + 4 + (size_t)n)))
        return -1;
    guest->out = out;
    len = htole32((uint32_t)n);
    memcpy(out + guest->out_len, &len, 4);
    memcpy(out + guest->out_len + 4, buf, (size_t)n);
    guest->out_len += 4 + (size_t)n;
    return 0;
}

int guest_page(struct guest *guest, const struct net_msg *page)
{
    if (guest_queue(guest, page) < 0)
        return -1;
    if (guest->watch)
        net_watch_modify(guest->watch, EPOLLIN | EPOLLRDHUP | EPOLLOUT);
    return 0;
}

void guest_answer(struct guest *guest, struct net_msg *done)
{
    done->source = guest->member->self.rank;
    done->source_incarnation = guest->member->self.incarnation;
    if (!done->entry.upath)
        done->entry.upath = guest->msg.entry.upath;
    if (guest->gone) {
        if (guest->pending == 0)
            guest_free(guest);
        return;
    }
    guest->answered = true;
    if (guest_queue(guest, done) < 0) {
        guest_drop(guest);
        return;
    }
    guest_flush(guest);
}

int guest_take(struct guest *guest)
{
    int fd = guest->fd;

    if (guest->watch)
        net_watch_destroy(guest->watch);
    guest->watch = NULL;
    guest->fd = -1;
    guest_free(guest);
    return fd;
}

static void guest_serve(void *arg, int error)
{
    struct guest *guest = arg;

    guest->pending--;
    guest->ops->serve(guest, error);
}

/* One request is all there is; what comes after is not read. */
static void guest_readable(struct guest *guest)
{
    uint32_t len;
    ssize_t n;

    if (guest->asked) { /* nothing more is expected: the other end closed it */
        char byte;
        n = recv(guest->fd, &byte, 1, MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
            guest_drop(guest);
        return;
    }
    n = recv(guest->fd, guest->in + guest->in_len, sizeof(guest->in) - guest->in_len,
             MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        if (guest->in_len == 0) /* a member of this node, which watches us and we it */
            guest->ops->unasked(guest->member, guest->pid);
        guest_drop(guest);
        return;
    }
    guest->in_len += (size_t)n;
    if (guest->in_len < 4)
        return;
    memcpy(&len, guest->in, 4);
    len = le32toh(len);
    if (len > sizeof(guest->in) - 4) {
        guest_drop(guest);
        return;
    }
    if (guest->in_len < 4 + len)
        return;
    if (net_msg_decode(&guest->msg, guest->in + 4, len) < 0) {
        log_warn("process %d sent a request that cannot be read: is it of another version?",
                 (int)guest->pid);
        guest_drop(guest);
        return;
    }
    guest->asked = true;
    guest->pending++;
    member_when_joined(guest->member, &guest->joined, guest_serve, guest);
}

static void guest_event(void *arg, int fd, uint32_t events)
{
    struct guest *guest = arg;

    (void)fd;
    if (events & EPOLLOUT) {
        if (!guest_flush(guest))
            return;
    }
    if (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR))
        guest_readable(guest);
}

/* The request is often there already: it is read at once. */
static void guest_accept(struct member *member, int fd)
{
    const struct guest_ops *ops = member->listener->ops;
    struct guest *guest;
    pid_t pid = boot_member_claim_peer(fd);

    if (pid < 0 || !(guest = calloc(1, sizeof(*guest) + ops->size))) {
        close(fd);
        return;
    }
    guest->member = member;
    guest->ops = ops;
    guest->request = guest + 1;
    guest->fd = fd;
    guest->pid = pid;
    DL_APPEND(member->listener->guests, guest);
    guest->watch =
        net_loop_watch(member->loop, fd, EPOLLIN | EPOLLRDHUP, guest_event, guest);
    if (guest->watch)
        guest_readable(guest);
    else
        guest_free(guest);
}

/* One at a time: the watch fires again where more are waiting. */
static void claim_event(void *arg, int listen_fd, uint32_t events)
{
    struct member *member = arg;
    struct guest_listener *listener = member->listener;
    int fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

    (void)events;
    if (fd >= 0)
        guest_accept(member, fd);
    /* No descriptor for one more: those that queue wait until another has gone. */
    else if ((errno == EMFILE || errno == ENFILE) && listener->guests &&
             net_watch_modify(listener->watch, 0) == 0)
        listener->full = true;
}

int guest_listen(struct member *member, const struct guest_ops *ops)
{
    struct guest_listener *listener;
    int flags = fcntl(member->claim_fd, F_GETFL);

    if (flags < 0 || fcntl(member->claim_fd, F_SETFL, flags | O_NONBLOCK) < 0 ||
        !(listener = calloc(1, sizeof(*listener))))
        return -1;
    listener->ops = ops;
    listener->watch =
        net_loop_watch(member->loop, member->claim_fd, EPOLLIN, claim_event, member);
    if (!listener->watch) {
        free(listener);
        return -1;
    }
    member->listener = listener;
    return 0;
}

void guest_stop(struct member *member)
{
    struct guest_listener *listener = member->listener;
    struct guest *guest, *tmp;

    if (!listener)
        return;
    net_watch_destroy(listener->watch);
    listener->watch = NULL;
    DL_FOREACH_SAFE(listener->guests, guest, tmp)
    {
        guest_free(guest);
    }
    free(listener);
    member->listener = NULL;
}

/* Waits are the requests that pile up. The rest of the descriptors is for requests that end
 * by themselves, on which the waits may depend, and for UCX, which aborts the program when
 * it gets none. A new descriptor has the lowest free number, so the guest's tells how many
 * there are. */
bool guest_too_many(const struct guest *guest)
{
    struct rlimit limit;

    return guest->fd >= 0 && getrlimit(RLIMIT_NOFILE, &limit) == 0 &&
           limit.rlim_cur < INT_MAX && guest->fd + FDS_FREE > (int)limit.rlim_cur;
}
