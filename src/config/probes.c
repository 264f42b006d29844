/*
 * probes.c - the table of probes, and the command lines that overrule it
 *
 * A name is compared with the rows first, which costs no system call; only where one
 * matches are the program's name and arguments read.
 */
#include "config/probes.h"

#include <errno.h>
#include <fnmatch.h>
#include <glob.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "util/path.h"
#include "util/proc.h"

#define COMMAND_MAX   16384 /* bytes of a command line that are looked at */
#define ANCESTORS_MAX 16
#define TAIL_MAX      4 /* components of a name that is searched for */

enum rule { OWN, MAKES, EDITS, REPLACES, ELSEWHERE, BESIDE, STEM };

static const struct row {
    const char *tools, *names;
    enum rule rule;
    const char *detail;
} rows[] = {
#define PROBE(tools, names, rule, detail) {tools, names, rule, detail},
#include "config/probes.def"
#undef PROBE
};

#define NROWS (sizeof(rows) / sizeof(rows[0]))

/* The name whose kind the process is finding out (STEM), as a hash: one word that any
 * thread may replace. Where two threads do it at once, one of them waits. */
static uint64_t stem;

/* The hash of the upath that the process has published last: one word, as above. */
static uint64_t made;

/* The properties of a process that a row can ask for. */
struct tool {
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

/* --- lists separated by a character --- */

/* The next item of *list, cut to fit; false: there is none. */
static bool next_item(const char **list, char separator, char *item, size_t size)
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

bool probes_glob(const char *globs, const char *upath)
{
    char glob[PATH_MAX];

    while (next_item(&globs, ':', glob, sizeof(glob))) {
        if (fnmatch(glob, upath, 0) == 0)
            return true;
    }
    return false;
}

/* --- names --- */

/* The last `n` components of a path. */
static const char *tail(const char *path, unsigned n)
{
    const char *p = path + strlen(path);

    for (; p > path; p--) {
        if (p[-1] == '/' && --n == 0)
            return p;
    }
    return p;
}

static bool is_below(const char *upath, const char *dir, size_t len)
{
    for (const char *p = upath, *slash; (slash = strchr(p, '/')); p = slash + 1) {
        if ((size_t)(slash - p) == len && memcmp(p, dir, len) == 0)
            return true;
    }
    return false;
}

/* The glob of the row that matches, in glob[size]. */
static bool row_matches(const struct row *row, const char *upath, char *glob, size_t size)
{
    const char *names = row->names;

    while (next_item(&names, '|', glob, size)) {
        size_t len = strlen(glob);
        unsigned slashes = 0;
        if (glob[len - 1] == '/') {
            if (is_below(upath, glob, len - 1))
                return true;
            continue;
        }
        for (const char *p = glob; *p; p++)
            slashes += *p == '/';
        if (fnmatch(glob, tail(upath, slashes + 1), FNM_PATHNAME) == 0)
            return true;
    }
    return false;
}

/* --- the program and its arguments --- */

static size_t read_arguments(pid_t pid, char *text, size_t size)
{
    char path[64];
    ssize_t n;

    snprintf(path, sizeof(path), pid ? "/proc/%d/cmdline" : "/proc/self/cmdline", (int)pid);
    n = util_proc_read(path, text, size);
    return n > 0 ? (size_t)n : 0;
}

static void read_command(pid_t pid, struct command *command)
{
    command->len = read_arguments(pid, command->text, sizeof(command->text));
}

static __attribute__((noinline)) void read_tool(pid_t pid, struct tool *tool)
{
    char path[64], exe[PATH_MAX];
    ssize_t n;

    snprintf(path, sizeof(path), pid ? "/proc/%d/exe" : "/proc/self/exe", (int)pid);
    tool->exe[0] = '\0';
    if ((n = readlink(path, exe, sizeof(exe) - 1)) > 0) {
        exe[n] = '\0';
        snprintf(tool->exe, sizeof(tool->exe), "%.*s", NAME_MAX, tail(exe, 1));
        tool->exe[strcspn(tool->exe, " ")] = '\0'; /* " (deleted)" */
    }
    tool->len = read_arguments(pid, tool->start, sizeof(tool->start));
}

/* The argument behind `arg`; NULL: that was the last. NULL: the first. */
static const char *next_of(const char *text, size_t len, const char *arg)
{
    arg = arg ? arg + strlen(arg) + 1 : text;
    return arg < text + len ? arg : NULL;
}

static const char *next_argument(const struct command *command, const char *arg)
{
    return next_of(command->text, command->len, arg);
}

/* By its file, or by what it is called, where that is a link to something else (busybox).
 */
static bool is_tool(const struct tool *tool, const char *tools)
{
    const char *arg = next_of(tool->start, tool->len, NULL);
    const char *name = arg ? tail(arg, 1) : "";
    char glob[NAME_MAX + 1];
    char *with;

    while (next_item(&tools, '|', glob, sizeof(glob))) {
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

/* Is [text, text + len) the path `full`, or the end of it behind a '/'? "./" and "../" in
 * front do not count. */
static bool is_path(const char *text, size_t len, const char *full)
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

    if (is_path(arg, strlen(arg), full))
        return true;
    for (const char *p = arg; *p;) {
        size_t n = strcspn(p, between);
        if (is_path(p, n, full))
            return true;
        p += n + (p[n] != '\0');
    }
    return false;
}

/* Is it the value of one of the options: the argument behind it, or behind its '='? */
static bool option_names(const char *arg, const char *before, const char *options,
                         const char *full)
{
    char option[64];

    while (next_item(&options, '|', option, sizeof(option))) {
        size_t n = strlen(option);
        if (before && strcmp(before, option) == 0 && is_path(arg, strlen(arg), full))
            return true;
        if (strncmp(arg, option, n) == 0 && arg[n] == '=' && argument_names(arg + n, full))
            return true;
    }
    return false;
}

static bool command_names(const struct command *command, const char *options,
                          const char *full)
{
    const char *before = NULL;

    for (const char *arg = NULL; (arg = next_argument(command, arg)); before = arg) {
        if (options ? option_names(arg, before, options, full) : argument_names(arg, full))
            return true;
    }
    return false;
}

/* A launcher belongs to no rank, and its arguments are for others, too. */
static bool is_launcher(const struct tool *tool)
{
    static const char launchers[] =
        "orted|prted|prterun|orterun|mpirun*|mpiexec*|hydra*|srun|slurmstepd|sshd|systemd";

    return tool->exe[0] == '\0' || is_tool(tool, launchers);
}

/* Does the command line of a script above it name it? */
static bool script_names(pid_t pid, struct command *command, const char *full)
{
    struct tool tool;

    pid = pid ? pid : getpid();
    for (int i = 0; i < ANCESTORS_MAX && (pid = util_proc_parent(pid)) > 1; i++) {
        read_tool(pid, &tool);
        if (is_launcher(&tool))
            return false;
        read_command(pid, command);
        if (command_names(command, NULL, full))
            return true;
    }
    return false;
}

/* --- the rules --- */

static void full_path(const struct probes_asker *asker, const char *upath, char *full,
                      size_t size)
{
    snprintf(full, size, "%s/%s", asker->dmd, upath);
}

/* Is there a file of this path, here or published? */
static bool exists(const struct probes_asker *asker, const char *path)
{
    size_t n = strlen(asker->dmd);
    char text[PATH_MAX];
    bool dir;

    if (access(path, F_OK) == 0)
        return true;
    return asker->published && path[0] == '/' &&
           util_path_normalise(path, text, sizeof(text), &dir) &&
           strncmp(text, asker->dmd, n) == 0 && text[n] == '/' &&
           asker->published(asker->arg, text + n + 1);
}

static bool exists_as(const struct probes_asker *asker, const char *dir, const char *name)
{
    char path[PATH_MAX];
    glob_t found;
    bool is_glob = strpbrk(dir, "*?[") != NULL;

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    if (!is_glob)
        return exists(asker, path);
    if (strpbrk(name, "*?[\\") || glob(path, GLOB_NOSORT, NULL, &found) != 0)
        return false;
    globfree(&found);
    return true;
}

/* In this directory, by as many of its last components as a search may have had. A library
 * may be there in its other form, which a linker asks for next. */
static bool is_in(const struct probes_asker *asker, const char *dir, const char *upath,
                  bool library)
{
    char name[NAME_MAX + 1], *suffix;
    const char *last = NULL;

    for (unsigned n = 1; n <= TAIL_MAX && tail(upath, n) != last; n++) {
        last = tail(upath, n);
        if (exists_as(asker, dir, last))
            return true;
    }
    if (!library)
        return false;
    snprintf(name, sizeof(name), "%s", tail(upath, 1));
    if (!(suffix = strrchr(name, '.')) || strlen(suffix) > 3)
        return false;
    strcpy(suffix, strcmp(suffix, ".a") == 0 ? ".so" : ".a");
    return exists_as(asker, dir, name);
}

/* A directory of the process, which may be another. */
static void dir_of(const struct probes_asker *asker, const char *dir, char *path,
                   size_t size)
{
    char cwd[64];
    ssize_t n = 0;

    if (dir[0] != '/') {
        snprintf(cwd, sizeof(cwd), asker->pid ? "/proc/%d/cwd" : "/proc/self/cwd",
                 (int)asker->pid);
        n = readlink(cwd, path, size);
        n = n < 0 || (size_t)n >= size - 1 ? 0 : n;
    }
    snprintf(path + n, size - (size_t)n, "%s%s", n ? "/" : "", dir);
}

static bool is_elsewhere(const struct probes_asker *asker, const struct command *command,
                         const char *places, const char *upath)
{
    char place[PATH_MAX], dir[PATH_MAX], above[PATH_MAX];
    bool library = strncmp(tail(upath, 1), "lib", 3) == 0;

    full_path(asker, upath, above, sizeof(above));
    *strrchr(above, '/') = '\0';
    if (library && is_in(asker, above, tail(upath, 1), true))
        return true;
    while (next_item(&places, '|', place, sizeof(place))) {
        size_t n = strlen(place);
        if (place[0] == '/') {
            if (is_in(asker, place, upath, library))
                return true;
            continue;
        }
        for (const char *arg = NULL; (arg = next_argument(command, arg));) {
            const char *value = arg + n;
            if (strncmp(arg, place, n) != 0)
                continue;
            if (!*value && !(value = next_argument(command, arg)))
                break;
            dir_of(asker, value + (*value == '='), dir, sizeof(dir));
            if (is_in(asker, dir, upath, library))
                return true;
        }
    }
    return false;
}

/* "*-journal": is the database here? */
static bool is_beside(char *full, const char *glob)
{
    size_t len = strlen(full), suffix = strlen(glob) - 1;

    if (suffix >= len)
        return false;
    full[len - suffix] = '\0';
    return access(full, F_OK) == 0;
}

static bool is_made(const struct command *command, const char *words, const char *full)
{
    bool is_argument = false, has_word = false;
    char word[64];

    for (const char *arg = NULL; (arg = next_argument(command, arg));) {
        const char *list = words;
        is_argument = is_argument || is_path(arg, strlen(arg), full);
        while (next_item(&list, '|', word, sizeof(word)))
            has_word = has_word || strcasestr(arg, word);
    }
    return is_argument && has_word;
}

/* Is it an argument, and not the value of one of the options? */
static bool is_edited(const struct command *command, const char *options, const char *full)
{
    const char *before = NULL;
    char option[64];

    for (const char *arg = NULL; (arg = next_argument(command, arg)); before = arg) {
        const char *list = options;
        bool is_value = false;
        while (before && next_item(&list, '|', option, sizeof(option)))
            is_value = is_value || strcmp(before, option) == 0;
        if (before && !is_value && is_path(arg, strlen(arg), full))
            return true;
    }
    return false;
}

/* Has the process just published the same name with this suffix? */
static bool is_replaced(const char *upath, const char *suffix)
{
    char name[PATH_MAX];

    snprintf(name, sizeof(name), "%s%s", upath, suffix);
    return __atomic_load_n(&made, __ATOMIC_RELAXED) == XXH3_64bits(name, strlen(name));
}

static uint64_t stem_of(const char *upath, size_t len)
{
    return XXH3_64bits(upath, len) | 1;
}

/* The process finds out of what kind the database of this stem is. */
static bool is_of_stem(const char *upath)
{
    uint64_t now = __atomic_load_n(&stem, __ATOMIC_RELAXED);
    const char *dot = strrchr(tail(upath, 1), '.');

    if (!now)
        return false;
    if (now == stem_of(upath, strlen(upath)))
        return true;
    if (!dot || now != stem_of(upath, (size_t)(dot - upath)))
        return false;
    for (size_t i = 0; i < NROWS; i++) {
        const char *list = rows[i].detail;
        char suffix[16];
        while (rows[i].rule == STEM && next_item(&list, '|', suffix, sizeof(suffix))) {
            if (strcmp(dot, suffix) == 0)
                return true;
        }
    }
    return false;
}

#define UNDECIDED (-1)

/* What the row says: UNDECIDED, or one of enum probes_answer. */
static __attribute__((noinline)) int decide(const struct probes_asker *asker,
                                            const struct row *row, const char *row_glob,
                                            const char *upath, bool named)
{
    struct command command;
    char full[PATH_MAX];

    full_path(asker, upath, full, sizeof(full));
    if (row->rule == STEM && !asker->pid)
        __atomic_store_n(&stem, stem_of(upath, strlen(upath) - (strlen(row_glob) - 1)),
                         __ATOMIC_RELAXED);
    if (row->rule == BESIDE)
        return is_beside(full, row_glob) ? PROBES_OPTIONAL : UNDECIDED;
    if (row->rule == REPLACES)
        return !asker->pid && is_replaced(upath, row->detail) ? PROBES_OPTIONAL : UNDECIDED;
    read_command(asker->pid, &command);
    switch (row->rule) {
    case MAKES:
        return !row->detail || is_made(&command, row->detail, full) ? PROBES_OPTIONAL
                                                                    : UNDECIDED;
    case EDITS:
        return is_edited(&command, row->detail, full) ? PROBES_ASK : UNDECIDED;
    case ELSEWHERE:
        return is_elsewhere(asker, &command, row->detail, upath) ? PROBES_OPTIONAL
                                                                 : UNDECIDED;
    default:
        if (!named)
            return PROBES_OPTIONAL;
        if (command_names(&command, row->rule == OWN ? row->detail : NULL, full))
            return PROBES_WAIT;
        if (row->rule == OWN && row->detail)
            return PROBES_OPTIONAL;
        return script_names(asker->pid, &command, full) ? PROBES_WAIT : PROBES_OPTIONAL;
    }
}

/* `named`: what a command line names is waited for. */
static enum probes_answer answer(const struct probes_asker *asker, const char *upath,
                                 bool named)
{
    struct tool tool;
    char glob[NAME_MAX + 1];
    bool read = false;
    int saved = errno, says = UNDECIDED;

    if (!asker->pid && is_of_stem(upath))
        return PROBES_OPTIONAL;
    for (size_t i = 0; i < NROWS && says == UNDECIDED; i++) {
        if (!row_matches(&rows[i], upath, glob, sizeof(glob)))
            continue;
        if (!read)
            read_tool(asker->pid, &tool);
        read = true;
        if (is_tool(&tool, rows[i].tools))
            says = decide(asker, &rows[i], glob, upath, named);
    }
    errno = saved;
    return says == UNDECIDED ? PROBES_WAIT : (enum probes_answer)says;
}

enum probes_answer probes_answer(const struct probes_asker *asker, const char *upath)
{
    return answer(asker, upath, true);
}

bool probes_look_like(const struct probes_asker *asker, const char *upath)
{
    return answer(asker, upath, false) != PROBES_WAIT;
}

void probes_made(const char *upath)
{
    __atomic_store_n(&made, XXH3_64bits(upath, strlen(upath)), __ATOMIC_RELAXED);
}

bool probes_named(const struct probes_asker *asker, const char *upath)
{
    struct command command;
    char full[PATH_MAX];
    int saved = errno;
    bool named;

    full_path(asker, upath, full, sizeof(full));
    read_command(asker->pid, &command);
    named = command_names(&command, NULL, full) || script_names(asker->pid, &command, full);
    errno = saved;
    return named;
}

bool probes_is_series(const char *a, const char *b)
{
    static const char digits[] = "0123456789";
    bool has_number = false;

    for (;;) {
        size_t na = strspn(a, digits), nb = strspn(b, digits);
        if ((na == 0) != (nb == 0))
            return false;
        has_number = has_number || na > 0;
        a += na;
        b += nb;
        if (*a != *b)
            return false;
        if (*a == '\0')
            return has_number;
        a++;
        b++;
    }
}
