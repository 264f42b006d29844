/*
 * list.c - the names that are published directly below a directory
 *
 * Each shard knows which of its records lie below which directory (dht/index.h). A listing
 * asks every live rank, some at a time, page by page, and drops what another home has told
 * already. An index at one home for each directory would need one message for a listing,
 * but one more for every publish, and make one rank the home of all names in a directory
 * that a whole job writes to. Here a publish pays nothing; see docs/dht.md.
 *
 * What could be missed: an entry whose homes all died or were silent during the listing. As
 * each has `replicas` homes, that takes so many ranks; the listing then fails. Ranks that
 * were known to be dead before are no homes: what they had kept is elsewhere. Where some
 * turn out to be dead meanwhile (an exec is a death, too) the others are asked again, as a
 * listing would that begins now.
 */
/* Out of memory must not end the host program: uthash then leaves hh.tbl NULL. */
#define HASH_NONFATAL_OOM 1
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>
#include <utlist.h>

#include "engine/gather.h"
#include "engine/member.h"
#include "util/clock.h"
#include "util/log.h"

#define RANKS_AT_ONCE 64

/* --- the shard's side --- */

struct page {
    unsigned char names[NET_MSG_BLOB_MAX];
    size_t used;
};

static int page_add(const char *name, const struct dyad_entry *entry, void *arg)
{
    struct page *page = arg;
    unsigned char type = IFTODT(entry->mode);

    if (type != DT_REG && type != DT_DIR && type != DT_LNK)
        return 0;
    return !net_list_add(page->names, sizeof(page->names), &page->used, name, type);
}

void list_serve(struct member *member, const struct net_msg *msg)
{
    static struct page page; /* the loop's thread only */
    const char *upath = msg->entry.upath ? msg->entry.upath : "";
    struct net_msg reply = {.type = NET_MSG_LIST_REPLY, .id = msg->id};

    page.used = 0;
    if (member->config->listing) {
        struct dht_list_at at = {.after = msg->offset, .end = msg->length};
        bool more =
            dht_shard_list(dht_node_shard(member->dht), upath, &at, page_add, &page);
        reply.flags = more ? NET_LIST_MORE : 0;
        reply.offset = at.after;
        reply.length = at.end;
        reply.blob = page.names;
        reply.blob_len = page.used;
    } else {
        reply.status = ENOTSUP;
    }
    member_send(member, msg->source, &reply);
}

/* --- the asker's side --- */

struct list_name {
    UT_hash_handle hh;
    char name[];
};

struct list_request {
    struct list_request *prev, *next; /* utlist */
    struct member *member;
    struct gather *gather;      /* NULL: we wait for who is missing */
    struct net_timer *patience; /* for so long */
    char *upath;
    unsigned silent, lost; /* lost: died meanwhile */
    bool missing;          /* some of the silent may be back soon */
    bool waited;           /* for them, long enough */
    uint64_t began;
    struct list_name *names; /* that have come */
    int status;
    list_page_fn page;
    list_done_fn done;
    void *arg;
};

static void list_free(struct list_request *list)
{
    struct list_name *name, *ntmp;

    DL_DELETE(list->member->lists, list);
    if (list->patience)
        net_timer_destroy(list->patience);
    HASH_ITER(hh, list->names, name, ntmp)
    {
        HASH_DEL(list->names, name);
        free(name);
    }
    free(list->upath);
    free(list);
}

static bool list_wanted(void *arg, uint32_t rank)
{
    struct list_request *list = arg;

    if (dht_node_is_live(list->member->dht, rank))
        return true;
    if (lost_is_missing(list->member, rank)) {
        list->silent++;
        list->missing = true;
    }
    return false;
}

static void list_ask(void *arg, const struct gather_at *at, struct net_msg *msg)
{
    const struct list_request *list = arg;

    msg->type = NET_MSG_LIST;
    msg->entry.upath = list->upath;
    msg->offset = at->first; /* struct dht_list_at */
    msg->length = at->second;
}

static void count_missing(struct list_request *list, uint32_t rank, const char *why)
{
    log_info("%s %s in the listing of \"%s\"", member_describe(list->member, rank), why,
             list->upath);
    if (dht_node_is_live(list->member->dht, rank))
        list->silent++;
    else
        list->lost++;
}

static void list_failed(void *arg, uint32_t rank, int error)
{
    struct list_request *list = arg;

    if (error == ENOMEM)
        list->status = ENOMEM;
    else
        count_missing(list, rank, error == ETIMEDOUT ? "does not answer" : "is gone");
}

/* So many did not tell what they have that an entry may have been missed. */
static bool is_partial(const struct list_request *list)
{
    const struct member *member = list->member;
    uint32_t replicas = member->self.replicas < member->job->nranks ? member->self.replicas
                                                                    : member->job->nranks;

    return list->silent + list->lost >= replicas;
}

static void list_ask_again(struct list_request *list);

static void patience_over(void *arg)
{
    struct list_request *list = arg;

    list->waited = true;
    if (!list->gather)
        list_ask_again(list);
}

/* Ranks on their way through exec, mostly. For DYAD_PEER_TIMEOUT in all it is worth
 * waiting for news of them; list_rank_changed() brings it. */
