/*
 * open_both.c - open_both DIR N: two writers open each of N new files at once, and each
 * goes on only when the other has it open, too, as the ranks of a parallel program do
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static pthread_barrier_t barrier;
static const char *dir;
static int count, failures;

static void *writer(void *arg)
{
    char path[4096];

    for (int i = 0; i < count; i++) {
        snprintf(path, sizeof(path), "%s/both.%d", dir, i);
        pthread_barrier_wait(&barrier);
        int fd = open(path, O_RDWR | O_CREAT, 0644);
        pthread_barrier_wait(&barrier);
        if (fd < 0 || write(fd, "x", 1) != 1 || close(fd) < 0) {
            perror(path);
            __atomic_add_fetch(&failures, 1, __ATOMIC_RELAXED);
        }
    }
    return arg;
}

int main(int argc, char *argv[])
{
    pthread_t thread[2];

    if (argc != 3)
        return 2;
    dir = argv[1];
    count = atoi(argv[2]);
    pthread_barrier_init(&barrier, NULL, 2);
    for (int i = 0; i < 2; i++)
        pthread_create(&thread[i], NULL, writer, NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(thread[i], NULL);
    return failures != 0;
}
