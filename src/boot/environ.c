/*
 * environ.c - getenv and its family over a copy that the program does not see
 *
 * The copy is made at the first call, whoever makes it, of what libdyad.so.1 keeps
 * (given()). With RTLD_DEEPBIND, or in a name space of their own, the objects loaded with
 * libdyad_member.so look for these functions in it first: so UCX and PMIx (and libevent
 * below it) find them, unless the program had loaded UCX or PMIx before us. Nobody else
 * does; in the program's name space and without DEEPBIND (sanitizers) nobody at all,
 * which is harmless.
 *
 * What could go wrong: the first call comes from a constructor, before any function of
 * ours can run, so the one mutex is statically initialised. Callers of getenv keep
 * pointers, so strings that were handed out are never freed.
 */
#include "boot/environ.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#include "boot/libs.h"

#define DYAD_VISIBLE __attribute__((visibility("default")))

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    bool ready;
    char **entry; /* "NAME=value", `used` of them, not NULL-terminated */
    size_t used, size;
} copy;

static const struct {
    const char *name, *value;
    unsigned unless; /* the program itself uses one of these */
} override[] = {
    /* No handlers for SIGSEGV, SIGBUS, SIGILL, SIGFPE. */
    {"UCX_ERROR_SIGNALS", "", BOOT_LIBS_UCX | BOOT_LIBS_MPI},
    /* No handler for SIGHUP. */
    {"UCX_DEBUG_SIGNO", "0", BOOT_LIBS_UCX | BOOT_LIBS_MPI},
    /* No patched mmap, munmap, mremap, madvise. */
    {"UCX_MEM_EVENTS", "n", BOOT_LIBS_UCX | BOOT_LIBS_MPI},
    /* Its log lines go to stdout else, through the program's stream. */
    {"UCX_LOG_FILE", "stderr", BOOT_LIBS_UCX | BOOT_LIBS_MPI},
    /* A peer that is gone is reported by us, once; UCX would say so at each connection. */
    {"UCX_LOG_LEVEL", "fatal", BOOT_LIBS_UCX | BOOT_LIBS_MPI},
    /* It walks `environ` for names that it does not know: a race with bash. */
    {"UCX_WARN_UNUSED_ENV_VARS", "n", BOOT_LIBS_UCX | BOOT_LIBS_MPI},
    /* The default store loses keys that are committed while they are asked for. */
    {"PMIX_MCA_gds", "hash", BOOT_LIBS_PMIX},
};

/* Without effect on us but to make PMIx_Init remove them from the program's `environ`. */
static const char *const hidden[] = {"PMIX_MCA_ptl"};

static size_t name_len(const char *text)
{
    return strcspn(text, "=");
}

static ssize_t find(const char *name, size_t len)
{
    for (size_t i = 0; i < copy.used; i++)
        if (strncmp(copy.entry[i], name, len) == 0 && copy.entry[i][len] == '=')
            return (ssize_t)i;
    return -1;
}

/* Put `text` ("NAME=value") in; it becomes the table's. */
static int put(char *text)
{
    ssize_t at = find(text, name_len(text));

    if (at >= 0) {
        copy.entry[at] = text; /* the old one may still be in use */
        return 0;
    }
    if (copy.used == copy.size) {
        size_t size = copy.size ? copy.size * 2 : 128;
        char **entry = realloc(copy.entry, size * sizeof(*entry));
        if (!entry)
            return -1;
        copy.entry = entry;
        copy.size = size;
    }
    copy.entry[copy.used++] = text;
    return 0;
}

static void drop(const char *name, size_t len)
{
    ssize_t at = find(name, len);

    if (at >= 0)
        copy.entry[at] = copy.entry[--copy.used];
}

/* Strings that set() made. None is ever freed, since somebody may hold what getenv() gave;
 * the list keeps those that were replaced from being taken for lost. */
struct made {
    struct made *next;
    char text[];
};
static struct made *all_made;

