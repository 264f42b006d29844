/*
 * servers.c - members that run no program: `dyad-run --serve`
 *
 * In a session directory such a member stays while processes of its node come and go. It
 * takes over what they leave, as any member of the node would (takeover.c), so that the
 * others need not stay (servers_serve_us()). A server is not in the exit barrier, where
 * it would always be busy: no rank counts it (wave_live() in links.c), so nobody lingers
 * for it.
 *
 * What could go wrong: an open needs a file between its owner's end and the takeover
 * (servers_serve_us()); a rank that knows only the slot counts a server as busy, for a
 * moment (servers_peer_up()).
 */
#include "engine/core/member_impl.h"
#include "engine/core/module.h"
#include "engine/membership/exit_barrier.h"
#include "engine/membership/servers.h"

#include <string.h>

#include "boot/wave.h"

static const struct net_peer *server(struct member *member, uint32_t rank)
{
    const struct net_peer *peer = NULL;

    if (member->ring && rank != member->self.rank)
        peer = net_worker_peer(member->worker, rank);
    return peer && peer->serves ? peer : NULL;
}

bool servers_is_one(struct member *member, uint32_t rank)
{
    return server(member, rank) != NULL;
}

static const struct net_peer *live_server(struct member *member, uint32_t rank)
{
    return dht_node_is_live(member->dht, rank) ? server(member, rank) : NULL;
}

static bool covers(const uint8_t ours[DYAD_STORAGE_ID_LEN],
                   const uint8_t theirs[DYAD_STORAGE_ID_LEN])
{
    static const uint8_t none[DYAD_STORAGE_ID_LEN];

    return memcmp(ours, none, sizeof(none)) == 0 || memcmp(ours, theirs, sizeof(none)) == 0;
}

bool servers_has_ours(const struct member *member, const struct net_peer *peer)
{
    const struct net_peer *self = &member->self;

    return strcmp(peer->node, self->node) == 0 &&
           covers(self->storage_producer, peer->storage_producer) &&
           covers(self->storage_consumer, peer->storage_consumer);
}

/* A member at its exit leaves at once if a server of its node has its directories
 * (exit_barrier.c). Its shard goes to the homes that follow before it says LEAVE
 * (dht/node_leave.c), as ever. The server looks when that process has ended, and
 * publishes its files as the new owner. An open that needs one of them in between finds
 * its owner gone, and looks again soon (consume_owner.c); it does not count as a wait
 * that nobody will end. */
bool servers_serve_us(struct member *member)
{
    const struct net_peer *peer;

    for (uint32_t r = 0; r < member->job->nranks; r++)
        if ((peer = live_server(member, r)) && servers_has_ours(member, peer))
            return true;
    return false;
}

bool servers_have(struct member *member, const uint8_t storage[DYAD_STORAGE_ID_LEN])
{
    const struct net_peer *peer;

    for (uint32_t r = 0; r < member->job->nranks; r++)
        if ((peer = live_server(member, r)) && net_peer_has_storage(peer, storage))
            return true;
    return false;
}

/* A rank that knows only the slot of a server counts it, as busy, until the connection
 * that it makes for the barrier shows that it is a server. */
static void servers_peer_up(struct member *member, const struct net_peer *peer)
{
    if (!peer->serves || !member->ring)
        return;
    boot_wave_rank_changed(member->wave, peer->rank); /* it was counted until now */
    exit_barrier_look_soon(member);                   /* we may be at our exit */
}

const struct member_module servers_module = {
    .peer_up = servers_peer_up,
};
