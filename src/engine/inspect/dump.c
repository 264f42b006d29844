/*
 * dump.c - what dyad-dht-dump shows: each shard tells of itself as JSON (docs/dht-dump.md)
 *
 * A shard answers in pages that fit a message; the asker (the member that the tool is
 * connected to) asks rank after rank for page after page, a few ranks at a time, and passes
 * them on. A rank that is silent is reported and passed over.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utlist.h>

#include "engine/core/gather.h"
#include "engine/core/module.h"
#include "engine/fetch/consume.h"
#include "engine/fetch/prefetch.h"
#include "engine/inspect/dump.h"
#include "engine/inspect/dump_impl.h"
#include "engine/publish/produce.h"
#include "util/clock.h"
#include "util/log.h"

#define WAITING_MAX   100
#define RANKS_AT_ONCE 16

/* --- one shard's page --- */

void dump_set_name(json_t *object, const char *upath)
{
    json_t *name = json_string(upath); /* NULL: not UTF-8 */
    char *hex;

    if (name) {
        json_object_set_new(object, "upath", name);
        return;
    }
    size_t n = strlen(upath);
    if (!(hex = malloc(2 * n + 1)))
        return;
    for (size_t i = 0; i < n; i++)
        snprintf(hex + 2 * i, 3, "%02x", (unsigned char)upath[i]);
    json_object_set_new(object, "upath_hex", json_string(hex));
    free(hex);
}

void dump_set_homes(struct member *member, json_t *object, const char *upath)
{
    uint32_t homes[DHT_REPLICAS_MAX];
    json_t *list = json_array();
    unsigned n = dht_node_homes(member->dht, upath, homes);

    for (unsigned i = 0; i < n; i++)
        json_array_append_new(list, json_integer(homes[i]));
    json_object_set_new(object, "homes", list);
}

json_t *dump_version_json(const struct dyad_version *version)
{
    return json_pack("{s:I, s:I, s:I}", "counter", (json_int_t)version->counter, "rank",
                     (json_int_t)version->rank, "incarnation",
                     (json_int_t)version->incarnation);
}

void dump_set_hashes(struct member *member, json_t *object, const char *upath)
{
    struct dht_key key;
    json_t *hash = json_array(), *bins = json_array();
    char text[20];

    dht_key_init(&key, upath, member->self.depth);
    for (unsigned i = 0; i < member->self.depth; i++) {
        snprintf(text, sizeof(text), "%016llx", (unsigned long long)key.level[i]);
        json_array_append_new(hash, json_string(text));
        json_array_append_new(bins,
                              json_integer((json_int_t)(key.level[i] % member->self.bins)));
    }
    json_object_set_new(object, "hash", hash);
    json_object_set_new(object, "bins", bins);
    dump_set_homes(member, object, upath);
}

json_t *dump_waiters_json(const struct dht_record *record, uint64_t now)
{
    const struct dht_waiter *w;
    json_t *list = json_array();
    int n = 0;

    DL_FOREACH(record->waiters, w)
    {
        if ((w->flags & NET_LOOKUP_HELD) != 0)
            continue;
        if (n++ == WAITING_MAX)
            break;
        json_array_append_new(list, json_pack("{s:I, s:f}", "rank", (json_int_t)w->rank,
                                              "since", (double)(now - w->since) / 1e9));
    }
    return list;
}

static const char *type_name(mode_t mode)
{
    return S_ISDIR(mode) ? "directory" : S_ISLNK(mode) ? "link" : "file";
}

