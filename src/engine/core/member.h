/*
 * engine/core/member.h - the member of a rank: what its modules share
 *
 * One struct member, owned by the loop's thread: nothing in it needs a lock unless said so.
 * Which module does what stands in docs/engine.md; what it hears of, in
 * core/module.h.
 */
#ifndef DYAD_ENGINE_CORE_MEMBER_H
#define DYAD_ENGINE_CORE_MEMBER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "boot/pmix.h"
#include "boot/wave.h"
#include "dht/node.h"
#include "client/client_ops.h"
#include "engine/core/iopool.h"
#include "engine/core/member_ops.h"
#include "net/loop.h"
#include "net/worker.h"
#include "store/dmd.h"
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
    uint64_t session; /* store_renames_session() */
    bool brings;      /* what is fetched comes here */
};

struct boot_blocked;
struct member;
struct member_module;

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

/* What the exit barrier must know of waits, and do with them (consume.c). */
struct member_waits {
    /* How many wait for a publish; fills at most max. */
    size_t (*blocked)(struct member *member, struct boot_blocked *blocked, size_t max);
    /* None that is under way needs anybody: all wait for what is not published. */
    bool (*all_blocked)(struct member *member);
    /* boot_wave_ops.confirm: look every wait up once more, then boot_wave_confirmed().
     * False: nothing waits. */
    bool (*confirm)(struct member *member, uint64_t number);
    /* boot_wave_ops.candidate: of the waits that were confirmed. */
    uint64_t (*candidate)(struct member *member, uint64_t *name);
    /* Nobody is left who could publish: end those waits that the verdict chose (all that
     * look like probes, else those for one name) with ENOENT, after one more look at all
     * homes (the news of a publish may still be on its way). `away`: nobody who can be
     * reached: all end, with EHOSTUNREACH. */
    void (*fail_chosen)(struct member *member, bool away);
    /* The same for every wait of this rank, whatever others do. */
    void (*fail)(struct member *member, bool away);
    /* Was a wait for a name like this last component of one ended so? */
    bool (*failed_like)(const struct member *member, const char *name);
    /* In a session directory, in place of that: say what each waits for, once. */
    void (*say)(struct member *member);
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
struct chunk;
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
    struct store_answers *answers;              /* NULL: none are shared */
    const struct member_module *const *modules; /* NULL: of a promoted guest */
    struct dht_node_ops table_ops;              /* each module enters what it does */
    const struct member_waits *waits;           /* set when the modules have started */
    int line; /* of this rank in the table of the marks (store/looked.h), or -1 */
    struct net_timer *dht_timer;
    struct boot_wave *wave;
    struct member_joined *joined, **joined_tail;
    uint64_t
        next_id; /* of requests that are not the table's: odd ones, the table's are even */

    struct net_watch *claim_watch;
    bool claim_full; /* too many connections: not watched */
    struct guest *guests;
    uint64_t checking;             /* number of the wave that consume_confirm() works for */
    unsigned checks;               /* its look-ups under way */
    struct consume_said *said;     /* consume_say.c */
    struct consume_failed *failed; /* consume_probe.c */
    struct consume *consumes;      /* utlist */
    struct transfer *transfers;    /* uthash by upath */
    struct chunk *gets;            /* uthash by id: chunks that are being asked for */
    struct produce *produces;      /* utlist */
    struct late *late;             /* utlist */
    struct known_dir *dirs;        /* uthash by upath */
    struct list_request *lists;    /* utlist */
    struct served *served;         /* utlist: GETs being answered or waiting for a buffer */
    unsigned serving;              /* buffers in use */
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
    struct restock *restock;        /* NULL: nothing was ever wanted */
    /* engine/promoted/promoted.h */
    struct peer_link *peer_links;    /* utlist */
    struct peer_redirect *redirects; /* uthash by upath */
    uint32_t promotions;             /* so far */
    bool hands_over; /* this is a promoted guest: what it fetched goes to its member */
    struct member_stats stats;
};

/* --- run.c --- */

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

