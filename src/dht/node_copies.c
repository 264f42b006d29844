/*
 * dht/node_copies.c - where it is known that we hold copies
 *
 * Who is given an entry to copy is noted as a holder by the one home that answered, and
 * told by it of the next version. If that home dies, or a rank that joins takes its place,
 * the next version goes to homes that do not know of us, and our copy would be used for
 * ever. So we remember for each copy which home knows, and when that home has died or is
 * none any more we ask again, as for a copy: what answers notes us, or has a newer version,
 * which we then take for the INVALIDATE that we missed. What the homes have lost (ENOENT,
 * or an older version, until its owner brings it back) is asked for again every retry
 * interval, a bounded number of times after each change of membership.
 *
 * A note that we have made ourselves, as a home, is of no use to others while we are
 * stopped: the neighbours who would be told in our place (node_told.c) are told by the home
 * that knows of us. So such a copy is looked up at another home as well, at once and beside
 * what goes on.
 *
 * A change costs a walk over the copies, some 0.1 us each and in portions, and messages
 * only for those that its rank was or is a home of. Between the change and the end of this
 * an acknowledgement does not say that nobody uses an older copy: docs/dht.md.
 *
 * If there is no memory for a note the copy is as if its home had never known of it: that
 * is logged.
 */
#include "dht/node_impl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "util/log.h"

#define REVIEW_BUDGET 4096
#define TRIES_MAX     12

struct copy {
    struct dyad_version version;
    UT_hash_handle hh;
    uint32_t home, epoch; /* it noted us when we knew of that many deaths */
    bool asking;
    char upath[];
};

struct renewal {
    struct dht_node *node;
    struct dyad_version version; /* that we had when it began */
    char upath[];
};

static void copies_try_again(struct dht_node *node)
{
    if (!node->copy_timer.active && node->copy_tries < TRIES_MAX)
        node_timer_start(node, &node->copy_timer, TIMER_RETRY);
}

static struct copy *copy_find(struct dht_node *node, const char *upath)
{
    struct copy *copy;

    HASH_FIND_STR(node->copies, upath, copy);
    return copy;
}

static void copy_free(struct dht_node *node, struct copy *copy)
{
    if (node->copy_next == copy)
        node->copy_next = copy->hh.next;
    HASH_DEL(node->copies, copy);
    free(copy);
}

static void copies_walk(struct dht_node *node);
static void copy_renew(struct dht_node *node, struct copy *copy);

bool copies_home_elsewhere(struct dht_node *node, const char *upath)
{
    uint32_t homes[DHT_REPLICAS_MAX];
    unsigned n = dht_node_homes(node, upath, homes);

    for (unsigned i = 0; i < n; i++)
        if (homes[i] != node->config.self)
            return true;
    return false;
}

/* Noted, but by us alone. */
static void copy_tell_another(struct dht_node *node, struct copy *copy)
{
    if (copy->asking || !copies_home_elsewhere(node, copy->upath))
        return;
    if (node->ncopies_asking < DHT_REPAIR_WINDOW)
        copy_renew(node, copy);
    else
        copies_walk(node);
}

void copies_note(struct dht_node *node, const char *upath,
                 const struct dyad_version *version, uint32_t home)
{
    struct copy *copy = copy_find(node, upath);
    size_t len = strlen(upath);

    if (copy == NULL && (copy = calloc(1, sizeof(*copy) + len + 1)) != NULL) {
        memcpy(copy->upath, upath, len + 1);
        if (node->copies == NULL && node->ops->held != NULL)
            node->ops->held(node->arg);
        HASH_ADD_KEYPTR(hh, node->copies, copy->upath, len, copy);
        if (copy->hh.tbl == NULL) {
            free(copy);
            copy = NULL;
        }
    }
    if (copy == NULL) {
        log_warn("out of memory: it is not noted where this rank's copy of %s is known",
                 upath);
        return;
    }
    copy->version = *version;
    copy->home = home;
    copy->epoch = node->epoch;
    if (home == DYAD_RANK_NONE)
        copies_try_again(node);
    else if (home == node->config.self)
        copy_tell_another(node, copy);
}

void copies_newer(struct dht_node *node, const struct dyad_entry *newer)
{
    struct copy *copy = copy_find(node, newer->upath);

    if (copy == NULL || dyad_version_cmp(&newer->version, &copy->version) <= 0)
        return;
    /* Of a directory its home goes on to count us: told_take_ranks(). */
    if (newer->state == DYAD_ENTRY_PUBLISHED && S_ISDIR(newer->mode))
        copy->version = newer->version;
    else
        copy_free(node, copy);
}

void copies_drop(struct dht_node *node, const char *upath)
{
    struct copy *copy = copy_find(node, upath);

    if (copy != NULL)
        copy_free(node, copy);
}

