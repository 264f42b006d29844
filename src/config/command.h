/*
 * config/command.h - the program that a process runs, its command line, and names in it
 *
 * Links libc only. Thread-safe, and safe in a signal handler and where one has interrupted
 * malloc. What cannot be read counts as empty.
 */
#ifndef DYAD_CONFIG_COMMAND_H
#define DYAD_CONFIG_COMMAND_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define COMMAND_MAX 16384 /* bytes of a command line that are looked at */

/* The properties of a process that a row can ask for. */
struct command_tool {
    char exe[NAME_MAX + 1];   /* the program's file name; "": it cannot be told */
    char start[NAME_MAX + 1]; /* its first arguments, each with a NUL */
    size_t len;
};

/* Its arguments: read where a row matches, and not before, for they take much of a small
 * stack. */
struct command {
    char text[COMMAND_MAX]; /* each with a NUL */
    size_t len;             /* 0: they cannot be read */
};

/* The next item of *list, whose items `separator` separates, cut to fit; *list goes on
 * behind it. false: there is none. */
bool command_list_next(const char **list, char separator, char *item, size_t size);
/* The last `n` components of a path: its end. */
const char *command_path_tail(const char *path, unsigned n);

/* Of a process, 0: this one, which is read once; in *tool, or elsewhere. */
const struct command_tool *command_read_tool(pid_t pid, struct command_tool *tool);
/* Is it one of tools, "NAME|NAME FIRST-ARGUMENT|..." with globs as names: by its file, or
 * by what it is called, where that is a link to something else (busybox)? */
bool command_is_tool(const struct command_tool *tool, const char *tools);

void command_read(pid_t pid, struct command *command);
/* The argument behind `arg`, NULL: the first. NULL: that was the last. */
const char *command_next(const struct command *command, const char *arg);
/* Is [text, text + len) the path `full`, or the end of it behind a '/'? "./" and "../" in
 * front do not count. */
bool command_is_path(const char *text, size_t len, const char *full);
/* Does it name the path `full`: as the value of one of the options ("--a|-b"), NULL:
 * anywhere? */
bool command_names(const struct command *command, const char *options, const char *full);
/* Does the command line of a script above it name it? `command` is a buffer. */
bool command_script_names(pid_t pid, struct command *command, const char *full);

#endif
