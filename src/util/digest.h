/*
 * util/digest.h - whether bytes are still those that somebody had at first
 *
 * Against errors of memories and disks on their way, not against people: those that come over a network have a MAC (net/auth.h).
 */
#ifndef DYAD_UTIL_DIGEST_H
#define DYAD_UTIL_DIGEST_H

#include <stddef.h>
#include <stdint.h>

/* XXH3 of 64 bits; never 0, which stands for "none". Thread-safe. */
uint64_t util_digest(const void *bytes, size_t len);

#endif
