/* test_identity.c - the launcher's variables, right and wrong */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "boot/identity.h"

#define READ(...) read_with((char *[]){__VA_ARGS__, NULL})

static struct boot_identity id;
static const char *bad;

static int read_with(char *env[])
{
    return boot_identity_read(&id, env, &bad);
}

static void test_launched(void **state)
{
    struct utsname host;
    char prefix[128];

    (void)state;
    assert_int_equal(READ("PMIX_RANKS=9", "PMIX_NAMESPACE=job.1", "PMIX_RANK=42"), 0);
    assert_true(id.launched);
    assert_string_equal(id.nspace, "job.1");
    assert_int_equal(id.rank, 42);
    uname(&host);
    snprintf(prefix, sizeof(prefix), "%s/", host.nodename);
    assert_memory_equal(id.node, prefix, strlen(prefix));
    assert_true(strlen(id.node) > strlen(prefix)); /* the boot id */
    assert_null(strchr(id.node, '\n'));
}

static void test_not_launched(void **state)
{
    (void)state;
    assert_int_equal(READ("A=b"), 0);
    assert_false(id.launched);
    assert_int_equal(READ("PMIX_RANK=3"), 0); /* a rank of nothing */
    assert_false(id.launched);
    assert_int_equal(id.rank, 0);
    assert_int_equal(READ("PMIX_NAMESPACE=", "PMIX_RANK=3"), 0);
    assert_false(id.launched);
}

static void test_node(void **state)
{
    char longest[16 + 256];

    (void)state;
    assert_int_equal(READ("DYAD_NODE=left"), 0);
    assert_string_equal(id.node, "left");
    assert_int_equal(READ("DYAD_NODE="), 0); /* as if not set */
    assert_non_null(strchr(id.node, '/'));
    memset(longest, 'x', sizeof(longest));
    memcpy(longest, "DYAD_NODE=", 10);
    longest[10 + 255] = '\0';
    assert_int_equal(READ(longest), 0);
    assert_int_equal(strlen(id.node), 255);
    longest[10 + 255] = 'x';
    longest[10 + 256] = '\0';
    assert_int_equal(READ(longest), -1);
    assert_string_equal(bad, "DYAD_NODE");
}

static void test_guest_of(void **state)
{
    char text[BOOT_GUEST_OF_MAX];

    (void)state;
    assert_int_equal(READ("PMIX_NAMESPACE=job@1", "PMIX_RANK=12"), 0);
    boot_identity_put_guest_of(&id, text);
    assert_string_equal(text, "DYAD_GUEST_OF=12@job@1");
    assert_int_equal(READ(text), 0);
    assert_true(id.launched && id.guest_only);
    assert_string_equal(id.nspace, "job@1");
    assert_int_equal(id.rank, 12);
    /* The launcher's variables say more. */
    assert_int_equal(READ(text, "PMIX_NAMESPACE=other", "PMIX_RANK=3"), 0);
    assert_true(id.launched && !id.guest_only);
    assert_int_equal(id.rank, 3);
    assert_int_equal(READ("DYAD_GUEST_OF=12"), -1);
    assert_string_equal(bad, "DYAD_GUEST_OF");
    assert_int_equal(READ("DYAD_GUEST_OF=x@job"), -1);
    assert_int_equal(READ("DYAD_GUEST_OF=12@"), -1);
}

/* Without a launcher: named after this process, and the same after exec; its descendants
 * are of that name. */