json_t *dump_entry_json(struct member *member, const struct dht_record *record)
{
    const struct dyad_entry *e = &record->entry;
    json_t *o = json_object(), *holders = json_array();
    const struct dht_waiter *w;

    dump_set_name(o, e->upath);
    dump_set_hashes(member, o, e->upath);
    json_object_set_new(o, "owner",
                        e->owner == DYAD_RANK_NONE ? json_null() : json_integer(e->owner));
    json_object_set_new(o, "size", json_integer((json_int_t)e->size));
    json_object_set_new(
        o, "type",
        e->state == DYAD_ENTRY_PUBLISHED ? json_string(type_name(e->mode)) : json_null());
    json_object_set_new(o, "inlined", json_boolean(record->inlined != NULL));
    json_object_set_new(o, "mode", json_integer(e->mode));
    json_object_set_new(o, "mtime", json_real((double)e->mtime_sec + e->mtime_nsec / 1e9));
    json_object_set_new(o, "version", dump_version_json(&e->version));
    if (e->state == DYAD_ENTRY_PUBLISHED)
        json_object_set_new(o, "taken_over", json_boolean(e->version.rank != e->owner));
    json_object_set_new(o, "state",
                        json_string(e->conflict                        ? "conflict"
                                    : e->state == DYAD_ENTRY_PUBLISHED ? "published"
                                    : e->state == DYAD_ENTRY_WITHDRAWN ? "withdrawn"
                                                                       : "awaited"));
    for (uint32_t i = 0; i < record->nholders && i < WAITING_MAX; i++)
        json_array_append_new(holders, json_integer(record->holders[i]));
    DL_FOREACH(record->waiters, w) /* their version is yet to come here */
    {
        if ((w->flags & NET_LOOKUP_HELD) != 0 && json_array_size(holders) < WAITING_MAX)
            json_array_append_new(holders, json_integer(w->rank));
    }
    json_object_set_new(o, "holders", holders);
    json_object_set_new(o, "waiters", dump_waiters_json(record, util_clock_now()));
    return o;
}

struct page {
    struct member *member;
    json_t *entries;
    uint64_t first, at;
    size_t bytes;
    bool more;
};

static int page_add(struct dht_record *record, void *arg)
{
    struct page *page = arg;
    json_t *entry;
    char *text;

    if (page->at++ < page->first)
        return 0;
    if (page->bytes >= DUMP_PAGE_MAX / 2) {
        page->more = true;
        return 1;
    }
    entry = dump_entry_json(page->member, record);
    if ((text = json_dumps(entry, JSON_COMPACT)))
        page->bytes += strlen(text) + 1;
    free(text);
    json_array_append_new(page->entries, entry);
    return 0;
}

struct waiting {
    json_t *list;
    uint64_t now;
    size_t n;
};

static void waiting_add(const struct consume_info *info, void *arg)
{
    struct waiting *waiting = arg;
    char reason[64];
    json_t *o;

    if (waiting->n++ >= WAITING_MAX)
        return;
    o = json_object();
    dump_set_name(o, info->upath);
    if (info->writer > 0)
        snprintf(reason, sizeof(reason), "being written by pid %d", (int)info->writer);
    else
        snprintf(reason, sizeof(reason), "not published");
    json_object_set_new(o, "pid", json_integer(info->pid));
    json_object_set_new(o, "since", json_real((double)(waiting->now - info->since) / 1e9));
    json_object_set_new(
        o, "home", info->home == DYAD_RANK_NONE ? json_null() : json_integer(info->home));
    json_object_set_new(o, "reason", json_string(reason));
    json_object_set_new(o, "timeout", json_real((double)info->timeout_ms / 1000.0));
    json_array_append_new(waiting->list, o);
}

