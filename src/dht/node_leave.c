/*
 * dht/node_leave.c - passing records on to other homes: at a handoff, to a newcomer, for
 * dead owners, and those that we stand in for
 *
 * When a home dies its shard is lost, and the owners publish its entries again. This
 * module sees to the records that no owner would bring to the homes that follow. Names of
 * the shard are chosen (struct choice) and collected in one buffer (struct relay); each
 * is published again, in its owner's name, a window of them at a time.
 *
 * If a record were not passed on, a home that has only an older one, or none, would
 * answer with that after some more deaths. Waiters are not passed on, for they register
 * anew when they learn that we are gone; nor are holders of copies
 * (dht_node_hand_over()).
 */
#include "dht/node_leave.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "dht/node_lookup_cache.h"
#include "dht/node_module.h"
#include "dht/node_publish.h"
#include "dht/node_publish_await.h"
#include "dht/node_record.h"
#include "dht/node_tentative.h"
#include "dht/node_writing.h"

struct leave {
    struct relay {
        char *names; /* upaths of the shard, each with its NUL */
        size_t len, size, at;
        uint64_t before; /* of what is no more in `names` */
    } relay;             /* what goes to other homes */
    struct timer orphan_timer;
    uint32_t removed_since, published_since; /* epochs whose orphans have been passed on */
    bool *reborn; /* NULL: none; [rank]: it is another process than the one it was */
    bool retired;
};

struct choice {
    struct dht_node *node;
    bool (*fn)(const struct choice *choice, const struct dht_record *record);
    uint32_t newcomer;
    enum dyad_entry_state state; /* of orphans */
    uint32_t since;              /* deaths until then have been seen to */
};

/* An orphan: the rank that would publish it again is not there, or does not know of it.
 * The tombstones of a rank that is another process than it was (reborn) count as those of
 * one that is gone: leave_rank_back(). */
static bool is_orphan(const struct dht_node *node, const struct dyad_entry *entry)
{
    if (entry->state == DYAD_ENTRY_PUBLISHED)
        return !dht_node_is_live(node, entry->owner);
    return !dht_node_is_live(node, entry->version.rank) ||
           (node->leave->reborn != NULL && node->leave->reborn[entry->version.rank]);
}

/* What a rank removed it does not know any more when it comes back as another process.
 * (It does know what it had published: that lies on its disk.) So its tombstones are
 * passed on as if it were gone; those of what it removed since then, too, which costs a
 * message that says nothing new. */
static void leave_rank_back(struct dht_node *node, uint32_t rank)
{
    if (node->death[rank] >> 1 == 0 || /* it has never been there before */
        node_rank_missing(node, rank))
        return;
    if (node->leave->reborn == NULL)
        node->leave->reborn = calloc(node->config.nranks, sizeof(*node->leave->reborn));
    if (node->leave->reborn != NULL) /* else: as if it were still the same */
        node->leave->reborn[rank] = true;
}

static bool is_any(const struct choice *choice, const struct dht_record *record)
{
    (void)choice;
    (void)record;
    return true;
}

static bool is_newcomers(const struct choice *choice, const struct dht_record *record)
{
    return is_orphan(choice->node, &record->entry) &&
           record_has_home(choice->node, record, choice->newcomer);
}

/* An orphan since then, or one whose homes may have moved since. (4 R: dht_homes_find().)
 */
static bool is_new_orphan(const struct choice *choice, const struct dht_record *record)
{
    struct dht_node *node = choice->node;
    const struct dyad_entry *entry = &record->entry;
    uint32_t parent =
        entry->state == DYAD_ENTRY_PUBLISHED ? entry->owner : entry->version.rank;
    struct dht_key key;
    bool moved;

    if (entry->state != choice->state || !is_orphan(node, entry))
        return false;
    moved = node->death[parent] >> 1 > choice->since;
    dht_key_init(&key, record->upath, node->config.depth);
    for (uint32_t j = 0; j < node->config.nranks && j < 4 * node->config.replicas; j++)
        moved = moved ||
                node->death[dht_homes_probe(&node->ring, &key, j)] >> 1 > choice->since;
    return moved && record_has_home(node, record, node->config.self);
}

