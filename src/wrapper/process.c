/*
 * process.c - fork, exec, spawn, system, popen, daemon
 *
 * exec ends this image's share in what it has open: descriptors that close on exec are
 * settled before, a member leaves its session and hands its claim on, and if exec fails
 * after all everything is taken up again. The child of vfork execs in its parent's memory,
 * and does none of this.
 *
 * A program that builds the environment of what it starts drops LD_PRELOAD and our
 * variables: those that this process had and that the new environment lacks are put back.
 * What it sets to another value stays. The launcher's are not put back, because half of
 * them would mislead an MPI program; a variable of ours says whose guest the process is.
 */
#include <alloca.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "boot/identity.h"
#include "wrapper/core.h"
#include "wrapper/environment.h"
#include "wrapper/fd.h"
#include "wrapper/gate.h"
#include "wrapper/library.h"
#include "wrapper/limit.h"
#include "wrapper/map_pieces.h"
#include "wrapper/member_thread.h"
#include "wrapper/open_exec.h"
#include "wrapper/path_find.h"
#include "wrapper/pointer.h"
#include "wrapper/real.h"
#include "util/env.h"

static pid_t do_fork(wrapper_fn_fork *real_fork)
{
    bool locked;
    pid_t pid;

    if (!wrapper_active() || !wrapper_mine())
        return real_fork();
    locked = wrapper_fork_lock();
    wrapper_gate_shut();
    wrapper_fd_fork_begin();
    pid = real_fork();
    if (pid == 0)
        wrapper_gate_fork_child();
    else
        wrapper_gate_open();
    if (pid == 0) {
        wrapper_fork_child();
        if (locked)
            wrapper_fork_unlock();
    } else if (locked) {
        int saved = errno;
        wrapper_fork_unlock();
        errno = saved;
    }
    return pid;
}

pid_t wrapped_fork(void)
{
    return do_fork(REAL(fork));
}

pid_t wrapped___fork(void)
{
    return do_fork(REAL(__fork));
}

pid_t wrapped__Fork(void)
{
    return do_fork(REAL(_Fork));
}

void wrapper_spawn_begin(void)
{
    int saved = errno;

    if (wrapper_active() && wrapper_mine())
        wrapper_fd_fork_begin();
    errno = saved;
}

int wrapped_system(const char *command)
{
    wrapper_spawn_begin();
    return REAL(system)(command);
}

FILE *wrapped_popen(const char *command, const char *mode)
{
    wrapper_spawn_begin();
    return REAL(popen)(command, mode);
}

/* As daemon() does with 0, 1 and 2. */
static int let_go_of_terminal(void)
{
    int null = REAL(open64)("/dev/null", O_RDWR);
    struct stat st;

    if (null < 0)
        return -1;
    if (fstat(null, &st) < 0 || !S_ISCHR(st.st_mode)) {
        REAL(close)(null);
        errno = ENODEV;
        return -1;
    }
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        wrapped_dup2(null, fd);
    if (null > STDERR_FILENO)
        REAL(close)(null);
    return 0;
}

/* The parent ends inside libc, where no exit of ours is: if it is the member it leaves
 * before, and the child becomes the member when it needs one. The child has all that is
 * open. What libc would do with 0, 1 and 2 may be the last close of a file. */
int wrapped_daemon(int nochdir, int noclose)
{
    pid_t parent = getpid();
    bool locked, member;
    int rc;

    if (!wrapper_active() || !wrapper_mine())
        return REAL(daemon)(nochdir, noclose);
    member = wrapper_member_retire();
    locked = wrapper_fork_lock();
    wrapper_fd_fork_begin();
    rc = REAL(daemon)(nochdir, 1);
    if (getpid() != parent)
        wrapper_fork_child();
    if (locked) {
        int saved = errno;
        wrapper_fork_unlock();
        errno = saved;
    }
    if (getpid() == parent) { /* no fork was to be had */
        if (member)
            wrapper_member_exec_failed();
        return rc;
    }
    wrapper_path_cwd_changed();
    return rc == 0 && !noclose ? let_go_of_terminal() : rc;
}

static size_t count(char *const list[])
{
    size_t n = 0;

    while (list[n])
        n++;
    return n;
}

/* A directory is configured, even if this process's engine then declined. */
static bool is_configured(void)
{
    return wrapper_env && wrapper_path_configured();
}

#define ON_STACK 1024 /* entries */

/* Where the completed environment goes: on the stack, since the child of vfork must not
 * allocate in its parent. */
struct completed {
    char *const *env;
    void *mapped;
    size_t size;
    char guest_of[BOOT_GUEST_OF_MAX];
};

static void complete_into(struct completed *c, char **room, char *const env[], size_t n)
{
    memcpy(room, env, n * sizeof(*env));
    room[n + wrapper_env_lacking(env, room + n)] = NULL;
    c->env = room;
}

