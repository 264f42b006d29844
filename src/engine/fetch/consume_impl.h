/*
 * engine/fetch/consume_impl.h - between the modules of a consume, for nobody else:
 * consume.c goes from one state to the next, consume_state.c leaves them, consume_here.c
 * looks at what is here; consume_deadline.c has DYAD_TIMEOUT; consume_owner.c waits for an
 * owner that is gone, consume_local_writer.c for a writer on this node, consume_settle.c
 * for those on other nodes that see the same storage; consume_wave.c answers the barrier
 * and ends waits that it gives up; consume_say.c tells people of them, after
 * consume_writers.c has asked who writes what they wait for.
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

/* Between two looks at something that cannot be waited for otherwise. */
#define CONSUME_LOOK_AGAIN (UTIL_NSEC_PER_SEC)

/* A wait is spoken of after that, and then after twice as long each time. */
#define CONSUME_SAY_AFTER (10 * UTIL_NSEC_PER_SEC)

/* In this order waits are ended where nobody is left. */
enum consume_kind {
    CONSUME_NEW = 0,  /* not looked at yet */
    CONSUME_PROBE,    /* it looks like what its process can do without */
    CONSUME_FAILED,   /* one like it was ended already */
    CONSUME_OTHER,    /* nothing is known of it */
    CONSUME_EXPECTED, /* a rank that waits itself could still write it */
};

/* The table at the top of consume.c says when each begins, and what ends it. */
enum consume_state {
    CONSUME_HERE,
    CONSUME_LOOK_UP,
    CONSUME_ABOVE,
    CONSUME_LINK,
    CONSUME_PARENTS,
    CONSUME_FETCH,
    CONSUME_OWNER,
    CONSUME_SIGHT,
    CONSUME_SETTLE,
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
    uint64_t since;

    /* What a state has while it lasts, and no longer: consume_enter(). */
    enum consume_state state;
    struct dht_lookup *lookup;     /* LOOK_UP, LAST_LOOK */
    struct ancestor *ancestor;     /* LOOK_UP, LAST_LOOK, ABOVE: directories not here */
    struct dht_settle *settle;     /* SETTLE, LAST_LOOK */
    struct consume *link;          /* LINK: it, on its way here */
    struct bring *bring;           /* PARENTS */
    bool stale;                    /* PARENTS: `entry` is out of date by now */
    struct transfer_wait transfer; /* FETCH */
    struct net_timer *again;       /* look once more: HERE (the first time), LOOK_UP if
                                      nobody tells, OWNER, SIGHT */
    struct {
        bool by_choice; /* the verdict chose it, and not all others */
        bool away;      /* nobody who can be reached is left, by what others say */
    } last;             /* LAST_LOOK */

    /* What goes on beside a state, or lasts from one to another. */
    struct dyad_version seen;   /* look for versions above this one */
    struct dyad_entry entry;    /* what was found last */
    struct writer_watch *watch; /* over a writer of this node */
    struct {                    /* by the last look: */
        pid_t writer;           /* > 0: this process has it open for writing */
        bool abandoned;         /* who wrote it here died over it */
        bool regular;           /* it is a regular file */
    } here;
    bool taken;         /* it was fetched, but a writer here had its name: step_on() */
    bool gave_way;      /* ... and then nothing was here */
    bool for_writer;    /* NET_LOOKUP_WAIT was not asked for: it is for such a writer */
    bool left_by_other; /* who wrote it on another node is gone: was said */
    bool left_closed; /* published in this storage, but abandoned: a close was cut short */
    uint64_t unseen_since; /* published in this storage, but not seen; 0: that was not so */
    struct {
        uint32_t owner;
        uint64_t since;              /* 0: it is not gone */
        uint64_t interval;           /* of the looks for it */
        unsigned returns;            /* of owners that were gone */
        struct dyad_version version; /* that it has */
        struct dyad_version before;  /* `seen` before the version that was found last */
    } lost;                          /* an owner that is gone */
    struct {
        struct net_timer *timer;
        uint64_t still;   /* member->still when it began: that time does not count */
        uint64_t put_off; /* it came while we were not running: until then; or 0 */
        bool late;        /* it has come: no more waiting */
    } deadline;
    struct {
        struct net_timer *timer;
        uint64_t interval;
        struct consume_writers *writers; /* who writes it is asked for the next line */
        bool alone;                      /* consume_say_alone() */
    } say;
    struct {
        struct dht_lookup *check;        /* as `lookup` */
        struct dht_settle *settle_check; /* as `settle` */
        enum consume_kind kind;
        struct consume_probe *expected; /* of which kind it is is being found out */
    } wave;                             /* for a wave of the barrier */
};

/* Of consume_wave.c. */
struct waits {
    uint64_t checking; /* number of the wave that consume_confirm() works for */
    unsigned checks;   /* its look-ups under way, here and in ancestors.c */
};

