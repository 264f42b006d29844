/*
 * transfer.c - the bytes of one file to this node
 *
 * There is one transfer per upath and member. An owner on this node (same node name, and
 * its DMD is reachable under its path with the storage id it told) is copied from
 * directly (transfer_copy.c); any other is asked for chunks with GET (transfer_chunks.c),
 * and a promoted guest fetches by itself (guest_fetched()). The bytes of a small file may
 * have come with the entry: then nobody is asked, and the owner need not live.
 * transfer_end.c puts the file into place.
 *
 * What could go wrong: another member of this node fetches the file (wait_for_other());
 * the owner is dead, in exec, or silent (rank_choose()); a newer version is published
 * meanwhile: a transfer that is invalidated never commits (transfer_end.c).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <utlist.h>

#include "engine/core/local_file.h"
#include "engine/core/member_impl.h"
#include "engine/core/module.h"
#include "engine/fetch/transfer_impl.h"
#include "engine/membership/unreachable.h"
#include "engine/promoted/promoted.h"
#include "util/log.h"

/* --- the beginning --- */

static void begin_work(void *arg)
{
    struct transfer *t = arg;

    t->status = 0;
    t->fetch = store_fetch_begin(t->member->dmd[ENGINE_CONSUMER].dir, &t->entry);
    if (!t->fetch)
        t->status = errno;
}

/* Another member of this node fetches it, and holds the temporary file's lock: wait for
 * that in the kernel, then look at the directory again. */
struct other_fetch { /* freed by the pool if the member is gone first */
    struct engine_io io;
    struct member *member;
    struct store_dir *dir;
    char upath[DYAD_UPATH_MAX + 1];
};

static void other_wait(void *arg)
{
    struct other_fetch *other = arg;

    store_fetch_wait(other->dir, other->upath);
    store_dir_destroy(other->dir);
}

static void other_done(void *arg)
{
    struct other_fetch *other = arg;
    struct transfer *t;

    HASH_FIND_STR(OWN(other->member, transfers)->by_upath, other->upath, t);
    if (t && t->io_busy) {
        t->io_busy = false;
        transfer_end(t, EBUSY);
    }
    free(other);
}

static void wait_for_other(struct transfer *t)
{
    struct other_fetch *other = calloc(1, sizeof(*other));

    if (other) {
        other->member = t->member;
        strcpy(other->upath, t->upath);
        other->dir = store_dir_create(store_dir_path(t->member->dmd[ENGINE_CONSUMER].dir));
    }
    if (!other || !other->dir ||
        engine_io_spawn(t->member->io, &other->io, other_wait, other_done, other) < 0) {
        if (other && other->dir)
            store_dir_destroy(other->dir);
        free(other);
        transfer_failed_here(t, "fetched", ENOMEM);
        return;
    }
    t->io_busy = t->waits_for_other = true;
    modules_fetch_grew(t->member, t->upath); /* who waits for our bytes asks elsewhere */
}

/* Another member of this node has put it into place before we had the lock. An open that
 * waits for it may know better. */
static bool is_there(const struct transfer *t)
{
    const struct member_dmd *dmd = &t->member->dmd[ENGINE_CONSUMER];
    struct stat st;

    return store_dir_stat(dmd->dir, t->upath, &st) == 0 &&
           !local_file_is_outdated(dmd, t->upath, &st);
}

static void begin_done(void *arg)
{
    struct transfer *t = arg;

    t->io_busy = false;
    if (t->status == EBUSY) {
        wait_for_other(t);
    } else if (t->status) {
        transfer_failed_here(t, "fetched", t->status);
    } else if (t->failing) {
        transfer_fail(t, t->status);
    } else if (transfer_is_background(t) && is_there(t)) {
        transfer_fail(t, EBUSY);
    } else if (t->inlined) {
        transfer_write_inlined(t);
    } else if (t->local_dmd) {
        transfer_copy(t);
    } else {
        transfer_ask_chunks(t);
    }
}

static void transfer_begin(struct transfer *t)
{
    t->io_busy = true;
    transfer_job(t, begin_work, begin_done);
}

/* Who asks decides who fetches: for a promoted guest its own process does (promoted.h),
 * and gives us the complete temporary file, from where on it is a fetch like any other;
 * if that fails in whatever way we begin ourselves. */
static void guest_fetched(void *arg, int status, int fd)
{
    struct transfer *t = arg;

    t->guest = NULL;
    if (status == 0) {
        t->by_guest = true;
        t->fetch = store_fetch_adopt(t->member->dmd[ENGINE_CONSUMER].dir, &t->entry, fd);
        if (t->fetch) {
            transfer_commit(t);
            return;
        }
        t->by_guest = false;
    }
    if (t->stale || status == ESTALE)
        transfer_fail(t, ESTALE);
    else if (status == EBUSY)
        transfer_end(t, EBUSY);
    else
        transfer_begin(t);
}

