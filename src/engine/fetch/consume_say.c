/*
 * consume_say.c - log lines about a wait
 *
 * That it lasts, after 10 s and then each time after twice as long, with what it waits for,
 * and who has it open for writing now, which is asked at that moment (consume_writers.c);
 * and once, where others may join, that only a newcomer can end it. And why it ends, where
 * nobody is left: a program may look for hundreds of such files, over and over.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "engine/core/turns.h"
#include "engine/fetch/consume_impl.h"
#include "engine/membership/unreachable.h"
#include "util/clock.h"
#include "util/log.h"

/* Advice for the log if the program would go on to make the file itself. */
static const char *say_update(const struct consume *c)
{
    return c->flags & NET_CONSUME_UPDATE
               ? "; it is opened for writing: if the program makes it where it is not "
                 "there, DYAD_PROBES must have it"
               : "";
}

/* Where what is looked for may be: nodes on which nobody of the session runs. */
static const char *say_where(const struct consume *c, char *to, size_t size)
{
    const char *nodes = member_session_empty_nodes(c->member);
    bool known = c->lost.since && c->lost.owner != DYAD_RANK_NONE &&
                 net_worker_peer(c->member->worker, c->lost.owner);
    bool asked = c->lost.since && dht_node_neighbour(c->member->dht, c->lost.owner,
                                                     DYAD_RANK_NONE) != DYAD_RANK_NONE;
    uint32_t missing;

    if (known && member_session_end(c->member, c->lost.owner) == MEMBER_NOT_ENDED)
        snprintf(to, size,
                 "it was published by %s, which does not answer (it may be stopped, or "
                 "beyond a cut)%s",
                 member_describe(c->member, c->lost.owner),
                 asked ? ""
                       : ", and no other process of this session there serves it: one that "
                         "is started on that node will");
    else if (asked)
        snprintf(to, size,
                 "who published it, a process on node %s, has ended; another process of "
                 "this session there is asked whether it can serve it",
                 member_node_name(c->member, c->lost.owner));
    else if (known)
        snprintf(to, size,
                 "it was published by %s, which has ended, and no process of this session "
                 "there serves it: one that is started on that node will",
                 member_describe(c->member, c->lost.owner));
    else if (c->lost.since)
        snprintf(
            to, size,
            "who published it has ended, and no process of this session serves it: one "
            "that is started on its node will%s%s",
            *nodes ? "; such files may lie on " : "", nodes);
    else if (c->here.abandoned)
        snprintf(
            to, size,
            "a file of that name lies here, left by a process that was killed while it "
            "wrote it; a whole one nobody has published");
    else if (c->member->ring &&
             (missing = unreachable_missing(c->member, false)) != DYAD_RANK_NONE)
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
        snprintf(to, size, "nobody has published it%s", say_update(c));
    return to;
}

/* Nobody is known to have written it, or to be about to. */
static bool is_unpublished(const struct consume *c)
{
    return c->state != CONSUME_FETCH && c->state != CONSUME_OWNER &&
           c->state != CONSUME_SIGHT && c->here.writer <= 0 && !c->ask_writers &&
           !c->lost.since && !c->own_turn;
}

/* `writer`: names the process that has it open elsewhere; "": none that answers. */
static void say_why(const struct consume *c, const char *writer, char *to, size_t size)
{
    uint32_t home = c->lookup ? dht_lookup_home(c->lookup) : DYAD_RANK_NONE;
    size_t used;

    if (c->state == CONSUME_FETCH) {
        snprintf(to, size, "it is being fetched");
    } else if (c->here.writer > 0) {
        snprintf(to, size, "process %d of this node has it open for writing",
                 (int)c->here.writer);
    } else if (c->ask_writers) {
        snprintf(to, size, "%s", consume_writers_say(c));
    } else if (c->state == CONSUME_SIGHT) {
        snprintf(to, size,
                 "rank %u on node %s has published it in this storage, where it is not "
                 "seen yet",
                 c->entry.owner, member_node_name(c->member, c->entry.owner));
    } else if (c->state == CONSUME_OWNER && c->lost.owner != DYAD_RANK_NONE &&
               !c->member->ring) {
        snprintf(to, size, "its owner, %s, does not serve it",
                 member_describe(c->member, c->lost.owner));
    } else if (*writer) {
        snprintf(to, size, "%s has it open for writing", writer);
    } else if (c->own_turn) {
        snprintf(to, size,
                 "it is another component's turn: the newest version is of \"%s\", which "
                 "this process is of, too (DYAD_TURNS, DYAD_COMPONENT)",
                 turns_component_name(c->member));
    } else if (c->member->ring || c->here.abandoned) {
        say_where(c, to, size);
    } else {
        snprintf(to, size, "nobody has published it (home: rank %d)",
                 home == DYAD_RANK_NONE ? -1 : (int)home);
    }
    used = strlen(to);
    if (is_unpublished(c) && !*writer && c->say.interval == CONSUME_SAY_AFTER)
        snprintf(to + used, size - used,
                 ", nor has anybody who answers it open for writing; if it may be missing, "
                 "name it in DYAD_PROBES (man 7 dyad)");
}

