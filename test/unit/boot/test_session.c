/*
 * test_session.c - the session directory: who gets which slot, and what a kill leaves
 *
 * session_dir.c and session_slot.c are included with each system call that changes the
 * directory counted, so that a process can be killed before any of them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

/* Dies before the die_at-th change, if that is not 0. */
static _Atomic unsigned changes; /* the sessions' threads count, too */
static unsigned die_at;

static void change(void)
{
    if (++changes == die_at)
        kill(getpid(), SIGKILL);
}

#define mkdir(path, mode)         (change(), mkdir(path, mode))
#define symlinkat(text, fd, name) (change(), symlinkat(text, fd, name))
#define renameat(a, from, b, to)  (change(), renameat(a, from, b, to))
#define unlinkat(fd, name, flags) (change(), unlinkat(fd, name, flags))
#define write(fd, p, len)         (change(), write(fd, p, len))
#define openat(...)               (change(), openat(__VA_ARGS__))
#define fsync(fd)                 (change(), fsync(fd))
#include "boot/session_trust.c"
#include "boot/session_dir.c"
#include "boot/session_slot.c"
#undef mkdir
#undef symlinkat
#undef renameat
#undef unlinkat
#undef write
#undef openat
#undef fsync

#include "../in_memory.h"
#include "net/loop.h"
#include "net/peer.h"

static char top[] = "/tmp/dyad-test-session.XXXXXX";
static char dir[128], sub[160]; /* of the test that runs */
static unsigned number;

static void fresh(void)
{
    snprintf(dir, sizeof(dir), "%s/%u", top, number++);
    snprintf(sub, sizeof(sub), "%s/dyad", dir);
}

/* --- processes --- */

static struct boot_identity identity(uint32_t rank, const char *node)
{
    struct boot_identity id = {.launched = true, .rank = rank};

    /* Each is a launch of its own: those of one do not look after each other. By `top`, for
     * claims are the machine's: of another run of this test, too. */
    snprintf(id.nspace, sizeof(id.nspace), "%s.%u", top, rank);
    snprintf(id.node, sizeof(id.node), "%s", node);
    return id;
}

static int bind_claim(const struct boot_identity *id)
{
    struct sockaddr_un address;
    socklen_t len = boot_member_claim_address(id, NULL, &address);

    return boot_member_claim_bind(&address, len);
}

struct member { /* a process of one thread */
    struct session_dir *d;
    uint32_t slot, inc;
    int claim;
};

static int join(struct member *m, uint32_t rank, const char *node, uint32_t ranks)
{
    struct boot_identity id = identity(rank, node);
    int error;

    m->claim = bind_claim(&id);
    m->d = session_dir_create(dir, NULL, &id);
    assert_non_null(m->d);
    if (session_dir_open(m->d, ranks) == 0 &&
        session_dir_take_slot(m->d, &m->slot, &m->inc) == 0)
        return 0;
    error = errno;
    session_dir_destroy(m->d);
    if (m->claim >= 0)
        close(m->claim);
    m->d = NULL;
    errno = error;
    return -1;
}

static int commit(struct member *m)
{
    char blob[64];
    int n = snprintf(blob, sizeof(blob), "blob of %u.%u", m->slot, m->inc);

    if (session_dir_commit(m->d, blob, (size_t)n) < 0)
        return -1;
    session_dir_tidy(m->d);
    return 0;
}

static void member_start(struct member *m, uint32_t rank, const char *node, uint32_t ranks)
{
    assert_int_equal(join(m, rank, node, ranks), 0);
    assert_int_equal(commit(m), 0);
}

/* As a kill does it. */
static void member_kill(struct member *m)
{
    session_dir_destroy(m->d);
    if (m->claim >= 0)
        close(m->claim);
}

static void member_leave(struct member *m)
{
    session_dir_leave(m->d);
    member_kill(m);
}

/* --- what the directory has --- */

static size_t count(const char *prefix)
{
    DIR *list = opendir(sub);
    struct dirent *entry;
    size_t n = 0;

    assert_non_null(list);
    while ((entry = readdir(list)))
        n += entry->d_name[0] != '.' && strncmp(entry->d_name, prefix, strlen(prefix)) == 0;
    closedir(list);
    return n;
}

/* The name that begins so; the only one. */
static void only(const char *prefix, char *name, size_t size)
{
    DIR *list = opendir(sub);
    struct dirent *entry;
    size_t n = 0;

    assert_non_null(list);
    while ((entry = readdir(list)))
        if (strncmp(entry->d_name, prefix, strlen(prefix)) == 0) {
            snprintf(name, size, "%s/%s", sub, entry->d_name);
            n++;
        }
    closedir(list);
    assert_int_equal(n, 1);
}

