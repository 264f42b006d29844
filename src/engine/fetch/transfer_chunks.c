/*
 * transfer_chunks.c - a file over the network, chunk by chunk
 *
 * GETs are sent ahead, DYAD_CHUNKS of them at most are on their way or being written. What
 * a GET is answered with is the chunk, an error, or the name of a promoted guest of the
 * rank that is asked, or of another reader (relay.c): then what has not come is asked of
 * that one, and of the rank again when it fails. If the rank is gone, or another of its
 * node than the owner has the file not, the next of them is asked for the rest. The
 * deadline is the peer's silence, not the transfer's length: each arrival moves it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "engine/core/local_file.h"
#include "engine/core/member_impl.h"
#include "engine/core/module.h"
#include "engine/fetch/relay.h"
#include "engine/fetch/transfer_impl.h"
#include "engine/membership/unreachable.h"
#include "util/clock.h"
#include "util/digest.h"
#include "util/log.h"

static void source_lost(struct transfer *t, const char *why);
static int chunk_send(struct transfer *t, struct chunk *chunk);

/* True if the rank may have the file, and answer. */
static bool can_be_asked(struct member *member, uint32_t rank, const uint8_t *storage)
{
    const struct net_peer *peer =
        rank == member->self.rank ? &member->self : net_worker_peer(member->worker, rank);

    return !unreachable_is_silent(member, rank) &&
           (!peer || net_peer_has_storage(peer, storage));
}

bool transfer_next(struct transfer *t)
{
    struct member *member = t->member;
    uint32_t rank = t->other;

    if (member->hands_over) /* a promoted guest knows one rank */
        return false;
    do
        rank = dht_node_neighbour(member->dht, t->entry.owner, rank);
    while (rank != DYAD_RANK_NONE && !can_be_asked(member, rank, t->entry.storage));
    if (rank == DYAD_RANK_NONE)
        return false;
    t->rank = t->source = t->other = rank;
    t->rank_only = false;
    log_debug("\"%s\" is asked for of rank %u, which is on the node of rank %u", t->upath,
              rank, t->entry.owner);
    return true;
}

static void say_broken(const struct transfer *t, const char *why)
{
    log_info("the fetch of \"%s\" broke off: %s%s %s", t->upath,
             t->rank == t->entry.owner ? "its owner, " : "",
             member_describe(t->member, t->rank), why);
}

/* Bytes of the largest answer to its GETs. */
static uint64_t chunk_most(const struct transfer *t)
{
    uint64_t most = (uint64_t)t->member->config->chunk_size;

    return t->entry.size < most ? t->entry.size : most;
}

void transfer_silent(void *arg)
{
    struct transfer *t = arg;
    struct member *member = t->member;
    uint32_t source = t->source;
    uint64_t most = chunk_most(t);

    if (source != t->rank) {
        source_lost(t, "does not answer");
        if (!net_is_guest(source))
            unreachable_suspect(member, source); /* last: `t` may be gone */
        return;
    }
    /* So may others of its node be. They are asked at the next attempt, which knows that
     * this one is silent. */
    say_broken(t, "does not answer");
    transfer_fail(t, EHOSTUNREACH);
    unreachable_unserved(member, source, most); /* last: `t` may be gone */
}

static void deadline_move(struct transfer *t)
{
    net_timer_start(t->deadline,
                    util_clock_now() + (uint64_t)(t->member->config->peer_timeout *
                                                  (double)UTIL_NSEC_PER_SEC));
}

static void chunk_write_work(void *arg)
{
    struct chunk *chunk = arg;

    chunk->error = 0;
    chunk->is_other = false;
    if (chunk->by_relay && chunk->digest &&
        util_digest(chunk->data, chunk->length) != chunk->digest)
        chunk->is_other = true;
    else if (store_fetch_write(chunk->transfer->fetch, chunk->offset, chunk->data,
                               chunk->length) < 0)
        chunk->error = errno;
}

/* A reader has sent other bytes than the owner had sent it. */
static void ask_for_right(struct transfer *t, struct chunk *chunk)
{
    if (t->source != t->rank)
        source_lost(
            t, "has other bytes than their owner sent"); /* this one is asked for, too */
    else if (chunk_send(t, chunk) < 0)
        source_lost(t, "is gone");
}

static void chunk_written(void *arg)
{
    struct chunk *chunk = arg;
    struct transfer *t = chunk->transfer;
    int error = chunk->error;

    net_worker_recycle(t->member->worker, chunk->data, chunk->length);
    chunk->data = NULL;
    if (chunk->is_other && !t->failing) {
        ask_for_right(t, chunk);
        return;
    }
    if (!error && !chunk->is_other && !t->joins && !t->member->hands_over)
        relay_note(t->member, &t->entry, chunk->offset, chunk->length, chunk->digest);
    transfer_chunk_free(t, chunk);
    if (t->failing) {
        transfer_fail(t, t->status);
    } else if (error) {
        transfer_failed_here(t, "written", error);
    } else {
        modules_fetch_grew(t->member, t->upath);
        transfer_ask_chunks(t);
    }
}

