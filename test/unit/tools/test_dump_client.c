/*
 * test_dump_client.c - finding members, and putting their answers together
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

#include "dump_client.h"
#include "fake_member.h"
#include "util/clock.h"

#define SECOND UTIL_NSEC_PER_SEC

static char session[40];

static void test_scan(void **state)
{
    (void)state;
    static char text[] =
        "Num       RefCount Protocol Flags    Type St Inode Path\n"
        "0000000000000000: 00000002 00000000 00010000 0001 01 11 @dyad/1000/beef/10\n"
        "0000000000000000: 00000002 00000000 00010000 0001 01 12 /run/socket\n"
        "0000000000000000: 00000003 00000000 00000000 0001 03 13 @dyad/1000/beef/2\n"
        "0000000000000000: 00000002 00000000 00010000 0001 01 14 @dyad/1000/beef/2\n"
        "0000000000000000: 00000002 00000000 00010000 0001 01 15 @dyad/0/cafe/0\n"
        "0000000000000000: 00000002 00000000 00010000 0001 01 16\n"
        "0000000000000000: 00000002 00000000 00010000 0001 01 17 @dyad/1000/beef/x\n"
        "0000000000000000: 00000002 00000000 00010000 0001 01 18 @dyad/1000/beef/\n"
        "0000000000000000: 00000002 00000000 00010000 0001 01 19 @dyad/1000//1\n"
        "0000000000000000: 00000002 00000000 00010000 0001 01 20 @dyad/-1/beef/1\n"
        "0000000000000000: 00000002 00000000 00010000 0001 01 21 "
        "@dyad/1000/beef/4294967295\n"
        "0000000000000000: 00000002 00000000 00010000 0001 01 22 @dyadic/1000/beef/1\n"
        "0000000000000000: 00000002 00000000 00010000 0001 01 23 @dyad/1000/abad/1\n"
        "0000000000000000: 00000002 00000000 00010000 0001 01 24 "
        "@dyad/1000/beef/11/0123456789abcdef\n"
        "0000000000000000: 00000002 00000000 00010000 0001 01 25 "
        "@dyad/1000/beef/12/0123456789abcdef0\n"
        "0000000000000000: 00000002 00000000 00010000 0001 01 26 "
        "@dyad/1000/beef/12/0123456789abcdeg\n"
        "0000000000000000: 00000002 00000000 00010000 0001 01 27 @dyad/1000/beef/12/0\n";
    FILE *in = fmemopen(text, strlen(text), "r");
    struct dump_member *m;
    size_t n;

    assert_int_equal(dump_client_scan(in, &m, &n), 0);
    fclose(in);
    assert_int_equal(n, 5);
    assert_int_equal(m[0].uid, 0);
    assert_string_equal(m[0].session, "cafe");
    assert_string_equal(m[1].session, "abad");
    assert_string_equal(m[2].session, "beef");
    assert_int_equal(m[2].rank, 2);
    assert_int_equal(m[3].rank, 10);
    assert_string_equal(m[3].tail, "");
    assert_int_equal(m[4].rank, 11);
    assert_string_equal(m[4].tail, "/0123456789abcdef");
    free(m);

    char empty[] = "Num\n";
    in = fmemopen(empty, 4, "r");
    assert_int_equal(dump_client_scan(in, &m, &n), 0);
    fclose(in);
    assert_int_equal(n, 0);
    free(m);
}

/* The real list has the fake member in it. */
static int find(uint32_t rank, struct dump_member *found)
{
    struct dump_member *list;
    size_t n, hits = 0;
    FILE *in = fopen("/proc/net/unix", "r");

    assert_non_null(in);
    assert_int_equal(dump_client_scan(in, &list, &n), 0);
    fclose(in);
    for (size_t i = 0; i < n; i++) {
        if (strcmp(list[i].session, session) == 0 && list[i].rank == rank) {
            *found = list[i];
            hits++;
        }
    }
    free(list);
    return (int)hits;
}

static char last_error[256];
static int last_errno;

