/*
 * test_dht_dump.c - the program dyad-dht-dump against fake members
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "fake_member.h"
#include "sample.h"
#include "spawn.h"

static char session[40];
static struct spawn_result result;

#define ENV(...) ((char *const[]){"TZ=UTC", ##__VA_ARGS__, NULL})
#define DUMP(...)                                                                        \
    spawn_run(&result,                                                                   \
              (char *const[]){DYAD_DHT_DUMP, "--session", session, ##__VA_ARGS__, NULL}, \
              ENV())

static void expect(int status, const char *out, const char *err)
{
    if (result.status != status || (out && !strstr(result.out, out)) ||
        (err && !strstr(result.err, err)))
        fail_msg(
            "status %d (expected %d), expected out \"%s\", err \"%s\"\nout: %s\nerr: %s",
            result.status, status, out ? out : "", err ? err : "", result.out, result.err);
}

static void answer(int fd, const struct net_msg *request)
{
    if (request->flags & NET_DUMP_KEY)
        FAKE_CHECK(strcmp(request->entry.upath, "sub/step 1") == 0);
    if (request->rank == DYAD_RANK_NONE || request->rank == 0)
        fake_member_page(fd, 0, SAMPLE_SHARD_0, 0);
    if (request->rank == DYAD_RANK_NONE || request->rank == 1)
        fake_member_page(fd, 1, SAMPLE_SHARD_1, 0);
    if (request->rank == DYAD_RANK_NONE || request->rank == 2)
        fake_member_error(fd, 2, EHOSTUNREACH);
    fake_member_done(fd, 0);
}

static void test_tables(void **state)
{
    (void)state;
    struct fake_member *member = fake_member_start(session, 0, answer);

    DUMP();
    expect(2, "UPTIME", "some ranks did not answer");
    expect(2, "n1", "rank 2: cannot be reached");
    DUMP("--rank", "1");
    expect(0, "n1", NULL);
    assert_string_equal(result.err, "");
    DUMP("--rank", "2");
    expect(2, NULL, "rank 2: cannot be reached");
    DUMP("--entries");
    expect(2, "step 1\n", NULL);
    assert_null(strstr(result.out, "REASON"));
    DUMP("--waiting");
    expect(2, "d\\xff\\n\n", NULL);
    assert_null(strstr(result.out, "HOLDERS"));
    DUMP("--entries", "--waiting");
    expect(2, "REASON", NULL);
    expect(2, "HOLDERS", NULL);
    fake_member_stop(member);
}

static void test_json(void **state)
{
    (void)state;
    struct fake_member *member = fake_member_start(session, 0, answer);

    DUMP("--json", "--entries");
    expect(2, NULL, "rank 2");
    json_error_t error;
    json_t *document = json_loads(result.out, 0, &error);
    if (!document)
        fail_msg("%s in %s", error.text, result.out);
    assert_string_equal(json_string_value(json_object_get(document, "session")), session);
    assert_int_equal(json_array_size(json_object_get(document, "shards")), 2);
    assert_int_equal(json_array_size(json_object_get(document, "unreachable")), 1);
    json_decref(document);
    fake_member_stop(member);
}

static void test_key(void **state)
{
    (void)state;
    struct fake_member *member = fake_member_start(session, 0, answer);

    DUMP("--key", "sub/step 1");
    expect(2, "level 1: hash", NULL);
    DUMP("--key", "./sub//step 1");
    expect(2, "level 1: hash", NULL);
    DUMP("--key", "a/../b");
    expect(1, NULL, "\"..\" is not followed");
    DUMP("--key", "/no/such/dmd/sub/step 1");
    expect(1, NULL, "not below a managed directory");

    /* the directory is known from our environment, */
    char *const argv[] = {
        DYAD_DHT_DUMP, "--session", session, "--key", "/no/such/dmd/sub/step 1", NULL};
    spawn_run(&result, argv, ENV("DYAD_PATH=/no/such/dmd/"));
    expect(2, "level 1: hash", NULL);
    spawn_run(&result, argv, ENV("DYAD_PATH=/no/such/dm"));
    expect(1, NULL, "not below a managed directory");
    fake_member_stop(member);
}

