/*
 * temporary.c - mkstemp and its kin, mkdtemp
 *
 * The name is known only afterwards; it is new and random, so nobody can have seen it
 * unmarked. A directory that is only published is made here first: the real call finds
 * nothing then, and is made again with the name as it was.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "wrapper/core.h"
#include "wrapper/open.h"
#include "wrapper/path_find.h"
#include "wrapper/real.h"

struct template
{
    struct wrapper_path where;
    bool managed;
    char text[PATH_MAX]; /* as the caller gave it: a failed call leaves anything */
};

static void template_keep(struct template *t, const char *name)
{
    t->managed = wrapper_active() && wrapper_path_find(AT_FDCWD, name, &t->where) &&
                 strlen(name) < sizeof(t->text) && wrapper_mine();
    if (t->managed)
        strcpy(t->text, name);
}

/* After a call that failed: true: it is worth another one. */
static bool template_again(struct template *t, char *name)
{
    int error = errno;

    if (t->managed && error == ENOENT && (error = wrapper_open_parents(&t->where)) == 0) {
        strcpy(name, t->text);
        return true;
    }
    errno = error;
    return false;
}

static int made_file(int fd, const char *name, int flags)
{
    struct wrapper_path where;

    if (fd >= 0 && wrapper_active() && wrapper_path_find(AT_FDCWD, name, &where) &&
        !where.moved && wrapper_mine())
        wrapper_open_created(fd, &where, (flags & ~O_ACCMODE) | O_RDWR | O_CREAT | O_EXCL);
    return fd;
}

#define MAKE_FILE(call, name, flags)               \
    do {                                           \
        struct template kept;                      \
        int fd;                                    \
        template_keep(&kept, name);                \
        fd = (call);                               \
        if (fd < 0 && template_again(&kept, name)) \
            fd = (call);                           \
        return made_file(fd, name, flags);         \
    } while (0)

#define DEFINE_MKSTEMP(fn)                  \
    int wrapped_##fn(char *name)            \
    {                                       \
        MAKE_FILE(REAL(fn)(name), name, 0); \
    }
DEFINE_MKSTEMP(mkstemp)
DEFINE_MKSTEMP(mkstemp64)

#define DEFINE_MKOSTEMP(fn)                            \
    int wrapped_##fn(char *name, int flags)            \
    {                                                  \
        MAKE_FILE(REAL(fn)(name, flags), name, flags); \
    }
DEFINE_MKOSTEMP(mkostemp)
DEFINE_MKOSTEMP(mkostemp64)

#define DEFINE_MKSTEMPS(fn)                         \
    int wrapped_##fn(char *name, int suffix)        \
    {                                               \
        MAKE_FILE(REAL(fn)(name, suffix), name, 0); \
    }
DEFINE_MKSTEMPS(mkstemps)
DEFINE_MKSTEMPS(mkstemps64)

#define DEFINE_MKOSTEMPS(fn)                                   \
    int wrapped_##fn(char *name, int suffix, int flags)        \
    {                                                          \
        MAKE_FILE(REAL(fn)(name, suffix, flags), name, flags); \
    }
DEFINE_MKOSTEMPS(mkostemps)
DEFINE_MKOSTEMPS(mkostemps64)

char *wrapped_mkdtemp(char *name)
{
    const struct engine_ops *ops;
    struct template kept;
    int saved = errno;
    char *made;

    template_keep(&kept, name);
    made = REAL(mkdtemp)(name);
    if (!made && template_again(&kept, name))
        made = REAL(mkdtemp)(name);
    if (!made || !kept.managed || !wrapper_path_find(AT_FDCWD, made, &kept.where) ||
        !(ops = wrapper_engine()))
        return made;
    /* The directory exists: if it cannot be published now, its first file publishes it.
     */
    ENGINE_CALL(
        ops->changed(wrapper_path_role(&kept.where), wrapper_path_upath(&kept.where)));
    errno = saved;
    return made;
}
