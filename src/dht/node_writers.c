/*
 * dht/node_writers.c - as a home: the ranks that write a file, and those that wait for
 * the end of that
 *
 * node_writing.c describes the protocol. Each upath that is written, was abandoned or is
 * waited for has one object beside the shard, whose records do not refer to it. There are
 * none as long as each file is written by one node and complete at its close, and storage
 * is not shared.
 */
#include "dht/base.h"
#include "dht/node_writers.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "dht/node_module.h"
#include "dht/node_written.h"

static void home_reply(struct dht_node *node, uint32_t rank, uint64_t id, int status,
                       const char *upath, uint32_t by)
{
    struct net_msg reply = {
        .type = NET_MSG_WRITING_REPLY, .status = status, .id = id, .rank = by};
    const struct dht_record *record =
        status == EOWNERDEAD ? written_record(node, upath) : NULL;

    reply.entry.upath = upath;
    if (record != NULL)
        reply.entry.version = record->entry.version;
    node_send(node, rank, &reply); /* if it fails the asker's deadline passes */
}

/* The writers have changed: askers for whom no writer is left ask again. */
static void askers_wake(struct dht_node *node, struct written *written)
{
    unsigned left = 0;

    for (unsigned i = 0; i < written->naskers; i++) {
        const struct asker *asker = &written->askers[i];
        if (writer_live(written, asker->rank) != NULL)
            written->askers[left++] = *asker;
        else {
            home_reply(node, asker->rank, asker->id, EAGAIN, written->upath,
                       DYAD_RANK_NONE);
            util_quota_return(&node->askers, asker->rank);
        }
    }
    written->naskers = left;
}

/* Tell the live writers that somebody waits, or takes over: are they still there? */
static void writers_want(struct dht_node *node, struct written *written, uint32_t but)
{
    for (unsigned i = 0; i < written->nwriters; i++) {
        struct net_msg msg = {.type = NET_MSG_WRITING, .flags = NET_WRITING_WANTED};
        const struct writer *writer = &written->writers[i];
        msg.entry.upath = written->upath;
        if (!writer->abandoned && !writer->removed && writer->rank != but)
            node_send(node, writer->rank, &msg);
    }
}

static void asker_drop(struct dht_node *node, struct written *written, uint32_t rank,
                       uint64_t id)
{
    for (unsigned i = 0; i < written->naskers; i++) {
        if (written->askers[i].rank == rank && written->askers[i].id == id) {
            util_quota_return(&node->askers, rank);
            written->askers[i] = written->askers[--written->naskers];
            return;
        }
    }
}

static bool asker_add(struct dht_node *node, struct written *written, uint32_t rank,
                      uint64_t id)
{
    struct asker *askers;

    asker_drop(node, written, rank, id);
    if (!util_quota_take(&node->askers, rank, ASKERS_MAX,
                         "look-ups that wait for a writer"))
        return false;
    askers = realloc(written->askers, (written->naskers + 1) * sizeof(*askers));
    if (askers == NULL) {
        util_quota_return(&node->askers, rank);
        return false;
    }
    written->askers = askers;
    askers[written->naskers++] = (struct asker){rank, id};
    return true;
}

static void home_ask(struct dht_node *node, const struct net_msg *msg)
{
    struct written *written = written_find(node, msg->entry.upath);
    const struct writer *writer;
    int status = 0;
    uint32_t by = DYAD_RANK_NONE;

    if (written != NULL && (writer = writer_live(written, msg->source)) != NULL) {
        by = writer->rank;
        status = EBUSY;
        if (!asker_add(node, written, msg->source, msg->id))
            return; /* silent: passed over, or asked again */
        writers_want(node, written, msg->source);
    } else if (written != NULL) {
        asker_drop(node, written, msg->source, msg->id);
        for (unsigned i = 0; i < written->nwriters; i++) {
            if (written->writers[i].abandoned) {
                status = EOWNERDEAD;
                by = written->writers[i].rank;
            }
        }
    }
    if (status == 0 && node->joining) /* what is being written may not have been told yet */
        status = EHOSTUNREACH;
    home_reply(node, msg->source, msg->id, status, msg->entry.upath, by);
}

