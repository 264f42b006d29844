/*
 * shift_clock.c - LD_AUDIT: CLOCK_REALTIME is off by SHIFT_MS in this process, for whichever library asks
 */
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int (*real)(clockid_t id, struct timespec *ts);
static long long shift; /* ns */

static int shifted(clockid_t id, struct timespec *ts)
{
    int rc = real(id, ts);

    if (rc == 0 && id == CLOCK_REALTIME) {
        long long now = ts->tv_sec * 1000000000ll + ts->tv_nsec + shift;
        ts->tv_sec = now / 1000000000;
        ts->tv_nsec = now % 1000000000;
    }
    return rc;
}

unsigned int la_version(unsigned int version)
{
    const char *ms = getenv("SHIFT_MS");

    shift = ms ? atoll(ms) * 1000000 : 0;
    return version < LAV_CURRENT ? version : LAV_CURRENT;
}

unsigned int la_objopen(struct link_map *map, Lmid_t lmid, uintptr_t *cookie)
{
    (void)map;
    (void)lmid;
    (void)cookie;
    return LA_FLG_BINDTO | LA_FLG_BINDFROM;
}

uintptr_t la_symbind64(Elf64_Sym *symbol, unsigned int index, uintptr_t *from,
                       uintptr_t *to, unsigned int *flags, const char *name)
{
    (void)index;
    (void)from;
    (void)to;
    (void)flags;
    if (strcmp(name, "clock_gettime") != 0)
        return symbol->st_value;
    real = (int (*)(clockid_t, struct timespec *))symbol->st_value;
    return (uintptr_t)shifted;
}