/* For a process that will be a guest and lacks the launcher's variables. What may stand
 * there names a launch in which that of the launcher was started. */
static bool needs_guest_of(char *const env[], char guest_of[BOOT_GUEST_OF_MAX])
{
    const char *there = util_env_get(env, BOOT_GUEST_OF), *ours;
    bool solo;

    if (util_env_get(env, "PMIX_NAMESPACE") || !(ours = wrapper_member_guest_of(&solo)) ||
        (there && strcmp(there, ours + sizeof(BOOT_GUEST_OF)) == 0))
        return false;
    strcpy(guest_of, ours);
    return true;
}

static void put_guest_of(char **room, char *const env[], char *guest_of)
{
    for (; *env; env++)
        if (strncmp(*env, BOOT_GUEST_OF "=", sizeof(BOOT_GUEST_OF)) != 0)
            *room++ = *env;
    *room++ = guest_of;
    *room = NULL;
}

/* A macro for its alloca. */
#define COMPLETE(c, given) COMPLETE_FOR(c, given, true)
#define COMPLETE_FOR(c, given, guest)                                                     \
    do {                                                                                  \
        char *const none_[] = {NULL};                                                     \
        bool bad_ = (given) && wrapper_bad_pointer(given);                                \
        char *const *env_ = (given) && !bad_ ? (given) : none_;                           \
        if ((guest) && !bad_ && is_configured() && needs_guest_of(env_, (c)->guest_of)) { \
            size_t had_ = count(env_);                                                    \
            if (had_ < ON_STACK) {                                                        \
                char **more_ = alloca((had_ + 2) * sizeof(char *));                       \
                put_guest_of(more_, env_, (c)->guest_of);                                 \
                env_ = more_;                                                             \
            }                                                                             \
        }                                                                                 \
        size_t n_ = count(env_);                                                          \
        size_t add_ = is_configured() && !bad_ ? wrapper_env_lacking(env_, NULL) : 0;     \
        (c)->env = n_ > 0 ? env_ : (given); /* NULL as given */                           \
        (c)->mapped = NULL;                                                               \
        if (add_ > 0 && n_ + add_ < ON_STACK) {                                           \
            complete_into(c, alloca((n_ + add_ + 1) * sizeof(char *)), env_, n_);         \
        } else if (add_ > 0) {                                                            \
            (c)->size = (n_ + add_ + 1) * sizeof(char *);                                 \
            (c)->mapped = REAL(mmap)(NULL, (c)->size, PROT_READ | PROT_WRITE,             \
                                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);                 \
            if ((c)->mapped != MAP_FAILED)                                                \
                complete_into(c, (c)->mapped, env_, n_);                                  \
            else                                                                          \
                (c)->mapped = NULL;                                                       \
        }                                                                                 \
    } while (0)

static void completed_release(struct completed *c)
{
    int saved = errno;

    if (c->mapped)
        munmap(c->mapped, c->size);
    errno = saved;
}

enum kind { EXEC_PATH, EXEC_SEARCH, EXEC_FD, EXEC_AT };

struct exec {
    enum kind kind;
    const char *path;
    char *const *argv;
    int fd, flags;
};

/* A program below a managed directory is fetched, or awaited, before it is executed. Its
 * path may become one in *where. 0, or -1 with errno: it will not come. */
static int bring_program(struct exec *e, char *const env[], struct wrapper_path *where)
{
    if (wrapper_active() && !wrapper_bad_pointer(env))
        wrapper_library_path(util_env_get(env, "LD_LIBRARY_PATH"));
    if (e->kind == EXEC_FD || wrapper_bad_pointer(e->path) || !e->path[0])
        return 0;
    if (e->kind == EXEC_SEARCH && !strchr(e->path, '/'))
        return wrapper_open_search(e->path, env);
    return wrapper_open_for_exec(e->kind == EXEC_AT ? e->fd : AT_FDCWD, &e->path,
                                 !(e->kind == EXEC_AT && (e->flags & AT_SYMLINK_NOFOLLOW)),
                                 env, where);
}

static int call_exec(const struct exec *e, char *const env[])
{
    switch (e->kind) {
    case EXEC_SEARCH:
        return REAL(execvpe)(e->path, e->argv, env);
    case EXEC_FD:
        return REAL(fexecve)(e->fd, e->argv, env);
    case EXEC_AT:
        return REAL(execveat)(e->fd, e->path, e->argv, env, e->flags);
    default:
        return REAL(execve)(e->path, e->argv, env);
    }
}

static int do_exec(struct exec *e, char *const env[])
{
    struct wrapper_path where;
    struct completed c;
    bool ours, member = false;
    int rc;

    if (bring_program(e, env, &where) < 0)
        return -1;
    /* A member that becomes something else is nobody's guest: its rank has no member then.
     */
    COMPLETE_FOR(&c, env, !wrapper_active() || !wrapper_mine() || !wrapper_member_here());
    ours = wrapper_active() && wrapper_mine();
    if (ours) {
        wrapper_fd_exec_begin();
        wrapper_pieces_settle_all();
        member = wrapper_member_exec(c.env);
    }
    wrapper_limit_apply();
    rc = call_exec(e, c.env);
    if (member)
        wrapper_member_exec_failed();
    if (ours)
        wrapper_fd_exec_failed();
    completed_release(&c);
    return rc;
}

