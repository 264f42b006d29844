/*
 * startup_validation.c - no copy is opened before it has been compared with the table
 *
 * While no member lived here (or a rank of the node was in exec, or killed) newer
 * versions may have been published, for which no INVALIDATE came. The validation is what
 * takeover.c does when a member has joined: the journals of dead ranks are taken over,
 * and each copy, of theirs or of an earlier member of this rank, is compared with its
 * homes. A copy that is out of date is removed. As long as that is not over the rank's
 * processes ask before they open a complete file (client_look.c), and are held here
 * (startup_validation_wait()).
 *
 * What could go wrong: another member has taken the journal, and is not through with it
 * (is_decided()); the homes cannot be reached (begin()).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "boot/member_claim.h"
#include "engine/coherence/invalidate.h"
#include "engine/coherence/unknown_version.h"
#include "engine/core/member_impl.h"
#include "engine/core/module.h"
#include "engine/recovery/startup_validation.h"
#include "engine/recovery/takeover.h"
#include "store/looked.h"
#include "util/log.h"

#define OTHERS_AGAIN (20 * UTIL_NSEC_PER_MSEC)

struct startup_validation {
    struct member *member;
    bool read; /* the journals have been */
    uint64_t until;
    bool over;
    struct net_timer *timer;
    struct startup_validation_wait *waits;
};

static const struct member_dmd *consumer_dmd(const struct startup_validation *look)
{
    return &look->member->dmd[ENGINE_CONSUMER];
}

/* True if this one file (upath NULL: each) is decided: the journals have been read, its
 * own comparison is done, and a file that had to go is gone.
 *
 * Another member of the node may have been quicker to take a dead rank's journal: then
 * our own look finds nothing, and the copies wait for its comparisons. So our look is
 * over when no other of our session is in the midst of its own (OTHERS_AGAIN: there is no
 * event that tells, and it is rare); nobody waits for those who wait only for others
 * (STORE_LOOKED_OWN). If that other member is killed, takeover.c sees its death and looks
 * again; the look begins before the dead member's line is free, or a moment later, and
 * only that look is ours to wait for then. */
static bool is_decided(const struct startup_validation *look, const char *upath)
{
    struct member *member = look->member;

    return look->over ||
           (look->read && !takeover_undecided(member, upath) &&
            !invalidate_pending(member, upath) &&
            !(consumer_dmd(look)->marks &&
              store_looked_others(consumer_dmd(look)->marks, look->member->line)));
}

static void set_timer(struct startup_validation *look, uint64_t now)
{
    uint64_t when = look->over ? UINT64_MAX : look->until;
    struct startup_validation_wait *wait;

    DL_FOREACH(look->waits, wait)
    {
        if (wait->until && wait->until < when)
            when = wait->until;
    }
    if (!look->over && look->read && !takeover_undecided(look->member, NULL) &&
        now + OTHERS_AGAIN < when)
        when = now + OTHERS_AGAIN;
    if (when == UINT64_MAX)
        net_timer_stop(look->timer);
    else
        net_timer_start(look->timer, when);
}

static void waits_look(struct startup_validation *look, uint64_t now)
{
    struct startup_validation_wait *wait, *tmp, *ended = NULL;

    /* fn may begin another wait. */
    DL_FOREACH_SAFE(look->waits, wait, tmp)
    {
        bool decided = is_decided(look, wait->upath);
        if (!decided && (!wait->until || now < wait->until))
            continue;
        DL_DELETE(look->waits, wait);
        wait->error = decided ? 0 : ETIMEDOUT;
        DL_APPEND(ended, wait);
    }
    DL_FOREACH_SAFE(ended, wait, tmp)
    {
        wait->fn(wait->arg, wait->error);
    }
}

/* When all files are decided the rank's processes are told by the line in the table of
 * the marks (store/looked.h), and ask no more. */
