/*
 * bench_look - what a look-up costs: asked of the homes, of the node, of the rank itself
 *
 *   bench_look publish DMD SYNC FILES
 *   bench_look look DMD SYNC FILES NAME AFTER
 *
 * SYNC is a directory outside of the managed one. `look` waits for SYNC/AFTER, looks all
 * names up twice, a few at a time so that what the other one was told still counts, and
 * raises flags of its own. See bench_look.sh.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define PART 50

static const char *sync_dir;

static double now(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec * 1e6 + (double)ts.tv_nsec / 1e3;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static const char *flag_of(const char *name, int part)
{
    static char path[4096];
    snprintf(path, sizeof(path), "%s/%s.%d", sync_dir, name, part);
    return path;
}

static void raise_flag(const char *name, int part)
{
    close(open(flag_of(name, part), O_WRONLY | O_CREAT, 0600));
}

static void await(const char *name, int part)
{
    while (access(flag_of(name, part), F_OK) < 0)
        usleep(200);
}

static void tell(const char *who, const char *what, double *us, int n)
{
    double sum = 0;

    qsort(us, (size_t)n, sizeof(*us), by_size);
    for (int i = 0; i < n; i++)
        sum += us[i];
    printf("%-8s %-24s mean %7.1f us, median %7.1f, 9 of 10 below %7.1f\n", who, what,
           sum / n, us[n / 2], us[n * 9 / 10]);
}

int main(int argc, char **argv)
{
    char path[4096];
    int n = argc > 4 ? atoi(argv[4]) : 0;

    if (n < PART)
        return 2;
    n -= n % PART;
    sync_dir = argv[3];
    if (strcmp(argv[1], "publish") == 0) {
        for (int i = 0; i < n; i++) {
            snprintf(path, sizeof(path), "%s/look.%d", argv[2], i);
            int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
            if (fd < 0 || write(fd, "x", 1) != 1 || close(fd) < 0)
                return 1;
        }
        for (int part = 0; part < n / PART; part++)
            raise_flag("published", part);
        return 0;
    }
    double *first = calloc((size_t)n, sizeof(*first)),
           *second = calloc((size_t)n, sizeof(*second));
    if (argc < 7 || !first || !second)
        return 2;
    for (int i = 0; i < n; i += PART) {
        await(argv[6], i / PART);
        for (int again = 0; again < 2; again++) {
            for (int k = i; k < i + PART; k++) {
                struct stat st;
                snprintf(path, sizeof(path), "%s/look.%d", argv[2], k);
                double begin = now();
                if (stat(path, &st) < 0)
                    return 1;
                (again ? second : first)[k] = now() - begin;
            }
        }
        raise_flag(argv[5], i / PART);
    }
    tell(argv[5], "first look", first, n);
    tell(argv[5], "second look", second, n);
    return 0;
}
