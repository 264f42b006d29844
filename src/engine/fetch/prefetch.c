/*
 * prefetch.c - the next files of a series are brought here before they are asked for
 *
 * Three opens of a series (series.h) by this rank make a window of the next names. A look-up
 * waits for each at its homes: no consume, so it is no wait for the exit barrier. What is
 * published is brought by a consume that does not wait, and is a copy like any other.
 * An inotify watch says when it is opened; then the window moves on.
 *
 *   state   until                                  then
 *   LOOK    a home knows it                        READY. Cannot be asked: GONE
 *   READY   no open of the rank fetches, others    FETCH
 *           are done, and it fits into the space
 *   FETCH   the consume has ended                  HERE; or GONE, if it could not be had
 *   HERE    opened: the window moves. Removed:     GONE
 *   GONE    the window moves past it: an open of it goes its usual way
 */
#include "engine/fetch/prefetch.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <utlist.h>

#include "engine/core/local_file.h"
#include "engine/fetch/consume.h"
#include "engine/fetch/series.h"
#include "util/log.h"

#define SERIES_MAX  8                /* of a rank; the least recently used goes */
#define WINDOWS     (SERIES_MAX + 1) /* the last: of prefetch_want() */
#define WANTED_MAX  256
#define DEPTH_FIRST 2
#define DEPTH_MAX   8
#define AT_ONCE     2  /* fetches */
#define FREE_PART   10 /* of the free space, at most */

enum item_state { LOOK, READY, FETCH, HERE, GONE };

struct item {
    struct item *prev, *next; /* utlist, in the order of the series */
    struct window *window;
    enum item_state state;
    uint64_t value;
    struct dht_lookup *lookup; /* LOOK */
    struct dyad_version seen;  /* a withdrawal: what comes after it is waited for */
    struct consume *consume;   /* FETCH */
    uint64_t size;             /* READY: of the file */
    uint64_t held;             /* FETCH and, if it was brought, HERE: its share of `held` */
    bool brought;
    int wd; /* HERE; -1: no watch */
    char upath[];
};

struct window {
    struct member *member;
    struct series series;
    struct item *items;
    unsigned depth, nitems;
    uint64_t used; /* prefetch->uses of then */
};

struct prefetch {
    struct window windows[WINDOWS];
    uint64_t uses;
    uint64_t held; /* bytes that are being brought, or were and are not opened yet */
    unsigned fetches;
    int inotify; /* 0: none yet; -1: cannot be had */
    struct net_watch *watch;
    bool stopped;
    uint64_t files, hits, unused;
};

static void fetch_ready(struct member *member);
static void look(struct item *item);

/* --- the end of an item --- */

/* It is not here, nor on its way, any more. */
static void leave(struct item *item, bool opened)
{
    struct member *member = item->window->member;
    struct prefetch *p = OWN(member, prefetch);

    if (item->lookup)
        dht_node_cancel(member->dht, item->lookup);
    item->lookup = NULL;
    if (item->consume) {
        consume_cancel(item->consume);
        p->fetches--;
    }
    item->consume = NULL;
    if (item->wd >= 0)
        inotify_rm_watch(p->inotify, item->wd);
    item->wd = -1;
    if (item->state == HERE && item->brought && !opened)
        p->unused += item->held;
    p->held -= item->held;
    item->held = 0;
    item->state = GONE;
}

static void drop(struct item *item, bool opened)
{
    struct window *w = item->window;

    leave(item, opened);
    DL_DELETE(w->items, item);
    w->nitems--;
    free(item);
}

static void window_clear(struct window *w)
{
    while (w->items)
        drop(w->items, false);
}

/* --- HERE --- */

static struct item *find(struct prefetch *p, const char *upath, int wd)
{
    struct item *item;

    for (size_t i = 0; i < WINDOWS; i++) {
        DL_FOREACH(p->windows[i].items, item)
        {
            if (upath ? strcmp(item->upath, upath) == 0 : item->wd == wd)
                return item;
        }
    }
    return NULL;
}

static void moved(struct window *w, struct item *to);

