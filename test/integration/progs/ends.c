/*
 * ends.c - ends KIND HOW [FILE]: the last rank ends in one of the ways that a launcher
 * calls abnormal (HOW), while the others are where they would be in the midst of their
 * work: in MPI (KIND mpi) or asleep (plain)
 *
 * With FILE each rank writes FILE.RANK first. HOW is NAME:STATUS; NAME is exit, return,
 * _exit, quick, atexit (a function of atexit() ends it with another status), err (libc's
 * own call of exit), signal (STATUS is its number), abort (MPI_Abort), final (exit after
 * MPI_Finalize), or thread (exit in another thread).
 */
#include <err.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <mpi.h>

static int status;

static void end_in_atexit(void)
{
    exit(status);
}

static void *end_in_thread(void *arg)
{
    (void)arg;
    exit(status);
}

static void say_file(const char *prefix, int rank)
{
    char path[4096];

    snprintf(path, sizeof(path), "%s.%d", prefix, rank);
    FILE *out = fopen(path, "w");
    if (!out || fprintf(out, "%d\n", rank) < 0 || fclose(out) != 0)
        err(100, "%s", path);
}

static int end(const char *how)
{
    pthread_t thread;

    if (strcmp(how, "exit") == 0) {
        exit(status);
    } else if (strcmp(how, "_exit") == 0) {
        _exit(status);
    } else if (strcmp(how, "quick") == 0) {
        quick_exit(status);
    } else if (strcmp(how, "atexit") == 0) {
        atexit(end_in_atexit);
        exit(0);
    } else if (strcmp(how, "err") == 0) {
        errx(status, "as wanted");
    } else if (strcmp(how, "signal") == 0) {
        raise(status);
    } else if (strcmp(how, "thread") == 0) {
        pthread_create(&thread, NULL, end_in_thread, NULL);
        for (;;)
            pause();
    }
    if (strcmp(how, "abort") == 0) {
        MPI_Abort(MPI_COMM_WORLD, status);
    } else if (strcmp(how, "final") == 0) {
        MPI_Finalize();
        exit(status);
    }
    return status; /* "return" */
}

int main(int argc, char **argv)
{
    const char *env = getenv("PMIX_RANK"), *size_env = getenv("RANKS");
    int rank = env ? atoi(env) : 0, size = size_env ? atoi(size_env) : 2;
    char *colon;

    if (argc < 3 || !(colon = strchr(argv[2], ':')))
        return 100;
    alarm(60); /* whoever is left behind */
    *colon = '\0';
    status = atoi(colon + 1);
    if (argc > 3)
        say_file(argv[3], rank);
    if (strcmp(argv[1], "plain") != 0) {
        MPI_Init(&argc, &argv);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    if (rank == size - 1)
        return end(argv[2]);
    if (strcmp(argv[1], "plain") != 0) {
        if (strcmp(argv[2], "final") != 0)
            MPI_Barrier(MPI_COMM_WORLD);
        MPI_Finalize();
    }
    for (;;)
        pause();
}
