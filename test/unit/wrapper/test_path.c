/*
 * test_path.c - one upath for one file, whatever way leads to it
 *
 * The judge of a random path is the kernel: the directory is opened and its name read from
 * /proc/self/fd. path_find.c is linked into this program.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "wrapper/path_find.h"
#include "wrapper/phase.h"

bool wrapper_owner_is_self(void)
{
    return true;
}

static char top[256];

static const char *at(const char *name)
{
    static char texts[8][PATH_MAX];
    static unsigned next;
    char *text = texts[next++ % 8];

    snprintf(text, PATH_MAX, "%s/%s", top, name);
    return text;
}

static void make_dir(const char *name)
{
    assert_int_equal(mkdir(at(name), 0755), 0);
}

static void make_link(const char *target, const char *name)
{
    if (unlink(at(name)) < 0)
        assert_int_equal(errno, ENOENT);
    assert_int_equal(symlink(target, at(name)), 0);
    wrapper_path_changed();
}

static void set_path(const char *dir, bool relative)
{
    char text[PATH_MAX + 16];
    char *env[] = {text, relative ? (char *)(uintptr_t) "DYAD_PATH_RELATIVE=1" : NULL,
                   NULL};

    snprintf(text, sizeof(text), "DYAD_PATH=%s", at(dir));
    assert_true(wrapper_path_setup(env));
    wrapper_path_changed();
    wrapper_path_cwd_changed();
}

static int set_up(void **state)
{
    const char *tmp = getenv("TMPDIR");
    char real[PATH_MAX];

    (void)state;
    snprintf(top, sizeof(top), "%s/dyad-path-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    assert_non_null(mkdtemp(top));
    assert_non_null(realpath(top, real));
    assert_true(strlen(real) < sizeof(top));
    strcpy(top, real);
    make_dir("dmd");
    make_dir("dmd/sub");
    make_dir("dmd/sub/deep");
    make_dir("dmd/.dyad");
    make_dir("out");
    make_dir("out/dir");
    assert_int_equal(close(open(at("dmd/sub/file"), O_CREAT | O_WRONLY, 0600)), 0);
    assert_int_equal(close(open(at("out/file"), O_CREAT | O_WRONLY, 0600)), 0);
    make_link(at("dmd"), "alias");
    make_link(at("dmd/sub"), "out/data");    /* from outside to below */
    make_link("data", "out/data2");          /* by way of another link */
    make_link("../out/dir", "dmd/away");     /* from inside to outside */
    make_link("sub/deep", "dmd/inner");      /* inside */
    make_link(at("dmd/sub/file"), "out/fl"); /* files */
    make_link("sub/file", "dmd/fl");
    make_link("nowhere/f", "dmd/dangling");
    make_link(at("dmd/gone"), "out/dangling");
    make_link("loop", "out/loop");
    set_path("dmd", false);
    assert_int_equal(chdir(top), 0);
    return 0;
}

static int tear_down(void **state)
{
    char command[PATH_MAX];

    (void)state;
    assert_int_equal(chdir("/"), 0);
    snprintf(command, sizeof(command), "rm -rf '%s'", top);
    return system(command);
}

static void check(int dirfd, const char *path, unsigned how, const char *upath)
{
    struct wrapper_path where;

    /* Twice: what was remembered must not change the answer. */
    for (int i = 0; i < 2; i++) {
        errno = 77;
        bool found = wrapper_path_find_as(dirfd, path, how, &where);
        assert_int_equal(errno, 77);
        if (found != !!upath || (found && strcmp(wrapper_path_upath(&where), upath) != 0))
            fail_msg("%s: \"%s\", not \"%s\"", path,
                     found ? wrapper_path_upath(&where) : "-", upath ? upath : "-");
        if (wrapper_path_elsewhere(dirfd, path, how))
            assert_null(upath);
    }
}

enum { F = WRAPPER_PATH_FOLLOW, A = WRAPPER_PATH_FOLLOW_ALL, D = WRAPPER_PATH_DIR };

