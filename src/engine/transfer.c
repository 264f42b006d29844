/*
 * transfer.c - the bytes of one file to this node
 *
 * One transfer per upath and member; a fetch of another member of this node holds the
 * temporary file's lock, and we wait for that in the kernel. Two ways: an owner on this
 * node (same node name, and its DMD is reachable under its path with the storage id it
 * told) is copied from directly; any other is asked for chunks with GET, `chunks` of them
 * in memory at a time, whether on the way or being written, so memory stays flat whatever
 * the size. Chunks are written by pool threads.
 *
 * Who asks decides who fetches: for a promoted guest its own process does (peer.h), and
 * gives us the complete temporary file, from where on it is a fetch like any other; if that
 * fails in whatever way we begin ourselves. An owner may name a promoted guest of its own
 * in place of an answer: the chunks are then asked of that one, and of the owner again when
 * the guest fails.
 *
 * A transfer that is invalidated (a newer version was published) never commits. The
 * deadline is the peer's silence, not the transfer's length: each arrival moves it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uthash.h>
#include <utlist.h>

#include "engine/peer.h"
#include "net/codec.h"
#include "store/fetch.h"
#include "util/clock.h"
#include "util/crash.h"
#include "util/log.h"

struct chunk {
    struct chunk *prev, *next; /* utlist */
    struct engine_io io;
    struct transfer *transfer;
    uint64_t id; /* of the GET */
    uint64_t offset, length;
    void *data; /* arrived, being written */
    int error;
};

struct transfer {
    UT_hash_handle hh; /* by upath */
    struct member *member;
    char *upath;
    struct dyad_entry entry; /* entry.upath is upath */
    struct transfer_wait *waits;
    struct store_fetch *fetch;
    struct engine_io io; /* begin, copy, commit: one at a time */
    bool io_busy;
    struct store_identity identity;
    struct chunk *chunks; /* asked for or being written */
    unsigned nchunks;
    uint64_t next_offset;
    struct net_timer *deadline;
    char *local_dmd;          /* the owner's DMD on this node, or NULL */
    struct peer_fetch *guest; /* that fetches it for us */
    bool by_guest;            /* it has */
    uint32_t source;     /* whom chunks are asked of: the owner, or a guest that it named */
    bool owner_only;     /* such a guest has failed */
    uint64_t ino, btime; /* of the file, as the guest sees it */
    bool replace;        /* an outdated copy of ours lies there */
    bool stale;          /* a newer version is out */
    bool committing;     /* it is being put into place */
    int status;          /* of the first failure */
    bool failing;        /* `status` is set: wait for what is under way, then end */
};

static void transfer_next(struct transfer *t);

/* --- the end --- */

static void transfer_free(struct transfer *t)
{
    struct chunk *chunk, *tmp;

    HASH_DEL(t->member->transfers, t);
    DL_FOREACH_SAFE(t->chunks, chunk, tmp)
    {
        free(chunk->data);
        free(chunk);
    }
    if (t->deadline)
        net_timer_destroy(t->deadline);
    if (t->guest)
        peer_fetch_forget(t->guest);
    free(t->local_dmd);
    free(t->upath);
    free(t);
}

static void transfer_end(struct transfer *t, int status)
{
    struct transfer_wait *waits = t->waits, *wait, *tmp;
    struct dyad_version version = t->entry.version;

    t->waits = NULL;
    transfer_free(t);
    DL_FOREACH_SAFE(waits, wait, tmp)
    {
        wait->transfer = NULL;
        /* Who asked for a newer version than the one that is outdated now must not wait for
         * one that is newer still. */
        if (status == ESTALE && dyad_version_cmp(&wait->version, &version) > 0)
            wait->fn(wait->arg, EBUSY);
        else
            wait->fn(wait->arg, status);
    }
}

static void abort_work(void *arg)
{
    struct transfer *t = arg;

    if (t->fetch)
        store_fetch_abort(t->fetch);
    t->fetch = NULL;
}

static void abort_done(void *arg)
{
    struct transfer *t = arg;
    transfer_end(t, t->status);
}

