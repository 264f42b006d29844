/*
 * adopt_unrecorded.c - what a dead rank of this node had published, and could not write
 * into its journal
 *
 * The disk was full, or a limit on the process stood in the way (catch_up.c), and it was
 * killed before that was over. The file lies here, complete, and the homes know its
 * version, size, mtime and mode, with the dead rank as its owner; only the journal knows
 * nothing of it, or an older version, so whoever takes the journal over does not serve it.
 *
 * We hear of such a file
 * - in a look, as one that is not what the journal says of it (adopt.c);
 * - from who wants it and found its owner gone (consume_owner.c), by an INVALIDATE like
 *   that of a home which asks us in the place of the dead rank, but with that rank as the
 *   owner of what is "newer", and our storage.
 *
 * In either case the homes are asked what is published now, and whose it is. If it is the
 * dead rank's, and lies in our storage, there is another look: only with the dead rank's
 * journal open, so that it is certainly dead and no two of us do this at once, the file is
 * compared. If nobody writes it, and it has the size, mtime and mode of what is published,
 * it is that: whoever had written to it since would have left a mark, or published it. Then
 * it is taken over like what the journal knows.
 *
 * Two neighbours may still do so one after the other, if both have heard from the homes
 * before the first has told them. Then both serve the same file, and the homes know the
 * second.
 *
 * What a look has found is asked for until homes can be reached, with growing pauses. What
 * a consumer wants is not: that one asks again.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utlist.h>

#include "engine/adopt_impl.h"
#include "util/log.h"

#define WINDOW    64
#define PAUSE_MAX (60 * UTIL_NSEC_PER_SEC)

struct unrecorded {
    struct unrecorded *prev, *next; /* utlist */
    struct adopt_unrecorded *all;
    uint32_t rank;
    struct dyad_version version; /* that its journal has */
    bool asks_on;
    struct dht_lookup *lookup;
    char upath[];
};

struct adopt_unrecorded {
    struct member *member;
    struct unrecorded *todo, *asking, *later;
    unsigned nasking;
    uint64_t pause;
    struct net_timer *timer; /* runs if there is something in `later` */
};

static void go_on(struct adopt_unrecorded *all);

static bool lies_here(const struct member *member, const struct dyad_entry *entry)
{
    for (int s = 0; s < 2; s++)
        if (member->side[s].dir &&
            dyad_storage_equal(entry->storage, store_dir_id(member->side[s].dir)))
            return true;
    return false;
}

static void looked_up(void *arg, int status, const struct dyad_entry *entry)
{
    struct unrecorded *u = arg;
    struct adopt_unrecorded *all = u->all;

    u->lookup = NULL;
    DL_DELETE(all->asking, u);
    all->nasking--;
    if (status != 0 && status != ENOENT && u->asks_on) {
        if (!all->later) {
            net_timer_start(all->timer, util_clock_now() + all->pause);
            all->pause = 2 * all->pause < PAUSE_MAX ? 2 * all->pause : PAUSE_MAX;
        }
        DL_APPEND(all->later, u);
    } else {
        if (!all->later)
            all->pause = seconds_ns(MEMBER_ASK_AGAIN);
        if (status == 0 && entry->owner == u->rank && lies_here(all->member, entry) &&
            dyad_version_cmp(&entry->version, &u->version) > 0)
            adopt_look_for(all->member, entry, u->rank);
        free(u);
    }
    go_on(all);
    if (!adopt_unrecorded_pending(all->member))
        linger_activity(all->member);
}

static void go_on(struct adopt_unrecorded *all)
{
    struct unrecorded *u;

    while (all->nasking < WINDOW && (u = all->todo)) {
        DL_DELETE(all->todo, u);
        u->lookup = dht_node_lookup(all->member->dht, u->upath, 0, NULL, looked_up, u);
        if (!u->lookup) {
            log_error("out of memory: \"%s\", which a dead rank had, may not be served",
                      u->upath);
            free(u);
            continue;
        }
        DL_APPEND(all->asking, u);
        all->nasking++;
    }
}