static json_t *summary_json(struct member *member)
{
    struct dht_shard_stats shard;
    struct net_worker_stats net;
    char node[NET_PEER_NODE_MAX + 1];
    uint32_t live = 0, absent = 0;
    struct prefetch_info ahead;
    json_t *o = json_object();

    prefetch_get_info(member, &ahead);
    dht_shard_get_stats(dht_node_shard(member->dht), &shard);
    net_worker_get_stats(member->worker, &net);
    for (uint32_t r = 0; r < member->job->nranks; r++) {
        live += dht_node_is_live(member->dht, r);
        absent += dht_node_is_absent(member->dht, r);
    }
    snprintf(node, sizeof(node), "%s", member_node_name(member, member->self.rank));
#define SET(name, value) json_object_set_new(o, name, json_integer((json_int_t)(value)))
    SET("rank", member->self.rank);
    if (member->ring) {
        json_object_set_new(o, "launch", json_string(member->self.launch));
        SET("launch_rank", member->self.launch_rank);
    }
    json_object_set_new(o, "host", json_string(node));
    SET("pid", member->self.pid);
    SET("incarnation", member->self.incarnation);
    SET("depth", member->self.depth);
    SET("bins", member->self.bins);
    SET("replicas", member->self.replicas < member->job->nranks ? member->self.replicas
                                                                : member->job->nranks);
    SET("nranks", member->job->nranks);
    json_object_set_new(o, "session", json_string(member->session));
    SET("entries_count", shard.entries);
    SET("tombstones", shard.tombstones);
    SET("inlined_files", shard.inlined_files);
    SET("inlined_bytes", shard.inlined_bytes);
    SET("occupied_bins", shard.occupied);
    SET("tree_nodes", shard.nodes);
    SET("deepest_chain", shard.deepest);
    SET("waiters", shard.waiters);
    SET("lookups", shard.lookups);
    SET("comparisons", shard.comparisons);
    SET("false_matches", shard.false_matches);
    SET("bytes_served", member->stats.bytes_served);
    SET("bytes_fetched", member->stats.bytes_fetched);
    SET("fetches", member->stats.fetches);
    SET("inlined_fetches", member->stats.inlined);
    SET("local_copies", member->stats.local_copies);
    SET("published", member->stats.published);
    SET("prefetched", ahead.files);
    SET("prefetch_hits", ahead.hits);
    SET("prefetch_unused_bytes", ahead.unused);
    SET("prefetch_series", ahead.series);
    SET("prefetch_awaited", ahead.awaited);
    SET("rejected_frames", net.rejected);
    SET("live_ranks", live);
    if (absent > 0)
        SET("absent_ranks", absent);
#undef SET
    json_object_set_new(o, "uptime",
                        json_real((double)(util_clock_now() - member->started) / 1e9));
    json_object_set_new(
        o, "state", json_string(member->state == MEMBER_EXITING ? "exiting" : "running"));
    return o;
}

json_t *dump_page_json(struct member *member, const struct net_msg *ask, bool *more)
{
    json_t *o = summary_json(member);
    struct page page = {.member = member, .first = ask->after};

    if (ask->flags & NET_DUMP_ENTRIES) {
        page.entries = json_array();
        dht_shard_foreach(dht_node_shard(member->dht), page_add, &page);
        json_object_set_new(o, "entries", page.entries);
    }
    if ((ask->flags & NET_DUMP_WAITING) && ask->after == 0) {
        struct waiting waiting = {.list = json_array(), .now = util_clock_now()};
        consume_foreach(member, waiting_add, &waiting);
        json_object_set_new(o, "waiting", waiting.list);
    }
    if (ask->flags & NET_DUMP_KEY)
        json_object_set_new(o, "key", dump_key_json(member, ask->entry.upath));
    if (more)
        *more = page.more;
    return o;
}

void dump_reply(struct member *member, const struct net_msg *ask, json_t *page, bool more)
{
    char *text = json_dumps(page, JSON_COMPACT);
    struct net_msg reply = {
        .type = NET_MSG_DUMP_REPLY,
        .id = ask->id,
        .flags = more ? NET_DUMP_MORE : 0,
        .status = text && strlen(text) <= NET_MSG_BLOB_MAX ? 0 : EMSGSIZE,
        .rank = member->self.rank,
        .blob = text,
        .blob_len = text ? strlen(text) : 0,
    };

    if (reply.status) {
        reply.blob = NULL;
        reply.blob_len = 0;
    }
    member_send(member, ask->source, &reply);
    free(text);
    json_decref(page);
}

static void dump_serve(struct member *member, const struct net_msg *msg)
{
    bool more = false;
    json_t *page;

    if ((msg->flags & (NET_DUMP_CHECK | NET_DUMP_WRITER)) &&
        dump_check_serve(member, msg) == 0)
        return;
    page = dump_page_json(member, msg, &more);
    dump_reply(member, msg, page, more);
}

/* --- the asker --- */

struct dump_request {
    struct dump_request *prev, *next; /* utlist */
    struct member *member;
    struct gather *gather;
    uint8_t flags;
    char *upath;
    dump_page_fn page;
    dump_done_fn done;
    void *arg;
};

static void dump_free(struct dump_request *dump)
{
    DL_DELETE(OWN(dump->member, dump)->requests, dump);
    free(dump->upath);
    free(dump);
}

/* The status for the tool of a rank that has ended for good: no message has this errno.
 */
