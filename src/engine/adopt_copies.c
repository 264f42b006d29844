/*
 * adopt_copies.c - copies of which this rank was not told for some time: are they still
 * what is published?
 *
 * Copies that a dead rank of the node has left, and those of an earlier member of this rank
 * (adopt.c, produce_restore()). Each is looked up, which makes us a holder who is told, and
 * goes if a newer version is known, or if nobody knows it for some time: then nobody would
 * tell us of the next version either. As long as its homes cannot be reached it is asked
 * for again, with growing pauses.
 *
 * The rule of what nobody knows is that of revalidate.c, too.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "engine/member_impl.h"
#include "util/clock.h"
#include "util/log.h"

/* Look-ups of copies under way. */
#define CHECKS 64
/* The first pause when they do not know it; they double, up to MEMBER_ASK_AGAIN. */
#define CHECKS_SOON (50 * UTIL_NSEC_PER_MSEC)
/* What is to be asked again is looked for in all of them, at most once in this time. */
#define CHECKS_TICK (25 * UTIL_NSEC_PER_MSEC)
/* Between two questions that nobody could be asked. Those whose return would bring an
 * answer bring up the copy as well (revalidate.c). */
#define CHECKS_PAUSE_MAX (60 * UTIL_NSEC_PER_SEC)

struct check {
    struct check *prev, *next; /* utlist */
    struct adopt_copies *all;
    enum engine_side side;
    struct dyad_version version;
    struct dht_lookup *lookup;
    uint64_t begun, pause, due;
    struct adopt_unknown unknown;
    char upath[];
};

struct adopt_copies {
    struct member *member;
    struct check *checks, *asking,
        *later; /* not begun; look-up is out; to be asked again */
    unsigned nasking;
    struct net_timer *timer; /* runs if there is something in `later` */
    uint64_t later_due;      /* when it does */
};

static void checks_next(struct adopt_copies *all);

/* --- the rule --- */

bool adopt_unknown_is_sure(struct adopt_unknown *unknown)
{
    uint64_t now = util_clock_now();

    if (!unknown->since)
        unknown->since = now;
    return ++unknown->answers >= ADOPT_UNKNOWN_EACH &&
           now >= unknown->since + ADOPT_UNKNOWN_TIME;
}

uint64_t adopt_unknown_due(const struct adopt_unknown *unknown, uint64_t due)
{
    uint64_t sure = unknown->since + ADOPT_UNKNOWN_TIME;

    return util_clock_now() < sure && sure < due ? sure : due;
}

void adopt_drop_unknown(struct member *member, const char *upath,
                        const struct dyad_version *version)
{
    struct dyad_entry entry = {
        .upath = upath, .state = DYAD_ENTRY_WITHDRAWN, .version = *version};

    log_info(
        "no home knows of the version of \"%s\" that this node has a copy of: it is "
        "removed",
        upath);
    entry.version.incarnation++;
    produce_invalidate(member, &entry, 0);
    dht_node_let_go(member->dht, &entry);
}

/* --- looking them up --- */

static bool check_is_due(const struct check *c)
{
    struct store_journal *journal = c->all->member->side[c->side].journal;
    const struct store_record *record = store_journal_find(journal, c->upath);

    return record && record->kind == STORE_RECORD_COPY &&
           dyad_version_cmp(&record->entry.version, &c->version) == 0;
}

static void checks_set_timer(struct adopt_copies *all, const struct check *c)
{
    if (c->due >= all->later_due)
        return;
    all->later_due = c->due;
    net_timer_start(all->timer, c->due);
}

static void check_later(void *arg)
{
    struct adopt_copies *all = arg;
    uint64_t now = util_clock_now();
    struct check *c, *tmp;

    all->later_due = UINT64_MAX;
    DL_FOREACH_SAFE(all->later, c, tmp)
    {
        if (c->due > now) {
            checks_set_timer(all, c);
            continue;
        }
        DL_DELETE(all->later, c);
        DL_APPEND(all->checks, c);
    }
    checks_next(all);
    first_look_step(all->member);
}

/* Its owner may be on its way, too: all who know of it may have left at once, and a launch
 * that joins as a whole has a copy's home up before the owner has restored the file. If
 * homes cannot be reached it is asked for on, ever less often once the first look does not
 * wait for it any more (first_look.c). */
static void check_put_off(struct check *c, bool unreachable)
{
    struct adopt_copies *all = c->all;
    uint64_t now = util_clock_now();
    uint64_t bound =
        seconds_ns(all->member->config->join_timeout) + seconds_ns(ADOPT_UNKNOWN_BOUND);

    if (!unreachable) {
        c->pause = c->pause ? 2 * c->pause : CHECKS_SOON;
        if (c->pause > seconds_ns(MEMBER_ASK_AGAIN))
            c->pause = seconds_ns(MEMBER_ASK_AGAIN);
    } else if (c->pause < seconds_ns(MEMBER_ASK_AGAIN)) {
        c->pause = seconds_ns(MEMBER_ASK_AGAIN);
    } else if (now - c->begun > bound) {
        c->pause = 2 * c->pause < CHECKS_PAUSE_MAX ? 2 * c->pause : CHECKS_PAUSE_MAX;
    }
    c->due = now + c->pause;
    if (!unreachable)
        c->due = adopt_unknown_due(&c->unknown, c->due);
    c->due += CHECKS_TICK - c->due % CHECKS_TICK;
    DL_APPEND(all->later, c);
    checks_set_timer(all, c);
}