static json_t *ask_with(fake_answer_fn answer, struct dump_query query)
{
    struct fake_member *member = fake_member_start(session, 3, answer);
    struct dump_member found;
    pid_t pid = 0;

    if (!query.first)
        query.first = 5 * SECOND;
    if (!query.timeout)
        query.timeout = 5 * SECOND;
    assert_int_equal(find(3, &found), 1);
    int fd = dump_client_connect(&found, SECOND, &pid);
    assert_true(fd >= 0);
    assert_int_equal(pid, getpid());
    assert_int_equal(find(3, &found), 1); /* the accepted connection is not counted */
    last_error[0] = '\0';
    json_t *document = dump_client_ask(fd, session, &query, last_error, sizeof(last_error));
    last_errno = errno;
    close(fd);
    fake_member_stop(member);
    return document;
}

/* Five seconds where a query says nothing. */
#define ASK(answer, ...) ask_with(answer, (struct dump_query){__VA_ARGS__})
#define ALL              .rank = DYAD_RANK_NONE

static const json_t *shard(const json_t *document, size_t i)
{
    return json_array_get(json_object_get(document, "shards"), i);
}

static void expect_unreachable(const json_t *document, size_t i, int rank, const char *text)
{
    const json_t *u = json_array_get(json_object_get(document, "unreachable"), i);

    assert_non_null(u);
    assert_int_equal(json_integer_value(json_object_get(u, "rank")), rank);
    const char *error = json_string_value(json_object_get(u, "error"));
    if (!error || !strstr(error, text))
        fail_msg("rank %d: \"%s\" has no \"%s\"", rank, error ? error : "(none)", text);
}

static size_t size_of(const json_t *document, const char *array)
{
    return json_array_size(json_object_get(document, array));
}

static void answer_all(int fd, const struct net_msg *request)
{
    FAKE_CHECK(request->type == NET_MSG_GUEST_DUMP);
    FAKE_CHECK(request->flags == (NET_DUMP_KEY | NET_DUMP_WAITING));
    FAKE_CHECK(request->rank == DYAD_RANK_NONE);
    FAKE_CHECK(strcmp(request->entry.upath, "a/b") == 0);
    fake_member_page(fd, 2, "{\"rank\":2,\"nranks\":3}", 0);
    fake_member_page(fd, 0, "{\"rank\":0,\"nranks\":3}", 0);
    fake_member_page(fd, 1, "{\"rank\":1,\"nranks\":3}", 0);
    fake_member_done(fd, 0);
}

static void test_all(void **state)
{
    (void)state;
    json_t *d =
        ASK(answer_all, ALL, .upath = "a/b", .flags = NET_DUMP_KEY | NET_DUMP_WAITING);

    assert_non_null(d);
    assert_string_equal(json_string_value(json_object_get(d, "session")), session);
    assert_int_equal(size_of(d, "shards"), 3);
    assert_int_equal(size_of(d, "unreachable"), 0);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(json_integer_value(json_object_get(shard(d, i), "rank")), i);
    json_decref(d);
}

/* Pages of several ranks, mixed: as the member sends them. */
static void answer_pages(int fd, const struct net_msg *request)
{
    (void)request;
    fake_member_page(fd, 0, "{\"rank\":0,\"nranks\":2,\"entries\":[1,2],\"waiting\":[7]}",
                     1);
    fake_member_page(fd, 1, "{\"rank\":1,\"nranks\":2,\"entries\":[]}", 1);
    fake_member_page(fd, 0, "{\"rank\":0,\"nranks\":2,\"entries\":[3]}", 1);
    fake_member_page(fd, 1, "{\"rank\":1,\"nranks\":2,\"entries\":[9],\"waiting\":[8]}", 0);
    fake_member_page(fd, 0, "{\"rank\":0,\"nranks\":2,\"entries\":[4],\"waiting\":[]}", 0);
    fake_member_done(fd, 0);
}

