/*
 * bench_open.c - what the preloaded library costs calls outside of the managed directory:
 * bench_open WRAPPER [ROUNDS]
 *
 * Runs itself with and without WRAPPER (libdyad_wrapper.so) preloaded, in turns, and shows
 * of each call the fastest batch, in processor time. No launcher, no member: the engine is
 * not even loaded.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define TURNS   9
#define BATCHES 10
#define FILES   256
#define ALONE   512 /* descriptors at once: below the usual limit */

static char top[200];
static unsigned long rounds = 512;

enum call {
    OPEN_ABSOLUTE,
    OPEN_DEEP,
    OPEN_DOTDOT,
    OPEN_LINK,
    OPEN_RELATIVE,
    OPEN_RELATIVE_DIR,
    OPEN_AT,
    OPEN_MANY,
    OPEN_WRITE,
    OPEN_CREATE,
    OPEN_ABSENT,
    STAT_ABSOLUTE,
    STAT_RELATIVE,
    STAT_ABSENT,
    ALONE_ABSOLUTE,
    ALONE_RELATIVE,
    ALONE_CLOSE,
    CALLS
};

static const char *const names[CALLS] = {
    [OPEN_ABSOLUTE] = "open+close, absolute",
    [OPEN_DEEP] = "open+close, absolute, eight directories",
    [OPEN_DOTDOT] = "open+close, with \"..\"",
    [OPEN_LINK] = "open+close, through a link",
    [OPEN_RELATIVE] = "open+close, relative, no directory",
    [OPEN_RELATIVE_DIR] = "open+close, relative, a directory",
    [OPEN_AT] = "openat+close, by descriptor",
    [OPEN_MANY] = "open+close, 256 files in 16 directories",
    [OPEN_WRITE] = "open+close for writing",
    [OPEN_CREATE] = "open+close+unlink of a new file",
    [OPEN_ABSENT] = "open of what is not there",
    [STAT_ABSOLUTE] = "stat, absolute",
    [STAT_RELATIVE] = "stat, relative",
    [STAT_ABSENT] = "stat of what is not there",
    [ALONE_ABSOLUTE] = "open alone, absolute",
    [ALONE_RELATIVE] = "open alone, relative, a directory",
    [ALONE_CLOSE] = "close alone",
};

static void must(int ok, const char *what)
{
    if (!ok) {
        perror(what);
        exit(1);
    }
}

static const char *at(const char *name)
{
    static char texts[8][512];
    static unsigned next;
    char *text = texts[next++ % 8];

    snprintf(text, sizeof(texts[0]), "%s/%s", top, name);
    return text;
}

static void open_close(int dirfd, const char *path, int flags)
{
    int fd = dirfd == AT_FDCWD ? open(path, flags, 0600) : openat(dirfd, path, flags, 0600);

    must(fd >= 0, path);
    close(fd);
}

static char many[FILES][300];

static void call(enum call which, unsigned long i, int dirfd, const char *path)
{
    struct stat st;

    switch (which) {
    case OPEN_AT:
        open_close(dirfd, "file", O_RDONLY);
        break;
    case OPEN_MANY:
        open_close(AT_FDCWD, many[i % FILES], O_RDONLY);
        break;
    case OPEN_WRITE:
        open_close(AT_FDCWD, path, O_WRONLY);
        break;
    case OPEN_CREATE:
        open_close(AT_FDCWD, path, O_WRONLY | O_CREAT | O_EXCL);
        must(unlink(path) == 0, path);
        break;
    case OPEN_ABSENT:
        must(open(path, O_RDONLY) < 0, path);
        break;
    case STAT_ABSOLUTE:
    case STAT_RELATIVE:
        must(stat(path, &st) == 0, path);
        break;
    case STAT_ABSENT:
        must(stat(path, &st) < 0, path);
        break;
    default:
        open_close(AT_FDCWD, path, O_RDONLY);
    }
}

/* The thread's own time: other processes of the machine do not count. */
static double cpu_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
    return (double)ts.tv_sec * 1e9 + (double)ts.tv_nsec;
}

/* One batch of opens whose files are closed afterwards, or the closes after them. */
static double alone_ns(enum call which, const char *path)
{
    static int fds[ALONE];
    double opening = cpu_ns(), closing;

    for (int i = 0; i < ALONE; i++)
        fds[i] = open(path, O_RDONLY);
    closing = cpu_ns();
    for (int i = 0; i < ALONE; i++)
        must(close(fds[i]) == 0, path);
    return (which == ALONE_CLOSE ? cpu_ns() - closing : closing - opening) / ALONE;
}

