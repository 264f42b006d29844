/*
 * engine/coherence/copy_lease.h - how long copies may be opened without asking their
 * homes
 *
 * copy_lease.c: the lease, and the homes that give it. copy_lease_ask.c: opens that ask
 * because it is over. Loop thread.
 */
#ifndef DYAD_ENGINE_COHERENCE_COPY_LEASE_H
#define DYAD_ENGINE_COHERENCE_COPY_LEASE_H

#include <stdbool.h>
#include <stdint.h>

#include "store/journal.h"
#include "util/entry.h"

struct member;
struct net_msg;
struct dht_lookup;

/* A process of this node opens files: the lease is needed. */
void lease_want(struct member *member);
/* True if our copies may be used now without asking their homes. */
bool lease_is_on(const struct member *member);

/* --- copy_lease_ask.c --- */

struct lease_job;
struct lease_read;
struct lease_wait {
    struct lease_wait *prev, *next; /* utlist */
    struct member *member;
    const char *upath; /* borrowed */
    uint64_t asked_at, until;
    int timeout; /* the error with which it ends at `until` */
    enum lease_asks {
        LEASE_NEIGHBOURS, /* asks the members of this node to renew their leases */
        LEASE_READS,      /* reads their journals */
        LEASE_LOOKS_UP,
        LEASE_REMOVES,
    } asks;
    struct dyad_version version; /* of the copy */
    uint32_t rank;               /* whose journal has it */
    struct dht_lookup *lookup;
    struct lease_job *job;
    struct lease_read *read;
    void (*fn)(void *arg, int error);
    void *arg;
};

/* Call fn, maybe in this call, when upath, complete on this node, may be opened: it is no
 * copy, a lease covers it, its homes know of nothing newer, or it was out of date and is
 * gone. error 0; EHOSTUNREACH no home can be reached (logged); ETIMEDOUT (timeout_ms 0:
 * never), ESHUTDOWN. */
void lease_wait(struct member *member, struct lease_wait *wait, const char *upath,
                uint64_t timeout_ms, void (*fn)(void *arg, int error), void *arg);

#endif
