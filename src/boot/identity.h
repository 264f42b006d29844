/*
 * boot/identity.h - which rank of which job this process belongs to
 *
 * Read from the environment that the launcher gave (PMIX_NAMESPACE, PMIX_RANK), DYAD_NODE
 * and the host. No PMIx call, no I/O but uname, the boot id and, without a launcher, when
 * this process began. Links libc only: the wrapper uses it in every process.
 *
 * A program that starts another with an environment of its own drops the launcher's
 * variables. The wrapper then says in one of ours whose guest the new process is; that is
 * not enough to join, and is not looked at where the launcher's are there.
 *
 * With DYAD_SESSION_DIR and without a launcher a process is rank 0 of a launch of its own,
 * "solo", named after it; host, process and the time of its start keep that name unique,
 * and the same over exec. Its descendants are told by the same variable, and may become the
 * member in its place, since no launcher's variables are needed for that.
 *
 * A launcher that such a process starts may pass that variable on to its ranks, which have
 * PMIx's, too: so they know within whose launch theirs is.
 */
#ifndef DYAD_BOOT_IDENTITY_H
#define DYAD_BOOT_IDENTITY_H

#include <stdbool.h>
#include <stdint.h>

#define BOOT_NSPACE_MAX 255

/* "DYAD_GUEST_OF=RANK@NAMESPACE" */
#define BOOT_GUEST_OF "DYAD_GUEST_OF"
/* What its value begins with in what a launcher starts that is no rank (boot/launcher.h):
 * of nobody; what may follow says of whom the launcher is. */
#define BOOT_GUEST_OF_NOBODY "-"
/* The same, without that, by a name which Open MPI's mpirun passes on to other nodes. */
#define BOOT_OUTER        "OMPI_MCA_dyad_outer"
#define BOOT_GUEST_OF_MAX (sizeof(BOOT_GUEST_OF) + 14 + BOOT_NSPACE_MAX + 1)

/* dyad-run has said that there is neither a launcher nor a session directory: what it runs
 * need not say it, process by process. */
#define BOOT_SAID_ALONE "DYAD_SAID_ALONE"

/* Set by `dyad-run --serve` for itself alone. */
#define BOOT_SERVES "DYAD_SERVES"

/* What the name of a solo launch begins with. */
#define BOOT_SOLO "solo."

struct boot_identity {
    bool launched;   /* of a launch: that of a PMIx launcher, or solo */
    bool guest_only; /* launched, and known from DYAD_GUEST_OF alone; not if solo */
    bool solo;       /* launched, by nobody: a session directory is there instead */
    bool serves;     /* it runs no program: engine/membership/servers.c */
    char nspace[BOOT_NSPACE_MAX + 1]; /* PMIX_NAMESPACE, or BOOT_SOLO... */
    uint32_t rank;                    /* PMIX_RANK */
    char outer[BOOT_NSPACE_MAX + 1];  /* of a PMIx launch: the launch of the process that
                                       * started its launcher, if that says so. Else "" */
    uint32_t outer_rank;
    char node[256]; /* DYAD_NODE, or host name + "/" + boot id */
};

/* `env`: NULL-terminated environment. 0, or -1 EINVAL with *bad naming the variable that is
 * malformed. */
int boot_identity_read(struct boot_identity *identity, char *const env[], const char **bad);

/* The entry by which a process without the launcher's variables is a guest of this rank; of
 * a process that is of a launch. */
void boot_identity_put_guest_of(const struct boot_identity *identity,
                                char text[BOOT_GUEST_OF_MAX]);
/* Is it the same rank of the same launch on the same node, with all that is needed to join?
 */
bool boot_identity_same(const struct boot_identity *a, const struct boot_identity *b);

#endif
