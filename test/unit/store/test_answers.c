/*
 * store/cache_table.h: shared by threads and processes, killed at any moment
 */
#include "scratch.h"

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>

#include "store/cache_table.h"
#include "store/answers_table.h"
#include "util/clock.h"

#define LIFE (600 * UTIL_NSEC_PER_SEC)

static struct store_answers *open_as(struct scratch *s, const char *session)
{
    return store_answers_create(s->dir, session, strlen(session));
}

/* An answer all of whose fields follow from one number. */
static struct dyad_answer make(uint64_t number, uint32_t rank)
{
    struct dyad_answer a = {
        .status = number % 5 ? 0 : ENOENT,
        .entry = {.version = {number, (uint32_t)number + 1, 7},
                  .owner = (uint32_t)number + 2,
                  .state = number % 5 ? DYAD_ENTRY_PUBLISHED : DYAD_ENTRY_WITHDRAWN,
                  .size = number * 3,
                  .mode = (uint32_t)number + 4,
                  .mtime_sec = (int64_t)number * 5,
                  .mtime_nsec = (uint32_t)number + 6},
        .keeper = rank,
        .since = util_clock_now(),
        .nhomes = 2,
        .homes = {(uint32_t)number + 8, (uint32_t)number + 9}};

    memset(a.entry.storage, (int)(number & 0xff), sizeof(a.entry.storage));
    a.until = a.since + LIFE;
    return a;
}

static bool is_whole(const struct dyad_answer *got)
{
    struct dyad_answer want = make(got->entry.version.counter, got->keeper);
    const struct dyad_entry *a = &want.entry, *b = &got->entry;

    return b->upath == NULL && dyad_version_cmp(&a->version, &b->version) == 0 &&
           a->owner == b->owner && a->state == b->state &&
           dyad_storage_equal(a->storage, b->storage) && a->size == b->size &&
           a->mode == b->mode && a->mtime_sec == b->mtime_sec &&
           a->mtime_nsec == b->mtime_nsec && want.status == got->status &&
           got->until == got->since + LIFE && want.nhomes == got->nhomes &&
           memcmp(want.homes, got->homes, sizeof(want.homes)) == 0;
}

static uint64_t put(struct store_answers *answers, const char *upath, uint64_t number)
{
    struct dyad_answer answer = make(number, 3);
    return store_answers_put(answers, upath, &answer);
}

/* The number of the answer, or -1. */
static int64_t get(struct store_answers *answers, const char *upath)
{
    struct dyad_answer answer;

    memset(&answer, 0xff, sizeof(answer));
    if (!store_answers_get(answers, upath, util_clock_now(), &answer))
        return -1;
    assert_true(is_whole(&answer));
    return (int64_t)answer.entry.version.counter;
}

static void test_put_get_drop(void **state)
{
    struct store_answers *a = open_as(*state, "s"), *b = open_as(*state, "s");
    char name[STORE_ANSWERS_UPATH_MAX + 2];
    uint64_t token, other;

    assert_non_null(a);
    assert_non_null(b);
    assert_int_equal(get(b, "x"), -1);
    assert_true((token = put(a, "x", 11)) != 0);
    assert_int_equal(get(b, "x"), 11);
    assert_int_equal(get(a, "x"), 11);
    assert_int_equal(get(b, "y"), -1);
    store_answers_drop(a, token);
    assert_int_equal(get(b, "x"), -1);
    assert_int_equal(get(a, "x"), -1);

    /* Another one in its place: what is dropped then is not that. */
    token = put(a, "x", 12);
    assert_true((other = put(b, "x", 13)) != 0);
    assert_int_equal(get(a, "x"), 13);
    store_answers_drop(a, token);
    assert_int_equal(get(a, "x"), 13);
    store_answers_drop(b, other);
    assert_int_equal(get(a, "x"), -1);
    store_answers_drop(b, other); /* again: nothing */

    /* The longest names. */
    for (size_t len = sizeof(name) - 3; len < sizeof(name); len++) {
        memset(name, 'n', len);
        name[len] = '\0';
        assert_int_equal(put(a, name, 20) != 0, len <= STORE_ANSWERS_UPATH_MAX);
        assert_int_equal(get(b, name), len <= STORE_ANSWERS_UPATH_MAX ? 20 : -1);
    }
    store_answers_destroy(a);
    store_answers_destroy(b);
}

