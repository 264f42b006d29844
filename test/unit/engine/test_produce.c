/*
 * test_produce.c - a publish that is refused while others write the file
 *
 * produce.c alone, with a disk, a journal and marks of its own; the test is the table.
 */
#include "../store/scratch.h"

#include <pthread.h>

#include "dht/base.h"
#include "engine/core/completion.h"
#include "engine/core/local_file.h"
#include "engine/core/member_impl.h"
#include "engine/core/module.h"
#include "engine/membership/exit_barrier.h"
#include "engine/namespace/directories.h"
#include "engine/publish/inline_bytes.h"
#include "engine/publish/pieces_send.h"
#include "engine/publish/pieces_show.h"
#include "engine/publish/pieces_take.h"
#include "engine/publish/produce.h"
#include "engine/publish/produce_impl.h"
#include "engine/core/joined_writers.h"
#include "engine/publish/shared_storage.h"
#include "engine/publish/withdraw.h"
#include "store/extents.h"
#include "store/superseded.h"

static struct scratch *scratch;
static struct engine_config config;
static struct member member;
static store_mark_t ended;
struct publish {
    dht_ahead_fn ahead;
    dht_publish_fn fn;
    void *arg;
    struct dyad_entry entry;
    struct dyad_base base;
    struct dyad_version version;
};
static struct publish publishes[3];
static unsigned npublishes;
static struct dyad_entry refused; /* by this one */
static void (*posted)(void *arg);
static void *posted_arg;
static int done, status_done, ngiven_way, nwithdrawn;

int dht_node_publish_ahead(struct dht_node *node, const struct dyad_entry *entry,
                           const struct dyad_base *base, const void *bytes,
                           dht_ahead_fn ahead, dht_publish_fn fn, void *arg)
{
    (void)node;
    (void)bytes;
    assert_true(npublishes < 3);
    publishes[npublishes++] = (struct publish){
        .ahead = ahead, .fn = fn, .arg = arg, .entry = *entry, .base = *base};
    return 0;
}

/* What the user has declared. */
static bool declared, due;

bool completion_is_declared(const struct member *m, const char *upath)
{
    (void)m;
    (void)upath;
    return declared;
}

bool completion_is_due(const struct member *m, const char *upath, mode_t mode)
{
    (void)m;
    (void)upath;
    return S_ISREG(mode) && due;
}

bool completion_holds(const struct member *m, const char *upath)
{
    (void)m;
    (void)upath;
    return due;
}

bool shared_storage(const struct member *m, enum engine_role role)
{
    (void)m;
    (void)role;
    return false;
}

void joined_writers_opened(struct member *m, const char *upath)
{
    (void)m;
    assert_string_equal(upath, "f");
}

void joined_writers_closed(struct member *m, const char *upath, dht_writing_fn fn,
                           void *arg)
{
    (void)m;
    (void)fn;
    (void)arg;
    assert_string_equal(upath, "f");
}

uint32_t dht_node_neighbour(const struct dht_node *node, uint32_t rank, uint32_t last)
{
    (void)node;
    (void)rank;
    (void)last;
    return DYAD_RANK_NONE;
}

