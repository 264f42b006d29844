/*
 * engine/member.h - the member of a rank: what its modules share
 *
 * One struct member, owned by the loop's thread: nothing in it needs a lock unless said so.
 * The modules: member.c joins, runs and leaves; member_session.c does so by a directory;
 * request.c answers the processes of the rank; produce.c, rename.c, consume.c, transfer.c,
 * serve.c and invalidate.c are the life of a file, a directory or a link; orphan.c sees to
 * files whose writer has closed them while another holds them; dirs.c and ancestor.c care
 * for the directories above; list.c lists, bring.c brings whole trees; peer_member.c deals
 * with promoted guests (peer.h); lost.c knows who cannot be reached, revalidate.c looks at
 * copies again after that; adopt.c takes over what dead ranks of the node have left, and
 * first_look.c has the rank's processes wait for it;
 * linger.c is the end; dump.c tells; answers.c shares what was looked up; shared.c
 * is for storage that nodes share.
 */
#ifndef DYAD_ENGINE_MEMBER_H
#define DYAD_ENGINE_MEMBER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "boot/pmix.h"
#include "boot/wave.h"
#include "dht/node.h"
#include "engine/engine_ops.h"
#include "engine/iopool.h"
#include "engine/member_ops.h"
#include "net/loop.h"
#include "net/worker.h"
#include "store/dir.h"
#include "store/journal.h"
#include "store/marks.h"

/* Chunks that an owner holds in memory at once for all its consumers. */
#define MEMBER_SERVE_BUFFERS 16
/* Seconds after which a waiting look-up asks its homes again. */
#define MEMBER_ASK_AGAIN 5.0
/* Seconds for which the answer of a look-up may be kept (dht/node_kept.c), or half of
 * DYAD_PEER_TIMEOUT if that is less, for a home waits no longer than that for a holder: so
 * long a rank that its homes have lost sight of may be told what is not so any more. */
#define MEMBER_KEEP 2.0
/* Seconds between the slow rounds in which a rank tells the homes again what it has
 * published. */
#define MEMBER_REFRESH 600.0

struct member_side {
    struct store_dir *dir; /* NULL: this rank has no such DMD */
    struct store_marks *marks;
    struct store_journal *journal;
};

enum member_state {
    MEMBER_JOINING, /* requests are queued */
    MEMBER_JOINED,
    MEMBER_EXITING, /* the program is in exit(): serve until the barrier */
    MEMBER_LEAVING, /* nothing new is begun */
};

struct member_stats {
    uint64_t published, withdrawn, fetches, bytes_fetched, bytes_served, local_copies;
    /* by promoted guests, part of the fetches; GETs sent on to them */
    uint64_t promoted, peer_fetches, peer_bytes, redirected;
};

/* Runs once the member has joined (error 0) or cannot (errno value). */
struct member_joined {
    struct member_joined *next;
    void (*fn)(void *arg, int error);
    void *arg;
};

struct store_answers;
struct consume;
struct peer_link;
struct peer_redirect;
struct transfer;
struct produce;
struct late;
struct served;
struct serve_watch;
struct guest;
struct gather;
struct dump_request;
struct dump_check;
struct list_request;
struct bring;
struct linger;
struct orphan;
struct member_session;
struct within;
struct adopt;
struct first_look;
struct invalidate;
struct shared_file;
struct shared_tell;

struct member {
    const struct engine_config *config;
    const struct boot_identity *identity;
    const char *session;
    uint64_t launch;
    void (*thread_enter)(void);
    int claim_fd;