static void home_begin(struct dht_node *node, const struct net_msg *msg)
{
    struct written *written = written_get(node, msg->entry.upath);
    struct writer *writer = written != NULL ? writer_find(written, msg->source) : NULL;
    uint32_t other = DYAD_RANK_NONE;
    bool adds = writer == NULL || writer->adds, quiet = writer == NULL || writer->quiet;
    bool newest = msg->base.kind != DYAD_BASE_NONE && !msg->base.stays, old = false;
    const struct dyad_entry *there = written_published(node, msg->entry.upath);

    if (newest && there != NULL && !written_is_beside(node, there->owner, msg->source))
        old = dht_base_is_other(&msg->base, there);
    if (writer == NULL && written != NULL)
        writer = writer_get(node, written, msg->source);
    if (writer == NULL) {
        if (written != NULL)
            written_free_empty(node, written);
        return; /* silent: the writer says that it could not tell this home */
    }
    if (writer->abandoned)
        *writer = (struct writer){.rank = msg->source,
                                  .found = written_found(node, msg->entry.upath)};
    if (msg->id > writer->id)
        writer->id = msg->id;
    if (!old)
        written_set_root(written, &msg->base, newest);
    if (newest && !old && there != NULL)
        writer->found = there->version;
    writer->joined |= (msg->flags & NET_WRITING_JOINED) != 0;
    writer->removed = false;
    writer->since = msg->after;
    writer->adds = adds && newest && there != NULL && !old;
    writer->quiet = quiet && msg->base.kind != DYAD_BASE_NONE && !msg->base.joint &&
                    there != NULL && there->size > 0;
    if (writers_elsewhere(node, msg->entry.upath, msg->source)) {
        other = msg->source;
        for (unsigned i = 0; i < written->nwriters; i++)
            written->writers[i].quiet = false;
    }
    /* Who has to have the newest version has to have what they began with, if they write it still. */
    if (!writer->joined || newest)
        writers_want(node, written, msg->source);
    home_reply(node, msg->source, msg->id, old ? ESTALE : 0, msg->entry.upath, other);
}

/* A rank that reads what it has open for writing asks who else writes it, or has given its pieces
 * to the owner. */
static void home_show(struct dht_node *node, const struct net_msg *msg)
{
    struct net_msg reply = {
        .type = NET_MSG_WRITING_REPLY, .id = msg->id, .rank = DYAD_RANK_NONE};
    struct written *written = written_find(node, msg->entry.upath);
    const struct dyad_entry *there = written_published(node, msg->entry.upath);
    const struct writer *writer = written ? writer_find(written, msg->source) : NULL;
    bool news = there && writer && !writer->removed &&
                dyad_version_cmp(&there->version, &writer->found) > 0;
    uint32_t *ranks = written ? malloc(written->nwriters * sizeof(*ranks)) : NULL;
    unsigned n = 0, at = 0;

    reply.entry.upath = msg->entry.upath;
    if (news && there->conflict) /* which nobody has all of */
        reply.status = EIO;
    /* One that is not on record, and not what all have begun with, is the owner's to refuse. */
    else if (there != NULL &&
             (there->recorded || (news && (written->root.kind != DYAD_BASE_FROM ||
                                           dht_base_is_other(&written->root, there)))) &&
             !written_is_beside(node, there->owner, msg->source))
        reply.rank = there->owner;
    if (written != NULL)
        reply.base = written->root;
    while (ranks != NULL &&
           (writer = writer_elsewhere(node, written, msg->source, &at)) != NULL) {
        if (!writer->abandoned) {
            ranks[n++] = htole32(writer->rank);
            continue;
        }
        reply.status = EOWNERDEAD;
        reply.rank = writer->rank;
    }
    if (node->joining) /* what is being written may not have been told yet */
        reply.status = EHOSTUNREACH;
    else if (written != NULL && (ranks == NULL || n > NET_MSG_BLOB_MAX / sizeof(*ranks)))
        reply.status = ENOMEM;
    reply.blob = reply.status == ENOMEM ? NULL : ranks;
    reply.blob_len = reply.blob != NULL ? n * sizeof(*ranks) : 0;
    node_send(node, msg->source, &reply); /* if it fails the asker's deadline passes */
    free(ranks);
}