static int pass_add(struct dht_record *record, void *arg)
{
    const struct choice *choice = arg;
    struct relay *relay = &choice->node->leave->relay;
    size_t n = strlen(record->upath) + 1;

    if (record->entry.state == DYAD_ENTRY_NONE || !choice->fn(choice, record))
        return 0;
    if (relay->size - relay->len < n) {
        size_t size = 2 * relay->size + n + 4096;
        char *names = realloc(relay->names, size);
        if (names == NULL)
            return -1;
        relay->names = names;
        relay->size = size;
    }
    memcpy(relay->names + relay->len, record->upath, n);
    relay->len += n;
    return 0;
}

/* Pass on what is chosen, after what is being passed on already. 0 or -1 ENOMEM: not all.
 */
static int pass_start(struct dht_node *node, const struct choice *choice)
{
    struct relay *relay = &node->leave->relay;

    if (relay->at == relay->len) {
        relay->before += relay->len;
        relay->at = relay->len = 0;
    }
    if (dht_shard_foreach(node->shard, pass_add, (void *)choice) == 0)
        return 0;
    errno = ENOMEM;
    return -1;
}

/* A newcomer gets what belongs to it from the owners; but entries whose owner has gone (a
 * launch that has ended), and tombstones whose writer has, it gets from the homes that
 * were. */
int dht_node_pass_on(struct dht_node *node, uint32_t newcomer)
{
    const struct choice choice = {.node = node, .fn = is_newcomers, .newcomer = newcomer};
    int rc = pass_start(node, &choice);

    node_rearm(node);
    return rc;
}

/* When a home dies, or when a publisher that is itself a home dies, no owner brings the
 * orphans to the new homes. So the homes that stay do: else after two deaths far apart
 * the third rank of the order would answer with what it knew from a time in which it
 * stood in, perhaps a file that was removed since.
 *
 * Tombstones are passed on soon after a death (TIMER_AGAIN: many deaths, one walk over
 * the shard); published entries with the sweep, a second later, since as a rule another
 * rank of their node has taken them over by then, and publishes them. Entries that no
 * rank has taken over by then are of a node where no rank lives, or are not in the dead
 * rank's journal, which could not be written; any rank of that node serves them all the
 * same (engine/fetch/serve_absent_owner.c). */
static void pass_orphans(struct dht_node *node, enum dyad_entry_state state,
                         uint32_t *since)
{
    const struct choice choice = {
        .node = node, .fn = is_new_orphan, .state = state, .since = *since};

    if (node->leaving || *since == node->epoch)
        return; /* all is passed on, or has been */
    if (pass_start(node, &choice) == 0)
        *since = node->epoch; /* else with the next death */
}

static void leave_orphans_removed(struct dht_node *node, struct timer *timer)
{
    (void)timer;
    pass_orphans(node, DYAD_ENTRY_WITHDRAWN, &node->leave->removed_since);
}

void leave_orphans_published(struct dht_node *node)
{
    pass_orphans(node, DYAD_ENTRY_PUBLISHED, &node->leave->published_since);
}

/* The handoff. With one replica there is no other home when one dies, and entries whose
 * owner has gone are not published again. So a rank that leaves in order does not count
 * itself as a home from here on, which moves its own entries (as any change of membership
 * does), and passes every record of its shard on to the homes that follow, with those
 * that are published here meanwhile (leave_note()). It goes on answering, for its records
 * are still true.
 *
 * Holders of copies are not passed on. A home does not notify a holder that it does not
 * know; the holder gets newer versions from the homes that stay, or makes itself known to
 * the new ones, as after a death (node_copies.c). */
int dht_node_hand_over(struct dht_node *node)
{
    const struct choice choice = {.node = node, .fn = is_any};

    if (node->leaving)
        return 0;
    node->leaving = true; /* first: the homes are those without us */
    if (pass_start(node, &choice) < 0) {
        node->leaving = false;
        return -1;
    }
    cache_drop_all(node);
    own_review(node, false);
    node_rearm(node);
    return 0;
}

