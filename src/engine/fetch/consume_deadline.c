/*
 * consume_deadline.c - DYAD_TIMEOUT of a wait
 *
 * A process that was stopped has not waited in that time, and what has come for it
 * meanwhile may lie unread.
 */
#include "engine/fetch/consume_impl.h"

void consume_deadline_start(struct consume *c)
{
    if (c->timeout_ms)
        net_timer_start(c->deadline.timer, c->since + c->timeout_ms * UTIL_NSEC_PER_MSEC);
}

bool consume_deadline_is_over(struct consume *c)
{
    uint64_t now = util_clock_now();
    uint64_t due = c->since + c->timeout_ms * UTIL_NSEC_PER_MSEC + c->member->still -
                   c->deadline.still;
    uint64_t patience =
        (uint64_t)(c->member->config->peer_timeout * (double)UTIL_NSEC_PER_SEC);

    if (c->deadline.late)
        return true;
    if (due < c->deadline.put_off)
        due = c->deadline.put_off;
    if (now > due + patience / 2) /* stopped just now, and not for long */
        due = c->deadline.put_off = now + patience;
    if (now < due) {
        net_timer_start(c->deadline.timer, due);
        return false;
    }
    return c->deadline.late = true;
}
