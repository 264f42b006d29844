/*
 * takeover_gone.c - withdrawing files that a dead rank had published and that were
 * removed
 *
 * The process that removed the file died before it had reported that. The homes are
 * asked, and the file is withdrawn only if exactly the dead rank's version is in force
 * (answered()). As long as no home can be reached they are asked again (retry_queue.c),
 * and when a rank was lost or is back (revalidate.c). In a session directory the same is
 * done about what is here, but not as it was published (takeover_gone_lost()).
 *
 * What could go wrong: the tombstone withdraws a newer file (withdraw()); we die before
 * all homes have it (takeover_gone_add()).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "engine/core/member_impl.h"
#include "engine/core/module.h"
#include "engine/core/retry_queue.h"
#include "engine/membership/exit_barrier.h"
#include "engine/publish/produce.h"
#include "engine/recovery/takeover_gone.h"
#include "util/crash.h"
#include "util/log.h"

#define STEPS 4

struct gone {
    struct retry retry;
    struct gone *prev, *next; /* utlist: withdrawing */
    struct member *member;
    enum engine_role role;
    struct dyad_version version; /* the dead rank's */
    uint8_t storage[DYAD_STORAGE_ID_LEN];
};

struct takeover_gone {
    struct retry_queue *retries;
    struct gone *withdrawing; /* not all homes have the tombstone yet */
};

static const struct store_record *own_record(const struct gone *gone)
{
    return store_journal_find(gone->member->dmd[gone->role].journal, gone->retry.upath);
}

/* True if this rank has published or withdrawn a newer version since. */
static bool is_ours(const struct gone *gone)
{
    const struct store_record *own = own_record(gone);

    return (own && dyad_version_cmp(&own->entry.version, &gone->version) > 0) ||
           produce_pending(gone->member, gone->retry.upath);
}

/* It is withdrawn, or need not be: nobody need find it in our journal. */
static void gone_end(struct gone *gone)
{
    const struct store_record *own = own_record(gone);

    if (own && own->kind == STORE_RECORD_ORIGINAL &&
        dyad_version_cmp(&own->entry.version, &gone->version) == 0 &&
        !produce_pending(gone->member, gone->retry.upath))
        store_journal_delete(gone->member->dmd[gone->role].journal, gone->retry.upath);
    free(gone);
}

/* Withdraw it. The tombstone's version is the next after the one that the dead rank had
 * published, which we know from its journal. It is below all later ones, as long as the
 * homes knew that version: a later publish is raised above the versions that they know.
 * If the homes have died meanwhile they may not know it, and then a newer file may have a
 * lower version, which the tombstone would withdraw. That is why the homes are asked
 * before.
 *
 * Between their answer and the tombstone a rank may publish: at homes that know the dead
 * version, so above the tombstone, which they refuse. It could withdraw a newer file only
 * if all of them died at that moment, as any owner's republication could (docs/dht.md).
 * False: no memory. */
static bool withdraw(const struct gone *gone)
{
    struct dyad_entry entry = {
        .upath = gone->retry.upath,
        .state = DYAD_ENTRY_WITHDRAWN,
        .owner = gone->member->self.rank,
        .version = gone->version,
    };

    DYAD_CRASH_POINT("takeover-gone");
    entry.version.incarnation++;
    memcpy(entry.storage, gone->storage, sizeof(entry.storage));
    if (dht_node_restore(gone->member->dht, &entry) == 0)
        return true;
    log_error("out of memory: \"%s\", which was removed, is not withdrawn",
              gone->retry.upath);
    return false;
}

static void table_changed(struct member *member)
{
    struct takeover_gone *all = OWN(member, takeover_gone);
    struct gone *gone;

    for (int i = 0; i < STEPS && (gone = all->withdrawing); i++) {
        DL_DELETE(all->withdrawing, gone);
        if (dht_node_is_publishing(member->dht,
                                   gone->retry.upath)) /* the others have their turn */
            DL_APPEND(all->withdrawing, gone);
        else
            gone_end(gone);
    }
}