    enum member_state state;
    bool job_ended;   /* every rank is at exit */
    uint64_t started; /* util_clock_now() */
    uint64_t still;   /* ns for which this process did not run, as far as it noticed */
    struct net_loop *loop;
    struct engine_iopool *io;
    struct member_side side[2]; /* by enum engine_side; equal where the DMDs are */
    struct net_peer self;
    struct boot_pmix *pmix;
    struct member_session *ring; /* DYAD_SESSION_DIR; NULL: PMIx */
    const struct boot_pmix_job *job;
    struct net_worker *worker;
    struct dht_node *dht;
    struct store_answers *answers; /* NULL: none are shared */
    struct net_timer *dht_timer;
    struct boot_wave *wave;
    struct member_joined *joined, **joined_tail;
    uint64_t
        next_id; /* of requests that are not the table's: odd ones, the table's are even */

    struct net_watch *claim_watch;
    bool claim_full; /* too many connections: not watched */
    struct guest *guests;
    uint64_t checking;          /* number of the wave that consume_confirm() works for */
    unsigned checks;            /* its look-ups under way */
    struct consume *consumes;   /* utlist */
    struct transfer *transfers; /* uthash by upath */
    struct produce *produces;   /* utlist */
    struct late *late;          /* utlist */
    struct known_dir *dirs;     /* uthash by upath */
    struct list_request *lists; /* utlist */
    struct served *served;      /* utlist: GETs being answered or waiting for a buffer */
    unsigned serving;           /* buffers in use */
    struct serve_watch *serve_watches; /* utlist */
    struct gather *gathers;            /* utlist */
    struct dump_request *dumps;
    struct dump_check *dump_checks;   /* utlist */
    struct orphan *orphans;           /* utlist */
    struct shared_file *shared_files; /* uthash by side and upath */
    struct shared_tell *shared_tells; /* utlist: what the homes have not acknowledged */
    struct linger *linger;
    struct within *within;
    struct adopt *adopt;
    struct first_look *first_look;
    struct invalidate *invalidates; /* utlist */
    /* engine/peer.h */
    struct peer_link *peer_links;    /* utlist */
    struct peer_redirect *redirects; /* uthash by upath */
    uint32_t promotions;             /* so far */
    bool hands_over; /* this is a promoted guest: what it fetched goes to its member */
    struct member_stats stats;
};

/* --- member.c --- */

/* Call fn when joined; at once if that is so already. */
void member_when_joined(struct member *member, struct member_joined *wait,
                        void (*fn)(void *arg, int error), void *arg);
/* Send to a rank that may be this one (then delivered through the loop). 0 or -1 with
 * errno. */
int member_send(struct member *member, uint32_t rank, struct net_msg *msg);
/* The node of a rank for messages to people; static buffer of the loop's thread. */
const char *member_node_name(struct member *member, uint32_t rank);
/* A rank for messages to people: "rank 3 on node n1"; where ranks are slots of a session
 * directory, what its launcher calls it: "rank 3 of launch X on node n1". One of two static
 * buffers of the loop's thread, in turn. */
const char *member_describe(struct member *member, uint32_t rank);
/* Nodes on which files of ended launches may lie and nobody serves them; "": none. Valid
 * until the loop runs again. */
const char *member_session_empty_nodes(struct member *member);
/* With DYAD_SESSION_DIR: has the process that had a slot ended for good, as far as is known
 * here? In a launch of PMIx nobody has: a rank belongs to the job whether it lives or not.
 */
enum member_end {
    MEMBER_NOT_ENDED, /* or nobody knows */
    MEMBER_LEFT,      /* it has said so */
    MEMBER_DIED,
    MEMBER_ENDED, /* in one of these ways */
};
enum member_end member_session_end(const struct member *member, uint32_t slot);
/* The rank's connection broke: ask the launcher whether it has a new member.
 * worker_peer_up() follows if so. */
void member_find_again(struct member *member, uint32_t rank);
/* Begin to leave: no linger any more. */
void member_stop(struct member *member);

/* --- request.c --- */
int request_start(struct member *member);
/* Close all guests' connections; what they asked is cancelled. */
void request_stop(struct member *member);

/* --- produce.c --- */

