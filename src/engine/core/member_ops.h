/*
 * engine/core/member_ops.h - what libdyad.so.1 asks of dyad/libdyad_member.so
 *
 * The member half (UCX, PMIx, OpenSSL) is opened only in a process that is its rank's
 * member, or a promoted guest (promoted.h). Threads of the program reach it as guests do,
 * with a message over the claim's socket, so there is one way in.
 */
#ifndef DYAD_ENGINE_CORE_MEMBER_OPS_H
#define DYAD_ENGINE_CORE_MEMBER_OPS_H

#include <stdbool.h>
#include <stdint.h>

#include "boot/identity.h"
#include "boot/modules.h"
#include "config/config.h"

#define MEMBER_ABI        9
#define MEMBER_OPS_SYMBOL "dyad_member_ops"
#define MEMBER_LIBRARY    "libdyad_member.so"

#define MEMBER_ABORTED 1 /* see run() */

enum member_leave {
    MEMBER_LEAVE_EXEC,   /* at once: the next image, or another process, takes its place */
    MEMBER_LEAVE_LINGER, /* for good, after the exit barrier */
    MEMBER_LEAVE_FAILED, /* for good, at once: the program has failed */
    MEMBER_LEAVE_IN_MPI, /* as FAILED, but without PMIx_Finalize: MPI is initialised and
                          * not finalised, and the launcher shall see that as without the
                          * library */
};

struct promoted_guest;
struct sockaddr_un;
struct member; /* one running member; belongs to its own threads */

struct member_params {
    const struct engine_config *config;   /* must outlive the member */
    const struct boot_identity *identity; /* likewise */
    const char *session; /* name of the session on this node, for people and files */
    uint64_t launch;     /* distinguishes launches that have the same job name */
    int claim_fd;        /* listening socket; duplicated */
    const struct sockaddr_un *claim; /* of a promoted guest: its member's */
    unsigned claim_len;
    bool apart;     /* this library is in a name space of its own */
    bool table_own; /* the calling thread has run a member that returned MEMBER_ABORTED */
    bool (*may_rejoin)(void);   /* there may be another member after MEMBER_ABORTED, now */
    void (*thread_enter)(void); /* may be NULL; called first in each thread */
    void (*table_ready)(
        void); /* called when no descriptor of the program's is held any more */
    /* Called before the claim is shut because a library of ours has aborted, and no
     * member can follow. Must not call back. A promoted guest does not use it. */
    void (*lost)(void);
};

struct member_ops {
    unsigned abi;
    /* Make a member. Does no I/O. NULL with errno. */
    struct member *(*create)(const struct member_params *params);
    /* Join and serve until leave(). The calling thread (all signals blocked), or if apart a
     * new one, becomes the loop's thread; both get a descriptor table of our own. 0, or -1
     * after a log line: it could not join, and the claim is shut. MEMBER_ABORTED: a
     * library of ours has aborted, and nothing of this copy must be used again but
     * destroy(); the claim stays open as *claim_fd, which is the caller's and, beside
     * 0-2, the only
     * descriptor in the calling thread's table. */
    int (*run)(struct member *member, int *claim_fd);
    /* Ask the member to leave. Any thread, any number of times; returns at once; run()
     * then returns, in bounded time but for MEMBER_LEAVE_LINGER. `image_ends`: the
     * process exits or execs after that. */
    void (*leave)(struct member *member, enum member_leave how, bool image_ends);
    /* The thread that waits for run() to return calls this about once a second. */
    void (*nudge)(struct member *member);
    /* Free the member, after run() has returned. */
    void (*destroy)(struct member *member);

    /* The same for a promoted guest (engine/promoted/promoted.h): run() returns 0 after
     * leave() or when its member is gone, or -1: it cannot be one. With `image_ends` it
     * leaves within milliseconds, and the caller must not call destroy(). */
    struct promoted_guest *(*promoted_create)(const struct member_params *params);
    int (*promoted_run)(struct promoted_guest *promoted);
    void (*promoted_leave)(struct promoted_guest *promoted, bool image_ends);
    void (*promoted_nudge)(struct promoted_guest *promoted);
    void (*promoted_destroy)(struct promoted_guest *promoted);
};

/* `loading`: as boot_modules_visit(). */
typedef const struct member_ops *(*member_ops_get_fn)(unsigned abi,
                                                      const struct boot_loading *loading);

#endif
