/* cases_odd.c - bad arguments, limits, signals, threads */
#include "conform.h"

#include <dirent.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <spawn.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>

/* path: NULL or a pointer to nowhere */
static void bad_pointer(long which, long address)
{
    const char *volatile path = (const char *)address;
    struct stat st;
    struct statx stx;
    char text[8];

    put("f", "x");
    switch (which) {
    case 0:
        R(open(path, O_RDONLY));
        R(open(path, O_WRONLY | O_CREAT, 0644));
        R(openat(AT_FDCWD, path, O_RDONLY));
        R(creat(path, 0644));
        break;
    case 1:
        R(stat(path, &st));
        R(lstat(path, &st));
        R(fstatat(AT_FDCWD, path, &st, 0));
        R(statx(AT_FDCWD, path, 0, STATX_SIZE, &stx));
        R(access(path, F_OK));
        R(faccessat(AT_FDCWD, path, F_OK, 0));
        break;
    case 2:
        R(rename(path, "g"));
        R(rename("f", path));
        R(renameat2(AT_FDCWD, "f", AT_FDCWD, path, 0));
        R(link(path, "g"));
        R(link("f", path));
        R(symlink(path, "g"));
        R(symlink("f", path));
        break;
    case 3:
        R(unlink(path));
        R(unlinkat(AT_FDCWD, path, 0));
        R(rmdir(path));
        R(remove(path));
        R(mkdir(path, 0755));
        R(mkdirat(AT_FDCWD, path, 0755));
        R(mkfifo(path, 0600));
        break;
    case 4:
        R(chdir(path));
        R(chmod(path, 0600));
        R(chown(path, 0, 0));
        R(truncate(path, 0));
        R(readlink(path, text, sizeof text));
        break;
    case 5:
        R(execv(path, (char *[]){(char *)"x", NULL}));
        R(execve(path, (char *[]){(char *)"x", NULL}, NULL));
        R(stat("f", (struct stat *)8));
        R(lstat("f", (struct stat *)8));
        R(statx(AT_FDCWD, "f", 0, STATX_SIZE, (struct statx *)8));
        break;
    default:
        R(utimensat(AT_FDCWD, path, NULL, 0));
        R(utimensat(AT_FDCWD, "f", (struct timespec *)8, 0));
        R(readlink("f", (char *)8, 10));
        R(utimensat(99, NULL, NULL, 0));
        break;
    }
}

static void long_path(long which, long unused)
{
    char name[5000];
    struct stat st;

    (void)unused;
    memset(name, 'n', sizeof name);
    if (which == 0) {
        name[256] = 0; /* a name too long */
    } else if (which == 1) {
        name[255] = 0; /* the longest */
    } else {
        for (size_t i = 0; i < sizeof name; i += 2)
            memcpy(name + i, "./", 2);
        name[which == 2 ? 4096 : which == 3 ? 4094 : 4990] = 'f';
        name[which == 2 ? 4097 : which == 3 ? 4095 : 4991] = 0;
    }
    R(close(R(open(name, O_WRONLY | O_CREAT, 0644))));
    R(stat(name, &st));
    R(access(name, F_OK));
    R(rename(name, "g"));
    R(rename("g", name));
    R(symlink("x", name));
    P(fopen(name, "r"));
    R(unlink(name));
    R(mkdir(name, 0755));
    R(rmdir(name));
    R(chdir(name));
}

/* Deeper than PATH_MAX, reached step by step. */
static void deep_path(long unused, long unused2)
{
    char name[256];
    int fd;

    (void)unused, (void)unused2;
    memset(name, 'd', 250);
    name[250] = 0;
    for (int i = 0; i < 14; i++)
        if (mkdir(name, 0755) != 0 || chdir(name) != 0) {
            note_int("down", i, errno);
            break;
        }
    fd = R(open("f", O_WRONLY | O_CREAT, 0644));
    R(write(fd, "deep", 4));
    R(close(fd));
    show("f");
    R(rename("f", "g"));
    R(unlink("g"));
    for (int i = 0; i < 14; i++)
        if (chdir("..") != 0 || rmdir(name) != 0)
            note_int("up", i, errno);
}

