/*
 * util/answer.h - the answer of a look-up that other members of the node may use
 *
 * Made and judged by the table's code (dht/node_lookup_cache.c says when it is true), kept
 * by the store (store/cache_table.h).  Plain data, no locking.
 */
#ifndef DYAD_UTIL_ANSWER_H
#define DYAD_UTIL_ANSWER_H

#include <stdint.h>

#include "util/entry.h"

/* As many homes as a key can have. */
#define DYAD_ANSWER_HOMES 8

struct dyad_answer {
    int status;              /* 0: published; ENOENT: not */
    struct dyad_entry entry; /* upath NULL; state NONE: nothing was ever published */
    uint32_t keeper;         /* the rank that the homes notify of the next version */
    uint64_t since;          /* util_clock_now() when its look-up began */
    uint64_t until;          /* not to be used from then on */
    uint32_t nhomes;         /* those that answered, and notify the keeper */
    uint32_t homes[DYAD_ANSWER_HOMES];
};

#endif
