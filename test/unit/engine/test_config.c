/*
 * test_config.c - reading of the DYAD_* variables
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>

#include "config/config.h"
#include "util/log.h"

#define ENV(...) ((char *const[]){__VA_ARGS__, NULL})

static char err[512];

static void expect_ok(struct engine_config *config, char *const env[])
{
    err[0] = '\0';
    if (engine_config_read(config, env, err, sizeof(err)) < 0)
        fail_msg("%s", err);
}

/* The value is refused, and the message has each of the parts. */
static void expect_error(char *entry, const char *part1, const char *part2)
{
    struct engine_config config;

    err[0] = '\0';
    errno = 0;
    if (engine_config_read(&config, ENV(entry), err, sizeof(err)) == 0)
        fail_msg("%s was accepted", entry);
    assert_int_equal(errno, EINVAL);
    char *name = strndup(entry, strcspn(entry, "="));
    if (!strstr(err, name) || !strstr(err, part1) || !strstr(err, part2) ||
        !strstr(err, "allowed: "))
        fail_msg("%s: the message is \"%s\"", entry, err);
    free(name);
}

static void test_defaults(void **state)
{
    (void)state;
    struct engine_config c;

    expect_ok(&c, ENV("PATH=/bin", "DYADX=1", "HOME=/"));
    assert_null(c.path_producer);
    assert_null(c.path_consumer);
    assert_false(c.path_relative);
    assert_null(c.kvs_namespace);
    assert_int_equal(c.key_depth, 2);
    assert_int_equal(c.key_bins, 256);
    assert_int_equal(c.replicas, 2);
    assert_string_equal(c.dtl_mode, "UCX");
    assert_int_equal(c.shared_storage, -1);
    assert_false(c.async_publish || c.fsync_write || c.sync_debug || c.stats);
    assert_true(c.timeout == 0 && c.linger == -1);
    assert_string_equal(c.wait, "auto");
    assert_null(c.node);
    assert_null(c.session_dir);
    assert_null(c.net_devices);
    assert_int_equal(c.log_level, UTIL_LOG_WARN);
    assert_null(c.log_file);
    assert_true(c.join_timeout == 10 && c.peer_timeout == 5);
    assert_int_equal(c.chunk_size, 1 << 20);
    assert_int_equal(c.chunks, 4);
    assert_int_equal(engine_config_read(&c, NULL, err, sizeof(err)), 0);
    assert_int_equal(c.key_bins, 256);
}

static void test_paths(void **state)
{
    (void)state;
    struct engine_config c;

    expect_ok(&c, ENV("DYAD_PATH=/a"));
    assert_string_equal(c.path_producer, "/a");
    assert_string_equal(c.path_consumer, "/a");
    /* whatever the order of the environment */
    expect_ok(&c, ENV("DYAD_PATH_CONSUMER=/c", "DYAD_PATH=/a"));
    assert_string_equal(c.path_producer, "/a");
    assert_string_equal(c.path_consumer, "/c");
    expect_ok(&c, ENV("DYAD_PATH=/a", "DYAD_PATH_PRODUCER=/p"));
    assert_string_equal(c.path_producer, "/p");
    assert_string_equal(c.path_consumer, "/a");
    expect_ok(&c, ENV("DYAD_PATH_PRODUCER=/p"));
    assert_string_equal(c.path_producer, "/p");
    assert_null(c.path_consumer);
    expect_ok(&c, ENV("DYAD_PATH=/a", "DYAD_PATH_CONSUMER="));
    assert_string_equal(c.path_consumer, "/a");
    expect_ok(&c, ENV("DYAD_PATH=/first", "DYAD_PATH=/second"));
    assert_string_equal(c.path_producer, "/first");

    char *entry = "DYAD_LOG_FILE=/tmp/log";
    expect_ok(&c, ENV(entry));
    assert_ptr_equal(c.log_file, entry + strlen("DYAD_LOG_FILE="));

    expect_error("DYAD_PATH=ssd", "=ssd", "absolute");
    expect_error("DYAD_PATH=/", "=/:", "root");
    expect_error("DYAD_PATH_PRODUCER=//", "=//:", "root");
    expect_error("DYAD_SESSION_DIR=./x", "./x", "absolute");

    expect_ok(&c, ENV("DYAD_NET_DEVICES=ib0,mlx5_0:1"));
    assert_string_equal(c.net_devices, "ib0,mlx5_0:1");

    char longest[5000] = "DYAD_PATH=/";
    memset(longest + strlen(longest), 'x', 4094);
    expect_ok(&c, ENV(longest));
    strcat(longest, "x");
    expect_error(longest, "too long", "xxx...");
}

