/*
 * claim_names.c - the names of a rank's member, and whose the sockets behind them are
 *
 * Names are found in /proc/net/unix, which costs little; whose a socket is that cannot be connected to says the kernel's other
 * list (sock_diag(7)), which costs more.
 *
 * What could go wrong: another user's name has a newline in it, and looks like a line of
 * /proc/net/unix of its own. Columns are read at their places, so such a line with a
 * fallback name would be longer (119 bytes) than a name can be (108); what it says of a first name nobody asks that list.
 * A socket is closed between two reads of the list, and another one of its bucket in the
 * kernel's table is left out (sock_diag goes on after a batch in the same way): somebody who
 * closes hundreds of that bucket at once hides a name from 1 look in 100, so claim_bind.c
 * looks more than once.
 */
#include "boot/claim_names.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "util/fd_close.h"

#define FD_WANTED 256 /* beyond what scripts name (bash uses 10 and 255) */
#define FD_LOWEST 10

/* Newer than some headers. */
#define DIAG_SHOW_UID 0x40
#define DIAG_UID      7
#define STATE_CONNECTED \
    1 /* TCP_ESTABLISHED: one that was accepted has its listener's name */
#define NAME_AT (offsetof(struct sockaddr_un, sun_path) + 1) /* a NUL, and the name */

/* Columns of /proc/net/unix: "0000000000000000: RRRRRRRR PPPPPPPP FFFFFFFF TTTT SS IIIII @" */
#define COLUMN_COLON 16
#define COLUMN_FLAGS 36
#define COLUMN_TYPE  45
#define COLUMN_STATE 50
#define COLUMN_INODE 53
#define INODE_WIDTH  5

int boot_claim_dup_up(int fd)
{
    int up = (int)syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, FD_WANTED);

    if (up < 0 && (errno == EINVAL || errno == EMFILE))
        up = (int)syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, FD_LOWEST);
    return up;
}

int boot_claim_move_up(int fd)
{
    int moved = boot_claim_dup_up(fd);

    util_fd_close_raw(fd);
    return moved;
}

/* --- names --- */

bool boot_claim_is_user(const struct sockaddr_un *name, uid_t uid)
{
    const char *at = name->sun_path + 1;
    uint64_t is = 0;

    if (memcmp(at, "dyad/", 5) != 0)
        return false;
    for (at += 5; *at >= '0' && *at <= '9'; at++)
        is = is * 10 + (uint64_t)(*at - '0');
    return *at == '/' && is == uid;
}

bool boot_claim_is_tail(const char *tail)
{
    if (tail[0] != '/')
        return false;
    for (int i = 1; i < BOOT_CLAIM_TAIL_LEN; i++)
        if (!((tail[i] >= '0' && tail[i] <= '9') || (tail[i] >= 'a' && tail[i] <= 'f')))
            return false;
    return true;
}

bool boot_claim_is_name(const struct sockaddr_un *first, socklen_t first_len,
                        const struct sockaddr_un *name, socklen_t len)
{
    return (len == first_len || len == first_len + BOOT_CLAIM_TAIL_LEN) &&
           memcmp(first, name, first_len) == 0 &&
           (len == first_len || boot_claim_is_tail((const char *)name + first_len));
}

int boot_claim_name_new(const struct sockaddr_un *first, socklen_t first_len,
                        struct sockaddr_un *name, socklen_t *len)
{
    unsigned char random[(BOOT_CLAIM_TAIL_LEN - 1) / 2];
    char *at;

    if (first_len + BOOT_CLAIM_TAIL_LEN > sizeof(*name) ||
        getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random))
        return -1;
    memset(name, 0, sizeof(*name));
    memcpy(name, first, first_len);
    at = (char *)name + first_len;
    *at++ = '/';
    for (size_t i = 0; i < sizeof(random); i++) {
        *at++ = "0123456789abcdef"[random[i] >> 4];
        *at++ = "0123456789abcdef"[random[i] & 15];
    }
    *len = first_len + BOOT_CLAIM_TAIL_LEN;
    return 0;
}

/* --- the list --- */

struct listing {
    const struct sockaddr_un *first;
    socklen_t first_len;
    boot_claim_visit_fn visit;
    void *arg;
};