/* Fail once nothing of it is in another thread's hands. Chunks on the way are forgotten. */
static void transfer_fail(struct transfer *t, int status)
{
    struct chunk *chunk, *tmp;

    if (!t->failing) {
        t->failing = true;
        t->status = status;
    }
    DL_FOREACH_SAFE(t->chunks, chunk, tmp)
    {
        if (!chunk->data) {
            DL_DELETE(t->chunks, chunk);
            t->nchunks--;
            free(chunk);
        }
    }
    if (t->nchunks > 0 || t->io_busy)
        return;
    t->io_busy = true;
    net_timer_stop(t->deadline);
    engine_io_submit(t->member->io, &t->io, abort_work, abort_done, t);
}

static void owner_lost(struct transfer *t, const char *why)
{
    log_info("the fetch of \"%s\" broke off: its owner, %s, %s", t->upath,
             member_describe(t->member, t->entry.owner), why);
    transfer_fail(t, EHOSTUNREACH);
}

static void source_lost(struct transfer *t, const char *why);

static void deadline_passed(void *arg)
{
    struct transfer *t = arg;
    struct member *member = t->member;
    uint32_t source = t->source;
    bool guest = net_is_guest(source);

    source_lost(t, "does not answer");
    if (!guest)
        lost_unserved(member, source); /* last: `t` may be gone */
}

static void deadline_move(struct transfer *t)
{
    net_timer_start(t->deadline,
                    util_clock_now() + (uint64_t)(t->member->config->peer_timeout *
                                                  (double)UTIL_NSEC_PER_SEC));
}

static void local_failure(struct transfer *t, const char *what, int error)
{
    log_error("\"%s\" cannot be %s below %s: %s%s", t->upath, what,
              store_dir_path(t->member->side[ENGINE_CONSUMER].dir), strerror(error),
              error == ENOSPC || error == EDQUOT
                  ? ": make room there, or use a larger DYAD_PATH"
                  : "");
    transfer_fail(t, error);
}

/* --- commit --- */

static void commit_work(void *arg)
{
    struct transfer *t = arg;

    t->status = 0;
    DYAD_CRASH_POINT("fetch-complete");
    if (store_fetch_commit(t->fetch, t->replace, &t->identity) < 0)
        t->status = errno;
    t->fetch = NULL;
    DYAD_CRASH_POINT("fetch-committed");
}

/* Before the file has its name: if we are killed then, who takes over our journal (adopt.c)
 * must find that it is a copy, which may be out of date. 0 or -1 with errno. */
static int record_early(struct transfer *t)
{
    struct store_record record = {.kind = STORE_RECORD_COPY, .entry = t->entry};

    if (!S_ISREG(t->entry.mode)) /* its identity shows when it is made */
        return 0;
    if (store_fetch_identity(t->fetch, &record.identity) < 0)
        return -1;
    t->identity = record.identity;
    if (store_journal_put(t->member->side[ENGINE_CONSUMER].journal, &record) < 0)
        log_error("this node's record of \"%s\" could not be written: %m", t->upath);
    return 0;
}

/* It was not put into place. */
static void record_undo(struct transfer *t)
{
    struct store_journal *journal = t->member->side[ENGINE_CONSUMER].journal;
    const struct store_record *record = store_journal_find(journal, t->upath);

    if (record && record->kind == STORE_RECORD_COPY &&
        dyad_version_cmp(&record->entry.version, &t->entry.version) == 0)
        store_journal_delete(journal, t->upath);
}