static const struct {
    const char *path; /* %: what top is */
    unsigned how;
    const char *upath;
} paths[] = {
    {"%/dmd/f", 0, "f"},
    {"%/dmd//sub/./f", 0, "sub/f"},
    {"%//dmd/sub/../f", 0, "f"},
    {"/..%/./dmd/sub/f", 0, "sub/f"},
    {"%/dmdx/f", 0, NULL},
    {"%/dmd", 0, NULL},
    {"%/dmd", D, ""},
    {"%/dmd/", D, ""},
    {"%/out/../dmd/.", D, ""},
    {"%/alias", D | A, ""},
    {"%/alias/", D, ""},
    {"%/dmd/sub/", 0, NULL},
    {"%/dmd/sub/", D, "sub"},
    {"%/dmd/sub/deep/..", D, "sub"},
    {"%/dmd/sub/deep/..", 0, NULL},
    {"%/dmd/..", D, NULL},
    {"%/dmd/.dyad", 0, NULL},
    {"%/dmd/.dyad/f", 0, NULL},
    {"%/dmd/.dyadic", 0, ".dyadic"},
    {"%/dmd/new/er/f", 0, "new/er/f"}, /* absent */
    {"%/dmd/new/../f", 0, "f"},
    {"%/alias/f", 0, "f"},
    {"%/alias/sub/../../out/data/f", 0, "sub/f"},
    {"%/out/data/f", 0, "sub/f"},
    {"%/out/data2/new/f", 0, "sub/new/f"},
    {"%/out/data/../f", 0, "f"}, /* as text it would be out/f */
    {"%/out/data/../../out/f", 0, NULL},
    {"%/out/f", 0, NULL},
    {"%/out/none/f", 0, NULL},
    {"%/out/none/../data/f", 0, NULL}, /* the real call says ENOENT */
    {"%/out/loop/f", 0, NULL},
    {"%/dmd/away/f", 0, NULL},
    {"%/dmd/away/../f", 0, NULL},
    {"%/dmd/away/../data/f", 0, "sub/f"},
    {"%/dmd/inner/f", 0, "sub/deep/f"},
    {"%/dmd/inner/../f", 0, "sub/f"},
    {"%/dmd/fl", 0, "fl"},
    {"%/dmd/fl", F, "sub/file"},
    {"%/dmd/dangling", F, "nowhere/f"},
    {"%/dmd/away", F, NULL},
    {"%/dmd/away", 0, "away"},
    {"%/out/fl", 0, NULL},
    {"%/out/fl", F, NULL},
    {"%/out/fl", A, "sub/file"},
    {"%/out/dangling", A, "gone"},
    {"%/out/data/file", A, "sub/file"},
    {"%/out/data", A, "sub"},
    {"%/out/file", A, NULL},
    {"%/out/new", A, NULL},
    {"f", 0, NULL},
    {"out/data/f", 0, "sub/f"},
    {"dmd/f", 0, "f"},
    {"./dmd/sub/../f", 0, "f"},
    {"out/fl", A, "sub/file"},
    {"alias/f", 0, "f"},
    {"", 0, NULL},
    {"/", D, NULL},
    {"/", 0, NULL},
    {"/usr/bin/env", 0, NULL},
    {"/usr/bin/../bin/env", A, NULL},
    {"/proc/self/stat", F, NULL},
    {"/dev/null", A, NULL},
};

static void expand(char *out, const char *text)
{
    for (; *text; text++) {
        if (*text == '%')
            out = stpcpy(out, top);
        else
            *out++ = *text;
    }
    *out = '\0';
}

static void test_table(void **state)
{
    static const char *const dmds[] = {"dmd", "alias", "out/../dmd", "dmd/sub/deep/../.."};
    char path[PATH_MAX];

    (void)state;
    for (size_t d = 0; d < sizeof(dmds) / sizeof(dmds[0]); d++) {
        set_path(dmds[d], false);
        for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
            expand(path, paths[i].path);
            check(AT_FDCWD, path, paths[i].how, paths[i].upath);
        }
    }
    assert_true(wrapper_path_elsewhere(AT_FDCWD, NULL, 0));
    set_path("dmd", false);
    check(AT_FDCWD, at("alias"), D, NULL); /* the link itself */
}