static void no_descriptors(long limit, long unused)
{
    struct rlimit few = {(rlim_t)limit, (rlim_t)limit};
    int fd[64], count = 0;

    (void)unused;
    put("f", "content");
    R(setrlimit(RLIMIT_NOFILE, &few));
    while (count < 64 && (fd[count] = open("f", O_RDONLY)) >= 0)
        count++;
    note_int("open", -1, errno);
    R(count);
    R(open("g", O_WRONLY | O_CREAT, 0644));
    P(fopen("g", "w"));
    P(opendir("."));
    R(dup(0));
    R(mkstemp((char[]){"tXXXXXX"}));
    R(rename("f", "h"));
    R(access("h", R_OK));
    R(unlink("h"));
    R(mkdir("d", 0755));
    R(close(fd[0]));
    fd[0] = R(open("last", O_WRONLY | O_CREAT, 0644));
    R(write(fd[0], "one more", 8));
    R(close(fd[0]));
    R(close(fd[1]));
    show("last");
}

static void size_limit(long unused, long unused2)
{
    struct rlimit small = {10, 10};
    int fd;

    (void)unused, (void)unused2;
    signal(SIGXFSZ, SIG_IGN);
    fd = R(open("f", O_WRONLY | O_CREAT, 0644));
    R(setrlimit(RLIMIT_FSIZE, &small));
    R(write(fd, "0123456789abc", 13));
    R(write(fd, "x", 1));
    R(ftruncate(fd, 11));
    R(close(fd));
    show("f");
}

/* --- signals --- */

static volatile sig_atomic_t handled, handler_ends;

/* The next signal comes that long after this one's handler, however long that takes: or what is interrupted
 * would never go on where it takes longer. */
static const struct itimerval soon = {{0, 0}, {0, 300}};

static void opens_a_file(int sig)
{
    int kept = errno, fd;

    (void)sig;
    if (handler_ends)
        return;
    fd = open("by_handler", O_WRONLY | O_CREAT | O_APPEND, 0644);
    if (fd >= 0 && write(fd, "h", 1) == 1 && close(fd) == 0)
        handled++;
    setitimer(ITIMER_REAL, &soon, NULL);
    errno = kept;
}

static void handler_files(long unused, long unused2)
{
    char name[32];

    (void)unused, (void)unused2;
    signal(SIGALRM, opens_a_file);
    setitimer(ITIMER_REAL, &soon, NULL);
    for (int i = 0; i < 40 || handled < 10; i++) {
        struct stat st;
        int fd;

        snprintf(name, sizeof name, "f%d", i % 20);
        do
            fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0644);
        while (fd < 0 && errno == EINTR);
        if (fd < 0 || write(fd, "main", 4) != 4 || close(fd) != 0 || stat(name, &st) != 0)
            note_int("interrupted", i, errno);
    }
    handler_ends = 1;
    setitimer(ITIMER_REAL, &(struct itimerval){0}, NULL);
    R(handled >= 10);
    R(unlink("by_handler"));
}

static int told[2];

static void tells(int sig)
{
    int kept = errno;

    (void)sig;
    if (write(told[1], "t", 1) == 1)
        handled++;
    errno = kept;
}

/* A child holds the lock until the handler has run: restarted, the call ends with the lock.
 */
static void interrupted(long restart, long unused)
{
    struct sigaction act = {.sa_handler = tells, .sa_flags = restart ? SA_RESTART : 0};
    struct itimerval fast = {{0, 20000}, {0, 20000}};
    int fd, ready[2];
    char c;
    pid_t pid;

    (void)unused;
    R(pipe(told));
    R(pipe(ready));
    fd = R(open("f", O_RDWR | O_CREAT, 0644));
    pid = spawn();
    if (pid == 0) {
        int own = open("f", O_RDWR);

        R(lockf(own, F_LOCK, 0));
        _exit(write(ready[1], "r", 1) == 1 && read(told[0], &c, 1) == 1 ? 0 : 1);
    }
    R(read(ready[0], &c, 1));
    R(sigaction(SIGALRM, &act, NULL));
    setitimer(ITIMER_REAL, &fast, NULL);
    R(lockf(fd, F_LOCK, 0));
    R(handled > 0);
    setitimer(ITIMER_REAL, &(struct itimerval){0}, NULL);
    reap(pid);
}

