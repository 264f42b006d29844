/*
 * dht/node_module.c - events, from a part of the node to all that are above it, and
 * messages to the part that takes them
 */
#include "dht/node_module.h"

#include <stdlib.h>

#include "dht/node_core.h"

#define FOREACH(node, m) \
    for (const struct node_module *const *m = (node)->modules; *m != NULL; m++)

#define CALL(node, event, ...)        \
    FOREACH(node, m)                  \
    {                                 \
        if ((*m)->event != NULL)      \
            (*m)->event(__VA_ARGS__); \
    }

/* Tables for each message and each turn of the loop, so that these walk over no modules.
 */
struct node_table {
    const struct node_module **steps;    /* that have any; NULL ends them */
    uint8_t first[NET_MSG_TYPE_END + 1]; /* of `messages`, up to the next type's */
    const struct node_message *messages[];
};

#define FOREACH_MESSAGE(m, message) \
    for (message = (m)->messages; message != NULL && message->type != 0; message++)

static struct node_table *table_create(const struct dht_node *node)
{
    unsigned count[NET_MSG_TYPE_END] = {0}, n = 0, nsteps = 0;
    const struct node_message *message;
    struct node_table *table;

    FOREACH(node, m)
    {
        FOREACH_MESSAGE(*m, message)
        {
            count[message->type]++;
            n++;
        }
        nsteps += (*m)->step != NULL;
    }
    table = calloc(1, sizeof(*table) + (n + nsteps + 1) * sizeof(void *));
    if (table == NULL)
        return NULL;
    for (int type = 0; type < NET_MSG_TYPE_END; type++)
        table->first[type + 1] = (uint8_t)(table->first[type] + count[type]);
    table->steps = (const struct node_module **)&table->messages[n];
    nsteps = 0;
    FOREACH(node, m)
    {
        FOREACH_MESSAGE(*m, message)
        {
            table->messages[table->first[message->type + 1] - count[message->type]--] =
                message;
        }
        if ((*m)->step != NULL)
            table->steps[nsteps++] = *m;
    }
    return table;
}

int node_modules_create(struct dht_node *node)
{
    node->table = table_create(node);
    if (node->table == NULL)
        return -1;
    FOREACH(node, m)
    {
        if ((*m)->create != NULL && (*m)->create(node) < 0)
            return -1;
    }
    return 0;
}

/* The last that was made is the first to go. */
void node_modules_destroy(struct dht_node *node)
{
    size_t n = 0;

    while (node->modules[n] != NULL)
        n++;
    while (n-- > 0)
        if (node->modules[n]->destroy != NULL)
            node->modules[n]->destroy(node);
    free(node->table);
}

bool node_modules_take(const struct dht_node *node, enum net_msg_type type)
{
    return (unsigned)type < NET_MSG_TYPE_END &&
           node->table->first[type] < node->table->first[type + 1];
}

bool node_modules_receive(struct dht_node *node, const struct net_msg *msg)
{
    const struct node_table *table = node->table;

    if (!node_modules_take(node, msg->type))
        return false;
    for (unsigned i = table->first[msg->type]; i < table->first[msg->type + 1]; i++) {
        const struct node_message *message = table->messages[i];
        if ((!message->upath || msg->entry.upath != NULL) && message->fn(node, msg))
            break;
    }
    return true;
}

void node_modules_rank_lost(struct dht_node *node, uint32_t rank)
{
    CALL(node, rank_lost, node, rank);
}

void node_modules_rank_back(struct dht_node *node, uint32_t rank)
{
    CALL(node, rank_back, node, rank);
}

void node_modules_homes_changed(struct dht_node *node, uint32_t rank, bool live)
{
    CALL(node, homes_changed, node, rank, live);
}

void node_modules_missing_changed(struct dht_node *node, uint32_t rank,
                                  enum dht_missing was)
{
    CALL(node, missing_changed, node, rank, was);
}

void node_modules_all_synced(struct dht_node *node)
{
    CALL(node, all_synced, node);
}

void node_modules_sure_again(struct dht_node *node)
{
    CALL(node, sure_again, node);
}

bool node_modules_have_step(const struct dht_node *node)
{
    for (const struct node_module **m = node->table->steps; *m != NULL; m++)
        if ((*m)->has_step(node))
            return true;
    return false;
}

void node_modules_step(struct dht_node *node)
{
    for (const struct node_module **m = node->table->steps; *m != NULL; m++)
        (*m)->step(node);
}

void node_modules_stood_still(struct dht_node *node, uint64_t ns)
{
    CALL(node, stood_still, node, ns);
}

void node_modules_review_begins(struct dht_node *node)
{
    CALL(node, review_begins, node);
}

void node_modules_publish_failed(struct dht_node *node, uint32_t rank, uint64_t id)
{
    CALL(node, publish_failed, node, rank, id);
}

void node_modules_publish_over(struct dht_node *node, struct incoming *deferred)
{
    CALL(node, publish_over, node, deferred);
}

void node_modules_missed(struct dht_node *node, const struct dyad_entry *newer)
{
    CALL(node, missed, node, newer);
}

void node_modules_withdrawn(struct dht_node *node, struct publish *op)
{
    CALL(node, withdrawn, node, op);
}
