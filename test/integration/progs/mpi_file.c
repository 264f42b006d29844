/*
 * mpi_file.c - ranks write one file by MPI-IO, and each reads all of it
 *
 * mpi_file FILE at|all|view BYTES COUNT [READERS]: COUNT records of BYTES bytes from each rank, in
 * turn; each record by itself, or collectively, or all by a strided view of the file. The last
 * READERS ranks (0) write nothing, and read at once.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, nranks, bytes, count;
static MPI_Comm writers;

static char value(int of, int record)
{
    return (char)('a' + (of + record) % 26);
}

static int by_view(MPI_File file, const char *records)
{
    MPI_Datatype type;
    int bad;

    MPI_Type_vector(count, bytes, nranks * bytes, MPI_BYTE, &type);
    MPI_Type_commit(&type);
    bad = MPI_File_set_view(file, (MPI_Offset)rank * bytes, MPI_BYTE, type, "native",
                            MPI_INFO_NULL) != MPI_SUCCESS ||
          MPI_File_write_all(file, records, bytes * count, MPI_BYTE, MPI_STATUS_IGNORE) !=
              MPI_SUCCESS;
    MPI_Type_free(&type);
    return bad;
}

static int by_record(MPI_File file, const char *records, int all)
{
    int bad = 0;

    for (int i = 0; i < count; i++) {
        MPI_Offset at = ((MPI_Offset)i * nranks + rank) * bytes;
        bad |= (all ? MPI_File_write_at_all : MPI_File_write_at)(
                   file, at, records + (size_t)i * (size_t)bytes, bytes, MPI_BYTE,
                   MPI_STATUS_IGNORE) != MPI_SUCCESS;
    }
    return bad;
}

static int write_file(const char *path, const char *how)
{
    size_t len = (size_t)bytes;
    char *records = malloc(len * (size_t)count);
    char why[MPI_MAX_ERROR_STRING];
    MPI_File file;
    int bad, rc, n;

    for (int i = 0; i < count; i++)
        memset(records + len * (size_t)i, value(rank, i), len);
    rc =
        MPI_File_open(writers, path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
    if (rc != MPI_SUCCESS) {
        MPI_Error_string(rc, why, &n);
        fprintf(stderr, "rank %d: cannot open %s: %s\n", rank, path, why);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    bad = strcmp(how, "view") == 0 ? by_view(file, records)
                                   : by_record(file, records, strcmp(how, "all") == 0);
    bad |= MPI_File_close(&file) != MPI_SUCCESS;
    free(records);
    return bad;
}

static int read_file(const char *path)
{
    size_t len = (size_t)bytes;
    char *have = malloc(len), *want = malloc(len);
    FILE *f = fopen(path, "r");
    int bad = !f;

    for (int i = 0; !bad && i < count * nranks; i++) {
        memset(want, value(i % nranks, i / nranks), len);
        bad = fread(have, 1, len, f) != len || memcmp(have, want, len) != 0;
        if (bad)
            fprintf(stderr, "rank %d: record %d of %s is wrong\n", rank, i, path);
    }
    bad |= f && (getc(f) != EOF);
    if (f)
        fclose(f);
    free(have);
    free(want);
    return bad;
}

int main(int argc, char **argv)
{
    int bad, all;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &nranks);
    all = nranks;
    bad = argc < 5;
    nranks -= argc > 5 ? atoi(argv[5]) : 0; /* from now on: those that write */
    MPI_Comm_split(MPI_COMM_WORLD, rank < nranks, rank, &writers);
    if (!bad) {
        bytes = atoi(argv[3]);
        count = atoi(argv[4]);
        bad = rank < nranks ? write_file(argv[1], argv[2]) : read_file(argv[1]);
    }
    if (rank < nranks)
        MPI_Barrier(writers);
    bad = bad || read_file(argv[1]);
    MPI_Comm_free(&writers);
    MPI_Allreduce(MPI_IN_PLACE, &bad, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%d ranks, %d bad\n", all, bad);
    MPI_Finalize();
    return bad != 0;
}
