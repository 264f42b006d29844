/*
 * dht/base.h - whether a writer has seen the version that it is about to replace
 *
 * A lost update: a writer began from one version, and another node has published the next
 * meanwhile, which the writer's own does not contain. Homes look for it at each PUBLISH
 * that carries a base, and the publisher in each entry for which it is refused.
 */
#ifndef DYAD_DHT_BASE_H
#define DYAD_DHT_BASE_H

#include <sys/stat.h>

#include "util/entry.h"

/* True if what began with that changed a version, which homes are to know. */
bool dht_base_is_change(const struct dyad_base *base);
/* True if the file was removed, by what `there` says, after the version that its publisher began with was made. A home that follows
 * a dead one may have an older removal. Thread-safe. */
bool dht_base_is_removed(const struct dyad_base *base, const struct dyad_entry *there);
/* True if `there`, in force, has come between the base of a writer of `storage` and its
 * publish. What was published in the same storage is the same file, whose writers see each
 * other; nothing is lost of an empty file that was empty before. Thread-safe (no state). */
bool dht_base_is_overtaken(const struct dyad_base *base, const struct dyad_entry *there,
                           const uint8_t *storage);
/* True if `there`, which is in force, may be a later state of the file that `entry` describes, as another rank of its
 * node has looked at it: of two ranks that look at one moment the later version may be of who has looked first.
 * Its publisher is to look again; or `there` is another file, or its mtime was set back. */
bool dht_base_is_behind(const struct dyad_base *base, const struct dyad_entry *entry,
                        const struct dyad_entry *there);
/* True if the published file `there` is not the one that a writer has found, of another node. */
bool dht_base_is_other(const struct dyad_base *base, const struct dyad_entry *there);
/* The base of a writer that has found the file of that entry. */
struct dyad_base dht_base_from(const struct dyad_entry *found);
/* The same, of a file here. */
struct dyad_base dht_base_of(const struct stat *file);
/* The base of a publish that replaces that version, and no other of another storage. */
struct dyad_base dht_base_version(const struct dyad_version *version);

#endif
