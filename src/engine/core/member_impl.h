/*
 * engine/core/member_impl.h - between run.c, links.c, storage.c and
 * session_member.c, for nobody else
 */
#ifndef DYAD_ENGINE_CORE_MEMBER_IMPL_H
#define DYAD_ENGINE_CORE_MEMBER_IMPL_H

#include <pthread.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "engine/coherence/copy_lease.h"
#include "engine/core/member.h"
#include "util/clock.h"

/* Blobs of so many ranks are read at join; those of larger jobs when they are needed. */
#define PREFETCH_RANKS 512

struct member_run {
    struct member member;
    pthread_mutex_t lock;
    bool leave_wanted, running;
    enum member_leave leave_how; /* of use if leave_wanted */
    void (*table_ready)(void);
    void (*tell_lost)(void);
    struct lost *lost;           /* loop only */
    struct side *side;           /* loop only */
    struct revalidate *again;    /* loop only */
    struct lease *lease;         /* loop only; NULL: of a promoted guest */
    struct adopt_gone *gone;     /* loop only */
    struct questions *copies;    /* loop only: takeover_copies.c */
    struct rename_left *renames; /* loop only, utlist: takeover_renames.c */
    /* Loop only; NULL: nothing was looked for yet. */
    struct node_files *node_files;
    struct serve_others *others; /* serve_other.c */
    /* Loop only; NULL: of a promoted guest. */
    struct catch_up *catch_up;
    bool image_ends; /* under `lock`: the process exits or execs behind this */
    bool exiting;    /* loop only: leave_as_wanted() as soon as we have joined */
    struct net_post leave_post;
    bool leave_posted;
    bool apart;      /* our libc is not the caller's */
    bool table_own;  /* as in member_params */
    bool may_rejoin; /* likewise */
    bool wrecked;    /* wreck.c: nothing is freed */
    bool followed;   /* ... and not the end of this rank */
    int rc;
};

static inline uint64_t seconds_ns(double seconds)
{
    return (uint64_t)(seconds * (double)UTIL_NSEC_PER_SEC);
}

/* ns for which a home's answer counts for a holder of a copy: it waits longer for one that
 * is silent (dht/node_told.c). */
static inline uint64_t member_lease(const struct member *member)
{
    return seconds_ns(member->config->peer_timeout) / 2;
}

static inline struct member_run *run_of(struct member *member)
{
    return (struct member_run *)member; /* its first member */
}

/* --- run.c --- */

/* Everything is in place: serve what was queued. */
void member_has_joined(struct member *member);
/* After a log line that says why. */
void member_join_failed(struct member *member);

/* --- member_core.c --- */

/* Leave in the way that a thread of the program has asked for (run->leave_how). */
void member_leave_as_wanted(struct member *member);
/* The process ends, or no image follows. */
bool member_leaves_for_good(struct member *member);
/* The member ends: whoever waits for its join hears of it. */
void member_joined_waits_end(struct member *member);
/* Give a message to whom it concerns; the payload (malloc'ed or NULL) is the callee's. */
void member_receive(struct member *member, const struct net_msg *msg, void *payload,
                    size_t len);

/* The rank was found, or is known to be absent. */
void member_set_live(struct member *member, uint32_t rank, bool live);
/* It is gone for good: nobody waits for its return from exec. */
void lost_gone(struct member *member, uint32_t rank);

/* --- session_member.c: with DYAD_SESSION_DIR, in place of PMIx; member->ring is NULL
 * without --- */

/* 0 or -1, logged. */
int member_session_start(struct member *member);
/* `leave`: for good, so the slot is free again. */
void member_session_destroy(struct member *member, bool leave);
/* Name of the session for file names. */
const char *member_session_id(const struct member *member);
/* Ask for the blob of a slot, as boot_pmix_get(). */
void member_session_get(struct member *member, uint32_t slot);
/* The connection to it broke. True: it is not to be waited for, as one on its way through
 * exec is. */
bool member_session_peer_down(struct member *member, uint32_t slot);
/* It answers, with the incarnation that it had or a higher one. */
void member_session_peer_up(struct member *member, const struct net_peer *peer);

/* --- storage.c --- */

/* Seconds that pass at most between a program's stat of a file and its open, as far as
 * inode numbers go. */
#define MEMBER_RESERVED_FOR 60

/* --- unreachable.c: who cannot be reached, for how long, and asking whether that is still
 * so ---
 */

/* The rank's connection broke, or it is taken for dead; it was live. */
void lost_add(struct member *member, uint32_t rank);
/* It is about to be live in the table. */
void lost_found(struct member *member, const struct net_peer *peer);
/* It is there. */
void lost_back(struct member *member, uint32_t rank);
/* It has left for good: nothing is expected of it. True: its return was. */
bool lost_forget(struct member *member, uint32_t rank);
/* Something came from it although it is taken for dead. */
void lost_heard(struct member *member, uint32_t rank);
/* A connection that was begun then has failed now: because nobody listens there? */
bool lost_refused(const struct member *member, uint32_t rank, uint64_t begun);
/* A question of ours found nobody. */
void lost_unanswered(struct member *member, uint32_t rank);
/* May it be on its way through exec, or beyond a cut? For DYAD_JOIN_TIMEOUT it may. */
bool lost_may_return(const struct member *member, uint32_t rank);

/* It is there as far as we know: let it say something, or be taken for dead. False: it has
 * been asked, or cannot be. */
bool lost_prove(struct member *member, uint32_t rank);
bool lost_is_suspect(const struct member *member, uint32_t rank);
/* Is its address what the launcher's server on this node has kept, and no more? */
void lost_kept(struct member *member, uint32_t rank, bool kept);
/* When it was asked last, of one that is lost; else 0. */
uint64_t lost_asked_at(const struct member *member, uint32_t rank);

