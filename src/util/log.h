/*
 * util/log.h - one line per event, to stderr or to a file
 *
 * A line says what, where and what to do; it is written with one write(2), so lines of many
 * processes do not mix.  Safe from any thread; keeps errno; no malloc, no stdio, no locale.
 * Not for signal handlers of the host program (it formats with vsnprintf).
 */
#ifndef DYAD_UTIL_LOG_H
#define DYAD_UTIL_LOG_H

enum util_log_level {
    UTIL_LOG_ALWAYS = -1, /* asked for by the user: shown whatever the level */
    UTIL_LOG_ERROR = 0,
    UTIL_LOG_WARN,
    UTIL_LOG_INFO,
    UTIL_LOG_DEBUG
};

/* Set the lowest level that is shown and the file that lines are appended to (NULL: stderr;
 * opened at every line, so that no descriptor of ours stays in a program's table). `tag` is
 * put into every line, such as "rank 3"; it is copied. Not thread-safe against itself. */
void util_log_setup(enum util_log_level level, const char *file, const char *tag);

enum util_log_level util_log_threshold(void);

/* Write a line if `level` is shown. The format is printf's; no newline at its end. */
void util_log(enum util_log_level level, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

#define log_error(...) util_log(UTIL_LOG_ERROR, __VA_ARGS__)
#define log_warn(...)  util_log(UTIL_LOG_WARN, __VA_ARGS__)
#define log_info(...)  util_log(UTIL_LOG_INFO, __VA_ARGS__)
#define log_debug(...)                              \
    do {                                            \
        if (util_log_threshold() >= UTIL_LOG_DEBUG) \
            util_log(UTIL_LOG_DEBUG, __VA_ARGS__);  \
    } while (0)

#endif