static void hang_up(int fd, const struct net_msg *request)
{
    (void)fd;
    (void)request;
}

static void test_several_members(void **state)
{
    (void)state;
    struct fake_member *first = fake_member_start(session, 0, hang_up);
    DUMP();
    expect(1, NULL, "left without an answer");

    /* another member of the node is asked */
    struct fake_member *second = fake_member_start(session, 1, answer);
    DUMP();
    expect(2, "n1", "rank 2");
    fake_member_stop(first);
    fake_member_stop(second);
}

static void test_sessions(void **state)
{
    (void)state;
    char one[64], two[64];

    DUMP();
    expect(1, NULL, "no session");

    snprintf(one, sizeof(one), "%s-one", session);
    snprintf(two, sizeof(two), "%s-two", session);
    struct fake_member *first = fake_member_start(one, 0, answer);
    struct fake_member *second = fake_member_start(two, 0, answer);
    struct fake_member *third = fake_member_start(two, 5, answer);
    DUMP();
    expect(1, NULL, "several sessions; choose with --session");
    expect(1, NULL, one);
    expect(1, NULL, "ranks 0,5 here");
    spawn_run(&result, (char *const[]){DYAD_DHT_DUMP, "--session", two, NULL}, ENV());
    expect(2, two, NULL);
    spawn_run(&result, (char *const[]){DYAD_DHT_DUMP, "--list", NULL}, ENV());
    expect(0, one, NULL);
    expect(0, two, NULL);
    char comm[32] = "", self[80];
    FILE *in = fopen("/proc/self/comm", "r");
    assert_non_null(fgets(comm, sizeof(comm), in));
    fclose(in);
    comm[strcspn(comm, "\n")] = '\0';
    snprintf(self, sizeof(self), "process %d (%s)", (int)getpid(), comm);
    expect(0, self, NULL);
    spawn_run(&result, (char *const[]){DYAD_DHT_DUMP, "--session", "zzz", NULL}, ENV());
    expect(1, NULL, "no session zzz here; there are:");
    fake_member_stop(first);
    fake_member_stop(second);
    fake_member_stop(third);
}

/* --- --check --- */

#define V(n) "{\"counter\":" #n ",\"rank\":0,\"incarnation\":0}"
#define ENTRY(name, homes, version) \
    "{" name ",\"homes\":" homes    \
    ",\"owner\":0,\"state\":\"published\",\"version\":" version "}"
#define OWN(name, homes, version, fault, pending)                            \
    "{" name ",\"homes\":" homes ",\"version\":" version ",\"fault\":" fault \
    ",\"pending\":" pending "}"
#define A "\"upath\":\"a\""

/* What the ranks have of one name; NULL: nothing. */
struct scene {
    const char *entry[3], *own;
    const char *name; /* as JSON, if it is not A */
    int right_after;  /* rounds, then `then` */
    const struct scene *then;
    bool moves; /* another version in each round */
    int silent; /* rank 0, the owner, does not answer: why */
    bool old;   /* it is of a version that knows no check */
};

static const struct scene *scene;
static int rounds;

