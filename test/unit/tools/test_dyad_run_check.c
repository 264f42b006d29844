/*
 * test_dyad_run_check.c - dyad-run --check: what is said of directories and files by their modes, and that nothing is made
 *
 * Other users' are in security/check.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "spawn.h"

static char tree[64];
static struct spawn_result result;

#define NO_ORDER "ASAN_OPTIONS=verify_asan_link_order=0:detect_leaks=0"
#define ENV(...)                                                                          \
    ((char *const[]){"PATH=/usr/bin:/bin", NO_ORDER, "UCX_NET_DEVICES=lo", ##__VA_ARGS__, \
                     NULL})
#define RUN(...)  spawn_run(&result, ARGS(__VA_ARGS__), ENV())
#define ARGS(...) ((char *const[]){DYAD_RUN, "--check", ##__VA_ARGS__, NULL})

static void expect(int status, const char *out)
{
    if (result.status != status || (out && !strstr(result.out, out)))
        fail_msg("status %d (expected %d), expected \"%s\"\nout: %s\nerr: %s",
                 result.status, status, out ? out : "", result.out, result.err);
}

/* One of some buffers. */
static char *in_tree(const char *name)
{
    static char paths[16][256];
    static unsigned next;
    char *path = paths[next++ % 16];

    snprintf(path, sizeof(paths[0]), "%s/%s", tree, name);
    return path;
}

static char *make_dir(const char *name, mode_t mode)
{
    char *path = in_tree(name);

    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(chmod(path, mode), 0);
    return path;
}

static char *make_file(const char *name, mode_t mode)
{
    char *path = in_tree(name);
    int fd = open(path, O_CREAT | O_WRONLY, 0600);

    assert_true(fd >= 0);
    assert_int_equal(fchmod(fd, mode), 0);
    close(fd);
    return path;
}

static int set_up(void **state)
{
    (void)state;
    snprintf(tree, sizeof(tree), "/tmp/test-dyad-run-check.XXXXXX");
    return mkdtemp(tree) ? 0 : -1;
}

static int tear_down(void **state)
{
    char command[128];

    (void)state;
    snprintf(command, sizeof(command), "rm -rf '%s'", tree);
    return system(command);
}

static void test_managed(void **state)
{
    char *dmd = make_dir("dmd", 0700), *open = make_dir("open", 0777), line[300];
    struct stat st;

    (void)state;
    RUN("--dmd", dmd);
    snprintf(line, sizeof(line), "ok: DYAD_PATH=%s\n", dmd);
    expect(0, line);
    assert_null(strstr(result.out, "unsafe"));
    assert_int_equal(stat(in_tree("dmd/.dyad"), &st), -1);

    chmod(dmd, 0755);
    RUN("--dmd", dmd);
    expect(0, "(others may read in it what its mode lets them)");
    chmod(dmd, 0757);
    RUN("--dmd", dmd);
    expect(1, "other users can write in it (mode 0757)");
    chmod(dmd, 0700);

    make_dir("dmd/.dyad", 0701);
    RUN("--dmd", dmd);
    expect(1, "/dmd/.dyad: it is open to others (mode 0701): chmod 700 ");
    chmod(in_tree("dmd/.dyad"), 0700);
    RUN("--dmd", dmd);
    expect(0, "/dmd/.dyad\n");
    rmdir(in_tree("dmd/.dyad"));
    make_file("dmd/.dyad", 0600);
    RUN("--dmd", dmd);
    expect(1, "/dmd/.dyad: it is no directory");
    unlink(in_tree("dmd/.dyad"));

    /* above it, where no sticky bit keeps others from moving it; by its own path, or by a link */
    char *below = make_dir("open/dmd", 0700), *link = in_tree("link");
    snprintf(line, sizeof(line),
             "other users can move it away and put another in its place, for %s is of user "
             "%u, mode 0777",
             open, (unsigned)geteuid());
    RUN("--dmd", below);
    expect(1, line);
    assert_int_equal(symlink(below, link), 0);
    RUN("--dmd", link);
    expect(1, line);
    char *open_link = in_tree("open/link");
    assert_int_equal(symlink(dmd, open_link), 0);
    RUN("--dmd", open_link);
    expect(1, line);
    chmod(open, 01777);
    RUN("--dmd", below);
    expect(0, "ok: ");

    RUN("--dmd", in_tree("none"));
    expect(1, "no such directory");
    RUN("--mkdir", "--dmd", in_tree("none"));
    assert_int_equal(stat(in_tree("none"), &st), -1);
    RUN("--producer", dmd, "--consumer", in_tree("none"));
    expect(1, "ok: DYAD_PATH_PRODUCER=");
    expect(1, ": DYAD_PATH_CONSUMER=");
    RUN();
    expect(0, "not looked at: a managed directory");
}

