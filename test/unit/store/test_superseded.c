/* store/superseded.h, and what comes in the place of such a file. */
#include "scratch.h"

#include <dirent.h>

#include "store/fetch.h"
#include "store/superseded.h"

#define SESSION 7

static struct scratch *scratch;

static int setup(void **state)
{
    if (scratch_setup(state) < 0)
        return -1;
    scratch = *state;
    return 0;
}

static struct stat look(const char *upath)
{
    struct stat st;

    assert_int_equal(store_dir_stat(scratch->dir, upath, &st), 0);
    return st;
}

static struct store_identity identity_of(const char *upath)
{
    struct store_identity identity;
    int fd = store_dir_open(scratch->dir, upath, O_PATH, 0);

    assert_true(fd >= 0);
    assert_int_equal(store_identity_read(fd, &identity), 0);
    close(fd);
    return identity;
}

static bool is(const char *upath)
{
    struct stat st = look(upath);
    bool is = store_superseded(store_dir_real_path(scratch->dir), SESSION, upath, STORE_OLD,
                               st.st_ino);

    if (is)
        assert_true(store_superseded_may(st.st_mode, st.st_nlink));
    return is;
}

static int links(void)
{
    char path[PATH_MAX];
    int n = 0;

    snprintf(path, sizeof(path), "%s/.dyad/old", scratch->path);
    DIR *dir = opendir(path);
    for (struct dirent *entry; dir && (entry = readdir(dir));)
        n += entry->d_name[0] != '.';
    if (dir)
        closedir(dir);
    return n;
}

static void test_marked(void **state)
{
    struct store_identity id;

    (void)state;
    scratch_write(scratch, "f", "old");
    assert_false(is("f"));
    store_superseded_clear(scratch->dir, SESSION, "f", STORE_OLD);
    id = identity_of("f");
    for (int i = 0; i < 2; i++) {
        assert_int_equal(
            store_superseded_set(scratch->dir, SESSION, "f", STORE_OLD_TOLD, &id), 0);
        assert_true(is("f"));
    }
    assert_int_equal(links(), 1);
    /* Of another session it is none. */
    assert_false(store_superseded(store_dir_real_path(scratch->dir), SESSION + 1, "f",
                                  STORE_OLD, look("f").st_ino));
    store_superseded_clear(scratch->dir, SESSION, "f", STORE_OLD);
    assert_false(is("f"));
    assert_int_equal(look("f").st_nlink, 1);
}

/* It is the file that is out of date under that name, and no other. */
static void test_other_file(void **state)
{
    char from[PATH_MAX], to[PATH_MAX];
    struct store_identity id, other;

    (void)state;
    scratch_write(scratch, "f", "old");
    scratch_write(scratch, "new", "new");
    id = identity_of("f");
    other = identity_of("new");
    assert_int_equal(
        store_superseded_set(scratch->dir, SESSION, "f", STORE_OLD_TOLD, &other), -1);
    assert_int_equal(errno, ESTALE);
    assert_int_equal(
        store_superseded_set(scratch->dir, SESSION, "none", STORE_OLD_TOLD, &id), -1);
    assert_int_equal(errno, ENOENT);
    assert_false(is("f"));
    assert_int_equal(store_superseded_set(scratch->dir, SESSION, "f", STORE_OLD_TOLD, &id),
                     0);
    snprintf(from, sizeof(from), "%s/f", scratch->path);
    snprintf(to, sizeof(to), "%s/second", scratch->path);
    assert_int_equal(link(from, to), 0);
    assert_true(is("f"));
    assert_false(is("second"));
    snprintf(to, sizeof(to), "%s/new", scratch->path);
    assert_int_equal(rename(to, from), 0);
    assert_false(is("f"));
    assert_int_equal(
        store_superseded_set(scratch->dir, SESSION, "f", STORE_OLD_TOLD, &other), 0);
    assert_true(is("f"));
    unlink(scratch_path(scratch, "second"));
    assert_int_equal(links(), 1);
}

/* Who takes back what it has set leaves what others have set. */
static void test_kinds(void **state)
{
    static const enum store_old kind[] = {STORE_OLD_TOLD, STORE_OLD_REFUSED, STORE_PENDING};
    const char *dmd = store_dir_real_path(scratch->dir);
    struct store_identity id;

    (void)state;
    scratch_write(scratch, "f", "old");
    id = identity_of("f");
    for (int i = 0; i < 3; i++)
        assert_int_equal(store_superseded_set(scratch->dir, SESSION, "f", kind[i], &id), 0);
    for (int i = 0; i < 3; i++) {
        store_superseded_clear(scratch->dir, SESSION, "f", kind[i]);
        for (int k = 0; k < 3; k++)
            assert_int_equal(store_superseded(dmd, SESSION, "f", kind[k], look("f").st_ino),
                             k > i);
        assert_int_equal(is("f"), i == 0);
    }
    assert_int_equal(look("f").st_nlink, 1);
}

/* The name was removed, and made again by who has not heard of its removal. */
static void test_forget(void **state)
{
    struct store_identity id;

    (void)state;
    scratch_write(scratch, "f", "old");
    id = identity_of("f");
    assert_int_equal(store_superseded_set(scratch->dir, SESSION, "f", STORE_OLD_TOLD, &id),
                     0);
    store_superseded_forget(scratch->dir, SESSION, "f");
    assert_true(is("f"));
    unlink(scratch_path(scratch, "f"));
    scratch_write(scratch, "f", "new");
    id = identity_of("f");
    assert_int_equal(
        store_superseded_set(scratch->dir, SESSION, "f", STORE_OLD_REFUSED, &id), 0);
    assert_int_equal(links(), 2);
    store_superseded_forget(scratch->dir, SESSION, "f");
    assert_true(is("f"));
    assert_int_equal(links(), 1);
    unlink(scratch_path(scratch, "f"));
    store_superseded_forget(scratch->dir, SESSION, "f");
    assert_int_equal(links(), 0);
}

