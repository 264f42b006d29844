/*
 * adopt.c - what the dead of this node have left: their files are served on, their copies
 * are checked
 *
 * A rank's journal says what it has published and fetched; it lies in the DMD, where every
 * member of the node sees it, and names the rank's claim (its label). A rank is certainly
 * dead if its journal is not open in any process, and nobody holds its claim. A rank in the
 * midst of exec holds it. Both are looked at with the journal's lock in hand, so of several
 * who see a death exactly one takes over, and a new member of that rank, should one come
 * (boot/claim.h), waits for the lock before it reads what is left for it.
 *
 * A look (on a pool thread) reads the journals of our session that are left alone and
 * compares each record with the disk. Then, on the loop, some records at a time:
 * - published there, and still that file: into our journal, and to the table with ourselves
 *   as the owner, version unchanged (dht_node_restore());
 * - published there, and removed (who removed it died before it said so): a tombstone, and
 *   into our journal until the homes have it (adopt_gone.c);
 * - changed, or being written: whoever writes it publishes it. A file whose writer was
 *   killed in the midst of it is lost: it stays dirty, and no version of it can be served.
 *   Or the dead rank had published it and could not write that down, or was killed before
 *   it had, or before it could take its mark back: then it is served after all
 *   (adopt_unrecorded.c);
 * - a copy: into our journal, and the homes are asked whether it is still the newest; that
 *   makes us a holder who is told. If it is not, it goes.
 * Only then is the journal emptied, in one step. Killed before that, somebody takes over
 * both journals, and finds the same; what is taken twice is taken once. The file itself
 * stays: it has the count of the rank's members.
 *
 * Withdrawals are not in a journal. The homes keep the tombstones, also those of a dead
 * rank, unless all homes of a name die at one moment (dht/node_leave.c). A record that was
 * withdrawn is gone from the journal, so nothing comes back to life.
 *
 * adopt_look.c is the look, adopt_watch.c hears of deaths, adopt_copies.c checks copies,
 * adopt_renames.c sees to renames that a death has cut short.
 *
 * What the homes ask (INVALIDATE for what a dead or silent rank has left) is answered after
 * a look that began later. A rank in exec is dead to the homes, too: its outdated file is
 * removed, its journal left to it. So is that of a rank which lives, but does not answer
 * (stopped, or cut off from the homes): its journal is read as it is (outdated.c).
 */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <utlist.h>

#include "boot/claim.h"
#include "engine/adopt_impl.h"
#include "util/crash.h"
#include "util/log.h"

/* Records taken at a time: ~1 ms of the loop. */
#define BATCH 256

static void look_start(struct adopt *a);

/* --- on the loop: what was found --- */

/* Into our journal, with ourselves as the owner. */
static void take_record(struct adopt *a, struct left *left,
                        const struct store_record *found)
{
    struct member *member = a->member;
    struct store_record record = *found;

    if (record.kind == STORE_RECORD_ORIGINAL)
        record.entry.owner = member->self.rank;
    if (store_journal_put(member->side[left->side].journal, &record) < 0)
        left->keep = true; /* was logged */
    DYAD_CRASH_POINT("adopt-put");
    if (record.kind == STORE_RECORD_COPY) {
        adopt_check_copy(member, left->side, &record);
        left->copies++;
        return;
    }
    if (dht_node_restore(member->dht, &record.entry) < 0)
        log_error("out of memory: \"%s\" is not published again", record.entry.upath);
    if (S_ISDIR(record.entry.mode))
        dirs_restored(member, left->side, &record);
    left->files++;
}

/* Nothing is to be taken: we have as much to say of it, or more. A directory is on the disk
 * of this node once, and all its ranks that use it have a record of it: whoever has not
 * published it is not its owner for that. */
static bool is_ours(const struct store_record *own, const struct store_record *found)
{
    int order = own ? dyad_version_cmp(&own->entry.version, &found->entry.version) : -1;

    return order > 0 || (order == 0 && (own->kind == STORE_RECORD_ORIGINAL ||
                                        found->kind == STORE_RECORD_COPY));
}

