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
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

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

/* Write it all; a log line that cannot be written is dropped: there is nobody to tell. */
static void write_line(const char *line, size_t len)
{
    int fd = STDERR_FILENO;
    bool opened = false;

    if (settings.file[0]) {
        fd =
            open(settings.file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY, 0644);
        if (fd < 0)
            fd = STDERR_FILENO;
        else
            opened = true;
    }
    while (len > 0) {
        ssize_t n = write(fd, line, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        line += n;
        len -= (size_t)n;
    }
    if (opened)
        close(fd);
}

void util_log(enum util_log_level level, const char *fmt, ...)
{
    if (level > settings.level)
        return;

    int saved = errno;
    char line[2048];
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
    line[len++] = '\n';
    write_line(line, len);
    errno = saved;
}
