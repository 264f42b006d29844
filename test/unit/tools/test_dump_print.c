/*
 * test_dump_print.c - tables out of JSON
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dump_print.h"
#include "dump_text.h"
#include "sample.h"

#define DOCUMENT                                                        \
    "{\"session\":\"s\",\"shards\":[" SAMPLE_SHARD_0 "," SAMPLE_SHARD_1 \
    "],\"unreachable\":[{\"rank\":2,\"error\":\"gone\\u001b[2J\"}]}"

static char *print(int (*fn)(FILE *, const json_t *), const char *json)
{
    char *text = NULL;
    size_t len = 0;
    json_error_t error;
    json_t *document = json_loads(json, 0, &error);

    if (!document)
        fail_msg("%s", error.text);
    FILE *out = open_memstream(&text, &len);
    assert_int_equal(fn(out, document), 0);
    fclose(out);
    json_decref(document);
    return text;
}

static void expect(const char *text, const char *part)
{
    if (!text || !strstr(text, part))
        fail_msg("\"%s\" is not in:\n%s", part, text ? text : "(nothing)");
}

static void test_escape(void **state)
{
    (void)state;
    static const struct {
        const char *in, *out;
    } cases[] = {
        {"plain name", "plain name"},
        {"a\nb\tc\rd\033[1m\177", "a\\nb\\tc\\x0dd\\x1b[1m\\x7f"},
        {"back\\slash", "back\\\\slash"},
        {"na\303\257ve \346\227\245\346\234\254 \360\237\230\200",
         "na\303\257ve \346\227\245\346\234\254 \360\237\230\200"},
        {"\303", "\\xc3"},                            /* cut */
        {"\300\257", "\\xc0\\xaf"},                   /* overlong */
        {"\340\200\257", "\\xe0\\x80\\xaf"},          /* overlong */
        {"\355\240\200", "\\xed\\xa0\\x80"},          /* half of a surrogate pair */
        {"\364\220\200\200", "\\xf4\\x90\\x80\\x80"}, /* beyond U+10FFFF */
        {"\377\376", "\\xff\\xfe"},
        {"\302\233", "\\u009b"},         /* C1: CSI */
        {"a\342\200\256b", "a\\u202eb"}, /* right-to-left override */
        {"", ""},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct dump_text text = {0};
        dump_text_add_escaped(&text, cases[i].in, strlen(cases[i].in));
        char *out = dump_text_take(&text);
        assert_non_null(out);
        assert_string_equal(out, cases[i].out);
        free(out);
    }
    struct dump_text text = {0};
    dump_text_add_escaped(&text, "a\0b", 3);
    char *out = dump_text_take(&text);
    assert_string_equal(out, "a\\x00b");
    free(out);
}

/* Each line's columns begin where those of the heading do, or end there. */
static void expect_aligned(const char *text, const char *heading, const char *value)
{
    const char *first = strstr(text, heading), *second = strstr(text, value);

    assert_non_null(first);
    assert_non_null(second);
    size_t column = (size_t)(first - text);
    const char *line = second;
    while (line > text && line[-1] != '\n')
        line--;
    size_t at = (size_t)(second - line);
    if (at != column && at + strlen(value) != column + strlen(heading))
        fail_msg("%s is not below %s:\n%s", value, heading, text);
}

static void test_shards(void **state)
{
    (void)state;
    char *text = print(dump_print_shards, DOCUMENT);

    expect_aligned(text, "HOST", "n1");
    expect_aligned(text, "PID", "1001");
    expect_aligned(text, "SERVED", "123456789012");
    expect_aligned(text, "UPTIME", "12.5s");
    expect_aligned(text, "BINS", "256");
    expect(text, "running");
    assert_null(strstr(text, SAMPLE_BOOT)); /* of interest in JSON only */
    free(text);

    /* a name of the user's stays as it is */
    text = print(dump_print_shards, "{\"shards\":[{\"host\":\"rack1/n0\"}]}");
    expect(text, "rack1/n0");
    free(text);
}

static void test_entries(void **state)
{
    (void)state;
    char *text = print(dump_print_entries, DOCUMENT);

    expect_aligned(text, "HASH", "00112233aabbccdd/ffeeddccbbaa9988");
    expect_aligned(text, "BINS", "17/203");
    expect_aligned(text, "HOMES", "0,1");
    expect_aligned(text, "TYPE", "file");
    expect_aligned(text, "SIZE", "4096");
    expect_aligned(text, "VERSION", "7.0.1");
    expect_aligned(text, "STATE", "published");
    expect_aligned(text, "HOLDERS", "1,2");
    expect_aligned(text, "NAME", "step 1\n");
    free(text);
}

static void test_waiting(void **state)
{
    (void)state;
    char *text = print(dump_print_waiting, DOCUMENT);

    expect_aligned(text, "SINCE", "1:02:05");
    expect_aligned(text, "REASON", "not published");
    expect_aligned(text, "NAME", "d\\xff\\n\n");
    expect(text, "being written by pid 77");
    expect_aligned(text, "TIMEOUT", "60.0s");
    free(text);
}

