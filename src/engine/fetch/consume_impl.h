/*
 * engine/fetch/consume_impl.h - private to the modules of a consume: consume.c goes from
 * one state to the next, consume_state.c leaves states, consume_here.c looks at the local
 * file; consume_deadline.c has DYAD_TIMEOUT; consume_owner.c waits for an owner that is
 * gone, consume_local_writer.c for a writer on this node, consume_node_writers.c for
 * writers on other nodes that see the same storage; consume_wave.c answers the exit barrier and ends
 * waits that it gives up; consume_say.c logs waits, after consume_writers.c has asked
 * which processes write the files.
 *
 * All of it belongs to the loop's thread, but for the work of a writer_watch.
 */
#ifndef DYAD_ENGINE_FETCH_CONSUME_IMPL_H
#define DYAD_ENGINE_FETCH_CONSUME_IMPL_H

#include "engine/core/member.h"
#include "engine/fetch/ancestors.h"
#include "engine/fetch/consume.h"
#include "engine/fetch/transfer.h"
#include "engine/membership/unreachable.h"
#include "util/clock.h"

/* ns between two looks at a state whose change no event reports. */
#define CONSUME_LOOK_AGAIN (UTIL_NSEC_PER_SEC)

/* ns after which a wait is logged, and then after twice as long each time. */
#define CONSUME_SAY_AFTER (10 * UTIL_NSEC_PER_SEC)

/* The order in which waits are ended when no rank is left that could publish. */
enum consume_kind {
    CONSUME_NEW = 0,  /* not judged yet */
    CONSUME_PROBE,    /* it looks like a file that its process can do without */
    CONSUME_FAILED,   /* a wait for a similar name was ended already */
    CONSUME_OTHER,    /* nothing is known about it */
    CONSUME_EXPECTED, /* a rank that waits itself could still write it */
};

/* The table at the top of consume.c says when each begins, and what ends it. */
enum consume_state {
    CONSUME_HERE,
    CONSUME_LOOK_UP,
    CONSUME_ABOVE,
    CONSUME_LINK, /* from here to SIGHT: goes_on() */
    CONSUME_PARENTS,
    CONSUME_FETCH,
    CONSUME_OWNER,
    CONSUME_SIGHT,
    CONSUME_WRITERS,
    CONSUME_LAST_LOOK,
};

struct consume {
    struct consume *prev, *next; /* utlist */
    struct member *member;
    char *upath;
    uint8_t flags;
    uint64_t timeout_ms;
    pid_t pid, tid;
    consume_fn fn;
    void *arg;
    struct dyad_version *ahead; /* consume_set_ahead(); or NULL */
    uint64_t since;

    /* Fields that are in use only during some states: consume_enter() resets them. */
    enum consume_state state;
    struct dht_lookup *lookup; /* LOOK_UP, LAST_LOOK */
    struct ancestor *ancestor; /* LOOK_UP, LAST_LOOK, ABOVE: directories not here */
    struct dht_writing_ask *ask_writers; /* WRITERS, LAST_LOOK */
    struct consume *link;                /* LINK: the consume of the link */
    struct bring *bring;                 /* PARENTS */
    bool published;                      /* WRITERS: was found, and is not complete */
    bool stale;                          /* PARENTS: `entry` is out of date by now */
    struct transfer_wait transfer;       /* FETCH */
    struct net_timer *again; /* look once more: HERE (the first time), LOOK_UP if
                                      no answer comes, OWNER, SIGHT */
    struct {
        bool by_choice; /* the verdict chose it, and not all others */
        bool away;      /* no rank is left that can be reached, by what others say */
    } last;             /* LAST_LOOK */

