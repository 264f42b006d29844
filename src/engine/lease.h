/*
 * engine/lease.h - copies that may be opened without a question, for a time
 *
 * lease.c: the time, and the homes that give it. lease_ask.c: opens that ask since it is
 * over. Loop thread.
 */
#ifndef DYAD_ENGINE_LEASE_H
#define DYAD_ENGINE_LEASE_H

#include <stdbool.h>
#include <stdint.h>

#include "store/journal.h"
#include "util/entry.h"

struct member;
struct net_msg;
struct dht_lookup;

/* ns for which a home's answer counts for a holder: it waits longer for one that is silent
 * (dht/node_told.c). */
uint64_t lease_length(const struct member *member);
/* 0 or -1 (no memory). A promoted guest has none: what follows then does nothing. */
int lease_start(struct member *member);
void lease_stop(struct member *member);
/* This rank has its line (first_look.c). */
void lease_begin(struct member *member);
/* dht_node_ops.held */
void lease_held(void *arg);
/* Somebody on this node opens files. */
void lease_want(struct member *member);
/* A PONG that may be for one of ours. */
void lease_pong(struct member *member, const struct net_msg *msg);
/* May copies of ours be used without a question now? */
bool lease_is_on(const struct member *member);

/* --- lease_ask.c --- */

struct lease_job;
struct lease_wait {
    struct lease_wait *prev, *next; /* utlist */
    struct member *member;
    const char *upath; /* borrowed */
    uint64_t asked_at, until;
    int timeout; /* what it ends with at `until` */
    enum lease_asks {
        LEASE_NEIGHBOURS, /* of this node, to renew theirs */
        LEASE_READS,      /* their journals */
        LEASE_LOOKS_UP,
        LEASE_REMOVES,
    } asks;
    struct dyad_version version; /* of the copy */
    uint32_t rank;               /* whose it is */
    struct dht_lookup *lookup;
    struct lease_job *job;
    void (*fn)(void *arg, int error);
    void *arg;
};

/* Call fn, maybe at once, when upath, complete on this node, may be opened: it is no copy,
 * a lease covers it, its homes know of nothing newer, or it was out of date and is gone.
 * error 0; EHOSTUNREACH nobody can say (logged); ETIMEDOUT (timeout_ms 0: never),
 * ESHUTDOWN. */
void lease_wait(struct member *member, struct lease_wait *wait, const char *upath,
                uint64_t timeout_ms, void (*fn)(void *arg, int error), void *arg);
/* This process did not run for so long. */
void lease_ask_stood_still(struct member *member, uint64_t ns);
/* Before the pool's threads are joined: all waits end. */
void lease_ask_stop(struct member *member);

#endif
