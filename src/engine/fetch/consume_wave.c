/*
 * consume_wave.c - the waits of a rank, as the barrier judges them (exit_barrier.c,
 * boot/wave.h)
 *
 * A rank whose processes are all blocked in waits will publish nothing, so it is quiet.
 * When a wave asks it once more, each wait is looked up anew at all homes
 * (consume_confirm()). When the verdict is that nobody is left, waits are chosen to end
 * (consume_fail_chosen()), and each ends only after one more look that does not wait
 * (LAST_LOOK: fail()). docs/engine.md, "Termination detection".
 *
 * What could go wrong: a notify is still under way (consume_confirm()); one of those that
 * wait would write what the others wait for, so not all may be ended
 * (consume_candidate()).
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <utlist.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "boot/procs.h"
#include "config/probes.h"
#include "engine/core/member_impl.h"
#include "engine/core/module.h"
#include "engine/fetch/consume_impl.h"
#include "engine/fetch/consume_probe.h"
#include "engine/membership/exit_barrier.h"
#include "engine/membership/unreachable.h"
#include "util/clock.h"
#include "util/log.h"

/* Of so many waits of a rank, the youngest, it is found out whether they are expected. */
#define EXPECTED_MAX 8
#define KIND_SHIFT   60

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

/* True if the entry is newer than the known one, or names a new owner of the version
 * whose owner was lost: a rank that has taken it over may be about to leave. */
static bool is_news(const struct consume *c, const struct dyad_entry *entry)
{
    int cmp = dyad_version_cmp(&entry->version, &c->lost.version);

    if (dyad_version_cmp(&entry->version, &c->seen) <= 0)
        return false;
    if (c->state == CONSUME_LOOK_UP || cmp > 0)
        return true;
    return cmp == 0 && dht_node_is_live(c->member->dht, entry->owner) &&
           (entry->owner != c->lost.owner || c->state == CONSUME_LAST_LOOK);
}

/* Its owner was lost, but is here again (after exec), or may yet be: this wait goes on by
 * itself, and that owner must not leave for its being quiet. */
static bool owner_returns(const struct consume *c, const struct dyad_entry *entry)
{
    return dht_node_is_live(c->member->dht, entry->owner) ||
           unreachable_may_return(c->member, entry->owner);
}

/* True if the answer is only the version whose owner is lost, which is nothing new. */
static bool is_lost_one(const struct consume *c, int status, const struct dyad_entry *entry)
{
    return status == 0 && c->state == CONSUME_OWNER && consume_is_waiting(c) &&
           dyad_version_cmp(&entry->version, &c->lost.version) == 0;
}

static void checked(void *arg, int status, const struct dyad_entry *entry)
{
    struct consume *c = arg;
    struct member *member = c->member;
    struct dht_lookup *lookup = c->wave.check;

    c->wave.check = NULL;
    OWN(member, waits)->checks--;
    if (status == 0 && consume_is_waiting(c) && is_news(c, entry)) {
        consume_found(c, entry, dht_lookup_take_bytes(lookup)); /* raises the activity */
        return;
    }
    if (is_lost_one(c, status, entry)) {
        if (owner_returns(c, entry))
            exit_barrier_activity(member);
    } else if (status != ENOENT && /* not known, unless that has lasted for too long */
               !(status == EHOSTUNREACH &&
                 unreachable_missing(member, true) != DYAD_RANK_NONE))
        exit_barrier_activity(member);
    if (OWN(member, waits)->checks == 0)
        boot_wave_confirmed(member->wave, OWN(member, waits)->checking);
}

static void writers_checked(void *arg, int status, uint32_t by,
                            const struct dyad_version *version)
{
    struct consume *c = arg;
    struct member *member = c->member;

    (void)by;
    (void)version;
    c->wave.writers_check = NULL;
    OWN(member, waits)->checks--;
    if (status != EBUSY) /* the news is on its way, or not known */
        exit_barrier_activity(member);
    if (OWN(member, waits)->checks == 0)
        boot_wave_confirmed(member->wave, OWN(member, waits)->checking);
}

/* --- which wait would be ended --- */

static void is_expected(void *arg, unsigned says)
{
    struct consume *c = arg;
    struct member *member = c->member;

    c->wave.expected = NULL;
    OWN(member, waits)->checks--;
    if (says & (CONSUME_SAYS_WRITTEN | CONSUME_SAYS_SERIES | CONSUME_SAYS_OWN_SERIES))
        c->wave.kind = CONSUME_EXPECTED;
    else
        c->wave.kind = says & CONSUME_SAYS_FAILED ? CONSUME_FAILED : CONSUME_OTHER;
    if (OWN(member, waits)->checks == 0)
        boot_wave_confirmed(member->wave, OWN(member, waits)->checking);
}

