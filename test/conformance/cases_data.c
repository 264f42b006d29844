/* cases_data.c - the bytes: maps, offsets, holes, copies inside the kernel */
#include "conform.h"

#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/uio.h>

static int file(const char *name)
{
    return R(open(name, O_RDWR | O_CREAT, 0644));
}

static void map(long which, long unused)
{
    char *at;
    int fd = file("f"), other;

    (void)unused;
    R(ftruncate(fd, 8192));
    switch (which) {
    case 0: /* closed before it is written */
        at = P(mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
        R(close(fd));
        memcpy(at, "after the close", 15);
        R(msync(at, 8192, MS_SYNC));
        R(munmap(at, 8192));
        break;
    case 1:
        at = P(mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
        memcpy(at + 4096, "second page", 11);
        R(munmap(at, 4096));
        R(munmap(at + 4096, 4096));
        R(close(fd));
        break;
    case 2:
        at = P(mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0));
        memcpy(at, "mine alone", 10);
        R(close(fd));
        R(munmap(at, 8192));
        break;
    case 3:
        at = P(mmap64(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 4096));
        memcpy(at, "at an offset", 12);
        R(close(fd));
        /* never unmapped: exit does it */
        break;
    case 4: /* moved */
        at = P(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
        R(close(fd));
        at = P(mremap(at, 4096, 8192, MREMAP_MAYMOVE));
        memcpy(at + 4096, "grown", 5);
        R(munmap(at, 8192));
        break;
    case 5: /* written in a child */
        at = P(mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
        R(close(fd));
        CHILD(memcpy(at, "child", 5));
        memcpy(at + 5, " parent", 7);
        R(munmap(at, 8192));
        break;
    case 6: /* read only */
        R(close(fd));
        put("f", "to be read");
        other = R(open("f", O_RDONLY));
        at = P(mmap(NULL, 10, PROT_READ, MAP_SHARED, other, 0));
        R(close(other));
        note_bytes("mapped", at, 10);
        R(munmap(at, 10));
        break;
    case 7:
        P(mmap(NULL, 0, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED ? NULL : &fd);
        P(mmap(NULL, 10, PROT_READ, MAP_SHARED, 99, 0) == MAP_FAILED ? NULL : &fd);
        P(mmap(NULL, 10, PROT_READ, MAP_SHARED, fd, 1) == MAP_FAILED ? NULL : &fd);
        other = R(open("f", O_RDONLY));
        P(mmap(NULL, 10, PROT_WRITE, MAP_SHARED, other, 0) == MAP_FAILED ? NULL : &fd);
        R(munmap((void *)1, 10));
        R(close(fd));
        break;
    case 8: /* replaced by another map */
        at = P(mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
        R(close(fd));
        memcpy(at, "replaced", 8);
        P(mmap(at, 8192, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0));
        break;
    default: /* made writable later */
        at = P(mmap(NULL, 8192, PROT_READ, MAP_SHARED, fd, 0));
        R(close(fd));
        R(mprotect(at, 8192, PROT_READ | PROT_WRITE));
        memcpy(at, "protected", 9);
        R(munmap(at, 8192));
        break;
    }
    show("f");
    look("f");
}

static void large(long which, long unused)
{
    off_t far = which == 0   ? (off_t)1 << 31
                : which == 1 ? ((off_t)1 << 32) + 5
                             : (off_t)1 << 40;
    char text[8] = "";
    struct stat st;
    FILE *stream;
    int fd = file("big");

    (void)unused;
    R(pwrite(fd, "far", 3, far));
    R(lseek(fd, 0, SEEK_END) == far + 3);
    R(close(fd));
    R(stat("big", &st));
    R(st.st_size == far + 3);
    R(st.st_blocks < 100);
    stream = P(fopen("big", "r+"));
    R(fseeko(stream, far, SEEK_SET));
    note_str("fgets", fgets(text, sizeof text, stream));
    R(ftello(stream) == far + 3);
    R(fclose(stream));
    R(truncate("big", far + 1));
    R(stat("big", &st));
    R(st.st_size == far + 1);
    fd = R(open("big", O_RDONLY));
    R(lseek(fd, far - 5, SEEK_SET) == far - 5);
    R(read(fd, text, 8));
    R(close(fd));
    R(unlink("big"));
}

static void append(long unused, long unused2)
{
    int a = R(open("f", O_WRONLY | O_CREAT | O_APPEND, 0644)),
        b = R(open("f", O_WRONLY | O_APPEND));

    (void)unused, (void)unused2;
    R(write(a, "a", 1));
    R(write(b, "b", 1));
    R(lseek(a, 0, SEEK_SET));
    R(write(a, "c", 1));
    R(pwrite(b, "d", 1, 0));
    R(fcntl(a, F_SETFL, 0));
    R(lseek(a, 0, SEEK_SET));
    R(write(a, "e", 1));
    R(close(a));
    R(write(b, "f", 1));
    R(close(b));
    show("f");
}

static void inside_kernel(long which, long unused)
{
    off_t from = 2, to = 1;
    int in, out, ends[2];

    (void)unused;
    put("in", "0123456789");
    in = R(open("in", O_RDONLY));
    out = file("out");
    R(pipe(ends));
    switch (which) {
    case 0:
        R(sendfile(out, in, NULL, 4));
        R(sendfile(out, in, &from, 100));
        R(from);
        R(lseek(in, 0, SEEK_CUR));
        break;
    case 1:
        R(copy_file_range(in, NULL, out, NULL, 5, 0));
        R(copy_file_range(in, &from, out, &to, 3, 0));
        R(copy_file_range(in, NULL, out, NULL, 5, 99));
        break;
    case 2:
        R(splice(in, NULL, ends[1], NULL, 6, 0));
        R(splice(ends[0], NULL, out, NULL, 6, 0));
        break;
    case 3:
        R(write(ends[1], "piped", 5));
        R(tee(ends[0], ends[1], 5, 0));
        R(splice(ends[0], NULL, out, NULL, 100, 0));
        break;
    case 4:
        R(vmsplice(ends[1], &(struct iovec){(void *)"vector", 6}, 1, 0));
        R(splice(ends[0], NULL, out, &to, 6, 0));
        break;
    default:
        R(posix_fadvise(in, 0, 0, POSIX_FADV_SEQUENTIAL));
        R(readahead(in, 0, 100));
        R(sync_file_range(out, 0, 0, SYNC_FILE_RANGE_WRITE));
        R(syncfs(out));
        break;
    }
    R(close(out));
    show("out");
}

static void vectors(long unused, long unused2)
{
    char a[4] = "", b[8] = "";
    int fd = file("f");

    (void)unused, (void)unused2;
    R(writev(fd, (struct iovec[]){{(void *)"ab", 2}, {(void *)"cde", 3}}, 2));
    R(pwritev(fd, (struct iovec[]){{(void *)"XY", 2}}, 1, 1));
    R(pwritev2(fd, (struct iovec[]){{(void *)"Z", 1}}, 1, -1, RWF_APPEND));
    R(lseek(fd, 0, SEEK_SET));
    R(readv(fd, (struct iovec[]){{a, 2}, {b, 3}}, 2));
    R(preadv(fd, (struct iovec[]){{b, 4}}, 1, 2));
    note_bytes("preadv", b, 4);
    R(preadv2(fd, (struct iovec[]){{b, 4}}, 1, 0, 0));
    R(pread(fd, b, 2, -1));
    R(readv(fd, NULL, 1));
    R(close(fd));
    show("f");
}

static void allocated(long which, long unused)
{
    int fd = file("f");

    (void)unused;
    R(write(fd, "content", 7));
    switch (which) {
    case 0:
        R(fallocate(fd, 0, 0, 10000));
        break;
    case 1:
        R(fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, 10000));
        break;
    case 2:
        R(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4));
        break;
    case 3:
        E(posix_fallocate(fd, 5, 20));
        E(posix_fallocate(fd, -1, 20));
        E(posix_fallocate(99, 0, 20));
        break;
    default:
        R(fallocate(fd, 0, -1, 5));
        R(fallocate(fd, 0, 0, 0));
        R(fallocate(99, 0, 0, 10));
        break;
    }
    R(close(fd));
    look("f");
    show("f");
}

static void holes(long unused, long unused2)
{
    int fd = file("f");

    (void)unused, (void)unused2;
    R(lseek(fd, 100000, SEEK_SET));
    R(write(fd, "end", 3));
    R(lseek(fd, 0, SEEK_HOLE));
    R(lseek(fd, 100003, SEEK_DATA));
    R(lseek(fd, -1, SEEK_SET));
    R(lseek(fd, 0, 77));
    R(lseek(fd, 5, SEEK_END));
    R(close(fd));
    look("f");
}

/* The file as a reader that holds it open sees it while it is written again. */
static void held_by_reader(long which, long unused)
{
    int fd, out;

    (void)unused;
    put("f", "first content");
    fd = R(open("f", O_RDONLY));
    if (which == 0) {
        put("f", "second");
    } else if (which == 1) {
        put("f.new", "second");
        R(rename("f.new", "f"));
    } else {
        out = R(open("f", O_WRONLY | O_APPEND));
        R(write(out, "+", 1));
        R(close(out));
    }
    show_fd("held", fd);
    show("f");
}

static void sync_calls(long unused, long unused2)
{
    int fd = file("f");

    (void)unused, (void)unused2;
    R(write(fd, "x", 1));
    R(fsync(fd));
    R(fdatasync(fd));
    R(fsync(99));
    R(isatty(fd));
    int got = -1;

    R(write(fd, NULL, 0));
    R(write(fd, NULL, 5));
    R(read(fd, (void *)8, 5));
    (void)got;
    R(close(fd));
}

void add_data_cases(void)
{
    for (long which = 0; which < 10; which++)
        conform_add(map, which, 0, "data.mmap.%ld", which);
    for (long which = 0; which < 3; which++)
        conform_add(large, which, 0, "data.large.%ld", which);
    ADD("data", append);
    for (long which = 0; which < 6; which++)
        conform_add(inside_kernel, which, 0, "data.kernel.%ld", which);
    ADD("data", vectors);
    for (long which = 0; which < 5; which++)
        conform_add(allocated, which, 0, "data.fallocate.%ld", which);
    ADD("data", holes);
    for (long which = 0; which < 3; which++)
        conform_add(held_by_reader, which, 0, "data.held.%ld", which);
    ADD("data", sync_calls);
}
