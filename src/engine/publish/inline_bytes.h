/*
 * engine/publish/inline_bytes.h - the bytes of a small file, to go with its publish
 */
#ifndef DYAD_ENGINE_PUBLISH_INLINE_BYTES_H
#define DYAD_ENGINE_PUBLISH_INLINE_BYTES_H

#include "engine/core/member.h"

/* All bytes of the file that record describes, its identity and ctime included, as it was
 * looked at a moment ago. `mark`: the publisher's own, or 0. They are in a buffer of the
 * loop's thread, valid until the next call. NULL: they do not go with the entry (too large
 * or none, no regular file, nobody to fetch it, a slow or shared storage, another file by
 * now, or a writer has it open). Errors are not told: the file is fetched as any other. */
const void *inline_bytes(struct member *member, enum engine_role role,
                         const struct store_record *record, store_mark_t mark);

#endif
