/*
 * test/unit/dht/fake_net.h - many dht nodes, a queue for a network, and a clock that jumps
 */
#ifndef TEST_FAKE_NET_H
#define TEST_FAKE_NET_H

#include <stdbool.h>
#include <stdint.h>

#include "dht/node.h"

#define SEC        1000000000ull
#define MSEC       1000000ull
#define FAKE_KEYS  16
#define FAKE_RANKS 128

struct packet;
struct call;

/* What a callback said. */
struct result {
    int calls, status;
    struct dyad_version version;
    struct dyad_entry entry;
    bool has_entry;
};

struct fake_rank {
    struct fake_net *net;
    struct dht_node *node; /* NULL: dead */
    uint32_t rank, incarnation;
    uint64_t timer;
    uint64_t behind; /* us, of its wall clock */
    bool dying;      /* killed: takes nothing back */
    bool stopped;    /* it reads nothing and does nothing; what comes lies there */
    bool hold;       /* keep invalidations instead of confirming them */
    uint64_t held[64];
    unsigned nheld, ninvalidated;
    unsigned nwithdrawn; /* ops->withdrawn() */
    unsigned nleft;      /* of ninvalidated: for what a neighbour may have left */
    uint32_t left_by;
    bool blind;                          /* it has a disk of its own */
    struct dyad_version copy[FAKE_KEYS]; /* copies of "key<i>", by fake_consume() */
    unsigned publishing[FAKE_KEYS];      /* its file is here: no copy is made */
    bool unfinished[FAKE_KEYS];          /* it died in a publish: does it again */
    struct result again[FAKE_KEYS];
    struct dyad_entry journal[FAKE_KEYS]; /* what the rank's disk remembers of its own */
    struct dyad_entry invalidated;        /* the last */
    unsigned nwanted[FAKE_KEYS];          /* somebody waits for what it writes */
    unsigned nsilent[FAKE_RANKS];         /* who did not answer it in time */
    bool others; /* a home has said that others write what it publishes */
};

/* What the members of a machine share of one key. */
struct fake_answer {
    struct dyad_answer answer;
    uint64_t put; /* 0: nothing */
    uint32_t rank, incarnation;
};

struct fake_net {
    bool pairs; /* ranks 0 and 1 are on one node, and so are 2 and 3, ... */
    uint32_t nranks;
    uint32_t
        machines; /* rank r is on r mod machines, where answers are shared; 0: nowhere */
    struct fake_answer shared[FAKE_RANKS][FAKE_KEYS];
    uint64_t told[FAKE_RANKS][FAKE_KEYS]
                 [2]; /* when: that it is not published, that it is */
    uint64_t puts;
    struct dht_node_config config;
    struct fake_rank rank[FAKE_RANKS];
    struct packet *queue;
    struct call *calls; /* callbacks that have not come */
    uint64_t now, rng;
    bool wall; /* the ranks have wall clocks, which agree but for fake_rank.behind */
    unsigned loss, duplicates; /* per mille */
    bool reorder;              /* else first in, first out per pair */
    bool refuse;               /* sending to a dead rank fails; else it is silence */
    bool cut[FAKE_RANKS][FAKE_RANKS];
    unsigned sent[NET_MSG_TYPE_END];
};

struct fake_net *fake_net_create(uint32_t nranks, uint32_t replicas, uint64_t seed);
/* The same, with the node of each rank (borrowed). */
struct fake_net *fake_net_create_on(uint32_t nranks, uint32_t replicas, uint64_t seed,
                                    const uint32_t *nodes);
void fake_net_destroy(struct fake_net *net);
uint32_t fake_net_random(struct fake_net *net, uint32_t below);
/* Deliver and tick for that long. */
void fake_net_run(struct fake_net *net, uint64_t ns);
/* Until *calls is not 0; false if that takes longer than `ns`. */
bool fake_net_run_until(struct fake_net *net, const int *calls, uint64_t ns);
/* Its process dies; the others learn of it if `tell`. */
void fake_net_kill(struct fake_net *net, uint32_t rank, bool tell);
/* The next incarnation, with an empty shard and what the journal has. */
void fake_net_revive(struct fake_net *net, uint32_t rank, bool tell);

const char *fake_key(unsigned i);
bool fake_is_home(struct fake_net *net, unsigned key, uint32_t rank);
/* The nth living rank that is no home of the key. */
uint32_t fake_stranger(struct fake_net *net, unsigned key, unsigned nth);
/* Publish or withdraw and wait for the success; the version. */
struct dyad_version fake_publish_ok(struct fake_net *net, uint32_t rank, unsigned key,
                                    uint64_t size, enum dyad_entry_state state);
void fake_publish(struct fake_net *net, uint32_t rank, unsigned key, uint64_t size,
                  enum dyad_entry_state state, struct result *result);
struct dht_lookup *fake_lookup(struct fake_net *net, uint32_t rank, unsigned key,
                               uint8_t flags, const struct dyad_version *newer_than,
                               struct result *result);
unsigned fake_homes(struct fake_net *net, unsigned key, uint32_t homes[DHT_REPLICAS_MAX]);
/* The record of a key in a rank's shard, or NULL. */
struct dht_record *fake_record(struct fake_net *net, uint32_t rank, unsigned key);

#endif
