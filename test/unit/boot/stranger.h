/*
 * stranger.h - a process of another user, for a test that root runs
 */
#ifndef DYAD_TEST_BOOT_STRANGER_H
#define DYAD_TEST_BOOT_STRANGER_H

#include <stdbool.h>

#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

#define STRANGER 61234 /* a user */

struct stranger {
    pid_t pid;
    int line; /* it ends when this is closed */
};

/* False: the test is skipped, as it is not root's. */
bool stranger_can(void);
/* The status, or 256 + the signal. */
int stranger_exit_of(pid_t pid);

enum { STRANGER_BINDS = -1 };

/* Another user has these names until stranger_end(): it listens with this backlog, of 0
 * with a full queue; or it is only bound. Who began later ends first. */
struct stranger stranger_holds(const struct sockaddr_un *names, const socklen_t *lens,
                               int n, int backlog);
void stranger_end(struct stranger stranger);

#endif
