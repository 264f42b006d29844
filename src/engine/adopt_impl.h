/*
 * engine/adopt_impl.h - between adopt.c, adopt_look.c and adopt_watch.c, for nobody else
 */
#ifndef DYAD_ENGINE_ADOPT_IMPL_H
#define DYAD_ENGINE_ADOPT_IMPL_H

#include "engine/member_impl.h"

enum found_as { FOUND_SAME, FOUND_GONE, FOUND_CHANGED, FOUND_LOST };

struct item {
    const struct store_record *record; /* the journal's */
    enum found_as as;
};

/* The journal of a dead rank: ours, as long as we have it open. */
struct left {
    struct left *prev, *next; /* utlist */
    enum engine_side side;
    struct store_journal *journal; /* NULL: in `kept` */
    char *name;
    uint32_t rank;
    struct item *items;
    size_t nitems, at, files, copies, removed;
    bool keep; /* not all of it could be written to our own */
};

/* An INVALIDATE that waits for a look. */
struct asked {
    struct asked *next; /* utlist */
    struct dyad_entry newer;
    uint32_t rank; /* whose copy it may be */
    bool take;     /* no INVALIDATE: `newer` is that rank's, and may lie here */
    struct store_record record; /* with `take`: as it was found */
    bool seen;                  /* the look has found that one's journal */
    bool failed;                /* and could not read it: the home will ask another */
    uint64_t token;
    char upath[];
};

struct dying;
struct rename_left;

enum phase { IDLE, LOOKING, TAKING, EMPTYING };

struct adopt {
    struct member *member;
    char name[256]; /* of our journal; what begins with as much of it is our session's */
    size_t prefix_len;
    struct sockaddr_un claim; /* our own */
    socklen_t claim_len;
    enum phase phase;
    bool again; /* something happened since the look began */
    struct engine_io io;
    struct net_post post;
    struct asked *asked, *answering; /* since the look began; before it */
    struct left *left;               /* being taken over: the first */
    struct rename_left *renames;     /* found by the look, utlist */
    bool looked_before;
    bool renames_unread; /* the look has given some back, for want of memory */
    bool renames_again;  /* something was given back: the timer runs */
    struct net_timer *renames_timer;
    uint64_t renames_pause; /* the next; 0: the first */
    struct left *kept;      /* locked for as long as we live: `keep` */
    /* The look's: whom to watch. */
    bool watches; /* `fd` is open: no other is looked for */
    int neighbour_fd;
    pid_t neighbour;
    pid_t *absent; /* hold their claim, but no journal */
    size_t nabsent;
    /* The connection, and who is at its other end. */
    int fd;
    pid_t pid;
    struct net_watch *watch;
    struct dying *dying;
};

/* --- adopt.c --- */

/* The entry is the rank's, which seems to be dead, and lies in our storage: look whether
 * the file is here and whole, and take it over. */
void adopt_look_for(struct member *member, const struct dyad_entry *entry, uint32_t rank);

/* --- adopt_look.c --- */

/* On a pool thread: fill a->left, and find a neighbour. */
void adopt_look_work(void *arg);
void adopt_left_free(struct left *left);

/* --- adopt_watch.c --- */

/* What the look has found: whom to watch. */
void adopt_watch_found(struct adopt *a);
void adopt_watch_stop(struct adopt *a);

/* --- adopt_renames.c --- */

/* Part of the look: into a->renames. */
void adopt_renames_look(struct adopt *a, enum engine_side side);
/* Behind it, on the loop. */
void adopt_renames_settle(struct adopt *a);
/* Parts of adopt_pending() and adopt_stop(). */
bool adopt_renames_pending(const struct member *member);
void adopt_renames_stop(struct adopt *a);

#endif