static void answer_check(int fd, const struct net_msg *request)
{
    const struct scene *s = scene;
    char page[4096], moved[512];

    if (request->flags & NET_DUMP_KEY) {
        rounds++;
        if (s->then && rounds > s->right_after)
            s = s->then;
        if (s->name)
            FAKE_CHECK(strcmp(request->entry.upath, "d\xff\n") == 0);
    }
    for (uint32_t r = 0; r < 3; r++) {
        const char *entry = s->entry[r], *own = r == 0 ? s->own : NULL;
        if (r == 0 && s->silent) {
            fake_member_error(fd, 0, s->silent);
            continue;
        }
        if (s->moves && r == 0) {
            snprintf(moved, sizeof(moved), ENTRY(A, "[0,1]", "{\"counter\":%d}"),
                     rounds + 3);
            entry = moved;
        }
        int n = snprintf(page, sizeof(page), "{\"rank\":%u,\"nranks\":3", (unsigned)r);
        if (request->flags & NET_DUMP_ENTRIES)
            n += snprintf(page + n, sizeof(page) - (size_t)n, ",\"entries\":[%s]",
                          entry ? entry : "");
        if ((request->flags & NET_DUMP_CHECK) && !s->old)
            n += snprintf(page + n, sizeof(page) - (size_t)n, ",\"own\":[%s]",
                          own ? own : "");
        if (request->flags & NET_DUMP_KEY)
            n += snprintf(page + n, sizeof(page) - (size_t)n,
                          ",\"key\":{%s,\"entry\":%s,\"pending\":false}",
                          s->name ? s->name : A, entry ? entry : "null");
        snprintf(page + n, sizeof(page) - (size_t)n, "}");
        fake_member_page(fd, r, page, 0);
    }
    fake_member_done(fd, 0);
}

static void check(const struct scene *s, int status, const char *out)
{
    struct fake_member *member;

    scene = s;
    rounds = 0;
    member = fake_member_start(session, 0, answer_check);
    DUMP("--check");
    fake_member_stop(member);
    expect(status, out, NULL);
}

static void test_check(void **state)
{
    static const char *const right = OWN(A, "[0,1]", V(2), "null", "false");
    static const char *const entry = ENTRY(A, "[0,1]", V(2));
    const struct scene clean = {.entry = {entry, entry}, .own = right};
    struct scene s = clean;

    (void)state;
    check(&clean, 0, "1 names were checked, 0 are wrong\n");
    assert_int_equal(rounds, 0);
    s.entry[2] = ENTRY(A, "[0,1]", V(1)); /* left over: it is no home any more */
    check(&s, 0, "1 names were checked, 0 are wrong\n");

    s = clean;
    s.entry[1] = NULL;
    check(&s, 3,
          "a: version 2.0.0 of rank 0 is not at its home, rank 1, which has nothing\n1 "
          "names were checked, 1 are wrong\n");
    assert_int_equal(rounds, 5); /* the same five times */
    s.entry[1] = ENTRY(A, "[0,1]", V(1));
    check(&s, 3, "rank 1, which has 1.0.0\n");
    s.entry[0] = s.entry[1] = NULL;
    check(&s, 3, "a: version 2.0.0 of rank 0 is not at its home, rank 0, which has not");

    s = clean;
    s.own = OWN(A, "[0,1]", V(2), "\"is not on its \\u001bdisk\"", "false");
    check(&s, 3, "a: rank 0, its owner: it is not on its \\x1bdisk\n");
    s.own = NULL;
    check(&s, 3,
          "a: rank 0, its owner, has no record of it in its journal; rank 0, a home, has "
          "2.0.0\n");
    s.own = OWN(A, "[0,1]", V(1), "null", "false");
    check(&s, 3, "a: rank 0, its owner, has version 1.0.0 in its journal; rank ");
    s = clean;
    s.silent = EHOSTUNREACH;
    check(&s, 3, "a: rank 0, its owner, does not answer\n");
    expect(3, NULL, "rank 0: cannot be reached");
    s.silent = NET_DUMP_LEFT;
    check(&s, 3, "a: rank 0, its owner, has left, and nobody serves it\n");
    assert_string_equal(result.err, "");
    s.silent = NET_DUMP_DIED;
    check(&s, 3, "a: rank 0, its owner, has died, and nobody serves it\n");
    assert_string_equal(result.err, "dead: rank 0\n");
    s = (struct scene){.silent = NET_DUMP_DIED}; /* it had nothing that is missed */
    check(&s, 0, "0 names were checked, 0 are wrong\n");
    s.silent = NET_DUMP_LEFT;
    check(&s, 0, "0 names were checked, 0 are wrong\n");
    s = clean;
    s.old = true;
    check(&s, 3, "a: rank 0, its owner, does not answer\n");

    /* a tombstone needs no owner */
    s = (struct scene){.entry = {"{" A ",\"homes\":[0,1],\"owner\":null,\"state\":"
                                 "\"withdrawn\",\"version\":" V(3) "}",
                                 "{" A ",\"homes\":[0,1],\"owner\":null,\"state\":"
                                 "\"withdrawn\",\"version\":" V(3) "}"}};
    check(&s, 0, "1 names were checked, 0 are wrong\n");
    s.entry[1] = entry;
    check(&s, 3, "a: version 3.0.0 of rank 0 is not at its home, rank 1, which has 2.0.0");

    /* a name that is no UTF-8 */
    s = (struct scene){
        .name = "\"upath_hex\":\"64ff0a\"",
        .own = OWN("\"upath_hex\":\"64ff0a\"", "[1]", V(2), "null", "false")};
    check(&s, 3, "d\\xff\\n: version 2.0.0 of rank 0 is not at its home, rank 1");
}

