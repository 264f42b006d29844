/*
 * test_client_names.c - copies of names, of any length, by many threads
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/client_names.h"
#include "util/entry.h"

#define NTHREADS 4
#define HELD     600
#define ROUNDS   20000

static void lengths(void **state)
{
    char text[DYAD_UPATH_MAX + 2], *copy;

    (void)state;
    for (size_t n = 1; n <= DYAD_UPATH_MAX; n++) {
        memset(text, 'a' + (int)(n % 26), n);
        text[n] = '\0';
        copy = client_name_copy(text);
        assert_non_null(copy);
        assert_string_equal(copy, text);
        client_name_free(copy);
    }
    client_name_free(NULL);
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    /* Rounding may leave room for a little more than the longest name. */
    copy = client_name_copy(text);
    assert_true(copy ? strcmp(copy, text) == 0 : errno == ENAMETOOLONG);
    client_name_free(copy);
}

/* Nobody's copy is ever another's. */
static void *work(void *arg)
{
    static const char filler[] = "0123456789012345678901234567890123456789";
    char *held[HELD] = {0}, text[400];
    unsigned seed = (unsigned)(uintptr_t)arg;
    long wrong = 0;

    for (int i = 0; i < ROUNDS; i++) {
        size_t k = (size_t)rand_r(&seed) % HELD;
        snprintf(text, sizeof(text), "%d-%zu-%s%s%s%s%s%s%s%s", (int)(uintptr_t)arg, k,
                 k % 3 ? "" : filler, k % 3 ? "" : filler, k % 3 ? "" : filler,
                 k % 3 ? "" : filler, k % 3 ? "" : filler, k % 3 ? "" : filler,
                 k % 3 ? "" : filler, k % 3 ? "" : filler);
        if (held[k]) {
            wrong += strcmp(held[k], text) != 0;
            client_name_free(held[k]);
            held[k] = NULL;
        } else {
            held[k] = client_name_copy(text);
            wrong += held[k] == NULL;
        }
    }
    for (int k = 0; k < HELD; k++)
        client_name_free(held[k]);
    return (void *)(uintptr_t)wrong;
}

static void threads(void **state)
{
    pthread_t thread[NTHREADS];
    void *wrong;

    (void)state;
    for (uintptr_t i = 0; i < NTHREADS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, work, (void *)(i + 1)), 0);
    for (int i = 0; i < NTHREADS; i++) {
        assert_int_equal(pthread_join(thread[i], &wrong), 0);
        assert_null(wrong);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(lengths),
                                       cmocka_unit_test(threads)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