    /* Fields that go on beside a state, or last from one to another. */
    struct dyad_version seen;   /* look for versions above this one */
    struct dyad_entry entry;    /* the last that was found */
    struct writer_watch *watch; /* over a writer of this node */
    struct {                    /* by the last look: */
        pid_t writer;           /* > 0: this process has it open for writing */
        bool abandoned;         /* its writer here died before the close */
        bool regular;           /* it is a regular file */
        bool unsettled;         /* that it is the newest only the homes can say; ... */
        bool pending;           /* other nodes may still write it */
        off_t size;             /* if a file is here */
        struct timespec mtime;
    } here;
    bool taken;         /* it was fetched, but a writer here had its name: step_on() */
    bool gave_way;      /* ... and then no file was here */
    bool for_writer;    /* the caller did not ask to wait: it waits for such a writer */
    bool own_turn;      /* consume_is_own_turn() */
    bool left_by_other; /* its writer on another node is gone: this was logged */
    bool asks_again;    /* LOOK_UP: its writers are to be asked again, at `again` */
    bool left_closed; /* published in this storage, but abandoned: a close was cut short */
    uint64_t gives_way_since; /* ... more than once */
    uint64_t unseen_since;    /* published in this storage, but not seen since then; or 0 */
    struct {
        uint32_t owner;
        uint64_t since;              /* 0: it is not gone */
        uint64_t interval;           /* of the looks for it */
        unsigned returns;            /* how often an owner that was gone came back */
        struct dyad_version version; /* that the owner has */
        struct dyad_version before;  /* `seen` before the version that was found last */
    } lost;                          /* an owner that is gone */
    struct {
        struct net_timer *timer;
        uint64_t still;   /* member->still when the wait began: it does not count */
        uint64_t put_off; /* it came while we did not run: put off until then; or 0 */
        bool late;        /* it has passed: no more waiting */
    } deadline;
    struct {
        struct net_timer *timer;
        uint64_t interval;
        struct consume_writers *writers; /* asks who writes it, for the next line */
        bool alone;                      /* consume_say_alone() */
    } say;
    struct {
        struct dht_lookup *check;              /* as `lookup` */
        struct dht_writing_ask *writers_check; /* as `ask_writers` */
        enum consume_kind kind;
        struct consume_probe *expected; /* finds out the kind; NULL: not under way */
    } wave;                             /* for a wave of the barrier */
};

/* Of consume_wave.c. */
struct waits {
    uint64_t checking; /* number of the wave that consume_confirm() works for */
    unsigned checks;   /* its look-ups under way, here and in ancestors.c */
};

/* --- consume.c --- */

/* A version above `seen` is published; bytes: malloc'ed, c's from now on, or NULL. Raises
 * the activity counter. May free c. */
void consume_found(struct consume *c, const struct dyad_entry *entry, void *bytes);

/* --- consume_state.c --- */

/* End the present state with all its fields, and enter another. */
void consume_enter(struct consume *c, enum consume_state state);
/* Both free c: consume_end() calls its fn, consume_free() nobody. */
void consume_end(struct consume *c, int status);
void consume_free(struct consume *c);
/* True if only a publish can make it go on. */
bool consume_is_waiting(const struct consume *c);
/* Drop the request of a wave of the barrier. */
void consume_check_drop(struct consume *c);

/* --- consume_here.c --- */

/* Look at the local file. 0: complete; EAGAIN: being written, or abandoned; ENOENT;
 * ESTALE: a link is above it; or another errno value. over() is called when its writer
 * has ended. */
int consume_look_here(struct consume *c, void (*over)(struct consume *c));
/* A look-up has found none; `entry`: its tombstone, or NULL. An older file here, which is superseded, goes. */
void consume_withdrawn(struct consume *c, int status, const struct dyad_entry *entry);

/* --- consume_deadline.c --- */

/* It waits from now on; DYAD_TIMEOUT counts from the beginning of the consume. */
void consume_deadline_start(struct consume *c);
/* Timer `deadline.timer` has expired. True: it is late from now on; else the timer runs
 * on. */
bool consume_deadline_is_over(struct consume *c);

/* --- consume_owner.c --- */

/* The version that was found last cannot be had yet: let the next look-up find it again.
 */
void consume_unsee(struct consume *c);

/* The owner is gone. 0: it is waited for, until the timer `again`; EHOSTUNREACH (logged):
 * it is waited for no longer; ETIMEDOUT: the time of the wait is over. */
