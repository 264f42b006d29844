/*
 * test/unit/dht/sim_churn.c - the table while ranks join, leave, die and disagree
 *
 * Real nodes (dht/node.h) over churn_net. Two parts:
 *
 * - What must hold (simulate_churn): ranks come and go while files are published, looked up
 *   and waited for, and the news reach each rank at another time; or some ranks believe a
 *   live one dead; or the network is cut in two. Then views settle, and every published key
 *   whose owner lives is at every home and found by look-ups from anywhere; every wait for
 *   it has ended; nobody holds an older copy. Meanwhile each look-up that begins after the
 *   acknowledgement and is answered "nothing" is judged: docs/dht.md says when that can be,
 *   and anything else is a failure.
 * - What a change costs (messages; load and time in a ring of few live slots).
 *
 * Exits with 1 if something is broken. `--markdown` prints the tables of docs/dht.md,
 * `--long` runs more seeds; TEST_SEED=N only that one.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "churn_net.h"
#include "util/clock.h"

#define SPREAD (2 * SEC) /* until the last has heard of a change */
/* A change has no effect any more: all have heard of it, and an owner whose message found
 * a silent home has looked again. */
#define SETTLED (SPREAD + 15 * SEC)

static bool markdown, longer;
static int failures;
static uint64_t seed_now;

#define CHECK(cond, ...)                                                   \
    do {                                                                   \
        if (!(cond) && failures++ < 30) {                                  \
            fprintf(stderr, "sim_churn: %s is false (seed %llu): ", #cond, \
                    (unsigned long long)seed_now);                         \
            fprintf(stderr, __VA_ARGS__);                                  \
            fputc('\n', stderr);                                           \
        }                                                                  \
    } while (0)

static void heading(const char *title)
{
    printf(markdown ? "\n### %s\n\n" : "\n== %s\n", title);
}

/* --- what must hold --- */

enum kind { DEATHS, RETURNS, JOINS, SUSPICION, CUT, CUT_SEEN, ALL, KINDS };

static const char *const kind_name[KINDS] = {"deaths",
                                             "deaths and returns",
                                             "joins",
                                             "live ranks believed dead",
                                             "network cut in two",
                                             "the same, and known",
                                             "all together"};

struct tally {
    uint64_t looked, found, negative, explained, stale, unreachable, orphans;
    uint64_t waits, waited_worst; /* ns after the acknowledgement */
    uint64_t changes;
};

struct look {
    struct look *next;
    struct churn_net *net;
    struct tally *tally;
    struct dht_lookup *lookup;
    uint32_t rank, incarnation, key;
    uint64_t begun;
    struct dyad_version acked; /* when it began */
    bool wait, copy, done;
    bool not_tentative; /* of a cut that is known: it must not be told "nothing" */
    int status;
};

static struct look *looks;

/* How many of the ranks to which the asker would turn for the key, in the order of probes
 * up to its last home, have changed not long before the look-up or during it. */
static unsigned changed_near(const struct look *l)
{
    struct churn_net *net = l->net;
    struct dht_ring ring = {.nranks = net->nranks};
    uint32_t homes[DHT_REPLICAS_MAX];
    struct dht_node *node = churn_node(net, l->rank);
    const char *upath = net->key[l->key].upath;
    unsigned n = dht_node_homes(node, upath, homes), changed = 0, seen = 0;
    struct dht_key key;

    dht_key_init(&key, upath, 2);
    for (uint32_t j = 0; j < net->nranks && seen < n; j++) {
        uint32_t rank = dht_homes_probe(&ring, &key, j);
        changed += net->changed[rank] != 0 && net->changed[rank] + SETTLED >= l->begun;
        for (unsigned i = 0; i < n; i++)
            seen += homes[i] == rank;
    }
    return changed;
}