static bool looks_like_probe(const struct consume *c)
{
    struct probes_asker asker = {
        .pid = c->pid, .dmd = store_dir_path(c->member->dmd[ENGINE_CONSUMER].dir)};

    return probes_glob(c->member->config->probes, c->upath) ||
           probes_look_like(&asker, c->upath);
}

/* For the youngest first; asks every rank. */
static void find_kinds(struct member *member)
{
    struct consume *first = member->consumes, *c = first ? first->prev : NULL;
    unsigned asked = 0;

    for (; c; c = c == first ? NULL : c->prev) {
        if (!consume_is_waiting(c) || c->wave.kind == CONSUME_PROBE)
            continue;
        if (c->wave.kind == CONSUME_NEW && looks_like_probe(c)) {
            c->wave.kind = CONSUME_PROBE;
            continue;
        }
        c->wave.kind =
            c->here.writer > 0 || c->ask_writers ? CONSUME_EXPECTED : CONSUME_OTHER;
        if (c->wave.kind == CONSUME_EXPECTED || asked++ >= EXPECTED_MAX)
            continue;
        c->wave.expected = consume_probe_start(member, c->upath, 0, is_expected, c);
        if (c->wave.expected)
            OWN(member, waits)->checks++;
    }
}

static uint64_t number_of(const struct consume *c, uint64_t now)
{
    uint64_t age = (now - c->since) / 1000;

    return (uint64_t)c->wave.kind << KIND_SHIFT | age;
}

static uint64_t name_of(const struct consume *c)
{
    return XXH3_64bits(c->upath, strlen(c->upath));
}

/* Who goes on without what it waited for may write what others wait for. So a verdict
 * ends all waits of the job that look like probes; if there are none, those that are like
 * one that has ended so; and else those for one single name; then the rest is judged
 * anew. That name is, if possible, not one of what a rank could still write that waits
 * itself (a series goes on, or a file is open), and of those the one whose wait began
 * last: the job has stood still since. Each rank offers its own best wait as a number
 * (kind and age), and the wave takes the lowest. */
uint64_t consume_candidate(struct member *member, uint64_t *name)
{
    uint64_t now = util_clock_now(), lowest = BOOT_WAVE_NONE;
    struct consume *c;

    DL_FOREACH(member->consumes, c)
    {
        uint64_t number = consume_is_waiting(c) ? number_of(c, now) : BOOT_WAVE_NONE;
        if (number < lowest) {
            lowest = number;
            *name = name_of(c);
        }
    }
    return lowest;
}

/* Each wait is looked up anew, beside the look-up that waits: a notify, or an answer to
 * that one, may be under way still. What it finds is fetched, so the homes are to know of
 * the copy. */
bool consume_confirm(struct member *member, uint64_t number)
{
    struct consume *c;

    OWN(member, waits)->checking = number;
    DL_FOREACH(member->consumes, c)
    {
        consume_check_drop(c); /* of an earlier wave */
        if (!consume_is_waiting(c))
            continue;
        if (c->ancestor)
            ancestor_check(c->ancestor);
        if (c->ask_writers) {
            c->wave.writers_check =
                dht_node_ask_writers(member->dht, c->upath, false, writers_checked, c);
            if (c->wave.writers_check)
                OWN(member, waits)->checks++;
            else
                exit_barrier_activity(member);
            continue;
        }
        c->wave.check =
            dht_node_lookup(member->dht, c->upath, NET_LOOKUP_COPY, &c->seen, checked, c);
        if (c->wave.check)
            OWN(member, waits)->checks++;
        else
            exit_barrier_activity(member); /* no memory: busy */
    }
    if (!member->ring)
        find_kinds(member);
    return OWN(member, waits)->checks > 0;
}

/* --- the verdict --- */

/* Why this one, of all that wait. */
static const char *chosen_because(const struct consume *c)
{
    if (!c->last.by_choice)
        return "";
    switch (c->wave.kind) {
    case CONSUME_PROBE:
        return " (waits for what a program can do without end first)";
    case CONSUME_FAILED:
        return " (a wait for one like it has ended so already)";
    case CONSUME_EXPECTED:
        return " (of the waits that are left it began last, and all are for what a rank "
               "that waits itself could still write)";
    default:
        return " (of the waits of the job it began last; the others are judged anew)";
    }
}

