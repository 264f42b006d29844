/*
 * test_client_library.c - with which libraries a member runs, and what it does where they
 * cannot be its own
 *
 * Real: client_library.c and client_member.c. The program, the C library's version and
 * whether dlmopen() succeeds are played here, and libdyad_member.so is
 * fake_member_library.c, beside this program. A process is a member once at most, so each
 * case is a process of its own, which notes in shared memory what it saw.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <dlfcn.h>
#include <errno.h>
#include <gnu/libc-version.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "boot/member_claim.h"
#include "boot/libs.h"
#include "client/client.h"
#include "client/client_impl.h"
#include "store/looked.h"
#include "client/client_promoted.h"
#include "engine/core/member_ops.h"
#include "util/loader.h"
#include "util/log.h"

#define RUNS_MAX 8

/* What the case is. */
struct world {
    const char *libc;        /* its version */
    bool uses_ucx;           /* the program does */
    bool no_namespace;       /* dlmopen() fails; */
    unsigned after;          /* ... after so many times that it did not */
    unsigned aborted_copies; /* so many members end themselves */
};

/* What came of it. */
struct seen {
    unsigned namespaces; /* dlmopen() was called */
    unsigned runs;
    bool apart[RUNS_MAX], may_rejoin[RUNS_MAX];
    int rc;
    bool hopeless, lost;
};

static const struct world *world;
static struct seen *seen;

/* --- the C library --- */

const char *gnu_get_libc_version(void)
{
    return world->libc;
}

/* Not a name space of its own, really: the functions are the test's. */
void *dlmopen(Lmid_t space, const char *path, int flags)
{
    if (space != LM_ID_NEWLM)
        abort();
    seen->namespaces++;
    if (world->no_namespace && seen->namespaces > world->after)
        return dlopen("/nowhere/" MEMBER_LIBRARY, flags); /* for dlerror() */
    return dlopen(path, flags);
}

/* --- what else the front needs --- */

bool boot_libs_may_share(void)
{
    return world->uses_ucx;
}

bool boot_libs_own_malloc(void)
{
#ifdef DYAD_SANITIZED
    return true; /* that of the sanitizer's runtime */
#else
    return false;
#endif
}

int boot_member_claim_bind(const struct sockaddr_un *addr, socklen_t len)
{
    (void)addr;
    (void)len;
    errno = EADDRINUSE;
    return -1;
}

void boot_member_claim_shut(int fd)
{
    (void)fd;
}

bool store_looked_elsewhere(const struct store_marks *marks, uint64_t rank)
{
    (void)marks;
    (void)rank;
    return false;
}

/* Nobody is in a constructor. */
bool util_loader_held(void)
{
    return false;
}

bool util_loader_awaited(void)
{
    return false;
}

bool client_member_loads(const struct client *client)
{
    (void)client;
    return false;
}

struct client *client_get(void)
{
    return NULL;
}

void client_lock_reset(void)
{
}

void client_promoted_fork_child(void)
{
}

void util_log(enum util_log_level level, const char *fmt, ...)
{
    (void)level;
    (void)fmt;
}

/* --- the member --- */

static struct member *create(const struct member_params *params)
{
    if (seen->runs == RUNS_MAX)
        abort();
    seen->apart[seen->runs] = params->apart;
    seen->may_rejoin[seen->runs] = params->may_rejoin();
    seen->runs++;
    return (struct member *)seen; /* not NULL; never looked into */
}

static int run(struct member *member, int *claim_fd)
{
    (void)member;
    (void)claim_fd;
    return seen->runs <= world->aborted_copies ? MEMBER_ABORTED : 0;
}

static void destroy(struct member *member)
{
    (void)member;
}

__attribute__((visibility("default"))) extern const struct member_ops fake_ops;
const struct member_ops fake_ops = {
    .abi = MEMBER_ABI, .create = create, .run = run, .destroy = destroy};

/* --- the cases --- */

static struct seen member_in(const struct world *is)
{
    static struct client client;
    int status;
    pid_t pid;

    memset(seen, 0, sizeof(*seen));
    world = is;
    assert_true((pid = fork()) >= 0);
    if (pid == 0) {
        seen->rc = client_member_run(&client, -1);
        seen->hopeless = client_member_hopeless();
        seen->lost = client_member_lost();
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    return *seen;
}

#ifdef DYAD_SANITIZED
#define APART 0 /* never */
#else
#define APART 1
#endif

static void test_program_without_ucx(void **state)
{
    struct seen s = member_in(&(struct world){.libc = "2.36"});

    (void)state;
    assert_int_equal(s.rc, 0);
    assert_int_equal(s.runs, 1);
    assert_int_equal(s.namespaces, 0);
    assert_false(s.apart[0]);
    assert_int_equal(s.may_rejoin[0], APART);
}

static void test_apart(void **state)
{
    struct seen s = member_in(&(struct world){.libc = "2.34", .uses_ucx = true});

    (void)state;
    assert_int_equal(s.rc, 0);
    assert_int_equal(s.runs, 1);
    assert_int_equal(s.namespaces, APART);
    assert_int_equal(s.apart[0], APART);
    assert_int_equal(s.may_rejoin[0], APART);
}

/* It shares the program's, and is told that nobody could follow it. */
static void test_old_libc(void **state)
{
    struct seen s = member_in(&(struct world){.libc = "2.33", .uses_ucx = true});

    (void)state;
    assert_int_equal(s.rc, 0);
    assert_int_equal(s.runs, 1);
    assert_int_equal(s.namespaces, 0);
    assert_false(s.apart[0]);
    assert_false(s.may_rejoin[0]);
}

static void test_no_namespace(void **state)
{
    struct seen s =
        member_in(&(struct world){.libc = "2.36", .uses_ucx = true, .no_namespace = true});

    (void)state;
    assert_int_equal(s.rc, 0);
    assert_int_equal(s.runs, 1);
    assert_int_equal(s.namespaces, APART);
    assert_false(s.apart[0]);
    assert_false(s.hopeless || s.lost);
}

#ifndef DYAD_SANITIZED
/* Each with another copy; the last one is told that it is the last. */
static void test_comes_back(void **state)
{
    struct seen s = member_in(&(struct world){.libc = "2.36", .aborted_copies = 3});

    (void)state;
    assert_int_equal(s.rc, 0);
    assert_int_equal(s.runs, 4);
    assert_int_equal(s.namespaces, 3);
    for (unsigned i = 0; i < s.runs; i++) {
        assert_int_equal(s.apart[i], i > 0);
        assert_int_equal(s.may_rejoin[i], i < 3);
    }
    assert_false(s.hopeless || s.lost);
}

/* Never with the copy that is a wreck. */
static void test_cannot_come_back(void **state)
{
    struct seen s = member_in(&(struct world){.libc = "2.36",
                                              .uses_ucx = true,
                                              .no_namespace = true,
                                              .after = 1,
                                              .aborted_copies = 2});

    (void)state;
    assert_int_equal(s.rc, -1);
    assert_int_equal(s.runs, 1);
    assert_int_equal(s.namespaces, 2);
    assert_true(s.apart[0]);
    assert_true(s.hopeless && s.lost);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_program_without_ucx),
        cmocka_unit_test(test_apart),
        cmocka_unit_test(test_old_libc),
        cmocka_unit_test(test_no_namespace),
#ifndef DYAD_SANITIZED
        cmocka_unit_test(test_comes_back),
        cmocka_unit_test(test_cannot_come_back),
#endif
    };

    seen = mmap(NULL, sizeof(*seen), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
                0);
    if (seen == MAP_FAILED)
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
