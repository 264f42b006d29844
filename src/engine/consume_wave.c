/*
 * consume_wave.c - the waits of a rank, as the barrier judges them (linger.c, boot/wave.h)
 *
 * A rank whose processes are all blocked in waits will publish nothing, so it is quiet.
 * When a wave asks it once more, each wait is looked up anew at all homes, beside the
 * look-up that waits: a notify, or an answer to that one, may be under way still. And when
 * the verdict is that nobody is left, a wait ends only after one more look that does not
 * wait.
 */
#include <errno.h>
#include <utlist.h>

#include "boot/procs.h"
#include "engine/consume_impl.h"
#include "engine/member_impl.h"
#include "util/log.h"

bool consume_is_waiting(const struct consume *c)
{
    return !c->posted && !c->transferring && !c->bring && (c->flags & NET_LOOKUP_WAIT) &&
           (c->lookup || (c->lost_waiting && !c->awaits_sight && c->member->ring) ||
            (c->settle && dht_settle_writer(c->settle) != DYAD_RANK_NONE)) &&
           !consume_watch_ending(c);
}

size_t consume_blocked(struct member *member, struct boot_blocked *blocked, size_t max)
{
    struct consume *c;
    size_t n = 0;

    DL_FOREACH(member->consumes, c)
    {
        if (!consume_is_waiting(c))
            continue;
        if (n < max)
            blocked[n] = (struct boot_blocked){.pid = c->pid, .tid = c->tid};
        n++;
    }
    return n;
}

bool consume_all_blocked(struct member *member)
{
    struct consume *c;

    DL_FOREACH(member->consumes, c)
    {
        if (!consume_is_waiting(c))
            return false;
    }
    return true;
}

/* The look-ups of a wave are counted in member->checks. One that is dropped belongs to a
 * wait that ended, which the barrier is told by linger_activity(): whatever is answered
 * then, it is not quiet. */
void consume_check_drop(struct consume *c)
{
    if (c->settle_check) {
        dht_node_settle_cancel(c->member->dht, c->settle_check);
        c->settle_check = NULL;
        c->member->checks--;
    }
    if (!c->check)
        return;
    dht_node_cancel(c->member->dht, c->check);
    c->check = NULL;
    c->member->checks--;
}

/* A newer version; or, where the one that was found has lost its owner, another owner of
 * it: who has taken it over may be about to leave. */
static bool is_news(const struct consume *c, const struct dyad_entry *entry)
{
    int cmp = dyad_version_cmp(&entry->version, &c->seen);

    return cmp > 0 || (cmp == 0 && c->lost_waiting && entry->owner != c->lost_owner &&
                       dht_node_is_live(c->member->dht, entry->owner));
}

/* Its owner was lost, but is here again (after exec), or may yet be: this wait goes on by
 * itself, and that owner must not leave for its being quiet. */
static bool owner_returns(const struct consume *c, const struct dyad_entry *entry)
{
    return dht_node_is_live(c->member->dht, entry->owner) ||
           lost_may_return(c->member, entry->owner);
}

/* What is waited for was found, and its owner is lost: nothing new. */
static bool is_lost_one(const struct consume *c, int status, const struct dyad_entry *entry)
{
    return status == 0 && consume_is_waiting(c) && c->lost_waiting &&
           dyad_version_cmp(&entry->version, &c->seen) == 0;
}

static void checked(void *arg, int status, const struct dyad_entry *entry)
{
    struct consume *c = arg;
    struct member *member = c->member;

    c->check = NULL;
    member->checks--;
    if (status == 0 && consume_is_waiting(c) && is_news(c, entry)) {
        if (c->lookup)
            dht_node_cancel(member->dht, c->lookup);
        if (c->lost_waiting) { /* as consume_lost_look() */
            c->lost_waiting = false;
            c->lost_version = c->seen;
            c->seen = c->before_lost;
        }
        net_timer_stop(c->lost);
        consume_looked_up(c, 0, entry); /* raises the activity */
        return;
    }
    if (is_lost_one(c, status, entry)) {
        if (owner_returns(c, entry))
            linger_activity(member);
    } else if (status != ENOENT && /* not known, unless that has lasted for too long */
               !(status == EHOSTUNREACH && lost_missing(member, true) != DYAD_RANK_NONE))
        linger_activity(member);
    if (member->checks == 0)
        boot_wave_confirmed(member->wave, member->checking);
}

