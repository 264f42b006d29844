/*
 * xfer.c - write files of a known pattern, or read and check them, with the calls of plain
 * C
 *
 * Knows nothing of dyad. One line per file goes to the file of -S: its SHA-256, size and
 * name (bytes outside of [!-~] as %XX), so that what was written and what was read can be
 * compared after a sort. "%r" in an option's value stands for the rank (PMIX_RANK).
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <openssl/evp.h>

#define BLOCK ((size_t)1 << 20)

static struct {
    bool write;
    const char *dir, *prefix, *names_file, *sums, *after[8], *ready, *end, *hold, *method;
    uint64_t count, size, seed;
    int threads, expected_errno, nafter;
} opt = {
    .dir = ".", .prefix = "f", .method = "open", .count = 1, .size = 4096, .threads = 1};

static char **names; /* of -N, else NULL */
static uint64_t next_file;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* next_file, sums */
static FILE *sums;

static void die(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));

static void die(const char *fmt, ...)
{
    int saved = errno;
    va_list ap;
    fprintf(stderr, "xfer[%s]: ", opt.write ? "write" : "read");
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fprintf(stderr, " (errno %d, %s)\n", saved, strerror(saved));
    exit(1);
}

static uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15ULL;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
    return x ^ (x >> 31);
}

/* The bytes [offset, offset + len) of file number `file`; offset is a multiple of 8. */
static void pattern(void *buf, size_t len, uint64_t file, uint64_t offset)
{
    uint64_t key = mix(opt.seed * 0x1000193 + file), value;
    char *p = buf;

    for (size_t i = 0; i < len; i += sizeof(value)) {
        value = (key ^ (offset + i)) * 0xd6e8feb86659fd93ULL;
        value ^= value >> 32;
        memcpy(p + i, &value, len - i < sizeof(value) ? len - i : sizeof(value));
    }
}

static void file_name(uint64_t i, char *name, size_t size)
{
    if (names)
        snprintf(name, size, "%s", names[i]);
    else
        snprintf(name, size, "%s.%06llu", opt.prefix, (unsigned long long)i);
}

static void make_parents(const char *path)
{
    char parent[2 * PATH_MAX];

    snprintf(parent, sizeof(parent), "%s", path);
    for (char *p = parent + strlen(opt.dir) + 1; (p = strchr(p, '/')); p++) {
        *p = '\0';
        if (mkdir(parent, 0755) < 0 && errno != EEXIST)
            die("mkdir %s", parent);
        *p = '/';
    }
}

static void write_all(int fd, const char *buf, size_t len, const char *path)
{
    while (len > 0) {
        ssize_t n = write(fd, buf, len);
        if (n < 0)
            die("write %s", path);
        buf += n;
        len -= (size_t)n;
    }
}