static void test_first(void **state)
{
    struct member a, b;
    struct stat st;
    char name[512], text[64];

    (void)state;
    fresh();
    member_start(&a, 1, "here", 64);
    assert_int_equal(a.slot, 0);
    assert_int_equal(a.inc, 1);
    assert_int_equal(stat(dir, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0700);
    assert_int_equal(stat(sub, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0700);
    only("live.00000.1.", name, sizeof(name));
    assert_int_equal(lstat(name, &st), 0);
    assert_int_equal(st.st_mode, S_IFREG | 0600);
    assert_int_equal(count(""), 4); /* id, ranks, slot, live */

    /* The value of the first counts for all. */
    member_start(&b, 2, "there", 7);
    assert_int_equal(b.slot, 1);
    assert_string_equal(session_dir_id(a.d), session_dir_id(b.d));
    assert_int_equal(session_dir_ranks(b.d), 64);
    assert_int_equal(session_dir_slots(b.d)[0].live, 1);
    assert_int_equal(session_dir_slots(b.d)[0].live_node, session_dir_node(a.d));
    assert_int_equal(session_dir_read(b.d, 0, text, sizeof(text)), 11);
    assert_memory_equal(text, "blob of 0.1", 11);
    assert_int_equal(session_dir_read(b.d, 0, text, 11), -1);
    assert_int_equal(errno, EMSGSIZE);
    assert_int_equal(session_dir_read(b.d, 5, text, sizeof(text)), -1);
    assert_int_equal(errno, ESRCH);

    /* The same identity, the same slot, the next incarnation; nothing of the last stays. */
    member_leave(&a);
    only("gone.00000.1.", name, sizeof(name));
    member_start(&a, 1, "here", 64);
    assert_int_equal(a.slot, 0);
    assert_int_equal(a.inc, 2);
    assert_int_equal(count("slot.00000."), 1);
    assert_int_equal(count("gone."), 0);
    /* Killed instead, with an entry that says it lives. */
    member_kill(&a);
    member_start(&a, 1, "here", 64);
    assert_int_equal(a.slot, 0);
    assert_int_equal(a.inc, 3);
    assert_int_equal(count(""), 2 + 2 * 2);
    member_leave(&a);
    member_leave(&b);
}

/* A claim that was given back before it had an entry. */
static void test_leave_early(void **state)
{
    struct member a;

    (void)state;
    fresh();
    assert_int_equal(join(&a, 1, "here", 8), 0);
    member_leave(&a);
    assert_int_equal(count("slot."), 0);
    member_start(&a, 1, "here", 8);
    assert_int_equal(a.slot, 0);
    member_leave(&a);
    assert_int_equal(join(&a, 1, "here", 8), 0);
    assert_int_equal(a.inc, 2);
    member_leave(&a);
    assert_int_equal(join(&a, 1, "here", 8), 0);
    assert_int_equal(a.slot, 0);
    assert_int_equal(a.inc, 2);
    member_leave(&a);
}

static void test_permissions(void **state)
{
    struct member a;
    char missing[128];

    (void)state;
    fresh();
    assert_int_equal(mkdir(dir, 0700), 0);
    for (mode_t mode = 0701; mode <= 0777; mode += mode == 0704 ? 6 : 3) {
        assert_int_equal(chmod(dir, mode), 0);
        assert_int_equal(join(&a, 1, "here", 8), -1);
        assert_int_equal(errno, EPERM);
    }
    assert_int_equal(chmod(dir, 0700), 0);
    /* The same for the directory of the name space. */
    assert_int_equal(mkdir(sub, 0750), 0);
    assert_int_equal(chmod(sub, 0750), 0);
    assert_int_equal(join(&a, 1, "here", 8), -1);
    assert_int_equal(errno, EPERM);
    assert_int_equal(rmdir(sub), 0);
    if (geteuid() == 0) {
        assert_int_equal(chown(dir, 1, 1), 0);
        assert_int_equal(join(&a, 1, "here", 8), -1);
        assert_int_equal(errno, EPERM);
        assert_int_equal(chown(dir, 0, 0), 0);
    }
    assert_int_equal(rmdir(dir), 0);

    int fd = open(dir, O_CREAT | O_WRONLY, 0600);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(join(&a, 1, "here", 8), -1);
    assert_int_equal(errno, ENOTDIR);
    unlink(dir);

    snprintf(missing, sizeof(missing), "%s/missing/%u", top, number);
    snprintf(dir, sizeof(dir), "%s", missing);
    assert_int_equal(join(&a, 1, "here", 8), -1);
    assert_int_equal(errno, ENOENT);
}

/* What is there under our names and is not ours. */
static void test_foreign(void **state)
{
    struct member a;
    char name[512];

    (void)state;
    fresh();
    assert_int_equal(mkdir(dir, 0700), 0);
    assert_int_equal(mkdir(sub, 0700), 0);
    snprintf(name, sizeof(name), "%s/id", sub);
    int fd = open(name, O_CREAT | O_WRONLY, 0600);
    close(fd);
    assert_int_equal(join(&a, 1, "here", 8), -1);
    assert_int_equal(errno, EEXIST);
    unlink(name);
    assert_int_equal(symlink("0123456789abcdeX", name), 0);
    assert_int_equal(join(&a, 1, "here", 8), -1);
    assert_int_equal(errno, EINVAL);
    unlink(name);
    snprintf(name, sizeof(name), "%s/ranks", sub);
    static const char *const bad[] = {"0", "65537", "07", "7 ", "x", "-1", "4294967297"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(symlink(bad[i], name), 0);
        assert_int_equal(join(&a, 1, "here", 8), -1);
        assert_int_equal(errno, EINVAL);
        unlink(name);
    }
    /* Names that are like ours are nobody's. */
    static const char *const like[] = {"slot.0000.1",      "slot.00000.01", "slot.00000.0",
                                       "slot.00000.1x",    "slot.99999.1",  "live.00000.1",
                                       "live.00000.1.1.2", ".nfs0001",      "gone."};
    for (size_t i = 0; i < sizeof(like) / sizeof(like[0]); i++) {
        snprintf(name, sizeof(name), "%s/%s", sub, like[i]);
        assert_int_equal(symlink("x", name), 0);
    }
    member_start(&a, 1, "here", 8);
    assert_int_equal(a.slot, 0);
    assert_int_equal(a.inc, 1);
    member_leave(&a);
    assert_int_equal(count("") + 1,
                     4 + sizeof(like) / sizeof(like[0])); /* .nfs not counted */
}

static void test_namespaces(void **state)
{
    static const char *const names[] = {NULL, "dyad", "a",   "A",     "a/b", "a%2Fb",
                                        "..", ".",    "a b", "\n",    "ü",   "ns.",
                                        "/",  "id",   "a.b", "hash.0"};
    enum { N = sizeof(names) / sizeof(names[0]) };
    char text[N + 4][SUB_MAX + 1], longer[4][1000];

    (void)state;
    for (size_t i = 0; i < N; i++)
        subdirectory(names[i], text[i]);
    for (size_t i = 0; i < 4; i++) {
        memset(longer[i], i < 2 ? 'x' : '/', 999);
        longer[i][i % 2 ? 999 : 998] = '\0';
        subdirectory(longer[i], text[N + i]);
    }
    for (size_t i = 0; i < N + 4; i++) {
        assert_null(strchr(text[i], '/'));
        assert_true(text[i][0] != '.' && strlen(text[i]) <= SUB_MAX);
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(text[i], text[j]);
    }
    subdirectory("", text[1]);
    assert_string_equal(text[1], "dyad");
    /* The longest that is not hashed, and the next. */
    memset(longer[0], 'x', 999);
    longer[0][SUB_MAX - 3] = '\0';
    subdirectory(longer[0], text[0]);
    assert_int_equal(strncmp(text[0], "hash.", 5) == 0 ? 0 : strlen(text[0]), 0);
    longer[0][SUB_MAX - 5] = '\0';
    subdirectory(longer[0], text[0]);
    assert_int_equal(strlen(text[0]), SUB_MAX - 2);

    fresh();
    struct boot_identity id = identity(1, "here");
    struct session_dir *a = session_dir_create(dir, "one", &id),
                       *b = session_dir_create(dir, "two", &id);
    uint32_t slot, inc;
    assert_int_equal(session_dir_open(a, 8), 0);
    assert_int_equal(session_dir_open(b, 9), 0);
    assert_string_not_equal(session_dir_id(a), session_dir_id(b));
    assert_int_equal(session_dir_take_slot(a, &slot, &inc), 0);
    assert_int_equal(slot, 0);
    assert_int_equal(session_dir_take_slot(b, &slot, &inc), 0);
    assert_int_equal(slot, 0);
    assert_int_equal(session_dir_ranks(b), 9);
    session_dir_destroy(a);
    session_dir_destroy(b);
}

/* All slots taken; then the order in which those of the dead are given. */
static void test_full(void **state)
{
    struct member m[4], more;

    (void)state;
    fresh();
    for (uint32_t i = 0; i < 4; i++)
        member_start(&m[i], i, i < 2 ? "here" : "there", 4);
    assert_int_equal(join(&more, 9, "here", 4), -1);
    assert_int_equal(errno, ENOSPC);

    member_leave(&m[0]);
    member_leave(&m[2]);
    /* The own node's dead first. */
    member_start(&more, 9, "there", 4);
    assert_int_equal(more.slot, 2);
    assert_int_equal(more.inc, 2);
    assert_int_equal(count("gone.00002."), 0);
    assert_int_equal(join(&m[2], 10, "there", 4), 0);
    assert_int_equal(m[2].slot, 0);
    assert_int_equal(m[2].inc, 2);
    assert_int_equal(commit(&m[2]), 0);
    assert_int_equal(join(&m[0], 0, "here", 4), -1);
    assert_int_equal(errno, ENOSPC);

    /* Killed: its node finds out, another node does not. */
    member_kill(&m[1]);
    assert_int_equal(join(&m[1], 11, "there", 4), -1);
    assert_int_equal(errno, ENOSPC);
    member_start(&m[1], 12, "here", 4);
    assert_int_equal(m[1].slot, 1);
    assert_int_equal(m[1].inc, 2);
    /* Killed between claim and entry: the same. */
    member_leave(&m[1]);
    assert_int_equal(join(&m[1], 13, "here", 4), 0);
    member_kill(&m[1]);
    assert_int_equal(join(&m[1], 14, "there", 4), -1);
    assert_int_equal(errno, ENOSPC);
    assert_int_equal(join(&m[1], 14, "here", 4), 0);
    assert_int_equal(m[1].slot, 1);
    assert_int_equal(m[1].inc, 4);
    /* By time, where nobody can say. */
    member_kill(&m[1]);
    struct timespec old[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = time(NULL) - 700}};
    char name[512];
    snprintf(name, sizeof(name), "%s/slot.00001.4", sub);
    assert_int_equal(utimensat(AT_FDCWD, name, old, AT_SYMLINK_NOFOLLOW), 0);
    member_start(&m[1], 15, "there", 4);
    assert_int_equal(m[1].slot, 1);
    assert_int_equal(m[1].inc, 5);
    member_leave(&m[1]);
    member_leave(&m[2]);
    member_leave(&more);
    member_kill(&m[3]);
}

/* The text of our slot's link with another boot id: the node was started anew since. */
static void age_link(const struct member *m)
{
    char name[512], text[256];
    ssize_t n;

    snprintf(name, sizeof(name), "%s/slot.%05u.%u", sub, m->slot, m->inc);
    n = readlink(name, text, sizeof(text) - 1);
    assert_true(n > 60);
    text[n] = '\0';
    text[34] = text[34] == '0' ? '1' : '0'; /* in the third number */
    assert_int_equal(unlink(name), 0);
    assert_int_equal(symlink(text, name), 0);
}

static void test_stale(void **state)
{
    struct member booted, killed, alive, other, a;

    (void)state;
    fresh();
    member_start(&booted, 1, "here", 8);
    age_link(&booted); /* its claim is held, by somebody of this boot */
    member_start(&alive, 2, "here", 8);
    assert_int_equal(count("gone."), 1);
    assert_int_equal(count("gone.00000.1."), 1);
    member_start(&killed, 3, "here", 8);
    member_start(&other, 4, "there", 8);
    member_kill(&killed);
    member_kill(&other);
    member_start(&a, 5, "here", 8);
    assert_int_equal(a.slot, 4);
    assert_int_equal(count("gone."), 2);
    assert_int_equal(count("gone.00002.1."), 1);
    assert_false(session_dir_is_dead(a.d, alive.slot));
    assert_false(session_dir_is_dead(a.d, other.slot));
    member_kill(&alive);
    assert_true(session_dir_is_dead(a.d, alive.slot));
    assert_int_equal(session_dir_retire(a.d, alive.slot, 7), -1);
    assert_int_equal(errno, ENOENT);
    assert_int_equal(session_dir_retire(a.d, alive.slot, 1), 0);
    assert_int_equal(session_dir_retire(a.d, other.slot, 1), 0);
    assert_int_equal(count("live."), 1);
    member_kill(&booted);
    member_leave(&a);
}

/* The name of a node's next boot is the same; that of another node is not. */
static void test_node(void **state)
{
    struct boot_identity one = identity(1, "host"), two = one, three = one;
    struct session_dir *a, *b, *c;
    char boot[64];

    (void)state;
    fresh();
    read_boot_id(boot, sizeof(boot));
    snprintf(two.node, sizeof(two.node), "host/%s", boot);
    snprintf(three.node, sizeof(three.node), "host/x");
    a = session_dir_create(dir, NULL, &one);
    b = session_dir_create(dir, NULL, &two);
    c = session_dir_create(dir, NULL, &three);
    assert_int_equal(session_dir_node(a), session_dir_node(b));
    assert_int_not_equal(session_dir_node(a), session_dir_node(c));
    session_dir_destroy(a);
    session_dir_destroy(b);
    session_dir_destroy(c);
}

/* Somebody renames a member's entry, or takes it away, or all of them. */
static void test_keep(void **state)
{
    struct member a, b;
    char live[512], gone[512];

    (void)state;
    fresh();
    member_start(&a, 1, "here", 8);
    member_start(&b, 2, "there", 8);
    only("live.00000.", live, sizeof(live));
    assert_int_equal(session_dir_retire(b.d, 0, 1), 0);
    only("gone.00000.", gone, sizeof(gone));
    assert_int_equal(session_dir_list(a.d), 0);
    assert_int_equal(session_dir_keep(a.d), 0);
    assert_int_equal(access(live, F_OK), 0);
    assert_int_equal(access(gone, F_OK), -1);

    assert_int_equal(unlink(live), 0);
    assert_int_equal(session_dir_list(a.d), 0);
    assert_int_equal(session_dir_keep(a.d), 0);
    assert_int_equal(access(live, F_OK), 0);

    char command[512];
    snprintf(command, sizeof(command), "rm -r %s/*", sub);
    assert_int_equal(system(command), 0);
    assert_int_equal(session_dir_list(a.d), 0);
    assert_int_equal(session_dir_keep(a.d), 0);
    assert_int_equal(session_dir_list(b.d), 0);
    assert_int_equal(session_dir_keep(b.d), 0);
    assert_int_equal(count(""), 6);
    struct member c;
    member_start(&c, 3, "here", 9);
    assert_string_equal(session_dir_id(c.d), session_dir_id(a.d));
    assert_int_equal(session_dir_ranks(c.d), 8);
    assert_int_equal(c.slot, 2);
    member_leave(&c);

    /* Another session meanwhile: it is told, and leaves that one alone. */
    assert_int_equal(system(command), 0);
    member_start(&c, 3, "here", 9);
    assert_int_equal(session_dir_list(b.d), 0);
    assert_int_equal(session_dir_keep(b.d), -1);
    assert_int_equal(errno, ESTALE);
    assert_int_equal(session_dir_list(a.d), 0);
    assert_int_equal(session_dir_keep(a.d), -1);
    assert_int_equal(errno, ESTALE);
    assert_int_equal(count("live."), 1);
    /* Whose slot has the same name there. */
    assert_int_equal(c.slot, a.slot);
    assert_int_equal(c.inc, a.inc);
    member_leave(&a);
    member_leave(&b);
    assert_int_equal(count("slot.00000.1"), 1);
    assert_int_equal(count("live.00000.1"), 1);
    member_leave(&c);
}

/* Found dead by mistake, and the slot is another's before one looks. */
static void test_superseded(void **state)
{
    struct member a, b, c;

    (void)state;
    fresh();
    member_start(&a, 1, "here", 2);
    member_start(&b, 2, "there", 2);
    assert_int_equal(session_dir_retire(b.d, 0, 1), 0);
    assert_int_equal(join(&c, 3, "there", 2), 0);
    assert_int_equal(c.slot, 0);
    assert_int_equal(session_dir_list(a.d), 0);
    assert_int_equal(session_dir_keep(a.d), -1);
    assert_int_equal(errno, ESTALE);
    assert_int_equal(count("live.00000."), 0);
    assert_int_equal(commit(&c), 0);
    /* What a leaves is not taken for what c does. */
    member_leave(&a);
    assert_int_equal(count("live.00000.2."), 1);
    assert_int_equal(count("slot.00000.2"), 1);
    assert_int_equal(session_dir_list(b.d), 0);
    assert_int_equal(session_dir_slots(b.d)[0].live, 2);

    /* Between claim and entry. */
    struct member d, e;
    member_leave(&c);
    assert_int_equal(join(&d, 4, "far", 2), 0);
    char name[512], later[512];
    snprintf(name, sizeof(name), "%s/slot.00000.3", sub);
    snprintf(later, sizeof(later), "%s/slot.00000.4", sub);
    assert_int_equal(rename(name, later), 0);
    assert_int_equal(commit(&d), -1);
    assert_int_equal(errno, ESTALE);
    assert_int_equal(count("live.00000."), 0);
    member_kill(&d);
    unlink(later);
    member_start(&e, 5, "there", 2);
    assert_int_equal(e.slot, 0);
    member_leave(&e);
    member_leave(&b);
}

/* An entry that cannot be written: nothing half is left, and the slot is given back. */
static void test_no_room(void **state)
{
    struct rlimit before, small;
    struct member a;

    (void)state;
    fresh();
    assert_int_equal(join(&a, 1, "here", 8), 0);
    getrlimit(RLIMIT_FSIZE, &before);
    small = before;
    small.rlim_cur = 4;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0); /* SIGXFSZ is blocked */
    int rc = commit(&a), error = errno;
    setrlimit(RLIMIT_FSIZE, &before);
    assert_int_equal(rc, -1);
    assert_int_equal(error, EFBIG);
    assert_int_equal(count("live.") + count("new."), 0);
    member_leave(&a);
    assert_int_equal(count("slot."), 0);
}

