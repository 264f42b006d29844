/*
 * test_wave.c - the exit barrier over a network that delays, loses ranks and never forgets
 * who knows what
 *
 * The network keeps the order of two ranks' messages and delays each by a random time. Each
 * rank has its own view of who is live, corrected some time after the truth changes. An
 * oracle says at every verdict whether it was right to give one at all since the wave
 * began.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "boot/wave.h"

#define MAX_RANKS 200
#define QUIET     BOOT_WAVE_QUIET
#define EXITING   (BOOT_WAVE_QUIET | BOOT_WAVE_EXITING)

struct packet {
    uint64_t due, order;
    uint32_t from, to;
    struct net_msg msg;
};

struct node {
    struct boot_wave *wave;
    bool alive; /* in truth */
    bool view[MAX_RANKS];
    uint32_t state;
    uint64_t activity;
    unsigned no_producer, all_exit;
    unsigned away;      /* of no_producer: NOBODY_IN_REACH */
    unsigned may_leave; /* NO_PRODUCER, given to it at its exit */
    uint64_t confirm;   /* the wave whose look-ups are under way here; 0: none */
    uint64_t candidate;
    bool release; /* NO_PRODUCER: become busy inside the callback */
};

static struct {
    uint32_t n;
    struct node node[MAX_RANKS];
    struct packet *queue;
    size_t used, size;
    uint64_t now, order, last_due[MAX_RANKS][MAX_RANKS];
    uint64_t messages;
    unsigned seed;
    uint64_t all_quiet_at; /* last time at which all live ranks were quiet; 0 never */
    bool wrong;
} net;

static unsigned roll(unsigned below)
{
    return (unsigned)rand_r(&net.seed) % below;
}

static int op_send(void *arg, uint32_t rank, struct net_msg *msg)
{
    struct node *node = arg;
    uint32_t from = (uint32_t)(node - net.node);

    if (!node->view[rank])
        return -1;
    if (net.used == net.size)
        net.queue = realloc(net.queue,
                            (net.size = net.size ? net.size * 2 : 64) * sizeof(*net.queue));
    uint64_t due = net.now + 1 + roll(50);
    if (due <= net.last_due[from][rank])
        due = net.last_due[from][rank] + 1;
    net.last_due[from][rank] = due;
    net.queue[net.used] = (struct packet){
        .due = due, .order = net.order++, .from = from, .to = rank, .msg = *msg};
    net.queue[net.used++].msg.source = from;
    net.messages++;
    return 0;
}

static bool op_live(void *arg, uint32_t rank)
{
    return ((struct node *)arg)->view[rank];
}

static bool everybody(uint32_t bits)
{
    for (uint32_t r = 0; r < net.n; r++)
        if (net.node[r].alive && (net.node[r].state & bits) != bits)
            return false;
    return true;
}

static void set(uint32_t rank, uint32_t state)
{
    struct node *node = &net.node[rank];

    node->state = state;
    node->activity++;
    if (everybody(QUIET))
        net.all_quiet_at = net.now + 1;
    boot_wave_set(node->wave, state, node->activity);
}

static void op_verdict(void *arg, enum boot_wave_verdict verdict)
{
    struct node *node = arg;

    if (verdict == BOOT_WAVE_ALL_EXIT) {
        node->all_exit++;
        if (!everybody(EXITING))
            net.wrong = true;
        return;
    }
    if (!net.all_quiet_at)
        net.wrong = true;
    if (node->state & BOOT_WAVE_EXITING) {
        node->may_leave++;
        return;
    }
    node->no_producer++;
    node->away += verdict == BOOT_WAVE_NOBODY_IN_REACH;
    if (node->release) {
        node->state = 0;
        node->activity++;
        boot_wave_set(node->wave, 0, node->activity);
    }
}

/* Half of the time there is nothing to look up; else the answer comes later (step()), or
 * never, if an activity came first. */
static bool op_confirm(void *arg, uint64_t number)
{
    struct node *node = arg;

    if (roll(2) == 0)
        return false;
    node->confirm = number;
    return true;
}

static uint64_t op_candidate(void *arg, uint64_t *name)
{
    *name = 1000 + (uint64_t)((struct node *)arg - net.node);
    return ((struct node *)arg)->candidate;
}

