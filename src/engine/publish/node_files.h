/*
 * engine/publish/node_files.h - files of this node, whichever of its members has them in
 * its journal
 *
 * A journal has one writer; every member of the node can read it, whether its writer
 * lives, is stopped, in exec or dead. So any member can answer for a file of its node: it
 * compares the record in the journal with the file itself. Nothing is taken over for
 * that.
 */
#ifndef DYAD_ENGINE_PUBLISH_NODE_FILES_H
#define DYAD_ENGINE_PUBLISH_NODE_FILES_H

#include "engine/core/member.h"

/* A file that is looked for in the journals of this node but our own: the first member of
 * an object from malloc(), with nothing in it that free() does not free. */
struct node_file {
    struct node_file *prev, *next; /* utlist */
    const char *upath;             /* in the same memory */
    uint32_t rank; /* read only this rank's journal, or (DYAD_RANK_NONE) all */
    bool seen;     /* out: that rank has a journal here */
    bool failed;   /* out: a journal could not be read */
    /* On a pool thread, for each record of upath. */
    void (*found)(struct node_file *file, struct member_dmd *dmd, uint32_t rank,
                  const struct store_record *record);
    /* On the loop, when all journals were read; frees it. */
    void (*done)(struct member *member, struct node_file *file);
};

/* Look for the file. Takes `file`, in which the caller has set `upath`, `rank`, `found`
 * and `done`. A record that is found was in its journal at some moment since the call.
 * Costs one reading of the node's journals for all files that are asked for meanwhile. */
void node_files_look(struct member *member, struct node_file *file);
/* True if a look for upath with that `done` is under way. */
bool node_files_looks(const struct member *member, const char *upath,
                      void (*done)(struct member *, struct node_file *));

#endif
