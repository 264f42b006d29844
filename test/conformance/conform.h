/*
 * conform.h - cases of the conformance runner: one call sequence each, its outcome as JSON
 *
 * A case is a function that runs in a process and a directory of its own (the working
 * directory) and notes what the calls gave. What may differ from run to run (inode numbers,
 * process ids, the present time, absolute paths) is not noted, or only by its relations.
 * The native run in a plain directory is the oracle: a case asserts nothing itself.
 */
#ifndef CONFORM_H
#define CONFORM_H

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

typedef void case_fn(long a, long b);

/* Register run(a, b) under a name (printf); its group is what stands before the first dot.
 * The name is also that of the case's directory. */
void conform_add(case_fn *run, long a, long b, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
#define ADD(group, fn) conform_add(fn, 0, 0, group "." #fn)

void add_open_cases(void);
void add_path_cases(void);
void add_stream_cases(void);
void add_descriptor_cases(void);
void add_name_cases(void);
void add_link_cases(void);
void add_look_cases(void);
void add_attribute_cases(void);
void add_directory_cases(void);
void add_lock_cases(void);
void add_process_cases(void);
void add_end_cases(void);
void add_data_cases(void);
void add_odd_cases(void);
void add_denied_cases(void);

/* --- notes: kept in a file mapped by all processes of a case, so no way to die loses them
 * --- */

/* Errno before each noted call: one that changes it without failing is seen. */
#define UNTOUCHED 4000

void note_open(const char *file);   /* map it; by every image that notes */
void note_reset(void);              /* begin a case */
void note_base(const char *prefix); /* shown as @ in strings */
void note_main(void);               /* this process is the case's first */
void note_print(FILE *out);         /* each preceded by a comma */
long note_int(const char *what, long value, int err);
void note_str(const char *what, const char *value);
void note_bytes(const char *what, const void *data, size_t len);
void note_stat(const char *what, const struct stat *st);
/* JSON string of len bytes to a stream, quotes included. */
void json_bytes(FILE *out, const void *data, size_t len);

/* A call that returns -1 and errno; its value is noted as it is. */
#define R(call)                          \
    ({                                   \
        errno = UNTOUCHED;               \
        long result_ = (long)(call);     \
        note_int(#call, result_, errno); \
        (int)result_;                    \
    })
/* A call that returns a pointer: NULL or not. */
#define P(call)                                            \
    ({                                                     \
        errno = UNTOUCHED;                                 \
        __typeof__(call) result_ = (call);                 \
        int errno_ = errno;                                \
        note_int(#call, result_ == NULL ? -1 : 0, errno_); \
        result_;                                           \
    })
/* A call that returns an error number. */
#define E(call)                                          \
    ({                                                   \
        int result_ = (call);                            \
        note_int(#call, result_ == 0 ? 0 : -1, result_); \
        result_;                                         \
    })

/* --- helpers that note --- */

void put(const char *path, const char *text); /* open, write, close; a failure is noted */
void show(const char *path);                  /* open, read all, close: noted */
void show_fd(const char *what, int fd);       /* all of it, by pread; its offset */
void look(const char *path);                  /* lstat, noted */
int reap(pid_t pid);                          /* waitpid; how it ended is noted */
/* fork; the child gets 0. What stdio holds is flushed by nobody. */
pid_t spawn(void);
#define CHILD(block)        \
    do {                    \
        pid_t p_ = spawn(); \
        if (p_ == 0) {      \
            block;          \
            _exit(0);       \
        }                   \
        reap(p_);           \
    } while (0)

/* What is at a name before the call. */
enum state {
    MISSING,
    A_FILE,
    EMPTY_FILE,
    READ_ONLY,
    A_DIRECTORY,
    FULL_DIRECTORY,
    LINK_TO_FILE,
    LINK_TO_DIRECTORY,
    DANGLING,
    LOOP,
    NO_PARENT,     /* x/name, no x */
    BELOW_FILE,    /* file/name */
    FILE_SLASH,    /* "name/", a file */
    MISSING_SLASH, /* "name/" */
    DIRECTORY_SLASH,
    A_FIFO,
    STATES
};
extern const char *const state_names[STATES];
/* Make it; the path to use, valid until the case ends. */
const char *make_state(const char *name, enum state state);

/* This program, started again as `conform --verb VERB ARG`; argv for exec. */
extern char self_exe[];
void verb_argv(char *argv[6], const char *verb, const char *arg);
int run_verb(const char *verb, const char *arg);
/* fork, exec of a verb, reap. */
void exec_verb(const char *verb, const char *arg);

/* --- what is in a directory --- */

struct tree_how {
    bool raw;   /* past libc: what is on this disk */
    bool exact; /* what another node must see: mtimes; no link counts, no FIFOs and the like
                 */
    const char *separator;
};
void raw_setup(void); /* before any raw tree */
/* One JSON object for each entry at and below path (path itself too if exact). */
void tree_print(FILE *out, const char *base, const char *path, const struct tree_how *how);
/* One entry. */
void tree_entry(FILE *out, const char *base, const char *path, const struct tree_how *how);

#endif
