/*
 * takeover.c - a member goes on publishing what dead ranks of its node have left
 *
 * A rank's journal says what the rank has published and fetched; every member of the node
 * sees it, in the DMD. A look (takeover_look.c, on a pool thread) reads those of our
 * session whose rank is dead, and compares each record with the disk. Then the loop takes
 * the records over, some at a time (take_item()), and the journal is emptied
 * (empty_work()). takeover_watch.c hears of deaths, takeover_renames.c sees to renames
 * that a death has cut short. docs/engine.md, "Takeover". What the homes ask (INVALIDATE
 * for what a dead or silent rank has) does not wait for any of this: node_files.c.
 *
 * What could go wrong: we are killed in the midst of it (empty_work()); no journal knows
 * a file (takeover_wanted()); a published version is nowhere any more (take_item()).
 */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <utlist.h>

#include "boot/member_claim.h"
#include "engine/coherence/refetch.h"
#include "engine/core/module.h"
#include "engine/core/storage.h"
#include "engine/membership/exit_barrier.h"
#include "engine/namespace/directories.h"
#include "engine/publish/produce.h"
#include "engine/publish/shared_storage.h"
#include "engine/recovery/startup_validation.h"
#include "engine/recovery/takeover.h"
#include "engine/recovery/takeover_copies.h"
#include "engine/recovery/takeover_gone.h"
#include "engine/recovery/takeover_impl.h"
#include "util/crash.h"
#include "util/log.h"

/* Records taken at a time: ~1 ms of the loop. */
#define BATCH 256

static void look_start(struct takeover *a);

/* --- on the loop: what was found --- */

/* Into our journal, with ourselves as the owner. */
static void take_record(struct takeover *a, struct left *left,
                        const struct store_record *found)
{
    struct member *member = a->member;
    struct store_record record = *found;

    takeover_is_to_ask(&record);
    if (record.kind == STORE_RECORD_ORIGINAL)
        record.entry.owner = member->self.rank;
    if (store_journal_put(member->dmd[left->role].journal, &record) < 0)
        left->keep = true; /* was logged */
    DYAD_CRASH_POINT("takeover-put");
    if (record.kind == STORE_RECORD_COPY) {
        takeover_check_copy(member, left->role, &record);
        left->copies++;
        return;
    }
    if (dht_node_restore(member->dht, &record.entry) < 0)
        log_error("out of memory: \"%s\" is not published again", record.entry.upath);
    if (S_ISDIR(record.entry.mode))
        directories_restored(member, left->role, &record);
    left->files++;
}

/* True if nothing is to be taken over, since our own record is as new, or newer. A
 * directory is on the disk of this node once, and all its ranks that use it have a record
 * of it: only the rank that has published it is its owner. */
static bool is_ours(const struct store_record *own, const struct store_record *found)
{
    int order = own ? dyad_version_cmp(&own->entry.version, &found->entry.version) : -1;

    return order > 0 || (order == 0 && (own->kind == STORE_RECORD_ORIGINAL ||
                                        found->kind == STORE_RECORD_COPY));
}

/* True if we have taken it over from a third rank before, and so has the dead one (the
 * journal could not be emptied): the homes know the one that published last. */
static bool is_ours_too(const struct member *member, const struct store_record *own,
                        const struct store_record *found)
{
    /* In our record of a file that is to be withdrawn (takeover_gone.c) the dead rank is
     * the owner. */
    return own && own->kind == STORE_RECORD_ORIGINAL &&
           own->entry.owner == member->self.rank && found->kind == STORE_RECORD_ORIGINAL &&
           dyad_version_cmp(&own->entry.version, &found->entry.version) == 0;
}

/* --- what is being written --- */

/* The file's writer may be the dead rank itself, which has closed its journal and its
 * claim, and ends at this moment. A live writer publishes the file. */
#define LATER_FIRST (50 * UTIL_NSEC_PER_MSEC)
#define LATER_TRIES 7 /* 6 s in all */

static struct asked *asked_new(const struct store_record *record, uint32_t rank,
                               unsigned tries)
{
    size_t len = strlen(record->entry.upath);
    struct asked *asked = calloc(1, sizeof(*asked) + len + 1);

    if (!asked) {
        log_error("out of memory: \"%s\", which a dead rank had, may not be served",
                  record->entry.upath);
        return NULL;
    }
    asked->record = *record;
    asked->record.entry.upath = memcpy(asked->upath, record->entry.upath, len + 1);
    asked->rank = rank;
    asked->tries = tries;
    return asked;
}

static void look_later(void *arg)
{
    struct takeover *a = arg;

    LL_CONCAT(a->asked, a->later);
    a->later = NULL;
    takeover_look(a->member);
}

static void item_later(struct takeover *a, const struct left *left, const struct item *item)
{
    struct asked *asked;

    if (item->tries >= LATER_TRIES ||
        !(asked = asked_new(item->record, left->rank, item->tries + 1)))
        return;
    if (!a->later_timer &&
        !(a->later_timer = net_timer_create(a->member->loop, look_later, a))) {
        free(asked);
        return;
    }
    if (!a->later || item->tries == 0)
        net_timer_start(a->later_timer, util_clock_now() + (LATER_FIRST << item->tries));
    LL_APPEND(a->later, asked);
}