/* A claimer that slept while its slot was taken, left and taken again. */
static void test_sleeper(void **state)
{
    struct member a, b, sleeper;
    struct boot_identity id = identity(9, "here");
    int fd;

    (void)state;
    fresh();
    sleeper.d = session_dir_create(dir, NULL, &id);
    assert_int_equal(session_dir_open(sleeper.d, 1), 0);
    assert_int_equal(session_dir_list(sleeper.d),
                     0); /* slot 0 is free: and now it sleeps */
    member_start(&a, 1, "there", 1);
    member_leave(&a);
    member_start(&b, 2, "there", 1);
    assert_int_equal(b.inc, 2);
    assert_int_equal(count("slot.00000.1"), 0);
    fd = session_dir_enter(sleeper.d);
    assert_int_equal(create_slot(sleeper.d, fd, 0, 1), 1);
    close(fd);
    assert_int_equal(session_dir_list(sleeper.d), 0);
    assert_int_equal(session_dir_slots(sleeper.d)[0].link, 2); /* so it gives way */
    assert_int_equal(session_dir_list(b.d), 0);
    assert_int_equal(session_dir_keep(b.d), 0);
    session_dir_destroy(sleeper.d);
    member_leave(&b);
}

/* --- many at once --- */

struct shared {
    uint32_t ready, go;
    struct {
        uint32_t slot, inc, seen;
        char id[BOOT_SESSION_ID_LEN + 1];
    } of[64];
};

