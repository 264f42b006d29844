/*
 * log.c - formats into a buffer on the stack and writes it with one write(2)
 *
 * A line longer than the buffer is cut and marked. The settings are written once, before a
 * second thread of ours exists; after a fork the child inherits them.
 */
#include "util/log.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/owner.h"

static struct {
    enum util_log_level level;
    char file[PATH_MAX];
    char tag[64];
} settings = {.level = UTIL_LOG_WARN};

static const char *const level_name[] = {"error", "warning", "info", "debug"};

void util_log_setup(enum util_log_level level, const char *file, const char *tag)
{
    settings.level = level;
    snprintf(settings.file, sizeof(settings.file), "%s", file ? file : "");
    snprintf(settings.tag, sizeof(settings.tag), "%s", tag ? tag : "");
}

enum util_log_level util_log_threshold(void)
{
    return settings.level;
}

/* A link of the user's own, or of root's, leads on, once; another user may have put one there to have lines in a file of
 * the user's. -1 with errno. */
static int follow(const char *path, int flags)
{
    char target[PATH_MAX];
    struct stat st;
    int link = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC), fd = -1;
    ssize_t n;

    if (link < 0)
        return -1;
    if (fstat(link, &st) == 0 && !util_is_another(st.st_uid) &&
        (n = readlinkat(link, "", target, sizeof(target) - 1)) > 0 && target[0] == '/') {
        target[n] = '\0';
        fd = open(target, flags, 0600);
    }
    close(link);
    return fd;
}

static bool is_strangers(const char *path, const struct stat *file)
{
    char above[PATH_MAX], *slash;

    snprintf(above, sizeof(above), "%s", path);
    if (!(slash = strrchr(above, '/')))
        return false;
    slash[1] = '\0';
    return util_is_strangers(file, AT_FDCWD, above);
}

/* The file, or -1. No FIFO: nobody may read it. */
static int open_file(const char *path)
{
    const int flags =
        O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NOFOLLOW | O_NONBLOCK;
    int fd = open(path, flags, 0600);
    struct stat st;

    if (fd < 0 && errno == ELOOP)
        fd = follow(path, flags);
    if (fd < 0 ||
        (fstat(fd, &st) == 0 &&
         (S_ISCHR(st.st_mode) || (S_ISREG(st.st_mode) && !is_strangers(path, &st)))))
        return fd;
    close(fd);
    return -1;
}

/* Write it all; what cannot be written is dropped: there is nobody to tell. */
static void write_all(int fd, const char *line, size_t len)
{
    while (len > 0) {
        ssize_t n = write(fd, line, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        line += n;
        len -= (size_t)n;
    }
}

static void write_line(const char *line, size_t len)
{
    static atomic_bool said; /* any thread; a second line of the kind would do no harm */
    static const char instead[] =
        "dyad: error: DYAD_LOG_FILE cannot be written, or is a FIFO, another user's, or a "
        "link of another user's or a relative one: its lines come here\n";
    int fd = STDERR_FILENO, file = -1;

    if (strcmp(settings.file, "/dev/stdout") == 0)
        fd = STDOUT_FILENO;
    else if (settings.file[0] && strcmp(settings.file, "/dev/stderr") != 0 &&
             (file = open_file(settings.file)) < 0 && !atomic_exchange(&said, true))
        write_all(fd, instead, sizeof(instead) - 1);
    write_all(file < 0 ? fd : file, line, len);
    if (file >= 0)
        close(file);
}

/* A name of a file may have control characters in it: a line is one line, and a terminal is told nothing. Those of
 * C1 are two bytes in UTF-8. The length of what is in `to`, which has room for four bytes for each of `len`, and one more. */
static size_t escape(const char *from, size_t len, char *to)
{
    const unsigned char *p = (const unsigned char *)from;
    size_t n = 0, again = 0;

    for (size_t i = 0; i < len; i++) {
        if (p[i] == 0xc2 && i + 1 < len && p[i + 1] >= 0x80 && p[i + 1] < 0xa0)
            again = i + 2;
        if (p[i] >= 0x20 && p[i] != 0x7f && i >= again)
            to[n++] = (char)p[i];
        else
            n += (size_t)snprintf(to + n, 5, "\\x%02x", p[i]);
    }
    return n;
}

void util_log(enum util_log_level level, const char *fmt, ...)
{
    if (level > settings.level)
        return;

    int saved = errno;
    char line[2048], text[4 * sizeof(line) + 1];
    int n = snprintf(line, sizeof(line), "dyad[%d%s%s]: %s: ", (int)getpid(),
                     settings.tag[0] ? " " : "", settings.tag,
                     level_name[level < 0 ? UTIL_LOG_INFO : level]);
    size_t len = n > 0 ? (size_t)n : 0;

    va_list ap;
    va_start(ap, fmt);
    errno = saved; /* for %m */
    n = vsnprintf(line + len, sizeof(line) - len - 1, fmt, ap);
    va_end(ap);
    if (n > 0)
        len += (size_t)n;
    if (len > sizeof(line) - 2) {
        len = sizeof(line) - 2;
        memcpy(line + len - 3, "...", 3);
    }
    len = escape(line, len, text);
    text[len++] = '\n';
    write_line(text, len);
    errno = saved;
}
