/*
 * mpi_shared.c - all ranks write one file, which rank 0 makes and keeps open
 *
 * mpi_shared posix|mpiio FILE: with open(2), the others after a barrier and without
 * O_CREAT; or with MPI_File_open. The last argument may be another for each rank.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <mpi.h>

enum { PART = 4096 };

static int check(const char *path, int size)
{
    char part[PART], expected[PART];
    FILE *f = fopen(path, "r");

    for (int i = 0; f && i < size; i++) {
        memset(expected, 'a' + i, PART);
        if (fread(part, 1, PART, f) != PART || memcmp(part, expected, PART) != 0) {
            fprintf(stderr, "%s: part %d is wrong\n", path, i);
            return 1;
        }
    }
    return !f || fclose(f) != 0;
}

static int by_posix(const char *path, int rank, const char *part)
{
    int fd = -1, bad;

    if (rank == 0)
        fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0644);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank != 0)
        fd = open(path, O_RDWR);
    MPI_Barrier(MPI_COMM_WORLD);
    bad = fd < 0 || pwrite(fd, part, PART, (off_t)rank * PART) != PART;
    MPI_Barrier(MPI_COMM_WORLD);
    return close(fd) != 0 || bad;
}

static int by_mpiio(const char *path, int rank, const char *part)
{
    MPI_File file;

    if (MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL,
                      &file) != MPI_SUCCESS)
        return 1;
    return MPI_File_write_at_all(file, (MPI_Offset)rank * PART, part, PART, MPI_BYTE,
                                 MPI_STATUS_IGNORE) != MPI_SUCCESS ||
           MPI_File_close(&file) != MPI_SUCCESS;
}

int main(int argc, char **argv)
{
    char part[PART];
    int rank, size, bad;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    memset(part, 'a' + rank, PART);
    bad = argc < 3 ||
          (strcmp(argv[1], "posix") == 0 ? by_posix : by_mpiio)(argv[2], rank, part);
    if (bad)
        fprintf(stderr, "rank %d: cannot write\n", rank);
    MPI_Barrier(MPI_COMM_WORLD);
    bad = bad || (rank == 0 && check(argv[2], size));
    MPI_Finalize();
    return bad;
}