static void test_session_dir(void **state)
{
    char *open = make_dir("shared", 0777), *mine = make_dir("shared/mine", 0700);
    struct stat st;

    (void)state;
    RUN("--session-dir", mine);
    expect(1, "DYAD_SESSION_DIR=");
    expect(1, "other users can move it away");
    RUN("--session-dir", in_tree("shared/yet"));
    expect(1, "other users can move it away");
    chmod(open, 0755);
    RUN("--session-dir", mine);
    expect(0, "ok: DYAD_SESSION_DIR=");
    RUN("--session-dir", in_tree("shared/yet"));
    expect(0, "ok: DYAD_SESSION_DIR=");
    assert_int_equal(stat(in_tree("shared/yet"), &st), -1);
    chmod(mine, 0711);
    RUN("--session-dir", mine);
    expect(1, "must be yours and closed to others");
}

static void test_log(void **state)
{
    char *log = make_file("log", 0600), *fifo = in_tree("fifo"),
         *link = in_tree("log.link");
    struct stat st;

    (void)state;
    RUN("--log-file", log);
    expect(0, "ok: DYAD_LOG_FILE=");
    RUN("--log-file", in_tree("log.new"));
    expect(0, "ok: DYAD_LOG_FILE=");
    assert_int_equal(stat(in_tree("log.new"), &st), -1);
    RUN("--log-file", "/dev/stderr");
    expect(0, "ok: DYAD_LOG_FILE=");
    RUN("--log-file", "/dev/null");
    expect(0, "ok: DYAD_LOG_FILE=");
    chmod(log, 0640);
    RUN("--log-file", log);
    if (strstr(result.out, "unsafe")) /* the group may be this user's own */
        expect(1, "others can read or change it (mode 0640)");
    chmod(log, 0604);
    RUN("--log-file", log);
    expect(1,
           "others can read or change it (mode 0604), and names of your files are in it: "
           "chmod 600 ");

    assert_int_equal(mkfifo(fifo, 0600), 0);
    RUN("--log-file", fifo);
    expect(
        1,
        "cannot be written: it is neither a file nor a terminal: take a file of your own");
    /* and no program is started with it */
    spawn_run(&result,
              (char *const[]){DYAD_RUN, "--dmd", tree, "--log-file", fifo, "true", NULL},
              ENV());
    expect(125, NULL);
    assert_non_null(strstr(result.err, "it is neither a file nor a terminal"));
    assert_int_equal(symlink("log", link), 0);
    RUN("--log-file", link);
    expect(1, "it is a symbolic link to a relative path");
}

static void test_variables(void **state)
{
    (void)state;
    spawn_run(&result, ARGS(), ENV("DYAD_PORT_GUARD=0"));
    expect(1, "DYAD_PORT_GUARD=0: whoever reaches");
    spawn_run(&result, ARGS(), ENV("DYAD_INTEGRITY=0"));
    expect(1, "DYAD_INTEGRITY=0: who can change");
    RUN();
    expect(0, "ok: UCX listens on no public address");
}

static void test_usage(void **state)
{
    (void)state;
    RUN("true");
    expect(2, NULL);
    RUN("--serve");
    expect(2, NULL);
    RUN("--timeout", "soon");
    expect(2, NULL);
    RUN("--no-such-option");
    expect(2, NULL);
    spawn_run(&result, (char *const[]){DYAD_RUN, "--dmd", "relative", "--check", NULL},
              ENV());
    expect(2, NULL);
    spawn_run(&result, ARGS(), ENV("DYAD_KEY_BINS=1"));
    expect(2, NULL);
    /* the program's own option */
    spawn_run(&result, (char *const[]){DYAD_RUN, "no-such-program", "--check", NULL},
              ENV());
    expect(125, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_managed), cmocka_unit_test(test_session_dir),
        cmocka_unit_test(test_log),     cmocka_unit_test(test_variables),
        cmocka_unit_test(test_usage),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
