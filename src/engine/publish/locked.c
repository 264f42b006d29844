/*
 * locked.c - what processes of this rank have locked of files that several nodes write
 */
#include "engine/publish/locked.h"

#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <utlist.h>

#include "util/fd_close.h"

struct locked *locked_find(struct locked *all, const char *upath, uint64_t owner)
{
    struct locked *locked;

    DL_FOREACH(all, locked)
    {
        if (locked->owner == owner && strcmp(locked->upath, upath) == 0)
            break;
    }
    return locked;
}

void locked_free(struct locked **all, struct locked *locked)
{
    DL_DELETE(*all, locked);
    if (locked->watch)
        net_watch_destroy(locked->watch);
    util_fd_close(locked->pidfd);
    lock_ranges_free(&locked->ranges);
    lock_nodes_free(&locked->asked);
    free(locked);
}

static void process_ended(void *arg, int fd, uint32_t events)
{
    struct locked *locked = arg;

    (void)fd;
    (void)events;
    locked->ended(locked);
}

struct locked *locked_get(struct locked **all, struct member *member, const char *upath,
                          uint64_t owner, void (*ended)(struct locked *locked))
{
    struct locked *locked = locked_find(*all, upath, owner);

    if (locked || !(locked = calloc(1, sizeof(*locked) + strlen(upath) + 1)))
        return locked;
    locked->member = member;
    locked->owner = owner;
    locked->ended = ended;
    locked->pidfd = -1;
    strcpy(locked->upath, upath);
    DL_APPEND(*all, locked);
    if ((pid_t)owner != getpid()) {
        locked->pidfd = (int)syscall(SYS_pidfd_open, (pid_t)owner, 0);
        locked->watch = locked->pidfd < 0 ? NULL
                                          : net_loop_watch(member->loop, locked->pidfd,
                                                           EPOLLIN, process_ended, locked);
        if (!locked->watch) {
            locked_free(all, locked);
            return NULL;
        }
    }
    return locked;
}

void locked_foreach(const struct locked *all, const char *upath, locks_info_fn fn,
                    void *arg)
{
    const struct locked *locked;

    DL_FOREACH(all, locked)
    {
        for (size_t i = 0; strcmp(locked->upath, upath) == 0 && i < locked->ranges.n; i++)
            fn(arg, (pid_t)locked->owner, &locked->ranges.range[i], 0, DYAD_RANK_NONE);
    }
}
