/*
 * boot/claim_names.h - the names of a rank's member, and whose the sockets behind them are
 *
 * Any user can bind any abstract name. Where another one holds the first name of a rank
 * (boot/member_claim.h) its member has a fallback name: the first one, "/", and 16 random
 * hexadecimal digits, which nobody can hold before it. It is found in /proc/net/unix, and
 * counts only if its socket is of the user (or root). Links libc only, makes its system
 * calls directly, and keeps no state: any thread may call it. All functions keep errno,
 * but those that return -1 with errno.
 */
#ifndef DYAD_BOOT_CLAIM_NAMES_H
#define DYAD_BOOT_CLAIM_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

/* True if the user that the name says is this one. */
bool boot_claim_is_user(const struct sockaddr_un *name, uid_t uid);

/* What a fallback name has more than the first one: "/" and the digits. */
#define BOOT_CLAIM_TAIL_LEN 17

/* True if the BOOT_CLAIM_TAIL_LEN bytes are what a fallback name has. A shorter text: no. */
bool boot_claim_is_tail(const char *tail);
/* True if `name` is the first name (*is_first) or a fallback name. */
bool boot_claim_is_name(const struct sockaddr_un *first, socklen_t first_len,
                        const struct sockaddr_un *name, socklen_t len);
/* Make a fallback name. 0, or -1: no random number can be had. */
int boot_claim_name_new(const struct sockaddr_un *first, socklen_t first_len,
                        struct sockaddr_un *name, socklen_t *len);

struct boot_claim_socket {
    struct sockaddr_un name;
    socklen_t len;
    bool listens; /* or did so until it was shut */
    uint64_t inode;
};

/* Not 0: the list ends, and that is its result. */
typedef int (*boot_claim_visit_fn)(const struct boot_claim_socket *found, void *arg);

/* All sockets of the caller's network namespace that have a name of the rank. 0, what the
 * visitor gave, or -1 with errno: they cannot be listed. */
int boot_claim_list(const struct sockaddr_un *first, socklen_t first_len,
                    boot_claim_visit_fn visit, void *arg);

/* True if the process at the other end of fd is of the user, or root's; of a connection to
 * a listening socket: the one that made it listen. */
bool boot_claim_is_of(int fd, uid_t uid);

#define BOOT_CLAIM_INODES 64

struct boot_claim_inodes {
    size_t n;
    struct {
        uint64_t inode;
        unsigned kind;
    } of[BOOT_CLAIM_INODES];
};

/* The kinds, put together, of those that are the user's, or root's: for sockets that cannot be connected to. Where the kernel
 * does not tell (sock_diag(7), Linux 5.3) all of them. */
unsigned boot_claim_held(const struct boot_claim_inodes *inodes, uid_t uid);

/* Connect without waiting: a non-blocking, close-on-exec socket, or -1: EPERM a process of
 * another user listens there; ECONNREFUSED nobody does; EAGAIN the queue is full, and it is
 * not known whose it is. */
int boot_claim_reach(const struct sockaddr_un *name, socklen_t len, uid_t uid);

enum boot_claim_holder {
    BOOT_CLAIM_FREE,    /* nobody has the name */
    BOOT_CLAIM_FOREIGN, /* no process of the user has it */
    BOOT_CLAIM_OURS     /* one has, whether it listens or not; or it cannot be found out */
};

/* Who has this name. Does not wait. */
enum boot_claim_holder boot_claim_holder(const struct sockaddr_un *name, socklen_t len,
                                         uid_t uid);

/* Another number for fd, 256 or above; lower, but never below 10, where the limit is
 * small. A descriptor, or -1 with errno. */
int boot_claim_dup_up(int fd);
/* fd under such a number. Returns it, or -1; fd is closed in any case. */
int boot_claim_move_up(int fd);

#endif
