/*
 * fuzz.c - inputs that are taken apart, seeds, and a directory for the targets that need one
 */
#include "fuzz.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

unsigned long fuzz_taken;

void fuzz_take(struct fuzz_input *in, void *to, size_t len)
{
    size_t n = in->left < len ? in->left : len;

    memset(to, 0, len);
    if (n > 0)
        memcpy(to, in->at, n);
    in->at += n;
    in->left -= n;
}

uint8_t fuzz_u8(struct fuzz_input *in)
{
    uint8_t value;

    fuzz_take(in, &value, sizeof(value));
    return value;
}

uint16_t fuzz_u16(struct fuzz_input *in)
{
    uint16_t value;

    fuzz_take(in, &value, sizeof(value));
    return value;
}

uint64_t fuzz_u64(struct fuzz_input *in)
{
    uint64_t value;

    fuzz_take(in, &value, sizeof(value));
    return value;
}

const char *fuzz_string(struct fuzz_input *in, char *to, size_t size)
{
    size_t len = 0;
    char c;

    while (len + 1 < size && in->left > 0 && (c = (char)fuzz_u8(in)))
        to[len++] = c;
    to[len] = '\0';
    return to;
}

void fuzz_seed(const char *name, const void *data, size_t len)
{
    FILE *file = fopen(name, "wb");

    if (!file || fwrite(data, 1, len, file) != len || fclose(file) != 0) {
        perror(name);
        exit(1);
    }
}

static char directory[64];
static pid_t maker;

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st, (void)type, (void)ftw;
    return remove(path);
}

static void remove_directory(void)
{
    if (directory[0] && getpid() == maker)
        nftw(directory, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

void fuzz_fail(const char *file, int line, const char *what)
{
    fprintf(stderr, "%s:%d: not true: %s\n", file, line, what);
    remove_directory();
    abort();
}

const char *fuzz_directory(void)
{
    const char *above = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";

    if (!directory[0]) {
        snprintf(directory, sizeof(directory), "%s/dyad-fuzz.XXXXXX", above);
        if (!mkdtemp(directory)) {
            perror(directory);
            exit(1);
        }
        maker = getpid();
        atexit(remove_directory);
    }
    return directory;
}
