/*
 * environment.c - copies the environment, and compares others with it
 *
 * The strings that the kernel laid down for the program may be overwritten at any time
 * (setproctitle): they are copied before main, and not read after. The array that points to
 * them is looked at: glibc's unsetenv() and setenv() change it in place, until the program
 * adds a variable or moves the whole. So a pointer that is gone from it says that the
 * program has taken the variable away on purpose (`env -u LD_PRELOAD`), and one that leads
 * elsewhere is the program's own text.
 */
#include "wrapper/environment.h"

#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

char **wrapper_env;

static char *const *given;    /* main's array */
static const char **original; /* of the first entries of wrapper_env; not to be followed */
static size_t noriginal;
static uintptr_t low, high; /* between them is what they point to */

static void *map_pages(size_t size)
{
    void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    return p == MAP_FAILED ? NULL : p;
}

/* All of it: UCX and PMIx read it, too, and what they ask for is theirs to say. */
bool wrapper_env_take(char **env)
{
    size_t n = 0, size = 0;
    char *text;

    for (; env[n]; n++)
        size += strlen(env[n]) + 1;
    wrapper_env = map_pages((2 * n + 1) * sizeof(*env) + size);
    if (!wrapper_env)
        return false;
    original = (const char **)(wrapper_env + n + 1);
    text = (char *)(original + n);
    low = UINTPTR_MAX;
    for (size_t i = 0; i < n; i++) {
        uintptr_t at = (uintptr_t)env[i];
        low = at < low ? at : low;
        high = at > high ? at : high;
        original[i] = env[i];
        wrapper_env[i] = text;
        text = stpcpy(text, env[i]) + 1;
    }
    noriginal = n;
    given = env;
    return true;
}

void wrapper_env_give(char **env)
{
    given = env;
}

char **wrapper_env_extend(char **env, char *entry)
{
    char **copy;
    size_t n = 0;

    while (env && env[n])
        n++;
    if (!(copy = map_pages((n + 2) * sizeof(*env))))
        return env;
    if (n)
        memcpy(copy, env, n * sizeof(*env));
    copy[n] = entry;
    return copy;
}

static bool is_ours(const char *entry)
{
    return strncmp(entry, "DYAD_", 5) == 0 || strncmp(entry, "LD_PRELOAD=", 11) == 0;
}

static size_t name_len(const char *entry)
{
    return (size_t)(strchrnul(entry, '=') - entry) + 1;
}

static bool has(char *const env[], const char *entry)
{
    size_t len = name_len(entry);

    for (; *env; env++)
        if (strncmp(*env, entry, len) == 0)
            return true;
    return false;
}

/* Entry i as the program has it now, or NULL. */
static char *kept(size_t i)
{
    size_t len = name_len(wrapper_env[i]);

    if (i >= noriginal)
        return wrapper_env[i]; /* we added it */
    for (char *const *p = given; *p; p++) {
        if (*p == original[i])
            return wrapper_env[i];
        if (((uintptr_t)*p < low || (uintptr_t)*p > high) &&
            strncmp(*p, wrapper_env[i], len) == 0)
            return *p;
    }
    return NULL;
}

size_t wrapper_env_lacking(char *const env[], char **out)
{
    size_t n = 0;

    for (size_t i = 0; wrapper_env && wrapper_env[i]; i++) {
        char *entry;
        if (is_ours(wrapper_env[i]) && !has(env, wrapper_env[i]) && (entry = kept(i))) {
            if (out)
                out[n] = entry;
            n++;
        }
    }
    return n;
}
