/* store/extent_list.h: against an array of bytes, each with the times of its newest writes. */
#include "scratch.h"

#include "store/extent_list.h"

enum { SIZE = 200 };

struct byte {
    bool is;
    uint64_t first, last;
};

static struct store_extent_list draw(unsigned *seed, unsigned n, struct byte *bytes)
{
    struct store_extent_list list = {0};

    memset(bytes, 0, SIZE * sizeof(*bytes));
    for (unsigned i = 0; i < n; i++) {
        uint64_t offset = (unsigned)rand_r(seed) % SIZE;
        uint64_t length = (unsigned)rand_r(seed) % (i % 3 ? 8 : SIZE - (unsigned)offset);
        uint64_t first = (unsigned)rand_r(seed) % 20,
                 last = first + (unsigned)rand_r(seed) % 3;
        if (offset + length > SIZE)
            length = SIZE - offset;
        assert_int_equal(store_extent_list_add(
                             &list, &(struct store_extent){offset, length, first, last}),
                         0);
        for (uint64_t k = offset; k < offset + length; k++) {
            bytes[k].is = true;
            bytes[k].first = first > bytes[k].first ? first : bytes[k].first;
            bytes[k].last = last > bytes[k].last ? last : bytes[k].last;
        }
    }
    assert_int_equal(store_extent_list_sort(&list), 0);
    return list;
}

static void is(const struct store_extent_list *list, const struct byte *bytes)
{
    uint64_t at = 0;

    for (size_t i = 0; i < list->n; i++) {
        const struct store_extent *extent = &list->extent[i];
        assert_true(extent->length > 0 && extent->offset >= at);
        for (; at < extent->offset; at++)
            assert_false(bytes[at].is);
        for (; at < extent->offset + extent->length; at++)
            assert_true(bytes[at].is && bytes[at].first == extent->first &&
                        bytes[at].last == extent->last);
    }
    for (; at < SIZE; at++)
        assert_false(bytes[at].is);
    for (size_t i = 0; i < list->ncuts; i++)
        assert_int_equal(list->extent[list->n + i].length, 0);
}

static void test_sort(void **state)
{
    struct byte bytes[SIZE];
    unsigned seed = 1;

    (void)state;
    for (unsigned round = 0; round < 3000; round++) {
        struct store_extent_list list = draw(&seed, round % 100, bytes);
        is(&list, bytes);
        store_extent_list_free(&list);
        assert_null(list.extent);
    }
}

/* The bytes that two lists have both, each once. */
static void test_meets(void **state)
{
    struct byte a[SIZE], b[SIZE];
    unsigned seed = 2;

    (void)state;
    for (unsigned round = 0; round < 3000; round++) {
        struct store_extent_list x = draw(&seed, round % 40, a),
                                 y = draw(&seed, round % 23, b);
        struct store_extent both;
        unsigned have = 0, want = 0;
        size_t n = 0;
        for (size_t i = 0; i < y.n; i++) {
            for (; store_extent_list_meets(&x, &y.extent[i], &n, &both); n++) {
                for (uint64_t k = both.offset; k < both.offset + both.length; k++, have++)
                    assert_true(a[k].is && b[k].is && a[k].first == both.first &&
                                a[k].last == both.last);
                if (both.offset + both.length == y.extent[i].offset + y.extent[i].length)
                    break;
            }
        }
        for (unsigned k = 0; k < SIZE; k++)
            want += a[k].is && b[k].is;
        assert_int_equal(have, want);
        store_extent_list_free(&x);
        store_extent_list_free(&y);
    }
}

