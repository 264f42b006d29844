/*
 * test_links.c - which jobs listen on loopback only
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "fake_links.h"

static void test_one_node(void **state)
{
    (void)state;
    links_begin_one_node(NULL, NULL, true);
    assert_true(links_local && links_member->local);
    assert_null(links_devices);
    links_end();
}

/* A rank may be in another network namespace than its launcher's server, and others. */
static void test_server_elsewhere(void **state)
{
    (void)state;
    links_begin_one_node(NULL, NULL, false);
    assert_false(links_local || links_member->local);
    links_end();
}

/* Others come from wherever they are. */
static void test_session_dir(void **state)
{
    (void)state;
    links_begin_one_node("/shared/session", NULL, true);
    assert_false(links_local || links_member->local);
    links_end();
}

static void test_chosen(void **state)
{
    (void)state;
    links_begin_one_node(NULL, "eth0", true);
    assert_string_equal(links_devices, "eth0");
    links_end();
}

static void test_nodes(void **state)
{
    (void)state;
    links_begin(2);
    assert_false(links_local || links_member->local);
    assert_null(links_devices);
    links_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_node),    cmocka_unit_test(test_server_elsewhere),
        cmocka_unit_test(test_session_dir), cmocka_unit_test(test_chosen),
        cmocka_unit_test(test_nodes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
