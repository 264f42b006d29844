/*
 * mpi_hdf5.c - all ranks write one file by parallel HDF5, and each reads all of it
 *
 * mpi_hdf5 FILE ROUNDS contiguous|chunked|independent|steps...: a set of rows, some of each rank,
 * with and without chunks and fill values, collectively or not; or one set after the other, each
 * flushed. FILE.contiguous and so on are made again in each round, with other rows, and more or fewer of them.
 */
#include <hdf5.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS_MAX = 7, COLUMNS = 1000, STEPS = 5 };

static int rank, nranks, turn, rows;

static int value(int step, int row, int column)
{
    return turn * 10000000 + step * 1000000 + row * 1000 + column;
}

static hid_t properties_of_set(const char *how)
{
    hid_t list = H5Pcreate(H5P_DATASET_CREATE);
    hsize_t chunk[2] = {3, 301};
    int fill = -1;

    if (strcmp(how, "chunked") == 0)
        H5Pset_chunk(list, 2, chunk);
    H5Pset_fill_value(list, H5T_NATIVE_INT, &fill);
    H5Pset_fill_time(list, H5D_FILL_TIME_ALLOC);
    H5Pset_alloc_time(list, H5D_ALLOC_TIME_EARLY);
    return list;
}

/* Each rank every nranks-th row. */
static int write_set(hid_t file, const char *how, int step)
{
    hsize_t size[2] = {(hsize_t)(rows * nranks), COLUMNS}, start[2] = {(hsize_t)rank, 0};
    hsize_t stride[2] = {(hsize_t)nranks, 1}, count[2] = {(hsize_t)rows, COLUMNS};
    hid_t space = H5Screate_simple(2, size, NULL), mine = H5Screate_simple(2, count, NULL);
    hid_t list = properties_of_set(how), transfer = H5Pcreate(H5P_DATASET_XFER), set;
    static int data[ROWS_MAX][COLUMNS];
    char name[32];
    int bad;

    for (int i = 0; i < rows; i++)
        for (int k = 0; k < COLUMNS; k++)
            data[i][k] = value(step, i * nranks + rank, k);
    snprintf(name, sizeof(name), "set%d", step);
    set = H5Dcreate2(file, name, H5T_NATIVE_INT, space, H5P_DEFAULT, list, H5P_DEFAULT);
    H5Sselect_hyperslab(space, H5S_SELECT_SET, start, stride, count, NULL);
    H5Pset_dxpl_mpio(transfer, strcmp(how, "independent") == 0 ? H5FD_MPIO_INDEPENDENT
                                                               : H5FD_MPIO_COLLECTIVE);
    bad = set < 0 || H5Dwrite(set, H5T_NATIVE_INT, mine, space, transfer, data) < 0;
    H5Pclose(transfer);
    H5Pclose(list);
    H5Sclose(mine);
    H5Sclose(space);
    return bad | (H5Dclose(set) < 0);
}

static int read_sets(const char *path, int steps)
{
    hid_t file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
    int *data = malloc(sizeof(int) * (size_t)(rows * nranks * COLUMNS));
    int bad = file < 0;

    for (int step = 0; !bad && step < steps; step++) {
        char name[32];
        hid_t set;
        snprintf(name, sizeof(name), "set%d", step);
        set = H5Dopen2(file, name, H5P_DEFAULT);
        bad = set < 0 ||
              H5Dread(set, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, data) < 0;
        H5Dclose(set);
        for (int i = 0; !bad && i < rows * nranks * COLUMNS; i++)
            bad = data[i] != value(step, i / COLUMNS, i % COLUMNS);
        if (bad)
            fprintf(stderr, "rank %d: %s of %s is wrong\n", rank, name, path);
    }
    free(data);
    H5Fclose(file);
    return bad;
}

static int write_and_read(const char *path, const char *how)
{
    int bad, steps = strcmp(how, "steps") == 0 ? STEPS : 1;
    hid_t access, file;

    access = H5Pcreate(H5P_FILE_ACCESS);
    H5Pset_fapl_mpio(access, MPI_COMM_WORLD, MPI_INFO_NULL);
    file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, access);
    bad = file < 0;
    for (int step = 0; !bad && step < steps; step++)
        bad = write_set(file, how, step) ||
              (steps > 1 && H5Fflush(file, H5F_SCOPE_GLOBAL) < 0);
    bad |= H5Fclose(file) < 0;
    H5Pclose(access);
    MPI_Barrier(MPI_COMM_WORLD);
    bad = bad || read_sets(path, steps);
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
            bad |= write_and_read(path, argv[i]);
        }
    }
    MPI_Allreduce(&bad, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%d ranks, %d bad\n", nranks, all);
    MPI_Finalize();
    return all != 0;
}
