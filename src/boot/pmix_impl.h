/*
 * boot/pmix_impl.h - private to pmix.c, pmix_ask.c and pmix_result.c
 */
#ifndef DYAD_BOOT_PMIX_IMPL_H
#define DYAD_BOOT_PMIX_IMPL_H

#include <pthread.h>

#include <pmix.h>
#include <uthash.h>

#include "boot/pmix.h"

enum pmix_ask_state {
    ASK_WANTED,  /* to be sent when `when` has come */
    ASK_PENDING, /* a ticket is out */
};

struct pmix_ask { /* one rank whose blob is wanted and was not yet delivered */
    UT_hash_handle hh;
    uint32_t rank;
    enum pmix_ask_state state;
    bool reported;   /* as absent, which has no deadline; it may still come */
    bool both;       /* BOOT_PMIX_BOTH, and the server's kept blob was not asked for yet */
    bool past_cache; /* the server's kept blob is not wanted: PMIX_GET_REFRESH_CACHE */
    uint64_t when;   /* send at */
    uint64_t delay;  /* before the next try */
    uint64_t deadline; /* report as absent at */
    void *kept;        /* what the server had, to be delivered at `kept_at`; or NULL */
    size_t kept_len;
    uint64_t kept_at;
};

struct pmix_ticket { /* a PMIx_Get_nb that was not called back yet */
    struct pmix_ticket *prev, *next;
    struct boot_pmix *pmix;
    uint32_t rank;
    bool cancelled;
    bool past_cache; /* the server has a blob of the rank, so it answers */
    uint64_t sent;
    pmix_proc_t proc; /* PMIx copies neither this nor the directives: they live as long as
                         the Get */
    pmix_info_t refresh;
};

enum pmix_result_kind { RESULT_READY, RESULT_COMMITTED, RESULT_BLOB, RESULT_KEPT };

struct pmix_result {
    struct pmix_result *prev, *next;
    enum pmix_result_kind kind;
    uint32_t rank;
    int error;
    void *blob;
    size_t len;
};

/* Everything below `lock` is guarded by it; it is never held across a PMIx call. Results
 * reach the loop by one post at a time, whose node is part of the struct and which also
 * holds a reference. */
struct boot_pmix {
    struct net_loop *loop;
    const struct boot_pmix_ops *ops;
    void *arg;
    uint64_t timeout_ns, kept_ns;
    char key[PMIX_MAX_KEYLEN + 1];
    struct boot_pmix_job job; /* written once, before RESULT_READY is queued */
    uint64_t *heard_at;       /* [job.nranks], boot_pmix_there(); made with job */
    pmix_proc_t self;         /* of the session's thread */
    struct net_post post;

    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned refs; /* the owner, the session's thread, each ticket, the post in the loop's
                      queue */
    bool closed;   /* boot_pmix_destroy() was called: no callback any more */
    enum boot_pmix_end how; /* ... so */
    uint64_t destroy_bound; /* ... and waits so long for the session to end */
    bool running;           /* a session's thread exists that has not said it is done */
    bool joinable;          /* `thread` is to be joined */
    bool released;
    bool have_job;
    bool posted;
    pthread_t thread;
    void *blob; /* to be committed */
    size_t blob_len;
    struct pmix_ask *asks;
    struct pmix_ticket *tickets;
    struct pmix_result *results;
};

/* --- pmix_result.c --- */

/* Queue a result; the lock is held; takes blob. Without memory the result is lost, and
 * the askers' deadlines end their requests. */
void boot_pmix_result_put(struct boot_pmix *pmix, enum pmix_result_kind kind, uint32_t rank,
                          int error, void *blob, size_t len);
/* Free the results that were not delivered; the lock is held. */
void boot_pmix_results_free(struct boot_pmix *pmix);
/* Give up one reference; the lock is held before, and not after. */
void boot_pmix_unref_unlock(struct boot_pmix *pmix);
/* PMIx's status as an errno value. */
int boot_pmix_error_of(pmix_status_t status);

/* --- pmix_ask.c: with the lock --- */

/* A rank's blob is wanted, or wanted anew. NULL: no memory. */
struct pmix_ask *boot_pmix_ask_add(struct boot_pmix *pmix, uint32_t rank,
                                   enum boot_pmix_wanted wanted);
void boot_pmix_ask_free(struct boot_pmix *pmix, struct pmix_ask *ask);
/* Send what is due, report what is late. Drops the lock now and then. Returns when to look
 * again (0: only at an event); *idle: nothing is wanted that was not reported. */
uint64_t boot_pmix_asks_serve(struct boot_pmix *pmix, bool *idle);
/* Until when a process that leaves at `left` waits for the answers that are under way; 0:
 * there are none. */
uint64_t boot_pmix_answers_until(const struct boot_pmix *pmix, uint64_t left);
/* Report all requests as failed: no answer can be had. */
void boot_pmix_asks_fail(struct boot_pmix *pmix);
/* Drop the tickets of a session that is over: no callback comes for them if PMIx is down,
 * else perhaps. Ranks that had been reported absent are forgotten, others are asked for
 * again by the next session. */
void boot_pmix_tickets_drop(struct boot_pmix *pmix, bool down);

#endif
