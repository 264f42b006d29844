/*
 * mpi_coupled.c - two components, each of some ranks, coupled by files of PnetCDF
 *
 * mpi_coupled write|read DIR FILES: the ranks of the first write DIR/out.NN.nc, one after the other, each
 * collectively; those of the second read them so, as they come. The two may be of one launch, or of two.
 * mpi_coupled write|read DIR TURNS turns: the first make DIR/out.00.nc; then both in turns read what is in it, and
 * write over it. A barrier of both is between the turns; with "alone" in its place there is none (DYAD_TURNS).
 */
#include <mpi.h>
#include <pnetcdf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 12, COLUMNS = 500 };

static int rank, nranks;
static MPI_Comm component;

static int value(int file, int row, int column)
{
    return file * 1000000 + row * 1000 + column;
}

/* The rank's part of the rows. */
static void rows_of(MPI_Offset start[2], MPI_Offset count[2])
{
    start[0] = ROWS * rank / nranks;
    count[0] = ROWS * (rank + 1) / nranks - start[0];
    start[1] = 0;
    count[1] = COLUMNS;
}

static int write_file(const char *path, int file, int exists)
{
    int nc, dims[2], var, step, bad, data[ROWS][COLUMNS];
    MPI_Offset start[2], count[2];

    rows_of(start, count);
    for (int i = 0; i < count[0]; i++)
        for (int k = 0; k < COLUMNS; k++)
            data[i][k] = value(file, (int)start[0] + i, k);
    bad = exists ? ncmpi_open(component, path, NC_WRITE, MPI_INFO_NULL, &nc)
                 : ncmpi_create(component, path, NC_CLOBBER | NC_64BIT_DATA, MPI_INFO_NULL,
                                &nc);
    if (bad)
        return bad;
    if (exists) {
        bad |= ncmpi_inq_varid(nc, "v", &var) | ncmpi_inq_varid(nc, "step", &step);
    } else {
        bad |= ncmpi_def_dim(nc, "row", ROWS, &dims[0]);
        bad |= ncmpi_def_dim(nc, "column", COLUMNS, &dims[1]);
        bad |= ncmpi_def_var(nc, "v", NC_INT, 2, dims, &var);
        bad |= ncmpi_def_var(nc, "step", NC_INT, 0, NULL, &step);
        bad |= ncmpi_enddef(nc);
    }
    bad |= ncmpi_put_vara_int_all(nc, var, start, count, &data[0][0]);
    bad |= ncmpi_put_var_int_all(nc, step, &file);
    return bad | ncmpi_close(nc);
}

static int read_file(const char *path, int file)
{
    int nc, var, step, data[ROWS][COLUMNS], said = -1, bad;
    MPI_Offset start[2], count[2];

    rows_of(start, count);
    bad = ncmpi_open(component, path, NC_NOWRITE, MPI_INFO_NULL, &nc);
    if (bad)
        return bad;
    bad |= ncmpi_inq_varid(nc, "v", &var) | ncmpi_inq_varid(nc, "step", &step);
    bad |= ncmpi_get_vara_int_all(nc, var, start, count, &data[0][0]);
    bad |= ncmpi_get_var_int_all(nc, step, &said);
    bad |= ncmpi_close(nc);
    for (int i = 0; !bad && i < count[0]; i++)
        for (int k = 0; !bad && k < COLUMNS; k++)
            if (data[i][k] != value(file, (int)start[0] + i, k)) {
                fprintf(stderr, "rank %d: %s: row %d, column %d: %d\n", rank, path,
                        (int)start[0] + i, k, data[i][k]);
                bad = 1;
            }
    return bad | (said != file);
}

/* What the turn before has left is read, and written over. */
static int take_turn(const char *path, int turn, int mine, int alone)
{
    int bad = 0;

    if (mine)
        bad = (turn > 0 && read_file(path, turn - 1)) || write_file(path, turn, turn > 0);
    if (!alone)
        MPI_Barrier(MPI_COMM_WORLD);
    return bad;
}

int main(int argc, char **argv)
{
    int bad = 0, all, writes, turns = argc > 4,
        alone = turns && strcmp(argv[4], "alone") == 0;
    char path[4096];

    if (argc < 4)
        return 2;
    MPI_Init(&argc, &argv);
    writes = strcmp(argv[1], "write") == 0;
    MPI_Comm_split(MPI_COMM_WORLD, writes, 0, &component);
    MPI_Comm_rank(component, &rank);
    MPI_Comm_size(component, &nranks);
    for (int i = 0; !bad && i < atoi(argv[3]); i++) {
        snprintf(path, sizeof(path), "%s/out.%02d.nc", argv[2], turns ? 0 : i);
        bad = turns    ? take_turn(path, i, i % 2 != writes, alone)
              : writes ? write_file(path, i, 0)
                       : read_file(path, i);
        if (bad)
            fprintf(stderr, "rank %d: %s: %s\n", rank, path,
                    bad < 0 ? ncmpi_strerror(bad) : "wrong");
        bad = bad != 0;
        MPI_Allreduce(&bad, &all, 1, MPI_INT, MPI_MAX,
                      turns && !alone ? MPI_COMM_WORLD : component);
        bad = all;
    }
    if (rank == 0)
        printf("%s: %d ranks, %s\n", argv[1], nranks, bad ? "bad" : "well");
    MPI_Comm_free(&component);
    MPI_Finalize();
    return bad;
}
