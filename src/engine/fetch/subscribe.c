/*
 * subscribe.c - files that match DYAD_PREFETCH are brought whenever they are published
 *
 * A rank with patterns sends them to all others (SUBSCRIBE). Each keeps them, and as a home
 * says which names in its shard match: those that are there, and each that comes
 * (APPEARED). What the subscriber does with a name is prefetch_want(): it looks it up and
 * brings it as the next file of a series. Of several homes the first that says a name
 * counts, and one that says it in vain does no harm. A rank that was lost, or is new, gets
 * the patterns when it is there.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <utlist.h>

#include "config/probes.h"
#include "engine/core/member.h"
#include "engine/core/module.h"
#include "engine/fetch/prefetch.h"
#include "util/log.h"

struct subscriber {
    struct subscriber *next; /* utlist */
    uint32_t rank;
    char globs[];
};

/* A name that our own shard has got: for after the callback of the table. */
struct appeared {
    struct appeared *next; /* utlist */
    char upath[];
};

struct subscribe {
    struct subscriber *subscribers;
    struct appeared *appeared;
    struct net_post post; /* if there are any */
};

/* --- as a home --- */

static void say(struct member *member, const struct subscriber *s,
                const struct dyad_entry *entry)
{
    struct net_msg msg = {.type = NET_MSG_APPEARED, .entry = {.upath = entry->upath}};

    if (s->rank != entry->owner && S_ISREG(entry->mode) &&
        probes_glob(s->globs, entry->upath))
        member_send(member, s->rank, &msg); /* lost: its open fetches the file */
}

static void drop(struct subscribe *own, uint32_t rank)
{
    struct subscriber *s, *next;

    LL_FOREACH_SAFE(own->subscribers, s, next)
    {
        if (s->rank != rank)
            continue;
        LL_DELETE(own->subscribers, s);
        free(s);
    }
}

struct look {
    struct member *member;
    const struct subscriber *subscriber;
};

static int say_record(struct dht_record *record, void *arg)
{
    const struct look *look = arg;

    if (record->entry.state == DYAD_ENTRY_PUBLISHED)
        say(look->member, look->subscriber, &record->entry);
    return 0;
}

static bool subscribed(struct member *member, const struct net_msg *msg, void **payload,
                       size_t len)
{
    struct subscribe *own = OWN(member, subscribe);
    struct subscriber *s = calloc(1, sizeof(*s) + msg->blob_len + 1);
    struct look look = {.member = member, .subscriber = s};

    (void)payload;
    (void)len;
    drop(own, msg->source);
    if (!s) {
        log_warn("out of memory: rank %u is not told of files that it would prefetch",
                 msg->source);
        return true;
    }
    s->rank = msg->source;
    memcpy(s->globs, msg->blob, msg->blob_len);
    LL_PREPEND(own->subscribers, s);
    dht_shard_foreach(dht_node_shard(member->dht), say_record, &look);
    return true;
}

/* --- as the subscriber --- */

static void want(struct member *member, const char *upath)
{
    if (prefetch_want(member, upath) < 0)
        log_info("out of memory: \"%s\" is not prefetched", upath);
}

static bool appeared(struct member *member, const struct net_msg *msg, void **payload,
                     size_t len)
{
    (void)payload;
    (void)len;
    want(member, msg->entry.upath);
    return true;
}

static void want_posted(void *arg)
{
    struct member *member = arg;
    struct subscribe *own = OWN(member, subscribe);
    struct appeared *all = own->appeared, *a, *next;

    own->appeared = NULL;
    LL_FOREACH_SAFE(all, a, next)
    {
        want(member, a->upath);
        free(a);
    }
}

static void note_own(struct member *member, const struct dyad_entry *entry)
{
    struct subscribe *own = OWN(member, subscribe);
    struct appeared *a = malloc(sizeof(*a) + strlen(entry->upath) + 1);

    if (!a)
        return;
    strcpy(a->upath, entry->upath);
    if (!own->appeared)
        net_loop_post(member->loop, &own->post, want_posted, member);
    LL_APPEND(own->appeared, a);
}

/* The table's callback: our shard has a new version. */
static void taken(void *arg, const struct dyad_entry *entry)
{
    struct member *member = arg;
    const char *globs = prefetch_patterns(member);
    const struct subscriber *s;

    LL_FOREACH(OWN(member, subscribe)->subscribers, s) say(member, s, entry);
    if (globs && entry->owner != member->self.rank && S_ISREG(entry->mode) &&
        probes_glob(globs, entry->upath))
        note_own(member, entry);
}

static void subscribe_at(struct member *member, uint32_t rank)
{
    const char *globs = prefetch_patterns(member);
    struct net_msg msg = {.type = NET_MSG_SUBSCRIBE, .blob = globs};

    if (!globs || rank == member->self.rank)
        return;
    msg.blob_len = strlen(globs);
    member_send(member, rank, &msg); /* lost: again when it is back */
}

/* --- events --- */

static int start(struct member *member)
{
    member->table_ops.taken = taken;
    return 0;
}

static int want_record(struct dht_record *record, void *arg)
{
    if (record->entry.state == DYAD_ENTRY_PUBLISHED)
        taken(arg, &record->entry);
    return 0;
}

static void joined(struct member *member)
{
    if (!prefetch_patterns(member))
        return;
    for (uint32_t rank = 0; rank < member->job->nranks; rank++)
        if (dht_node_is_live(member->dht, rank))
            subscribe_at(member, rank);
    dht_shard_foreach(dht_node_shard(member->dht), want_record, member); /* came before */
}

/* Also one that was lost, has joined later (a session), or has another process. */
static void peer_up(struct member *member, const struct net_peer *peer)
{
    if (member->state == MEMBER_JOINED)
        subscribe_at(member, peer->rank);
}

static void rank_changed(struct member *member, uint32_t rank,
                         enum member_rank_change change)
{
    if (change == MEMBER_RANK_GONE)
        drop(OWN(member, subscribe), rank);
}

static void destroy(struct member *member)
{
    struct subscribe *own = OWN(member, subscribe);
    struct appeared *a, *next;

    while (own->subscribers)
        drop(own, own->subscribers->rank);
    LL_FOREACH_SAFE(own->appeared, a, next)
    {
        free(a);
    }
    own->appeared = NULL;
}

static const struct member_message messages[] = {
    {NET_MSG_SUBSCRIBE, subscribed},
    {NET_MSG_APPEARED, appeared},
    {0, NULL},
};

const struct member_module subscribe_module = {
    .own = MODULE_OWN(subscribe),
    .messages = messages,
    .start = start,
    .joined = joined,
    .peer_up = peer_up,
    .rank_changed = rank_changed,
    .destroy = destroy,
};