/* One block at a time to the open file, in the way -m says. */
static void put(const char *path, uint64_t file, EVP_MD_CTX *md, char *buf)
{
    const char *target = path;
    char temporary[2 * PATH_MAX + 8];
    FILE *stream = NULL;
    char *map = NULL;
    int fd = -1;

    if (!strcmp(opt.method, "rename")) {
        snprintf(temporary, sizeof(temporary), "%s.part", path);
        target = temporary;
    }
    if (!strcmp(opt.method, "fopen"))
        stream = fopen(target, "w");
    else if (!strcmp(opt.method, "creat"))
        fd = creat(target, 0640);
    else if (!strcmp(opt.method, "rdwr") || !strcmp(opt.method, "mmap"))
        fd = open(target, O_RDWR | O_CREAT | O_TRUNC, 0640);
    else if (!strcmp(opt.method, "append"))
        fd = open(target, O_WRONLY | O_CREAT | O_APPEND, 0640);
    else
        fd = open(target, O_WRONLY | O_CREAT | O_TRUNC, 0640);
    if (!stream && fd < 0)
        die("open %s for writing", target);
    if (!strcmp(opt.method, "mmap") && opt.size > 0) {
        if (ftruncate(fd, (off_t)opt.size) < 0)
            die("ftruncate %s", target);
        map = mmap(NULL, opt.size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (map == MAP_FAILED)
            die("mmap %s", target);
    }
    for (uint64_t done = 0; done < opt.size;) {
        size_t len = opt.size - done < BLOCK ? (size_t)(opt.size - done) : BLOCK;
        pattern(buf, len, file, done);
        EVP_DigestUpdate(md, buf, len);
        if (stream) {
            if (fwrite(buf, 1, len, stream) != len)
                die("fwrite %s", target);
        } else if (map) {
            memcpy(map + done, buf, len);
        } else {
            write_all(fd, buf, len, target);
        }
        done += len;
    }
    if (map && munmap(map, opt.size) < 0)
        die("munmap %s", target);
    if (stream ? fclose(stream) != 0 : close(fd) < 0)
        die("close %s", target);
    if (target != path && rename(target, path) < 0)
        die("rename %s", target);
}

static void check(const char *buf, size_t len, uint64_t file, uint64_t offset,
                  char *expected, const char *path)
{
    pattern(expected, len, file, offset);
    if (memcmp(buf, expected, len) != 0)
        die("%s: wrong bytes in the %zu at %llu", path, len, (unsigned long long)offset);
}

static void get(const char *path, uint64_t file, EVP_MD_CTX *md, char *buf, char *expected)
{
    uint64_t done = 0;
    FILE *stream = NULL;
    char *map = NULL;
    int fd = -1;

    if (!strcmp(opt.method, "fopen"))
        stream = fopen(path, "r");
    else
        fd = open(path, O_RDONLY);
    if (!stream && fd < 0)
        die("open %s for reading", path);
    if (!strcmp(opt.method, "mmap") && opt.size > 0) {
        map = mmap(NULL, opt.size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (map == MAP_FAILED)
            die("mmap %s", path);
    }
    for (;;) {
        ssize_t n;
        if (map) {
            n = opt.size - done < BLOCK ? (ssize_t)(opt.size - done) : (ssize_t)BLOCK;
            memcpy(buf, map + done, (size_t)n);
        } else if (stream) {
            n = (ssize_t)fread(buf, 1, BLOCK, stream);
        } else {
            /* whole blocks, since pattern() wants its offset aligned */
            size_t have = 0;
            while ((n = read(fd, buf + have, BLOCK - have)) > 0)
                have += (size_t)n;
            if (n == 0)
                n = (ssize_t)have;
        }
        if (n < 0 || (stream && ferror(stream)))
            die("read %s", path);
        if (n == 0)
            break;
        if (done + (uint64_t)n > opt.size)
            die("%s is longer than %llu", path, (unsigned long long)opt.size);
        check(buf, (size_t)n, file, done, expected, path);
        EVP_DigestUpdate(md, buf, (size_t)n);
        done += (uint64_t)n;
    }
    if (done != opt.size)
        die("%s has %llu bytes, not %llu", path, (unsigned long long)done,
            (unsigned long long)opt.size);
    if (map)
        munmap(map, opt.size);
    if (stream ? fclose(stream) != 0 : close(fd) < 0)
        die("close %s", path);
}

static void report(EVP_MD_CTX *md, const char *name)
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned len;

    EVP_DigestFinal_ex(md, digest, &len);
    if (!sums)
        return;
    pthread_mutex_lock(&lock);
    for (unsigned i = 0; i < len; i++)
        fprintf(sums, "%02x", digest[i]);
    fprintf(sums, " %llu ", (unsigned long long)opt.size);
    for (const unsigned char *p = (const unsigned char *)name; *p; p++)
        fprintf(sums, *p > ' ' && *p <= '~' && *p != '%' ? "%c" : "%%%02X", *p);
    fputc('\n', sums);
    pthread_mutex_unlock(&lock);
}

static void *work(void *arg)
{
    EVP_MD_CTX *md = EVP_MD_CTX_new();
    char *buf = malloc(2 * BLOCK);
    char name[PATH_MAX], path[2 * PATH_MAX];

    (void)arg;
    if (!md || !buf)
        die("out of memory");
    for (;;) {
        pthread_mutex_lock(&lock);
        uint64_t file = next_file++;
        pthread_mutex_unlock(&lock);
        if (file >= opt.count)
            break;
        file_name(file, name, sizeof(name));
        snprintf(path, sizeof(path), "%s/%s", opt.dir, name);
        if (opt.expected_errno) {
            int fd = open(path, O_RDONLY);
            if (fd >= 0 || errno != opt.expected_errno)
                die("open %s: expected errno %d", path, opt.expected_errno);
            continue;
        }
        EVP_DigestInit_ex(md, EVP_sha256(), NULL);
        if (opt.write) {
            make_parents(path);
            put(path, file, md, buf);
        } else {
            get(path, file, md, buf, buf + BLOCK);
        }
        report(md, name);
    }
    EVP_MD_CTX_free(md);
    free(buf);
    return NULL;
}

/* Files of -N: names separated by NUL. */
static void read_names(const char *path)
{
    size_t allocated = 0;
    char *name = NULL;
    FILE *in = fopen(path, "r");

    if (!in)
        die("open %s", path);
    for (opt.count = 0; getdelim(&name, &allocated, '\0', in) > 0; opt.count++) {
        names = realloc(names, (opt.count + 1) * sizeof(*names));
        if (!names || !(names[opt.count] = strdup(name)))
            die("out of memory");
    }
    free(name);
    fclose(in);
}

static void wait_for(const char *path)
{
    struct timespec pause = {.tv_nsec = 5000000};

    while (access(path, F_OK) < 0)
        nanosleep(&pause, NULL);
}

static void make_flag(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT, 0644);

    if (fd < 0)
        die("create %s", path);
    close(fd);
}

