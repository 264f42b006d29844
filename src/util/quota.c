/*
 * quota.c - a counter for each rank that has ever had one: some 80 bytes each
 */
#include "util/quota.h"

#include <stdlib.h>
#include <uthash.h>

#include "util/clock.h"
#include "util/log.h"

#define LOG_INTERVAL (10 * UTIL_NSEC_PER_SEC)

struct util_quota_rank {
    UT_hash_handle hh;
    uint32_t rank, count;
};

static struct util_quota_rank *find(const struct util_quota *quota, uint32_t rank)
{
    struct util_quota_rank *r;

    HASH_FIND(hh, quota->ranks, &rank, sizeof(rank), r);
    return r;
}

static struct util_quota_rank *find_or_make(struct util_quota *quota, uint32_t rank)
{
    struct util_quota_rank *r = find(quota, rank);

    if (r || !(r = calloc(1, sizeof(*r))))
        return r;
    r->rank = rank;
    HASH_ADD(hh, quota->ranks, rank, sizeof(r->rank), r);
    if (!r->hh.tbl) {
        free(r);
        return NULL;
    }
    return r;
}

static void say_refused(struct util_quota *quota, uint32_t rank, uint32_t most,
                        const char *what)
{
    uint64_t now = util_clock_now();

    quota->refused++;
    if (quota->logged_at && now - quota->logged_at < LOG_INTERVAL)
        return;
    quota->logged_at = now;
    log_warn(
        "rank %u has %u %s here, which is the bound: it is broken; %llu refused up to now",
        rank, most, what, (unsigned long long)quota->refused);
}

bool util_quota_take(struct util_quota *quota, uint32_t rank, uint32_t most,
                     const char *what)
{
    struct util_quota_rank *r = find_or_make(quota, rank);

    if (!r)
        return false;
    if (r->count >= most) {
        say_refused(quota, rank, most, what);
        return false;
    }
    r->count++;
    return true;
}

void util_quota_return(struct util_quota *quota, uint32_t rank)
{
    struct util_quota_rank *r = find(quota, rank);

    if (r && r->count > 0)
        r->count--;
}

void util_quota_clear(struct util_quota *quota)
{
    struct util_quota_rank *r, *tmp;

    HASH_ITER(hh, quota->ranks, r, tmp)
    {
        HASH_DEL(quota->ranks, r);
        free(r);
    }
}