static void test_numbers(void **state)
{
    (void)state;
    struct engine_config c;

    expect_ok(&c, ENV("DYAD_KEY_DEPTH=16", "DYAD_KEY_BINS=65536", "DYAD_REPLICAS=8"));
    assert_int_equal(c.key_depth, 16);
    assert_int_equal(c.key_bins, 65536);
    assert_int_equal(c.replicas, 8);
    expect_ok(&c, ENV("DYAD_KEY_DEPTH=+1", "DYAD_KEY_BINS=2", "DYAD_REPLICAS=01"));
    assert_int_equal(c.key_depth, 1);
    assert_int_equal(c.replicas, 1);

    expect_error("DYAD_KEY_DEPTH=0", "=0", "1 to 16");
    expect_error("DYAD_KEY_DEPTH=17", "=17", "1 to 16");
    expect_error("DYAD_KEY_DEPTH=-1", "=-1", "1 to 16");
    expect_error("DYAD_KEY_DEPTH=2x", "=2x", "not a whole number");
    expect_error("DYAD_KEY_DEPTH= 2", "= 2", "not a whole number");
    expect_error("DYAD_KEY_DEPTH=-", "=-", "not a whole number");
    expect_error("DYAD_KEY_BINS=1", "=1", "2 to 65536");
    expect_error("DYAD_KEY_BINS=65537", "65537", "2 to 65536");
    expect_error("DYAD_KEY_BINS=18446744073709551617", "1844", "2 to 65536");
    expect_error("DYAD_REPLICAS=9", "=9", "1 to 8");
    expect_error("DYAD_CHUNKS=65", "=65", "1 to 64");
}

static void test_bytes(void **state)
{
    (void)state;
    struct engine_config c;
    static const struct {
        char *entry;
        int64_t bytes;
    } good[] = {
        {"DYAD_CHUNK_SIZE=65536", 65536},   {"DYAD_CHUNK_SIZE=64K", 65536},
        {"DYAD_CHUNK_SIZE=64k", 65536},     {"DYAD_CHUNK_SIZE=64KiB", 65536},
        {"DYAD_CHUNK_SIZE=3M", 3 << 20},    {"DYAD_CHUNK_SIZE=64MIB", 64 << 20},
        {"DYAD_CHUNK_SIZE=100001", 100001},
    };

    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        expect_ok(&c, ENV(good[i].entry));
        assert_int_equal(c.chunk_size, good[i].bytes);
    }
    expect_ok(&c, ENV("DYAD_INLINE_MAX=0"));
    assert_int_equal(c.inline_max, 0);
    expect_ok(&c, ENV("PATH="));
    assert_int_equal(c.inline_max, 4096);
    assert_string_equal(c.prefetch, "auto");
    assert_int_equal(c.prefetch_bytes, 1 << 30);
    expect_ok(&c, ENV("DYAD_PREFETCH=OFF", "DYAD_PREFETCH_BYTES=20M"));
    assert_string_equal(c.prefetch, "off");
    assert_int_equal(c.prefetch_bytes, 20 << 20);
    expect_ok(&c, ENV("DYAD_PREFETCH=frames/*.h5:*.png"));
    assert_string_equal(c.prefetch, "frames/*.h5:*.png");
    expect_error("DYAD_PREFETCH=/frames/*", "/frames/*", "relative");
    expect_error("DYAD_PREFETCH=on", "on", "auto");
    expect_error("DYAD_WAIT=1", "1", "none");
    expect_error("DYAD_CHUNK_SIZE=63K", "63K", "64K to 64M");
    expect_error("DYAD_CHUNK_SIZE=65M", "65M", "64K to 64M");
    expect_error("DYAD_CHUNK_SIZE=1G", "1G", "64K to 64M");
    expect_error("DYAD_CHUNK_SIZE=9999999999G", "out of range", "64K to 64M");
    expect_error("DYAD_CHUNK_SIZE=1MB", "1MB", "K, M or G");
    expect_error("DYAD_CHUNK_SIZE=M", "=M", "not a number of bytes");
    expect_error("DYAD_CHUNK_SIZE=-64K", "-64K", "not a number of bytes");
}