/* Highest resident memory of this process so far, for the test that bounds it. */
static void show_peak(void)
{
    char line[256];
    FILE *in = fopen("/proc/self/status", "r");

    while (in && fgets(line, sizeof(line), in))
        if (!strncmp(line, "VmHWM:", 6))
            printf("%s %s", opt.write ? "write" : "read", line);
    fflush(stdout);
    if (in)
        fclose(in);
}

static const char *expand(const char *value)
{
    const char *rank = getenv("PMIX_RANK"), *at = strstr(value, "%r");
    char *text;

    if (!at)
        return value;
    if (asprintf(&text, "%.*s%s%s", (int)(at - value), value, rank ? rank : "0", at + 2) <
        0)
        die("out of memory");
    return text;
}

static uint64_t number(const char *text)
{
    char *end;
    uint64_t value = strtoull(text, &end, 0);

    switch (*end) {
    case 'G':
        value <<= 10; /* fall through */
    case 'M':
        value <<= 10; /* fall through */
    case 'K':
        value <<= 10;
        end++;
    }
    if (*end || end == text)
        die("'%s' is no number", text);
    return value;
}

static int usage(void)
{
    fputs(
        "usage: xfer write|read [-d DIR] [-n COUNT | -N NAMES] [-p PREFIX] [-s SIZE] [-x "
        "SEED]\n"
        "    [-t THREADS] [-m open|fopen|creat|rdwr|append|rename|mmap] [-S SUMS]\n"
        "    [-a FILE: begin when it exists]... [-r FILE: make it before the first open]\n"
        "    [-e FILE: make it at the end] [-h FILE: stay until it exists] [-E ERRNO: "
        "expect it]\n",
        stderr);
    return 2;
}

int main(int argc, char **argv)
{
    pthread_t thread[256];
    int c;

    if (argc < 2 || (strcmp(argv[1], "write") && strcmp(argv[1], "read")))
        return usage();
    opt.write = !strcmp(argv[1], "write");
    optind = 2;
    while ((c = getopt(argc, argv, "d:n:N:p:s:x:t:m:S:a:r:e:h:E:")) != -1) {
        const char *value = optarg ? expand(optarg) : "";
        switch (c) {
        case 'd':
            opt.dir = value;
            break;
        case 'n':
            opt.count = number(value);
            break;
        case 'N':
            opt.names_file = value;
            break;
        case 'p':
            opt.prefix = value;
            break;
        case 's':
            opt.size = number(value);
            break;
        case 'x':
            opt.seed = number(value);
            break;
        case 't':
            opt.threads = (int)number(value);
            break;
        case 'm':
            opt.method = value;
            break;
        case 'S':
            opt.sums = value;
            break;
        case 'a':
            if (opt.nafter == 8)
                return usage();
            opt.after[opt.nafter++] = value;
            break;
        case 'r':
            opt.ready = value;
            break;
        case 'e':
            opt.end = value;
            break;
        case 'h':
            opt.hold = value;
            break;
        case 'E':
            opt.expected_errno = (int)number(value);
            break;
        default:
            return usage();
        }
    }
    if (opt.threads < 1 || opt.threads > 256)
        return usage();
    if (opt.names_file)
        read_names(opt.names_file);
    if (opt.sums && !(sums = fopen(opt.sums, "w")))
        die("open %s", opt.sums);
    for (int i = 0; i < opt.nafter; i++)
        wait_for(opt.after[i]);
    if (opt.ready)
        make_flag(opt.ready);

    for (int i = 0; i < opt.threads; i++)
        if ((errno = pthread_create(&thread[i], NULL, work, NULL)) != 0)
            die("pthread_create");
    for (int i = 0; i < opt.threads; i++)
        pthread_join(thread[i], NULL);

    if (sums && fclose(sums) != 0)
        die("write %s", opt.sums);
    if (opt.end)
        make_flag(opt.end);
    if (opt.hold)
        wait_for(opt.hold);
    show_peak();
    return 0;
}
