/*
 * produce_merge.c - a publish that the homes have refused gives its pieces to the node whose version came first
 *
 *   that node answers                              then
 *   0: they are in its file, which it publishes    the publish has ended
 *   EAGAIN: it gives way to us                     what is in its file is brought, and ours follows its version
 *   ESTALE: it has given way to a third one, of    the same, if there is anything: where the homes know that one, it
 *   which it may have a copy already               is sent them
 *   ENOENT: it has the file no more                the homes are asked anew
 *   EHOSTUNREACH: the rank is gone                 another one of its node is sent them, if there is one
 *   another error                                  a conflict (lost_update.c)
 */
#include <errno.h>

#include "dht/base.h"
#include "engine/core/member_impl.h"
#include "engine/publish/lost_update.h"
#include "engine/publish/pieces_send.h"
#include "engine/publish/pieces_show.h"
#include "engine/publish/produce_impl.h"

static void pieces_sent(void *arg, int status, uint64_t met, uint64_t met_length);

/* Its pieces are in the file of another node, which has published that. */
static void is_merged(struct produce *p)
{
    p->merges = false;
    p->gives_way = true;
    lost_update_settle(p);
    produce_given_up(p);
    p->member->stats.published++;
    produce_end(p, 0);
}

void produce_merge(struct produce *p)
{
    struct dyad_entry entry = p->record.entry;
    struct pieces_out out = {.dmd = &p->member->dmd[p->role],
                             .upath = p->upath,
                             .identity = p->record.identity,
                             .entry = &entry,
                             .rank = p->taker,
                             .mark = p->mark,
                             .fn = pieces_sent,
                             .arg = p};

    entry.version = p->version; /* that was refused */
    if (pieces_send(p->member, &out) < 0)
        pieces_sent(p, errno, 0, 0);
}

/* The rank that was to take the pieces is gone. True: another one of its node, which has the same
 * file, is. */
static bool next_taker(struct produce *p)
{
    struct member *member = p->member;
    uint32_t owner = p->other.owner, rank = p->taker == owner ? DYAD_RANK_NONE : p->taker;
    const struct net_peer *peer;

    while ((rank = dht_node_neighbour(member->dht, owner, rank)) != DYAD_RANK_NONE) {
        if ((peer = net_worker_peer(member->worker, rank)) &&
            net_peer_has_storage(peer, p->other.storage)) {
            p->taker = rank;
            return true;
        }
    }
    return false;
}

static void bring_yielded(struct produce *p);

/* What was in the other node's version is in the file here, or its file is gone: ours follows that version. */
static void yielded_brought(void *arg, int status)
{
    struct produce *p = arg;

    p->brings = false;
    if (status == EHOSTUNREACH && next_taker(p)) {
        bring_yielded(p);
        return;
    }
    if (status == 0 || status == ENOENT || status == ESTALE)
        p->base = dht_base_version(&p->other.version);
    else if (dyad_version_cmp(&p->absent, &p->other.version) != 0)
        p->unmerged = true;
    produce_ask_anew(p);
}

/* The other node gives way. To us: it has sent what it has written itself, but in its version may be what third
 * nodes have published, too. To a third one: that may come to ask for it, or not have been published by all homes
 * (one of them may keep a version that its publisher has given up, and nobody else would replace). */
static void bring_yielded(struct produce *p)
{
    p->brings = true;
    p->met_length = 0;
    if (pieces_show_from(p->member, p->role, p->upath, p->taker, yielded_brought, p) < 0)
        yielded_brought(p, errno);
}

/* Another error: the homes are asked anew, and refuse it again if the other version is still there. */
static void pieces_sent(void *arg, int status, uint64_t met, uint64_t met_length)
{
    struct produce *p = arg;

    if (status == 0) {
        is_merged(p);
        return;
    }
    if (status == EHOSTUNREACH && next_taker(p)) {
        produce_merge(p);
        return;
    }
    if (status == ESTALE) /* it need not be what is at its homes by now */
        p->absent = p->other.version;
    if (status == EAGAIN || status == ESTALE) {
        bring_yielded(p);
        return;
    }
    if (status == ENOENT) {
        p->absent = p->other.version;
    } else {
        p->unmerged = true;
        p->met = met;
        p->met_length = status == EEXIST || status == ENOTUNIQ ? met_length : 0;
    }
    produce_ask_anew(p);
}