/* status 0 or errno value */
typedef void (*produce_fn)(void *arg, int status);
/* Publish upath as it is on disk; clears `mark` (0: none). With DYAD_ASYNC_PUBLISH fn is
 * called once it is sent. 0 or -1 with errno (nothing begun). */
int produce_start(struct member *member, enum engine_side side, const char *upath,
                  store_mark_t mark, produce_fn fn, void *arg);
/* Withdraw upath if it is published: status ENOENT if not. */
int produce_withdraw(struct member *member, const char *upath, produce_fn fn, void *arg);
/* The same, but only if it is published as lying on a storage of this member, who knows
 * that it does not. */
int produce_withdraw_left(struct member *member, const char *upath, produce_fn fn,
                          void *arg);
/* Is a publish of upath under way? */
bool produce_pending(struct member *member, const char *upath);
/* True if a description still writes to the file: its last close will publish it under its
 * name of then. */
bool produce_being_written(struct member_side *side, const char *upath);
/* Publish again what an earlier member of this rank had published. */
void produce_restore(struct member *member);
/* Is the file on disk still the one of the record, and is nobody writing it? Any thread. */
bool produce_still_there(struct member_side *side, const struct store_record *record);
void produce_stop(struct member *member);

/* The program changed what upath is: made it (a directory, a link), or gave a file other
 * times, permissions or another length by name. A file is published anew if it was
 * published and nobody is writing it. status 0 also if there was nothing to publish. */
int produce_changed(struct member *member, enum engine_side side, const char *upath,
                    produce_fn fn, void *arg);

/* --- late.c --- */

/* upath is a new name of a file that is being written: it is published after the file. */
void late_note(struct member *member, enum engine_side side, const char *upath);
/* produce_start() of a file whose last description was closed, and then of the names that
 * waited for that. `fn` must be given. */
int produce_closed(struct member *member, enum engine_side side, const char *upath,
                   store_mark_t mark, produce_fn fn, void *arg);
void late_stop(struct member *member);

/* --- rename.c --- */

/* `to` appeared by a rename (or link: from ""); all that is below it if it is a directory.
 */
int produce_rename(struct member *member, const char *from, const char *to, produce_fn fn,
                   void *arg);
/* The same, some time ago: old names by produce_withdraw_left(). */
int produce_rename_left(struct member *member, const char *from, const char *to,
                        produce_fn fn, void *arg);

/* --- invalidate.c --- */

/* dht_node_ops.invalidate: an older version is no longer to be used on this node. */
void produce_invalidate(void *arg, const struct dyad_entry *newer, uint64_t token);
/* Is upath (NULL: anything) still to go because of one? Its end: first_look_step(). */
bool invalidate_pending(const struct member *member, const char *upath);

/* --- dirs.c --- */
struct known_dir;
struct dirs_wait {
    struct dirs_wait *prev, *next;     /* utlist */
    void (*fn)(void *arg, int status); /* status: errno value; was logged */
    void *arg;
    struct known_dir *dir; /* NULL: fn was called, or dirs_leave() */
};
/* See that the directory upath[len], which is here, is published. mode 0: whatever it says
 * of permissions; else also with these. 1: it is; 0: wait->fn will come (may be at once);
 * -1 ENOMEM. */
int dirs_ensure(struct member *member, enum engine_side side, const char *upath, size_t len,
                mode_t mode, struct dirs_wait *wait);
void dirs_leave(struct dirs_wait *wait);
/* An earlier member of this rank had published it, and it is published again. */
void dirs_restored(struct member *member, enum engine_side side,
                   const struct store_record *record);
/* It was withdrawn, or published by somebody else. */
void dirs_forget(struct member *member, const char *upath);
void dirs_stop(struct member *member);

/* --- orphan.c --- */

/* `pid` has closed the description of `mark`, which another process holds; its descriptor
 * `number` is open on the file, until fn is called: when that process can be trusted to
 * settle the mark, or when the mark was settled. 0 or -1 with errno. */
