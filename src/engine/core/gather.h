/*
 * engine/core/gather.h - ask all ranks, some at a time, page by page
 *
 * For listings (listing.c) and dumps (dump.c): each rank is asked for its first page; the
 * answer says whether it is to be asked for another; a rank that dies, or is silent for
 * DYAD_PEER_TIMEOUT, is passed over. An answer is matched to its request by its id and
 * its source. Belongs to the loop.
 */
#ifndef DYAD_ENGINE_CORE_GATHER_H
#define DYAD_ENGINE_CORE_GATHER_H

#include <stdbool.h>
#include <stdint.h>

#include "net/msg.h"

/* A rank that has more pages than that is passed over, with a warning: it is broken. They are full, but for
 * the last: a directory's have room for 200 million names of 20 bytes. */
#define GATHER_PAGES_MAX 65536u

struct member;
struct gather;

/* The position in one rank's pages: the asker sets it, and it is kept from page to page.
 */
struct gather_at {
    uint32_t rank;
    uint64_t after, end; /* of the request: where its next page begins; 0: the first */
};

enum gather_step {
    GATHER_LAST, /* the rank has no more pages */
    GATHER_MORE, /* ask for the page that *at says now */
    GATHER_STOP, /* ask no rank any more: done() follows */
};

struct gather_ops {
    /* True if the rank is to be asked at all. NULL: each is. */
    bool (*wanted)(void *arg, uint32_t rank);
    /* Fill the request for *at: type, flags, entry.upath, after, end. */
    void (*ask)(void *arg, const struct gather_at *at, struct net_msg *msg);
    /* An answer has come; may change *at. */
    enum gather_step (*page)(void *arg, struct gather_at *at, const struct net_msg *msg);
    /* The rank will not answer (any more). error: ETIMEDOUT silent, EHOSTUNREACH or
     * another errno value dead, ENOMEM, or EPROTO: it sends pages without end. */
    void (*failed)(void *arg, uint32_t rank, int error);
    /* All have answered or failed. True: ask those that are wanted once more, from rank 0.
     * False: the gather is gone when this returns. */
    bool (*done)(void *arg);
};

/* Ask the ranks first .. end-1, at_once at a time. No callback comes before this returns.
 * NULL: ENOMEM. */
struct gather *gather_start(struct member *member, uint32_t first, uint32_t end,
                            unsigned at_once, const struct gather_ops *ops, void *arg);
/* No callback comes after this; it may be called from inside one. */
void gather_cancel(struct gather *gather);

#endif
