/*
 * dht/homes.c - which ranks keep a key
 *
 * Double hashing: probe_j = (a + j*b) mod N. The step b is drawn from N/4 .. 3N/4 and
 * raised until it has no factor in common with N, which makes the order visit every rank
 * once. N-1 always qualifies, so the search ends; for 32-bit N at most 39 numbers in a row
 * share a factor with it (Jacobsthal's function at 9 primes), and 1.6 gcds are made on
 * average over all N.
 *
 * Why not from 1 .. N-1: launchers number ranks in blocks per node, and small steps (or
 * steps near N, which are small steps back) stay in one block: with 2 nodes of 64 ranks one
 * key in ten would have both homes on one node. A quarter of the ring or more leaves every
 * block of up to half the ranks in two steps, and with ranks dealt out in turn the
 * wrap-around moves on.
 *
 * The ranks on distinct nodes are sought among the first 4R live ranks of the order only,
 * so a key's homes do not depend on ranks far down its order, and a job of one node stops
 * looking. The dead do not count: of a session directory's slots only few may be live, and
 * the first 4R slots of an order then hold no two of them. (With all ranks live these are
 * the first 4R probes.) If that does not give R homes, those found are kept and the first
 * others of these fill the gap. When most ranks are dead the walk goes on to the end of the
 * order at one addition and one look at the rank per probe, without divisions.
 */
#include "dht/homes.h"

struct walk {
    uint32_t at, step, nranks;
};

struct candidate {
    uint32_t rank, node;
    bool chosen;
};

static uint32_t gcd(uint32_t a, uint32_t b)
{
    while (b != 0) {
        uint32_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static void walk_start(struct walk *walk, uint32_t nranks, const struct dht_key *key)
{
    walk->nranks = nranks;
    walk->at = (uint32_t)(key->probe_start % nranks);
    if (nranks <= 2) {
        walk->step = nranks - 1;
        return;
    }
    walk->step =
        (nranks >= 4 ? nranks / 4 : 1) + (uint32_t)(key->probe_step % (nranks / 2 + 1));
    while (gcd(nranks, walk->step) != 1)
        walk->step++;
}

static void walk_next(struct walk *walk)
{
    uint32_t left = walk->nranks - walk->at; /* at + step could overflow */
    walk->at = walk->step < left ? walk->at + walk->step : walk->step - left;
}

static bool is_live(const struct dht_ring *ring, uint32_t rank)
{
    return ring->live == NULL || ring->live(ring->arg, rank);
}

uint32_t dht_homes_probe(const struct dht_ring *ring, const struct dht_key *key, uint32_t j)
{
    struct walk walk;

    walk_start(&walk, ring->nranks, key);
    return (uint32_t)((walk.at + (uint64_t)j * walk.step) % ring->nranks);
}

unsigned dht_homes_find(const struct dht_ring *ring, const struct dht_key *key,
                        uint32_t homes[DHT_REPLICAS_MAX])
{
    struct candidate near[4 * DHT_REPLICAS_MAX];
    unsigned nnear = 0, nchosen = 0, nhomes = 0;
    uint32_t want = ring->replicas;
    struct walk walk;

    if (want > DHT_REPLICAS_MAX)
        want = DHT_REPLICAS_MAX;
    if (want > ring->nranks)
        want = ring->nranks;
    if (want == 0)
        return 0;

    walk_start(&walk, ring->nranks, key);
    for (uint32_t j = 0; j < ring->nranks && nnear < 4 * want && nchosen < want;
         j++, walk_next(&walk)) {
        struct candidate *c = &near[nnear];
        if (!is_live(ring, walk.at))
            continue;
        c->rank = walk.at;
        c->node = ring->node != NULL ? ring->node[walk.at] : walk.at;
        c->chosen = true;
        for (unsigned i = 0; i < nnear && c->chosen; i++)
            c->chosen = near[i].node != c->node;
        nchosen += c->chosen;
        nnear++;
    }

    /* Those on distinct nodes, and of the others as many as are still wanted; in probe
     * order. */
    unsigned spare = want - nchosen;
    for (unsigned i = 0; i < nnear; i++) {
        if (!near[i].chosen && spare == 0)
            continue;
        if (!near[i].chosen)
            spare--;
        homes[nhomes++] = near[i].rank;
    }
    return nhomes;
}
