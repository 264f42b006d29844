/*
 * store/answers_table.h - the shared memory of the answers: its layout
 *
 * Private to cache_table.c (and its tests).
 */
#ifndef DYAD_STORE_ANSWERS_TABLE_H
#define DYAD_STORE_ANSWERS_TABLE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "store/cache_table.h"
#include "store/control.h"

#define ANSWERS_MAGIC   0x3353574e41594144ull /* "DAYANSW3" */
#define ANSWERS_SLOTS   4096u
#define ANSWERS_WAYS    4u   /* slots that a name can be in */
#define ANSWERS_KEEPERS 512u /* members of this node at once, of all sessions */
#define ANSWERS_HEARD   4096u

/* The word of a slot: flags, the slot's own number, the keeper that wrote it last, and a
 * count that rises with every change.  So a word names one use of one slot. */
#define ANSWER_WRITING   1ull
#define ANSWER_FULL      2ull
#define ANSWER_SLOT(w)   ((unsigned)((w) >> 2 & (ANSWERS_SLOTS - 1)))
#define ANSWER_WRITER(w) ((unsigned)((w) >> 14 & (ANSWERS_KEEPERS - 1)))
#define ANSWER_COUNT(w)  ((w) >> 23)
#define ANSWER_WORD(count, writer, slot, flags)                                   \
    ((uint64_t)(count) << 23 | (uint64_t)(writer) << 14 | (uint64_t)(slot) << 2 | \
     (uint64_t)(flags))

struct answer_data {
    uint64_t hash;       /* of session and upath */
    uint64_t generation; /* of the keeper */
    uint64_t since, until;
    struct dyad_version version;
    uint64_t size;
    int64_t mtime_sec;
    uint8_t storage[DYAD_STORAGE_ID_LEN];
    uint32_t homes[DYAD_ANSWER_HOMES];
    uint32_t nhomes, mtime_nsec, owner, mode, state, keeper, rank;
    int32_t status;
    uint32_t len, component;
    char upath[STORE_ANSWERS_UPATH_MAX];
};

#define ANSWER_WORDS (sizeof(struct answer_data) / sizeof(uint64_t))
#define ANSWER_FIXED (offsetof(struct answer_data, upath) / sizeof(uint64_t))

struct answer_slot {
    _Atomic uint64_t word;
    _Atomic uint64_t data[ANSWER_WORDS]; /* struct answer_data */
};

struct answer_keeper {
    _Atomic uint64_t generation; /* never used twice; odd: being taken */
    _Atomic uint64_t session[2];
    pthread_mutex_t life; /* robust: held as long as the keeper lives */
};

struct answers_table {
    uint64_t magic;
    uint64_t size;
    char boot[STORE_BOOT_LEN + 1], node[65];
    _Alignas(64) _Atomic uint64_t generations;
    _Alignas(64) struct answer_keeper keepers[ANSWERS_KEEPERS];
    _Alignas(64) struct answer_slot slots[ANSWERS_SLOTS];
    /* By hash of the name: when a home last said that it is published, or is not. */
    _Alignas(64) _Atomic uint64_t heard[2][ANSWERS_HEARD];
};

_Static_assert(sizeof(struct answer_data) % sizeof(uint64_t) == 0, "whole words");
_Static_assert(offsetof(struct answer_data, upath) % sizeof(uint64_t) == 0, "whole words");

struct store_answers {
    struct answers_table *table;
    unsigned keeper; /* ANSWERS_KEEPERS: none was free, so nothing is put */
    uint64_t generation;
    uint64_t session[2];
};

#endif
