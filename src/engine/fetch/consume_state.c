/*
 * consume_state.c - a wait and its states: what it has in one ends with it
 *
 * And how the wait ends. consume.c says when it goes from which state to which.
 */
#include <stdlib.h>
#include <utlist.h>

#include "engine/fetch/bring.h"
#include "engine/fetch/consume_impl.h"
#include "engine/fetch/consume_probe.h"
#include "engine/membership/exit_barrier.h"

void consume_enter(struct consume *c, enum consume_state state)
{
    if (c->lookup)
        dht_node_cancel(c->member->dht, c->lookup);
    c->lookup = NULL;
    if (c->ancestor)
        ancestor_stop(c->ancestor);
    c->ancestor = NULL;
    if (c->ask_writers)
        dht_node_ask_writers_cancel(c->member->dht, c->ask_writers);
    c->ask_writers = NULL;
    if (c->link)
        consume_cancel(c->link);
    c->link = NULL;
    if (c->bring)
        bring_cancel(c->bring);
    c->bring = NULL;
    c->stale = c->published = false;
    transfer_leave(&c->transfer); /* if it has not ended */
    if (c->again)
        net_timer_stop(c->again);
    c->state = state;
}

bool consume_is_waiting(const struct consume *c)
{
    bool waits = false;

    switch (c->state) {
    case CONSUME_LOOK_UP:
        waits = true;
        break;
    case CONSUME_WRITERS:
    case CONSUME_LAST_LOOK:
        waits =
            !(c->flags & CONSUME_BACKGROUND) &&
            (!c->ask_writers || dht_writing_ask_writer(c->ask_writers) != DYAD_RANK_NONE);
        break;
    case CONSUME_OWNER: /* and for longer than a server on its node needs */
        waits = c->member->ring && c->lost.interval >= CONSUME_LOOK_AGAIN;
        break;
    default:
        break;
    }
    return waits && (c->flags & NET_LOOKUP_WAIT) && !consume_watch_ending(c);
}

/* --- the end --- */

/* The look-ups of a wave are counted (struct waits). One that is dropped belongs to a
 * wait that ended, which exit_barrier_activity() reports to the barrier: so this rank
 * does not count as quiet, whatever is answered then. */
void consume_check_drop(struct consume *c)
{
    if (c->wave.writers_check) {
        dht_node_ask_writers_cancel(c->member->dht, c->wave.writers_check);
        c->wave.writers_check = NULL;
        OWN(c->member, waits)->checks--;
    }
    if (c->wave.expected) {
        consume_probe_cancel(c->wave.expected);
        c->wave.expected = NULL;
        OWN(c->member, waits)->checks--;
    }
    if (!c->wave.check)
        return;
    dht_node_cancel(c->member->dht, c->wave.check);
    c->wave.check = NULL;
    OWN(c->member, waits)->checks--;
}

void consume_invalidate(struct member *member, const struct dyad_entry *newer)
{
    struct consume *c;

    DL_FOREACH(member->consumes, c)
    {
        if (c->bring && strcmp(c->upath, newer->upath) == 0 &&
            dyad_version_cmp(&c->entry.version, &newer->version) < 0)
            c->stale = true;
    }
}

void consume_free(struct consume *c)
{
    DL_DELETE(c->member->consumes, c);
    consume_enter(c, CONSUME_HERE);
    consume_check_drop(c);
    consume_watch_leave(c);
    consume_writers_stop(c);
    net_timer_destroy(c->deadline.timer);
    net_timer_destroy(c->say.timer);
    net_timer_destroy(c->again);
    free(c->transfer.bytes);
    free(c->upath);
    free(c);
}

void consume_cancel(struct consume *c)
{
    struct member *member = c->member;

    consume_free(c);
    exit_barrier_activity(member);
}

void consume_end(struct consume *c, int status)
{
    consume_fn fn = c->fn;
    void *arg = c->arg;

    if (status == EUCLEAN && c->ahead)
        *c->ahead = c->transfer.version;
    consume_cancel(c);
    fn(arg, status);
}

void consume_set_ahead(struct consume *c, struct dyad_version *ahead)
{
    c->ahead = ahead;
}

bool consume_is_fetching(const struct member *member)
{
    const struct consume *c;

    DL_FOREACH(member->consumes, c)
    {
        if (c->pid != 0 && (c->state == CONSUME_PARENTS || c->state == CONSUME_FETCH))
            return true;
    }
    return false;
}

void consume_foreach(struct member *member,
                     void (*fn)(const struct consume_info *info, void *arg), void *arg)
{
    struct consume *c;

    DL_FOREACH(member->consumes, c)
    {
        struct consume_info info = {
            .upath = c->upath,
            .pid = c->pid,
            .since = c->since,
            .home = c->lookup ? dht_lookup_home(c->lookup) : DYAD_RANK_NONE,
            .timeout_ms = c->timeout_ms,
            .writer = c->here.writer,
        };
        fn(&info, arg);
    }
}
