/*
 * refetch.c - files that this node made and another has published anew are brought again
 *
 * A producer that lists its directory at the end finds its files, in their newest
 * version. The old file keeps its name meanwhile (outdated.c), so there is no hurry.
 * Until the new one has come, or the name is withdrawn, the homes count this rank among
 * those who have a copy (dht_node_stays()). All of it belongs to the loop's thread.
 *
 * What could go wrong: the file cannot be brought (FAILED; exiting(), refetch_pending());
 * it is written again and again (refetch_want()).
 *
 *   state   until                            then
 *   DUE     nothing newer was heard of for   BRING
 *           QUIET; or the program's end
 *   BRING   consume_start() has ended        forgotten; or, if it could not be, FAILED
 *   FAILED  a pause that doubles, or the     BRING
 *           program's end
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <utlist.h>

#include "engine/coherence/invalidate.h"
#include "engine/coherence/outdated.h"
#include "engine/coherence/refetch.h"
#include "engine/core/local_file.h"
#include "engine/core/member_impl.h"
#include "engine/core/module.h"
#include "engine/fetch/consume.h"
#include "engine/membership/exit_barrier.h"
#include "engine/publish/produce.h"
#include "util/log.h"

#define QUIET     (100 * UTIL_NSEC_PER_MSEC)
#define PAUSE     (2 * UTIL_NSEC_PER_SEC)
#define PAUSE_MAX (60 * UTIL_NSEC_PER_SEC)
#define AT_ONCE   8

struct item {
    struct item *prev, *next; /* utlist */
    struct refetch *refetch;
    struct consume *consume;   /* BRING */
    struct dht_lookup *lookup; /* or it is not published: was it withdrawn? */
    uint64_t due;
    uint64_t pause; /* FAILED; else 0 */
    bool again;     /* it became due in BRING */
    char upath[];
};

struct refetch {
    struct member *member;
    struct net_timer *timer;
    struct item *items;
    unsigned nbrought; /* in BRING */
};

static struct item *find(const struct member *member, const char *upath)
{
    struct item *item;

    DL_FOREACH(OWN(member, refetch)->items, item)
    {
        if (strcmp(item->upath, upath) == 0)
            break;
    }
    return item;
}

static void set_timer(struct refetch *r)
{
    uint64_t when = UINT64_MAX;
    struct item *item;

    DL_FOREACH(r->items, item)
    {
        if (!item->consume && !item->lookup && item->due < when)
            when = item->due;
    }
    if (when != UINT64_MAX && r->nbrought < AT_ONCE)
        net_timer_start(r->timer, when);
    else
        net_timer_stop(r->timer);
}

static void drop(struct item *item)
{
    DL_DELETE(item->refetch->items, item);
    free(item);
}

/* At the name, as far as this node knows. What cannot be looked at counts as NEWEST: nothing is to
 * be done about it. */
enum lies { NOTHING, NEWEST, SUPERSEDED };

static enum lies what_lies(struct member *member, const char *upath)
{
    const struct member_dmd *dmd = &member->dmd[ENGINE_CONSUMER];
    struct stat st;

    if (store_dir_stat(dmd->dir, upath, &st) < 0)
        return errno == ENOENT ? NOTHING : NEWEST;
    return local_file_is_superseded(dmd, upath, &st) ? SUPERSEDED : NEWEST;
}

static void failed(struct item *item, int status)
{
    struct member *member = item->refetch->member;

    if (!item->pause)
        log_warn(
            "\"%s\" below %s was made on this node and published anew by another, from "
            "where it cannot be brought: %s. What lies there is the older one, which opens "
            "here do not use",
            item->upath, store_dir_path(member->dmd[ENGINE_CONSUMER].dir),
            strerror(status));
    item->pause = item->pause ? 2 * item->pause : PAUSE;
    if (item->pause > PAUSE_MAX)
        item->pause = PAUSE_MAX;
    item->due = util_clock_now() + item->pause;
}

/* A rank that was stopped may not know of the withdrawal. If no home knows the name, the
 * old file may be all that is left. */
static void looked_up(void *arg, int status, const struct dyad_entry *entry)
{
    struct item *item = arg;
    struct refetch *r = item->refetch;
    struct member *member = r->member;

    item->lookup = NULL;
    if (item->again) {
        item->again = false; /* the answer may be older than what was heard since */
    } else if (status == ENOENT && entry && entry->state == DYAD_ENTRY_WITHDRAWN) {
        local_file_withdrawn(&member->dmd[ENGINE_CONSUMER], item->upath);
        if (!invalidate_pending(member, item->upath))
            invalidate_forget(member, item->upath);
        drop(item);
    } else {
        failed(item, status ? status : EAGAIN);
    }
    set_timer(r);
    exit_barrier_activity(member);
}

static void brought(void *arg, int status)
{
    struct item *item = arg;
    struct refetch *r = item->refetch;
    struct member *member = r->member;

    item->consume = NULL;
    r->nbrought--;
    if (item->again) {
        item->again = false;
    } else if (status == ENOENT &&
               (item->lookup =
                    dht_node_lookup(member->dht, item->upath, 0, NULL, looked_up, item))) {
        set_timer(r);
        return;
    } else if (status != 0) {
        failed(item, status);
    } else if (what_lies(member, item->upath) != NEWEST) {
        /* Somebody here has it open for writing, and has not changed it. */
        item->due = util_clock_now() + PAUSE;
        item->pause = PAUSE;
    } else {
        if (item->pause)
            log_info("\"%s\" has been brought here after all", item->upath);
        if (!invalidate_pending(member, item->upath))
            invalidate_forget(member, item->upath);
        drop(item);
    }
    set_timer(r);
    exit_barrier_activity(member);
}

