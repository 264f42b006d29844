/*
 * boot/pmix.h - the launcher: PMIx, for the bootstrap only
 *
 * A thread of its own makes every PMIx call, because they may block: Init, one Put + Commit
 * of our blob, Gets of others' blobs (nothing waits for a fence: a Get of a rank that has
 * not joined is left pending), and Finalize as soon as nothing more is asked, with a new
 * Init when it is. A process that called Init must Finalize before it exits or execs, or
 * the launcher ends the job: boot_pmix_destroy() does, in bounded time.
 */
#ifndef DYAD_BOOT_PMIX_H
#define DYAD_BOOT_PMIX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "boot/identity.h"
#include "net/loop.h"

struct boot_pmix;

struct boot_pmix_job {
    uint32_t nranks;
    uint32_t *node; /* node number of each rank, [nranks] */
    uint32_t nnodes;
};

struct boot_pmix_ops { /* all called on the loop's thread */
    /* Init is done: size of the job and its node map (owned by boot_pmix), or error (errno
     * value). */
    void (*ready)(void *arg, const struct boot_pmix_job *job, int error);
    /* Our blob is committed (status 0), or could not be. */
    void (*committed)(void *arg, int status);
    /* The blob of a rank; error EHOSTUNREACH: it did not come in `timeout`. It may still
     * come later, with error 0. `kept`: see BOOT_PMIX_BOTH. */
    void (*blob)(void *arg, uint32_t rank, const void *blob, size_t len, bool kept,
                 int error);
};

/* True if the launcher's PMIx server on this node listens on a loopback address. Any thread. */
bool boot_pmix_server_is_local(void);

/* Start the thread and PMIx_Init. The caller is an engine thread (own descriptor table,
 * signals blocked), whose table the PMIx threads inherit. `timeout_ns`: bound of a Get
 * before it is reported as absent; `kept_ns`: see BOOT_PMIX_BOTH. `prefix` separates
 * sessions (DYAD_KVS_NAMESPACE). NULL with errno. */
struct boot_pmix *boot_pmix_create(struct net_loop *loop,
                                   const struct boot_identity *identity, const char *prefix,
                                   uint64_t timeout_ns, uint64_t kept_ns,
                                   const struct boot_pmix_ops *ops, void *arg);
/* Finalize (bounded) and join the thread. Before that the answers that the launcher's
 * server on this node still expects from other nodes are waited for (pmix_ask.c). No
 * callback after. */
enum boot_pmix_end {
    BOOT_PMIX_END,      /* the program has ended */
    BOOT_PMIX_END_SOON, /* the program waits for us: 2 s at most for these answers */
    BOOT_PMIX_END_UP,   /* the same, and PMIx stays initialised: the launcher then sees an
                         * abnormal end of this process */
};
void boot_pmix_destroy(struct boot_pmix *pmix, enum boot_pmix_end how);

/* Put and commit our blob; once per incarnation. Copied. */
int boot_pmix_commit(struct boot_pmix *pmix, const void *blob, size_t len);
/* Ask for a rank's blob. 0 or -1 ENOMEM. Asking again while one is pending is harmless. */
enum boot_pmix_wanted {
    BOOT_PMIX_ANY,    /* a blob that a server has kept will do */
    BOOT_PMIX_NEWEST, /* not a kept one: the rank may have a new member */
    BOOT_PMIX_BOTH, /* the newest; if it does not come in `kept_ns` the one that our server
                     * has kept, if any (`kept` is true then), and the newest when it
                     * comes. If the newest does not come in `timeout` it is reported as
                     * absent, in both cases */
};
int boot_pmix_get(struct boot_pmix *pmix, uint32_t rank, enum boot_pmix_wanted wanted);
#define BOOT_PMIX_THERE UINT64_MAX
/* Tell, before boot_pmix_destroy(), when the rank was last heard of (util_clock_now(); 0: never), or that
 * it is known to be there: an answer about it is certain if it was so when it was asked for. */
void boot_pmix_there(struct boot_pmix *pmix, uint32_t rank, uint64_t heard_at);
/* No blob is needed any more now: finalize when the pending gets are done or timed out and
 * boot_pmix_hold_ns have passed, if PMIx can be initialised again (pmix.c: not in an MPI
 * program). A blob that was reported absent still comes as long as the session lasts. */
void boot_pmix_release(struct boot_pmix *pmix);
/* How long a released session is kept on (10 s): a Finalize while other ranks of the node
 * are in Init can make the server deaf to them. Set before the first session only; tests
 * shorten it. */
extern uint64_t boot_pmix_hold_ns;

#endif
