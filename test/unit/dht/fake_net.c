/*
 * test/unit/dht/fake_net.c
 */
#include "fake_net.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#define LATENCY 50000 /* ns */

struct packet {
    struct packet *prev, *next;
    uint64_t when;
    uint32_t to;
    uint32_t to_incarnation;
    struct net_msg msg;
    char upath[];
};

struct call {
    struct call *prev, *next;
    struct fake_rank *rank;
    unsigned key;
    uint8_t flags;
    struct dyad_entry entry;
    struct result *result;
};

uint32_t fake_net_random(struct fake_net *net, uint32_t below)
{
    net->rng += 0x9e3779b97f4a7c15ull;
    uint64_t z = net->rng;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return (uint32_t)((z ^ (z >> 31)) % below);
}

static void packet_queue(struct fake_net *net, uint32_t to, const struct net_msg *msg)
{
    size_t len = msg->entry.upath != NULL ? strlen(msg->entry.upath) + 1 : 0;
    struct packet *packet = calloc(1, sizeof(*packet) + len + msg->blob_len);

    if (packet == NULL)
        abort();
    packet->when =
        net->now + LATENCY + (net->reorder ? fake_net_random(net, 20 * LATENCY) : 0);
    packet->to = to;
    packet->to_incarnation = net->rank[to].incarnation;
    packet->msg = *msg;
    if (len > 0)
        packet->msg.entry.upath = memcpy(packet->upath, msg->entry.upath, len);
    if (msg->blob_len > 0)
        packet->msg.blob = memcpy(packet->upath + len, msg->blob, msg->blob_len);
    DL_APPEND(net->queue, packet);
}

static int op_send(void *arg, uint32_t to, struct net_msg *msg)
{
    struct fake_rank *self = arg;
    struct fake_net *net = self->net;

    if (to == self->rank || to >= net->nranks)
        abort();
    net->sent[msg->type]++;
    if (net->refuse && (net->rank[to].node == NULL || net->cut[self->rank][to])) {
        errno = EHOSTUNREACH;
        return -1;
    }
    if (net->cut[self->rank][to] || fake_net_random(net, 1000) < net->loss)
        return 0;
    packet_queue(net, to, msg);
    if (fake_net_random(net, 1000) < net->duplicates)
        packet_queue(net, to, msg);
    return 0;
}

static uint64_t op_now(void *arg)
{
    return ((struct fake_rank *)arg)->net->now;
}

static uint64_t op_wall(void *arg)
{
    struct fake_rank *self = arg;
    return self->net->wall ? self->net->now / 1000 - self->behind : 0;
}

static void op_set_timer(void *arg, uint64_t when)
{
    ((struct fake_rank *)arg)->timer = when;
}

static unsigned key_index(const char *upath)
{
    return (unsigned)strtoul(upath + 3, NULL, 10) % FAKE_KEYS;
}

static void op_invalidate(void *arg, const struct dyad_entry *newer, uint64_t token)
{
    struct fake_rank *self = arg;
    unsigned key = key_index(newer->upath);

    self->ninvalidated++;
    self->invalidated = *newer;
    self->invalidated.upath = NULL;
    if (self->hold) {
        if (self->nheld < 64)
            self->held[self->nheld++] = token;
        return;
    }
    if (dyad_version_cmp(&self->copy[key], &newer->version) < 0)
        memset(&self->copy[key], 0, sizeof(self->copy[key]));
    if (dyad_version_cmp(&self->journal[key].version, &newer->version) < 0)
        memset(&self->journal[key], 0, sizeof(self->journal[key]));
    if (newer->owner == self->rank && newer->state == DYAD_ENTRY_PUBLISHED &&
        self->publishing[key] == 0)
        fake_publish(self->net, self->rank, key, 998, DYAD_ENTRY_PUBLISHED,
                     &self->again[key]);
    dht_node_invalidated(self->node, token);
    if (newer->upath[0] != 'k') /* it must live until we return */
        abort();
}

static void op_withdrawn(void *arg, const struct dyad_entry *gone, uint64_t token)
{
    struct fake_rank *self = arg;

    self->nwithdrawn++;
    if (gone->state != DYAD_ENTRY_WITHDRAWN)
        abort();
    if (self->hold && self->nheld < 64)
        self->held[self->nheld++] = token;
    else
        dht_node_invalidated(self->node, token);
}

/* The words of the real table (store/cache_table.h): an answer is gone with its keeper. */
static struct fake_answer *shared_of(struct fake_rank *self, const char *upath)
{
    struct fake_net *net = self->net;
    return net->machines > 0 && strncmp(upath, "key", 3) == 0
               ? &net->shared[self->rank % net->machines][key_index(upath)]
               : NULL;
}

