/*
 * boot/identity.h - which rank of which job this process belongs to
 *
 * The identity is read from the environment that the launcher gave (PMIX_NAMESPACE,
 * PMIX_RANK), DYAD_NODE and the host. There is no PMIx call, and no I/O but uname, the
 * boot id and, without a launcher, when this process began. It links libc only: the
 * wrapper uses it in every process.
 *
 * What could go wrong: a program starts another with an environment of its own, and drops
 * the launcher's variables (BOOT_GUEST_OF). There is no launcher, but DYAD_SESSION_DIR:
 * the process is then rank 0 of a launch of its own (BOOT_SOLO).
 */
#ifndef DYAD_BOOT_IDENTITY_H
#define DYAD_BOOT_IDENTITY_H

#include <stdbool.h>
#include <stdint.h>

#define BOOT_NSPACE_MAX 255

/* "DYAD_GUEST_OF=RANK@NAMESPACE": the wrapper sets it where a program starts another
 * without the launcher's variables. It names the rank whose guest the new process is;
 * that is not enough to join, and is ignored if the launcher's variables are set. */
#define BOOT_GUEST_OF "DYAD_GUEST_OF"
/* The begin of its value in processes that a launcher starts and that are no ranks
 * (boot/launcher.h): guests of no rank; the rest, if any, names the launcher's own rank.
 */
#define BOOT_GUEST_OF_NOBODY "-"
/* The same value without this prefix, in a variable that mpirun passes on to other nodes.
 */
#define BOOT_OUTER        "OMPI_MCA_dyad_outer"
#define BOOT_GUEST_OF_MAX (sizeof(BOOT_GUEST_OF) + 14 + BOOT_NSPACE_MAX + 1)

/* dyad-run has logged that there is neither a launcher nor a session directory: the
 * processes that it starts need not log it again. */
#define BOOT_SAID_ALONE "DYAD_SAID_ALONE"

/* Set by `dyad-run --serve` for itself alone. */
#define BOOT_SERVES "DYAD_SERVES"

/* The begin of the name of a solo launch: with DYAD_SESSION_DIR and without a launcher a
 * process is rank 0 of a launch of its own, named after it; host, process and the time of
 * its start keep that name unique, and the same over exec. Its descendants get
 * BOOT_GUEST_OF, too, and may become the member in its place, since no launcher's
 * variables are needed for that. A launcher that such a process starts may pass that
 * variable on to its ranks, which have PMIx's, too: so they know the launch in which
 * theirs was started (`outer`). */
#define BOOT_SOLO "solo."

struct boot_identity {
    bool launched;   /* it belongs to a launch: of a PMIx launcher, or solo */
    bool guest_only; /* launched, and known from DYAD_GUEST_OF alone; not if solo */
    bool solo;       /* launched, without a launcher: there is a session directory */
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

/* Write the variable that makes a process without the launcher's variables a guest of
 * this rank. Only if `launched`. */
void boot_identity_put_guest_of(const struct boot_identity *identity,
                                char text[BOOT_GUEST_OF_MAX]);
/* True if both are the same rank of the same launch on the same node, and both have all
 * that is needed to join. */
bool boot_identity_same(const struct boot_identity *a, const struct boot_identity *b);

#endif