static void change_dir(const char *to)
{
    assert_int_equal(chdir(at(to)), 0);
    wrapper_path_cwd_changed();
}

static void test_cwd(void **state)
{
    (void)state;
    change_dir("out/data"); /* through a link */
    check(AT_FDCWD, "f", 0, "sub/f");
    check(AT_FDCWD, "../f", 0, "f");
    check(AT_FDCWD, "../../out/f", 0, NULL);
    check(AT_FDCWD, ".", D, "sub");
    check(AT_FDCWD, "..", D, "");
    change_dir("out");
    check(AT_FDCWD, "f", 0, NULL);
    check(AT_FDCWD, "f", A, NULL);
    check(AT_FDCWD, "dir/f", 0, NULL);
    assert_true(wrapper_path_elsewhere(AT_FDCWD, "dir/f", 0));
    check(AT_FDCWD, "data/f", 0, "sub/f");
    check(AT_FDCWD, "dir/../data/f", 0, "sub/f");
    check(AT_FDCWD, "fl", A, "sub/file");
    check(AT_FDCWD, "../dmd", D, "");
    change_dir("out/dir");
    check(AT_FDCWD, "../data/f", 0, "sub/f");
    check(AT_FDCWD, "../dir/f", 0, NULL);
    change_dir(".");
}

static void test_descriptors(void **state)
{
    int sub = open(at("out/data"), O_RDONLY | O_DIRECTORY), out = open(at("out"), O_PATH);
    int file = open(at("dmd/sub/file"), O_RDONLY), gone;
    struct wrapper_path where;
    char path[64];

    (void)state;
    check(sub, "f", 0, "sub/f");
    check(sub, "../inner/f", 0, "sub/deep/f");
    check(out, "f", 0, NULL);
    check(out, "dir/f", 0, NULL);
    check(out, "data/f", 0, "sub/f");
    check(out, "../dmd/f", 0, "f");
    check(out, "data", D, NULL);
    check(out, "data", D | A, "sub");
    check(99, "f", 0, NULL);
    check(file, "f", 0, NULL);
    check(-5, "f", 0, NULL);
    check(sub, at("out/f"), 0, NULL);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
    check(AT_FDCWD, path, 0, NULL);
    check(AT_FDCWD, path, F, "sub/file");
    snprintf(path, sizeof(path), "/dev/fd/%d", file);
    check(AT_FDCWD, path, F, "sub/file");
    snprintf(path, sizeof(path), "/proc/self/fd/%d/new", sub);
    check(AT_FDCWD, path, 0, "sub/new");
    assert_int_equal(dup2(out, sub), sub); /* the number means another directory now */
    check(AT_FDCWD, path, 0, NULL);
    check(sub, "f", 0, NULL);
    /* A name that is no more. */
    gone = open(at("dmd/sub/gone"), O_RDWR | O_CREAT, 0600);
    assert_true(wrapper_path_find_fd(gone, &where));
    assert_string_equal(wrapper_path_upath(&where), "sub/gone");
    assert_int_equal(unlink(at("dmd/sub/gone")), 0);
    assert_false(wrapper_path_find_fd(gone, &where));
    snprintf(path, sizeof(path), "/dev/fd/%d", gone);
    check(AT_FDCWD, path, F, NULL);
    /* ... and one that only looks so. */
    close(gone);
    gone = open(at("dmd/sub/x (deleted)"), O_RDWR | O_CREAT, 0600);
    assert_true(wrapper_path_find_fd(gone, &where));
    check(AT_FDCWD, path, F, "sub/x (deleted)");
    assert_int_equal(unlink(at("dmd/sub/x (deleted)")), 0);
    close(gone);
    close(sub);
    close(out);
    close(file);
}