static void commit_done(void *arg)
{
    struct transfer *t = arg;
    struct member *member = t->member;
    struct member_side *side = &member->side[ENGINE_CONSUMER];
    struct store_record record = {
        .kind = STORE_RECORD_COPY, .entry = t->entry, .identity = t->identity};
    int status = t->status;

    t->io_busy = false;
    if (status || t->stale)
        record_undo(t);
    if (status ==
        EEXIST) { /* written here meanwhile: whatever it is, it is this node's own */
        transfer_end(t, EBUSY);
        return;
    }
    if (status) {
        local_failure(t, "put into place", status);
        return;
    }
    if (t->stale) { /* the news came while it was being renamed: it is withdrawn as any
                       other copy */
        if (produce_still_there(side, &record))
            store_fetch_discard(side->dir, t->upath, &t->identity);
        transfer_end(t, ESTALE);
        return;
    }
    if (!S_ISREG(t->entry.mode) && store_journal_put(side->journal, &record) < 0)
        log_error("this node's record of \"%s\" could not be written: %m", t->upath);
    if (!S_ISREG(t->entry.mode)) {
        log_debug("made \"%s\" as rank %u has it", t->upath, t->entry.owner);
        transfer_end(t, 0);
        return;
    }
    if (t->local_dmd) {
        member->stats.local_copies++;
    } else {
        member->stats.fetches++;
        member->stats.bytes_fetched += t->entry.size;
        member->stats.peer_fetches += t->by_guest;
        member->stats.peer_bytes += t->by_guest ? t->entry.size : 0;
    }
    log_debug("fetched \"%s\", %llu bytes, from rank %u", t->upath,
              (unsigned long long)t->entry.size, t->entry.owner);
    transfer_end(t, 0);
}

/* In a promoted guest: the file goes to whoever asked. */
static void transfer_give(struct transfer *t)
{
    int fd = t->waits ? store_fetch_give(t->fetch) : -1;

    if (fd < 0) {
        transfer_fail(t, EIO);
        return;
    }
    t->fetch = NULL;
    t->waits->fd = fd;
    t->member->stats.fetches++;
    t->member->stats.bytes_fetched += t->entry.size;
    transfer_end(t, 0);
}

static void transfer_commit(struct transfer *t)
{
    const struct store_record *old;

    if (t->stale) {
        transfer_fail(t, ESTALE);
        return;
    }
    if (t->member->hands_over) {
        transfer_give(t);
        return;
    }
    net_timer_stop(t->deadline);
    old = store_journal_find(t->member->side[ENGINE_CONSUMER].journal, t->upath);
    t->replace = old && dyad_version_cmp(&old->entry.version, &t->entry.version) < 0;
    if (record_early(t) < 0) {
        local_failure(t, "put into place", errno);
        return;
    }
    t->io_busy = t->committing = true;
    engine_io_submit(t->member->io, &t->io, commit_work, commit_done, t);
}

/* --- from another directory of this node --- */

static int copy_checked(struct transfer *t, struct store_dir *dir)
{
    struct store_marks *marks = store_marks_create(dir);
    struct store_identity before, after;
    struct stat st;
    int fd = -1;
    int rc = -1;

    if (!marks || (fd = store_dir_open(dir, t->upath, O_RDONLY, 0)) < 0)
        goto done;
    if (fstat(fd, &st) < 0 || store_identity_read(fd, &before) < 0)
        goto done;
    errno = ESTALE;
    if ((uint64_t)st.st_size != t->entry.size || st.st_mtim.tv_sec != t->entry.mtime_sec ||
        (uint32_t)st.st_mtim.tv_nsec != t->entry.mtime_nsec)
        goto done;
    if (store_fetch_copy(t->fetch, fd) < 0)
        goto done;
    /* Nobody wrote to it while it was read: no mark now, and it looks as before. The mark
     * of the publish itself may still stand: it is CLOSING. */
    struct store_mark_info info;
    if (store_identity_read(fd, &after) < 0)
        goto done;
    if (!store_identity_equal(&before, &after) ||
        (store_marks_dirty(marks, NULL, after.ino, after.btime, &info) &&
         info.state != STORE_MARK_CLOSING)) {
        errno = ESTALE;
        goto done;
    }
    rc = 0;
done:
    if (rc < 0 && errno == ENOENT)
        errno = ESTALE;
    int saved = errno;
    if (fd >= 0)
        close(fd);
    if (marks)
        store_marks_destroy(marks);
    errno = saved;
    return rc;
}

static void copy_work(void *arg)
{
    struct transfer *t = arg;
    struct store_dir *dir = store_dir_create(t->local_dmd);

    t->status = 0;
    if (!dir || copy_checked(t, dir) < 0)
        t->status = errno;
    store_dir_destroy(dir);
}

/* We found the file not to be what was published, by ourselves. The owner sees to it that
 * something newer comes as soon as it is asked; the answer is of no interest. */
