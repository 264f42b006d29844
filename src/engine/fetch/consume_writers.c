/*
 * consume_writers.c - finding the process that has a file open for writing, on any node
 *
 * Asked when a wait has lasted so long that it is logged (consume_say.c). Only the marks
 * of its node, and no home, know a file that is open and was not published: so one rank
 * of each node and storage is asked, some at a time, by a DUMP (NET_DUMP_WRITER,
 * dump_check.c). A rank that is silent or dead is passed over.
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "engine/fetch/consume_impl.h"
#include "engine/core/gather.h"

#define RANKS_AT_ONCE 16

struct consume_writers {
    struct consume *consume;
    struct gather *gather;
    void (*fn)(struct consume *c, const char *writer);
    uint64_t *asked; /* hashes of node and storage */
    size_t nasked, size;
    char text[512]; /* "": nobody yet */
};

static void writers_free(struct consume_writers *w)
{
    free(w->asked);
    free(w);
}

/* True for one peer of all that see the same marks. */
static bool is_new(struct consume_writers *w, const struct net_peer *peer)
{
    uint64_t hash =
        XXH3_64bits_withSeed(peer->storage_producer, sizeof(peer->storage_producer),
                             XXH3_64bits(peer->node, strlen(peer->node)));

    for (size_t i = 0; i < w->nasked; i++)
        if (w->asked[i] == hash)
            return false;
    if (w->nasked == w->size) {
        size_t size = w->size ? 2 * w->size : 16;
        uint64_t *asked = realloc(w->asked, size * sizeof(*asked));
        if (!asked)
            return false;
        w->asked = asked;
        w->size = size;
    }
    w->asked[w->nasked++] = hash;
    return true;
}

static bool wanted(void *arg, uint32_t rank)
{
    struct consume_writers *w = arg;
    struct member *member = w->consume->member;
    const struct net_peer *peer =
        rank == member->self.rank ? &member->self : net_worker_peer(member->worker, rank);

    return !w->text[0] && peer && dht_node_is_live(member->dht, rank) && is_new(w, peer);
}

static void ask(void *arg, const struct gather_at *at, struct net_msg *msg)
{
    const struct consume_writers *w = arg;

    (void)at;
    msg->type = NET_MSG_DUMP;
    msg->flags = NET_DUMP_WRITER;
    msg->entry.upath = w->consume->upath;
}

static void note(struct consume_writers *w, uint32_t rank, const json_t *writer)
{
    struct member *member = w->consume->member;
    const char *launch = json_string_value(json_object_get(writer, "launch"));
    const json_t *of = json_object_get(writer, "rank");
    char who[sizeof(w->text) - 128] = "";

    if (of && member->ring && launch)
        snprintf(who, sizeof(who), " of rank %lld of launch %s",
                 (long long)json_integer_value(of), launch);
    else if (of)
        snprintf(who, sizeof(who), " of rank %lld", (long long)json_integer_value(of));
    snprintf(w->text, sizeof(w->text), "process %lld%s on node %.64s",
             (long long)json_integer_value(json_object_get(writer, "pid")), who,
             member_node_name(member, rank));
}

static enum gather_step page(void *arg, struct gather_at *at, const struct net_msg *msg)
{
    struct consume_writers *w = arg;
    json_t *shard = msg->status ? NULL : json_loadb(msg->blob, msg->blob_len, 0, NULL);
    const json_t *writer = json_object_get(shard, "writer");

    if (json_is_object(writer))
        note(w, at->rank, writer);
    json_decref(shard);
    return w->text[0] ? GATHER_STOP : GATHER_LAST;
}

static void failed(void *arg, uint32_t rank, int error)
{
    (void)arg;
    (void)rank;
    (void)error;
}

static bool done(void *arg)
{
    struct consume_writers *w = arg;

    w->consume->say.writers = NULL;
    w->fn(w->consume, w->text);
    writers_free(w);
    return false;
}

int consume_writers_ask(struct consume *c,
                        void (*fn)(struct consume *c, const char *writer))
{
    static const struct gather_ops ops = {wanted, ask, page, failed, done};
    struct consume_writers *w = calloc(1, sizeof(*w));

    if (!w)
        return -1;
    w->consume = c;
    w->fn = fn;
    w->gather = gather_start(c->member, 0, c->member->job->nranks, RANKS_AT_ONCE, &ops, w);
    if (!w->gather) {
        free(w);
        return -1;
    }
    c->say.writers = w;
    return 0;
}

void consume_writers_stop(struct consume *c)
{
    struct consume_writers *w = c->say.writers;

    if (!w)
        return;
    c->say.writers = NULL;
    gather_cancel(w->gather);
    writers_free(w);
}
