/*
 * libs_plugin.c - a shared object with boot/libs.c in it, as libdyad.so.1 has it
 */
#include "boot/libs.h"

__attribute__((visibility("default"))) unsigned plugin_before_us(void);
__attribute__((visibility("default"))) unsigned plugin_loaded(void);

unsigned plugin_before_us(void)
{
    return boot_libs_before_us();
}

unsigned plugin_loaded(void)
{
    return boot_libs_loaded();
}