static int dump_ended(const struct dump_request *dump, uint32_t rank)
{
    switch (member_session_end(dump->member, rank)) {
    case MEMBER_LEFT:
        return NET_DUMP_LEFT;
    case MEMBER_DIED:
        return NET_DUMP_DIED;
    case MEMBER_ENDED:
        return NET_DUMP_ENDED;
    case MEMBER_NOT_ENDED:
        break;
    }
    return 0;
}

/* Slots that nobody has had, or has any more, are nobody that could answer. */
static bool dump_wanted(void *arg, uint32_t rank)
{
    const struct dump_request *dump = arg;
    int ended;

    if (dht_node_is_absent(dump->member->dht, rank))
        return false;
    if (!(ended = dump_ended(dump, rank)))
        return true;
    dump->page(dump->arg, rank, ended, NULL, 0, false); /* may cancel the dump */
    return false;
}

static void dump_ask(void *arg, const struct gather_at *at, struct net_msg *msg)
{
    const struct dump_request *dump = arg;

    msg->type = NET_MSG_DUMP;
    msg->flags = dump->flags;
    msg->entry.upath = dump->upath;
    msg->after = at->after;
}

static void dump_failed(void *arg, uint32_t rank, int error)
{
    struct dump_request *dump = arg;
    int ended = dump_ended(dump, rank);

    dump->page(dump->arg, rank, ended ? ended : error, NULL, 0, false);
}

static enum gather_step dump_answer(void *arg, struct gather_at *at,
                                    const struct net_msg *msg)
{
    struct dump_request *dump = arg;
    bool more = (msg->flags & NET_DUMP_MORE) != 0;

    if (msg->status) {
        dump_failed(dump, at->rank, msg->status);
        return GATHER_LAST;
    }
    if (more) {
        json_t *page = json_loadb(msg->blob, msg->blob_len, 0, NULL);
        uint64_t got = json_array_size(json_object_get(page, "entries")) +
                       json_array_size(json_object_get(page, "own")); /* one of them */
        json_decref(page);
        at->after += got;
        more = got > 0;
    }
    dump->page(dump->arg, at->rank, 0, msg->blob, msg->blob_len, more);
    return more ? GATHER_MORE : GATHER_LAST;
}

static bool dump_done(void *arg)
{
    struct dump_request *dump = arg;
    dump_done_fn done = dump->done;

    arg = dump->arg;
    dump_free(dump);
    done(arg);
    return false;
}

static const struct gather_ops dump_ops = {dump_wanted, dump_ask, dump_answer, dump_failed,
                                           dump_done};

struct dump_request *dump_start(struct member *member, const struct net_msg *ask,
                                dump_page_fn page, dump_done_fn done, void *arg)
{
    bool all = ask->rank == DYAD_RANK_NONE;
    struct dump_request *dump;

    if (!all && ask->rank >= member->job->nranks) {
        errno = EINVAL;
        return NULL;
    }
    dump = calloc(1, sizeof(*dump));
    if (!dump || !(dump->upath = strdup(ask->entry.upath ? ask->entry.upath : "")))
        goto free_dump;
    dump->member = member;
    dump->flags = ask->flags;
    dump->page = page;
    dump->done = done;
    dump->arg = arg;
    dump->gather =
        gather_start(member, all ? 0 : ask->rank, all ? member->job->nranks : ask->rank + 1,
                     RANKS_AT_ONCE, &dump_ops, dump);
    if (!dump->gather)
        goto free_upath;
    DL_APPEND(OWN(member, dump)->requests, dump);
    return dump;

free_upath:
    free(dump->upath);
free_dump:
    free(dump);
    errno = ENOMEM;
    return NULL;
}

void dump_cancel(struct dump_request *dump)
{
    gather_cancel(dump->gather);
    dump_free(dump);
}

static void dump_stop(struct member *member)
{
    struct dump_request *dump, *tmp;

    DL_FOREACH_SAFE(OWN(member, dump)->requests, dump, tmp)
    {
        dump_cancel(dump);
    }
}

static bool dump_asked(struct member *member, const struct net_msg *msg, void **payload,
                       size_t len)
{
    (void)payload;
    (void)len;
    dump_serve(member, msg);
    return true;
}

const struct member_module dump_module = {
    .own = MODULE_OWN(dump),
    .messages = (const struct member_message[]){{NET_MSG_DUMP, dump_asked}, {0}},
    .stop = dump_stop,
    .destroy = dump_check_stop,
};
