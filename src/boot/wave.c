/*
 * wave.c - reports go up the tree, a confirming wave down and up, the verdict down
 *
 * Each rank reports to its parent in the tree (wave_tree.h) when its part of the tree is
 * quiet. When all reports at the root are quiet, the root asks all ranks again by a wave.
 * If the answers confirm the reports it sends the verdict. enum kind has the four
 * messages.
 *
 * What could go wrong: a verdict that is not true ends waits which a publish would have
 * ended; wave_end() says why two rounds rule it out, judge() and boot_wave_set() what
 * ranks do that are missing, or busy with a launch. A message is lost: boot_wave_kick()
 * repeats. A rank dies: the engine finds that out (boot_wave_rank_changed()), or a failed
 * send.
 */
#include "boot/wave.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <uthash.h>

#include "boot/wave_sum.h"
#include "boot/wave_tree.h"

#define KIND_SHIFT 8

/* - REPORT, child to parent: state (AND, MISSING: OR), activity (sum) and count of its
 *   part. It is sent on each change while the part is quiet, and once when the part
 *   becomes busy. Silence means busy. It carries the highest number of a wave that the
 *   child has seen: the root may be a newcomer, whose next wave must not have the number
 *   of one that others have judged.
 * - CONFIRM, parent to child: it comes from the root, once all its reports are quiet, and
 *   carries the number of the wave.
 * - ANSWER, child to parent, to CONFIRM: state 0 at once if the part is busy; else it is
 *   sent when all children have answered and this rank's waits were looked up once more
 *   (ops->confirm).
 * - VERDICT, parent to child: it carries the lowest candidate that the answers had. */
enum kind { KIND_REPORT = 1, KIND_CONFIRM, KIND_ANSWER, KIND_VERDICT };

struct child { /* a rank that has sent something, or is a child */
    UT_hash_handle hh;
    uint32_t rank;
    bool reported;
    struct wave_sum report;
    uint64_t answered; /* number of the wave that `answer` belongs to; 0: none */
    struct wave_sum answer;
};

struct boot_wave {
    const struct boot_wave_ops *ops;
    void *arg;

    uint32_t state; /* this rank's own */
    uint64_t activity;
    bool final; /* ALL_EXIT was given */

    struct child *known; /* by rank */
    struct wave_tree tree;

    bool sent_any; /* to `sent_to` */
    uint32_t sent_to;
    struct wave_sum sent;

    uint64_t highest;         /* number of any wave seen */
    uint64_t wave;            /* being confirmed below us; 0: none */
    uint64_t confirmed;       /* the wave for which our own waits have been looked up */
    uint32_t asked_by;        /* who sent CONFIRM, if not root */
    struct wave_sum expected; /* root: sum of the reports when the wave began */
    bool tried;               /* root: `expected` was tried, and failed or gave a verdict */
    uint64_t agreed; /* last wave that we answered quiet, and our own counter then */
    uint64_t agreed_activity;
    uint64_t judged;    /* number of the last verdict handled */
    uint32_t said;      /* WAVE_OR_BITS in it */
    uint64_t candidate; /* in it, and its name */
    uint64_t name;

    bool busy, again; /* work_off() is running; is to take another turn */
};

static struct child *child_of(struct boot_wave *wave, uint32_t rank, bool make)
{
    struct child *child;

    HASH_FIND(hh, wave->known, &rank, sizeof(rank), child);
    if (!child && make && (child = calloc(1, sizeof(*child)))) {
        child->rank = rank;
        HASH_ADD(hh, wave->known, rank, sizeof(child->rank), child);
        if (!child->hh.tbl) {
            free(child);
            return NULL;
        }
    }
    return child;
}

/* --- sums --- */

static struct wave_sum own(const struct boot_wave *wave)
{
    return (struct wave_sum){
        .state = wave->state,
        .count = 1,
        .activity = wave->activity,
        .candidate = BOOT_WAVE_NONE,
    };
}

/* Of this rank and its children as they reported; busy if one did not. */
static struct wave_sum sum_reports(struct boot_wave *wave)
{
    struct wave_sum sum = own(wave);

    for (size_t i = 0; i < wave->tree.nchildren; i++) {
        struct child *child = child_of(wave, wave->tree.children[i], false);
        if (child && child->reported)
            wave_sum_add(&sum, &child->report);
        else
            sum.state = 0;
    }
    return sum;
}

/* Of this rank and its children's answers to the wave under way. False: not all are there
 * and nobody is busy. */
