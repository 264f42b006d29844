/*
 * mpi_locked.c - what MPI-IO does under locks of the file: data sieving, atomic mode, shared file pointers
 *
 * mpi_locked HOW FILE ROUNDS:
 *   sieve    ranks write every nth block of a few bytes, each by itself: ROMIO reads what lies between
 *            them, and writes it back
 *   atomic   all ranks write the same places, not contiguous: what is there then is one rank's
 *   shared   ranks write records where the shared pointer is: each is there, once
 *   ordered  the same, in the order of the ranks
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 12, BLOCKS = 60 };

static int rank, size, bad;
static MPI_File file;

static void must(int rc, const char *what)
{
    char text[MPI_MAX_ERROR_STRING];
    int len;

    if (rc == MPI_SUCCESS)
        return;
    MPI_Error_string(rc, text, &len);
    fprintf(stderr, "rank %d: %s: %s\n", rank, what, text);
    MPI_Abort(MPI_COMM_WORLD, 2);
}

static void wrong(const char *what, int at, int have)
{
    if (bad++ < 5)
        printf("rank %d: %s %d: %d\n", rank, what, at, have);
}

static void view_of(int first, int stride)
{
    MPI_Datatype blocks;

    MPI_Type_vector(BLOCKS, BLOCK, stride * BLOCK, MPI_CHAR, &blocks);
    MPI_Type_commit(&blocks);
    must(MPI_File_set_view(file, (MPI_Offset)first * BLOCK, MPI_CHAR, blocks, "native",
                           MPI_INFO_NULL),
         "MPI_File_set_view");
    MPI_Type_free(&blocks);
}

static char mark_of(int round, int of_rank)
{
    return (char)(1 + (round * 7 + of_rank) % 120);
}

static void sieve(int rounds)
{
    static char data[BLOCKS * BLOCK];

    view_of(rank, size);
    for (int round = 0; round < rounds; round++) {
        memset(data, mark_of(round, rank), sizeof(data));
        must(MPI_File_write_at(file, 0, data, sizeof(data), MPI_CHAR, MPI_STATUS_IGNORE),
             "MPI_File_write_at");
    }
}

static void check_sieve(const char *all, int n, int rounds)
{
    if (n != size * BLOCKS * BLOCK)
        wrong("bytes", 0, n);
    for (int i = 0; i < n; i++)
        if (all[i] != mark_of(rounds - 1, i / BLOCK % size))
            wrong("byte", i, all[i]);
}

static void atomic(int rounds)
{
    static char data[BLOCKS * BLOCK];

    must(MPI_File_set_atomicity(file, 1), "MPI_File_set_atomicity");
    view_of(0, 2);
    for (int round = 0; round < rounds; round++) {
        memset(data, mark_of(round, rank), sizeof(data));
        must(MPI_File_write_at(file, 0, data, sizeof(data), MPI_CHAR, MPI_STATUS_IGNORE),
             "MPI_File_write_at");
        must(MPI_File_read_at(file, 0, data, sizeof(data), MPI_CHAR, MPI_STATUS_IGNORE),
             "MPI_File_read_at");
        for (size_t i = 1; i < sizeof(data); i++)
            if (data[i] != data[0])
                wrong("read of several ranks at", (int)i, data[i]);
    }
}

static void check_atomic(const char *all, int n)
{
    if (n != (2 * BLOCKS - 1) * BLOCK)
        wrong("bytes", 0, n);
    for (int i = 0; i < n; i++) /* ROMIO leaves what it finds in memory between them */
        if (i / BLOCK % 2 == 0 && all[i] != all[0])
            wrong("byte", i, all[i]);
}

static void shared(int rounds, int ordered)
{
    char record[32];

    for (int round = 0; round < rounds; round++) {
        snprintf(record, sizeof(record), "%5d %5d\n", rank, round);
        if (ordered)
            must(MPI_File_write_ordered(file, record, BLOCK, MPI_CHAR, MPI_STATUS_IGNORE),
                 "MPI_File_write_ordered");
        else
            must(MPI_File_write_shared(file, record, BLOCK, MPI_CHAR, MPI_STATUS_IGNORE),
                 "MPI_File_write_shared");
    }
}

static void check_shared(const char *all, int n, int rounds, int ordered)
{
    int *seen = calloc((size_t)(size * rounds), sizeof(*seen));

    if (n != size * rounds * BLOCK)
        wrong("bytes", 0, n);
    for (int i = 0; i + BLOCK <= n; i += BLOCK) {
        int r = -1, round = -1;
        sscanf(all + i, "%d %d", &r, &round);
        if (r < 0 || r >= size || round < 0 || round >= rounds ||
            seen[r * rounds + round]++)
            wrong("record", i / BLOCK, r);
        else if (ordered && i / BLOCK != round * size + r)
            wrong("order of record", i / BLOCK, r);
    }
    free(seen);
}

int main(int argc, char **argv)
{
    const char *how = argv[1];
    int rounds = argc == 4 ? atoi(argv[3]) : 0, all_bad = 0;
    char *all;
    size_t n;
    FILE *f;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    must(MPI_File_open(MPI_COMM_WORLD, argv[2], MPI_MODE_CREATE | MPI_MODE_RDWR,
                       MPI_INFO_NULL, &file),
         "MPI_File_open");
    if (strcmp(how, "sieve") == 0)
        sieve(rounds);
    else if (strcmp(how, "atomic") == 0)
        atomic(rounds);
    else
        shared(rounds, strcmp(how, "ordered") == 0);
    must(MPI_File_close(&file), "MPI_File_close");
    MPI_Barrier(MPI_COMM_WORLD);
    f = fopen(argv[2], "r");
    all = malloc(1 << 20);
    n = f && all ? fread(all, 1, 1 << 20, f) : 0;
    if (strcmp(how, "sieve") == 0)
        check_sieve(all, (int)n, rounds);
    else if (strcmp(how, "atomic") == 0)
        check_atomic(all, (int)n);
    else
        check_shared(all, (int)n, rounds, strcmp(how, "ordered") == 0);
    if (f)
        fclose(f);
    free(all);
    MPI_Reduce(&bad, &all_bad, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%d ranks, %d bad\n", size, all_bad);
    MPI_Finalize();
    return 0;
}