/* --- requests.c --- */
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
/* The same, whether somebody has it open for writing or not. Any thread. */
bool produce_is_same(struct member_side *side, const struct store_record *record);
/* Is the file of that inode, which is at upath, out of date, and keeps its name until it is
 * replaced (store/superseded.h)? As far as its mode and count of links tell, for nothing.
 * Any thread. */
bool produce_is_superseded(const struct member_side *side, const char *upath,
                           const struct stat *st);

/* The program changed what upath is: made it (a directory, a link), or gave a file other
 * times, permissions or another length by name. A file is published anew if it was
 * published and nobody is writing it. status 0 also if there was nothing to publish. */
int produce_changed(struct member *member, enum engine_side side, const char *upath,
                    produce_fn fn, void *arg);

/* --- late_names.c --- */

/* upath is a new name of a file that is being written: it is published after the file. */
void late_note(struct member *member, enum engine_side side, const char *upath);
/* produce_start() of a file whose last description was closed, and then of the names that
 * waited for that. `fn` must be given. */
int produce_closed(struct member *member, enum engine_side side, const char *upath,
                   store_mark_t mark, produce_fn fn, void *arg);

/* --- publish_rename.c --- */

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
/* The record of what was replaced goes, unless something new was recorded since. */
void invalidate_forget(struct member *member, const char *upath);

/* --- outdated.c --- */

/* What the record names is older than `newer`. It is removed, if it is still that file.
 * Not so what this node has made, or somebody has open for writing: that is superseded from
 * now on, if what is newer can come in its place. True: the name is to be brought here
 * again. Of directories nothing happens. Any thread. */
bool outdated_end(struct member_side *side, const struct dyad_entry *newer,
                  const struct store_record *record);

/* The name was withdrawn: what is superseded there goes. Any thread. */
void outdated_withdrawn(struct member_side *side, const char *upath);

/* --- restock.c --- */

/* What this node has made under that name another one has published anew: bring it here, in
 * a moment in which nothing else is heard of it. */
void restock_want(struct member *member, const char *upath);
bool restock_wants(const struct member *member, const char *upath);
/* It was withdrawn. */
void restock_forget(struct member *member, const char *upath);

/* --- directories.c --- */
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

/* --- held_open.c --- */

/* `pid` has closed the description of `mark`, which another process holds; its descriptor
 * `number` is open on the file, until fn is called: when that process can be trusted to
 * settle the mark, or when the mark was settled. 0 or -1 with errno. */
int orphan_watch(struct member *member, enum engine_side side, const char *upath,
                 store_mark_t mark, pid_t pid, int number, produce_fn fn, void *arg);
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
/* upath has a newer version: what was found of it, and is not fetched yet, must not be. */
void consume_invalidate(struct member *member, const struct dyad_entry *newer);
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

/* --- ancestors.c --- */
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

/* GET_DIRECT, in a promoted guest. */
void serve_get_direct(struct member *member, const struct net_msg *msg);
/* serve_other.c: what GETs ask for that wait was found, or (error) it is not here. */
void serve_searched(struct member *member, const struct dyad_entry *entry, int error);
void serve_stop(struct member *member);

/* --- takeover.c, adopt_*.c --- */

/* Look whether a rank of our session on our node is dead, and take over what it has left:
 * after the join, and when one may have died. Cheap if there is nothing. */
void adopt_look(struct member *member);
/* The process is, or was, a member of our node, and has closed its connection: look when it
 * has ended. */
void adopt_watch(struct member *member, pid_t pid);
/* Somebody needs this, which may lie on our node and be known to no journal. If its owner
 * seems to be dead, look whether it is here and whole, and take it over; if it is not here
 * any more it is withdrawn. */
void adopt_wanted(struct member *member, const struct dyad_entry *entry);
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

/* --- outdated.c --- */
/* On any thread: `newer` is published, and `record` is what a journal of this node, that of
 * `rank`, has of that upath: remove it, if it is older and still there. */
void outdated_discard(struct member_side *side, const struct dyad_entry *newer,
                      uint32_t rank, const struct store_record *record);

