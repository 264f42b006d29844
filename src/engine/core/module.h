/*
 * engine/core/module.h - modules of the member: their state, messages and events
 *
 * Calls between the folders of the engine go down (test/layers). A folder notifies those
 * above it by an event: it calls a modules_*() function below, which calls each module
 * that has a function for it, in the order of the table (member->modules), or in the
 * reverse order where things end. All of it runs on the loop's thread.
 */
#ifndef DYAD_ENGINE_CORE_MODULE_H
#define DYAD_ENGINE_CORE_MODULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Lowest first: a module may call those that started before it; they end in the reverse
 * order. */
/* clang-format off */
#define MEMBER_MODULES(X)                                                               \
    /* core */       X(storage) X(answers) X(gathers) X(completion) X(joined_writers)   \
    /* membership */ X(links) X(session) X(unreachable) X(partition) X(unsynced)        \
                     X(servers) X(nested) X(exit_barrier)                               \
    /* namespace */  X(directories) X(lists)                                            \
    /* publish */    X(journal_retry) X(shared) X(held_opens) X(late_names)             \
                     X(pieces_sent) X(produce) X(pieces_taken) X(pieces_shown)          \
                     X(pieces_answered) X(locks_held) X(locks) X(node_files)            \
    /* promoted */   X(promoted)                                                        \
    /* fetch */      X(serve_absent_owner) X(serve_refused) X(relay) X(serve)           \
                     X(transfers) X(consume_said) X(consume_failed) X(consume)          \
                     X(waits) X(prefetch) X(subscribe)                                  \
    /* coherence */  X(invalidate_by_node) X(refetch) X(invalidates) X(revalidate)      \
                     X(lease) X(lease_ask)                                              \
    /* recovery */   X(startup_validation) X(restore) X(takeover_gone)                  \
                     X(takeover_copies) X(takeover_renames) X(takeover)                 \
    /* inspect */    X(dump)
/* clang-format on */

#define MODULE_ID(name) MODULE_##name,
enum member_module_id { MEMBER_MODULES(MODULE_ID) MODULE_COUNT };

/* The private state of a module: a struct of the module's name. It is all zero when the
 * member is made, and after destroy(). A promoted guest starts no module: there it stays
 * zero but for what promoted_guest.c calls. */
#define OWN(member, name) ((struct name *)(member)->own[MODULE_##name])

struct module_own {
    enum member_module_id id;
    size_t size; /* 0: it has none */
};
#define MODULE_OWN(name)                   \
    {                                      \
        MODULE_##name, sizeof(struct name) \
    }

struct dyad_entry;
struct member;
struct member_dmd;
struct net_msg;
struct net_peer;
struct store_record;

struct member_message {
    uint8_t type; /* NET_MSG_...; 0 ends a list */
    /* False: the message is for another module. fn sets *payload (malloc'ed or NULL) to
     * NULL if it keeps it. */
    bool (*fn)(struct member *member, const struct net_msg *msg, void **payload,
               size_t len);
};

enum member_rank_change {
    MEMBER_RANK_LOST, /* it cannot be reached, and may live */
    MEMBER_RANK_BACK, /* it can be reached again */
    MEMBER_RANK_GONE, /* it was lost, and is now known to be dead, or to have left */
};

struct member_module {
    struct module_own own;                 /* MODULE_OWN() */
    const struct member_message *messages; /* from other members; NULL: none */

    /* sized: the size of the job is known; start: worker, table and barrier exist; both 0
     * or -1 with errno. joined: the join is complete. exiting: the program is at its
     * exit; `soon`: the member leaves when the publishes under way have ended. */
    int (*sized)(struct member *member);
    int (*start)(struct member *member);
    void (*joined)(struct member *member);
    void (*exiting)(struct member *member, bool soon);
    /* The member is to leave, for good or to be followed by another image. True: the
     * module has to finish something first, and then calls member_stop() again. */
    bool (*leave)(struct member *member, bool for_good);

