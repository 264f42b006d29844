/*
 * takeover_watch.c - noticing the death of a member of our node
 *
 * Each member keeps a connection to the claim of one other of its node, the first that
 * lives: when one of the two ends the other sees it. Members and connections are one
 * connected graph (a member that joins connects to one that is there, and one that has
 * lost its neighbour connects to the first that lives), so a dead member has a live
 * neighbour, if any member lives. A process's descriptors are closed before it is dead:
 * the neighbour waits for its end (pidfd), and then looks.
 */
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <utlist.h>

#include "engine/recovery/takeover.h"
#include "engine/recovery/takeover_impl.h"

/* Its process closed a connection: when it has ended, we look. */
struct dying {
    struct dying *prev, *next; /* utlist */
    struct takeover *takeover;
    pid_t pid;
    int fd;
    struct net_watch *watch;
};

static void dying_free(struct dying *dying)
{
    DL_DELETE(dying->takeover->dying, dying);
    if (dying->watch)
        net_watch_destroy(dying->watch);
    if (dying->fd >= 0)
        close(dying->fd);
    free(dying);
}

static void process_ended(void *arg, int fd, uint32_t events)
{
    struct dying *dying = arg;
    struct takeover *a = dying->takeover;

    (void)fd;
    (void)events;
    dying_free(dying);
    takeover_look(a->member);
}

void takeover_watch(struct member *member, pid_t pid)
{
    struct takeover *a = OWN(member, takeover);
    struct dying *dying;

    if (!a->member || pid <= 0 || pid == getpid()) /* who joins looks anyway */
        return;
    DL_FOREACH(a->dying, dying)
    {
        if (dying->pid == pid)
            return;
    }
    if (!(dying = calloc(1, sizeof(*dying))))
        return;
    dying->takeover = a;
    dying->pid = pid;
    dying->fd = (int)syscall(SYS_pidfd_open, pid, 0);
    DL_APPEND(a->dying, dying);
    if (dying->fd >= 0 && (dying->watch = net_loop_watch(member->loop, dying->fd, EPOLLIN,
                                                         process_ended, dying)))
        return;
    dying_free(dying);
    takeover_look(member); /* ended by now */
}

static void unwatch(struct takeover *a)
{
    if (a->watch)
        net_watch_destroy(a->watch);
    a->watch = NULL;
    if (a->fd >= 0)
        close(a->fd);
    a->fd = -1;
}

/* It has ended, or is about to, or its member leaves by exec: we need another neighbour. */
static void neighbour_gone(void *arg, int fd, uint32_t events)
{
    struct takeover *a = arg;
    pid_t pid = a->pid;

    (void)fd;
    (void)events;
    unwatch(a);
    takeover_watch(a->member, pid);
    takeover_look(a->member);
}

void takeover_watch_found(struct takeover *a)
{
    if (a->neighbour_fd >= 0 && a->fd < 0) {
        a->fd = a->neighbour_fd;
        a->pid = a->neighbour;
        a->watch =
            net_loop_watch(a->member->loop, a->fd, EPOLLIN | EPOLLRDHUP, neighbour_gone, a);
        if (!a->watch)
            unwatch(a);
    } else if (a->neighbour_fd >= 0) {
        close(a->neighbour_fd);
    }
    a->neighbour_fd = -1;
    for (size_t i = 0; i < a->nabsent; i++)
        takeover_watch(a->member, a->absent[i]);
    a->nabsent = 0;
}

void takeover_watch_stop(struct takeover *a)
{
    unwatch(a);
    if (a->neighbour_fd >= 0)
        close(a->neighbour_fd);
    while (a->dying)
        dying_free(a->dying);
}
