/*
 * dht/homes.c - which ranks keep a key
 *
 * Double hashing: probe_j = (a + j*b) mod N visits every rank once, in an order that
 * follows from the key alone. The homes are the first R live ranks of that order, on
 * distinct nodes if the first 4R live ranks have them. So each rank computes the same
 * homes without a message, as long as ranks agree on who is live; until they do, they
 * compute different ones (docs/dht.md, "While ranks come and go"). walk_start() says how
 * the step b is drawn, dht_homes_find() how the nodes are chosen, and sort_few() what is
 * done where few ranks are live.
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

/* The step b is drawn from N/4 .. 3N/4 and raised until it has no factor in common with
 * N, which makes the order visit every rank once. N-1 always qualifies, so the search
 * ends; for 32-bit N at most 39 numbers in a row share a factor with it (Jacobsthal's
 * function at 9 primes), and 1.6 gcds are made on average over all N.
 *
 * Why not from 1 .. N-1: launchers number ranks in blocks per node, and small steps (or
 * steps near N, which are small steps back) stay in one block: with 2 nodes of 64 ranks
 * one key in ten would have both homes on one node. A quarter of the ring or more leaves
 * every block of up to half the ranks in two steps, and with ranks dealt out in turn the
 * wrap-around moves on. */
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

/* b^-1 mod n; b has no factor in common with n. */
static uint32_t inverse(uint32_t b, uint32_t n)
{
    int64_t x = 0, x_next = 1, rest = n, rest_next = b % n;

    while (rest_next != 0) {
        int64_t quotient = rest / rest_next, t = x - quotient * x_next;
        x = x_next;
        x_next = t;
        t = rest - quotient * rest_next;
        rest = rest_next;
        rest_next = t;
    }
    return (uint32_t)(x < 0 ? x + n : x);
}

/* The ranks of ring->few in the order of probes. Where it is known who the few live ones
 * are, their places in the order are computed: j = (rank - a) * b^-1 mod N. The result is
 * the same as the walk's; it costs one division for each and some for the inverse, 0.2 us
 * for 2 of 4,096 where the walk takes 6. */
static void sort_few(const struct dht_ring *ring, const struct walk *start,
                     uint32_t order[DHT_FEW_LIVE])
{
    uint32_t place[DHT_FEW_LIVE], n = ring->nranks, inv = inverse(start->step, n);

    for (uint32_t i = 0; i < ring->nfew; i++) {
        uint32_t rank = ring->few[i], j = i;
        uint64_t distance = (uint64_t)rank + n - start->at;
        uint32_t at = (uint32_t)((distance >= n ? distance - n : distance) * inv % n);
        for (; j > 0 && place[j - 1] > at; j--) {
            place[j] = place[j - 1];
            order[j] = order[j - 1];
        }
        place[j] = at;
        order[j] = rank;
    }
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

/* The ranks on distinct nodes are sought among the first 4R live ranks of the order only,
 * so a key's homes do not depend on ranks far down its order, and a job of one node stops
 * looking. The dead do not count: of a session directory's slots only few may be live,
 * and the first 4R slots of an order then hold no two of them. (With all ranks live these
 * are the first 4R probes.) If that does not give R homes, those found are kept and the
 * first others of these fill the gap. When most ranks are dead the walk goes on to the
 * end of the order at one addition and one look at the rank per probe, without divisions.
 */
unsigned dht_homes_find(const struct dht_ring *ring, const struct dht_key *key,
                        uint32_t homes[DHT_REPLICAS_MAX])
{
    struct candidate near[4 * DHT_REPLICAS_MAX];
    unsigned nnear = 0, nchosen = 0, nhomes = 0;
    uint32_t want = ring->replicas, nprobes = ring->nranks, few[DHT_FEW_LIVE];
    struct walk walk;

    if (want > DHT_REPLICAS_MAX)
        want = DHT_REPLICAS_MAX;
    if (want > ring->nranks)
        want = ring->nranks;
    if (want == 0)
        return 0;

    walk_start(&walk, ring->nranks, key);
    /* Not where most slots are taken: the walk is short then. */
    if (ring->nfew > 0 && ring->nfew <= DHT_FEW_LIVE && ring->nranks / 16 >= ring->nfew) {
        sort_few(ring, &walk, few);
        nprobes = ring->nfew;
    }
    for (uint32_t j = 0; j < nprobes && nnear < 4 * want && nchosen < want;
         j++, walk_next(&walk)) {
        struct candidate *c = &near[nnear];
        uint32_t rank = nprobes < ring->nranks ? few[j] : walk.at;
        if (!is_live(ring, rank))
            continue;
        c->rank = rank;
        c->node = ring->node != NULL ? ring->node[rank] : rank;
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
