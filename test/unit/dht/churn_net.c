/*
 * test/unit/dht/churn_net.c
 */
#include "churn_net.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define LATENCY    50000 /* ns */
#define JOIN_BOUND (5 * SEC)
#define JOIN_LOOK  (50 * MSEC)

enum event_kind { EVENT_PACKET, EVENT_TIMER, EVENT_NEWS, EVENT_JOINING };

struct churn_event {
    uint64_t when, order; /* in order of making where `when` is the same */
    enum event_kind kind;
    uint32_t to, to_incarnation;
    uint32_t about, about_incarnation; /* news; an incarnation that is gone is no news */
    bool live, rumour, cut;            /* rumour: true of nobody's process */
    struct net_msg msg;
    char upath[];
};

/* One that a newcomer asks whether what belongs to it is with it. */
struct churn_asked {
    uint32_t incarnation;
    bool is, heard;
    uint64_t moment; /* of its table, when it heard of the newcomer */
};

static void *must(void *p)
{
    if (p == NULL) {
        perror("churn_net");
        exit(1);
    }
    return p;
}

uint32_t churn_random(struct churn_net *net, uint32_t below)
{
    net->rng += 0x9e3779b97f4a7c15ull;
    uint64_t z = net->rng;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return (uint32_t)((z ^ (z >> 31)) % below);
}

static uint64_t random_ns(struct churn_net *net, uint64_t below)
{
    return below == 0 ? 0
                      : churn_random(net, 1u << 30) * (below / 1000) / (1u << 30) * 1000;
}

/* --- the heap --- */

static bool earlier(const struct churn_event *a, const struct churn_event *b)
{
    return a->when != b->when ? a->when < b->when : a->order < b->order;
}

static void heap_push(struct churn_net *net, struct churn_event *event)
{
    size_t i = net->nheap++;

    event->order = net->order++;
    if (net->nheap > net->heap_cap) {
        net->heap_cap = net->heap_cap ? 2 * net->heap_cap : 1024;
        net->heap = must(realloc(net->heap, net->heap_cap * sizeof(struct churn_event *)));
    }
    for (; i > 0 && earlier(event, net->heap[(i - 1) / 2]); i = (i - 1) / 2)
        net->heap[i] = net->heap[(i - 1) / 2];
    net->heap[i] = event;
}

static struct churn_event *heap_pop(struct churn_net *net)
{
    struct churn_event *first = net->heap[0], *last = net->heap[--net->nheap];
    size_t i = 0, child;

    while ((child = 2 * i + 1) < net->nheap) {
        if (child + 1 < net->nheap && earlier(net->heap[child + 1], net->heap[child]))
            child++;
        if (!earlier(net->heap[child], last))
            break;
        net->heap[i] = net->heap[child];
        i = child;
    }
    net->heap[i] = last;
    return first;
}

static struct churn_event *event_make(struct churn_net *net, enum event_kind kind,
                                      uint64_t when, uint32_t to, const char *upath)
{
    size_t len = upath != NULL ? strlen(upath) + 1 : 0;
    struct churn_event *event = must(calloc(1, sizeof(*event) + len));

    event->kind = kind;
    event->when = when;
    event->to = to;
    event->to_incarnation = net->rank[to].incarnation;
    if (len > 0)
        memcpy(event->upath, upath, len);
    return event;
}

/* --- a rank --- */

static int op_send(void *arg, uint32_t to, struct net_msg *msg)
{
    struct churn_rank *self = arg;
    struct churn_net *net = self->net;
    struct churn_event *event;
    bool passes = net->rank[to].there && net->rank[to].group == self->group;

    self->sent++;
    net->sent++;
    net->sent_type[msg->type]++;
    if (!passes)
        return net->refuse ? -1 : 0;
    event = event_make(net, EVENT_PACKET, net->now + LATENCY, to, msg->entry.upath);
    event->msg = *msg;
    if (msg->entry.upath != NULL)
        event->msg.entry.upath = event->upath;
    heap_push(net, event);
    return 0;
}

static uint64_t op_now(void *arg)
{
    return ((struct churn_rank *)arg)->net->now;
}

static void op_set_timer(void *arg, uint64_t when)
{
    struct churn_rank *self = arg;

    self->timer = when;
    if (when != CHURN_NEVER)
        heap_push(self->net, event_make(self->net, EVENT_TIMER, when, self->rank, NULL));
}

static void op_invalidate(void *arg, const struct dyad_entry *newer, uint64_t token)
{
    struct churn_rank *self = arg;
    struct churn_net *net = self->net;
    uint32_t key = (uint32_t)strtoul(newer->upath + 4, NULL, 10);

    net->invalidated++;
    if (self->copy != NULL && dyad_version_cmp(&self->copy[key], &newer->version) < 0)
        self->copy[key] = (struct dyad_version){0};
    if (self->file != NULL && dyad_version_cmp(&self->file[key], &newer->version) < 0)
        self->file[key] = (struct dyad_version){0};
    dht_node_invalidated(self->node, token);
}