static void test_seconds(void **state)
{
    (void)state;
    struct engine_config c;

    expect_ok(&c, ENV("DYAD_TIMEOUT=1.5", "DYAD_LINGER=0", "DYAD_JOIN_TIMEOUT=.25"));
    assert_true(c.timeout == 1.5 && c.linger == 0);
    assert_true(c.join_timeout > 0.2499 && c.join_timeout < 0.2501);
    expect_ok(&c, ENV("DYAD_LINGER=job", "DYAD_TIMEOUT=3."));
    assert_true(c.linger == -1 && c.timeout == 3);
    expect_error("DYAD_LINGER=-1", "=-1", "job or seconds from 0");
    expect_error("DYAD_LINGER=forever", "forever", "job or seconds from 0");
    expect_error("DYAD_TIMEOUT=-1", "=-1", "seconds from 0");
    expect_error("DYAD_TIMEOUT=1e3", "1e3", "not a number of seconds");
    expect_error("DYAD_TIMEOUT=inf", "inf", "not a number of seconds");
    expect_error("DYAD_TIMEOUT=.", "=.", "not a number of seconds");
    expect_error("DYAD_TIMEOUT=1.5s", "1.5s", "not a number of seconds");
    expect_error("DYAD_TIMEOUT=2000000000", "2000000000", "1000000000");
    expect_error("DYAD_TIMEOUT=99999999999999999999", "999", "seconds from 0");
    expect_error("DYAD_PEER_TIMEOUT=0", "=0", "seconds from 0.1");

    /* the decimal point is one in every locale */
    if (setlocale(LC_ALL, "de_DE.UTF-8")) {
        expect_ok(&c, ENV("DYAD_TIMEOUT=1.5"));
        assert_true(c.timeout == 1.5);
        setlocale(LC_ALL, "C");
    }
}

static void test_words(void **state)
{
    (void)state;
    struct engine_config c;
    static const char *const yes[] = {"1", "on", "yes", "true", "ON", "True"};
    static const char *const no[] = {"0", "off", "no", "false", "Off"};
    char entry[64];

    for (size_t i = 0; i < sizeof(yes) / sizeof(yes[0]); i++) {
        snprintf(entry, sizeof(entry), "DYAD_ASYNC_PUBLISH=%s", yes[i]);
        expect_ok(&c, ENV(entry));
        assert_true(c.async_publish);
        snprintf(entry, sizeof(entry), "DYAD_SHARED_STORAGE=%s", yes[i]);
        expect_ok(&c, ENV(entry));
        assert_int_equal(c.shared_storage, 1);
    }
    for (size_t i = 0; i < sizeof(no) / sizeof(no[0]); i++) {
        snprintf(entry, sizeof(entry), "DYAD_FSYNC_WRITE=%s", no[i]);
        expect_ok(&c, ENV(entry, "DYAD_STATS=1"));
        assert_false(c.fsync_write);
        assert_true(c.stats);
        snprintf(entry, sizeof(entry), "DYAD_SHARED_STORAGE=%s", no[i]);
        expect_ok(&c, ENV(entry));
        assert_int_equal(c.shared_storage, 0);
    }
    expect_ok(&c, ENV("DYAD_SHARED_STORAGE=auto", "DYAD_LOG=error", "DYAD_DTL_MODE=ucx"));
    assert_int_equal(c.shared_storage, -1);
    assert_int_equal(c.log_level, UTIL_LOG_ERROR);
    assert_string_equal(c.dtl_mode, "UCX");
    expect_ok(&c, ENV("DYAD_LOG=info"));
    assert_int_equal(c.log_level, UTIL_LOG_INFO);
    expect_ok(&c, ENV("DYAD_LOG=error", "DYAD_SYNC_DEBUG=1"));
    assert_int_equal(c.log_level, UTIL_LOG_DEBUG);

    expect_error("DYAD_ASYNC_PUBLISH=2", "=2", "off");
    expect_error("DYAD_SHARED_STORAGE=maybe", "maybe", "auto");
    expect_error("DYAD_LOG=verbose", "verbose", "debug");
    expect_error("DYAD_DTL_MODE=MARGO", "MARGO", "UCX only");
    expect_error("DYAD_DTL_MODE=FLUX_RPC", "FLUX_RPC", "UCX only");
}