static void test_time(void **state)
{
    struct store_answers *a = open_as(*state, "s"), *b = open_as(*state, "s");
    struct dyad_answer answer = make(1, 1);

    assert_true(store_answers_put(a, "x", &answer) != 0);
    assert_true(store_answers_get(b, "x", answer.until - 1, &answer));
    assert_false(store_answers_get(b, "x", answer.until, &answer));
    assert_false(
        store_answers_get(b, "x", answer.since - 1, &answer)); /* of no clock of ours */
    store_answers_destroy(a);
    store_answers_destroy(b);
}

/* What was asked for before a home has said otherwise does not count; what was later does.
 */
static void test_told(void **state)
{
    struct store_answers *a = open_as(*state, "s"), *b = open_as(*state, "s");
    uint64_t now;

    assert_int_equal(store_answers_heard_at(a, "x", true), 0);
    put(a, "x", 5); /* not published */
    now = util_clock_now();
    store_answers_heard(b, "x", now, false);
    assert_int_equal(get(b, "x"), 5);
    store_answers_heard(b, "x", now, true);
    assert_int_equal(store_answers_heard_at(a, "x", true), now);
    store_answers_heard(a, "x", now - 1, true);
    assert_int_equal(store_answers_heard_at(a, "x", true), now);
    assert_int_equal(get(a, "x"), -1);
    assert_int_equal(get(b, "x"), -1);
    put(a, "x", 10);
    assert_int_equal(get(b, "x"), 10);

    put(a, "y", 6); /* published */
    store_answers_heard(b, "y", util_clock_now(), true);
    assert_int_equal(get(b, "y"), 6);
    store_answers_heard(b, "y", util_clock_now(), false);
    assert_int_equal(get(b, "y"), -1);
    assert_int_equal(get(b, "x"), 10);
    store_answers_destroy(a);
    store_answers_destroy(b);
}

/* Two jobs, or two launches, on one node with one managed directory. */
static void test_sessions(void **state)
{
    struct store_answers *a = open_as(*state, "job/1"), *b = open_as(*state, "job/2");

    put(a, "x", 1);
    assert_int_equal(get(b, "x"), -1);
    put(b, "x", 2);
    assert_int_equal(get(a, "x"), 1);
    assert_int_equal(get(b, "x"), 2);
    store_answers_destroy(b);
    assert_int_equal(get(a, "x"), 1);
    store_answers_destroy(a);
}

/* The end of a member is the end of its answers, also when another one takes its entry. */
static void test_orderly_end(void **state)
{
    struct store_answers *a = open_as(*state, "s"), *b = open_as(*state, "s");
    unsigned entry = a->keeper;

    put(a, "x", 1);
    store_answers_destroy(a);
    assert_int_equal(get(b, "x"), -1);
    a = open_as(*state, "s");
    assert_int_equal(a->keeper, entry);
    assert_int_equal(get(b, "x"), -1);
    assert_int_equal(get(a, "x"), -1);
    store_answers_destroy(a);
    store_answers_destroy(b);
}

static void test_many_members(void **state)
{
    static struct store_answers *all[ANSWERS_KEEPERS + 1];

#ifdef __SANITIZE_THREAD__
    skip(); /* it knows no thread that holds more than 64 mutexes */
#endif
    for (unsigned i = 0; i <= ANSWERS_KEEPERS; i++)
        assert_non_null(all[i] = open_as(*state, "s"));
    put(all[1], "x", 1);
    assert_int_equal(all[ANSWERS_KEEPERS]->keeper, ANSWERS_KEEPERS);
    assert_int_equal(get(all[ANSWERS_KEEPERS], "x"), 1); /* it may use what others put */
    assert_int_equal(put(all[ANSWERS_KEEPERS], "y", 1), 0);
    store_answers_destroy(all[ANSWERS_KEEPERS]);
    store_answers_destroy(all[5]);
    all[5] = open_as(*state, "s");
    assert_true(put(all[5], "y", 2) != 0);
    for (unsigned i = 0; i < ANSWERS_KEEPERS; i++)
        store_answers_destroy(all[i]);
}

