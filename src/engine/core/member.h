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
/* Seconds for which the answer of a look-up may be kept (dht/node_lookup_cache.c), or half
 * of DYAD_PEER_TIMEOUT if that is less, for a home waits no longer than that for a holder:
 * so long a rank that its homes have lost sight of may be told what is not so any more. */
#define MEMBER_KEEP 2.0
/* Seconds between the slow rounds in which a rank tells the homes again what it has
 * published. */
#define MEMBER_REFRESH 600.0

struct member_dmd {
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
struct late_name;
struct served;
struct serve_watch;
struct guest_listener;
struct gather;
struct dump_request;
struct dump_check;
struct list_request;
struct bring;
struct exit_barrier;
struct held_open;
struct member_session;
struct nested;
struct takeover;
struct startup_validation;
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
    struct member_dmd dmd[2]; /* by enum engine_role; equal where the DMDs are */
    struct net_peer self;
    struct boot_pmix *pmix;
    struct member_session *ring; /* DYAD_SESSION_DIR; NULL: PMIx */
    const char *ring_id;         /* its name, for file names */
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

    struct guest_listener *listener;
    uint64_t checking;             /* number of the wave that consume_confirm() works for */
    unsigned checks;               /* its look-ups under way */
    struct consume_said *said;     /* consume_say.c */
    struct consume_failed *failed; /* consume_probe.c */
    struct consume *consumes;      /* utlist */
    struct transfer *transfers;    /* uthash by upath */
    struct chunk *gets;            /* uthash by id: chunks that are being asked for */
    struct produce *produces;      /* utlist */
    struct late_name *late_names;  /* utlist */
    struct known_dir *dirs;        /* uthash by upath */
    struct list_request *lists;    /* utlist */
    struct served *served;         /* utlist: GETs being answered or waiting for a buffer */
    unsigned serving;              /* buffers in use */
    struct serve_watch *serve_watches; /* utlist */
    struct gather *gathers;            /* utlist */
    struct dump_request *dumps;
    struct dump_check *dump_checks;   /* utlist */
    struct held_open *held_opens;     /* utlist */
    struct shared_file *shared_files; /* uthash by side and upath */
    struct shared_tell *shared_tells; /* utlist: what the homes have not acknowledged */
    struct exit_barrier *exit_barrier;
    struct nested *nested;
    struct takeover *takeover;
    struct startup_validation *startup_validation;
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

#endif