int consume_owner_lost(struct consume *c, uint32_t owner);
/* True if a look-up's ENOENT is from before the version whose owner is gone, so that the
 * wait for `lost.owner` goes on. */
bool consume_owner_awaited(const struct consume *c, int status,
                           const struct dyad_entry *entry);
void consume_peer_up(struct member *member, const struct net_peer *peer);

/* --- consume_local_writer.c --- */

/* The file is here, and the process of `info` writes it; `fd` is open on it. over() is
 * called when that has ended. */
void consume_watch_start(struct consume *c, struct member_dmd *dmd,
                         const struct store_mark_info *info, int fd,
                         void (*over)(struct consume *c));
/* The consume ends; the watch goes on without it. */
void consume_watch_leave(struct consume *c);
/* True if the watched process is dead, and the watch is about to report that. */
bool consume_watch_ending(const struct consume *c);
/* Set that it waits because of a writer, even if the caller did not ask to wait; and undo
 * that. */
void consume_wait_for_writer(struct consume *c);
void consume_writer_gone(struct consume *c);

/* --- consume_node_writers.c --- */

/* True if another node may write the file that is here. */
bool consume_must_ask_writers(const struct consume *c);
/* Other nodes still write what was found: true if the open waits for them. */
bool consume_waits_for_others(const struct consume *c);
/* It is for an open that makes the file if there is none, and does not empty it: other nodes may do
 * the same. */
bool consume_may_make(const struct consume *c);
/* Handle the answer of `ask_writers`, as of dht_writing_ask_fn. Returns the status with
 * which the consume ends; or EOWNERDEAD: the writer is gone, and a newer version is to be looked
 * up. */
int consume_writers_ruling(struct consume *c, int status, uint32_t by,
                           const struct dyad_version *version);
/* Text that says what `ask_writers` waits for; static buffer of the loop's thread. */
const char *consume_writers_say(const struct consume *c);
/* The file was published in our storage, and is not seen here. True: look at it again. */
bool consume_await_sight(struct consume *c);

/* --- consume_pending.c --- */

/* No other node writes the pending file that is here any more: is it the newest? True: that is looked up, and
 * the consume goes on; false: no memory. */
bool consume_look_for_newer(struct consume *c);
/* True if that is to be looked up though no other node writes the file: it is unsettled, or one of DYAD_TURNS. */
bool consume_may_be_newer(const struct consume *c);
/* True if this version is of DYAD_TURNS and of our own component: the open waits for another one's. */
bool consume_is_own_turn(struct consume *c, const struct dyad_entry *entry);

/* --- consume_say.c --- */

/* Log that no rank is left that could publish, and that the wait ends because of `why`.
 * One line for each name and reason, a limited number at a time; those left out are
 * counted. */
void consume_say_nobody(struct consume *c, const char *why);

/* Log that DYAD_TIMEOUT ends the wait. */
void consume_say_late(const struct consume *c);

/* Timer `say.timer` has expired: log that it still waits. */
void consume_say_still(void *arg);
/* Log once that only a rank that joins later can end the wait. */
void consume_say_alone(struct consume *c);

/* --- consume_writers.c --- */

/* Ask all nodes which process has the file open for writing. fn is called later, once,
 * with a text that names it, or "": none that answers has it. Only one such request at a
 * time. 0 or -1 ENOMEM. */
int consume_writers_ask(struct consume *c,
                        void (*fn)(struct consume *c, const char *writer));
/* Cancel the request; fn is not called any more. */
void consume_writers_stop(struct consume *c);

/* --- consume_wave.c: the functions of struct member_waits, also for its test --- */

size_t consume_blocked(struct member *member, struct boot_blocked *blocked, size_t max);
bool consume_all_blocked(struct member *member);
bool consume_confirm(struct member *member, uint64_t number);
void consume_fail_waiting(struct member *member, bool away);
uint64_t consume_candidate(struct member *member, uint64_t *name);
void consume_fail_chosen(struct member *member, bool away);
/* True if a wait is being ended: its process will go on. */
bool consume_is_failing(struct member *member);
void consume_say_waiting(struct member *member);

#endif