static void stopped(long unused, long unused2)
{
    int fd = R(open("f", O_WRONLY | O_CREAT, 0644));
    int status;
    pid_t pid = spawn();

    (void)unused, (void)unused2;
    if (pid == 0) {
        raise(SIGSTOP);
        R(write(fd, "woken", 5));
        _exit(0);
    }
    R(close(fd));
    R(waitpid(pid, &status, WUNTRACED) == pid);
    R(WIFSTOPPED(status));
    R(kill(pid, SIGCONT));
    reap(pid);
    show("f");
}

static void masks(long unused, long unused2)
{
    sigset_t all, now;
    int count = 0;

    (void)unused, (void)unused2;
    sigfillset(&all);
    R(sigprocmask(SIG_SETMASK, &all, NULL));
    put("f", "with all signals blocked");
    show("f");
    R(sigprocmask(0, NULL, &now));
    for (int i = 1; i < 32; i++)
        count += sigismember(&now, i) == 1;
    R(count);
    R(sigpending(&now));
    R(sigismember(&now, SIGURG));
    struct sigaction act;

    R(sigaction(SIGURG, NULL, &act));
    R(act.sa_handler == SIG_DFL);
    R(sigaction(SIGCHLD, NULL, &act));
    R(act.sa_handler == SIG_DFL);
}

/* --- threads --- */

#define THREADS 8

static void *own_files(void *arg)
{
    char name[32];

    for (int i = 0; i < 20; i++) {
        snprintf(name, sizeof name, "t%ld.%d", (long)arg, i % 4);
        int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0644);

        if (fd < 0 || write(fd, name, strlen(name)) < 0 || close(fd) != 0)
            note_int(name, -1, errno);
    }
    return NULL;
}

static void *one_file(void *arg)
{
    for (int i = 0; i < 20; i++) {
        int fd = open("one", O_WRONLY | O_CREAT | O_APPEND, 0644);

        if (fd < 0 || write(fd, "x", 1) != 1 || close(fd) != 0)
            note_int("one", (long)arg, errno);
    }
    return NULL;
}

static void *forks(void *arg)
{
    for (int i = 0; i < 3; i++) {
        char name[32];
        pid_t pid;

        snprintf(name, sizeof name, "fork%ld.%d", (long)arg, i);
        pid = fork();
        if (pid == 0) {
            put(name, "child");
            _exit(0);
        }
        if (waitpid(pid, NULL, 0) != pid)
            note_int("waitpid", -1, errno);
    }
    return NULL;
}

static void threads(long which, long unused)
{
    static void *(*const bodies[])(void *) = {own_files, one_file, forks};
    pthread_t thread[THREADS];

    (void)unused;
    for (long i = 0; i < THREADS; i++)
        E(pthread_create(&thread[i], NULL, bodies[which], (void *)i));
    for (int i = 0; i < THREADS; i++)
        E(pthread_join(thread[i], NULL));
    look("one");
}

static sem_t begun;

static void *to_cancel(void *arg)
{
    char c;
    int fd = open("p", O_RDWR);

    (void)arg;
    sem_post(&begun);
    return (void *)read(fd, &c, 1);
}

static void *cancelled_open(void *arg)
{
    (void)arg;
    sem_post(&begun);
    open("q", O_RDONLY); /* a FIFO that nobody writes: a cancellation point */
    return NULL;
}

static void cancel(long which, long unused)
{
    pthread_t thread;
    void *result;

    (void)unused;
    sem_init(&begun, 0, 0);
    mkfifo("p", 0600);
    mkfifo("q", 0600);
    E(pthread_create(&thread, NULL, which ? cancelled_open : to_cancel, NULL));
    sem_wait(&begun);
    usleep(10000);
    E(pthread_cancel(thread));
    E(pthread_join(thread, &result));
    R(result == PTHREAD_CANCELED);
    put("f", "after");
    show("f");
}