static void test_pages(void **state)
{
    (void)state;
    json_t *d = ASK(answer_pages, ALL, .flags = NET_DUMP_ENTRIES);

    assert_non_null(d);
    assert_int_equal(size_of(d, "shards"), 2);
    assert_int_equal(size_of(d, "unreachable"), 0);
    const json_t *entries = json_object_get(shard(d, 0), "entries");
    assert_int_equal(json_array_size(entries), 4);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(json_integer_value(json_array_get(entries, i)), i + 1);
    assert_int_equal(size_of(shard(d, 0), "waiting"), 1);
    assert_int_equal(size_of(shard(d, 1), "entries"), 1);
    assert_int_equal(size_of(shard(d, 1), "waiting"), 1);
    json_decref(d);
}

static void answer_some(int fd, const struct net_msg *request)
{
    (void)request;
    fake_member_error(fd, 1, EHOSTUNREACH);
    fake_member_page(fd, 0, "{\"rank\":0,\"nranks\":5}", 0);
    fake_member_page(fd, 2, "this is no JSON", 0);
    fake_member_error(fd, 4, ETIMEDOUT);
    fake_member_done(fd, 0);
}

static void test_unreachable(void **state)
{
    (void)state;
    json_t *d = ASK(answer_some, ALL);

    assert_non_null(d);
    assert_int_equal(size_of(d, "shards"), 1);
    assert_int_equal(size_of(d, "unreachable"), 4);
    expect_unreachable(d, 0, 1, "cannot be reached");
    expect_unreachable(d, 1, 2, "cannot be read");
    expect_unreachable(d, 2, 3, "did not answer");
    expect_unreachable(d, 3, 4, "did not answer in time");
    json_decref(d);
}

static void answer_one(int fd, const struct net_msg *request)
{
    FAKE_CHECK(request->rank == 7);
    fake_member_page(fd, 7, "{\"rank\":7,\"nranks\":500}", 0);
    fake_member_done(fd, 0);
}

static void answer_one_error(int fd, const struct net_msg *request)
{
    (void)request;
    fake_member_error(fd, 7, EHOSTUNREACH);
    fake_member_done(fd, 0);
}

static void test_one_rank(void **state)
{
    (void)state;
    json_t *d = ASK(answer_one, .rank = 7);

    assert_non_null(d);
    assert_int_equal(size_of(d, "shards"), 1);
    assert_int_equal(size_of(d, "unreachable"), 0);
    json_decref(d);
    d = ASK(answer_one_error, .rank = 7);
    assert_non_null(d);
    assert_int_equal(size_of(d, "shards"), 0);
    assert_int_equal(size_of(d, "unreachable"), 1);
    expect_unreachable(d, 0, 7, "cannot be reached");
    json_decref(d);
}

static void answer_ended(int fd, const struct net_msg *request)
{
    (void)request;
    fake_member_error(fd, 3, NET_DUMP_ENDED);
    fake_member_error(fd, 1, NET_DUMP_LEFT);
    fake_member_error(fd, 2, NET_DUMP_DIED);
    fake_member_page(fd, 0, "{\"rank\":0,\"nranks\":9,\"launch\":\"l\"}", 0);
    fake_member_page(fd, 4, "{\"rank\":4,\"nranks\":9,\"launch\":\"l\"}", 1);
    fake_member_error(fd, 4, NET_DUMP_LEFT); /* what it began to say is not all */
    fake_member_done(fd, 0);
}

static void answer_one_left(int fd, const struct net_msg *request)
{
    (void)request;
    fake_member_error(fd, 1, NET_DUMP_LEFT);
    fake_member_done(fd, 0);
}