/* Ask the owner, if it is there as far as we know; or if nobody else is. The file lies on
 * a node, and any member there can serve it (serve_absent_owner.c). So where its owner is
 * dead, in exec, or silent, another of its node is asked in its place, at once. */
static void rank_choose(struct transfer *t)
{
    struct member *member = t->member;

    t->rank = t->source = t->entry.owner;
    t->other = DYAD_RANK_NONE;
    if (!t->inlined && !member->hands_over && t->rank != member->self.rank &&
        (!dht_node_is_live(member->dht, t->rank) || unreachable_is_silent(member, t->rank)))
        transfer_next(t);
}

int transfer_start(struct member *member, const struct dyad_entry *entry,
                   struct transfer_wait *wait)
{
    struct transfer *t;
    void *bytes = wait->bytes;

    wait->bytes = NULL;
    wait->version = entry->version;
    wait->fd = -1;
    HASH_FIND_STR(OWN(member, transfers)->by_upath, entry->upath, t);
    if (t) {
        free(bytes);
        DL_APPEND(t->waits, wait);
        wait->transfer = t;
        return 0;
    }
    if (!(t = calloc(1, sizeof(*t))) || !(t->upath = strdup(entry->upath)) ||
        !(t->deadline = net_timer_create(member->loop, transfer_silent, t))) {
        if (t)
            free(t->upath);
        free(t);
        free(bytes);
        errno = ENOMEM;
        return -1;
    }
    t->member = member;
    t->local_dmd = transfer_local_dmd(member, entry);
    t->bytes = bytes;
    t->joins = wait->joins;
    t->inlined = bytes && !t->local_dmd; /* what is on this node is copied there */
    t->entry = *entry;
    t->entry.upath = t->upath;
    rank_choose(t);
    HASH_ADD_KEYPTR(hh, OWN(member, transfers)->by_upath, t->upath, strlen(t->upath), t);
    if (!t->hh.tbl) {
        net_timer_destroy(t->deadline);
        free(t->local_dmd);
        free(t->bytes);
        free(t->upath);
        free(t);
        errno = ENOMEM;
        return -1;
    }
    DL_APPEND(t->waits, wait);
    wait->transfer = t;
    if (!t->inlined && !t->local_dmd && t->rank == t->entry.owner)
        t->guest = promoted_fetch_start(member, wait->pid, &t->entry, guest_fetched, t);
    if (!t->guest)
        transfer_begin(t);
    return 0;
}

void transfer_leave(struct transfer_wait *wait)
{
    struct transfer *t = wait->transfer;

    wait->transfer = NULL;
    if (!t)
        return;
    DL_DELETE(t->waits, wait);
    /* Else it goes on: the file is wanted here, or on its way to the disk. */
    if (wait->background && !t->waits && t->chunks && !t->failing)
        transfer_fail(t, ECANCELED);
}

void transfer_invalidate(struct member *member, const struct dyad_entry *newer)
{
    struct transfer *t;

    HASH_FIND_STR(OWN(member, transfers)->by_upath, newer->upath, t);
    if (t && dyad_version_cmp(&t->entry.version, &newer->version) < 0) {
        t->stale = true;
        t->newer = *newer;
        t->newer.upath = t->upath;
    }
}

bool transfer_await_commit(struct member *member, const struct dyad_entry *newer,
                           struct transfer_wait *wait)
{
    struct transfer *t;

    HASH_FIND_STR(OWN(member, transfers)->by_upath, newer->upath, t);
    if (!t || !t->committing || !t->stale)
        return false;
    wait->version = newer->version;
    wait->transfer = t;
    wait->fd = -1;
    DL_APPEND(t->waits, wait);
    return true;
}

/* After the pool's threads are gone: nothing is in anybody's hands. */
void transfer_stop(struct member *member)
{
    struct transfer *t, *tmp;

    HASH_ITER(hh, OWN(member, transfers)->by_upath, t, tmp)
    {
        transfer_drop(t);
    }
}

/* DATA is kept; an answer of another kind, or to another module, is not. */
static bool answer_received(struct member *member, const struct net_msg *msg,
                            void **payload, size_t len)
{
    bool has_bytes = msg->type == NET_MSG_DATA;

    if (!transfer_receive(member, msg, has_bytes ? *payload : NULL, has_bytes ? len : 0))
        return false;
    if (has_bytes)
        *payload = NULL;
    return true;
}

const struct member_module transfers_module = {
    .own = MODULE_OWN(transfers),
    .messages =
        (const struct member_message[]){
            {NET_MSG_DATA, answer_received},
            {NET_MSG_REDIRECT, answer_received},
            {NET_MSG_ERROR, answer_received},
            {0},
        },
    .peer_down = transfer_peer_down,
    .destroy = transfer_stop,
};
