/*
 * test_path.c - paths as text
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "util/path.h"

static const struct {
    const char *in, *out;
    bool dir;
} cases[] = {
    {"/", "/", true},
    {"///", "/", true},
    {"/a", "/a", false},
    {"//a///b", "/a/b", false},
    {"/a/", "/a", true},
    {"/a//", "/a", true},
    {"/a/.", "/a", true},
    {"/./a/./b", "/a/b", false},
    {"/a/..", "/", true},
    {"/a/../b", "/b", false},
    {"/a/b/../../c", "/c", false},
    {"/a/b/..", "/a", true},
    {"/..", "/", true},
    {"/../../a", "/a", false},
    {"/...", "/...", false},
    {"/a/..b", "/a/..b", false},
    {"/a/b..", "/a/b..", false},
    {"/a/.b/./..", "/a", true},
    {"/a/..//../b/", "/b", true},
};

static void test_normalise(void **state)
{
    char out[64];
    bool dir;

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        dir = !cases[i].dir;
        memset(out, '#', sizeof(out));
        assert_int_equal(util_path_normalise(cases[i].in, out, sizeof(out), &dir),
                         strlen(cases[i].out));
        assert_string_equal(out, cases[i].out);
        assert_int_equal(dir, cases[i].dir);
        /* And what is normal stays as it is. */
        assert_int_equal(util_path_normalise(cases[i].out, out, sizeof(out), &dir),
                         strlen(cases[i].out));
        assert_string_equal(out, cases[i].out);
    }
}

static void test_in_place(void **state)
{
    char text[64];
    bool dir;

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        snprintf(text, sizeof(text), "##%s", cases[i].in);
        assert_int_equal(util_path_normalise(text + 2, text + 2, sizeof(text) - 2, &dir),
                         strlen(cases[i].out));
        assert_string_equal(text + 2, cases[i].out);
        snprintf(text, sizeof(text), "##%s", cases[i].in);
        assert_int_equal(util_path_normalise(text + 2, text, sizeof(text), &dir),
                         strlen(cases[i].out));
        assert_string_equal(text, cases[i].out);
    }
}

/* Nothing is written behind the end, whatever the size. */
static void test_size(void **state)
{
    static const char in[] = "/abc/de/../fgh"; /* "/abc/fgh" */
    char out[32];
    bool dir;

    (void)state;
    for (size_t size = 1; size < sizeof(out); size++) {
        memset(out, '#', sizeof(out));
        assert_int_equal(util_path_normalise(in, out, size, &dir), size > 8 ? 8 : 0);
        for (size_t i = size; i < sizeof(out); i++)
            assert_int_equal(out[i], '#');
        if (size > 8)
            assert_string_equal(out, "/abc/fgh");
    }
}

static void test_control(void **state)
{
    (void)state;
    assert_true(util_path_is_control(".dyad"));
    assert_true(util_path_is_control(".dyad/"));
    assert_true(util_path_is_control(".dyad/tmp/x"));
    assert_false(util_path_is_control(""));
    assert_false(util_path_is_control(".dya"));
    assert_false(util_path_is_control(".dyad2"));
    assert_false(util_path_is_control("a/.dyad"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_normalise),
        cmocka_unit_test(test_in_place),
        cmocka_unit_test(test_size),
        cmocka_unit_test(test_control),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
