/*
 * bench_files.c - calls of a program, timed one by one: run by `run`, alone or as ranks of a
 * job
 *
 *   bench_files [NAME DIRECTORY ARGUMENT...]...   more than one, with + between them
 *
 *   write NAME DIR N BYTES      open, write, close of N new files: a sample each
 *   read NAME DIR N BYTES       open, read, close of them, in this order
 *   replace NAME DIR N BYTES    open, write, close, rename of N new files
 *   give NAME DIR N WHO         N times a file to another rank, and one back (ROUND/2 each)
 *   take NAME DIR N WHO         the other rank
 *   block NAME DIR N            N processes that wait in open for NAME.INDEX
 *   release NAME DIR N          makes these files
 *   names NAME DIR N            create, rename, unlink of N files, one sample for all
 *   append NAME DIR N           N times open for appending, 16 bytes, close: one sample
 *   update NAME DIR N           the same, without O_APPEND: over the first ones
 *   series NAME DIR N BYTES     as read, of frame.0001 ..., when the one after is there
 *   copy NAME FROM N TO         cp of N files, one sample for all
 *   share NAME DIR N WHAT K     write or read of N files of 4 KiB by K processes: one sample
 *   part NAME DIR N BYTES R OF  N blocks of one file that has as many of each of OF ranks, in
 *                               turns; this is R: one sample, and, as NAME-kib, the memory
 *   idle NAME DIR N             N seconds: wake-ups a second of the other threads, and, as
 *                               NAME-cpu, the part of a core that they take, in percent
 *   miss NAME DIR N             N opens of what nobody makes: one sample
 *   await NAME DIR              open of DIR/NAME; no sample
 *   make NAME DIR               makes it; no sample
 *
 * Prints, for each that has samples, a line: its name and microseconds; to the file that
 * BENCH_OUT names, for mpirun mixes the lines of its ranks.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define BLOCK (1 << 20)
#define WARM  20 /* rounds that are not counted */

static FILE *out;
static double *samples;
static long nsamples;
static char path[PATH_MAX], path_to[PATH_MAX], *block;

static double now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec * 1e6 + (double)ts.tv_nsec / 1e3;
}

static void must(bool ok)
{
    if (!ok) {
        fprintf(stderr, "bench_files: %s: %s\n", path, strerror(errno));
        exit(1);
    }
}

static void sample(double us)
{
    samples[nsamples++] = us;
}

static void file(const char *dir, const char *name, long i)
{
    snprintf(path, sizeof(path), "%s/%s.%04ld", dir, name, i);
}

static void put(int flags, long bytes)
{
    int fd = open(path, O_WRONLY | O_CREAT | flags, 0644);

    must(fd >= 0);
    for (long left = bytes; left > 0; left -= BLOCK) {
        long n = left < BLOCK ? left : BLOCK;
        must(write(fd, block, (size_t)n) == n);
    }
    must(close(fd) == 0);
}

static void get(long bytes)
{
    int fd = open(path, O_RDONLY);
    long got = 0, n;

    must(fd >= 0);
    while ((n = read(fd, block, BLOCK)) > 0)
        got += n;
    must(n == 0 && got == bytes && close(fd) == 0);
}

static void each(const char *what, const char *name, const char *dir, long n, long bytes)
{
    for (long i = 0; i < n; i++) {
        file(dir, name, i);
        double start = now();
        if (what[0] == 'w') {
            put(O_TRUNC, bytes);
        } else if (what[1] == 'e' && what[2] == 'p') {
            snprintf(path_to, sizeof(path_to), "%s", path);
            snprintf(path, sizeof(path), "%s/.new", dir);
            put(O_EXCL, bytes);
            must(rename(path, path_to) == 0);
        } else {
            get(bytes);
        }
        sample(now() - start);
    }
}

