/*
 * boot/session_impl.h - private to session.c, session_result.c and session_look.c
 */
#ifndef DYAD_BOOT_SESSION_IMPL_H
#define DYAD_BOOT_SESSION_IMPL_H

#include <pthread.h>

#include "boot/session.h"
#include "boot/session_dir.h"
#include "boot/session_map.h"
#include "net/peer.h"

#define SESSION_EMPTY_SHOWN 8

enum session_result_kind {
    RESULT_READY,
    RESULT_COMMITTED,
    RESULT_FOUND,
    RESULT_GONE,
    RESULT_BLOB
};

struct session_result {
    struct session_result *prev, *next;
    enum session_result_kind kind;
    uint32_t slot, incarnation;
    uint64_t node;
    int error;
    void *blob;
    size_t len;
};

enum session_op_kind { OP_COMMIT, OP_GET, OP_LOST, OP_FIND };

struct session_op {
    struct session_op *prev, *next;
    enum session_op_kind kind;
    uint32_t slot, incarnation;
    size_t len;
    unsigned char blob[];
};

struct session_reported { /* what was reported of a slot to the loop */
    uint32_t incarnation;
    uint64_t missing_since; /* 0: it is not missing */
};

struct boot_session {
    struct net_loop *loop;
    const struct boot_session_ops *ops;
    void *arg;
    uint32_t ranks; /* if the session is new */
    struct net_post post;

    /* used by the session's thread */
    struct session_dir *dir;
    struct session_reported *reported;
    bool joined, committed;
    uint64_t interval, next_look;
    bool look_full; /* the next look is to be a list */
    bool missed;    /* our own entry was not there at the last look */
    bool said_unreadable, said_superseded;
    struct {
        uint64_t hash;
        char name[NET_PEER_NODE_MAX + 1];
    } names[SESSION_DIR_GONE_MAX];
    size_t nnames;

    /* used by the loop, once they were reported to it */
    struct boot_session_place place;
    struct boot_pmix_job job;
    struct session_map map;
    char empty_shown[SESSION_EMPTY_SHOWN * (NET_PEER_NODE_MAX + 3) + 32];

    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned refs; /* the owner, the thread, the post in the loop's queue */
    bool closed, leave, running, posted;
    pthread_t thread;
    struct session_op *pending;
    struct session_result *results;
    char empty[SESSION_EMPTY_SHOWN * (NET_PEER_NODE_MAX + 3) + 32];
};

/* --- session_result.c --- */

/* Queue a result for the loop. Takes `blob`. False: no memory, and the result is lost. */
bool session_report(struct boot_session *session, struct session_result what);
/* Free results that were not delivered; the lock is held, or no other thread has it. */
void session_results_free(struct boot_session *session);
/* Give up one reference; the lock is held before, and not after. */
void session_unref_unlock(struct boot_session *session);

/* --- session_look.c --- */

/* Make the next look at the directory, which is due. */
void session_look(struct boot_session *session);
void session_do_op(struct boot_session *session, const struct session_op *op);
/* The length of a node's name without its boot id: a node that was rebooted is the same
 * node. */
size_t session_node_length(const char *node);

#endif
