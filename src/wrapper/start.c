/*
 * start.c - the first and the last moment of a program
 *
 * __libc_start_main is where both can be had. Just before main: constructors have run, the
 * environment is main's own, threads may be started. At the end: the loader's own exit
 * function (rtld_fini, which runs the libraries' destructors) is the first that libc
 * registers, hence the last that exit() runs; in its place ours runs after every atexit
 * function of the program, and before the destructors of the libraries that the engine
 * uses. stdio's own flush comes later still, so the streams that matter are flushed here.
 */
#include <errno.h>
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "boot/identity.h"
#include "wrapper/core.h"
#include "wrapper/environment.h"
#include "wrapper/fd.h"
#include "wrapper/map_pieces.h"
#include "wrapper/member_thread.h"
#include "wrapper/path_find.h"
#include "wrapper/real.h"
#include "wrapper/stream.h"
#include "util/env.h"

#define GDS "PMIX_MCA_gds"

static int (*program_main)(int, char **, char **);
static void (*loader_fini)(void);
/* The program's exit status. Written by the thread that ends it, which runs finish(). */
static int exit_status, quick_status;

/* Flush one stream if its file is tracked. */
static void flush_tracked(FILE *stream)
{
    int fd = fileno_unlocked(stream);

    if (fd >= 0 && wrapper_fd_marked(fd))
        fflush_unlocked(stream);
}

/* Flush the streams whose files are about to be published as exit() would, without their
 * locks. A thread may sit in a read with its stream's lock held, and
 * fflush(NULL) would wait for it. */
static void flush_streams(void)
{
    void *(*begin)(void) = (void *(*)(void))dlsym(RTLD_DEFAULT, "_IO_iter_begin");
    void *(*end)(void) = (void *(*)(void))dlsym(RTLD_DEFAULT, "_IO_iter_end");
    void *(*next)(void *) = (void *(*)(void *))dlsym(RTLD_DEFAULT, "_IO_iter_next");
    FILE *(*file)(void *) = (FILE * (*)(void *)) dlsym(RTLD_DEFAULT, "_IO_iter_file");

    if (!begin || !end || !next || !file) {
        fflush(NULL);
        return;
    }
    for (void *it = begin(); it != end(); it = next(it))
        flush_tracked(file(it));
}

static void note(int fd, void *any)
{
    (void)fd;
    *(bool *)any = true;
}

static bool is_any_tracked(void)
{
    bool any = false;

    wrapper_fd_foreach(note, &any);
    return any;
}

static bool is_pipe(int fd)
{
    struct stat st;

    return fstat(fd, &st) == 0 && (S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode));
}