static int take_line(const struct listing *listing, const char *line, size_t len)
{
    struct boot_claim_socket found = {.name = {.sun_family = AF_UNIX}};
    size_t at = COLUMN_INODE, name_len;

    if (len < COLUMN_INODE + INODE_WIDTH + 2 || memcmp(line + COLUMN_COLON, ": ", 2) != 0 ||
        memcmp(line + COLUMN_TYPE, "0001 01 ", 8) != 0) /* a stream, of no connection */
        return 0;
    while (at < len && line[at] == ' ')
        at++;
    for (; at < len && line[at] >= '0' && line[at] <= '9'; at++)
        found.inode = found.inode * 10 + (uint64_t)(line[at] - '0');
    if (at < COLUMN_INODE + INODE_WIDTH || at + 2 > len || line[at] != ' ' ||
        line[at + 1] != '@')
        return 0;
    name_len = len - (at + 2);
    if (name_len > sizeof(found.name) - NAME_AT)
        return 0;
    memcpy((char *)&found.name + NAME_AT, line + at + 2, name_len);
    found.len = (socklen_t)(NAME_AT + name_len);
    if (!boot_claim_is_name(listing->first, listing->first_len, &found.name, found.len))
        return 0;
    found.listens = line[COLUMN_FLAGS + 3] == '1'; /* 0x10000: __SO_ACCEPTCON */
    return listing->visit(&found, listing->arg);
}

static int open_up(int dir, const char *path, int flags)
{
    int fd = (int)syscall(SYS_openat, dir, path, O_RDONLY | O_CLOEXEC | flags, 0), up;

    if (fd < 0)
        return -1;
    if ((up = boot_claim_dup_up(fd)) < 0)
        return fd;
    util_fd_close_raw(fd);
    return up;
}

int boot_claim_list(const struct sockaddr_un *first, socklen_t first_len,
                    boot_claim_visit_fn visit, void *arg)
{
    struct listing listing = {first, first_len, visit, arg};
    char buf[4096]; /* as much as the kernel gives at a time */
    size_t used = 0;
    bool skips = false; /* the rest of a line that is too long for us */
    long n;
    int rc = 0;
    /* A thread may be in a network namespace of its own. */
    int fd = open_up(AT_FDCWD, "/proc/thread-self/net/unix", 0);

    if (fd < 0)
        return -1;
    while (rc == 0 && (n = syscall(SYS_read, fd, buf + used, sizeof(buf) - used)) > 0) {
        size_t begin = 0, have = used + (size_t)n;
        char *end;
        while (rc == 0 && (end = memchr(buf + begin, '\n', have - begin))) {
            if (!skips)
                rc = take_line(&listing, buf + begin, (size_t)(end - buf) - begin);
            skips = false;
            begin = (size_t)(end - buf) + 1;
        }
        used = have - begin;
        memmove(buf, buf + begin, used);
        if (used == sizeof(buf)) {
            skips = true;
            used = 0;
        }
    }
    if (rc == 0 && n < 0)
        rc = -1;
    util_fd_close_raw(fd);
    return rc;
}

/* --- whose --- */

bool boot_claim_is_of(int fd, uid_t uid)
{
    struct ucred peer;
    socklen_t len = sizeof(peer);
    int saved = errno;
    bool is = getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0 &&
              len == sizeof(peer) && (peer.uid == uid || peer.uid == 0);

    errno = saved;
    return is;
}