static const struct boot_wave_ops ops = {.send = op_send,
                                         .live = op_live,
                                         .confirm = op_confirm,
                                         .candidate = op_candidate,
                                         .verdict = op_verdict};

static void net_open(uint32_t n, unsigned seed)
{
    free(net.queue);
    memset(&net, 0, sizeof(net));
    net.n = n;
    net.seed = seed;
    for (uint32_t r = 0; r < n; r++) {
        struct node *node = &net.node[r];
        node->alive = node->release = true;
        memset(node->view, true, n);
        node->wave = boot_wave_create(r, n, &ops, node);
        assert_non_null(node->wave);
    }
}

static void net_close(void)
{
    for (uint32_t r = 0; r < net.n; r++)
        boot_wave_destroy(net.node[r].wave);
    free(net.queue);
    net.queue = NULL;
    net.used = net.size = 0;
}

/* End the look-ups of some rank. False: none are under way. */
static bool step_confirm(void)
{
    for (uint32_t r = 0; r < net.n; r++) {
        struct node *node = &net.node[r];
        uint64_t number = node->confirm;
        if (!number || !node->alive)
            continue;
        node->confirm = 0;
        boot_wave_confirmed(node->wave, number);
        return true;
    }
    return false;
}

/* Deliver one message. False: none is left. */
static bool step(void)
{
    size_t best = 0;

    if (everybody(QUIET))
        net.all_quiet_at = net.now + 1;
    if (!net.used || roll(4) == 0) {
        if (step_confirm())
            return true;
        if (!net.used)
            return false;
    }
    for (size_t i = 1; i < net.used; i++)
        if (net.queue[i].due < net.queue[best].due ||
            (net.queue[i].due == net.queue[best].due &&
             net.queue[i].order < net.queue[best].order))
            best = i;
    struct packet packet = net.queue[best];
    net.queue[best] = net.queue[--net.used];
    if (packet.due > net.now)
        net.now = packet.due;
    if (net.node[packet.to].alive)
        boot_wave_receive(net.node[packet.to].wave, &packet.msg);
    return true;
}

static void drain(void)
{
    unsigned steps = 0;

    while (step())
        assert_true(++steps < 2000000); /* it comes to rest */
}

static void learn(uint32_t who, uint32_t of, bool live)
{
    net.node[who].view[of] = live;
    if (net.node[who].alive)
        boot_wave_rank_changed(net.node[who].wave, of);
}

static void all_learn(uint32_t of, bool live)
{
    for (uint32_t r = 0; r < net.n; r++)
        if (r != of)
            learn(r, of, live);
}

static unsigned verdicts(bool exit)
{
    unsigned count = 0;
    for (uint32_t r = 0; r < net.n; r++)
        if (net.node[r].alive)
            count += exit ? net.node[r].all_exit : net.node[r].no_producer;
    return count;
}

static uint32_t alive(void)
{
    uint32_t count = 0;
    for (uint32_t r = 0; r < net.n; r++)
        count += net.node[r].alive;
    return count;
}

static void test_all_exit(void **state)
{
    (void)state;
    for (uint32_t n = 1; n <= MAX_RANKS; n += n < 20 ? 1 : 37) {
        net_open(n, n);
        uint32_t first = roll(n);
        for (uint32_t i = 0; i < n - 1; i++) {
            set((first + i) % n, EXITING);
            if (roll(3) == 0)
                step();
        }
        drain();
        assert_int_equal(verdicts(true), 0); /* one is still at work */
        set((first + n - 1) % n, EXITING);
        drain();
        assert_int_equal(verdicts(true), n);
        assert_int_equal(verdicts(false), 0);
        assert_false(net.wrong);
        /* up, down, up, down, and reports that overtook a quieter child's */
        assert_true(net.messages <= 5 * n);
        net_close();
    }
}

/* A rank that finds an answer at its look-up: busy, and no verdict comes though all reports
 * were quiet. */
static void test_confirm_finds(void **state)
{
    (void)state;
    for (uint32_t found = 0; found < 20; found++) {
        net_open(20, found + 1);
        for (uint32_t r = 0; r < 20; r++)
            set(r, QUIET);
        while (!net.node[found].confirm && step())
            ;
        if (net.node[found].confirm) {
            net.node[found].confirm = 0;
            set(found, 0);
            drain();
            assert_int_equal(verdicts(false), 0);
            set(found, QUIET);
        }
        drain();
        assert_int_equal(verdicts(false), 20);
        assert_false(net.wrong);
        net_close();
    }
}