static void test_relative(void **state)
{
    struct wrapper_path where;

    (void)state;
    set_path("dmd", true);
    change_dir("out");
    assert_true(wrapper_path_find(AT_FDCWD, "f", &where));
    assert_true(where.moved);
    assert_string_equal(where.text, at("dmd/f"));
    check(AT_FDCWD, "inner/f", 0, "sub/deep/f");
    check(AT_FDCWD, "file", 0, NULL); /* it is in the working directory */
    check(AT_FDCWD, "../x", 0, NULL); /* out of both */
    change_dir("dmd/sub");
    assert_true(wrapper_path_find(AT_FDCWD, "f", &where));
    assert_false(where.moved);
    assert_string_equal(wrapper_path_upath(&where), "sub/f");
    change_dir(".");
    set_path("dmd", false);
}

/* What comes while an open waits. */
static void test_again(void **state)
{
    struct wrapper_path where;

    (void)state;
    assert_true(wrapper_path_find_as(AT_FDCWD, at("dmd/late/f"), F, &where));
    assert_int_equal(wrapper_path_again(&where), WRAPPER_PATH_SAME);
    make_link("sub/deep", "dmd/late");
    assert_int_equal(wrapper_path_again(&where), WRAPPER_PATH_OTHER);
    assert_string_equal(wrapper_path_upath(&where), "sub/deep/f");
    make_link("../../late2", "dmd/sub/deep/f");
    assert_int_equal(wrapper_path_again(&where), WRAPPER_PATH_OTHER);
    assert_string_equal(wrapper_path_upath(&where), "late2");
    make_link(at("out/f"), "dmd/late2");
    assert_int_equal(wrapper_path_again(&where), WRAPPER_PATH_GONE);
    /* Links in a ring are the real call's affair. */
    assert_true(wrapper_path_find_as(AT_FDCWD, at("dmd/ring"), F, &where));
    make_link("ring", "dmd/ring");
    assert_int_equal(wrapper_path_again(&where), WRAPPER_PATH_GONE);
    assert_int_equal(unlink(at("dmd/ring")) | unlink(at("dmd/late")) |
                         unlink(at("dmd/late2")) | unlink(at("dmd/sub/deep/f")),
                     0);
}

static void test_links_change(void **state)
{
    (void)state;
    check(AT_FDCWD, at("out/dir/f"), 0, NULL);
    assert_true(wrapper_path_elsewhere(AT_FDCWD, at("out/dir/f"), 0));
    assert_int_equal(rename(at("out/dir"), at("out/was")), 0);
    make_link(at("dmd/sub"), "out/dir");
    check(AT_FDCWD, at("out/dir/f"), 0, "sub/f");
    assert_int_equal(unlink(at("out/dir")), 0);
    assert_int_equal(rename(at("out/was"), at("out/dir")), 0);
    /* Another process does it: known for a second, or two. */
    check(AT_FDCWD, at("out/dir/f"), 0, NULL);
    assert_int_equal(rename(at("out/dir"), at("out/was")), 0);
    assert_int_equal(symlink(at("dmd/sub"), at("out/dir")), 0);
    for (int i = 0; wrapper_path_elsewhere(AT_FDCWD, at("out/dir/f"), 0); i++) {
        assert_true(i < 400);
        usleep(10000);
    }
    check(AT_FDCWD, at("out/dir/f"), 0, "sub/f");
    assert_int_equal(unlink(at("out/dir")), 0);
    assert_int_equal(rename(at("out/was"), at("out/dir")), 0);
    wrapper_path_changed();
}

/* --- random paths in a random tree --- */

static uint64_t seed = 0x2545f4914f6cdd1dull;

static unsigned pick(unsigned n)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (unsigned)((seed >> 11) % n);
}

