/*
 * boot/wave_tree.h - who is this rank's parent, and who are its children
 *
 * Tree: rank r's parent is (r-1)/8. A dead rank is stood in for by its nearest live
 * ancestor, which takes the dead one's children for its own. Ranks without a live ancestor
 * belong to the root, the lowest live rank. Each rank vouches for the part of the static
 * tree below it, so every rank is either counted once or held for dead by the one that had
 * to count it.
 */
#ifndef DYAD_BOOT_WAVE_TREE_H
#define DYAD_BOOT_WAVE_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct wave_tree {
    uint32_t self, nranks;
    bool (*live)(void *arg, uint32_t rank); /* boot_wave_ops.live */
    void *arg;

    uint32_t *failed; /* a send failed: dead until told otherwise */
    size_t nfailed, failed_size;

    bool stale; /* the next four are to be computed anew */
    bool root;
    uint32_t parent; /* if not root */
    uint32_t *children;
    size_t nchildren, children_size;
};

/* Compute what is stale. False: no memory. */
bool wave_tree_find(struct wave_tree *tree);
/* A send to it failed. False: no memory to note it. */
bool wave_tree_fail(struct wave_tree *tree, uint32_t rank);
void wave_tree_forget_failed(struct wave_tree *tree, uint32_t rank);
void wave_tree_free(struct wave_tree *tree);

#endif
