/*
 * engine/publish/node_files.h - files of this node, whichever of its members has them in
 * its journal
 *
 * A journal has one writer; every member of the node can read it, whether its writer lives,
 * is stopped, in exec or dead. So any member can answer for a file of its node: what a
 * journal says of it is compared with the file itself. Nothing is taken over for that.
 */
#ifndef DYAD_ENGINE_PUBLISH_NODE_FILES_H
#define DYAD_ENGINE_PUBLISH_NODE_FILES_H

#include "engine/core/member.h"

/* A file that is looked for in the journals of this node but our own: the first member of
 * an object from malloc(), with nothing in it that free() does not free. */
struct node_file {
    struct node_file *prev, *next; /* utlist */
    const char *upath;             /* in the same memory */
    uint32_t rank; /* whose journal is of interest, or DYAD_RANK_NONE: all are */
    bool seen;     /* that rank has a journal here */
    bool failed;   /* it (or one of them) could not be read */
    /* On a pool thread, for each record of it. */
    void (*found)(struct node_file *file, struct member_dmd *dmd, uint32_t rank,
                  const struct store_record *record);
    /* On the loop, when all journals were read; frees it. */
    void (*done)(struct member *member, struct node_file *file);
};

/* Look; the file is ours from here on. `upath`, `rank`, `found`, `done` are set. What is
 * found was so at some moment since the call. Costs a reading of the journals of the node,
 * once for all that are asked for meanwhile. */
void node_files_look(struct member *member, struct node_file *file);
/* Is a look for upath with that `done` under way? */
bool node_files_looks(const struct member *member, const char *upath,
                      void (*done)(struct member *, struct node_file *));

#endif