    /* peer_up: a rank answers. peer_down: the connection of a rank, or of a promoted
     * guest, broke. resumed: this process did not run for ns. */
    void (*peer_up)(struct member *member, const struct net_peer *peer);
    void (*peer_down)(struct member *member, uint32_t rank);
    /* The rank has said that it leaves (in a session directory). */
    void (*peer_left)(struct member *member, const struct net_peer *peer);
    void (*rank_changed)(struct member *member, uint32_t rank,
                         enum member_rank_change change);
    void (*resumed)(struct member *member, uint64_t ns);
    /* Ranks were lost or came back a moment ago, and names may have other homes: messages
     * that the homes did not get are sent again. */
    void (*homes_changed)(struct member *member);

    /* table_changed: the table has handled something. published: a publish or withdrawal
     * of upath by this rank has ended. path_changed: upath has become a link here, or is
     * no directory any more. */
    void (*table_changed)(struct member *member);
    void (*published)(struct member *member, const char *upath);
    void (*path_changed)(struct member *member, const char *upath);
    /* More bytes of upath have come in a fetch of this member, or the fetch has ended. */
    void (*fetch_grew)(struct member *member, const char *upath);
    /* An invalidation has ended: this node no longer uses a version that another node has
     * replaced or withdrawn. */
    void (*invalidated)(struct member *member);
    /* A reader needs the file of `entry`, which may lie on our node and be in no journal.
     * If its owner seems to be dead: take it over if it is here and whole, withdraw it if
     * it is gone. */
    void (*wanted)(struct member *member, const struct dyad_entry *entry);
    /* The copy of `record` has got its name, but `newer` was published meanwhile: remove
     * the copy. True: the name is to be brought here again. */
    bool (*overtaken)(struct member *member, struct member_dmd *dmd,
                      const struct dyad_entry *newer, const struct store_record *record);
    /* True if this node has made upath, and it is to be brought here again. */
    bool (*to_come_back)(struct member *member, const char *upath);

    /* True while something is under way that other ranks, or this one's program, count
     * on. The exit barrier waits for it; call exit_barrier_activity() when it ends. */
    bool (*pending)(struct member *member);
    /* The same for what also a rank that leaves before the others waits for, for
     * DYAD_JOIN_TIMEOUT at most. */
    bool (*urgent)(struct member *member);

    /* The end, in this order; each also where start() was not called, or failed.
     * void_promises, before any connection is closed: make void what other processes of the
     * node rely on because this one lives (also if nothing else follows: aborted.c).
     * shut: end waiting requests of the rank's processes with ESHUTDOWN. stop: no request
     * is left; the pool's threads still run. destroy: they have been joined. */
    void (*void_promises)(struct member *member);
    void (*shut)(struct member *member);
    void (*stop)(struct member *member);
    void (*destroy)(struct member *member);
};

/* Create the state of all modules in `table` (NULL ends it), and the map from message
 * types to them. Only modules that are also in member->modules get events. 0 or -1. */
int modules_create(struct member *member, const struct member_module *const *table);
void modules_free(struct member *member);
int modules_sized(struct member *member);
int modules_start(struct member *member);
void modules_joined(struct member *member);
void modules_exiting(struct member *member, bool soon);
bool modules_leave(struct member *member, bool for_good);
/* False: no module has taken it. */
bool modules_receive(struct member *member, const struct net_msg *msg, void **payload,
                     size_t len);
void modules_peer_up(struct member *member, const struct net_peer *peer);
void modules_peer_down(struct member *member, uint32_t rank);
void modules_rank_changed(struct member *member, uint32_t rank,
                          enum member_rank_change change);
void modules_homes_changed(struct member *member);
void modules_resumed(struct member *member, uint64_t ns);
void modules_table_changed(struct member *member);
void modules_published(struct member *member, const char *upath);
void modules_path_changed(struct member *member, const char *upath);
void modules_fetch_grew(struct member *member, const char *upath);
void modules_invalidated(struct member *member);
void modules_wanted(struct member *member, const struct dyad_entry *entry);
bool modules_overtaken(struct member *member, struct member_dmd *dmd,
                       const struct dyad_entry *newer, const struct store_record *record);
bool modules_to_come_back(struct member *member, const char *upath);
bool modules_pending(struct member *member);
bool modules_urgent(struct member *member);
void modules_peer_left(struct member *member, const struct net_peer *peer);
void modules_void_promises(struct member *member);
void modules_shut(struct member *member);
void modules_stop(struct member *member);
void modules_destroy(struct member *member);

#endif
