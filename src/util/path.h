/*
 * util/path.h - paths as text
 */
#ifndef DYAD_UTIL_PATH_H
#define DYAD_UTIL_PATH_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* The control directory below a managed one. */
#define UTIL_PATH_CONTROL_DIR ".dyad"

/* True if upath is the control directory, or in it. Async-signal-safe. */
static inline bool util_path_is_control(const char *upath)
{
    size_t len = sizeof(UTIL_PATH_CONTROL_DIR) - 1;

    return strncmp(upath, UTIL_PATH_CONTROL_DIR, len) == 0 &&
           (upath[len] == '/' || upath[len] == '\0');
}

/* Resolve "//", "." and ".." of the absolute path `in` into out[size], without looking at
 * the disk. Returns the length, or 0 if it does not fit. A final slash (or "/.", "/..") is
 * dropped and *dir set: the path can only name a directory. in and out may overlap if out
 * <= in. Async-signal-safe. */
size_t util_path_normalise(const char *in, char *out, size_t size, bool *dir);

#endif
