/*
 * store/shared_file.h - a file of the control directory that the processes of a node map
 *
 * Private to src/store. The first process that needs the file makes it. It is filled
 * under a temporary name and then gets its final one, if no other process was quicker: so
 * no reader ever sees half of one. Thread-safe and safe between processes.
 */
#ifndef DYAD_STORE_SHARED_FILE_H
#define DYAD_STORE_SHARED_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/dmd.h"

/* A new file, as it is filled. */
struct store_shared_new {
    int control; /* the control directory */
    int fd;
    const char *name, *boot; /* the name that it gets; the id of this boot */
    void *map;               /* of the kind's size, all zero */
};

struct store_shared_kind {
    size_t size; /* of the file */
    /* True if it is a whole file of this kind, and of this boot (NULL: of any). */
    bool (*is_whole)(const void *map, const char *boot);
    /* Give a new file its disk blocks, and fill it. 0 or -1. */
    int (*reserve)(int fd);
    int (*fill)(const struct store_shared_new *file);
    /* The new file, and no other, got the name. */
    void (*made)(const struct store_shared_new *file);
};

/* Map the file; make it if there is none. The caller unmaps it. NULL with errno: EUCLEAN
 * it is damaged. */
void *store_shared_map(const struct store_dir *dir, const struct store_shared_kind *kind,
                       const char *name, const char *boot);
/* Call fn with each other file of the control directory whose name begins with prefix and
 * that is whole, of any boot, until it returns non-zero. `map` can be read only, and only
 * until fn returns. Returns what fn did, or -1 with errno. */
int store_shared_each_other(
    int control, const struct store_shared_kind *kind, const char *prefix, const char *name,
    int (*fn)(int control, const char *name, const void *map, void *arg), void *arg);

#endif
