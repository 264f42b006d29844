/*
 * store/fetch_impl.h - private to fetch.c and fetch_replace.c
 */
#ifndef DYAD_STORE_FETCH_IMPL_H
#define DYAD_STORE_FETCH_IMPL_H

#include <stdatomic.h>
#include <stdbool.h>

#include "store/fetch.h"

#define FETCH_NAME_SIZE 40

struct store_fetch {
    const struct store_dir *dir;
    int fd, tmpdir;
    struct dyad_entry entry;
    _Atomic uint64_t written; /* bytes, to find a caller that forgot some */
    atomic_bool logged;
    char name[FETCH_NAME_SIZE];
    char upath[];
};

/* The name of upath's temporary file. */
void fetch_temp_name(const char *upath, char name[FETCH_NAME_SIZE]);
/* Free the object; the temporary file stays. Keeps errno. */
void fetch_free(struct store_fetch *fetch);
/* Set mode and mtime of the temporary file as the entry has them. 0 or -1. */
int fetch_set_metadata(struct store_fetch *fetch);
/* Log errno, once. Keeps it. */
void fetch_report(struct store_fetch *fetch, const char *doing);

#endif
