/*
 * actor.c - a program that does one thing below the managed directory (its working
 * directory)
 *
 * actor NAME [ARGS]. Exits 0 if what the program itself can see was right; the test looks
 * at what the engine was asked.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "actor.h"

static char **args;
static int shared_fd;

static int make(const char *name, const char *text)
{
    int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0644);

    CHECK(fd >= 0);
    CHECK(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    return fd;
}

static int act_unflushed(void)
{
    FILE *f = fopen("f", "w");

    CHECK(f && fputs("unflushed", f) >= 0);
    return 0;
}

static pthread_barrier_t in_read;

static void *read_stdin(void *arg)
{
    flockfile(stdin); /* as getchar does while it blocks */
    pthread_barrier_wait(&in_read);
    pause();
    return arg;
}

static int act_unflushed_busy(void)
{
    FILE *f = fopen("f", "w");
    pthread_t thread;

    CHECK(f && fputs("busy", f) >= 0);
    pthread_barrier_init(&in_read, NULL, 2);
    CHECK(pthread_create(&thread, NULL, read_stdin, NULL) == 0);
    pthread_barrier_wait(&in_read);
    return 0;
}

static int act_exit_now(void)
{
    make("f", "now");
    _exit(7);
}

static void at_quick(void)
{
    if (write(shared_fd, "late", 4) != 4)
        abort();
}

static int act_quick_exit(void)
{
    shared_fd = make("f", "quick");
    at_quick_exit(at_quick);
    quick_exit(8);
}

static void at_end(void)
{
    FILE *f = fopen("end", "w");
    CHECK(f && fputs("end", f) >= 0);
}

static int act_atexit(void)
{
    atexit(at_end);
    return 0;
}

static int act_modes(void)
{
    static const char *const mode[] = {"w",  "a",  "w+",  "a+",         "wb+e",
                                       "wx", "r+", "rb+", "w,ccs=UTF-8"};
    char name[16];

    for (size_t i = 0; i < sizeof(mode) / sizeof(mode[0]); i++) {
        FILE *f;
        snprintf(name, sizeof(name), "m%zu", i);
        if (mode[i][0] == 'r')
            snprintf(name, sizeof(name), "m0");
        errno = 77;
        f = fopen(name, mode[i]);
        CHECK(f && errno == 77);
        CHECK(fclose(f) == 0 && errno == 77);
    }
    errno = 0;
    CHECK(!fopen("m0", "q") && errno == EINVAL);
    CHECK(!fopen("m0", "wx") && errno == EEXIST);
    return 0;
}

static int act_dup2_over(void)
{
    int a = make("a", "a"), b = make("b", "b");

    CHECK(dup2(b, a) == a);
    CHECK(close(b) == 0);
    CHECK(write(a, "b", 1) == 1);
    CHECK(close(a) == 0);
    errno = 0;
    CHECK(close(a) == -1 && errno == EBADF);
    return 0;
}

static int act_dup2_fails(void)
{
    int a = make("a", "a");

    CHECK(dup2(900, a) == -1 && errno == EBADF);
    CHECK(write(a, "a", 1) == 1);
    CHECK(close(a) == 0);
    return 0;
}

static int act_dups(void)
{
    int a = make("a", "a"), b = dup(a), c = fcntl(a, F_DUPFD, 50),
        d = dup3(a, 60, O_CLOEXEC), e = fcntl(b, F_DUPFD_CLOEXEC, 70);

    CHECK(b > a && c == 50 && d == 60 && e == 70);
    CHECK(close(a) == 0 && close(b) == 0 && close(c) == 0 && close(d) == 0);
    CHECK(write(e, "a", 1) == 1 && close(e) == 0);
    return 0;
}

static int act_closefrom(void)
{
    int c, d;

    make("a", "a");
    make("b", "b");
    closefrom(3);
    c = make("c", "c");
    d = make("d", "d");
    CHECK(c == 3 && d == 4);
    CHECK(close_range(3, 4, CLOSE_RANGE_CLOEXEC) == 0);
    CHECK(close_range(3, ~0U, 0) == 0);
    CHECK(fcntl(3, F_GETFD) == -1 && fcntl(4, F_GETFD) == -1);
    return 0;
}

static int act_close_loop(void)
{
    make("a", "a");
    for (int fd = 3; fd < 1024; fd++)
        close(fd);
    return 0;
}

#define NTHREADS 8
#define NFILES   100

static void *writer(void *arg)
{
    char name[32];

    for (int i = 0; i < NFILES; i++) {
        int fd, other;
        snprintf(name, sizeof(name), "t%d-%d", (int)(long)arg, i);
        fd = make(name, name);
        other = dup(fd);
        CHECK(other >= 0 && close(fd) == 0 && close(other) == 0);
        fd = open(name, O_RDONLY);
        CHECK(fd >= 0 && close(fd) == 0);
    }
    return NULL;
}

static int act_threads(void)
{
    pthread_t thread[NTHREADS];

    for (long i = 0; i < NTHREADS; i++)
        CHECK(pthread_create(&thread[i], NULL, writer, (void *)i) == 0);
    for (int i = 0; i < NTHREADS; i++)
        CHECK(pthread_join(thread[i], NULL) == 0);
    return 0;
}

/* Many threads dup and close one description; it ends once. */
static void *duper(void *arg)
{
    for (int i = 0; i < 2000; i++) {
        int fd = dup(shared_fd);
        CHECK(fd >= 0 && close(fd) == 0);
    }
    return arg;
}

