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
 * `--long` runs more seeds.
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

enum kind { DEATHS, RETURNS, JOINS, SUSPICION, CUT, ALL, KINDS };

static const char *const kind_name[KINDS] = {"deaths",
                                             "deaths and returns",
                                             "joins",
                                             "live ranks believed dead",
                                             "network cut in two",
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
        uint64_t late = net->now - (key->acked_at > l->begun ? key->acked_at : l->begun);
        /* It may hear of it before the publisher does. */
        if (key->acked.counter > 0 && net->now > key->acked_at && late > t->waited_worst)
            t->waited_worst = late;
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
        CHECK(changed_near(l) >= net->config.replicas,
              "%s, acknowledged before, is not there for rank %u: %u of its homes changed",
              key->upath, l->rank, changed_near(l));
    }
    if (status == 0 && l->copy && entry->owner != l->rank &&
        (rank->file == NULL || rank->file[l->key].version.counter == 0)) {
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
        uint32_t rank = churn_any(net, -1);
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
    } else if (kind != CUT && count_there(net) > least &&
               (rank = victim(net)) != DYAD_RANK_NONE) {
        churn_kill(net, rank, SPREAD);
    }
}

/* At rest: what was published and has a live owner is where it belongs and is found. */
static void check_settled(struct churn_net *net, struct tally *tally, const char *what)
{
    uint64_t kept = 0, left = 0;

    for (uint32_t k = 0; k < net->nkeys; k++) {
        struct churn_key *key = &net->key[k];
        uint32_t owner = key->acked.rank, homes[DHT_REPLICAS_MAX], any;
        struct dht_key hash;
        if (key->acked.counter == 0)
            continue;
        if (!net->rank[owner].there || net->rank[owner].file == NULL ||
            dyad_version_cmp(&net->rank[owner].file[k].version, &key->acked) != 0) {
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
        for (uint32_t i = 0; i < net->nranks; i++)
            CHECK(net->rank[i].copy == NULL || net->rank[i].copy[k].counter == 0 ||
                      dyad_version_cmp(&net->rank[i].copy[k], &key->acked) >= 0,
                  "%s: rank %u was not told that its copy of %s is old", what, i,
                  key->upath);
        look_up(net, tally, churn_any(net, -1), k, false, false);
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
        if (kind == CUT && c % 2 == 0)
            churn_cut(net, SPREAD);
        else if (kind == CUT)
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
            churn_run(net, every / 8);
        }
    }
    if (net->rank[0].group != 0 || kind == CUT)
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
    unsigned seeds = longer ? 40 : 4;

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
                for (uint64_t seed = 0; seed < seeds; seed++)
                    churn(k, 64, replicas, rate[s].every, 24, seed, &tally);
                if (longer || (replicas == 2 && s == 1))
                    churn(k, 1024, replicas, rate[s].every, 24, 99, &tally);
                print_tally(k, replicas, rate[s].name, &tally);
                CHECK(s == 1 || k == CUT || replicas == 1 || tally.negative == 0,
                      "%s, one at a time, R %u", kind_name[k], replicas);
            }
        }
    }
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        markdown = markdown || strcmp(argv[i], "--markdown") == 0;
        longer = longer || strcmp(argv[i], "--long") == 0;
    }
    simulate_churn();
    if (failures > 0)
        fprintf(stderr, "sim_churn: %d bounds broken\n", failures);
    return failures > 0;
}
