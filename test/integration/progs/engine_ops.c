/*
 * client_ops.c - the engine's table, called by hand
 *
 * engine_ops DMD SCRIPT OUTPUT|-: runs the lines of a script in a process below the
 * preload, without the wrapper's part in it: names are changed by system calls, and the
 * engine is told of it.
 *
 *   mkdir|rmdir|unlink U, symlink TARGET U, chmod MODE U, touch SECONDS U, rename FROM TO
 *   mkdir-quietly U, put U without telling the engine: a directory, an empty file
 *   write U TEXT           through the wrapper
 *   consume|get U          waiting or not; says "consume U: 0" or an errno's name
 *   lookup|list|parents|tree|here U
 *   many U N               writes N files u/0 ... u/N-1
 *   count U                how many names list() gives, and whether one comes twice
 *   storm N, all           random changes; all names and types that are published
 *   mark FILE, until FILE  between the ranks
 *   freeze SECONDS FILE    stopped, as by SIGSTOP; a mark once that is so
 *   exec SCRIPT            the same process, a new image
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "client/client_ops.h"

static const struct engine_ops *ops;
static const char *dmd;

/* libc's own syscall(): the wrapper has one that tells the engine. */
static long (*untold)(long number, ...);

static void die(const char *what)
{
    fprintf(stderr, "engine_ops: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void nap(void)
{
    struct timespec time = {.tv_nsec = 2000000};
    nanosleep(&time, NULL);
}

/* The engine that the wrapper has opened. */
static void find_engine(void)
{
    engine_ops_get_fn get;
    char path[PATH_MAX];
    struct stat st;
    void *handle;

    snprintf(path, sizeof(path), "%s/no-such-file", dmd);
    if (stat(path, &st) == 0) /* loads it in a guest */
        die(path);
    snprintf(path, sizeof(path), "%s/libdyad.so.1", getenv("ENGINE_LIB"));
    for (int i = 0; !(handle = dlopen(path, RTLD_NOW | RTLD_NOLOAD)); i++) {
        if (i == 5000)
            die(path);
        nap();
    }
    get = (engine_ops_get_fn)(uintptr_t)dlsym(handle, ENGINE_OPS_SYMBOL);
    if (!get || !(ops = get(ENGINE_ABI)))
        die("dyad_engine_ops");
    if (!(handle = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD)) ||
        !(untold = (long (*)(long, ...))(uintptr_t)dlsym(handle, "syscall")))
        die("libc.so.6");
}

static const char *full(const char *upath)
{
    static char path[2][PATH_MAX];
    static int turn;

    turn = !turn;
    snprintf(path[turn], PATH_MAX, "%s/%s", dmd, upath);
    return path[turn];
}

static const char *result(int rc)
{
    return rc == 0 ? "0" : strerrorname_np(errno);
}

static const char *type_name(mode_t mode)
{
    return S_ISDIR(mode) ? "dir" : S_ISLNK(mode) ? "link" : S_ISREG(mode) ? "file" : "?";
}

static void say_here(const char *upath)
{
    char target[PATH_MAX] = "";
    struct stat st;

    if (untold(SYS_newfstatat, AT_FDCWD, full(upath), &st, AT_SYMLINK_NOFOLLOW) < 0) {
        printf("here %s: %s\n", upath, strerrorname_np(errno));
        return;
    }
    if (S_ISLNK(st.st_mode))
        untold(SYS_readlinkat, AT_FDCWD, full(upath), target, sizeof(target) - 1);
    printf("here %s: %s %o%s%s\n", upath, type_name(st.st_mode), st.st_mode & 07777,
           target[0] ? " -> " : "", target);
}

struct names {
    char **name;
    size_t n;
};

static int note(void *arg, const char *name, unsigned char type)
{
    struct names *names = arg;

    names->name = realloc(names->name, (names->n + 1) * sizeof(char *));
    if (asprintf(&names->name[names->n++], "%s:%s", name, type_name(DTTOIF(type))) < 0)
        die("asprintf");
    return 0;
}

static int compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void say_list(const char *upath, bool count)
{
    struct names names = {0};
    size_t twice = 0;
    int rc = ops->list(ENGINE_CONSUMER, upath, note, &names);

    if (names.n > 0)
        qsort(names.name, names.n, sizeof(char *), compare);
    printf("%s %s: %s", count ? "count" : "list", upath, result(rc));
    for (size_t i = 0; i < names.n; i++) {
        if (!count)
            printf(" %s", names.name[i]);
        twice += i > 0 && strcmp(names.name[i], names.name[i - 1]) == 0;
    }
    if (count)
        printf(" %zu %zu", names.n, twice);
    printf("\n");
}

static void write_file(const char *upath, const char *text)
{
    int fd = open(full(upath), O_WRONLY | O_CREAT | O_TRUNC, 0644);

    if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text) || close(fd) < 0)
        die(upath);
}

