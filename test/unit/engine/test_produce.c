/*
 * test_produce.c - a publish that is refused while others write the file
 *
 * produce.c alone, with a disk, a journal and marks of its own; the test is the table.
 */
#include "../store/scratch.h"

#include "engine/core/local_file.h"
#include "engine/core/member_impl.h"
#include "engine/core/module.h"
#include "engine/membership/exit_barrier.h"
#include "engine/namespace/directories.h"
#include "engine/publish/inline_bytes.h"
#include "engine/publish/produce.h"
#include "engine/publish/shared_storage.h"

static struct scratch *scratch;
static struct engine_config config;
static struct member member;
static store_mark_t ended;
static struct {
    dht_ahead_fn ahead;
    dht_publish_fn fn;
    void *arg;
    struct dyad_version version;
} publish;
static int done, status_done;

int dht_node_publish_ahead(struct dht_node *node, const struct dyad_entry *entry,
                           const void *bytes, dht_ahead_fn ahead, dht_publish_fn fn,
                           void *arg)
{
    (void)node;
    (void)entry;
    (void)bytes;
    publish.ahead = ahead;
    publish.fn = fn;
    publish.arg = arg;
    return 0;
}

void shared_end(struct member *m, enum engine_role role, const char *upath,
                store_mark_t mark, bool abandoned, produce_fn fn, void *arg)
{
    (void)m;
    (void)role;
    (void)upath;
    (void)abandoned;
    (void)fn;
    (void)arg;
    ended = mark;
}

/* --- what is not called, or of no interest --- */

struct dht_lookup *dht_node_lookup(struct dht_node *node, const char *upath, uint8_t flags,
                                   const struct dyad_version *newer_than, dht_lookup_fn fn,
                                   void *arg)
{
    (void)node;
    (void)upath;
    (void)flags;
    (void)newer_than;
    (void)fn;
    (void)arg;
    fail();
    return NULL;
}

int directories_ensure(struct member *m, enum engine_role role, const char *upath,
                       size_t len, mode_t mode, struct directories_wait *wait)
{
    (void)m;
    (void)role;
    (void)upath;
    (void)len;
    (void)mode;
    (void)wait;
    fail();
    return -1;
}

void directories_leave(struct directories_wait *wait)
{
    (void)wait;
}

void exit_barrier_activity(struct member *m)
{
    (void)m;
}

const void *inline_bytes(struct member *m, enum engine_role role,
                         const struct store_record *record, store_mark_t mark)
{
    (void)m;
    (void)role;
    (void)record;
    (void)mark;
    return NULL;
}

bool local_file_being_written(struct member_dmd *dmd, const char *upath)
{
    (void)dmd;
    (void)upath;
    return false;
}

bool local_file_is_superseded(const struct member_dmd *dmd, const char *upath,
                              const struct stat *st)
{
    (void)dmd;
    (void)upath;
    (void)st;
    return false;
}

void modules_published(struct member *m, const char *upath)
{
    (void)m;
    (void)upath;
}

void modules_path_changed(struct member *m, const char *upath)
{
    (void)m;
    (void)upath;
}

void net_loop_post(struct net_loop *loop, struct net_post *post, void (*fn)(void *arg),
                   void *arg)
{
    (void)loop;
    (void)post;
    (void)fn;
    (void)arg;
    fail();
}

/* --- */

static int setup(void **state)
{
    struct member_dmd *dmd = &member.dmd[ENGINE_PRODUCER];
    uint32_t incarnation;

    if (scratch_setup(state) < 0)
        return -1;
    scratch = *state;
    member = (struct member){.config = &config, .self.rank = 1};
    *dmd = (struct member_dmd){.dir = scratch->dir};
    dmd->marks = store_marks_create(scratch->dir);
    dmd->journal = store_journal_create(scratch->dir, "test", &incarnation);
    done = 0;
    ended = 0;
    return dmd->marks && dmd->journal ? 0 : -1;
}

static int teardown(void **state)
{
    store_journal_destroy(member.dmd[ENGINE_PRODUCER].journal);
    store_marks_destroy(member.dmd[ENGINE_PRODUCER].marks);
    return scratch_teardown(state);
}

static void on_done(void *arg, int status)
{
    (void)arg;
    done++;
    status_done = status;
}

/* The table tries the version `counter`. */
static bool tries(uint64_t counter)
{
    publish.version = (struct dyad_version){.counter = counter, .rank = 1};
    return publish.ahead(publish.arg, &publish.version);
}

/* The file is written and closed, and the table has tried version 5. */
static void closes(const char *text)
{
    store_mark_t mark = store_marks_begin(member.dmd[ENGINE_PRODUCER].marks, "f");

    assert_int_not_equal(mark, 0);
    scratch_write(scratch, "f", text);
    assert_int_equal(produce_start(&member, ENGINE_PRODUCER, "f", mark, on_done, NULL), 0);
    assert_true(tries(5));
}

static const struct store_record *recorded(void)
{
    return store_journal_find(member.dmd[ENGINE_PRODUCER].journal, "f");
}

/* Another process of the node has written it since: as if ours had been published before
 * that. */
static void overtaken(void)
{
    assert_false(tries(9));
    publish.fn(publish.arg, ECANCELED, &publish.version);
    assert_int_equal(done, 1);
    assert_int_equal(status_done, 0);
    assert_null(recorded());
    assert_int_not_equal(ended, 0);
}

static void test_written_in_place(void **state)
{
    (void)state;
    closes("ours");
    scratch_write(scratch, "f", "another's");
    overtaken();
}

static void test_replaced(void **state)
{
    char from[PATH_MAX];

    (void)state;
    closes("ours");
    scratch_write(scratch, "t", "ours");
    strcpy(from, scratch_path(scratch, "t"));
    assert_int_equal(rename(from, scratch_path(scratch, "f")), 0);
    overtaken();
}

/* What does not change the file, or takes it away, which the table hears of in its turn. */
static void test_goes_on(void **state)
{
    char other[PATH_MAX];

    (void)state;
    closes("ours");
    assert_true(tries(9));
    assert_int_equal(chmod(scratch_path(scratch, "f"), 0600), 0);
    strcpy(other, scratch_path(scratch, "g"));
    assert_int_equal(link(scratch_path(scratch, "f"), other), 0);
    assert_true(tries(10));
    assert_int_equal(unlink(scratch_path(scratch, "f")), 0);
    assert_true(tries(11));
    publish.fn(publish.arg, 0, &publish.version);
    assert_int_equal(done, 1);
    assert_int_equal(status_done, 0);
    assert_int_equal(recorded()->entry.version.counter, 11);
    assert_int_not_equal(ended, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_written_in_place, setup, teardown),
        cmocka_unit_test_setup_teardown(test_replaced, setup, teardown),
        cmocka_unit_test_setup_teardown(test_goes_on, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
