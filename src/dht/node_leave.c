/*
 * dht/node_leave.c - a rank that leaves in order, and what a newcomer waits for
 *
 * A home that dies takes its shard with it: the owners publish again what it had, and for
 * so long the other homes answer. With one replica there is none, and entries whose owner
 * has gone nobody publishes again. So who leaves in order first gives its shard away: from
 * dht_node_hand_over() on it counts itself as no home, which moves its own entries (as any
 * change of membership does), and passes every record of its shard on to the homes that
 * follow, a window of them at a time, and what is published here meanwhile as well. It goes
 * on answering, for what it has is still the truth.
 *
 * When all of that has been acknowledged, dht_node_retire(): requests to us as a home are
 * refused from then on, so publishers and askers pass us over and turn to the homes that
 * have it all. There is no moment at which an entry that was acknowledged is not found, in
 * whatever order the others learn that we are gone.
 *
 * What is not passed on: waiters (they register anew when they learn that we are gone) and
 * holders of copies. A home that does not know a holder does not tell it of newer versions;
 * it hears of them from the homes that stay, or else looks its copy up by version when its
 * kept answers are over. That is as it is after a death.
 */
#include "dht/node_impl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct leaving {
    bool retired;
    char *names; /* upaths of the shard, each with its NUL */
    size_t len, size, at;
};

static int leave_add(struct dht_record *record, void *arg)
{
    struct leaving *leaving = arg;
    size_t n = strlen(record->upath) + 1;

    if (record->entry.state == DYAD_ENTRY_NONE)
        return 0;
    if (leaving->size - leaving->len < n) {
        size_t size = 2 * leaving->size + n + 4096;
        char *names = realloc(leaving->names, size);
        if (names == NULL)
            return -1;
        leaving->names = names;
        leaving->size = size;
    }
    memcpy(leaving->names + leaving->len, record->upath, n);
    leaving->len += n;
    return 0;
}

int dht_node_hand_over(struct dht_node *node)
{
    struct leaving *leaving;

    if (node->leaving != NULL)
        return 0;
    leaving = calloc(1, sizeof(*leaving));
    if (leaving == NULL)
        return -1;
    if (dht_shard_foreach(node->shard, leave_add, leaving) != 0) {
        free(leaving->names);
        free(leaving);
        errno = ENOMEM;
        return -1;
    }
    node->leaving = leaving;
    kept_drop_all(node);
    publish_review(node, false);
    node_rearm(node);
    return 0;
}

bool leave_has_more(const struct dht_node *node)
{
    return node->leaving != NULL && node->leaving->at < node->leaving->len;
}

void leave_again(struct dht_node *node, const char *upath)
{
    struct dht_record *record;
    struct dht_key key;

    dht_key_init(&key, upath, node->config.depth);
    record = dht_shard_find(node->shard, &key, upath);
    if (record != NULL && record->entry.state != DYAD_ENTRY_NONE)
        publish_relay(node, &record->entry);
}

void leave_step(struct dht_node *node)
{
    struct leaving *leaving = node->leaving;

    while (leave_has_more(node) && node->nrepair < DHT_REPAIR_WINDOW) {
        const char *upath = leaving->names + leaving->at;
        leaving->at += strlen(upath) + 1;
        leave_again(node, upath);
    }
}

void leave_note(struct dht_node *node, const struct dyad_entry *entry)
{
    if (node->leaving != NULL)
        publish_relay(node, entry);
}

bool leave_refuses(struct dht_node *node, const struct net_msg *msg)
{
    struct net_msg reply = {
        .type = NET_MSG_ERROR, .status = EHOSTUNREACH, .id = msg->id, .entry = msg->entry};

    if (node->leaving == NULL || !node->leaving->retired ||
        (msg->type != NET_MSG_PUBLISH && msg->type != NET_MSG_LOOKUP))
        return false;
    node_send(node, msg->source, &reply); /* if it fails, we are silent, as the dead are */
    return true;
}

bool dht_node_handed_over(const struct dht_node *node)
{
    return node->leaving != NULL && !leave_has_more(node) && dht_node_pending(node) == 0;
}

void dht_node_retire(struct dht_node *node)
{
    if (node->leaving != NULL)
        node->leaving->retired = true;
}

void leave_destroy(struct dht_node *node)
{
    if (node->leaving == NULL)
        return;
    free(node->leaving->names);
    free(node->leaving);
    node->leaving = NULL;
}

uint64_t dht_node_moment(const struct dht_node *node)
{
    return node->last_id;
}

bool dht_node_in_place(const struct dht_node *node, uint64_t moment)
{
    const struct publish *op;

    if (node->reviewing || node->nrepair > 0)
        return false;
    for (op = node->publishes; op != NULL; op = op->hh.next)
        if (op->id <= moment)
            return false;
    return true;
}
