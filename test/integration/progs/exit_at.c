/*
 * exit_at.c - exit_at [MS]: does nothing for so long (a random 0 to 30 ms), then ends in
 * one of the ways in which programs end
 */
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    struct timespec ts;
    unsigned seed;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    seed = (unsigned)(ts.tv_nsec ^ getpid() * 7919);
    long us = argc > 1 ? atol(argv[1]) * 1000 : rand_r(&seed) % 30000;
    ts = (struct timespec){.tv_nsec = us * 1000};
    nanosleep(&ts, NULL);
    switch (rand_r(&seed) % 4) {
    case 0:
        _exit(0);
    case 1:
        quick_exit(0);
    case 2:
        exit(0);
    default:
        return 0;
    }
}
