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

struct writer {
    uint64_t since; /* writers_note() */
    uint32_t rank;
    struct dyad_version found; /* that was published when it began */
    bool abandoned;
    bool overwritten; /* a version was published since it began, ... */
    bool joined;      /* ... but each writes into a file of its own: so by this rank only */
    bool removed;     /* joined, and another node has removed the name since */
    bool adds; /* joined, to a published version, which is whole without what it writes */
};

struct asker {
    uint32_t rank;
    uint64_t id;
};

struct written {
    UT_hash_handle hh; /* by upath */
    struct writer *writers;
    struct asker *askers;
    unsigned nwriters, naskers;
    struct dyad_base root; /* what the first of them has found; DYAD_BASE_NONE: not known */
    char upath[];
};

static struct written *written_find(const struct dht_node *node, const char *upath)
{
    struct written *written;

    HASH_FIND(hh, node->written, upath, strlen(upath), written);
    return written;
}

static struct written *written_get(struct dht_node *node, const char *upath)
{
    struct written *written = written_find(node, upath);
    size_t len = strlen(upath);

    if (written != NULL || (written = calloc(1, sizeof(*written) + len + 1)) == NULL)
        return written;
    memcpy(written->upath, upath, len + 1);
    HASH_ADD_KEYPTR(hh, node->written, written->upath, len, written);
    if (written->hh.tbl == NULL) {
        free(written);
        return NULL;
    }
    return written;
}

static void written_free(struct dht_node *node, struct written *written)
{
    HASH_DEL(node->written, written);
    free(written->writers);
    free(written->askers);
    free(written);
}

static void written_free_empty(struct dht_node *node, struct written *written)
{
    if (written->nwriters == 0 && written->naskers == 0)
        written_free(node, written);
}

static const struct dht_record *record_of(const struct dht_node *node, const char *upath)
{
    struct dht_key key;

    dht_key_init(&key, upath, node->config.depth);
    return dht_shard_find(node->shard, &key, upath);
}

/* The published version, if there is one. */
static const struct dyad_entry *published(const struct dht_node *node, const char *upath)
{
    const struct dht_record *record = record_of(node, upath);

    return record != NULL && record->entry.state == DYAD_ENTRY_PUBLISHED ? &record->entry
                                                                         : NULL;
}

static struct writer *writer_find(struct written *written, uint32_t rank)
{
    for (unsigned i = 0; i < written->nwriters; i++)
        if (written->writers[i].rank == rank)
            return &written->writers[i];
    return NULL;
}

/* The version that a writer that begins now finds published. */
static struct dyad_version found_by(const struct dht_node *node, const char *upath)
{
    const struct dyad_entry *there = published(node, upath);

    return there != NULL ? there->version : (struct dyad_version){0};
}

static struct writer *writer_get(const struct dht_node *node, struct written *written,
                                 uint32_t rank)
{
    struct writer *writer = writer_find(written, rank);
    struct writer *writers;

    if (writer != NULL)
        return writer;
    writers = realloc(written->writers, (written->nwriters + 1) * sizeof(*writers));
    if (writers == NULL)
        return NULL;
    written->writers = writers;
    writer = &writers[written->nwriters++];
    *writer = (struct writer){.rank = rank, .found = found_by(node, written->upath)};
    return writer;
}

static void writer_remove(struct written *written, struct writer *writer)
{
    *writer = written->writers[--written->nwriters];
    if (written->nwriters == 0)
        written->root.kind = DYAD_BASE_NONE;
}

/* What all who join write are changes of what the first one has found; if that is not known, of what the first
 * one has that is known to have the `newest`. */
static void set_root(struct written *written, const struct dyad_base *found, bool newest)
{
    if ((newest || written->nwriters == 1) && written->root.kind == DYAD_BASE_NONE)
        written->root = *found;
}

static bool is_beside(const struct dht_node *node, uint32_t rank, uint32_t other)
{
    return rank == other ||
           (node->ops->beside != NULL && node->ops->beside(node->arg, rank, other));
}

/* Nobody of that rank's node, each into the node's one file, writes it any more, as the rank has found at
 * `looked`. Who has begun since is not seen by that, though its message may be here first. */
static void writers_remove_node(const struct dht_node *node, struct written *written,
                                uint32_t rank, uint64_t looked)
{
    for (unsigned i = written->nwriters; i-- > 0;) {
        struct writer *writer = &written->writers[i];
        if (writer->joined && is_beside(node, writer->rank, rank) &&
            (writer->since < looked ||
             (writer->rank == rank && writer->since == WRITERS_UNMARKED)))
            writer_remove(written, writer);
    }
}

/* A live writer other than `but`; NULL: none. */
static struct writer *writer_live(struct written *written, uint32_t but)
{
    for (unsigned i = 0; i < written->nwriters; i++)
        if (!written->writers[i].abandoned && !written->writers[i].removed &&
            written->writers[i].rank != but)
            return &written->writers[i];
    return NULL;
}

/* The next one, from *i on, that writes it into a file of another node than that of `rank`, or
 * NULL. */
static const struct writer *writer_elsewhere(const struct dht_node *node,
                                             const struct written *written, uint32_t rank,
                                             unsigned *i)
{
    while (written != NULL && *i < written->nwriters) {
        const struct writer *writer = &written->writers[(*i)++];
        if (writer->joined && !writer->removed && !is_beside(node, writer->rank, rank))
            return writer;
    }
    return NULL;
}

