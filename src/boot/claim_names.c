/*
 * claim_names.c - the names of a rank's member, and whose the sockets behind them are
 *
 * What could go wrong: another user's name has a newline in it, and looks like a line of
 * /proc/net/unix of its own. Columns are read at their places, so such a line with a
 * fallback name would be longer (119 bytes) than a name can be (108). One with a first name
 * can be made: of several sockets of that name each must be ours (boot_claim_holder()).
 * A socket is closed between two reads of the list, and another one of its bucket in the
 * kernel's table is left out: member_claim.c looks more than once where there are
 * strangers.
 */
#include "boot/claim_names.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "util/fd_close.h"

#define FD_WANTED 256 /* beyond what scripts name (bash uses 10 and 255) */
#define FD_LOWEST 10
#define NAME_AT   (offsetof(struct sockaddr_un, sun_path) + 1) /* a NUL, and the name */

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
    char buf[1024];
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

struct linux_dirent64 {
    uint64_t d_ino;
    int64_t d_off;
    unsigned short d_reclen;
    unsigned char d_type;
    char d_name[];
};

int boot_claim_numbers(int dir, int (*visit)(int dir, const char *name, void *arg),
                       void *arg)
{
    union {
        struct linux_dirent64 align;
        char bytes[1024];
    } buf;
    long n;
    int rc = 0;

    while ((n = syscall(SYS_getdents64, dir, buf.bytes, sizeof(buf.bytes))) > 0) {
        for (long at = 0; at < n && rc == 0;) {
            struct linux_dirent64 *entry = (struct linux_dirent64 *)(buf.bytes + at);
            const char *p = entry->d_name;
            at += entry->d_reclen;
            while (*p >= '0' && *p <= '9')
                p++;
            if (p != entry->d_name && !*p)
                rc = visit(dir, entry->d_name, arg);
        }
        if (rc != 0)
            return rc;
    }
    return n < 0 ? -1 : 0;
}

struct search {
    const struct boot_claim_inodes *inodes;
    uid_t uid;
    unsigned here; /* in the process that is looked at */
    unsigned found;
};

static int look_at_descriptor(int dir, const char *name, void *arg)
{
    static const char begin[] = "socket:[";
    struct search *search = arg;
    char text[40];
    uint64_t inode = 0;
    long n = syscall(SYS_readlinkat, dir, name, text, sizeof(text) - 1);

    if (n < (long)sizeof(begin) || memcmp(text, begin, sizeof(begin) - 1) != 0)
        return 0;
    text[n] = '\0';
    for (const char *p = text + sizeof(begin) - 1; *p >= '0' && *p <= '9'; p++)
        inode = inode * 10 + (uint64_t)(*p - '0');
    for (size_t i = 0; i < search->inodes->n; i++)
        if (search->inodes->of[i].inode == inode)
            search->here |= search->inodes->of[i].kind;
    return 0;
}

/* The entries of a directory in `dir`. */
static void look_below(int dir, const char *name,
                       int (*visit)(int dir, const char *name, void *arg), void *arg)
{
    int fd = open_up(dir, name, O_DIRECTORY);

    if (fd >= 0)
        (void)boot_claim_numbers(fd, visit, arg);
    util_fd_close_raw(fd);
}

/* The real and the effective user. Both: a stranger's setuid program has the socket that
 * the stranger gave it, and the owner of a file in /proc is not always the user. */
static bool is_process_of(int process, uid_t uid)
{
    char text[512], *at;
    int fd = open_up(process, "status", 0);
    long n = fd < 0 ? -1 : syscall(SYS_read, fd, text, sizeof(text) - 1);

    util_fd_close_raw(fd);
    if (n <= 0)
        return false;
    text[n] = '\0';
    if (!(at = strstr(text, "\nUid:\t")))
        return false;
    at += strlen("\nUid:\t");
    for (int i = 0; i < 2; i++) {
        uint64_t is = 0;
        if (*at < '0' || *at > '9')
            return false;
        for (; *at >= '0' && *at <= '9'; at++)
            is = is * 10 + (uint64_t)(*at - '0');
        if (is != uid || *at++ != '\t')
            return false;
    }
    return true;
}

static int look_at_process(int dir, const char *name, void *arg)
{
    struct search *search = arg;
    int fd = open_up(dir, name, O_DIRECTORY);

    search->here = 0;
    if (fd >= 0)
        look_below(fd, "fd", look_at_descriptor, search);
    if (search->here && is_process_of(fd, search->uid))
        search->found |= search->here;
    util_fd_close_raw(fd);
    return 0;
}

unsigned boot_claim_held(const struct boot_claim_inodes *inodes, uid_t uid)
{
    struct search search = {.inodes = inodes, .uid = uid};
    int saved = errno;

    if (inodes->n > 0)
        look_below(AT_FDCWD, "/proc", look_at_process, &search);
    errno = saved;
    return search.found;
}

struct named {
    socklen_t len;
    size_t n; /* sockets of that name: one, or a line is made up */
    struct boot_claim_inodes inodes;
};

static int take_named(const struct boot_claim_socket *found, void *arg)
{
    struct named *named = arg;

    if (found->len == named->len && named->n++ < sizeof(unsigned) * 8) {
        named->inodes.of[named->inodes.n].inode = found->inode;
        named->inodes.of[named->inodes.n].kind = 1u << named->inodes.n;
        named->inodes.n++;
    }
    return 0;
}

enum boot_claim_holder boot_claim_holder(const struct sockaddr_un *name, socklen_t len,
                                         uid_t uid)
{
    enum boot_claim_holder holder = BOOT_CLAIM_OURS;
    struct named named = {.len = len};
    int saved = errno, fd = boot_claim_reach(name, len, uid);

    if (fd < 0 && errno == EPERM)
        holder = BOOT_CLAIM_FOREIGN;
    else if (fd < 0 && (errno == ECONNREFUSED || errno == EAGAIN) &&
             boot_claim_list(name, len, take_named, &named) == 0) {
        if (named.n == 0)
            holder = BOOT_CLAIM_FREE;
        else if (named.n > named.inodes.n ||
                 boot_claim_held(&named.inodes, uid) != (1ull << named.n) - 1)
            holder = BOOT_CLAIM_FOREIGN;
    }
    util_fd_close_raw(fd);
    errno = saved;
    return holder;
}