static bool sum_answers(struct boot_wave *wave, struct wave_sum *sum)
{
    bool complete = wave->confirmed == wave->wave;

    *sum = own(wave);
    for (size_t i = 0; i < wave->tree.nchildren; i++) {
        struct child *child = child_of(wave, wave->tree.children[i], false);
        if (child && child->answered == wave->wave)
            wave_sum_add(sum, &child->answer);
        else
            complete = false;
    }
    return complete || !wave_sum_quiet(sum);
}

/* --- messages --- */

static bool send_to(struct boot_wave *wave, uint32_t rank, enum kind kind, uint64_t number,
                    const struct wave_sum *sum)
{
    struct net_msg msg;

    memset(&msg, 0, sizeof(msg));
    msg.type = NET_MSG_WAVE;
    msg.wave.number = number;
    msg.wave.activity = sum->activity;
    msg.wave.count = sum->count;
    msg.wave.candidate = sum->candidate;
    msg.wave.name = sum->name;
    msg.wave.state = sum->state | (uint32_t)kind << KIND_SHIFT;
    if (wave->ops->send(wave->arg, rank, &msg) == 0)
        return true;
    if (wave_tree_fail(&wave->tree, rank)) /* else a kick tries again */
        wave->again = true;
    return false;
}

/* Pass a verdict on, then take it. sum: of all ranks, or what the verdict said of it.
 *
 * All ranks get NO_PRODUCER and stay quiet, except those whose waits it ends: these
 * become busy by themselves. A rank that is lost for long is passed over, though it may
 * live. Only the ranks that had to do with it know that. So MISSING is gathered with the
 * reports, and is in the verdict: no rank says "nobody is left" while another rank knows
 * of a missing one. */
static void judge(struct boot_wave *wave, uint64_t number, const struct wave_sum *sum)
{
    uint32_t state = sum->state;
    bool exit_all = state & BOOT_WAVE_EXITING;

    if (wave->final || number <= wave->judged)
        return;
    wave->judged = number;
    wave->said = state & WAVE_OR_BITS;
    wave->candidate = sum->candidate;
    wave->name = sum->name;
    wave->wave = 0;
    /* The list may be replaced when a send fails and rank_changed is called: only stale is
     * set then. */
    for (size_t i = 0; i < wave->tree.nchildren; i++)
        send_to(wave, wave->tree.children[i], KIND_VERDICT, number, sum);
    if (exit_all) {
        wave->final = true;
        wave->ops->verdict(wave->arg, BOOT_WAVE_ALL_EXIT);
        return;
    }
    /* Something happened here since we agreed: these waits are new, or no longer alone. */
    if (wave->agreed != number || wave->agreed_activity != wave->activity ||
        !(wave->state & BOOT_WAVE_QUIET))
        return;
    wave->ops->verdict(wave->arg, !(state & BOOT_WAVE_QUIET)  ? BOOT_WAVE_OUTER_BUSY
                                  : state & BOOT_WAVE_MISSING ? BOOT_WAVE_NOBODY_IN_REACH
                                                              : BOOT_WAVE_NO_PRODUCER);
}

static void report(struct boot_wave *wave, const struct wave_sum *sum)
{
    bool known_busy = !wave->sent_any || wave->sent_to != wave->tree.parent ||
                      !wave_sum_quiet(&wave->sent);

    if (wave_sum_quiet(sum) ? !known_busy && wave_sum_same(sum, &wave->sent) : known_busy)
        return;
    wave->sent = *sum;
    wave->sent_to = wave->tree.parent;
    wave->sent_any = true;
    if (!send_to(wave, wave->tree.parent, KIND_REPORT, wave->highest, sum))
        wave->sent_any = false;
}

/* Ask the children. */
static void wave_begin(struct boot_wave *wave, uint64_t number)
{
    static const struct wave_sum none;

    wave->wave = number;
    if (number > wave->highest)
        wave->highest = number;
    for (size_t i = 0; i < wave->tree.nchildren; i++) {
        struct child *child = child_of(wave, wave->tree.children[i], false);
        if (child)
            child->answered = 0;
    }
    for (size_t i = 0; i < wave->tree.nchildren; i++)
        send_to(wave, wave->tree.children[i], KIND_CONFIRM, number, &none);
    wave->confirmed = 0;
    if (!wave->ops->confirm || !wave->ops->confirm(wave->arg, number))
        wave->confirmed = number;
    wave->again = true; /* without children the answer is there */
}