static struct shared *shared;

static void wait_for(uint32_t *word, uint32_t value)
{
    while (__atomic_load_n(word, __ATOMIC_SEQ_CST) < value)
        sched_yield();
}

/* A child that joins when all are there; node by its number. Stays until killed if `stay`.
 */
static pid_t joiner(uint32_t i, uint32_t n, uint32_t ranks, unsigned step)
{
    pid_t pid = fork();
    struct member m;
    char node[16];

    if (pid != 0)
        return pid;
    snprintf(node, sizeof(node), "n%u", i % 4);
    __atomic_fetch_add(&shared->ready, 1, __ATOMIC_SEQ_CST);
    wait_for(&shared->ready, n);
    die_at = step;
    changes = 0;
    if (join(&m, 1000 + number * 100 + i, node, ranks) < 0)
        _exit(1);
    shared->of[i].slot = m.slot;
    shared->of[i].inc = m.inc;
    strcpy(shared->of[i].id, session_dir_id(m.d));
    if (commit(&m) < 0)
        _exit(2);
    for (uint32_t s = 0; s < session_dir_ranks(m.d); s++)
        shared->of[i].seen += session_dir_slots(m.d)[s].live != 0;
    __atomic_fetch_add(&shared->go, 1, __ATOMIC_SEQ_CST);
    for (;;)
        pause();
}

