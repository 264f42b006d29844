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

struct list_ask {
    struct list_ask *prev, *next; /* utlist */
    struct list_request *list;
    uint32_t rank;
    uint64_t id, after, end; /* struct dht_list_at */
    struct net_timer *deadline;
};

struct list_request {
    struct list_request *prev, *next; /* utlist */
    struct member *member;
    char *upath;
    uint32_t next_rank;
    struct list_ask *asks;
    unsigned nasks, silent, lost; /* lost: died meanwhile */
    struct list_name *names;      /* that have come */
    int status;
    list_page_fn page;
    list_done_fn done;
    void *arg;
    struct net_post post;
    bool posted, cancelled, going_on;
};

static void list_go_on(struct list_request *list);

static void ask_free(struct list_ask *ask)
{
    DL_DELETE(ask->list->asks, ask);
    ask->list->nasks--;
    net_timer_destroy(ask->deadline);
    free(ask);
}

static void count_missing(struct list_request *list, uint32_t rank)
{
    if (dht_node_is_live(list->member->dht, rank))
        list->silent++;
    else
        list->lost++;
}

static void ask_failed(struct list_ask *ask, const char *why)
{
    struct list_request *list = ask->list;

    log_info("%s %s in the listing of \"%s\"", member_describe(list->member, ask->rank),
             why, list->upath);
    count_missing(list, ask->rank);
    ask_free(ask);
    list_go_on(list);
}

static void ask_deadline(void *arg)
{
    ask_failed(arg, "does not answer");
}

static int ask_send(struct list_ask *ask)
{
    struct member *member = ask->list->member;
    struct net_msg msg = {.type = NET_MSG_LIST,
                          .entry = {.upath = ask->list->upath},
                          .offset = ask->after,
                          .length = ask->end};

    ask->id = msg.id = member->next_id;
    member->next_id += 2;
    if (member_send(member, ask->rank, &msg) < 0)
        return -1;
    net_timer_start(ask->deadline,
                    util_clock_now() + (uint64_t)(member->config->peer_timeout *
                                                  (double)UTIL_NSEC_PER_SEC));
    return 0;
}

static void list_free(struct list_request *list)
{
    struct list_ask *ask, *tmp;
    struct list_name *name, *ntmp;

    DL_DELETE(list->member->lists, list);
    DL_FOREACH_SAFE(list->asks, ask, tmp)
    {
        ask_free(ask);
    }
    HASH_ITER(hh, list->names, name, ntmp)
    {
        HASH_DEL(list->names, name);
        free(name);
    }
    free(list->upath);
    free(list);
}

static void list_posted(void *arg)
{
    struct list_request *list = arg;

    list->posted = false;
    if (list->cancelled)
        list_free(list);
    else
        list_go_on(list);
}

static void ask_start(struct list_request *list, uint32_t rank)
{
    struct list_ask *ask = calloc(1, sizeof(*ask));

    if (!ask ||
        !(ask->deadline = net_timer_create(list->member->loop, ask_deadline, ask))) {
        free(ask);
        list->status = ENOMEM;
        return;
    }
    ask->list = list;
    ask->rank = rank;
    /* Not in the list before it is sent: the news of a dead rank, from inside, would free
     * it.
     */
    if (ask_send(ask) < 0) {
        net_timer_destroy(ask->deadline);
        free(ask);
        count_missing(list, rank);
        return;
    }
    DL_APPEND(list->asks, ask);
    list->nasks++;
}

/* So many did not tell what they have that an entry may have been missed. */
static bool is_partial(const struct list_request *list)
{
    const struct member *member = list->member;
    uint32_t replicas = member->self.replicas < member->job->nranks ? member->self.replicas
                                                                    : member->job->nranks;

    return list->silent + list->lost >= replicas;
}

