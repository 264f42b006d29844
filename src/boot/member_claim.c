/*
 * member_claim.c - the abstract socket that makes a process the member of its rank
 *
 * The kernel refuses a second bind of a name while a descriptor of the first socket
 * exists anywhere, so the claim is exclusive (claim_bind.c: also where another user holds
 * the first name) and dies with the last process that has it, however it dies. The system
 * calls are made directly: in the wrapper the libc names are our own interposed symbols.
 *
 * What could go wrong: a forked child has a copy of the descriptor. The engine closes it
 * there (engine_ops.fork_child), else the child would keep a dead member's name and let
 * connections queue for ever.
 */
#include "boot/member_claim.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "boot/claim_names.h"
#include "util/fd_close.h"

#define CLAIM_SCAN_MAX 65536

static char *append(char *at, const char *text)
{
    size_t len = strlen(text);

    memcpy(at, text, len);
    return at + len;
}

static char *append_number(char *at, uint64_t value, unsigned base, unsigned digits)
{
    char text[24];
    unsigned n = 0;

    do
        text[n++] = "0123456789abcdef"[value % base];
    while ((value /= base) || n < digits);
    while (n)
        *at++ = text[--n];
    return at;
}

socklen_t boot_member_claim_address(const struct boot_identity *identity, const char *kvs,
                                    struct sockaddr_un *address)
{
    /* nspace NUL kvs: the separator keeps ("ab","c") and ("a","bc") apart. */
    XXH3_state_t state;
    XXH3_64bits_reset(&state);
    XXH3_64bits_update(&state, identity->nspace, strlen(identity->nspace) + 1);
    if (kvs)
        XXH3_64bits_update(&state, kvs, strlen(kvs));

    memset(address, 0, sizeof(*address));
    address->sun_family = AF_UNIX;
    char *at = address->sun_path + 1; /* a leading NUL: the abstract name space */
    at = append(at, "dyad/");
    at = append_number(at, (uint64_t)geteuid(), 10, 1);
    at = append(at, "/");
    at = append_number(at, XXH3_64bits_digest(&state), 16, BOOT_CLAIM_LAUNCH_LEN);
    at = append_number(at, XXH3_64bits(identity->node, strlen(identity->node)), 16, 16);
    at = append(at, "/");
    at = append_number(at, identity->rank, 10, 1);
    return (socklen_t)(at - (char *)address);
}

void boot_member_claim_name(const struct sockaddr_un *address, socklen_t len, char *name)
{
    size_t n = len - offsetof(struct sockaddr_un, sun_path) - 1;

    memcpy(name, address->sun_path + 1, n);
    name[n] = '\0';
}

socklen_t boot_member_claim_named(const char *name, struct sockaddr_un *address)
{
    size_t n = strlen(name);

    memset(address, 0, sizeof(*address));
    if (n == 0 || n >= sizeof(address->sun_path))
        return 0;
    address->sun_family = AF_UNIX;
    memcpy(address->sun_path + 1, name, n);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + n);
}

/* --- after exec --- */

static bool is_claim(int fd, const struct sockaddr_un *address, socklen_t len)
{
    struct sockaddr_un bound;
    socklen_t bound_len = sizeof(bound);
    int listening = 0;
    socklen_t listening_len = sizeof(listening);

    if (syscall(SYS_getsockname, fd, &bound, &bound_len) < 0 ||
        !boot_claim_is_name(address, len, &bound, bound_len))
        return false;
    return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &listening_len) == 0 &&
           listening;
}

struct linux_dirent64 {
    uint64_t d_ino;
    int64_t d_off;
    unsigned short d_reclen;
    unsigned char d_type;
    char d_name[];
};

/* The lowest claim among the entries of /proc/self/fd; -2 if it cannot be listed. */
static int scan_proc(const struct sockaddr_un *address, socklen_t len)
{
    union {
        struct linux_dirent64 align;
        char bytes[1024];
    } buf;
    int found = -1;
    long n;
    int dir = (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/fd",
                           O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);

    if (dir < 0)
        return -2;
    while ((n = syscall(SYS_getdents64, dir, buf.bytes, sizeof(buf.bytes))) > 0) {
        for (long at = 0; at < n;) {
            struct linux_dirent64 *entry = (struct linux_dirent64 *)(buf.bytes + at);
            at += entry->d_reclen;
            int fd = 0;
            const char *p = entry->d_name;
            for (; *p >= '0' && *p <= '9'; p++)
                fd = fd * 10 + (*p - '0');
            if (p == entry->d_name || *p || fd == dir)
                continue;
            if ((found < 0 || fd < found) && is_claim(fd, address, len))
                found = fd;
        }
    }
    util_fd_close_raw(dir);
    return found;
}

