/*
 * limit.c - the limit that is shown, and the one in force
 *
 * The limit that is shown is two numbers, set one after the other: a program whose threads
 * set and read its limit at once may see one of each.
 *
 * The hard limit is never lowered while the member is here: it could not be raised again.
 * sysconf(_SC_OPEN_MAX) asks the kernel inside libc and sees what is in force; and the
 * program itself may have more descriptors than it was shown.
 */
#include "wrapper/limit.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "wrapper/phase.h"

#define NEEDED 1024 /* soft limit: 512 numbers that are kept free, and as many again */

static _Atomic bool held;
static _Atomic uint64_t shown_soft, shown_hard;

static int kernel(const struct wrapper_limit *set, struct wrapper_limit *get)
{
    return (int)syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, set, get);
}

static void show(uint64_t soft, uint64_t hard)
{
    atomic_store(&shown_soft, soft);
    atomic_store(&shown_hard, hard);
    atomic_store(&held, true);
}

void wrapper_limit_hold(void)
{
    struct wrapper_limit now, more;
    int saved = errno;

    if (!atomic_load(&held) && kernel(NULL, &now) == 0 && now.soft < NEEDED) {
        more = now;
        more.soft = now.hard < NEEDED ? now.hard : NEEDED;
        if (more.soft > now.soft && kernel(&more, NULL) == 0)
            show(now.soft, now.hard);
    }
    errno = saved;
}

void wrapper_limit_apply(void)
{
    struct wrapper_limit limit = {atomic_load(&shown_soft), atomic_load(&shown_hard)};
    int saved = errno;

    if (!atomic_load(&held))
        return;
    kernel(&limit, NULL);
    if (wrapper_owner_is_self()) /* the child of vfork must leave its parent's */
        atomic_store(&held, false);
    errno = saved;
}

int wrapper_limit_emulate(const struct wrapper_limit *set, struct wrapper_limit *get,
                          bool member_here)
{
    struct wrapper_limit now, next;
    bool was_held = atomic_load(&held);

    if (!was_held && (!set || set->soft >= NEEDED || !member_here))
        return 0;
    if (kernel(NULL, &now) < 0)
        return -1;
    next = was_held
               ? (struct wrapper_limit){atomic_load(&shown_soft), atomic_load(&shown_hard)}
               : now;
    if (get)
        *get = next;
    if (!set)
        return 1;
    if (set->soft > set->hard) {
        errno = EINVAL;
        return -1;
    }
    if (set->hard > next.hard && geteuid() != 0) {
        errno = EPERM;
        return -1;
    }
    next = (struct wrapper_limit){set->soft, set->hard > now.hard ? set->hard : now.hard};
    if (next.soft < NEEDED)
        next.soft = next.hard < NEEDED ? next.hard : NEEDED;
    if (kernel(&next, NULL) < 0)
        return -1;
    if (next.soft == set->soft && next.hard == set->hard)
        atomic_store(&held, false);
    else
        show(set->soft, set->hard);
    return 1;
}