static void random_path(char *out, const char *start)
{
    static const char *const parts[] = {"a",  "b", "c", "l",   "m",
                                        "..", ".", "",  "dmd", "out"};
    unsigned n = 1 + pick(6);

    out = stpcpy(out, start);
    for (unsigned i = 0; i < n; i++) {
        if (i > 0)
            *out++ = '/';
        out = stpcpy(out, parts[pick(sizeof(parts) / sizeof(parts[0]))]);
    }
    *out = '\0';
}

static void random_tree(void)
{
    static const char *const roots[] = {"dmd", "out"};
    char name[PATH_MAX], target[PATH_MAX], root[PATH_MAX];

    assert_int_equal(system("rm -rf a b c l m dmd out"), 0);
    make_dir("dmd");
    make_dir("out");
    for (int i = 0; i < 40; i++) {
        snprintf(root, sizeof(root), "%s/%s/", top, roots[pick(2)]);
        random_path(name, root);
        if (pick(2)) {
            if (mkdir(name, 0755) < 0)
                assert_true(errno == EEXIST || errno == ENOENT || errno == ENOTDIR ||
                            errno == ELOOP);
        } else {
            random_path(target, pick(2) ? root : "");
            if (target[0] && symlink(target, name) < 0)
                assert_true(errno == EEXIST || errno == ENOENT || errno == ENOTDIR ||
                            errno == ELOOP);
        }
    }
    wrapper_path_changed();
}

/* What the kernel makes of the directory; the upath, or NULL: elsewhere. False: it cannot
 * say, since the directory is not there. */
static bool judge(const char *path, char *upath, bool *is_below)
{
    char dir[PATH_MAX], link[64], real[PATH_MAX], *slash, full[2 * PATH_MAX];
    const char *base;
    size_t len = strlen(top);
    ssize_t n;
    int fd;

    snprintf(dir, sizeof(dir), "%s", path);
    slash = strrchr(dir, '/');
    base = slash ? path + (slash - dir) + 1 : path;
    if (slash)
        slash[1] = '\0';
    fd = open(slash ? dir : ".", O_PATH | O_DIRECTORY);
    if (fd < 0)
        return false;
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    n = readlink(link, real, sizeof(real) - 1);
    close(fd);
    assert_true(n > 0);
    real[n] = '\0';
    snprintf(full, sizeof(full), "%s/%s", real, base);
    *is_below = base[0] && strcmp(base, ".") && strcmp(base, "..") &&
                !strncmp(full, top, len) && !strncmp(full + len, "/dmd/", 5);
    snprintf(upath, PATH_MAX, "%s", *is_below ? full + len + 5 : "");
    return true;
}

static void test_random(void **state)
{
    char path[PATH_MAX], upath[PATH_MAX], root[PATH_MAX];
    struct wrapper_path where;
    unsigned judged = 0, below = 0;
    bool is_below;

    (void)state;
    change_dir(".");
    for (int tree = 0; tree < 100; tree++) {
        assert_int_equal(chdir(top), 0);
        random_tree();
        assert_int_equal(chdir(at(pick(2) ? "out" : ".")), 0);
        wrapper_path_cwd_changed();
        for (int i = 0; i < 300; i++) {
            snprintf(root, sizeof(root), "%s/", top);
            random_path(path, pick(2) ? root : "");
            if (!path[0] || !judge(path, upath, &is_below))
                continue;
            bool found = wrapper_path_find(AT_FDCWD, path, &where);
            if (found != is_below ||
                (found && strcmp(wrapper_path_upath(&where), upath) != 0))
                fail_msg("%s: \"%s\", not \"%s\"", path,
                         found ? wrapper_path_upath(&where) : "-", is_below ? upath : "-");
            judged++;
            below += is_below;
        }
    }
    print_message("%u paths judged, %u of them below\n", judged, below);
    assert_true(judged > 5000 && below > 300);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),       cmocka_unit_test(test_cwd),
        cmocka_unit_test(test_descriptors), cmocka_unit_test(test_relative),
        cmocka_unit_test(test_again),       cmocka_unit_test(test_links_change),
        cmocka_unit_test(test_random),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