/* --- unjoined.c: ranks that the launcher knows no address of --- */

/* How long the launcher's answer may take before its server on this node is believed. */
uint64_t absent_patience(const struct member *member);
/* Ask the launcher for a rank. 0 or -1. */
int absent_ask(struct member *member, uint32_t rank);
/* It has none, as far as it says: never joined, or beyond a cut. Here it is decided. */
void absent_unanswered(struct member *member, uint32_t rank, int error);
/* A rank that is lost, and of which there is no address, or one that may be out of date. */
void absent_ask_again(struct member *member, uint32_t rank);

/* --- partition.c: which side of a cut we are on --- */

/* The rank is being lost. */
void side_lost(struct member *member, uint32_t rank);
/* It came back, or is known to be gone. */
void side_changed(struct member *member);
/* The member before us knew a rank that nothing has been heard of. */
void side_joined_anew(struct member *member);
/* One that was silent is there. */
void side_pong(struct member *member);
/* May this be another one than the bigger one? */
bool side_is_unsure(const struct member *member);

/* --- revalidate.c: copies whose homes have changed --- */

/* The rank was lost, or is back. */
void revalidate_rank(struct member *member, uint32_t rank);
/* Is a copy still to be looked at? */
bool revalidate_pending(struct member *member);

/* --- takeover_gone.c: what a dead rank of this node had published and was removed --- */

/* `found`, of its journal: withdraw it, if it is still what the homes know. It is in our
 * own journal until then; -1: it could not be written there, or no memory; logged. */
int adopt_gone_add(struct member *member, enum engine_side side,
                   const struct store_record *found);
/* The same of what is here, but not as it was published: `found` is in no journal, and
 * stays so. If we die over it, it is found again as it was now. */
void adopt_gone_lost(struct member *member, enum engine_side side,
                     const struct store_record *found);
/* Part of the module "adopt"'s pending(), and of its destroy(). */
bool adopt_gone_pending(struct member *member);
void adopt_gone_stop(struct member *member);

/* --- takeover_renames.c: renames that a death has cut short --- */

/* --- takeover_copies.c: copies that are compared with their homes (adopt_check_copy()) ---
 */

/* Parts of adopt_undecided(), adopt_pending() and adopt_stop(). */
bool adopt_copies_undecided(const struct member *member, const char *upath);
bool adopt_copies_pending(struct member *member);
/* The homes were asked about a copy, and do not know that version: that is the last word
 * when they have said so for that long, and so often. All 0: they have not, or not the last
 * time. */
#define ADOPT_UNKNOWN_TIME (10 * UTIL_NSEC_PER_SEC)
#define ADOPT_UNKNOWN_EACH 3
struct adopt_unknown {
    uint64_t since;
    unsigned answers;
};
/* They have said it once more. */
bool adopt_unknown_is_sure(struct adopt_unknown *unknown);
/* When it can be sure, for who is to be asked again: question_pause.by. */
uint64_t adopt_unknown_by(const struct adopt_unknown *unknown);
/* It is: the copy goes, of both sides. */
void adopt_drop_unknown(struct member *member, const char *upath,
                        const struct dyad_version *version);
void adopt_copies_stop(struct member *member);

/* --- takeover.c, takeover_look.c --- */

/* On any thread, of what lives no more: what is here of an original? Its identity is
 * compared, or (ino 0) the mode, and (not NULL) *identity set. The mark of a close that was
 * cut short goes, if it is here: what was to be written was. */
enum adopt_here {
    ADOPT_HERE_SAME,    /* it, whole; nobody's mark is left on it */
    ADOPT_HERE_GONE,    /* nothing */
    ADOPT_HERE_OTHER,   /* something else, perhaps half of it, and nobody writes it */
    ADOPT_HERE_UNKNOWN, /* it is being written, or cannot be looked at */
};
enum adopt_here adopt_here(struct member_side *side, const struct store_record *record,
                           struct store_identity *identity);

/* --- journal_retry.c: a journal that could not be written --- */

/* Before they are closed. */
void catch_up_stop(struct member *member);

/* --- wreck.c: boot_abort_catch() was left by an abort() --- */

/* What holds anything up, of other processes or of this one, is let go; nothing is freed.
 * The loop's thread of a member or of a promoted guest, whose last act it is. A line was
 * logged before. `is_followed`: by another member in this process, or by another image of
 * it, so the claim is to live on; then boot_fdtable_move() is to follow. */
void wreck_leave(struct member *member, bool is_followed);
/* The object stays for ever, and is no leak. */
void wreck_keep(void *what);

/* --- storage.c: what a member has of the disk --- */

/* Open the DMDs with their marks and journals; sets self.incarnation. 0 or -1, logged. */
int member_sides_open(struct member *member);
void member_sides_close(struct member *member);
/* The name of this member's journals, and how much of it, with a dot at its end, they share
 * with those of others of the session; the rank's number follows. */
size_t member_sides_journal_name(const struct member *member, char *name, size_t size);
/* What a journal's label says of its rank: the address of its claim, and (returned) the
 * node. NULL: it is no label of ours. */
const char *member_sides_label_read(const char *label, struct sockaddr_un *address,
                                    socklen_t *len);
/* The number of this rank in the table of the marks: store_looked_rank(). */
uint64_t member_sides_rank(const struct member *member);
/* Fill member->self but for what the worker adds. */
void member_sides_describe(struct member *member);
/* Let go of a standard output or error that is a file below a DMD: in the private table. */
void member_sides_drop_stdio(const struct member *member);

#endif
