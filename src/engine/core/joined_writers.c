/*
 * joined_writers.c - files that several nodes write: what the homes are told of this rank
 *
 * They know of a writer by its look-up (NET_LOOKUP_WRITES), and of its end by its publish. This is
 * for the rest: a close that publishes nothing, or whose pieces another node has published. They know
 * the rank, not its processes nor the others of its node, so the marks say what is so. Between the
 * look-up and the mark a process may be asked for by them, too: then it is remembered here.
 */
#include "engine/core/joined_writers.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <utlist.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "dht/base.h"
#include "engine/core/completion.h"
#include "engine/core/module.h"
#include "store/extents.h"
#include "store/fetch.h"
#include "util/clock.h"
#include "util/fd_close.h"

/* An open lasts no longer between its look-up and its mark, if it is not stopped. */
#define NOTED_FOR (UTIL_NSEC_PER_SEC / 5)
#define NOTED_MAX 64u

/* Until a process that has no mark yet is looked at once more, ns. */
#define LATER (UTIL_NSEC_PER_SEC / 20)

struct joined_writers {
    struct later *laters;
    struct {
        uint64_t hash, until;
    } noted[NOTED_MAX]; /* the last ones */
    unsigned next_noted;
    uint64_t until; /* the newest */
};

/* The place of the name among the noted, or NOTED_MAX. */
static unsigned find_noted(const struct member *member, const char *upath)
{
    const struct joined_writers *joined = OWN(member, joined_writers);
    uint64_t hash, now = joined->until ? util_clock_now() : 0;
    unsigned i;

    if (now >= joined->until)
        return NOTED_MAX;
    hash = XXH3_64bits(upath, strlen(upath));
    for (i = 0; i < NOTED_MAX; i++)
        if (joined->noted[i].hash == hash && now < joined->noted[i].until)
            break;
    return i;
}

void joined_writers_noted(struct member *member, const char *upath)
{
    struct joined_writers *joined = OWN(member, joined_writers);
    unsigned i = joined->next_noted++ % NOTED_MAX;

    joined->noted[i].hash = XXH3_64bits(upath, strlen(upath));
    joined->noted[i].until = joined->until = util_clock_now() + NOTED_FOR;
}

bool joined_writers_find(const struct member_dmd *dmd, const char *upath,
                         struct store_mark_info *info)
{
    int fd = store_fetch_open_named(dmd->dir, upath, O_PATH | O_NOFOLLOW);
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0)
        st.st_ino = 0;
    util_fd_close(fd);
    if (!store_marks_dirty(dmd->marks, upath, st.st_ino, 0, info))
        return false;
    if (!info->ino) /* others may have the file open */
        info->ino = st.st_ino;
    return true;
}

/* What is found here; or, if others here have changed it, what they had found. `newest`: but if they
 * have all closed it, and publish it. */
static struct dyad_base found(const struct member_dmd *dmd, const char *upath, bool newest)
{
    int fd = store_fetch_open_named(dmd->dir, upath, O_PATH | O_NOFOLLOW);
    struct dyad_base base = {.kind = DYAD_BASE_NONE};
    struct store_mark_info info;
    struct store_identity id;
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0 || store_identity_read(fd, &id) < 0) {
        util_fd_close(fd);
        return base;
    }
    util_fd_close(fd);
    if (!store_marks_dirty(dmd->marks, NULL, id.ino, id.btime, &info) ||
        store_marks_all_begin(dmd->marks, id.ino, id.btime) ||
        (newest && !store_marks_any_open(dmd->marks, id.ino, id.btime)))
        return dht_base_of(&st);
    if (dmd->extents && store_marks_recorded(dmd->marks, 0, id.ino, id.btime)) {
        store_extents_version(dmd->extents, id.ino, id.btime, &base);
        base.kind = DYAD_BASE_FROM;
        base.stays = true;
    }
    return base;
}