static void test_wait(void **state)
{
    (void)state;
    struct engine_config c;

    expect_ok(&c, ENV("A=b"));
    assert_string_equal(c.wait, "auto");
    assert_null(c.probes);
    expect_ok(&c, ENV("DYAD_PROBES=*.opt:tmp/*"));
    assert_string_equal(c.probes, "*.opt:tmp/*");
    expect_error("DYAD_PROBES=/a", "/a", "relative");
    expect_ok(&c, ENV("DYAD_WAIT=NONE"));
    assert_string_equal(c.wait, "none");
    expect_ok(&c, ENV("DYAD_WAIT=step-*.h5:final/*"));
    assert_string_equal(c.wait, "step-*.h5:final/*");
    expect_error("DYAD_WAIT=a::b", "a::b", "empty pattern");
    expect_error("DYAD_WAIT=:", "=:", "empty pattern");
    expect_error("DYAD_WAIT=a:", "a:", "empty pattern");
    expect_error("DYAD_WAIT=a:/b", "/b", "relative");
}

static void test_strings(void **state)
{
    (void)state;
    struct engine_config c;
    char entry[400] = "DYAD_NODE=";

    memset(entry + strlen(entry), 'n', 255);
    expect_ok(&c, ENV(entry));
    assert_int_equal(strlen(c.node), 255);
    strcat(entry, "n");
    expect_error(entry, "too long", "1 to 255");
    /* what came from the user does not reach the terminal raw */
    expect_error("DYAD_NODE=a\033[2Jb", "a\\x1b[2Jb", "control character");
    assert_null(strchr(err, '\033'));
}

static void test_set(void **state)
{
    (void)state;
    struct engine_config c;

    expect_ok(&c, ENV("DYAD_PATH_CONSUMER=/c"));
    assert_int_equal(engine_config_set(&c, "DYAD_PATH", "/a", err, sizeof(err)), 0);
    assert_string_equal(c.path_producer, "/a");
    assert_string_equal(c.path_consumer, "/a");
    assert_int_equal(engine_config_set(&c, "DYAD_KEY_BINS", "8", err, sizeof(err)), 0);
    assert_int_equal(c.key_bins, 8);
    assert_int_equal(engine_config_set(&c, "DYAD_KEY_BINS", "", err, sizeof(err)), 0);
    assert_int_equal(c.key_bins, 256);
    assert_int_equal(engine_config_set(&c, "DYAD_TURNS", "a:b", err, sizeof(err)), 0);
    assert_int_equal(engine_config_set(&c, "DYAD_TURNS", "", err, sizeof(err)), 0);
    assert_null(c.turns);
    assert_int_equal(engine_config_set(&c, "DYAD_PATH", NULL, err, sizeof(err)), 0);
    assert_null(c.path_producer);

    /* a refused value leaves the old one */
    assert_int_equal(engine_config_set(&c, "DYAD_KEY_BINS", "1", err, sizeof(err)), -1);
    assert_int_equal(errno, EINVAL);
    assert_int_equal(c.key_bins, 256);
    assert_int_equal(engine_config_set(&c, "DYAD_KEY_BIN", "4", err, sizeof(err)), -1);
    assert_non_null(strstr(err, "is it DYAD_KEY_BINS"));
    assert_int_equal(engine_config_set(&c, "", "4", err, sizeof(err)), -1);
}

static void test_small_buffer(void **state)
{
    (void)state;
    struct engine_config c;
    char tiny[8];

    memset(tiny, '#', sizeof(tiny));
    assert_int_equal(engine_config_read(&c, ENV("DYAD_LOG=x"), tiny, 6), -1);
    assert_string_equal(tiny, "DYAD_");
    assert_int_equal(tiny[6], '#');
    assert_int_equal(engine_config_read(&c, ENV("DYAD_LOG=x"), NULL, 0), -1);
}

