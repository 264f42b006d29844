/*
 * listing.c - the names that are published directly below a directory
 *
 * Each shard knows which of its records lie below which directory (dht/index.h). A
 * listing asks every live rank, some at a time, page by page, and drops what another home
 * has told already (list_note()). A publish pays nothing for that; docs/dht.md,
 * "Listings", says why there is no index at one home for each directory.
 *
 * What could go wrong: an entry is missed, because its homes all died or were silent
 * during the listing (is_partial()).
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>
#include <utlist.h>

#include "boot/procs.h"
#include "config/probes.h"
#include "engine/core/gather.h"
#include "engine/core/member.h"
#include "engine/core/module.h"
#include "engine/membership/exit_barrier.h"
#include "engine/membership/unreachable.h"
#include "engine/namespace/listing.h"
#include "engine/core/joined_writers.h"
#include "store/extents.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/proc.h"

#define RANKS_AT_ONCE 64

/* --- the answer of a shard --- */

struct page {
    unsigned char names[NET_MSG_BLOB_MAX];
    size_t used;
    const char *like; /* NET_LIST_LIKE; NULL: all names */
    uint64_t program; /* that of the asker, or 0 */
    uint32_t told;    /* the last owner that was; one is told often */
};

static bool page_add_number(struct page *page, char what, uint32_t rank)
{
    char name[16];

    snprintf(name, sizeof(name), "%c%u", what, rank);
    return net_list_add(page->names, sizeof(page->names), &page->used, name, DT_REG);
}

/* A file of ours that is asked for, and is being written. */
struct written {
    char upath[DYAD_UPATH_MAX + 1];
    struct store_mark_info info;
    bool is_own; /* by a process of this rank */
    bool joins;  /* by that program, all of whose writes are recorded: another node's can be
                    put together with them; ... */
    bool soon;   /* ... or whether that is so is about to be decided */
};

/* True if what is written to the file here is recorded: its writers may be told to begin with that
 * as long as it is empty, by the member of the one that is found first. */
static bool may_be_joined(const struct member_dmd *dmd, struct written *written)
{
    const struct store_mark_info *info = &written->info;
    uint64_t ino = info->ino, btime = info->btime;
    const char *upath = written->upath;
    struct dyad_base version;
    struct stat st;
    int all;

    if ((written->soon = info->state == STORE_MARK_OPENING ||
                         store_marks_undecided(dmd->marks, ino, btime)))
        return false;
    /* Not what existed: that is fetched. Also while a last close is under way, of an empty file (MPI-IO). */
    if (store_marks_recorded(dmd->marks, 0, ino, btime))
        return !store_extents_version(dmd->extents, ino, btime, &version) || !version.size;
    if (store_dir_stat(dmd->dir, upath, &st) < 0 || st.st_ino != ino || st.st_size > 0)
        return false;
    if (!(all = store_marks_record_all(
              dmd->marks, ino, btime,
              written->is_own ? STORE_MARKS_MEET : STORE_MARKS_LOOK)))
        return false;
    /* Who is opening it has not said yet of which file. */
    written->soon =
        all < 0 || !written->is_own || store_marks_dirty(dmd->marks, upath, 0, 0, NULL);
    if (written->soon)
        return false;
    store_extents_add_reset(dmd->extents, ino, btime); /* the next ones are to be kept */
    all = store_marks_record_all(dmd->marks, ino, btime, STORE_MARKS_BEGIN);
    if (all > 0 && store_dir_stat(dmd->dir, upath, &st) == 0 && st.st_size == 0)
        return true;
    if (all > 0) /* what was written since the look is on no record */
        store_marks_unrecord_all(dmd->marks, ino, btime);
    store_extents_add_unknown(dmd->extents, ino, btime, info->mark);
    written->soon = all < 0;
    return false;
}

/* True if the file is open for writing on this node. */
static bool is_written_here(struct member *member, const char *dir, const char *name,
                            uint64_t program, struct written *written)
{
    struct store_mark_info *info = &written->info;
    const char *upath = written->upath;
    struct stat st;

    if ((size_t)snprintf(written->upath, sizeof(written->upath), "%s%s%s", dir,
                         *dir ? "/" : "", name) >= sizeof(written->upath))
        return false;
    for (int i = 0; i < 2; i++) {
        const struct member_dmd *dmd = &member->dmd[i];
        if (!dmd->dir || !dmd->marks || store_dir_stat(dmd->dir, upath, &st) < 0 ||
            !store_marks_dirty(dmd->marks, upath, st.st_ino, 0, info) ||
            info->state == STORE_MARK_ABANDONED)
            continue;
        written->is_own = boot_procs_same_rank(info->pid, member->identity);
        written->joins =
            program && dmd->extents &&
            (program == LIST_ANY_PROGRAM || program == util_proc_program(info->pid)) &&
            may_be_joined(dmd, written);
        return true;
    }
    return false;
}