int boot_claim_reach(const struct sockaddr_un *name, socklen_t len, uid_t uid)
{
    int fd =
        (int)syscall(SYS_socket, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int saved = errno, moved;
    long rc;

    if (fd < 0)
        return -1;
    /* It lives for one request: where no second number is free, the first will do. */
    moved = boot_claim_dup_up(fd);
    if (moved >= 0) {
        util_fd_close_raw(fd);
        fd = moved;
    }
    errno = saved;
    do
        rc = syscall(SYS_connect, fd, name, len);
    while (rc < 0 && errno == EINTR);
    if (rc == 0 && boot_claim_is_of(fd, uid))
        return fd;
    if (rc == 0)
        errno = EPERM;
    util_fd_close_raw(fd);
    return -1;
}

/* All Unix sockets of the network namespace, by the kernel's own list of them (sock_diag(7)): names as they are, and whose each
 * is, which /proc/net/unix does not tell, and /proc/PID/fd only of processes that one may look at. */
struct diag {
    const struct sockaddr_un *name; /* NULL: those of `inodes` */
    socklen_t len;
    const struct boot_claim_inodes *inodes;
    uid_t uid;
    unsigned found; /* kinds of ours; of `name`: 1 ours, 2 another's */
};

/* 0, or -1: the kernel does not tell whose it is (before Linux 5.3). */
static int take_socket(const struct nlmsghdr *header, struct diag *diag)
{
    const struct unix_diag_msg *msg = NLMSG_DATA(header);
    const struct rtattr *attr = (const struct rtattr *)(msg + 1);
    int left = (int)(header->nlmsg_len - NLMSG_LENGTH(sizeof(*msg)));
    bool is = !diag->name, told = false;
    uint32_t uid = 0;

    for (; RTA_OK(attr, left); attr = RTA_NEXT(attr, left)) {
        if (attr->rta_type == DIAG_UID && RTA_PAYLOAD(attr) >= sizeof(uid)) {
            memcpy(&uid, RTA_DATA(attr), sizeof(uid));
            told = true;
        }
        if (attr->rta_type == UNIX_DIAG_NAME && diag->name)
            is = msg->udiag_state != STATE_CONNECTED &&
                 RTA_PAYLOAD(attr) == diag->len - offsetof(struct sockaddr_un, sun_path) &&
                 memcmp(RTA_DATA(attr), diag->name->sun_path, RTA_PAYLOAD(attr)) == 0;
    }
    if (!told)
        return -1;
    if (diag->name && is)
        diag->found |= uid == diag->uid || uid == 0 ? 1 : 2;
    for (size_t i = 0; !diag->name && i < diag->inodes->n; i++)
        if (diag->inodes->of[i].inode == msg->udiag_ino && (uid == diag->uid || uid == 0))
            diag->found |= diag->inodes->of[i].kind;
    return 0;
}

/* 0, or -1: it cannot be had. */
static int ask_kernel(struct diag *diag)
{
    const struct {
        struct nlmsghdr header;
        struct unix_diag_req req;
    } ask = {.header = {.nlmsg_len = sizeof(ask),
                        .nlmsg_type = SOCK_DIAG_BY_FAMILY,
                        .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP},
             .req = {.sdiag_family = AF_UNIX,
                     .udiag_states = ~0u,
                     .udiag_show = UDIAG_SHOW_NAME | DIAG_SHOW_UID,
                     .udiag_cookie = {~0u, ~0u}}};
    union {
        struct nlmsghdr align;
        char bytes[8192];
    } buf;
    int fd =
        (int)syscall(SYS_socket, AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
    int rc = 1;

    if (fd < 0 || (fd = boot_claim_move_up(fd)) < 0)
        return -1;
    if (syscall(SYS_sendto, fd, &ask, sizeof(ask), 0, NULL, 0) != (long)sizeof(ask))
        rc = -1;
    while (rc > 0) {
        long n = syscall(SYS_recvfrom, fd, buf.bytes, sizeof(buf.bytes), 0, NULL, NULL);
        const struct nlmsghdr *header = &buf.align;
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            rc = -1;
        for (; rc > 0 && NLMSG_OK(header, n); header = NLMSG_NEXT(header, n)) {
            if (header->nlmsg_type == NLMSG_DONE)
                rc = 0;
            else if (header->nlmsg_type == NLMSG_ERROR || take_socket(header, diag) < 0)
                rc = -1;
        }
    }
    util_fd_close_raw(fd);
    return rc;
}

unsigned boot_claim_held(const struct boot_claim_inodes *inodes, uid_t uid)
{
    struct diag diag = {.inodes = inodes, .uid = uid};
    int saved = errno;

    if (inodes->n > 0 && ask_kernel(&diag) < 0)
        for (size_t i = 0; i < inodes->n; i++)
            diag.found |= inodes->of[i].kind;
    errno = saved;
    return diag.found;
}

enum boot_claim_holder boot_claim_holder(const struct sockaddr_un *name, socklen_t len,
                                         uid_t uid)
{
    enum boot_claim_holder holder = BOOT_CLAIM_OURS;
    struct diag diag = {.name = name, .len = len, .uid = uid};
    int saved = errno, fd = boot_claim_reach(name, len, uid);

    if (fd < 0 && errno == EPERM)
        holder = BOOT_CLAIM_FOREIGN;
    else if (fd < 0 && (errno == ECONNREFUSED || errno == EAGAIN) && ask_kernel(&diag) == 0)
        holder = diag.found & 1   ? BOOT_CLAIM_OURS
                 : diag.found & 2 ? BOOT_CLAIM_FOREIGN
                                  : BOOT_CLAIM_FREE;
    util_fd_close_raw(fd);
    errno = saved;
    return holder;
}
