/*
 * open_common.c - what opens have in common: what they wait for, and how it is made to be
 * here
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "wrapper/core.h"
#include "wrapper/open_impl.h"
#include "wrapper/real.h"
#include "wrapper/resolve.h"

int wrapper_open_real(const struct wrapper_opener *opener)
{
    wrapper_bring_before_dots(opener->dirfd, opener->path);
    return opener->open(opener->arg);
}

bool wrapper_open_is_regular(int fd)
{
    struct stat st;

    return fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
}

const char *wrapper_open_awaited(const struct wrapper_path *where)
{
    const char *upath = where->upath[ENGINE_CONSUMER];

    return upath && upath[0] ? upath : NULL;
}

int wrapper_open_bring_parents(const struct engine_ops *ops, struct wrapper_path *where)
{
    const char *upath;

    for (unsigned links = 0;
         links < WRAPPER_OPEN_LINKS_MAX && (upath = wrapper_open_awaited(where)); links++) {
        if (!strchr(upath, '/'))
            break;
        if (!wrapper_parent_is_here(where, upath) &&
            ENGINE_CALL(ops->bring_parents(ENGINE_CONSUMER, upath)) < 0 && errno != ESTALE)
            return errno == ENOENT ? 0 : errno;
        if (wrapper_path_again(where) != WRAPPER_PATH_OTHER)
            break;
    }
    return 0;
}

int wrapper_open_consume(const struct engine_ops *ops, struct wrapper_path *where,
                         enum engine_consume how)
{
    const char *upath = wrapper_open_awaited(where);

    if (!upath)
        return 0;
    if (ENGINE_CALL(ops->consume(ENGINE_CONSUMER, upath, how)) < 0 && errno != ESTALE)
        return -1;
    return wrapper_path_again(where) == WRAPPER_PATH_OTHER;
}

bool wrapper_open_bring(const struct engine_ops *ops, struct wrapper_path *where)
{
    if (REAL(access)(where->text, F_OK) == 0)
        return true;
    wrapper_open_bring_parents(ops, where);
    return wrapper_open_consume(ops, where, ENGINE_CONSUME_NOW) >= 0;
}

int wrapper_open_parents(struct wrapper_path *where)
{
    const struct engine_ops *ops = wrapper_engine();

    return ops && wrapper_open_awaited(where) ? wrapper_open_bring_parents(ops, where)
                                              : ENOENT;
}
