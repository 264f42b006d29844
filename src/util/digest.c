/*
 * digest.c - whether bytes are still those that somebody had at first
 */
#include "util/digest.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

uint64_t util_digest(const void *bytes, size_t len)
{
    uint64_t digest = XXH3_64bits(bytes, len);

    return digest ? digest : 1;
}
