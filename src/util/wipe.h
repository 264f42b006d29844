/*
 * util/wipe.h - memory that has held a key, or a blob that a key is in, is wiped when it is given back
 */
#ifndef DYAD_UTIL_WIPE_H
#define DYAD_UTIL_WIPE_H

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* Wipe len bytes of p, of malloc() or NULL, and free it. */
static inline void util_wipe_free(void *p, size_t len)
{
    if (p)
        explicit_bzero(p, len);
    free(p);
}

#endif