static void say_still(struct consume *c, const char *writer)
{
    uint64_t now = util_clock_now();
    char why[1536];

    say_why(c, writer, why, sizeof(why));
    log_warn("process %d is still waiting for \"%s\" after %llu s: %s", (int)c->pid,
             c->upath, (unsigned long long)((now - c->since) / UTIL_NSEC_PER_SEC), why);
    c->say.interval *= 2;
    net_timer_start(c->say.timer, now + c->say.interval);
}

void consume_say_still(void *arg)
{
    struct consume *c = arg;

    if (!is_unpublished(c) || consume_writers_ask(c, say_still) < 0)
        say_still(c, "");
}

void consume_say_alone(struct consume *c)
{
    char where[1024];

    if (c->say.alone)
        return;
    c->say.alone = true;
    log_warn(
        "process %d waits for \"%s\", and all others of the session wait or are at their "
        "end: only a process that is still to be started can bring it%s; %s",
        (int)c->pid, c->upath, c->timeout_ms ? " (DYAD_TIMEOUT ends the wait)" : "",
        say_where(c, where, sizeof(where)));
}

void consume_say_late(const struct consume *c)
{
    double timeout = (double)c->timeout_ms / 1000.0;

    if (c->lost.owner != DYAD_RANK_NONE)
        log_error(
            "\"%s\" could not be fetched within DYAD_TIMEOUT=%g s: its owner, %s, is gone",
            c->upath, timeout, member_describe(c->member, c->lost.owner));
    else
        log_error("\"%s\" was not published within DYAD_TIMEOUT=%g s%s%s", c->upath,
                  timeout, c->ask_writers ? ": " : "",
                  c->ask_writers       ? consume_writers_say(c)
                  : c->here.writer > 0 ? ": it is still being written on this node"
                                       : "");
}

/* --- nobody is left --- */

#define LINES_MAX  10 /* in LINES_TIME */
#define LINES_TIME (10 * UTIL_NSEC_PER_SEC)
#define SAID_MAX   256

struct consume_said {
    struct net_timer *timer; /* ends LINES_TIME */
    unsigned lines, more;
    char *last;              /* of those that `more` counts */
    uint64_t said[SAID_MAX]; /* names and reasons, as hashes */
    unsigned next;
};

static void say_more(void *arg)
{
    struct consume_said *said = arg;

    if (said->more)
        log_error(
            "nobody is left who could publish %u more files that were waited for, the "
            "last of them \"%s\"",
            said->more, said->last ? said->last : "");
    said->lines = said->more = 0;
    net_timer_stop(said->timer);
}

/* NULL: no memory. */
static struct consume_said *said_of(struct member *member)
{
    struct consume_said *said = OWN(member, consume_said);

    if (!said->timer)
        said->timer = net_timer_create(member->loop, say_more, said);
    return said->timer ? said : NULL;
}

/* True if this was logged before; from now on it counts as logged. */
static bool was_said(struct consume_said *said, const char *upath, const char *why)
{
    uint64_t hash =
        XXH3_64bits_withSeed(why, strlen(why), XXH3_64bits(upath, strlen(upath)));

    for (unsigned i = 0; i < SAID_MAX; i++) {
        if (said->said[i] == hash)
            return true;
    }
    said->said[said->next] = hash;
    said->next = (said->next + 1) % SAID_MAX;
    return false;
}

void consume_say_nobody(struct consume *c, const char *why)
{
    struct consume_said *said = said_of(c->member);

    if (said && was_said(said, c->upath, why))
        return;
    if (said && said->lines == 0)
        net_timer_start(said->timer, util_clock_now() + LINES_TIME);
    if (!said || said->lines++ < LINES_MAX) {
        log_error("\"%s\": %s", c->upath, why);
        return;
    }
    said->more++;
    free(said->last);
    said->last = strdup(c->upath);
}

static void said_destroy(struct member *member)
{
    struct consume_said *said = OWN(member, consume_said);

    if (!said->timer)
        return;
    say_more(said);
    net_timer_destroy(said->timer);
    free(said->last);
}

const struct member_module consume_said_module = {
    .own = MODULE_OWN(consume_said),
    .destroy = said_destroy,
};
