/*
 * engine/fetch/consume_impl.h - between the modules of a consume, for nobody else:
 * consume.c takes its steps; consume_owner.c waits for an owner that is gone,
 * consume_writer.c for a writer on this node, consume_settle.c for those on other nodes
 * that see the same storage; consume_wave.c answers the barrier and ends waits that it
 * gives up; consume_say.c tells people of them, after consume_writers.c has asked who
 * writes what they wait for.
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

struct consume {
    struct consume *prev, *next; /* utlist */
    struct member *member;
    char *upath;
    struct ancestor *ancestor; /* the directories above, if they are not here */
    struct consume *link;      /* one of these that is a link, on its way here */
    uint8_t flags;
    uint64_t timeout_ms;
    pid_t pid, tid;
    consume_fn fn;
    void *arg;
    uint64_t since;
    uint64_t say_interval;
    struct net_timer *deadline, *say;
    struct consume_writers *say_writers; /* who writes it is asked for the next line */
    struct dyad_version seen;            /* look for versions above this one */
    struct dyad_version before_lost;  /* `seen` before the version that is being fetched */
    struct dyad_version lost_version; /* that one, if its owner is gone */
    uint32_t owner;
    struct dht_lookup *lookup;
    struct dht_lookup *check;        /* for the barrier, beside `lookup` */
    struct dht_settle *settle;       /* it is here: does another node write it? */
    struct dht_settle *settle_check; /* for the barrier, beside `settle` */
    bool regular;                    /* what is here is a regular file */
    bool left_by_other;              /* who wrote it on another node is gone: was said */
    bool in_sight;           /* the look-up said that it is published in this storage */
    bool left_closed;        /* ... but it is abandoned here: its close was cut short */
    uint64_t unseen_since;   /* but it is not seen here since then; 0: that was not so */
    struct dyad_entry entry; /* what was found, and is being fetched */
    struct bring *bring;
    bool stale; /* it is out of date by now */
    struct transfer_wait transfer;
    bool transferring;
    bool abandoned; /* who wrote it here died over it */
    bool taken;     /* it was fetched, but a writer here had its name: see consume_step() */
    bool
        for_writer; /* NET_LOOKUP_WAIT was not asked for: it is for a writer on this node */
    uint64_t still; /* member->still when it began: that time does not count */
    uint64_t put_off;    /* the deadline came while we were not running: until then; or 0 */
    bool late;           /* the deadline came while it was being fetched: no more waiting */
    uint64_t lost_since; /* the owner is gone since then; 0: it is not */
    uint32_t lost_owner;
    unsigned returns;       /* of lost owners */
    struct net_timer *lost; /* runs while we wait for the owner */
    bool lost_waiting;
    bool awaits_sight; /* with lost_waiting: not for an owner, consume_await_sight() */
    uint64_t lost_interval;
    bool said_alone; /* consume_say_waiting() */
    bool failing;    /* lookup or settle is the last look before it is given up */
    /* For the verdict: what kind of wait it is, and whether that is being found out. */
    enum consume_kind kind;
    bool by_choice; /* failing as the verdict chose, and not with all others */
    struct consume_probe *expected;
    bool away; /* ... because nobody who can be reached is left, by what others say */
    struct writer_watch *watch;
    pid_t writer; /* > 0: it is here and this process has it open for writing */
    struct net_post post;
    bool posted, cancelled;
    int status; /* with `posted`: -1: take a step, else the end */
};

/* --- consume.c --- */

void consume_end(struct consume *c, int status);
/* dht_lookup_fn: the answer of `lookup`, which is gone. Raises the activity, unless the
 * wait goes on. It may have ended on return. */
void consume_looked_up(void *arg, int status, const struct dyad_entry *entry);
/* It will not go on but by a publish. */
bool consume_is_waiting(const struct consume *c);
/* What a wave of the barrier asked is no longer of interest. */
void consume_check_drop(struct consume *c);

/* --- consume_owner.c --- */

/* The owner is gone. 0: it is waited for, until the timer `lost`; EHOSTUNREACH (logged): no
 * longer; ETIMEDOUT: the time of its wait is over. */
int consume_owner_lost(struct consume *c, uint32_t owner);
/* A look-up's answer says of a version whose owner is gone that it is not there: true if
 * that is old news, and `lost_owner` is to be waited for on. */
bool consume_owner_awaited(struct consume *c, int status, const struct dyad_entry *entry);
/* The wait for it is over; the look-up that follows is to find the same version, too. */
void consume_owner_look(struct consume *c);
void consume_peer_up(struct member *member, const struct net_peer *peer);

/* --- consume_writer.c --- */

/* It is here, and the process of `info` writes it; `fd` is open on it. over() is called
 * when that has ended. */
void consume_watch_start(struct consume *c, struct member_side *side,
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
/* It was published in our storage, and is not seen here. True: it will be looked at again.
 */
bool consume_await_sight(struct consume *c);

/* --- consume_say.c --- */

/* Nobody is left: it ends, because of `why`. A line for each name and reason, so many at a
 * time; what is left out is counted. */
void consume_say_nobody(struct consume *c, const char *why);
/* The count, at the end. */
void consume_say_stop(struct member *member);

/* Timer `say`. */
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
