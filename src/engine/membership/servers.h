/*
 * engine/membership/servers.h - processes of this node that serve what others leave
 */
#ifndef DYAD_ENGINE_MEMBERSHIP_SERVERS_H
#define DYAD_ENGINE_MEMBERSHIP_SERVERS_H

#include "engine/core/member.h"

/* True if a server is alive that will serve what we leave on this node. */
bool servers_serve_us(struct member *member);
/* True if a server is alive that serves, or will serve, the files in this storage. */
bool servers_have(struct member *member, const uint8_t storage[DYAD_STORAGE_ID_LEN]);
/* True if the rank is a server, or was one last. False as long as only its slot is known.
 */
bool servers_is_one(struct member *member, uint32_t rank);
/* True if that member is of our node and has our directories, so that it takes over what
 * we leave. */
bool servers_has_ours(const struct member *member, const struct net_peer *peer);

#endif
