/*
 * engine/publish/pieces_apply.h - put what another node has written into a file of this node
 *
 * Private to pieces_take.c. What both have written is as who wrote it last has left it; if
 * that is not known, and the bytes differ, nothing is changed.
 */
#ifndef DYAD_ENGINE_PUBLISH_PIECES_APPLY_H
#define DYAD_ENGINE_PUBLISH_PIECES_APPLY_H

#include "engine/core/member.h"
#include "store/extents.h"

struct pieces_apply {
    const struct member_dmd *dmd;
    const char *upath;
    struct store_identity identity;       /* of our file */
    uint8_t storage[DYAD_STORAGE_ID_LEN]; /* where the sender's lies */
    bool shown;   /* for a read here: they are not published with our file; ... */
    bool kept;    /* ... or for a publish, and are */
    bool history; /* they are in our file already, and have no bytes */
    bool
        ahead; /* our file is ahead of the version that it counts as (fetch/transfer_end.c) */
    struct dyad_base base; /* the version that they are changes of; size 0: an empty file */
    int fd;                /* of a file that has the pieces (pieces.h); */
    uint64_t size;         /* bytes of that */
    int64_t ahead_min, ahead_max; /* ns, by which our clock is ahead of the sender's */
    struct store_extent met;      /* out: with EEXIST */
};

/* Put them in, and into the record. 0, or an errno value: EEXIST: who wrote `met` last is not
 * known; EBUSY: there is no record of what was written here, or not since `base`: then `met` has the size and
 * mtime of the version since which there is; ENOENT: our file is gone; ESTALE: another one
 * has come in its place. For a
 * pool thread: it blocks. */
int pieces_apply(struct pieces_apply *apply);

/* As whose writes the pieces of a node are recorded, whose storage that is. */
uint64_t pieces_writer(const uint8_t storage[DYAD_STORAGE_ID_LEN]);

#endif
