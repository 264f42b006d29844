/*
 * wave_tree.c - two lists
 */
#include "boot/wave_tree.h"

#include <stdlib.h>

#define ARITY 8

static bool is_live(const struct wave_tree *tree, uint32_t rank)
{
    if (rank == tree->self)
        return true;
    for (size_t i = 0; i < tree->nfailed; i++)
        if (tree->failed[i] == rank)
            return false;
    return tree->live(tree->arg, rank);
}

bool wave_tree_fail(struct wave_tree *tree, uint32_t rank)
{
    if (tree->nfailed == tree->failed_size) {
        size_t size = tree->failed_size ? tree->failed_size * 2 : 8;
        uint32_t *failed = realloc(tree->failed, size * sizeof(*failed));
        if (!failed)
            return false;
        tree->failed = failed;
        tree->failed_size = size;
    }
    tree->failed[tree->nfailed++] = rank;
    tree->stale = true;
    return true;
}

void wave_tree_forget_failed(struct wave_tree *tree, uint32_t rank)
{
    for (size_t i = 0; i < tree->nfailed; i++)
        if (tree->failed[i] == rank)
            tree->failed[i--] = tree->failed[--tree->nfailed];
}

static bool add_child(struct wave_tree *tree, uint32_t rank)
{
    if (tree->nchildren == tree->children_size) {
        size_t size = tree->children_size ? tree->children_size * 2 : ARITY;
        uint32_t *children = realloc(tree->children, size * sizeof(*children));
        if (!children)
            return false;
        tree->children = children;
        tree->children_size = size;
    }
    tree->children[tree->nchildren++] = rank;
    return true;
}

/* Add the live ranks nearest below `top`, not looking below a live one. */
static bool add_below(struct wave_tree *tree, uint32_t top)
{
    for (uint64_t c = (uint64_t)top * ARITY + 1; c <= (uint64_t)top * ARITY + ARITY; c++) {
        if (c >= tree->nranks)
            break;
        bool live = c != tree->self && is_live(tree, (uint32_t)c);
        if (!(live ? add_child(tree, (uint32_t)c) : add_below(tree, (uint32_t)c)))
            return false;
    }
    return true;
}

bool wave_tree_find(struct wave_tree *tree)
{
    if (!tree->stale)
        return true;
    uint32_t up = tree->self;
    tree->root = true;
    while (up > 0 && tree->root) {
        up = (up - 1) / ARITY;
        if (is_live(tree, up)) {
            tree->parent = up;
            tree->root = false;
        }
    }
    if (tree->root) { /* no live ancestor: the lowest live rank is the parent, or it is us
                       */
        for (uint32_t r = 0; r < tree->self; r++)
            if (is_live(tree, r)) {
                tree->parent = r;
                tree->root = false;
                break;
            }
    }
    tree->nchildren = 0;
    /* The root takes every rank that has no live ancestor: all that is below dead ranks
     * from 0 on. */
    if (!add_below(tree, tree->root ? 0 : tree->self))
        return false;
    tree->stale = false;
    return true;
}

void wave_tree_free(struct wave_tree *tree)
{
    free(tree->children);
    free(tree->failed);
}