static int set(const char *name, const char *value)
{
    size_t len = strlen(name), value_len = strlen(value);
    struct made *made = malloc(sizeof(*made) + len + value_len + 2);

    if (!made)
        return -1;
    memcpy(made->text, name, len);
    made->text[len] = '=';
    memcpy(made->text + len + 1, value, value_len + 1);
    if (put(made->text) < 0) {
        free(made);
        return -1;
    }
    made->next = all_made;
    all_made = made;
    return 0;
}

/* What the client keeps of the environment. libucs reads its configuration in a
 * constructor; the copy is not made of `environ`, which the program's threads may be
 * rearranging (bash also frees it), nor of the strings that the kernel gave to this
 * program, which it may have overwritten with a title (setproctitle).
 *
 * The client is in the program's name space, this library perhaps in another: but there
 * is one loader. This thread may be within its dlopen(), which may be nested. */
static char *const *given(void)
{
    void *front = dlmopen(LM_ID_BASE, BOOT_ENVIRON_FROM, RTLD_NOW | RTLD_NOLOAD);
    char *const *(*environment)(void);
    char *const *env = NULL;

    if (!front)
        return NULL;
    *(void **)&environment = dlsym(front, "dyad_environment");
    if (environment)
        env = environment();
    dlclose(front); /* it stays loaded: by its help this library is */
    return env;
}

/* Of names that occur twice the first counts. */
static void load(void)
{
    for (char *const *env = given(); env && *env; env++)
        if (**env != '=' && strchr(*env, '=') && find(*env, name_len(*env)) < 0)
            put(*env);
}

static void apply_overrides(void)
{
    unsigned program = boot_libs_before_us();

    for (size_t i = 0; i < sizeof(override) / sizeof(override[0]); i++)
        if (!(program & override[i].unless) &&
            find(override[i].name, strlen(override[i].name)) < 0)
            set(override[i].name, override[i].value);
    for (size_t i = 0; i < sizeof(hidden) / sizeof(hidden[0]); i++)
        drop(hidden[i], strlen(hidden[i]));
}

/* Lock, with the copy made. */
static void enter(void)
{
    int saved = errno;

    pthread_mutex_lock(&lock);
    if (!copy.ready) {
        copy.ready = true;
        load();
        apply_overrides();
    }
    errno = saved;
}

static void leave(void)
{
    pthread_mutex_unlock(&lock);
}

static bool bad_name(const char *name)
{
    if (name && *name && !strchr(name, '='))
        return false;
    errno = EINVAL;
    return true;
}

DYAD_VISIBLE char *getenv(const char *name)
{
    size_t len = strlen(name);
    char *value = NULL;
    ssize_t at;

    enter();
    at = find(name, len);
    if (at >= 0)
        value = copy.entry[at] + len + 1;
    leave();
    return value;
}

DYAD_VISIBLE char *secure_getenv(const char *name)
{
    return getauxval(AT_SECURE) ? NULL : getenv(name);
}

/* UCX and PMIx write to the environment. A setenv on the program's would race with its
 * threads. */
DYAD_VISIBLE int setenv(const char *name, const char *value, int replace)
{
    int rc = 0;

    if (bad_name(name))
        return -1;
    enter();
    if (replace || find(name, strlen(name)) < 0)
        rc = set(name, value);
    leave();
    return rc;
}

DYAD_VISIBLE int putenv(char *string)
{
    int rc = 0;

    enter();
    if (strchr(string, '='))
        rc = put(string);
    else
        drop(string, strlen(string));
    leave();
    return rc;
}

DYAD_VISIBLE int unsetenv(const char *name)
{
    if (bad_name(name))
        return -1;
    enter();
    drop(name, strlen(name));
    leave();
    return 0;
}

DYAD_VISIBLE int clearenv(void)
{
    enter();
    copy.used = 0;
    leave();
    return 0;
}
