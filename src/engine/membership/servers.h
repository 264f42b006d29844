/*
 * engine/membership/servers.h - processes of this node that serve what others leave
 */
#ifndef DYAD_ENGINE_MEMBERSHIP_SERVERS_H
#define DYAD_ENGINE_MEMBERSHIP_SERVERS_H

#include "engine/core/member.h"

/* Is a server alive that will serve what we leave on this node? */
bool servers_serve_us(struct member *member);
/* ... that serves, or will, what lies in this storage? */
bool servers_have(struct member *member, const uint8_t storage[DYAD_STORAGE_ID_LEN]);
/* Is that rank a server, or was one last? False as long as only its being there is known.
 */
bool servers_is_one(struct member *member, uint32_t rank);
/* Does that member, which is of our node, take over what we leave? It has our directories.
 */
bool servers_has_ours(const struct member *member, const struct net_peer *peer);

#endif
