/*
 * config/probes.h - does a program open this name without knowing whether it exists?
 *
 * The table is probes.def. Links libc only; reads /proc, and looks into directories outside
 * the managed one. Thread-safe, and safe where a handler has interrupted malloc, but for
 * the rows of compilers and the like that search directories (glob).
 */
#ifndef DYAD_CONFIG_PROBES_H
#define DYAD_CONFIG_PROBES_H

#include <stdbool.h>
#include <sys/types.h>

struct probes_asker {
    pid_t pid;       /* who opens it; 0: this process */
    const char *dmd; /* the managed directory, links resolved: as programs see it */
    /* Is a file published that is below dmd? NULL: nobody can be asked. */
    bool (*published)(void *arg, const char *upath);
    void *arg;
};

enum probes_answer {
    PROBES_WAIT,     /* it is waited for */
    PROBES_OPTIONAL, /* it is not, as long as it is not published */
    PROBES_ASK,      /* only if something says that it will come: NET_CONSUME_PROBE */
};

/* What the table says of upath, for this program. errno is kept. */
enum probes_answer probes_answer(const struct probes_asker *asker, const char *upath);

/* Does the table, whatever command lines name, say other than PROBES_WAIT? */
bool probes_look_like(const struct probes_asker *asker, const char *upath);

/* This process has published upath. A word is stored. */
void probes_made(const char *upath);

/* Does a command line name upath: that of the process, or of one of its rank above it? */
bool probes_named(const struct probes_asker *asker, const char *upath);

/* Does one of the globs, separated by ':', match upath? NULL: none does. */
bool probes_glob(const char *globs, const char *upath);

/* Do two names differ in their numbers only, and have some? Pure. */
bool probes_is_series(const char *a, const char *b);

#endif