/* What becomes of a record, by what the look has found on the disk (find_out()):
 * - SAME, an original: it goes into our journal, and to the table with ourselves as the
 *   owner, version unchanged (dht_node_restore()). A file with the mark of a close that
 *   was cut short counts as the same, also if it was only about to be published when its
 *   rank was killed (the journal has it before the homes are told): all of it was
 *   written.
 * - SAME, a copy: it goes into our journal, and the homes are asked whether it is still
 *   the newest (takeover_copies.c); that makes us a holder who is told. If it is not the
 *   newest, the copy is removed.
 * - GONE, an original: who removed the file died before it said so. The homes get a
 *   tombstone, and our journal has the record until they have it (takeover_gone.c).
 * - WRITTEN: a process that lives writes the file, and publishes it. If that is the dead
 *   rank itself, which ends just now, the file is looked at again (item_later()).
 * - LOST, CHANGED, an original: half of a version, whose writer was killed in the midst
 *   of it, or what a program without the wrapper has made of the file. The version that
 *   was published is nowhere any more. With a launcher (CHANGED) an open fails for that,
 *   with a line that names the dead owner (EHOSTUNREACH). In a session directory (LOST)
 *   an open would wait for ever for somebody of this node to serve the file; so it is
 *   withdrawn, too, and an open waits for somebody to write it. (Not on storage that
 *   nodes share, where somebody of another node may be writing it.)
 *
 * Withdrawals are not in a journal. The homes keep the tombstones, also those of a dead
 * rank, unless all homes of a name die at one moment (dht/node_leave.c). A record that
 * was withdrawn is gone from the journal, so nothing comes back to life. */
static void take_item(struct takeover *a, struct left *left, const struct item *item)
{
    const struct store_record *found = item->record, *own;

    own = store_journal_find(a->member->dmd[left->role].journal, found->entry.upath);
    if (is_ours(own, found) || produce_pending(a->member, found->entry.upath)) {
        if (is_ours_too(a->member, own, found) &&
            dht_node_restore(a->member->dht, &own->entry) < 0)
            log_error("out of memory: \"%s\" is not published again", own->entry.upath);
        return;
    }
    if (item->as == FOUND_SAME) {
        take_record(a, left, found);
    } else if (item->as == FOUND_GONE && found->kind == STORE_RECORD_ORIGINAL) {
        if (takeover_gone_add(a->member, left->role, found) < 0)
            left->keep = true;
        left->removed++;
    } else if (item->as == FOUND_LOST &&
               !shared_storage(a->member, (enum engine_role)left->role)) {
        takeover_gone_lost(a->member, left->role, found);
        left->removed++;
    } else if (item->as == FOUND_CHANGED && found->kind == STORE_RECORD_COPY &&
               found->made_here) {
        /* It was about to come in the place of what this node had made (transfer_end.c). */
        refetch_want(a->member, found->entry.upath);
    } else {
        log_debug("\"%s\", which a dead rank of this node had, was changed since",
                  found->entry.upath);
        if (item->as == FOUND_WRITTEN)
            item_later(a, left, item);
    }
}

static void take_some(void *arg);

static void look_end(struct takeover *a)
{
    struct asked *asked, *tmp, *answering = a->answering;

    a->answering = NULL;
    LL_FOREACH_SAFE(answering, asked, tmp)
    {
        free(asked);
    }
    exit_barrier_activity(a->member);
    a->phase = IDLE; /* not before: what is asked for from inside is the next look */
    startup_validation_read(a->member);
    if (a->again || a->asked)
        look_start(a);
    startup_validation_step(a->member);
}

/* The journal is emptied when all its records were taken over, and in one step. If we are
 * killed before that, another member takes over both journals, and finds the same; what
 * is taken twice is taken once. The journal's file stays, because it has the count of the
 * rank's members. */
static void empty_work(void *arg)
{
    struct takeover *a = arg;
    struct left *left = a->left;

    if (store_journal_clear(left->journal) < 0)
        log_warn("journal %s, which was taken over, cannot be emptied: %m", left->name);
    DYAD_CRASH_POINT("takeover-emptied");
}

static void take_next(struct takeover *a)
{
    if (!a->left) {
        look_end(a);
        return;
    }
    a->phase = TAKING;
    net_loop_post(a->member->loop, &a->post, take_some, a);
}

static void empty_done(void *arg)
{
    struct takeover *a = arg;
    struct left *left = a->left;

    DL_DELETE(a->left, left);
    takeover_left_free(left);
    take_next(a);
}