static const struct dht_node_ops ops = {
    .send = op_send, .now = op_now, .set_timer = op_set_timer, .invalidate = op_invalidate};

struct dht_node *churn_node(struct churn_net *net, uint32_t rank)
{
    struct churn_rank *r = &net->rank[rank];
    struct dht_node_config config = net->config;

    if (r->node != NULL || !r->there)
        return r->node;
    config.self = rank;
    config.incarnation = r->incarnation;
    r->timer = CHURN_NEVER;
    r->node = must(dht_node_create(&config, &ops, r));
    /* It knows who is there: its start was behind the news so far. */
    for (uint32_t i = 0; i < net->nranks && !net->told_only; i++)
        dht_node_set_live(r->node, i, net->rank[i].there);
    if (r->incarnation == 0)
        dht_node_joined(r->node);
    return r->node;
}

struct churn_net *churn_create(uint32_t nranks, uint32_t live, uint32_t nkeys,
                               uint32_t replicas, uint64_t seed)
{
    struct churn_net *net = must(calloc(1, sizeof(*net)));

    net->nranks = nranks;
    net->nkeys = nkeys;
    net->rng = seed;
    net->now = 1000 * SEC;
    net->config = (struct dht_node_config){.nranks = nranks,
                                           .depth = 2,
                                           .bins = 256,
                                           .absent = live < nranks,
                                           .replicas = replicas,
                                           .request_timeout = 1 * SEC,
                                           .retry_interval = 5 * SEC,
                                           .invalidate_timeout = 2 * SEC,
                                           .keep_time = 2 * SEC};
    net->rank = must(calloc(nranks, sizeof(*net->rank)));
    net->key = must(calloc(nkeys, sizeof(*net->key)));
    net->changed = must(calloc(nranks, sizeof(*net->changed)));
    for (uint32_t i = 0; i < nranks; i++) {
        net->rank[i].net = net;
        net->rank[i].rank = i;
    }
    /* Slots that are taken are not the first ones: any order must do. */
    for (uint32_t left = live; left > 0;) {
        uint32_t i = live == nranks ? left - 1 : churn_random(net, nranks);
        left -= !net->rank[i].there;
        net->rank[i].there = true;
    }
    for (uint32_t i = 0; i < nkeys; i++)
        snprintf(net->key[i].upath, sizeof(net->key[i].upath), "run/%u.h5", i);
    return net;
}

void churn_destroy(struct churn_net *net)
{
    for (uint32_t i = 0; i < net->nranks; i++) {
        dht_node_destroy(net->rank[i].node);
        free(net->rank[i].file);
        free(net->rank[i].copy);
        free(net->rank[i].asked);
    }
    while (net->nheap > 0)
        free(heap_pop(net));
    free(net->heap);
    free(net->rank);
    free(net->key);
    free(net->changed);
    free(net);
}

uint32_t churn_any(struct churn_net *net, int group)
{
    for (;;) {
        uint32_t rank = churn_any_there(net);
        if (net->rank[rank].asked == NULL && (group < 0 || net->rank[rank].group == group))
            return rank;
    }
}

uint32_t churn_any_there(struct churn_net *net)
{
    for (;;) {
        uint32_t rank = churn_random(net, net->nranks);
        if (net->rank[rank].there)
            return rank;
    }
}

/* --- joining, as engine/membership/session_member.c does it --- */

static void join_begin(struct churn_net *net, struct churn_rank *newcomer)
{
    newcomer->asked = must(calloc(net->nranks, sizeof(*newcomer->asked)));
    newcomer->join_until = net->now + JOIN_BOUND;
    for (uint32_t i = 0; i < net->nranks; i++)
        newcomer->asked[i] =
            (struct churn_asked){.incarnation = net->rank[i].incarnation,
                                 .is = net->rank[i].there && i != newcomer->rank};
    heap_push(net,
              event_make(net, EVENT_JOINING, net->now + JOIN_LOOK, newcomer->rank, NULL));
}

static void join_heard(struct churn_rank *newcomer, uint32_t rank, struct dht_node *node)
{
    struct churn_asked *asked = &newcomer->asked[rank];

    if (!asked->is || asked->heard)
        return;
    if (dht_node_pass_on(node, newcomer->rank) < 0)
        must(NULL);
    asked->heard = true;
    asked->moment = dht_node_moment(node);
}