/* Chunks are asked for in the order of the file. */
static uint64_t bytes_here(const struct transfer *t)
{
    const struct chunk *chunk;
    uint64_t here = t->next_offset;

    DL_FOREACH(t->chunks, chunk)
    {
        if (chunk->offset < here)
            here = chunk->offset;
    }
    return here;
}

/* The transfer of that version from another rank, or NULL. */
static struct transfer *find_version(struct member *member, const struct dyad_entry *entry)
{
    struct transfer *t;

    HASH_FIND_STR(OWN(member, transfers)->by_upath, entry->upath, t);
    return t && !t->local_dmd && !t->guest && !t->waits_for_other && !t->joins &&
                   dyad_version_cmp(&t->entry.version, &entry->version) == 0
               ? t
               : NULL;
}

int transfer_part(struct member *member, const struct dyad_entry *entry, uint64_t end,
                  int *fd)
{
    const struct transfer *t = find_version(member, entry);

    if (!t)
        return ENOENT;
    if (t->stale || t->failing)
        return ESTALE;
    /* While it is put into place its descriptor is the pool's. */
    if (t->committing || t->io_busy || bytes_here(t) < end)
        return EAGAIN;
    *fd = store_fetch_open(t->fetch);
    return *fd < 0 ? errno : 0;
}

bool transfer_is_partial(struct member *member, const struct dyad_entry *entry, int fd)
{
    const struct transfer *t = find_version(member, entry);
    struct store_identity of_fd, of_fetch;

    return t && !t->committing && !t->io_busy && store_identity_read(fd, &of_fd) == 0 &&
           store_fetch_identity(t->fetch, &of_fetch) == 0 && of_fd.ino == of_fetch.ino &&
           of_fd.btime == of_fetch.btime;
}

/* The kind of request that the source of the bytes answers. */
static uint8_t get_flags(const struct transfer *t)
{
    if (t->source == t->rank)
        return (t->rank_only ? NET_GET_OWNER : 0) | (t->joins ? NET_GET_JOINS : 0);
    return net_is_guest(t->source) ? 0 : NET_GET_OWNER | NET_GET_RELAY;
}

/* Its data are here. */
static void chunk_write(struct chunk *chunk)
{
    struct member *member = chunk->transfer->member;

    local_file_job(member, &member->dmd[ENGINE_CONSUMER], chunk->transfer->entry.size,
                   &chunk->io, chunk_write_work, chunk_written, chunk);
}

/* Send the chunk's GET; its answer will name this id. */
static int chunk_send(struct transfer *t, struct chunk *chunk)
{
    struct member *member = t->member;
    struct net_msg get = {
        .type = net_is_guest(t->source) ? NET_MSG_GET_DIRECT : NET_MSG_GET,
        .flags = get_flags(t),
        .id = member->next_id,
        .entry = t->entry,
        .offset = chunk->offset,
        .length = chunk->length,
        .ino = t->ino,
        .btime = t->btime,
    };

    transfer_chunk_answered(chunk); /* by whoever was asked before */
    chunk->id = member->next_id;
    HASH_ADD(hh, OWN(member, transfers)->gets, id, sizeof(chunk->id), chunk);
    if (!(chunk->asked = chunk->hh.tbl != NULL)) {
        errno = ENOMEM;
        return -1;
    }
    member->next_id += 2;
    return member_send(member, t->source, &get);
}

void transfer_write_inlined(struct transfer *t)
{
    struct chunk *chunk = calloc(1, sizeof(*chunk));

    if (!chunk) {
        transfer_failed_here(t, "written", ENOMEM);
        return;
    }
    chunk->transfer = t;
    chunk->length = t->next_offset = t->entry.size;
    chunk->data = t->bytes;
    t->bytes = NULL;
    DL_APPEND(t->chunks, chunk);
    t->nchunks++;
    chunk_write(chunk);
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
    DL_APPEND(t->chunks, chunk);
    t->nchunks++;
    if (chunk_send(t, chunk) < 0) {
        int error = errno;
        transfer_chunk_free(t, chunk);
        errno = error;
        return -1;
    }
    t->next_offset += chunk->length;
    return 0;
}

/* Ask another rank for the chunks that have not come from the one asked until now. */
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
    transfer_ask_chunks(t);
}

/* A guest or a reader that the rank named may go at any time; the rank has the file, too.
 */
static void source_lost(struct transfer *t, const char *why)
{
    if (t->failing) {
        transfer_fail(t, t->status);
    } else if (t->source != t->rank) {
        log_info(
            "%s, to which %s had sent this rank, %s: \"%s\" is fetched from the latter",
            net_is_guest(t->source) ? "a promoted guest"
                                    : member_describe(t->member, t->source),
            member_describe(t->member, t->rank), why, t->upath);
        t->rank_only = true;
        source_change(t, t->rank);
    } else {
        say_broken(t, why);
        if (transfer_next(t))
            source_change(t, t->rank);
        else
            transfer_fail(t, EHOSTUNREACH);
    }
}

