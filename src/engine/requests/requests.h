/*
 * engine/requests/requests.h - the requests of the processes of this node
 */
#ifndef DYAD_ENGINE_REQUESTS_REQUESTS_H
#define DYAD_ENGINE_REQUESTS_REQUESTS_H

#include "engine/core/member.h"

int request_start(struct member *member);
/* Close all guests' connections; what they asked is cancelled. */
void request_stop(struct member *member);

#endif
