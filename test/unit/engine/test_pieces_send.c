/*
 * test_pieces_send.c - what is sent, when, and what is asked before it
 *
 * pieces_send.c and peer_clock.c alone, with a real file and its record; the taker, its clock, the network
 * and the pool are played by the test.
 */
#include "../store/scratch.h"

#include "engine/core/module.h"
#include "engine/membership/exit_barrier.h"
#include "engine/publish/pieces.h"
#include "engine/publish/pieces_send.h"
#include "fake_clock.h"
#include "net/worker.h"
#include "store/extents.h"
#include "store/marks.h"

#define TAKER 3
#define AHEAD (7 * UTIL_NSEC_PER_MSEC) /* its clock, of ours */
#define TEXT  "bytes"

extern const struct member_module pieces_sent_module;

static struct scratch *scratch;
static struct member member;
static struct engine_io *io; /* the pool's only job */
static struct net_msg sent;  /* the last message; type 0: it was answered */
static char data[64];
static net_send_fn sent_fn;
static void *sent_arg;
static unsigned nquestions;
static bool ended;
static int status;
static uint64_t met, met_length;

void engine_io_submit(struct engine_iopool *pool, struct engine_io *job,
                      void (*work)(void *arg), void (*done)(void *arg), void *arg)
{
    (void)pool;
    assert_null(io);
    io = job;
    io->work = work;
    io->done = done;
    io->arg = arg;
}

/* Until the pool is idle. */
static void run(void)
{
    while (io) {
        struct engine_io *job = io;
        io = NULL;
        job->work(job->arg);
        job->done(job->arg);
    }
}

int net_worker_send(struct net_worker *worker, uint32_t rank, struct net_msg *msg,
                    const void *payload, size_t len, net_send_fn fn, void *arg)
{
    (void)worker;
    assert_int_equal(rank, TAKER);
    assert_int_equal(msg->type, NET_MSG_PIECES);
    assert_int_equal(sent.type, 0);
    assert_true(len <= sizeof(data));
    sent = *msg;
    if (len)
        memcpy(data, payload, len);
    sent_fn = fn;
    sent_arg = arg;
    return 0;
}

const char *member_describe(struct member *m, uint32_t rank)
{
    (void)m;
    (void)rank;
    return "another";
}

void exit_barrier_activity(struct member *m)
{
    (void)m;
}

static void end(void *arg, int s, uint64_t m, uint64_t length)
{
    (void)arg;
    assert_false(ended);
    ended = true;
    status = s;
    met = m;
    met_length = length;
}

static int setup(void **state)
{
    struct member_dmd *dmd = &member.dmd[ENGINE_PRODUCER];
    struct dyad_entry entry = {.state = DYAD_ENTRY_PUBLISHED};
    struct pieces_out out = {
        .dmd = dmd, .upath = "f", .entry = &entry, .rank = TAKER, .mark = 7, .fn = end};
    int fd;
    uint64_t n;

    if (scratch_setup(state) < 0)
        return -1;
    scratch = *state;
    fake_clock_begin((uint64_t)time(NULL) * UTIL_NSEC_PER_SEC);
    member = (struct member){.state = MEMBER_JOINED};
    member.own[MODULE_pieces_sent] = calloc(1, pieces_sent_module.own.size);
    *dmd = (struct member_dmd){.dir = scratch->dir};
    dmd->extents = store_extents_create(scratch->dir, NULL);
    if (!member.own[MODULE_pieces_sent] || !dmd->extents)
        return -1;
    store_extents_begin(dmd->extents);
    fd = open(scratch_path(scratch, "f"), O_RDWR | O_CREAT, 0644);
    if (fd < 0 || store_identity_read(fd, &out.identity) < 0)
        return -1;
    n = store_extents_add(dmd->extents, out.identity.ino, out.identity.btime, 7, 0, 0,
                          strlen(TEXT));
    if (write(fd, TEXT, strlen(TEXT)) != (ssize_t)strlen(TEXT))
        return -1;
    store_extents_end(dmd->extents, n, strlen(TEXT), strlen(TEXT));
    close(fd);
    sent = (struct net_msg){0};
    nquestions = 0;
    ended = false;
    return pieces_send(&member, &out);
}