/* --- consume.c --- */

/* A version above `seen` is published. Raises the activity. It may have ended on return. */
void consume_found(struct consume *c, const struct dyad_entry *entry);

/* --- consume_state.c --- */

/* Leave the state that it is in, with all that it has, for another. */
void consume_enter(struct consume *c, enum consume_state state);
/* It is no more on return; nor after consume_free(), which tells nobody. */
void consume_end(struct consume *c, int status);
void consume_free(struct consume *c);
/* It will not go on but by a publish. */
bool consume_is_waiting(const struct consume *c);
/* What a wave of the barrier asked is no longer of interest. */
void consume_check_drop(struct consume *c);

/* --- consume_here.c --- */

/* What is here? 0: complete; EAGAIN: being written, or abandoned; ENOENT; ESTALE: a link is
 * above it; or another errno value. over() is called when who writes it has ended. */
int consume_look_here(struct consume *c, void (*over)(struct consume *c));

/* --- consume_deadline.c --- */

/* It waits from now on: DYAD_TIMEOUT counts from the beginning. */
void consume_deadline_start(struct consume *c);
/* Timer `deadline.timer`. True: it is late from now on; else the timer runs on. */
bool consume_deadline_is_over(struct consume *c);

/* --- consume_owner.c --- */

/* What was found last cannot be had yet: the next look-up is to find it, too. */
void consume_unsee(struct consume *c);

/* The owner is gone. 0: it is waited for, until the timer `again`; EHOSTUNREACH (logged):
 * no longer; ETIMEDOUT: the time of its wait is over. */
int consume_owner_lost(struct consume *c, uint32_t owner);
/* A look-up's answer says of a version whose owner is gone that it is not there: true if
 * that is old news, and `lost.owner` is to be waited for on. */
bool consume_owner_awaited(const struct consume *c, int status,
                           const struct dyad_entry *entry);
void consume_peer_up(struct member *member, const struct net_peer *peer);

/* --- consume_local_writer.c --- */

/* It is here, and the process of `info` writes it; `fd` is open on it. over() is called
 * when that has ended. */
void consume_watch_start(struct consume *c, struct member_dmd *dmd,
                         const struct store_mark_info *info, int fd,
                         void (*over)(struct consume *c));
/* The end of the consume: the watch goes on without it. */
void consume_watch_leave(struct consume *c);
/* Who is watched is dead; the watch is on its way back. */
bool consume_watch_ending(const struct consume *c);
/* It waits from now on, if it did not, because of a writer; and no longer because of that.
 */
void consume_wait_for_writer(struct consume *c);
void consume_writer_gone(struct consume *c);

/* --- consume_settle.c --- */

/* What is here may be written by another node. */
bool consume_must_settle(const struct consume *c);
/* The answer of `settle`, as of dht_settle_fn. The status with which it ends; or
 * EOWNERDEAD: who wrote it is gone, and a newer version is to be looked up. */
int consume_settle_ruling(struct consume *c, int status, uint32_t by,
                          const struct dyad_version *version);
/* What `settle` waits for; static buffer of the loop's thread. */
const char *consume_settle_says(const struct consume *c);
/* It was published in our storage, and is not seen here. True: it is to be looked at again.
 */
bool consume_await_sight(struct consume *c);

/* --- consume_say.c --- */

/* Nobody is left: it ends, because of `why`. A line for each name and reason, so many at a
 * time; what is left out is counted. */
void consume_say_nobody(struct consume *c, const char *why);

/* DYAD_TIMEOUT ends it. */
void consume_say_late(const struct consume *c);

/* Timer `say.timer`. */
void consume_say_still(void *arg);
/* Only a newcomer can end it: that is said once. */
void consume_say_alone(struct consume *c);

/* --- consume_writers.c --- */

/* Ask all nodes who has it open for writing. fn is called later, once, with whom, for
 * people, or "": nobody who answers. Not while one is under way. 0 or -1 ENOMEM. */
int consume_writers_ask(struct consume *c,
                        void (*fn)(struct consume *c, const char *writer));
/* No call any more. */
void consume_writers_stop(struct consume *c);

/* --- consume_wave.c: struct member_waits, and for its test --- */

size_t consume_blocked(struct member *member, struct boot_blocked *blocked, size_t max);
bool consume_all_blocked(struct member *member);
bool consume_confirm(struct member *member, uint64_t number);
void consume_fail_waiting(struct member *member, bool away);
uint64_t consume_candidate(struct member *member, uint64_t *name);
void consume_fail_chosen(struct member *member, bool away);
/* Is one being ended? Its process will go on. */
bool consume_is_failing(struct member *member);
void consume_say_waiting(struct member *member);

#endif