int orphan_watch(struct member *member, enum engine_side side, const char *upath,
                 store_mark_t mark, pid_t pid, int number, produce_fn fn, void *arg);
/* A closer waits for one of them, or the last holder of one is just gone. */
bool orphan_pending(const struct member *member);
/* After the guests have gone, the pool's threads were joined, and produce_stop(). */
void orphan_stop(struct member *member);

/* --- consume.c, consume_*.c --- */
typedef void (*consume_fn)(void *arg, int status);
/* Bring upath here, complete. flags: NET_LOOKUP_WAIT, NET_CONSUME_WRITER. timeout_ms 0:
 * none. pid and tid: who is blocked in it. fn is not called before this returns. NULL:
 * ENOMEM. */
struct consume *consume_start(struct member *member, const char *upath, uint8_t flags,
                              uint64_t timeout_ms, pid_t pid, pid_t tid, consume_fn fn,
                              void *arg);
void consume_cancel(struct consume *consume);
void consume_stop(struct member *member);
/* boot_wave_ops.confirm: look every wait up once more, then boot_wave_confirmed(). False:
 * nothing waits. */
bool consume_confirm(struct member *member, uint64_t number);
/* A rank has come back: those who wait for it as an owner go on. */
void consume_rank_up(struct member *member, uint32_t rank);
/* upath has a newer version: what was found of it, and is not fetched yet, must not be. */
void consume_invalidate(struct member *member, const struct dyad_entry *newer);
/* A directory or link was removed here, or a link made: waits for names below it look once
 * more what is above them. */
void consume_above_changed(struct member *member, const char *upath);
/* Nobody is left who could publish: end every wait with ENOENT, after one more look at all
 * homes (the news of a publish may still be on its way). `away`: nobody who can be reached;
 * with EHOSTUNREACH. */
void consume_fail_waiting(struct member *member, bool away);
/* In a session directory, in place of that: say what each waits for, once. */
void consume_say_waiting(struct member *member);
/* How many wait for a publish; fills at most max. */
struct boot_blocked;
size_t consume_blocked(struct member *member, struct boot_blocked *blocked, size_t max);
/* None that is under way needs anybody: all wait for what is not published. */
bool consume_all_blocked(struct member *member);
/* For dump: fn for each that waits. home DYAD_RANK_NONE: no look-up is out. */
struct consume_info {
    const char *upath;
    pid_t pid;
    uint64_t since;
    uint32_t home;
    uint64_t timeout_ms;
    pid_t writer; /* > 0: being written here by this process */
};
void consume_foreach(struct member *member,
                     void (*fn)(const struct consume_info *info, void *arg), void *arg);

/* --- ancestor.c --- */
struct ancestor;
/* Look up the directories above upath (borrowed until ancestor_stop()) that are not here,
 * one after the other. flags: NET_LOOKUP_WAIT or 0. 0: fn will come, with EINPROGRESS: a
 * symbolic link was found among them and is being brought; then, or at once if it is here,
 * ESTALE; without waiting ENOENT: there is none. Else nothing was begun: ENOENT none is
 * missing, ESTALE one that is here is a link, ENOMEM. */
int ancestor_start(struct member *member, const char *upath, uint8_t flags, pid_t pid,
                   pid_t tid, consume_fn fn, void *arg, struct ancestor **ancestor);
/* Also from inside fn. */
void ancestor_stop(struct ancestor *ancestor);
/* The link is being brought. */
bool ancestor_is_link(const struct ancestor *ancestor);
/* Part of consume_confirm(). */
void ancestor_check(struct ancestor *ancestor);

/* --- answers.c --- */
/* Share answers of look-ups with the other members of this node, if that can be: the size
 * of the job is known. */