/* --- others --- */

static void event_descriptors(long unused, long unused2)
{
    struct epoll_event event = {.events = EPOLLIN};
    int watch = R(inotify_init1(IN_NONBLOCK)), poller = R(epoll_create1(0)), fd;
    char space[4096];

    (void)unused, (void)unused2;
    R(inotify_add_watch(watch, ".", IN_CLOSE_WRITE) > 0);
    put("f", "x");
    R(read(watch, space, sizeof space) > 0);
    note_str("name", ((struct inotify_event *)space)->name);
    fd = R(open("f", O_RDONLY));
    R(epoll_ctl(poller, EPOLL_CTL_ADD, fd, &event));
    R(poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, 0));
}

static void environment(long unused, long unused2)
{
    (void)unused, (void)unused2;
    put("f", "x");
    clearenv();
    put("g", "no environment");
    show("g");
    CHILD(put("h", "nor here"));
    R(setenv("NAME", "value", 1));
    note_str("NAME", getenv("NAME"));
}

static void locale_umask_cwd(long unused, long unused2)
{
    char before[4096], after[4096];

    (void)unused, (void)unused2;
    P(getcwd(before, sizeof before));
    umask(027);
    put("f", "x");
    show("f");
    R(access("none", F_OK));
    R(umask(027));
    P(getcwd(after, sizeof after));
    R(strcmp(before, after));
}

static void errors_of_bad_flags(long unused, long unused2)
{
    (void)unused, (void)unused2;
    put("f", "x");
    R(open("f", O_WRONLY | O_TMPFILE, 0644));
    R(open("none", O_WRONLY | O_TMPFILE, 0644));
    R(open(".", O_RDONLY | O_TMPFILE, 0644));
    R(open("f", -1));
    R(access("f", 77));
    R(faccessat(AT_FDCWD, "f", R_OK, 0x40000000));
    R(unlinkat(AT_FDCWD, "f", 77));
    R(linkat(AT_FDCWD, "f", AT_FDCWD, "g", 77));
    R(fstatat(-5, "f", &(struct stat){0}, 0));
    R(openat(-5, "f", O_RDONLY));
    R(mkdirat(-5, "d", 0755));
}

static void other_root(long unused, long unused2)
{
    (void)unused, (void)unused2;
    mkdir("root", 0755);
    put("root/f", "inside");
    put("f", "outside");
    if (R(chroot("root")) == 0) {
        show("/f");
        put("/g", "written in the new root");
        show("/g");
        R(chdir("/"));
        show("f");
    }
}

void add_odd_cases(void)
{
    for (long which = 0; which < 7; which++) {
        conform_add(bad_pointer, which, 0, "bad.null.%ld", which);
        conform_add(bad_pointer, which, 8, "bad.pointer.%ld", which);
    }
    for (long which = 0; which < 5; which++)
        conform_add(long_path, which, 0, "bad.long.%ld", which);
    ADD("bad", deep_path);
    ADD("bad", errors_of_bad_flags);
    conform_add(no_descriptors, 16, 0, "limit.nofile.16");
    conform_add(no_descriptors, 40, 0, "limit.nofile.40");
    ADD("limit", size_limit);
    ADD("signal", handler_files);
    conform_add(interrupted, 0, 0, "signal.interrupted");
    conform_add(interrupted, 1, 0, "signal.restarted");
    ADD("signal", stopped);
    ADD("signal", masks);
    for (long which = 0; which < 3; which++)
        conform_add(threads, which, 0, "thread.files.%ld", which);
    conform_add(cancel, 0, 0, "thread.cancel.read");
    conform_add(cancel, 1, 0, "thread.cancel.open");
    ADD("other", event_descriptors);
    ADD("other", environment);
    ADD("other", locale_umask_cwd);
    ADD("other", other_root);
}
