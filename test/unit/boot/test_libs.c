/*
 * test_libs.c - does the program itself use MPI, UCX or PMIx?
 *
 * With shared objects that have nothing of these but the name.
 */
#include <dlfcn.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static void test_libs(void **state)
{
    void *mpi, *plugin, *ucx, *pmix;

    (void)state;
    assert_int_equal(boot_libs_loaded(), 0);
    assert_false(boot_libs_may_share());
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
    assert_false(boot_libs_may_share()); /* PMIx alone is no reason */
    dlclose(pmix);
    dlclose(plugin);
    assert_int_equal(boot_libs_loaded(), 0);
}

/* The interpreter may be linked without libpython; mpi4py can come at any time. */
static void test_python(void **state)
{
    char *name = program_invocation_short_name, python[] = "python3.11", bash[] = "bash";

    (void)state;
    program_invocation_short_name = python;
    assert_true(boot_libs_may_share());
    program_invocation_short_name = bash;
    assert_false(boot_libs_may_share());
    program_invocation_short_name = name;
    void *library = load("libpython_fake.so");
    assert_int_equal(boot_libs_loaded(), BOOT_LIBS_PYTHON);
    assert_true(boot_libs_may_share());
    dlclose(library);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_libs),
        cmocka_unit_test(test_python),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