int boot_member_claim_inherited(const struct sockaddr_un *address, socklen_t len)
{
    int saved = errno;
    int found = scan_proc(address, len);

    if (found == -2) { /* no /proc: ask each number */
        struct rlimit limit;
        rlim_t end = CLAIM_SCAN_MAX;
        if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < end)
            end = limit.rlim_cur;
        found = -1;
        for (int fd = 0; fd < (int)end && found < 0; fd++)
            if (is_claim(fd, address, len))
                found = fd;
    }
    errno = saved;
    return found;
}

/* --- connect --- */

/* Wait for a place in the queue of a socket of ours. It may end meanwhile, and a stranger
 * with a full queue come in its place. */
static int connect_wait(const struct sockaddr_un *name, socklen_t len)
{
    const struct timeval round = {.tv_sec = 1}, none = {0};
    int fd = (int)syscall(SYS_socket, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), moved;
    long rc;

    if (fd < 0)
        return -1;
    if ((moved = boot_claim_dup_up(fd)) >= 0) {
        util_fd_close_raw(fd);
        fd = moved;
    }
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &round, sizeof(round));
    do
        rc = syscall(SYS_connect, fd, name, len);
    while (rc < 0 &&
           (errno == EINTR || (errno == EAGAIN && boot_claim_holder(name, len, geteuid()) ==
                                                      BOOT_CLAIM_OURS)));
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &none, sizeof(none));
    if (rc == 0 && boot_claim_is_of(fd, geteuid()))
        return fd;
    util_fd_close_raw(fd);
    errno = ECONNREFUSED;
    return -1;
}

/* To this name. -1: EAGAIN of ours, with a full queue, and we do not wait; EPERM another user's; ECONNREFUSED nobody's. */
static int connect_name(const struct sockaddr_un *name, socklen_t len, bool waits)
{
    int fd = boot_claim_reach(name, len, geteuid());

    if (fd >= 0 || errno != EAGAIN)
        return fd;
    if (boot_claim_holder(name, len, geteuid()) == BOOT_CLAIM_FOREIGN) {
        errno = EPERM;
        return -1;
    }
    if (waits)
        return connect_wait(name, len);
    errno = EAGAIN;
    return -1;
}

struct connecting {
    socklen_t first_len;
    bool waits;
    int fd, error;
};

static int connect_found(const struct boot_claim_socket *found, void *arg)
{
    struct connecting *connecting = arg;

    if (found->len == connecting->first_len || !found->listens)
        return 0;
    connecting->fd = connect_name(&found->name, found->len, connecting->waits);
    if (connecting->fd < 0 && errno != ECONNREFUSED && errno != EPERM)
        connecting->error = errno;
    return connecting->fd >= 0;
}

static int claim_connect(const struct sockaddr_un *address, socklen_t len, bool waits)
{
    struct connecting connecting = {len, waits, -1, ECONNREFUSED};
    int fd, saved = errno;
    bool foreign;

    /* A program that changed its user: there is none of ours, and EPERM says so. */
    if (!boot_claim_is_user(address, geteuid()))
        return boot_claim_reach(address, len, geteuid());
    fd = connect_name(address, len, waits);
    foreign = fd < 0 && errno == EPERM;
    if (fd >= 0 || (errno != ECONNREFUSED && !foreign))
        return fd;
    if (boot_claim_list(address, len, connect_found, &connecting) < 0 && foreign)
        connecting.error = EPERM; /* it cannot be found out whether one of ours lives */
    errno = connecting.fd >= 0 ? saved : connecting.error;
    return connecting.fd;
}

static int blocking(int fd)
{
    if (fd >= 0)
        (void)syscall(SYS_fcntl, fd, F_SETFL, 0);
    return fd;
}

int boot_member_claim_connect(const struct sockaddr_un *address, socklen_t len)
{
    return blocking(claim_connect(address, len, true));
}

int boot_member_claim_connect_now(const struct sockaddr_un *address, socklen_t len)
{
    return blocking(claim_connect(address, len, false));
}

pid_t boot_member_claim_peer(int fd)
{
    struct ucred peer;
    socklen_t len = sizeof(peer);
    int saved = errno;
    bool ok = getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0 &&
              len == sizeof(peer) && (peer.uid == geteuid() || peer.uid == 0);

    errno = saved;
    return ok ? peer.pid : -1;
}

void boot_member_claim_shut(int claim_fd)
{
    int saved = errno;
    long fd;

    /* The queue can be emptied after it was shut, when nothing is added any more. */
    syscall(SYS_shutdown, claim_fd, SHUT_RDWR);
    while ((fd = syscall(SYS_accept4, claim_fd, NULL, NULL,
                         SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0)
        util_fd_close_raw((int)fd);
    errno = saved;
}
