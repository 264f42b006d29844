/*
 * revalidate.c - copies whose homes have changed
 *
 * A home tells the holders of copies of a newer version. When a home is lost, its successor
 * does not know who they are; while this rank was beyond a cut, it was not told. So for
 * each rank that was lost or came back, the copies that it is (or was) home to are looked
 * up again, a little later (owners need a moment to publish to new homes; losses come in
 * crowds): that makes us a holder there, and what is newer is dealt with as if the news of
 * it had come.
 *
 * A look-up that brings a version below ours, or nothing, has asked homes that have not
 * heard of ours (yet), and did not make us a holder; nor did one that reached nobody. Such
 * a copy is looked up on and on, after pauses that double from SETTLE to PAUSE_MAX: a home
 * that cannot say anything now may be able to without any rank being lost or found, as when
 * another rank has told it what it had missed (dht/node_doubt.c). The next change of one of
 * its homes makes it due at once. It ends when the copy is no more, or has been compared.
 *
 * Or when homes that do know what is published have not known of our version for so long
 * that its owner would have told them (the rule of adopt_copies.c), and that owner lives
 * and has been heard of since (it is asked to say something: PING): it has nothing to tell.
 * Then the copy goes; while there is one such copy no lease is renewed (lease.c). If the
 * owner is dead, it died together with all homes, and the copy is all that is left of the
 * file: it stays, and opens ask.
 *
 * A change that comes while a look-up is under way makes it begin once more behind it: its
 * answer may be from before.
 *
 * Until then no lease is renewed (lease.c): once it is over an open asks the homes itself.
 */
/* Out of memory must not end the host program: uthash then leaves hh.tbl NULL. */
#define HASH_NONFATAL_OOM 1

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>
#include <utlist.h>

#include "engine/member_impl.h"
#include "util/log.h"

#define SETTLE    (1 * UTIL_NSEC_PER_SEC)
#define PAUSE_MAX (60 * UTIL_NSEC_PER_SEC)
#define TICK      (UTIL_NSEC_PER_SEC / 4) /* what is put off becomes due in crowds */
#define WINDOW    32

enum item_state { TODO, ASKING, LATER };

struct item {
    struct item *prev, *next; /* utlist: revalidate->list[state] */
    UT_hash_handle hh;
    struct revalidate *revalidate;
    enum item_state state;
    bool again; /* ASKING: homes have changed since */
    struct dht_lookup *lookup;
    uint64_t pause, due; /* LATER */
    struct adopt_unknown unknown;
    char upath[];
};

struct revalidate {
    struct member *member;
    struct net_timer *timer, *later;
    bool *rank; /* [nranks]: changed since the last time */
    bool any;
    uint64_t later_due; /* `later` is set to it; 0: not */
    struct item *items; /* by upath */
    struct item *list[LATER + 1];
    unsigned n; /* ASKING */
};

static void go_on(struct revalidate *re);

static void move(struct item *item, enum item_state state)
{
    struct revalidate *re = item->revalidate;

    re->n += (state == ASKING) - (item->state == ASKING);
    DL_DELETE(re->list[item->state], item);
    item->state = state;
    DL_APPEND(re->list[state], item);
}

static void item_free(struct item *item)
{
    struct revalidate *re = item->revalidate;

    re->n -= item->state == ASKING;
    DL_DELETE(re->list[item->state], item);
    HASH_DEL(re->items, item);
    free(item);
}

static void put_off(struct item *item)
{
    struct revalidate *re = item->revalidate;

    item->pause = !item->pause                  ? SETTLE
                  : 2 * item->pause > PAUSE_MAX ? PAUSE_MAX
                                                : 2 * item->pause;
    item->due = util_clock_now() + item->pause;
    if (item->unknown.since)
        item->due = adopt_unknown_due(&item->unknown, item->due);
    item->due += TICK - 1;
    item->due -= item->due % TICK;
    move(item, LATER);
    if (re->later_due && re->later_due <= item->due)
        return;
    re->later_due = item->due;
    net_timer_start(re->later, item->due);
}

