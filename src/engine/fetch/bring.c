/*
 * bring.c - directories and whole trees, brought here in one request
 *
 * For parents: from the top down, each directory that is not here is consumed without
 * waiting; the first that is not published ends it. For a tree: what is at the name is
 * consumed, then each directory is listed and what is in it is consumed, a few at a time.
 * What is held in memory are the names of the directory that is being read and the
 * directories still to be read, not the tree.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utlist.h>

#include "engine/core/member.h"
#include "engine/fetch/bring.h"
#include "engine/fetch/consume.h"
#include "engine/namespace/listing.h"
#include "util/clock.h"

#define AT_ONCE 8

struct item {
    struct item *next; /* utlist */
    bool directory;
    bool root; /* where it began: to be listed even if it is not published itself */
    char upath[];
};

struct slot {
    struct bring *bring;
    struct consume *consume; /* NULL: free */
    struct item *item;
};

struct bring {
    struct member *member;
    char *upath;
    bool parents;
    size_t done_len; /* parents: so much of upath is here */
    pid_t pid;
    consume_fn fn;
    void *arg;
    struct item *items; /* to be consumed: of the directory that was listed */
    struct item *dirs;  /* to be listed, when nothing else is left to be done */
    struct item *listing;
    struct list_request *list;
    struct slot slot[AT_ONCE];
    struct net_timer *begin;
    int status;
};

static void bring_step(void *arg);

static void items_free(struct item *items)
{
    struct item *item, *tmp;

    LL_FOREACH_SAFE(items, item, tmp)
    {
        free(item);
    }
}

void bring_cancel(struct bring *bring)
{
    for (int i = 0; i < AT_ONCE; i++) {
        if (bring->slot[i].consume)
            consume_cancel(bring->slot[i].consume);
        free(bring->slot[i].item);
    }
    if (bring->list)
        list_cancel(bring->list);
    items_free(bring->items);
    items_free(bring->dirs);
    free(bring->listing);
    net_timer_destroy(bring->begin);
    free(bring->upath);
    free(bring);
}

static void bring_end(struct bring *bring, int status)
{
    consume_fn fn = bring->fn;
    void *arg = bring->arg;

    bring_cancel(bring);
    fn(arg, status);
}

static struct item *item_create(const char *parent, const char *name, bool directory)
{
    size_t len = strlen(parent), n = strlen(name);
    struct item *item;

    if (len + 1 + n > DYAD_UPATH_MAX) {
        errno = ENAMETOOLONG;
        return NULL;
    }
    if (!(item = calloc(1, sizeof(*item) + len + n + 2)))
        return NULL;
    item->directory = directory;
    memcpy(item->upath, parent, len);
    if (len > 0)
        item->upath[len++] = '/';
    memcpy(item->upath + len, name, n + 1);
    return item;
}

static unsigned busy(const struct bring *bring)
{
    unsigned n = 0;

    for (int i = 0; i < AT_ONCE; i++)
        n += bring->slot[i].consume != NULL;
    return n;
}

/* --- a tree --- */

static void brought(void *arg, int status)
{
    struct slot *slot = arg;
    struct bring *bring = slot->bring;
    struct item *item = slot->item;

    slot->consume = NULL;
    slot->item = NULL;
    /* Withdrawn meanwhile: it is not published any more. */
    if (status && status != ENOENT && !bring->status)
        bring->status = status;
    if ((!status || (item->root && status == ENOENT)) && item->directory)
        LL_PREPEND(bring->dirs, item);
    else
        free(item);
    bring_step(bring);
}

static void consume_next(struct bring *bring, struct slot *slot)
{
    struct item *item = bring->items;

    LL_DELETE(bring->items, item);
    slot->bring = bring;
    slot->item = item;
    /* A file that is being written here counts as here: its writer may be the asker. */
    slot->consume =
        consume_start(bring->member, item->upath, item->root ? 0 : NET_CONSUME_WRITER, 0,
                      bring->pid, 0, brought, slot);
    if (!slot->consume) {
        bring->status = errno;
        slot->item = NULL;
        free(item);
    }
}

static void list_page(void *arg, const void *names, size_t len)
{
    struct bring *bring = arg;
    const char *name;
    unsigned char type;
    size_t at = 0;

    while ((name = net_list_next(names, len, &at, &type))) {
        struct item *item = item_create(bring->listing->upath, name, type == DT_DIR);
        if (item)
            LL_PREPEND(bring->items, item);
        else
            bring->status = errno;
    }
}