/* In a session directory: who has ended need not answer, but was asked for by --rank. */
static void test_ended(void **state)
{
    (void)state;
    static const char *const states[] = {"left", "dead", "ended"};
    json_t *d = ASK(answer_ended, ALL);

    assert_non_null(d);
    assert_int_equal(size_of(d, "shards"), 2);
    assert_int_equal(size_of(d, "unreachable"), 1);
    expect_unreachable(d, 0, 4, "has left");
    assert_int_equal(size_of(d, "ended"), 3);
    for (size_t i = 0; i < 3; i++) {
        const json_t *one = json_array_get(json_object_get(d, "ended"), i);
        assert_int_equal(json_integer_value(json_object_get(one, "rank")), i + 1);
        assert_string_equal(json_string_value(json_object_get(one, "state")), states[i]);
    }
    json_decref(d);
    d = ASK(answer_one_left, .rank = 1);
    assert_non_null(d);
    assert_int_equal(size_of(d, "ended"), 0);
    expect_unreachable(d, 0, 1, "has left");
    json_decref(d);
}

static void answer_no_such_rank(int fd, const struct net_msg *request)
{
    (void)request;
    fake_member_done(fd, EINVAL);
}

static void test_no_such_rank(void **state)
{
    (void)state;
    assert_null(ASK(answer_no_such_rank, .rank = 7));
    assert_string_equal(last_error, "the job has no rank 7");
}

/* Dies in the middle of a page. */
static void answer_and_die(int fd, const struct net_msg *request)
{
    (void)request;
    fake_member_page(fd, 0, "{\"rank\":0,\"nranks\":3,\"entries\":[1]}", 1);
    fake_member_page(fd, 1, "{\"rank\":1,\"nranks\":3}", 0);
    fake_member_raw(fd, "\x40\0\0\0half", 8);
}

static void test_death(void **state)
{
    (void)state;
    json_t *d = ASK(answer_and_die, ALL);

    assert_non_null(d);
    assert_int_equal(size_of(d, "shards"), 2);
    assert_int_equal(size_of(d, "unreachable"), 2);
    expect_unreachable(d, 0, 0,
                       ""); /* shown as far as it came, and said to be incomplete */
    expect_unreachable(d, 1, 2, "");
    json_decref(d);
}

static void answer_and_hang(int fd, const struct net_msg *request)
{
    char byte;

    (void)request;
    fake_member_page(fd, 1, "{\"rank\":1,\"nranks\":2}", 0);
    FAKE_CHECK(read(fd, &byte, 1) == 0); /* until the client gives up */
}

static void test_hang(void **state)
{
    (void)state;
    uint64_t start = util_clock_now();
    json_t *d = ASK(answer_and_hang, ALL, .timeout = SECOND / 5);

    assert_non_null(d);
    assert_int_equal(size_of(d, "shards"), 1);
    expect_unreachable(d, 0, 0, "did not answer in time");
    assert_true(util_clock_now() - start >= SECOND / 5);
    assert_true(util_clock_now() - start < 4 * SECOND);
    json_decref(d);
}

static void answer_nothing(int fd, const struct net_msg *request)
{
    char byte;

    (void)request;
    FAKE_CHECK(read(fd, &byte, 1) == 0);
}

static void answer_close(int fd, const struct net_msg *request)
{
    (void)fd;
    (void)request;
}

static void answer_refusal(int fd, const struct net_msg *request)
{
    (void)request;
    fake_member_done(fd, EINVAL);
}

static void answer_huge(int fd, const struct net_msg *request)
{
    (void)request;
    fake_member_raw(fd, "\xff\xff\xff\x7f", 4);
}

static void answer_garbage(int fd, const struct net_msg *request)
{
    (void)request;
    fake_member_raw(fd, "\x05\0\0\0\xee\xee\xee\xee\xee", 9);
}