static bool has_answered(const struct churn_rank *rank, const struct churn_asked *asked)
{
    if (!asked->is || !rank->there || rank->incarnation != asked->incarnation)
        return true;
    return asked->heard && dht_node_in_place(rank->node, asked->moment);
}

static void event_joining(struct churn_net *net, struct churn_rank *newcomer)
{
    bool all = true, late = net->now >= newcomer->join_until;

    for (uint32_t i = 0; i < net->nranks; i++) {
        if (has_answered(&net->rank[i], &newcomer->asked[i]))
            continue;
        all = false;
        if (late)
            dht_node_set_unsynced(newcomer->node, i, true);
    }
    if (!all && !late) {
        heap_push(net, event_make(net, EVENT_JOINING, net->now + JOIN_LOOK, newcomer->rank,
                                  NULL));
        return;
    }
    free(newcomer->asked);
    newcomer->asked = NULL;
    dht_node_joined(newcomer->node);
}

/* --- time --- */

static void event_news(struct churn_net *net, const struct churn_event *event)
{
    struct churn_rank *about = &net->rank[event->about];
    struct dht_node *node = churn_node(net, event->to);

    if (!event->rumour &&
        (about->incarnation != event->about_incarnation || about->there != event->live))
        return; /* overtaken by what happened since */
    if (event->rumour && !event->live && !about->there)
        return;
    if (event->cut && !event->live && about->group == net->rank[event->to].group)
        return;
    if (event->live && (!about->there || about->group != net->rank[event->to].group))
        return;
    if (net->changed[event->about] < net->now)
        net->changed[event->about] = net->now;
    /* A new member of a rank is an empty shard: dead, then live. */
    if (event->live && !event->rumour && about->incarnation > 0)
        dht_node_set_live(node, event->about, false);
    if (event->cut && net->cut_seen &&
        dht_node_is_live(node, event->about) != event->live) {
        struct churn_rank *to = &net->rank[event->to];
        if (!event->live)
            dht_node_set_missing(node, event->about, DHT_MISSING);
        /* When it is over, half of the others are the majority again. */
        to->nmissing = event->live ? to->nmissing - 1 : to->nmissing + 1;
        if (!event->live && to->group == 1)
            dht_node_set_partition(node, DHT_PARTITION_MINORITY);
        else if (event->live && to->nmissing < net->nranks / 2)
            dht_node_set_partition(node, DHT_PARTITION_MAJORITY);
    }
    dht_node_set_live(node, event->about, event->live);
    if (event->live && about->asked != NULL)
        join_heard(about, event->to, node);
}

static void event_happens(struct churn_net *net, struct churn_event *event)
{
    struct churn_rank *to = &net->rank[event->to];

    if (!to->there || to->incarnation != event->to_incarnation)
        return;
    switch (event->kind) {
    case EVENT_PACKET:
        dht_node_receive(churn_node(net, event->to), &event->msg);
        break;
    case EVENT_TIMER:
        if (to->timer != event->when)
            break;
        to->timer = CHURN_NEVER;
        dht_node_tick(to->node);
        break;
    case EVENT_NEWS:
        event_news(net, event);
        break;
    case EVENT_JOINING:
        event_joining(net, to);
        break;
    }
}

void churn_run(struct churn_net *net, uint64_t ns)
{
    uint64_t end = net->now + ns;

    while (net->nheap > 0 && net->heap[0]->when <= end) {
        struct churn_event *event = heap_pop(net);
        if (event->when > net->now)
            net->now = event->when;
        event_happens(net, event);
        free(event);
    }
    net->now = end;
}

/* --- changes --- */

static struct churn_event *tell(struct churn_net *net, uint32_t to, uint32_t about,
                                bool live, bool rumour, uint64_t delay)
{
    struct churn_event *event = event_make(net, EVENT_NEWS, net->now + delay, to, NULL);

    event->about = about;
    event->about_incarnation = net->rank[about].incarnation;
    event->live = live;
    event->rumour = rumour;
    heap_push(net, event);
    return event;
}

static bool hears(struct churn_net *net, uint32_t rank, uint32_t about)
{
    if (rank == about || !net->rank[rank].there)
        return false;
    if (net->told_only)
        return net->rank[rank].file != NULL || net->rank[rank].copy != NULL;
    return churn_node(net, rank) != NULL;
}

static void tell_all(struct churn_net *net, uint32_t about, bool live, uint64_t spread)
{
    net->changed[about] = net->now + spread;
    for (uint32_t i = 0; i < net->nranks; i++)
        if (hears(net, i, about))
            tell(net, i, about, live, false, random_ns(net, spread));
}

static struct dyad_entry file_entry(const struct churn_net *net, uint32_t rank,
                                    uint32_t key)
{
    return (struct dyad_entry){.upath = net->key[key].upath,
                               .owner = rank,
                               .state = DYAD_ENTRY_PUBLISHED,
                               .mode = S_IFREG | 0644,
                               .size = 1,
                               .version = net->rank[rank].file[key]};
}

