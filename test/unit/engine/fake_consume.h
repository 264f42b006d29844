/*
 * fake_consume.h - a wait for a file, and the wave of the barrier, without a network
 *
 * Real: the consume, the wave of rank 1 of 2, the loop, the directory. The table, the
 * transfer, the directories above and rank 0 are played by the test.
 */
#ifndef DYAD_UNIT_FAKE_CONSUME_H
#define DYAD_UNIT_FAKE_CONSUME_H

#include "engine/core/member_impl.h"
#include "engine/fetch/consume_impl.h"
#include "unit/store/scratch.h"

#define QUIET BOOT_WAVE_QUIET

struct dht_lookup {
    bool waits;  /* else it is a wave's, or a last one */
    bool copies; /* the homes are to know of the copy */
    uint64_t newer_than;
    dht_lookup_fn fn;
    void *arg;
};

struct fake_consume {
    struct member member;
    struct engine_config config;
    struct scratch *scratch;
    struct consume *consume; /* of "f" */
    uint64_t activity;
    unsigned answers;        /* of this rank to CONFIRM */
    uint32_t answer, report; /* state in the last of each */
    int status;              /* of the consume that ended last; -1: none has */
    bool live, returns;      /* its owner: is there, may yet be */
    bool server;             /* one is on its owner's node */
    consume_fn above;        /* of the directories above, if `is_below`; NULL: stopped */
    void *above_arg;
    bool is_below;
    struct transfer_wait *transfer; /* of a fetch; NULL: none is waited for */
    dht_writing_ask_fn ask_writers; /* of who asks whether another node writes it */
    void *writers_arg;
    bool writers_wait;
    unsigned withdrawn; /* files here that were */
};

extern struct fake_consume *fake;

/* For cmocka: "f" is looked up, and waited for. */
int fake_set_up(void **state);
int fake_tear_down(void **state);

/* One more wait. It begins in the next fake_run(). */
struct consume *fake_start(const char *upath, uint8_t flags, uint64_t timeout_ms);
/* What is due is done. */
void fake_run(void);
/* What is due by then is awaited. */
void fake_run_until(uint64_t when);
/* Its timer `again`. */
void fake_look_again(struct consume *c);

/* That look-up, or one that waits or does not; the caller's. NULL: there is none. */
struct dht_lookup *fake_take(bool waits, const struct dht_lookup *which);
/* Such a look-up is answered. */
void fake_answer_with(bool waits, int status, const struct dyad_entry *entry);
/* ... with version 1, published in our storage, where it cannot be seen yet. */
void fake_answer(bool waits);
/* Version `counter` of "f", which `owner` has in another storage. */
struct dyad_entry fake_entry(uint64_t counter, uint32_t owner);

/* Rank 0 asks whether this rank is quiet still. */
void fake_ask(uint64_t number);
/* This rank looks at /proc. */
void fake_look(void);

#endif