/* It was here. What matches a pattern is brought again with each version. */
static void gone(struct item *item)
{
    struct member *member = item->window->member;

    leave(item, false);
    if (item->window == &OWN(member, prefetch)->windows[SERIES_MAX] &&
        prefetch_patterns(member)) {
        item->state = LOOK;
        item->brought = false;
        look(item);
    }
}

static void inotify_event(void *arg, int fd, uint32_t events)
{
    _Alignas(struct inotify_event) char buf[4096];
    struct prefetch *p = arg;
    ssize_t n;

    (void)events;
    while ((n = read(fd, buf, sizeof(buf))) > 0) {
        for (ssize_t at = 0; at < n;) {
            const struct inotify_event *e = (const void *)(buf + at);
            struct item *item = find(p, NULL, e->wd);
            at += (ssize_t)(sizeof(*e) + e->len);
            if (!item || e->wd < 0)
                continue;
            if (e->mask & IN_OPEN) {
                p->hits += item->brought;
                moved(item->window, item);
            } else if (e->mask & (IN_ATTRIB | IN_IGNORED)) {
                struct stat st; /* a newer version, or a withdrawal, has removed it? */
                const struct member_dmd *dmd = &item->window->member->dmd[ENGINE_CONSUMER];
                if ((e->mask & IN_IGNORED) ||
                    (store_dir_stat(dmd->dir, item->upath, &st) < 0 && errno == ENOENT))
                    gone(item);
            }
        }
    }
}

static int inotify_get(struct member *member)
{
    struct prefetch *p = OWN(member, prefetch);

    if (p->inotify)
        return p->inotify;
    p->inotify = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (p->inotify >= 0 &&
        !(p->watch = net_loop_watch(member->loop, p->inotify, EPOLLIN, inotify_event, p))) {
        close(p->inotify);
        p->inotify = -1;
    }
    if (p->inotify < 0) /* each window ends with an open that has to ask */
        log_info("opens of prefetched files cannot be watched: %m");
    return p->inotify;
}

/* False: it is not here after all. */
static bool is_here(struct item *item)
{
    struct member *member = item->window->member;
    struct prefetch *p = OWN(member, prefetch);
    struct member_dmd *dmd = &member->dmd[ENGINE_CONSUMER];
    int fd = store_dir_open(dmd->dir, item->upath, O_PATH | O_NOFOLLOW, 0);
    char path[64];
    struct stat st;

    if (fd < 0)
        return false;
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) ||
        local_file_is_superseded(dmd, item->upath, &st)) {
        close(fd);
        return false;
    }
    item->state = HERE;
    if (inotify_get(member) >= 0) {
        snprintf(path, sizeof(path), "/proc/thread-self/fd/%d", fd);
        item->wd =
            inotify_add_watch(p->inotify, path, IN_OPEN | IN_ATTRIB | IN_MASK_CREATE);
    }
    close(fd);
    return true;
}

/* --- READY and FETCH --- */

static void fetched(void *arg, int status)
{
    struct item *item = arg;
    struct window *w = item->window;
    struct member *member = w->member;
    struct prefetch *p = OWN(member, prefetch);

    item->consume = NULL;
    p->fetches--;
    if (status == 0 && is_here(item)) {
        item->brought = true;
        p->files++;
    } else {
        log_info("\"%s\" was not prefetched: %s", item->upath,
                 strerror(status ? status : ENOENT));
        leave(item, false);
    }
    fetch_ready(member);
}

/* Of DYAD_PREFETCH_BYTES what nobody has opened yet is subtracted. */
static bool fits(struct member *member, uint64_t size)
{
    const struct prefetch *p = OWN(member, prefetch);
    uint64_t most = (uint64_t)member->config->prefetch_bytes;
    struct statvfs fs;

    if (statvfs(store_dir_path(member->dmd[ENGINE_CONSUMER].dir), &fs) < 0)
        return false;
    if ((uint64_t)fs.f_bavail * fs.f_frsize / FREE_PART < most)
        most = (uint64_t)fs.f_bavail * fs.f_frsize / FREE_PART;
    return size <= most && p->held <= most - size;
}

