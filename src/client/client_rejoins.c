/*
 * client_rejoins.c - how often a process may take another copy of UCX
 */
#include "client/client_rejoins.h"

bool client_rejoins_allow(const struct client_rejoins *rejoins, uint64_t now)
{
    return rejoins->copies < CLIENT_REJOINS_MAX &&
           (rejoins->copies < CLIENT_REJOINS_CLOSE ||
            now - rejoins->at[rejoins->copies % CLIENT_REJOINS_CLOSE] >
                CLIENT_REJOINS_SPELL);
}

void client_rejoins_count(struct client_rejoins *rejoins, uint64_t now)
{
    rejoins->at[rejoins->copies++ % CLIENT_REJOINS_CLOSE] = now;
}
