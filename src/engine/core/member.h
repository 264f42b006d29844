/*
 * engine/core/member.h - the member of a rank: what its modules share
 *
 * One struct member, owned by the loop's thread: nothing in it needs a lock unless said so.
 * docs/engine.md says which module does what, core/module.h which events it can hear of.
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
#include "engine/core/module.h"
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
 * of DYAD_PEER_TIMEOUT if that is less, for a home waits no longer than that for a
 * holder.
 * A rank that its homes have lost may use an outdated answer for that long. */
#define MEMBER_KEEP 2.0
/* Seconds between the slow rounds in which a rank tells the homes again what it has
 * published. */
#define MEMBER_REFRESH 600.0
/* Bytes of small files that a shard keeps beside their entries. */
#define MEMBER_INLINED (16u << 20)

struct member_dmd {
    struct store_dir *dir; /* NULL: this rank has no such DMD */
    struct store_marks *marks;
    struct store_extents *extents; /* NULL: nothing is recorded */
    struct store_journal *journal;
    uint64_t session; /* store_renames_session() */
    bool brings;      /* what is fetched comes here */
    struct engine_near near;
};

struct boot_blocked;

enum member_state {
    MEMBER_JOINING, /* requests are queued */
    MEMBER_JOINED,
    MEMBER_EXITING, /* the program is in exit(): serve until the barrier */
    MEMBER_LEAVING, /* nothing new is begun */
};

struct member_stats {
    uint64_t published, withdrawn, fetches, bytes_fetched, bytes_served, local_copies;
    /* by promoted guests, part of the fetches; GETs sent on to them */
    uint64_t promoted, promoted_fetches, promoted_bytes, redirected;
    uint64_t inlined; /* part of the fetches: the bytes had come with the entry */
};

/* What the exit barrier asks about waits, and does with them (consume_wave.c). */
struct member_waits {
    /* The number of waits for a publish; fills in at most max of them. */
    size_t (*blocked)(struct member *member, struct boot_blocked *blocked, size_t max);
    /* True if every consume waits for a file that is not published. */
    bool (*all_blocked)(struct member *member);
    /* boot_wave_ops.confirm: look every wait up once more, then boot_wave_confirmed().
     * False: nothing waits. */
    bool (*confirm)(struct member *member, uint64_t number);
    /* boot_wave_ops.candidate, out of the waits that were confirmed. */
    uint64_t (*candidate)(struct member *member, uint64_t *name);
    /* No rank is left that could publish: end those waits that the verdict chose (all
     * that look like probes, else those for one name) with ENOENT, after one more look at
     * all homes (the news of a publish may still be on its way). `away`: no rank that can
     * be reached is left: all waits end, with EHOSTUNREACH. */
    void (*fail_chosen)(struct member *member, bool away);
    /* The same for every wait of this rank, whatever others do. */
    void (*fail)(struct member *member, bool away);
    /* True if a wait for a name like `name`, a last component, was ended so. */
    bool (*failed_like)(const struct member *member, const char *name);
    /* In a session directory, in place of fail*(): log what each waits for, once. */
    void (*say)(struct member *member);
};

/* Runs once the member has joined (error 0) or cannot (errno value). */
struct member_joined {
    struct member_joined *next;
    void (*fn)(void *arg, int error);
    void *arg;
};

struct consume;
struct guest_listener;
struct member_session;
struct produce_name;
struct receivers;

/* Fields that several modules use, and which file sets them. A module's own are in own[].
 */
struct member {
    /* run.c, or promoted_guest.c, when the member is created: */
    const struct engine_config *config;
    const struct boot_identity *identity;
    const char *session;
    uint64_t launch;
    void (*thread_enter)(void);
    int claim_fd;
    const struct member_module *const *modules; /* NULL: of a promoted guest */
    bool hands_over; /* this is a promoted guest: it hands fetched files to its member */
    /* module.c, also then: */
    void *own[MODULE_COUNT]; /* OWN() */
    struct receivers *receivers;

    /* run.c, while it runs: */
    uint64_t started; /* util_clock_now() */
    struct net_loop *loop;
    struct engine_iopool *io;
    struct boot_pmix *pmix;
    const struct boot_pmix_job *job; /* or session_member.c */
    /* member_core.c */
    enum member_state state;
    struct member_joined *joined, **joined_tail;
    /* storage.c */
    struct member_dmd dmd[2]; /* by enum engine_role; equal where the DMDs are */
    int line; /* of this rank in the table of the marks (store/looked.h), or -1 */
    struct net_peer self; /* and session_member.c */
    /* session_member.c */
    struct member_session *ring; /* DYAD_SESSION_DIR; NULL: PMIx */
    const char *ring_id;         /* its name, for file names */
    /* links.c */
    struct net_worker *worker;
    bool local; /* all ranks are in this network namespace, and no other comes */
    struct dht_node *dht;
    struct net_timer *dht_timer;
    struct boot_wave *wave;
    bool job_ended;   /* every rank is at exit */
    bool passed_over; /* ... but for a rank that could not be reached, and may live */
    uint64_t still;   /* ns for which this process did not run, as far as it noticed */
    /* requests/guest.c */
    struct guest_listener *listener;
    /* For the exit barrier, which may not call the modules that own these: */
    struct consume *consumes;         /* utlist, of fetch/consume*.c */
    struct produce_name *produces;    /* uthash, of publish/produce.c */
    const struct member_waits *waits; /* fetch/consume_wave.c */

    /* Each module: its callbacks for the table, set before that is made; its counters. */
    struct dht_node_ops table_ops;
    struct member_stats stats;
    /* Any sender of a request that is not the table's. Odd: the table's ids are even. */
    uint64_t next_id;
};

/* --- run.c --- */

/* Call fn when joined; in this call if that is so already. `wait` is the caller's. */
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
/* Names of the nodes on which files of ended launches may lie that no member serves; "":
 * none. Valid until the loop runs again. */
const char *member_session_empty_nodes(struct member *member);
/* With DYAD_SESSION_DIR: whether the process that had a slot has ended for good, as far
 * as is known here. With PMIx always NOT_ENDED: a rank belongs to the job even when dead.
 */
enum member_end {
    MEMBER_NOT_ENDED, /* or that is not known */
    MEMBER_LEFT,      /* it has said so */
    MEMBER_DIED,
    MEMBER_ENDED, /* in one of these ways */
};
enum member_end member_session_end(const struct member *member, uint32_t slot);
/* The rank's connection broke: ask the launcher whether it has a new member.
 * worker_peer_up() follows if so. */
void member_find_again(struct member *member, uint32_t rank);
/* Begin to leave, without lingering any more. */
void member_stop(struct member *member);

#endif