/* Others of its node may write the file still, of whom no home knows: another rank of the node is
 * asked in its place, and says if nobody does. */
static void writer_leaves(struct dht_node *node, struct written *written,
                          struct writer *writer)
{
    uint32_t heir = DYAD_RANK_NONE;

    if (writer->joined && node->ops->beside != NULL)
        do
            heir = dht_node_neighbour(node, writer->rank, heir);
        while (heir != DYAD_RANK_NONE && !node->ops->beside(node->arg, heir, writer->rank));
    if (heir != DYAD_RANK_NONE && writer_find(written, heir) == NULL)
        *writer = (struct writer){.rank = heir,
                                  .found = writer->found,
                                  .joined = true,
                                  .adds = writer->adds,
                                  .quiet = writer->quiet};
    else
        writer_remove(written, writer);
}

/* `said`: by a rank of its node, which knows of all that write it there. */
static void writer_dead(struct dht_node *node, struct written *written,
                        struct writer *writer, bool said)
{
    bool whole = writer->adds || writer->quiet;

    if (whole && said)
        writer_remove(written, writer);
    else if (writer->overwritten || whole)
        writer_leaves(node, written, writer);
    else
        writer->abandoned = true;
}

static void home_end(struct dht_node *node, const struct net_msg *msg, bool abandoned)
{
    struct written *written = written_find(node, msg->entry.upath);
    struct writer *writer;

    if (written != NULL) {
        if (!abandoned && !(msg->flags & NET_WRITING_OWN))
            written_remove_node(node, written, msg->source, msg->id, msg->after);
        writer = writer_find(written, msg->source);
        if (writer != NULL && msg->id < writer->id)
            ; /* it has begun again since: this one came late, or is sent again by somebody else */
        else if (writer != NULL && abandoned)
            writer_dead(node, written, writer, true);
        else if (writer != NULL && (!writer->joined || (msg->flags & NET_WRITING_OWN)))
            writer_remove(written, writer);
        askers_wake(node, written);
        written_free_empty(node, written);
    }
    home_reply(node, msg->source, msg->id, 0, msg->entry.upath, msg->source);
}

static bool home_writing(struct dht_node *node, const struct net_msg *msg)
{
    struct written *written;

    switch (msg->flags & NET_WRITING_WHAT) {
    case NET_WRITING_BEGIN:
        home_begin(node, msg);
        break;
    case NET_WRITING_END:
        home_end(node, msg, false);
        break;
    case NET_WRITING_ABANDONED:
        home_end(node, msg, true);
        break;
    case NET_WRITING_ASK:
        home_ask(node, msg);
        break;
    case NET_WRITING_FORGET:
        if ((written = written_find(node, msg->entry.upath)) != NULL) {
            asker_drop(node, written, msg->source, msg->id);
            written_free_empty(node, written);
        }
        break;
    case NET_WRITING_SHOW:
        home_show(node, msg);
        break;
    case NET_WRITING_WANTED:
        if (node->ops->wanted != NULL)
            node->ops->wanted(node->arg, msg->entry.upath);
        break;
    default:
        break;
    }
    return true;
}

/* A removal reaches the files of other nodes; what a node publishes has its name again. */
static void set_removed(const struct dht_node *node, struct writer *writer,
                        const struct dyad_entry *entry, uint32_t by)
{
    bool published = entry->state == DYAD_ENTRY_PUBLISHED;

    if (writer->joined &&
        written_is_beside(node, writer->rank, published ? entry->owner : by) == published)
        writer->removed = !published;
}

void writers_published(struct dht_node *node, const struct dyad_entry *entry, uint32_t by,
                       const struct dyad_base *base)
{
    struct written *written = written_find(node, entry->upath);

    if (written == NULL)
        return;
    for (unsigned i = written->nwriters; i-- > 0;) {
        struct writer *writer = &written->writers[i];
        writer->overwritten |= !writer->joined || writer->rank == by;
        set_removed(node, writer, entry, by);
        if (writer->abandoned)
            writer_remove(written, writer);
    }
    if (base->ends)
        written_remove_node(node, written, by, UINT64_MAX, base->looked);
    askers_wake(node, written);
    written_free_empty(node, written);
}