static void take_some(void *arg)
{
    struct takeover *a = arg;
    struct left *left = a->left;

    for (int i = 0; i < BATCH && left->at < left->nitems; i++)
        take_item(a, left, &left->items[left->at++]);
    if (left->at < left->nitems) {
        net_loop_post(a->member->loop, &a->post, take_some, a);
        return;
    }
    DYAD_CRASH_POINT("takeover-taken");
    if (left->nitems > left->nasked || left->files > 0 || left->removed > 0)
        log_info(
            "a rank of this node is dead: of what it left (journal %s) this one serves %zu "
            "files and keeps %zu copies; %zu had been removed",
            left->name, left->files, left->copies, left->removed);
    if (left->keep && left->journal) {
        DL_DELETE(a->left, left);
        DL_APPEND(a->kept, left);
        take_next(a);
        return;
    }
    if (!left->journal || store_journal_count(left->journal) == 0) {
        DL_DELETE(a->left, left);
        takeover_left_free(left);
        take_next(a);
        return;
    }
    a->phase = EMPTYING;
    engine_io_submit(a->member->io, &a->io, empty_work, empty_done, a);
}

static void look_done(void *arg)
{
    struct takeover *a = arg;

    takeover_watch_found(
        a); /* may ask for another look: the next, and not beside this one */
    DYAD_CRASH_POINT("takeover-begin");
    takeover_renames_decide(a);
    take_next(a);
}

static void look_start(struct takeover *a)
{
    a->again = false;
    a->watches = a->fd >= 0; /* if it ends meanwhile there is another look */
    a->phase = LOOKING;
    a->answering = a->asked;
    a->asked = NULL;
    exit_barrier_activity(a->member);
    engine_io_submit(a->member->io, &a->io, takeover_look_work, look_done, a);
}

/* --- the member --- */

static int takeover_start(struct member *member)
{
    struct takeover *a = OWN(member, takeover);

    a->member = member;
    a->fd = a->neighbour_fd = -1;
    a->prefix_len = storage_journal_name(member, a->name, sizeof(a->name));
    a->claim_len = boot_member_claim_address(member->identity,
                                             member->config->kvs_namespace, &a->claim);
    return 0;
}

void takeover_look(struct member *member)
{
    struct takeover *a = OWN(member, takeover);

    if (member->state != MEMBER_JOINED && member->state != MEMBER_EXITING)
        return;
    if (a->phase != IDLE)
        a->again = true;
    else
        look_start(a);
}

/* The event `wanted`. A journal that could not be written (journal_retry.c) may not know
 * what was published last. So a member that is asked for such a file
 * (serve_absent_owner.c), or finds the file here with a dead writer's mark (consume.c),
 * has it looked at in the same way, by the entry in place of a record. */
static void takeover_wanted(struct member *member, const struct dyad_entry *entry)
{
    const struct store_record record = {.kind = STORE_RECORD_ORIGINAL, .entry = *entry};
    struct takeover *a = OWN(member, takeover);
    struct asked *asked;

    if (entry->owner == member->self.rank || !(asked = asked_new(&record, entry->owner, 0)))
        return;
    LL_APPEND(a->asked, asked);
    takeover_look(member);
}

bool takeover_looking(const struct member *member)
{
    return OWN(member, takeover)->phase != IDLE;
}

bool takeover_undecided(const struct member *member, const char *upath)
{
    return takeover_looking(member) || takeover_copies_undecided(member, upath);
}

static bool takeover_pending(struct member *member)
{
    return takeover_looking(member) || OWN(member, takeover)->later ||
           takeover_copies_pending(member) || takeover_gone_pending(member) ||
           takeover_renames_pending(member);
}

static void lefts_free(struct left *list)
{
    struct left *left, *tmp;

    DL_FOREACH_SAFE(list, left, tmp)
    {
        takeover_left_free(left);
    }
}

static void asked_free(struct asked *list)
{
    struct asked *asked, *tmp;

    LL_FOREACH_SAFE(list, asked, tmp)
    {
        free(asked);
    }
}

static void takeover_destroy(struct member *member)
{
    struct takeover *a = OWN(member, takeover);

    if (!a->member) /* start() was not called */
        return;
    takeover_renames_stop(a);
    takeover_watch_stop(a);
    asked_free(a->asked);
    asked_free(a->answering);
    asked_free(a->later);
    if (a->later_timer)
        net_timer_destroy(a->later_timer);
    lefts_free(a->left);
    lefts_free(a->kept);
    free(a->absent);
}

static void takeover_joined(struct member *member)
{
    takeover_look(member);
    startup_validation_step(member);
}

static void takeover_peer_down(struct member *member, uint32_t rank)
{
    if (!net_is_guest(rank) &&
        member->job->node[rank] == member->job->node[member->self.rank])
        takeover_look(member);
}

/* A server of the node takes over what a step of a workflow leaves (servers.c). */
static void takeover_peer_left(struct member *member, const struct net_peer *peer)
{
    if (member->self.serves && strcmp(peer->node, member->self.node) == 0)
        takeover_watch(member, peer->pid);
}

const struct member_module takeover_module = {
    .own = MODULE_OWN(takeover),
    .start = takeover_start,
    .joined = takeover_joined,
    .peer_down = takeover_peer_down,
    .peer_left = takeover_peer_left,
    .wanted = takeover_wanted,
    .pending = takeover_pending,
    .destroy = takeover_destroy,
};
