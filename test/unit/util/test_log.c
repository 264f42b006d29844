/* util/log.h: what a line may be, and where it goes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/log.h"

static char dir[] = "/tmp/dyad-test-log.XXXXXX";
static char file[64], other[64];

static int setup(void **state)
{
    (void)state;
    strcpy(dir + strlen(dir) - 6, "XXXXXX");
    if (!mkdtemp(dir))
        return -1;
    snprintf(file, sizeof(file), "%s/log", dir);
    snprintf(other, sizeof(other), "%s/other", dir);
    util_log_setup(UTIL_LOG_INFO, file, "rank 3");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    util_log_setup(UTIL_LOG_WARN, NULL, NULL);
    unlink(file);
    unlink(other);
    return rmdir(dir);
}

/* What `path` has from its first colon and blank on. */
static const char *text_of(const char *path)
{
    static char text[8192];
    FILE *f = fopen(path, "r");
    size_t n;

    assert_non_null(f);
    n = fread(text, 1, sizeof(text) - 1, f);
    fclose(f);
    text[n] = '\0';
    return n == 0 ? text : strstr(text, ": ") + 2;
}

/* What util_log() writes to the standard error meanwhile is in `other`. */
static void line_to_stderr(const char *what)
{
    int saved = dup(2), fd = open(other, O_WRONLY | O_CREAT | O_TRUNC, 0600);

    assert_true(saved >= 0 && fd >= 0);
    dup2(fd, 2);
    log_info("%s", what);
    dup2(saved, 2);
    close(saved);
    close(fd);
}

static void test_file(void **state)
{
    struct stat st;

    (void)state;
    umask(022);
    log_info("one");
    log_debug("not this");
    errno = ENOENT;
    log_error("two: %m");
    assert_int_equal(errno, ENOENT);
    assert_int_equal(stat(file, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_non_null(strstr(text_of(file), "info: one\ndyad["));
    assert_non_null(strstr(text_of(file), "error: two: No such file or directory\n"));
    assert_null(strstr(text_of(file), "not this"));
}

/* Of a name that would move the cursor, or make a line of its own. */
static void test_escapes(void **state)
{
    (void)state;
    log_info("\"%s\" is here", "a\nb\033[2J\x7f\tc");
    assert_string_equal(text_of(file), "info: \"a\\x0ab\\x1b[2J\\x7f\\x09c\" is here\n");
    assert_int_equal(truncate(file, 0), 0);
    log_info("%s",
             "M\xc3\xbc\xc2\x9b"
             "1m \xc2\xa7");
    assert_string_equal(text_of(file),
                        "info: M\xc3\xbc\\xc2\\x9b"
                        "1m \xc2\xa7\n");
}

static void test_long(void **state)
{
    char name[6000];
    const char *text;

    (void)state;
    memset(name, 'x', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    log_info("%s", name);
    text = text_of(file);
    assert_non_null(strstr(text, "xxx...\n"));
    assert_int_equal(truncate(file, 0), 0);
    memset(name, '\n', sizeof(name) - 1);
    log_info("%s", name); /* all escaped */
    text = text_of(file);
    assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
    assert_non_null(strstr(text, "\\x0a\\x0a...\n"));
}

/* Another user has put a link there, to have a file of ours grow; or a FIFO, to have us wait. */
static void test_not_a_file(void **state)
{
    struct stat st;

    (void)state;
    int fd = open(other, O_WRONLY | O_CREAT, 0600);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(symlink(other, file), 0);
    log_info("to our link");
    assert_non_null(strstr(text_of(other), "info: to our link\n"));
    if (geteuid() == 0) {
        assert_int_equal(lchown(file, 1, 1), 0);
        assert_int_equal(truncate(other, 0), 0);
        log_info("to another's");
        assert_int_equal(stat(other, &st), 0);
        assert_int_equal(st.st_size, 0);
    }
    unlink(file);
    assert_int_equal(mkfifo(file, 0600), 0);
    line_to_stderr("to a FIFO");
    assert_non_null(strstr(text_of(other), "info: to a FIFO\n"));
    fd = open(file, O_RDONLY | O_NONBLOCK); /* nor where somebody reads it */
    assert_true(fd >= 0);
    line_to_stderr("to a reader");
    close(fd);
    assert_non_null(strstr(text_of(other), "info: to a reader\n"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_file, setup, teardown),
        cmocka_unit_test_setup_teardown(test_escapes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_long, setup, teardown),
        cmocka_unit_test_setup_teardown(test_not_a_file, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