static double batch_ns(enum call which, int dirfd, const char *path)
{
    double start = cpu_ns();

    if (which >= ALONE_ABSOLUTE)
        return alone_ns(which, path);
    for (unsigned long i = 0; i < rounds; i++)
        call(which, i, dirfd, path);
    return (cpu_ns() - start) / (double)rounds;
}

/* In the child: a line of nanoseconds for each call. */
static int measure(void)
{
    const char *const paths[CALLS] = {
        [OPEN_ABSOLUTE] = at("out/d/file"),
        [OPEN_DEEP] = at("out/1/2/3/4/5/6/7/file"),
        [OPEN_DOTDOT] = at("out/d/../d/file"),
        [OPEN_LINK] = at("out/link/file"),
        [OPEN_RELATIVE] = "file",
        [OPEN_RELATIVE_DIR] = "d/file",
        [OPEN_WRITE] = "d/file",
        [OPEN_CREATE] = "d/new",
        [OPEN_ABSENT] = "d/none",
        [STAT_ABSOLUTE] = at("out/d/file"),
        [STAT_RELATIVE] = "d/file",
        [STAT_ABSENT] = "d/none",
        [ALONE_ABSOLUTE] = at("out/d/file"),
        [ALONE_RELATIVE] = "d/file",
        [ALONE_CLOSE] = at("out/d/file"),
    };
    char copies[CALLS][512];
    int dirfd;

    for (int c = 0; c < CALLS; c++)
        snprintf(copies[c], sizeof(copies[c]), "%s", paths[c] ? paths[c] : "");
    for (int i = 0; i < FILES; i++)
        snprintf(many[i], sizeof(many[i]), "%s/out/many%d/%d", top, i % 16, i);
    must(chdir(at("out")) == 0, "chdir");
    dirfd = open("d", O_RDONLY | O_DIRECTORY);
    for (int c = 0; c < CALLS; c++) {
        double best = 0;
        for (int batch = 0; batch < BATCHES; batch++) {
            double ns = batch_ns((enum call)c, dirfd, copies[c]);
            if (batch == 0 || ns < best)
                best = ns;
        }
        printf("%.1f\n", best);
    }
    return 0;
}

static void turn(const char *self, const char *wrapper, double *best)
{
    char command[1024], line[64];
    FILE *f;

    snprintf(command, sizeof(command), "%s%s DYAD_PATH='%s/dmd' '%s' -m '%s' %lu",
             wrapper ? "LD_PRELOAD=" : "", wrapper ? wrapper : "", top, self, top, rounds);
    must((f = popen(command, "r")) != NULL, command);
    for (int c = 0; c < CALLS; c++) {
        must(fgets(line, sizeof(line), f) != NULL, "a child's answer");
        double ns = strtod(line, NULL);
        if (best[c] <= 0 || ns < best[c])
            best[c] = ns;
    }
    must(pclose(f) == 0, command);
}

static void make_tree(void)
{
    char command[2048];

    snprintf(
        command, sizeof(command),
        "cd '%s' && mkdir -p dmd out/d out/1/2/3/4/5/6/7 && touch out/file out/d/file "
        "out/1/2/3/4/5/6/7/file && ln -s d out/link && cd out && for i in $(seq 0 15); do "
        "mkdir many$i; done && for i in $(seq 0 255); do touch many$((i %% 16))/$i; done",
        top);
    must(system(command) == 0, command);
}

int main(int argc, char **argv)
{
    double plain[CALLS] = {0}, preloaded[CALLS] = {0};
    char command[300];

    if (argc == 4 && !strcmp(argv[1], "-m")) {
        snprintf(top, sizeof(top), "%s", argv[2]);
        rounds = strtoul(argv[3], NULL, 10);
        return measure();
    }
    if (argc < 2) {
        fprintf(stderr, "usage: bench_open libdyad_wrapper.so [ROUNDS]\n");
        return 2;
    }
    if (argc > 2)
        rounds = strtoul(argv[2], NULL, 10);
    snprintf(top, sizeof(top), "/tmp/bench-open-XXXXXX");
    must(mkdtemp(top) != NULL, top);
    make_tree();
    for (int i = 0; i < TURNS; i++) {
        turn(argv[0], NULL, plain);
        turn(argv[0], argv[1], preloaded);
    }
    printf("%-42s %10s %10s %8s %6s\n", "ns", "plain", "preloaded", "more", "ratio");
    for (int c = 0; c < CALLS; c++)
        printf("%-42s %10.0f %10.0f %8.0f %6.2f\n", names[c], plain[c], preloaded[c],
               preloaded[c] - plain[c], preloaded[c] / plain[c]);
    snprintf(command, sizeof(command), "rm -rf '%s'", top);
    return system(command);
}
