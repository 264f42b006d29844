/*
 * engine/publish/pieces_length.h - how long a file is that two nodes have written, cut and extended
 *
 * Private to pieces_apply.c. A cut is a range of length 0 (store/extent_list.h): the file was made
 * that long, shorter or longer. Both lists are sorted, in times of one clock; for a pool thread.
 */
#ifndef DYAD_ENGINE_PUBLISH_PIECES_LENGTH_H
#define DYAD_ENGINE_PUBLISH_PIECES_LENGTH_H

#include "store/extent_list.h"

/* True if it is not known which of two came later, a cut or what the other node has written there, or two
 * lengths: *met is where. */
bool pieces_lengths_differ(const struct store_extent_list *theirs,
                           const struct store_extent_list *ours, struct store_extent *met);
/* Cut our file, and punch holes, where `theirs` has cut it and nothing was written here since: before their
 * writes go into it. 0 or -1 with errno. */
int pieces_shorten(int fd, const struct store_extent_list *theirs,
                   const struct store_extent_list *ours);
/* Make our file as long as `theirs` has made it: after that. 0 or -1 with errno. */
int pieces_lengthen(int fd, const struct store_extent_list *theirs,
                    const struct store_extent_list *ours);

#endif