/* One at a time while somebody waits for another file. */
static unsigned chunks_at_once(const struct transfer *t)
{
    const struct transfer *other, *tmp;

    if (transfer_is_background(t)) {
        HASH_ITER(hh, OWN(t->member, transfers)->by_upath, other, tmp)
        {
            if (other->waits && !transfer_is_background(other))
                return 1;
        }
    }
    return (unsigned)t->member->config->chunks;
}

/* Ask for what may be asked for; end if all is here. DYAD_CHUNKS chunks at most are in
 * memory at a time, whether on the way or being written, so memory stays flat whatever
 * the size. Chunks are written by pool threads, those of small files by the loop
 * (local_file_job()). */
void transfer_ask_chunks(struct transfer *t)
{
    if (t->stale) {
        transfer_fail(t, ESTALE);
        return;
    }
    while (t->next_offset < t->entry.size && t->nchunks < chunks_at_once(t)) {
        if (chunk_ask(t) < 0) {
            if (errno == ENOMEM)
                transfer_failed_here(t, "fetched", ENOMEM);
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
    if (t->entry.size > 0 && !t->inlined && t->source == t->rank)
        unreachable_served(t->member, t->source, chunk_most(t));
    transfer_commit(t);
}

/* To another reader. If this rank does not know it yet, the GETs wait until the launcher has
 * said its address. */
static void relayed(struct transfer *t, const struct net_msg *msg)
{
    struct member *member = t->member;
    uint32_t source = t->rank;

    if (!t->rank_only && msg->rank != member->self.rank &&
        dht_node_is_live(member->dht, msg->rank) &&
        !unreachable_is_silent(member, msg->rank))
        source = msg->rank;
    else
        t->rank_only = true;
    if (!t->failing)
        source_change(t, source);
}

static void redirected(struct transfer *t, const struct net_msg *msg)
{
    struct net_peer *info = malloc(sizeof(*info));
    uint32_t source = t->rank;

    if (info && net_peer_decode(info, msg->blob, msg->blob_len) == 0 &&
        net_is_guest(info->rank) && net_guest_rank(info->rank) == t->rank &&
        dyad_version_cmp(&msg->entry.version, &t->entry.version) == 0 && !t->rank_only &&
        net_worker_set_peer(t->member->worker, info) == 0) {
        source = info->rank;
        t->ino = msg->ino;
        t->btime = msg->btime;
    } else {
        t->rank_only = true;
    }
    free(info);
    if (!t->failing)
        source_change(t, source);
}

static struct chunk *chunk_find(struct member *member, uint64_t id, uint32_t source)
{
    struct chunk *chunk;

    HASH_FIND(hh, OWN(member, transfers)->gets, &id, sizeof(id), chunk);
    return chunk && chunk->transfer->source == source ? chunk : NULL;
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
        if (msg->blob_len > 0)
            redirected(t, msg);
        else
            relayed(t, msg);
        return true;
    }
    if (msg->type == NET_MSG_ERROR && msg->status == EINPROGRESS)
        return true; /* it will come */
    if (msg->type == NET_MSG_ERROR) {
        if (t->source != t->rank || (t->rank != t->entry.owner && msg->status != ESTALE)) {
            source_lost(t, "has it not");
        } else if (msg->status == ESTALE) {
            transfer_fail(t, ESTALE);
        } else {
            log_error("%s cannot serve \"%s\": %s", member_describe(member, t->rank),
                      t->upath, strerror(msg->status));
            transfer_fail(t, msg->status > 0 ? msg->status : EIO);
        }
        return true;
    }
    if (msg->offset != chunk->offset || len != chunk->length) {
        log_error(
            "%s answered %zu bytes at %llu of \"%s\" where %llu at %llu were asked for",
            member_describe(member, t->rank), len, (unsigned long long)msg->offset,
            t->upath, (unsigned long long)chunk->length, (unsigned long long)chunk->offset);
        transfer_fail(t, EPROTO);
        return false;
    }
    transfer_chunk_answered(chunk);
    t->ahead |= t->joins && (msg->flags & NET_DATA_AHEAD);
    chunk->data = payload;
    chunk->digest = msg->digest;
    chunk->by_relay = t->source != t->rank && !net_is_guest(t->source);
    chunk_write(chunk);
    return true;
}

void transfer_peer_down(struct member *member, uint32_t rank)
{
    struct transfer *t, *tmp;

    HASH_ITER(hh, OWN(member, transfers)->by_upath, t, tmp)
    {
        if (t->source == rank && !t->local_dmd && !t->inlined && t->chunks && !t->failing)
            source_lost(t, "is gone");
    }
}
