/*
 * run_check.c - reads the headers of executables, and asks the kernel about directories
 *
 * The checks must not be stricter than the kernel: where a file cannot be read or is of a
 * kind that is not known here (binfmt_misc), the program is started and the kernel decides.
 */
#include "run_check.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <link.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "util/owner.h"

#define SCRIPT_DEPTH 5 /* as deep as the kernel follows "#!" */

#define NOT_SHARED "so its files would not be shared"

static int complain(char *err, size_t size, int status, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

static int complain(char *err, size_t size, int status, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(err, size, fmt, ap);
    va_end(ap);
    return status;
}

/* --- where the program is --- */

static bool executable(const char *path, int *error)
{
    struct stat st;

    if (stat(path, &st) < 0) {
        *error = errno;
        return false;
    }
    if (S_ISDIR(st.st_mode)) {
        *error = EISDIR;
        return false;
    }
    if (faccessat(AT_FDCWD, path, X_OK, AT_EACCESS) < 0) {
        *error = errno;
        return false;
    }
    return true;
}

int run_check_find(const char *program, const char *path_env, char *path, size_t path_size,
                   char *err, size_t size)
{
    int error = ENOENT, seen = ENOENT;

    if (!*program)
        return complain(err, size, RUN_EXIT_NOT_FOUND,
                        "the program's name is empty: was a variable not set?");
    if (strchr(program, '/')) {
        snprintf(path, path_size, "%s", program);
        if (executable(path, &error))
            return 0;
        if (error == ENOENT || error == ENOTDIR)
            return complain(err, size, RUN_EXIT_NOT_FOUND, "%s: no such file", program);
        if (error == EISDIR)
            return complain(err, size, RUN_EXIT_CANNOT_EXEC,
                            "%s is a directory, not a program", program);
        return complain(err, size, RUN_EXIT_CANNOT_EXEC, "%s: cannot be executed (%s)%s",
                        program, strerror(error),
                        error == EACCES ? ": is it marked executable (chmod +x)?" : "");
    }

    char system_path[256];
    if (!path_env) {
        confstr(_CS_PATH, system_path, sizeof(system_path));
        path_env = system_path;
    }
    for (const char *p = path_env;; p++) {
        size_t len = strcspn(p, ":");
        int n = len ? snprintf(path, path_size, "%.*s/%s", (int)len, p, program)
                    : snprintf(path, path_size, "./%s", program);
        if (n > 0 && (size_t)n < path_size) {
            if (executable(path, &error))
                return 0;
            if (error == EACCES)
                seen = EACCES;
        }
        p += len;
        if (!*p)
            break;
    }
    if (seen == EACCES)
        return complain(err, size, RUN_EXIT_CANNOT_EXEC,
                        "%s was found in PATH and cannot be executed (%s)", program,
                        strerror(seen));
    if (executable(program, &error))
        return complain(err, size, RUN_EXIT_NOT_FOUND,
                        "%s is not in PATH; did you mean ./%s?", program, program);
    return complain(err, size, RUN_EXIT_NOT_FOUND, "%s: not found in PATH", program);
}

/* --- what kind of file it is --- */

static bool pread_all(int fd, void *buf, size_t len, off_t offset)
{
    return pread(fd, buf, len, offset) == (ssize_t)len;
}

/* The name of the program loader that an ELF file asks for; "" if it asks for none. False:
 * the file cannot be understood. */
static bool elf_interpreter(int fd, const ElfW(Ehdr) * header, char *name, size_t size)
{
    name[0] = '\0';
    if (header->e_phentsize != sizeof(ElfW(Phdr)))
        return false;
    for (unsigned i = 0; i < header->e_phnum; i++) {
        ElfW(Phdr) phdr;
        off_t offset = (off_t)(header->e_phoff + i * sizeof(phdr));

        if (!pread_all(fd, &phdr, sizeof(phdr), offset))
            return false;
        if (phdr.p_type != PT_INTERP)
            continue;
        if (phdr.p_filesz == 0 || phdr.p_filesz > size ||
            !pread_all(fd, name, phdr.p_filesz, (off_t)phdr.p_offset))
            return false;
        name[phdr.p_filesz - 1] = '\0';
        return true;
    }
    return true;
}

static const char *base_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static int check_elf(const char *path, int fd, const char *wrapper, char *err, size_t size)
{
    ElfW(Ehdr) header, ours;
    char interpreter[PATH_MAX];

    if (!pread_all(fd, &header, sizeof(header), 0))
        return 0;
    int wrapper_fd = open(wrapper, O_RDONLY | O_CLOEXEC);
    bool known = wrapper_fd >= 0 && pread_all(wrapper_fd, &ours, sizeof(ours), 0);
    if (wrapper_fd >= 0)
        close(wrapper_fd);
    if (!known)
        return 0;

    /* e_machine is at the same place in both classes; in the other byte order it differs,
     * too */
    if (header.e_ident[EI_CLASS] != ours.e_ident[EI_CLASS] ||
        header.e_ident[EI_DATA] != ours.e_ident[EI_DATA] ||
        header.e_machine != ours.e_machine)
        return complain(
            err, size, RUN_EXIT_CANNOT_EXEC,
            "%s is a %d-bit program for machine type %u, and %s is for %d-bit, type "
            "%u: it would be ignored, " NOT_SHARED
            ". Use a dyad that was built for that kind of program",
            path, header.e_ident[EI_CLASS] == ELFCLASS32 ? 32 : 64,
            (unsigned)header.e_machine, base_of(wrapper),
            ours.e_ident[EI_CLASS] == ELFCLASS32 ? 32 : 64, (unsigned)ours.e_machine);
    if (!elf_interpreter(fd, &header, interpreter, sizeof(interpreter)))
        return 0;
    if (!interpreter[0])
        return complain(err, size, RUN_EXIT_CANNOT_EXEC,
                        "%s is linked statically: nothing reads LD_PRELOAD, " NOT_SHARED
                        ". Link it dynamically (without -static)",
                        path);
    if (strncmp(base_of(interpreter), "ld-musl", 7) == 0)
        return complain(err, size, RUN_EXIT_CANNOT_EXEC,
                        "%s uses another C library than glibc (%s): the library cannot be "
                        "loaded into it",
                        path, interpreter);
    return 0;
}

/* The loader ignores LD_PRELOAD where the kernel raises privileges (AT_SECURE). */
static int check_privileges(const char *path, int fd, char *err, size_t size)
{
    struct stat st;
    struct statvfs fs;
    const char *what = NULL;
    char value[64];

    if (fstat(fd, &st) < 0 || prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1)
        return 0;
    if (fstatvfs(fd, &fs) == 0 && (fs.f_flag & ST_NOSUID))
        return 0;
    if ((st.st_mode & S_ISUID) && st.st_uid != getuid())
        what = "is setuid";
    else if ((st.st_mode & (S_ISGID | S_IXGRP)) == (S_ISGID | S_IXGRP) &&
             st.st_gid != getgid())
        what = "is setgid";
    else if (getuid() != 0 &&
             fgetxattr(fd, "security.capability", value, sizeof(value)) > 0)
        what = "has file capabilities";
    if (!what)
        return 0;
    return complain(err, size, RUN_EXIT_CANNOT_EXEC,
                    "%s %s: the loader ignores LD_PRELOAD in such programs, " NOT_SHARED
                    ". Run a copy without that privilege (cp drops it)",
                    path, what);
}

static int check_program(const char *path, const char *wrapper, const char *path_env,
                         unsigned depth, char *err, size_t size);

/* "#!/path argument": both words are cut out of `line`. */
static bool script_words(char *line, char **interpreter, char **argument)
{
    char *p = line + 2 + strspn(line + 2, " \t");

    *interpreter = p;
    p += strcspn(p, " \t\n");
    if (p == *interpreter)
        return false;
    if (!*p) {
        *argument = p;
        return true;
    }
    if (*p == '\n') {
        *p = '\0';
        *argument = p;
        return true;
    }
    *p++ = '\0';
    p += strspn(p, " \t");
    p[strcspn(p, "\n")] = '\0';
    *argument = p;
    return true;
}

/* The program that "env [-S] [NAME=VALUE] PROGRAM" in a script's first line starts, or
 * NULL. */
static char *env_program(char *argument)
{
    char *save = NULL;

    for (char *word = strtok_r(argument, " \t", &save); word;
         word = strtok_r(NULL, " \t", &save)) {
        if (strncmp(word, "-S", 2) == 0 && word[2])
            return word + 2;
        if (word[0] != '-' && !strchr(word, '='))
            return word;
    }
    return NULL;
}

static int check_script(const char *path, char *line, const char *wrapper,
                        const char *path_env, unsigned depth, char *err, size_t size)
{
    char *interpreter, *argument, *program, found[PATH_MAX], why[1024];
    int status = 0;

    if (!script_words(line, &interpreter, &argument))
        return 0;
    if (access(interpreter, F_OK) < 0 && errno == ENOENT) {
        size_t len = strlen(interpreter);
        bool dos = len && interpreter[len - 1] == '\r';
        if (dos)
            interpreter[len - 1] = '\0';
        return complain(err, size, RUN_EXIT_NOT_FOUND, "%s is a script of %s, %s", path,
                        interpreter,
                        dos ? "and its first line ends in CR LF: convert it (dos2unix)"
                            : "which does not exist");
    }
    status = check_program(interpreter, wrapper, path_env, depth + 1, why, sizeof(why));
    if (status == 0 && strcmp(base_of(interpreter), "env") == 0 &&
        (program = env_program(argument)) &&
        run_check_find(program, path_env, found, sizeof(found), why, sizeof(why)) == 0)
        status = check_program(found, wrapper, path_env, depth + 1, why, sizeof(why));
    if (status)
        return complain(err, size, status, "%s is a script; %s", path, why);
    return 0;
}

static int check_program(const char *path, const char *wrapper, const char *path_env,
                         unsigned depth, char *err, size_t size)
{
    char line[512];
    int status = 0;

    if (depth > SCRIPT_DEPTH)
        return 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return 0;
    ssize_t n = pread(fd, line, sizeof(line) - 1, 0);
    line[n > 0 ? n : 0] = '\0';
    if (n >= SELFMAG && memcmp(line, ELFMAG, SELFMAG) == 0) {
        status = check_elf(path, fd, wrapper, err, size);
        if (status == 0)
            status = check_privileges(path, fd, err, size);
    } else if (n > 2 && line[0] == '#' && line[1] == '!') {
        status = check_script(path, line, wrapper, path_env, depth, err, size);
    }
    close(fd);
    return status;
}

int run_check_preload(const char *path, const char *wrapper, const char *path_env,
                      char *err, size_t size)
{
    return check_program(path, wrapper, path_env, 0, err, size);
}

/* --- directories and files --- */

static int make_directories(const char *path)
{
    char copy[PATH_MAX];

    snprintf(copy, sizeof(copy), "%s", path);
    for (char *p = copy + strspn(copy, "/"); *p;) {
        p += strcspn(p, "/");
        char *end = p;
        p += strspn(p, "/");
        char c = *end;
        *end = '\0';
        if (mkdir(copy, 0700) < 0 && errno != EEXIST)
            return -1;
        *end = c;
    }
    return 0;
}

int run_check_directory(const char *name, const char *path, bool make, char *err,
                        size_t size)
{
    char host[256] = "?";
    struct stat st;

    gethostname(host, sizeof(host) - 1);
    if (stat(path, &st) < 0 && errno == ENOENT && make && make_directories(path) < 0)
        return complain(err, size, RUN_EXIT_FAILURE, "%s=%s: cannot be made on %s: %s",
                        name, path, host, strerror(errno));
    if (stat(path, &st) < 0) {
        if (errno == ENOENT)
            return complain(
                err, size, RUN_EXIT_FAILURE,
                "%s=%s: no such directory on %s; make it on every node (mkdir -p "
                "%s), or add --mkdir",
                name, path, host, path);
        return complain(err, size, RUN_EXIT_FAILURE, "%s=%s: cannot be looked at on %s: %s",
                        name, path, host, strerror(errno));
    }
    if (!S_ISDIR(st.st_mode))
        return complain(err, size, RUN_EXIT_FAILURE, "%s=%s: not a directory on %s", name,
                        path, host);
    if (faccessat(AT_FDCWD, path, R_OK | W_OK | X_OK, AT_EACCESS) < 0)
        return complain(
            err, size, RUN_EXIT_FAILURE,
            "%s=%s: not writable on %s (%s); files are made there also when they "
            "are only read, so choose a directory that you may write to",
            name, path, host, strerror(errno));
    return 0;
}

/* The first process makes the directory, but none above it: a mistyped path would be one
 * that only this node has. */
static int check_session_parent(const char *name, const char *path, const char *host,
                                char *err, size_t size)
{
    char copy[PATH_MAX], *parent;
    struct stat st;

    snprintf(copy, sizeof(copy), "%s", path);
    parent = dirname(copy);
    if (stat(parent, &st) < 0)
        return complain(
            err, size, RUN_EXIT_FAILURE,
            "%s=%s: %s is not there on %s (%s); if it is not mistyped, make it (mkdir -p "
            "%s), on a file system that all nodes see",
            name, path, parent, host, strerror(errno), parent);
    if (!S_ISDIR(st.st_mode))
        return complain(err, size, RUN_EXIT_FAILURE, "%s=%s: %s is not a directory on %s",
                        name, path, parent, host);
    if (faccessat(AT_FDCWD, parent, W_OK | X_OK, AT_EACCESS) < 0)
        return complain(
            err, size, RUN_EXIT_FAILURE,
            "%s=%s: cannot be made on %s, since %s is not writable (%s); choose "
            "another, on a file system that all nodes see",
            name, path, host, parent, strerror(errno));
    return 0;
}

int run_check_session_dir(const char *name, const char *path, char *err, size_t size)
{
    char host[256] = "?";
    struct stat st;

    gethostname(host, sizeof(host) - 1);
    if (stat(path, &st) < 0) {
        if (errno == ENOENT)
            return check_session_parent(name, path, host, err, size);
        return complain(err, size, RUN_EXIT_FAILURE, "%s=%s: cannot be looked at on %s: %s",
                        name, path, host, strerror(errno));
    }
    if (!S_ISDIR(st.st_mode))
        return complain(err, size, RUN_EXIT_FAILURE, "%s=%s: not a directory on %s", name,
                        path, host);
    if (st.st_uid != geteuid() || (st.st_mode & 077))
        return complain(err, size, RUN_EXIT_FAILURE,
                        "%s=%s: must be yours and closed to others (it is of user %u, "
                        "mode %04o): chmod 700 %s, or take another",
                        name, path, (unsigned)st.st_uid, (unsigned)st.st_mode & 07777,
                        path);
    if (faccessat(AT_FDCWD, path, R_OK | W_OK | X_OK, AT_EACCESS) < 0)
        return complain(
            err, size, RUN_EXIT_FAILURE,
            "%s=%s: not writable on %s (%s); each process of the session puts its "
            "address there",
            name, path, host, strerror(errno));
    return 0;
}

/* What the library does not open (util/log.c), or cannot. NULL: it does. */
static const char *why_no_log(const char *path, char *buf, size_t size)
{
    char copy[PATH_MAX], target[PATH_MAX];
    struct stat st;

    if (strcmp(path, "/dev/stdout") == 0 || strcmp(path, "/dev/stderr") == 0)
        return NULL;
    if (lstat(path, &st) == 0 && S_ISLNK(st.st_mode)) {
        if (util_is_another(st.st_uid)) {
            snprintf(buf, size, "it is a symbolic link of user %u", (unsigned)st.st_uid);
            return buf;
        }
        if (readlink(path, target, sizeof(target)) > 0 && target[0] != '/')
            return "it is a symbolic link to a relative path";
    }
    if (stat(path, &st) == 0) {
        if (S_ISDIR(st.st_mode))
            return strerror(EISDIR);
        if (!S_ISREG(st.st_mode) && !S_ISCHR(st.st_mode))
            return "it is neither a file nor a terminal";
        if (faccessat(AT_FDCWD, path, W_OK, AT_EACCESS) == 0)
            return NULL;
    } else if (errno == ENOENT) {
        snprintf(copy, sizeof(copy), "%s", path);
        if (faccessat(AT_FDCWD, dirname(copy), W_OK | X_OK, AT_EACCESS) == 0)
            return NULL;
    }
    return strerror(errno);
}

int run_check_file(const char *name, const char *path, char *err, size_t size)
{
    char buf[64];
    const char *why = why_no_log(path, buf, sizeof(buf));

    if (!why)
        return 0;
    return complain(err, size, RUN_EXIT_FAILURE, "%s=%s: cannot be written: %s", name, path,
                    why);
}

unsigned run_check_managed(const struct engine_config *config, struct run_place places[2])
{
    const char *both = getenv("DYAD_PATH");
    const char *paths[2] = {config->path_producer, config->path_consumer};
    static const char *const names[2] = {"DYAD_PATH_PRODUCER", "DYAD_PATH_CONSUMER"};
    unsigned n = 0;

    for (unsigned i = 0; i < 2; i++) {
        if (!paths[i] || (n && strcmp(places[0].path, paths[i]) == 0))
            continue;
        places[n].name = both && strcmp(both, paths[i]) == 0 ? "DYAD_PATH" : names[i];
        places[n++].path = paths[i];
    }
    return n;
}