/* Half a round is a close and an open that waited for it. */
static void hand(const char *name, const char *dir, long n, const char *who, bool first)
{
    for (long i = -WARM; i < n; i++) {
        double start = now();
        for (int half = 0; half < 2; half++) {
            bool mine = (half == 0) == first;
            snprintf(path, sizeof(path), "%s/%s.%s.%s.%ld", dir, name, who,
                     half == 0 ? "there" : "back", i + WARM);
            if (mine)
                put(0, 1);
            else
                get(1);
        }
        if (i >= 0 && first)
            sample((now() - start) / 2);
    }
}

/* Who writes the others' parts may be on another node. */
static void part(const char *name, const char *dir, long n, long bytes, long rank, long of)
{
    struct rusage usage;
    double start;
    int fd;

    file(dir, name, 0);
    start = now();
    fd = open(path, O_WRONLY | O_CREAT, 0644);
    must(fd >= 0);
    for (long i = 0; i < n; i++)
        must(pwrite(fd, block, (size_t)bytes, (i * of + rank) * bytes) == bytes);
    must(close(fd) == 0);
    sample(now() - start);
    must(getrusage(RUSAGE_SELF, &usage) == 0);
    fprintf(out, "%s-kib %ld\n", name, usage.ru_maxrss);
}

static void block_some(const char *name, const char *dir, long n)
{
    for (long i = 0; i < n; i++) {
        file(dir, name, i);
        pid_t pid = fork();
        must(pid >= 0);
        if (pid == 0)
            _exit(open(path, O_RDONLY) < 0);
    }
}

static void names(const char *name, const char *dir, long n)
{
    double start = now();

    for (long i = 0; i < n; i++) {
        file(dir, name, i);
        put(0, 0);
        snprintf(path_to, sizeof(path_to), "%s", path);
        file(dir, "renamed", i);
        must(rename(path_to, path) == 0 && unlink(path) == 0);
    }
    sample(now() - start);
}

static void change(const char *name, const char *dir, long n, int flags)
{
    double start = now();

    for (long i = 0; i < n; i++) {
        file(dir, name, 0);
        put(flags, 16);
    }
    sample(now() - start);
}

/* As cp(1) without reflinks; what was copied is read, too, as `read` does. */
static void copy(const char *name, const char *from, long n, const char *to)
{
    double start = now();

    for (long i = 0; i < n; i++) {
        ssize_t got;
        file(from, name, i);
        int source = open(path, O_RDONLY);
        must(source >= 0);
        file(to, name, i);
        int copied = open(path, O_RDWR | O_CREAT | O_TRUNC, 0644);
        must(copied >= 0);
        while ((got = read(source, block, BLOCK)) > 0)
            must(write(copied, block, (size_t)got) == got);
        must(got == 0 && lseek(copied, 0, SEEK_SET) == 0);
        while ((got = read(copied, block, BLOCK)) > 0)
            ;
        must(got == 0 && close(source) == 0 && close(copied) == 0);
    }
    sample(now() - start);
}

static void share(const char *name, const char *dir, long n, const char *what, long k)
{
    double start = now();
    int status;

    for (long process = 0; process < k; process++) {
        pid_t pid = fork();
        must(pid >= 0);
        for (long i = process; pid == 0 && i < n; i += k) {
            file(dir, name, i);
            if (what[0] == 'w')
                put(O_TRUNC, 4096);
            else
                get(4096);
        }
        if (pid == 0)
            _exit(0);
    }
    while (k-- > 0)
        must(wait(&status) > 0 && status == 0);
    sample(now() - start);
}

static void miss(const char *name, const char *dir, long n)
{
    double start = now();

    for (long i = 0; i < n; i++) {
        file(dir, name, i);
        must(open(path, O_RDONLY) < 0 && errno == ENOENT);
    }
    sample(now() - start);
}

static double cpu_ns(clockid_t clock)
{
    struct timespec ts;

    clock_gettime(clock, &ts);
    return (double)ts.tv_sec * 1e9 + (double)ts.tv_nsec;
}

