/*
 * dht/node.h - one rank's part in the table: it keeps a shard, and it asks the others
 *
 * As a home: serves PUBLISH, LOOKUP, LOOKUP_CANCEL; notifies waiters; tells holders of
 * old copies before it acknowledges a newer version. As a client: publishes to the homes
 * of a key, looks up with retry at the next home, registers again after the death of a
 * home, republishes what a change of membership moved, and lets all homes know of each
 * copy that was looked up with COPY. A node knows no network: it is given a function that
 * sends a message to a rank, so 100,000 nodes run in one process. Not thread-safe:
 * belongs to the loop. Allocation failures inside an operation end that operation as a
 * silent home would.
 */
#ifndef DYAD_DHT_NODE_H
#define DYAD_DHT_NODE_H

#include <stdbool.h>
#include <stdint.h>

#include "dht/homes.h"
#include "dht/shard.h"
#include "net/msg.h"
#include "util/answer.h"

struct dht_node;
struct dht_lookup;

struct dht_node_config {
    uint32_t self, nranks;
    uint32_t incarnation;
    uint32_t depth, bins, replicas; /* replicas is clamped to nranks */
    bool listing;                   /* keep an index of directories */
    bool absent;                    /* all others count as dead until dht_node_set_live() */
    bool restores;                  /* dht_node_restored() will be called */
    const uint32_t *node;           /* node number of each rank, or NULL; borrowed */
    uint64_t request_timeout; /* ns until a silent home is passed over for this request */
    uint64_t retry_interval;  /* ns after which a waiting lookup asks again (5 s) */
    uint64_t invalidate_timeout; /* ns until a silent holder is dropped; after half of it
                                  * others of its node are asked */
    uint64_t keep_time; /* ns for which a kept answer counts, at most invalidate_timeout; 0:
                         * no answer is kept */
    uint64_t lease; /* ns for which a holder uses its copies after it has asked their homes,
                     * at most invalidate_timeout; 0: it does not ask (node_lease.c) */
    uint64_t inlined_max;      /* bytes of small files that our shard keeps; 0: none */
    uint64_t refresh_interval; /* ns between anti-entropy rounds (each publishes all that is
                                * ours again); 0: none */
};

/* Callbacks (completions and ops->invalidate) come from dht_node_receive() and
 * dht_node_tick() only; when one is due the timer is set to now. They may start and
 * cancel operations. */
