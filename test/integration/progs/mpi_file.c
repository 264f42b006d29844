/*
 * mpi_file.c - ranks write one file by MPI-IO, and each reads all of it
 *
 * mpi_file FILE at|all|view|ahead|update BYTES COUNT [READERS [ROUNDS]]: COUNT records of BYTES bytes from each rank,
 * in turn; each record by itself, or collectively, or all by a strided view of the file, or without waiting for
 * the one before (which is aio_write()); or by itself, when all that the round before has left was read by the same
 * handle, and by none else. The last READERS ranks (0) write nothing, and read at once. In each round other bytes are written into the
 * same file, which a reader has as some round has left it.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, nranks, bytes, count, turn;
static MPI_Comm writers;

static char value(int of, int record, int round)
{
    return (char)('a' + (of + record + 7 * round) % 26);
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

/* All under way at once, and half of them waited for in the opposite order. */
static int ahead(MPI_File file, const char *records)
{
    MPI_Request *requests = malloc(sizeof(MPI_Request) * (size_t)count);
    int bad = 0;

    for (int i = 0; i < count; i++) {
        MPI_Offset at = ((MPI_Offset)i * nranks + rank) * bytes;
        bad |= MPI_File_iwrite_at(file, at, records + (size_t)i * (size_t)bytes, bytes,
                                  MPI_BYTE, &requests[i]) != MPI_SUCCESS;
    }
    for (int i = count - 1; i >= count / 2; i--)
        bad |= MPI_Wait(&requests[i], MPI_STATUS_IGNORE) != MPI_SUCCESS;
    bad |= MPI_Waitall(count / 2, requests, MPI_STATUSES_IGNORE) != MPI_SUCCESS;
    free(requests);
    return bad;
}

/* What the round before has left, by each rank before anybody writes. */
static int has_round_before(MPI_File file)
{
    size_t n = (size_t)(bytes * count * nranks);
    char *data = malloc(n);
    MPI_Status status;
    int bad = MPI_File_read_at(file, 0, data, (int)n, MPI_BYTE, &status) != MPI_SUCCESS;

    for (size_t i = 0; turn > 0 && !bad && i < n; i++)
        bad = data[i] != value((int)(i / (size_t)bytes) % nranks,
                               (int)(i / (size_t)bytes) / nranks, turn - 1);
    if (bad)
        fprintf(stderr, "rank %d, round %d: not what was left\n", rank, turn);
    free(data);
    MPI_Barrier(writers);
    return bad;
}

static int write_file(const char *path, const char *how)
{
    size_t len = (size_t)bytes;
    char *records = malloc(len * (size_t)count);
    char why[MPI_MAX_ERROR_STRING];
    MPI_File file;
    int bad = 0, rc, n;

    for (int i = 0; i < count; i++)
        memset(records + len * (size_t)i, value(rank, i, turn), len);
    rc =
        MPI_File_open(writers, path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
    if (rc != MPI_SUCCESS) {
        MPI_Error_string(rc, why, &n);
        fprintf(stderr, "rank %d: cannot open %s: %s\n", rank, path, why);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    if (strcmp(how, "update") == 0)
        bad = has_round_before(file);
    bad |= strcmp(how, "view") == 0    ? by_view(file, records)
           : strcmp(how, "ahead") == 0 ? ahead(file, records)
                                       : by_record(file, records, strcmp(how, "all") == 0);
    bad |= MPI_File_close(&file) != MPI_SUCCESS;
    free(records);
    return bad;
}

/* True if the file has the records of that round, and of no other. */
static int is_of(const char *data, size_t size, int round)
{
    size_t len = (size_t)bytes, n = (size_t)(count * nranks);
    int is = size == n * len;

    for (size_t i = 0; is && i < n * len; i++)
        is = data[i] == value((int)(i / len) % nranks, (int)(i / len) / nranks, round);
    return is;
}

/* As this round has left it, or, `earlier`, an earlier one. */
static int read_file(const char *path, int earlier)
{
    size_t most = (size_t)(bytes * count * nranks) + 1, size = 0;
    char *data = malloc(most);
    FILE *f = fopen(path, "r");
    int round = turn;

    if (f) {
        size = fread(data, 1, most, f);
        fclose(f);
    }
    while (f && !is_of(data, size, round) && earlier && round > 0)
        round--;
    if (!f || !is_of(data, size, round)) {
        fprintf(stderr, "rank %d, round %d: %s is %s\n", rank, turn, path,
                f ? "wrong" : "not to be had");
        f = NULL;
    }
    free(data);
    return f == NULL;
}

int main(int argc, char **argv)
{
    int bad, all, turns;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &nranks);
    all = nranks;
    bad = argc < 5;
    turns = argc > 6 ? atoi(argv[6]) : 1;
    nranks -= argc > 5 ? atoi(argv[5]) : 0; /* from now on: those that write */
    MPI_Comm_split(MPI_COMM_WORLD, rank < nranks, rank, &writers);
    if (!bad) {
        bytes = atoi(argv[3]);
        count = atoi(argv[4]);
    }
    for (turn = 0; !bad && turn < turns; turn++) {
        bad = rank < nranks ? write_file(argv[1], argv[2]) : read_file(argv[1], 1);
        if (rank < nranks)
            MPI_Barrier(writers);
        if (strcmp(argv[2], "update") != 0 || turn + 1 == turns)
            bad |= read_file(argv[1], rank >= nranks);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Comm_free(&writers);
    MPI_Allreduce(MPI_IN_PLACE, &bad, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%d ranks, %d bad\n", all, bad);
    MPI_Finalize();
    return bad != 0;
}