static bool leave_has_more(const struct dht_node *node)
{
    return node->leave->relay.at < node->leave->relay.len;
}

uint64_t leave_mark(const struct dht_node *node)
{
    return node->leave->relay.before + node->leave->relay.len;
}

bool leave_passed(const struct dht_node *node, uint64_t mark)
{
    return node->leave->relay.before + node->leave->relay.at >= mark;
}

static bool leave_has_step(const struct dht_node *node)
{
    return leave_has_more(node) && node->owns->nrepair < DHT_REPAIR_WINDOW;
}

static void leave_step(struct dht_node *node)
{
    struct relay *relay = &node->leave->relay;

    while (leave_has_step(node)) {
        const char *upath = relay->names + relay->at;
        relay->at += strlen(upath) + 1;
        publish_relay_record(node, upath);
    }
}

/* A rank that gets a version while any rank is missing or owes its RESYNCED, and that is
 * no home of it as far as it knows, stands in for a home that the publisher has lost and
 * that is there: it passes the version on. Else that home, with which we have no resync,
 * would answer "not published" if the publisher is stopped before it finds that home
 * again. (If no rank is missing this would be a death that we have not heard of yet.) */
void leave_note(struct dht_node *node, const struct dht_record *record, uint32_t source)
{
    bool stands_in = source != node->config.self && !tentative_all_synced(node) &&
                     !record_has_home(node, record, node->config.self);

    if (node->leaving || (stands_in && !publish_is_left_to_publisher(node, &record->entry)))
        publish_relay(node, &record->entry);
}

bool leave_refuses(struct dht_node *node, const struct net_msg *msg)
{
    struct net_msg reply = {
        .type = NET_MSG_ERROR, .status = EHOSTUNREACH, .id = msg->id, .entry = msg->entry};

    if (!node->leave->retired ||
        (msg->type != NET_MSG_PUBLISH && msg->type != NET_MSG_LOOKUP))
        return false;
    node_send(node, msg->source, &reply); /* if it fails, we are silent, as the dead are */
    return true;
}

bool dht_node_handed_over(const struct dht_node *node)
{
    return node->leaving && !leave_has_more(node) && dht_node_pending(node) == 0;
}

void dht_node_joined(struct dht_node *node)
{
    node->joining = false;
}

/* Called when all that was handed over has been acknowledged. From then on requests to us
 * as a home are refused (leave_refuses()), so publishers and askers turn to the homes
 * that have all records. An entry that was acknowledged is found at any moment, in
 * whatever order the others learn that we are gone. */
void dht_node_retire(struct dht_node *node)
{
    node->leave->retired = node->leaving;
}

uint64_t dht_node_moment(const struct dht_node *node)
{
    return node->last_id;
}

bool dht_node_in_place(const struct dht_node *node, uint64_t moment)
{
    return writing_all_told(node) && !leave_has_more(node) &&
           own_all_in_place(node, moment);
}

static void leave_homes_changed(struct dht_node *node, uint32_t rank, bool live)
{
    (void)rank;
    if (!live && !node->leave->orphan_timer.active)
        node_timer_start(node, &node->leave->orphan_timer, TIMER_AGAIN);
}

static int leave_create(struct dht_node *node)
{
    node->leave = calloc(1, sizeof(*node->leave));
    if (node->leave == NULL)
        return -1;
    node->leave->orphan_timer.fn = leave_orphans_removed;
    return 0;
}

static void leave_destroy(struct dht_node *node)
{
    if (node->leave == NULL)
        return;
    free(node->leave->reborn);
    free(node->leave->relay.names);
    free(node->leave);
}

const struct node_module node_leave_module = {
    .create = leave_create,
    .destroy = leave_destroy,
    .rank_back = leave_rank_back,
    .homes_changed = leave_homes_changed,
    .has_step = leave_has_step,
    .step = leave_step,
};
