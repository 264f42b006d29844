/*
 * test_prefetch.c - the window of a series: how it moves, grows and gives way
 *
 * prefetch.c and series.c; look-ups, consumes, the free space and the loop are played by the
 * test. The directory and inotify are real.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/core/local_file.h"
#include "engine/core/member.h"
#include "engine/core/module.h"
#include "engine/fetch/consume.h"
#include "engine/fetch/prefetch.h"

extern const struct member_module prefetch_module;
static const struct member_module *const modules[] = {&prefetch_module, NULL};

struct op { /* a look-up or a consume */
    char upath[32];
    dht_lookup_fn looked;
    consume_fn consumed;
    void *arg;
    bool is_out;
    uint64_t above;
};

static struct member member_made;
static struct member *const member = &member_made;
static struct engine_config config;
static char dir[] = "/tmp/test_prefetch.XXXXXX";
static struct op ops[600];
static unsigned nops;
static bool real_fetch;
static uint64_t free_bytes;
static net_watch_fn watch_fn;
static void *watch_arg;
static int watch_fd = -1;

static struct op *begin(const char *upath, void *arg)
{
    struct op *op = &ops[nops++];

    assert_true(nops < 600);
    *op = (struct op){.arg = arg, .is_out = true};
    snprintf(op->upath, sizeof(op->upath), "%s", upath);
    return op;
}

/* The look-up or consume of that name that is under way, or NULL. */
static struct op *out(const char *upath, bool lookup)
{
    for (unsigned i = 0; i < nops; i++) {
        if (ops[i].is_out && !strcmp(ops[i].upath, upath) && !ops[i].looked == !lookup)
            return &ops[i];
    }
    return NULL;
}

static unsigned nout(bool lookup)
{
    unsigned n = 0;

    for (unsigned i = 0; i < nops; i++)
        n += ops[i].is_out && !ops[i].looked == !lookup;
    return n;
}

struct dht_lookup *dht_node_lookup(struct dht_node *node, const char *upath, uint8_t flags,
                                   const struct dyad_version *newer_than, dht_lookup_fn fn,
                                   void *arg)
{
    struct op *op = begin(upath, arg);

    (void)node;
    assert_int_equal(flags, NET_LOOKUP_WAIT); /* it will hold no copy by that */
    op->looked = fn;
    op->above = newer_than->counter;
    return (struct dht_lookup *)op;
}

void dht_node_cancel(struct dht_node *node, struct dht_lookup *lookup)
{
    struct op *op = (struct op *)lookup;

    (void)node;
    assert_true(op->is_out);
    op->is_out = false;
}

struct consume *consume_start(struct member *m, const char *upath, uint8_t flags,
                              uint64_t timeout_ms, pid_t pid, pid_t tid, consume_fn fn,
                              void *arg)
{
    struct op *op = begin(upath, arg);

    (void)m;
    (void)timeout_ms;
    (void)tid;
    assert_int_equal(pid, 0);
    assert_int_equal(flags, NET_CONSUME_WRITER | CONSUME_BACKGROUND); /* no wait */
    op->consumed = fn;
    return (struct consume *)op;
}

void consume_cancel(struct consume *consume)
{
    dht_node_cancel(NULL, (struct dht_lookup *)consume);
}

bool consume_is_fetching(const struct member *m)
{
    (void)m;
    return real_fetch;
}

int store_dir_open(const struct store_dir *d, const char *upath, int flags, mode_t mode)
{
    char path[128];

    (void)d;
    (void)mode;
    snprintf(path, sizeof(path), "%s/%s", dir, upath);
    return open(path, flags);
}

int store_dir_stat(const struct store_dir *d, const char *upath, struct stat *st)
{
    char path[128];

    (void)d;
    snprintf(path, sizeof(path), "%s/%s", dir, upath);
    return lstat(path, st);
}

const char *store_dir_path(const struct store_dir *d)
{
    (void)d;
    return dir;
}

const uint8_t *store_dir_id(const struct store_dir *d)
{
    static const uint8_t id[DYAD_STORAGE_ID_LEN] = {1};

    (void)d;
    return id;
}

