/* test_identity.c - the launcher's variables, right and wrong */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

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
    char *const launched[] = {"PMIX_NAMESPACE=job@1", "PMIX_RANK=12", NULL};
    char *const not_launched[] = {"PMIX_RANK=12", NULL};

    (void)state;
    assert_false(boot_identity_guest_of(not_launched, text));
    assert_true(boot_identity_guest_of(launched, text));
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
        cmocka_unit_test(test_launched),  cmocka_unit_test(test_not_launched),
        cmocka_unit_test(test_node),      cmocka_unit_test(test_guest_of),
        cmocka_unit_test(test_malformed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