static void test_one_busy_rank_holds_all(void **state)
{
    (void)state;
    for (uint32_t busy = 0; busy < 30; busy++) {
        net_open(30, busy);
        for (uint32_t r = 0; r < 30; r++)
            if (r != busy)
                set(r, r % 2 ? EXITING : QUIET);
        drain();
        for (int i = 0; i < 3; i++) {
            for (uint32_t r = 0; r < 30; r++)
                boot_wave_kick(net.node[r].wave);
            drain();
        }
        assert_int_equal(verdicts(true) + verdicts(false), 0);
        set(busy, QUIET);
        drain();
        assert_int_equal(verdicts(true), 0);
        for (uint32_t r = 0; r < 30; r++) { /* each is told, once */
            assert_int_equal(net.node[r].no_producer, r == busy || r % 2 == 0);
            assert_int_equal(net.node[r].may_leave, r != busy && r % 2 == 1);
        }
        net_close();
    }
}

/* The waiters wait again: each time they are told again; at last all exit. */
static void test_no_producer_again(void **state)
{
    (void)state;
    net_open(50, 7);
    for (unsigned round = 1; round <= 5; round++) {
        uint64_t before = net.messages;
        for (uint32_t r = 0; r < 50; r++)
            set(r, r % 3 ? QUIET : EXITING);
        drain();
        for (uint32_t r = 0; r < 50; r++)
            assert_int_equal(net.node[r].no_producer, r % 3 ? round : 0);
        assert_true(net.messages - before <= 7 * 50);
    }
    assert_int_equal(verdicts(true), 0);
    for (uint32_t r = 0; r < 50; r++)
        set(r, EXITING);
    drain();
    assert_int_equal(verdicts(true), 50);
    net_close();
}

/* One rank, anywhere, misses another: all are told so. When it does not any more, or is
 * busy meanwhile, they are not. */
static void test_missing(void **state)
{
    unsigned rounds = 0, away = 0;

    (void)state;
    for (uint32_t who = 0; who < 50; who += 7) {
        net_open(50, 8 + who);
        rounds = away = 0;
        for (int misses = 1; misses >= 0; misses--) {
            for (uint32_t r = 0; r < 50; r++)
                set(r, r == who && misses ? QUIET | BOOT_WAVE_MISSING : QUIET);
            drain();
            rounds++;
            away += (unsigned)misses;
            for (uint32_t r = 0; r < 50; r++) {
                assert_int_equal(net.node[r].no_producer, rounds);
                assert_int_equal(net.node[r].away, away);
            }
        }
        /* It comes to know of it when the reports have been made. */
        for (uint32_t r = 0; r < 50; r++)
            set(r, QUIET);
        set(who, QUIET | BOOT_WAVE_MISSING);
        drain();
        for (uint32_t r = 0; r < 50; r++)
            assert_int_equal(net.node[r].away, away + 1);
        /* It is no obstacle to the end, and all know of it. */
        for (uint32_t r = 0; r < 50; r++)
            set(r, r == who ? EXITING | BOOT_WAVE_MISSING : EXITING);
        drain();
        assert_int_equal(verdicts(true), 50);
        for (uint32_t r = 0; r < 50; r++)
            assert_true(boot_wave_missing(net.node[r].wave));
        net_close();
    }
}

/* Ranks that were told and wait on are not told again but at a kick, or when one of them
 * has waited for something else meanwhile. */
static void test_told_once(void **state)
{
    (void)state;
    net_open(20, 3);
    for (uint32_t r = 0; r < 20; r++) {
        net.node[r].release = false;
        set(r, QUIET);
    }
    drain();
    assert_int_equal(verdicts(false), 20);
    for (uint32_t r = 1; r < 20; r++)
        boot_wave_kick(net.node[r].wave);
    drain();
    assert_int_equal(verdicts(false), 20);
    boot_wave_kick(net.node[0].wave); /* the root */
    drain();
    assert_int_equal(verdicts(false), 40);
    set(19, 0); /* at work: the others stay quiet */
    drain();
    boot_wave_kick(net.node[0].wave);
    drain();
    assert_int_equal(verdicts(false), 40);
    set(19, QUIET);
    drain();
    assert_int_equal(verdicts(false), 60);
    net_close();
}