static void test_changed(void **state)
{
    struct byte a[SIZE], b[SIZE], c[SIZE];
    unsigned seed = 3, nchanged = 0;

    (void)state;
    for (unsigned round = 0; round < 3000; round++) {
        struct store_extent_list before = draw(&seed, round % 30, a), now = {0},
                                 where = draw(&seed, 1 + round % 3, c);
        struct store_extent at;
        bool changed = false;
        for (size_t i = 0; i < before.n + before.ncuts; i++)
            assert_int_equal(store_extent_list_add(&now, &before.extent[i]), 0);
        memcpy(b, a, sizeof(b));
        for (unsigned i = 0; i < round % 3; i++) { /* it is written a little more */
            struct store_extent extent = {(unsigned)rand_r(&seed) % SIZE, 1, 30, 31};
            assert_int_equal(store_extent_list_add(&now, &extent), 0);
            b[extent.offset] = (struct byte){true, 30, 31};
        }
        assert_int_equal(store_extent_list_sort(&now), 0);
        for (unsigned k = 0; k < SIZE; k++)
            changed |= c[k].is && (b[k].is != a[k].is || b[k].first != a[k].first);
        assert_int_equal(store_extent_list_changed(&before, &now, &where, false, &at),
                         changed);
        nchanged += changed;
        if (changed)
            assert_true(c[at.offset].is);
        now.n += now.ncuts; /* to be sorted once more */
        now.ncuts = 0;
        assert_int_equal(store_extent_list_add(&now, &(struct store_extent){7, 0, 32, 32}),
                         0);
        assert_int_equal(store_extent_list_sort(&now), 0);
        assert_true(
            store_extent_list_changed(&before, &now, &where, false, NULL)); /* cut */
        store_extent_list_free(&before);
        store_extent_list_free(&now);
        store_extent_list_free(&where);
    }
    assert_true(nchanged > 200 && nchanged < 2800);
}

/* A write that has gone on has written what it was about to write: that is a change, unless it was
 * newer than what is to be put there. */
static void test_gone_on(void **state)
{
    struct store_extent was = {10, 5, 100, 100}, is = {10, 5, 100, 120};
    struct store_extent older = {8, 4, 90, 99}, same = {8, 4, 90, 101};
    struct store_extent_list before = {.extent = &was, .n = 1},
                             now = {.extent = &is, .n = 1},
                             where = {.extent = &older, .n = 1};

    (void)state;
    assert_true(store_extent_list_changed(&before, &now, &where, false, NULL));
    assert_false(store_extent_list_changed(&before, &now, &where, true, NULL));
    where.extent = &same;
    assert_true(store_extent_list_changed(&before, &now, &where, true, NULL));
    where.extent = &older;
    is.first = 110; /* another write */
    assert_true(store_extent_list_changed(&before, &now, &where, true, NULL));

    /* The same of a cut, and of what lies behind it. */
    was = is = (struct store_extent){10, 0, 100, 100};
    is.last = 120;
    before.n = now.n = 0;
    before.ncuts = now.ncuts = 1;
    assert_true(store_extent_list_changed(&before, &now, &where, false, NULL));
    assert_false(store_extent_list_changed(&before, &now, &where, true, NULL));
    where.extent = &same;
    assert_true(store_extent_list_changed(&before, &now, &where, true, NULL));
    same.length = 2; /* not behind it */
    assert_false(store_extent_list_changed(&before, &now, &where, true, NULL));
    is.offset = 9;
    assert_true(store_extent_list_changed(&before, &now, &where, true, NULL));
}

/* Of another list, or of the list itself. */
static void test_cut_off(void **state)
{
    unsigned seed = 5, gone = 0;

    (void)state;
    for (unsigned round = 0; round < 2000; round++) {
        struct byte bytes[SIZE], unused[SIZE];
        struct store_extent_list other = draw(&seed, round % 17, unused);
        struct store_extent_list list = draw(&seed, round % 12, bytes);
        const struct store_extent_list *by = round % 2 ? &other : &list;
        size_t ncuts = list.ncuts;
        for (size_t c = 0; c < by->ncuts; c++) {
            const struct store_extent *cut = &by->extent[by->n + c];
            for (uint64_t k = cut->offset; k < SIZE; k++) {
                gone += bytes[k].is && bytes[k].last < cut->first;
                bytes[k].is &= bytes[k].last >= cut->first;
            }
        }
        store_extent_list_cut_off(&list, by);
        assert_int_equal(list.ncuts, ncuts);
        is(&list, bytes);
        store_extent_list_free(&list);
        store_extent_list_free(&other);
    }
    assert_true(gone > 0);
}

static void test_newer(void **state)
{
    struct store_extent early = {0, 1, 5, 7}, late = {0, 1, 8, 9}, between = {0, 1, 7, 8};

    (void)state;
    assert_true(store_extent_is_newer(&late, &early));
    assert_false(store_extent_is_newer(&early, &late));
    assert_false(store_extent_is_newer(&between, &early) ||
                 store_extent_is_newer(&early, &between));
    assert_false(store_extent_is_newer(&late, &between));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sort),    cmocka_unit_test(test_meets),
        cmocka_unit_test(test_changed), cmocka_unit_test(test_gone_on),
        cmocka_unit_test(test_cut_off), cmocka_unit_test(test_newer),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
