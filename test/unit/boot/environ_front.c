/*
 * environ_front.c - what libdyad.so.1 is to libdyad_member.so, as far as the private
 * environment goes
 *
 * Linked with whatever opens a plugin; its copy is taken before main, as the wrapper does
 * it.
 */
#include <stdlib.h>
#include <string.h>

#include "boot/environ.h"

extern char **environ;

static char *copy[4096];

__attribute__((constructor)) static void begin(int argc, char **argv, char **env)
{
    (void)argc;
    (void)argv;
    for (size_t i = 0; env[i] && i + 1 < sizeof(copy) / sizeof(copy[0]); i++)
        copy[i] = strdup(env[i]);
}

char *const *dyad_environment(void)
{
    return copy;
}