/* More names than places: the newest are there, and each drop takes its own. */
static void test_full(void **state)
{
    struct store_answers *a = open_as(*state, "s"), *b = open_as(*state, "s");
    static uint64_t token[3 * ANSWERS_SLOTS];
    unsigned there = 0;
    char name[32];

    for (unsigned i = 0; i < 3 * ANSWERS_SLOTS; i++) {
        snprintf(name, sizeof(name), "n%u", i);
        assert_true((token[i] = put(a, name, i)) != 0);
        assert_int_equal(get(b, name), i);
    }
    for (unsigned i = 0; i < 3 * ANSWERS_SLOTS; i++) {
        snprintf(name, sizeof(name), "n%u", i);
        int64_t got = get(b, name);
        assert_true(got == -1 || got == i);
        there += got >= 0;
        store_answers_drop(a, token[i]);
        assert_int_equal(get(b, name), -1);
    }
    assert_in_range(there, ANSWERS_SLOTS * 9 / 10, ANSWERS_SLOTS);
    store_answers_destroy(a);
    store_answers_destroy(b);
}

/* A slot in the midst of a put: left alone while its writer lives, taken over after. */
static void test_half_written(void **state)
{
    struct store_answers *a = open_as(*state, "s"), *b = open_as(*state, "s");
    uint64_t token = put(a, "x", 1);
    _Atomic uint64_t *word = &b->table->slots[ANSWER_SLOT(token)].word;

    atomic_store(word, ANSWER_WORD(ANSWER_COUNT(token) + 1, a->keeper, ANSWER_SLOT(token),
                                   ANSWER_WRITING));
    assert_int_equal(get(b, "x"), -1);
    uint64_t other = put(b, "x", 2);
    assert_int_not_equal(ANSWER_SLOT(other), ANSWER_SLOT(token));
    assert_int_equal(get(a, "x"), 2);
    store_answers_destroy(a);
    while (atomic_load(word) & ANSWER_WRITING) {
        char name[32];
        static unsigned n;
        snprintf(name, sizeof(name), "y%u", n++);
        put(b, name, n); /* some name comes to this place */
        assert_true(n < 100 * ANSWERS_SLOTS);
    }
    store_answers_destroy(b);
}

static void test_damaged(void **state)
{
    struct scratch *s = *state;
    struct store_answers *a = open_as(s, "s");
    char command[256];

    store_answers_destroy(a);
    snprintf(command, sizeof(command), "for f in %s/.dyad/answers-*; do : >$f; done",
             s->path);
    assert_int_equal(system(command), 0);
    errno = 0;
    assert_null(open_as(s, "s"));
    assert_int_equal(errno, EUCLEAN);
    snprintf(command, sizeof(command), "rm %s/.dyad/answers-*", s->path);
    assert_int_equal(system(command), 0);
    assert_non_null(a = open_as(s, "s"));
    store_answers_destroy(a);
}

/* ---- a death is known here before it is anywhere else ---- */

static struct scratch *keeper_scratch;
static int keeper_line;

/* As a member's loop: a thread among others, with a table of descriptors that is not
 * main's.
 */
static void *keeper_thread(void *arg)
{
    struct store_answers *answers = open_as(keeper_scratch, "s");

    (void)arg;
    CHILD_CHECK(answers != NULL);
    CHILD_CHECK(put(answers, "x", 77) != 0);
    CHILD_CHECK(write(keeper_line, "k", 1) == 1);
    for (;;)
        pause();
    return NULL;
}

static void *other_thread(void *arg)
{
    (void)arg;
    for (;;)
        pause();
    return NULL;
}