const struct net_peer *net_worker_peer(struct net_worker *worker, uint32_t rank)
{
    (void)worker;
    (void)rank;
    fail();
    return NULL;
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

static bool may_send;         /* its pieces to the owner of the version that came first */
static struct produce *sends; /* what does, ... */
static void (*pieces_sent)(void *arg, int status, uint64_t met, uint64_t met_length);
static unsigned ninlined;
static int brought; /* what is answered to one that brings what has given way to it */
static unsigned nbrought;

bool pieces_may_send(const struct produce *p, const struct dyad_entry *there)
{
    (void)there;
    return may_send && !p->unmerged;
}

int pieces_send(struct member *m, const struct pieces_out *out)
{
    (void)m;
    sends = out->arg;
    pieces_sent = out->fn;
    return 0;
}

int pieces_show_from(struct member *m, enum engine_role role, const char *upath,
                     uint32_t rank, produce_fn fn, void *arg)
{
    (void)m;
    (void)role;
    assert_string_equal(upath, "f");
    assert_int_equal(rank, refused.owner);
    assert_ptr_equal(produce_bringing(m, "f"), arg);
    nbrought++;
    fn(arg, brought);
    return 0;
}

void pieces_retry(struct member *m)
{
    (void)m;
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
    ninlined++;
    return NULL;
}

void engine_io_submit(struct engine_iopool *pool, struct engine_io *io,
                      void (*work)(void *arg), void (*over)(void *arg), void *arg)
{
    (void)pool;
    (void)io;
    (void)work;
    (void)over;
    (void)arg;
    fail();
}

void engine_io_near(struct engine_iopool *pool, struct engine_near *near,
                    struct engine_io *io, void (*work)(void *arg), void (*over)(void *arg),
                    void *arg)
{
    (void)near;
    engine_io_submit(pool, io, work, over, arg);
}

bool modules_overtaken(struct member *m, struct member_dmd *dmd,
                       const struct dyad_entry *newer, const struct store_record *record)
{
    (void)m;
    (void)dmd;
    assert_int_equal(newer->owner, refused.owner);
    assert_string_equal(record->entry.upath, "f");
    ngiven_way++;
    return true;
}

int produce_withdraw_left(struct member *m, const char *upath, produce_fn fn, void *arg)
{
    (void)m;
    assert_string_equal(upath, "f");
    nwithdrawn++;
    fn(arg, ENOENT);
    return 0;
}

const char *member_describe(struct member *m, uint32_t rank)
{
    (void)m;
    (void)rank;
    return "another";
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
    assert_null(posted);
    posted = fn;
    posted_arg = arg;
}

/* --- */

static int setup(void **state)
{
    struct member_dmd *dmd = &member.dmd[ENGINE_PRODUCER];
    uint32_t incarnation;

    if (scratch_setup(state) < 0)
        return -1;
    scratch = *state;
    config.component = "ours";
    member = (struct member){.config = &config, .self.rank = 1};
    *dmd = (struct member_dmd){.dir = scratch->dir};
    dmd->marks = store_marks_create(scratch->dir);
    dmd->journal = store_journal_create(scratch->dir, "test", &incarnation);
    done = 0;
    ended = 0;
    may_send = false;
    brought = 0;
    nbrought = 0;
    ninlined = 0;
    sends = NULL;
    posted = NULL;
    ngiven_way = nwithdrawn = 0;
    npublishes = 0;
    refused = (struct dyad_entry){.upath = "f", .state = DYAD_ENTRY_PUBLISHED, .owner = 2};
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
static enum dht_ahead tries(struct publish *p, uint64_t counter)
{
    const struct dyad_entry *by = p->version.counter ? &refused : NULL;
    struct dyad_version version = {.counter = counter, .rank = 1};
    enum dht_ahead rc = p->ahead(p->arg, &version, by, &p->entry, &p->base);

    if (rc != DHT_AHEAD_STOP)
        p->version = version;
    return rc;
}

static void ends(struct publish *p, int status)
{
    int before = done;

    p->fn(p->arg, status, &p->version);
    assert_int_equal(done, before + 1);
    assert_int_equal(status_done, 0);
}

static bool joint; /* closes(): another node writes it, too */

/* The file is written and closed. */
static struct publish *closes(const char *text)
{
    struct store_marks *marks = member.dmd[ENGINE_PRODUCER].marks;
    store_mark_t mark = store_marks_begin(marks, "f");
    int fd = open(scratch_path(scratch, "f"), O_RDWR | O_CREAT, 0644);

    assert_true(fd >= 0);
    if (joint)
        store_marks_set_joint(marks, "f", 0, 0);
    assert_int_equal(store_marks_opened(marks, mark, fd, false), 0);
    close(fd);
    scratch_write(scratch, "f", text);
    fd = open(scratch_path(scratch, "f"), O_RDONLY);
    assert_true(store_marks_closed(marks, mark, fd, false));
    close(fd);
    assert_int_equal(produce_start(&member, ENGINE_PRODUCER, "f", mark, on_done, NULL), 0);
    return &publishes[npublishes - 1];
}

static const struct store_record *recorded(void)
{
    return store_journal_find(member.dmd[ENGINE_PRODUCER].journal, "f");
}

static void refused_by_what_is_here(void)
{
    struct stat st;

    assert_int_equal(stat(scratch_path(scratch, "f"), &st), 0);
    store_dir_describe(scratch->dir, &st, &refused);
}

/* Another rank of the node has written it since, and publishes it: readers elsewhere may not
 * have heard of that yet, so the close must not end before the homes have acknowledged that. */
static void of_another(struct publish *p)
{
    refused_by_what_is_here();
    assert_int_equal(tries(p, 9), DHT_AHEAD_CHANGED);
    assert_int_equal(p->entry.size, refused.size);
    assert_int_equal(p->entry.mtime_nsec, refused.mtime_nsec);
    ends(p, 0);
    assert_int_equal(recorded()->entry.version.counter, 9);
    assert_int_not_equal(ended, 0);
}

static void test_written_in_place(void **state)
{
    struct publish *p = closes("ours");

    (void)state;
    assert_int_equal(tries(p, 5), DHT_AHEAD_GO);
    scratch_write(scratch, "f", "another's");
    of_another(p);
}

/* DYAD_ASYNC_PUBLISH: the close returns before the homes have acknowledged. Where other nodes write the file, too, or in turns, its mark
 * stays until then, for who reads it; there is a link for the process that has closed it. */
static void test_answered_early(void **state)
{
    static const char *const texts[] = {"ours", "once more", "with others"};
    const struct member_dmd *dmd = &member.dmd[ENGINE_PRODUCER];
    struct store_mark_info info;
    struct stat st;

    (void)state;
    config.async_publish = true;
    for (uint64_t i = 0; i < 3; i++) {
        npublishes = 0;
        done = 0;
        joint = i == 2;
        config.turns = i == 1 ? "f" : NULL;
        struct publish *p = closes(texts[i]);
        assert_int_equal(tries(p, 5 + i), DHT_AHEAD_GO);
        posted(posted_arg);
        posted = NULL;
        assert_int_equal(done, 1);
        assert_int_equal(status_done, 0);
        assert_int_equal(store_dir_stat(dmd->dir, "f", &st), 0);
        assert_int_equal(store_marks_dirty(dmd->marks, NULL, st.st_ino, 0, &info), i > 0);
        assert_true(i == 0 || info.state == STORE_MARK_CLOSING);
        assert_int_equal(store_superseded(store_dir_real_path(dmd->dir), dmd->session, "f",
                                          STORE_PENDING, st.st_ino),
                         joint);
        p->fn(p->arg, i == 1 ? ENOMEM : 0, &p->version);
        assert_int_equal(done, 1);
        assert_false(store_marks_dirty(dmd->marks, NULL, st.st_ino, 0, NULL));
    }
    joint = config.async_publish = false;
    config.turns = NULL;
}

/* A member that ends before the homes have answered leaves no mark of a close that has returned. */
extern const struct member_module produce_module;

static void test_answered_and_left(void **state)
{
    const struct member_dmd *dmd = &member.dmd[ENGINE_PRODUCER];
    struct publish *p;
    struct stat st;

    (void)state;
    config.async_publish = joint = true;
    p = closes("ours");
    posted(posted_arg);
    posted = NULL;
    assert_int_equal(store_dir_stat(dmd->dir, "f", &st), 0);
    assert_true(store_marks_dirty(dmd->marks, NULL, st.st_ino, 0, NULL));
    produce_module.void_promises(&member);
    assert_false(store_marks_dirty(dmd->marks, NULL, st.st_ino, 0, NULL));
    assert_int_equal(tries(p, 5), DHT_AHEAD_GO);
    p->fn(p->arg, 0, &p->version);
    config.async_publish = joint = false;
}

/* A close completes it, does not, or is the last word of this rank only. */
static void test_declared(void **state)
{
    const struct member_dmd *dmd = &member.dmd[ENGINE_PRODUCER];
    struct publish *p = closes("ours");
    struct stat st;

    (void)state;
    assert_true(p->base.ends && !p->base.stays);
    assert_int_equal(tries(p, 5), DHT_AHEAD_GO);
    ends(p, 0);
    for (due = declared = true, npublishes = 0; declared;
         declared = due, due = false, npublishes = 0) {
        p = closes("more");
        assert_true(!p->base.ends && p->base.stays == due);
        assert_int_equal(tries(p, due ? 6 : 7), DHT_AHEAD_GO);
        assert_int_equal(store_dir_stat(dmd->dir, "f", &st), 0);
        assert_int_equal(st.st_nlink, 1);
        ends(p, 0);
        assert_int_equal(store_superseded(store_dir_real_path(dmd->dir), dmd->session, "f",
                                          STORE_PENDING, st.st_ino),
                         due);
        store_superseded_clear(dmd->dir, dmd->session, "f", STORE_PENDING);
    }
}

/* The version is above that of the removal: no home refuses it. */
static void test_removed_meanwhile(void **state)
{
    struct publish *p = closes("ours");

    (void)state;
    assert_int_equal(tries(p, 5), DHT_AHEAD_GO);
    assert_int_equal(unlink(scratch_path(scratch, "f")), 0);
    ends(p, 0);
    assert_int_equal(nwithdrawn, 1);
    assert_int_not_equal(ended, 0);
}

static store_mark_t removal;

/* What had the name before is looked at, and has been another one by then. */
static void *puts_back(void *arg)
{
    char path[64], line[256], state;
    FILE *f;

    snprintf(path, sizeof(path), "/proc/self/task/%d/stat", *(int *)arg);
    do {
        f = fopen(path, "r");
        if (!f || !fgets(line, sizeof(line), f) ||
            sscanf(strrchr(line, ')') + 1, " %c", &state) != 1)
            abort();
        fclose(f);
    } while (state != 'S');
    if (renameat(store_dir_fd(scratch->dir), "aside", store_dir_fd(scratch->dir), "f") < 0)
        abort();
    store_marks_abort(member.dmd[ENGINE_PRODUCER].marks, removal);
    return NULL;
}

/* A file that has got its name by a rename is there, though not at that moment. */
static void test_aside(void **state)
{
    int self = (int)gettid();
    pthread_t thread;

    (void)state;
    scratch_write(scratch, "aside", "ours");
    removal = store_marks_begin_removal(member.dmd[ENGINE_PRODUCER].marks, "f");
    assert_int_not_equal(removal, 0);
    assert_int_equal(pthread_create(&thread, NULL, puts_back, &self), 0);
    assert_int_equal(produce_start(&member, ENGINE_PRODUCER, "f", 0, on_done, NULL), 0);
    pthread_join(thread, NULL);
    assert_int_equal(npublishes, 1);
    assert_int_equal(tries(&publishes[0], 5), DHT_AHEAD_GO);
    ends(&publishes[0], 0);
}

/* Another node has removed it while it was written here: so it is here, but is left to who has it open. */
static void test_removed(void **state)
{
    const struct member_dmd *dmd = &member.dmd[ENGINE_PRODUCER];
    struct publish *p = closes("ours");
    store_mark_t other;
    struct stat st;

    (void)state;
    assert_int_equal(tries(p, 5), DHT_AHEAD_GO);
    ends(p, EIDRM);
    assert_int_not_equal(ended, 0);
    assert_null(recorded());
    assert_int_equal(store_dir_stat(dmd->dir, "f", &st), -1);

    npublishes = 0;
    p = closes("ours");
    other = store_marks_begin(dmd->marks, "f");
    assert_int_equal(tries(p, 6), DHT_AHEAD_GO);
    ends(p, EIDRM);
    assert_int_equal(store_dir_stat(dmd->dir, "f", &st), 0);
    assert_true(store_superseded(store_dir_real_path(dmd->dir), dmd->session, "f",
                                 STORE_OLD_REFUSED, st.st_ino));
    store_marks_abort(dmd->marks, other);
}

/* The pieces of another node are in the file of a version that was removed: its close asks anew. */
static void test_removed_merged(void **state)
{
    const struct member_dmd *dmd = &member.dmd[ENGINE_PRODUCER];
    const struct dyad_version yielded = {.counter = 4, .rank = 1};
    struct stat st;

    (void)state;
    scratch_write(scratch, "f", "ours");
    assert_int_equal(produce_merged(&member, ENGINE_PRODUCER, "f", &yielded, on_done, NULL),
                     0);
    assert_int_equal(tries(&publishes[0], 5), DHT_AHEAD_GO);
    refused.state = DYAD_ENTRY_WITHDRAWN;
    refused.version.counter = 3; /* before that */
    assert_int_equal(tries(&publishes[0], 8), DHT_AHEAD_GO);
    refused.version.counter = 6;
    assert_int_equal(tries(&publishes[0], 9), DHT_AHEAD_STOP);
    publishes[0].fn(publishes[0].arg, ECANCELED, &publishes[0].version);
    assert_int_equal(status_done, ESTALE);
    assert_int_equal(store_dir_stat(dmd->dir, "f", &st), -1);
}

static void test_replaced(void **state)
{
    struct publish *p = closes("ours");
    char from[PATH_MAX];

    (void)state;
    assert_int_equal(tries(p, 5), DHT_AHEAD_GO);
    scratch_write(scratch, "t", "ours");
    strcpy(from, scratch_path(scratch, "t"));
    assert_int_equal(rename(from, scratch_path(scratch, "f")), 0);
    of_another(p);
}

static void test_gone(void **state)
{
    struct publish *p = closes("ours");

    (void)state;
    assert_int_equal(tries(p, 5), DHT_AHEAD_GO);
    assert_int_equal(unlink(scratch_path(scratch, "f")), 0);
    assert_int_equal(tries(p, 9), DHT_AHEAD_STOP);
    p->fn(p->arg, ECANCELED, &p->version);
    assert_int_equal(status_done, ENOENT); /* its closer looks for itself ... */
    assert_int_equal(ended, 0);            /* ... and ends the mark */
    assert_null(recorded());
    assert_int_equal(nwithdrawn, 1); /* a home may have taken it */
}

/* Another process of this rank has written it, and its publish begins before the first has
 * ended. */
static void test_second_of_the_rank(void **state)
{
    struct publish *first = closes("first"), *second = closes("the second");

    (void)state;
    assert_int_equal(tries(first, 5), DHT_AHEAD_CHANGED);
    assert_int_equal(tries(first, 9), DHT_AHEAD_GO);
    assert_int_equal(tries(second, 10), DHT_AHEAD_GO);
    ends(first, 0);
    assert_int_equal(recorded()->entry.version.counter, 10);
    ends(second, 0);
    assert_int_equal(recorded()->entry.size, 10);
}

/* It has waited for the publish before it, in which time another process of the node has written the file and
 * published that, in an earlier version: it is published as it is now. */
static void test_waited(void **state)
{
    struct publish *p = closes("first");

    (void)state;
    scratch_write(scratch, "f", "the second");
    assert_int_equal(tries(p, 9), DHT_AHEAD_CHANGED);
    assert_int_equal(p->entry.size, 10);
    ends(p, 0);
    assert_int_equal(recorded()->entry.size, 10);
}

/* One that failed leaves alone what the next has recorded. */
static void test_failed_before_another(void **state)
{
    struct publish *first = closes("first"), *second = closes("the second");

    (void)state;
    assert_int_equal(tries(first, 5), DHT_AHEAD_CHANGED);
    assert_int_equal(tries(second, 6), DHT_AHEAD_GO);
    first->fn(first->arg, ENOMEM, &first->version);
    assert_int_equal(status_done, ENOMEM);
    assert_int_equal(recorded()->entry.version.counter, 6);
    ends(second, 0);
}

/* Nobody else publishes what has changed: it is published as it is. */
static void test_changed(void **state)
{
    struct timespec times[2] = {{.tv_sec = 7}, {.tv_sec = 8}};
    struct publish *p = closes("ours");

    (void)state;
    assert_int_equal(tries(p, 5), DHT_AHEAD_GO);
    assert_int_equal(utimensat(AT_FDCWD, scratch_path(scratch, "f"), times, 0), 0);
    assert_int_equal(tries(p, 9), DHT_AHEAD_CHANGED);
    assert_int_equal(p->entry.mtime_sec, 8);
    assert_int_equal(tries(p, 10), DHT_AHEAD_GO);
    assert_int_equal(chmod(scratch_path(scratch, "f"), 0600), 0);
    assert_int_equal(tries(p, 11), DHT_AHEAD_CHANGED);
    assert_int_equal(p->entry.mode & 0777, 0600);
    scratch_write(scratch, "f", "without the library");
    assert_int_equal(tries(p, 12), DHT_AHEAD_CHANGED);
    assert_int_equal(p->entry.size, 19);
    ends(p, 0);
    assert_int_equal(recorded()->entry.version.counter, 12);
    assert_int_equal(recorded()->entry.size, 19);
    assert_int_not_equal(ended, 0);
}

/* --- what another node has written meanwhile (lost_update.c) --- */

static off_t holes; /* before the text */

static struct publish *writes(const char *text, int flags)
{
    struct store_marks *marks = member.dmd[ENGINE_PRODUCER].marks;
    store_mark_t mark = store_marks_begin(marks, "f");
    int fd = open(scratch_path(scratch, "f"), O_RDWR | O_CREAT | O_CLOEXEC | flags, 0644);

    assert_true(fd >= 0);
    assert_int_equal(store_marks_opened(marks, mark, fd, flags & O_TRUNC), 0);
    if (!(flags & O_TRUNC))
        store_marks_look(marks, mark, fd);
    assert_true(lseek(fd, holes, SEEK_CUR) >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
    assert_true(store_marks_closed(marks, mark, -1, true));
    assert_int_equal(produce_start(&member, ENGINE_PRODUCER, "f", mark, on_done, NULL), 0);
    return &publishes[npublishes - 1];
}

/* The file is opened as it is, gets that text behind it, and is closed. */
static struct publish *appends(const char *text)
{
    return writes(text, O_APPEND);
}

static void refused_by_another_node(uint64_t size)
{
    refused.mode = 0100644;
    refused.size = size;
    refused.mtime_sec = 77;
    refused.version.counter = UINT64_MAX / 2;
    memset(refused.storage, 9, sizeof(refused.storage));
}

static bool superseded(void)
{
    struct stat st;

    assert_int_equal(stat(scratch_path(scratch, "f"), &st), 0);
    return local_file_is_superseded(&member.dmd[ENGINE_PRODUCER], "f", &st);
}

static void is_conflict(struct publish *p, uint64_t counter)
{
    assert_true(p->entry.conflict);
    assert_int_equal(p->base.kind, DYAD_BASE_NONE);
    assert_int_not_equal(tries(p, counter), DHT_AHEAD_STOP); /* and stays one */
    assert_true(p->entry.conflict);
    assert_true(recorded()->entry.conflict);
    p->fn(p->arg, 0, &p->version);
    assert_int_equal(status_done, EIO);
    assert_true(superseded());
    assert_true(recorded()->entry.conflict);
    assert_int_not_equal(ended, 0);
}

static void test_conflict(void **state)
{
    struct publish *p = appends("ours");

    (void)state;
    assert_int_equal(p->base.kind, DYAD_BASE_FROM);
    assert_int_equal(p->base.size, 0);
    assert_int_equal(tries(p, 5), DHT_AHEAD_GO);
    refused_by_another_node(3);
    assert_int_equal(tries(p, 9), DHT_AHEAD_CHANGED);
    is_conflict(p, 10);

    /* Its permissions are changed: it is one as before. Made anew it is none. */
    npublishes = 0;
    assert_int_equal(chmod(scratch_path(scratch, "f"), 0600), 0);
    assert_int_equal(produce_start(&member, ENGINE_PRODUCER, "f", 0, on_done, NULL), 0);
    assert_int_equal(npublishes, 1);
    assert_true(publishes[0].entry.conflict);
    ends(&publishes[0], 0);
    assert_true(superseded());
    p = closes("anew");
    assert_false(p->entry.conflict);
    assert_int_equal(p->base.kind, DYAD_BASE_SINCE);
    ends(p, 0);
    assert_false(superseded());
}

/* This node was told of it before the homes refused ours. */
static void test_conflict_superseded(void **state)
{
    struct publish *p = appends("ours");
    struct member_dmd *dmd = &member.dmd[ENGINE_PRODUCER];

    (void)state;
    assert_int_equal(tries(p, 5), DHT_AHEAD_GO);
    assert_int_equal(
        store_superseded_set(dmd->dir, 0, "f", STORE_OLD_TOLD, &recorded()->identity), 0);
    refused_by_another_node(3);
    assert_int_equal(tries(p, 9), DHT_AHEAD_CHANGED);
    is_conflict(p, 10);
}

/* The other one's size and mtime are those of the file at our open: only this node knows
 * that it was told of it. */
static void test_conflict_of_one_tick(void **state)
{
    struct store_marks *marks = member.dmd[ENGINE_PRODUCER].marks;
    struct publish *p;

    (void)state;
    scratch_write(scratch, "f", "before");
    p = appends("ours");
    assert_int_equal(tries(p, 5), DHT_AHEAD_GO);
    assert_int_equal(p->ahead(p->arg, NULL, NULL, &p->entry, &p->base), DHT_AHEAD_GO);
    store_marks_overtaken(marks, 0, recorded()->identity.ino, 0, NULL);
    assert_int_equal(p->ahead(p->arg, NULL, NULL, &p->entry, &p->base), DHT_AHEAD_CHANGED);
    is_conflict(p, 6);
}

/* Another process writes the same file meanwhile, and its publish, which was under way when the
 * conflict was found, is refused nowhere: it made the file anew, or the other node's was removed.
 * It is published once more, for the homes to say which is the newest. */
static void conflict_beside(struct publish *p, struct publish *other)
{
    struct publish *again = &publishes[npublishes];

    assert_int_not_equal(tries(p, 5), DHT_AHEAD_STOP);
    assert_int_equal(tries(other, 6), DHT_AHEAD_GO);
    refused_by_another_node(3);
    assert_int_equal(tries(p, 7), DHT_AHEAD_CHANGED);
    p->fn(p->arg, 0, &p->version);
    assert_int_equal(status_done, EIO);
    assert_true(superseded());
    done = 0;
    other->fn(other->arg, 0, &other->version);
    assert_int_equal(done, 0);
    assert_ptr_equal(&publishes[npublishes - 1], again);
    assert_int_equal(tries(again, 8), DHT_AHEAD_GO);
    assert_false(superseded());
    ends(again, 0);
    assert_false(superseded());
}

/* As long as homes may refuse a change its record says what it began from, for who takes over. */
static void test_change_is_noted(void **state)
{
    struct publish *p = writes("anew", O_TRUNC);

    (void)state;
    assert_int_equal(tries(p, 5), DHT_AHEAD_GO);
    assert_int_equal(recorded()->base.kind, DYAD_BASE_NONE);
    ends(p, 0);
    for (int reached = 0; reached < 2; reached++) {
        npublishes = 0;
        p = appends("more");
        assert_int_equal(tries(p, 6), DHT_AHEAD_GO);
        assert_int_equal(recorded()->base.kind, DYAD_BASE_FROM);
        assert_int_equal(recorded()->base.size, p->base.size);
        ends(p, reached ? 0 : EHOSTUNREACH);
        assert_int_equal(recorded()->base.kind, DYAD_BASE_NONE);
        assert_int_equal(recorded()->entry.version.counter, 6);
    }
}

static void test_conflict_and_anew(void **state)
{
    struct publish *p = appends("ours"), *anew = writes("anew", O_TRUNC);

    (void)state;
    assert_int_equal(anew->base.kind, DYAD_BASE_SINCE);
    conflict_beside(p, anew);
}

static void test_conflict_and_removed(void **state)
{
    struct publish *p = appends("ours");

    (void)state;
    conflict_beside(p, appends("more"));
}

/* Another process of the node has written it, too, and is in conflict: so is what ours wrote. */
static void test_conflict_of_another(void **state)
{
    struct publish *p = appends("ours");

    (void)state;
    assert_int_equal(tries(p, 5), DHT_AHEAD_GO);
    refused_by_what_is_here();
    refused.conflict = true;
    assert_int_equal(tries(p, 9), DHT_AHEAD_CHANGED);
    is_conflict(p, 10);
}

static void test_gives_way(void **state)
{
    struct publish *p = appends("");

    (void)state;
    assert_int_equal(tries(p, 5), DHT_AHEAD_GO);
    refused_by_another_node(3);
    assert_int_equal(tries(p, 9), DHT_AHEAD_STOP);
    ends(p, ECANCELED);
    assert_null(recorded());
    assert_int_not_equal(ended, 0);
    assert_int_equal(ngiven_way, 1);
}

/* --- its pieces go to the other node (pieces_send.c) --- */

/* The homes have refused it for the other one's, and its pieces are on their way. */
static struct publish *begins_to_send(void)
{
    struct publish *p = appends("ours");

    may_send = true;
    assert_int_equal(tries(p, 5), DHT_AHEAD_GO);
    refused_by_another_node(3);
    assert_int_equal(tries(p, 9), DHT_AHEAD_STOP);
    assert_null(recorded());
    p->fn(p->arg, ECANCELED, &p->version);
    assert_non_null(sends);
    assert_ptr_equal(produce_merging(&member, "f"), sends);
    assert_int_equal(sends->other.owner, 2);
    assert_int_equal(done, 0);
    assert_int_equal(ended, 0);
    npublishes = 0;
    return &publishes[0];
}

static void test_pieces_sent(void **state)
{
    (void)state;
    begins_to_send();
    pieces_sent(sends, 0, 0, 0);
    assert_int_equal(done, 1);
    assert_int_equal(status_done, 0);
    assert_int_equal(npublishes, 0);
    assert_int_equal(ngiven_way, 1); /* which brings the other one */
    assert_true(superseded());
    assert_int_not_equal(ended, 0);
}

/* The other one gives way in its turn: ours is published over that version, and no other. */
static void test_pieces_given_way(void **state)
{
    struct publish *p = begins_to_send();

    (void)state;
    pieces_sent(sends, EAGAIN, 0, 0);
    assert_int_equal(nbrought, 1); /* it may have what third nodes have published */
    assert_null(produce_bringing(&member, "f"));
    assert_int_equal(npublishes, 1);
    assert_null(produce_merging(&member, "f"));
    assert_int_equal(p->base.kind, DYAD_BASE_VERSION);
    assert_int_equal(p->base.time, refused.version.counter);
    assert_int_equal(tries(p, 10), DHT_AHEAD_GO);
    assert_int_equal(tries(p, 11), DHT_AHEAD_GO);
    assert_int_equal(p->base.kind, DYAD_BASE_VERSION);
    refused.version.counter++; /* a third node's, or one more of that node */
    assert_int_equal(tries(p, 12), DHT_AHEAD_STOP);
    sends = NULL;
    p->fn(p->arg, ECANCELED, &p->version);
    assert_non_null(sends);
    pieces_sent(sends, 0, 0, 0);
    assert_int_equal(status_done, 0);
}

/* It gives way, and what is in its version cannot be brought: a conflict, rather than a version without that. */
static void test_pieces_not_brought(void **state)
{
    struct publish *p = begins_to_send();

    (void)state;
    brought = EBUSY;
    pieces_sent(sends, EAGAIN, 0, 0);
    assert_int_equal(nbrought, 1);
    assert_int_equal(npublishes, 1);
    assert_int_not_equal(p->base.kind, DYAD_BASE_VERSION);
    assert_int_equal(tries(p, 10), DHT_AHEAD_GO);
    assert_int_equal(tries(p, 11), DHT_AHEAD_CHANGED); /* refused again */
    assert_true(p->entry.conflict);
    p->fn(p->arg, 0, &p->version);
    assert_int_equal(status_done, EIO);
}

/* Its node has removed the file meanwhile: there is nothing more to bring. */
static void test_pieces_brought_none(void **state)
{
    struct publish *p = begins_to_send();

    (void)state;
    brought = ENOENT;
    pieces_sent(sends, EAGAIN, 0, 0);
    assert_int_equal(p->base.kind, DYAD_BASE_VERSION);
    assert_int_equal(tries(p, 10), DHT_AHEAD_GO);
    ends(p, 0);
}

/* It is not there any more: the homes are asked anew. */
static void test_pieces_unwanted(void **state)
{
    struct publish *p = begins_to_send();

    (void)state;
    pieces_sent(sends, ENOENT, 0, 0);
    assert_int_equal(dyad_version_cmp(&sends->absent, &refused.version), 0);
    assert_int_equal(tries(p, 10), DHT_AHEAD_GO);
    ends(p, 0);
    assert_int_equal(recorded()->entry.version.counter, 10);
    assert_false(recorded()->entry.conflict);
}

/* Its owner has given way to a third node: ours comes in the place of what that owner has published, and may be
 * all that does; if the third one's is there, that is to take the pieces. */
static void test_pieces_sent_on(void **state)
{
    struct publish *p = begins_to_send();
    struct produce *sender = sends;
    struct dyad_entry owners = refused;

    (void)state;
    pieces_sent(sender, ESTALE, 0, 0);
    assert_int_equal(nbrought, 1);
    assert_int_equal(npublishes, 1);
    assert_int_equal(p->base.kind, DYAD_BASE_VERSION);
    assert_int_equal(p->base.time, owners.version.counter);
    assert_int_equal(tries(p, 10), DHT_AHEAD_GO);
    refused.version.counter++;
    refused.owner = 3;
    assert_int_equal(tries(p, 12), DHT_AHEAD_STOP);
    sends = NULL;
    p->fn(p->arg, ECANCELED, &p->version);
    assert_ptr_equal(sends, sender);
    assert_int_equal(sends->other.owner, 3);
    brought = ESTALE; /* it has a copy of the newest by now */
    pieces_sent(sends, ESTALE, 0, 0);
    assert_int_equal(nbrought, 2);
    assert_int_equal(npublishes, 2);
    p = &publishes[1];
    assert_int_equal(p->base.time, refused.version.counter);
    refused = owners; /* as a home has it that was told of nothing else */
    assert_int_equal(tries(p, 13), DHT_AHEAD_GO);
    ends(p, 0);
    assert_int_equal(recorded()->entry.version.counter, 13);
}

/* What it has cannot be brought, such as from a copy of the third one's version: that one is to take the pieces. */
static void test_pieces_sent_past(void **state)
{
    struct publish *p = begins_to_send();

    (void)state;
    brought = EIO;
    pieces_sent(sends, ESTALE, 0, 0);
    assert_int_equal(nbrought, 1);
    assert_int_not_equal(p->base.kind, DYAD_BASE_VERSION);
    assert_int_equal(tries(p, 10), DHT_AHEAD_GO);
    refused.version.counter++;
    refused.owner = 3;
    assert_int_equal(tries(p, 11), DHT_AHEAD_STOP);
    sends = NULL;
    p->fn(p->arg, ECANCELED, &p->version);
    assert_non_null(sends);
    assert_int_equal(sends->other.owner, 3);
    pieces_sent(sends, 0, 0, 0);
    assert_int_equal(status_done, 0);
}

/* Both have written the same bytes, or their owner is gone: a conflict, if the other version
 * is still there. */
static void test_pieces_refused(void **state)
{
    struct publish *p = begins_to_send();

    (void)state;
    pieces_sent(sends, EEXIST, 4, 2);
    assert_int_equal(tries(p, 10), DHT_AHEAD_GO);
    assert_int_equal(tries(p, 11), DHT_AHEAD_CHANGED);
    is_conflict(p, 12);
}

/* A file that was made to join another node's, and left empty, is not published. */
static void test_joined(void **state)
{
    struct store_marks *marks = member.dmd[ENGINE_PRODUCER].marks;
    store_mark_t mark = store_marks_begin(marks, "f");

    int fd = open(scratch_path(scratch, "f"), O_RDWR | O_CREAT | O_CLOEXEC, 0644);

    (void)state;
    store_marks_may_record(marks, mark, true);
    assert_int_equal(store_marks_opened(marks, mark, fd, true), 0);
    close(fd);
    assert_true(store_marks_closed(marks, mark, -1, true));
    assert_int_equal(produce_start(&member, ENGINE_PRODUCER, "f", mark, on_done, NULL), 0);
    assert_int_equal(npublishes, 0);
    assert_int_not_equal(ended, 0);
    assert_int_equal(access(scratch_path(scratch, "f"), F_OK), -1);
    posted(posted_arg);
    assert_int_equal(done, 1);
    assert_int_equal(status_done, 0);
}

/* A file that others write, too, was cut to nothing here, ... */
static struct publish *cuts(bool joins)
{
    struct member_dmd *dmd = &member.dmd[ENGINE_PRODUCER];
    store_mark_t mark = store_marks_begin(dmd->marks, "f");
    int fd = open(scratch_path(scratch, "f"), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    struct store_identity id;
    bool later;

    dmd->extents = store_extents_create(scratch->dir, NULL);
    assert_non_null(dmd->extents);
    store_extents_begin(dmd->extents);
    store_marks_may_record(dmd->marks, mark, joins);
    assert_int_equal(store_marks_opened(dmd->marks, mark, fd, false), 0);
    store_marks_look(dmd->marks, mark, fd);
    assert_true(store_marks_record(dmd->marks, mark, false, &later));
    assert_int_equal(store_identity_read(fd, &id), 0);
    assert_int_not_equal(store_extents_add(dmd->extents, id.ino, id.btime, mark, 0, 0, 0),
                         0);
    assert_true(store_marks_closed(dmd->marks, mark, fd, true));
    close(fd);
    assert_int_equal(produce_start(&member, ENGINE_PRODUCER, "f", mark, on_done, NULL), 0);
    assert_int_equal(npublishes, 1);
    assert_true(publishes[0].entry.emptied);
    return &publishes[0];
}

/* ... so it is not as one in which nobody has written: it is published, ... */
static void test_joined_and_cut(void **state)
{
    struct publish *p = cuts(true);

    (void)state;
    assert_int_equal(tries(p, 5), DHT_AHEAD_GO);
    ends(p, 0);
    assert_true(recorded()->entry.emptied);
    store_extents_destroy(member.dmd[ENGINE_PRODUCER].extents);
}

/* ... and does not give way to another node's. */
static void test_cut_and_refused(void **state)
{
    struct publish *p = cuts(false);

    (void)state;
    may_send = true;
    assert_int_equal(tries(p, 5), DHT_AHEAD_GO);
    refused_by_another_node(3);
    assert_int_equal(tries(p, 9), DHT_AHEAD_STOP);
    p->fn(p->arg, ECANCELED, &p->version);
    assert_non_null(sends);
    assert_int_equal(ngiven_way, 0);
    pieces_sent(sends, 0, 0, 0);
    assert_int_equal(done, 1);
    store_extents_destroy(member.dmd[ENGINE_PRODUCER].extents);
}

/* Nor does one go that others of this node have published since they opened it, empty as it is. */
static void test_joined_and_published(void **state)
{
    struct member_dmd *dmd = &member.dmd[ENGINE_PRODUCER];
    store_mark_t mark = store_marks_begin(dmd->marks, "f");
    int fd = open(scratch_path(scratch, "f"), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    struct store_identity id;
    struct dyad_base version;
    struct stat st;

    (void)state;
    dmd->extents = store_extents_create(scratch->dir, NULL);
    assert_non_null(dmd->extents);
    store_marks_may_record(dmd->marks, mark, true);
    assert_int_equal(store_marks_opened(dmd->marks, mark, fd, true), 0);
    assert_true(store_identity_read(fd, &id) == 0 && fstat(fd, &st) == 0);
    close(fd);
    version = dht_base_of(&st);
    store_extents_add_published(dmd->extents, id.ino, id.btime, &version, 1);
    assert_true(store_marks_closed(dmd->marks, mark, -1, true));
    assert_int_equal(produce_start(&member, ENGINE_PRODUCER, "f", mark, on_done, NULL), 0);
    assert_int_equal(npublishes, 1);
    assert_int_equal(access(scratch_path(scratch, "f"), F_OK), 0);
    assert_int_equal(tries(&publishes[0], 5), DHT_AHEAD_GO);
    ends(&publishes[0], 0);
    store_extents_destroy(dmd->extents);
}

/* ... by this process; another one has it open. */
static void test_joined_beside(void **state)
{
    struct store_marks *marks = member.dmd[ENGINE_PRODUCER].marks;
    store_mark_t mark = store_marks_begin(marks, "f"), beside;
    int fd;

    (void)state;
    store_marks_may_record(marks, mark, true);
    scratch_write(scratch, "f", "");
    beside = store_marks_begin(marks, "f");
    fd = open(scratch_path(scratch, "f"), O_RDWR);
    assert_int_equal(store_marks_opened(marks, beside, fd, true), 0);
    assert_int_equal(produce_start(&member, ENGINE_PRODUCER, "f", mark, on_done, NULL), 0);
    assert_int_equal(npublishes, 0);
    assert_true(superseded());
    assert_int_equal(access(scratch_path(scratch, "f"), F_OK), 0);
    posted(posted_arg);
    assert_int_equal(status_done, 0);
    close(fd);
}

/* Another node's pieces are in our file: published over what it was, and over that node's own
 * version, which gives way. If a third one has come between, it is not said to be done. */
static void test_merged(void **state)
{
    struct dyad_version yielded = {.counter = 7, .rank = 2};
    struct publish *p = closes("ours");

    (void)state;
    assert_int_equal(tries(p, 5), DHT_AHEAD_GO);
    ends(p, 0);
    scratch_write(scratch, "f", "ours and theirs");
    npublishes = 0;
    assert_int_equal(produce_merged(&member, ENGINE_PRODUCER, "f", &yielded, on_done, NULL),
                     0);
    p = &publishes[0];
    p->version = (struct dyad_version){0};
    assert_int_equal(p->base.kind, DYAD_BASE_VERSION);
    assert_int_equal(p->base.time, yielded.counter);
    assert_int_equal(tries(p, 6), DHT_AHEAD_GO);
    refused_by_another_node(3);
    refused.version = yielded;
    assert_int_equal(tries(p, 8), DHT_AHEAD_GO);
    refused.version.counter++;
    refused.mtime_sec++;
    assert_int_equal(tries(p, 9), DHT_AHEAD_STOP);
    p->fn(p->arg, ECANCELED, &p->version);
    assert_int_equal(status_done, ESTALE);
    assert_int_equal(ngiven_way, 1); /* which brings that one */
    assert_true(superseded());
}

/* It emptied the file: the later one. */
static void test_anew(void **state)
{
    struct publish *p = closes("ours");

    (void)state;
    assert_int_equal(tries(p, 5), DHT_AHEAD_GO);
    refused_by_another_node(3);
    assert_int_equal(tries(p, 9), DHT_AHEAD_GO);
    assert_int_equal(p->base.kind, DYAD_BASE_NONE);
    assert_false(p->entry.conflict);
    ends(p, 0);
    assert_false(superseded());
}

/* Both have emptied it, and each has written a part: none has all of it. */
static void test_anew_in_part(void **state)
{
    struct publish *p = writes("ours", O_TRUNC);

    (void)state;
    assert_int_equal(tries(p, 5), DHT_AHEAD_GO);
    refused_by_another_node(4);
    refused.mtime_sec = p->entry.mtime_sec + 2;
    assert_int_equal(tries(p, 9), DHT_AHEAD_GO); /* all that the other one has */
    assert_false(p->entry.conflict);
    refused.version.counter++;
    refused.size = 5;
    assert_int_equal(tries(p, 10), DHT_AHEAD_GO); /* it was looked at */
    ends(p, 0);

    npublishes = 0;
    p = writes("ours", O_TRUNC);
    refused.mtime_sec = 77;
    assert_int_equal(tries(p, 15), DHT_AHEAD_GO);
    assert_int_equal(tries(p, 16), DHT_AHEAD_GO); /* the other one was emptied, too */
    assert_false(p->entry.conflict);
    ends(p, 0);

    npublishes = 0;
    p = writes("ours", O_TRUNC);
    refused.mtime_sec = p->entry.mtime_sec + 2;
    assert_int_equal(tries(p, 25), DHT_AHEAD_GO);
    assert_int_equal(tries(p, 26), DHT_AHEAD_CHANGED);
    is_conflict(p, 27);

    /* Nothing was written here. */
    assert_int_equal(unlink(scratch_path(scratch, "f")), 0);
    npublishes = 0;
    p = writes("", O_TRUNC);
    refused.mtime_sec = time(NULL) + 2;
    assert_int_equal(tries(p, 28), DHT_AHEAD_GO);
    assert_int_equal(tries(p, 29), DHT_AHEAD_STOP);
    ends(p, ECANCELED);
    assert_int_equal(ngiven_way, 1);

    for (int behind = 0; behind < 2; behind++) {
        assert_int_equal(unlink(scratch_path(scratch, "f")), 0);
        npublishes = 0;
        holes = 1 << 20;
        p = writes("ours", O_TRUNC);
        holes = 0;
        refused.size = behind ? (1 << 20) + 4 : 0;
        refused.mtime_sec = p->entry.mtime_sec + 2;
        assert_int_equal(tries(p, 35), DHT_AHEAD_GO);
        if (behind) {
            assert_int_equal(tries(p, 36), DHT_AHEAD_CHANGED);
            is_conflict(p, 37);
        } else {
            assert_int_equal(tries(p, 36), DHT_AHEAD_GO);
            ends(p, 0);
        }
    }
}

/* Without a mark, as dyad_produce() does. */
static void produces(void)
{
    int before = done;

    assert_int_equal(produce_start(&member, ENGINE_PRODUCER, "f", 0, on_done, NULL), 0);
    if (!posted)
        return;
    posted(posted_arg);
    posted = NULL;
    assert_int_equal(done, before + 1);
    assert_int_equal(status_done, 0);
}

/* Only its permissions were changed here. */
static void test_changed_by_name(void **state)
{
    struct publish *p = closes("ours");

    (void)state;
    assert_int_equal(tries(p, 5), DHT_AHEAD_GO);
    ends(p, 0);
    npublishes = 0;
    assert_int_equal(chmod(scratch_path(scratch, "f"), 0600), 0);
    assert_int_equal(produce_changed(&member, ENGINE_PRODUCER, "f", on_done, NULL), 0);
    p = &publishes[0];
    assert_int_equal(p->base.kind, DYAD_BASE_FROM);
    assert_int_equal(p->base.size, 4);
    assert_int_equal(tries(p, 6), DHT_AHEAD_GO);
    refused_by_another_node(3);
    assert_int_equal(tries(p, 9), DHT_AHEAD_STOP);
    ends(p, ECANCELED);
    assert_int_equal(ngiven_way, 0);
}

/* dyad_produce() of what its close has published says nothing new, also if another node has replaced or sealed it
 * since; of what was written without a mark it does. */
static void test_published_already(void **state)
{
    struct member_dmd *dmd = &member.dmd[ENGINE_PRODUCER];
    struct publish *p = closes("ours");
    struct store_record copy;

    (void)state;
    assert_int_equal(tries(p, 5), DHT_AHEAD_GO);
    ends(p, 0);
    npublishes = 0;
    copy = *recorded();
    assert_int_not_equal(copy.entry.component, 0);
    assert_int_equal(store_journal_retire(dmd->journal, "f"), 0);
    assert_int_equal(
        store_superseded_set(dmd->dir, dmd->session, "f", STORE_OLD_TOLD, &copy.identity),
        0);
    produces();
    assert_int_equal(npublishes, 0);
    assert_true(superseded());
    scratch_write(scratch, "f", "without the wrapper");
    produces();
    assert_int_equal(npublishes, 1);
    assert_false(superseded());
    assert_int_equal(tries(&publishes[0], 6), DHT_AHEAD_GO);
    ends(&publishes[0], 0);

    /* A copy that was fetched. */
    npublishes = 0;
    copy = *recorded();
    copy.kind = STORE_RECORD_COPY;
    copy.entry.component++; /* another component's, as long as its bytes are */
    assert_int_equal(store_journal_put(dmd->journal, &copy), 0);
    produces();
    assert_int_equal(npublishes, 0);
    assert_int_equal(chmod(scratch_path(scratch, "f"), 0600), 0);
    produces();
    assert_int_equal(npublishes, 1);
    assert_int_equal(publishes[0].entry.component, copy.entry.component);
    ends(&publishes[0], ECANCELED);
}

static bool is_outdated(void)
{
    struct stat st;

    assert_int_equal(stat(scratch_path(scratch, "f"), &st), 0);
    return local_file_is_outdated(&member.dmd[ENGINE_PRODUCER], "f", &st);
}

/* A superseded file that was written since is not the newest one, to who reads it here, until the homes have taken it:
 * they may refuse it. */
static void test_superseded_written(void **state)
{
    struct member_dmd *dmd = &member.dmd[ENGINE_PRODUCER];
    struct store_identity id;
    struct publish *p = closes("ours");

    (void)state;
    assert_int_equal(tries(p, 5), DHT_AHEAD_GO);
    ends(p, 0);
    assert_false(is_outdated());
    for (int refused_first = 0; refused_first < 2; refused_first++) {
        id = recorded()->identity;
        npublishes = 0;
        assert_int_equal(
            store_superseded_set(dmd->dir, dmd->session, "f", STORE_OLD_TOLD, &id), 0);
        p = appends("more");
        assert_false(superseded());
        assert_true(is_outdated());
        assert_int_equal(tries(p, 6), DHT_AHEAD_GO);
        assert_true(is_outdated());
        if (refused_first) {
            refused_by_another_node(3);
            assert_int_equal(tries(p, 9), DHT_AHEAD_CHANGED);
            assert_true(is_outdated());
            is_conflict(p, 10);
            assert_true(is_outdated());
        } else {
            ends(p, 0);
            assert_false(is_outdated());
        }
    }
}

/* A file that is pending has a second link, and no second name: its bytes are not at the mercy of who writes by
 * another one, and go with the publish; what has not changed is not published again. */
static void test_pending(void **state)
{
    struct member_dmd *dmd = &member.dmd[ENGINE_PRODUCER];
    struct store_identity id;
    struct publish *p;

    (void)state;
    config.inline_max = 4096;
    p = closes("ours");
    assert_int_equal(ninlined, 1);
    assert_int_equal(tries(p, 5), DHT_AHEAD_GO);
    ends(p, 0);
    id = recorded()->identity;
    assert_int_equal(store_superseded_set(dmd->dir, dmd->session, "f", STORE_PENDING, &id),
                     0);
    npublishes = 0;
    assert_int_equal(produce_changed(&member, ENGINE_PRODUCER, "f", on_done, NULL), 0);
    assert_int_equal(npublishes, 0);
    posted(posted_arg);
    posted = NULL;
    assert_int_equal(linkat(store_dir_fd(dmd->dir), "f", store_dir_fd(dmd->dir), "g", 0),
                     0);
    assert_int_equal(produce_changed(&member, ENGINE_PRODUCER, "f", on_done, NULL), 0);
    assert_int_equal(npublishes, 1);
    assert_int_equal(ninlined, 1);
    assert_int_equal(tries(&publishes[0], 6), DHT_AHEAD_GO);
    ends(&publishes[0], 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_written_in_place, setup, teardown),
        cmocka_unit_test_setup_teardown(test_answered_early, setup, teardown),
        cmocka_unit_test_setup_teardown(test_answered_and_left, setup, teardown),
        cmocka_unit_test_setup_teardown(test_declared, setup, teardown),
        cmocka_unit_test_setup_teardown(test_removed, setup, teardown),
        cmocka_unit_test_setup_teardown(test_removed_meanwhile, setup, teardown),
        cmocka_unit_test_setup_teardown(test_aside, setup, teardown),
        cmocka_unit_test_setup_teardown(test_removed_merged, setup, teardown),
        cmocka_unit_test_setup_teardown(test_replaced, setup, teardown),
        cmocka_unit_test_setup_teardown(test_gone, setup, teardown),
        cmocka_unit_test_setup_teardown(test_second_of_the_rank, setup, teardown),
        cmocka_unit_test_setup_teardown(test_waited, setup, teardown),
        cmocka_unit_test_setup_teardown(test_failed_before_another, setup, teardown),
        cmocka_unit_test_setup_teardown(test_changed, setup, teardown),
        cmocka_unit_test_setup_teardown(test_conflict, setup, teardown),
        cmocka_unit_test_setup_teardown(test_conflict_superseded, setup, teardown),
        cmocka_unit_test_setup_teardown(test_conflict_of_one_tick, setup, teardown),
        cmocka_unit_test_setup_teardown(test_change_is_noted, setup, teardown),
        cmocka_unit_test_setup_teardown(test_conflict_and_anew, setup, teardown),
        cmocka_unit_test_setup_teardown(test_conflict_and_removed, setup, teardown),
        cmocka_unit_test_setup_teardown(test_conflict_of_another, setup, teardown),
        cmocka_unit_test_setup_teardown(test_gives_way, setup, teardown),
        cmocka_unit_test_setup_teardown(test_pieces_sent, setup, teardown),
        cmocka_unit_test_setup_teardown(test_pieces_given_way, setup, teardown),
        cmocka_unit_test_setup_teardown(test_pieces_not_brought, setup, teardown),
        cmocka_unit_test_setup_teardown(test_pieces_brought_none, setup, teardown),
        cmocka_unit_test_setup_teardown(test_pieces_unwanted, setup, teardown),
        cmocka_unit_test_setup_teardown(test_pieces_sent_on, setup, teardown),
        cmocka_unit_test_setup_teardown(test_pieces_sent_past, setup, teardown),
        cmocka_unit_test_setup_teardown(test_pieces_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(test_joined, setup, teardown),
        cmocka_unit_test_setup_teardown(test_joined_and_cut, setup, teardown),
        cmocka_unit_test_setup_teardown(test_joined_and_published, setup, teardown),
        cmocka_unit_test_setup_teardown(test_cut_and_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(test_joined_beside, setup, teardown),
        cmocka_unit_test_setup_teardown(test_merged, setup, teardown),
        cmocka_unit_test_setup_teardown(test_anew, setup, teardown),
        cmocka_unit_test_setup_teardown(test_anew_in_part, setup, teardown),
        cmocka_unit_test_setup_teardown(test_changed_by_name, setup, teardown),
        cmocka_unit_test_setup_teardown(test_published_already, setup, teardown),
        cmocka_unit_test_setup_teardown(test_superseded_written, setup, teardown),
        cmocka_unit_test_setup_teardown(test_pending, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
