/*
 * fake_lookups.c - see fake_lookups.h
 */
#include "fake_lookups.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "fake_clock.h"

struct fake_lookup fake_lookup[FAKE_LOOKUPS];
unsigned fake_nlookups;
unsigned fake_lookups_refused;
uint32_t fake_lookups_owner;
uint8_t fake_lookups_storage[DYAD_STORAGE_ID_LEN];

struct dht_lookup *dht_node_lookup(struct dht_node *node, const char *upath, uint8_t flags,
                                   const struct dyad_version *newer_than, dht_lookup_fn fn,
                                   void *arg)
{
    struct fake_lookup *lookup = &fake_lookup[fake_nlookups];

    (void)node;
    assert_null(newer_than);
    if (fake_lookups_refused > 0) {
        fake_lookups_refused--;
        return NULL;
    }
    assert_true(fake_nlookups < FAKE_LOOKUPS);
    fake_nlookups++;
    *lookup = (struct fake_lookup){
        .flags = flags, .at = fake_now, .is_out = true, .fn = fn, .arg = arg};
    snprintf(lookup->upath, sizeof(lookup->upath), "%s", upath);
    return (struct dht_lookup *)lookup;
}

void dht_node_cancel(struct dht_node *node, struct dht_lookup *lookup)
{
    struct fake_lookup *l = (struct fake_lookup *)lookup;

    (void)node;
    assert_true(l->is_out);
    l->is_out = false;
}

void fake_lookups_begin(void)
{
    fake_nlookups = fake_lookups_refused = 0;
    fake_lookups_owner = 0;
    memset(fake_lookups_storage, 0, sizeof(fake_lookups_storage));
}

unsigned fake_lookups_out(void)
{
    unsigned out = 0;

    for (unsigned i = 0; i < fake_nlookups; i++)
        out += fake_lookup[i].is_out;
    return out;
}

void fake_lookup_answer(unsigned i, int status, uint64_t counter)
{
    struct fake_lookup *lookup = &fake_lookup[i];
    struct dyad_entry entry = {
        .upath = lookup->upath,
        .state = status == 0 ? DYAD_ENTRY_PUBLISHED : DYAD_ENTRY_WITHDRAWN,
        .mode = S_IFREG | 0644,
        .owner = fake_lookups_owner,
        .version.counter = counter};

    assert_in_range(i, 0, fake_nlookups - 1);
    assert_true(lookup->is_out);
    memcpy(entry.storage, fake_lookups_storage, sizeof(entry.storage));
    lookup->is_out = false;
    lookup->fn(lookup->arg, status, counter ? &entry : NULL);
}