int wrapped_execve(const char *path, char *const argv[], char *const envp[])
{
    return do_exec(&(struct exec){.kind = EXEC_PATH, .path = path, .argv = argv}, envp);
}

int wrapped_execv(const char *path, char *const argv[])
{
    return do_exec(&(struct exec){.kind = EXEC_PATH, .path = path, .argv = argv}, environ);
}

int wrapped_execvpe(const char *file, char *const argv[], char *const envp[])
{
    return do_exec(&(struct exec){.kind = EXEC_SEARCH, .path = file, .argv = argv}, envp);
}

int wrapped_execvp(const char *file, char *const argv[])
{
    return do_exec(&(struct exec){.kind = EXEC_SEARCH, .path = file, .argv = argv},
                   environ);
}

int wrapped_fexecve(int fd, char *const argv[], char *const envp[])
{
    return do_exec(&(struct exec){.kind = EXEC_FD, .fd = fd, .argv = argv}, envp);
}

int wrapped_execveat(int dirfd, const char *path, char *const argv[], char *const envp[],
                     int flags)
{
    return do_exec(
        &(struct exec){
            .kind = EXEC_AT, .fd = dirfd, .path = path, .argv = argv, .flags = flags},
        envp);
}

/* The arguments of execl as an array on the stack; what follows the NULL stays in ap. */
#define COLLECT(argv, arg, ap)                   \
    char **argv;                                 \
    do {                                         \
        size_t n_ = (arg) ? 1 : 0;               \
        va_start(ap, arg);                       \
        while (n_ && va_arg(ap, char *))         \
            n_++;                                \
        va_end(ap);                              \
        argv = alloca((n_ + 1) * sizeof(*argv)); \
        argv[0] = (char *)(uintptr_t)(arg);      \
        va_start(ap, arg);                       \
        for (size_t i_ = 1; i_ <= n_; i_++)      \
            argv[i_] = va_arg(ap, char *);       \
    } while (0)

int wrapped_execl(const char *path, const char *arg, ...)
{
    va_list ap;
    COLLECT(argv, arg, ap);
    va_end(ap);
    return do_exec(&(struct exec){.kind = EXEC_PATH, .path = path, .argv = argv}, environ);
}

int wrapped_execlp(const char *file, const char *arg, ...)
{
    va_list ap;
    COLLECT(argv, arg, ap);
    va_end(ap);
    return do_exec(&(struct exec){.kind = EXEC_SEARCH, .path = file, .argv = argv},
                   environ);
}

int wrapped_execle(const char *path, const char *arg, ...)
{
    char *const *env;
    va_list ap;
    COLLECT(argv, arg, ap);
    env = va_arg(ap, char *const *);
    va_end(ap);
    return do_exec(&(struct exec){.kind = EXEC_PATH, .path = path, .argv = argv}, env);
}

int wrapped_posix_spawn(pid_t *pid, const char *path,
                        const posix_spawn_file_actions_t *actions,
                        const posix_spawnattr_t *attr, char *const argv[],
                        char *const envp[])
{
    struct wrapper_path where;
    struct completed c;
    int rc, saved = errno;

    if (wrapper_active() && !wrapper_bad_pointer(envp))
        wrapper_library_path(util_env_get(envp, "LD_LIBRARY_PATH"));
    /* With a change of directory among the actions a relative path is not ours to know. */
    if ((!actions || (!wrapper_bad_pointer(path) && path[0] == '/')) &&
        wrapper_open_for_exec(AT_FDCWD, &path, true, envp, &where) < 0) {
        rc = errno;
        errno = saved;
        return rc;
    }
    COMPLETE(&c, envp);
    wrapper_spawn_begin();
    rc = REAL(posix_spawn)(pid, path, actions, attr, argv, c.env);
    completed_release(&c);
    return rc;
}

int wrapped_posix_spawnp(pid_t *pid, const char *file,
                         const posix_spawn_file_actions_t *actions,
                         const posix_spawnattr_t *attr, char *const argv[],
                         char *const envp[])
{
    struct exec e = {.kind = EXEC_SEARCH, .path = file};
    struct wrapper_path where;
    struct completed c;
    int rc, saved = errno;

    if (bring_program(&e, envp, &where) < 0) {
        rc = errno;
        errno = saved;
        return rc;
    }
    file = e.path;
    COMPLETE(&c, envp);
    wrapper_spawn_begin();
    rc = REAL(posix_spawnp)(pid, file, actions, attr, argv, c.env);
    completed_release(&c);
    return rc;
}
