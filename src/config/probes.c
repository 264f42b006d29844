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

#include "config/command.h"
#include "config/config.h"
#include "util/path.h"

#define TAIL_MAX 4 /* components of a name that is searched for */

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

/* --- names --- */

bool probes_glob(const char *globs, const char *upath)
{
    char glob[PATH_MAX];

    while (command_list_next(&globs, ':', glob, sizeof(glob))) {
        if (fnmatch(glob, upath, 0) == 0)
            return true;
    }
    return false;
}

bool probes_declared(const struct engine_config *config, const char *upath)
{
    return probes_glob(config->complete_at_exit, upath) ||
           probes_glob(config->complete_at_chmod, upath);
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

    while (command_list_next(&names, '|', glob, size)) {
        size_t len = strlen(glob);
        unsigned slashes = 0;
        if (glob[len - 1] == '/') {
            if (is_below(upath, glob, len - 1))
                return true;
            continue;
        }
        for (const char *p = glob; *p; p++)
            slashes += *p == '/';
        if (fnmatch(glob, command_path_tail(upath, slashes + 1), FNM_PATHNAME) == 0)
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

/* True if a file of this path exists here or is published. */
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

    for (unsigned n = 1; n <= TAIL_MAX && command_path_tail(upath, n) != last; n++) {
        last = command_path_tail(upath, n);
        if (exists_as(asker, dir, last))
            return true;
    }
    if (!library)
        return false;
    snprintf(name, sizeof(name), "%s", command_path_tail(upath, 1));
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
    bool library = strncmp(command_path_tail(upath, 1), "lib", 3) == 0;

    full_path(asker, upath, above, sizeof(above));
    *strrchr(above, '/') = '\0';
    if (library && is_in(asker, above, command_path_tail(upath, 1), true))
        return true;
    while (command_list_next(&places, '|', place, sizeof(place))) {
        size_t n = strlen(place);
        if (place[0] == '/') {
            if (is_in(asker, place, upath, library))
                return true;
            continue;
        }
        for (const char *arg = NULL; (arg = command_next(command, arg));) {
            const char *value = arg + n;
            if (strncmp(arg, place, n) != 0)
                continue;
            if (!*value && !(value = command_next(command, arg)))
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

    for (const char *arg = NULL; (arg = command_next(command, arg));) {
        const char *list = words;
        is_argument = is_argument || command_is_path(arg, strlen(arg), full);
        while (command_list_next(&list, '|', word, sizeof(word)))
            has_word = has_word || strcasestr(arg, word);
    }
    return is_argument && has_word;
}

/* True if `full` is an argument, and not the value of one of the options. */
static bool is_edited(const struct command *command, const char *options, const char *full)
{
    const char *before = NULL;
    char option[64];

    for (const char *arg = NULL; (arg = command_next(command, arg)); before = arg) {
        const char *list = options;
        bool is_value = false;
        while (before && command_list_next(&list, '|', option, sizeof(option)))
            is_value = is_value || strcmp(before, option) == 0;
        if (before && !is_value && command_is_path(arg, strlen(arg), full))
            return true;
    }
    return false;
}

/* True if the process has just published the same name with this suffix. */
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
    const char *dot = strrchr(command_path_tail(upath, 1), '.');

    if (!now)
        return false;
    if (now == stem_of(upath, strlen(upath)))
        return true;
    if (!dot || now != stem_of(upath, (size_t)(dot - upath)))
        return false;
    for (size_t i = 0; i < NROWS; i++) {
        const char *list = rows[i].detail;
        char suffix[16];
        while (rows[i].rule == STEM &&
               command_list_next(&list, '|', suffix, sizeof(suffix))) {
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
    command_read(asker->pid, &command);
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
        return command_script_names(asker->pid, &command, full) ? PROBES_WAIT
                                                                : PROBES_OPTIONAL;
    }
}

/* `named`: what a command line names is waited for. */
static enum probes_answer answer(const struct probes_asker *asker, const char *upath,
                                 bool named)
{
    struct command_tool buf;
    const struct command_tool *tool = NULL;
    char glob[NAME_MAX + 1];
    int saved = errno, says = UNDECIDED;

    if (!asker->pid && is_of_stem(upath))
        return PROBES_OPTIONAL;
    for (size_t i = 0; i < NROWS && says == UNDECIDED; i++) {
        if (!row_matches(&rows[i], upath, glob, sizeof(glob)))
            continue;
        if (!tool)
            tool = command_read_tool(asker->pid, &buf);
        if (command_is_tool(tool, rows[i].tools))
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
    command_read(asker->pid, &command);
    named = command_names(&command, NULL, full) ||
            command_script_names(asker->pid, &command, full);
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
