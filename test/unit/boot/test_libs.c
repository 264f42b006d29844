/*
 * test_libs.c - does the program itself use MPI, UCX or PMIx?
 *
 * With shared objects that have nothing of these but the name.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "boot/libs.h"

static void *load(const char *name)
{
    char path[4096];
    void *handle;

    snprintf(path, sizeof(path), "%s/%s", LIBS_DIR, name);
    if (!(handle = dlopen(path, RTLD_NOW | RTLD_LOCAL)))
        fail_msg("%s", dlerror());
    return handle;
}

static unsigned ask(void *plugin, const char *what)
{
    unsigned (*fn)(void);

    *(void **)&fn = dlsym(plugin, what);
    assert_non_null(fn);
    return fn();
}

/* A sanitizer's runtime brings a malloc, for which libraries are apart, whatever else. */
static void test_libs(void **state)
{
    void *mpi, *plugin, *ucx, *pmix;

    (void)state;
    assert_int_equal(boot_libs_loaded(), 0);
    assert_int_equal(boot_libs_may_share(), boot_libs_own_malloc());
    mpi = load("libmpi_fake.so");
    assert_int_equal(boot_libs_loaded(), BOOT_LIBS_MPI);
    assert_int_equal(boot_libs_before_us(), 0); /* the program comes before all */
    assert_true(boot_libs_may_share());
    plugin = load("libboot_libs_plugin.so");
    ucx = load("libucp.fake.so");
    pmix = load("libpmix_fake.so");
    /* What the program had, and what came with us or later. */
    assert_int_equal(ask(plugin, "plugin_before_us"), BOOT_LIBS_MPI);
    assert_int_equal(ask(plugin, "plugin_loaded"),
                     BOOT_LIBS_MPI | BOOT_LIBS_UCX | BOOT_LIBS_PMIX);
    dlclose(mpi);
    dlclose(ucx);
    assert_int_equal(ask(plugin, "plugin_before_us"), 0);
    assert_int_equal(boot_libs_loaded(), BOOT_LIBS_PMIX);
    assert_int_equal(boot_libs_may_share(),
                     boot_libs_own_malloc()); /* PMIx alone is no reason */
    dlclose(pmix);
    dlclose(plugin);
    assert_int_equal(boot_libs_loaded(), 0);
}

/* What this program says of itself, as a file of that name, and called something else. */
static bool may_share_as(const char *file)
{
    char path[4096];
    int status;
    pid_t pid;

    snprintf(path, sizeof(path), "%s/%s", LIBS_DIR, file);
    unlink(path);
    assert_int_equal(linkat(AT_FDCWD, "/proc/self/exe", AT_FDCWD, path, AT_SYMLINK_FOLLOW),
                     0);
    if ((pid = fork()) == 0) {
        execl(path, "title", "ask", (char *)NULL);
        _exit(3);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(unlink(path), 0);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) < 2);
    return WEXITSTATUS(status) == 1;
}

/* The interpreter may be linked without libpython; mpi4py can come at any time. */
static void test_python(void **state)
{
    (void)state;
    if (getenv("DYAD_TEST_VALGRIND")) /* an image that is executed is valgrind again */
        skip();
    assert_true(may_share_as("python3.11"));
    assert_int_equal(may_share_as("bash"), boot_libs_own_malloc());
    void *library = load("libpython_fake.so");
    assert_int_equal(boot_libs_loaded(), BOOT_LIBS_PYTHON);
    assert_true(boot_libs_may_share());
    dlclose(library);
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "ask") == 0)
        return boot_libs_may_share();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_libs),
        cmocka_unit_test(test_python),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