static int page_add(const char *name, const struct dyad_entry *entry, void *arg)
{
    struct page *page = arg;
    unsigned char type = IFTODT(entry->mode);

    if (type != DT_REG && type != DT_DIR && type != DT_LNK)
        return 0;
    if (page->like) {
        if (entry->owner == page->told || !probes_is_series(name, page->like))
            return 0;
        page->told = entry->owner;
        return !page_add_number(page, 'o', entry->owner);
    }
    return !net_list_add(page->names, sizeof(page->names), &page->used, name, type);
}

/* Add the signs that this rank itself knows. */
static void page_add_own(struct member *member, struct page *page, const char *dir,
                         struct written *written)
{
    if (exit_barrier_may_leave(member))
        page_add_number(page, 'x', member->self.rank);
    else if (is_written_here(member, dir, page->like, page->program, written))
        net_list_add(page->names, sizeof(page->names), &page->used,
                     written->joins  ? "j"
                     : written->soon ? "a"
                                     : "w",
                     DT_REG);
    if (member->waits->failed_like(member, page->like))
        net_list_add(page->names, sizeof(page->names), &page->used, "f", DT_REG);
}

static const char *like_of(const struct net_msg *msg)
{
    const char *like = msg->blob;

    return (msg->flags & NET_LIST_LIKE) && msg->blob_len && !like[msg->blob_len - 1] ? like
                                                                                     : NULL;
}

/* It follows on the name. */
static uint64_t program_of(const struct net_msg *msg)
{
    size_t len = strlen(msg->blob) + 1;

    return len < msg->blob_len ? strtoull((const char *)msg->blob + len, NULL, 16) : 0;
}

struct lists {
    struct list_request *all; /* utlist */
    struct late_reply *replies;
};

/* The answer to a rank that is about to join. */
struct late_reply {
    struct late_reply *prev, *next; /* utlist */
    struct member *member;
    uint32_t source;
    struct net_msg msg;
    char upath[DYAD_UPATH_MAX + 1];
    unsigned char names[];
};

static void homes_told(void *arg, int status)
{
    struct late_reply *reply = arg;

    (void)status; /* readers may come too early, as where a home has died */
    DL_DELETE(OWN(reply->member, lists)->replies, reply);
    /* Its close may have been under way, and have told them before. */
    joined_writers_closed(reply->member, reply->upath, NULL, NULL);
    reply->msg.blob = reply->names;
    member_send(reply->member, reply->source, &reply->msg);
    free(reply);
}

/* Another node joins: it is answered when the homes know that this one writes, which has
 * emptied the file, and told them nothing. False: it is to be answered now. */
static bool reply_when_told(struct member *member, uint32_t source,
                            const struct net_msg *msg, const struct written *written)
{
    struct late_reply *reply;

    if (!written->joins || !written->is_own ||
        !(reply = malloc(sizeof(*reply) + msg->blob_len)))
        return false;
    *reply = (struct late_reply){.member = member, .source = source, .msg = *msg};
    memcpy(reply->names, msg->blob, msg->blob_len);
    strcpy(reply->upath, written->upath);
    if (dht_node_writing(member->dht, written->upath, DHT_WRITING_JOIN, util_clock_now(),
                         homes_told, reply) == 0) {
        DL_APPEND(OWN(member, lists)->replies, reply);
        return true;
    }
    free(reply);
    return false;
}

