/*
 * promoted_connection.c - frames and descriptors over a socket that stays open
 *
 * What the socket does not take at once is kept, in order. A descriptor goes with the first
 * byte of its frame. The kernel may hand it out together with the bytes of frames before,
 * so those that came in are kept in their order, and a frame that says by its flag that it
 * has one takes the first.
 */
#include "engine/promoted/promoted_connection.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <utlist.h>

#include "util/wipe.h"

#define FRAME_MAX (NET_MSG_HEADER_MAX + NET_MSG_BLOB_MAX)
#define FDS_MAX   64    /* that came and no frame has taken yet */
#define HAS_FD    0x01u /* in the u32 behind the length */

struct out {
    struct out *prev, *next; /* utlist */
    int fd;                  /* ours, or -1; sent with the first byte */
    size_t len, sent;
    unsigned char frame[];
};

struct promoted_connection {
    struct net_loop *loop;
    const struct promoted_connection_ops *ops;
    void *arg;
    int fd;
    struct net_watch *watch;
    struct out *queue;
    int fds[FDS_MAX];
    unsigned nfds;
    bool *gone; /* set when the line is destroyed inside of a callback */
    size_t in_len;
    unsigned char in[8 + FRAME_MAX];
};

static void out_free(struct promoted_connection *line, struct out *out)
{
    DL_DELETE(line->queue, out);
    if (out->fd >= 0)
        close(out->fd);
    util_wipe_free(out, sizeof(*out) + out->len); /* a key may be in it */
}

void promoted_connection_destroy(struct promoted_connection *line)
{
    if (!line)
        return;
    if (line->gone)
        *line->gone = true;
    while (line->queue)
        out_free(line, line->queue);
    for (unsigned i = 0; i < line->nfds; i++)
        close(line->fds[i]);
    if (line->watch)
        net_watch_destroy(line->watch);
    close(line->fd);
    explicit_bzero(line->in, sizeof(line->in)); /* keys */
    free(line);
}

/* --- out --- */

static ssize_t send_some(const struct promoted_connection *line, const struct out *out)
{
    union {
        struct cmsghdr align;
        char buf[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct iovec iov = {.iov_base = (void *)(uintptr_t)(out->frame + out->sent),
                        .iov_len = out->len - out->sent};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

    if (out->fd >= 0 && out->sent == 0) {
        msg.msg_control = control.buf;
        msg.msg_controllen = sizeof(control.buf);
        struct cmsghdr *header = CMSG_FIRSTHDR(&msg);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(header), &out->fd, sizeof(int));
    }
    return sendmsg(line->fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void flush(struct promoted_connection *line)
{
    while (line->queue) {
        struct out *out = line->queue;
        ssize_t n = send_some(line, out);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            /* Anything but a full socket is found by its reader, too: the watch. */
            if (errno != EAGAIN && errno != EWOULDBLOCK)
                shutdown(line->fd, SHUT_RDWR);
            break;
        }
        out->sent += (size_t)n;
        if (out->sent == out->len)
            out_free(line, out);
    }
    net_watch_modify(line->watch,
                     EPOLLIN | EPOLLRDHUP | (line->queue ? (uint32_t)EPOLLOUT : 0));
}

int promoted_connection_send(struct promoted_connection *line, const struct net_msg *msg,
                             int fd)
{
    static unsigned char buf[FRAME_MAX]; /* loop thread only */
    int n = net_msg_encode(msg, buf, sizeof(buf));
    uint32_t head[2];
    struct out *out;

    if (n < 0)
        return -1;
    if (!(out = malloc(sizeof(*out) + sizeof(head) + (size_t)n)))
        return -1;
    *out = (struct out){.fd = -1, .len = sizeof(head) + (size_t)n};
    if (fd >= 0 && (out->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0)) < 0) {
        free(out);
        return -1;
    }
    head[0] = htole32((uint32_t)n);
    head[1] = htole32(fd >= 0 ? HAS_FD : 0);
    memcpy(out->frame, head, sizeof(head));
    memcpy(out->frame + sizeof(head), buf, (size_t)n);
    explicit_bzero(buf, (size_t)n);
    DL_APPEND(line->queue, out);
    flush(line);
    return 0;
}

/* --- in --- */

static void take_fds(struct promoted_connection *line, struct msghdr *msg)
{
    for (struct cmsghdr *h = CMSG_FIRSTHDR(msg); h; h = CMSG_NXTHDR(msg, h)) {
        if (h->cmsg_level != SOL_SOCKET || h->cmsg_type != SCM_RIGHTS)
            continue;
        size_t n = (h->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < n; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(h) + i * sizeof(int), sizeof(int));
            if (line->nfds < FDS_MAX)
                line->fds[line->nfds++] = fd;
            else
                close(fd);
        }
    }
}

static int first_fd(struct promoted_connection *line)
{
    int fd = line->nfds > 0 ? line->fds[0] : -1;

    if (line->nfds > 0)
        memmove(line->fds, line->fds + 1, --line->nfds * sizeof(line->fds[0]));
    return fd;
}

/* The first whole frame of what is here. 1: handed on; 0: there is none; -1: nonsense. */
static int take_frame(struct promoted_connection *line)
{
    struct net_msg msg;
    uint32_t head[2];
    bool gone = false;
    int fd = -1;

    if (line->in_len < sizeof(head))
        return 0;
    memcpy(head, line->in, sizeof(head));
    size_t len = le32toh(head[0]);
    if (len > FRAME_MAX)
        return -1;
    if (line->in_len < sizeof(head) + len)
        return 0;
    if (net_msg_decode(&msg, line->in + sizeof(head), len) < 0)
        return -1;
    if ((le32toh(head[1]) & HAS_FD) && (fd = first_fd(line)) < 0)
        return -1;
    line->gone = &gone;
    line->ops->receive(line->arg, &msg, fd);
    if (gone)
        return 0;
    line->gone = NULL;
    line->in_len -= sizeof(head) + len;
    memmove(line->in, line->in + sizeof(head) + len, line->in_len);
    explicit_bzero(line->in + line->in_len, sizeof(head) + len);
    return 1;
}

/* One read, and what came whole with it. */
static int readable(struct promoted_connection *line)
{
    union {
        struct cmsghdr align;
        char buf[CMSG_SPACE(8 * sizeof(int))];
    } control;
    struct iovec iov = {.iov_base = line->in + line->in_len,
                        .iov_len = sizeof(line->in) - line->in_len};
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control.buf,
                         .msg_controllen = sizeof(control.buf)};
    ssize_t n = recvmsg(line->fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    int rc;

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (n <= 0)
        return -1;
    take_fds(line, &msg);
    line->in_len += (size_t)n;
    while ((rc = take_frame(line)) > 0)
        ;
    return rc;
}

static void event(void *arg, int fd, uint32_t events)
{
    struct promoted_connection *line = arg;

    (void)fd;
    if (events & EPOLLOUT)
        flush(line);
    if ((events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) && readable(line) < 0)
        line->ops->broken(line->arg);
}

struct promoted_connection *promoted_connection_create(
    struct net_loop *loop, int fd, const struct promoted_connection_ops *ops, void *arg)
{
    struct promoted_connection *line = calloc(1, sizeof(*line));
    int saved;

    if (!line)
        goto error;
    line->loop = loop;
    line->ops = ops;
    line->arg = arg;
    line->fd = fd;
    if (!(line->watch = net_loop_watch(loop, fd, EPOLLIN | EPOLLRDHUP, event, line)))
        goto error;
    return line;
error:
    saved = errno;
    free(line);
    close(fd);
    errno = saved;
    return NULL;
}
