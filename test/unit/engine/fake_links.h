/*
 * fake_links.h - who is there, as a member sees it, without a network
 *
 * Real: links.c, unreachable.c, unjoined.c and partition.c. The worker and the table are
 * played here, time and timers by fake_clock.h: a rank is heard of, comes and goes when the
 * test says so, and what it is sent is counted. This is rank 0; each rank is on a node of
 * its own.
 */
#ifndef DYAD_UNIT_FAKE_LINKS_H
#define DYAD_UNIT_FAKE_LINKS_H

#include "engine/core/member_impl.h"
#include "fake_clock.h"

#define LINKS_RANKS_MAX 8
#define LINKS_JOIN      10 /* s: DYAD_JOIN_TIMEOUT */
#define LINKS_PEER      1  /* s: DYAD_PEER_TIMEOUT */

struct links_rank {
    struct net_peer peer;
    bool known;
    uint64_t heard;    /* when last; UINT64_MAX: all the time */
    uint64_t declined; /* when somebody at its address last did not let us in */
    unsigned pings;    /* that were sent to it */
    unsigned probes;   /* net_worker_probe() was called for it */
    unsigned asked;    /* that it was to say that all it has published is with us */
    unsigned downs;    /* net_worker_peer_down() was called for it */
    unsigned gets;     /* the launcher was asked for it */
    enum boot_pmix_wanted wanted; /* ... the last time, for this */
    enum dht_missing missing;     /* as the table was told last */
    bool there;                   /* as the launcher's side was told */
};

extern struct links_rank links_rank[LINKS_RANKS_MAX];
extern struct member *const links_member;
/* What the table was told last, and how often that it lasts. */
extern enum dht_partition links_partition;
extern unsigned links_nlasts;
/* What net_worker_use_devices() was told last. */
extern bool links_local;
extern const char *links_devices;

/* Nobody is known yet. */
void links_begin(uint32_t nranks);
/* With two ranks on this node, of a launcher whose server listens on loopback (`local`), or elsewhere. */
void links_begin_one_node(const char *session_dir, const char *devices, bool local);
void links_end(void);
/* The time passes, and what is due in it is done. */
void links_turn(double seconds);

/* This process did not run, so much longer than its pulse. */
void links_stood_still(double seconds);

/* Known by its address (PMIx), and not heard of yet. */
void links_found(uint32_t rank);
/* As the worker does when it comes: it is heard of. */
void links_up(uint32_t rank);
/* Its connection broke. */
void links_down(uint32_t rank);
/* It leaves for good. */
void links_leave(uint32_t rank);
/* It answers a PING. */
void links_pong(uint32_t rank);

#endif