/* The last look was in vain. `status`: of it. */
static void nobody_left(struct consume *c, int status)
{
    uint32_t missing = unreachable_missing(c->member, false);
    char why[1024];

    if (missing != DYAD_RANK_NONE)
        snprintf(why, sizeof(why),
                 "nobody who can be reached could publish it; %s cannot be reached",
                 member_describe(c->member, missing));
    else if (c->last.away)
        snprintf(why, sizeof(why),
                 "nobody who can be reached could publish it; another rank misses one that "
                 "cannot be reached");
    else if (status == EHOSTUNREACH)
        snprintf(why, sizeof(why),
                 "nobody is left who could publish it or say whether it is published");
    else
        snprintf(why, sizeof(why),
                 "nobody is left who could publish it: all processes of the job have ended "
                 "or wait for files themselves%s%s",
                 chosen_because(c),
                 boot_wave_script(c->member->wave)
                     ? ". A rank's script that runs outside of dyad-run counts as ended "
                       "when the first dyad-run in it has: start the script itself with "
                       "dyad-run"
                     : "");
    consume_say_nobody(c, why);
    consume_failed_note(c->member, c->upath);
    consume_end(c, missing != DYAD_RANK_NONE || c->last.away || status == EHOSTUNREACH
                       ? EHOSTUNREACH
                       : ENOENT);
}

static void writers_confirmed(void *arg, int status, uint32_t by,
                              const struct dyad_version *version)
{
    struct consume *c = arg;

    (void)by;
    (void)version;
    c->ask_writers = NULL;
    if (status)
        nobody_left(c, status);
    else if ((!c->here.pending && !consume_may_be_newer(c)) || !consume_look_for_newer(c))
        consume_end(c, 0);
}

/* The last look before a wait is given up. */
static void confirmed(void *arg, int status, const struct dyad_entry *entry)
{
    struct consume *c = arg;
    struct dht_lookup *lookup = c->lookup;

    c->lookup = NULL;
    if (status == 0 && is_news(c, entry))
        consume_found(c, entry, dht_lookup_take_bytes(lookup));
    else
        nobody_left(c, status);
}

static void fail(struct consume *c, bool away, bool by_choice)
{
    struct member *member = c->member;
    bool asks_writers = c->state == CONSUME_WRITERS;

    /* Told again while the last look is under way: it goes on, with its own bound. */
    if (c->state == CONSUME_LAST_LOOK)
        return;
    exit_barrier_activity(member); /* until that is over this rank is not quiet */
    consume_enter(c, CONSUME_LAST_LOOK);
    c->last.away = away;
    c->last.by_choice = by_choice;
    if (asks_writers)
        c->ask_writers =
            dht_node_ask_writers(member->dht, c->upath, false, writers_confirmed, c);
    else
        c->lookup =
            dht_node_lookup(member->dht, c->upath, NET_LOOKUP_COPY, &c->seen, confirmed, c);
    if (!c->ask_writers && !c->lookup)
        consume_end(c, ENOMEM);
}

void consume_fail_waiting(struct member *member, bool away)
{
    struct consume *c, *tmp;

    DL_FOREACH_SAFE(member->consumes, c, tmp)
    {
        if (consume_is_waiting(c))
            fail(c, away, false);
    }
}

void consume_fail_chosen(struct member *member, bool away)
{
    struct consume *c, *tmp;
    uint64_t number, name, kind;

    if (away) { /* who is missing may be the one that was to write any of them */
        consume_fail_waiting(member, away);
        return;
    }
    if (!boot_wave_chosen(member->wave, &number, &name))
        return;
    kind = number >> KIND_SHIFT;
    DL_FOREACH_SAFE(member->consumes, c, tmp)
    {
        if (consume_is_waiting(c) &&
            (kind <= CONSUME_FAILED ? c->wave.kind == kind : name_of(c) == name))
            fail(c, away, true);
    }
}

bool consume_is_failing(struct member *member)
{
    const struct consume *c;

    DL_FOREACH(member->consumes, c)
    {
        if (c->state == CONSUME_LAST_LOOK)
            return true;
    }
    return false;
}

void consume_say_waiting(struct member *member)
{
    struct consume *c;

    DL_FOREACH(member->consumes, c)
    {
        if (consume_is_waiting(c))
            consume_say_alone(c);
    }
}

static int waits_start(struct member *member)
{
    static const struct member_waits waits = {
        .blocked = consume_blocked,
        .all_blocked = consume_all_blocked,
        .confirm = consume_confirm,
        .candidate = consume_candidate,
        .fail_chosen = consume_fail_chosen,
        .fail = consume_fail_waiting,
        .failed_like = consume_failed_like,
        .say = consume_say_waiting,
    };

    member->waits = &waits;
    return 0;
}

const struct member_module waits_module = {
    .own = MODULE_OWN(waits),
    .start = waits_start,
    .pending = consume_is_failing,
};