static void test_race(void **state)
{
    enum { N = 32 };
    int status;

    (void)state;
    for (unsigned round = 0; round < (getenv("DYAD_TEST_VALGRIND") ? 2 : 10); round++) {
        pid_t pid[N];
        fresh();
        memset(shared, 0, sizeof(*shared));
        /* Just as many slots as there are processes in every other round. */
        for (uint32_t i = 0; i < N; i++)
            pid[i] = joiner(i, N, round % 2 ? N : 4096, 0);
        wait_for(&shared->go, N);
        uint32_t most = 0;
        for (uint32_t i = 0; i < N; i++) {
            assert_string_equal(shared->of[i].id, shared->of[0].id);
            assert_int_equal(shared->of[i].inc, 1);
            for (uint32_t j = 0; j < i; j++)
                assert_int_not_equal(shared->of[i].slot, shared->of[j].slot);
            if (shared->of[i].seen > most)
                most = shared->of[i].seen;
        }
        assert_int_equal(most, N); /* the last one saw them all */
        assert_int_equal(count("live."), N);
        assert_int_equal(count("slot."), N);
        assert_int_equal(count(""), 2 + 2 * N);
        for (uint32_t i = 0; i < N; i++) {
            kill(pid[i], SIGKILL);
            waitpid(pid[i], &status, 0);
        }
    }
}

/* Of two that come at once, one finds the other: of their lists one is the later. */
static void test_meet(void **state)
{
    int status;

    (void)state;
    for (unsigned round = 0; round < (getenv("DYAD_TEST_VALGRIND") ? 10 : 200); round++) {
        pid_t pid[2];
        fresh();
        memset(shared, 0, sizeof(*shared));
        for (uint32_t i = 0; i < 2; i++)
            pid[i] = joiner(i, 2, 8, 0);
        wait_for(&shared->go, 2);
        assert_true(shared->of[0].seen == 2 || shared->of[1].seen == 2);
        for (uint32_t i = 0; i < 2; i++) {
            kill(pid[i], SIGKILL);
            waitpid(pid[i], &status, 0);
        }
    }
}