static void test_solo(void **state)
{
    struct boot_identity first, again;
    char text[BOOT_GUEST_OF_MAX], start[64];
    struct utsname host;
    int status;

    (void)state;
    assert_int_equal(READ("DYAD_SESSION_DIR="), 0); /* as if not set */
    assert_false(id.launched);
    assert_int_equal(READ("DYAD_SESSION_DIR=/s"), 0);
    first = id;
    assert_true(first.launched && first.solo && !first.guest_only);
    assert_int_equal(first.rank, 0);
    uname(&host);
    snprintf(start, sizeof(start), "%d.", (int)getpid());
    assert_memory_equal(first.nspace, BOOT_SOLO, strlen(BOOT_SOLO));
    const char *p = first.nspace + strlen(BOOT_SOLO);
    assert_memory_equal(p, host.nodename, strlen(host.nodename));
    p += strlen(host.nodename) + 1;
    assert_memory_equal(p, start, strlen(start));
    p += strlen(start);
    assert_true(*p >= '1' && *p <= '9'); /* the start, from /proc */
    assert_int_equal(strspn(p, "0123456789"), strlen(p));

    pid_t pid = fork();
    if (pid == 0) {
        boot_identity_put_guest_of(&first, text);
        if (READ("DYAD_SESSION_DIR=/s") != 0 || boot_identity_same(&id, &first))
            _exit(1); /* without the variable it is the first of another */
        if (READ("DYAD_SESSION_DIR=/s", text) != 0 || !boot_identity_same(&id, &first))
            _exit(2);
        _exit(id.solo && !id.guest_only ? 0 : 3);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);

    boot_identity_put_guest_of(&first, text);
    assert_int_equal(READ("DYAD_SESSION_DIR=/s", text), 0);
    again = id;
    assert_true(boot_identity_same(&again, &first));
    /* It cannot join without the directory, so it is a guest of whoever did. */
    assert_int_equal(READ(text), 0);
    assert_true(id.launched && id.guest_only && !id.solo);
    assert_false(boot_identity_same(&id, &first));
    /* A launcher inside of it. */
    assert_int_equal(READ("DYAD_SESSION_DIR=/s", text, "PMIX_NAMESPACE=job", "PMIX_RANK=3"),
                     0);
    assert_true(id.launched && !id.solo);
    assert_string_equal(id.nspace, "job");
    assert_false(boot_identity_same(&id, &first));
    /* A guest of a launcher's rank does not begin a launch because there is a directory. */
    /* what a launcher has started is of nobody, but knows of whom the launcher was */
    assert_int_equal(READ("DYAD_SESSION_DIR=/s", "DYAD_GUEST_OF=-"), 0);
    assert_false(id.launched);
    assert_int_equal(READ("DYAD_SESSION_DIR=/s", "DYAD_GUEST_OF=-0@solo.h.1.2"), 0);
    assert_false(id.launched);
    for (int marked = 0; marked < 2; marked++) {
        assert_int_equal(
            READ("PMIX_NAMESPACE=job", "PMIX_RANK=1",
                 marked ? "DYAD_GUEST_OF=-7@solo.h.1.2" : "DYAD_GUEST_OF=7@solo.h.1.2"),
            0);
        assert_true(id.launched);
        assert_string_equal(id.nspace, "job");
        assert_string_equal(id.outer, "solo.h.1.2");
        assert_int_equal(id.outer_rank, 7);
    }
    assert_int_equal(
        READ("PMIX_NAMESPACE=job", "PMIX_RANK=1", "OMPI_MCA_dyad_outer=3@solo.h.1.2"), 0);
    assert_string_equal(id.outer, "solo.h.1.2");
    assert_int_equal(id.outer_rank, 3);
    assert_int_equal(READ("PMIX_NAMESPACE=job", "PMIX_RANK=1", "DYAD_GUEST_OF=1@job"), 0);
    assert_string_equal(id.outer, "");
    assert_int_equal(READ("PMIX_NAMESPACE=job", "PMIX_RANK=1", "DYAD_GUEST_OF=-"), 0);
    assert_string_equal(id.outer, "");
    assert_int_equal(READ("DYAD_SESSION_DIR=/s", "DYAD_GUEST_OF=2@job"), 0);
    assert_true(id.launched && id.guest_only && !id.solo);
    /* Another node: another member. */
    assert_int_equal(READ("DYAD_SESSION_DIR=/s", text, "DYAD_NODE=far"), 0);
    assert_false(boot_identity_same(&id, &first));
}

static void test_malformed(void **state)
{
    static char *const rank[] = {
        "PMIX_RANK=",   "PMIX_RANK=x",          "PMIX_RANK=-1",
        "PMIX_RANK=1 ", "PMIX_RANK=4294967295", "PMIX_RANK=99999999999999999999",
        "NO_RANK=1"};
    char nspace[16 + 300];

    (void)state;
    for (size_t i = 0; i < sizeof(rank) / sizeof(rank[0]); i++) {
        assert_int_equal(READ("PMIX_NAMESPACE=a", rank[i]), -1);
        assert_string_equal(bad, "PMIX_RANK");
    }
    memset(nspace, 'n', sizeof(nspace));
    memcpy(nspace, "PMIX_NAMESPACE=", 15);
    nspace[sizeof(nspace) - 1] = '\0';
    assert_int_equal(READ(nspace, "PMIX_RANK=1"), -1);
    assert_string_equal(bad, "PMIX_NAMESPACE");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_launched), cmocka_unit_test(test_not_launched),
        cmocka_unit_test(test_node),     cmocka_unit_test(test_guest_of),
        cmocka_unit_test(test_solo),     cmocka_unit_test(test_malformed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
