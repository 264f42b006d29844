/*
 * engine/requests/requests.h - the requests of the processes of this node
 */
#ifndef DYAD_ENGINE_REQUESTS_REQUESTS_H
#define DYAD_ENGINE_REQUESTS_REQUESTS_H

#include "engine/core/member.h"

/* Begin to serve requests. 0 or -1 with errno. */
int request_start(struct member *member);
/* Close all guests' connections and cancel their requests. */
void request_stop(struct member *member);

#endif