/* We have taken it over from a third before, and so has the dead one (its journal could not
 * be emptied): the homes know whoever told them last. */
static bool is_ours_too(const struct member *member, const struct store_record *own,
                        const struct store_record *found)
{
    /* Of what is to be withdrawn (adopt_gone.c) the dead one is the owner there, too. */
    return own && own->kind == STORE_RECORD_ORIGINAL &&
           own->entry.owner == member->self.rank && found->kind == STORE_RECORD_ORIGINAL &&
           dyad_version_cmp(&own->entry.version, &found->entry.version) == 0;
}

static void take_item(struct adopt *a, struct left *left, const struct item *item)
{
    const struct store_record *found = item->record, *own;

    own = store_journal_find(a->member->side[left->side].journal, found->entry.upath);
    if (is_ours(own, found) || produce_pending(a->member, found->entry.upath)) {
        if (is_ours_too(a->member, own, found) &&
            dht_node_restore(a->member->dht, &own->entry) < 0)
            log_error("out of memory: \"%s\" is not published again", own->entry.upath);
        return;
    }
    if (item->as == FOUND_SAME) {
        take_record(a, left, found);
    } else if (item->as == FOUND_GONE && found->kind == STORE_RECORD_ORIGINAL) {
        if (adopt_gone_add(a->member, left->side, found) < 0)
            left->keep = true;
        left->removed++;
    } else if (item->as == FOUND_LOST &&
               !shared_storage(a->member, (enum engine_side)left->side)) {
        adopt_gone_lost(a->member, left->side, found);
        left->removed++;
    } else {
        log_debug("\"%s\", which a dead rank of this node had, was changed since",
                  found->entry.upath);
        if (item->as == FOUND_CHANGED)
            adopt_unrecorded_changed(a->member, left->rank, found);
    }
}

static void take_some(void *arg);

static void look_end(struct adopt *a)
{
    struct asked *asked, *tmp, *answering = a->answering;

    a->answering = NULL;
    LL_FOREACH_SAFE(answering, asked, tmp)
    {
        if (!asked->seen && !asked->take)
            dht_node_unseen(a->member->dht, asked->token);
        if (!asked->take)
            produce_invalidate(a->member, &asked->newer, asked->failed ? 0 : asked->token);
        free(asked);
    }
    linger_activity(a->member);
    a->phase = IDLE; /* not before: what is asked for from inside is the next look */
    first_look_read(a->member);
    if (a->again || a->asked)
        look_start(a);
    first_look_step(a->member);
}

static void empty_work(void *arg)
{
    struct adopt *a = arg;
    struct left *left = a->left;

    if (store_journal_clear(left->journal) < 0)
        log_warn("journal %s, which was taken over, cannot be emptied: %m", left->name);
    DYAD_CRASH_POINT("adopt-emptied");
}

static void take_next(struct adopt *a)
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
    struct adopt *a = arg;
    struct left *left = a->left;

    DL_DELETE(a->left, left);
    adopt_left_free(left);
    take_next(a);
}

static void take_some(void *arg)
{
    struct adopt *a = arg;
    struct left *left = a->left;

    for (int i = 0; i < BATCH && left->at < left->nitems; i++)
        take_item(a, left, &left->items[left->at++]);
    if (left->at < left->nitems) {
        net_loop_post(a->member->loop, &a->post, take_some, a);
        return;
    }
    DYAD_CRASH_POINT("adopt-taken");
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
        adopt_left_free(left);
        take_next(a);
        return;
    }
    a->phase = EMPTYING;
    engine_io_submit(a->member->io, &a->io, empty_work, empty_done, a);
}

static void look_done(void *arg)
{
    struct adopt *a = arg;

    adopt_watch_found(a); /* may ask for another look: the next, and not beside this one */
    DYAD_CRASH_POINT("adopt-begin");
    adopt_renames_settle(a);
    take_next(a);
}