static void test_key(void **state)
{
    (void)state;
    char *text = print(dump_print_key, DOCUMENT);

    expect(text, "name: step 1\n");
    expect(text, "level 0: hash 00112233aabbccdd, bin 17 of 256\n");
    expect(text, "level 1: hash ffeeddccbbaa9988, bin 203 of 256\n");
    expect(text,
           "home 0: rank 0 on n0: published, owner 0, type file, size 4096, mode 100644, "
           "modified ");
    expect(text,
           "version 7.0.1, copies at 1,2; written by rank 0, rank 3 (which has died); "
           "waited for by rank 2 for 0:03:20\n");
    expect(text, "home 1: rank 2: no answer\n");
    expect(text, "also at rank 1: published");
    expect(text, "waiting: pid 56 of rank 1 on n1 for 4.0s: being written by pid 77\n");
    assert_null(strstr(text, "pid 55"));
    expect(text,
           "file: on n0: 4096 bytes, older than what is published, open for writing by pid "
           "17; on record: 300 "
           "bytes in 3 ranges, of this node 100 bytes\n");
    assert_null(strstr(text, "file: on n1")); /* the same storage */
    expect(text, "lock: pid 17 of rank 0 on n0 has bytes 0 to 7, to write\n");
    expect(text,
           "lock: pid 18 of rank 1 on n1 has waited for 3.0s for bytes 4 to the end, to "
           "read, asked of rank 1\n");
    expect(text, "lock: pid 19 of rank 0 on n0 has the right to append\n");
    free(text);

    text = print(dump_print_key, "{\"shards\":[" SAMPLE_HEAD(0) ",\"key\":" SAMPLE_KEY(
                                     "null") "}],\"unreachable\":[]}");
    expect(text,
           "home 0: rank 0 on n0: not published; written by rank 0, rank 3 (which has "
           "died); waited for by rank 2");
    free(text);
    text = print(dump_print_key, "{\"shards\":[]}");
    expect(text, "no shard explained");
    free(text);
}

static int print_unreachable(FILE *out, const json_t *document)
{
    return dump_print_unreachable(out, document) == 1 ? 0 : -1;
}

static void test_unreachable(void **state)
{
    (void)state;
    char *text = print(print_unreachable, DOCUMENT);

    assert_string_equal(text, "rank 2: gone\\x1b[2J\n");
    free(text);
}

static int print_left(FILE *out, const json_t *document)
{
    dump_print_ended(out, document, "left");
    return 0;
}

static void test_ended(void **state)
{
    (void)state;
#define ENDED(rank, state) "{\"rank\":" #rank ",\"state\":\"" #state "\"}"
    char *text =
        print(print_left, "{\"ended\":[" ENDED(0, left) "," ENDED(2, left) "," ENDED(
                              3, left) "," ENDED(4, dead) "," ENDED(5, left) "]}");

    assert_string_equal(text, "left: rank 0, 2-3, 5\n");
    free(text);
    text = print(print_left, "{\"ended\":[" ENDED(4, dead) "]}");
    assert_string_equal(text, "");
    free(text);
}

/* A member of another version: nothing is where it was. */
static void test_odd(void **state)
{
    (void)state;
    static int (*const functions[])(FILE *, const json_t *) = {
        dump_print_shards, dump_print_entries, dump_print_waiting, dump_print_key};
    static const char *const documents[] = {
        "{}",
        "{\"shards\":5}",
        "{\"shards\":[5,null,[],{}]}",
        "{\"shards\":[{\"rank\":\"x\",\"pid\":null,\"uptime\":\"soon\",\"host\":\"\"}]}",
        "{\"shards\":[{\"entries\":[5,{}],\"waiting\":[null,{\"upath_hex\":\"6x\"}]}]}",
        "{\"shards\":[{\"entries\":[{\"hash\":7,\"bins\":{},\"version\":[]}]}]}",
        "{\"shards\":[{\"key\":{\"bins\":[1],\"homes\":[\"x\",{}],\"waiters\":[1],"
        "\"writers\":[2]}}]}",
    };

    for (size_t i = 0; i < sizeof(documents) / sizeof(documents[0]); i++)
        for (size_t j = 0; j < sizeof(functions) / sizeof(functions[0]); j++)
            free(print(functions[j], documents[i]));

    char *text = print(dump_print_shards, documents[3]);
    expect(text, "     -\n");
    free(text);
}

/* Files that were taken over, ranks that came back, and, only where members say so, which
 * launch they belong to. */
static void test_survivors(void **state)
{
    (void)state;
    char *text = print(dump_print_shards, "{\"shards\":[{\"rank\":3,\"incarnation\":2}]}");
    expect(text, "INC");
    assert_null(strstr(text, "LAUNCH"));
    free(text);
    text = print(dump_print_shards,
                 "{\"shards\":[{\"rank\":3,\"incarnation\":2},{\"rank\":4,"
                 "\"launch\":\"64a1\",\"launch_rank\":1}]}");
    expect(text, "LAUNCH");
    expect(text, "64a1.1");
    expect(text, "-.-");
    free(text);
    text =
        print(dump_print_entries,
              "{\"shards\":[{\"rank\":0,\"entries\":[{\"upath\":\"a\",\"owner\":3,"
              "\"taken_over\":true,\"version\":{\"counter\":1,\"rank\":1,"
              "\"incarnation\":0}},{\"upath\":\"b\",\"owner\":7,\"taken_over\":false}]}]}");
    expect(text, "  3 (from 1)  ");
    expect(text, "  7           ");
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_escape),  cmocka_unit_test(test_shards),
        cmocka_unit_test(test_entries), cmocka_unit_test(test_waiting),
        cmocka_unit_test(test_key),     cmocka_unit_test(test_unreachable),
        cmocka_unit_test(test_odd),     cmocka_unit_test(test_survivors),
        cmocka_unit_test(test_ended),
    };

    return cmocka_run_group_tests_name("tools/dump_print", tests, NULL, NULL);
}
