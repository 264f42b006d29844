/*
 * actor.h - what the programs that act below the managed directory share
 *
 * Each is called as NAME-OF-PROGRAM ACT [ARGS] and does that one thing.
 */
#ifndef DYAD_TEST_WRAPPER_ACTOR_H
#define DYAD_TEST_WRAPPER_ACTOR_H

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Not assert(): NDEBUG must not disable it. */
#define CHECK(what)                                                                     \
    do {                                                                                \
        if (!(what)) {                                                                  \
            fprintf(stderr, "actor: %s:%d: %s (errno %d)\n", __func__, __LINE__, #what, \
                    errno);                                                             \
            _exit(99);                                                                  \
        }                                                                               \
    } while (0)

struct act {
    const char *name;
    int (*fn)(void);
};

#define ACT(name)         \
    {                     \
#name, act_##name \
    }

/* Do the act that the first argument names; the program's exit status. */
static inline int act(const struct act *acts, size_t n, int argc, char **argv)
{
    if (argc < 2)
        return 97;
    for (size_t i = 0; i < n; i++)
        if (strcmp(acts[i].name, argv[1]) == 0)
            return acts[i].fn();
    return 97;
}

#endif