/* After any kills: processes join, each in a slot of its own, and clean up on the way. */
static void check_sound(uint32_t ranks, unsigned killed)
{
    struct member m[8];

    for (uint32_t i = 0; i < 8; i++)
        member_start(&m[i], 500 + number * 100 + i, i < 4 ? "n0" : "n1", ranks);
    for (uint32_t i = 0; i < 8; i++)
        for (uint32_t j = 0; j < i; j++)
            assert_int_not_equal(m[i].slot, m[j].slot);
    assert_int_equal(session_dir_list(m[0].d), 0);
    for (uint32_t i = 0; i < 8; i++)
        assert_int_equal(session_dir_slots(m[0].d)[m[i].slot].live, m[i].inc);
    /* A kill leaves a link, and an entry whole or half written. */
    assert_true(count("") <= 2 + 8 * 2 + killed * 3);
    for (uint32_t i = 0; i < 8; i++)
        member_leave(&m[i]);
}

static void test_kill_at_each_step(void **state)
{
    int status;
    unsigned step;

    (void)state;
    /* In an empty directory, and where a slot of a dead member must be taken over. */
    for (int again = 0; again < 2; again++) {
        for (step = 1;; step++) {
            fresh();
            if (again) {
                struct member m[2];
                for (uint32_t i = 0; i < 2; i++)
                    member_start(&m[i], i, i ? "n1" : "n0", 2);
                for (uint32_t i = 0; i < 2; i++)
                    member_leave(&m[i]);
            }
            memset(shared, 0, sizeof(*shared));
            pid_t pid = joiner(0, 1, again ? 2 : 16, step);
            while (waitpid(pid, &status, WNOHANG) == 0 &&
                   !__atomic_load_n(&shared->go, __ATOMIC_SEQ_CST))
                sched_yield();
            bool finished = shared->go != 0;
            if (finished) {
                kill(pid, SIGKILL);
                waitpid(pid, &status, 0);
            }
            assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
            if (again) {
                struct member m;
                member_start(&m, 77, "n0", 2);
                assert_true(m.slot < 2 && m.inc >= 2);
                assert_true(count("live.") == 1);
                member_leave(&m);
            } else {
                check_sound(16, 1);
            }
            if (finished)
                break;
        }
        print_message("killed at each of %u steps\n", step - 1);
        assert_true(step > 8);
    }
}

/* Killed at any moment, many beside each other, in few slots. */
static void test_kill_at_random(void **state)
{
    enum { N = 6, RANKS = 24 };
    unsigned seed = (unsigned)time(NULL), rounds = getenv("DYAD_TEST_VALGRIND") ? 5 : 100;
    int status;

    (void)state;
    print_message("seed %u\n", seed);
    srandom(seed);
    fresh();
    char id[BOOT_SESSION_ID_LEN + 1] = "";
    for (unsigned round = 0; round < rounds; round++) {
        pid_t pid[N];
        memset(shared, 0, sizeof(*shared));
        for (uint32_t i = 0; i < N; i++)
            pid[i] = joiner(i, N, RANKS, (unsigned)random() % 24 + 1);
        struct timespec nap = {.tv_nsec = random() % 3000000};
        nanosleep(&nap, NULL);
        for (uint32_t i = 0; i < N; i++) {
            if (random() % 4)
                kill(pid[i], SIGKILL);
        }
        for (uint32_t i = 0; i < N; i++) {
            kill(pid[i], SIGKILL);
            waitpid(pid[i], &status, 0);
            assert_true(WIFSIGNALED(status));
            if (shared->of[i].id[0] && !id[0])
                strcpy(id, shared->of[i].id);
            if (shared->of[i].id[0])
                assert_string_equal(shared->of[i].id, id);
        }
        number++; /* other identities */
        struct member m[4];
        for (uint32_t i = 0; i < 4; i++) { /* each node finds its dead */
            char node[16];
            snprintf(node, sizeof(node), "n%u", i);
            member_start(&m[i], 90000 + number * 10 + i, node, RANKS);
        }
        assert_int_equal(session_dir_list(m[0].d), 0);
        for (uint32_t i = 0; i < 4; i++)
            assert_int_equal(session_dir_slots(m[0].d)[m[i].slot].live, m[i].inc);
        assert_int_equal(count("live."), 4);
        assert_true(count("") <= 2 + RANKS * 8);
        for (uint32_t i = 0; i < 4; i++)
            member_leave(&m[i]);
    }
    print_message("%zu names are left of %u kills\n", count(""), rounds * N);
}

/* --- the thread --- */

struct life { /* a session on the loop, and what it was told */
    struct boot_session *session;
    struct boot_session_place place;
    int claim, ready, committed, error;
    struct {
        uint32_t found, gone;
    } slot[16];
    unsigned blobs;
    int blob_error;
    char blob[NET_PEER_BLOB_MAX];
    size_t blob_len;
};

static struct net_loop *loop;

static void on_ready(void *arg, const struct boot_session_place *place, int error)
{
    struct life *l = arg;

    l->ready++;
    l->error = error;
    if (!error)
        l->place = *place;
    net_loop_stop(loop);
}

static void on_committed(void *arg, int status)
{
    struct life *l = arg;

    l->committed++;
    l->error = status;
    net_loop_stop(loop);
}

static void on_found(void *arg, uint32_t slot, uint32_t incarnation)
{
    struct life *l = arg;

    assert_true(slot < 16);
    l->slot[slot].found = incarnation;
    net_loop_stop(loop);
}

static void on_gone(void *arg, uint32_t slot, uint32_t incarnation)
{
    struct life *l = arg;

    assert_true(slot < 16);
    l->slot[slot].gone = incarnation;
    net_loop_stop(loop);
}

static void on_blob(void *arg, uint32_t slot, const void *blob, size_t len, int error)
{
    struct life *l = arg;

    (void)slot;
    l->blobs++;
    l->blob_error = error;
    l->blob_len = len;
    if (!error)
        memcpy(l->blob, blob, len);
    net_loop_stop(loop);
}

static const struct boot_session_ops life_ops = {on_ready, on_committed, on_found, on_gone,
                                                 on_blob};

/* ctest bounds it. */
#define RUN_UNTIL(condition)                         \
    do {                                             \
        while (!(condition))                         \
            assert_int_equal(net_loop_run(loop), 0); \
    } while (0)