static int teardown(void **state)
{
    pieces_sent_module.destroy(&member);
    free(member.own[MODULE_pieces_sent]);
    store_extents_destroy(member.dmd[ENGINE_PRODUCER].extents);
    fake_clock_end();
    return scratch_teardown(state);
}

static void answers(struct net_msg reply)
{
    void *payload = NULL;

    reply.type = NET_MSG_PIECES_REPLY;
    reply.id = sent.id;
    reply.source = TAKER;
    sent.type = 0;
    sent_fn(sent_arg, 0);
    assert_true(pieces_sent_module.messages[0].fn(&member, &reply, &payload, 0));
    run();
}

/* All questions what time it is there, each on its way for so long, and so is its answer. */
static void says_the_time(uint64_t there_ns, uint64_t back_ns)
{
    while (sent.type && (sent.flags & NET_PIECES_CLOCK)) {
        struct net_msg reply = {0};

        nquestions++;
        fake_clock_pass(there_ns);
        reply.after = fake_now + AHEAD;
        fake_clock_pass(back_ns);
        answers(reply);
        assert_true(nquestions < 100000);
    }
}

/* The file has come, and a clock that is known to so many ns. */
static void has_come(uint64_t width)
{
    assert_int_equal(sent.type, NET_MSG_PIECES);
    assert_int_equal(sent.flags, NET_PIECES_LAST);
    assert_int_equal(sent.length, PIECE_HEAD + strlen(TEXT));
    assert_memory_equal(data + PIECE_HEAD, TEXT, strlen(TEXT));
    assert_true((int64_t)sent.after <= (int64_t)AHEAD &&
                (int64_t)sent.end >= (int64_t)AHEAD);
    assert_true(sent.end - sent.after <= width);
}

/* It is asked what time it is there, and gets all. */
static void test_sent(void **state)
{
    (void)state;
    says_the_time(10000, 20000);
    assert_int_equal(nquestions, 16);
    has_come(32000);
    answers((struct net_msg){0});
    assert_true(ended);
    assert_int_equal(status, 0);
}

/* On a machine that is busy all answers came late, so that which of two writes was the last is not known: it is
 * asked again, for longer, until one comes in time. */
static void test_busy(void **state)
{
    (void)state;
    says_the_time(UTIL_NSEC_PER_MSEC, 2 * UTIL_NSEC_PER_MSEC);
    has_come(4 * UTIL_NSEC_PER_MSEC);
    answers((struct net_msg){.status = EEXIST, .offset = 1, .length = 2});
    assert_false(ended);
    assert_true(sent.flags & NET_PIECES_CLOCK);
    says_the_time(10000, 20000);
    has_come(32000);
    answers((struct net_msg){0});
    assert_true(ended);
    assert_int_equal(status, 0);
}

/* Nobody knows: it takes no longer than a second to say so, and where. */
static void test_met(void **state)
{
    uint64_t begun;

    (void)state;
    says_the_time(UTIL_NSEC_PER_MSEC, UTIL_NSEC_PER_MSEC);
    answers((struct net_msg){.status = EEXIST, .offset = 1, .length = 2});
    begun = fake_now;
    says_the_time(UTIL_NSEC_PER_MSEC, UTIL_NSEC_PER_MSEC);
    assert_true(fake_now - begun <= UTIL_NSEC_PER_SEC + 2 * UTIL_NSEC_PER_MSEC);
    has_come(4 * UTIL_NSEC_PER_MSEC);
    answers((struct net_msg){.status = EEXIST, .offset = 1, .length = 2});
    assert_true(ended);
    assert_int_equal(status, EEXIST);
    assert_int_equal(met, 1);
    assert_int_equal(met_length, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_sent, setup, teardown),
        cmocka_unit_test_setup_teardown(test_busy, setup, teardown),
        cmocka_unit_test_setup_teardown(test_met, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