void node_reply_publish(struct dht_node *node, uint32_t rank, uint64_t id, int status,
                        const struct dyad_entry *entry)
{
    struct net_msg msg = {
        .type = NET_MSG_PUBLISH_REPLY, .status = status, .id = id, .entry = *entry};

    msg.entry.written = status == 0 && entry->state == DYAD_ENTRY_PUBLISHED &&
                        writers_join(node, entry->upath, rank);
    node_send(node, rank, &msg); /* if it fails the publisher's deadline passes */
}

/* Without memory its end of the file may be missed, as where no home can be told. */
void writers_note(struct dht_node *node, const char *upath, uint32_t rank, uint64_t id,
                  uint64_t since)
{
    struct written *written = written_get(node, upath);
    struct writer *writer = written != NULL ? writer_get(node, written, rank) : NULL;

    if (writer != NULL)
        *writer = (struct writer){
            .rank = rank, .id = id, .found = writer->found, .joined = true, .since = since};
    else if (written != NULL)
        written_free_empty(node, written);
    if (writer != NULL && since == WRITERS_UNMARKED) /* it has found none */
        written_set_root(written, &(struct dyad_base){.kind = DYAD_BASE_FROM}, false);
}

void dht_node_writers(const struct dht_node *node, const char *upath,
                      void (*fn)(void *arg, uint32_t rank, bool dead), void *arg)
{
    const struct written *written = written_find(node, upath);

    for (unsigned i = 0; written != NULL && i < written->nwriters; i++)
        fn(arg, written->writers[i].rank, written->writers[i].abandoned);
}

/* What it had open is closed. */
void dht_node_rank_left(struct dht_node *node, uint32_t rank)
{
    struct written *written, *tmp;

    HASH_ITER(hh, node->written, written, tmp)
    {
        struct writer *writer = writer_find(written, rank);
        if (writer == NULL || !writer->joined)
            continue;
        writer_leaves(node, written, writer);
        askers_wake(node, written);
        written_free_empty(node, written);
    }
}

bool writers_elsewhere(struct dht_node *node, const char *upath, uint32_t rank)
{
    unsigned at = 0;

    return writer_elsewhere(node, written_find(node, upath), rank, &at) != NULL;
}

bool writers_join(struct dht_node *node, const char *upath, uint32_t but)
{
    const struct written *written = written_find(node, upath);

    for (unsigned i = 0; written != NULL && i < written->nwriters; i++)
        if (written->writers[i].joined && !written->writers[i].removed &&
            !written->writers[i].quiet && written->writers[i].rank != but)
            return true;
    return false;
}

bool writers_are_removed(struct dht_node *node, const char *upath, uint32_t rank)
{
    const struct written *written = written_find(node, upath);
    bool are = false;

    for (unsigned i = 0; written != NULL && i < written->nwriters; i++) {
        const struct writer *writer = &written->writers[i];
        if (!written_is_beside(node, writer->rank, rank))
            continue;
        if (!writer->removed)
            return false;
        are |= writer->rank == rank;
    }
    return are;
}

static void writers_rank_lost(struct dht_node *node, uint32_t rank)
{
    struct written *written, *tmp;

    HASH_ITER(hh, node->written, written, tmp)
    {
        struct writer *writer = writer_find(written, rank);
        for (unsigned i = written->naskers; i-- > 0;)
            if (written->askers[i].rank == rank) {
                util_quota_return(&node->askers, rank);
                written->askers[i] = written->askers[--written->naskers];
            }
        if (writer != NULL && !writer->abandoned) {
            writer_dead(node, written, writer, false);
            askers_wake(node, written);
        }
        written_free_empty(node, written);
    }
}

static void writers_destroy(struct dht_node *node)
{
    struct written *written, *tmp;

    HASH_ITER(hh, node->written, written, tmp)
    {
        written_free(node, written);
    }
    util_quota_clear(&node->askers);
}

static const struct node_message messages[] = {
    {NET_MSG_WRITING, true, home_writing},
    {0},
};

const struct node_module node_writers_module = {
    .messages = messages,
    .destroy = writers_destroy,
    .rank_lost = writers_rank_lost,
};