static void look_done(void *arg, int status, const struct dyad_entry *entry)
{
    struct look *l = arg;
    struct churn_net *net = l->net;
    struct churn_rank *rank = &net->rank[l->rank];
    struct churn_key *key = &net->key[l->key];
    struct tally *t = l->tally;

    l->done = true;
    l->status = status;
    if (l->wait) {
        uint64_t from = key->acked_at > l->begun ? key->acked_at : l->begun;
        if (from < net->healed) /* what could not pass is not late */
            from = net->healed;
        /* It may hear of it before the publisher does. */
        if (key->acked.counter > 0 && net->now > from && net->now - from > t->waited_worst)
            t->waited_worst = net->now - from;
        CHECK(status == 0, "a wait ended with %d", status);
    } else if (status == 0) {
        t->found++;
        t->stale += dyad_version_cmp(&entry->version, &l->acked) < 0;
    } else if (status == EHOSTUNREACH) {
        t->unreachable++;
    } else if (!net->rank[key->acked.rank].there) {
        t->orphans++; /* whose owner is gone: nobody brings it to new homes */
    } else {
        t->negative++;
        t->explained += changed_near(l) >= net->config.replicas;
        CHECK(!l->not_tentative || net->cut_at > l->begun,
              "%s is not there for rank %u (group %u) at %.3f, healed %.3f", key->upath,
              l->rank, rank->group, (double)l->begun / 1e9, (double)net->healed / 1e9);
        CHECK(changed_near(l) >= net->config.replicas,
              "%s, acknowledged before, is not there for rank %u: %u of its homes changed",
              key->upath, l->rank, changed_near(l));
    }
    if (status == 0 && l->copy && entry->owner != l->rank &&
        (rank->file == NULL || rank->file[l->key].counter == 0)) {
        if (rank->copy == NULL)
            rank->copy = calloc(net->nkeys, sizeof(*rank->copy));
        if (rank->copy != NULL)
            rank->copy[l->key] = entry->version;
    }
}

static void look_up(struct churn_net *net, struct tally *tally, uint32_t rank, uint32_t key,
                    bool wait, bool copy)
{
    struct look *l = calloc(1, sizeof(*l));

    if (l == NULL)
        exit(1);
    *l = (struct look){.next = looks,
                       .net = net,
                       .tally = tally,
                       .rank = rank,
                       .incarnation = net->rank[rank].incarnation,
                       .key = key,
                       .begun = net->now,
                       .acked = net->key[key].acked,
                       .wait = wait,
                       .copy = copy};
    /* All have seen the cut, and this rank is on the minority, or that it is over. */
    if (net->cut_seen)
        l->not_tentative = net->healed >= net->cut_at
                               ? net->now >= net->healed
                               : net->rank[rank].group == 1 && net->now >= net->cut_known;
    looks = l;
    tally->looked += !wait;
    tally->waits += wait;
    l->lookup = dht_node_lookup(churn_node(net, rank), net->key[key].upath,
                                (wait ? NET_LOOKUP_WAIT : 0) | (copy ? NET_LOOKUP_COPY : 0),
                                NULL, look_done, l);
    if (l->lookup == NULL)
        exit(1);
}

static bool look_lives(const struct look *l)
{
    const struct churn_rank *rank = &l->net->rank[l->rank];
    return rank->there && rank->incarnation == l->incarnation;
}

/* A rank may die: it is not in the middle of a publish. */
static uint32_t victim(struct churn_net *net)
{
    for (int i = 0; i < 1000; i++) {
        uint32_t rank = churn_any_there(net);
        if (net->rank[rank].publishing == 0)
            return rank;
    }
    return DYAD_RANK_NONE;
}

static uint32_t count_there(const struct churn_net *net)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < net->nranks; i++)
        n += net->rank[i].there;
    return n;
}

