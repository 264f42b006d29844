/*
 * bench_outside.c - what programs pay that never touch a managed directory
 *
 *   bench_outside WRAPPER DMD
 *
 * Without a launcher: the start of an unlaunched program, and its calls outside of the DMD.
 * As a rank (mpirun -n 1 bench_outside ...; itself without LD_PRELOAD): the start of a
 * guest, and how much later main of the rank's first process begins. With and without the
 * preload in turns, so that both see the same machine. Starts: medians of elapsed time;
 * calls: the least processor time of many turns, which a busy machine disturbs little. The
 * last column compares with what is allowed. Nothing is asserted. BENCH_OUTSIDE in the
 * environment names a directory for the calls, with a file some/file in it.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ROUNDS     301
#define CALL_TURNS 41
#define CALLS      5000

static char self[PATH_MAX], *preload_env[1024], *plain_env[1024];

static uint64_t clock_ns(clockid_t clock)
{
    struct timespec ts;

    clock_gettime(clock, &ts);
    return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

static uint64_t now(void)
{
    return clock_ns(CLOCK_MONOTONIC);
}

static void die(const char *what)
{
    perror(what);
    exit(1);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *v, size_t n)
{
    qsort(v, n, sizeof(*v), by_value);
    return v[n / 2];
}

static double least(double *v, size_t n)
{
    qsort(v, n, sizeof(*v), by_value);
    return v[0];
}

static void show(const char *what, double plain, double with, const char *unit,
                 double scale, double bound)
{
    printf("%-46s %9.1f %9.1f %+9.1f %s  %.2f x", what, plain / scale, with / scale,
           (with - plain) / scale, unit, with / plain);
    if (bound > 0)
        printf("  allowed +%.0f %s: %s", bound / scale, unit,
               with - plain < bound ? "yes" : "NO");
    printf("\n");
    fflush(stdout);
}

static pid_t spawn(char *const argv[], bool preload, int out)
{
    posix_spawn_file_actions_t actions;
    pid_t pid;

    posix_spawn_file_actions_init(&actions);
    if (out >= 0)
        posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
    errno =
        posix_spawn(&pid, argv[0], &actions, NULL, argv, preload ? preload_env : plain_env);
    if (errno)
        die(argv[0]);
    posix_spawn_file_actions_destroy(&actions);
    return pid;
}

static void reap(pid_t pid)
{
    int status;

    if (waitpid(pid, &status, 0) < 0 || status != 0) {
        fprintf(stderr, "a child ended with %x\n", (unsigned)status);
        exit(1);
    }
}

static void bench_start(const char *what, char *const argv[])
{
    double t[2][ROUNDS];

    for (int i = 0; i < ROUNDS; i++) {
        for (int preload = 0; preload < 2; preload++) {
            uint64_t start = now();
            reap(spawn(argv, preload, -1));
            t[preload][i] = (double)(now() - start);
        }
    }
    show(what, median(t[0], ROUNDS), median(t[1], ROUNDS), "us", 1000, 1e6);
}

/* From exec to main, told by a child that is its rank's first process. */
static void bench_main(void)
{
    enum { N = 31 };
    double t[2][N];

    for (int i = 0; i < N; i++) {
        for (int preload = 0; preload < 2; preload++) {
            char *argv[] = {self, "stamp", NULL};
            uint64_t begin = now(), entered;
            int ends[2];
            if (pipe2(ends, O_CLOEXEC) < 0)
                die("pipe");
            pid_t pid = spawn(argv, preload, ends[1]);
            close(ends[1]);
            if (read(ends[0], &entered, sizeof(entered)) != sizeof(entered))
                die("stamp");
            close(ends[0]);
            reap(pid);
            t[preload][i] = (double)(entered - begin);
        }
    }
    show("exec to main of a rank's first process", median(t[0], N), median(t[1], N), "us",
         1000, 1e6);
}

/* --- calls --- */

static void check(int rc)
{
    if (rc < 0)
        die("a call");
}

static void missing(int rc)
{
    if (rc == 0 || errno != ENOENT)
        die("a call of what is missing");
}

/* $BENCH_OUTSIDE: a directory outside, with some/file in it; absolute names in it. */
static char some_file[PATH_MAX], some_none[PATH_MAX];
static int dirfd_tmp;
static struct stat st;

static void open_absolute(void)
{
    int fd = open(some_file, O_RDONLY);
    check(fd);
    close(fd);
}
static void open_relative(void)
{
    int fd = open("some/file", O_RDONLY);
    check(fd);
    close(fd);
}
static void open_write(void)
{
    int fd = open("some/file", O_WRONLY | O_CREAT, 0600);
    check(fd);
    close(fd);
}
static void open_at(void)
{
    int fd = openat(dirfd_tmp, "some/file", O_RDONLY);
    check(fd);
    close(fd);
}
static void stat_absolute(void)
{
    check(stat(some_file, &st));
}
static void stat_relative(void)
{
    check(stat("some/file", &st));
}
static void stat_missing(void)
{
    missing(stat(some_none, &st));
}
static void stat_missing_relative(void)
{
    missing(stat("some/none", &st));
}
static void access_absolute(void)
{
    check(access(some_file, R_OK));
}
static void access_missing_relative(void)
{
    missing(access("./some/none", R_OK));
}
static void stream(void)
{
    FILE *f = fopen("some/file", "r");
    if (!f)
        die("fopen");
    fclose(f);
}
static void dup_close(void)
{
    close(dup(dirfd_tmp));
}

