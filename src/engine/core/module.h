/*
 * engine/core/module.h - what a module of the member has, and what it may hear of
 *
 * Calls between the folders of the engine go down (test/layers). What a folder has to say
 * to those above it is an event: it calls the function below, which calls each module that
 * has a place for it, in the order of the table (member->modules), or in the reverse order
 * where things end. All of it runs on the loop's thread.
 */
#ifndef DYAD_ENGINE_CORE_MODULE_H
#define DYAD_ENGINE_CORE_MODULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Lowest first: who starts later may call those that are there; in the end it is the other
 * way round. */
/* clang-format off */
#define MEMBER_MODULES(X)                                                               \
    /* core */       X(storage) X(answers) X(gathers)                                   \
    /* membership */ X(links) X(session) X(unreachable) X(partition) X(unsynced)        \
                     X(servers) X(nested) X(exit_barrier)                               \
    /* namespace */  X(directories) X(lists)                                            \
    /* publish */    X(journal_retry) X(shared) X(held_opens) X(late_names) X(produce)  \
                     X(node_files)                                                      \
    /* promoted */   X(promoted)                                                        \
    /* fetch */      X(serve_absent_owner) X(serve) X(transfers) X(consume_said)               \
                     X(consume_failed) X(consume) X(waits)                              \
    /* coherence */  X(invalidate_by_node) X(refetch) X(invalidates) X(revalidate)      \
                     X(lease) X(lease_ask)                                              \
    /* recovery */   X(startup_validation) X(restore) X(takeover_gone)                  \
                     X(takeover_copies) X(takeover_renames) X(takeover)                 \
    /* inspect */    X(dump)
/* clang-format on */

#define MODULE_ID(name) MODULE_##name,
enum member_module_id { MEMBER_MODULES(MODULE_ID) MODULE_COUNT };

/* The state of a module, which nobody else looks into: a struct of the module's name. It is
 * zero when the member is made, and after destroy(); in a promoted guest, which starts no
 * module, it stays so but for what is called there (promoted_guest.c). */
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
    /* False: it is for another module. *payload (malloc'ed or NULL) is set to NULL if it is
     * kept. */
    bool (*fn)(struct member *member, const struct net_msg *msg, void **payload,
               size_t len);
};

enum member_rank_change {
    MEMBER_RANK_LOST, /* it cannot be reached, and may live */
    MEMBER_RANK_BACK,
    MEMBER_RANK_GONE, /* it was lost, and is known to be dead, or to have left */
};

struct member_module {
    struct module_own own;                 /* MODULE_OWN() */
    const struct member_message *messages; /* from other members; NULL: none */

    /* The size of the job is known: 0 or -1 with errno. Worker, table and barrier are
     * there: 0 or -1 with errno. Everything is in place. The program
     * is at its exit; soon: it leaves when the publishes under way have ended. */
    int (*sized)(struct member *member);
    int (*start)(struct member *member);
    void (*joined)(struct member *member);
    void (*exiting)(struct member *member, bool soon);
    /* The member is to leave, for good or to be followed by another image. True: something
     * is to be done first; member_stop() is called again then. */
    bool (*leave)(struct member *member, bool for_good);

    /* A rank answers. The connection of a rank, or of a promoted guest, broke. This process
     * did not run for ns. */
    void (*peer_up)(struct member *member, const struct net_peer *peer);
    void (*peer_down)(struct member *member, uint32_t rank);
    /* It has said that it leaves (in a session directory). */
    void (*peer_left)(struct member *member, const struct net_peer *peer);
    void (*rank_changed)(struct member *member, uint32_t rank,
                         enum member_rank_change change);
    void (*resumed)(struct member *member, uint64_t ns);
    /* Ranks were lost or came back a moment ago, and names may have other homes: what they
     * could not be told or asked is tried again. */
    void (*homes_changed)(struct member *member);

    /* The table has done something. A publish or withdrawal of upath by this rank has
     * ended. What upath is has changed here: no directory any more, or a link. */
    void (*table_changed)(struct member *member);
    void (*published)(struct member *member, const char *upath);
    void (*path_changed)(struct member *member, const char *upath);
    /* What another node has published anew, or withdrawn, is no longer used here: one such
     * invalidation has ended. */
    void (*invalidated)(struct member *member);
    /* Somebody needs this, which may lie on our node and be known to no journal: if its
     * owner seems to be dead, it is to be taken over if it is here and whole, and withdrawn
     * if it is gone. */
    void (*wanted)(struct member *member, const struct dyad_entry *entry);
    /* The copy of `record` has got its name, and `newer` has been published meanwhile: it
     * goes. True: the name is to be brought here again. */
    bool (*overtaken)(struct member *member, struct member_dmd *dmd,
                      const struct dyad_entry *newer, const struct store_record *record);
    /* Has this node made upath, and is it to be brought here again? */
    bool (*to_come_back)(struct member *member, const char *upath);

    /* Is something under way that other ranks, or this one's program, count on? The exit
     * barrier waits for it; its end is told by exit_barrier_activity(). */
    bool (*pending)(struct member *member);
    /* The same, and a rank that leaves before the others waits for it, too, for
     * DYAD_JOIN_TIMEOUT at most? */
    bool (*urgent)(struct member *member);

    /* The end, in this order; each also where start() was not called, or failed. Before any
     * connection is closed: what other processes of the node believe because this one lives
     * is void (also if nothing else follows: aborted.c). Requests of the rank's processes
     * that wait here end with ESHUTDOWN. They are all gone; the pool's threads still run.
     * Those have been joined. */
    void (*disclaim)(struct member *member);
    void (*shut)(struct member *member);
    void (*stop)(struct member *member);
    void (*destroy)(struct member *member);
};

/* Make the state of all in the table (NULL ends it), and what finds the receiver of a
 * message; of these alone those hear of events that are in member->modules. 0 or -1 */
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
void modules_invalidated(struct member *member);
void modules_wanted(struct member *member, const struct dyad_entry *entry);
bool modules_overtaken(struct member *member, struct member_dmd *dmd,
                       const struct dyad_entry *newer, const struct store_record *record);
bool modules_to_come_back(struct member *member, const char *upath);
bool modules_pending(struct member *member);
bool modules_urgent(struct member *member);
void modules_peer_left(struct member *member, const struct net_peer *peer);
void modules_disclaim(struct member *member);
void modules_shut(struct member *member);
void modules_stop(struct member *member);
void modules_destroy(struct member *member);

#endif
