/*
 * test_pieces_take.c - who takes pieces, who is told to publish instead, and what waits for what
 *
 * pieces_take.c alone, with a real file and its record; the publish, the pool and the sender are played by
 * the test. Our storage is id 5: a node with a lower one is first.
 */
#include "../store/scratch.h"

#include <sys/resource.h>

#include "engine/core/local_file.h"
#include "engine/core/module.h"
#include "engine/membership/exit_barrier.h"
#include "engine/publish/pieces_apply.h"
#include "engine/publish/pieces_take.h"
#include "engine/publish/produce.h"
#include "engine/publish/produce_impl.h"
#include "engine/publish/withdraw.h"
#include "store/superseded.h"

#define SENDER 3
#define ID     77
#define BOUND  4096 /* TAKINGS_MAX */

extern const struct member_module pieces_taken_module;

static struct scratch *scratch;
static struct member member;
static struct pieces_taken *own; /* opaque: the module's */
static struct engine_io *io;     /* the pool's only job */
static uint64_t sends_id = ID;   /* of what the sender sends */
static int apply_status;
static struct pieces_apply applied; /* the last one */
static unsigned napplied;
static struct produce ours; /* of this node; linked by: */
static bool pending, merging;
static bool superseded;
static int answered; /* the last PIECES_REPLY's status; -1: none */
static struct store_extent met;
static produce_fn publish_fn; /* of produce_merged() */
static void *publish_arg;
static struct dyad_version yielded;
static produce_fn withdraw_fn;
static void *withdraw_arg;

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

static bool is_pending(void)
{
    const struct member_dmd *dmd = &member.dmd[ENGINE_PRODUCER];
    struct stat st;

    assert_int_equal(stat(scratch_path(scratch, "f"), &st), 0);
    return store_superseded(store_dir_real_path(dmd->dir), dmd->session, "f", STORE_PENDING,
                            st.st_ino);
}

int pieces_apply(struct pieces_apply *apply)
{
    /* Before: who reads it here is to ask the homes what is the newest. */
    if (!apply->shown)
        assert_true(is_pending());
    applied = *apply;
    napplied++;
    if (apply_status == EEXIST)
        apply->met = (struct store_extent){.offset = 100, .length = 20};
    return apply_status;
}

