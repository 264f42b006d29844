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
#define LARGE (1u << 20) /* of a file of two chunks, behind the text */
#define LINE  5000       /* closes at once; the taker has room for 4096 */

extern const struct member_module pieces_sent_module;

static struct scratch *scratch;
static struct member member;
static struct engine_io *io; /* the pool's only job */
static struct net_msg sent;  /* the last message; type 0: it was answered */
static char data[64];        /* its first bytes */
static unsigned
    nfirst; /* of each sending the first message; while `many` go on nothing else is kept of these */
static bool many;
static unsigned nended, ngiven_up;
static struct net_post *posts, **posts_end = &posts;
static struct pieces_out out; /* of "f" */
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

void net_loop_post(struct net_loop *loop, struct net_post *node, net_loop_fn fn, void *arg)
{
    (void)loop;
    *node = (struct net_post){.fn = fn, .arg = arg};
    *posts_end = node;
    posts_end = &node->next;
}

/* Until the pool and the loop are idle. */
static void run(void)
{
    while (io || posts) {
        struct engine_io *job = io;
        struct net_post *post = posts;
        if (job) {
            io = NULL;
            job->work(job->arg);
            job->done(job->arg);
            continue;
        }
        if (!(posts = post->next))
            posts_end = &posts;
        post->fn(post->arg);
    }
}

int member_send(struct member *m, uint32_t rank, struct net_msg *msg)
{
    (void)m;
    assert_int_equal(rank, TAKER);
    assert_int_equal(msg->type, NET_MSG_PIECES);
    assert_int_equal(msg->flags, NET_PIECES_GIVEN_UP);
    assert_int_equal(msg->length, 0);
    assert_int_equal(msg->id, sent.id);
    ngiven_up++;
    return 0;
}

int net_worker_send(struct net_worker *worker, uint32_t rank, struct net_msg *msg,
                    const void *payload, size_t len, net_send_fn fn, void *arg)
{
    (void)worker;
    assert_int_equal(rank, TAKER);
    assert_int_equal(msg->type, NET_MSG_PIECES);
    assert_true(many || sent.type == 0);
    nfirst++;
    sent = *msg;
    if (len)
        memcpy(data, payload, len < sizeof(data) ? len : sizeof(data));
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
    assert_true(many || !ended);
    ended = true;
    nended++;
    status = s;
    met = m;
    met_length = length;
}

/* With so many bytes behind the text. */
static int setup_file(void **state, size_t more)
{
    static struct dyad_entry entry;
    struct member_dmd *dmd = &member.dmd[ENGINE_PRODUCER];
    size_t len = strlen(TEXT) + more;
    int fd;
    uint64_t n;

    if (scratch_setup(state) < 0)
        return -1;
    scratch = *state;
    fake_clock_begin((uint64_t)time(NULL) * UTIL_NSEC_PER_SEC);
    entry = (struct dyad_entry){.state = DYAD_ENTRY_PUBLISHED};
    out = (struct pieces_out){
        .dmd = dmd, .upath = "f", .entry = &entry, .rank = TAKER, .mark = 7, .fn = end};
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
    n = store_extents_add(dmd->extents, out.identity.ino, out.identity.btime, 7, 0, 0, len);
    if (write(fd, TEXT, strlen(TEXT)) != (ssize_t)strlen(TEXT) ||
        ftruncate(fd, (off_t)len) < 0)
        return -1;
    store_extents_end(dmd->extents, n, len, len);
    close(fd);
    sent = (struct net_msg){0};
    nquestions = nfirst = nended = ngiven_up = 0;
    ended = many = false;
    return pieces_send(&member, &out);
}

static int setup(void **state)
{
    return setup_file(state, 0);
}

static int setup_large(void **state)
{
    return setup_file(state, LARGE);
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

/* The file of the sending reads no more: as a disk with an error. */
static void break_file(void)
{
    char link[64], to[4096];
    int nowhere = open("/", O_PATH | O_DIRECTORY), broken = 0;

    assert_true(nowhere >= 0);
    for (int fd = 3; fd < 1000; fd++) {
        ssize_t n;
        snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
        if ((n = readlink(link, to, sizeof(to) - 1)) < 2 ||
            memcmp(to + n - 2, "/f", 2) != 0)
            continue;
        assert_int_equal(dup2(nowhere, fd), fd);
        broken++;
    }
    close(nowhere);
    assert_int_equal(broken, 1);
}

/* What the taker has of it is of no use, and it is told at once. */
static void test_unreadable(void **state)
{
    (void)state;
    says_the_time(10000, 20000);
    assert_int_equal(sent.flags, 0);
    assert_int_equal(sent.offset, 0);
    break_file();
    answers((struct net_msg){0});
    assert_true(ended);
    assert_int_equal(status, EIO);
    assert_int_equal(ngiven_up, 1);
}

/* Of what it has refused, or taken, or not got, it has nothing. */
static void test_not_begun(void **state)
{
    (void)state;
    says_the_time(10000, 20000);
    answers((struct net_msg){0});
    assert_int_equal(sent.flags, NET_PIECES_LAST);
    assert_true(sent.offset > 0);
    answers((struct net_msg){.status = ENOENT});
    assert_int_equal(status, ENOENT);
    assert_int_equal(ngiven_up, 0);
    ended = false;
    assert_int_equal(pieces_send(&member, &out), 0);
    run();
    answers((struct net_msg){.status = ENOMEM}); /* of the first chunk */
    assert_int_equal(status, ENOMEM);
    assert_int_equal(ngiven_up, 0);
}

/* Any number of files is closed at once: no more are on their way than the taker has room for. When it is gone
 * all may go elsewhere. */
static void test_line(void **state)
{
    unsigned first;

    (void)state;
    many = true;
    for (unsigned i = 1; i < LINE; i++)
        assert_int_equal(pieces_send(&member, &out), 0);
    run();
    first = nfirst;
    assert_in_range(first, 1, 100);
    answers((struct net_msg){.status = ENOENT}); /* one has ended, and the next is begun */
    assert_int_equal(nended, 1);
    assert_int_equal(nfirst, first + 1);
    out.mark = 0; /* of a read: a close may wait for it */
    assert_int_equal(pieces_send(&member, &out), 0);
    assert_int_equal(nfirst, first + 2);
    pieces_sent_module.peer_down(&member, TAKER);
    run();
    assert_int_equal(nended, LINE - first); /* the network has the others still */
    assert_true(pieces_sent_module.pending(&member));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_sent, setup, teardown),
        cmocka_unit_test_setup_teardown(test_busy, setup, teardown),
        cmocka_unit_test_setup_teardown(test_met, setup, teardown),
        cmocka_unit_test_setup_teardown(test_unreadable, setup_large, teardown),
        cmocka_unit_test_setup_teardown(test_not_begun, setup_large, teardown),
        cmocka_unit_test_setup_teardown(test_line, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
