/*
 * many_threads - the threads of one rank do everything at once, and the other rank sees it
 *
 *   many_threads DMD ME OTHER THREADS ROUNDS
 *
 * In each round every thread makes a file ME.thread.round, in a way that changes from round
 * to round, looks at and reads its counterpart of OTHER, which may have to be waited for,
 * and takes the file of two rounds ago away. All bytes are checked.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *dmd, *me, *other;
static int nthreads, rounds;
extern char **environ;

static void die(const char *what, int thread, int round)
{
    fprintf(stderr, "many_threads: %s: thread %d, round %d: %s: %s\n", me, thread, round,
            what, strerror(errno));
    _exit(1);
}

struct job {
    int thread, round;
    char name[4096], temp[4200], text[4096];
    size_t len;
};

static void name_it(struct job *job, const char *who, int thread, int round)
{
    job->thread = thread;
    job->round = round;
    snprintf(job->name, sizeof(job->name), "%.3900s/%s.%d.%d", dmd, who, thread, round);
    snprintf(job->temp, sizeof(job->temp), "%s.temp", job->name);
    /* A length of its own; no character that a shell would mind. */
    int n = snprintf(job->text, sizeof(job->text), "%s,%d,%d,", who, thread, round);
    job->len = (size_t)n + (size_t)(thread * 37 + round * 11) % 3000;
    for (size_t i = (size_t)n; i < job->len; i++)
        job->text[i] = (char)('a' + (i * 7 + (size_t)thread + (size_t)round) % 26);
    job->text[job->len] = '\0';
}

static void put(const struct job *job, int fd)
{
    if (fd < 0 || write(fd, job->text, job->len) != (ssize_t)job->len)
        die("write", job->thread, job->round);
}

static int open_new(const char *path)
{
    return open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
}

static void close_checked(const struct job *job, int fd)
{
    if (close(fd) < 0)
        die("close", job->thread, job->round);
}

static void wait_for(const struct job *job, pid_t pid)
{
    int status;

    if (pid < 0 || waitpid(pid, &status, 0) < 0 || status != 0)
        die("a child", job->thread, job->round);
}

static void make_plain(const struct job *job)
{
    int fd = open_new(job->name);
    put(job, fd);
    close_checked(job, fd);
}

static void make_stream(const struct job *job)
{
    FILE *f = fopen(job->name, "w");
    if (!f || fwrite(job->text, 1, job->len, f) != job->len || fclose(f) != 0)
        die("a stream", job->thread, job->round);
}

static void make_renamed(const struct job *job)
{
    int fd = open_new(job->temp);
    put(job, fd);
    close_checked(job, fd);
    if (rename(job->temp, job->name) < 0)
        die("rename", job->thread, job->round);
}

static void make_dup(const struct job *job)
{
    int fd = open_new(job->name), two = dup(fd);
    close_checked(job, fd);
    put(job, two);
    fd = fcntl(two, F_DUPFD_CLOEXEC, 0);
    close_checked(job, two);
    close_checked(job, fd);
}

static void make_forked(const struct job *job)
{
    pid_t pid = fork();
    if (pid == 0) {
        int fd = open_new(job->name);
        _exit(fd < 0 || write(fd, job->text, job->len) != (ssize_t)job->len ||
              close(fd) < 0);
    }
    wait_for(job, pid);
}

/* The shell opens it, another program writes. */
static void make_spawned(const struct job *job)
{
    char *argv[] = {"sh",
                    "-c",
                    "exec /usr/bin/printf %s \"$1\" >\"$0\"",
                    (char *)job->name,
                    (char *)job->text,
                    NULL};
    pid_t pid;

    errno = posix_spawn(&pid, "/bin/sh", NULL, NULL, argv, environ);
    if (errno)
        die("posix_spawn", job->thread, job->round);
    wait_for(job, pid);
}

/* A descriptor that only the child closes last. */
static void make_inherited(const struct job *job)
{
    int fd = open(job->name, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    pid_t pid = fork();
    if (pid == 0)
        _exit(fd < 0 || write(fd, job->text, job->len) != (ssize_t)job->len);
    close_checked(job, fd);
    wait_for(job, pid);
}

static void (*const ways[])(const struct job *job) = {
    make_plain,  make_stream,  make_renamed,   make_dup,
    make_forked, make_spawned, make_inherited,
};
#define NWAYS (int)(sizeof(ways) / sizeof(ways[0]))

static void check(const struct job *job)
{
    char buf[4096];
    struct stat st;
    size_t n = 0;
    ssize_t part;
    int fd;

    /* Not there, or whole: never in part. */
    if (stat(job->name, &st) == 0) {
        if ((size_t)st.st_size != job->len)
            die("stat saw another size", job->thread, job->round);
    } else if (errno != ENOENT) {
        die("stat", job->thread, job->round);
    }
    fd = open(job->name, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        die("open", job->thread, job->round);
    while ((part = read(fd, buf + n, sizeof(buf) - n)) > 0)
        n += (size_t)part;
    if (part < 0 || n != job->len || memcmp(buf, job->text, n) != 0)
        die("other bytes", job->thread, job->round);
    close_checked(job, fd);
    if (access(job->name, R_OK) < 0)
        die("access", job->thread, job->round);
}

static void *run(void *arg)
{
    int thread = (int)(long)arg;
    struct job *job = malloc(sizeof(*job));

    if (!job)
        die("malloc", thread, 0);
    for (int round = 0; round < rounds; round++) {
        name_it(job, me, thread, round);
        ways[(thread + round) % NWAYS](job);
        name_it(job, other, thread, round);
        check(job);
        /* OTHER has made its file of this round, so it has read ours of the last but one.
         */
        if (round >= 2) {
            name_it(job, me, thread, round - 2);
            if (unlink(job->name) < 0)
                die("unlink", thread, round);
        }
    }
    free(job);
    return NULL;
}

int main(int argc, char **argv)
{
    if (argc != 6)
        return 2;
    dmd = argv[1];
    me = argv[2];
    other = argv[3];
    nthreads = atoi(argv[4]);
    rounds = atoi(argv[5]);
    pthread_t *threads = calloc((size_t)nthreads, sizeof(*threads));
    for (int i = 0; i < nthreads; i++)
        if ((errno = pthread_create(&threads[i], NULL, run, (void *)(long)i)))
            die("pthread_create", i, 0);
    for (int i = 0; i < nthreads; i++)
        pthread_join(threads[i], NULL);
    free(threads);
    printf("%s: %d threads, %d rounds\n", me, nthreads, rounds);
    return 0;
}