static int act_dup_threads(void)
{
    pthread_t thread[4];

    shared_fd = make("f", "f");
    for (int i = 0; i < 4; i++)
        CHECK(pthread_create(&thread[i], NULL, duper, NULL) == 0);
    for (int i = 0; i < 4; i++)
        CHECK(pthread_join(thread[i], NULL) == 0);
    CHECK(close(shared_fd) == 0);
    return 0;
}

static _Atomic pid_t opener_tid;

static void *open_fifo(void *arg)
{
    opener_tid = (pid_t)syscall(SYS_gettid);
    int fd = open("fifo", O_WRONLY);
    CHECK(fd >= 0 && close(fd) == 0);
    return arg;
}

static char thread_state(pid_t tid)
{
    char path[64], text[256] = "", *end;
    FILE *f;

    snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)tid);
    CHECK((f = fopen(path, "r")) && fgets(text, sizeof(text), f) && fclose(f) == 0);
    CHECK((end = strrchr(text, ')')));
    return end[2];
}

/* A thread's open of a FIFO waits for what the program forks later. Were each fork to wait
 * until its bound for that open, the test would not end in its own. */
static int act_fork_fifo(void)
{
    pthread_t thread;
    int status;

    CHECK(mkfifo("fifo", 0600) == 0);
    CHECK(pthread_create(&thread, NULL, open_fifo, NULL) == 0);
    while (!opener_tid || thread_state(opener_tid) != 'S')
        sched_yield();
    for (int i = 0; i < 6; i++) {
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0)
            _exit(i == 5 && open("fifo", O_RDONLY) < 0);
        CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    }
    CHECK(pthread_join(thread, NULL) == 0);
    return 0;
}

static int act_exec_inherit(void)
{
    char number[16];

    snprintf(number, sizeof(number), "%d", make("f", "f"));
    execl("/proc/self/exe", "actor", "write_more", number, (char *)NULL);
    return 98;
}

static int act_write_more(void)
{
    CHECK(write(atoi(args[0]), "more", 4) == 4);
    return 0;
}

static int act_exec_cloexec(void)
{
    int fd = make("f", "f");

    CHECK(fcntl(fd, F_SETFD, FD_CLOEXEC) == 0);
    execl("/proc/self/exe", "actor", "nothing", (char *)NULL);
    return 98;
}

static int act_nothing(void)
{
    return 0;
}

static int act_exec_fails(void)
{
    int fd = make("f", "f");

    CHECK(fcntl(fd, F_SETFD, FD_CLOEXEC) == 0);
    errno = 0;
    CHECK(execlp("no-such-program", "x", (char *)NULL) == -1 && errno == ENOENT);
    CHECK(execv("/etc/passwd", (char *[]){"x", NULL}) == -1 && errno == EACCES);
    CHECK(write(fd, "more", 4) == 4 && close(fd) == 0);
    return 0;
}

static int act_exec_env(void)
{
    char *empty[] = {"DYAD_TIMEOUT=5", NULL};

    execle("/proc/self/exe", "actor", "show_env", (char *)NULL, empty);
    return 98;
}

static int act_show_env(void)
{
    const char *preload = getenv("LD_PRELOAD"), *path = getenv("DYAD_PATH");

    CHECK(preload && strstr(preload, "libdyad_wrapper.so") && path);
    CHECK(strcmp(getenv("DYAD_TIMEOUT"), "5") == 0 && !getenv("HOME"));
    return 0;
}

static int act_spawn_env(void)
{
    char *argv[] = {"actor", "show_env", NULL}, *empty[] = {"DYAD_TIMEOUT=5", NULL};
    int status;
    pid_t pid;

    CHECK(posix_spawn(&pid, "/proc/self/exe", NULL, NULL, argv, empty) == 0);
    CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    return 0;
}

static int act_fork(void)
{
    int fd = make("f", "f"), status;
    pid_t pid = fork();

    CHECK(pid >= 0);
    if (pid == 0) {
        CHECK(write(fd, "child", 5) == 5);
        _exit(0);
    }
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    CHECK(close(fd) == 0);
    return 0;
}

static int act_vfork(void)
{
    int fd = make("f", "f"), status;
    pid_t pid = vfork();

    if (pid == 0) {
        close(fd);
        _exit(3);
    }
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && WEXITSTATUS(status) == 3);
    CHECK(write(fd, "parent", 6) == 6 && close(fd) == 0);
    return 0;
}

/* daemon() forks inside libc. */
static int act_daemon(void)
{
    int p[2];
    char c;

    CHECK(pipe(p) == 0);
    close(make("before", "b"));
    if (fork() == 0) {
        CHECK(daemon(1, 1) == 0);
        close(make("after", "a"));
        CHECK(write(p[1], "x", 1) == 1);
        _exit(0);
    }
    CHECK(read(p[0], &c, 1) == 1);
    return 0;
}

/* The point is to pass NULL where it must not be. */
__attribute__((no_sanitize("undefined"))) static int act_null(void)
{
    const char *volatile null = NULL;
    struct stat st;

    CHECK(open(null, O_RDONLY) == -1 && errno == EFAULT);
    CHECK(openat(AT_FDCWD, null, O_WRONLY | O_CREAT, 0600) == -1 && errno == EFAULT);
    CHECK(creat(null, 0600) == -1 && errno == EFAULT);
    CHECK(stat(null, &st) == -1 && errno == EFAULT);
    CHECK(access(null, F_OK) == -1 && errno == EFAULT);
    CHECK(unlink(null) == -1 && errno == EFAULT);
    CHECK(rename(null, "x") == -1 && errno == EFAULT);
    CHECK(rename("x", null) == -1);
    CHECK(chdir(null) == -1 && errno == EFAULT);
    CHECK(close(-1) == -1 && errno == EBADF);
    CHECK(close(1 << 30) == -1 && errno == EBADF);
    CHECK(dup2(-1, 5) == -1 && errno == EBADF);
    CHECK(fcntl(-1, F_GETFD) == -1 && errno == EBADF);
    CHECK(open("", O_RDONLY) == -1 && errno == ENOENT);
    return 0;
}

