/*
 * stdio.c - streams
 *
 * A stream is its descriptor, which is in the table: fdopen needs nothing, fclose takes it
 * out. The engine looks at the file when the last descriptor closes, so what the stream
 * holds is flushed before.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "wrapper/core.h"
#include "wrapper/fd.h"
#include "wrapper/open.h"
#include "wrapper/path_find.h"
#include "wrapper/real.h"

/* A mode as glibc reads it: r, w or a; then of the next six characters + and x and e count,
 * and what it does not know is skipped. -1: no such mode. */
static int parse_mode(const char *mode)
{
    int access, more;

    switch (mode ? mode[0] : '\0') {
    case 'r':
        access = O_RDONLY;
        more = 0;
        break;
    case 'w':
        access = O_WRONLY;
        more = O_CREAT | O_TRUNC;
        break;
    case 'a':
        access = O_WRONLY;
        more = O_CREAT | O_APPEND;
        break;
    default:
        return -1;
    }
    for (int i = 1; i < 7 && mode[i]; i++) {
        if (mode[i] == '+')
            access = O_RDWR;
        else if (mode[i] == 'x')
            more |= O_EXCL;
        else if (mode[i] == 'e')
            more |= O_CLOEXEC;
    }
    return access | more;
}

struct real_fopen {
    wrapper_fn_fopen *fopen;
    const char *path, *mode;
    FILE *stream;
};

static int call_fopen(void *arg)
{
    struct real_fopen *o = arg;

    o->stream = o->fopen(o->path, o->mode);
    return o->stream ? fileno_unlocked(o->stream) : -1;
}

static void undo_fopen(void *arg, int fd)
{
    struct real_fopen *o = arg;

    (void)fd;
    REAL(fclose)(o->stream);
    o->stream = NULL;
}

static FILE *do_fopen(const char *path, const char *mode, wrapper_fn_fopen *real_fopen)
{
    struct wrapper_path where;
    struct real_fopen o = {.fopen = real_fopen, .path = path, .mode = mode};
    struct wrapper_opener opener = {.open = call_fopen,
                                    .undo = undo_fopen,
                                    .arg = &o,
                                    .where = &where,
                                    .flags = parse_mode(mode),
                                    .path = path,
                                    .dirfd = AT_FDCWD};

    FILE *stream;

    if (opener.flags == -1 || !wrapper_active())
        return real_fopen(path, mode);
    if (!wrapper_open_find(AT_FDCWD, path, wrapper_open_how(opener.flags), &where)) {
        stream = real_fopen(path, mode);
        if (stream || !wrapper_open_dangling(AT_FDCWD, path, opener.flags))
            return stream;
        if (!wrapper_path_find_as(AT_FDCWD, path, WRAPPER_PATH_FOLLOW_ALL, &where)) {
            errno = ENOENT;
            return NULL;
        }
    }
    if (where.moved)
        o.path = where.text;
    if (!wrapper_mine())
        return real_fopen(o.path, mode);
    if (wrapper_open(&opener) < 0)
        return NULL;
    wrapper_fd_unrecord_stream(fileno_unlocked(o.stream));
    return o.stream;
}

FILE *wrapped_fopen(const char *path, const char *mode)
{
    return do_fopen(path, mode, REAL(fopen));
}

FILE *wrapped_fopen64(const char *path, const char *mode)
{
    return do_fopen(path, mode, REAL(fopen64));
}

struct real_freopen {
    wrapper_fn_freopen *freopen;
    const char *path, *mode;
    FILE *stream, *result;
};

static int call_freopen(void *arg)
{
    struct real_freopen *o = arg;

    o->result = o->freopen(o->path, o->mode, o->stream);
    return o->result ? fileno_unlocked(o->result) : -1;
}

static void undo_freopen(void *arg, int fd)
{
    struct real_freopen *o = arg;

    (void)fd;
    REAL(fclose)(o->result);
    o->result = NULL;
}

