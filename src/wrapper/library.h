/*
 * wrapper/library.h - libraries that the dynamic loader is about to look for
 */
#ifndef DYAD_WRAPPER_LIBRARY_H
#define DYAD_WRAPPER_LIBRARY_H

#include "client/client_ops.h"

/* Where an object's libraries are looked for; each may be NULL. */
struct wrapper_search {
    const char *origin; /* a path in the directory that $ORIGIN means */
    const char *rpath, *library_path, *runpath;
};

/* The loader will open what `fd`, opened by the name `path`, needs, and what that needs:
 * what of it is looked for below a managed directory, and is published, is brought. By the
 * run paths of the objects ($ORIGIN as in path), and by search, which is LD_LIBRARY_PATH
 * there (may be NULL). Never waits for a publish. Nothing if it is no ELF file. Also in the
 * child of vfork. errno is lost. */
void wrapper_library_needed(const struct engine_ops *ops, int fd, const char *path,
                            const char *search);

/* The same for the library `name`, and what it needs, which the loader will look for as
 * *s says. errno is lost. */
void wrapper_library_bring(const struct engine_ops *ops, const char *name,
                           const struct wrapper_search *s);

/* A program is about to start with LD_LIBRARY_PATH=search (may be NULL): those of its
 * directories that are managed, and published, are made. The loader asks for each once, and
 * does not come back to one that was not there. Keeps errno. */
void wrapper_library_path(const char *search);

#endif
