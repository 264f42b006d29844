/*
 * config/probes.h - names that a program opens without knowing whether they exist
 *
 * The table is probes.def. Links libc only; reads /proc, and looks into directories outside
 * the managed one. Thread-safe, and safe where a handler has interrupted malloc, but for
 * the rows of compilers and the like that search directories (glob).
 */
#ifndef DYAD_CONFIG_PROBES_H
#define DYAD_CONFIG_PROBES_H

#include <stdbool.h>
#include <sys/types.h>

struct engine_config;

struct probes_asker {
    pid_t pid;       /* the process that opens it; 0: this process */
    const char *dmd; /* the managed directory, links resolved: as programs see it */
    /* True if a file below dmd is published. NULL: that cannot be asked. */
    bool (*published)(void *arg, const char *upath);
    void *arg;
};

enum probes_answer {
    PROBES_WAIT,     /* the open waits for it */
    PROBES_OPTIONAL, /* the open does not wait for a publish */
    PROBES_ASK,      /* it waits only if there is a sign of a publish: NET_CONSUME_PROBE */
};

/* Look upath up in the table, for this program. Keeps errno. */
enum probes_answer probes_answer(const struct probes_asker *asker, const char *upath);

/* True if the table, whatever command lines name, does not say PROBES_WAIT. */
bool probes_look_like(const struct probes_asker *asker, const char *upath);

/* This process has published upath. A word is stored. */
void probes_made(const char *upath);

/* True if the command line of the process, or of an ancestor in its rank, names upath. */
bool probes_named(const struct probes_asker *asker, const char *upath);

/* True if one of the globs, separated by ':', matches upath. NULL: false. */
bool probes_glob(const char *globs, const char *upath);

/* True if the user has declared when upath is complete, which its close is not then
 * (DYAD_COMPLETE_AT_EXIT, DYAD_COMPLETE_AT_CHMOD). */
bool probes_declared(const struct engine_config *config, const char *upath);

/* True if two names have numbers and differ only in these. Pure. */
bool probes_is_series(const char *a, const char *b);

#endif
