/*
 * bench_job.c - what the main job costs a program: run by bench_job.sh as two ranks of one
 * job
 *
 *   bench_job produce|consume DMD PLAIN-DIRECTORY FILES LARGE-MIB
 *
 * Every figure stands beside one taken in the same run by the same loop in a plain
 * directory of the same file system, so the ratio holds on a noisy machine. Prints medians.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SMALL 4096
#define BLOCK (1 << 20)

static double now(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median(double *v, int n)
{
    qsort(v, (size_t)n, sizeof(*v), by_size);
    return v[n / 2];
}

static void must(int ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "bench_job: %s: %s\n", what, strerror(errno));
        exit(1);
    }
}

/* Write n files of SMALL bytes; median seconds from open to the end of close. */
static double write_small(const char *dir, int n)
{
    char path[4096], data[SMALL];
    double *v = calloc((size_t)n, sizeof(*v));

    must(v != NULL, "memory");
    memset(data, 'x', sizeof(data));
    for (int i = 0; i < n; i++) {
        snprintf(path, sizeof(path), "%s/small.%d", dir, i);
        double start = now();
        int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
        must(fd >= 0 && write(fd, data, SMALL) == SMALL && close(fd) == 0, path);
        v[i] = now() - start;
    }
    double m = median(v, n);
    free(v);
    return m;
}

static double read_small(const char *dir, int n)
{
    char path[4096], data[SMALL];
    double *v = calloc((size_t)n, sizeof(*v));

    must(v != NULL, "memory");
    for (int i = 0; i < n; i++) {
        snprintf(path, sizeof(path), "%s/small.%d", dir, i);
        double start = now();
        int fd = open(path, O_RDONLY);
        must(fd >= 0 && read(fd, data, SMALL) == SMALL && close(fd) == 0, path);
        v[i] = now() - start;
    }
    double m = median(v, n);
    free(v);
    return m;
}

static double write_large(const char *dir, int mib)
{
    char path[4096], *block = malloc(BLOCK);

    must(block != NULL, "memory");
    memset(block, 'y', BLOCK);
    snprintf(path, sizeof(path), "%s/large", dir);
    double start = now();
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    must(fd >= 0, path);
    for (int i = 0; i < mib; i++)
        must(write(fd, block, BLOCK) == BLOCK, path);
    must(close(fd) == 0, path);
    free(block);
    return now() - start;
}

/* What the kernel needs for a copy within the file system, with read and write as cp(1)
 * without reflinks. */
static double copy_large(const char *from, const char *to, int mib)
{
    char a[4096], b[4096], *block = malloc(BLOCK);

    must(block != NULL, "memory");
    snprintf(a, sizeof(a), "%s/large", from);
    snprintf(b, sizeof(b), "%s/large", to);
    double start = now();
    int in = open(a, O_RDONLY), out = open(b, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    must(in >= 0 && out >= 0, b);
    for (int i = 0; i < mib; i++)
        must(read(in, block, BLOCK) == BLOCK && write(out, block, BLOCK) == BLOCK, b);
    must(close(in) == 0 && close(out) == 0, b);
    free(block);
    return now() - start;
}

int main(int argc, char **argv)
{
    if (argc != 6) {
        fputs("usage: bench_job produce|consume DMD PLAIN-DIRECTORY FILES LARGE-MIB\n",
              stderr);
        return 2;
    }
    const char *dmd = argv[2], *plain = argv[3];
    int files = atoi(argv[4]), mib = atoi(argv[5]);
    char path[4096];

    if (strcmp(argv[1], "produce") == 0) {
        double p = write_small(plain, files), d = write_small(dmd, files);
        printf("open, write 4 KiB, close: %6.1f us plain, %6.1f us published: + %.1f us\n",
               p * 1e6, d * 1e6, (d - p) * 1e6);
        write_large(dmd, mib);
        snprintf(path, sizeof(path), "%s/go", dmd);
        int go = open(path, O_WRONLY | O_CREAT, 0644);
        must(go >= 0 && close(go) == 0, path);
        return 0;
    }
    snprintf(path, sizeof(path), "%s/large", dmd);
    char last[4096];
    snprintf(last, sizeof(last), "%s/small.%d", dmd, files - 1);
    int fd = open(last, O_RDONLY); /* all are there from here on */
    must(fd >= 0, last);
    close(fd);
    double d = read_small(dmd, files), p = read_small(dmd, files);
    printf("open, read 4 KiB, close:  %6.1f us plain, %6.1f us fetched:   + %.1f us\n",
           p * 1e6, d * 1e6, (d - p) * 1e6);
    snprintf(last, sizeof(last), "%s/go",
             dmd); /* "large" is published, and not fetched yet */
    must((fd = open(last, O_RDONLY)) >= 0, last);
    close(fd);
    double start = now();
    must((fd = open(path, O_RDONLY)) >= 0, path);
    double fetched = now() - start;
    close(fd);
    double copied = copy_large(dmd, plain, mib);
    printf(
        "%d MiB: fetched in %.2f s (%.0f MB/s), copied on this file system in %.2f s (%.0f "
        "MB/s): "
        "%.2f of its rate\n",
        mib, fetched, mib * 1.048576 / fetched, copied, mib * 1.048576 / copied,
        copied / fetched);
    return 0;
}