/* All hear whose wait is to end: the lowest candidate, of equal ones the lowest
 * name. Then only that rank goes on, and the next verdict is about what it waits for then.
 */
static void test_chosen(void **state)
{
    (void)state;
    for (unsigned seed = 1; seed <= 60; seed++) {
        uint32_t n = 1 + seed * 3;
        net_open(n, seed);
        for (uint32_t r = 0; r < n; r++) {
            net.node[r].release = false;
            net.node[r].candidate = r % 5 == 1 ? BOOT_WAVE_NONE : 10 + roll(n / 2 + 1);
            set(r, r % 5 == 1 ? EXITING : QUIET);
        }
        for (unsigned round = 1; round <= 5; round++) {
            uint32_t best = 0;
            drain();
            for (uint32_t r = 0; r < n; r++)
                if (net.node[r].candidate < net.node[best].candidate)
                    best = r;
            for (uint32_t r = 0; r < n; r++) {
                uint64_t candidate, name;
                assert_int_equal(net.node[r].no_producer + net.node[r].may_leave, round);
                assert_true(boot_wave_chosen(net.node[r].wave, &candidate, &name));
                assert_int_equal(name, 1000 + best);
                assert_int_equal(candidate, net.node[best].candidate);
            }
            net.node[best].candidate = 10 + roll(n / 2 + 1);
            set(best, 0);
            if (roll(2))
                drain();
            set(best, QUIET);
        }
        assert_false(net.wrong);
        net_close();
    }
}

/* Something happens between report and answer, and the rank is quiet again: the first sum
 * is void. */
static void test_activity_between_the_waves(void **state)
{
    unsigned hits = 0;

    (void)state;
    for (unsigned seed = 1; seed <= 300; seed++) {
        net_open(25, seed);
        uint32_t actor = roll(25);
        for (uint32_t r = 0; r < 25; r++)
            set(r, QUIET);
        unsigned at = roll(90);
        for (unsigned i = 0; i < at; i++)
            step();
        if (verdicts(false) == 0) {
            hits++;
            net.all_quiet_at = 0;
            set(actor, 0); /* busy from here on: what was quiet before does not count */
            while (step())
                ;
            /* a wave whose confirmation began before may have judged, rightly, the moment
             * before; then the actor, which has become active, is not told */
            assert_int_equal(net.node[actor].no_producer, 0);
            unsigned told = verdicts(false);
            assert_true(told == 0 || told == 24);
            set(actor, QUIET);
            drain();
            if (!told)
                assert_int_equal(verdicts(false), 25);
        }
        net_close();
    }
    assert_true(hits > 100);
}

static void test_never_joined(void **state)
{
    (void)state;
    for (unsigned seed = 1; seed <= 60; seed++) {
        uint32_t n = 1 + seed * 3;
        net_open(n, seed);
        for (uint32_t r = 0; r < n; r++)
            if (roll(3) == 0 && alive() > 1)
                net.node[r].alive = false;
        for (uint32_t r = 0; r < n; r++)
            if (net.node[r].alive)
                set(r, EXITING);
        drain();
        if (alive() < n)
            assert_int_equal(verdicts(true), 0);
        for (uint32_t of = 0; of < n; of++) /* each learns it by itself, in any order */
            if (!net.node[of].alive)
                for (uint32_t r = 0; r < n; r++)
                    if (r != of) {
                        learn(r, of, false);
                        if (roll(4) == 0)
                            step();
                    }
        drain();
        for (int i = 0; i < 3 && verdicts(true) < alive(); i++) {
            for (uint32_t r = 0; r < n; r++)
                if (net.node[r].alive)
                    boot_wave_kick(net.node[r].wave);
            drain();
        }
        assert_int_equal(verdicts(true), alive());
        assert_false(net.wrong);
        net_close();
    }
}

