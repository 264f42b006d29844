/*
 * store/alive.h - the identity of a process, and whether it still lives
 *
 * Private to the room. A process is (pid, start time): a reused pid is not taken for the
 * old one. Thread-safe, correct after fork and in a vfork child.
 */
#ifndef DYAD_STORE_ALIVE_H
#define DYAD_STORE_ALIVE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* pid << 32 | start time in clock ticks modulo 2^32 (0: not known). */
typedef uint64_t store_proc_t;

static inline pid_t store_proc_pid(store_proc_t proc)
{
    return (pid_t)(proc >> 32);
}

/* This process, and (ns may be NULL) its pid namespace. */
store_proc_t store_proc_self(uint32_t *ns);
/* True if the process, of pid namespace `ns`, lives. One of another pid namespace cannot
 * be looked at: it counts as living if it was heard of less than STORE_PROC_FOREIGN_MAX
 * seconds ago: `age`; below 0: it was heard of after the clock was read. */
bool store_proc_alive(store_proc_t proc, uint32_t ns, int32_t age);

#define STORE_PROC_FOREIGN_MAX 600

#endif
