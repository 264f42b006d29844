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
/* True if it is one of tools, "NAME|NAME FIRST-ARGUMENT|..." with globs as names: by its
 * file, or by its argv[0], if that is a link to another name (busybox). */
bool command_is_tool(const struct command_tool *tool, const char *tools);

void command_read(pid_t pid, struct command *command);
/* The argument behind `arg`, NULL: the first. NULL: that was the last. */
const char *command_next(const struct command *command, const char *arg);
/* True if [text, text + len) is the path `full`, or the end of it after a '/'. "./" and
 * "../" at the begin are ignored. */
bool command_is_path(const char *text, size_t len, const char *full);
/* True if the command line names the path `full`: as the value of one of the options
 * ("--a|-b"), or, if that is NULL, anywhere. */
bool command_names(const struct command *command, const char *options, const char *full);
/* True if the command line of a script above process `pid` names `full`. `command` is a
 * buffer. */
bool command_script_names(pid_t pid, struct command *command, const char *full);

#endif
