/*
 * engine/recovery/takeover_impl.h - private to takeover.c, takeover_look.c,
 * takeover_watch.c and takeover_renames.c
 */
#ifndef DYAD_ENGINE_RECOVERY_TAKEOVER_IMPL_H
#define DYAD_ENGINE_RECOVERY_TAKEOVER_IMPL_H

#include "engine/core/member_impl.h"

enum found_as {
    FOUND_SAME,
    FOUND_GONE,
    FOUND_CHANGED,
    FOUND_LOST,
    FOUND_WRITTEN /* by a process that lives, or is about to be dead */
};

struct item {
    const struct store_record *record; /* the journal's */
    enum found_as as;
    unsigned tries; /* of an `asked` */
};

/* The journal of a dead rank, which is locked for as long as we have it open. */
struct left {
    struct left *prev, *next; /* utlist */
    enum engine_role role;
    struct store_journal *journal; /* NULL: in `kept` */
    char *name;
    uint32_t rank;
    struct item *items;
    size_t nitems, nasked, at, files, copies, removed; /* `nasked`: not in its journal */
    bool keep; /* not all records could be written to our own journal */
};

/* A dead rank's file that waits for a look: it may lie here without being in the rank's
 * journal; or somebody wrote it when it was looked at. */
struct asked {
    struct asked *next; /* utlist */
    uint32_t rank;
    unsigned tries;
    struct store_record record; /* the identity is set when it is known */
    char upath[];
};

struct dying;
struct rename_left;

enum phase { IDLE, LOOKING, TAKING, EMPTYING };

struct takeover {
    struct member *member; /* NULL: not started */
    char name[256]; /* of our journal; journals with the same prefix are our session's */
    size_t prefix_len;
    struct sockaddr_un claim; /* our own */
    socklen_t claim_len;
    enum phase phase;
    bool again; /* something happened since the look began */
    struct engine_io io;
    struct net_post post;
    struct asked *asked, *answering; /* since the look began; before that */
    struct asked *later;             /* for the look when the timer expires */
    struct net_timer *later_timer;
    struct left *left;           /* being taken over: the first */
    struct rename_left *renames; /* found by the look, utlist */
    bool looked_before;
    bool renames_unread; /* the look has given some back, for want of memory */
    bool renames_again;  /* a rename was given back: the timer runs */
    struct net_timer *renames_timer;
    uint64_t renames_pause; /* the next; 0: the first */
    struct left *kept;      /* those with `keep`, locked for as long as we live */
    /* Set by the look: which neighbour to watch. */
    bool watches; /* `fd` is open: no other is looked for */
    int neighbour_fd;
    pid_t neighbour;
    pid_t *absent; /* members that hold their claim, but no journal */
    size_t nabsent;
    /* The connection, and the process at its other end. */
    int fd;
    pid_t pid;
    struct net_watch *watch;
    struct dying *dying;
};

/* --- takeover_look.c --- */

/* On a pool thread: fill a->left, and find a neighbour. */
void takeover_look_work(void *arg);
void takeover_left_free(struct left *left);

/* --- takeover_watch.c --- */

/* Begin to watch the neighbour that the look has found. */
void takeover_watch_found(struct takeover *a);
void takeover_watch_stop(struct takeover *a);

/* --- takeover_renames.c --- */

/* Part of the look: read the renames of dead processes into a->renames. */
void takeover_renames_look(struct takeover *a, enum engine_role role);
/* Handle these, on the loop, after the look. */
void takeover_renames_decide(struct takeover *a);
/* Parts of takeover_pending() and takeover_stop(). */
bool takeover_renames_pending(const struct member *member);
void takeover_renames_stop(struct takeover *a);

#endif