/* Why two rounds: the reports were made at different times. Activity counters only rise,
 * and each rank answers after the root had the last report. If count and sum of the
 * answers are those of the reports, no counter has moved between a rank's report and its
 * answer; the moment at which the root sent CONFIRM lies between the two for every rank,
 * so at that moment all were quiet at once. A stale report can therefore start a wave in
 * vain, never make a wrong verdict.
 *
 * Messages under way at that moment are not counted. The one kind that matters notifies a
 * waiter of a publish; the publish had been acknowledged by the homes when its publisher
 * became quiet, so the look-up that each rank makes after CONFIRM sees it. */
static void wave_end(struct boot_wave *wave, struct wave_sum *sum)
{
    uint64_t number = wave->wave;

    wave->wave = 0;
    if (wave_sum_quiet(sum)) {
        if (wave->ops->candidate) {
            uint64_t name = 0, candidate = wave->ops->candidate(wave->arg, &name);
            wave_sum_choose(sum, candidate, name);
        }
        wave->agreed = number;
        wave->agreed_activity = wave->activity;
    }
    if (!wave->tree.root) {
        send_to(wave, wave->asked_by, KIND_ANSWER, number, sum);
    } else if (wave_sum_quiet(sum) && wave_sum_same(sum, &wave->expected)) {
        judge(wave, number, sum);
        wave->again = true;
    }
}

/* Do what is due. The root does not try the same sums again: if the verdict was lost on
 * the way, the next kick does. */
static void turn(struct boot_wave *wave)
{
    static const struct wave_sum busy;
    bool moved = wave->tree.stale;
    struct wave_sum sum;

    /* Without memory everything counts as busy till the next event. */
    if (wave->final || !wave_tree_find(&wave->tree))
        return;
    if (moved && wave->wave) { /* some of those now below us were never asked */
        if (wave->tree.root)
            wave->tried = false;
        else
            send_to(wave, wave->asked_by, KIND_ANSWER, wave->wave, &busy);
        wave->wave = 0;
    }
    if (wave->wave && sum_answers(wave, &sum)) {
        if (!wave_sum_quiet(&sum))
            sum.state = 0;
        wave_end(wave, &sum);
    }
    if (wave->final || wave->tree.stale)
        return;
    sum = sum_reports(wave);
    if (!wave->tree.root) {
        report(wave, &sum);
    } else if (!wave_sum_quiet(&sum)) {
        wave->tried = false;
    } else if (!wave->wave && !(wave->tried && wave_sum_same(&sum, &wave->expected))) {
        wave->expected = sum;
        wave->tried = true;
        wave_begin(wave, wave->highest + 1);
    }
}

/* Take turns until nothing changes. Their number is bounded: each further turn follows a
 * message, a death or a change of state. The callbacks may call boot_wave_set() and
 * boot_wave_rank_changed(): called from inside, these only note the change, and another
 * turn is taken. */
static void work_off(struct boot_wave *wave)
{
    wave->again = true;
    if (wave->busy)
        return;
    wave->busy = true;
    while (wave->again) {
        wave->again = false;
        turn(wave);
    }
    wave->busy = false;
}

/* --- interface --- */

struct boot_wave *boot_wave_create(uint32_t self, uint32_t nranks,
                                   const struct boot_wave_ops *ops, void *arg)
{
    struct boot_wave *wave;

    if (self >= nranks) {
        errno = EINVAL;
        return NULL;
    }
    if (!(wave = calloc(1, sizeof(*wave))))
        return NULL;
    wave->ops = ops;
    wave->arg = arg;
    wave->tree = (struct wave_tree){
        .self = self, .nranks = nranks, .live = ops->live, .arg = arg, .stale = true};
    return wave;
}

void boot_wave_destroy(struct boot_wave *wave)
{
    struct child *child, *next;

    if (!wave)
        return;
    HASH_ITER(hh, wave->known, child, next)
    {
        HASH_DEL(wave->known, child);
        free(child);
    }
    wave_tree_free(&wave->tree);
    free(wave);
}

/* A rank that has started a launch is busy until that has ended, and the launch's ranks
 * must not wait for it. So the rank says OUTER as long as there are any, and a wave of
 * such ranks and of quiet ones has a verdict of its own, by which only ranks of such
 * launches leave. If each rank that says OUTER also says QUIET the bit has no effect. */
void boot_wave_set(struct boot_wave *wave, uint32_t state, uint64_t activity)
{
    if (state & BOOT_WAVE_EXITING)
        state |= BOOT_WAVE_QUIET;
    if (state & BOOT_WAVE_QUIET)
        state |= BOOT_WAVE_OUTER;
    if (activity == wave->activity && state == wave->state)
        return;
    wave->state = state & WAVE_ALL_BITS;
    wave->activity = activity;
    work_off(wave);
}