/* --- startup_validation.c --- */
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
/* takeover.c has been through all journals. */
void first_look_read(struct member *member);
/* Call fn, maybe at once, when it is known whether the copy of upath on this node is right,
 * if there is one. error 0, ETIMEDOUT (timeout_ms 0: never), ESHUTDOWN. */
void first_look_wait(struct member *member, struct first_look_wait *wait, const char *upath,
                     uint64_t timeout_ms, void (*fn)(void *arg, int error), void *arg);
/* It is over, and those who ask can be told in no other way than by the answer. */
bool first_look_must_tell(const struct member *member);

/* --- unreachable.c --- */
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

/* --- exit_barrier.c --- */
/* Something began or ended (publish, wait, exit): raises the activity counter, tells the
 * others. */
void linger_activity(struct member *member);
/* What the barrier is told may have changed. */
void linger_look_soon(struct member *member);
/* The program is at its exit and no process below it is left. */
bool linger_may_leave(const struct member *member);

/* --- servers.c --- */
/* Is a server alive that will serve what we leave on this node? */
bool servers_serve_us(struct member *member);
/* ... that serves, or will, what lies in this storage? */
bool servers_have(struct member *member, const uint8_t storage[DYAD_STORAGE_ID_LEN]);
/* Is that rank a server, or was one last? False as long as only its being there is known.
 */
bool servers_is_one(struct member *member, uint32_t rank);
/* Does that member, which is of our node, adopt what we leave? It has our directories. */
bool servers_has_ours(const struct member *member, const struct net_peer *peer);

/* --- nested.c --- */
/* Is a member alive that has started this launch? Finds out, and tells it. */
bool within_is_inner(struct member *member);
/* The same, and will it serve what we leave on this node? */
bool within_is_served(struct member *member);
/* Does a rank live of a launch that this member has started? */
bool within_has_inner(struct member *member);

/* --- dump.c --- */
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

/* --- consume_probe.c --- */

/* What says that a name which is not published will come, or will not. */
enum consume_says {
    CONSUME_SAYS_WRITTEN = 1 << 0, /* a node has it open for writing */
    /* Another rank, or this one, which is not at its exit, has published what is of the
     * same series. */
    CONSUME_SAYS_SERIES = 1 << 1,
    CONSUME_SAYS_OWN_SERIES = 1 << 2,
    CONSUME_SAYS_FAILED = 1 << 3,  /* a wait for one like it was ended */
    CONSUME_SAYS_UNKNOWN = 1 << 4, /* not all ranks have answered */
};
/* Ask all ranks. fn hears it, once, not before this returns. NULL: ENOMEM. */
typedef void (*consume_probe_fn)(void *arg, unsigned says);
struct consume_probe *consume_probe_start(struct member *member, const char *upath,
                                          consume_probe_fn fn, void *arg);
void consume_probe_cancel(struct consume_probe *probe);
/* A wait for upath was ended, since nobody was left. Was one for what is called `name`, or
 * of the same series, in whatever directory? */
void consume_failed_note(struct member *member, const char *upath);
bool consume_failed_like(const struct member *member, const char *name);
void consume_failed_stop(struct member *member);

/* --- listing.c --- */

/* The names published directly below upath ("": the DMD): page() for each page of names
 * that have not come yet (net_list_next() reads it), then done(). status: 0, or an errno
 * value: EHOSTUNREACH so many ranks are silent that names may be missing, ENOMEM. Neither
 * is called before this returns. `like`: instead what says that this name will come
 * (NET_LIST_LIKE). NULL: ENOMEM, ENOTSUP DYAD_LISTING is off. */
typedef void (*list_page_fn)(void *arg, const void *names, size_t len);
typedef void (*list_done_fn)(void *arg, int status);
struct list_request *list_start(struct member *member, const char *upath, const char *like,
                                list_page_fn page, list_done_fn done, void *arg);
void list_cancel(struct list_request *list);
void list_stop(struct member *member);

/* --- shared_storage.c --- */

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
