/*
 * boot/procs.h - whether all processes of this rank wait for us
 *
 * Looks at /proc: the member, and its live descendants. Used by the quiescence test
 * (boot/wave.h) only, at most once a second and only while something waits. Errs on the
 * side of "busy".
 */
#ifndef DYAD_BOOT_PROCS_H
#define DYAD_BOOT_PROCS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "boot/identity.h"

/* The name (prctl) of a process that is a rank of its own wherever it was started, and
 * ends after others (`dyad-run --serve --while`): it does not count as a descendant. */
#define BOOT_PROCS_SERVER "dyad-serve"

/* A thread that is blocked in one of our waits, which is a recv(). */
struct boot_blocked {
    pid_t pid, tid;
};

/* True if there was a moment during the call at which no process of the tree below `root`
 * (root included unless `root_exiting`) could make progress by itself: each had (a) at
 * least one thread in `blocked`, and asleep in there, or in what is listed now or stopped,
 * and each other thread of it asleep in futex, poll, ppoll, select, pselect6, epoll_wait,
 * epoll_pwait, or is one of `ignore` (the engine's own threads), or (b) every thread asleep
 * in wait4/waitid (or one of the former) and a live child below it; a zombie counts as
 * gone. Reading from or writing to an unnamed pipe is both, if another of the tree has the
 * other end. Anything that cannot be read counts as busy. */
bool boot_procs_quiet(pid_t root, bool root_exiting, const struct boot_blocked *blocked,
                      size_t nblocked, const pid_t *ignore, size_t nignore);

/* Find the launch and rank in which the process was started, by a PMIx launcher's
 * variables. False: none, or its environment cannot be read. */
bool boot_procs_rank(pid_t pid, char nspace[BOOT_NSPACE_MAX + 1], uint32_t *rank);

/* True if the process was started as one of this rank, by a PMIx launcher's variables.
 * False also if its environment cannot be read. */
bool boot_procs_same_rank(pid_t pid, const struct boot_identity *identity);

/* Live (not zombie) descendants of root; returns how many, fills at most max pids. */
size_t boot_procs_descendants(pid_t root, pid_t *pids, size_t max);

#endif