static void test_clean(void **state)
{
    struct store_identity id;

    (void)state;
    for (int i = 0; i < 2; i++) {
        const char *upath = i ? "kept" : "gone";
        scratch_write(scratch, upath, "old");
        id = identity_of(upath);
        assert_int_equal(
            store_superseded_set(scratch->dir, SESSION, upath, STORE_OLD_TOLD, &id), 0);
    }
    unlink(scratch_path(scratch, "gone"));
    store_superseded_clean(scratch->dir, SESSION, false);
    assert_int_equal(links(), 1);
    assert_true(is("kept"));
    store_superseded_clean(scratch->dir, SESSION + 1, true);
    assert_true(is("kept"));
    store_superseded_clean(scratch->dir, SESSION, true);
    assert_int_equal(links(), 0);
}

/* --- what comes in its place --- */

static struct store_fetch *fetch(const char *text)
{
    struct dyad_entry entry = {.upath = "f",
                               .state = DYAD_ENTRY_PUBLISHED,
                               .mode = S_IFREG | 0640,
                               .mtime_sec = 1000,
                               .size = strlen(text)};
    struct store_fetch *fetch = store_fetch_begin(scratch->dir, &entry);

    assert_non_null(fetch);
    assert_int_equal(store_fetch_write(fetch, 0, text, strlen(text)), 0);
    return fetch;
}

static const char *scratch_read(struct scratch *s, const char *upath)
{
    static char text[64];
    int fd = open(scratch_path(s, upath), O_RDONLY);
    ssize_t n = read(fd, text, sizeof(text) - 1);

    assert_true(n >= 0);
    text[n] = '\0';
    close(fd);
    return text;
}

static bool kept;
static unsigned asked;

static bool keep(void *arg)
{
    /* The new one is in its place already. */
    assert_string_equal(scratch_read(scratch, "f"), arg);
    asked++;
    return kept;
}

static int temporaries(void)
{
    char path[PATH_MAX];
    int n = 0;

    snprintf(path, sizeof(path), "%s/.dyad/tmp", scratch->path);
    DIR *dir = opendir(path);
    for (struct dirent *entry; dir && (entry = readdir(dir));)
        n += entry->d_name[0] != '.';
    if (dir)
        closedir(dir);
    return n;
}

/* While it is decided another program renames a file to the name. */
static bool keep_renamed(void *arg)
{
    char third[PATH_MAX + 128];

    (void)arg;
    scratch_write(scratch, "third", "third");
    snprintf(third, sizeof(third), "%s", scratch_path(scratch, "third"));
    assert_int_equal(rename(third, scratch_path(scratch, "f")), 0);
    return true;
}

static void test_renamed_over(void **state)
{
    struct store_identity old;

    (void)state;
    scratch_write(scratch, "f", "old");
    old = identity_of("f");
    assert_int_equal(
        store_fetch_commit_over(fetch("new"), NULL, &old, keep_renamed, NULL, NULL), -1);
    assert_int_equal(errno, EEXIST);
    assert_string_equal(scratch_read(scratch, "f"), "third");
    assert_int_equal(temporaries(), 0);
}

static void test_replaced(void **state)
{
    struct store_identity old, new;

    (void)state;
    asked = 0;
    scratch_write(scratch, "f", "old");
    old = identity_of("f");
    kept = true;
    errno = 0;
    assert_int_equal(store_fetch_commit_over(fetch("new"), NULL, &old, keep, "new", &new),
                     -1);
    assert_int_equal(errno, EEXIST);
    assert_string_equal(scratch_read(scratch, "f"), "old");
    assert_int_equal(identity_of("f").ino, old.ino);
    kept = false;
    assert_int_equal(store_fetch_commit_over(fetch("new"), NULL, &old, keep, "new", &new),
                     0);
    assert_string_equal(scratch_read(scratch, "f"), "new");
    assert_int_equal(identity_of("f").ino, new.ino);
    assert_int_equal(look("f").st_mode & 0777, 0640);
    assert_int_equal(look("f").st_mtim.tv_sec, 1000);
    assert_int_equal(asked, 2);
    /* What lies there is another by now: that stays. */
    assert_int_equal(store_fetch_commit_over(fetch("newer"), NULL, &old, keep, "", &new),
                     -1);
    assert_int_equal(errno, EEXIST);
    assert_string_equal(scratch_read(scratch, "f"), "new");
    /* Nothing lies there. */
    unlink(scratch_path(scratch, "f"));
    assert_int_equal(store_fetch_commit_over(fetch("newer"), NULL, &old, keep, "", &new),
                     0);
    assert_string_equal(scratch_read(scratch, "f"), "newer");
    assert_int_equal(asked, 2);
    assert_int_equal(temporaries(), 0);
    /* Not all of it has come. */
    struct dyad_entry entry = {.upath = "f", .mode = S_IFREG | 0600, .size = 3};
    old = identity_of("f");
    assert_int_equal(store_fetch_commit_over(store_fetch_begin(scratch->dir, &entry), NULL,
                                             &old, keep, "", NULL),
                     -1);
    assert_int_equal(errno, EIO);
    assert_string_equal(scratch_read(scratch, "f"), "newer");
    assert_int_equal(temporaries(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_marked, setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(test_other_file, setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(test_kinds, setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(test_forget, setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(test_clean, setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(test_replaced, setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(test_renamed_over, setup, scratch_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
