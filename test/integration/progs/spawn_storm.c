/*
 * spawn_storm.c - threads that write files while others start programs
 *
 *   spawn_storm write DIR NFILES   eight threads write DIR/0 ... DIR/(NFILES-1), each its
 * own number; eight start /bin/true as long as that lasts spawn_storm read DIR NFILES reads
 * them all
 *
 * Between its birth and its exec a child has a copy of each open descriptor: a file that is
 * closed then has another holder for a moment.
 */
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define NWRITERS  8
#define NSPAWNERS 8

extern char **environ;

static const char *dir;
static int nfiles;
static _Atomic int next_file, writing = NWRITERS;

static void die(const char *what)
{
    perror(what);
    _exit(1);
}

static void *writer(void *arg)
{
    char path[4096], text[16];
    int i;

    while ((i = atomic_fetch_add(&next_file, 1)) < nfiles) {
        int fd;
        snprintf(path, sizeof(path), "%s/%d", dir, i);
        fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
        int n = snprintf(text, sizeof(text), "%d\n", i);
        if (fd < 0 || write(fd, text, (size_t)n) != n || close(fd) < 0)
            die(path);
    }
    atomic_fetch_sub(&writing, 1);
    return arg;
}

static pid_t by_vfork(char *const argv[])
{
    pid_t pid = vfork();

    if (pid == 0) {
        execve("/bin/true", argv, environ);
        _exit(127);
    }
    return pid;
}

static void *spawner(void *arg)
{
    char *argv[] = {"true", NULL};
    int status;
    pid_t pid;

    for (volatile unsigned i = 0; atomic_load(&writing) > 0; i++) {
        if (i % 2)
            pid = by_vfork(argv);
        else if (posix_spawn(&pid, i % 4 ? "/bin/true" : "/no/such", NULL, NULL, argv,
                             environ) != 0)
            continue; /* the child has come and gone */
        if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
            die("true");
    }
    return arg;
}

static int run_writers(void)
{
    pthread_t thread[NWRITERS + NSPAWNERS];

    for (int i = 0; i < NWRITERS + NSPAWNERS; i++)
        if (pthread_create(&thread[i], NULL, i < NWRITERS ? writer : spawner, NULL) != 0)
            die("pthread_create");
    for (int i = 0; i < NWRITERS + NSPAWNERS; i++)
        pthread_join(thread[i], NULL);
    return 0;
}

static int run_reader(void)
{
    char path[4096], text[16];

    for (int i = 0; i < nfiles; i++) {
        FILE *f;
        snprintf(path, sizeof(path), "%s/%d", dir, i);
        if (!(f = fopen(path, "r")) || !fgets(text, sizeof(text), f) || atoi(text) != i)
            die(path);
        fclose(f);
    }
    return 0;
}

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    dir = argv[2];
    nfiles = atoi(argv[3]);
    return strcmp(argv[1], "write") == 0 ? run_writers() : run_reader();
}