static void list_end(struct list_request *list)
{
    list_done_fn done = list->done;
    void *arg = list->arg;
    int status = list->status;

    if (!status && is_partial(list)) {
        log_warn("the listing of \"%s\" is not whole: %u ranks do not answer", list->upath,
                 list->silent);
        status = EHOSTUNREACH;
    }
    list_free(list);
    done(arg, status);
}

/* Ask the next ranks; all is done when nothing is out. A failed send may bring the news of
 * a dead rank, and with it list_peer_down(), from inside. */
static void list_go_on(struct list_request *list)
{
    struct member *member = list->member;

    if (list->posted || list->going_on)
        return;
    list->going_on = true;
    for (;;) {
        while (list->next_rank < member->job->nranks && list->nasks < RANKS_AT_ONCE &&
               !list->status) {
            uint32_t rank = list->next_rank++;
            if (dht_node_is_live(member->dht, rank))
                ask_start(list, rank);
        }
        if (list->nasks > 0 || list->status || list->lost == 0 || !is_partial(list))
            break;
        list->next_rank = list->silent = list->lost = 0;
    }
    list->going_on = false;
    if (list->nasks == 0 || list->status)
        list_end(list);
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
    if (!list || !(list->upath = strdup(upath))) {
        free(list);
        errno = ENOMEM;
        return NULL;
    }
    list->member = member;
    list->page = page;
    list->done = done;
    list->arg = arg;
    DL_APPEND(member->lists, list);
    list->posted = true;
    net_loop_post(member->loop, &list->post, list_posted, list);
    return list;
}

void list_cancel(struct list_request *list)
{
    if (list->posted)
        list->cancelled = true;
    else
        list_free(list);
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

static struct list_ask *ask_find(struct member *member, uint64_t id, uint32_t rank)
{
    struct list_request *list;
    struct list_ask *ask;

    DL_FOREACH(member->lists, list)
    {
        DL_FOREACH(list->asks, ask)
        {
            if (ask->id == id && ask->rank == rank)
                return ask;
        }
    }
    return NULL;
}

/* The next page. The news of a dead rank, from inside, may free the ask. */
static void send_again(struct list_ask *ask)
{
    struct list_request *list = ask->list;
    uint32_t rank = ask->rank;

    list->going_on = true;
    int rc = ask_send(ask);
    list->going_on = false;
    if (rc == 0)
        return;
    DL_FOREACH(list->asks, ask)
    {
        if (ask->rank == rank) {
            ask_failed(ask, "is gone");
            return;
        }
    }
    list_go_on(list);
}

bool list_receive(struct member *member, const struct net_msg *msg)
{
    struct list_ask *ask = ask_find(member, msg->id, msg->source);
    struct list_request *list;
    bool more = (msg->flags & NET_LIST_MORE) != 0;
    int status;

    if (!ask)
        return false;
    list = ask->list;
    if (msg->type != NET_MSG_LIST_REPLY || msg->status) {
        ask_failed(ask, msg->status == ENOTSUP ? "has DYAD_LISTING off" : "failed");
        return true;
    }
    status = list_take(list, msg);
    if (status == ENOMEM) {
        list->status = status;
    } else if (status || (more && msg->offset <= ask->after)) {
        ask_failed(ask, "sent a page that cannot be read");
        return true;
    } else if (more) {
        ask->after = msg->offset;
        ask->end = msg->length;
        send_again(ask);
        return true;
    }
    ask_free(ask);
    list_go_on(list);
    return true;
}

void list_peer_down(struct member *member, uint32_t rank)
{
    struct list_request *list, *ltmp;
    struct list_ask *ask, *tmp;

    DL_FOREACH_SAFE(member->lists, list, ltmp)
    {
        DL_FOREACH_SAFE(list->asks, ask, tmp)
        {
            if (ask->rank == rank) {
                ask_failed(ask, "is gone"); /* may free the list: one ask per rank */
                break;
            }
        }
    }
}

void list_stop(struct member *member)
{
    struct list_request *list, *tmp;

    DL_FOREACH_SAFE(member->lists, list, tmp)
    {
        list_free(list);
    }
}
