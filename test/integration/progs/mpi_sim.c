/*
 * mpi_sim.c - a small MPI simulation, as one that README's first use starts
 *
 *   mpi_sim DIR   3 steps: every rank adds its part of a sum, rank 0 writes DIR/step.N with
 * it. Rank 0 reads DIR/parameters before, which somebody else may still have to write, and
 * multiplies by what is in it. At the end it waits for DIR/result, and its status is 0 if
 * that has the sum of all steps.
 */
#include <mpi.h>
#include <stdio.h>

#define STEPS 3

static long read_number(const char *dir, const char *name)
{
    char path[4096];
    long value = -1;

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    FILE *in = fopen(path, "r");
    if (!in || fscanf(in, "%ld", &value) != 1)
        perror(path);
    if (in)
        fclose(in);
    return value;
}

static void write_number(const char *dir, int step, long value)
{
    char path[4096];

    snprintf(path, sizeof(path), "%s/step.%d", dir, step);
    FILE *out = fopen(path, "w");
    if (!out || fprintf(out, "%ld\n", value) < 0 || fclose(out) != 0)
        perror(path);
}

int main(int argc, char **argv)
{
    long factor = 0, total = 0, sum, part;
    int rank, bad = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    const char *dir = argc > 1 ? argv[1] : ".";
    if (rank == 0)
        factor = read_number(dir, "parameters");
    MPI_Bcast(&factor, 1, MPI_LONG, 0, MPI_COMM_WORLD);
    for (int step = 0; step < STEPS; step++) {
        part = factor * (rank + 1) * (step + 1);
        MPI_Reduce(&part, &sum, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
        if (rank == 0) {
            write_number(dir, step, sum);
            total += sum;
        }
    }
    if (rank == 0)
        bad = read_number(dir, "result") != total;
    MPI_Bcast(&bad, 1, MPI_INT, 0, MPI_COMM_WORLD);
    MPI_Finalize();
    return bad;
}