static void owner_tell(struct transfer *t)
{
    struct net_msg get = {
        .type = NET_MSG_GET,
        .flags = NET_GET_OWNER,
        .id = t->member->next_id,
        .entry = t->entry,
        .length = t->entry.size > 0,
    };

    t->member->next_id += 2;
    member_send(t->member, t->entry.owner, &get);
}

static void copy_done(void *arg)
{
    struct transfer *t = arg;

    t->io_busy = false;
    if (t->status == 0) {
        transfer_commit(t);
    } else if (t->status == ESTALE) {
        owner_tell(t);
        transfer_fail(t, ESTALE);
    } else {
        local_failure(t, "copied", t->status);
    }
}

/* --- over the network --- */

static void chunk_write_work(void *arg)
{
    struct chunk *chunk = arg;

    chunk->error = 0;
    if (store_fetch_write(chunk->transfer->fetch, chunk->offset, chunk->data,
                          chunk->length) < 0)
        chunk->error = errno;
}

static void chunk_written(void *arg)
{
    struct chunk *chunk = arg;
    struct transfer *t = chunk->transfer;
    int error = chunk->error;

    DL_DELETE(t->chunks, chunk);
    t->nchunks--;
    net_worker_recycle(t->member->worker, chunk->data, chunk->length);
    free(chunk);
    if (t->failing)
        transfer_fail(t, t->status);
    else if (error)
        local_failure(t, "written", error);
    else
        transfer_next(t);
}

/* Send the chunk's GET; its answer will name this id. */
static int chunk_send(struct transfer *t, struct chunk *chunk)
{
    struct member *member = t->member;
    uint8_t which[16];
    struct codec c = codec_writer(which, sizeof(which));
    struct net_msg get = {
        .type = t->source == t->entry.owner ? NET_MSG_GET : NET_MSG_GET_DIRECT,
        .flags = t->source == t->entry.owner && t->owner_only ? NET_GET_OWNER : 0,
        .id = chunk->id = member->next_id,
        .entry = t->entry,
        .offset = chunk->offset,
        .length = chunk->length,
        .blob = which,
        .blob_len = sizeof(which),
    };

    member->next_id += 2;
    codec_u64(&c, &t->ino);
    codec_u64(&c, &t->btime);
    return member_send(member, t->source, &get);
}

static int chunk_ask(struct transfer *t)
{
    struct member *member = t->member;
    uint64_t left = t->entry.size - t->next_offset;
    uint64_t length = (uint64_t)member->config->chunk_size;
    struct chunk *chunk = calloc(1, sizeof(*chunk));

    if (!chunk)
        return -1;
    chunk->transfer = t;
    chunk->offset = t->next_offset;
    chunk->length = left < length ? left : length;
    if (chunk_send(t, chunk) < 0) {
        free(chunk);
        return -1;
    }
    t->next_offset += chunk->length;
    DL_APPEND(t->chunks, chunk);
    t->nchunks++;
    return 0;
}

/* Ask for what may be asked for; end if all is here. */
static void transfer_next(struct transfer *t)
{
    if (t->stale) {
        transfer_fail(t, ESTALE);
        return;
    }
    while (t->next_offset < t->entry.size &&
           t->nchunks < (unsigned)t->member->config->chunks) {
        if (chunk_ask(t) < 0) {
            if (errno == ENOMEM)
                local_failure(t, "fetched", ENOMEM);
            else
                source_lost(t, "is gone");
            return;
        }
    }
    if (t->nchunks > 0) {
        deadline_move(t);
        return;
    }
    /* Not at each chunk: on a connection that was made while its link was cut, small ones
     * may come, and large ones not. */
    if (t->entry.size > 0 && !net_is_guest(t->source))
        lost_served(t->member, t->source);
    transfer_commit(t);
}

/* Whoever was asked until now is not asked any more: what has not come from there. */
static void source_change(struct transfer *t, uint32_t source)
{
    struct chunk *chunk;

    t->source = source;
    DL_FOREACH(t->chunks, chunk)
    {
        if (!chunk->data && chunk_send(t, chunk) < 0) {
            source_lost(t, "is gone");
            return;
        }
    }
    transfer_next(t);
}