static bool list_asked(struct member *member, const struct net_msg *msg, void **payload,
                       size_t len)
{
    static struct page page; /* the loop's thread only */
    struct written written = {.joins = false};
    const char *upath = msg->entry.upath ? msg->entry.upath : "";
    struct net_msg reply = {.type = NET_MSG_LIST_REPLY, .id = msg->id};

    (void)payload;
    (void)len;
    page.used = 0;
    page.told = DYAD_RANK_NONE;
    page.like = like_of(msg);
    page.program = page.like ? program_of(msg) : 0;
    if (page.like && msg->after == 0)
        page_add_own(member, &page, upath, &written);
    if (member->config->listing || page.like) {
        struct dht_list_at at = {.after = msg->after, .end = msg->end};
        bool more =
            dht_shard_list(dht_node_shard(member->dht), upath, &at, page_add, &page);
        reply.flags = more ? NET_LIST_MORE : 0;
        reply.after = at.after;
        reply.end = at.end;
        reply.blob = page.names;
        reply.blob_len = page.used;
    } else {
        reply.status = ENOTSUP;
    }
    if (!reply_when_told(member, msg->source, &reply, &written))
        member_send(member, msg->source, &reply);
    return true;
}

/* --- the request --- */

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
    char *like; /* NULL: all names; with its NUL, and the program's */
    size_t like_len;
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

    DL_DELETE(OWN(list->member, lists)->all, list);
    if (list->patience)
        net_timer_destroy(list->patience);
    HASH_ITER(hh, list->names, name, ntmp)
    {
        HASH_DEL(list->names, name);
        free(name);
    }
    free(list->upath);
    free(list->like);
    free(list);
}

static bool list_wanted(void *arg, uint32_t rank)
{
    struct list_request *list = arg;

    if (dht_node_is_live(list->member->dht, rank))
        return true;
    if (unreachable_is_missing(list->member, rank)) {
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
    if (list->like) {
        msg->flags = NET_LIST_LIKE;
        msg->blob = list->like;
        msg->blob_len = list->like_len;
    }
    msg->after = at->after;
    msg->end = at->end;
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

/* True if so many did not tell what they have that an entry may have been missed: as each
 * has `replicas` homes, that takes so many ranks. The listing then fails (list_done()).
 * Ranks that were known to be dead before are no homes: what they had kept is elsewhere.
 */
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

/* Where some turn out to be dead meanwhile (an exec is a death, too) what they had is
 * with others by now: the others are asked again, as a listing would that begins now. */
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
    if (status || (more && msg->after <= at->after)) {
        count_missing(list, at->rank, "sent a page that cannot be read");
        return GATHER_LAST;
    }
    at->after = msg->after;
    at->end = msg->end;
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

static void list_go_on(struct member *member)
{
    struct list_request *list, *tmp;

    DL_FOREACH_SAFE(OWN(member, lists)->all, list, tmp)
    {
        if (!list->gather)
            list_ask_again(list);
    }
}

struct list_request *list_start(struct member *member, const char *upath, const char *like,
                                uint64_t program, list_page_fn page, list_done_fn done,
                                void *arg)
{
    struct list_request *list;
    int n = 0;

    if (!member->config->listing && !like) {
        errno = ENOTSUP;
        return NULL;
    }
    list = calloc(1, sizeof(*list));
    if (!list || !(list->upath = strdup(upath)))
        goto free_list;
    if (like &&
        (n = asprintf(&list->like, "%s%c%llx", like, 0, (unsigned long long)program)) < 0) {
        list->like = NULL;
        goto free_upath;
    }
    list->like_len = (size_t)n + 1;
    list->member = member;
    list->began = util_clock_now();
    list->page = page;
    list->done = done;
    list->arg = arg;
    list->gather =
        gather_start(member, 0, member->job->nranks, RANKS_AT_ONCE, &list_ops, list);
    if (!list->gather)
        goto free_upath;
    DL_APPEND(OWN(member, lists)->all, list);
    return list;

free_upath:
    free(list->upath);
    free(list->like);
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

static void list_stop(struct member *member)
{
    struct list_request *list, *tmp;
    struct late_reply *reply, *rtmp;

    DL_FOREACH_SAFE(OWN(member, lists)->all, list, tmp)
    {
        list_cancel(list);
    }
    DL_FOREACH_SAFE(OWN(member, lists)->replies, reply, rtmp)
    {
        DL_DELETE(OWN(member, lists)->replies, reply);
        free(reply); /* the table ends next, and calls nobody */
    }
}

static void rank_changed(struct member *member, uint32_t rank,
                         enum member_rank_change change)
{
    (void)rank;
    if (change != MEMBER_RANK_LOST)
        list_go_on(member);
}

const struct member_module lists_module = {
    .own = MODULE_OWN(lists),
    .messages = (const struct member_message[]){{NET_MSG_LIST, list_asked}, {0}},
    .rank_changed = rank_changed,
    .stop = list_stop,
};