/* Ranks die at any moment, the root too, in the middle of waves. */
static void test_deaths(void **state)
{
    (void)state;
    for (unsigned seed = 1; seed <= 150; seed++) {
        uint32_t n = 2 + seed % 120;
        net_open(n, seed);
        for (uint32_t r = 0; r < n; r++) {
            set(r, EXITING);
            step();
            if (roll(6) == 0 && alive() > 1) {
                uint32_t victim = roll(3) ? roll(n) : 0;
                if (net.node[victim].alive) {
                    net.node[victim].alive = false;
                    if (roll(2))
                        all_learn(victim, false);
                }
            }
        }
        for (uint32_t of = 0; of < n; of++)
            if (!net.node[of].alive)
                all_learn(of, false);
        drain();
        for (int i = 0; i < 4 && verdicts(true) < alive(); i++) {
            for (uint32_t r = 0; r < n; r++)
                if (net.node[r].alive)
                    boot_wave_kick(net.node[r].wave);
            drain();
        }
        assert_int_equal(verdicts(true), alive());
        assert_false(net.wrong);
        net_close();
    }
}

/* Of those that leave on the verdict, one was never told: it finds itself alone. */
static void test_left_behind(void **state)
{
    (void)state;
    net_open(12, 5);
    for (uint32_t r = 0; r < 12; r++)
        set(r, EXITING);
    while (net.node[0].all_exit == 0)
        step();
    do { /* what is sent to rank 9 is lost */
        for (size_t i = 0; i < net.used; i++)
            if (net.queue[i].to == 9)
                net.queue[i--] = net.queue[--net.used];
    } while (step());
    assert_int_equal(net.node[9].all_exit, 0);
    boot_wave_kick(net.node[9].wave); /* its parent is still there: it is told */
    drain();
    assert_int_equal(net.node[9].all_exit, 1);
    net_close();

    net_open(12, 6);
    for (uint32_t r = 0; r < 12; r++)
        set(r, EXITING);
    while (net.node[0].all_exit == 0)
        step();
    net.used = 0;
    for (uint32_t r = 0; r < 12; r++)
        if (r != 9) {
            net.node[r].alive = false;
            learn(9, r, false);
        }
    drain();
    assert_int_equal(net.node[9].all_exit, 1);
    net_close();
}

/* A rank that was passed over comes late: then it counts. */
static void test_late_joiner(void **state)
{
    (void)state;
    for (uint32_t late = 0; late < 20; late++) {
        net_open(20, late);
        net.node[late].alive = false;
        all_learn(late, false);
        for (uint32_t r = 0; r < 19; r++)
            if (r != late)
                set(r, EXITING);
        drain();
        if (late != 19)
            assert_int_equal(verdicts(true), 0); /* rank 19 works */
        net.node[late].alive = true;
        all_learn(late, true);
        drain();
        if (late != 19) {
            set(19, EXITING);
            drain();
            assert_int_equal(verdicts(true), 0);
            set(late, EXITING);
            drain();
            assert_int_equal(verdicts(true), 20);
        }
        net_close();
    }
}

/* Busy and quiet at random: no wrong verdict, and when all rest, one comes. */
static void test_random(void **state)
{
    unsigned told = 0;

    (void)state;
    for (unsigned seed = 1; seed <= 100; seed++) {
        net_open(2 + seed % 60, seed);
        for (unsigned i = 0; i < 400; i++) {
            set(roll(net.n), roll(3) ? QUIET : 0);
            step();
            assert_false(net.wrong);
            if (verdicts(false)) /* was the moment seen in which all were quiet? */
                told++;
        }
        unsigned before = verdicts(false);
        for (uint32_t r = 0; r < net.n; r++)
            set(r, QUIET);
        drain();
        assert_true(verdicts(false) > before);
        assert_int_equal(verdicts(true), 0);
        net_close();
    }
    assert_true(told > 0);
}

static void test_hostile(void **state)
{
    struct net_msg msg = {.type = NET_MSG_WAVE};

    (void)state;
    net_open(3, 1);
    for (uint32_t kind = 0; kind < 8; kind++)
        for (uint32_t source = 0; source < 6; source++) {
            msg.source = source;
            msg.wave.number = UINT64_MAX - kind;
            msg.wave.state = kind << 8 | 0xff;
            msg.wave.count = UINT32_MAX;
            net.node[1].state = 0;
            if (kind != 4) /* who may speak may judge: the MAC says who may */
                boot_wave_receive(net.node[1].wave, &msg);
        }
    assert_int_equal(net.node[1].all_exit + net.node[1].no_producer, 0);
    boot_wave_rank_changed(net.node[1].wave, 77);
    assert_null(boot_wave_create(3, 3, &ops, NULL));
    net_close();
}