struct dht_node_ops {
    /* Send to another rank (never self). 0 or -1 with errno; failure counts as a silent
     * home. The reply comes back by dht_node_receive(), never from inside. source and
     * source_incarnation are set; msg's pointers live until return. */
    int (*send)(void *arg, uint32_t rank, struct net_msg *msg);
    uint64_t (*now)(void *arg); /* ns, monotonic */
    /* Microseconds since 1970, as the nodes' clocks have it: no version of ours has a lower
     * counter than this at the time (node_publish.c). NULL: counters begin at 1. */
    uint64_t (*wall)(void *arg);
    /* The node's next deadline changed: call dht_node_tick() at `when` (UINT64_MAX: none).
     */
    void (*set_timer)(void *arg, uint64_t when);
    /* This rank's node may hold a copy (or the old original) older than newer->version,
     * which must not be used any more. Call dht_node_invalidated(token) when it is gone;
     * also from inside. `newer` lives until return. May come more than once for one
     * version (from several homes), for a version that this node has by now, and with
     * newer->owner == self: then the homes know only a version of an earlier incarnation,
     * and the file here must be published again to count. Not called while a publish of
     * ours that may still win over `newer` is under way: it then waits for that to end.
     */
    void (*invalidate)(void *arg, const struct dyad_entry *newer, uint64_t token);
    /* The same for an entry that this rank itself has withdrawn, of which no home
     * notifies it: called before the completion, since an older copy may have been on its
     * way. Not called if another operation on that upath waits. May be NULL. */
    void (*withdrawn)(void *arg, const struct dyad_entry *gone, uint64_t token);
    /* Answers that the members of this node share (store/cache_table.h). All five may be
     * NULL; they return at once. get: the answer to upath that another member keeps and
     * that counts at `now`; never one that a dead member kept. put: share this answer;
     * returns its number, or 0. drop: after it, no get that begins finds that put. heard:
     * the homes have said at `now` that upath is published, or is not; from then on no
     * get finds an answer that says otherwise and began before. heard_at: when a home last
     * said so to any member of the node. */
    bool (*answer_get)(void *arg, const char *upath, uint64_t now,
                       struct dyad_answer *answer);
    uint64_t (*answer_put)(void *arg, const char *upath, const struct dyad_answer *answer);
    void (*answer_drop)(void *arg, uint64_t put);
    void (*answer_heard)(void *arg, const char *upath, uint64_t now, bool published);
    uint64_t (*answer_heard_at)(void *arg, const char *upath, bool published);
    /* As invalidate(), for the files of any rank of this node, alive or dead, because
     * `rank`, which may have a copy, does not answer. If the files of that rank cannot be
     * seen here call dht_node_unseen(token) before dht_node_invalidated(). NULL: the user
     * knows only its own files, and invalidate() is called. */
    void (*invalidate_node)(void *arg, const struct dyad_entry *newer, uint32_t rank,
                            uint64_t token);
    /* As a home we have a new version of a published name. May be NULL. It must not call
     * back. */
    void (*taken)(void *arg, const struct dyad_entry *entry);
    /* A home has not answered in time: it may be dead. May be NULL. It must not call back.
     */
    void (*silent)(void *arg, uint32_t rank);
    /* Another rank waits until this one does not write upath any more. Call
     * dht_node_writing() if it does not, or its writer has died. May be NULL. */
    void (*wanted)(void *arg, const char *upath);
    /* This rank had no copies, and is about to get one. May be NULL. Must not call back.
     */
    void (*held)(void *arg);
    /* This rank is told of `newer`, published by another, while it publishes upath itself in
     * a higher version. May be NULL. Must not call back. */
    void (*overtaken)(void *arg, const struct dyad_entry *newer);
    /* (may be NULL) True if both ranks see the same files: what one says of its node's marks holds
     * for the other. */
    bool (*beside)(void *arg, uint32_t rank, uint32_t other);
    /* (may be NULL) A home says, before the publish of upath ends, that other ranks write it,
     * each into a file of its own. */
    void (*written)(void *arg, const char *upath);
};

/* status 0 or errno value: EHOSTUNREACH no home could be reached (an entry of ours is kept
 * and tried again), EOVERFLOW, ESTALE (lost 64 races in a row), ECANCELED (dht_ahead_fn). */
typedef void (*dht_publish_fn)(void *arg, int status, const struct dyad_version *version);
/* status EIDRM: with base `joint`, that other nodes have removed the file since its writers declared
 * themselves, as all homes say. */
/* This version of `entry` is about to be sent to the homes: from inside dht_node_publish_ahead(), or when those
 * before it have ended, and then, and if it is refused, the file's bytes stay behind. Called again with the next
 * version if a home knows a higher one, or one that has come between it and its base
 * (dht/base.h), which is `refused` then (NULL at first); and, if the base is FROM, with
 * version NULL when all homes have acknowledged it. STOP: it is not to be published any
 * more, and ends with ECANCELED. CHANGED: size, mode, times or conflict of `entry` have been
 * changed, and the file's bytes stay behind; of what was acknowledged, the next version
 * follows. `base` may be changed, too. Must not call back. */
enum dht_ahead { DHT_AHEAD_GO, DHT_AHEAD_CHANGED, DHT_AHEAD_STOP };
typedef enum dht_ahead (*dht_ahead_fn)(void *arg, const struct dyad_version *version,
                                       const struct dyad_entry *refused,
                                       struct dyad_entry *entry, struct dyad_base *base);
