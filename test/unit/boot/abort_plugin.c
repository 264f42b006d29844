/*
 * abort_plugin.c - libdyad_member.so and a library that finds a fault in itself, in small
 *
 * Opened with RTLD_DEEPBIND by test_abort.c; has abort.c in it, and UCX beneath it.
 */
#include <dlfcn.h>
#include <stdlib.h>

#include <ucp/api/ucp.h>

#include "boot/abort.h"

__attribute__((visibility("default"))) int plugin_catch(void (*fn)(void *arg), void *arg);
__attribute__((visibility("default"))) void plugin_fault(void *arg);
__attribute__((visibility("default"))) void plugin_ucx_fault(void *arg);

int plugin_catch(void (*fn)(void *arg), void *arg)
{
    return boot_abort_catch(fn, arg);
}

void plugin_fault(void *arg)
{
    (void)arg;
    abort();
}

/* What UCX itself does: where an assertion of its own fails it calls this. */
void plugin_ucx_fault(void *arg)
{
    void (*fatal)(const char *file, unsigned line, const char *function, char *message);
    char message[] = "Assertion `of the test' failed";

    (void)arg;
    *(void **)&fatal = dlsym(RTLD_DEFAULT, "ucs_fatal_error_message");
    if (fatal && ucp_get_version_string())
        fatal("test_abort.c", 1, "plugin_ucx_fault", message);
}
