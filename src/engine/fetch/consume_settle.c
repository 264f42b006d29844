/*
 * consume_settle.c - a consume on storage that other nodes see, and may write to
 *
 * What is here may be half written by another node, whose marks we do not see: the homes
 * are asked (dht/node_settle.c), and the question stays with them until nobody writes it,
 * or who did is gone. And what was published may not be seen here yet.
 */
#include <errno.h>
#include <stdio.h>

#include "engine/fetch/consume_impl.h"
#include "engine/membership/exit_barrier.h"
#include "engine/publish/shared_storage.h"
#include "util/clock.h"
#include "util/log.h"

/* As the node's own marks, this is not for who opens it for writing. */
bool consume_must_settle(const struct consume *c)
{
    return c->regular && !(c->flags & (NET_CONSUME_WRITER | NET_CONSUME_UPDATE)) &&
           shared_storage(c->member, ENGINE_CONSUMER);
}

void consume_settled(void *arg, int status, uint32_t by, const struct dyad_version *version)
{
    struct consume *c = arg;

    c->settle = NULL;
    if (status != EOWNERDEAD || dyad_version_cmp(&c->seen, version) > 0) {
        /* Or it was published since, which that home has yet to hear of. */
        consume_end(c, status == EOWNERDEAD ? 0 : status);
        return;
    }
    if (!c->left_by_other)
        log_warn(
            "\"%s\" is abandoned: who was writing it, a process of rank %u on node %s, is "
            "gone; process %d waits until it is published anew",
            c->upath, by, member_node_name(c->member, by), (int)c->pid);
    c->left_by_other = true;
    c->seen = *version;
    consume_writer_gone(c);
    /* Asked again, because a rank that was out of reach may come back and end it without a
     * new version. */
    if (consume_look_up(c))
        net_timer_start(
            c->lost, util_clock_now() + (uint64_t)(MEMBER_ASK_AGAIN * UTIL_NSEC_PER_SEC));
}

void consume_settle(struct consume *c)
{
    if (c->settle)
        return;
    if (c->lookup)
        dht_node_cancel(c->member->dht, c->lookup);
    c->lookup = NULL;
    consume_wait_for_writer(c);
    c->settle = dht_node_settle(c->member->dht, c->upath, true, consume_settled, c);
    if (!c->settle)
        consume_end(c, ENOMEM);
    else
        linger_activity(c->member);
}

/* Static buffer of the loop's thread. */
const char *consume_settle_says(const struct consume *c)
{
    static char text[400];
    uint32_t writer = dht_settle_writer(c->settle);

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
            c->owner, member_node_name(c->member, c->owner), c->upath,
            store_dir_path(member->side[ENGINE_CONSUMER].dir),
            (double)(now - c->unseen_since) / 1e9);
        c->unseen_since = 0;
        return false;
    }
    c->lost_waiting = true;
    c->awaits_sight = true;
    net_timer_start(c->lost, now + CONSUME_LOOK_AGAIN);
    return true;
}