/* --- a session directory: a ring of 4,096 places of which few are taken. The network is a
 * plain queue here, and all agree on who is there. --- */

#define PLACES 4096

static struct {
    struct member {
        struct boot_wave *wave; /* NULL: nobody is there */
        uint32_t state;
        uint64_t activity;
        unsigned no_producer, all_exit, outer_busy;
    } place[PLACES];
    uint32_t live[PLACES], nlive;
    struct packet *queue;
    size_t head, used, size;
    unsigned seed;
} ring;

static int ring_send(void *arg, uint32_t rank, struct net_msg *msg)
{
    struct member *from = arg;

    if (!ring.place[rank].wave)
        return -1;
    if (ring.used == ring.size)
        ring.queue = realloc(
            ring.queue, (ring.size = ring.size ? ring.size * 2 : 64) * sizeof(*ring.queue));
    ring.queue[ring.used] =
        (struct packet){.from = (uint32_t)(from - ring.place), .to = rank, .msg = *msg};
    ring.queue[ring.used++].msg.source = (uint32_t)(from - ring.place);
    return 0;
}

static bool ring_live(void *arg, uint32_t rank)
{
    (void)arg;
    return ring.place[rank].wave != NULL;
}

static void ring_verdict(void *arg, enum boot_wave_verdict verdict)
{
    struct member *member = arg;

    if (verdict == BOOT_WAVE_ALL_EXIT)
        member->all_exit++;
    else if (verdict == BOOT_WAVE_OUTER_BUSY)
        member->outer_busy++;
    else
        member->no_producer++;
}

static const struct boot_wave_ops ring_ops = {
    .send = ring_send, .live = ring_live, .verdict = ring_verdict};

static void ring_set(uint32_t place, uint32_t state)
{
    struct member *member = &ring.place[place];

    member->state = state;
    boot_wave_set(member->wave, state, ++member->activity);
}

static void ring_drain(void)
{
    for (; ring.head < ring.used; ring.head++) {
        struct packet packet = ring.queue[ring.head]; /* the queue may move */
        if (ring.place[packet.to].wave)
            boot_wave_receive(ring.place[packet.to].wave, &packet.msg);
    }
}

static void ring_tell(uint32_t of)
{
    for (uint32_t i = 0; i < ring.nlive; i++)
        if (ring.live[i] != of)
            boot_wave_rank_changed(ring.place[ring.live[i]].wave, of);
}

static uint32_t ring_join(void)
{
    uint32_t place;

    do
        place = (uint32_t)rand_r(&ring.seed) % PLACES;
    while (ring.place[place].wave);
    ring.place[place] = (struct member){
        .wave = boot_wave_create(place, PLACES, &ring_ops, &ring.place[place])};
    assert_non_null(ring.place[place].wave);
    ring.live[ring.nlive++] = place;
    ring_tell(place);
    return place;
}

static void ring_leave(uint32_t i)
{
    uint32_t place = ring.live[i];

    boot_wave_destroy(ring.place[place].wave);
    ring.place[place].wave = NULL;
    ring.live[i] = ring.live[--ring.nlive];
    ring_tell(place);
}

static void ring_close(void)
{
    while (ring.nlive)
        boot_wave_destroy(ring.place[ring.live[--ring.nlive]].wave);
    free(ring.queue);
    memset(&ring, 0, sizeof(ring));
}

/* Waiters and some at exit: each is told once, and those at exit may leave; newcomers and
 * leavers change the tree; at last all are at exit. Messages: a few for each member and
 * verdict, whatever the number of empty places. */