int member_send(struct member *m, uint32_t rank, struct net_msg *msg)
{
    (void)m;
    assert_int_equal(rank, SENDER);
    assert_int_equal(msg->type, NET_MSG_PIECES_REPLY);
    assert_int_equal(msg->id, sends_id);
    answered = msg->status;
    met = (struct store_extent){.offset = msg->offset, .length = msg->length};
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

void modules_published(struct member *m, const char *upath)
{
    pieces_taken_module.published(m, upath);
}

void local_file_set_pending(const struct member_dmd *d, const char *upath,
                            const struct store_identity *identity)
{
    store_superseded_set(d->dir, d->session, upath, STORE_PENDING, identity);
}

bool local_file_is_superseded(const struct member_dmd *dmd, const char *upath,
                              const struct stat *st)
{
    (void)dmd;
    (void)upath;
    (void)st;
    return superseded;
}

bool produce_pending(struct member *m, const char *upath)
{
    (void)m;
    assert_string_equal(upath, "f");
    return pending;
}

struct produce *produce_merging(struct member *m, const char *upath)
{
    (void)m;
    (void)upath;
    return merging ? &ours : NULL;
}

struct produce *produce_bringing(struct member *m, const char *upath)
{
    (void)m;
    (void)upath;
    return ours.brings ? &ours : NULL;
}

int produce_merged(struct member *m, enum engine_role role, const char *upath,
                   const struct dyad_version *version, produce_fn fn, void *arg)
{
    (void)m;
    (void)role;
    assert_string_equal(upath, "f");
    assert_null(publish_fn);
    yielded = *version;
    publish_fn = fn;
    publish_arg = arg;
    return 0;
}

int produce_withdraw_left(struct member *m, const char *upath, produce_fn fn, void *arg)
{
    (void)m;
    assert_string_equal(upath, "f");
    withdraw_fn = fn;
    withdraw_arg = arg;
    return 0;
}

static int setup(void **state)
{
    struct member_dmd *dmd = &member.dmd[ENGINE_PRODUCER];
    struct store_identity id;
    int fd;

    if (scratch_setup(state) < 0)
        return -1;
    scratch = *state;
    own = calloc(1, pieces_taken_module.own.size);
    member = (struct member){.own[MODULE_pieces_taken] = own, .self.rank = 1};
    *dmd = (struct member_dmd){.dir = scratch->dir};
    dmd->marks = store_marks_create(scratch->dir);
    dmd->extents = store_extents_create(scratch->dir, NULL);
    if (!own || !dmd->marks || !dmd->extents)
        return -1;
    store_extents_begin(dmd->extents);
    fd = open(scratch_path(scratch, "f"), O_RDWR | O_CREAT, 0644);
    if (fd < 0 || store_identity_read(fd, &id) < 0)
        return -1;
    close(fd);
    ours = (struct produce){.member = &member, .upath = "f"};
    memset(ours.record.entry.storage, 5, sizeof(ours.record.entry.storage));
    pending = merging = superseded = false;
    apply_status = 0;
    napplied = 0;
    answered = -1;
    publish_fn = NULL;
    withdraw_fn = NULL;
    return 0;
}

static int teardown(void **state)
{
    struct member_dmd *dmd = &member.dmd[ENGINE_PRODUCER];

    pieces_taken_module.destroy(&member);
    free(own);
    store_extents_destroy(dmd->extents);
    store_marks_destroy(dmd->marks);
    return scratch_teardown(state);
}

/* A node with that storage sends all that it has, of a version with that counter. */
static void sends_as(uint8_t storage, uint64_t counter, uint8_t flags)
{
    struct net_msg msg = {.type = NET_MSG_PIECES,
                          .source = SENDER,
                          .id = sends_id,
                          .flags = flags | NET_PIECES_LAST,
                          .entry = {.upath = "f", .version.counter = counter}};
    void *payload = strdup("bytes");

    memset(msg.entry.storage, storage, sizeof(msg.entry.storage));
    answered = -1;
    assert_true(pieces_taken_module.messages[0].fn(&member, &msg, &payload, 5));
    free(payload);
    run();
}

static void publishes(int status)
{
    produce_fn fn = publish_fn;

    assert_non_null(fn);
    publish_fn = NULL;
    fn(publish_arg, status);
}

/* Answered when this node has published them, and not before. */
static void test_taken(void **state)
{
    (void)state;
    sends_as(7, 4, 0);
    assert_int_equal(napplied, 1);
    assert_int_equal(applied.size, 5);
    assert_false(applied.shown || applied.kept);
    assert_int_equal(answered, -1);
    assert_true(pieces_are_taken(&member, "f"));
    assert_int_equal(yielded.counter, 4);
    publishes(0);
    assert_int_equal(answered, 0);
    assert_false(pieces_are_taken(&member, "f"));
    assert_false(pieces_taken_module.pending(&member));
}

/* A publish of this node is under way: they are put in when it has ended. */
static void test_held(void **state)
{
    (void)state;
    pending = true;
    sends_as(7, 4, 0);
    assert_int_equal(napplied, 0);
    assert_int_equal(answered, -1);
    pending = false;
    modules_published(&member, "f");
    run();
    assert_int_equal(napplied, 1);
    publishes(0);
    assert_int_equal(answered, 0);
}

/* Each of two nodes was refused for the other's version: the one with the lower storage publishes. */
static void test_first(void **state)
{
    (void)state;
    pending = merging = true;
    sends_as(4, 4, 0);
    assert_int_equal(answered, EAGAIN);
    assert_int_equal(napplied, 0);
    sends_as(7, 4, 0);
    assert_int_equal(answered, -1);
    pending = merging = false; /* the other one has taken ours */
    modules_published(&member, "f");
    run();
    publishes(0);
    assert_int_equal(answered, 0);
}

/* It gives way to a third node's, which comes in its place: who reads it there is not told so. */
static void test_superseded(void **state)
{
    (void)state;
    superseded = true;
    sends_as(7, 4, 0);
    assert_int_equal(answered, ESTALE);
    sends_as(7, 4, NET_PIECES_SHOWN);
    assert_int_equal(answered, 0);
}

/* Those for a read wait for a publish that is under way, which looks at the file; but not those that it
 * waits for itself: they are published with it. */
static void test_shown(void **state)
{
    (void)state;
    pending = merging = true;
    sends_as(4, 4, NET_PIECES_SHOWN);
    assert_int_equal(napplied, 0);
    assert_int_equal(answered, -1);
    pending = merging = false;
    modules_published(&member, "f");
    run();
    assert_true(applied.shown && !applied.kept);
    assert_false(is_pending());
    assert_int_equal(answered, 0);
    assert_null(publish_fn);

    pending = merging = ours.brings = true;
    sends_as(4, 5, NET_PIECES_SHOWN);
    assert_int_equal(napplied, 2);
    assert_true(applied.shown && applied.kept);
    assert_int_equal(answered, 0);
    assert_null(publish_fn);
}

/* Who wrote last is not known: the sender hears where, and so does a publish that they were brought for. */
static void test_met(void **state)
{
    (void)state;
    apply_status = EEXIST;
    sends_as(7, 4, 0);
    assert_int_equal(answered, EEXIST);
    assert_int_equal(met.offset, 100);
    assert_int_equal(met.length, 20);
    assert_int_equal(ours.met_length, 0);

    pending = merging = ours.brings = true;
    sends_as(7, 5, NET_PIECES_SHOWN);
    assert_int_equal(answered, EEXIST);
    assert_int_equal(ours.met, 100);
    assert_int_equal(ours.met_length, 20);
}

/* It was removed here: the sender hears of that when the homes know; at once, where a publish of this node
 * may wait for the sender. */
static void test_removed(void **state)
{
    (void)state;
    assert_int_equal(unlink(scratch_path(scratch, "f")), 0);
    sends_as(7, 4, 0);
    assert_int_equal(answered, -1);
    assert_non_null(withdraw_fn);
    withdraw_fn(withdraw_arg, 0);
    assert_int_equal(answered, ENOENT);
    sends_as(7, 4, NET_PIECES_SHOWN);
    assert_int_equal(answered, ENOENT);
}

/* The sender is gone before all has come, or before it is put in: nothing of it is. */
static void test_sender_gone(void **state)
{
    (void)state;
    pending = true;
    sends_as(7, 4, 0);
    pieces_taken_module.peer_down(&member, SENDER);
    pending = false;
    modules_published(&member, "f");
    run();
    assert_int_equal(napplied, 0);
    assert_int_equal(answered, -1);
    assert_false(pieces_taken_module.pending(&member));
}

/* The sender cannot read the rest: what has come is forgotten, and nothing waits for it. */
static void test_given_up(void **state)
{
    struct net_msg msg = {.type = NET_MSG_PIECES,
                          .source = SENDER,
                          .id = sends_id,
                          .entry = {.upath = "f", .version.counter = 4}};
    void *payload = strdup("bytes");

    (void)state;
    memset(msg.entry.storage, 7, sizeof(msg.entry.storage));
    assert_true(pieces_taken_module.messages[0].fn(&member, &msg, &payload, 5));
    run();
    assert_int_equal(answered, 0);
    assert_true(pieces_taken_module.pending(&member));
    answered = -1;
    msg.flags = NET_PIECES_GIVEN_UP;
    for (int i = 0; i < 2; i++) { /* of one that is not known, too */
        assert_true(pieces_taken_module.messages[0].fn(&member, &msg, &payload, 0));
        assert_false(pieces_taken_module.pending(&member));
        assert_int_equal(answered, -1);
    }
    assert_int_equal(napplied, 0);
}

/* There is no record of what was written here. */
static void test_unrecorded(void **state)
{
    struct member_dmd *dmd = &member.dmd[ENGINE_PRODUCER];
    struct store_extents *extents = dmd->extents;

    (void)state;
    dmd->extents = NULL;
    sends_as(7, 4, 0);
    assert_int_equal(answered, EBUSY);
    dmd->extents = extents;
}

/* One that sends parts of ever more files is refused. */
static void test_without_end(void **state)
{
    struct rlimit limit, more;
    unsigned n = 0;

    (void)state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    more = limit;
    more.rlim_cur = BOUND + 100; /* each has a temporary file */
    if (more.rlim_max < more.rlim_cur) {
        print_message("only %llu descriptors: skipped\n",
                      (unsigned long long)more.rlim_max);
        skip();
    }
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &more), 0);
    pending = true;
    for (answered = -1; answered == -1 && n < BOUND + 10; n++) {
        sends_id = ID + n;
        sends_as(7, 4, 0);
    }
    assert_int_equal(n, BOUND + 1);
    assert_int_equal(answered, ENOMEM);
    pieces_taken_module.peer_down(&member, SENDER);
    assert_false(pieces_taken_module.pending(&member));
    sends_id = ID;
    sends_as(7, 4, 0);
    assert_int_equal(answered, -1);
    assert_true(pieces_taken_module.pending(&member));
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_taken),      T(test_held),     T(test_first),       T(test_superseded),
        T(test_shown),      T(test_met),      T(test_removed),     T(test_sender_gone),
        T(test_unrecorded), T(test_given_up), T(test_without_end),
    };
    return cmocka_run_group_tests_name("pieces_take", tests, NULL, NULL);
}
