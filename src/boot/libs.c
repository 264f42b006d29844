/*
 * libs.c - walks the list of loaded objects
 *
 * dl_iterate_phdr lists them in the order of loading, so those before our own object were
 * there without us, and those behind it came with us (our dependencies) or later.
 */
#include "boot/libs.h"

#include <errno.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static const char anchor; /* an address inside our own object */

struct walk {
    bool stop_at_us;
    unsigned found;
};

static const struct {
    const char *prefix;
    unsigned bit;
} known[] = {
    {"libmpi", BOOT_LIBS_MPI},      {"liboshmem", BOOT_LIBS_MPI},
    {"libopen-rte", BOOT_LIBS_MPI}, {"libopen-pal", BOOT_LIBS_MPI},
    {"libpmix", BOOT_LIBS_PMIX},    {"libucp.", BOOT_LIBS_UCX},
    {"libucs.", BOOT_LIBS_UCX},     {"libuct.", BOOT_LIBS_UCX},
    {"libucm.", BOOT_LIBS_UCX},     {"libpython", BOOT_LIBS_PYTHON},
};

static bool is_us(const struct dl_phdr_info *info)
{
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        uintptr_t start = info->dlpi_addr + segment->p_vaddr;
        if (segment->p_type == PT_LOAD && (uintptr_t)&anchor >= start &&
            (uintptr_t)&anchor < start + segment->p_memsz)
            return true;
    }
    return false;
}

static int visit(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct walk *walk = arg;
    const char *name = info->dlpi_name ? strrchr(info->dlpi_name, '/') : NULL;

    (void)size;
    if (walk->stop_at_us && is_us(info))
        return 1;
    name = name ? name + 1 : info->dlpi_name ? info->dlpi_name : "";
    for (unsigned i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (strncmp(name, known[i].prefix, strlen(known[i].prefix)) == 0)
            walk->found |= known[i].bit;
    return 0;
}

unsigned boot_libs_before_us(void)
{
    struct walk walk = {.stop_at_us = true};
    dl_iterate_phdr(visit, &walk);
    return walk.found;
}

unsigned boot_libs_loaded(void)
{
    struct walk walk = {.stop_at_us = false};
    dl_iterate_phdr(visit, &walk);
    return walk.found;
}

bool boot_libs_may_share(void)
{
    return (boot_libs_loaded() & (BOOT_LIBS_MPI | BOOT_LIBS_UCX | BOOT_LIBS_PYTHON)) ||
           strncmp(program_invocation_short_name, "python", 6) == 0;
}