void answers_open(struct member *member);
/* Before any connection is closed: from then on nobody uses those of ours. */
void answers_close(struct member *member);
/* dht_node_ops */
bool answers_get(void *arg, const char *upath, uint64_t now, struct dyad_answer *answer);
uint64_t answers_put(void *arg, const char *upath, const struct dyad_answer *answer);
void answers_drop(void *arg, uint64_t put);
void answers_told(void *arg, const char *upath, uint64_t now, bool published);
uint64_t answers_told_at(void *arg, const char *upath, bool published);

/* --- transfer.c, transfer_*.c --- */
struct transfer_wait {
    struct transfer_wait *prev, *next;
    /* ESTALE: look up again; EBUSY: look here again; EEXIST: the name was taken here (if it
     * is still being written, another fetch would end as this one); EHOSTUNREACH: the owner
     * is gone (not logged as an error) */
    void (*fn)(void *arg, int status);
    void *arg;
    pid_t pid; /* who wants it; 0: nobody in particular */
    int fd;    /* with hands_over and status 0: the complete file, the callee's; or -1 */
    struct dyad_version version; /* asked for; set by transfer_start() */
    struct transfer *transfer;
};
/* Fetch entry into the consumer's DMD, or join the fetch of it that is under way. fn is not
 * called before this returns. 0 or -1 ENOMEM. */
int transfer_start(struct member *member, const struct dyad_entry *entry,
                   struct transfer_wait *wait);
void transfer_leave(struct transfer_wait *wait);
/* DATA or ERROR for a GET of ours; payload becomes the callee's. False: not ours. */
bool transfer_receive(struct member *member, const struct net_msg *msg, void *payload,
                      size_t len);
/* A peer died. */
void transfer_peer_down(struct member *member, uint32_t rank);
/* upath has a newer version: a fetch of an older one must not be put into place. */
void transfer_invalidate(struct member *member, const struct dyad_entry *newer);
/* After that: is an older version just being put into place? Then wait->fn is called (with
 * whatever status) when it is out of the way again. */
bool transfer_await_commit(struct member *member, const struct dyad_entry *newer,
                           struct transfer_wait *wait);
void transfer_stop(struct member *member);

/* --- serve.c --- */
void serve_get(struct member *member, const struct net_msg *msg);
/* GET_DIRECT, in a promoted guest. */
void serve_get_direct(struct member *member, const struct net_msg *msg);
/* A publish of upath has ended: GETs that waited for it go on. */
void serve_published(struct member *member, const char *upath);
/* Is a newer version due for somebody who was refused, now that its writer is gone? Its end
 * is told by linger_activity(). */
bool serve_pending(const struct member *member);
void serve_stop(struct member *member);

/* --- adopt.c, adopt_*.c --- */

/* Look whether a rank of our session on our node is dead, and take over what it has left:
 * after the join, and when one may have died. Cheap if there is nothing. */
void adopt_look(struct member *member);
/* The process is, or was, a member of our node, and has closed its connection: look when it
 * has ended. */
void adopt_watch(struct member *member, pid_t pid);
/* dht_node_ops.invalidate_left: a look first, then produce_invalidate(). */
void adopt_invalidate_left(void *arg, const struct dyad_entry *newer, uint32_t rank,
                           uint64_t token);
/* A copy of our journal was no holder's for some time: is it still what is published? */
void adopt_check_copy(struct member *member, enum engine_side side,
                      const struct store_record *record);
/* Seconds after which a copy goes that its homes do not know. */
#define ADOPT_UNKNOWN_BOUND 15.0
/* Is it not known yet what there is to be taken over? May upath, a copy (NULL: any), be out
 * of date, because the homes have not been heard about it? The end of either:
 * first_look_step(). */
bool adopt_looking(const struct member *member);
bool adopt_undecided(const struct member *member, const char *upath);
/* Somebody waits for the check of upath, if there is one. */
void adopt_hurry(struct member *member, const char *upath);
/* Something is being taken over or checked; its end is told by linger_activity(). */
bool adopt_pending(struct member *member);
/* After the pool's threads were joined, before the table goes. */
void adopt_stop(struct member *member);