/* A guest that the owner named may go at any time; its owner has the files, too. */
static void source_lost(struct transfer *t, const char *why)
{
    if (t->source == t->entry.owner) {
        owner_lost(t, why);
        return;
    }
    log_info("a promoted guest of %s %s: \"%s\" is fetched from its member",
             member_describe(t->member, t->entry.owner), why, t->upath);
    t->owner_only = true;
    if (!t->failing)
        source_change(t, t->entry.owner);
}

static void redirected(struct transfer *t, const struct net_msg *msg)
{
    struct net_peer *info = malloc(sizeof(*info));
    uint32_t source = t->entry.owner;

    if (info && net_peer_decode(info, msg->blob, msg->blob_len) == 0 &&
        net_is_guest(info->rank) && net_guest_rank(info->rank) == t->entry.owner &&
        dyad_version_cmp(&msg->entry.version, &t->entry.version) == 0 && !t->owner_only &&
        net_worker_set_peer(t->member->worker, info) == 0) {
        source = info->rank;
        t->ino = msg->offset;
        t->btime = msg->length;
    } else {
        t->owner_only = true;
    }
    free(info);
    if (!t->failing)
        source_change(t, source);
}

static struct chunk *chunk_find(struct member *member, uint64_t id, uint32_t source)
{
    struct transfer *t, *tmp;
    struct chunk *chunk;

    HASH_ITER(hh, member->transfers, t, tmp)
    {
        if (t->source != source)
            continue;
        DL_FOREACH(t->chunks, chunk)
        {
            if (chunk->id == id && !chunk->data)
                return chunk;
        }
    }
    return NULL;
}

bool transfer_receive(struct member *member, const struct net_msg *msg, void *payload,
                      size_t len)
{
    struct chunk *chunk = chunk_find(member, msg->id, msg->source);
    struct transfer *t;

    if (!chunk)
        return false;
    t = chunk->transfer;
    deadline_move(t);
    if (msg->type == NET_MSG_REDIRECT) {
        redirected(t, msg);
        return true;
    }
    if (msg->type == NET_MSG_ERROR) {
        if (t->source != t->entry.owner) {
            source_lost(t, "refuses");
        } else if (msg->status == ESTALE) {
            transfer_fail(t, ESTALE);
        } else {
            log_error("%s cannot serve \"%s\": %s", member_describe(member, t->entry.owner),
                      t->upath, strerror(msg->status));
            transfer_fail(t, msg->status > 0 ? msg->status : EIO);
        }
        return true;
    }
    if (msg->offset != chunk->offset || len != chunk->length) {
        log_error(
            "%s answered %zu bytes at %llu of \"%s\" where %llu at %llu were asked for",
            member_describe(member, t->entry.owner), len, (unsigned long long)msg->offset,
            t->upath, (unsigned long long)chunk->length, (unsigned long long)chunk->offset);
        transfer_fail(t, EPROTO);
        return false;
    }
    chunk->data = payload;
    engine_io_submit(member->io, &chunk->io, chunk_write_work, chunk_written, chunk);
    return true;
}

/* --- the beginning --- */

static void begin_work(void *arg)
{
    struct transfer *t = arg;

    t->status = 0;
    t->fetch = store_fetch_begin(t->member->side[ENGINE_CONSUMER].dir, &t->entry);
    if (!t->fetch)
        t->status = errno;
}

/* Another member of this node fetches it: wait until it has, then look at the directory
 * again. */
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

    HASH_FIND_STR(other->member->transfers, other->upath, t);
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
        other->dir = store_dir_create(store_dir_path(t->member->side[ENGINE_CONSUMER].dir));
    }
    if (!other || !other->dir ||
        engine_io_spawn(t->member->io, &other->io, other_wait, other_done, other) < 0) {
        if (other && other->dir)
            store_dir_destroy(other->dir);
        free(other);
        local_failure(t, "fetched", ENOMEM);
        return;
    }
    t->io_busy = true;
}

