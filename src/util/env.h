/*
 * util/env.h - reading an environment that need not be the process's own
 */
#ifndef DYAD_UTIL_ENV_H
#define DYAD_UTIL_ENV_H

#include <stddef.h>
#include <string.h>

/* The value of `name` in env (as environ; may be NULL), borrowed from there; or NULL. Not
 * getenv(): bash has its own, and a copy of the environment. Async-signal-safe. */
static inline const char *util_env_get(char *const env[], const char *name)
{
    size_t len = strlen(name);

    for (; env && *env; env++)
        if (strncmp(*env, name, len) == 0 && (*env)[len] == '=')
            return *env + len + 1;
    return NULL;
}

#endif