static void change(struct churn_net *net, enum kind kind, uint32_t least)
{
    uint32_t rank;

    if (kind == ALL)
        kind = churn_random(net, 4); /* the cut is one of its own */
    if (kind == JOINS || (kind == RETURNS && churn_random(net, 2))) {
        for (int i = 0; i < 1000; i++) {
            rank = churn_random(net, net->nranks);
            if (!net->rank[rank].there) {
                churn_join(net, rank, SPREAD);
                return;
            }
        }
    } else if (kind == SUSPICION) {
        churn_suspect(net, churn_any(net, -1), 2, SPREAD, 5 * SEC);
    } else if (kind != CUT && kind != CUT_SEEN && count_there(net) > least &&
               (rank = victim(net)) != DYAD_RANK_NONE) {
        churn_kill(net, rank, SPREAD);
    }
}

static bool owner_is_gone(const struct churn_net *net, uint32_t key)
{
    const struct churn_rank *owner = &net->rank[net->key[key].acked.rank];

    return !owner->there || owner->file == NULL ||
           dyad_version_cmp(&owner->file[key], &net->key[key].acked) != 0;
}

/* At rest: what was published and has a live owner is where it belongs and is found. */
static void check_settled(struct churn_net *net, struct tally *tally, const char *what)
{
    uint64_t kept = 0, left = 0;

    for (uint32_t i = 0; i < net->nranks; i++)
        CHECK(net->rank[i].asked == NULL, "%s: rank %u has not joined", what, i);
    for (uint32_t k = 0; k < net->nkeys; k++) {
        struct churn_key *key = &net->key[k];
        uint32_t homes[DHT_REPLICAS_MAX], any;
        struct dht_key hash;
        if (key->acked.counter == 0)
            continue;
        if (owner_is_gone(net, k)) {
            left++;
            continue;
        }
        kept++;
        any = churn_any(net, -1);
        dht_key_init(&hash, key->upath, net->config.depth);
        unsigned n = dht_node_homes(churn_node(net, any), key->upath, homes);
        for (unsigned i = 0; i < n; i++) {
            struct dht_record *record = dht_shard_find(
                dht_node_shard(churn_node(net, homes[i])), &hash, key->upath);
            CHECK(record != NULL &&
                      dyad_version_cmp(&record->entry.version, &key->acked) == 0,
                  "%s: %s is not at its home %u", what, key->upath, homes[i]);
        }
        look_up(net, tally, churn_any(net, -1), k, false, false);
    }
    for (uint32_t i = 0; i < net->nranks; i++)
        for (uint32_t c = 0; net->rank[i].copy != NULL && c < net->nkeys; c++) {
            const struct dyad_version *copy = &net->rank[i].copy[c];
            CHECK(copy->counter == 0 || owner_is_gone(net, c) ||
                      dyad_version_cmp(copy, &net->key[c].acked) >= 0,
                  "%s: rank %u was not told that its copy of %s is old", what, i,
                  net->key[c].upath);
        }
    churn_run(net, 10 * SEC);
    for (struct look *l = looks; l != NULL; l = l->next) {
        bool owner_there = net->rank[net->key[l->key].acked.rank].there;
        if (!look_lives(l) || net->key[l->key].acked.counter == 0)
            continue;
        CHECK(l->done || !owner_there, "%s: a look-up of %s (wait %d) has not ended", what,
              net->key[l->key].upath, l->wait);
        if (l->begun + 11 * SEC > net->now)
            CHECK(l->status == 0, "%s: %s is not found by rank %u", what,
                  net->key[l->key].upath, l->rank);
    }
    CHECK(kept > 0, "%s: nothing is left (%lu)", what, (unsigned long)left);
}

static void forget_looks(void)
{
    while (looks != NULL) {
        struct look *l = looks;
        looks = l->next;
        if (!l->done && look_lives(l))
            dht_node_cancel(l->net->rank[l->rank].node, l->lookup);
        free(l);
    }
}

