/*
 * async.c - events that interrupt a thread in the library
 *
 *   async storm DIR N     a timer's handler writes files while the main thread writes
 * files, allocates and frees: DIR/h0.. and DIR/m0.., N of each
 *   async interrupt DIR   a handler without SA_RESTART ends a wait for DIR/never, in open()
 * and in fopen(), with EINTR
 *   async wait DIR        waits for DIR/awaited, which is published only when a handler has
 * published DIR/asked during that wait; then five more signals, and a child's end
 *   async serve DIR       the other side of it: reads DIR/asked, writes DIR/awaited
 *   async cancel DIR      cancels a thread that waits for DIR/never in open(), and one in
 * fopen(); a cleanup handler writes DIR/cleanup; then writes DIR/after
 *   async check DIR N     reads what storm and cancel wrote
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *dir;
static _Atomic int handled, limit;

static void die(const char *what)
{
    perror(what);
    _exit(1);
}

/* Without stdio: for handlers. */
static void path_of(char *path, const char *kind, int number)
{
    char digits[12], *p = digits + sizeof(digits) - 1;

    *p = '\0';
    do
        *--p = (char)('0' + number % 10);
    while ((number /= 10) > 0);
    strcpy(path, dir);
    strcat(path, "/");
    strcat(path, kind);
    strcat(path, p);
}

static void write_path(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);

    if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text) || close(fd) < 0)
        die(path);
}

static void read_path(const char *path, const char *text)
{
    char seen[64] = "";
    int fd = open(path, O_RDONLY);

    if (fd < 0 || read(fd, seen, sizeof(seen) - 1) < 0 || close(fd) < 0)
        die(path);
    if (strcmp(seen, text) != 0) {
        fprintf(stderr, "%s: \"%s\" and not \"%s\"\n", path, seen, text);
        _exit(1);
    }
}

static void on_storm(int signal)
{
    char path[4096];
    int saved = errno, n = atomic_load(&handled);

    (void)signal;
    if (n < atomic_load(&limit)) {
        path_of(path, "h", n);
        write_path(path, "handler");
        read_path(path, "handler");
        atomic_store(&handled, n + 1);
    }
    errno = saved;
}

static void on_signal(int number, void (*fn)(int), int flags)
{
    struct sigaction action = {.sa_handler = fn, .sa_flags = flags};

    if (sigaction(number, &action, NULL) < 0)
        die("sigaction");
}

static int storm(int n)
{
    struct itimerval timer = {.it_interval = {.tv_usec = 700},
                              .it_value = {.tv_usec = 700}};
    char path[4096];

    atomic_store(&limit, n);
    on_signal(SIGALRM, on_storm, 0);
    setitimer(ITIMER_REAL, &timer, NULL);
    for (int i = 0; i < n || atomic_load(&handled) < n; i++) {
        for (int k = 0; k < 50; k++)
            free(malloc((size_t)(k * 97)));
        path_of(path, "m", i < n ? i : n - 1);
        write_path(path, "main");
    }
    return 0;
}

static _Atomic int asked;

static void on_ask(int signal)
{
    char path[4096];

    (void)signal;
    if (atomic_fetch_add(&asked, 1) == 0) {
        path_of(path, "asked", 0);
        write_path(path, "asked");
    }
}

static _Atomic int ended;

static void on_child(int signal)
{
    (void)signal;
    atomic_fetch_add(&ended, 1);
}

/* A rank all of whose threads wait for files counts as one that will publish nothing. */
static void *alive(void *arg)
{
    for (;;)
        usleep(100000);
    return arg;
}

static void start_alive(void)
{
    pthread_t thread;
    sigset_t ours;

    sigemptyset(&ours);
    sigaddset(&ours, SIGALRM);
    sigaddset(&ours, SIGCHLD);
    pthread_sigmask(SIG_BLOCK, &ours, NULL); /* in that thread */
    if (pthread_create(&thread, NULL, alive, NULL) != 0)
        die("pthread_create");
    pthread_sigmask(SIG_UNBLOCK, &ours, NULL);
}

static void on_alarm(int signal)
{
    (void)signal;
}