static void test_unknown(void **state)
{
    (void)state;
    static const struct {
        char *entry;
        const char *name, *nearest;
    } cases[] = {
        {"DYAD_TIMOUT=1", "DYAD_TIMOUT", "DYAD_TIMEOUT"},
        {"DYAD_KEY_BIN=1", "DYAD_KEY_BIN", "DYAD_KEY_BINS"},
        {"DYAD_PATH_CONSUMR=/x", "DYAD_PATH_CONSUMR", "DYAD_PATH_CONSUMER"},
        {"DYAD_path=/x", "DYAD_path", "DYAD_PATH"},
        {"DYAD_SESSION=x", "DYAD_SESSION", "DYAD_SESSION_DIR"},
        {"DYAD_LOGFILE=x", "DYAD_LOGFILE", "DYAD_LOG_FILE"},
        {"DYAD_ZZZZZZZZ=1", "DYAD_ZZZZZZZZ", NULL},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char *const *env = ENV("A=b", "DYAD_PATH=/x", cases[i].entry, "DYAD_LOG=warn");
        size_t pos = 0;
        char name[64];
        const char *nearest = "unset";

        assert_true(engine_config_unknown(env, &pos, name, sizeof(name), &nearest));
        assert_string_equal(name, cases[i].name);
        if (cases[i].nearest) {
            assert_non_null(nearest);
            assert_string_equal(nearest, cases[i].nearest);
        } else {
            assert_null(nearest);
        }
        assert_false(engine_config_unknown(env, &pos, name, sizeof(name), &nearest));
    }

    /* not for people: from one of our processes to another */
    {
        char name[16];
        const char *nearest;
        size_t pos = 0;
        char *const *env = ENV("DYAD_GUEST_OF=0@job", "DYAD_SAID_ALONE=1");
        assert_false(engine_config_unknown(env, &pos, name, sizeof(name), &nearest));
    }

    /* several, and one far too long */
    char entry[300] = "DYAD_", name[16];
    const char *nearest;
    size_t pos = 0;
    memset(entry + 5, 'Q', 200);
    char *const *env = ENV(entry, "DYAD_LOG=info", "DYAD_LINGR=1");
    assert_true(engine_config_unknown(env, &pos, name, sizeof(name), &nearest));
    assert_int_equal(strlen(name), 15);
    assert_true(engine_config_unknown(env, &pos, name, sizeof(name), &nearest));
    assert_string_equal(nearest, "DYAD_LINGER");
    assert_false(engine_config_unknown(env, &pos, name, sizeof(name), &nearest));
}

static char *help_text(bool troff)
{
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);

    assert_non_null(out);
    engine_config_help(out, troff);
    fclose(out);
    return text;
}

static void test_help(void **state)
{
    (void)state;
    char *text = help_text(false);

    assert_non_null(strstr(text, "DYAD_KEY_BINS\n"));
    assert_non_null(strstr(text, "a whole number from 2 to 65536. Default: 256."));
    assert_non_null(strstr(text, "bytes from 64K to 64M"));
    assert_non_null(strstr(text, "job or seconds from 0 to"));
    assert_non_null(strstr(text, "auto, or 1, on"));
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
        if (!strstr(line, "    Value: "))
            assert_true(strlen(line) <= 82);
    free(text);

    text = help_text(true);
    assert_non_null(strstr(text, ".TP\n.B DYAD_PATH\n"));
    assert_non_null(strstr(text, "node\\-local"));
    /* no line is taken for a request that is none of ours */
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
        if (line[0] == '.' || line[0] == '\'')
            assert_true(!strcmp(line, ".TP") || !strcmp(line, ".br") ||
                        !strncmp(line, ".B ", 3));
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults), cmocka_unit_test(test_paths),
        cmocka_unit_test(test_numbers),  cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_seconds),  cmocka_unit_test(test_words),
        cmocka_unit_test(test_wait),     cmocka_unit_test(test_strings),
        cmocka_unit_test(test_set),      cmocka_unit_test(test_small_buffer),
        cmocka_unit_test(test_unknown),  cmocka_unit_test(test_help),
    };

    return cmocka_run_group_tests_name("engine/config", tests, NULL, NULL);
}
