/*
 * transfer_chunks.c - a file over the network, chunk by chunk
 *
 * GETs are sent ahead, DYAD_CHUNKS of them at most are on their way or being written. What
 * a GET is answered with is the chunk, an error, or the name of a promoted guest of the
 * owner: then what has not come is asked of that one, and of the owner again when the guest
 * fails. The deadline is the peer's silence, not the transfer's length: each arrival moves
 * it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "engine/transfer_impl.h"
#include "net/codec.h"
#include "util/clock.h"
#include "util/log.h"

static void source_lost(struct transfer *t, const char *why);

static void owner_lost(struct transfer *t, const char *why)
{
    log_info("the fetch of \"%s\" broke off: its owner, %s, %s", t->upath,
             member_describe(t->member, t->entry.owner), why);
    transfer_fail(t, EHOSTUNREACH);
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
    bool guest = net_is_guest(source);

    source_lost(t, "does not answer");
    if (!guest)
        lost_unserved(member, source, most); /* last: `t` may be gone */
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
        transfer_failed_here(t, "written", error);
    else
        transfer_ask_chunks(t);
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
    transfer_ask_chunks(t);
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

/* Ask for what may be asked for; end if all is here. */
void transfer_ask_chunks(struct transfer *t)
{
    if (t->stale) {
        transfer_fail(t, ESTALE);
        return;
    }
    while (t->next_offset < t->entry.size &&
           t->nchunks < (unsigned)t->member->config->chunks) {
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
    if (t->entry.size > 0 && !net_is_guest(t->source))
        lost_served(t->member, t->source, chunk_most(t));
    transfer_commit(t);
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

void transfer_peer_down(struct member *member, uint32_t rank)
{
    struct transfer *t, *tmp;

    HASH_ITER(hh, member->transfers, t, tmp)
    {
        if (t->source == rank && !t->local_dmd && t->chunks && !t->failing)
            source_lost(t, "is gone");
    }
}