static void test_dead_before_the_line_breaks(void **state)
{
    struct store_answers *a = open_as(*state, "s");
    int rounds = getenv("DYAD_TEST_VALGRIND") ? 5 : 200;

    keeper_scratch = *state;
    for (int i = 0; i < rounds; i++) {
        int line[2];
        char byte;
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, line), 0);
        pid_t pid = fork();
        if (pid == 0) {
            pthread_t thread;
            close(line[0]);
            keeper_line = line[1];
            for (int t = 0; t < 3; t++)
                CHILD_CHECK(pthread_create(&thread, NULL,
                                           t == 1 ? keeper_thread : other_thread,
                                           NULL) == 0);
            other_thread(NULL);
        }
        close(line[1]);
        assert_int_equal(read(line[0], &byte, 1), 1);
        assert_int_equal(get(a, "x"), 77);
        kill(pid, i % 2 ? SIGKILL : SIGTERM);
        assert_int_equal(read(line[0], &byte, 1), 0); /* what a home would notice */
        assert_int_equal(get(a, "x"), -1);
        close(line[0]);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
    }
    store_answers_destroy(a);
}

/* ---- everything at once ----
 *
 * Keepers look names up at a home that counts them, put what they got, and use what others
 * have put; the publisher (this program) raises a name's version, has its holders told, and
 * counts the version as acknowledged when each has answered or died. No look may find less
 * than what was acknowledged when it began.
 */
enum { KEEPERS = 4, NAMES = 6 };

static struct world {
    _Atomic uint64_t current[NAMES], acked[NAMES];
    _Atomic int holder[KEEPERS][NAMES]; /* 1: told of the next version; 2: is being told */
    _Atomic int end;
    _Atomic uint64_t gets[KEEPERS], puts[KEEPERS], wrong;
} * world;

static uint32_t next_random(uint32_t *rng)
{
    *rng = *rng * 1664525 + 1013904223;
    return *rng >> 8;
}

static const char *name_of(unsigned i, char name[16])
{
    snprintf(name, 16, "dir/name%u", i);
    return name;
}

static void keep(struct scratch *s, unsigned k, uint32_t rng)
{
    struct store_answers *answers = open_as(s, "s");
    uint64_t mine[NAMES] = {0};
    char name[16];

    CHILD_CHECK(answers != NULL);
    for (unsigned i = 0; i < NAMES; i++)
        atomic_store(&world->holder[k][i], 0); /* of the one before us */
    while (!atomic_load(&world->end)) {
        struct dyad_answer answer;
        unsigned i = next_random(&rng) % NAMES;
        uint64_t least = atomic_load(&world->acked[i]);

        if (mine[i] == 0 &&
            store_answers_get(answers, name_of(i, name), util_clock_now(), &answer)) {
            atomic_fetch_add(&world->gets[k], 1);
            if (!is_whole(&answer) || answer.entry.version.counter < least)
                atomic_fetch_add(&world->wrong, 1);
        } else if (mine[i] == 0) {
            atomic_store(&world->holder[k][i],
                         1); /* first: then see the version, or hear */
            answer = make(atomic_load(&world->current[i]), k);
            mine[i] = store_answers_put(answers, name_of(i, name), &answer);
            atomic_fetch_add(&world->puts[k], mine[i] != 0);
        }
        for (unsigned n = 0; n < NAMES; n++) {
            if (atomic_load(&world->holder[k][n]) != 2)
                continue;
            if (mine[n] != 0)
                store_answers_drop(answers, mine[n]);
            mine[n] = 0;
            atomic_store(&world->holder[k][n], 0); /* the answer */
        }
        sched_yield();
    }
    store_answers_destroy(answers);
}

/* One more version of a name; `dead`: this keeper's answers are not waited for. */
static void publish(unsigned i, const bool dead[KEEPERS])
{
    uint64_t version = atomic_load(&world->current[i]) + 1;

    atomic_store(&world->current[i], version);
    for (unsigned k = 0; k < KEEPERS; k++) {
        int told = 1;
        if (!dead[k])
            atomic_compare_exchange_strong(&world->holder[k][i], &told, 2);
    }
    for (unsigned k = 0; k < KEEPERS; k++)
        while (!dead[k] && atomic_load(&world->holder[k][i]) == 2)
            sched_yield();
    atomic_store(&world->acked[i], version);
}

