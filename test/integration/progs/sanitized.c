/*
 * sanitized.c - threads and children that write and read, for builds with a sanitizer
 *
 * sanitized OWN OTHER: in the directory DYAD_PATH four threads write the files OWN.N, and
 * read OTHER.N; then a child that is forked, and one that is executed, write one each.
 * sanitized overflow|race: is wrong in that way, between two accesses to a file.
 * Built with -DOWN_MALLOC it has a malloc that ends the program when free() is given what
 * does not come from it.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define THREADS 4
#define FILES   4
#define SIZE    100000

#ifdef OWN_MALLOC
#define MAGIC 0x6f776e206d616c6cull

void *__libc_malloc(size_t size);
void __libc_free(void *p);

struct head {
    uint64_t magic;
    void *block;
    size_t size;
    uint64_t pad;
};

void *memalign(size_t alignment, size_t size);
void *memalign(size_t alignment, size_t size)
{
    char *block, *p;
    struct head *head;

    if (alignment < 16)
        alignment = 16;
    if (!(block = __libc_malloc(size + alignment + sizeof(*head))))
        return NULL;
    p = (char *)(((uintptr_t)block + sizeof(*head) + alignment - 1) & ~(alignment - 1));
    head = (struct head *)(void *)(p - sizeof(*head));
    *head = (struct head){.magic = MAGIC, .block = block, .size = size};
    return p;
}

void *malloc(size_t size)
{
    return memalign(16, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
    return memalign(alignment, size);
}

int posix_memalign(void **p, size_t alignment, size_t size)
{
    return (*p = memalign(alignment, size)) ? 0 : ENOMEM;
}

void *calloc(size_t n, size_t size)
{
    void *p = malloc(n * size);

    return p ? memset(p, 0, n * size) : NULL;
}

void free(void *p)
{
    struct head *head = (struct head *)((char *)p - sizeof(*head));

    if (!p)
        return;
    if (head->magic != MAGIC)
        abort();
    head->magic = 0;
    __libc_free(head->block);
}

void *realloc(void *p, size_t size)
{
    void *new = malloc(size);

    if (p && new) {
        size_t had = ((struct head *)((char *)p - sizeof(struct head)))->size;
        memcpy(new, p, had < size ? had : size);
        free(p);
    }
    return new;
}
#endif

static const char *dir, *own, *other;

static void die(const char *what)
{
    perror(what);
    exit(1);
}

static void name(char *path, size_t size, const char *whose, int n)
{
    snprintf(path, size, "%s/%s.%d", dir, whose, n);
}

static void write_file(int n)
{
    char path[4096], *bytes = malloc(SIZE);
    FILE *f;

    name(path, sizeof(path), own, n);
    memset(bytes, 'a' + n % 26, SIZE);
    if (!(f = fopen(path, "w")) || fwrite(bytes, 1, SIZE, f) != SIZE || fclose(f) != 0)
        die(path);
    free(bytes);
}

static void read_file(int n)
{
    char path[4096], *bytes = malloc(SIZE);
    FILE *f;

    name(path, sizeof(path), other, n);
    if (!(f = fopen(path, "r")) || fread(bytes, 1, SIZE, f) != SIZE || fclose(f) != 0)
        die(path);
    for (int i = 0; i < SIZE; i++) {
        if (bytes[i] != 'a' + n % 26) {
            fprintf(stderr, "%s is not right\n", path);
            exit(1);
        }
    }
    free(bytes);
}

static void *work(void *arg)
{
    int first = (int)(intptr_t)arg * FILES;

    for (int n = first; n < first + FILES; n++)
        write_file(n);
    for (int n = first; n < first + FILES; n++)
        read_file(n);
    return NULL;
}

static void in_child(void (*fn)(void))
{
    int status;
    pid_t pid = fork();

    if (pid == 0) {
        fn();
        _exit(0);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0) {
        fprintf(stderr, "a child failed\n");
        exit(1);
    }
}

static void forked(void)
{
    write_file(THREADS * FILES);
}

static void executed(void)
{
    char command[8192];

    snprintf(command, sizeof(command), "echo executed >%s/%s.executed", dir, own);
    execl("/bin/sh", "sh", "-c", command, (char *)NULL);
    _exit(1);
}

static volatile int shared;

static void *race(void *arg)
{
    for (int i = 0; i < 1000; i++)
        shared++;
    return arg;
}

static void fault(void)
{
    pthread_t thread;
    volatile char *p;

    write_file(0);
    if (strcmp(own, "overflow") == 0) {
        p = malloc(10);
        p[10 + (dir[0] == '\0')] = 'x';
        free((void *)(uintptr_t)p);
    } else {
        pthread_create(&thread, NULL, race, NULL);
        race(NULL);
        pthread_join(thread, NULL);
    }
    write_file(1);
}

int main(int argc, char **argv)
{
    pthread_t thread[THREADS];

    if (argc < 2 || !(dir = getenv("DYAD_PATH")))
        return 2;
    own = argv[1];
    if (argc == 2) {
        fault();
        return 0;
    }
    other = argv[2];
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&thread[i], NULL, work, (void *)(intptr_t)i) != 0)
            die("pthread_create");
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    in_child(forked);
    in_child(executed);
    return 0;
}