/* --- outdated.c --- */
/* On any thread: `newer` is published, and `record` is what `rank`, which does not answer,
 * has of that upath: remove it, if it is older and still there. */
void outdated_discard(struct member_side *side, const struct dyad_entry *newer,
                      uint32_t rank, const struct store_record *record);

/* --- first_look.c --- */
struct first_look_wait {
    struct first_look_wait *prev, *next; /* utlist */
    const char *upath;                   /* borrowed */
    uint64_t until;
    int error;
    void (*fn)(void *arg, int error);
    void *arg;
};
/* We have joined, and are about to look at what was left on this node. 0 or -1, logged. */
int first_look_begin(struct member *member);
/* Something has ended that it waits for. */
void first_look_step(struct member *member);
/* adopt.c has been through all journals. */
void first_look_read(struct member *member);
/* Call fn, maybe at once, when it is known whether the copy of upath on this node is right,
 * if there is one. error 0, ETIMEDOUT (timeout_ms 0: never), ESHUTDOWN. */
void first_look_wait(struct member *member, struct first_look_wait *wait, const char *upath,
                     uint64_t timeout_ms, void (*fn)(void *arg, int error), void *arg);
/* It is over, and those who ask can be told in no other way than by the answer. */
bool first_look_must_tell(const struct member *member);
/* The rank's line in the table of the marks, or -1. */
int first_look_line(const struct member *member);
/* From then on the rank's processes ask the next member. The loop's thread. */
void first_look_close(struct member *member);
/* This process did not run for so long: that does not count. */
void first_look_stood_still(struct member *member, uint64_t ns);
void first_look_stop(struct member *member);

/* --- lost.c --- */
/* Since when the rank cannot be reached (util_clock_now()); 0: it can, as far as we know.
 */
uint64_t lost_since(const struct member *member, uint32_t rank);
/* Somebody needs the rank, which is lost: ask now whether it is there. */
void lost_ask(struct member *member, uint32_t rank);
/* It has not answered in time: if nothing at all is heard of it in the same time again it
 * is taken for dead. */
void lost_suspect(struct member *member, uint32_t rank);
/* A fetch from it was given up without an answer; last act of the caller, as it may bring
 * the news that the rank is lost. And: it did answer one. `size`: of the largest message
 * that was to come, or came. */
void lost_unserved(struct member *member, uint32_t rank, uint64_t size);
void lost_served(struct member *member, uint32_t rank, uint64_t size);
/* It cannot be reached, and is not known to be dead. */
bool lost_is_missing(const struct member *member, uint32_t rank);
/* Nobody listens at its address, and it has not come back from an exec. */
bool lost_has_ended(const struct member *member, uint32_t rank);
/* Of the ranks that cannot be reached, one that is not known to be dead; `long_ago`: for
 * longer than DYAD_JOIN_TIMEOUT. DYAD_RANK_NONE: there is none. */
uint32_t lost_missing(const struct member *member, bool long_ago);

/* --- linger.c --- */
int linger_start(struct member *member);
void linger_stop(struct member *member);
/* Something began or ended (publish, wait, exit): raises the activity counter, tells the
 * others. */
void linger_activity(struct member *member);
/* A rank was lost, or is not lost any more. */
void linger_rank_changed(struct member *member);
/* The program is at its exit and no process below it is left. */
bool linger_may_leave(const struct member *member);
/* The program is in exit(): serve as long as DYAD_LINGER says, then member_stop(). */
void linger_exiting(struct member *member);
/* The image is about to be replaced: member_stop() once publishes under way have ended
 * (bounded). */
void linger_leave_soon(struct member *member);

