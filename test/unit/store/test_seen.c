/* store/seen.h */
#include "scratch.h"

#include <pthread.h>
#include <stdatomic.h>

#include "store/seen.h"

static void test_set(void **state)
{
    struct store_seen seen = {0};

    (void)state;
    assert_int_equal(store_seen_until(&seen, 1, 2, 3), 0);
    assert_int_equal(store_seen_until(&seen, 0, 0, 0), 0);
    store_seen_set(&seen, 1, 2, 3, 100);
    assert_int_equal(store_seen_until(&seen, 1, 2, 3), 100);
    assert_int_equal(store_seen_until(&seen, 1, 2, 4), 0);
    assert_int_equal(store_seen_until(&seen, 1, 3, 3), 0);
    assert_int_equal(store_seen_until(&seen, 2, 2, 3), 0);
    store_seen_set(&seen, 1, 2, 3, 99);
    assert_int_equal(store_seen_until(&seen, 1, 2, 3), 100);
    store_seen_set(&seen, 1, 2, 3, 101);
    assert_int_equal(store_seen_until(&seen, 1, 2, 3), 101);
}

/* There are more than places: each has what was noted of it, or nothing. */
static void test_many(void **state)
{
    struct store_seen seen = {0};
    unsigned known = 0;

    (void)state;
    for (uint64_t i = 1; i <= 8000; i++)
        store_seen_set(&seen, i, 5, i % 3, 1000 + i);
    for (uint64_t i = 1; i <= 8000; i++) {
        uint64_t until = store_seen_until(&seen, i, 5, i % 3);
        assert_true(until == 0 || until == 1000 + i);
        known += until != 0;
    }
    assert_in_range(known, STORE_SEEN_PLACES / 2, STORE_SEEN_PLACES);
}

/* A place whose writer was killed over it is of no use any more, and does no harm. */
static void test_killed(void **state)
{
    struct store_seen seen = {0};

    (void)state;
    store_seen_set(&seen, 1, 2, 3, 100);
    for (unsigned i = 0; i < STORE_SEEN_PLACES; i++)
        seen.places[i].lap |= 1;
    assert_int_equal(store_seen_until(&seen, 1, 2, 3), 0);
    store_seen_set(&seen, 1, 2, 3, 200);
    assert_int_equal(store_seen_until(&seen, 1, 2, 3), 0);
}

static struct store_seen crowded;
static atomic_bool over;

static void *sets(void *arg)
{
    uint64_t ino = (uint64_t)(uintptr_t)arg;

    for (uint64_t i = 1; i <= 200000; i++)
        store_seen_set(&crowded, ino, 1, 1, ino << 32 | i);
    return NULL;
}

static void *looks(void *arg)
{
    (void)arg;
    while (!atomic_load(&over)) {
        for (uint64_t ino = 1; ino <= 4; ino++) {
            uint64_t until = store_seen_until(&crowded, ino, 1, 1);
            if (until && until >> 32 != ino)
                return &crowded;
        }
    }
    return NULL;
}

/* What is read is of the file that was asked for. */
static void test_crowd(void **state)
{
    pthread_t writer[4], reader;
    void *wrong;

    (void)state;
    assert_int_equal(pthread_create(&reader, NULL, looks, NULL), 0);
    for (uintptr_t i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&writer[i], NULL, sets, (void *)(i + 1)), 0);
    for (unsigned i = 0; i < 4; i++)
        pthread_join(writer[i], NULL);
    atomic_store(&over, true);
    pthread_join(reader, &wrong);
    assert_null(wrong);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_set),
        cmocka_unit_test(test_many),
        cmocka_unit_test(test_killed),
        cmocka_unit_test(test_crowd),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