/* `every`: ns between changes, on average. */
static void churn(enum kind kind, uint32_t nranks, uint32_t replicas, uint64_t every,
                  unsigned nchanges, uint64_t seed, struct tally *tally)
{
    uint32_t live = kind == JOINS || kind == ALL ? nranks / 4 : nranks, nkeys = 96;
    struct churn_net *net = churn_create(nranks, live, nkeys, replicas, seed);
    uint32_t next = nkeys / 2;
    char what[64];

    /* So that all see the cut while it lasts: a connection either breaks, which both ends
     * see, or loses nothing. */
    bool cut = kind == CUT || kind == CUT_SEEN;
    net->cut_seen = kind == CUT_SEEN;
    if (cut && every < 2 * SPREAD)
        every = 2 * SPREAD;
    seed_now = seed;
    snprintf(what, sizeof(what), "%s, %u ranks, R %u", kind_name[kind], nranks, replicas);
    net->refuse = seed % 2;
    for (uint32_t k = 0; k < next; k++)
        churn_publish(net, churn_any(net, -1), k);
    churn_run(net, 20 * SEC);
    CHECK(net->failed == 0 && net->publishes == 0, "%s: %u", what, net->failed);
    for (uint32_t k = next; k < nkeys; k++) /* for those that are published meanwhile */
        for (unsigned i = 0; i < 3; i++)
            look_up(net, tally, churn_any(net, -1), k, true, i == 0);
    for (unsigned c = 0; c < nchanges; c++) {
        uint64_t until = net->now + every / 2 + churn_random(net, 1000) * (every / 1000);
        if (cut && c % 2 == 0)
            churn_cut(net, SPREAD);
        else if (cut)
            churn_heal(net, SPREAD);
        else
            change(net, kind, nranks / 8 + 4);
        tally->changes++;
        while (net->now < until) {
            uint32_t k = churn_random(net, next);
            if (churn_random(net, 6) == 0) /* a version of the same or another rank */
                churn_publish(net, churn_any(net, -1), k);
            else if (net->key[k].acked.counter > 0)
                look_up(net, tally, churn_any(net, -1), k, false, churn_random(net, 2));
            if (next < nkeys && churn_random(net, 4) == 0)
                churn_publish(net, churn_any(net, -1), next++);
            /* Polls of what is new: it is where the two sides differ. */
            for (unsigned i = 0; kind == CUT_SEEN && i < 32; i++) {
                k = next - 1 - churn_random(net, 4);
                if (net->key[k].acked.counter > 0)
                    look_up(net, tally, churn_any(net, -1), k, false, false);
            }
            churn_run(net, every / 8);
        }
    }
    if (net->rank[0].group != 0 || cut)
        churn_heal(net, SPREAD);
    for (; next < nkeys; next++)
        churn_publish(net, churn_any(net, -1), next);
    churn_run(net, 60 * SEC);
    check_settled(net, tally, what);
    forget_looks();
    churn_destroy(net);
}

static void print_tally(enum kind kind, uint32_t replicas, const char *rate,
                        const struct tally *t)
{
    printf(markdown
               ? "| %s | %s | %u | %lu | %lu | %lu | %lu | %lu | %.1f |\n"
               : "%-26s %-20s R %u: %5lu changes %6lu look-ups %4lu nothing %4lu older "
                 "%6lu waits, worst %.1f s\n",
           kind_name[kind], rate, replicas, (unsigned long)t->changes,
           (unsigned long)t->looked, (unsigned long)t->negative, (unsigned long)t->stale,
           (unsigned long)t->waits, (double)t->waited_worst / 1e9);
}

