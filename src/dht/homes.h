/*
 * dht/homes.h - which ranks keep a key
 *
 * probe_j = (a + j*b) mod N, b coprime to N (double hashing) and far from 0 and N; the
 * homes are the first R live ranks of that order, on distinct nodes if the first 4R live
 * ranks have them, else any. O(1) in N, no ring table.
 */
#ifndef DYAD_DHT_HOMES_H
#define DYAD_DHT_HOMES_H

#include <stdbool.h>
#include <stdint.h>

#include "dht/key.h"

#define DHT_REPLICAS_MAX 8
#define DHT_FEW_LIVE     32

struct dht_ring {
    uint32_t nranks;
    uint32_t replicas; /* clamped to nranks by the user of this struct */
    const uint32_t
        *node; /* node[rank]: number of the rank's node; NULL: every rank its own */
    /* false: known to be dead or absent; NULL: all live */
    bool (*live)(const void *arg, uint32_t rank);
    const void *arg;
    /* If no more than DHT_FEW_LIVE ranks can be live: those for which live() may be true,
     * in any order. It only saves the walk over the others. nfew 0: not given. */
    const uint32_t *few;
    uint32_t nfew;
};

/* j-th rank of the key's probe order; visits every rank once for j = 0 .. nranks-1. */
uint32_t dht_homes_probe(const struct dht_ring *ring, const struct dht_key *key,
                         uint32_t j);

/* Fill homes[], in probe order; returns how many: min(replicas, live ranks). A few probes
 * while most ranks live; never more than nranks (some 2 ns each and no division), which is
 * what it takes where fewer than 4R live on fewer than R nodes. */
unsigned dht_homes_find(const struct dht_ring *ring, const struct dht_key *key,
                        uint32_t homes[DHT_REPLICAS_MAX]);

#endif