/* READY items begin, the nearest of each series first. */
static void fetch_ready(struct member *member)
{
    struct prefetch *p = OWN(member, prefetch);
    struct item *item;

    for (size_t i = 0; i < WINDOWS; i++) {
        DL_FOREACH(p->windows[i].items, item)
        {
            if (item->state != READY)
                continue;
            if (p->fetches >= AT_ONCE || consume_is_fetching(member))
                return;
            if (!fits(member, item->size)) {
                log_debug("\"%s\" is not prefetched now: %llu bytes are more than may be",
                          item->upath, (unsigned long long)item->size);
                break;
            }
            item->consume =
                consume_start(member, item->upath, NET_CONSUME_WRITER | CONSUME_BACKGROUND,
                              0, 0, 0, fetched, item);
            if (!item->consume)
                return;
            item->state = FETCH;
            item->held = item->size;
            p->held += item->held;
            p->fetches++;
        }
    }
}

/* --- LOOK --- */

static void looked_up(void *arg, int status, const struct dyad_entry *entry)
{
    struct item *item = arg;
    const struct member_dmd *dmd = &item->window->member->dmd[ENGINE_CONSUMER];

    item->lookup = NULL;
    if (status == 0 && dyad_storage_equal(entry->storage, store_dir_id(dmd->dir))) {
        if (!is_here(item)) /* made here: there is nothing to bring */
            leave(item, false);
    } else if (status == 0 && S_ISREG(entry->mode)) {
        item->state = READY;
        item->size = entry->size;
        fetch_ready(item->window->member);
    } else if (status == ENOENT && entry && entry->state == DYAD_ENTRY_WITHDRAWN) {
        item->seen = entry->version;
        look(item);
    } else {
        leave(item, false);
    }
}

static void look(struct item *item)
{
    item->lookup = dht_node_lookup(item->window->member->dht, item->upath, NET_LOOKUP_WAIT,
                                   &item->seen, looked_up, item);
    if (!item->lookup)
        leave(item, false);
}

/* --- the window --- */

static int add(struct window *w, const char *upath, uint64_t value)
{
    struct item *item = calloc(1, sizeof(*item) + strlen(upath) + 1);

    if (!item)
        return -1;
    item->window = w;
    item->value = value;
    item->wd = -1;
    strcpy(item->upath, upath);
    DL_APPEND(w->items, item);
    w->nitems++;
    if (!is_here(item))
        look(item);
    return 0;
}

static void fill(struct window *w)
{
    char upath[DYAD_UPATH_MAX + 1];
    uint64_t value;

    while (w->nitems < w->depth &&
           series_name(&w->series, w->nitems + 1, upath, sizeof(upath), &value)) {
        if (add(w, upath, value) < 0)
            return;
    }
}

/* The reader is at `to`. What it has passed over was prefetched in vain. */
static void moved(struct window *w, struct item *to)
{
    struct prefetch *p = OWN(w->member, prefetch);
    bool vain = false, last = false;

    if (w == &p->windows[SERIES_MAX]) {
        drop(to, true);
        fetch_ready(w->member);
        return;
    }
    w->used = ++p->uses;
    series_move(&w->series, to->value);
    while (!last) {
        struct item *item = w->items;
        last = item == to;
        vain |= !last && item->state == HERE;
        drop(item, last);
    }
    if (vain && w->depth > 1)
        w->depth /= 2;
    fill(w);
    fetch_ready(w->member);
}

/* The series that goes on with upath, or that it may belong to, or else a new one in the
 * place of the one that was used least recently. */
