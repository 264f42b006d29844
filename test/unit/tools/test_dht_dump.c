/*
 * test_dht_dump.c - the program dyad-dht-dump against fake members
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
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
    if (request->length == UINT64_MAX || request->length == 0)
        fake_member_page(fd, 0, SAMPLE_SHARD_0, 0);
    if (request->length == UINT64_MAX || request->length == 1)
        fake_member_page(fd, 1, SAMPLE_SHARD_1, 0);
    if (request->length == UINT64_MAX || request->length == 2)
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
    };

    snprintf(session, sizeof(session), "unit-dump-%d", (int)getpid());
    return cmocka_run_group_tests_name("tools/dyad-dht-dump", tests, NULL, NULL);
}