static uint64_t *told_of(struct fake_rank *self, const char *upath, bool published)
{
    struct fake_net *net = self->net;
    return &net->told[self->rank % net->machines][key_index(upath)][published];
}

static void op_answer_told(void *arg, const char *upath, uint64_t now, bool published)
{
    if (shared_of(arg, upath) != NULL)
        *told_of(arg, upath, published) = now;
}

static uint64_t op_answer_told_at(void *arg, const char *upath, bool published)
{
    return shared_of(arg, upath) != NULL ? *told_of(arg, upath, published) : 0;
}

static bool op_answer_get(void *arg, const char *upath, uint64_t now,
                          struct dyad_answer *answer)
{
    struct fake_rank *self = arg, *keeper;
    const struct fake_answer *shared = shared_of(self, upath);

    if (shared == NULL || shared->put == 0 || shared->answer.until <= now ||
        shared->answer.since <= *told_of(self, upath, shared->answer.status != 0))
        return false;
    keeper = &self->net->rank[shared->rank];
    if (keeper->node == NULL || keeper->incarnation != shared->incarnation)
        return false;
    *answer = shared->answer;
    return true;
}

static uint64_t op_answer_put(void *arg, const char *upath,
                              const struct dyad_answer *answer)
{
    struct fake_rank *self = arg;
    struct fake_answer *shared = shared_of(self, upath);

    if (shared == NULL)
        return 0;
    *shared = (struct fake_answer){.answer = *answer,
                                   .put = ++self->net->puts,
                                   .rank = self->rank,
                                   .incarnation = self->incarnation};
    return shared->put;
}

static void op_answer_drop(void *arg, uint64_t put)
{
    struct fake_rank *self = arg;
    struct fake_net *net = self->net;

    for (unsigned key = 0; key < FAKE_KEYS && !self->dying; key++) {
        struct fake_answer *shared = &net->shared[self->rank % net->machines][key];
        if (shared->put == put)
            shared->put = 0;
    }
}

static void op_invalidate_node(void *arg, const struct dyad_entry *newer, uint32_t rank,
                               uint64_t token)
{
    struct fake_rank *self = arg;

    self->nleft++;
    self->left_by = rank;
    if (self->blind)
        dht_node_unseen(self->node, token);
    op_invalidate(arg, newer, token);
}

static void op_wanted(void *arg, const char *upath)
{
    struct fake_rank *self = arg;

    self->nwanted[key_index(upath)]++;
}

static void op_silent(void *arg, uint32_t rank)
{
    struct fake_rank *self = arg;

    self->nsilent[rank]++;
}

static void op_written(void *arg, const char *upath)
{
    (void)upath;
    ((struct fake_rank *)arg)->others = true;
}

static bool op_beside(void *arg, uint32_t rank, uint32_t other)
{
    return ((struct fake_rank *)arg)->net->pairs && rank / 2 == other / 2;
}

static const struct dht_node_ops ops = {.send = op_send,
                                        .beside = op_beside,
                                        .now = op_now,
                                        .wall = op_wall,
                                        .set_timer = op_set_timer,
                                        .invalidate = op_invalidate,
                                        .withdrawn = op_withdrawn,
                                        .answer_get = op_answer_get,
                                        .answer_put = op_answer_put,
                                        .answer_drop = op_answer_drop,
                                        .answer_heard = op_answer_told,
                                        .answer_heard_at = op_answer_told_at,
                                        .invalidate_node = op_invalidate_node,
                                        .wanted = op_wanted,
                                        .written = op_written,
                                        .silent = op_silent};

static void start(struct fake_rank *rank)
{
    struct dht_node_config config = rank->net->config;

    config.self = rank->rank;
    config.incarnation = rank->incarnation;
    rank->timer = UINT64_MAX;
    rank->node = dht_node_create(&config, &ops, rank);
    if (rank->node == NULL)
        abort();
}

struct fake_net *fake_net_create(uint32_t nranks, uint32_t replicas, uint64_t seed)
{
    return fake_net_create_on(nranks, replicas, seed, NULL);
}

struct fake_net *fake_net_create_on(uint32_t nranks, uint32_t replicas, uint64_t seed,
                                    const uint32_t *nodes)
{
    struct fake_net *net = calloc(1, sizeof(*net));

    if (net == NULL || nranks > FAKE_RANKS)
        abort();
    net->nranks = nranks;
    net->rng = seed;
    net->refuse = true;
    net->config = (struct dht_node_config){.nranks = nranks,
                                           .inlined_max = 1 << 20,
                                           .depth = 2,
                                           .bins = 16,
                                           .replicas = replicas,
                                           .listing = true,
                                           .node = nodes,
                                           .request_timeout = 1 * SEC,
                                           .retry_interval = 5 * SEC,
                                           .invalidate_timeout = 2 * SEC,
                                           .keep_time = 2 * SEC};
    net->now = 1000 * SEC;
    for (uint32_t i = 0; i < nranks; i++) {
        net->rank[i].net = net;
        net->rank[i].rank = i;
        start(&net->rank[i]);
    }
    return net;
}

