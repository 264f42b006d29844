/*
 * dump_session.h - the sessions that have members on this node
 *
 * Errors end the program, with a message. Single-threaded.
 */
#ifndef DYAD_TOOLS_DUMP_SESSION_H
#define DYAD_TOOLS_DUMP_SESSION_H

#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

#include "dump_client.h"

#define DUMP_EXIT_FAILED 1

/* The members of one launch on this node. They have several names if DYAD_NODE makes
 * several nodes of this one. */
struct dump_session {
    const struct dump_member *members;
    size_t n;
    char name[DUMP_SESSION_MAX]; /* the hash that all have, or what they share of it */
    pid_t pid;                   /* of the first that answers, or 0 */
    char comm[32];               /* its name */
    char job[512];               /* PMIX_NAMESPACE and session name, or `name` */
    char *dir; /* DYAD_SESSION_DIR, with its links resolved, and the session's name in it */
    char **managed; /* the managed directories of all its members, each once */
    size_t nmanaged;
    bool chosen;
};

void dump_die(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));

/* What of path is below dir, as it is written or with dir's links resolved; or NULL (also
 * for dir NULL). */
const char *dump_session_below(const char *path, const char *dir);

/* Those that this user may look at. `members` must live as long. */
size_t dump_session_group(const struct dump_member *members, size_t n,
                          struct dump_session **sessions);
void dump_session_free(struct dump_session *sessions, size_t n);
void dump_session_print(FILE *out, const struct dump_session *session);
/* There is nothing of this user: exit with what there is of others. */
void dump_session_none(const struct dump_member *members, size_t n)
    __attribute__((noreturn));
/* Mark what is meant by `name` (--session, or NULL) and `key` (--key, or NULL): all names
 * of one job, or of one session directory. Exits if that is none or several. */
void dump_session_choose(struct dump_session *sessions, size_t n, const char *name,
                         const char *key);

#endif