/* freopen closes what the stream had, even if it then fails to open the new file: it is
 * called once, after everything that may have to be waited for has been. */
static FILE *do_freopen(const char *path, const char *mode, FILE *stream,
                        wrapper_fn_freopen *real)
{
    struct wrapper_path where;
    struct real_freopen o = {.freopen = real, .path = path, .mode = mode, .stream = stream};
    struct wrapper_opener opener = {.open = call_freopen,
                                    .undo = undo_freopen,
                                    .arg = &o,
                                    .where = &where,
                                    .flags = parse_mode(mode),
                                    .once = true,
                                    .path = path,
                                    .dirfd = AT_FDCWD};
    int old = stream ? fileno_unlocked(stream) : -1, aside = -1, error = 0, saved = errno;
    bool managed;

    if (!stream || !wrapper_active() || !wrapper_mine())
        return real(path, mode, stream);
    /* Without a path the descriptor's own file is opened once more, in the other mode. */
    managed =
        opener.flags != -1 &&
        (path ? wrapper_open_find(AT_FDCWD, path, wrapper_open_how(opener.flags), &where)
              : old >= 0 && wrapper_path_find_fd(old, &where));
    if (managed && where.moved)
        o.path = where.text;
    if (wrapper_tracks(old)) {
        fflush(stream); /* as freopen does; its error is not freopen's */
        aside = wrapper_fd_move_aside(old);
    }
    if (managed && path && wrapper_open_prepare(&where, opener.flags) < 0)
        error = errno;
    errno = saved;
    if (managed && !error && wrapper_open_writes(opener.flags)) {
        wrapper_fd_unrecord_stream(wrapper_open(&opener));
    } else {
        if (error) /* it closes, and fails: what is there may be half written */
            o.path = "";
        call_freopen(&o);
        if (error)
            errno = error;
    }
    saved = errno;
    if (aside >= 0)
        wrapper_fd_close_real(aside);
    errno = saved;
    return o.result;
}

FILE *wrapped_freopen(const char *path, const char *mode, FILE *stream)
{
    return do_freopen(path, mode, stream, REAL(freopen));
}

FILE *wrapped_freopen64(const char *path, const char *mode, FILE *stream)
{
    return do_freopen(path, mode, stream, REAL(freopen64));
}

struct real_fclose {
    wrapper_fn_fclose *fclose;
    FILE *stream;
    int error; /* of the flush */
};

static int call_fclose(int fd, void *arg)
{
    struct real_fclose *c = arg;
    int rc = c->fclose(c->stream);

    (void)fd;
    if (c->error && rc == 0) {
        errno = c->error;
        rc = EOF;
    }
    return rc;
}

static int do_fclose(FILE *stream, wrapper_fn_fclose *real)
{
    struct real_fclose c = {.fclose = real, .stream = stream};
    int fd = stream ? fileno_unlocked(stream) : -1, saved = errno;

    wrapper_path_fd_changed(fd);
    if (fd < 0 || !wrapper_tracks(fd)) {
        errno = saved;
        return real(stream);
    }
    if (fflush(stream) != 0)
        c.error = errno;
    errno = saved;
    return wrapper_fd_close(fd, call_fclose, &c);
}

int wrapped_fclose(FILE *stream)
{
    return do_fclose(stream, REAL(fclose));
}

/* glibc's closes any stream. */
int wrapped_pclose(FILE *stream)
{
    return do_fclose(stream, REAL(pclose));
}

/* The descriptor is in the table already; what closes the stream takes it out. */
FILE *wrapped_fdopen(int fd, const char *mode)
{
    FILE *stream;

    if (mode && strpbrk(mode, "wa+") && wrapper_tracks(fd))
        wrapper_fd_unrecord_stream(fd);
    stream = REAL(fdopen)(fd, mode);
    wrapper_fd_flags_changed(fd); /* "a": O_APPEND */
    return stream;
}

/* glibc's flushes, and closes no descriptor. */
int wrapped_fcloseall(void)
{
    return REAL(fcloseall)();
}