static void begin_done(void *arg)
{
    struct transfer *t = arg;

    t->io_busy = false;
    if (t->status == EBUSY) {
        wait_for_other(t);
    } else if (t->status) {
        local_failure(t, "fetched", t->status);
    } else if (t->failing) {
        transfer_fail(t, t->status);
    } else if (t->local_dmd) {
        t->io_busy = true;
        engine_io_submit(t->member->io, &t->io, copy_work, copy_done, t);
    } else {
        transfer_next(t);
    }
}

/* The owner's DMD if it is on this node and is the one that the entry means; malloc'ed. */
static char *find_local_dmd(struct member *member, const struct dyad_entry *entry)
{
    const struct net_peer *peer = entry->owner == member->self.rank
                                      ? &member->self
                                      : net_worker_peer(member->worker, entry->owner);
    const char *paths[2];
    uint8_t id[DYAD_STORAGE_ID_LEN];

    if (!S_ISREG(entry->mode)) /* no bytes that a copy would spare */
        return NULL;
    if (!peer || strcmp(peer->node, member->self.node) != 0)
        return NULL;
    paths[0] = peer->dmd_producer;
    paths[1] = peer->dmd_consumer;
    for (int i = 0; i < 2; i++) {
        if (paths[i][0] && store_dir_read_id(paths[i], id) == 0 &&
            dyad_storage_equal(id, entry->storage))
            return strdup(paths[i]);
    }
    return NULL;
}

static void transfer_begin(struct transfer *t)
{
    t->io_busy = true;
    engine_io_submit(t->member->io, &t->io, begin_work, begin_done, t);
}

/* A promoted guest has fetched it, or has not. */
static void guest_fetched(void *arg, int status, int fd)
{
    struct transfer *t = arg;

    t->guest = NULL;
    if (status == 0) {
        t->by_guest = true;
        t->fetch = store_fetch_adopt(t->member->side[ENGINE_CONSUMER].dir, &t->entry, fd);
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

int transfer_start(struct member *member, const struct dyad_entry *entry,
                   struct transfer_wait *wait)
{
    struct transfer *t;

    wait->version = entry->version;
    wait->fd = -1;
    HASH_FIND_STR(member->transfers, entry->upath, t);
    if (t) {
        DL_APPEND(t->waits, wait);
        wait->transfer = t;
        return 0;
    }
    if (!(t = calloc(1, sizeof(*t))) || !(t->upath = strdup(entry->upath)) ||
        !(t->deadline = net_timer_create(member->loop, deadline_passed, t))) {
        if (t)
            free(t->upath);
        free(t);
        errno = ENOMEM;
        return -1;
    }
    t->member = member;
    t->entry = *entry;
    t->entry.upath = t->upath;
    t->source = t->entry.owner;
    t->local_dmd = find_local_dmd(member, entry);
    DL_APPEND(t->waits, wait);
    wait->transfer = t;
    HASH_ADD_KEYPTR(hh, member->transfers, t->upath, strlen(t->upath), t);
    if (!t->local_dmd)
        t->guest = peer_fetch_start(member, wait->pid, &t->entry, guest_fetched, t);
    if (!t->guest)
        transfer_begin(t);
    return 0;
}

void transfer_leave(struct transfer_wait *wait)
{
    if (wait->transfer)
        DL_DELETE(wait->transfer->waits,
                  wait); /* the fetch goes on: the file is wanted here */
    wait->transfer = NULL;
}

void transfer_peer_down(struct member *member, uint32_t rank)
{
    struct transfer *t, *tmp;

    HASH_ITER(hh, member->transfers, t, tmp)
    {
        if (t->source == rank && !t->local_dmd && t->chunks && !t->failing)
            source_lost(t, "is gone");
    }
}

void transfer_invalidate(struct member *member, const struct dyad_entry *newer)
{
    struct transfer *t;

    HASH_FIND_STR(member->transfers, newer->upath, t);
    if (t && dyad_version_cmp(&t->entry.version, &newer->version) < 0)
        t->stale = true;
}

bool transfer_await_commit(struct member *member, const struct dyad_entry *newer,
                           struct transfer_wait *wait)
{
    struct transfer *t;

    HASH_FIND_STR(member->transfers, newer->upath, t);
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

    HASH_ITER(hh, member->transfers, t, tmp)
    {
        abort_work(t);
        transfer_free(t);
    }
}
