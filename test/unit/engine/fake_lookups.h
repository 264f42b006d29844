/*
 * fake_lookups.h - look-ups that end when the test says so
 *
 * In place of dht_node_lookup() and dht_node_cancel(). The n-th look-up of a test is
 * fake_lookup[n], also when it is over. None is answered before it has returned, as in
 * dht/node_lookup_asker.c.
 */
#ifndef DYAD_UNIT_FAKE_LOOKUPS_H
#define DYAD_UNIT_FAKE_LOOKUPS_H

#include "dht/node.h"

#define FAKE_LOOKUPS 500

struct fake_lookup {
    char upath[16];
    uint8_t flags;
    uint64_t at; /* when it began */
    bool is_out;
    dht_lookup_fn fn;
    void *arg;
};

extern struct fake_lookup fake_lookup[FAKE_LOOKUPS];
extern unsigned fake_nlookups;
/* So many are refused for want of memory. */
extern unsigned fake_lookups_refused;
/* The owner and the storage that an answer names. */
extern uint32_t fake_lookups_owner;
extern uint8_t fake_lookups_storage[DYAD_STORAGE_ID_LEN];

/* There was none. */
void fake_lookups_begin(void);
unsigned fake_lookups_out(void);
/* The look-up ends with an entry of that version: published if `status` is 0, withdrawn if
 * not; `counter` 0: without an entry. */
void fake_lookup_answer(unsigned i, int status, uint64_t counter);

#endif