/* status 0 and entry (lives until return); ENOENT: not published (entry->state WITHDRAWN if
 * there is a tombstone, entry may be NULL); EALREADY, with WRITES only: the same, and another node
 * writes it, too; EHOSTUNREACH: no home could be reached. */
typedef void (*dht_lookup_fn)(void *arg, int status, const struct dyad_entry *entry);

struct dht_node *dht_node_create(const struct dht_node_config *config,
                                 const struct dht_node_ops *ops, void *arg);
void dht_node_destroy(struct dht_node *node);

/* Publish (entry->state PUBLISHED) or withdraw (WITHDRAWN) at all homes. entry->version is
 * the last version known (zero if none): the next one is chosen, and chosen again if a home
 * knows better. fn once all live homes have acknowledged (or the bounds have passed for
 * those that are silent, as long as one has). entry is copied. The node remembers its own
 * published entries (owner == self) and its withdrawals for republication. Publishes and
 * withdrawals of one upath run one after the other, in the order of the calls. fn may be
 * NULL. 0 or -1 ENOMEM. */
int dht_node_publish(struct dht_node *node, const struct dyad_entry *entry,
                     dht_publish_fn fn, void *arg);
/* The same; calls `ahead` before the version is sent to any home. base: what its writer
 * began from, copied; NULL: it replaces whatever is there. bytes: those of the file,
 * entry->size (at most NET_MSG_BLOB_MAX), copied; the homes keep them while they have room
 * and give them to ranks that look up with COPY. NULL: none; so are they for a version that
 * is published again, by whomever. */
int dht_node_publish_ahead(struct dht_node *node, const struct dyad_entry *entry,
                           const struct dyad_base *base, const void *bytes,
                           dht_ahead_fn ahead, dht_publish_fn fn, void *arg);

/* Publish an entry again, with its version and entry->owner == self, that an earlier
 * incarnation of this rank published, or a dead rank of this storage (from the journal).
 * Asynchronous, no completion. An entry with the version that is ours already is sent to
 * the homes again, which may name another owner by now. */
/* If the table knows a newer version by now, ops->invalidate is called as for any
 * superseded owner. 0 or -1 ENOMEM, EINVAL (no version, or not PUBLISHED or WITHDRAWN).
 */
int dht_node_restore(struct dht_node *node, const struct dyad_entry *entry);
/* With config.restores: all entries of an earlier incarnation have been restored.
 * RESYNCED is not sent before this call (node_resync.c). */
void dht_node_restored(struct dht_node *node);

/* --- ranks that write a file, on storage that nodes share, or each into a file of its own
 * (node_writing.c) --- */

enum dht_writing {
    DHT_WRITING_BEGIN,
    DHT_WRITING_JOIN, /* into a file of its own, and others may do so, too: new homes are not told */
    DHT_WRITING_END,     /* after a JOIN: nor does any other rank of its node */
    DHT_WRITING_END_OWN, /* of this rank only */
    DHT_WRITING_ABANDONED
};
/* status 0; EALREADY: as 0, and a JOIN has met a writer on another node; or EHOSTUNREACH: no home
 * could be reached */
typedef void (*dht_writing_fn)(void *arg, int status);
/* Notify the homes of upath, and until the END also new ones, that this rank has it open
 * for writing, has closed it, or that its writer died: then it is not complete until a
 * version is published. `when`, of a JOIN: now, ns by the node's clock; of an END: when that was
 * found (others of the node may have begun since); else 0. fn (may be NULL) is called when all live
 * homes know. 0 or -1 ENOMEM. */
int dht_node_writing(struct dht_node *node, const char *upath, enum dht_writing what,
                     uint64_t when, dht_writing_fn fn, void *arg);

/* The same as a JOIN, of who has found the file `base` here (kind NONE: there is none; stays: others of
 * its node have, and may have changed it; joint: readers wait for its end also if a version is published, and no other
 * node writes it). ESTALE: as 0, but another version is published. */
int dht_node_writing_from(struct dht_node *node, const char *upath,
                          const struct dyad_base *base, uint64_t when, dht_writing_fn fn,
                          void *arg);

