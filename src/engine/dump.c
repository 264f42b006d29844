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
#include <jansson.h>
#include <utlist.h>

#include "engine/member.h"
#include "util/clock.h"
#include "util/log.h"

#define PAGE_MAX                                                             \
    (NET_MSG_BLOB_MAX - 12288) /* one entry of any size still fits behind it \
                                */
#define WAITING_MAX   100
#define RANKS_AT_ONCE 16

/* --- one shard's page --- */

static void set_name(json_t *object, const char *upath)
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

static void set_hashes(struct member *member, json_t *object, const char *upath)
{
    struct dht_key key;
    uint32_t homes[DHT_REPLICAS_MAX];
    json_t *hash = json_array(), *bins = json_array(), *list = json_array();
    unsigned n = dht_node_homes(member->dht, upath, homes);
    char text[20];

    dht_key_init(&key, upath, member->self.depth);
    for (unsigned i = 0; i < member->self.depth; i++) {
        snprintf(text, sizeof(text), "%016llx", (unsigned long long)key.level[i]);
        json_array_append_new(hash, json_string(text));
        json_array_append_new(bins,
                              json_integer((json_int_t)(key.level[i] % member->self.bins)));
    }
    for (unsigned i = 0; i < n; i++)
        json_array_append_new(list, json_integer(homes[i]));
    json_object_set_new(object, "hash", hash);
    json_object_set_new(object, "bins", bins);
    json_object_set_new(object, "homes", list);
}

