/*
 * boot/identity.h - which rank of which job this process belongs to
 *
 * Read from the environment that the launcher gave (PMIX_NAMESPACE, PMIX_RANK), DYAD_NODE
 * and the host. No PMIx call, no I/O but uname and the boot id. Links libc only: the
 * wrapper uses it in every process.
 */
#ifndef DYAD_BOOT_IDENTITY_H
#define DYAD_BOOT_IDENTITY_H

#include <stdbool.h>
#include <stdint.h>

#define BOOT_NSPACE_MAX 255

struct boot_identity {
    bool launched;                    /* a PMIx launcher started this process */
    char nspace[BOOT_NSPACE_MAX + 1]; /* PMIX_NAMESPACE */
    uint32_t rank;                    /* PMIX_RANK */
    char node[256];                   /* DYAD_NODE, or host name + "/" + boot id */
};

/* `env`: NULL-terminated environment. 0, or -1 EINVAL with *bad naming the variable that is
 * malformed. */
int boot_identity_read(struct boot_identity *identity, char *const env[], const char **bad);

#endif