/* The copies of that name, of both sides. */
struct copies {
    bool any, older, newer;      /* than what is published */
    struct dyad_version version; /* the newer one's, or of two the highest */
    uint32_t owner;
};

static struct copies compare(struct member *member, const char *upath,
                             const struct dyad_entry *entry)
{
    struct copies copies = {0};

    for (int s = 0; s < 2; s++) {
        const struct store_record *record =
            member->side[s].journal ? store_journal_find(member->side[s].journal, upath)
                                    : NULL;
        int order;
        if (!record || record->kind != STORE_RECORD_COPY)
            continue;
        copies.any = true;
        order = entry ? dyad_version_cmp(&record->entry.version, &entry->version) : 1;
        copies.older |= order < 0;
        if (order <= 0)
            continue;
        if (!copies.newer ||
            dyad_version_cmp(&record->entry.version, &copies.version) > 0) {
            copies.version = record->entry.version;
            copies.owner = record->entry.owner;
        }
        copies.newer = true;
    }
    return copies;
}

/* Its owner lives, could tell the homes, and does not. */
static bool owner_is_silent_on_it(const struct item *item, uint32_t owner)
{
    struct member *member = item->revalidate->member;

    if (owner >= member->job->nranks || owner == member->self.rank ||
        lost_is_missing(member, owner) || !dht_node_is_live(member->dht, owner) ||
        !net_worker_peer(member->worker, owner))
        return false;
    if (net_worker_heard_at(member->worker, owner) >= item->unknown.since)
        return true;
    lost_suspect(member, owner);
    return false;
}

/* The homes could be asked, and do not know of `copies`. True: they never will. */
static bool is_unknown_for_good(struct item *item, const struct copies *copies)
{
    bool sure = adopt_unknown_is_sure(&item->unknown);

    return owner_is_silent_on_it(item, copies->owner) && sure;
}

static void looked_up(void *arg, int status, const struct dyad_entry *entry)
{
    struct item *item = arg;
    struct revalidate *re = item->revalidate;
    bool known = (status == 0 || status == ENOENT) && entry;
    struct copies copies = compare(re->member, item->upath, known ? entry : NULL);

    item->lookup = NULL;
    if (copies.older) {
        log_info("the copy of \"%s\" is out of date", item->upath);
        produce_invalidate(re->member, entry, 0); /* nobody waits for an answer */
    }
    if (!copies.any || (!copies.newer && !item->again)) {
        item_free(item);
    } else if (item->again) {
        move(item, TODO);
    } else if (status != 0 && status != ENOENT) {
        item->unknown = (struct adopt_unknown){0};
        put_off(item);
    } else if (is_unknown_for_good(item, &copies)) {
        adopt_drop_unknown(re->member, item->upath, &copies.version);
        item_free(item);
    } else {
        put_off(item);
    }
    if (!re->items)
        log_debug("all copies whose homes have changed have been compared");
    go_on(re);
}

static void go_on(struct revalidate *re)
{
    struct item *item;

    while (re->n < WINDOW && (item = re->list[TODO])) {
        item->again = false;
        if (!compare(re->member, item->upath, NULL).any) {
            item_free(item);
            continue;
        }
        item->lookup = dht_node_lookup(re->member->dht, item->upath, NET_LOOKUP_COPY, NULL,
                                       looked_up, item);
        if (item->lookup)
            move(item, ASKING);
        else
            put_off(item);
    }
}

static void look_later(void *arg)
{
    struct revalidate *re = arg;
    struct item *item, *tmp;
    uint64_t now = util_clock_now(), next = UINT64_MAX;

    re->later_due = 0;
    if (re->member->state == MEMBER_LEAVING)
        return;
    DL_FOREACH_SAFE(re->list[LATER], item, tmp)
    {
        if (item->due <= now)
            move(item, TODO);
        else if (item->due < next)
            next = item->due;
    }
    if (next < UINT64_MAX) {
        re->later_due = next;
        net_timer_start(re->later, next);
    }
    go_on(re);
}