void churn_kill(struct churn_net *net, uint32_t rank, uint64_t spread)
{
    struct churn_rank *r = &net->rank[rank];

    /* Those whose first message to it comes later must hear of its death, too. */
    for (uint32_t i = 0; i < net->nranks && !net->told_only; i++)
        churn_node(net, i);
    dht_node_destroy(r->node);
    r->node = NULL;
    r->there = false;
    free(r->copy);
    r->copy = NULL;
    free(r->asked);
    r->asked = NULL;
    tell_all(net, rank, false, spread);
}

void churn_join(struct churn_net *net, uint32_t rank, uint64_t spread)
{
    struct churn_rank *r = &net->rank[rank];

    for (uint32_t i = 0; i < net->nranks && !net->told_only; i++)
        churn_node(net, i);
    r->incarnation++;
    r->there = true;
    r->group = 0;
    churn_node(net, rank);
    for (uint32_t k = 0; r->file != NULL && k < net->nkeys; k++) {
        struct dyad_entry entry = file_entry(net, rank, k);
        if (entry.version.counter > 0 && dht_node_restore(r->node, &entry) < 0)
            must(NULL);
    }
    if (net->config.absent)
        join_begin(net, r);
    tell_all(net, rank, true, spread);
}

void churn_suspect(struct churn_net *net, uint32_t rank, uint32_t part, uint64_t spread,
                   uint64_t length)
{
    net->changed[rank] = net->now + spread + length;
    for (uint32_t i = 0; i < net->nranks; i++) {
        if (!hears(net, i, rank) || churn_random(net, part) != 0)
            continue;
        uint64_t delay = random_ns(net, spread);
        tell(net, i, rank, false, true, delay);
        tell(net, i, rank, true, true, delay + length);
        /* It broke the connection, which the other end sees. */
        tell(net, rank, i, false, true, delay + random_ns(net, SEC));
        tell(net, rank, i, true, true, delay + length + random_ns(net, SEC));
    }
}

static void tell_groups(struct churn_net *net, bool live, uint64_t spread)
{
    for (uint32_t i = 0; i < net->nranks; i++)
        for (uint32_t j = 0; j < net->nranks; j++)
            if (net->rank[i].group == 0 && net->rank[j].group == 1) {
                net->changed[i] = net->changed[j] = live ? net->now + spread : CHURN_CUT;
                if (hears(net, i, j))
                    tell(net, i, j, live, true, random_ns(net, spread))->cut = true;
                if (hears(net, j, i))
                    tell(net, j, i, live, true, random_ns(net, spread))->cut = true;
            }
}

void churn_cut(struct churn_net *net, uint64_t spread)
{
    for (uint32_t i = 0; i < net->nranks; i++)
        net->rank[i].group =
            net->cut_seen ? churn_random(net, 4) == 0 : churn_random(net, 2) != 0;
    net->cut_at = net->now;
    net->cut_known = net->now + spread;
    tell_groups(net, false, spread);
}

void churn_heal(struct churn_net *net, uint64_t spread)
{
    tell_groups(net, true, spread);
    net->healed = net->now + spread;
    for (uint32_t i = 0; i < net->nranks; i++)
        net->rank[i].group = 0;
}

/* --- publishing --- */

struct publish_call {
    struct churn_rank *rank;
    uint32_t key;
};

static void publish_done(void *arg, int status, const struct dyad_version *version)
{
    struct publish_call *call = arg;
    struct churn_net *net = call->rank->net;
    struct churn_key *key = &net->key[call->key];
    struct dyad_version *file = &call->rank->file[call->key];

    net->publishes--;
    call->rank->publishing--;
    net->failed += status != 0;
    if (status == 0 && dyad_version_cmp(version, &key->acked) > 0) {
        key->acked = *version;
        key->acked_at = net->now;
    }
    if (status == 0 && dyad_version_cmp(version, file) > 0)
        *file = *version;
    free(call);
}

void churn_publish(struct churn_net *net, uint32_t rank, uint32_t key)
{
    struct churn_rank *r = &net->rank[rank];
    struct dyad_entry entry;
    struct publish_call *call = must(calloc(1, sizeof(*call)));

    if (r->file == NULL)
        r->file = must(calloc(net->nkeys, sizeof(*r->file)));
    entry = file_entry(net, rank, key);
    call->rank = r;
    call->key = key;
    r->publishing++;
    net->publishes++;
    if (r->copy != NULL)
        r->copy[key] = (struct dyad_version){0};
    if (dht_node_publish(churn_node(net, rank), &entry, publish_done, call) < 0)
        must(NULL);
}
