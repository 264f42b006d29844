/*
 * journal_retry.c - retrying to write a journal until it has all records
 *
 * The disk was full, or a limit on the process stopped the write. The homes and this
 * process know the files that were published then, but a member that takes our files
 * over, should we be killed, does not (the event `wanted` is for that). Files that were
 * removed then it finds recorded; and a journal without its label is not taken over at
 * all. No event says that there is room again, so for as long as a record is missing a
 * timer tries: a write of a few hundred bytes, mostly.
 */
#include <stdlib.h>

#include "engine/core/member_impl.h"
#include "engine/core/module.h"
#include "engine/publish/journal_retry.h"
#include "util/log.h"

#define PAUSE     (25 * UTIL_NSEC_PER_MSEC)
#define PAUSE_MAX (250 * UTIL_NSEC_PER_MSEC)

struct journal_retry {
    struct member *member;
    struct net_timer *timer; /* runs if a journal lacks something */
    uint64_t pause;
};

static void try_again(void *arg)
{
    struct journal_retry *up = arg;
    struct member *member = up->member;
    bool has_all = true;

    for (int s = 0; s < 2; s++)
        if (member->dmd[s].journal && !store_journal_catch_up(member->dmd[s].journal))
            has_all = false;
    if (has_all) {
        log_info("this node's record of what this rank has can be written again");
        return;
    }
    up->pause = 2 * up->pause < PAUSE_MAX ? 2 * up->pause : PAUSE_MAX;
    net_timer_start(up->timer, util_clock_now() + up->pause);
}

static void fell_behind(void *arg)
{
    struct journal_retry *up = arg;

    up->pause = PAUSE;
    net_timer_start(up->timer, util_clock_now() + up->pause);
}

static int journal_retry_start(struct member *member)
{
    struct journal_retry *up = OWN(member, journal_retry);

    if (!(up->timer = net_timer_create(member->loop, try_again, up)))
        return -1;
    up->member = member;
    for (int s = 0; s < 2; s++)
        if (member->dmd[s].journal)
            store_journal_on_behind(member->dmd[s].journal, fell_behind, up);
    return 0;
}

/* The last chance: a next launch, or the next image, reads what is there. */
void journal_retry_stop(struct member *member)
{
    struct journal_retry *up = OWN(member, journal_retry);

    if (!up->timer)
        return;
    for (int s = 0; s < 2; s++) {
        struct store_journal *journal = member->dmd[s].journal;
        if (!journal)
            continue;
        store_journal_on_behind(journal, NULL, NULL);
        store_journal_catch_up(journal);
    }
    net_timer_destroy(up->timer);
}

const struct member_module journal_retry_module = {
    .own = MODULE_OWN(journal_retry),
    .start = journal_retry_start,
};
