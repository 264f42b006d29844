/*
 * claim_bind.c - become the member of a rank, of which there is one
 *
 * By the first name of the rank, or by a fallback name (claim_names.h) where another user
 * holds that. A socket that is bound does not make a member yet: see settle().
 *
 * What could go wrong: a stranger binds names of junk by the thousand, which makes looks
 * slow and no more; lets the first name go while there is a member with a fallback name;
 * or takes it when a member has died. A connect is refused although a member is being made
 * (between the bind of a fallback name and its listen): who is refused tries to bind next,
 * gets EADDRINUSE, and connects again.
 */
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "boot/claim_names.h"
#include "boot/member_claim.h"
#include "util/fd_close.h"

#define LOOKS   3 /* at a list that strangers may be changing */
#define TURNS   200
#define TURN_NS 1000000

/* The socket has a low number for an instant, before main, when the process has one
 * thread. */
static int bind_name(const struct sockaddr_un *name, socklen_t len, bool listens)
{
    int fd =
        (int)syscall(SYS_socket, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0 || (fd = boot_claim_move_up(fd)) < 0)
        return -1;
    if (syscall(SYS_bind, fd, name, len) < 0 ||
        (listens && syscall(SYS_listen, fd, SOMAXCONN) < 0)) {
        util_fd_close_raw(fd);
        return -1;
    }
    return fd;
}

/* What is there beside us. The order is that of the names. */
enum {
    SEEN_SELF = 1,
    SEEN_MEMBER = 2, /* of ours; it listens, or is shut */
    SEEN_LOWER = 4,  /* of ours, not listening yet */
    SEEN_HIGHER = 8
};

struct look {
    const struct sockaddr_un *first, *self;
    socklen_t first_len, self_len;
    unsigned seen;
    struct boot_claim_inodes inodes; /* of those that cannot be connected to */
};

static void look_up_inodes(struct look *look)
{
    look->seen |= boot_claim_held(&look->inodes, geteuid());
    look->inodes.n = 0;
}

static int look_at(const struct boot_claim_socket *found, void *arg)
{
    struct look *look = arg;
    int fd, order;

    if (found->len == look->self_len && memcmp(&found->name, look->self, found->len) == 0) {
        look->seen |= SEEN_SELF;
        return 0;
    }
    if (found->len == look->first_len) /* see look_around() */
        return 0;
    fd = found->listens ? boot_claim_reach(&found->name, found->len, geteuid()) : -1;
    if (fd >= 0) {
        util_fd_close_raw(fd);
        look->seen |= SEEN_MEMBER;
        return 0;
    }
    if (found->listens && errno == EPERM)
        return 0;
    if (look->inodes.n == BOOT_CLAIM_INODES)
        look_up_inodes(look);
    order =
        look->self_len > look->first_len ? memcmp(&found->name, look->self, found->len) : 1;
    look->inodes.of[look->inodes.n].inode = found->inode;
    look->inodes.of[look->inodes.n].kind = found->listens ? SEEN_MEMBER
                                           : order < 0    ? SEEN_LOWER
                                                          : SEEN_HIGHER;
    look->inodes.n++;
    return 0;
}

/* `self` NULL: nothing is bound yet. The first name may be there twice (claim_names.c). */
static unsigned look_around(const struct sockaddr_un *first, socklen_t first_len,
                            const struct sockaddr_un *self, socklen_t self_len)
{
    struct look look = {
        .first = first, .self = self, .first_len = first_len, .self_len = self_len};
    bool has_first = self_len == first_len;

    if (!has_first && boot_claim_holder(first, first_len, geteuid()) == BOOT_CLAIM_OURS)
        return SEEN_MEMBER;
    for (int i = 0; i < LOOKS && !(look.seen & ~SEEN_SELF); i++) {
        (void)boot_claim_list(first, first_len, look_at, &look);
        look_up_inodes(&look);
    }
    return look.seen;
}

/* There is no event for it: whom we wait for does not know of us. */
static void wait_a_turn(void)
{
    const struct timespec turn = {.tv_nsec = TURN_NS};

    syscall(SYS_nanosleep, &turn, NULL);
}

/* 0: this socket is the member's; 1: it is closed, and another one may become it; -1
 * EADDRINUSE: it is closed, another one is. At most one socket of ours is the member's.
 * Each looks after its bind, and stays bound if it is the member's: so of two, the one that
 * has bound later sees the other, as a member or as one that does not listen yet; and it
 * becomes none as long as it sees one. Of several that do not listen yet the lowest waits,
 * and the others close theirs, so one of them remains. */
static int settle(int fd, const struct sockaddr_un *first, socklen_t first_len,
                  const struct sockaddr_un *self, socklen_t self_len)
{
    bool has_first = self_len == first_len;
    int rc = -1;

    for (int turn = 0; turn < TURNS; turn++) {
        unsigned seen = look_around(first, first_len, self, self_len);
        /* Where nobody sees a fallback name (no /proc) it is of no use. */
        if ((seen & SEEN_MEMBER) || (!has_first && !(seen & SEEN_SELF)))
            break;
        if (seen & SEEN_LOWER) {
            rc = 1;
            break;
        }
        if (!(seen & SEEN_HIGHER)) {
            if (!has_first && syscall(SYS_listen, fd, SOMAXCONN) < 0)
                break;
            return 0;
        }
        wait_a_turn();
    }
    util_fd_close_raw(fd);
    errno = EADDRINUSE;
    return rc;
}

/* With the first name in the hands of another user. As settle(), and fd. */
static int bind_fallback(const struct sockaddr_un *first, socklen_t first_len, int *fd)
{
    struct sockaddr_un name;
    unsigned seen = look_around(first, first_len, NULL, 0);
    socklen_t len;

    errno = EADDRINUSE;
    if (seen & SEEN_MEMBER)
        return -1;
    if (seen)
        return 1;
    if (boot_claim_name_new(first, first_len, &name, &len) < 0 ||
        (*fd = bind_name(&name, len, false)) < 0)
        return -1;
    return settle(*fd, first, first_len, &name, len);
}

/* The first name listens at once, so that who connects while we look is not refused; the
 * connections are lost if there is another member, and are made again. */
static int claim_bind(const struct sockaddr_un *address, socklen_t len, bool whoever)
{
    int fd = -1, rc = 1;

    for (int turn = 0; turn < TURNS && rc > 0; turn++) {
        if (turn > 0)
            wait_a_turn();
        if ((fd = bind_name(address, len, true)) >= 0) {
            rc = settle(fd, address, len, address, len);
            continue;
        }
        if (errno != EADDRINUSE || whoever)
            return -1;
        switch (boot_claim_holder(address, len, geteuid())) {
        case BOOT_CLAIM_OURS:
            rc = -1;
            break;
        case BOOT_CLAIM_FOREIGN:
            rc = boot_claim_is_user(address, geteuid()) ? bind_fallback(address, len, &fd)
                                                        : -1;
            break;
        case BOOT_CLAIM_FREE: /* it was closed just now */
            break;
        }
    }
    if (rc > 0)
        errno = EADDRINUSE; /* somebody who was stopped while he made up his mind */
    return rc == 0 ? fd : -1;
}

int boot_member_claim_bind(const struct sockaddr_un *address, socklen_t len)
{
    return claim_bind(address, len, false);
}

int boot_member_claim_bind_first(const struct sockaddr_un *address, socklen_t len)
{
    return claim_bind(address, len, true);
}
