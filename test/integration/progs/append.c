/*
 * append FILE HOW RANK COUNT [FROM] - append COUNT records to FILE, and read each where it came to lie
 *
 * A record is "<rank> <thread> <number> <dots>\n". HOW: write, writev, pwrite (which appends, too), flag
 * (RWF_APPEND), stream, dprintf, stdout (FILE is that of descriptor 1), threads (three, one
 * descriptor), again (it is opened for each). FROM: the first number.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

enum { RECORD_MAX = 400 };

static const char *path, *how, *rank;
static int count, from, fd;
static FILE *stream;

static void fail(const char *what)
{
    fprintf(stderr, "rank %s, %s: %s: %s\n", rank, how, what, strerror(errno));
    _exit(1);
}

static int is(const char *what)
{
    return strcmp(how, what) == 0;
}

static void open_file(void)
{
    if (is("stdout"))
        fd = STDOUT_FILENO;
    else if (is("stream")) {
        if (!(stream = fopen(path, "a+")))
            fail("fopen");
        fd = fileno(stream);
    } else if ((fd = open(path, O_RDWR | O_CREAT | O_APPEND, 0644)) < 0)
        fail("open");
}

static void append(int at, const char *record, int length)
{
    struct iovec part[] = {{(void *)record, 1}, {(void *)(record + 1), (size_t)length - 1}};
    ssize_t n = length;

    if (is("writev"))
        n = writev(at, part, 2);
    else if (is("pwrite"))
        n = pwrite(at, record, (size_t)length, 0);
    else if (is("flag"))
        n = pwritev2(at, part, 2, -1, RWF_APPEND);
    else if (is("dprintf"))
        n = dprintf(at, "%s", record);
    else if (is("stdout"))
        n = printf("%s", record) == length && fflush(stdout) == 0 ? length : -1;
    else if (is("stream"))
        n = fprintf(stream, "%s", record) == length && fflush(stream) == 0 ? length : -1;
    else
        n = write(at, record, (size_t)length);
    if (n != length)
        fail("append");
}

/* Of the descriptor's offset only who does not share it knows. */
static void look(const char *record, int length)
{
    char have[RECORD_MAX];
    off_t end = lseek(fd, 0, SEEK_CUR);

    if (is("pwrite") || is("threads") || is("stdout"))
        return;
    if (pread(fd, have, (size_t)length, end - length) != length)
        fail("read");
    if (memcmp(have, record, (size_t)length) != 0)
        fail("it is not where the offset says");
}

static void *run(void *thread)
{
    for (int i = from; i < from + count; i++) {
        char record[RECORD_MAX];
        int length, dots = (i * 37 + atoi(rank) * 11) % 300;
        length =
            snprintf(record, sizeof(record), "%s %s %d ", rank, (const char *)thread, i);
        memset(record + length, '.', (size_t)dots);
        strcpy(record + length + dots, "\n");
        length += dots + 1;
        if (is("again"))
            open_file();
        append(fd, record, length);
        look(record, length);
        if (is("again") && close(fd) < 0)
            fail("close");
    }
    return NULL;
}

int main(int argc, char **argv)
{
    char *names[] = {"0", "1", "2"};
    pthread_t threads[3];

    if (argc < 5)
        return 2;
    path = argv[1];
    how = argv[2];
    rank = argv[3];
    count = atoi(argv[4]);
    from = argc > 5 ? atoi(argv[5]) : 0;
    if (!is("again"))
        open_file();
    if (is("threads")) {
        for (int i = 0; i < 3; i++)
            pthread_create(&threads[i], NULL, run, names[i]);
        for (int i = 0; i < 3; i++)
            pthread_join(threads[i], NULL);
    } else {
        run(names[0]);
    }
    if (is("again") || is("stdout"))
        return 0;
    if (stream ? fclose(stream) : close(fd))
        fail("close");
    return 0;
}