/* What is being published is no false alarm: it is looked at until it is right. */
static void test_check_moving(void **state)
{
    static const char *const entry = ENTRY(A, "[0,1]", V(2));
    const struct scene clean = {.entry = {entry, entry},
                                .own = OWN(A, "[0,1]", V(2), "null", "false")};
    struct scene s = {.entry = {entry, ENTRY(A, "[0,1]", V(1))},
                      .own = OWN(A, "[0,1]", V(2), "null", "true"),
                      .right_after = 7,
                      .then = &clean};

    (void)state;
    check(&s, 0, "1 names were checked, 0 are wrong\n");
    assert_int_equal(rounds, 8);
    s.own = clean.own; /* not pending, but right the next time */
    s.right_after = 2;
    check(&s, 0, "1 names were checked, 0 are wrong\n");
    assert_int_equal(rounds, 3);
    /* pending for ever, or another version each time: not judged, and not for ever */
    s = (struct scene){.entry = {entry}, .own = OWN(A, "[0,1]", V(2), "null", "true")};
    check(&s, 0, "0 are wrong, 1 were being published all the time\n");
    assert_in_range(rounds, 10, 100);
    s = clean;
    s.moves = true;
    check(&s, 0, "0 are wrong, 1 were being published all the time\n");
    assert_in_range(rounds, 10, 100);
}

static void test_arguments(void **state)
{
    (void)state;
    static const char *const bad[][2] = {
        {"--timeout", "0"}, {"--timeout", "x"},  {"--timeout", "nan"},
        {"--rank", "-1"},   {"--rank", "x"},     {"--rank", "99999999999"},
        {"--session", ""},  {"--nonsense", "1"}, {"stray", "1"},
    };

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        spawn_run(
            &result,
            (char *const[]){DYAD_DHT_DUMP, (char *)bad[i][0], (char *)bad[i][1], NULL},
            ENV());
        expect(1, NULL, bad[i][0] + (bad[i][0][0] == '-' ? 2 : 0));
    }
    DUMP("--check", "--rank", "1");
    expect(1, NULL, "--check asks all ranks for everything");
    spawn_run(&result, (char *const[]){DYAD_DHT_DUMP, "--help", NULL}, ENV());
    expect(0, "Usage: dyad-dht-dump", NULL);
    spawn_run(&result, (char *const[]){DYAD_DHT_DUMP, "--version", NULL}, ENV());
    expect(0, "dyad-dht-dump 0.1.0\n", NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tables),   cmocka_unit_test(test_json),
        cmocka_unit_test(test_key),      cmocka_unit_test(test_several_members),
        cmocka_unit_test(test_sessions), cmocka_unit_test(test_arguments),
        cmocka_unit_test(test_check),    cmocka_unit_test(test_check_moving),
    };

    snprintf(session, sizeof(session), "unit-dump-%d", (int)getpid());
    return cmocka_run_group_tests_name("tools/dyad-dht-dump", tests, NULL, NULL);
}