/* The homes were asked, and do not know it, or not this version: is that the last word?
 * That nobody could be asked is no answer. */
static bool check_asks_on(struct check *c, bool unreachable)
{
    if (unreachable) {
        c->unknown = (struct adopt_unknown){0};
        return true;
    }
    if (!c->unknown.since)
        c->pause = 0;
    return !adopt_unknown_is_sure(&c->unknown);
}

static void checked(void *arg, int status, const struct dyad_entry *entry)
{
    struct check *c = arg;
    struct adopt_copies *all = c->all;
    int order = entry ? dyad_version_cmp(&entry->version, &c->version) : -1;
    /* An older one is what homes say that have not heard of it again yet. */
    bool known =
        (status == 0 && order >= 0) || (entry && entry->state == DYAD_ENTRY_WITHDRAWN);

    c->lookup = NULL;
    all->nasking--;
    DL_DELETE(all->asking, c);
    if (!known && check_asks_on(c, status == EHOSTUNREACH) && check_is_due(c)) {
        check_put_off(c, status == EHOSTUNREACH);
    } else {
        if (check_is_due(c) && order > 0)
            produce_invalidate(all->member, entry, 0);
        else if (check_is_due(c) && (status != 0 || order != 0))
            adopt_drop_unknown(all->member, c->upath, &c->version);
        free(c);
    }
    checks_next(all);
    if (!all->checks && !all->asking)
        linger_activity(all->member);
    first_look_step(all->member);
}

static void checks_next(struct adopt_copies *all)
{
    struct check *c;

    while (all->nasking < CHECKS && (c = all->checks)) {
        DL_DELETE(all->checks, c);
        c->lookup = check_is_due(c) ? dht_node_lookup(all->member->dht, c->upath,
                                                      NET_LOOKUP_COPY, NULL, checked, c)
                                    : NULL;
        if (!c->lookup) { /* not ours any more; or no memory: it is as it was */
            free(c);
            continue;
        }
        all->nasking++;
        DL_APPEND(all->asking, c);
    }
}

static struct adopt_copies *get(struct member *member)
{
    struct adopt_copies *all = run_of(member)->copies;

    if (all)
        return all;
    if (!(all = calloc(1, sizeof(*all))) ||
        !(all->timer = net_timer_create(member->loop, check_later, all))) {
        free(all);
        return NULL;
    }
    all->member = member;
    all->later_due = UINT64_MAX;
    return run_of(member)->copies = all;
}

void adopt_check_copy(struct member *member, enum engine_side side,
                      const struct store_record *record)
{
    struct adopt_copies *all = get(member);
    struct check *c = all ? calloc(1, sizeof(*c) + strlen(record->entry.upath) + 1) : NULL;

    if (!c) {
        log_error("out of memory: \"%s\" is not compared with what is published",
                  record->entry.upath);
        return;
    }
    c->all = all;
    c->side = side;
    c->version = record->entry.version;
    c->begun = util_clock_now();
    strcpy(c->upath, record->entry.upath);
    DL_APPEND(all->checks, c);
    checks_next(all);
}

bool adopt_copies_undecided(const struct member *member, const char *upath)
{
    const struct adopt_copies *all = run_of((struct member *)member)->copies;
    const struct check *c;

    if (!all || !upath)
        return all && (all->checks || all->asking || all->later);
    const struct check *const lists[] = {all->checks, all->asking, all->later};
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        DL_FOREACH(lists[i], c)
        {
            if (strcmp(c->upath, upath) == 0)
                return true;
        }
    }
    return false;
}

void adopt_hurry(struct member *member, const char *upath)
{
    struct adopt_copies *all = run_of(member)->copies;
    struct check *c, *tmp;

    if (!all)
        return;
    DL_FOREACH_SAFE(all->checks, c, tmp)
    {
        if (strcmp(c->upath, upath) != 0)
            continue;
        DL_DELETE(all->checks, c);
        DL_PREPEND(all->checks, c);
        return;
    }
    DL_FOREACH(all->later, c)
    {
        if (strcmp(c->upath, upath) != 0)
            continue;
        c->due = util_clock_now(); /* by the timer: here somebody is in the midst of it */
        checks_set_timer(all, c);
        return;
    }
}

bool adopt_copies_pending(struct member *member)
{
    const struct adopt_copies *all = run_of(member)->copies;

    return all && (all->checks || all->asking);
}

static void checks_free(struct adopt_copies *all, struct check *list)
{
    struct check *c, *tmp;

    DL_FOREACH_SAFE(list, c, tmp)
    {
        if (c->lookup)
            dht_node_cancel(all->member->dht, c->lookup);
        free(c);
    }
}

void adopt_copies_stop(struct member *member)
{
    struct adopt_copies *all = run_of(member)->copies;

    if (!all)
        return;
    checks_free(all, all->checks);
    checks_free(all, all->asking);
    checks_free(all, all->later);
    net_timer_destroy(all->timer);
    free(all);
    run_of(member)->copies = NULL;
}