int joined_writers_begin(struct member *member, enum engine_role role, const char *upath,
                         uint8_t flags, dht_writing_fn fn, void *arg)
{
    const bool newest = flags & NET_WRITING_NEWEST;
    struct dyad_base base = found(&member->dmd[role], upath, newest);

    base.stays |= !newest;
    base.joint = flags & NET_WRITING_WAITED;
    return dht_node_writing_from(member->dht, upath, &base, util_clock_now(), fn, arg);
}

void joined_writers_opened(struct member *member, const char *upath)
{
    unsigned noted = find_noted(member, upath);

    if (noted < NOTED_MAX)
        OWN(member, joined_writers)->noted[noted].until = 0;
}

void joined_writers_closed(struct member *member, const char *upath, dht_writing_fn fn,
                           void *arg)
{
    uint64_t looked = util_clock_now();
    struct store_mark_info info;
    bool others = completion_holds(member, upath);

    joined_writers_opened(member, upath);
    for (int s = 0; s < 2 && !others; s++)
        others = member->dmd[s].dir && joined_writers_find(&member->dmd[s], upath, &info);
    if (others || dht_node_writing(member->dht, upath, completion_end(member, upath),
                                   looked, fn, arg) < 0) {
        if (fn)
            fn(arg, 0);
    }
}

bool joined_writers_is_noted(const struct member *member, const char *upath)
{
    return find_noted(member, upath) < NOTED_MAX;
}

struct later {
    struct later *prev, *next; /* utlist */
    struct member *member;
    void (*fn)(void *member, const char *upath);
    struct net_timer *timer;
    char upath[];
};

static void later_free(struct later *later)
{
    DL_DELETE(OWN(later->member, joined_writers)->laters, later);
    if (later->timer)
        net_timer_destroy(later->timer);
    free(later);
}

static void later_comes(void *arg)
{
    struct later *later = arg;
    struct later copy = *later;
    char upath[DYAD_UPATH_MAX + 1];

    strcpy(upath, later->upath);
    later_free(later);
    copy.fn(copy.member, upath);
}

/* Without memory its home asks again, some seconds later. */
void joined_writers_later(struct member *member, const char *upath,
                          void (*fn)(void *member, const char *upath))
{
    struct later *later;

    DL_FOREACH(OWN(member, joined_writers)->laters, later)
    {
        if (later->fn == fn && strcmp(later->upath, upath) == 0)
            return;
    }
    if (!(later = calloc(1, sizeof(*later) + strlen(upath) + 1)))
        return;
    later->member = member;
    later->fn = fn;
    strcpy(later->upath, upath);
    DL_APPEND(OWN(member, joined_writers)->laters, later);
    if ((later->timer = net_timer_create(member->loop, later_comes, later)))
        net_timer_start(later->timer, util_clock_now() + LATER);
    else
        later_free(later);
}

static const struct net_peer *peer_of(struct member *member, uint32_t rank)
{
    return rank == member->self.rank ? &member->self
                                     : net_worker_peer(member->worker, rank);
}

static bool is_one(const uint8_t *a, const uint8_t *b)
{
    static const uint8_t none[DYAD_STORAGE_ID_LEN];

    return dyad_storage_equal(a, b) && !dyad_storage_equal(a, none);
}

bool joined_writers_are_beside(const struct net_peer *a, const struct net_peer *b)
{
    return strcmp(a->node, b->node) == 0 &&
           (is_one(a->storage_producer, b->storage_producer) ||
            is_one(a->storage_consumer, b->storage_consumer));
}

static bool are_beside(void *arg, uint32_t rank, uint32_t other)
{
    const struct net_peer *a = peer_of(arg, rank), *b = peer_of(arg, other);

    return a && b && joined_writers_are_beside(a, b);
}

static int start(struct member *member)
{
    member->table_ops.beside = are_beside;
    return 0;
}

static void stop(struct member *member)
{
    while (OWN(member, joined_writers)->laters)
        later_free(OWN(member, joined_writers)->laters);
}

const struct member_module joined_writers_module = {
    .own = MODULE_OWN(joined_writers),
    .start = start,
    .stop = stop,
};