static void world_begin(void)
{
    world = mmap(NULL, sizeof(*world), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                 -1, 0);
    assert_true(world != MAP_FAILED);
    for (unsigned i = 0; i < NAMES; i++)
        atomic_store(&world->current[i], 1);
}

static void world_end(const char *what)
{
    uint64_t gets = 0, puts = 0;

    for (unsigned k = 0; k < KEEPERS; k++) {
        gets += atomic_load(&world->gets[k]);
        puts += atomic_load(&world->puts[k]);
    }
    print_message("%s: %llu put, %llu used, %llu wrong\n", what, (unsigned long long)puts,
                  (unsigned long long)gets, (unsigned long long)atomic_load(&world->wrong));
    assert_int_equal(atomic_load(&world->wrong), 0);
    assert_true(puts > 100 && gets > 100);
    munmap(world, sizeof(*world));
}

struct keeper_arg {
    struct scratch *scratch;
    unsigned k;
};

static void *keep_thread(void *arg)
{
    struct keeper_arg *a = arg;
    keep(a->scratch, a->k, a->k + 1);
    return NULL;
}

static void test_threads(void **state)
{
    struct keeper_arg arg[KEEPERS];
    pthread_t thread[KEEPERS];
    static const bool none[KEEPERS];
    uint32_t rng = 5;

    world_begin();
    for (unsigned k = 0; k < KEEPERS; k++) {
        arg[k] = (struct keeper_arg){*state, k};
        assert_int_equal(pthread_create(&thread[k], NULL, keep_thread, &arg[k]), 0);
    }
    for (int n = 0; n < 3000; n++) {
        publish(next_random(&rng) % NAMES, none);
        if (n % 3 == 0)
            usleep(next_random(&rng) % 200);
    }
    atomic_store(&world->end, 1);
    for (unsigned k = 0; k < KEEPERS; k++)
        pthread_join(thread[k], NULL);
    world_end("threads");
}

static void test_killed(void **state)
{
    bool dead[KEEPERS];
    pid_t pid[KEEPERS];
    uint32_t rng = 5;
    unsigned kills = 0;

    world_begin();
    memset(dead, true, sizeof(dead));
    for (int n = 0; n < 4000; n++) {
        unsigned k = next_random(&rng) % KEEPERS;
        if (dead[k]) {
            uint32_t seed = next_random(&rng);
            if ((pid[k] = fork()) == 0) {
                keep(*state, k, seed);
                _exit(0);
            }
            assert_true(pid[k] > 0);
            dead[k] = false;
        } else if (n % 10 == 0) {
            usleep(next_random(&rng) % 1000);
            kill(pid[k], SIGKILL);
            assert_int_equal(waitpid(pid[k], NULL, 0), pid[k]);
            dead[k] = true;
            kills++;
        }
        publish(next_random(&rng) % NAMES, dead);
        if (n % 3 == 0)
            usleep(next_random(&rng) % 200);
    }
    atomic_store(&world->end, 1);
    for (unsigned k = 0; k < KEEPERS; k++)
        if (!dead[k])
            scratch_join(pid[k]);
    assert_true(kills > 100);
    world_end("processes");
}

int main(void)
{
#define WITH(fn) cmocka_unit_test_setup_teardown(fn, scratch_setup, scratch_teardown)
    const struct CMUnitTest tests[] = {
        WITH(test_put_get_drop), WITH(test_time),
        WITH(test_told),         WITH(test_sessions),
        WITH(test_orderly_end),  WITH(test_full),
        WITH(test_many_members), WITH(test_half_written),
        WITH(test_damaged),      WITH(test_dead_before_the_line_breaks),
        WITH(test_threads),      WITH(test_killed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