static void say_lookup(const char *upath)
{
    struct stat st;
    int rc = ops->lookup(ENGINE_CONSUMER, upath, &st);

    if (rc < 0)
        printf("lookup %s: %s\n", upath, result(rc));
    else
        printf("lookup %s: %s %o %lld\n", upath, type_name(st.st_mode), st.st_mode & 07777,
               (long long)(S_ISDIR(st.st_mode) ? 0 : st.st_size));
}

static void tell(const char *what, const char *upath, long rc, bool changed)
{
    if (rc < 0)
        die(what);
    if ((changed ? ops->changed(ENGINE_PRODUCER, upath)
                 : ops->unlinked(ENGINE_PRODUCER, upath, true, NULL)) < 0)
        printf("%s %s: %s\n", what, upath, result(-1));
}

/* --- storm: N random changes of few names, any of which may fail --- */

static void storm_name(char name[32])
{
    static const char *const names[] = {"a", "b", "c"};

    if (random() % 2)
        snprintf(name, 32, "%s", names[random() % 3]);
    else
        snprintf(name, 32, "%s/%s", names[random() % 3], names[random() % 3]);
}

static void storm_step(void)
{
    const int at = AT_FDCWD;
    char a[32], b[32];
    struct stat st;
    int fd;

    storm_name(a);
    storm_name(b);
    switch (random() % 10) {
    case 0:
    case 1:
        if (untold(SYS_mkdirat, at, full(a), 0755) == 0)
            ops->changed(ENGINE_PRODUCER, a);
        break;
    case 2:
        if (untold(SYS_symlinkat, b, at, full(a)) == 0)
            ops->changed(ENGINE_PRODUCER, a);
        break;
    case 3:
        fd = open(full(a), O_WRONLY | O_CREAT | O_TRUNC, 0644);
        if (fd >= 0 && write(fd, b, strlen(b)) > 0)
            close(fd);
        break;
    case 4:
        if (untold(SYS_unlinkat, at, full(a), AT_REMOVEDIR) == 0 ||
            untold(SYS_unlinkat, at, full(a), 0) == 0)
            ops->unlinked(ENGINE_PRODUCER, a, true, NULL);
        break;
    case 5:
        if (untold(SYS_renameat2, at, full(a), at, full(b), 0) == 0)
            ops->renamed(ENGINE_PRODUCER, a, b, NULL);
        break;
    case 6:
        ops->consume(ENGINE_CONSUMER, a, false);
        break;
    case 7:
        ops->bring_tree(ENGINE_CONSUMER, a);
        break;
    case 8:
        ops->lookup(ENGINE_CONSUMER, a, &st);
        ops->bring_parents(ENGINE_CONSUMER, b);
        break;
    case 9:
        if (untold(SYS_fchmodat, at, full(a), 0700 | (random() & 077)) == 0)
            ops->changed(ENGINE_PRODUCER, a);
        break;
    }
}

static void storm(int n)
{
    srandom((unsigned)(atoi(getenv("PMIX_RANK")) + 1000 * atoi(getenv("STORM_SEED"))));
    while (n-- > 0)
        storm_step();
}

/* Names that list() gives, below too, with their types as look-ups tell them: the same on
 * every rank, in whatever order the others do it. */
static void say_all(const char *upath)
{
    struct names names = {0};
    char below[PATH_MAX];
    struct stat st;

    if (ops->list(ENGINE_CONSUMER, upath, note, &names) < 0)
        die("list");
    if (names.n > 0)
        qsort(names.name, names.n, sizeof(char *), compare);
    for (size_t i = 0; i < names.n; i++) {
        char *type = strrchr(names.name[i], ':');
        *type++ = '\0';
        snprintf(below, sizeof(below), "%s%s%s", upath, upath[0] ? "/" : "", names.name[i]);
        if (ops->lookup(ENGINE_CONSUMER, below, &st) < 0)
            printf("%s: %s in the list, %s\n", below, type, strerrorname_np(errno));
        else
            printf("%s: %s%s\n", below, type,
                   strcmp(type, type_name(st.st_mode)) == 0 ? "" : " in the list only");
        if (strcmp(type, "dir") == 0)
            say_all(below);
    }
}

static bool is_stopped(pid_t pid)
{
    char path[64], text[512] = "";
    FILE *stat;

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    if (!(stat = fopen(path, "r")))
        return false;
    if (!fgets(text, sizeof(text), stat))
        text[0] = '\0';
    fclose(stat);
    return strstr(text, ") T ") != NULL;
}

static void make_mark(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT, 0644);

    if (fd < 0 || close(fd) < 0)
        die(path);
}

