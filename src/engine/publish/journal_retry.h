/*
 * engine/publish/journal_retry.h - a journal that could not be written
 */
#ifndef DYAD_ENGINE_PUBLISH_JOURNAL_RETRY_H
#define DYAD_ENGINE_PUBLISH_JOURNAL_RETRY_H

#include "engine/core/member.h"

/* Call it before the journals are closed. */
void journal_retry_stop(struct member *member);

#endif
