/*
 * revalidate.c - copies whose homes have changed
 *
 * A home tells the holders of copies of a newer version. When a home is lost, its successor
 * does not know who they are; while this rank was beyond a cut, it was not told. So for
 * each rank that was lost or came back, the copies that it is (or was) home to are looked
 * up again, a little later (owners need a moment to publish to new homes; losses come in
 * crowds): that makes us a holder there, and what is newer is dealt with as if the news of
 * it had come. Where nobody can say, the next change brings it up again.
 *
 * Until then an outdated copy can be opened: complete, and of the version that was right
 * when it was fetched. That cannot be helped where the news cannot reach us.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "engine/member_impl.h"
#include "util/log.h"

#define SETTLE (1 * UTIL_NSEC_PER_SEC)
#define WINDOW 32

struct revalidate_item {
    struct revalidate_item *prev, *next; /* utlist: to do, then under way */
    struct revalidate *revalidate;
    struct dht_lookup *lookup;
    struct dyad_version version;
    char upath[];
};

struct revalidate {
    struct member *member;
    struct net_timer *timer;
    bool *rank; /* [nranks]: changed since the last time */
    bool any;
    struct revalidate_item *todo, *under_way;
    unsigned n; /* under way */
};

static void go_on(struct revalidate *re);

static void looked_up(void *arg, int status, const struct dyad_entry *entry)
{
    struct revalidate_item *item = arg;
    struct revalidate *re = item->revalidate;

    DL_DELETE(re->under_way, item);
    re->n--;
    if ((status == 0 || status == ENOENT) && entry &&
        dyad_version_cmp(&entry->version, &item->version) > 0) {
        log_info("the copy of \"%s\" is out of date", item->upath);
        produce_invalidate(re->member, entry, 0); /* nobody waits for an answer */
    }
    free(item);
    go_on(re);
}

static void go_on(struct revalidate *re)
{
    while (re->todo && re->n < WINDOW) {
        struct revalidate_item *item = re->todo;
        DL_DELETE(re->todo, item);
        item->lookup = dht_node_lookup(re->member->dht, item->upath, NET_LOOKUP_COPY, NULL,
                                       looked_up, item);
        if (!item->lookup) {
            free(item);
            continue;
        }
        DL_APPEND(re->under_way, item);
        re->n++;
    }
}

static int collect(const struct store_record *record, void *arg)
{
    struct revalidate *re = arg;
    struct member *member = re->member;
    size_t len = strlen(record->entry.upath);
    bool concerned = false;

    if (record->kind != STORE_RECORD_COPY)
        return 0;
    for (uint32_t r = 0; r < member->job->nranks && !concerned; r++)
        concerned = re->rank[r] && dht_node_concerns(member->dht, record->entry.upath, r);
    if (!concerned)
        return 0;
    struct revalidate_item *item = calloc(1, sizeof(*item) + len + 1);
    if (!item) {
        log_warn("out of memory: copies on this node may be out of date");
        return 1;
    }
    item->revalidate = re;
    item->version = record->entry.version;
    memcpy(item->upath, record->entry.upath, len + 1);
    DL_APPEND(re->todo, item);
    return 0;
}

static void look(void *arg)
{
    struct revalidate *re = arg;
    struct member *member = re->member;

    if (member->state == MEMBER_LEAVING)
        return;
    if (re->todo || re->n > 0) { /* one round after the other */
        net_timer_start(re->timer, util_clock_now() + SETTLE);
        return;
    }
    if (member->side[ENGINE_CONSUMER].journal)
        store_journal_foreach(member->side[ENGINE_CONSUMER].journal, collect, re);
    memset(re->rank, 0, member->job->nranks * sizeof(*re->rank));
    re->any = false;
    adopt_gone_again(member);
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

    return re->any || re->todo || re->n > 0;
}

int revalidate_start(struct member *member)
{
    struct revalidate *re = calloc(1, sizeof(*re));

    if (!re)
        return -1;
    re->member = member;
    if (!(re->rank = calloc(member->job->nranks, sizeof(*re->rank))) ||
        !(re->timer = net_timer_create(member->loop, look, re))) {
        free(re->rank);
        free(re);
        return -1;
    }
    run_of(member)->again = re;
    return 0;
}

static void drop(struct revalidate *re, struct revalidate_item *list)
{
    struct revalidate_item *item, *tmp;

    DL_FOREACH_SAFE(list, item, tmp)
    {
        if (item->lookup)
            dht_node_cancel(re->member->dht, item->lookup);
        free(item);
    }
}

void revalidate_stop(struct member *member)
{
    struct revalidate *re = run_of(member)->again;

    if (!re)
        return;
    drop(re, re->todo);
    drop(re, re->under_way);
    net_timer_destroy(re->timer);
    free(re->rank);
    free(re);
    run_of(member)->again = NULL;
}