static void freeze(unsigned seconds, const char *mark)
{
    pid_t self = getpid(), pid = fork();

    if (pid == 0) {
        while (!is_stopped(self))
            nap();
        make_mark(mark);
        sleep(seconds);
        kill(self, SIGCONT);
        _exit(0);
    }
    if (pid < 0 || raise(SIGSTOP) < 0 || waitpid(pid, NULL, 0) != pid)
        die("freeze");
}

static void run(const char *word, const char *a, const char *b)
{
    const int at = AT_FDCWD;

#define IS(w) (strcmp(word, w) == 0)
    if (IS("mkdir")) {
        tell(word, a, untold(SYS_mkdirat, at, full(a), 0755), true);
    } else if (IS("mkdir-quietly")) {
        if (untold(SYS_mkdirat, at, full(a), 0755) < 0)
            die(word);
    } else if (IS("put")) {
        long fd = untold(SYS_openat, at, full(a), O_WRONLY | O_CREAT | O_EXCL, 0644);
        if (fd < 0 || untold(SYS_close, fd) < 0)
            die(word);
    } else if (IS("symlink")) {
        tell(word, b, untold(SYS_symlinkat, a, at, full(b)), true);
    } else if (IS("chmod")) {
        tell(word, b, untold(SYS_fchmodat, at, full(b), strtol(a, NULL, 8)), true);
    } else if (IS("touch")) {
        struct timespec times[2] = {{.tv_nsec = UTIME_NOW}, {.tv_sec = atol(a)}};
        if (times[1].tv_sec == 0)
            times[1].tv_nsec = UTIME_OMIT;
        tell(word, b, untold(SYS_utimensat, at, full(b), times, 0), true);
    } else if (IS("rmdir")) {
        tell(word, a, untold(SYS_unlinkat, at, full(a), AT_REMOVEDIR), false);
    } else if (IS("unlink")) {
        tell(word, a, untold(SYS_unlinkat, at, full(a), 0), false);
    } else if (IS("rename")) {
        if (untold(SYS_renameat2, at, full(a), at, full(b), 0) < 0)
            die(word);
        printf("rename %s: %s\n", a, result(ops->renamed(ENGINE_PRODUCER, a, b, NULL)));
    } else if (IS("write")) {
        write_file(a, b);
    } else if (IS("many")) {
        char name[PATH_MAX];
        for (int i = 0; i < atoi(b); i++) {
            snprintf(name, sizeof(name), "%s/%0100d.%s", a, i, getenv("PMIX_RANK"));
            write_file(name, "x");
        }
    } else if (IS("consume") || IS("get")) {
        int rc = ops->consume(ENGINE_CONSUMER, a, IS("consume"));
        printf("%s %s: %s\n", word, a, result(rc));
    } else if (IS("lookup")) {
        say_lookup(a);
    } else if (IS("list") || IS("count")) {
        say_list(strcmp(a, ".") == 0 ? "" : a, IS("count"));
    } else if (IS("parents")) {
        printf("parents %s: %s\n", a, result(ops->bring_parents(ENGINE_CONSUMER, a)));
    } else if (IS("tree")) {
        int rc = ops->bring_tree(ENGINE_CONSUMER, strcmp(a, ".") == 0 ? "" : a);
        printf("tree %s: %s\n", a, result(rc));
    } else if (IS("here")) {
        say_here(a);
    } else if (IS("mark")) {
        make_mark(a);
    } else if (IS("storm")) {
        storm(atoi(a));
    } else if (IS("all")) {
        say_all("");
    } else if (IS("freeze")) {
        freeze((unsigned)atoi(a), b);
    } else if (IS("exec")) {
        execl("/proc/self/exe", "engine_ops", dmd, a, "-", (char *)NULL);
        die(word);
    } else if (IS("until")) {
        while (access(a, F_OK) < 0)
            nap();
    } else {
        errno = EINVAL;
        die(word);
    }
#undef IS
}

int main(int argc, char **argv)
{
    char line[2 * PATH_MAX];
    FILE *script;

    if (argc != 4 || !(script = fopen(argv[2], "r")) ||
        (strcmp(argv[3], "-") != 0 && !freopen(argv[3], "w", stdout))) {
        fprintf(stderr, "usage: engine_ops DMD SCRIPT OUTPUT\n");
        return 2;
    }
    dmd = argv[1];
    find_engine();
    while (fgets(line, sizeof(line), script)) {
        char *word = strtok(line, " \n"), *a = strtok(NULL, " \n"), *b = strtok(NULL, "\n");
        if (word && word[0] != '#')
            run(word, a ? a : "", b ? b : "");
        fflush(stdout);
    }
    fclose(script);
    return 0;
}