/* Call fn for each descriptor that is open. Without opendir, which allocates. */
static void each_descriptor(void (*fn)(int fd, void *arg), void *arg)
{
    char buf[2048] __attribute__((aligned(8)));
    int saved = errno;
    int dir = (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/fd",
                           O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    long n;

    while (dir >= 0 && (n = syscall(SYS_getdents64, dir, buf, sizeof(buf))) > 0) {
        for (long at = 0; at < n;) {
            const struct dirent64 *entry = (const struct dirent64 *)(buf + at);
            int fd = 0;
            at += entry->d_reclen;
            if (entry->d_name[0] < '0' || entry->d_name[0] > '9')
                continue;
            for (const char *p = entry->d_name; *p; p++)
                fd = fd * 10 + (*p - '0');
            if (fd != dir)
                fn(fd, arg);
        }
    }
    if (dir >= 0)
        syscall(SYS_close, dir);
    errno = saved;
}

/* 0 and 1, be they pipes or sockets; of the others pipes only: what PMIx or MPI still need
 * are sockets. 2 is for messages. */
static void let_go(int fd, void *null)
{
    struct stat st;

    if (fd == STDERR_FILENO || fd == *(int *)null || wrapper_fd_marked(fd) ||
        (fd <= STDOUT_FILENO ? !is_pipe(fd) : fstat(fd, &st) < 0 || !S_ISFIFO(st.st_mode)))
        return;
    syscall(SYS_dup3, *(int *)null, fd, fd <= STDOUT_FILENO ? 0 : O_CLOEXEC);
}

/* A member lives on after its program's end. Processes at the other end of its pipes must
 * not wait for that, least of all ones of this rank (`./a | ./b`, or Python's fork
 * server): the end of file must come now. Buffered output is written first. */
static void let_go_of_pipes(bool flush)
{
    int null = (int)syscall(SYS_openat, AT_FDCWD, "/dev/null", O_RDWR | O_CLOEXEC);

    if (flush && is_pipe(STDOUT_FILENO))
        fflush_unlocked(stdout);
    if (null >= 0) {
        each_descriptor(let_go, &null);
        syscall(SYS_close, null);
    }
}

/* Every way out of the process ends here. */
static void finish(bool flush, int status)
{
    if (!wrapper_active() || !wrapper_mine())
        return;
    if (wrapper_member_here())
        let_go_of_pipes(flush);
    if (is_any_tracked()) {
        if (flush)
            flush_streams();
        wrapper_fd_close_all(0, UINT32_MAX);
    }
    wrapper_pieces_settle_all();
    wrapper_member_exit(status);
}

/* exit() gives the status to the functions of on_exit() only, also where libc calls it by
 * itself (err, the return of main), and the one of a later exit() to those that come after
 * it. This one was registered before main, so it comes when the program's have run. */
static void note_status(int status, void *arg)
{
    (void)arg;
    exit_status = status;
}

static void fini(void)
{
    finish(true, exit_status);
    loader_fini();
}

static void quick(void)
{
    finish(false, quick_status);
}

static void end_early(int status, void *arg)
{
    (void)arg;
    finish(true, status);
}

/* In a constructor, before __libc_start_main put its hooks where they belong: what runs at
 * exit is then registered here, and runs first. */
void wrapped_exit(int status)
{
    if (!program_main && wrapper_active() && wrapper_mine())
        on_exit(end_early, NULL);
    REAL(exit)(status);
    __builtin_unreachable();
}

void wrapped_quick_exit(int status)
{
    if (!program_main && wrapper_active() && wrapper_mine())
        at_quick_exit(quick);
    quick_status = status;
    REAL(quick_exit)(status);
    __builtin_unreachable();
}

void wrapped__exit(int status)
{
    finish(false, status);
    REAL(_exit)(status);
    __builtin_unreachable();
}

void wrapped__Exit(int status)
{
    finish(false, status);
    REAL(_Exit)(status);
    __builtin_unreachable();
}

/* A descriptor from before this image: a shell's redirection. */
static void take_inherited(int fd, void *arg)
{
    int flags = (int)syscall(SYS_fcntl, fd, F_GETFL);
    const struct engine_ops *ops;
    struct wrapper_path where;
    engine_token token;
    struct stat st;

    (void)arg;
    if (flags < 0 || (flags & O_ACCMODE) == O_RDONLY || (flags & O_PATH) ||
        fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_nlink == 0 ||
        !wrapper_path_find_fd(fd, &where))
        return;
    ops = wrapper_engine();
    token = ops ? ENGINE_CALL(ops->write_inherited(wrapper_path_role(&where), fd)) : 0;
    if (token)
        wrapper_fd_inherit(fd, token, wrapper_path_role(&where));
}

/* main's environment with what its children need, also those that libc starts by itself
 * (system, popen). PMIX_MCA_gds=hash: with the default store of PMIx 4 an MPI child of a
 * process that used PMIx finds no local rank. bash writes into the entries: they are
 * writable. */
static char **extend(char **env)
{
    static char gds[] = GDS "=hash", guest_of[BOOT_GUEST_OF_MAX];
    static char outer[sizeof(BOOT_OUTER) + BOOT_GUEST_OF_MAX] = BOOT_OUTER "=";
    bool solo;
    const char *entry = wrapper_member_guest_of(&solo);
    const char *there = util_env_get(env, BOOT_GUEST_OF);

    if (entry && there &&
        strncmp(entry + sizeof(BOOT_GUEST_OF), BOOT_GUEST_OF_NOBODY,
                strlen(BOOT_GUEST_OF_NOBODY)) == 0 &&
        strlen(there) < BOOT_GUEST_OF_MAX && !util_env_get(env, BOOT_OUTER)) {
        strcat(outer, there); /* a launcher, for its ranks */
        return wrapper_env_extend(env, outer);
    }

    if (entry && solo && !util_env_get(env, BOOT_GUEST_OF)) {
        strcpy(guest_of, entry);
        return wrapper_env_extend(env, guest_of);
    }
    if (!util_env_get(env, "PMIX_NAMESPACE") || util_env_get(env, GDS))
        return env;
    return wrapper_env_extend(env, gds);
}

static int main_with_member(int argc, char **argv, char **env)
{
    int saved = errno;
    bool solo, launched = wrapper_active() && wrapper_member_start(env);

    on_exit(note_status, NULL);

    if (launched || wrapper_member_guest_of(&solo)) { /* or its children may be */
        char **extended = extend(env);
        if (launched)
            each_descriptor(take_inherited, NULL);
        if (environ == env)
            environ = extended;
        wrapper_env_give(extended);
        env = extended;
    }
    errno = saved;
    return program_main(argc, argv, env);
}

int wrapped___libc_start_main(int (*main)(int, char **, char **), int argc, char **argv,
                              int (*init)(int, char **, char **), void (*fini_arg)(void),
                              void (*rtld_fini)(void), void *stack_end)
{
    /* WRAPPER_ON here: our constructor has run. */
    if (wrapper_active()) {
        wrapper_streams_begin(
            &(struct wrapper_streams){wrapper_stream_read, wrapper_stream_write,
                                      wrapper_stream_seek, wrapper_stream_stat});
        program_main = main;
        main = main_with_member;
        if (rtld_fini) {
            loader_fini = rtld_fini;
            rtld_fini = fini;
        }
        at_quick_exit(quick); /* the first registered runs last */
    }
    return REAL(__libc_start_main)(main, argc, argv, init, fini_arg, rtld_fini, stack_end);
}