static void simulate_churn(void)
{
    static const struct {
        const char *name;
        uint64_t every;
    } rate[] = {{"one at a time", SETTLED + 5 * SEC}, {"many at a time", 800 * MSEC}};
    unsigned seeds = longer ? 40 : 2;
    const char *only = getenv("TEST_SEED");

    heading("What look-ups and waits meet while ranks change (64 and 1,024 ranks)");
    if (markdown)
        printf(
            "| changes | how | R | number | look-ups of what was acknowledged | answered "
            "\"nothing\" | answered with an older version | waits | longest after the "
            "acknowledgement, s |\n|---|---|---|---|---|---|---|---|---|\n");
    for (unsigned k = 0; k < KINDS; k++) {
        for (unsigned s = 0; s < 2; s++) {
            for (uint32_t replicas = 1; replicas <= 3; replicas++) {
                struct tally tally = {0};
                for (uint64_t seed = 0; seed < seeds && only == NULL; seed++)
                    churn(k, 64, replicas, rate[s].every, 24, seed, &tally);
                if (only != NULL)
                    churn(k, 64, replicas, rate[s].every, 24, strtoull(only, NULL, 0),
                          &tally);
                else if (longer || (replicas == 2 && s == 1 && k == ALL))
                    churn(k, 1024, replicas, rate[s].every, 24, 99, &tally);
                print_tally(k, replicas, rate[s].name, &tally);
                /* A rank that half of the others take for dead takes these for dead. */
                CHECK(s == 1 || k > JOINS || replicas == 1 || tally.negative == 0,
                      "%s, one at a time, R %u", kind_name[k], replicas);
            }
        }
    }
}

/* --- what a change costs --- */

struct cost {
    uint64_t messages, most, publishes, lookups;
    double seconds;
};

/* Let one change settle; what was sent meanwhile, in all and by one rank at most. */
static void settle(struct churn_net *net, struct cost *cost)
{
    uint64_t *before = calloc(net->nranks, sizeof(*before)), start, sent = net->sent;
    uint64_t publishes = net->sent_type[NET_MSG_PUBLISH];
    uint64_t lookups = net->sent_type[NET_MSG_LOOKUP];

    if (before == NULL)
        exit(1);
    for (uint32_t i = 0; i < net->nranks; i++)
        before[i] = net->rank[i].sent;
    start = util_clock_now();
    churn_run(net, 20 * SEC);
    cost->seconds += (double)(util_clock_now() - start) / 1e9;
    cost->messages += net->sent - sent;
    cost->publishes += net->sent_type[NET_MSG_PUBLISH] - publishes;
    cost->lookups += net->sent_type[NET_MSG_LOOKUP] - lookups;
    for (uint32_t i = 0; i < net->nranks; i++)
        if (net->rank[i].sent - before[i] > cost->most)
            cost->most = net->rank[i].sent - before[i];
    free(before);
}

/* Messages of one death, and of one return, in a ring at rest: `owners` ranks with so many
 * files each, of which every fourth has a copy somewhere. */
static void cost_of_change(uint32_t nranks, uint32_t owners, uint32_t files, unsigned n)
{
    uint32_t nkeys = owners * files;
    struct churn_net *net = churn_create(nranks, nranks, nkeys, 2, 7);
    struct cost cost[2] = {{0}};
    struct tally tally = {0};
    /* Each key at a home moves: the owner tells the new one, and so does who has a copy. If
     * he is the first there is a message more, when the key has come. */
    double moved = 2.0 * nkeys / nranks, expect = 2 * moved + 2.5 * moved / 4;
    uint32_t *victims = calloc(n, sizeof(*victims));

    if (victims == NULL)
        exit(1);
    net->refuse = true;
    net->told_only = true;
    for (uint32_t k = 0; k < nkeys; k++) {
        churn_publish(net, k % owners * (nranks / owners), k);
        if (k % 4096 == 4095)
            churn_run(net, SEC);
    }
    churn_run(net, 20 * SEC);
    /* Readers are the owners: of who is told at 100,000 ranks there are only so many. */
    for (uint32_t k = 0; k < nkeys; k += 4)
        look_up(net, &tally, (k + 1) % owners * (nranks / owners), k, false, true);
    churn_run(net, 20 * SEC);
    CHECK(net->failed == 0 && tally.found == (nkeys + 3) / 4, "%u ranks", nranks);
    for (unsigned i = 0; i < n; i++) {
        do
            victims[i] = churn_random(net, nranks);
        while (victims[i] % (nranks / owners) == 0 || !net->rank[victims[i]].there);
        churn_kill(net, victims[i], SPREAD);
        settle(net, &cost[0]);
    }
    for (unsigned i = 0; i < n; i++) {
        churn_join(net, victims[i], SPREAD);
        settle(net, &cost[1]);
    }
    for (unsigned c = 0; c < 2; c++) {
        double mean = (double)cost[c].messages / n;
        printf(markdown
                   ? "| %u | %u | %s | %.1f | %.4f | %lu | %.1f | %.1f | %.2f |\n"
                   : "%8u ranks %8u files, %s: %8.1f messages, %8.4f per rank, most of "
                     "one rank %lu, expected %.1f (%.1f publishes), %.2f ms\n",
               nranks, nkeys, c ? "join" : "death", mean, mean / nranks,
               (unsigned long)cost[c].most, expect, (double)cost[c].publishes / n,
               cost[c].seconds / n * 1e3);
        CHECK(mean > 0.6 * expect && mean < 1.5 * expect, "%u ranks: %.1f, expected %.1f",
              nranks, mean, expect);
    }
    seed_now = 7;
    check_settled(net, &tally, "after the changes");
    forget_looks();
    free(victims);
    churn_destroy(net);
}

