/*
 * adopt_gone.c - what a dead rank had published and was removed: its withdrawal, by us
 *
 * Who removed the file died before it had said so. The tombstone has the place behind the
 * version that the dead rank had published, which we know from its journal, and so before
 * whatever was published later: as long as the homes knew that version, for who publishes
 * anew is raised above what they know. If they have died meanwhile they may not, and then a
 * newer file may have a lower version; the tombstone would take that one away. So the homes
 * are asked first, and it is withdrawn only if exactly that version is in force. If nothing
 * is, or another version, nothing of the dead rank is to be seen, and nobody is left who
 * would publish it again.
 *
 * Between the answer and the tombstone somebody may publish: at homes that know the dead
 * version, so above the tombstone, which they refuse. It could take a newer file away only
 * if all of them died at that moment, as any owner's republication could (docs/dht.md).
 *
 * As long as no home can be reached it is asked again, with growing pauses and when a rank
 * was lost or is back (revalidate.c). Meanwhile the dead rank's record is in our journal,
 * as it was, until all homes have the tombstone or it turns out that none is needed. So if
 * we die, too, whoever adopts ours finds a record without a file, and does the same; so
 * does the next member of this rank (produce_restore()), which finds there also what an
 * earlier one of its own had no time to withdraw.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "engine/member_impl.h"
#include "util/crash.h"
#include "util/log.h"

#define WINDOW    64
#define STEPS     4
#define PAUSE_MAX (60 * UTIL_NSEC_PER_SEC)

struct gone {
    struct gone *prev, *next; /* utlist */
    struct adopt_gone *all;
    enum engine_side side;
    struct dyad_version version; /* the dead rank's */
    uint8_t storage[DYAD_STORAGE_ID_LEN];
    struct dht_lookup *lookup;
    char upath[];
};

struct adopt_gone {
    struct member *member;
    struct gone *todo, *asking, *later;
    struct gone *settling; /* not all homes have the tombstone yet */
    unsigned nasking;
    uint64_t pause;
    struct net_timer *timer; /* runs if there is something in `later` */
};

static void go_on(struct adopt_gone *all);

static const struct store_record *own_record(const struct gone *gone)
{
    return store_journal_find(gone->all->member->side[gone->side].journal, gone->upath);
}

/* Has this rank had something newer to say of it since? */
static bool is_ours(const struct gone *gone)
{
    const struct store_record *own = own_record(gone);

    return (own && dyad_version_cmp(&own->entry.version, &gone->version) > 0) ||
           produce_pending(gone->all->member, gone->upath);
}

/* It is withdrawn, or need not be: nobody need find it in our journal. */
static void gone_end(struct gone *gone)
{
    const struct store_record *own = own_record(gone);

    if (own && own->kind == STORE_RECORD_ORIGINAL &&
        dyad_version_cmp(&own->entry.version, &gone->version) == 0 &&
        !produce_pending(gone->all->member, gone->upath))
        store_journal_delete(gone->all->member->side[gone->side].journal, gone->upath);
    free(gone);
}

/* False: not to be told, for want of memory. */
static bool withdraw(const struct gone *gone)
{
    struct dyad_entry entry = {
        .upath = gone->upath,
        .state = DYAD_ENTRY_WITHDRAWN,
        .owner = gone->all->member->self.rank,
        .version = gone->version,
    };

    DYAD_CRASH_POINT("adopt-gone");
    entry.version.incarnation++;
    memcpy(entry.storage, gone->storage, sizeof(entry.storage));
    if (dht_node_restore(gone->all->member->dht, &entry) == 0)
        return true;
    log_error("out of memory: \"%s\", which was removed, is not withdrawn", gone->upath);
    return false;
}

void adopt_gone_step(struct member *member)
{
    struct adopt_gone *all = run_of(member)->gone;
    struct gone *gone;

    for (int i = 0; all && i < STEPS && (gone = all->settling); i++) {
        DL_DELETE(all->settling, gone);
        if (dht_node_is_unsettled(member->dht,
                                  gone->upath)) /* the others have their turn */
            DL_APPEND(all->settling, gone);
        else
            gone_end(gone);
    }
}