static void test_no_answer(void **state)
{
    (void)state;
    static const struct {
        fake_answer_fn answer;
        int error;
        const char *text;
    } cases[] = {
        {answer_nothing, ETIMEDOUT, "did not answer in time"},
        {answer_close, ECONNRESET, "left without an answer"},
        {answer_refusal, EINVAL, "could not answer"},
        {answer_huge, EPROTO, "another version"},
        {answer_garbage, EPROTONOSUPPORT, "another version"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_null(ASK(cases[i].answer, ALL, .first = SECOND / 10));
        assert_int_equal(last_errno, cases[i].error);
        if (!strstr(last_error, cases[i].text))
            fail_msg("case %zu: \"%s\"", i, last_error);
    }
}

static void test_connect(void **state)
{
    (void)state;
    struct dump_member member = {.uid = geteuid(), .rank = 9};

    snprintf(member.session, sizeof(member.session), "%s", session);
    assert_int_equal(dump_client_connect(&member, SECOND, NULL), -1);
    assert_int_equal(errno, ECONNREFUSED);

    /* somebody who listens under the name of another user is not talked to */
    struct fake_member *fake = fake_member_start(session, 9, answer_close);
    int fd = dump_client_connect(&member, SECOND, NULL);
    assert_true(fd >= 0);
    close(fd);
    fake_member_stop(fake);
}

static void answer_broken(int fd, const struct net_msg *request)
{
    (void)request;
    fake_member_page(fd, 1, "{\"rank\":8000000,\"nranks\":16000000,\"entries\":[1]}", 1);
    fake_member_page(fd, 1, "{\"rank\":0,\"nranks\":16000000,\"entries\":[2]}", 0);
    fake_member_page(fd, 0, "{\"rank\":0,\"nranks\":4}", 0);
    fake_member_page(fd, 2, "{\"rank\":2,\"nranks\":4}", 0);
    fake_member_done(fd, 0);
}

static void answer_broken_one(int fd, const struct net_msg *request)
{
    (void)request;
    fake_member_page(fd, 1, "{\"rank\":1,\"nranks\":16000000}", 0);
    fake_member_page(fd, 0, "{\"rank\":0,\"nranks\":3}", 0);
    fake_member_done(fd, 0);
}

/* A rank that is broken says that it is another one, and that there are millions. */
static void test_broken(void **state)
{
    (void)state;
    json_t *d = ASK(answer_broken, ALL);

    assert_non_null(d);
    assert_int_equal(size_of(d, "shards"), 3);
    assert_int_equal(size_of(d, "unreachable"), 1);
    expect_unreachable(d, 0, 3, "did not answer");
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(json_integer_value(json_object_get(shard(d, i), "rank")), i);
    assert_int_equal(size_of(shard(d, 1), "entries"), 2);
    json_decref(d);
    d = ASK(answer_broken_one, ALL); /* against one */
    assert_non_null(d);
    assert_int_equal(size_of(d, "unreachable"), 1);
    expect_unreachable(d, 0, 2, "did not answer");
    json_decref(d);
}

/* Many ranks: the order, and no quadratic time. */
static void answer_many(int fd, const struct net_msg *request)
{
    char json[64];

    (void)request;
    for (int rank = 4999; rank >= 0; rank--) {
        snprintf(json, sizeof(json), "{\"rank\":%d,\"nranks\":5000}", rank);
        fake_member_page(fd, (uint32_t)rank, json, 0);
    }
    fake_member_done(fd, 0);
}

static void test_many(void **state)
{
    (void)state;
    json_t *d = ASK(answer_many, ALL, .timeout = 30 * SECOND);

    assert_non_null(d);
    assert_int_equal(size_of(d, "shards"), 5000);
    for (size_t i = 0; i < 5000; i++)
        assert_int_equal(json_integer_value(json_object_get(shard(d, i), "rank")), i);
    json_decref(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scan),         cmocka_unit_test(test_all),
        cmocka_unit_test(test_pages),        cmocka_unit_test(test_unreachable),
        cmocka_unit_test(test_ended),        cmocka_unit_test(test_one_rank),
        cmocka_unit_test(test_no_such_rank), cmocka_unit_test(test_death),
        cmocka_unit_test(test_hang),         cmocka_unit_test(test_no_answer),
        cmocka_unit_test(test_connect),      cmocka_unit_test(test_many),
        cmocka_unit_test(test_broken),
    };

    snprintf(session, sizeof(session), "unit-client-%d", (int)getpid());
    return cmocka_run_group_tests_name("tools/dump_client", tests, NULL, NULL);
}