static void simulate_costs(void)
{
    heading("Messages of one change, 2 homes (mean of 20 deaths and 20 joins)");
    if (markdown)
        printf(
            "| ranks | files | change | messages | per rank | most of one rank (in 20) | "
            "expected | of these publishes | ms in all ranks |\n"
            "|---|---|---|---|---|---|---|---|---|\n");
    cost_of_change(1024, 64, 800, 20);
    cost_of_change(100000, longer ? 32 : 8, longer ? 25000 : 12500, 20);
}

/* --- a ring of 4,096 slots --- */

struct slots {
    uint8_t live[4096];
    uint32_t node[4096], keys[4096];
};

static bool slot_live(const void *arg, uint32_t rank)
{
    return ((const struct slots *)arg)->live[rank];
}

/* Load of each member, and the time to find homes. `nodes`: members are on so many. */
static void slots_load(uint32_t live, uint32_t nodes)
{
    struct slots *slots = calloc(1, sizeof(*slots));
    uint32_t few[DHT_FEW_LIVE];
    struct dht_ring ring = {.nranks = 4096, .replicas = 2, .live = slot_live, .arg = slots};
    struct churn_net *random = churn_create(1, 1, 1, 1, live);
    uint32_t homes[DHT_REPLICAS_MAX], most = 0, least = UINT32_MAX, together = 0;
    const uint32_t nkeys = 100000;
    uint64_t ns = 0;

    if (slots == NULL)
        exit(1);
    ring.node = slots->node;
    ring.few = few;
    ring.nfew = live <= DHT_FEW_LIVE ? live : 0;
    for (uint32_t i = 0; i < 4096; i++)
        slots->node[i] = nodes + i; /* never taken: one of its own */
    for (uint32_t left = live; left > 0;) {
        uint32_t i = churn_random(random, 4096);
        if (slots->live[i])
            continue;
        slots->live[i] = 1;
        slots->node[i] = --left % nodes;
        if (left < DHT_FEW_LIVE)
            few[left] = i;
    }
    for (uint32_t k = 0; k < nkeys; k++) {
        struct dht_key key;
        char upath[64];
        snprintf(upath, sizeof(upath), "run-a/step-%05u/field_%02u.h5", k / 10, k % 10);
        dht_key_init(&key, upath, 2);
        uint64_t start = util_clock_now();
        unsigned n = dht_homes_find(&ring, &key, homes);
        ns += util_clock_now() - start;
        CHECK(n == 2, "%u live slots: %u homes", live, n);
        for (unsigned i = 0; i < n; i++)
            slots->keys[homes[i]]++;
        together += slots->node[homes[0]] == slots->node[homes[1]];
    }
    for (uint32_t i = 0; i < 4096; i++) {
        if (!slots->live[i])
            continue;
        if (slots->keys[i] > most)
            most = slots->keys[i];
        if (slots->keys[i] < least)
            least = slots->keys[i];
    }
    double mean = 2.0 * nkeys / live;
    printf(markdown ? "| %u | %u | %.0f | %.3f | %.3f | %.2f | %.0f |\n"
                    : "%5u live on %4u nodes: %8.0f keys each, most %.3f of that, least "
                      "%.3f, %5.2f %% with both homes on one node, %6.0f ns\n",
           live, nodes, mean, most / mean, least / mean, 100.0 * together / nkeys,
           (double)ns / nkeys);
    CHECK(nodes == 1 || together < nkeys / 50, "%u live on %u nodes: %u keys", live, nodes,
          together);
    /* Chance, and that slots lie unevenly in an order of steps: no member has the load of
     * many. */
    CHECK(most < 2.5 * mean, "%u live: %u keys", live, most);
    churn_destroy(random);
    free(slots);
}

