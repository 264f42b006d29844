/*
 * consume_say.c - what people are told of a wait
 *
 * That it lasts, after 10 s and then each time after twice as long, with what it waits for;
 * and once, where others may join, that only a newcomer can end it.
 */
#include <stdio.h>
#include <utlist.h>

#include "engine/consume_impl.h"
#include "util/clock.h"
#include "util/log.h"

/* Where what is looked for may be: nodes on which nobody of the session runs. */
static const char *say_where(const struct consume *c, char *to, size_t size)
{
    const char *nodes = member_session_empty_nodes(c->member);
    bool known = c->lost_since && c->lost_owner != DYAD_RANK_NONE &&
                 net_worker_peer(c->member->worker, c->lost_owner);
    bool asked = c->lost_since && dht_node_has_neighbour(c->member->dht, c->lost_owner);
    uint32_t missing;

    if (known && member_session_end(c->member, c->lost_owner) == MEMBER_NOT_ENDED)
        snprintf(to, size,
                 "it was published by %s, which does not answer (it may be stopped, or "
                 "beyond a cut)%s",
                 member_describe(c->member, c->lost_owner),
                 asked ? ""
                       : ", and no other process of this session there serves it: one that "
                         "is started on that node will");
    else if (asked)
        snprintf(to, size,
                 "who published it, a process on node %s, has ended; another process of "
                 "this session there is asked whether it can serve it",
                 member_node_name(c->member, c->lost_owner));
    else if (known)
        snprintf(to, size,
                 "it was published by %s, which has ended, and no process of this session "
                 "there serves it: one that is started on that node will",
                 member_describe(c->member, c->lost_owner));
    else if (c->lost_since)
        snprintf(
            to, size,
            "who published it has ended, and no process of this session serves it: one "
            "that is started on its node will%s%s",
            *nodes ? "; such files may lie on " : "", nodes);
    else if (c->abandoned)
        snprintf(
            to, size,
            "a file of that name lies here, left by a process that was killed while it "
            "wrote it; a whole one nobody has published");
    else if (c->member->ring &&
             (missing = lost_missing(c->member, false)) != DYAD_RANK_NONE)
        snprintf(to, size,
                 "nobody who answers has published it; %s does not answer (it may be "
                 "stopped, or beyond a cut)",
                 member_describe(c->member, missing));
    else if (*nodes)
        snprintf(to, size,
                 "nobody has published it; files of ended launches may lie on %s, where no "
                 "process of this session runs",
                 nodes);
    else
        snprintf(to, size, "nobody has published it");
    return to;
}

void consume_say_still(void *arg)
{
    struct consume *c = arg;
    uint64_t now = util_clock_now();
    uint32_t home = c->lookup ? dht_lookup_home(c->lookup) : DYAD_RANK_NONE;
    char where[1024];

    if (c->transferring)
        log_warn("process %d has been waiting for \"%s\" for %llu s: it is being fetched",
                 (int)c->pid, c->upath,
                 (unsigned long long)((now - c->since) / UTIL_NSEC_PER_SEC));
    else if (c->writer > 0)
        log_warn(
            "process %d has been waiting for \"%s\" for %llu s: process %d of this node "
            "has it "
            "open for writing",
            (int)c->pid, c->upath,
            (unsigned long long)((now - c->since) / UTIL_NSEC_PER_SEC), (int)c->writer);
    else if (c->settle)
        log_warn("process %d has been waiting for \"%s\" for %llu s: %s", (int)c->pid,
                 c->upath, (unsigned long long)((now - c->since) / UTIL_NSEC_PER_SEC),
                 consume_settle_says(c));
    else if (c->lost_waiting && c->awaits_sight)
        log_warn(
            "process %d has been waiting for \"%s\" for %llu s: rank %u on node %s has "
            "published it in this storage, where it is not seen yet",
            (int)c->pid, c->upath,
            (unsigned long long)((now - c->since) / UTIL_NSEC_PER_SEC), c->owner,
            member_node_name(c->member, c->owner));
    else if (c->member->ring)
        log_warn("process %d is still waiting for \"%s\" after %llu s: %s", (int)c->pid,
                 c->upath, (unsigned long long)((now - c->since) / UTIL_NSEC_PER_SEC),
                 say_where(c, where, sizeof(where)));
    else if (c->lost_waiting && c->lost_owner != DYAD_RANK_NONE)
        log_warn(
            "process %d has been waiting for \"%s\" for %llu s: its owner, %s, does not "
            "serve it",
            (int)c->pid, c->upath,
            (unsigned long long)((now - c->since) / UTIL_NSEC_PER_SEC),
            member_describe(c->member, c->lost_owner));
    else
        log_warn(
            "process %d is still waiting for \"%s\" after %llu s: %s (home: rank %d)",
            (int)c->pid, c->upath,
            (unsigned long long)((now - c->since) / UTIL_NSEC_PER_SEC),
            c->abandoned ? say_where(c, where, sizeof(where)) : "nobody has published it",
            home == DYAD_RANK_NONE ? -1 : (int)home);
    c->say_interval *= 2;
    net_timer_start(c->say, now + c->say_interval);
}

void consume_say_waiting(struct member *member)
{
    char where[1024];
    struct consume *c;

    DL_FOREACH(member->consumes, c)
    {
        if (c->said_alone || !consume_is_waiting(c))
            continue;
        c->said_alone = true;
        log_warn(
            "process %d waits for \"%s\", and all others of the session wait or are at "
            "their end: only a process that is still to be started can bring it%s; %s",
            (int)c->pid, c->upath, c->timeout_ms ? " (DYAD_TIMEOUT ends the wait)" : "",
            say_where(c, where, sizeof(where)));
    }
}
