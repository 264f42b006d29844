/*
 * test_session_map.c - the map, and uthash, while memory runs out at each of its steps
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "boot/session_map.h"

#define RANKS 4

static int allocations_left = -1; /* -1: no bound */

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);

static bool is_out_of_memory(void)
{
    if (allocations_left > 0)
        allocations_left--;
    else if (allocations_left == 0)
        return true;
    return false;
}

void *__wrap_malloc(size_t size)
{
    return is_out_of_memory() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size)
{
    return is_out_of_memory() ? NULL : __real_calloc(n, size);
}

/* The n-th allocation fails: the slot is a node of its own; later it is placed as ever. */
static void out_of_memory(void **state)
{
    int n, fails = 0;

    (void)state;
    for (n = 0; n <= fails; n++) {
        struct boot_pmix_job job = {0};
        struct session_map map = {0};

        assert_int_equal(session_map_create(&map, &job, RANKS), 0);
        allocations_left = n;
        session_map_set(&map, 1, 7);
        fails += job.node[1] == 1;
        allocations_left = -1;
        assert_int_equal(map.nnumbers, job.node[1] == 1 ? RANKS : RANKS - 1);
        session_map_set(&map, 1, 7);
        session_map_set(&map, 3, 7);
        assert_int_equal(job.node[1], RANKS);
        assert_int_equal(job.node[3], job.node[1]);
        session_map_free(&map);
        free(job.node);
    }
    assert_int_equal(fails, 3); /* the element, uthash's table, its buckets */
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(out_of_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