/* ranks[0] to [n - 1], the caller's until fn returns: all on other nodes that write upath, each into
 * a file of its own. owner: of the version that was put together of such files, if another node
 * has it, or DYAD_RANK_NONE. root: the version of which all write changes; kind NONE: not known. status 0; EHOSTUNREACH; EOWNERDEAD: `owner` has died over it; EIO: a conflict was published
 * since this rank began. `owner` is also that of a version since then of which not all is on record: it refuses. */
typedef void (*dht_who_fn)(void *arg, int status, uint32_t owner, const uint32_t *ranks,
                           unsigned n, const struct dyad_base *root);
/* Ask all homes who writes upath. fn is always called, later. 0 or -1 ENOMEM. */
int dht_node_who_writes(struct dht_node *node, const char *upath, dht_who_fn fn, void *arg);

/* As a home: call fn for each rank that is known to write upath (DHT_WRITING_*), or has died over
 * that. */
void dht_node_writers(const struct dht_node *node, const char *upath,
                      void (*fn)(void *arg, uint32_t rank, bool dead), void *arg);
/* The rank has left in order: it writes nothing any more. Before dht_node_set_live(). */
void dht_node_rank_left(struct dht_node *node, uint32_t rank);

struct dht_writing_ask;
/* status 0: at some moment since the call nobody wrote it; EOWNERDEAD: `by` left it half
 * written after `version` (zero: none was published), and nobody writes it; EBUSY (without
 * wait): `by` writes it; EHOSTUNREACH. */
typedef void (*dht_writing_ask_fn)(void *arg, int status, uint32_t by,
                                   const struct dyad_version *version);
/* Ask whether another rank writes upath; `wait`: wait until none does, without bound.
 * NULL: ENOMEM. The handle is freed when fn is called. */
struct dht_writing_ask *dht_node_ask_writers(struct dht_node *node, const char *upath,
                                             bool wait, dht_writing_ask_fn fn, void *arg);
/* fn will not be called. */
void dht_node_ask_writers_cancel(struct dht_node *node, struct dht_writing_ask *ask);
/* The writer that it waits for, or DYAD_RANK_NONE: it only waits for answers. */
uint32_t dht_writing_ask_writer(const struct dht_writing_ask *ask);

/* Look up; flags NET_LOOKUP_*. Only versions above newer_than (may be NULL) count. With
 * WAIT, fn is called when one is published (no bound: the caller cancels), or with ENOENT
 * and its entry when it is a tombstone that is known to be in force: to wait
 * on, look up again with the tombstone's version as newer_than. Without WAIT a negative
 * answer needs all homes that are live, and one that has been a home all along
 * (dht_node_set_missing()). With KEEP (no WAIT, no newer_than) the answer may be one that
 * was kept, here or by another member of this node, and is kept: it is as true as one of
 * the homes' (node_lookup_cache.c); with KEEP and COPY only that there is nothing. With
 * DHT_LOOKUP_SURE (alone) all homes are asked at once, and "nothing (newer)" is believed
 * only if, also, each home has answered that is not known to be lost: if one is silent
 * the
 * status is EHOSTUNREACH. NULL: ENOMEM. The handle is freed when fn is called. */
#define DHT_LOOKUP_SURE 0x10u
struct dht_lookup *dht_node_lookup(struct dht_node *node, const char *upath, uint8_t flags,
                                   const struct dyad_version *newer_than, dht_lookup_fn fn,
                                   void *arg);
/* From inside fn, with COPY and status 0: the bytes of the entry's file, entry->size,
 * malloc'ed, which are the caller's now; NULL: none came. */
void *dht_lookup_take_bytes(struct dht_lookup *lookup);
/* fn will not be called. */
void dht_node_cancel(struct dht_node *node, struct dht_lookup *lookup);
/* This rank has a copy that an earlier incarnation fetched (from the journal): treat it
 * as if it had been looked up with COPY. ops->invalidate is called if the table knows a
 * newer version. 0 or -1 ENOMEM, EINVAL (no version). */