void fake_net_destroy(struct fake_net *net)
{
    struct packet *packet, *tmp;
    struct call *call, *ctmp;

    DL_FOREACH_SAFE(net->calls, call, ctmp)
    {
        free(call);
    }
    DL_FOREACH_SAFE(net->queue, packet, tmp)
    {
        free(packet);
    }
    for (uint32_t i = 0; i < net->nranks; i++)
        dht_node_destroy(net->rank[i].node);
    free(net);
}

/* One step, not beyond `end`. */
static bool step(struct fake_net *net, uint64_t end)
{
    struct packet *packet = NULL, *p;
    struct fake_rank *rank = NULL;
    uint64_t when = end;

    DL_FOREACH(net->queue, p)
    {
        if (net->rank[p->to].stopped)
            continue;
        if (p->when < when || (p->when == when && packet == NULL)) {
            when = p->when;
            packet = p;
        }
    }
    for (uint32_t i = 0; i < net->nranks; i++) {
        if (net->rank[i].node != NULL && !net->rank[i].stopped &&
            net->rank[i].timer <= end &&
            (net->rank[i].timer < when || (packet == NULL && rank == NULL))) {
            when = net->rank[i].timer;
            rank = &net->rank[i];
            packet = NULL;
        }
    }
    if (when > net->now)
        net->now = when;
    if (rank != NULL) {
        rank->timer = UINT64_MAX;
        dht_node_tick(rank->node);
    } else if (packet != NULL) {
        DL_DELETE(net->queue, packet);
        rank = &net->rank[packet->to];
        if (rank->node != NULL && rank->incarnation == packet->to_incarnation)
            dht_node_receive(rank->node, &packet->msg);
        free(packet);
    } else {
        return false;
    }
    return true;
}

void fake_net_run(struct fake_net *net, uint64_t ns)
{
    uint64_t end = net->now + ns;
    while (step(net, end))
        ;
}

bool fake_net_run_until(struct fake_net *net, const int *calls, uint64_t ns)
{
    uint64_t end = net->now + ns;
    while (*calls == 0)
        if (!step(net, end))
            return false;
    return true;
}

static void tell_live(struct fake_net *net, uint32_t rank, bool live)
{
    for (uint32_t i = 0; i < net->nranks; i++)
        if (net->rank[i].node != NULL)
            dht_node_set_live(net->rank[i].node, rank, live);
}

void fake_net_kill(struct fake_net *net, uint32_t rank, bool tell)
{
    net->rank[rank].dying = true;
    dht_node_destroy(net->rank[rank].node);
    net->rank[rank].dying = false;
    net->rank[rank].node = NULL;
    net->rank[rank].nheld = 0;
    memset(net->rank[rank].copy, 0, sizeof(net->rank[rank].copy));
    for (unsigned i = 0; i < FAKE_KEYS; i++)
        net->rank[rank].unfinished[i] |= net->rank[rank].publishing[i] > 0;
    memset(net->rank[rank].publishing, 0, sizeof(net->rank[rank].publishing));
    if (tell)
        tell_live(net, rank, false);
}

void fake_net_revive(struct fake_net *net, uint32_t rank, bool tell)
{
    struct fake_rank *r = &net->rank[rank];

    r->incarnation++;
    start(r);
    for (uint32_t i = 0; i < net->nranks; i++)
        if (net->rank[i].node == NULL && tell)
            dht_node_set_live(r->node, i, false);
    for (unsigned i = 0; i < FAKE_KEYS; i++) {
        if (r->journal[i].state != DYAD_ENTRY_NONE) {
            struct dyad_entry entry = r->journal[i];
            entry.upath = fake_key(i);
            dht_node_restore(r->node, &entry);
        }
        if (r->unfinished[i])
            fake_publish(net, rank, i, 999, DYAD_ENTRY_PUBLISHED, &r->again[i]);
        r->unfinished[i] = false;
    }
    if (tell)
        tell_live(net, rank, true);
}

const char *fake_key(unsigned i)
{
    static char names[FAKE_KEYS][16];
    snprintf(names[i], sizeof(names[i]), "key%u", i);
    return names[i];
}

