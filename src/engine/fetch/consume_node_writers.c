/*
 * consume_node_writers.c - a consume of a file that other nodes may write
 *
 * On storage that other nodes see the file here may be half written by one of them, whose
 * marks we do not see; elsewhere a node may have published what it wrote, and others not yet
 * (publish/pieces_take.c). The homes are asked (dht/node_writing_ask.c), and keep the request
 * until no rank writes the file, or its writer is gone. And, on shared storage, a published file
 * may not be seen here yet.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/fetch/consume_impl.h"
#include "engine/membership/exit_barrier.h"
#include "engine/publish/shared_storage.h"
#include "util/clock.h"
#include "util/log.h"

/* As for the node's own marks, an open for writing does not wait. */
bool consume_must_ask_writers(const struct consume *c)
{
    return c->here.regular && !(c->flags & (NET_CONSUME_WRITER | NET_CONSUME_UPDATE)) &&
           (c->here.pending || shared_storage(c->member, ENGINE_CONSUMER));
}

/* As it would for such a writer here. */
bool consume_waits_for_others(const struct consume *c)
{
    return (c->flags & CONSUME_BACKGROUND) ||
           ((c->flags & NET_LOOKUP_WAIT) &&
            !(c->flags & (NET_CONSUME_WRITER | NET_CONSUME_UPDATE)));
}

bool consume_may_make(const struct consume *c)
{
    return (c->flags & NET_CONSUME_WRITER) && (c->flags & NET_CONSUME_MAKES) &&
           !shared_storage(c->member, ENGINE_CONSUMER);
}

int consume_writers_ruling(struct consume *c, int status, uint32_t by,
                           const struct dyad_version *version)
{
    if (status != EOWNERDEAD)
        return status;
    if (dyad_version_cmp(&c->seen, version) > 0)
        return 0; /* it was published since, which that home has yet to hear of */
    if (!c->left_by_other)
        log_warn(
            "\"%s\" is abandoned: who was writing it, a process of rank %u on node %s, is "
            "gone; process %d waits until it is published anew",
            c->upath, by, member_node_name(c->member, by), (int)c->pid);
    c->left_by_other = true;
    c->seen = *version;
    consume_writer_gone(c);
    return EOWNERDEAD;
}

/* Static buffer of the loop's thread. */
const char *consume_writers_say(const struct consume *c)
{
    static char text[400];
    uint32_t writer = dht_writing_ask_writer(c->ask_writers);

    if (writer == DYAD_RANK_NONE)
        return "its homes do not say whether another node writes it";
    snprintf(text, sizeof(text), "rank %u on node %s has it open for writing", writer,
             member_node_name(c->member, writer));
    return text;
}

/* Another node has published it in this storage, and it is not seen here: a network file
 * system may say for a while that a name is not there which it looked up before it was
 * made. Within the bound that a lost owner has; then it has been removed past us. True: it
 * will be looked at again. */
bool consume_await_sight(struct consume *c)
{
    const struct member *member = c->member;
    uint64_t now = util_clock_now();
    uint64_t bound = (uint64_t)(member->config->join_timeout * (double)UTIL_NSEC_PER_SEC);

    if (!c->unseen_since)
        c->unseen_since = now;
    if (now - c->unseen_since >= bound) {
        log_warn(
            "rank %u on node %s has published \"%s\" in the storage of %s, where it has "
            "not "
            "been seen for %.0f s: it was removed without a word, or this node sees the "
            "directory as it was (mount NFS with lookupcache=positive)",
            c->entry.owner, member_node_name(c->member, c->entry.owner), c->upath,
            store_dir_path(member->dmd[ENGINE_CONSUMER].dir),
            (double)(now - c->unseen_since) / 1e9);
        c->unseen_since = 0;
        return false;
    }
    return true;
}
