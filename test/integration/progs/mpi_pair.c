/*
 * mpi_pair.c - an MPI program: every rank writes a file, then reads the file of every other
 * rank
 *
 * Two rounds: in the first, consumers are told by a barrier that all files are written; in
 * the second nobody says anything, and the open waits.
 *
 * With a second argument it is a rank's first process, whose member has UCX. That must not
 * be the program's UCX: libucm, loaded beside main with the program's settings, writes over
 * the code of mmap and brk and moves the break (one start in a hundred crashed in malloc,
 * and the other ranks hung in MPI_Init), and UCX's async thread is one for all who share
 * it. A third argument is for how many seconds it does nothing between MPI_Init and the
 * rest.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <mpi.h>

static void produce(const char *dir, int round, int rank)
{
    char path[4096];
    snprintf(path, sizeof(path), "%s/round%d.rank%d", dir, round, rank);
    FILE *out = fopen(path, "w");
    if (!out) {
        perror(path);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    for (int i = 0; i < 10000; i++)
        fprintf(out, "%d %d %d\n", round, rank, i);
    if (fclose(out) != 0) {
        perror(path);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

static int consume(const char *dir, int round, int rank)
{
    char path[4096], line[64], expected[64];
    snprintf(path, sizeof(path), "%s/round%d.rank%d", dir, round, rank);
    FILE *in = fopen(path, "r");
    if (!in) {
        perror(path);
        return 1;
    }
    int lines = 0;
    while (fgets(line, sizeof(line), in)) {
        snprintf(expected, sizeof(expected), "%d %d %d\n", round, rank, lines++);
        if (strcmp(line, expected)) {
            fprintf(stderr, "%s: line %d is '%s'\n", path, lines, line);
            return 1;
        }
    }
    fclose(in);
    if (lines != 10000)
        fprintf(stderr, "%s has %d lines\n", path, lines);
    return lines != 10000;
}

int main(int argc, char **argv)
{
    int rank, size, bad = 0, all;

    if (argc < 2)
        return 2;
    if (argc > 2) {
        produce(argv[1], 0, getpid()); /* the member has joined */
        if (dlopen("libucs.so.0", RTLD_NOW | RTLD_NOLOAD)) {
            fprintf(stderr, "the engine's UCX is the program's\n");
            return 1;
        }
    }
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc > 3)
        sleep((unsigned)atoi(argv[3]));

    produce(argv[1], 1, rank);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < size; i++)
        bad += consume(argv[1], 1, i);

    produce(argv[1], 2, rank);
    for (int i = 0; i < size; i++)
        bad += consume(argv[1], 2, (rank + i) % size);

    MPI_Allreduce(&bad, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%d ranks, %d bad\n", size, all);
    MPI_Finalize();
    return all != 0;
}
