/*
 * dht/node_module.c - events, from a part of the node to all that are above it, and
 * messages to the part that takes them
 */
#include "dht/node_module.h"

#include "dht/node_core.h"

#define FOREACH(node, m) \
    for (const struct node_module *const *m = (node)->modules; *m != NULL; m++)

#define CALL(node, event, ...)        \
    FOREACH(node, m)                  \
    {                                 \
        if ((*m)->event != NULL)      \
            (*m)->event(__VA_ARGS__); \
    }

int node_modules_create(struct dht_node *node)
{
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
}

static const struct node_message *next_of_type(const struct node_message *message,
                                               enum net_msg_type type)
{
    while (message != NULL && message->type != 0 && message->type != type)
        message++;
    return message != NULL && message->type != 0 ? message : NULL;
}

bool node_modules_take(const struct dht_node *node, enum net_msg_type type)
{
    FOREACH(node, m)
    {
        if (next_of_type((*m)->messages, type) != NULL)
            return true;
    }
    return false;
}

bool node_modules_receive(struct dht_node *node, const struct net_msg *msg)
{
    bool known = false;

    FOREACH(node, m)
    {
        const struct node_message *message = next_of_type((*m)->messages, msg->type);
        if (message == NULL)
            continue;
        known = true;
        if ((!message->upath || msg->entry.upath != NULL) && message->fn(node, msg))
            break;
    }
    return known;
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
    FOREACH(node, m)
    {
        if ((*m)->has_step != NULL && (*m)->has_step(node))
            return true;
    }
    return false;
}

void node_modules_step(struct dht_node *node)
{
    CALL(node, step, node);
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