static void look_start(struct adopt *a)
{
    a->again = false;
    a->watches = a->fd >= 0; /* if it ends meanwhile there is another look */
    a->phase = LOOKING;
    a->answering = a->asked;
    a->asked = NULL;
    linger_activity(a->member);
    engine_io_submit(a->member->io, &a->io, adopt_look_work, look_done, a);
}

/* --- the member's side --- */

static struct adopt *adopt_get(struct member *member)
{
    struct adopt *a = member->adopt;

    if (a)
        return a;
    if (!(a = calloc(1, sizeof(*a))))
        return NULL;
    a->member = member;
    a->fd = a->neighbour_fd = -1;
    a->prefix_len = member_sides_journal_name(member, a->name, sizeof(a->name));
    a->claim_len =
        boot_claim_address(member->identity, member->config->kvs_namespace, &a->claim);
    member->adopt = a;
    return a;
}

void adopt_look(struct member *member)
{
    struct adopt *a;

    if ((member->state != MEMBER_JOINED && member->state != MEMBER_EXITING) ||
        !(a = adopt_get(member)))
        return;
    if (a->phase != IDLE)
        a->again = true;
    else
        look_start(a);
}

/* For the next look; the caller begins that. NULL: ENOMEM. */
static struct asked *ask(struct member *member, const struct dyad_entry *entry,
                         uint32_t rank)
{
    struct adopt *a = adopt_get(member);
    size_t len = strlen(entry->upath);
    struct asked *asked = a ? calloc(1, sizeof(*asked) + len + 1) : NULL;

    if (!asked)
        return NULL;
    asked->newer = *entry;
    asked->newer.upath = memcpy(asked->upath, entry->upath, len + 1);
    asked->rank = rank;
    LL_APPEND(a->asked, asked);
    return asked;
}

void adopt_look_for(struct member *member, const struct dyad_entry *entry, uint32_t rank)
{
    struct asked *asked = ask(member, entry, rank);

    if (!asked) {
        log_error("out of memory: \"%s\", which a dead rank had, may not be served",
                  entry->upath);
        return;
    }
    asked->take = true;
    adopt_look(member);
}

void adopt_invalidate_left(void *arg, const struct dyad_entry *newer, uint32_t rank,
                           uint64_t token)
{
    struct member *member = arg;
    struct asked *asked;

    /* Nothing is newer: somebody asks for what the rank itself has published. */
    if (newer->state == DYAD_ENTRY_PUBLISHED && newer->owner == rank) {
        dht_node_invalidated(member->dht, token);
        adopt_unrecorded_wanted(member, rank, newer);
        return;
    }
    asked = ask(member, newer, rank);
    if (!asked) {
        log_error("out of memory: an outdated copy of \"%s\" may stay on this node",
                  newer->upath);
        return; /* no answer: the home will find this rank silent */
    }
    asked->token = token;
    adopt_look(member);
}

bool adopt_looking(const struct member *member)
{
    return member->adopt && member->adopt->phase != IDLE;
}

bool adopt_undecided(const struct member *member, const char *upath)
{
    return adopt_looking(member) || adopt_copies_undecided(member, upath);
}

bool adopt_pending(struct member *member)
{
    return adopt_looking(member) || adopt_copies_pending(member) ||
           adopt_gone_pending(member) || adopt_unrecorded_pending(member) ||
           adopt_renames_pending(member);
}

static void lefts_free(struct left *list)
{
    struct left *left, *tmp;

    DL_FOREACH_SAFE(list, left, tmp)
    {
        adopt_left_free(left);
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

void adopt_stop(struct member *member)
{
    struct adopt *a = member->adopt;

    adopt_gone_stop(member);
    adopt_unrecorded_stop(member);
    adopt_copies_stop(member);
    if (!a)
        return;
    adopt_renames_stop(a);
    adopt_watch_stop(a);
    asked_free(a->asked);
    asked_free(a->answering);
    lefts_free(a->left);
    lefts_free(a->kept);
    free(a->absent);
    free(a);
    member->adopt = NULL;
}
