/*
 * turns.c - which component this rank is of
 */
#include "engine/core/turns.h"

#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

const char *turns_component_name(const struct member *member)
{
    return member->config->component ? member->config->component : member->identity->nspace;
}

uint32_t turns_component(const struct member *member)
{
    const char *name = turns_component_name(member);
    uint64_t hash = XXH3_64bits(name, strlen(name));

    return 1 + (uint32_t)(hash % ((1u << DYAD_COMPONENT_BITS) - 1));
}
