/*
 * boot/wave_tree.h - this rank's parent and children in the tree
 *
 * Rank r's parent is (r-1)/8. The nearest live ancestor of a dead rank takes its place,
 * and its children as its own. Ranks without a live ancestor belong to the root, the
 * lowest live rank. Each rank reports for the part of the static tree below it, so every
 * rank is either counted once or taken for dead by the rank that had to count it.
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

    uint32_t *failed; /* ranks to which a send failed: dead until they are heard of */
    size_t nfailed, failed_size;

    bool stale; /* the fields below are to be computed anew */
    bool root;
    uint32_t parent; /* if not root */
    uint32_t *children;
    size_t nchildren, children_size;
};

/* Compute what is stale. False: no memory. */
bool wave_tree_find(struct wave_tree *tree);
/* A send to the rank failed. False: no memory to note it. */
bool wave_tree_fail(struct wave_tree *tree, uint32_t rank);
void wave_tree_forget_failed(struct wave_tree *tree, uint32_t rank);
void wave_tree_free(struct wave_tree *tree);

#endif