static void home_reply(struct dht_node *node, uint32_t rank, uint64_t id, int status,
                       const char *upath, uint32_t by)
{
    struct net_msg reply = {
        .type = NET_MSG_WRITING_REPLY, .status = status, .id = id, .rank = by};
    const struct dht_record *record = status == EOWNERDEAD ? record_of(node, upath) : NULL;

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
        else
            home_reply(node, asker->rank, asker->id, EAGAIN, written->upath,
                       DYAD_RANK_NONE);
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

static void asker_drop(struct written *written, uint32_t rank, uint64_t id)
{
    for (unsigned i = 0; i < written->naskers; i++) {
        if (written->askers[i].rank == rank && written->askers[i].id == id) {
            written->askers[i] = written->askers[--written->naskers];
            return;
        }
    }
}

static bool asker_add(struct written *written, uint32_t rank, uint64_t id)
{
    struct asker *askers;

    asker_drop(written, rank, id);
    askers = realloc(written->askers, (written->naskers + 1) * sizeof(*askers));
    if (askers == NULL)
        return false;
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
        if (!asker_add(written, msg->source, msg->id))
            return; /* silent: passed over, or asked again */
        writers_want(node, written, msg->source);
    } else if (written != NULL) {
        asker_drop(written, msg->source, msg->id);
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
    bool adds = writer == NULL || writer->adds;
    bool newest = msg->base.kind != DYAD_BASE_NONE && !msg->base.stays, old = false;
    const struct dyad_entry *there = newest ? published(node, msg->entry.upath) : NULL;

    if (there != NULL && !is_beside(node, there->owner, msg->source))
        old = dht_base_is_other(&msg->base, there);
    if (writer == NULL && written != NULL)
        writer = writer_get(node, written, msg->source);
    if (writer == NULL) {
        if (written != NULL)
            written_free_empty(node, written);
        return; /* silent: the writer says that it could not tell this home */
    }
    if (writers_elsewhere(node, msg->entry.upath, msg->source))
        other = msg->source;
    if (writer->abandoned)
        *writer =
            (struct writer){.rank = msg->source, .found = found_by(node, msg->entry.upath)};
    if (!old)
        set_root(written, &msg->base, newest);
    if (newest && !old && there != NULL)
        writer->found = there->version;
    writer->joined |= (msg->flags & NET_WRITING_JOINED) != 0;
    writer->removed = false;
    writer->since = msg->after;
    writer->adds = adds && there != NULL && !old;
    /* An append has to begin as the others did: do they write it still? */
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
    const struct dyad_entry *there = published(node, msg->entry.upath);
    const struct writer *writer = written ? writer_find(written, msg->source) : NULL;
    bool news = there && writer && dyad_version_cmp(&there->version, &writer->found) > 0;
    uint32_t *ranks = written ? malloc(written->nwriters * sizeof(*ranks)) : NULL;
    unsigned n = 0, at = 0;

    reply.entry.upath = msg->entry.upath;
    if (news && there->conflict) /* which nobody has all of */
        reply.status = EIO;
    /* What is not on record is the owner's to refuse. */
    else if (there != NULL && (there->recorded || news) &&
             !is_beside(node, there->owner, msg->source))
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
        *writer = (struct writer){
            .rank = heir, .found = writer->found, .joined = true, .adds = writer->adds};
    else
        writer_remove(written, writer);
}

/* `said`: by a rank of its node, which knows of all that write it there. */
static void writer_dead(struct dht_node *node, struct written *written,
                        struct writer *writer, bool said)
{
    if (writer->adds && said)
        writer_remove(written, writer);
    else if (writer->overwritten || writer->adds)
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
            writers_remove_node(node, written, msg->source, msg->after);
        writer = writer_find(written, msg->source);
        if (writer != NULL && abandoned)
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
            asker_drop(written, msg->source, msg->id);
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
        is_beside(node, writer->rank, published ? entry->owner : by) == published)
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
        writers_remove_node(node, written, by, base->looked);
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
void writers_note(struct dht_node *node, const char *upath, uint32_t rank, uint64_t since)
{
    struct written *written = written_get(node, upath);
    struct writer *writer = written != NULL ? writer_get(node, written, rank) : NULL;

    if (writer != NULL)
        *writer = (struct writer){
            .rank = rank, .found = writer->found, .joined = true, .since = since};
    else if (written != NULL)
        written_free_empty(node, written);
    if (writer != NULL && since == WRITERS_UNMARKED) /* it has found none */
        set_root(written, &(struct dyad_base){.kind = DYAD_BASE_FROM}, false);
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
            written->writers[i].rank != but)
            return true;
    return false;
}

bool writers_are_removed(struct dht_node *node, const char *upath, uint32_t rank)
{
    const struct written *written = written_find(node, upath);
    bool are = false;

    for (unsigned i = 0; written != NULL && i < written->nwriters; i++) {
        const struct writer *writer = &written->writers[i];
        if (!is_beside(node, writer->rank, rank))
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
            if (written->askers[i].rank == rank)
                written->askers[i] = written->askers[--written->naskers];
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
