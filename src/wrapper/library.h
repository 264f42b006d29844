/*
 * wrapper/library.h - libraries that the dynamic loader is about to look for
 */
#ifndef DYAD_WRAPPER_LIBRARY_H
#define DYAD_WRAPPER_LIBRARY_H

#include "client/client_ops.h"

/* The paths along which an object's libraries are looked for; each may be NULL. */
struct wrapper_search {
    const char *origin; /* a path in the directory that $ORIGIN means */
    const char *rpath, *library_path, *runpath;
};

/* Bring the libraries here that the object `fd`, opened by the name `path`, needs, and
 * those that they need, as far as the loader looks for them below a managed directory and
 * they are published: by the run paths of the objects ($ORIGIN as in path), and by
 * `search`, the LD_LIBRARY_PATH (may be NULL). Never waits for a publish. Does nothing if
 * it is no ELF file. Also in the child of vfork. errno is lost. */
void wrapper_library_needed(const struct engine_ops *ops, int fd, const char *path,
                            const char *search);

/* The same for the library `name`, and what it needs, which the loader will look for as
 * *s says. errno is lost. */
void wrapper_library_bring(const struct engine_ops *ops, const char *name,
                           const struct wrapper_search *s);

/* A program is about to start with LD_LIBRARY_PATH=search (may be NULL): make those of
 * its directories that are managed and published. The loader asks for each once, and does
 * not come back to one that did not exist. Keeps errno. */
void wrapper_library_path(const char *search);

#endif
