/*
 * rlimit.c - getrlimit, setrlimit, prlimit
 */
#include <sys/resource.h>
#include <unistd.h>

#include "wrapper/core.h"
#include "wrapper/limit.h"
#include "wrapper/member_thread.h"
#include "wrapper/real.h"

/* struct rlimit and rlimit64 are alike where off_t is 64 bits. */
_Static_assert(sizeof(struct rlimit) == sizeof(struct wrapper_limit), "two 64-bit numbers");

static int emulate(int resource, const void *set, void *get)
{
    if (resource != RLIMIT_NOFILE || !wrapper_active() || !wrapper_mine())
        return 0;
    return wrapper_limit_emulate(set, get, wrapper_member_here());
}

#define DEFINE_SET(name)                                             \
    int wrapped_##name(int resource, const struct rlimit *limit)     \
    {                                                                \
        int rc = limit ? emulate(resource, limit, NULL) : 0;         \
        return rc ? (rc > 0 ? 0 : -1) : REAL(name)(resource, limit); \
    }
DEFINE_SET(setrlimit)
DEFINE_SET(setrlimit64)

#define DEFINE_GET(name)                                             \
    int wrapped_##name(int resource, struct rlimit *limit)           \
    {                                                                \
        int rc = limit ? emulate(resource, NULL, limit) : 0;         \
        return rc ? (rc > 0 ? 0 : -1) : REAL(name)(resource, limit); \
    }
DEFINE_GET(getrlimit)
DEFINE_GET(getrlimit64)

#define DEFINE_PRLIMIT(name)                                                    \
    int wrapped_##name(pid_t pid, int resource, const struct rlimit *set,       \
                       struct rlimit *get)                                      \
    {                                                                           \
        int rc = pid == 0 || pid == getpid() ? emulate(resource, set, get) : 0; \
        return rc ? (rc > 0 ? 0 : -1) : REAL(name)(pid, resource, set, get);    \
    }
DEFINE_PRLIMIT(prlimit)
DEFINE_PRLIMIT(prlimit64)