static void looked_up(void *arg, int status, const struct dyad_entry *entry)
{
    struct gone *gone = arg;
    struct adopt_gone *all = gone->all;

    gone->lookup = NULL;
    DL_DELETE(all->asking, gone);
    all->nasking--;
    if (status != 0 && status != ENOENT && !is_ours(gone)) {
        if (!all->later) {
            net_timer_start(all->timer, util_clock_now() + all->pause);
            all->pause = 2 * all->pause < PAUSE_MAX ? 2 * all->pause : PAUSE_MAX;
        }
        DL_APPEND(all->later, gone);
    } else {
        if (status == 0 && dyad_version_cmp(&entry->version, &gone->version) == 0 &&
            !is_ours(gone) && withdraw(gone))
            DL_APPEND(all->settling, gone);
        else
            gone_end(gone);
    }
    go_on(all);
    if (!adopt_gone_pending(all->member))
        linger_activity(all->member);
}

static void go_on(struct adopt_gone *all)
{
    struct gone *gone;

    while (all->nasking < WINDOW && (gone = all->todo)) {
        DL_DELETE(all->todo, gone);
        gone->lookup =
            dht_node_lookup(all->member->dht, gone->upath, 0, NULL, looked_up, gone);
        if (!gone->lookup) {
            log_error("out of memory: \"%s\", which was removed, is not withdrawn",
                      gone->upath);
            free(gone);
            continue;
        }
        DL_APPEND(all->asking, gone);
        all->nasking++;
    }
}

static void ask_later(void *arg)
{
    struct adopt_gone *all = arg;

    DL_CONCAT(all->todo, all->later);
    all->later = NULL;
    go_on(all);
}

static struct adopt_gone *get(struct member *member)
{
    struct adopt_gone *all = run_of(member)->gone;

    if (all)
        return all;
    if (!(all = calloc(1, sizeof(*all))) ||
        !(all->timer = net_timer_create(member->loop, ask_later, all))) {
        free(all);
        return NULL;
    }
    all->member = member;
    all->pause = seconds_ns(MEMBER_ASK_AGAIN);
    return run_of(member)->gone = all;
}

int adopt_gone_add(struct member *member, enum engine_side side,
                   const struct store_record *found)
{
    struct adopt_gone *all = get(member);
    size_t len = strlen(found->entry.upath);
    struct gone *gone = all ? calloc(1, sizeof(*gone) + len + 1) : NULL;
    const struct store_record *own;
    int rc = 0;

    if (!gone) {
        log_error("out of memory: \"%s\", which was removed, is not withdrawn",
                  found->entry.upath);
        return -1;
    }
    gone->all = all;
    gone->side = side;
    gone->version = found->entry.version;
    memcpy(gone->storage, found->entry.storage, sizeof(gone->storage));
    memcpy(gone->upath, found->entry.upath, len + 1);
    own = own_record(gone);
    if (!own || dyad_version_cmp(&own->entry.version, &gone->version) < 0)
        rc = store_journal_put(member->side[side].journal, found); /* was logged */
    DL_APPEND(all->todo, gone);
    go_on(all);
    return rc;
}

void adopt_gone_again(struct member *member)
{
    struct adopt_gone *all = run_of(member)->gone;

    if (!all)
        return;
    all->pause = seconds_ns(MEMBER_ASK_AGAIN);
    net_timer_stop(all->timer);
    ask_later(all);
}

bool adopt_gone_pending(struct member *member)
{
    const struct adopt_gone *all = run_of(member)->gone;

    return all && (all->todo || all->asking);
}

static void drop(struct adopt_gone *all, struct gone *list)
{
    struct gone *gone, *tmp;

    DL_FOREACH_SAFE(list, gone, tmp)
    {
        if (gone->lookup)
            dht_node_cancel(all->member->dht, gone->lookup);
        free(gone);
    }
}

void adopt_gone_stop(struct member *member)
{
    struct adopt_gone *all = run_of(member)->gone;

    if (!all)
        return;
    drop(all, all->todo);
    drop(all, all->asking);
    drop(all, all->later);
    drop(all, all->settling);
    net_timer_destroy(all->timer);
    free(all);
    run_of(member)->gone = NULL;
}