static int act_errno(void)
{
    int fd;

    errno = 77;
    fd = open("f", O_RDWR | O_CREAT, 0600);
    CHECK(fd >= 0 && errno == 77);
    CHECK(dup2(fd, 50) == 50 && errno == 77);
    CHECK(close(50) == 0 && errno == 77);
    CHECK(close(fd) == 0 && errno == 77);
    CHECK((fd = open("f", O_RDONLY)) >= 0 && errno == 77 && close(fd) == 0);
    CHECK(rename("f", "g") == 0 && errno == 77);
    CHECK(unlink("g") == 0 && errno == 77);
    CHECK((fd = open("r", O_RDONLY)) >= 0 && errno == 77 && close(fd) == 0);
    return 0;
}

static int act_locks(void)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    int fd = open("f", O_RDWR | O_CREAT, 0600), status;
    pid_t pid;

    CHECK(write(fd, "f", 1) == 1);
    CHECK(fcntl(fd, F_SETLK, &lock) == 0 && lock.l_len == 0);
    pid = fork();
    if (pid == 0) {
        struct flock other = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
        int mine = open("f", O_RDWR);
        CHECK(fcntl(mine, F_SETLK, &other) == -1 && (errno == EAGAIN || errno == EACCES));
        CHECK(fcntl(mine, F_GETLK, &other) == 0 && other.l_type == F_WRLCK);
        CHECK(other.l_len == 0 && other.l_start == 0 && other.l_pid == getppid());
        _exit(0);
    }
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    lock.l_type = F_UNLCK;
    CHECK(fcntl(fd, F_SETLK, &lock) == 0);
    CHECK(lockf(fd, F_LOCK, 0) == 0 && lockf(fd, F_ULOCK, 0) == 0);
    /* Unlocking all of an open description must leave its mark alone. */
    lock.l_len = LONG_MAX;
    CHECK(fcntl(fd, F_OFD_SETLK, &lock) == 0);
    pid = fork();
    if (pid == 0) {
        struct flock seen = {
            .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = (off_t)1 << 62, .l_len = 1};
        char name[32];
        int mine;
        snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
        mine = open(name, O_RDWR);
        CHECK(fcntl(mine, F_GETLK, &seen) == 0 && seen.l_type == F_WRLCK);
        _exit(0);
    }
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    CHECK(close(fd) == 0);
    return 0;
}

static int act_mmap(void)
{
    int fd = open("f", O_RDWR | O_CREAT, 0600);
    char *p;

    CHECK(ftruncate(fd, 4096) == 0);
    p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(p != MAP_FAILED);
    p[0] = 'x';
    CHECK(close(fd) == 0);
    close(make("mid", "m"));
    p[1] = 'y';
    CHECK(munmap(p, 4096) == 0);
    return 0;
}