static void list_done(void *arg, int status)
{
    struct bring *bring = arg;

    bring->list = NULL;
    free(bring->listing);
    bring->listing = NULL;
    if (status)
        bring->status = status;
    bring_step(bring);
}

static void tree_step(struct bring *bring)
{
    for (int i = 0; i < AT_ONCE && bring->items && !bring->status; i++) {
        if (!bring->slot[i].consume)
            consume_next(bring, &bring->slot[i]);
    }
    if (busy(bring) > 0 || bring->list)
        return;
    if (bring->status || !bring->dirs) {
        bring_end(bring, bring->status);
        return;
    }
    bring->listing = bring->dirs;
    LL_DELETE(bring->dirs, bring->listing);
    bring->list = list_start(bring->member, bring->listing->upath, NULL, 0, list_page,
                             list_done, bring);
    if (!bring->list)
        bring_end(bring, errno);
}

/* --- the directories above --- */

/* Look at upath on this node. 0: it is a directory; or an errno value. */
static int look_here(struct bring *bring, const char *upath)
{
    struct stat st;

    if (store_dir_stat(bring->member->dmd[ENGINE_CONSUMER].dir, upath, &st) < 0)
        return errno == ELOOP ? ESTALE : errno;
    return S_ISDIR(st.st_mode) ? 0 : S_ISLNK(st.st_mode) ? ESTALE : ENOTDIR;
}

bool bring_parent_here(struct member *member, const char *upath)
{
    const char *slash = strrchr(upath, '/');
    char parent[DYAD_UPATH_MAX + 1];
    struct stat st;

    if (!slash)
        return true;
    memcpy(parent, upath, (size_t)(slash - upath));
    parent[slash - upath] = '\0';
    return store_dir_stat(member->dmd[ENGINE_CONSUMER].dir, parent, &st) == 0 &&
           !S_ISLNK(st.st_mode);
}

static void parent_brought(void *arg, int status)
{
    struct slot *slot = arg;
    struct bring *bring = slot->bring;

    slot->consume = NULL;
    if (status)
        bring_end(bring, status);
    else
        bring_step(bring);
}

static void parents_step(struct bring *bring)
{
    char upath[DYAD_UPATH_MAX + 1];
    const char *slash;

    while ((slash = strchr(bring->upath + bring->done_len, '/'))) {
        size_t len = (size_t)(slash - bring->upath);
        memcpy(upath, bring->upath, len);
        upath[len] = '\0';
        int here = look_here(bring, upath);
        if (here == ENOENT) {
            struct slot *slot = &bring->slot[0];
            slot->bring = bring;
            slot->consume = consume_start(bring->member, upath, 0, 0, bring->pid, 0,
                                          parent_brought, slot);
            if (!slot->consume)
                bring_end(bring, errno);
            return;
        }
        if (here) {
            bring_end(bring, here);
            return;
        }
        bring->done_len = len + 1;
    }
    bring_end(bring, 0);
}

static void bring_step(void *arg)
{
    struct bring *bring = arg;

    if (bring->parents)
        parents_step(bring);
    else
        tree_step(bring);
}

struct bring *bring_start(struct member *member, const char *upath, bool parents, pid_t pid,
                          consume_fn fn, void *arg)
{
    struct bring *bring;
    struct item *first = NULL;

    if (!member->dmd[ENGINE_CONSUMER].dir) {
        errno = EINVAL;
        return NULL;
    }
    if (!parents && !member->config->listing) {
        errno = ENOTSUP;
        return NULL;
    }
    bring = calloc(1, sizeof(*bring));
    if (!bring || !(bring->upath = strdup(upath)) ||
        !(bring->begin = net_timer_create(member->loop, bring_step, bring)) ||
        (!parents && !(first = item_create("", upath, true)))) {
        if (bring)
            bring_cancel(bring);
        errno = ENOMEM;
        return NULL;
    }
    bring->member = member;
    bring->parents = parents;
    bring->pid = pid;
    bring->fn = fn;
    bring->arg = arg;
    if (first)
        first->root = true;
    if (first && upath[0])
        LL_PREPEND(bring->items, first);
    else if (first)
        LL_PREPEND(bring->dirs, first);
    net_timer_start(bring->begin, util_clock_now());
    return bring;
}