static void life_create(struct life *l, uint32_t rank, const char *node, uint32_t ranks)
{
    struct boot_identity id = identity(rank, node);

    *l = (struct life){.claim = bind_claim(&id)};
    l->session = boot_session_create(loop, dir, NULL, ranks, &id, &life_ops, l);
    assert_non_null(l->session);
    RUN_UNTIL(l->ready);
}

static void life_commit(struct life *l, const char *node)
{
    static struct net_peer peer;
    static unsigned char blob[NET_PEER_BLOB_MAX];
    int n;

    memset(&peer, 0, sizeof(peer));
    peer.rank = l->place.slot;
    peer.incarnation = l->place.incarnation;
    peer.depth = peer.bins = peer.replicas = 1;
    snprintf(peer.node, sizeof(peer.node), "%s", node);
    strcpy(peer.dmd_producer, "/dmd");
    strcpy(peer.dmd_consumer, "/dmd");
    peer.address_len = 4;
    n = net_peer_encode(&peer, 1, blob, sizeof(blob));
    assert_true(n > 0);
    assert_int_equal(boot_session_commit(l->session, blob, (size_t)n), 0);
    RUN_UNTIL(l->committed);
    assert_int_equal(l->error, 0);
}

static void life_start(struct life *l, uint32_t rank, const char *node)
{
    life_create(l, rank, node, 16);
    assert_int_equal(l->error, 0);
    life_commit(l, node);
}

static void life_end(struct life *l, bool leave)
{
    boot_session_destroy(l->session, leave);
    if (l->claim >= 0)
        close(l->claim);
}

/* As another member does that finds it dead. */
static void entry_gone(const char *prefix)
{
    char from[512], to[512];
    DIR *list = opendir(sub);
    struct dirent *entry;
    bool found = false;

    assert_non_null(list);
    while (!found && (entry = readdir(list)))
        found = strncmp(entry->d_name, prefix, strlen(prefix)) == 0;
    assert_true(found);
    snprintf(from, sizeof(from), "%s/%s", sub, entry->d_name);
    snprintf(to, sizeof(to), "%s/gone%s", sub, entry->d_name + strlen("live"));
    closedir(list);
    assert_int_equal(rename(from, to), 0);
}

/* A member's blob has its key. It is there as long as the member may have to put it back; what is read of
 * another's is not. */
static void test_session_wiped(void **state)
{
    static const uint8_t masked[64] =
        "some bytes that are like no other ones, as many as a key, twice.";
    unsigned char blob[sizeof(masked)];
    struct life a, b;

    (void)state;
    fresh();
    life_start(&a, 1, "here");
    life_create(&b, 2, "here", 16);
    in_memory_unmask(blob, masked, sizeof(blob));
    assert_int_equal(boot_session_commit(b.session, blob, sizeof(blob)), 0);
    explicit_bzero(blob, sizeof(blob));
    RUN_UNTIL(b.committed);
    assert_int_equal(b.error, 0);
    RUN_UNTIL(a.slot[1].found == 1);
    assert_int_equal(boot_session_get(a.session, 1), 0);
    RUN_UNTIL(a.blobs == 1);
    assert_int_equal(a.blob_len, sizeof(blob));
    explicit_bzero(a.blob, sizeof(a.blob));
    assert_int_equal(in_memory(masked, sizeof(masked)), 1);
    life_end(&b, true);
    assert_int_equal(in_memory(masked, sizeof(masked)), 0);
    life_end(&a, true);
}

static void test_session(void **state)
{
    struct life a, b, c;
    uint32_t node_a, node_c;

    (void)state;
    fresh();
    life_start(&a, 1, "here");
    assert_int_equal(a.place.slot, 0);
    assert_int_equal(a.place.incarnation, 1);
    assert_int_equal(strlen(a.place.id), BOOT_SESSION_ID_LEN);
    assert_int_equal(a.place.job->nranks, 16);
    for (uint32_t i = 0; i < 16; i++)
        for (uint32_t j = 0; j < i; j++)
            assert_int_not_equal(a.place.job->node[i], a.place.job->node[j]);
    node_a = a.place.job->node[0];

    /* The later one knows the earlier before it is committed; the earlier one looks. */
    life_create(&b, 2, "here", 16);
    assert_int_equal(b.place.job->node[0], b.place.job->node[1]);
    life_commit(&b, "here");
    assert_int_equal(b.slot[0].found, 1);
    RUN_UNTIL(a.slot[1].found == 1);
    assert_int_equal(a.place.job->node[1], node_a);
    /* One that makes itself known before the directory is read again. */
    assert_int_not_equal(a.place.job->node[2], a.place.job->node[3]);
    boot_session_met(a.session, 2, "there");
    boot_session_met(a.session, 3, "there/0123abcd-0123-4567-89ab-0123456789ab");
    boot_session_met(a.session, 4, "here");
    boot_session_met(a.session, 16, "here"); /* there is no such slot */
    assert_int_equal(a.place.job->node[2], a.place.job->node[3]);
    assert_int_not_equal(a.place.job->node[2], node_a);
    assert_int_equal(a.place.job->node[4], node_a);
    node_c = a.place.job->node[2];
    life_start(&c, 3, "there");
    assert_int_equal(c.slot[0].found, 1);
    assert_int_equal(c.slot[1].found, 1);
    RUN_UNTIL(a.slot[2].found == 1 && b.slot[2].found == 1);
    assert_int_equal(a.place.job->node[2], node_c);

    /* Blobs. */
    struct net_peer *peer = malloc(sizeof(*peer));
    assert_int_equal(boot_session_get(a.session, 2), 0);
    RUN_UNTIL(a.blobs == 1);
    assert_int_equal(a.blob_error, 0);
    assert_int_equal(net_peer_decode(peer, a.blob, a.blob_len), 0);
    assert_string_equal(peer->node, "there");
    free(peer);
    assert_int_equal(boot_session_get(a.session, 7), 0);
    RUN_UNTIL(a.blobs == 2);
    assert_int_equal(a.blob_error, ESRCH);

    /* Leave, and come again. */
    assert_string_equal(boot_session_empty_nodes(a.session), "");
    life_end(&c, true);
    RUN_UNTIL(a.slot[2].gone == 1 && b.slot[2].gone == 1);
    while (strcmp(boot_session_empty_nodes(a.session), "there") != 0)
        sched_yield();
    life_start(&c, 3, "there");
    assert_int_equal(c.place.slot, 2);
    RUN_UNTIL(a.slot[2].found == 2 && b.slot[2].found == 2);
    while (strcmp(boot_session_empty_nodes(a.session), "") != 0)
        sched_yield();

    /* Killed: on its own node that is certain, on another one nobody can say. */
    life_end(&c, false);
    boot_session_lost(a.session, 2, 2);
    life_end(&b, false);
    boot_session_lost(a.session, 1, 1);
    RUN_UNTIL(a.slot[1].gone == 1);
    assert_int_equal(a.slot[2].gone, 1);
    assert_int_equal(count("live."), 2);

    /* One whose blob could not be read is found again. */
    a.slot[2].found = 0;
    boot_session_find(a.session, 2);
    RUN_UNTIL(a.slot[2].found == 2); /* its incarnation */
    entry_gone("live.00002.2.");
    RUN_UNTIL(a.slot[2].gone == 2);

    /* One that somebody has found dead and is not puts itself back. */
    life_start(&b, 4, "there");
    RUN_UNTIL(a.slot[3].found == 1);
    entry_gone("live.00003.1.");
    while (count("live.00003.1.") == 0)
        sched_yield();
    life_end(&b, true);
    life_end(&a, true);
    assert_int_equal(count("live."), 0);
}

