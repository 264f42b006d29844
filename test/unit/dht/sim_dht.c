/*
 * test/unit/dht/sim_dht.c - the table at scale: a million keys over 16, 1,024 and 100,000
 * ranks
 *
 * Homes are computed for every key with dht_homes_find(); shards are the real ones
 * (dht/shard.h). Where all shards together would not fit (100,000 ranks x deep trees) a
 * sample of ranks gets its shard: every key that has one of them as a home is put in and
 * looked up. Exits with 1 if a bound is broken. Times are printed, not judged. `--markdown`
 * prints the tables of docs/dht.md.
 */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dht/homes.h"
#include "dht/shard.h"
#include "util/clock.h"

#define KEYS           1000000u
#define REPLICAS       2u
#define RANKS_PER_NODE 64u

static bool markdown;
static int failures;

#define CHECK(cond, ...)                                      \
    do {                                                      \
        if (!(cond)) {                                        \
            fprintf(stderr, "sim_dht: %s is false: ", #cond); \
            fprintf(stderr, __VA_ARGS__);                     \
            fputc('\n', stderr);                              \
            failures++;                                       \
        }                                                     \
    } while (0)

/* Names as workflows make them: long common parts, few bytes that differ. */
static void make_upath(char *upath, size_t size, const char *kind, unsigned i)
{
    snprintf(upath, size, "run-%s/step-%05u/rank-%04u/field_%02u.h5", kind, i / 2000,
             i / 10 % 200, i % 10);
}

static void *must_calloc(size_t n, size_t size)
{
    void *p = calloc(n, size);
    if (p == NULL) {
        perror("sim_dht");
        exit(1);
    }
    return p;
}

static void heading(const char *title)
{
    printf(markdown ? "\n%s\n\n" : "\n== %s\n", title);
}

struct balance {
    double mean, max, min, seconds;
    uint64_t same_rank, same_node;
};

/* Homes of every key; *count[rank] gets how many keys it keeps. */
static struct balance find_homes(uint32_t nranks, const uint32_t *node, uint32_t *count)
{
    struct dht_ring ring = {.nranks = nranks, .replicas = REPLICAS, .node = node};
    struct balance b = {.min = 1e30};
    struct dht_key key;
    char upath[128];

    for (unsigned i = 0; i < KEYS; i++) {
        uint32_t homes[DHT_REPLICAS_MAX];
        make_upath(upath, sizeof(upath), "a", i);
        dht_key_init(&key, upath, 2);
        uint64_t start = i % 64 == 0 ? util_clock_now() : 0;
        unsigned n = dht_homes_find(&ring, &key, homes);
        if (i % 64 == 0)
            b.seconds += (double)(util_clock_now() - start) * 64e-9;
        if (n != REPLICAS) {
            failures++;
            continue;
        }
        b.same_rank += homes[0] == homes[1];
        b.same_node += node[homes[0]] == node[homes[1]];
        for (unsigned j = 0; j < n; j++)
            count[homes[j]]++;
    }
    b.mean = (double)KEYS * REPLICAS / nranks;
    for (uint32_t r = 0; r < nranks; r++) {
        if (count[r] > b.max)
            b.max = count[r];
        if (count[r] < b.min)
            b.min = count[r];
    }
    return b;
}

static void simulate_balance(const uint32_t *sizes, unsigned nsizes)
{
    heading(
        "Balance: a million keys, 2 homes each, 64 ranks per node (16 ranks: 4 per node)");
    printf(markdown ? "| ranks | keys per rank (mean) | min | max | max/mean | expected of "
                      "chance | homes on one rank | homes on one node | ns per "
                      "dht_homes_find |\n|---|---|---|---|---|---|---|---|---|\n"
                    : "%8s %10s %8s %8s %8s %8s %9s %9s %7s\n",
           "ranks", "mean", "min", "max", "max/mean", "chance", "same rank", "same node",
           "ns");
    for (unsigned s = 0; s < nsizes; s++) {
        uint32_t n = sizes[s], per_node = n > RANKS_PER_NODE ? RANKS_PER_NODE : n / 4;
        uint32_t *node = must_calloc(n, sizeof(*node)),
                 *count = must_calloc(n, sizeof(*count));
        for (uint32_t r = 0; r < n; r++)
            node[r] = r / per_node;
        struct balance b = find_homes(n, node, count);
        /* The largest of n Poisson counts: P(count > x) = 1/n, by summing the tail. */
        double chance = b.mean, tail = 1.0, p = exp(-b.mean);
        if (b.mean < 700) {
            tail = 1.0 - p;
            for (chance = 0; tail > 1.0 / n; chance++) {
                p *= b.mean / (chance + 1);
                tail -= p;
            }
        } else {
            chance = b.mean + sqrt(2 * b.mean * log(n));
        }
        printf(markdown ? "| %u | %.0f | %.0f | %.0f | %.3f | %.3f | %lu | %lu | %.0f |\n"
                        : "%8u %10.0f %8.0f %8.0f %8.3f %8.3f %9lu %9lu %7.0f\n",
               n, b.mean, b.min, b.max, b.max / b.mean, chance / b.mean, b.same_rank,
               b.same_node, b.seconds / KEYS * 1e9);
        /* As good as chance allows (three more standard deviations, and room for small
         * counts), or a tenth: on small rings the rule of distinct nodes favours ranks at
         * the edge of a node. */
        CHECK(b.max <= fmax(chance + 3 * sqrt(b.mean) + 3, 1.1 * b.mean),
              "%u ranks: max %.0f", n, b.max);
        CHECK(b.same_rank == 0, "%u ranks", n);
        CHECK(b.same_node == 0, "%u ranks: %lu", n, b.same_node);
        free(node);
        free(count);
    }
}

/* The order of probes when most ranks are dead. */
static uint64_t probes;

static bool live_in_table(const void *arg, uint32_t rank)
{
    probes++;
    return ((const uint8_t *)arg)[rank];
}

static void simulate_deaths(void)
{
    const double dead[] = {0, 0.1, 0.5, 0.9, 0.99, 0.9999};
    const uint32_t n = 100000;
    uint8_t *live = must_calloc(n, 1);
    struct dht_ring ring = {
        .nranks = n, .replicas = REPLICAS, .live = live_in_table, .arg = live};

    heading("Probes per key as ranks die (100,000 ranks, 2 homes, 2,000 keys)");
    printf(markdown ? "| dead | probes per key | ns per dht_homes_find |\n|---|---|---|\n"
                    : "%8s %10s %9s\n",
           "dead", "probes", "ns");
    for (unsigned d = 0; d < sizeof(dead) / sizeof(dead[0]); d++) {
        uint32_t nlive = 0;
        for (uint32_t r = 0; r < n; r++) {
            struct dht_key key; /* its hash as the coin */
            char name[32];
            snprintf(name, sizeof(name), "%u", r);
            dht_key_init(&key, name, 1);
            live[r] = (double)(key.full >> 11) * 0x1p-53 >= dead[d];
            nlive += live[r];
        }
        probes = 0;
        uint64_t start = util_clock_now();
        for (unsigned i = 0; i < 2000; i++) {
            uint32_t homes[DHT_REPLICAS_MAX];
            struct dht_key key;
            char upath[128];
            make_upath(upath, sizeof(upath), "a", i * 37);
            dht_key_init(&key, upath, 2);
            CHECK(dht_homes_find(&ring, &key, homes) == REPLICAS, "%u live", nlive);
        }
        double ns = (double)(util_clock_now() - start) / 2000, mean = probes / 2000.0;
        printf(markdown ? "| %g %% | %.1f | %.0f |\n" : "%7g%% %10.1f %9.0f\n",
               dead[d] * 100, mean, ns);
        double expected = REPLICAS * (double)n / nlive;
        CHECK(mean < 1.3 * expected + 1, "%g dead: %.1f probes, expected %.1f", dead[d],
              mean, expected);
    }
    free(live);
}

struct cost {
    struct dht_shard_stats hit, miss; /* differences */
    uint64_t keys, looked, shards, record_bytes, bytes, nodes, occupied, deepest;
    double hit_ns, miss_ns;
};

static void stats_add(struct dht_shard_stats *sum, const struct dht_shard_stats *a,
                      const struct dht_shard_stats *b)
{
    sum->lookups += b->lookups - a->lookups;
    sum->passed += b->passed - a->passed;
    sum->comparisons += b->comparisons - a->comparisons;
    sum->false_matches += b->false_matches - a->false_matches;
    for (int i = 0; i <= DHT_DEPTH_MAX; i++)
        sum->ended_at[i] += b->ended_at[i] - a->ended_at[i];
}

/* Put each key of `list` into one shard, look all of them up, and as many absent ones. */
static void run_shard(struct cost *cost, const uint32_t *list, uint32_t n, unsigned depth,
                      unsigned bins)
{
    struct dht_shard *shard = dht_shard_create(depth, bins);
    struct dht_shard_stats filled, hit, miss;
    uint32_t looked;
    char upath[128];

    /* Long chains are slow; a part of the keys says as much. Only the tables of the docs
     * have them whole. */
    bool slow = n / pow(bins, depth) > 100;
    if (slow && !markdown)
        n /= 8;
    looked = slow ? n / 20 + 1 : n;

    for (uint32_t i = 0; i < n; i++) {
        struct dht_key key;
        make_upath(upath, sizeof(upath), "a", list[i]);
        dht_key_init(&key, upath, depth);
        struct dht_record *record = dht_shard_insert(shard, &key, upath);
        if (record == NULL) {
            perror("sim_dht");
            exit(1);
        }
        record->entry.state = DYAD_ENTRY_PUBLISHED;
        cost->record_bytes += sizeof(*record) + strlen(upath) + 1;
    }
    dht_shard_get_stats(shard, &filled);
    for (int absent = 0; absent < 2; absent++) {
        double ns = 0;
        unsigned found = 0;
        for (uint32_t first = 0; first < looked; first += 256) {
            static struct dht_key key[256];
            static char name[256][128];
            uint32_t batch = looked - first < 256 ? looked - first : 256;
            for (uint32_t i = 0; i < batch; i++) {
                /* In another order than they came in. */
                uint32_t j = (uint32_t)((first + i) * 2654435761ull % n);
                make_upath(name[i], sizeof(name[i]), absent ? "b" : "a", list[j]);
                dht_key_init(&key[i], name[i], depth);
            }
            uint64_t start = util_clock_now();
            for (uint32_t i = 0; i < batch; i++)
                found += dht_shard_find(shard, &key[i], name[i]) != NULL;
            ns += (double)(util_clock_now() - start);
        }
        dht_shard_get_stats(shard, absent ? &miss : &hit);
        *(absent ? &cost->miss_ns : &cost->hit_ns) += ns;
        CHECK(found == (absent ? 0 : looked), "depth %u, %u bins: %u of %u", depth, bins,
              found, looked);
    }
    stats_add(&cost->hit, &filled, &hit);
    stats_add(&cost->miss, &hit, &miss);
    cost->keys += n;
    cost->looked += looked;
    cost->shards++;
    cost->bytes += filled.bytes;
    cost->nodes += filled.nodes;
    cost->occupied += filled.occupied;
    if (filled.deepest > cost->deepest)
        cost->deepest = filled.deepest;
    dht_shard_destroy(shard);
}

/* Which keys each of the sampled ranks keeps. */
struct sample {
    uint32_t nranks, nshards;
    uint32_t *n, **list;
};

static struct sample make_sample(uint32_t nranks, uint32_t nshards)
{
    struct dht_ring ring = {.nranks = nranks, .replicas = REPLICAS};
    struct sample sample = {.nranks = nranks, .nshards = nshards};

    sample.n = must_calloc(nshards, sizeof(*sample.n));
    sample.list = must_calloc(nshards, sizeof(*sample.list));
    for (unsigned i = 0; i < KEYS; i++) {
        uint32_t homes[DHT_REPLICAS_MAX];
        struct dht_key key;
        char upath[128];
        make_upath(upath, sizeof(upath), "a", i);
        dht_key_init(&key, upath, 1);
        unsigned n = dht_homes_find(&ring, &key, homes);
        for (unsigned j = 0; j < n; j++) {
            uint32_t s = homes[j];
            if (s >= nshards)
                continue;
            if ((sample.n[s] & (sample.n[s] - 1)) == 0) {
                size_t cap = sample.n[s] ? 2 * (size_t)sample.n[s] : 1;
                sample.list[s] = realloc(sample.list[s], cap * sizeof(uint32_t));
                if (sample.list[s] == NULL) {
                    perror("sim_dht");
                    exit(1);
                }
            }
            sample.list[s][sample.n[s]++] = i;
        }
    }
    return sample;
}

static void free_sample(struct sample *sample)
{
    for (uint32_t s = 0; s < sample->nshards; s++)
        free(sample->list[s]);
    free(sample->list);
    free(sample->n);
}

static void print_cost_heading(void)
{
    printf(
        markdown
            ? "| depth | bins | levels that end an absent key's search (1, 2, ... leaf), "
              "%% | absent keys that reach a leaf | hashes passed in leaves per key: "
              "present | absent | strings compared per key: present | absent | false "
              "matches | deepest chain | tree bytes per key | ns per find: present | "
              "absent |\n|---|---|---|---|---|---|---|---|---|---|---|---|---|\n"
            : "depth bins  ended at level (absent), %%; leaf        to leaf  passed/absent "
              " "
              "strings/absent false deepest bytes ns/absent\n");
}

static void report_cost(const struct cost *c, unsigned depth, unsigned bins)
{
    double n = (double)c->looked, per = (double)c->keys / c->shards;
    char levels[128] = "";
    int len = 0;

    for (unsigned i = 0; i <= depth; i++)
        len += snprintf(levels + len, sizeof(levels) - len, "%s%.3g", i ? ", " : "",
                        100.0 * c->miss.ended_at[i] / n);
    double to_leaf = c->miss.ended_at[depth] / n;
    double tree = (double)(c->bytes - c->record_bytes) / c->keys;
    printf(
        markdown
            ? "| %u | %u | %s | %.2g | %.3f | %.3f | %.3f | %.3f | %lu | %lu | %.0f | %.0f "
              "| %.0f |\n"
            : "%3u %6u  %-34s %10.2g %7.2f %7.2f %6.2f %6.2f %5lu %5lu %6.0f %4.0f %4.0f\n",
        depth, bins, levels, to_leaf, c->hit.passed / n, c->miss.passed / n,
        c->hit.comparisons / n, c->miss.comparisons / n,
        c->hit.false_matches + c->miss.false_matches, c->deepest, tree, c->hit_ns / n,
        c->miss_ns / n);

    /* A present key is compared once, an absent one never (2^-64 per record passed). */
    CHECK(c->hit.comparisons == c->looked, "depth %u bins %u", depth, bins);
    CHECK(c->miss.comparisons == 0, "depth %u bins %u", depth, bins);
    CHECK(c->hit.false_matches + c->miss.false_matches == 0, "depth %u bins %u", depth,
          bins);
    CHECK(c->hit.ended_at[depth] == c->looked, "depth %u bins %u", depth, bins);
    /* What theory says: an absent key meets an occupied leaf with 1 - exp(-keys / leaves),
     * and passes keys / leaves records on average. */
    double leaves = pow(bins, depth), expect = 1 - exp(-per / leaves);
    double noise = 6 * sqrt(expect * (1 - expect) / n) + 10 / n;
    CHECK(fabs(to_leaf - expect) < noise + 0.05 * expect,
          "depth %u bins %u: %g, expected %g", depth, bins, to_leaf, expect);
    CHECK(fabs(c->miss.passed / n - per / leaves) < 0.1 * per / leaves + noise + 0.001,
          "depth %u bins %u: %g passed, expected %g", depth, bins, c->miss.passed / n,
          per / leaves);
}

static void simulate_shards(uint32_t nranks, uint32_t nshards)
{
    const unsigned bins[] = {16, 64, 256, 1024};
    struct sample sample = make_sample(nranks, nshards);
    uint64_t keys = 0;
    char title[160];

    for (uint32_t s = 0; s < nshards; s++)
        keys += sample.n[s];
    snprintf(title, sizeof(title),
             "Cost of a search: %u ranks, %.0f keys per shard (%u shards built)", nranks,
             (double)keys / nshards, nshards);
    heading(title);
    print_cost_heading();
    for (unsigned depth = 1; depth <= 4; depth++) {
        for (unsigned b = 0; b < sizeof(bins) / sizeof(bins[0]); b++) {
            struct cost cost = {.keys = 0};
            for (uint32_t s = 0; s < nshards; s++)
                run_shard(&cost, sample.list[s], sample.n[s], depth, bins[b]);
            report_cost(&cost, depth, bins[b]);
        }
    }
    free_sample(&sample);
}

/* One shard that holds all million keys: the worst case of memory. */
static void simulate_million(void)
{
    uint32_t *list = must_calloc(KEYS, sizeof(*list));

    for (uint32_t i = 0; i < KEYS; i++)
        list[i] = i;
    heading("One shard with a million keys (N = 1)");
    print_cost_heading();
    for (unsigned depth = 2; depth <= 4; depth++) {
        struct cost cost = {.keys = 0};
        run_shard(&cost, list, KEYS, depth, 256);
        report_cost(&cost, depth, 256);
        CHECK(cost.bytes < 250e6, "depth %u: %lu bytes", depth, cost.bytes);
    }
    free(list);
}

/* --- listings --- */

struct listing {
    size_t used, bytes;
    uint64_t names, pages;
};

/* As engine/namespace/listing.c fills a page: a byte, the name and a NUL, 64 KiB at most.
 */
static int add_name(const char *name, const struct dyad_entry *entry, void *arg)
{
    struct listing *l = arg;
    size_t len = strlen(name) + 2;

    (void)entry;
    if (l->used + len > 65536)
        return 1;
    l->used += len;
    l->bytes += len;
    l->names++;
    return 0;
}

static void list(struct dht_shard *shard, const char *parent, struct listing *l)
{
    struct dht_list_at at = {0};
    bool more;

    do {
        l->used = 0;
        more = dht_shard_list(shard, parent, &at, add_name, l);
        l->pages++;
    } while (more);
}

static double per_insert(struct dht_shard *shard, const uint32_t *keys, uint32_t n)
{
    uint64_t spent = 0;
    char upath[128];

    for (uint32_t i = 0; i < n; i++) {
        struct dht_key key;
        struct dht_record *record;
        make_upath(upath, sizeof(upath), "a", keys[i]);
        uint64_t before = util_clock_now();
        dht_key_init(&key, upath, 2);
        record = dht_shard_insert(shard, &key, upath);
        if (record == NULL || dht_shard_set_listed(shard, record, true) < 0)
            exit(1);
        spent += util_clock_now() - before;
    }
    return (double)spent / n;
}

/* One directory with `names` files over all shards: what a listing of it costs. */
static void simulate_directory(uint32_t nranks, uint32_t names)
{
    struct dht_ring ring = {.nranks = nranks, .replicas = REPLICAS};
    struct dht_shard **shard = must_calloc(nranks, sizeof(struct dht_shard *));
    struct listing all = {0};
    uint64_t start;

    for (uint32_t r = 0; r < nranks; r++) {
        shard[r] = dht_shard_create(2, 256);
        if (shard[r] == NULL || dht_shard_keep_index(shard[r]) < 0)
            exit(1);
    }
    for (uint32_t i = 0; i < names; i++) {
        uint32_t homes[DHT_REPLICAS_MAX];
        struct dht_key key;
        char upath[128];
        snprintf(upath, sizeof(upath), "run-a/step-00017/rank-%06u.h5", i);
        dht_key_init(&key, upath, 2);
        unsigned n = dht_homes_find(&ring, &key, homes);
        for (unsigned j = 0; j < n; j++) {
            struct dht_record *record = dht_shard_insert(shard[homes[j]], &key, upath);
            if (record == NULL || dht_shard_set_listed(shard[homes[j]], record, true) < 0)
                exit(1);
        }
    }
    start = util_clock_now();
    for (uint32_t r = 0; r < nranks; r++)
        list(shard[r], "run-a/step-00017", &all);
    double ms = (double)(util_clock_now() - start) / 1e6;
    CHECK(all.names == (uint64_t)names * REPLICAS, "%lu names", (unsigned long)all.names);
    CHECK(all.pages >= nranks && all.pages <= nranks + all.bytes / 60000 + 1, "%lu pages",
          (unsigned long)all.pages);
    printf(markdown ? "| %u | %u | %lu | %.1f | %.2f |\n" : "%8u %8u %10lu %8.1f %8.2f\n",
           nranks, names, (unsigned long)(2 * (all.pages - 1)), (double)all.bytes / 1024,
           ms);
    for (uint32_t r = 0; r < nranks; r++)
        dht_shard_destroy(shard[r]);
    free(shard);
}

static void simulate_listings(void)
{
    uint32_t *keys = must_calloc(KEYS, sizeof(*keys));
    double with[2], without[2];

    heading("Listings: messages (questions and answers) of one listing, 2 homes");
    printf(markdown
               ? "| ranks | names in the directory | messages | KiB of names | ms in all "
                 "shards together |\n|---|---|---|---|---|\n"
               : "%8s %8s %10s %8s %8s\n",
           "ranks", "names", "messages", "KiB", "ms");
    simulate_directory(16, 100000);
    simulate_directory(1024, 10);
    simulate_directory(1024, 100000);
    simulate_directory(100000, 10);
    simulate_directory(100000, 100000);

    heading("Listings: ns for a new record, without and with the index of directories");
    for (uint32_t i = 0; i < KEYS; i++)
        keys[i] = i;
    for (unsigned big = 0; big < 2; big++) {
        for (unsigned index = 0; index < 2; index++) {
            struct dht_shard *shard = dht_shard_create(2, 256);
            if (shard == NULL || (index && dht_shard_keep_index(shard) < 0))
                exit(1);
            *(index ? &with[big] : &without[big]) =
                per_insert(shard, keys, big ? KEYS : 20000);
            dht_shard_destroy(shard);
        }
    }
    printf(markdown ? "| records | directories | without | with |\n|---|---|---|---|\n"
                    : "%8s %11s %8s %8s\n",
           "records", "directories", "without", "with");
    for (unsigned big = 0; big < 2; big++)
        printf(markdown ? "| %u | %u | %.0f | %.0f |\n" : "%8u %11u %8.0f %8.0f\n",
               big ? KEYS : 20000u, (big ? KEYS : 20000u) / 10, without[big], with[big]);
    free(keys);
}

int main(int argc, char **argv)
{
    const uint32_t sizes[] = {16, 1024, 100000};
    const uint32_t sampled[] = {1, 32, 2048};

    markdown = argc > 1 && strcmp(argv[1], "--markdown") == 0;
    simulate_balance(sizes, 3);
    simulate_deaths();
    for (unsigned i = 0; i < 3; i++)
        simulate_shards(sizes[i], sampled[i]);
    simulate_million();
    simulate_listings();
    if (failures > 0)
        fprintf(stderr, "sim_dht: %d bounds broken\n", failures);
    return failures > 0;
}