int dht_node_hold(struct dht_node *node, const char *upath,
                  const struct dyad_version *version);
/* That rank had taken us for dead, and may have dropped our waiters: ask it again about
 * all copies whose version it did not have. */
void dht_node_forgotten(struct dht_node *node, uint32_t rank);
/* This rank's copy of entry->upath, if it is older than the entry, was removed, though no
 * home has sent an INVALIDATE for it. */
void dht_node_let_go(struct dht_node *node, const struct dyad_entry *entry);
/* Returns the number of this rank's copies; home[r], of nranks, is set for each rank that
 * is a home of one. *known: each copy is noted by a home of it, and has a home that is
 * not `unsure` (of nranks; the entry of self is not used). Walks over all copies, ~0.3 us
 * each. */
unsigned dht_node_copy_homes(struct dht_node *node, const bool *unsure, bool *home,
                             bool *known);
/* A number that rises each time the rank is taken for dead here. */
uint32_t dht_node_losses(const struct dht_node *node, uint32_t rank);
/* tentative: this rank, as a home, may have missed a publish. majority: it is known to be
 * on the majority. */
bool dht_node_is_tentative(const struct dht_node *node);
bool dht_node_is_majority(const struct dht_node *node);
/* The home at which a waiting lookup waits now, or DYAD_RANK_NONE. For log messages. */
uint32_t dht_lookup_home(const struct dht_lookup *lookup);

/* A message of type PUBLISH .. INVALIDATE_REPLY, or ERROR, arrived. Others are ignored
 * (false). */
bool dht_node_receive(struct dht_node *node, const struct net_msg *msg);
void dht_node_invalidated(struct dht_node *node, uint64_t token);
/* True while an INVALIDATE is under way here; also while it waits for a publish of this
 * rank to end, before ops->invalidate() is called. */
bool dht_node_is_invalidating(const struct dht_node *node);
void dht_node_unseen(struct dht_node *node, uint64_t token);
/* Before dht_node_invalidated(): the older file is not used, but keeps its name; so the
 * homes shall send this rank the next version as to a holder of a copy. */
void dht_node_stays(struct dht_node *node, uint64_t token);
void dht_node_tick(struct dht_node *node);

/* This process did not run for `ns`: answers that came meanwhile are still unread. */
void dht_node_stood_still(struct dht_node *node, uint64_t ns);

/* A rank became unreachable (dead or never joined) or reachable again. Moves homes, waiters
 * and our own entries. For a new incarnation (its shard is empty): false, then true. Self
 * is always live. */
void dht_node_set_live(struct dht_node *node, uint32_t rank, bool live);
bool dht_node_is_live(const struct dht_node *node, uint32_t rank);
/* With config.absent: true if the rank has never been live as far as this node knows. */
bool dht_node_is_absent(const struct dht_node *node, uint32_t rank);

/* Why a rank is not live. */
enum dht_missing {
    DHT_GONE,         /* dead, or never there: negative answers do not need it */
    DHT_MISSING,      /* it may be beyond a cut, and be back soon */
    DHT_MISSING_LONG, /* it has been missing for long, and may be back or not */
};
/* A negative answer counts only from a rank that would be a home if all missing ranks
 * were live. If all of these are missing or silent, a look-up goes on asking for
 * request_timeout (not so if all are MISSING_LONG) and then ends in EHOSTUNREACH. Call
 * this before dht_node_set_live(false), which ends operations that wait for the rank.
 * When the rank is live again it becomes DHT_GONE; if it was missing until then it is
 * taken for the same incarnation, and our negative answers are not believed until it has
 * said that all its entries are with us (node_tentative.c). */
void dht_node_set_missing(struct dht_node *node, uint32_t rank, enum dht_missing missing);
/* Set the side of a cut that we are on, if ranks are missing. Unless it is the majority
 * our "not published" is tentative (node_tentative.c). DHT_PARTITION_UNKNOWN: it is being
 * found out. */
