/*
 * limit.c - getrlimit, setrlimit, prlimit
 *
 * What is shown is two numbers, set one after the other: a program whose threads set and
 * read its limit at once may see one of each.
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

#include "wrapper/core.h"
#include "wrapper/member_thread.h"
#include "wrapper/real.h"

#define NEEDED 1024 /* soft limit: 512 numbers that are kept free, and as many again */

static _Atomic bool held;
static _Atomic uint64_t shown_soft, shown_hard;

/* As the kernel has it, whatever libc's struct is. */
struct kernel_limit {
    uint64_t soft, hard;
};

static int kernel(const struct kernel_limit *set, struct kernel_limit *get)
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
    struct kernel_limit now, more;
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
    struct kernel_limit limit = {atomic_load(&shown_soft), atomic_load(&shown_hard)};
    int saved = errno;

    if (!atomic_load(&held))
        return;
    kernel(&limit, NULL);
    if (wrapper_mine()) /* the child of vfork must leave its parent's */
        atomic_store(&held, false);
    errno = saved;
}

/* setrlimit and getrlimit of this process. 1: done, -1: failed, 0: the kernel's business.
 */
static int emulate(const struct kernel_limit *set, struct kernel_limit *get)
{
    struct kernel_limit now, next;
    bool was_held = atomic_load(&held);

    if (!was_held && (!set || set->soft >= NEEDED || !wrapper_member_here()))
        return 0;
    if (kernel(NULL, &now) < 0)
        return -1;
    next = was_held
               ? (struct kernel_limit){atomic_load(&shown_soft), atomic_load(&shown_hard)}
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
    next = (struct kernel_limit){set->soft, set->hard > now.hard ? set->hard : now.hard};
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

static bool concerns(int resource)
{
    return resource == RLIMIT_NOFILE && wrapper_active() && wrapper_mine();
}

/* struct rlimit and rlimit64 are alike where off_t is 64 bits. */
_Static_assert(sizeof(struct rlimit) == sizeof(struct kernel_limit), "two 64-bit numbers");

#define DEFINE_SET(name)                                                               \
    int wrapped_##name(int resource, const struct rlimit *limit)                       \
    {                                                                                  \
        int rc = limit && concerns(resource)                                           \
                     ? emulate((const struct kernel_limit *)(const void *)limit, NULL) \
                     : 0;                                                              \
        return rc ? (rc > 0 ? 0 : -1) : REAL(name)(resource, limit);                   \
    }
DEFINE_SET(setrlimit)
DEFINE_SET(setrlimit64)

#define DEFINE_GET(name)                                                   \
    int wrapped_##name(int resource, struct rlimit *limit)                 \
    {                                                                      \
        int rc = limit && concerns(resource)                               \
                     ? emulate(NULL, (struct kernel_limit *)(void *)limit) \
                     : 0;                                                  \
        return rc ? (rc > 0 ? 0 : -1) : REAL(name)(resource, limit);       \
    }
DEFINE_GET(getrlimit)
DEFINE_GET(getrlimit64)

#define DEFINE_PRLIMIT(name)                                                   \
    int wrapped_##name(pid_t pid, int resource, const struct rlimit *set,      \
                       struct rlimit *get)                                     \
    {                                                                          \
        int rc = (pid == 0 || pid == getpid()) && concerns(resource)           \
                     ? emulate((const struct kernel_limit *)(const void *)set, \
                               (struct kernel_limit *)(void *)get)             \
                     : 0;                                                      \
        return rc ? (rc > 0 ? 0 : -1) : REAL(name)(pid, resource, set, get);   \
    }
DEFINE_PRLIMIT(prlimit)
DEFINE_PRLIMIT(prlimit64)