/* What the threads beside this one have done so far, and those that have ended. */
static void others(double *switches, double *ns)
{
    struct rusage all, own;

    getrusage(RUSAGE_SELF, &all);
    getrusage(RUSAGE_THREAD, &own);
    *switches = (double)(all.ru_nvcsw - own.ru_nvcsw);
    *ns = cpu_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu_ns(CLOCK_THREAD_CPUTIME_ID);
}

static void idle(const char *name, long seconds)
{
    double switches[2], ns[2], start;

    sleep(2); /* the join, and what follows it */
    others(&switches[0], &ns[0]);
    start = now();
    sleep((unsigned)seconds);
    others(&switches[1], &ns[1]);
    double us = now() - start;
    fprintf(out, "%s-cpu %.4f\n", name, (ns[1] - ns[0]) / us / 10);
    sample((switches[1] - switches[0]) / us * 1e6);
}

static void series(const char *name, const char *dir, long n, long bytes)
{
    for (long i = 1; i <= n; i++) {
        file(dir, name, i + 1 < n ? i + 1 : n);
        while (access(path, F_OK) != 0) /* published: the producer is ahead */
            usleep(1000);
        usleep(20000); /* what the analysis of a frame takes */
        file(dir, name, i);
        double start = now();
        get(bytes);
        sample(now() - start);
    }
}

static void one(int argc, char **argv)
{
    const char *what = argv[0], *name = argv[1], *dir = argv[2];
    long n = argc > 3 ? atol(argv[3]) : 1, bytes = argc > 4 ? atol(argv[4]) : 0;

    samples = calloc((size_t)n + 1, sizeof(*samples));
    nsamples = 0;
    must(samples != NULL);
    if (!strcmp(what, "write") || !strcmp(what, "read") || !strcmp(what, "replace"))
        each(what, name, dir, n, bytes);
    else if (!strcmp(what, "give") || !strcmp(what, "take"))
        hand(name, dir, n, argv[4], what[0] == 'g');
    else if (!strcmp(what, "block"))
        block_some(name, dir, n);
    else if (!strcmp(what, "names"))
        names(name, dir, n);
    else if (!strcmp(what, "append"))
        change(name, dir, n, O_APPEND);
    else if (!strcmp(what, "update"))
        change(name, dir, n, 0);
    else if (!strcmp(what, "copy"))
        copy(name, dir, n, argv[4]);
    else if (!strcmp(what, "part"))
        part(name, dir, n, bytes, atol(argv[5]), atol(argv[6]));
    else if (!strcmp(what, "idle"))
        idle(name, n);
    else if (!strcmp(what, "share"))
        share(name, dir, n, argv[4], atol(argv[5]));
    else if (!strcmp(what, "miss"))
        miss(name, dir, n);
    else if (!strcmp(what, "series"))
        series(name, dir, n, bytes);
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    if (!strcmp(what, "await"))
        get(0);
    else if (!strcmp(what, "make"))
        put(0, 0);
    for (long i = 0; !strcmp(what, "release") && i < n; i++) {
        file(dir, name, i);
        put(0, 0);
    }
    for (long i = 0; i < nsamples; i++)
        fprintf(out, "%s%s%.1f%s", i ? "" : name, " ", samples[i],
                i + 1 == nsamples ? "\n" : "");
    fflush(out);
    free(samples);
}

int main(int argc, char **argv)
{
    if (argc < 4) {
        fputs("usage: bench_files WHAT NAME DIRECTORY [ARGUMENT...] [+ ...]\n", stderr);
        return 2;
    }
    block = malloc(BLOCK);
    out = getenv("BENCH_OUT") ? fopen(getenv("BENCH_OUT"), "w") : stdout;
    must(block != NULL && out != NULL);
    memset(block, 'x', BLOCK);
    for (int i = 1, end; i < argc; i = end + 1) {
        for (end = i; end < argc && strcmp(argv[end], "+") != 0; end++)
            ;
        if (end - i >= 3)
            one(end - i, argv + i);
    }
    while (wait(NULL) > 0)
        ;
    return 0;
}