static void bring_due(void *arg)
{
    struct refetch *r = arg;
    uint64_t now = util_clock_now();
    struct item *item;

    DL_FOREACH(r->items, item)
    {
        if (item->consume || item->lookup || item->due > now || r->nbrought == AT_ONCE)
            continue;
        item->again = false;
        item->consume = consume_start(r->member, item->upath, NET_CONSUME_WRITER, 0, 0, 0,
                                      brought, item);
        if (item->consume)
            r->nbrought++;
        else
            failed(item, errno);
    }
    set_timer(r);
}

static int refetch_start(struct member *member)
{
    struct refetch *r = OWN(member, refetch);

    r->member = member;
    r->timer = net_timer_create(member->loop, bring_due, r);
    return r->timer ? 0 : -1;
}

static void stop(struct item *item)
{
    if (item->consume)
        consume_cancel(item->consume);
    if (item->lookup)
        dht_node_cancel(item->refetch->member->dht, item->lookup);
}

/* A newer version makes the file DUE again (the transfer of the older one ends by
 * itself), so of what is written again and again in short intervals not every version is
 * fetched. A fetch that an open asks for meanwhile is as good: then there is nothing left
 * to be brought. */
void refetch_want(struct member *member, const char *upath)
{
    struct item *item = find(member, upath);
    struct refetch *r = OWN(member, refetch);
    size_t len = strlen(upath);

    if (member->state == MEMBER_LEAVING)
        return;
    if (!item && (item = calloc(1, sizeof(*item) + len + 1))) {
        item->refetch = r;
        memcpy(item->upath, upath, len + 1);
        DL_APPEND(r->items, item);
    }
    if (!item) {
        log_error(
            "out of memory: \"%s\", which another node has published anew, is not "
            "brought here",
            upath);
        return;
    }
    item->again = item->consume || item->lookup;
    item->pause = 0;
    item->due = util_clock_now() + (member->state == MEMBER_EXITING ? 0 : QUIET);
    set_timer(r);
    exit_barrier_activity(member);
}

bool refetch_wants(const struct member *member, const char *upath)
{
    return find(member, upath) != NULL;
}

static bool to_come_back(struct member *member, const char *upath)
{
    return refetch_wants(member, upath);
}

/* It had got its name when the news of another version came. It may be superseded already, as the
 * file of others of this node, who have written to it since. */
static bool overtaken(struct member *member, struct member_dmd *dmd,
                      const struct dyad_entry *newer, const struct store_record *record)
{
    bool ends = outdated_end(dmd, newer, record);

    if (!ends && (!dmd->brings || what_lies(member, newer->upath) != SUPERSEDED))
        return false;
    refetch_want(member, newer->upath);
    return true;
}

void refetch_forget(struct member *member, const char *upath)
{
    struct item *item = find(member, upath);

    if (!item)
        return;
    if (item->consume)
        item->refetch->nbrought--;
    stop(item);
    drop(item);
    set_timer(OWN(member, refetch));
    exit_barrier_activity(member);
}

/* The exit barrier, and DYAD_LINGER for DYAD_JOIN_TIMEOUT, wait for what is DUE or in
 * BRING, and not for what fails then: that is named when it fails (failed()), and again
 * at the end. */
static bool refetch_pending(struct member *member)
{
    uint64_t now = util_clock_now();
    const struct item *item;

    DL_FOREACH(OWN(member, refetch)->items, item)
    {
        if (item->consume || item->lookup || !item->pause || item->due <= now)
            return true;
    }
    return false;
}

/* At the program's end what has FAILED is tried once more: all that kept it may have been
 * a descriptor that the program had open. */
static void exiting(struct member *member, bool soon)
{
    struct refetch *r = OWN(member, refetch);
    struct item *item;
    unsigned n = 0;

    if (soon)
        return;
    DL_FOREACH(r->items, item)
    {
        item->due = util_clock_now();
        n++;
    }
    if (n > 0)
        log_info(
            "%u files that were made on this node, and published anew by others, are "
            "brought here before it leaves",
            n);
    set_timer(r);
}

static void refetch_destroy(struct member *member)
{
    struct refetch *r = OWN(member, refetch);
    struct item *item, *tmp;

    DL_FOREACH_SAFE(r->items, item, tmp)
    {
        stop(item);
        /* Another rank of the node may have brought it. */
        if (what_lies(member, item->upath) != NEWEST)
            log_warn(
                "\"%s\" below %s was made on this node, and is older than what another has "
                "published: that was not brought here",
                item->upath, store_dir_path(member->dmd[ENGINE_CONSUMER].dir));
        drop(item);
    }
    net_timer_destroy(r->timer);
}

const struct member_module refetch_module = {
    .own = MODULE_OWN(refetch),
    .start = refetch_start,
    .overtaken = overtaken,
    .to_come_back = to_come_back,
    .exiting = exiting,
    .pending = refetch_pending,
    .urgent = refetch_pending,
    .destroy = refetch_destroy,
};
