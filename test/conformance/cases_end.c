/* cases_end.c - the ways a process ends, with files and streams open */
#include "conform.h"

#include <pthread.h>

enum end {
    RETURN,
    EXIT,
    QUICK_EXIT,
    UNDER_EXIT,
    BIG_EXIT,
    ABORT,
    KILL,
    SEGV,
    TERM,
    ALARM,
    IN_THREAD,
    ENDS
};
static const char *const end_names[ENDS] = {"return", "exit",  "quick_exit",  "_exit",
                                            "_Exit",  "abort", "kill",        "segv",
                                            "term",   "alarm", "pthread_exit"};

static void at_end(void)
{
    put("by_atexit", "handler");
}

static void *last_thread(void *arg)
{
    int fd = *(int *)arg;

    if (write(fd, " thread", 7) != 7)
        _exit(1);
    return NULL;
}

static _Noreturn void go(enum end how)
{
    static int fd;
    pthread_t thread;

    switch (how) {
    case RETURN:
    case EXIT:
    case ENDS:
        exit(3);
    case QUICK_EXIT:
        quick_exit(4);
    case UNDER_EXIT:
        _exit(5);
    case BIG_EXIT:
        _Exit(6);
    case ABORT:
        abort();
    case KILL:
        raise(SIGKILL);
        break;
    case SEGV:
        raise(SIGSEGV);
        break;
    case TERM:
        raise(SIGTERM);
        break;
    case ALARM:
        raise(SIGALRM);
        break;
    case IN_THREAD:
        fd = open("f", O_WRONLY | O_APPEND);
        pthread_create(&thread, NULL, last_thread, &fd);
        pthread_exit(NULL);
    }
    _exit(92);
}

/* What the disk has afterwards: the tree. Reading is another case, since a file whose last
 * writer was killed is not complete. */
static void with_descriptor(long how, long unused)
{
    int fd = R(open("f", O_WRONLY | O_CREAT, 0644));

    (void)unused;
    R(write(fd, "written", 7));
    atexit(at_end);
    at_quick_exit(at_end);
    go((enum end)how);
}

static void with_stream(long how, long unused)
{
    FILE *stream = P(fopen("f", "w"));

    (void)unused;
    fputs("buffered", stream);
    go((enum end)how);
}

static void with_closed(long how, long unused)
{
    (void)unused;
    put("f", "closed before");
    go((enum end)how);
}

/* The end of a child, seen by its parent, by libc. */
static void seen_by_parent(long how, long stream)
{
    pid_t pid = spawn();

    if (pid == 0) {
        if (stream) {
            FILE *out = fopen("f", "w");

            fputs("buffered", out);
        } else {
            int fd = open("f", O_WRONLY | O_CREAT, 0644);

            R(write(fd, "written", 7));
        }
        go((enum end)how);
    }
    reap(pid);
    show("f");
    look("f");
    put("f", "by the parent");
    show("f");
}

/* One of two holders is killed: the other goes on. */
static void one_killed(long unused, long unused2)
{
    int fd = R(open("f", O_WRONLY | O_CREAT, 0644));

    (void)unused, (void)unused2;
    R(write(fd, "parent", 6));
    CHILD(R(write(fd, " child", 6)); raise(SIGKILL));
    R(write(fd, " again", 6));
    R(close(fd));
    show("f");
}

static void at_exit_order(long unused, long unused2)
{
    FILE *stream = P(fopen("f", "w"));

    (void)unused, (void)unused2;
    fputs("stream", stream);
    atexit(at_end);
    CHILD(put("child", "of exit"); exit(7));
    exit(0);
}

static void *exits(void *arg)
{
    exit((int)(long)arg);
}

static void exit_in_thread(long unused, long unused2)
{
    pthread_t thread;

    (void)unused, (void)unused2;
    FILE *stream = P(fopen("f", "w"));

    fputs("buffered", stream);
    pthread_create(&thread, NULL, exits, (void *)9);
    pthread_join(thread, NULL);
    _exit(1);
}

void add_end_cases(void)
{
    for (long how = 0; how < ENDS; how++) {
        conform_add(with_descriptor, how, 0, "end.descriptor.%s", end_names[how]);
        conform_add(with_stream, how, 0, "end.stream.%s", end_names[how]);
        conform_add(with_closed, how, 0, "end.closed.%s", end_names[how]);
        if (how == IN_THREAD)
            continue;
        conform_add(seen_by_parent, how, 0, "end.seen.descriptor.%s", end_names[how]);
        conform_add(seen_by_parent, how, 1, "end.seen.stream.%s", end_names[how]);
    }
    ADD("end", one_killed);
    ADD("end", at_exit_order);
    ADD("end", exit_in_thread);
}
