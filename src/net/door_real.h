/*
 * net/door_real.h - the system's own functions, beside those that UCX finds in their place
 */
#ifndef DYAD_NET_DOOR_REAL_H
#define DYAD_NET_DOOR_REAL_H

#include <sys/socket.h>

struct net_door_real {
    int (*listen)(int fd, int backlog);
    int (*accept)(int fd, struct sockaddr *addr, socklen_t *len);
    int (*connect)(int fd, const struct sockaddr *addr, socklen_t len);
    int (*getsockname)(int fd, struct sockaddr *addr, socklen_t *len);
    ssize_t (*send)(int fd, const void *data, size_t len, int flags);
    ssize_t (*sendmsg)(int fd, const struct msghdr *msg, int flags);
    ssize_t (*recv)(int fd, void *data, size_t len, int flags);
    int (*close)(int fd);
};

/* libc's. Thread-safe. */
const struct net_door_real *net_door_real(void);

#endif