static void ask_later(void *arg)
{
    struct adopt_unrecorded *all = arg;

    DL_CONCAT(all->todo, all->later);
    all->later = NULL;
    go_on(all);
}

static struct adopt_unrecorded *get(struct member *member)
{
    struct adopt_unrecorded *all = run_of(member)->unrecorded;

    if (all)
        return all;
    if (!(all = calloc(1, sizeof(*all))) ||
        !(all->timer = net_timer_create(member->loop, ask_later, all))) {
        free(all);
        return NULL;
    }
    all->member = member;
    all->pause = seconds_ns(MEMBER_ASK_AGAIN);
    return run_of(member)->unrecorded = all;
}

static void add(struct member *member, const char *upath, uint32_t rank,
                const struct dyad_version *version)
{
    struct adopt_unrecorded *all = get(member);
    size_t len = strlen(upath);
    struct unrecorded *u = all ? calloc(1, sizeof(*u) + len + 1) : NULL;

    if (!u) {
        log_error("out of memory: \"%s\", which a dead rank had, may not be served", upath);
        return;
    }
    u->all = all;
    u->rank = rank;
    u->asks_on = version != NULL;
    if (version)
        u->version = *version;
    memcpy(u->upath, upath, len + 1);
    DL_APPEND(all->todo, u);
    go_on(all);
}

void adopt_unrecorded_changed(struct member *member, uint32_t rank,
                              const struct store_record *found)
{
    add(member, found->entry.upath, rank, &found->entry.version);
}

void adopt_unrecorded_wanted(struct member *member, uint32_t rank,
                             const struct dyad_entry *entry)
{
    if (entry->state == DYAD_ENTRY_PUBLISHED && entry->owner == rank &&
        rank != member->self.rank && lies_here(member, entry))
        add(member, entry->upath, rank, NULL);
}

bool adopt_unrecorded_is(struct member_side *side, const struct dyad_entry *entry,
                         struct store_record *record)
{
    int fd = store_dir_open(side->dir, entry->upath, O_PATH | O_NOFOLLOW, 0);
    struct dyad_entry here = {0};
    struct store_identity id;
    struct stat st;
    bool same;

    if (fd < 0)
        return false;
    same = fstat(fd, &st) == 0 && !S_ISDIR(st.st_mode) && store_identity_read(fd, &id) == 0;
    close(fd);
    if (!same)
        return false;
    store_dir_describe(side->dir, &st, &here);
    if (!dyad_storage_equal(here.storage, entry->storage) || here.size != entry->size ||
        here.mode != entry->mode || here.mtime_sec != entry->mtime_sec ||
        here.mtime_nsec != entry->mtime_nsec ||
        store_marks_dirty(side->marks, entry->upath, id.ino, id.btime, NULL))
        return false;
    *record = (struct store_record){
        .kind = STORE_RECORD_ORIGINAL, .entry = *entry, .identity = id};
    return true;
}

bool adopt_unrecorded_pending(struct member *member)
{
    const struct adopt_unrecorded *all = run_of(member)->unrecorded;

    return all && (all->todo || all->asking);
}

static void drop(struct adopt_unrecorded *all, struct unrecorded *list)
{
    struct unrecorded *u, *tmp;

    DL_FOREACH_SAFE(list, u, tmp)
    {
        if (u->lookup)
            dht_node_cancel(all->member->dht, u->lookup);
        free(u);
    }
}

void adopt_unrecorded_stop(struct member *member)
{
    struct adopt_unrecorded *all = run_of(member)->unrecorded;

    if (!all)
        return;
    drop(all, all->todo);
    drop(all, all->asking);
    drop(all, all->later);
    net_timer_destroy(all->timer);
    free(all);
    run_of(member)->unrecorded = NULL;
}
