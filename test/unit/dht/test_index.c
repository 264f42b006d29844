/*
 * test/unit/dht/test_index.c - which records lie directly below which directory
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "dht/index.h"

static struct dht_record *make_record(const char *upath)
{
    struct dht_record *record = calloc(1, sizeof(*record) + strlen(upath) + 1);

    assert_non_null(record);
    strcpy(record->upath, upath);
    record->entry.upath = record->upath;
    record->entry.size = strlen(upath);
    return record;
}

struct taken {
    char names[512]; /* "x y z " */
    unsigned n, page;
};

static int take(const char *name, const struct dyad_entry *entry, void *arg)
{
    struct taken *taken = arg;
    size_t len = strlen(taken->names);

    assert_true(strlen(entry->upath) == entry->size);
    assert_string_equal(entry->upath + entry->size - strlen(name), name);
    if (taken->page > 0 && taken->n == taken->page)
        return 1;
    taken->n++;
    snprintf(taken->names + len, sizeof(taken->names) - len, "%s ", name);
    return 0;
}

static void expect(struct dht_index *index, const char *parent, const char *names)
{
    struct dht_list_at at = {0};
    struct taken taken = {0};

    assert_false(dht_index_list(index, parent, &at, take, &taken));
    assert_string_equal(taken.names, names);
}

/* Below is directly below; "" is the top; a name that is the start of another is not it. */
static void test_directories(void **state)
{
    static const char *const names[] = {"a/x", "a/b/y", "ab/z", "top", "a/b/c/d", "a/b"};
    struct dht_index *index = dht_index_create();
    struct dht_record *record[6];

    (void)state;
    assert_non_null(index);
    assert_int_equal(dht_index_bytes(index), 0);
    expect(index, "", "");
    expect(index, "a", "");
    for (unsigned i = 0; i < 6; i++) {
        record[i] = make_record(names[i]);
        assert_int_equal(dht_index_add(index, record[i]), 0);
    }
    expect(index, "", "top ");
    expect(index, "a", "x b ");
    expect(index, "a/b", "y ");
    expect(index, "ab", "z ");
    expect(index, "a/b/c", "d ");
    expect(index, "a/b/c/d", "");
    expect(index, "b", "");
    expect(index, "x", "");
    for (unsigned i = 0; i < 6; i++) {
        dht_index_remove(index, record[i]);
        free(record[i]);
    }
    dht_index_destroy(index);
}

/* Twice is once, both ways; what is taken out and put in again comes last. Directories go
 * with their last record. */
static void test_add_and_remove(void **state)
{
    struct dht_index *index = dht_index_create();
    struct dht_record *one = make_record("d/1"), *two = make_record("d/2");

    (void)state;
    dht_index_remove(index, one); /* never added */
    assert_int_equal(dht_index_add(index, one), 0);
    uint64_t bytes = dht_index_bytes(index);
    assert_true(bytes > 0);
    assert_int_equal(dht_index_add(index, one), 0);
    assert_int_equal(dht_index_add(index, two), 0);
    assert_int_equal(dht_index_bytes(index), bytes); /* one directory */
    expect(index, "d", "1 2 ");
    dht_index_remove(index, one);
    dht_index_remove(index, one);
    expect(index, "d", "2 ");
    assert_int_equal(dht_index_add(index, one), 0);
    expect(index, "d", "2 1 ");
    dht_index_remove(index, one);
    dht_index_remove(index, two);
    assert_int_equal(dht_index_bytes(index), 0);
    expect(index, "d", "");
    dht_index_destroy(index);
    free(one);
    free(two);
}

/* Page by page, while records come and go: what is there all the time comes once, what
 * comes later not at all, and a listing ends. */
static void test_pages(void **state)
{
    struct dht_index *index = dht_index_create();
    struct dht_record *record[20], *late[20];
    struct dht_list_at at = {0};
    struct taken taken = {.page = 6};
    char name[16];

    (void)state;
    for (unsigned i = 0; i < 20; i++) {
        snprintf(name, sizeof(name), "d/%u", i);
        record[i] = make_record(name);
        assert_int_equal(dht_index_add(index, record[i]), 0);
    }
    assert_true(dht_index_list(index, "d", &at, take, &taken));
    assert_string_equal(taken.names, "0 1 2 3 4 5 ");
    dht_index_remove(index, record[5]); /* the last that was given */
    dht_index_remove(index, record[6]); /* the next */
    for (unsigned i = 0; i < 20; i++) {
        snprintf(name, sizeof(name), "d/late%u", i);
        late[i] = make_record(name);
        assert_int_equal(dht_index_add(index, late[i]), 0);
    }
    taken = (struct taken){.page = 6};
    assert_true(dht_index_list(index, "d", &at, take, &taken));
    assert_string_equal(taken.names, "7 8 9 10 11 12 ");
    assert_int_equal(dht_index_add(index, record[6]), 0); /* comes later, too */
    taken = (struct taken){.page = 7};
    assert_false(dht_index_list(index, "d", &at, take, &taken));
    assert_string_equal(taken.names, "13 14 15 16 17 18 19 ");

    /* All of it goes between two pages. */
    at = (struct dht_list_at){0};
    taken = (struct taken){.page = 1};
    assert_true(dht_index_list(index, "d", &at, take, &taken));
    for (unsigned i = 0; i < 20; i++) {
        dht_index_remove(index, record[i]);
        dht_index_remove(index, late[i]);
    }
    taken = (struct taken){.page = 1};
    assert_false(dht_index_list(index, "d", &at, take, &taken));
    assert_int_equal(taken.n, 0);
    for (unsigned i = 0; i < 20; i++) {
        free(record[i]);
        free(late[i]);
    }
    dht_index_destroy(index);
}

/* The records outlive it, and are in no listing then. */
static void test_destroy(void **state)
{
    struct dht_index *index = dht_index_create();
    struct dht_record *one = make_record("d/1"), *two = make_record("top");

    (void)state;
    assert_int_equal(dht_index_add(index, one), 0);
    assert_int_equal(dht_index_add(index, two), 0);
    dht_index_destroy(index);
    assert_null(one->dir);
    assert_null(two->dir);
    index = dht_index_create();
    assert_int_equal(dht_index_add(index, one), 0);
    expect(index, "d", "1 ");
    dht_index_destroy(index);
    free(one);
    free(two);
    dht_index_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_directories),
        cmocka_unit_test(test_add_and_remove),
        cmocka_unit_test(test_pages),
        cmocka_unit_test(test_destroy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
