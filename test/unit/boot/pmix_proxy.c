/*
 * pmix_proxy.c - what stands between a process and its PMIx server
 *
 * A child that lives as long as its parent takes the connections, and passes on what is
 * said. The launcher's variables PMIX_SERVER_URI...="name;tcp4://1.2.3.4:5" name its port.
 */
#include "pmix_proxy.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define CONNECTIONS 8

static const char *const names[] = {"PMIX_SERVER_URI41", "PMIX_SERVER_URI4",
                                    "PMIX_SERVER_URI3", "PMIX_SERVER_URI21",
                                    "PMIX_SERVER_URI2"};

struct pipe2 { /* a client, and the server it talks to */
    int fd[2];
    bool greeted;
};

static struct sockaddr_in real; /* the launcher's server */

static int local_listener(struct sockaddr_in *address)
{
    socklen_t len = sizeof(*address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    *address = (struct sockaddr_in){.sin_family = AF_INET,
                                    .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (fd < 0 || bind(fd, (struct sockaddr *)address, sizeof(*address)) < 0 ||
        listen(fd, CONNECTIONS) < 0 ||
        getsockname(fd, (struct sockaddr *)address, &len) < 0)
        return -1;
    return fd;
}

/* The address of the launcher's server; in its place, this one. */
static int change_environment(const struct sockaddr_in *to)
{
    char host[INET_ADDRSTRLEN], text[512];
    bool found = false;
    unsigned port;

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const char *uri = getenv(names[i]), *at = uri ? strstr(uri, ";tcp4://") : NULL;
        if (!at)
            continue;
        if (sscanf(at, ";tcp4://%15[0-9.]:%u", host, &port) != 2)
            return -1;
        real.sin_family = AF_INET;
        real.sin_port = htons((uint16_t)port);
        if (inet_pton(AF_INET, host, &real.sin_addr) != 1)
            return -1;
        snprintf(text, sizeof(text), "%.*s;tcp4://127.0.0.1:%u", (int)(at - uri), uri,
                 ntohs(to->sin_port));
        setenv(names[i], text, 1);
        found = true;
    }
    return found ? 0 : -1;
}

/* Pass on what has come from side `from`. False: that connection is over. */
static bool pass(struct pipe2 *pipe, int from, bool swallow)
{
    char buf[65536];
    ssize_t n = read(pipe->fd[from], buf, sizeof(buf));

    if (n <= 0)
        return false;
    for (ssize_t done = 0; !swallow && done < n;) {
        ssize_t written = write(pipe->fd[1 - from], buf + done, (size_t)(n - done));
        if (written <= 0)
            return false;
        done += written;
    }
    return true;
}

static _Noreturn void serve(enum pmix_proxy what, int listener)
{
    struct pipe2 pipes[CONNECTIONS];
    struct pollfd polls[1 + 2 * CONNECTIONS];
    bool first = true;
    int n = 0;

    signal(SIGPIPE, SIG_IGN);
    for (;;) {
        polls[0] = (struct pollfd){.fd = n < CONNECTIONS ? listener : -1, .events = POLLIN};
        for (int i = 0; i < 2 * n; i++)
            polls[1 + i] = (struct pollfd){.fd = pipes[i / 2].fd[i % 2], .events = POLLIN};
        if (poll(polls, (nfds_t)(1 + 2 * n), -1) < 0)
            _exit(1);
        for (int i = 0; i < 2 * n; i++) {
            struct pipe2 *pipe = &pipes[i / 2];
            if (!polls[1 + i].revents || pipe->fd[i % 2] < 0)
                continue;
            bool deaf = what == PROXY_DEAF && i / 2 == 0 && pipe->greeted;
            if (!pass(pipe, i % 2, deaf && i % 2 == 0)) {
                close(pipe->fd[0]);
                close(pipe->fd[1]);
                pipe->fd[0] = pipe->fd[1] = -1;
            } else if (i % 2 == 1) {
                pipe->greeted = true;
            }
        }
        if (polls[0].revents) {
            int fd = accept(listener, NULL, NULL), to;
            if (what == PROXY_CLOSES || (what == PROXY_CLOSES_FIRST && first)) {
                first = false;
                close(fd);
                continue;
            }
            to = socket(AF_INET, SOCK_STREAM, 0);
            if (connect(to, (struct sockaddr *)&real, sizeof(real)) < 0)
                _exit(2);
            pipes[n++] = (struct pipe2){.fd = {fd, to}};
        }
    }
}

int pmix_proxy_start(enum pmix_proxy what)
{
    struct sockaddr_in address;
    pid_t parent = getpid(), child;
    int listener = local_listener(&address);

    if (listener < 0 || change_environment(&address) < 0)
        return -1;
    if (what != PROXY_REFUSES) {
        if ((child = fork()) < 0)
            return -1;
        if (child == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            if (getppid() != parent)
                _exit(3);
            serve(what, listener);
        }
    }
    close(listener);
    return 0;
}
