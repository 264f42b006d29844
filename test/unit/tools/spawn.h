/*
 * spawn.h - run a program and keep what it said
 */
#ifndef DYAD_TEST_SPAWN_H
#define DYAD_TEST_SPAWN_H

#include <stddef.h>

struct spawn_result {
    int status; /* exit status, or 256 + signal */
    char out[65536], err[16384];
};

/* Run argv with exactly env; standard input is empty. Ends the test program if that is not
 * possible. */
void spawn_run(struct spawn_result *result, char *const argv[], char *const env[]);

#endif