static json_t *waiters_json(const struct dht_record *record, uint64_t now)
{
    const struct dht_waiter *w;
    json_t *list = json_array();
    int n = 0;

    DL_FOREACH(record->waiters, w)
    {
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

static json_t *entry_json(struct member *member, const struct dht_record *record)
{
    const struct dyad_entry *e = &record->entry;
    json_t *o = json_object(), *holders = json_array();

    set_name(o, e->upath);
    set_hashes(member, o, e->upath);
    json_object_set_new(o, "owner",
                        e->owner == DYAD_RANK_NONE ? json_null() : json_integer(e->owner));
    json_object_set_new(o, "size", json_integer((json_int_t)e->size));
    json_object_set_new(
        o, "type",
        e->state == DYAD_ENTRY_PUBLISHED ? json_string(type_name(e->mode)) : json_null());
    json_object_set_new(o, "mode", json_integer(e->mode));
    json_object_set_new(o, "mtime", json_real((double)e->mtime_sec + e->mtime_nsec / 1e9));
    json_object_set_new(
        o, "version",
        json_pack("{s:I, s:I, s:I}", "counter", (json_int_t)e->version.counter, "rank",
                  (json_int_t)e->version.rank, "incarnation",
                  (json_int_t)e->version.incarnation));
    json_object_set_new(o, "state",
                        json_string(e->state == DYAD_ENTRY_PUBLISHED   ? "published"
                                    : e->state == DYAD_ENTRY_WITHDRAWN ? "withdrawn"
                                                                       : "awaited"));
    for (uint32_t i = 0; i < record->nholders && i < WAITING_MAX; i++)
        json_array_append_new(holders, json_integer(record->holders[i]));
    json_object_set_new(o, "holders", holders);
    json_object_set_new(o, "waiters", waiters_json(record, util_clock_now()));
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
    if (page->bytes >= PAGE_MAX / 2) {
        page->more = true;
        return 1;
    }
    entry = entry_json(page->member, record);
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
    set_name(o, info->upath);
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
    uint32_t live = 0;
    json_t *o = json_object();

    dht_shard_get_stats(dht_node_shard(member->dht), &shard);
    net_worker_get_stats(member->worker, &net);
    for (uint32_t r = 0; r < member->job->nranks; r++)
        live += dht_node_is_live(member->dht, r);
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
    SET("local_copies", member->stats.local_copies);
    SET("published", member->stats.published);
    SET("rejected_frames", net.rejected);
    SET("live_ranks", live);
#undef SET
    json_object_set_new(o, "uptime",
                        json_real((double)(util_clock_now() - member->started) / 1e9));
    json_object_set_new(
        o, "state", json_string(member->state == MEMBER_EXITING ? "exiting" : "running"));
    return o;
}

static json_t *key_json(struct member *member, const char *upath)
{
    struct dht_key key;
    struct dht_record *record;
    json_t *o = json_object();

    dht_key_init(&key, upath, member->self.depth);
    record = dht_shard_find(dht_node_shard(member->dht), &key, upath);
    set_name(o, upath);
    set_hashes(member, o, upath);
    json_object_set_new(o, "entry",
                        record && record->entry.state != DYAD_ENTRY_NONE
                            ? entry_json(member, record)
                            : json_null());
    json_object_set_new(o, "waiters",
                        record ? waiters_json(record, util_clock_now()) : json_array());
    return o;
}

/* One page of our shard; malloc'ed text or NULL. */
static char *page_text(struct member *member, const struct net_msg *ask, bool *more)
{
    json_t *o = summary_json(member);
    struct page page = {.member = member, .first = ask->offset};
    char *text;

    if (ask->flags & NET_DUMP_ENTRIES) {
        page.entries = json_array();
        dht_shard_foreach(dht_node_shard(member->dht), page_add, &page);
        json_object_set_new(o, "entries", page.entries);
    }
    if ((ask->flags & NET_DUMP_WAITING) && ask->offset == 0) {
        struct waiting waiting = {.list = json_array(), .now = util_clock_now()};
        consume_foreach(member, waiting_add, &waiting);
        json_object_set_new(o, "waiting", waiting.list);
    }
    if (ask->flags & NET_DUMP_KEY)
        json_object_set_new(o, "key", key_json(member, ask->entry.upath));
    text = json_dumps(o, JSON_COMPACT);
    json_decref(o);
    *more = page.more;
    return text;
}

void dump_serve(struct member *member, const struct net_msg *msg)
{
    bool more = false;
    char *text = page_text(member, msg, &more);
    struct net_msg reply = {
        .type = NET_MSG_DUMP_REPLY,
        .id = msg->id,
        .flags = more ? NET_DUMP_MORE : 0,
        .status = text && strlen(text) <= NET_MSG_BLOB_MAX ? 0 : EMSGSIZE,
        .entry = {.upath = "", .owner = member->self.rank},
        .blob = text,
        .blob_len = text ? strlen(text) : 0,
    };

    if (reply.status) {
        reply.blob = NULL;
        reply.blob_len = 0;
    }
    member_send(member, msg->source, &reply);
    free(text);
}

/* --- the asker --- */

struct dump_ask {
    struct dump_ask *prev, *next; /* utlist */
    struct dump_request *dump;
    uint32_t rank;
    uint64_t id, first;
    struct net_timer *deadline;
};

struct dump_request {
    struct dump_request *prev, *next; /* utlist */
    struct member *member;
    uint8_t flags;
    char *upath;
    uint32_t next_rank, last_rank; /* last_rank excluded */
    bool is_all;
    struct dump_ask *asks;
    unsigned nasks;
    dump_page_fn page;
    dump_done_fn done;
    void *arg;
    struct net_post post;
    bool posted, cancelled;
};

static void dump_go_on(struct dump_request *dump);

static void ask_free(struct dump_ask *ask)
{
    DL_DELETE(ask->dump->asks, ask);
    ask->dump->nasks--;
    net_timer_destroy(ask->deadline);
    free(ask);
}

static void ask_failed(struct dump_ask *ask, int error)
{
    struct dump_request *dump = ask->dump;
    uint32_t rank = ask->rank;

    ask_free(ask);
    dump->page(dump->arg, rank, error, NULL, 0, false);
    dump_go_on(dump);
}

static void ask_deadline(void *arg)
{
    ask_failed(arg, ETIMEDOUT);
}

static int ask_send(struct dump_ask *ask)
{
    struct member *member = ask->dump->member;
    struct net_msg msg = {
        .type = NET_MSG_DUMP,
        .flags = ask->dump->flags,
        .entry = {.upath = ask->dump->upath},
        .offset = ask->first,
    };

    ask->id = msg.id = member->next_id;
    member->next_id += 2;
    if (member_send(member, ask->rank, &msg) < 0)
        return -1;
    net_timer_start(ask->deadline,
                    util_clock_now() + (uint64_t)(member->config->peer_timeout *
                                                  (double)UTIL_NSEC_PER_SEC));
    return 0;
}

static void dump_free(struct dump_request *dump)
{
    struct dump_ask *ask, *tmp;

    DL_DELETE(dump->member->dumps, dump);
    DL_FOREACH_SAFE(dump->asks, ask, tmp)
    {
        ask_free(ask);
    }
    free(dump->upath);
    free(dump);
}

static void dump_posted(void *arg)
{
    struct dump_request *dump = arg;

    dump->posted = false;
    if (dump->cancelled)
        dump_free(dump);
    else
        dump_go_on(dump);
}

/* Ask the next ranks; all is done when nothing is out. */
static void dump_go_on(struct dump_request *dump)
{
    if (dump->posted)
        return;
    while (dump->next_rank < dump->last_rank && dump->nasks < RANKS_AT_ONCE) {
        uint32_t rank = dump->next_rank++;
        int error = ENOMEM;
        if (dump->is_all && dump->member->ring &&
            !dht_node_is_live(dump->member->dht, rank))
            continue; /* a place that nobody has */
        struct dump_ask *ask = calloc(1, sizeof(*ask));

        if (ask &&
            (ask->deadline = net_timer_create(dump->member->loop, ask_deadline, ask))) {
            ask->dump = dump;
            ask->rank = rank;
            DL_APPEND(dump->asks, ask);
            dump->nasks++;
            if (ask_send(ask) == 0)
                continue;
            error = errno;
            ask_free(ask);
        } else {
            free(ask);
        }
        dump->page(dump->arg, rank, error, NULL, 0, false);
    }
    if (dump->nasks == 0) {
        dump_done_fn done = dump->done;
        void *arg = dump->arg;
        dump_free(dump);
        done(arg);
    }
}

struct dump_request *dump_start(struct member *member, const struct net_msg *ask,
                                dump_page_fn page, dump_done_fn done, void *arg)
{
    struct dump_request *dump = calloc(1, sizeof(*dump));

    if (!dump || !(dump->upath = strdup(ask->entry.upath ? ask->entry.upath : ""))) {
        free(dump);
        errno = ENOMEM;
        return NULL;
    }
    if (ask->length != UINT64_MAX && ask->length >= member->job->nranks) {
        free(dump->upath);
        free(dump);
        errno = EINVAL;
        return NULL;
    }
    dump->member = member;
    dump->flags = ask->flags;
    dump->is_all = ask->length == UINT64_MAX;
    dump->next_rank = ask->length == UINT64_MAX ? 0 : (uint32_t)ask->length;
    dump->last_rank =
        ask->length == UINT64_MAX ? member->job->nranks : (uint32_t)ask->length + 1;
    dump->page = page;
    dump->done = done;
    dump->arg = arg;
    DL_APPEND(member->dumps, dump);
    dump->posted = true;
    net_loop_post(member->loop, &dump->post, dump_posted, dump);
    return dump;
}

void dump_cancel(struct dump_request *dump)
{
    if (dump->posted)
        dump->cancelled = true;
    else
        dump_free(dump);
}

bool dump_receive(struct member *member, const struct net_msg *msg)
{
    struct dump_request *dump;
    struct dump_ask *ask, *found = NULL;

    DL_FOREACH(member->dumps, dump)
    {
        DL_FOREACH(dump->asks, ask)
        {
            if (ask->id == msg->id && ask->rank == msg->source)
                found = ask;
        }
    }
    if (!found)
        return false;
    if (msg->status) {
        ask_failed(found, msg->status);
        return true;
    }
    bool more = (msg->flags & NET_DUMP_MORE) != 0;
    json_t *page = more ? json_loadb(msg->blob, msg->blob_len, 0, NULL) : NULL;
    uint64_t got = json_array_size(json_object_get(page, "entries"));

    json_decref(page);
    dump = found->dump;
    found->first += got;
    more = more && got > 0;
    dump->page(dump->arg, found->rank, 0, msg->blob, msg->blob_len, more);
    if (more && ask_send(found) == 0)
        return true;
    if (more) {
        ask_failed(found, EHOSTUNREACH);
        return true;
    }
    ask_free(found);
    dump_go_on(dump);
    return true;
}

void dump_peer_down(struct member *member, uint32_t rank)
{
    struct dump_request *dump, *dump_tmp;
    struct dump_ask *ask, *tmp;

    DL_FOREACH_SAFE(member->dumps, dump, dump_tmp)
    {
        DL_FOREACH_SAFE(dump->asks, ask, tmp)
        {
            if (ask->rank == rank) {
                ask_failed(ask,
                           EHOSTUNREACH); /* may free the dump: one ask per rank and dump */
                break;
            }
        }
    }
}

void dump_stop(struct member *member)
{
    struct dump_request *dump, *tmp;

    DL_FOREACH_SAFE(member->dumps, dump, tmp)
    {
        dump_free(dump);
    }
}