/* Its slot is given away: it is told. */
static void test_session_superseded(void **state)
{
    struct life a, b;
    char name[512];

    (void)state;
    fresh();
    life_start(&a, 1, "here");
    snprintf(name, sizeof(name), "%s/slot.00000.2", sub);
    assert_int_equal(symlink("x", name), 0);
    RUN_UNTIL(a.slot[0].gone == 1);
    life_end(&a, true);
    assert_int_equal(count("live."), 0);
    assert_int_equal(count("slot.00000.2"), 1);

    /* Errors come with ready. */
    assert_int_equal(chmod(dir, 0755), 0);
    life_create(&b, 2, "here", 16);
    assert_int_equal(b.error, EPERM);
    boot_session_get(b.session, 1);
    boot_session_lost(b.session, 1, 1);
    life_end(&b, true);
}

/* An emptied directory: nobody takes the others for gone. */
static void test_session_emptied(void **state)
{
    struct life a, b, c;
    char command[512];

    (void)state;
    fresh();
    life_start(&a, 1, "here");
    life_start(&b, 2, "there");
    RUN_UNTIL(a.slot[1].found == 1);
    snprintf(command, sizeof(command), "rm %s/*", sub);
    assert_int_equal(system(command), 0);
    while (count("live.") < 2)
        sched_yield();
    life_start(&c, 3, "here");
    assert_int_equal(c.place.slot, 2);
    RUN_UNTIL(a.slot[2].found && b.slot[2].found);
    assert_int_equal(a.slot[1].gone, 0);
    assert_int_equal(b.slot[0].gone, 0);
    life_end(&a, true);
    life_end(&b, true);
    life_end(&c, true);
}

/* Closed at any moment. */
static void test_session_destroy(void **state)
{
    struct life l;
    struct boot_identity id = identity(1, "here");

    (void)state;
    fresh();
    for (unsigned i = 0; i < 50; i++) {
        memset(&l, 0, sizeof(l));
        l.session = boot_session_create(loop, dir, NULL, 16, &id, &life_ops, &l);
        assert_non_null(l.session);
        if (i % 3)
            RUN_UNTIL(l.ready);
        if (i % 3 == 2)
            boot_session_commit(l.session, "x", 1);
        boot_session_destroy(l.session, true);
        assert_int_equal(l.committed, 0);
    }
    net_loop_stop(loop);
    net_loop_run(loop); /* what was posted finds nothing */
    assert_int_equal(count("live."), 0);
}

static int set_up(void **state)
{
    sigset_t all;

    (void)state;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, NULL);
    if (!mkdtemp(top))
        return -1;
    boot_session_scan_ns = 20 * UTIL_NSEC_PER_MSEC;
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                  -1, 0);
    loop = net_loop_create();
    return shared == MAP_FAILED || !loop ? -1 : 0;
}

static int tear_down(void **state)
{
    char command[64];

    (void)state;
    net_loop_destroy(loop);
    snprintf(command, sizeof(command), "rm -rf %s", top);
    return system(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_first),
        cmocka_unit_test(test_leave_early),
        cmocka_unit_test(test_permissions),
        cmocka_unit_test(test_foreign),
        cmocka_unit_test(test_namespaces),
        cmocka_unit_test(test_full),
        cmocka_unit_test(test_stale),
        cmocka_unit_test(test_node),
        cmocka_unit_test(test_keep),
        cmocka_unit_test(test_superseded),
        cmocka_unit_test(test_no_room),
        cmocka_unit_test(test_sleeper),
        cmocka_unit_test(test_race),
        cmocka_unit_test(test_meet),
        cmocka_unit_test(test_kill_at_each_step),
        cmocka_unit_test(test_kill_at_random),
        cmocka_unit_test(test_session_wiped),
        cmocka_unit_test(test_session),
        cmocka_unit_test(test_session_superseded),
        cmocka_unit_test(test_session_emptied),
        cmocka_unit_test(test_session_destroy),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