static bool list_waits(struct list_request *list)
{
    struct member *member = list->member;

    uint64_t end =
        list->began + (uint64_t)(member->config->peer_timeout * (double)UTIL_NSEC_PER_SEC);

    if (!list->missing || list->waited || util_clock_now() >= end)
        return false;
    if (list->patience)
        return true;
    if (!(list->patience = net_timer_create(member->loop, patience_over, list)))
        return false;
    net_timer_start(list->patience, end);
    return true;
}

/* Where some died meanwhile what they had is with others by now. */
static bool list_done(void *arg)
{
    struct list_request *list = arg;
    list_done_fn done = list->done;
    int status = list->status;

    if (!status && list->lost > 0 && is_partial(list)) {
        list->silent = list->lost = 0;
        list->missing = false;
        return true;
    }
    if (!status && is_partial(list) && list_waits(list)) {
        list->gather = NULL;
        return false;
    }
    if (!status && is_partial(list)) {
        log_warn("the listing of \"%s\" is not whole: %u ranks do not answer", list->upath,
                 list->silent);
        status = EHOSTUNREACH;
    }
    arg = list->arg;
    list_free(list);
    done(arg, status);
    return false;
}

/* 1: it is new; 0: it has come; -1: ENOMEM. */
static int list_note(struct list_request *list, const char *name)
{
    size_t len = strlen(name);
    struct list_name *known;

    HASH_FIND(hh, list->names, name, len, known);
    if (known)
        return 0;
    if (!(known = calloc(1, sizeof(*known) + len + 1)))
        return -1;
    memcpy(known->name, name, len + 1);
    HASH_ADD_KEYPTR(hh, list->names, known->name, len, known);
    if (known->hh.tbl)
        return 1;
    free(known);
    return -1;
}

/* Pass on what has not come. 0, or an errno value. */
static int list_take(struct list_request *list, const struct net_msg *msg)
{
    static unsigned char names[NET_MSG_BLOB_MAX]; /* the loop's thread only */
    size_t at = 0, used = 0;
    unsigned char type;
    const char *name;

    while ((name = net_list_next(msg->blob, msg->blob_len, &at, &type))) {
        int fresh = list_note(list, name);
        if (fresh < 0)
            return ENOMEM;
        if (fresh)
            net_list_add(names, sizeof(names), &used, name, type);
    }
    if (at < msg->blob_len)
        return EPROTO;
    if (used > 0)
        list->page(list->arg, names, used);
    return 0;
}

static enum gather_step list_answer(void *arg, struct gather_at *at,
                                    const struct net_msg *msg)
{
    struct list_request *list = arg;
    bool more = (msg->flags & NET_LIST_MORE) != 0;
    int status;

    if (list->status)
        return GATHER_STOP;
    if (msg->type != NET_MSG_LIST_REPLY || msg->status) {
        count_missing(list, at->rank,
                      msg->status == ENOTSUP ? "has DYAD_LISTING off" : "failed");
        return GATHER_LAST;
    }
    status = list_take(list, msg);
    if (status == ENOMEM) {
        list->status = status;
        return GATHER_STOP;
    }
    if (status || (more && msg->offset <= at->first)) {
        count_missing(list, at->rank, "sent a page that cannot be read");
        return GATHER_LAST;
    }
    at->first = msg->offset;
    at->second = msg->length;
    return more ? GATHER_MORE : GATHER_LAST;
}

static const struct gather_ops list_ops = {list_wanted, list_ask, list_answer, list_failed,
                                           list_done};

static void list_ask_again(struct list_request *list)
{
    struct member *member = list->member;
    list_done_fn done = list->done;
    void *arg = list->arg;

    list->silent = list->lost = 0;
    list->missing = false;
    list->gather =
        gather_start(member, 0, member->job->nranks, RANKS_AT_ONCE, &list_ops, list);
    if (list->gather)
        return;
    list_free(list);
    done(arg, ENOMEM);
}

void list_rank_changed(struct member *member)
{
    struct list_request *list, *tmp;

    DL_FOREACH_SAFE(member->lists, list, tmp)
    {
        if (!list->gather)
            list_ask_again(list);
    }
}

struct list_request *list_start(struct member *member, const char *upath, list_page_fn page,
                                list_done_fn done, void *arg)
{
    struct list_request *list;

    if (!member->config->listing) {
        errno = ENOTSUP;
        return NULL;
    }
    list = calloc(1, sizeof(*list));
    if (!list || !(list->upath = strdup(upath)))
        goto free_list;
    list->member = member;
    list->began = util_clock_now();
    list->page = page;
    list->done = done;
    list->arg = arg;
    list->gather =
        gather_start(member, 0, member->job->nranks, RANKS_AT_ONCE, &list_ops, list);
    if (!list->gather)
        goto free_upath;
    DL_APPEND(member->lists, list);
    return list;

free_upath:
    free(list->upath);
free_list:
    free(list);
    errno = ENOMEM;
    return NULL;
}

void list_cancel(struct list_request *list)
{
    if (list->gather)
        gather_cancel(list->gather);
    list_free(list);
}

void list_stop(struct member *member)
{
    struct list_request *list, *tmp;

    DL_FOREACH_SAFE(member->lists, list, tmp)
    {
        list_cancel(list);
    }
}