/* A mapping loses its pages in pieces, to munmap, to another mapping, to mremap. */
static int act_mmap_pieces(void)
{
    size_t page = 4096;
    int fd = open("f", O_RDWR | O_CREAT, 0600);
    char *p, *q;

    CHECK(ftruncate(fd, (off_t)(8 * page)) == 0);
    p = mmap(NULL, 8 * page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(p != MAP_FAILED && close(fd) == 0);
    errno = 77;
    CHECK(munmap(p + 2 * page, page) == 0 && errno == 77);
    CHECK(munmap(p + 2 * page, page) == 0); /* once more: nothing is there */
    CHECK(mmap(p, page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == p);
    CHECK(rename("f", "g") == 0);
    q = mremap(p + 3 * page, 5 * page, 2 * page, MREMAP_MAYMOVE);
    CHECK(q != MAP_FAILED);
    q[page] = 'q';
    CHECK(munmap(p, 3 * page) == 0);
    CHECK(munmap(p + 1, page) == -1 && errno == EINVAL);
    close(make("mid", "m"));
    CHECK(munmap(q, 2 * page) == 0);
    return 0;
}

static int act_mmap_exit(void)
{
    int fd = open("f", O_RDWR | O_CREAT, 0600);
    char *p;

    CHECK(ftruncate(fd, 4096) == 0);
    p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(p != MAP_FAILED && close(fd) == 0);
    close(make("mid", "m"));
    p[0] = 'x';
    return 0;
}

/* Nothing is stored through a private mapping or one for reading: the close publishes. */
static int act_mmap_private(void)
{
    int fd = open("f", O_RDWR | O_CREAT, 0600);
    char *p, *q;

    CHECK(ftruncate(fd, 4096) == 0);
    p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    q = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
    CHECK(p != MAP_FAILED && q != MAP_FAILED && close(fd) == 0);
    close(make("mid", "m"));
    return 0;
}

static int act_mmap_fork(void)
{
    int fd = open("f", O_RDWR | O_CREAT, 0600), status;
    char *p;
    pid_t pid;

    CHECK(ftruncate(fd, 4096) == 0);
    p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(p != MAP_FAILED && close(fd) == 0);
    pid = fork();
    if (pid == 0) {
        p[0] = 'c';
        CHECK(munmap(p, 4096) == 0);
        _exit(0);
    }
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    CHECK(munmap(p, 4096) == 0);
    return 0;
}

static int act_truncate(void)
{
    struct stat st;

    errno = 77;
    close(make("f", "text"));
    CHECK(truncate("f", 2) == 0 && errno == 77 && stat("f", &st) == 0 && st.st_size == 2);
    CHECK(truncate64("r", 3) == 0 && errno == 77); /* fetched first */
    CHECK(truncate("no", 0) == -1 && errno == ENOENT);
    CHECK(truncate("f", -1) == -1 && errno == EINVAL);
    CHECK(mkdir("dir", 0700) == 0 && truncate("dir", 0) == -1 && errno == EISDIR);
    CHECK(mkfifo("fifo", 0600) == 0 && truncate("fifo", 0) == -1 && errno == EINVAL);
    CHECK(truncate("/etc/passwd/x", 0) == -1 && errno == ENOTDIR);
    return 0;
}

/* Programs and libraries that go past libc's functions. */
static int act_syscall(void)
{
    int fd = (int)syscall(SYS_openat, AT_FDCWD, "f", O_WRONLY | O_CREAT | O_TRUNC, 0644),
        two;

    CHECK(fd >= 0 && syscall(SYS_write, fd, "f", 1) == 1);
    two = (int)syscall(SYS_dup, fd);
    CHECK(two > fd && syscall(SYS_close, fd) == 0 && syscall(SYS_close, two) == 0);
    CHECK(syscall(SYS_close, fd) == -1 && errno == EBADF);
    CHECK(syscall(SYS_truncate, "f", 0) == 0);
    CHECK(syscall(SYS_renameat2, AT_FDCWD, "f", AT_FDCWD, "g", 0) == 0);
    CHECK(syscall(SYS_unlinkat, AT_FDCWD, "g", 0) == 0);
    CHECK(syscall(SYS_mmap, NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) !=
          -1);
    CHECK(syscall(SYS_gettid) == getpid() && syscall(-1) == -1 && errno == ENOSYS);
    make("h", "h");
    syscall(SYS_exit_group, 0);
    return 98;
}

/* What is open at vfork is another process's too, once that has put it on its output. */
static int act_vfork_exec(void)
{
    int fd = make("f", "f"), status;
    pid_t pid;

    CHECK(fcntl(fd, F_SETFD, FD_CLOEXEC) == 0);
    pid = vfork();
    if (pid == 0) {
        if (dup2(fd, 1) == 1)
            execl("/bin/echo", "echo", "child", (char *)NULL);
        _exit(98);
    }
    CHECK(pid > 0 && close(fd) == 0);
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    return 0;
}

static int act_popen(void)
{
    char line[16];
    FILE *f = popen("echo popen", "r");

    CHECK(f && fgets(line, sizeof(line), f) && strcmp(line, "popen\n") == 0);
    CHECK(pclose(f) == 0 && system("exit 3") == 3 << 8 && system(NULL) != 0);
    f = fdopen(make("f", "f"), "w");
    CHECK(f && fputs("more", f) >= 0 && fcloseall() == 0);
    int (*volatile any_close)(FILE *) = pclose; /* glibc's closes any stream */
    CHECK(any_close(f) == 0);
    return 0;
}

/* daemon()'s parent ends inside libc, and the last close of its output is there. */
static int act_daemon_output(void)
{
    int p[2];
    char c;

    CHECK(pipe(p) == 0);
    if (fork() == 0) {
        int fd = make("f", "f");
        CHECK(dup2(fd, 1) == 1 && close(fd) == 0);
        CHECK(daemon(1, 0) == 0);
        close(make("after", "a"));
        CHECK(write(p[1], "x", 1) == 1);
        _exit(0);
    }
    CHECK(read(p[0], &c, 1) == 1);
    return 0;
}

static int act_member_daemon(void)
{
    int p[2], status;
    char c;

    CHECK(pipe(p) == 0);
    if (fork() == 0) { /* becomes a rank of its own, whose member is this process */
        char number[16];
        CHECK(setenv("PMIX_RANK", "1", 1) == 0);
        snprintf(number, sizeof(number), "%d", p[1]);
        execl("/proc/self/exe", "actor", "member_daemon_2", number, (char *)NULL);
        _exit(98);
    }
    close(p[1]);
    CHECK(wait(&status) > 0 && status == 0 && read(p[0], &c, 1) == 1);
    return 0;
}

static int act_member_daemon_2(void)
{
    CHECK(access("touch", F_OK) == -1); /* join now */
    CHECK(daemon(1, 1) == 0);
    CHECK(write(atoi(args[0]), "x", 1) == 1);
    return 0;
}

static pthread_barrier_t in_constructor;
void actor_hook(void);

/* In a library's constructor, with the loader's lock, while another thread loads the
 * engine: a file, and a fork. */
__attribute__((visibility("default"))) void actor_hook(void)
{
    int status;
    pid_t pid;

    pthread_barrier_wait(&in_constructor);
    usleep(100000); /* until that thread waits for the lock; too early shows less */
    close(make("a", "a"));
    pid = fork();
    if (pid == 0)
        _exit(4);
    CHECK(waitpid(pid, &status, 0) == pid && WEXITSTATUS(status) == 4);
}

static void *make_b(void *arg)
{
    pthread_barrier_wait(&in_constructor);
    close(make("b", "b"));
    return arg;
}

static int act_constructor(void)
{
    char path[PATH_MAX], *slash;
    Dl_info wrapper;
    pthread_t thread;

    CHECK(dladdr((void *)(uintptr_t)dlsym(RTLD_DEFAULT, "closefrom"), &wrapper));
    snprintf(path, sizeof(path), "%s", wrapper.dli_fname);
    CHECK((slash = strrchr(path, '/')));
    strcpy(slash + 1, "libwrapper_constructor.so");
    pthread_barrier_init(&in_constructor, NULL, 2);
    CHECK(pthread_create(&thread, NULL, make_b, NULL) == 0);
    CHECK(dlopen(path, RTLD_NOW));
    CHECK(pthread_join(thread, NULL) == 0);
    return 0;
}

/* A handler interrupts the program's malloc, and whatever else, and writes files. */
static void on_alarm(int number)
{
    int saved = errno;

    (void)number;
    close(make("h", "h"));
    errno = saved;
}

static int act_handler(void)
{
    struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
    struct itimerval often = {.it_interval = {.tv_usec = 1500},
                              .it_value = {.tv_usec = 1500}},
                     never = {.it_value = {0}};

    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    CHECK(setitimer(ITIMER_REAL, &often, NULL) == 0);
    for (int i = 0; i < 300; i++) {
        int fd = make("m", "m");
        CHECK(close(fd) == 0);
        for (size_t k = 0; k < 100; k++)
            free(malloc(k * 61));
    }
    CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0);
    return 0;
}

static void *open_awaited(void *arg)
{
    open("late", O_RDONLY);
    return arg;
}

/* Mask and cancellation are what they were after every call. */
static int act_mask(void)
{
    sigset_t mask, seen;
    pthread_t thread;
    int state;

    sigemptyset(&mask);
    sigaddset(&mask, SIGUSR1);
    CHECK(pthread_sigmask(SIG_SETMASK, &mask, NULL) == 0);
    close(make("f", "f"));
    CHECK(open("r", O_RDONLY) >= 0 && open("no", O_RDONLY) == -1);
    CHECK(pthread_sigmask(SIG_BLOCK, NULL, &seen) == 0);
    for (int i = 1; i < 32; i++)
        CHECK(sigismember(&seen, i) == (i == SIGUSR1));
    CHECK(pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &state) == 0 &&
          state == PTHREAD_CANCEL_ENABLE);
    CHECK(pthread_create(&thread, NULL, open_awaited, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    return 0;
}

static int act_freopen(void)
{
    CHECK(freopen("a", "w", stdout) == stdout && fileno(stdout) == 1);
    printf("to a");
    CHECK(freopen("b", "w", stdout) == stdout && fileno(stdout) == 1);
    printf("to b.");
    CHECK(freopen("r", "r", stdin) == stdin && getchar() == 'r');
    CHECK(!freopen("nothing", "r", stdin) && errno == ENOENT);
    return 0;
}

static int act_mkstemp(void)
{
    char a[] = "tXXXXXX", b[] = "uXXXXXX.c";
    int fd = mkstemp(a), fd2 = mkostemps(b, 2, O_CLOEXEC);

    CHECK(fd >= 0 && fd2 >= 0 && close(fd) == 0);
    CHECK(rename(a, "final") == 0);
    CHECK(unlink(b) == 0 && close(fd2) == 0);
    return 0;
}

static int act_names(void)
{
    const char *outside = args[0];
    char path[PATH_MAX];
    int dir;

    snprintf(path, sizeof(path), "%s/x", outside);
    close(make(path, "x"));
    CHECK(rename(path, "a") == 0);
    CHECK(rename("a", "b") == 0);
    CHECK(link("b", "c") == 0);
    dir = open(".", O_RDONLY | O_DIRECTORY);
    CHECK(dir >= 0);
    CHECK(linkat(dir, "b", dir, "d", 0) == 0);
    CHECK(renameat2(dir, "c", dir, "d", 1 << 1 /* RENAME_EXCHANGE */) == 0);
    CHECK(renameat(dir, "b", AT_FDCWD, path) == 0);
    CHECK(remove("c") == 0);
    CHECK(unlinkat(dir, "d", 0) == 0);
    CHECK(unlink("r") == 0);
    CHECK(unlink("r") == -1 && errno == ENOENT);
    CHECK(mkdir("sub", 0700) == 0 && remove("sub") == 0);
    CHECK(mkdir("sub", 0700) == 0 && unlinkat(dir, "sub", AT_REMOVEDIR) == 0);
    CHECK(unlink(path) == 0);
    return 0;
}

static int act_stat(void)
{
    static const char *const old[] = {"__xstat", "__lxstat", "__xstat64", "__lxstat64"};
    struct statx stx;
    struct stat st;

#define IS_REMOTE(call)            \
    memset(&st, 0xff, sizeof(st)); \
    CHECK((call) == 0 && st.st_size == 7 && S_ISREG(st.st_mode))
    IS_REMOTE(stat("r", &st));
    IS_REMOTE(lstat("r", &st));
    IS_REMOTE(fstatat(AT_FDCWD, "r", &st, AT_SYMLINK_NOFOLLOW));
    IS_REMOTE(stat64("r", (struct stat64 *)&st));
    IS_REMOTE(lstat64("r", (struct stat64 *)&st));
    IS_REMOTE(fstatat64(AT_FDCWD, "r", (struct stat64 *)&st, 0));
    for (size_t i = 0; i < sizeof(old) / sizeof(old[0]); i++) {
        int (*fn)(int, const char *, struct stat *) =
            (int (*)(int, const char *, struct stat *))dlsym(RTLD_DEFAULT, old[i]);
        CHECK(fn);
        IS_REMOTE(fn(1, "r", &st));
    }
    CHECK(statx(AT_FDCWD, "r", 0, STATX_ALL, &stx) == 0 && stx.stx_size == 7);
    errno = 77;
    CHECK(access("r", R_OK) == 0 && faccessat(AT_FDCWD, "r", F_OK, AT_EACCESS) == 0);
    CHECK(euidaccess("r", R_OK) == 0 && eaccess("r", F_OK) == 0 && errno == 77);
    CHECK(access("r", X_OK) == -1 && errno == EACCES);
    CHECK(stat("no", &st) == -1 && errno == ENOENT);
    CHECK(access("no", F_OK) == -1 && errno == ENOENT);
    CHECK(access("r", F_OK) == 0 && open("r", O_RDONLY | O_PATH) >= 0);
    return 0;
}

static bool reads(const char *path, const char *text)
{
    char buf[64];
    int fd = open(path, O_RDONLY);
    ssize_t n = fd >= 0 ? read(fd, buf, sizeof(buf)) : -1;

    if (fd >= 0)
        close(fd);
    return n == (ssize_t)strlen(text) && memcmp(buf, text, (size_t)n) == 0;
}

/* Links and directories that are published only. */
static int act_published(void)
{
    FILE *f;
    int fd;

    CHECK(reads("link", "remote\n"));
    CHECK(reads("dirlink/f", "in a directory\n"));
    CHECK(open("link2", O_RDONLY | O_NOFOLLOW) == -1 && errno == ELOOP);
    CHECK((fd = open("new/w", O_WRONLY | O_CREAT, 0600)) >= 0 && close(fd) == 0);
    CHECK((f = fopen("newlink/w2", "w")) && fclose(f) == 0);
    CHECK(access("new/w2", F_OK) == 0);
    CHECK((fd = open("empty", O_RDONLY | O_DIRECTORY)) >= 0 && close(fd) == 0);
    CHECK(reads("stale", "stale\n"));
    CHECK(open("away", O_RDONLY) == -1 && errno == ENOENT);
    return 0;
}

/* Below directories that are not here: nobody can say whether they are published; they are
 * not. */
static int act_no_parent(void)
{
    static const struct {
        const char *dir;
        int error;
    } parent[] = {{"unknown", EHOSTUNREACH}, {"none", ENOENT}};
    static const int flags[] = {O_WRONLY | O_CREAT | O_TRUNC, O_RDWR | O_CREAT | O_EXCL,
                                O_RDONLY | O_CREAT, O_RDONLY | O_CREAT | O_TRUNC};
    char path[64];

    for (size_t i = 0; i < 2; i++) {
        for (size_t j = 0; j < sizeof(flags) / sizeof(flags[0]); j++) {
            snprintf(path, sizeof(path), "%s/f", parent[i].dir);
            CHECK(open(path, flags[j], 0600) == -1 && errno == parent[i].error);
        }
        CHECK(!fopen(path, "w") && errno == parent[i].error);
        snprintf(path, sizeof(path), "%s/XXXXXX", parent[i].dir);
        CHECK(mkstemp(path) == -1 && errno == parent[i].error);
        snprintf(path, sizeof(path), "%s/XXXXXX", parent[i].dir);
        CHECK(!mkdtemp(path) && errno == parent[i].error);
        CHECK(mkdir(path, 0700) == -1 && errno == parent[i].error);
    }
    return 0;
}

/* The same, for who looks at a name: whether the directory is a link, below which there is
 * such a name, nobody can say. */
static int act_look_below(void)
{
    static const struct {
        const char *path;
        int error;
    } below[] = {{"unknown/f", EIO}, {"none/f", ENOENT}};
    struct statx stx;
    struct stat st;
    char buf[64];

    for (size_t i = 0; i < 2; i++) {
        const char *path = below[i].path;
        int error = below[i].error;
        CHECK(stat(path, &st) == -1 && errno == error);
        CHECK(statx(AT_FDCWD, path, 0, STATX_SIZE, &stx) == -1 && errno == error);
        CHECK(access(path, F_OK) == -1 && errno == error);
        CHECK(readlink(path, buf, sizeof(buf)) == -1 && errno == error);
    }
    /* The member makes a link here before it answers. */
    CHECK(stat("made/f", &st) == 0 && st.st_size == 15);
    CHECK(access("made/none", F_OK) == -1 && errno == ENOENT);
    return 0;
}

/* Ways from elsewhere: links to the managed directory, and descriptors. */
static int act_ways(void)
{
    const char *outside = args[0];
    char path[PATH_MAX], cwd[PATH_MAX - 32];
    int fd, dir;
    FILE *f;

    CHECK(getcwd(cwd, sizeof(cwd)) && mkdir("s", 0700) == 0);
    CHECK(chdir(outside) == 0);
    snprintf(path, sizeof(path), "%s/s", cwd);
    CHECK(symlink(path, "in") == 0);
    snprintf(path, sizeof(path), "%s/through", cwd);
    CHECK(symlink(path, "file") == 0);
    CHECK(close(make("in/a", "1")) == 0);
    CHECK(close(make("in/../b", "1")) == 0);
    CHECK(close(make("file", "1")) == 0);
    CHECK(chdir("in") == 0 && close(make("../c", "1")) == 0 && close(make("d", "1")) == 0);
    CHECK((dir = open(".", O_PATH)) >= 0 && chdir(outside) == 0);
    CHECK((fd = openat(dir, "../e", O_WRONLY | O_CREAT, 0600)) >= 0);
    snprintf(path, sizeof(path), "/dev/fd/%d", fd);
    CHECK(close(make(path, "1")) == 0); /* another description of e */
    CHECK(close(fd) == 0);
    CHECK(close(make("plain", "1")) == 0 && access("plain", F_OK) == 0);
    snprintf(path, sizeof(path), "%s/r", cwd);
    CHECK(symlink(path, "dangling") == 0);
    CHECK((f = fopen("dangling", "r")) && fgetc(f) == 'r' && fclose(f) == 0);
    snprintf(path, sizeof(path), "%s/stale", cwd);
    CHECK(unlink("dangling") == 0 && symlink(path, "dangling") == 0);
    CHECK(reads("dangling", "stale\n"));
    CHECK(unlink("dangling") == 0 && symlink("nowhere", "dangling") == 0);
    CHECK(!fopen("dangling", "r") && errno == ENOENT && !reads("dangling", ""));
    return 0;
}

static int act_paths(void)
{
    const char *alias = args[0], *outside = args[1];
    char path[PATH_MAX], cwd[PATH_MAX - 32];
    int dir;

    CHECK(getcwd(cwd, sizeof(cwd)));
    CHECK(mkdir("s", 0700) == 0 && mkdir(".dyad", 0700) == 0);
    snprintf(path, sizeof(path), "%s/./s//../s/a", cwd);
    close(make(path, "a"));
    snprintf(path, sizeof(path), "%s/b", alias);
    close(make(path, "b"));
    CHECK(chdir("s") == 0);
    close(make("../c", "c"));
    dir = open("..", O_RDONLY | O_DIRECTORY);
    CHECK(close(openat(dir, "s/d", O_WRONLY | O_CREAT, 0600)) == 0);
    CHECK(chdir(outside) == 0);
    close(make("e", "outside"));
    snprintf(path, sizeof(path), "%s/../%.20s/e", cwd, strrchr(outside, '/') + 1);
    close(make(path, "outside"));
    snprintf(path, sizeof(path), "%s-not/e", cwd);
    CHECK(open(path, O_WRONLY | O_CREAT, 0600) == -1);
    CHECK(fchdir(dir) == 0);
    close(make("f", "f"));
    close(make(".dyad/g", "hidden"));
    CHECK(open("s/", O_RDONLY) >= 0 && open(".", O_RDONLY) >= 0);
    CHECK(open("x/", O_WRONLY | O_CREAT, 0600) == -1 && errno == EISDIR);
    return 0;
}

static int act_kinds(void)
{
    int fd;

    CHECK(mkfifo("fifo", 0600) == 0);
    CHECK((fd = open("fifo", O_RDWR)) >= 0 && close(fd) == 0);
    CHECK(mkdir("kdir", 0700) == 0);
    CHECK(open("kdir", O_WRONLY) == -1 && errno == EISDIR);
    CHECK((fd = open("kdir", O_RDONLY)) >= 0 && close(fd) == 0);
    CHECK((fd = open(".", O_TMPFILE | O_RDWR, 0600)) >= 0 && close(fd) == 0);
    CHECK((fd = open("lock", O_RDONLY | O_CREAT, 0600)) >= 0 && close(fd) == 0);
    CHECK(open("none", O_RDONLY | O_DIRECTORY) == -1 && errno == ENOENT);
    return 0;
}

/* As the libraries' functions, of which the first looks so before it makes the file. */
#define OPENER(name)                                                             \
    __attribute__((noinline, visibility("default"))) int name(const char *path); \
    int name(const char *path)                                                   \
    {                                                                            \
        volatile int fd = open(path, O_RDWR);                                    \
        return fd;                                                               \
    }
OPENER(H5Fcreate)
OPENER(PMPI_File_open)

static int act_rdwr(void)
{
    char c;
    int fd = open("r", O_RDWR);
    FILE *f = fopen("/dev/null", "r");

    CHECK(fd >= 0 && read(fd, &c, 1) == 1 && c == 'r' && close(fd) == 0);
    CHECK(open("late", O_RDWR) == -1 && errno == ETIMEDOUT);
    CHECK(!fopen("late", "r+") && errno == ETIMEDOUT);
    CHECK(H5Fcreate("late") == -1 && errno == ENOENT);
    CHECK(truncate("late", 1) == -1 && errno == ENOENT);
    CHECK((fd = PMPI_File_open("dirty")) >= 0 && close(fd) == 0);
    CHECK(truncate("dirty", 2) == 0);
    CHECK(f && freopen("dirty", "r+", f) == f && getc(f) == 'c' && fclose(f) == 0);
    CHECK(open("late", O_RDONLY) == -1 && errno == ETIMEDOUT);
    CHECK(!fopen("late", "r") && errno == ETIMEDOUT);
    CHECK(open("dirty", O_RDONLY) >= 0);
    return 0;
}

/* A file that others of the node have to wait for. */
static int act_pending(void)
{
    int fd = open("../remote/.pending-r", O_WRONLY | O_CREAT | O_EXCL, 0600);

    CHECK(fd >= 0 && close(fd) == 0);
    CHECK((fd = open("r", O_RDONLY)) >= 0 && close(fd) == 0);
    CHECK((fd = open("r", O_RDONLY)) >= 0 && close(fd) == 0);
    CHECK(unlink("../remote/.pending-r") == 0);
    return 0;
}

/* Another process makes the file while it is opened: what was opened is closed again. */
static void made(void)
{
    int fd = open("../remote/.made-dirty", O_WRONLY | O_CREAT | O_EXCL, 0600);

    CHECK(fd >= 0 && close(fd) == 0);
}

static int act_made_since(void)
{
    int low = dup(0), fd;
    char text[8];
    FILE *f;

    CHECK(low >= 0 && close(low) == 0);
    made();
    CHECK((fd = open("dirty", O_RDWR)) == low && read(fd, text, 2) == 2);
    CHECK(close(fd) == 0);
    made();
    CHECK((f = fopen("dirty", "r+")) && fileno(f) == low && fgets(text, sizeof(text), f));
    CHECK(fclose(f) == 0);
    made();
    CHECK((fd = PMPI_File_open("dirty")) == low && close(fd) == 0);
    /* These do not wait. */
    made();
    CHECK((fd = open("dirty", O_RDWR | O_CREAT, 0600)) == low && close(fd) == 0);
    CHECK(truncate("dirty", 1) == 0);
    CHECK(unlink("../remote/.made-dirty") == 0);
    return 0;
}

static int act_publish_error(void)
{
    FILE *f;

    CHECK(close(make("a", "a")) == -1 && errno == EHOSTUNREACH);
    CHECK((f = fopen("b", "w")) && fclose(f) == EOF && errno == EHOSTUNREACH);
    return 0;
}

static int act_flush_error(void)
{
    enum { LIMIT = 1 << 16 }; /* the log must fit */
    struct rlimit limit = {LIMIT, LIMIT};
    static char buf[2 * LIMIT], text[LIMIT + 1];
    FILE *f = fopen("f", "w");

    CHECK(f && setvbuf(f, buf, _IOFBF, sizeof(buf)) == 0);
    CHECK(signal(SIGXFSZ, SIG_IGN) != SIG_ERR && setrlimit(RLIMIT_FSIZE, &limit) == 0);
    CHECK(fwrite(text, 1, sizeof(text), f) == sizeof(text));
    CHECK(fclose(f) == EOF && errno == EFBIG);
    return 0;
}

/* Stale entries: a descriptor that was closed where no wrapper sees it. */
static int act_stale(void)
{
    int (*hidden_close)(int) =
        (int (*)(int))dlsym(dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD), "close");
    int fd = make("a", "a");

    CHECK(hidden_close && hidden_close(fd) == 0);
    CHECK(make("b", "b") == fd);
    CHECK(close(fd) == 0);
    CHECK(make("c", "c") == fd && hidden_close(fd) == 0);
    CHECK(open("/dev/null", O_WRONLY) == fd);
    CHECK(close(fd) == 0);
    return 0;
}

static int act_member_dup2(void)
{
    /* Take every number up to 1100; the claim, wherever it is, must give way. */
    for (int fd = 3; fd < 1100; fd++)
        CHECK(dup2(0, fd) == fd);
    return 0;
}

static int act_member_close(void)
{
    closefrom(3);
    for (int fd = 3; fd < 1100; fd++)
        CHECK(close(fd) == -1 && errno == EBADF);
    execl("/proc/self/exe", "actor", "member_held", (char *)NULL);
    return 98;
}

static int act_member_exec(void)
{
    CHECK(access("touch", F_OK) == -1); /* join now */
    execl("/proc/self/exe", "actor", "member_held", (char *)NULL);
    return 98;
}

/* The claim came through exec: there is a listening socket in the table. */
static int act_member_held(void)
{
    int listening = 0;

    for (int fd = 3; fd < 1100; fd++) {
        struct stat st;
        if (fstat(fd, &st) == 0 && S_ISSOCK(st.st_mode))
            listening++;
    }
    CHECK(listening == 1);
    return 0;
}

static int act_member_exec_fails(void)
{
    CHECK(access("touch", F_OK) == -1);
    CHECK(execl("/no/such", "x", (char *)NULL) == -1 && errno == ENOENT);
    return 0;
}

static int act_gds(void)
{
    const char *gds = getenv("PMIX_MCA_gds");

    CHECK(gds && strcmp(gds, "hash") == 0);
    return system("test \"$PMIX_MCA_gds\" = hash") == 0 ? 0 : 1;
}

static int act_relative(void)
{
    CHECK(chdir(args[0]) == 0);
    close(make("f", "f"));
    CHECK(open("r", O_RDONLY) >= 0);
    CHECK(rename("f", "g") == 0 && access("g", F_OK) == 0 && unlink("g") == 0);
    return 0;
}

static int act_two_dirs(void)
{
    char path[PATH_MAX];

    snprintf(path, sizeof(path), "%s/f", args[0]); /* the producer's */
    close(make(path, "f"));
    CHECK(open(path, O_RDONLY) >= 0); /* not waited for, not looked at */
    CHECK(open("r", O_RDONLY) >= 0);  /* the consumer's is the working directory */
    CHECK(rename(path, "g") == 0);
    return 0;
}

static const struct act acts[] = {
    ACT(unflushed),     ACT(unflushed_busy),
    ACT(exit_now),      ACT(quick_exit),
    ACT(atexit),        ACT(modes),
    ACT(dup2_over),     ACT(dup2_fails),
    ACT(dups),          ACT(closefrom),
    ACT(close_loop),    ACT(threads),
    ACT(dup_threads),   ACT(fork_fifo),
    ACT(exec_inherit),  ACT(write_more),
    ACT(exec_cloexec),  ACT(nothing),
    ACT(exec_fails),    ACT(exec_env),
    ACT(show_env),      ACT(spawn_env),
    ACT(fork),          ACT(vfork),
    ACT(daemon),        ACT(null),
    ACT(errno),         ACT(locks),
    ACT(mmap),          ACT(member_daemon_2),
    ACT(member_daemon), ACT(daemon_output),
    ACT(popen),         ACT(vfork_exec),
    ACT(syscall),       ACT(truncate),
    ACT(mmap_fork),     ACT(mmap_private),
    ACT(mmap_exit),     ACT(mmap_pieces),
    ACT(freopen),       ACT(mkstemp),
    ACT(names),         ACT(constructor),
    ACT(handler),       ACT(mask),
    ACT(stat),          ACT(paths),
    ACT(kinds),         ACT(rdwr),
    ACT(publish_error), ACT(flush_error),
    ACT(stale),         ACT(member_dup2),
    ACT(member_close),  ACT(member_exec),
    ACT(member_held),   ACT(member_exec_fails),
    ACT(gds),           ACT(relative),
    ACT(two_dirs),      ACT(published),
    ACT(no_parent),     ACT(look_below),
    ACT(ways),          ACT(made_since),
    ACT(pending),
};

int main(int argc, char **argv)
{
    args = argv + 2; /* if there are so many */
    return act(acts, sizeof(acts) / sizeof(acts[0]), argc, argv);
}