/* False: ENOMEM. */
static bool want(struct revalidate *re, const char *upath)
{
    size_t len = strlen(upath);
    struct item *item;

    HASH_FIND_STR(re->items, upath, item);
    if (!item) {
        if (!(item = calloc(1, sizeof(*item) + len + 1)))
            return false;
        memcpy(item->upath, upath, len + 1);
        HASH_ADD_KEYPTR(hh, re->items, item->upath, len, item);
        if (!item->hh.tbl) {
            free(item);
            return false;
        }
        item->revalidate = re;
        DL_APPEND(re->list[TODO], item);
    }
    item->pause = 0;
    item->unknown = (struct adopt_unknown){0};
    if (item->state == LATER)
        move(item, TODO);
    item->again = item->state == ASKING;
    return true;
}

static int collect(const struct store_record *record, void *arg)
{
    struct revalidate *re = arg;
    struct member *member = re->member;
    uint32_t owner = record->entry.owner;
    struct item *item;
    bool concerned;

    if (record->kind != STORE_RECORD_COPY)
        return 0;
    HASH_FIND_STR(re->items, record->entry.upath, item);
    concerned = item && owner < member->job->nranks && re->rank[owner];
    for (uint32_t r = 0; r < member->job->nranks && !concerned; r++)
        concerned = re->rank[r] && dht_node_concerns(member->dht, record->entry.upath, r);
    return concerned && !want(re, record->entry.upath);
}

static void look(void *arg)
{
    struct revalidate *re = arg;
    struct member *member = re->member;
    struct member_side *side = member->side;
    int rc = 0;

    if (member->state == MEMBER_LEAVING)
        return;
    for (int s = 0; s < 2 && rc == 0; s++)
        if (side[s].journal && (s == 0 || side[s].journal != side[0].journal))
            rc = store_journal_foreach(side[s].journal, collect, re);
    if (rc != 0) {
        log_warn("out of memory: copies on this node may be out of date");
        net_timer_start(re->timer, util_clock_now() + SETTLE);
    } else {
        memset(re->rank, 0, member->job->nranks * sizeof(*re->rank));
        re->any = false;
    }
    if (re->items)
        log_debug("homes have changed: %u copies are compared with what is published",
                  (unsigned)HASH_COUNT(re->items));
    adopt_gone_again(member);
    adopt_renames_again(member);
    go_on(re);
}

void revalidate_rank(struct member *member, uint32_t rank)
{
    struct revalidate *re = run_of(member)->again;

    re->rank[rank] = true;
    if (!re->any)
        net_timer_start(re->timer, util_clock_now() + SETTLE);
    re->any = true;
}

bool revalidate_pending(struct member *member)
{
    const struct revalidate *re = run_of(member)->again;

    return re->any || re->items;
}

int revalidate_start(struct member *member)
{
    struct revalidate *re = calloc(1, sizeof(*re));

    if (!re)
        return -1;
    re->member = member;
    re->rank = calloc(member->job->nranks, sizeof(*re->rank));
    re->timer = net_timer_create(member->loop, look, re);
    re->later = net_timer_create(member->loop, look_later, re);
    run_of(member)->again = re;
    if (re->rank && re->timer && re->later)
        return 0;
    revalidate_stop(member);
    return -1;
}

void revalidate_stop(struct member *member)
{
    struct revalidate *re = run_of(member)->again;
    struct item *item, *tmp;

    if (!re)
        return;
    HASH_ITER(hh, re->items, item, tmp)
    {
        if (item->lookup)
            dht_node_cancel(re->member->dht, item->lookup);
        item_free(item);
    }
    if (re->timer)
        net_timer_destroy(re->timer);
    if (re->later)
        net_timer_destroy(re->later);
    free(re->rank);
    free(re);
    run_of(member)->again = NULL;
}