/* --- within.c --- */
/* Is a member alive that has started this launch? Finds out, and tells it. */
bool within_is_inner(struct member *member);
/* The same, and will it serve what we leave on this node? */
bool within_is_served(struct member *member);
/* Does a rank live of a launch that this member has started? */
bool within_has_inner(struct member *member);
void within_peer_up(struct member *member, const struct net_peer *peer);
bool within_receive(struct member *member, const struct net_msg *msg);
void within_stop(struct member *member);

/* --- dump.c --- */
/* Answer a DUMP of another member. */
void dump_serve(struct member *member, const struct net_msg *msg);
/* Gather for dyad-dht-dump: page() for each page, in any order of ranks; `error` != 0: that
 * rank does not answer. */
typedef void (*dump_page_fn)(void *arg, uint32_t rank, int error, const void *json,
                             size_t len, bool more);
typedef void (*dump_done_fn)(void *arg);
struct dump_request *dump_start(struct member *member, const struct net_msg *ask,
                                dump_page_fn page, dump_done_fn done, void *arg);
void dump_cancel(struct dump_request *dump);
void dump_stop(struct member *member);
/* dump_check.c; after the pool's threads were joined */
void dump_check_stop(struct member *member);

/* --- list.c --- */

/* Answer a LIST of another member. */
void list_serve(struct member *member, const struct net_msg *msg);
/* The names published directly below upath ("": the DMD): page() for each page of names
 * that have not come yet (net_list_next() reads it), then done(). status: 0, or an errno
 * value: EHOSTUNREACH so many ranks are silent that names may be missing, ENOMEM. Neither
 * is called before this returns. NULL: ENOMEM, ENOTSUP DYAD_LISTING is off. */
typedef void (*list_page_fn)(void *arg, const void *names, size_t len);
typedef void (*list_done_fn)(void *arg, int status);
struct list_request *list_start(struct member *member, const char *upath, list_page_fn page,
                                list_done_fn done, void *arg);
void list_cancel(struct list_request *list);
/* A rank that could not be reached is back, or is known to be gone. Nothing is called
 * before this returns, but for want of memory. */
void list_rank_changed(struct member *member);
void list_stop(struct member *member);

/* --- shared.c --- */

/* Do other nodes see the files of this side, or may they? Then the homes are told of what
 * is written, and asked before something is read. */
bool shared_storage(const struct member *member, enum engine_side side);
/* upath is about to be opened for writing, under this mark. fn when the homes know, or
 * cannot be told (logged); not before this returns. 0 or -1 with errno. */
int shared_begin(struct member *member, enum engine_side side, const char *upath,
                 store_mark_t mark, produce_fn fn, void *arg);
/* The mark is over: all is well, or its writer died over it or could not write. upath (may
 * be NULL): its name, in case that this member knows nothing of the mark. fn (may be NULL)
 * when the homes know. */
void shared_end(struct member *member, enum engine_side side, const char *upath,
                store_mark_t mark, bool abandoned, produce_fn fn, void *arg);
/* What is at `from`, or below it, has that other name. */
void shared_renamed(struct member *member, const char *from, const char *to);
/* upath is another name of a file that is being written on this node. */
void shared_named(struct member *member, enum engine_side side, const char *upath);
/* dht_node_ops.wanted */
void shared_wanted(void *arg, const char *upath);
/* Somebody is there: does he see our storage? */
void shared_peer(struct member *member, const struct net_peer *peer);
/* A home has not acknowledged yet what it was told. */
bool shared_pending(const struct member *member);
void shared_stop(struct member *member);

/* --- bring.c --- */

/* Make the directories above upath (parents), or all that is published at and below it, be
 * here, without waiting for what is not published. fn is not called before this returns.
 * NULL: ENOMEM. */
struct bring *bring_start(struct member *member, const char *upath, bool parents, pid_t pid,
                          consume_fn fn, void *arg);
void bring_cancel(struct bring *bring);
/* Is something that is no symbolic link at the name of the directory of upath? */
bool bring_parent_here(struct member *member, const char *upath);

#endif
