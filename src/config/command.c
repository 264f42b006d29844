/*
 * command.c - /proc/PID/exe and cmdline, and the names in them
 */
#include "config/command.h"

#include <fnmatch.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "util/proc.h"

#define ANCESTORS_MAX 16

bool command_list_next(const char **list, char separator, char *item, size_t size)
{
    const char *end;
    size_t len;

    if (!*list || !**list)
        return false;
    end = strchrnul(*list, separator);
    len = (size_t)(end - *list) < size ? (size_t)(end - *list) : size - 1;
    memcpy(item, *list, len);
    item[len] = '\0';
    *list = *end ? end + 1 : end;
    return true;
}

const char *command_path_tail(const char *path, unsigned n)
{
    const char *p = path + strlen(path);

    for (; p > path; p--) {
        if (p[-1] == '/' && --n == 0)
            return p;
    }
    return p;
}

static size_t read_arguments(pid_t pid, char *text, size_t size)
{
    char path[64];
    ssize_t n;

    snprintf(path, sizeof(path), pid ? "/proc/%d/cmdline" : "/proc/self/cmdline", (int)pid);
    n = util_proc_read(path, text, size);
    return n > 0 ? (size_t)n : 0;
}

void command_read(pid_t pid, struct command *command)
{
    command->len = read_arguments(pid, command->text, sizeof(command->text));
}

static __attribute__((noinline)) void read_proc_tool(pid_t pid, struct command_tool *tool)
{
    char path[64], exe[PATH_MAX];
    ssize_t n;

    snprintf(path, sizeof(path), pid ? "/proc/%d/exe" : "/proc/self/exe", (int)pid);
    tool->exe[0] = '\0';
    if ((n = readlink(path, exe, sizeof(exe) - 1)) > 0) {
        exe[n] = '\0';
        snprintf(tool->exe, sizeof(tool->exe), "%.*s", NAME_MAX, command_path_tail(exe, 1));
        tool->exe[strcspn(tool->exe, " ")] = '\0'; /* " (deleted)" */
    }
    tool->len = read_arguments(pid, tool->start, sizeof(tool->start));
}

/* The program of this process does not change. The first thread that finds `own_state`
 * empty fills `own` in and releases it; until then, and for good in a child that was
 * forked meanwhile, each thread reads it for itself. A signal handler never waits here.
 */
enum { OWN_EMPTY, OWN_FILLED_IN, OWN_THERE };
static struct command_tool own;
static int own_state;

const struct command_tool *command_read_tool(pid_t pid, struct command_tool *tool)
{
    int empty = OWN_EMPTY;

    if (!pid && __atomic_load_n(&own_state, __ATOMIC_ACQUIRE) == OWN_THERE)
        return &own;
    read_proc_tool(pid, tool);
    if (!pid && __atomic_compare_exchange_n(&own_state, &empty, OWN_FILLED_IN, false,
                                            __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
        own = *tool;
        __atomic_store_n(&own_state, OWN_THERE, __ATOMIC_RELEASE);
    }
    return tool;
}

/* The argument behind `arg`; NULL: that was the last. NULL: the first. */
static const char *next_of(const char *text, size_t len, const char *arg)
{
    arg = arg ? arg + strlen(arg) + 1 : text;
    return arg < text + len ? arg : NULL;
}

const char *command_next(const struct command *command, const char *arg)
{
    return next_of(command->text, command->len, arg);
}

bool command_is_tool(const struct command_tool *tool, const char *tools)
{
    const char *arg = next_of(tool->start, tool->len, NULL);
    const char *name = arg ? command_path_tail(arg, 1) : "";
    char glob[NAME_MAX + 1];
    char *with;

    while (command_list_next(&tools, '|', glob, sizeof(glob))) {
        if ((with = strchr(glob, ' '))) {
            const char *first = arg ? next_of(tool->start, tool->len, arg) : NULL;
            *with++ = '\0';
            if (!first || strcmp(first, with) != 0)
                continue;
        }
        if (fnmatch(glob, tool->exe, 0) == 0 || fnmatch(glob, name, 0) == 0)
            return true;
    }
    return false;
}

bool command_is_path(const char *text, size_t len, const char *full)
{
    size_t n = strlen(full);

    while (len > 1 && text[0] == '.') {
        size_t dots = text[1] == '/'                                ? 2
                      : len > 2 && text[1] == '.' && text[2] == '/' ? 3
                                                                    : 0;
        if (!dots)
            break;
        text += dots;
        len -= dots;
    }
    return len > 0 && len <= n && memcmp(full + n - len, text, len) == 0 &&
           (len == n || full[n - len - 1] == '/');
}

/* An argument names it whole, or a word of it does: it may be a script. */
static bool argument_names(const char *arg, const char *full)
{
    static const char between[] = " \t\n\"'`;|&<>()=,";

    if (command_is_path(arg, strlen(arg), full))
        return true;
    for (const char *p = arg; *p;) {
        size_t n = strcspn(p, between);
        if (command_is_path(p, n, full))
            return true;
        p += n + (p[n] != '\0');
    }
    return false;
}

/* True if `arg` names `full` as the value of one of the options: `before` is the option,
 * or it stands in `arg` before '='. */
static bool option_names(const char *arg, const char *before, const char *options,
                         const char *full)
{
    char option[64];

    while (command_list_next(&options, '|', option, sizeof(option))) {
        size_t n = strlen(option);
        if (before && strcmp(before, option) == 0 &&
            command_is_path(arg, strlen(arg), full))
            return true;
        if (strncmp(arg, option, n) == 0 && arg[n] == '=' && argument_names(arg + n, full))
            return true;
    }
    return false;
}

bool command_names(const struct command *command, const char *options, const char *full)
{
    const char *before = NULL;

    for (const char *arg = NULL; (arg = command_next(command, arg)); before = arg) {
        if (options ? option_names(arg, before, options, full) : argument_names(arg, full))
            return true;
    }
    return false;
}

/* A launcher belongs to no rank, and its arguments are for others, too. */
static bool is_launcher(const struct command_tool *tool)
{
    static const char launchers[] =
        "orted|prted|prterun|orterun|mpirun*|mpiexec*|hydra*|srun|slurmstepd|sshd|systemd";

    return tool->exe[0] == '\0' || command_is_tool(tool, launchers);
}

/* Does the command line of a script above it name it? */
bool command_script_names(pid_t pid, struct command *command, const char *full)
{
    struct command_tool tool;

    pid = pid ? pid : getpid();
    for (int i = 0; i < ANCESTORS_MAX && (pid = util_proc_parent(pid)) > 1; i++) {
        command_read_tool(pid, &tool);
        if (is_launcher(&tool))
            return false;
        command_read(pid, command);
        if (command_names(command, NULL, full))
            return true;
    }
    return false;
}