static void settle_checked(void *arg, int status, uint32_t by,
                           const struct dyad_version *version)
{
    struct consume *c = arg;
    struct member *member = c->member;

    (void)by;
    (void)version;
    c->settle_check = NULL;
    member->checks--;
    if (status != EBUSY) /* the news is on its way, or not known */
        linger_activity(member);
    if (member->checks == 0)
        boot_wave_confirmed(member->wave, member->checking);
}

bool consume_confirm(struct member *member, uint64_t number)
{
    struct consume *c;

    member->checking = number;
    DL_FOREACH(member->consumes, c)
    {
        consume_check_drop(c); /* of an earlier wave */
        if (!consume_is_waiting(c))
            continue;
        if (c->ancestor)
            ancestor_check(c->ancestor);
        if (c->settle) {
            c->settle_check =
                dht_node_settle(member->dht, c->upath, false, settle_checked, c);
            if (c->settle_check)
                member->checks++;
            else
                linger_activity(member);
            continue;
        }
        c->check =
            dht_node_lookup(member->dht, c->upath, 0,
                            c->lost_waiting ? &c->before_lost : &c->seen, checked, c);
        if (c->check)
            member->checks++;
        else
            linger_activity(member); /* no memory: busy */
    }
    return member->checks > 0;
}

/* --- the verdict --- */

/* The last look was in vain. `status`: of it. */
static void nobody_left(struct consume *c, int status)
{
    uint32_t missing = lost_missing(c->member, false);

    if (missing != DYAD_RANK_NONE) {
        log_error(
            "\"%s\": nobody who can be reached could publish it; %s cannot be reached",
            c->upath, member_describe(c->member, missing));
        consume_end(c, EHOSTUNREACH);
        return;
    }
    if (c->away) {
        log_error(
            "\"%s\": nobody who can be reached could publish it; another rank misses "
            "one that cannot be reached",
            c->upath);
        consume_end(c, EHOSTUNREACH);
        return;
    }
    if (status == EHOSTUNREACH) {
        log_error(
            "\"%s\": nobody is left who could publish it or say whether it is published",
            c->upath);
        consume_end(c, EHOSTUNREACH);
        return;
    }
    log_error(
        "\"%s\": nobody is left who could publish it: all processes of the job have ended "
        "or "
        "wait for files themselves%s",
        c->upath,
        boot_wave_script(c->member->wave)
            ? ". A rank's script that runs outside of dyad-run counts as ended when the "
              "first dyad-run in it has: start the script itself with dyad-run"
            : "");
    consume_end(c, ENOENT);
}

static void settle_confirmed(void *arg, int status, uint32_t by,
                             const struct dyad_version *version)
{
    struct consume *c = arg;

    c->failing = false;
    if (status == 0) {
        consume_settled(arg, status, by, version);
        return;
    }
    c->settle = NULL;
    nobody_left(c, status);
}

/* The last look before a wait is given up. */
static void confirmed(void *arg, int status, const struct dyad_entry *entry)
{
    struct consume *c = arg;

    c->failing = false;
    if (status == 0 && dyad_version_cmp(&entry->version, &c->seen) > 0) {
        consume_looked_up(c, 0, entry);
        return;
    }
    c->lookup = NULL;
    nobody_left(c, status);
}

void consume_fail_waiting(struct member *member, bool away)
{
    struct consume *c, *tmp;

    DL_FOREACH_SAFE(member->consumes, c, tmp)
    {
        /* Told again while the last look is under way: it goes on, with its own bound. */
        if (!consume_is_waiting(c) || (c->failing && (c->lookup || c->settle)))
            continue;
        c->failing = true;
        c->away = away;
        if (c->settle) {
            dht_node_settle_cancel(member->dht, c->settle);
            c->settle = dht_node_settle(member->dht, c->upath, false, settle_confirmed, c);
            if (!c->settle)
                consume_end(c, ENOMEM);
            continue;
        }
        if (c->lookup)
            dht_node_cancel(member->dht, c->lookup);
        c->lookup =
            dht_node_lookup(member->dht, c->upath, NET_LOOKUP_COPY, &c->seen, confirmed, c);
        if (!c->lookup)
            consume_end(c, ENOMEM);
    }
}
