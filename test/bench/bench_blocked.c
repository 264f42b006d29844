/*
 * bench_blocked.c - from a close to the return of the open that waits for it, while other
 * processes of both ranks wait in opens: run by bench_blocked.sh as two ranks of one job
 *
 *   bench_blocked first|second DMD ROUNDS
 *
 * The ranks hand a file to and fro; half a round is one close and one open that waited. The
 * ratio stands beside it, to the figure of the same run with nobody blocked.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define WARM                                                                    \
    20 /* rounds after a change that are not counted: all children wait by then \
        */

static const int blocked[] = {0, 1, 8, 32};

#define PHASES (sizeof(blocked) / sizeof(blocked[0]))

static double now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static void must(int ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "bench_blocked: %s: %s\n", what, strerror(errno));
        exit(1);
    }
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

static void hand_over(const char *dmd, const char *who, size_t phase, int round)
{
    char path[4096];

    snprintf(path, sizeof(path), "%s/%s.%zu.%d", dmd, who, phase, round);
    int fd = open(path, O_WRONLY | O_CREAT, 0644);
    must(fd >= 0 && write(fd, "x", 1) == 1 && close(fd) == 0, path);
}

static void take(const char *dmd, const char *who, size_t phase, int round)
{
    char path[4096];

    snprintf(path, sizeof(path), "%s/%s.%zu.%d", dmd, who, phase, round);
    int fd = open(path, O_RDONLY);
    must(fd >= 0 && close(fd) == 0, path);
}

/* A process that waits for what the other rank publishes at the end. */
static void block_one(const char *dmd, const char *other, int number)
{
    pid_t pid = fork();

    must(pid >= 0, "fork");
    if (pid == 0) {
        char path[4096];
        snprintf(path, sizeof(path), "%s/end-of-%s.%d", dmd, other, number);
        _exit(open(path, O_RDONLY) < 0);
    }
}

int main(int argc, char **argv)
{
    if (argc != 4 || (strcmp(argv[1], "first") != 0 && strcmp(argv[1], "second") != 0)) {
        fputs("usage: bench_blocked first|second DMD ROUNDS\n", stderr);
        return 2;
    }
    int first = strcmp(argv[1], "first") == 0, rounds = atoi(argv[3]), nblocked = 0;
    const char *self = argv[1], *other = first ? "second" : "first", *dmd = argv[2];
    double *took = calloc((size_t)rounds + 1, sizeof(*took)), alone = 0;

    must(took != NULL, "memory");
    for (size_t phase = 0; phase < PHASES; phase++) {
        for (; nblocked < blocked[phase]; nblocked++)
            block_one(dmd, other, nblocked);
        for (int round = -WARM; round < rounds; round++) {
            double start = now();
            if (!first)
                take(dmd, other, phase, round);
            hand_over(dmd, self, phase, round);
            if (first)
                take(dmd, other, phase, round);
            took[round < 0 ? rounds : round] = (now() - start) / 2;
        }
        if (!first)
            continue;
        qsort(took, (size_t)rounds, sizeof(*took), by_size);
        alone = phase == 0 ? took[rounds / 2] : alone;
        printf(
            "%2d opens of each rank blocked: close to a waiting open's return %.0f us: "
            "%.2f times that without\n",
            nblocked, took[rounds / 2] * 1e6, took[rounds / 2] / alone);
    }
    for (int i = 0; i < nblocked; i++) {
        char path[4096];
        snprintf(path, sizeof(path), "%s/end-of-%s.%d", dmd, self, i);
        int fd = open(path, O_WRONLY | O_CREAT, 0644);
        must(fd >= 0 && close(fd) == 0, path);
    }
    for (int i = 0, status; i < nblocked; i++)
        must(wait(&status) > 0 && status == 0, "a blocked open");
    return 0;
}