static const struct {
    const char *what;
    void (*fn)(void);
} calls[] = {
    {"open+close, absolute", open_absolute},
    {"open+close, relative", open_relative},
    {"open+close for writing, relative", open_write},
    {"openat+close", open_at},
    {"stat, absolute", stat_absolute},
    {"stat, relative", stat_relative},
    {"stat of what is missing, absolute", stat_missing},
    {"stat of what is missing, relative", stat_missing_relative},
    {"access, absolute", access_absolute},
    {"access of what is missing, relative", access_missing_relative},
    {"fopen+fclose", stream},
    {"dup+close", dup_close},
};
#define NCALLS (sizeof(calls) / sizeof(calls[0]))

/* Child: one byte in, one figure for each call out. */
static int run_calls(void)
{
    double t[NCALLS];
    char byte;

    const char *outside = getenv("BENCH_OUTSIDE");
    if (!outside || chdir(outside) < 0)
        die("chdir to $BENCH_OUTSIDE");
    snprintf(some_file, sizeof(some_file), "%s/some/file", outside);
    snprintf(some_none, sizeof(some_none), "%s/some/none", outside);
    dirfd_tmp = open(".", O_RDONLY | O_DIRECTORY);
    while (read(STDIN_FILENO, &byte, 1) == 1) {
        for (size_t c = 0; c < NCALLS; c++) {
            uint64_t start = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
            for (int i = 0; i < CALLS; i++)
                calls[c].fn();
            t[c] = (double)(clock_ns(CLOCK_PROCESS_CPUTIME_ID) - start) / CALLS;
        }
        if (write(STDOUT_FILENO, t, sizeof(t)) != sizeof(t))
            return 1;
    }
    return 0;
}

struct caller {
    pid_t pid;
    int in, out;
};

static struct caller caller_start(bool preload)
{
    char *argv[] = {self, "calls", NULL};
    int in[2], out[2];

    if (pipe2(in, O_CLOEXEC) < 0 || pipe2(out, O_CLOEXEC) < 0)
        die("pipe");
    int saved = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 10);
    dup2(in[0], STDIN_FILENO);
    struct caller c = {spawn(argv, preload, out[1]), in[1], out[0]};
    dup2(saved, STDIN_FILENO);
    close(saved);
    close(in[0]);
    close(out[1]);
    return c;
}

static void bench_calls(void)
{
    static double t[2][NCALLS][CALL_TURNS];
    struct caller caller[2] = {caller_start(false), caller_start(true)};

    for (int turn = 0; turn < CALL_TURNS; turn++) {
        for (int p = 0; p < 2; p++) {
            double one[NCALLS];
            if (write(caller[p].in, "x", 1) != 1 ||
                read(caller[p].out, one, sizeof(one)) != sizeof(one))
                die("a caller");
            for (size_t c = 0; c < NCALLS; c++)
                t[p][c][turn] = one[c];
        }
    }
    for (size_t c = 0; c < NCALLS; c++)
        show(calls[c].what, least(t[0][c], CALL_TURNS), least(t[1][c], CALL_TURNS), "ns", 1,
             100);
    for (int p = 0; p < 2; p++) {
        close(caller[p].in);
        close(caller[p].out);
        reap(caller[p].pid);
    }
}

static void environments(const char *wrapper, const char *dmd)
{
    static char preload[PATH_MAX + 16], path[PATH_MAX + 16];
    extern char **environ;
    size_t n = 0;

    for (char **e = environ; *e && n < 1000; e++)
        if (strncmp(*e, "LD_PRELOAD=", 11) != 0 && strncmp(*e, "DYAD_", 5) != 0)
            plain_env[n++] = *e;
    memcpy(preload_env, plain_env, sizeof(plain_env));
    snprintf(preload, sizeof(preload), "LD_PRELOAD=%s", wrapper);
    snprintf(path, sizeof(path), "DYAD_PATH=%s", dmd);
    preload_env[n++] = preload;
    preload_env[n++] = path;
    preload_env[n++] = "DYAD_LINGER=0";
}

int main(int argc, char **argv)
{
    uint64_t entered = now();
    char *const true_argv[] = {"/bin/true", NULL};
    char *const bash_argv[] = {"/bin/bash", "-c", "true", NULL};

    if (argc == 2 && strcmp(argv[1], "stamp") == 0)
        return write(STDOUT_FILENO, &entered, sizeof(entered)) != sizeof(entered);
    if (argc == 2 && strcmp(argv[1], "calls") == 0)
        return run_calls();
    if (argc != 3 || readlink("/proc/self/exe", self, sizeof(self) - 1) < 0)
        return 2;
    environments(argv[1], argv[2]);
    if (getenv("PMIX_RANK")) {
        int ends[2];
        char *const holder_argv[] = {"/bin/cat", NULL};
        printf("%-46s %9s %9s %9s\n", "as a rank", "plain", "preload", "more");
        bench_main();
        /* The rank's first process: a member that outlives the guests. */
        if (pipe2(ends, O_CLOEXEC) < 0)
            die("pipe");
        dup2(ends[0], STDIN_FILENO);
        pid_t member = spawn(holder_argv, true, -1);
        close(ends[0]);
        close(STDIN_FILENO);
        usleep(1000000); /* it joins meanwhile */
        bench_start("a guest: /bin/true", true_argv);
        bench_start("a guest: bash -c true", bash_argv);
        close(ends[1]);
        reap(member);
        return 0;
    }
    printf("%-46s %9s %9s %9s\n", "not launched", "plain", "preload", "more");
    bench_start("/bin/true", true_argv);
    bench_start("bash -c true", bash_argv);
    bench_calls();
    return 0;
}