enum dht_partition {
    DHT_PARTITION_MAJORITY,
    DHT_PARTITION_UNKNOWN,
    DHT_PARTITION_MINORITY
};
void dht_node_set_partition(struct dht_node *node, enum dht_partition side);
/* Our side has been the majority for so long that a rank which is DHT_MISSING_LONG, or
 * will be, counts as lost on our side: its word is not waited for. Until the side
 * changes. */
void dht_node_partition_lasts(struct dht_node *node);
/* `unsynced`: we have joined, and this rank has not yet said (RESYNCED) that its entries
 * which belong to us are with us. Until it has, or is DHT_MISSING_LONG or DHT_GONE, our
 * "not published" is not believed (node_tentative.c); if it comes back from those states
 * it is asked then, also as another incarnation. false: it has said so. */
void dht_node_set_unsynced(struct dht_node *node, uint32_t rank, bool unsynced);
/* The rank has not said so, and does not seem to be there: it is asked when it comes. */
void dht_node_not_awaited(struct dht_node *node, uint32_t rank);
/* True if the rank is one of the upath's homes, or would be if it were live. */
bool dht_node_concerns(const struct dht_node *node, const char *upath, uint32_t rank);

/* The next live rank after `last` (DYAD_RANK_NONE: the first) on the node of `rank`,
 * other than `rank`; it may be this one. DYAD_RANK_NONE: there is none. */
uint32_t dht_node_neighbour(const struct dht_node *node, uint32_t rank, uint32_t last);

struct dht_shard *dht_node_shard(struct dht_node *node);

struct dht_node_stats {
    uint64_t asked;    /* LOOKUP messages to other ranks */
    uint64_t answered; /* LOOKUPs that came from other ranks */
    uint64_t kept;     /* look-ups that a kept answer ended */
    uint64_t node;     /* look-ups that an answer of another member of this node ended */
};
const struct dht_node_stats *dht_node_get_stats(const struct dht_node *node);
unsigned dht_node_homes(struct dht_node *node, const char *upath,
                        uint32_t homes[DHT_REPLICAS_MAX]);
/* True if a publish or withdrawal of this upath by us is under way, or an entry of ours
 * is not yet at all its homes. */
bool dht_node_is_publishing(struct dht_node *node, const char *upath);
/* True if we own a published entry, or an operation of ours is under way. May walk over all our tombstones. */
bool dht_node_owns(const struct dht_node *node);
/* Publishes and withdrawals that were begun and not yet acknowledged, those of restored and
 * moved entries included (a round that has yet to find them counts as one). */
unsigned dht_node_pending(const struct dht_node *node);

/* in_place: true if all entries that were ours at `moment` are at the homes that follow
 * from the ranks known to live then. Ask again after dht_node_receive() and
 * dht_node_tick(). */
uint64_t dht_node_moment(const struct dht_node *node);
bool dht_node_in_place(const struct dht_node *node, uint64_t moment);

/* With config.absent a node is a newcomer until this is called: asked for an entry that
 * it does not have it answers that it does not know, and the asker asks the earlier
 * homes. */
void dht_node_joined(struct dht_node *node);

/* A newcomer lives: pass on to it those entries of our shard whose owner, who would
 * publish them again, is gone. dht_node_in_place() waits for that, too. 0 or -1 ENOMEM:
 * not all. */
int dht_node_pass_on(struct dht_node *node, uint32_t newcomer);

/* Handoff before we leave: give the shard to the homes that follow (node_leave.c). From
 * now on this rank does not count itself as a home, but goes on to answer as one. Nothing
 * new may be published. 0 or -1 ENOMEM. */
int dht_node_hand_over(struct dht_node *node);
/* True when as much of it as possible has been given. Ask again as for
 * dht_node_in_place(). */
bool dht_node_handed_over(const struct dht_node *node);
/* After that: refuse requests to us as a home, so that the askers turn to the others. */
void dht_node_retire(struct dht_node *node);

#endif