bool boot_wave_chosen(const struct boot_wave *wave, uint64_t *candidate, uint64_t *name)
{
    *candidate = wave->candidate;
    *name = wave->name;
    return wave->candidate != BOOT_WAVE_NONE;
}

bool boot_wave_script(const struct boot_wave *wave)
{
    return wave->said & BOOT_WAVE_SCRIPT;
}

bool boot_wave_missing(const struct boot_wave *wave)
{
    return wave->said & BOOT_WAVE_MISSING;
}

void boot_wave_confirmed(struct boot_wave *wave, uint64_t number)
{
    if (wave->wave != number)
        return;
    wave->confirmed = number;
    work_off(wave);
}

/* After ALL_EXIT a rank answers each REPORT and CONFIRM with the verdict. */
void boot_wave_receive(struct boot_wave *wave, const struct net_msg *msg)
{
    uint32_t from = msg->source, kind = msg->wave.state >> KIND_SHIFT;
    struct wave_sum sum = {.state = msg->wave.state & WAVE_ALL_BITS,
                           .count = msg->wave.count,
                           .activity = msg->wave.activity,
                           .candidate = msg->wave.candidate,
                           .name = msg->wave.name};
    struct wave_sum below;
    struct child *child;

    if (from >= wave->tree.nranks || from == wave->tree.self)
        return;
    if (wave->final) { /* it missed the verdict, as its parent has left already */
        sum = (struct wave_sum){.state = WAVE_AND_BITS | wave->said};
        if (kind == KIND_REPORT || kind == KIND_CONFIRM)
            send_to(wave, from, KIND_VERDICT, wave->judged, &sum);
        return;
    }
    switch (kind) {
    case KIND_REPORT:
        if (!(child = child_of(wave, from, true)))
            return;
        if (msg->wave.number > wave->highest)
            wave->highest = msg->wave.number;
        child->reported = true;
        child->report = sum;
        break;
    case KIND_CONFIRM:
        if (msg->wave.number > wave->highest)
            wave->highest = msg->wave.number;
        if (!wave_tree_find(&wave->tree))
            return;
        below = sum_reports(wave);
        /* A root has ranks below it that the asker may count, too: it first has to hear
         * (rank_changed) that a lower rank lives. */
        if (wave->tree.root)
            below.state = 0;
        if (wave_sum_quiet(&below)) {
            wave->asked_by = from;
            wave_begin(wave, msg->wave.number);
        } else {
            below.state = 0;
            send_to(wave, from, KIND_ANSWER, msg->wave.number, &below);
        }
        break;
    case KIND_ANSWER:
        if (!(child = child_of(wave, from, true)))
            return;
        child->answered = msg->wave.number;
        child->answer = sum;
        break;
    case KIND_VERDICT:
        if (msg->wave.number > wave->highest)
            wave->highest = msg->wave.number;
        if (!(sum.state & BOOT_WAVE_EXITING) && msg->wave.number != wave->agreed)
            return;
        if (wave_tree_find(&wave->tree))
            judge(wave, msg->wave.number, &sum);
        break;
    default:
        return;
    }
    work_off(wave);
}

void boot_wave_rank_changed(struct boot_wave *wave, uint32_t rank)
{
    struct child *child;

    if (rank >= wave->tree.nranks || rank == wave->tree.self)
        return;
    wave_tree_forget_failed(&wave->tree, rank);
    /* Its reports as another incarnation, or before it died, are void. */
    HASH_FIND(hh, wave->known, &rank, sizeof(rank), child);
    if (child) {
        HASH_DEL(wave->known, child);
        free(child);
    }
    if (wave->sent_any && wave->sent_to == rank)
        wave->sent_any = false;
    wave->tree.stale = true;
    work_off(wave);
}

/* Against losses: repeat the report and, at the root, the wave. */
void boot_wave_kick(struct boot_wave *wave)
{
    if (wave->tree.nfailed) {
        wave->tree.nfailed = 0;
        wave->tree.stale = true;
    }
    wave->sent_any = false;
    wave->tried = false;
    if (wave->tree.root)
        wave->wave = 0; /* an answer was lost */
    work_off(wave);
}

void boot_wave_neighbours(struct boot_wave *wave, void (*fn)(void *arg, uint32_t rank),
                          void *arg)
{
    bool outer = wave->busy;

    if (wave->final || !wave_tree_find(&wave->tree))
        return;
    wave->busy = true; /* the lists stay as they are until all have been named */
    if (!wave->tree.root)
        fn(arg, wave->tree.parent);
    for (size_t i = 0; i < wave->tree.nchildren; i++)
        fn(arg, wave->tree.children[i]);
    wave->busy = outer;
    if (wave->again && !outer)
        work_off(wave);
}