void startup_validation_step(struct member *member)
{
    struct startup_validation *look = OWN(member, startup_validation);
    uint64_t now = util_clock_now();

    if (!look->timer || member->state == MEMBER_LEAVING)
        return;
    if (!takeover_looking(member))
        look->read = true;
    if (!look->over && (look->read || now >= look->until)) {
        bool own_over =
            !takeover_undecided(member, NULL) && !invalidate_pending(member, NULL);
        if (consumer_dmd(look)->marks)
            store_looked_set(consumer_dmd(look)->marks, look->member->line,
                             own_over ? STORE_LOOKED_OWN : STORE_LOOKING);
        if (!is_decided(look, NULL) && now >= look->until)
            log_warn(
                "whether all copies of files on this node are up to date nobody can say "
                "yet: their homes cannot be reached");
        else if (!is_decided(look, NULL))
            goto wait;
        look->over = true;
        if (consumer_dmd(look)->marks)
            store_looked_set(consumer_dmd(look)->marks, look->member->line, STORE_LOOKED);
    }
wait:
    if (look->waits)
        waits_look(look, now);
    set_timer(look, now);
}

void startup_validation_read(struct member *member)
{
    OWN(member, startup_validation)->read = true;
}

static void look_again(void *arg)
{
    startup_validation_step(arg);
}

/* We are about to look at what was left on this node. That is bounded from its beginning,
 * whatever it waits for: if homes cannot be reached, by what an open may take to find
 * that out (DYAD_JOIN_TIMEOUT) beside what a name takes that they do not know. Then
 * copies are as good as those beyond a cut. */
static void begin(struct member *member)
{
    struct startup_validation *look = OWN(member, startup_validation);

    if (!(look->timer = net_timer_create(member->loop, look_again, member))) {
        log_error("cannot look at what was left on this node: %s", strerror(ENOMEM));
        return;
    }
    look->member = member;
    look->until = util_clock_now() + seconds_ns(member->config->join_timeout) +
                  seconds_ns(UNKNOWN_VERSION_BOUND);
}

void startup_validation_wait(struct member *member, struct startup_validation_wait *wait,
                             const char *upath, uint64_t timeout_ms,
                             void (*fn)(void *arg, int error), void *arg)
{
    struct startup_validation *look = OWN(member, startup_validation);
    uint64_t now;

    if (!look->timer || is_decided(look, upath)) {
        fn(arg, 0);
        return;
    }
    now = util_clock_now();
    *wait = (struct startup_validation_wait){
        .upath = upath,
        .until = timeout_ms ? now + timeout_ms * UTIL_NSEC_PER_MSEC : 0,
        .fn = fn,
        .arg = arg,
    };
    DL_APPEND(look->waits, wait);
    takeover_hurry(member, upath);
    set_timer(look, now);
}

bool startup_validation_must_tell(const struct member *member)
{
    return OWN(member, startup_validation)->over && member->line < 0;
}

static void resumed(struct member *member, uint64_t ns)
{
    struct startup_validation *look = OWN(member, startup_validation);
    struct startup_validation_wait *wait;

    if (!look->timer || look->over)
        return;
    look->until += ns;
    DL_FOREACH(look->waits, wait)
    {
        if (wait->until)
            wait->until += ns;
    }
    set_timer(look, util_clock_now());
}

static void startup_validation_end(struct member *member)
{
    struct startup_validation *look = OWN(member, startup_validation);
    struct startup_validation_wait *wait, *tmp, *waits;

    if (!look->timer)
        return;
    waits = look->waits;
    look->waits = NULL;
    look->over = true;
    DL_FOREACH_SAFE(waits, wait, tmp)
    {
        wait->fn(wait->arg, ESHUTDOWN);
    }
    net_timer_destroy(look->timer);
    *look = (struct startup_validation){0};
}

const struct member_module startup_validation_module = {
    .own = MODULE_OWN(startup_validation),
    .joined = begin,
    .invalidated = startup_validation_step,
    .resumed = resumed,
    .shut = startup_validation_end,
};