/* If no version is in force, or another, the dead rank's entry is not, and no rank is
 * left that would publish it again: nothing need be withdrawn. */
static enum retry_next answered(struct retry *retry, int status,
                                const struct dyad_entry *entry, struct retry_pause *pause)
{
    struct gone *gone = (struct gone *)retry;

    (void)pause;
    if (status != 0 && status != ENOENT && !is_ours(gone))
        return QUESTION_PUT_OFF;
    if (status == 0 && dyad_version_cmp(&entry->version, &gone->version) == 0 &&
        !is_ours(gone) && withdraw(gone))
        DL_APPEND(OWN(gone->member, takeover_gone)->withdrawing, gone);
    else
        gone_end(gone);
    return QUESTION_KEPT;
}

static void stepped(void *arg)
{
    if (!takeover_gone_pending(arg))
        exit_barrier_activity(arg);
}

static const struct retry_queue_ops ops = {
    .size = sizeof(struct gone),
    .window = 64,
    .tick = UTIL_NSEC_PER_SEC / 4,
    .pause = {.first = MEMBER_ASK_AGAIN * UTIL_NSEC_PER_SEC,
              .most = 60 * UTIL_NSEC_PER_SEC},
    .answered = answered,
    .stepped = stepped,
};

static struct gone *add(struct member *member, enum engine_role role,
                        const struct store_record *found)
{
    struct takeover_gone *all = OWN(member, takeover_gone);
    struct gone *gone;

    if (!all->retries)
        all->retries = retry_queue_create(member, &ops, member);
    if (!(gone = retry_queue_add(all->retries, found->entry.upath))) {
        log_error("out of memory: \"%s\", which is not here any more, is not withdrawn",
                  found->entry.upath);
        return NULL;
    }
    gone->member = member;
    gone->role = role;
    gone->version = found->entry.version;
    memcpy(gone->storage, found->entry.storage, sizeof(gone->storage));
    return gone;
}

/* The dead rank's record is in our journal, as it was, until all homes have the tombstone
 * or it turns out that none is needed (gone_end()). So if we die, too, the member that
 * takes our journal over finds a record without a file, and does the same; so does the
 * next member of this rank (restore_start()), which also finds there the files that an
 * earlier one had no time to withdraw. */
int takeover_gone_add(struct member *member, enum engine_role role,
                      const struct store_record *found)
{
    const struct gone *gone = add(member, role, found);
    const struct store_record *own;
    int rc = 0;

    if (!gone)
        return -1;
    own = own_record(gone);
    if (!own || dyad_version_cmp(&own->entry.version, &gone->version) < 0)
        rc = store_journal_put(member->dmd[role].journal, found); /* was logged */
    retry_queue_go_on(OWN(member, takeover_gone)->retries);
    return rc;
}

/* The file is here, but not as it was published (take_item() in takeover.c). It gets no
 * record: that would say that it can be served. */
void takeover_gone_lost(struct member *member, enum engine_role role,
                        const struct store_record *found)
{
    if (!add(member, role, found))
        return;
    log_info(
        "\"%s\" is withdrawn: who had published it was killed, and what is here is "
        "not what it was",
        found->entry.upath);
    retry_queue_go_on(OWN(member, takeover_gone)->retries);
}

static void homes_changed(struct member *member)
{
    retry_queue_again(OWN(member, takeover_gone)->retries);
}

bool takeover_gone_pending(struct member *member)
{
    return retry_queue_asking(OWN(member, takeover_gone)->retries);
}

static void takeover_gone_destroy(struct member *member)
{
    struct takeover_gone *all = OWN(member, takeover_gone);
    struct gone *gone, *tmp;

    retry_queue_destroy(all->retries);
    DL_FOREACH_SAFE(all->withdrawing, gone, tmp)
    {
        free(gone);
    }
}

const struct member_module takeover_gone_module = {
    .own = MODULE_OWN(takeover_gone),
    .table_changed = table_changed,
    .homes_changed = homes_changed,
    .destroy = takeover_gone_destroy,
};
