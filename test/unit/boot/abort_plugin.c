/*
 * abort_plugin.c - libdyad_member.so and a library that finds a fault in itself, in small
 *
 * Opened with RTLD_DEEPBIND by test_abort.c; has abort.c in it.
 */
#include <stdlib.h>

#include "boot/abort.h"

__attribute__((visibility("default"))) int plugin_catch(void (*fn)(void *arg), void *arg);
__attribute__((visibility("default"))) void plugin_fault(void *arg);

int plugin_catch(void (*fn)(void *arg), void *arg)
{
    return boot_abort_catch(fn, arg);
}

/* As UCX calls it. */
void plugin_fault(void *arg)
{
    (void)arg;
    abort();
}