/* What a child has written half of is there, but not for who waits for it. */
static void interrupt_half(void)
{
    int ready[2], over[2];
    char path[4096], byte = 0;
    FILE *stream = tmpfile();
    pid_t child;

    path_of(path, "half", 0);
    if (!stream || pipe(ready) < 0 || pipe(over) < 0 || (child = fork()) < 0)
        die("half");
    if (child == 0) {
        int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
        close(over[1]);
        if (fd < 0 || write(fd, "half", 4) != 4 || write(ready[1], "", 1) != 1)
            _exit(1);
        _exit(read(over[0], &byte, 1) != 0);
    }
    close(over[0]);
    if (read(ready[0], &byte, 1) != 1)
        die("half: the writer");
    alarm(1);
    if (freopen(path, "r", stream) || errno != EINTR)
        die("freopen of what is half written, interrupted");
    close(over[1]);
    while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
        ;
}

static int interrupt(void)
{
    char path[4096];

    start_alive();
    on_signal(SIGALRM, on_alarm, 0);
    path_of(path, "never", 0);
    alarm(1);
    if (open(path, O_RDONLY) >= 0 || errno != EINTR)
        die("open, interrupted");
    alarm(1);
    if (fopen(path, "r") || errno != EINTR)
        die("fopen, interrupted");
    alarm(1);
    if (freopen(path, "r", stdin) || errno != EINTR)
        die("freopen, interrupted");
    interrupt_half();
    return 0;
}

static int wait_for(void)
{
    struct itimerval timer = {.it_interval = {.tv_usec = 100000},
                              .it_value = {.tv_usec = 300000}};
    char path[4096];

    start_alive();
    on_signal(SIGALRM, on_ask, SA_RESTART);
    /* As perl's $SIG{CHLD}: a child's end interrupts nobody who does not ask for it. */
    on_signal(SIGCHLD, on_child, 0);
    if (fork() == 0) {
        usleep(200000);
        _exit(0);
    }
    setitimer(ITIMER_REAL, &timer, NULL);
    path_of(path, "awaited", 0);
    errno = 0;
    read_path(path, "awaited");
    return atomic_load(&asked) > 0 && atomic_load(&ended) > 0 ? 0 : 1;
}

static int serve(void)
{
    char path[4096];

    path_of(path, "asked", 0);
    read_path(path, "asked");
    usleep(500000); /* for some more signals to come into the wait */
    path_of(path, "awaited", 0);
    write_path(path, "awaited");
    return 0;
}

static void cleanup(void *arg)
{
    char path[4096];

    path_of(path, arg, 0);
    write_path(path, "cleanup");
}

static void *waiter(void *arg)
{
    char path[4096];

    path_of(path, "never", 0);
    pthread_cleanup_push(cleanup, arg);
    if (strcmp(arg, "open") == 0)
        open(path, O_RDONLY);
    else
        fopen(path, "r");
    pthread_cleanup_pop(0);
    return NULL;
}

static int cancel(void)
{
    static char open_name[] = "open", fopen_name[] = "fopen";
    pthread_t thread[2];
    char path[4096];
    void *result;

    pthread_create(&thread[0], NULL, waiter, open_name);
    pthread_create(&thread[1], NULL, waiter, fopen_name);
    usleep(700000); /* they wait; were it too early the test would show less, not fail */
    for (int i = 0; i < 2; i++) {
        pthread_cancel(thread[i]);
        if (pthread_join(thread[i], &result) != 0 || result != PTHREAD_CANCELED)
            die("not cancelled");
    }
    path_of(path, "after", 0);
    write_path(path, "after");
    return 0;
}

static int check(int n)
{
    static const char *const names[] = {"open", "fopen"};
    char path[4096];

    for (int i = 0; i < n; i++) {
        path_of(path, "h", i);
        read_path(path, "handler");
        path_of(path, "m", i);
        read_path(path, "main");
    }
    for (int i = 0; i < 2; i++) {
        path_of(path, names[i], 0);
        read_path(path, "cleanup");
    }
    path_of(path, "after", 0);
    read_path(path, "after");
    return 0;
}

int main(int argc, char **argv)
{
    const char *what = argc > 2 ? argv[1] : "";
    int n = argc > 3 ? atoi(argv[3]) : 0;

    dir = argc > 2 ? argv[2] : "";
    if (!strcmp(what, "storm"))
        return storm(n);
    if (!strcmp(what, "interrupt"))
        return interrupt();
    if (!strcmp(what, "wait"))
        return wait_for();
    if (!strcmp(what, "serve"))
        return serve();
    if (!strcmp(what, "cancel"))
        return cancel();
    if (!strcmp(what, "check"))
        return check(n);
    return 2;
}