bool store_dir_shared(const struct store_dir *d)
{
    (void)d;
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

int statvfs(const char *path, struct statvfs *fs)
{
    assert_string_equal(path, dir);
    *fs = (struct statvfs){.f_bavail = free_bytes, .f_frsize = 1};
    return 0;
}

struct net_watch *net_loop_watch(struct net_loop *loop, int fd, uint32_t events,
                                 net_watch_fn fn, void *arg)
{
    (void)loop;
    (void)events;
    watch_fd = fd;
    watch_fn = fn;
    watch_arg = arg;
    return (struct net_watch *)&watch_fn;
}

void net_watch_destroy(struct net_watch *watch)
{
    if (watch)
        watch_fd = -1;
}

static void events(void)
{
    if (watch_fd >= 0)
        watch_fn(watch_arg, watch_fd, 0);
}

static void make(const char *upath)
{
    char path[128];

    snprintf(path, sizeof(path), "%s/%s", dir, upath);
    close(open(path, O_CREAT | O_WRONLY, 0600));
}

static void gone(const char *upath)
{
    char path[128];

    snprintf(path, sizeof(path), "%s/%s", dir, upath);
    assert_int_equal(unlink(path), 0);
    events();
}

/* The program opens what is here. */
static void use(const char *upath)
{
    close(store_dir_open(NULL, upath, O_RDONLY, 0));
    events();
}

static void found(const char *upath, uint64_t size)
{
    struct op *op = out(upath, true);
    struct dyad_entry entry = {.state = DYAD_ENTRY_PUBLISHED,
                               .mode = S_IFREG | 0600,
                               .size = size,
                               .version.counter = 1};

    assert_non_null(op);
    op->is_out = false;
    op->looked(op->arg, 0, &entry);
}

/* This node itself has made it. */
static void made_here(const char *upath)
{
    struct op *op = out(upath, true);
    struct dyad_entry entry = {.state = DYAD_ENTRY_PUBLISHED, .mode = S_IFREG | 0600};

    memcpy(entry.storage, store_dir_id(NULL), sizeof(entry.storage));
    make(upath);
    op->is_out = false;
    op->looked(op->arg, 0, &entry);
}

static void brought(const char *upath, int status)
{
    struct op *op = out(upath, false);

    assert_non_null(op);
    op->is_out = false;
    if (status == 0)
        make(upath);
    op->consumed(op->arg, status);
}

static struct prefetch_info info(void)
{
    struct prefetch_info i;

    prefetch_get_info(member, &i);
    return i;
}

static int set_up(void **state)
{
    (void)state;
    strcpy(dir + strlen(dir) - 6, "XXXXXX");
    assert_non_null(mkdtemp(dir));
    config = (struct engine_config){.prefetch = "auto", .prefetch_bytes = 1000};
    free_bytes = 1000000;
    real_fetch = false;
    nops = 0;
    member_made = (struct member){.config = &config,
                                  .modules = modules,
                                  .state = MEMBER_JOINED,
                                  .dmd[ENGINE_CONSUMER].dir = (struct store_dir *)dir};
    return modules_create(member, modules);
}

static int tear_down(void **state)
{
    char command[128];

    (void)state;
    modules_destroy(member);
    assert_int_equal(nout(true) + nout(false), 0); /* nothing outlives it */
    modules_free(member);
    snprintf(command, sizeof(command), "rm -r %s", dir);
    return system(command);
}

static void three(void)
{
    prefetch_opened(member, "f1");
    prefetch_opened(member, "f2");
    assert_int_equal(nops, 0);
    prefetch_opened(member, "f3");
}

/* Each opened file moves the window on, without a word to the member. */
static void moves(void **state)
{
    (void)state;
    three();
    assert_non_null(out("f4", true));
    assert_non_null(out("f5", true));
    assert_int_equal(nout(true), 2);
    found("f4", 10);
    brought("f4", 0);
    found("f5", 20);
    brought("f5", 0);
    assert_int_equal(info().unused, 30);
    use("f4");
    assert_non_null(out("f6", true));
    use("f5");
    assert_non_null(out("f7", true));
    assert_int_equal(info().files, 2);
    assert_int_equal(info().hits, 2);
    assert_int_equal(info().unused, 0);
}

/* Not in time: deeper. Passed over: less deep. */
static void adapts(void **state)
{
    (void)state;
    three();
    prefetch_asked(member, "f4"); /* not published: a deeper window would be no help */
    prefetch_opened(member, "f4");
    assert_int_equal(nout(true), 2);
    found("f5", 1);
    prefetch_asked(member, "f5");
    prefetch_opened(member, "f5");
    assert_int_equal(nout(false), 0);
    assert_int_equal(nout(true), 4); /* f6 to f9 */
    found("f6", 1);
    brought("f6", 0);
    prefetch_asked(member, "f7");
    prefetch_opened(member, "f7"); /* f6 in vain */
    assert_int_equal(nout(true), 2);
    assert_int_equal(info().unused, 1);
    prefetch_opened(member, "f1"); /* another stride: these names are wanted no more */
    assert_int_equal(nout(true), 0);
}

/* A withdrawal is followed by a wait for what comes after it; what goes away meanwhile, or
 * cannot be had, is left to its open. */
static void withdrawn(void **state)
{
    struct dyad_entry entry = {.state = DYAD_ENTRY_WITHDRAWN, .version.counter = 7};
    struct op *op;

    (void)state;
    three();
    op = out("f4", true);
    op->is_out = false;
    op->looked(op->arg, ENOENT, &entry);
    assert_int_equal(out("f4", true)->above, 7);
    found("f4", 10);
    brought("f4", 0);
    gone("f4");
    assert_int_equal(info().unused, 10);
    found("f5", 10);
    brought("f5", ENOSPC);
    assert_int_equal(nout(true) + nout(false), 0);
    prefetch_opened(member, "f4");
    assert_non_null(out("f6", true));
    assert_int_equal(info().hits, 0);
}

/* It counts as no prefetch, and the window moves all the same. */
static void written_by_the_reader(void **state)
{
    (void)state;
    three();
    made_here("f4");
    assert_int_equal(nout(false), 0);
    use("f4");
    assert_non_null(out("f6", true));
    assert_int_equal(info().files + info().hits, 0);
}

/* Within the budget and a tenth of the free space; what was opened counts no more. */
static void space(void **state)
{
    (void)state;
    three();
    found("f4", 600);
    found("f5", 600);
    assert_null(out("f5", false));
    brought("f4", 0);
    assert_null(out("f5", false));
    use("f4");
    brought("f5", 0);
    free_bytes = 5000;
    found("f6", 501);
    assert_null(out("f6", false));
    use("f5");
    assert_null(out("f6", false)); /* alone it is too large still */
    free_bytes = 5010;
    prefetch_resume(member);
    assert_non_null(out("f6", false));
}

static void gives_way(void **state)
{
    (void)state;
    three();
    real_fetch = true;
    found("f4", 1);
    assert_null(out("f4", false));
    real_fetch = false;
    prefetch_resume(member);
    assert_non_null(out("f4", false));
}

static void ends_with_the_reader(void **state)
{
    (void)state;
    three();
    found("f4", 1);
    assert_int_equal(prefetch_want(member, "other"), 0);
    modules_exiting(member, false);
    assert_int_equal(nout(true) + nout(false), 0);
    prefetch_opened(member, "f4");
    assert_int_equal(prefetch_want(member, "more"), 0);
    assert_int_equal(nout(true), 0);
}

static void off(void **state)
{
    (void)state;
    config.prefetch = "off";
    three();
    assert_int_equal(prefetch_want(member, "f9"), 0);
    assert_int_equal(nops, 0);
}

/* With patterns no series is looked for: what matches is named (subscribe.c). */
static void patterns(void **state)
{
    (void)state;
    assert_null(prefetch_patterns(member));
    config.prefetch = "f*";
    assert_string_equal(prefetch_patterns(member), "f*");
    three();
    assert_int_equal(nops, 0);
    assert_int_equal(prefetch_want(member, "f9"), 0);
    assert_int_equal(nout(true), 1);
    config.prefetch = "off";
    assert_null(prefetch_patterns(member));
}

/* What the program has named itself. Of too many the oldest go. */
static void wanted(void **state)
{
    char name[16];

    (void)state;
    assert_int_equal(prefetch_want(member, "one"), 0);
    assert_int_equal(prefetch_want(member, "one"), 0);
    assert_int_equal(nout(true), 1);
    found("one", 5);
    brought("one", 0);
    use("one");
    assert_int_equal(info().hits, 1);
    for (int i = 0; i < 257; i++) {
        snprintf(name, sizeof(name), "w%d", i);
        assert_int_equal(prefetch_want(member, name), 0);
    }
    assert_null(out("w0", true));
    assert_non_null(out("w1", true));
    assert_int_equal(info().awaited, 256);
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(moves),  T(adapts),    T(withdrawn),
        T(space),  T(gives_way), T(ends_with_the_reader),
        T(off),    T(patterns),  T(written_by_the_reader),
        T(wanted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