static bool copy_is_known(struct dht_node *node, const struct copy *copy)
{
    uint32_t homes[DHT_REPLICAS_MAX];
    unsigned n;

    if (copy->home == DYAD_RANK_NONE ||
        (node->death != NULL && node->death[copy->home] >> 1 > copy->epoch) ||
        (copy->home == node->config.self && copies_home_elsewhere(node, copy->upath)))
        return false;
    n = dht_node_homes(node, copy->upath, homes);
    for (unsigned i = 0; i < n; i++)
        if (homes[i] == copy->home)
            return true;
    return false;
}

static void renewed(void *arg, int status, const struct dyad_entry *entry)
{
    struct renewal *renewal = arg;
    struct dht_node *node = renewal->node;
    struct copy *copy = copy_find(node, renewal->upath);
    int order = entry != NULL ? dyad_version_cmp(&entry->version, &renewal->version) : -1;

    node->ncopies_asking--;
    if (copy != NULL)
        copy->asking = false;
    if (order > 0) {
        publish_missed(node, entry);
    } else if (copy != NULL && (status != 0 || order < 0)) {
        copy->version = renewal->version; /* the answer has noted an older one */
        copy->home = DYAD_RANK_NONE;
        copies_try_again(node);
    }
    free(renewal);
    node_rearm(node); /* there is room for the next */
}

static void copy_renew(struct dht_node *node, struct copy *copy)
{
    size_t len = strlen(copy->upath);
    struct renewal *renewal = calloc(1, sizeof(*renewal) + len + 1);

    if (renewal == NULL) {
        copies_try_again(node);
        return;
    }
    renewal->node = node;
    renewal->version = copy->version;
    memcpy(renewal->upath, copy->upath, len + 1);
    if (dht_node_lookup(node, copy->upath, NET_LOOKUP_COPY, NULL, renewed, renewal) ==
        NULL) {
        free(renewal);
        copies_try_again(node);
        return;
    }
    copy->asking = true;
    node->ncopies_asking++;
}

static void copies_walk(struct dht_node *node)
{
    if (node->copies == NULL)
        return;
    if (node->copies_reviewing) {
        node->copies_again = true;
    } else {
        node->copies_reviewing = true;
        node->copy_next = node->copies;
    }
}

void copies_review(struct dht_node *node)
{
    node->copy_tries = 0;
    copies_walk(node);
}

void copies_review_step(struct dht_node *node)
{
    for (int i = 0; i < REVIEW_BUDGET && node->copies_reviewing; i++) {
        struct copy *copy = node->copy_next;
        if (copy == NULL) {
            node->copies_reviewing = node->copies_again && node->copies != NULL;
            node->copies_again = false;
            node->copy_next = node->copies;
            continue;
        }
        if (node->ncopies_asking >= DHT_REPAIR_WINDOW)
            return;
        node->copy_next = copy->hh.next;
        if (!copy->asking && !copy_is_known(node, copy))
            copy_renew(node, copy);
    }
}

void copies_timer(struct dht_node *node, struct timer *timer)
{
    (void)timer;
    node->copy_tries++;
    copies_walk(node);
}

unsigned dht_node_copy_homes(struct dht_node *node, const bool *unsure, bool *home,
                             bool *known)
{
    struct copy *copy, *tmp;

    *known = true;
    memset(home, 0, node->config.nranks * sizeof(*home));
    HASH_ITER(hh, node->copies, copy, tmp)
    {
        uint32_t homes[DHT_REPLICAS_MAX];
        unsigned n = dht_node_homes(node, copy->upath, homes);
        bool here = false, sure = false;
        for (unsigned i = 0; i < n; i++) {
            home[homes[i]] = true;
            here = here || homes[i] == copy->home;
            sure = sure ||
                   !(homes[i] == node->config.self ? doubt_is(node) : unsure[homes[i]]);
        }
        if (!here || !sure ||
            (node->death != NULL && node->death[copy->home] >> 1 > copy->epoch))
            *known = false;
    }
    return HASH_COUNT(node->copies);
}

int dht_node_hold(struct dht_node *node, const char *upath,
                  const struct dyad_version *version)
{
    if (version->counter == 0 || version->counter > DHT_COUNTER_MAX) {
        errno = EINVAL;
        return -1;
    }
    if (copy_find(node, upath) != NULL)
        return 0; /* what was looked up since is as true */
    copies_note(node, upath, version, DYAD_RANK_NONE);
    if (copy_find(node, upath) == NULL) {
        errno = ENOMEM;
        return -1;
    }
    copies_review(node);
    node_rearm(node);
    return 0;
}

bool copies_is_renewal(dht_lookup_fn fn)
{
    return fn == renewed;
}

void copies_destroy(struct dht_node *node)
{
    struct copy *copy, *tmp;

    HASH_ITER(hh, node->copies, copy, tmp)
    {
        copy_free(node, copy);
    }
}