static void note(struct member *member, const char *upath)
{
    struct prefetch *p = OWN(member, prefetch);
    struct window *w = p->windows, *oldest = p->windows;

    for (; w < p->windows + SERIES_MAX; w++) {
        if (w->series.upath && strcmp(w->series.upath, upath) == 0)
            return;
        if (series_step(&w->series, upath))
            break;
        if (w->used < oldest->used)
            oldest = w;
    }
    if (w == p->windows + SERIES_MAX) {
        for (w = p->windows; w < p->windows + SERIES_MAX; w++) {
            if (series_turn(&w->series, upath))
                break;
        }
        if (w == p->windows + SERIES_MAX) {
            w = oldest;
            if (series_begin(&w->series, upath) < 0 && !w->items)
                return;
        }
        window_clear(w); /* it was of other names */
        w->depth = DEPTH_FIRST;
    }
    w->member = member;
    w->used = ++p->uses;
    if (w->series.count >= SERIES_SURE)
        fill(w);
    fetch_ready(member);
}

/* --- interface --- */

static bool is_on(struct member *member)
{
    return strcmp(member->config->prefetch, "off") != 0 &&
           !OWN(member, prefetch)->stopped && member->state == MEMBER_JOINED &&
           member->dmd[ENGINE_CONSUMER].dir &&
           !store_dir_shared(member->dmd[ENGINE_CONSUMER].dir);
}

void prefetch_asked(struct member *member, const char *upath)
{
    struct item *item = is_on(member) ? find(OWN(member, prefetch), upath, 0) : NULL;
    struct window *w;

    if (!item || (item->state != READY && item->state != FETCH))
        return;
    w = item->window; /* it was published, and not here in time */
    w->depth = 2 * w->depth < DEPTH_MAX ? 2 * w->depth : DEPTH_MAX;
}

void prefetch_opened(struct member *member, const char *upath)
{
    struct prefetch *p = OWN(member, prefetch);
    struct item *item;

    if (!is_on(member))
        return;
    item = find(p, upath, 0);
    if (item)
        moved(item->window, item);
    else if (!prefetch_patterns(member))
        note(member, upath);
}

void prefetch_is_read(struct member *member, const char *upath)
{
    struct prefetch *p = OWN(member, prefetch);
    struct item *item = p->watch ? find(p, upath, 0) : NULL;

    if (item && item->wd >= 0) {
        inotify_rm_watch(p->inotify, item->wd);
        item->wd = -1;
    }
}

int prefetch_want(struct member *member, const char *upath)
{
    struct prefetch *p = OWN(member, prefetch);
    struct window *w = &p->windows[SERIES_MAX];
    struct item *item = is_on(member) ? find(p, upath, 0) : NULL;

    if (!is_on(member) || (item && (item->state != GONE || item->window != w)))
        return 0;
    if (item) /* it could not be had before */
        drop(item, false);
    w->member = member;
    if (w->nitems == WANTED_MAX)
        drop(w->items, false);
    return add(w, upath, 0);
}

const char *prefetch_patterns(const struct member *member)
{
    const char *set = member->config->prefetch;

    return strcmp(set, "off") != 0 && strcmp(set, "auto") != 0 ? set : NULL;
}

void prefetch_resume(struct member *member)
{
    if (is_on(member))
        fetch_ready(member);
}

void prefetch_get_info(struct member *member, struct prefetch_info *info)
{
    const struct prefetch *p = OWN(member, prefetch);
    const struct item *item;

    *info = (struct prefetch_info){p->files, p->hits, p->unused, 0, 0};
    for (size_t i = 0; i < WINDOWS; i++) {
        info->series += i < SERIES_MAX && p->windows[i].items;
        DL_FOREACH(p->windows[i].items, item)
        {
            info->awaited += item->state == LOOK;
            info->unused += item->state == HERE ? item->held : 0;
        }
    }
}

/* No reader is left. */
static void stop(struct member *member)
{
    struct prefetch *p = OWN(member, prefetch);

    p->stopped = true;
    for (size_t i = 0; i < WINDOWS; i++) {
        window_clear(&p->windows[i]);
        series_clear(&p->windows[i].series);
    }
    net_watch_destroy(p->watch);
    p->watch = NULL;
    if (p->inotify > 0)
        close(p->inotify);
    p->inotify = -1;
}

static void exiting(struct member *member, bool soon)
{
    (void)soon;
    stop(member);
}

const struct member_module prefetch_module = {
    .own = MODULE_OWN(prefetch),
    .exiting = exiting,
    .shut = stop,
    .destroy = stop,
};