static void publish_fn(void *arg, int status, const struct dyad_version *version)
{
    struct call *call = arg;

    call->rank->publishing[call->key]--;
    call->result->calls++;
    call->result->status = status;
    call->result->version = *version;
    if (status == 0) {
        call->entry.version = *version;
        call->entry.upath = NULL;
        if (dyad_version_cmp(&call->rank->journal[call->key].version, version) < 0)
            call->rank->journal[call->key] = call->entry;
    }
    DL_DELETE(call->rank->net->calls, call);
    free(call);
}

void fake_publish(struct fake_net *net, uint32_t rank, unsigned key, uint64_t size,
                  enum dyad_entry_state state, struct result *result)
{
    struct call *call = calloc(1, sizeof(*call));

    if (call == NULL)
        abort();
    memset(result, 0, sizeof(*result));
    DL_APPEND(net->calls, call);
    call->rank = &net->rank[rank];
    call->key = key;
    call->result = result;
    call->entry = (struct dyad_entry){.upath = fake_key(key),
                                      .owner = rank,
                                      .state = state,
                                      .size = size,
                                      .mode = 0100644};
    call->entry.storage[0] = (uint8_t)rank;
    memset(&net->rank[rank].copy[key], 0, sizeof(struct dyad_version));
    net->rank[rank].publishing[key]++;
    if (dht_node_publish(net->rank[rank].node, &call->entry, publish_fn, call) < 0)
        abort();
    if (result->calls != 0)
        abort(); /* never from inside */
}

static void lookup_fn(void *arg, int status, const struct dyad_entry *entry)
{
    struct call *call = arg;

    call->result->calls++;
    call->result->status = status;
    call->result->has_entry = entry != NULL;
    if (entry != NULL) {
        call->result->entry = *entry;
        call->result->entry.upath = NULL;
        if (strcmp(entry->upath, fake_key(call->key)) != 0)
            abort();
    }
    if (status == 0 && (call->flags & NET_LOOKUP_COPY) != 0 &&
        entry->owner != call->rank->rank && call->rank->publishing[call->key] == 0 &&
        dyad_version_cmp(&call->rank->journal[call->key].version, &entry->version) < 0)
        call->rank->copy[call->key] = entry->version;
    DL_DELETE(call->rank->net->calls, call);
    free(call);
}

struct dht_lookup *fake_lookup(struct fake_net *net, uint32_t rank, unsigned key,
                               uint8_t flags, const struct dyad_version *newer_than,
                               struct result *result)
{
    struct call *call = calloc(1, sizeof(*call));
    struct dht_lookup *lookup;

    if (call == NULL)
        abort();
    memset(result, 0, sizeof(*result));
    DL_APPEND(net->calls, call);
    call->rank = &net->rank[rank];
    call->key = key;
    call->flags = flags;
    call->result = result;
    lookup = dht_node_lookup(net->rank[rank].node, fake_key(key), flags, newer_than,
                             lookup_fn, call);
    if (lookup == NULL || result->calls != 0)
        abort();
    return lookup;
}

unsigned fake_homes(struct fake_net *net, unsigned key, uint32_t homes[DHT_REPLICAS_MAX])
{
    for (uint32_t i = 0; i < net->nranks; i++)
        if (net->rank[i].node != NULL)
            return dht_node_homes(net->rank[i].node, fake_key(key), homes);
    return 0;
}

struct dht_record *fake_record(struct fake_net *net, uint32_t rank, unsigned key)
{
    struct dht_key k;

    dht_key_init(&k, fake_key(key), net->config.depth);
    return dht_shard_find(dht_node_shard(net->rank[rank].node), &k, fake_key(key));
}

bool fake_is_home(struct fake_net *net, unsigned key, uint32_t rank)
{
    uint32_t homes[DHT_REPLICAS_MAX];
    unsigned n = fake_homes(net, key, homes);

    for (unsigned i = 0; i < n; i++)
        if (homes[i] == rank)
            return true;
    return false;
}

uint32_t fake_stranger(struct fake_net *net, unsigned key, unsigned nth)
{
    for (uint32_t i = 0; i < net->nranks; i++)
        if (net->rank[i].node != NULL && !fake_is_home(net, key, i) && nth-- == 0)
            return i;
    abort();
}

struct dyad_version fake_publish_ok(struct fake_net *net, uint32_t rank, unsigned key,
                                    uint64_t size, enum dyad_entry_state state)
{
    struct result r;

    fake_publish(net, rank, key, size, state, &r);
    if (!fake_net_run_until(net, &r.calls, 60 * SEC) || r.status != 0) {
        fprintf(stderr, "publish of %s by rank %u: %d calls, status %d\n", fake_key(key),
                rank, r.calls, r.status);
        abort();
    }
    return r.version;
}
