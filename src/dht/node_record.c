/*
 * dht/node_record.c - as a home: records without an entry, and ranks that keep a negative
 * entry
 *
 * A rank that keeps the answer "not published" (a negative entry) is a holder, too. Such
 * holders are forgotten after a time for which no rank keeps an answer, and beyond
 * NOTED_MAX such records the answer must not be kept: polls of names that never come cost
 * a bounded amount of memory.
 */
#include "dht/node_record.h"

#include <stdlib.h>

#include "dht/node_module.h"

#define NOTED_MAX 65536

/* Holders of nothing: ranks that keep the answer that nothing is published here. */
struct noted {
    struct dht_record *record; /* the key */
    UT_hash_handle hh;
    struct timer timer;
};

static struct noted *noted_find(struct dht_node *node, struct dht_record *record)
{
    struct noted *noted;

    HASH_FIND_PTR(node->noted, &record, noted);
    return noted;
}

void record_forget_noted(struct dht_node *node, struct dht_record *record)
{
    struct noted *noted = noted_find(node, record);

    if (noted == NULL)
        return;
    node_timer_stop(node, &noted->timer);
    HASH_DEL(node->noted, noted);
    free(noted);
}

bool record_is_empty(const struct dht_record *record)
{
    return record->entry.state == DYAD_ENTRY_NONE && record->waiters == NULL &&
           record->nholders == 0;
}

bool record_has_home(struct dht_node *node, const struct dht_record *record, uint32_t rank)
{
    uint32_t homes[DHT_REPLICAS_MAX];
    unsigned n = dht_node_homes(node, record->upath, homes);

    for (unsigned i = 0; i < n; i++)
        if (homes[i] == rank)
            return true;
    return false;
}

void record_remove_empty(struct dht_node *node, struct dht_record *record)
{
    if (!record_is_empty(record))
        return;
    record_forget_noted(node, record);
    dht_shard_remove(node->shard, record);
}

/* The ranks that were noted here do not keep the answer any more. */
static void noted_timeout(struct dht_node *node, struct timer *timer)
{
    struct noted *noted = (struct noted *)((char *)timer - offsetof(struct noted, timer));
    struct dht_record *record = noted->record;

    record_forget_noted(node, record);
    free(record->holders);
    record->holders = NULL;
    record->nholders = 0;
    record_remove_empty(node, record);
}

bool record_note(struct dht_node *node, struct dht_record *record,
                 const struct dht_key *key, const struct net_msg *msg)
{
    struct noted *noted = NULL;

    if (node->config.keep_time == 0 ||
        (record == NULL &&
         (record = dht_shard_insert(node->shard, key, msg->entry.upath)) == NULL))
        return false;
    noted = noted_find(node, record);
    if (noted == NULL && HASH_COUNT(node->noted) < NOTED_MAX &&
        (noted = calloc(1, sizeof(*noted))) != NULL) {
        noted->record = record;
        noted->timer.fn = noted_timeout;
        HASH_ADD_PTR(node->noted, record, noted);
        if (noted->hh.tbl == NULL) {
            free(noted);
            noted = NULL;
        }
    }
    if (noted != NULL)
        node_timer_start(node, &noted->timer, TIMER_NOTED);
    if (noted == NULL || dht_shard_add_holder(record, msg->source) < 0) {
        record_remove_empty(node, record);
        return false;
    }
    return true;
}

static void record_destroy(struct dht_node *node)
{
    struct noted *noted, *tmp;

    HASH_ITER(hh, node->noted, noted, tmp)
    {
        record_forget_noted(node, noted->record);
    }
}

const struct node_module node_record_module = {.destroy = record_destroy};