static void test_ring_of_few(void **state)
{
    static const uint32_t sizes[] = {1, 2, 5, 16, 100, 256};

    (void)state;
    for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
        uint32_t n = sizes[s];
        ring.seed = n;
        for (uint32_t i = 0; i < n; i++)
            ring_join();
        ring_drain();
        size_t before = ring.used;
        for (uint32_t i = 0; i < n; i++)
            ring_set(ring.live[i], i % 3 == 1 ? EXITING : QUIET);
        ring_drain();
        for (uint32_t i = 0; i < n; i++) {
            assert_int_equal(ring.place[ring.live[i]].no_producer, 1);
            assert_int_equal(ring.place[ring.live[i]].all_exit, 0);
        }
        assert_true(ring.used - before <= 6 * n);

        for (uint32_t i = n; i-- > 0;) /* those leave */
            if (ring.place[ring.live[i]].state == EXITING)
                ring_leave(i);
        ring_drain();
        uint32_t late = ring_join();
        ring_drain();
        uint32_t told = ring.place[ring.live[0]].no_producer;
        ring_set(late, EXITING); /* the others wait as before: it may leave, too */
        ring_drain();
        assert_int_equal(ring.place[late].no_producer, 1);
        assert_int_equal(ring.place[ring.live[0]].no_producer, told + 1);
        ring_set(late, 0);
        for (uint32_t i = 0; i < ring.nlive; i++)
            if (ring.live[i] != late)
                ring_set(ring.live[i], EXITING);
        ring_drain();
        for (uint32_t i = 0; i < ring.nlive; i++) /* one is at work */
            assert_int_equal(ring.place[ring.live[i]].all_exit, 0);
        before = ring.used;
        ring_set(late, EXITING);
        ring_drain();
        for (uint32_t i = 0; i < ring.nlive; i++)
            assert_int_equal(ring.place[ring.live[i]].all_exit, 1);
        assert_true(ring.used - before <= 5 * (size_t)n);
        ring_close();
    }
}

/* Some are busy with launches within them, the others at exit or waiting: these are told
 * so, and nobody that all were quiet. Not as long as one is busy with something else. */
static void test_ring_outer(void **state)
{
    const uint32_t n = 30;

    (void)state;
    for (uint32_t i = 0; i < n; i++)
        ring_join();
    ring_drain();
    for (uint32_t outer = 0; outer < n; outer++) {
        uint32_t second = (outer + 2) % n, busy = (outer + 3) % n;
        for (uint32_t i = 0; i < n; i++) {
            ring.place[ring.live[i]].outer_busy = ring.place[ring.live[i]].no_producer = 0;
            ring_set(ring.live[i], i == outer || i == second ? BOOT_WAVE_OUTER
                                   : i == busy               ? 0
                                   : i % 2                   ? QUIET
                                                             : EXITING);
        }
        ring_drain();
        for (uint32_t i = 0; i < n; i++)
            assert_int_equal(ring.place[ring.live[i]].outer_busy, 0);
        ring_set(ring.live[busy], EXITING);
        ring_drain();
        for (uint32_t i = 0; i < n; i++) {
            const struct member *member = &ring.place[ring.live[i]];
            assert_int_equal(member->outer_busy, i != outer && i != second);
            assert_int_equal(member->no_producer, 0);
            assert_int_equal(member->all_exit, 0);
        }
        ring_set(ring.live[busy], 0);
        ring_drain();
    }
    ring_close();
}

/* One rank, anywhere, is at exit within a script of its rank: with the verdict all know. */
static void test_script(void **state)
{
    (void)state;
    for (uint32_t who = 0; who < 50; who += 7) {
        net_open(50, 80 + who);
        for (int script = 1; script >= 0; script--) {
            for (uint32_t r = 0; r < 50; r++)
                set(r, r != who ? QUIET : script ? EXITING | BOOT_WAVE_SCRIPT : EXITING);
            drain();
            for (uint32_t r = 0; r < 50; r++)
                assert_int_equal(boot_wave_script(net.node[r].wave), script);
        }
        net_close();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_exit),
        cmocka_unit_test(test_confirm_finds),
        cmocka_unit_test(test_one_busy_rank_holds_all),
        cmocka_unit_test(test_no_producer_again),
        cmocka_unit_test(test_missing),
        cmocka_unit_test(test_told_once),
        cmocka_unit_test(test_chosen),
        cmocka_unit_test(test_activity_between_the_waves),
        cmocka_unit_test(test_never_joined),
        cmocka_unit_test(test_deaths),
        cmocka_unit_test(test_left_behind),
        cmocka_unit_test(test_late_joiner),
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_hostile),
        cmocka_unit_test(test_ring_of_few),
        cmocka_unit_test(test_ring_outer),
        cmocka_unit_test(test_script),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
