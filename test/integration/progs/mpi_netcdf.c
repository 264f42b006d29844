/*
 * mpi_netcdf.c - all ranks write one file by PnetCDF, and each reads all of it
 *
 * mpi_netcdf FILE ROUNDS all|each|queued|records|share...: a variable of rows, some of each rank, written
 * collectively, independently, or by queued requests; or one that grows by records; or the file
 * is opened with NC_SHARE. FILE.all and so on are made again in each round, with other rows, and more or fewer.
 */
#include <mpi.h>
#include <pnetcdf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS_MAX = 7, COLUMNS = 1000 };

static int rank, nranks, turn, rows;

static int value(int row, int column)
{
    return turn * 1000000 + row * 1000 + column;
}

static int write_file(const char *path, const char *how)
{
    int nc, dims[2], var, fixed, bad = 0, requests[ROWS_MAX], status[ROWS_MAX];
    int records = strcmp(how, "records") == 0;
    static int data[ROWS_MAX][COLUMNS];

    bad |= ncmpi_create(
        MPI_COMM_WORLD, path,
        NC_CLOBBER | NC_64BIT_DATA | (strcmp(how, "share") == 0 ? NC_SHARE : 0),
        MPI_INFO_NULL, &nc);
    if (bad)
        return bad;
    bad |= ncmpi_def_dim(nc, "row", records ? NC_UNLIMITED : rows * nranks, &dims[0]);
    bad |= ncmpi_def_dim(nc, "column", COLUMNS, &dims[1]);
    bad |= ncmpi_def_var(nc, "v", NC_INT, 2, dims, &var);
    bad |= ncmpi_def_var(nc, "columns", NC_INT, 1, &dims[1], &fixed);
    bad |= ncmpi_put_att_text(nc, NC_GLOBAL, "title", 5, "a file");
    bad |= ncmpi_enddef(nc);
    for (int i = 0; i < rows; i++) {
        MPI_Offset start[2] = {i * nranks + rank, 0}, count[2] = {1, COLUMNS};
        for (int k = 0; k < COLUMNS; k++)
            data[i][k] = value(i * nranks + rank, k);
        if (strcmp(how, "each") == 0) {
            bad |= ncmpi_begin_indep_data(nc);
            bad |= ncmpi_put_vara_int(nc, var, start, count, data[i]);
            bad |= ncmpi_end_indep_data(nc);
        } else if (strcmp(how, "queued") == 0) {
            bad |= ncmpi_iput_vara_int(nc, var, start, count, data[i], &requests[i]);
        } else {
            bad |= ncmpi_put_vara_int_all(nc, var, start, count, data[i]);
        }
    }
    if (strcmp(how, "queued") == 0)
        bad |= ncmpi_wait_all(nc, rows, requests, status);
    MPI_Offset start = 0, count = rank == 0 ? COLUMNS : 0;
    bad |= ncmpi_put_vara_int_all(nc, fixed, &start, &count, data[0]);
    return bad | ncmpi_close(nc);
}

static int read_file(const char *path)
{
    int n = rows * nranks * COLUMNS, nc, var, bad;
    int *data = malloc(sizeof(int) * (size_t)n);

    bad = ncmpi_open(MPI_COMM_SELF, path, NC_NOWRITE, MPI_INFO_NULL, &nc);
    bad = bad || ncmpi_inq_varid(nc, "v", &var);
    MPI_Offset start[2] = {0, 0}, count[2] = {rows * nranks, COLUMNS};
    bad = bad || ncmpi_get_vara_int_all(nc, var, start, count, data);
    for (int i = 0; !bad && i < n; i++)
        bad = data[i] != value(i / COLUMNS, i % COLUMNS);
    if (bad)
        fprintf(stderr, "rank %d: %s is wrong\n", rank, path);
    else
        ncmpi_close(nc);
    free(data);
    return bad;
}

static int write_and_read(const char *path, const char *how)
{
    int bad = write_file(path, how);

    if (bad)
        fprintf(stderr, "rank %d: %s: %s\n", rank, path, ncmpi_strerror(bad));
    MPI_Barrier(MPI_COMM_WORLD);
    bad = bad || read_file(path);
    MPI_Barrier(MPI_COMM_WORLD);
    return bad;
}

int main(int argc, char **argv)
{
    int bad = 0, all, turns;

    if (argc < 4)
        return 2;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &nranks);
    turns = atoi(argv[2]);
    for (int i = 3; i < argc; i++) {
        char path[4096];
        snprintf(path, sizeof(path), "%s.%s", argv[1], argv[i]);
        for (turn = 0; turn < turns; turn++) {
            rows = ROWS_MAX - turn % 3 * 2;
            bad |= write_and_read(path, argv[i]) != 0;
        }
    }
    MPI_Allreduce(&bad, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%d ranks, %d bad\n", nranks, all);
    MPI_Finalize();
    return all != 0;
}