/* It grows from 2 to 256 members and shrinks to 16; each publishes as it comes. */
static void slots_grow(void)
{
    const uint32_t steps[] = {16, 64, 256}, per_member = 40;
    struct churn_net *net = churn_create(4096, 2, 256 * per_member, 2, 3);
    struct tally tally = {0};
    uint32_t next = 0, there = 2;

    net->refuse = true;
    seed_now = 3;
    for (unsigned s = 0; s < 3; s++) {
        struct cost cost = {0};
        uint32_t from = there;
        for (; there < steps[s]; there++) {
            uint32_t slot;
            do
                slot = churn_random(net, 4096);
            while (net->rank[slot].there);
            churn_join(net, slot, SPREAD);
            settle(net, &cost);
            for (uint32_t i = 0; i < per_member; i++)
                churn_publish(net, slot, next++);
            churn_run(net, SEC);
        }
        printf(
            markdown ? "| joins | %u to %u | %.1f | %lu |\n"
                     : "joins, %u to %u live: %.1f messages each, most of one rank %lu\n",
            from, there, (double)cost.messages / (there - from), (unsigned long)cost.most);
        check_settled(net, &tally, "growing");
        forget_looks();
    }
    struct cost cost = {0};
    for (; there > 16; there--) {
        churn_kill(net, victim(net), SPREAD);
        settle(net, &cost);
    }
    printf(markdown ? "| leaves | 256 to %u | %.1f | %lu |\n"
                    : "leaves, 256 to %u live: %.1f messages each, most of one rank %lu\n",
           there, (double)cost.messages / (256 - there), (unsigned long)cost.most);
    check_settled(net, &tally, "shrunk");
    CHECK(net->failed == 0 && net->publishes == 0, "%u", net->failed);
    forget_looks();
    churn_destroy(net);
}

static void simulate_slots(void)
{
    heading(
        "A session directory: load and time of a ring of 4,096 slots (100,000 keys, 2 "
        "homes)");
    if (markdown)
        printf(
            "| live slots | on nodes | keys per member (mean) | max/mean | min/mean | both "
            "homes on one node, %% | ns per dht_homes_find "
            "|\n|---|---|---|---|---|---|---|\n");
    slots_load(2, 1);
    slots_load(2, 2);
    slots_load(16, 1);
    slots_load(16, 4);
    slots_load(256, 8);
    slots_load(4096, 64);
    heading("A session directory: messages of one change (40 files per member)");
    if (markdown)
        printf(
            "| change | live slots | messages each | most of one rank in all of these "
            "|\n|---|---|---|---|\n");
    slots_grow();
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        markdown = markdown || strcmp(argv[i], "--markdown") == 0;
        longer = longer || strcmp(argv[i], "--long") == 0;
    }
    simulate_churn();
    simulate_costs();
    simulate_slots();
    if (failures > 0)
        fprintf(stderr, "sim_churn: %d bounds broken\n", failures);
    return failures > 0;
}
