/*
 * engine/fetch/serve_refused.h - what becomes of a file of which a GET was refused
 */
#ifndef DYAD_ENGINE_FETCH_SERVE_REFUSED_H
#define DYAD_ENGINE_FETCH_SERVE_REFUSED_H

#include "engine/core/member.h"

/* See that a version newer than the refused one is published, unless that is under way.
 * `why`: for people, if the file was changed and nobody has it open. Loop thread. */
void serve_refused_publish(struct member *member, enum engine_role role, const char *upath,
                           const struct dyad_version *version, const char *why);

#endif
