/*
 * procs.c - reads /proc
 *
 * The live descendants of the member are listed, and each of their threads is found
 * asleep or busy, twice (boot_procs_quiet() says why). What messages do is left to the
 * two waves of boot/wave.h and the activity counters. Everything runs on the loop's
 * thread; there is no state.
 *
 * What could go wrong: nothing here is atomic, processes come and go while we look. What
 * cannot be read, and a process that vanishes meanwhile, count as busy. A process that
 * lost its parent belongs to init, and is not seen.
 */
#include "boot/procs.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "util/proc.h"

#define TREE_MAX     65536 /* more processes than this below one rank: busy */
#define LONG_WAIT_MS 60000 /* a time-out from here on counts as a sleep */

struct pids {
    pid_t *pid;
    size_t used, size;
};

static int pids_add(struct pids *list, pid_t pid)
{
    if (list->used == list->size) {
        size_t size = list->size ? list->size * 2 : 64;
        pid_t *bigger = size > TREE_MAX ? NULL : realloc(list->pid, size * sizeof(*bigger));
        if (!bigger)
            return -1;
        list->pid = bigger;
        list->size = size;
    }
    list->pid[list->used++] = pid;
    return 0;
}

/* State letter and parent from the stat file of a process; -1 if it cannot be read. The
 * name may contain anything, also a ")". A first thread that has ended while others run is
 * shown as Z; the process lives. */
static int read_stat(const char *path, char *state, pid_t *parent)
{
    char buf[1024], *p;
    long threads;
    int ppid;

    if (util_proc_read(path, buf, sizeof(buf)) < 0 || !(p = strrchr(buf, ')')) ||
        sscanf(p + 1,
               " %c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %ld",
               state, &ppid, &threads) != 3)
        return -1;
    if (*state == 'Z' && threads > 1)
        *state = 'S';
    *parent = ppid;
    return 0;
}

static bool is_dead(char state)
{
    return state == 'Z' || state == 'X' || state == 'x';
}

/* -1: gone or unreadable */
static int process_state(pid_t pid, char *state)
{
    char path[64];
    pid_t parent;

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    return read_stat(path, state, &parent);
}

/* Call fn for each numeric name in a directory until it returns non-zero. -1: cannot be
 * read. */
static int each_number(const char *path, int (*fn)(void *arg, pid_t number), void *arg)
{
    DIR *dir = opendir(path);
    struct dirent *entry;
    int rc = 0;

    if (!dir)
        return -1;
    while (rc == 0 && (entry = readdir(dir)))
        if (isdigit((unsigned char)entry->d_name[0]))
            rc = fn(arg, (pid_t)atoi(entry->d_name));
    closedir(dir);
    return rc;
}

/* --- children --- */

/* Descendants are found through /proc/PID/task/TID/children, or from the parent's number
 * in every /proc/PID/stat where the kernel was built without it. */

struct child_walk {
    pid_t parent;
    struct pids *out;
    bool no_list; /* the kernel has no "children" files */
};

static int add_children_of_task(void *arg, pid_t tid)
{
    struct child_walk *walk = arg;
    char path[80], number[16];
    size_t digits = 0;
    FILE *file;
    int c, rc = 0;

    snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)walk->parent, (int)tid);
    if (!(file = fopen(path, "re"))) {
        /* The thread has ended (its children went to another, which is listed or will be),
         * or no such file. */
        snprintf(path, sizeof(path), "/proc/%d/task/%d/stat", (int)walk->parent, (int)tid);
        walk->no_list = access(path, R_OK) == 0;
        return walk->no_list ? 1 : 0;
    }
    do {
        c = getc(file);
        if (isdigit(c) && digits < sizeof(number) - 1) {
            number[digits++] = (char)c;
        } else if (digits) {
            number[digits] = '\0';
            digits = 0;
            rc = pids_add(walk->out, (pid_t)atoi(number));
        }
    } while (c != EOF && rc == 0);
    fclose(file);
    return rc;
}

static int add_if_child(void *arg, pid_t pid)
{
    struct child_walk *walk = arg;
    char path[64], state;
    pid_t parent;

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    if (read_stat(path, &state, &parent) == 0 && parent == walk->parent)
        return pids_add(walk->out, pid);
    return 0;
}

/* True if this process has no children of any thread, nor traces one: a single call says
 * that, where the lists of its threads take four for each. */
static bool is_childless(pid_t pid)
{
    siginfo_t info;

    return pid == getpid() &&
           waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT | __WALL) < 0 &&
           errno == ECHILD;
}

/* Add the children of pid, zombies too. -1: could not be read. */
static int add_children(pid_t pid, struct pids *out)
{
    struct child_walk walk = {.parent = pid, .out = out};
    size_t before = out->used;
    char path[64];
    int rc;

    if (is_childless(pid))
        return 0;
    snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
    rc = each_number(path, add_children_of_task, &walk);
    if (walk.no_list) {
        out->used = before;
        rc = each_number("/proc", add_if_child, &walk);
    }
    return rc == 0 ? 0 : -1;
}

static int compare_pids(const void *a, const void *b)
{
    pid_t x = *(const pid_t *)a, y = *(const pid_t *)b;
    return x < y ? -1 : x > y;
}

static bool is_server(pid_t pid)
{
    char path[64], name[32];

    snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
    return util_proc_read(path, name, sizeof(name)) > 0 &&
           strcmp(name, BOOT_PROCS_SERVER "\n") == 0;
}

/* The live children of pid but servers, appended to out, each once. */
static int add_live_children(pid_t pid, struct pids *out)
{
    size_t first = out->used, kept = first;

    if (add_children(pid, out) < 0)
        return -1;
    if (out->used == first)
        return 0;
    qsort(out->pid + first, out->used - first, sizeof(pid_t), compare_pids);
    for (size_t i = first; i < out->used; i++) {
        char state;
        if (i > first && out->pid[i] == out->pid[i - 1])
            continue;
        if (process_state(out->pid[i], &state) < 0 || is_dead(state) ||
            is_server(out->pid[i]))
            continue;
        out->pid[kept++] = out->pid[i];
    }
    out->used = kept;
    return 0;
}

size_t boot_procs_descendants(pid_t root, pid_t *pids, size_t max)
{
    struct pids tree = {0};
    size_t found;

    add_live_children(root, &tree);
    for (size_t i = 0; i < tree.used; i++)
        add_live_children(tree.pid[i], &tree); /* a process that is gone has none */
    found = tree.used;
    if (found && max)
        memcpy(pids, tree.pid, (found < max ? found : max) * sizeof(*pids));
    free(tree.pid);
    return found;
}

/* --- environment --- */

bool boot_procs_rank(pid_t pid, char nspace[BOOT_NSPACE_MAX + 1], uint32_t *rank)
{
    static const char nspace_is[] = "PMIX_NAMESPACE=", rank_is[] = "PMIX_RANK=";
    char path[64], *entry = NULL, *end = NULL;
    bool has_nspace = false, has_rank = false;
    size_t size = 0;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/environ", (int)pid);
    if (!(file = fopen(path, "re")))
        return false;
    while (getdelim(&entry, &size, '\0', file) > 0) {
        if (strncmp(entry, nspace_is, sizeof(nspace_is) - 1) == 0) {
            const char *value = entry + sizeof(nspace_is) - 1;
            has_nspace = strlen(value) <= BOOT_NSPACE_MAX;
            snprintf(nspace, BOOT_NSPACE_MAX + 1, "%s", value);
        } else if (strncmp(entry, rank_is, sizeof(rank_is) - 1) == 0) {
            *rank = (uint32_t)strtoul(entry + sizeof(rank_is) - 1, &end, 10);
            has_rank = end && end > entry + sizeof(rank_is) - 1 && *end == '\0';
        }
    }
    free(entry);
    fclose(file);
    return has_nspace && has_rank;
}

bool boot_procs_same_rank(pid_t pid, const struct boot_identity *identity)
{
    char nspace[BOOT_NSPACE_MAX + 1];
    uint32_t rank;

    return !identity->solo && !identity->guest_only &&
           boot_procs_rank(pid, nspace, &rank) && rank == identity->rank &&
           strcmp(nspace, identity->nspace) == 0;
}

/* --- threads --- */

/* A thread that sleeps in the read or write of an unnamed pipe is woken by a process that
 * has the other end: if that is one of these processes the sleep counts as quiet; if none
 * has it, a process outside has. */
struct pipe_wait {
    uint64_t ino;
    pid_t pid;
    bool reads;
};

#define PIPES_MAX 64

struct look {
    struct pipe_wait *pipes; /* PIPES_MAX of them */
    size_t npipes;
    pid_t pid;
    const struct boot_blocked *blocked;
    size_t nblocked;
    const pid_t *ignore;
    size_t nignore;
    bool one_blocked; /* a thread of this process is in a wait of ours */
    uint64_t *seen;   /* a hash of all threads and of how often each has slept */
};

/* The time-out at `address` in another process, in milliseconds; INT64_MAX where there is
 * none. -1: unreadable. */
static int64_t read_timeout(pid_t pid, uint64_t address, bool microseconds)
{
    struct timespec ts;
    struct iovec local = {.iov_base = &ts, .iov_len = sizeof(ts)};
    struct iovec remote = {.iov_base = (void *)(uintptr_t)address, .iov_len = sizeof(ts)};

    if (address == 0)
        return INT64_MAX;
    if (process_vm_readv(pid, &local, 1, &remote, 1, 0) != (ssize_t)sizeof(ts) ||
        ts.tv_sec < 0)
        return -1;
    if (ts.tv_sec > INT64_MAX / 2000)
        return INT64_MAX;
    return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / (microseconds ? 1000 : 1000000);
}

/* Of FUTEX_WAIT_BITSET and the like, whose time is absolute. */
static int64_t until(int64_t ms, bool realtime)
{
    struct timespec now;

    if (ms < 0 || ms == INT64_MAX)
        return ms;
    clock_gettime(realtime ? CLOCK_REALTIME : CLOCK_MONOTONIC, &now);
    ms -= (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
    return ms < 0 ? 0 : ms;
}

/* True if the thread sleeps until another wakes it. `nr` and `arg`: as /proc shows them.
 * A call with a short time-out is not a sleep: a program that polls once a second may do
 * anything next. */
static bool is_asleep(pid_t pid, long nr, const uint64_t arg[6], bool *waits_for_child)
{
    int64_t ms;

    *waits_for_child = false;
    switch (nr) {
    case SYS_wait4:
    case SYS_waitid:
        *waits_for_child = true;
        return true;
    case SYS_futex:
        /* FUTEX_WAIT (0), FUTEX_LOCK_PI (6), FUTEX_WAIT_BITSET (9), FUTEX_WAIT_REQUEUE_PI
         * (11), LOCK_PI2 (13) */
        ms = read_timeout(pid, arg[3], false);
        if ((arg[1] & 127) != 0)
            ms = until(ms, arg[1] & 256 || (arg[1] & 127) == 6);
        break;
#ifdef SYS_poll
    case SYS_poll:
        ms = (int32_t)arg[2] < 0 ? INT64_MAX : (int32_t)arg[2];
        break;
#endif
#ifdef SYS_select
    case SYS_select:
        ms = read_timeout(pid, arg[4], true);
        break;
#endif
#ifdef SYS_epoll_wait
    case SYS_epoll_wait:
#endif
    case SYS_epoll_pwait:
        ms = (int32_t)arg[3] < 0 ? INT64_MAX : (int32_t)arg[3];
        break;
#ifdef SYS_epoll_pwait2
    case SYS_epoll_pwait2:
        ms = read_timeout(pid, arg[3], false);
        break;
#endif
    case SYS_ppoll:
        ms = read_timeout(pid, arg[2], false);
        break;
    case SYS_pselect6:
        ms = read_timeout(pid, arg[4], false);
        break;
    default:
        return false;
    }
    return ms >= LONG_WAIT_MS;
}

static uint64_t pipe_of(pid_t pid, long fd)
{
    char path[80], target[64];
    unsigned long long ino;
    ssize_t n;

    snprintf(path, sizeof(path), "/proc/%d/fd/%ld", (int)pid, fd);
    if ((n = readlink(path, target, sizeof(target) - 1)) <= 0)
        return 0;
    target[n] = '\0';
    return sscanf(target, "pipe:[%llu]", &ino) == 1 ? ino : 0;
}

/* True: noted, to be judged when all processes are known. */
static bool note_pipe_wait(struct look *look, long nr, uint64_t fd)
{
    bool reads = nr == SYS_read || nr == SYS_readv;
    uint64_t ino;

    if ((!reads && nr != SYS_write && nr != SYS_writev) || look->npipes == PIPES_MAX ||
        !(ino = pipe_of(look->pid, (int)fd)))
        return false;
    look->pipes[look->npipes++] =
        (struct pipe_wait){.ino = ino, .pid = look->pid, .reads = reads};
    return true;
}

struct pipe_search {
    pid_t pid;
    const struct pipe_wait *pipe;
};

static int is_other_end(void *arg, pid_t fd)
{
    const struct pipe_search *search = arg;
    char path[80], text[512], *p;
    unsigned flags;

    if (pipe_of(search->pid, fd) != search->pipe->ino)
        return 0;
    snprintf(path, sizeof(path), "/proc/%d/fdinfo/%d", (int)search->pid, (int)fd);
    if (util_proc_read(path, text, sizeof(text)) < 0 || !(p = strstr(text, "flags:")) ||
        sscanf(p, "flags: %o", &flags) != 1)
        return 0;
    return search->pipe->reads == ((flags & O_ACCMODE) == O_WRONLY);
}

/* True if other processes of the tree have the other ends of all these pipes. */
static bool pipes_are_theirs(const struct pids *tree, const struct pipe_wait *pipes,
                             size_t npipes)
{
    for (size_t i = 0; i < npipes; i++) {
        bool found = false;
        for (size_t j = 0; j < tree->used && !found; j++) {
            struct pipe_search search = {.pid = tree->pid[j], .pipe = &pipes[i]};
            char path[64];
            snprintf(path, sizeof(path), "/proc/%d/fd", (int)tree->pid[j]);
            found = tree->pid[j] != pipes[i].pid &&
                    each_number(path, is_other_end, &search) == 1;
        }
        if (!found)
            return false;
    }
    return true;
}

static bool is_blocked(const struct look *look, pid_t tid)
{
    for (size_t i = 0; i < look->nblocked; i++)
        if (look->blocked[i].pid == look->pid && look->blocked[i].tid == tid)
            return true;
    return false;
}

/* The thread's state, and how often it has gone to sleep, which is added to look->seen if
 * it is not dead. -1: that cannot be found out. */
static int read_thread(struct look *look, pid_t tid, char *state)
{
    char path[80], text[16384]; /* a line of it names all groups */
    unsigned long long sleeps;
    const char *p;

    snprintf(path, sizeof(path), "/proc/%d/task/%d/status", (int)look->pid, (int)tid);
    if (util_proc_read(path, text, sizeof(text)) < 0 || !(p = strstr(text, "\nState:")) ||
        sscanf(p, " State: %c", state) != 1)
        return -1;
    if (is_dead(*state))
        return 0;
    if (!(p = strstr(p, "\nvoluntary_ctxt_switches:")) ||
        sscanf(p, " voluntary_ctxt_switches: %llu", &sleeps) != 1)
        return -1;
    *look->seen = (*look->seen ^ (uint64_t)tid) * 0x100000001b3u;
    *look->seen = (*look->seen ^ sleeps) * 0x100000001b3u;
    return 0;
}

/* 0: this thread does not hinder; 1: it is busy; 2: it waits for a child; 3: in a pipe.
 * What it does is in /proc/PID/task/TID/syscall: the number of the call it sleeps in and
 * its arguments, or "running". A thread that waits for us may be in a signal's handler,
 * or on its way out since it was cancelled: it must be asleep in our wait, or count as
 * busy. */
static int look_at_thread(void *arg, pid_t tid)
{
    struct look *look = arg;
    char path[80], buf[512], state;
    uint64_t a[6];
    bool waits, blocked = is_blocked(look, tid);
    long nr;

    for (size_t i = 0; i < look->nignore; i++)
        if (look->ignore[i] == tid)
            return 0;
    if (read_thread(look, tid, &state) < 0)
        return 1;
    if (is_dead(state))
        return 0; /* a first thread that called pthread_exit() */
    if (blocked && (state == 'T' || state == 't')) {
        look->one_blocked = true;
        return 0;
    }
    if (state != 'S')
        return 1;
    snprintf(path, sizeof(path), "/proc/%d/task/%d/syscall", (int)look->pid, (int)tid);
    if (util_proc_read(path, buf, sizeof(buf)) < 0 ||
        sscanf(buf, "%ld 0x%lx 0x%lx 0x%lx 0x%lx 0x%lx 0x%lx", &nr, &a[0], &a[1], &a[2],
               &a[3], &a[4], &a[5]) != 7)
        return 1;  /* "running", "-1 ..." or not ours to see */
    if (blocked) { /* in our wait, which is a recv(), and not in a handler's own sleep */
        look->one_blocked = true;
        return nr != SYS_recvfrom && !is_asleep(look->pid, nr, a, &waits);
    }
    if (note_pipe_wait(look, nr, a[0]))
        return 3;
    return is_asleep(look->pid, nr, a, &waits) ? (waits ? 2 : 0) : 1;
}

struct process_look {
    struct look look;
    bool waits_for_child, waits_in_pipe;
};

static int look_and_note(void *arg, pid_t tid)
{
    struct process_look *process = arg;
    int rc = look_at_thread(&process->look, tid);

    if (rc == 2)
        process->waits_for_child = true;
    if (rc == 3)
        process->waits_in_pipe = true;
    return rc == 1;
}

static bool look_once(pid_t root, bool root_exiting, const struct boot_blocked *blocked,
                      size_t nblocked, const pid_t *ignore, size_t nignore, uint64_t *seen)
{
    struct pids tree = {0};
    struct pipe_wait pipes[PIPES_MAX];
    size_t npipes = 0;
    bool is_quiet = true;

    if (pids_add(&tree, root) < 0)
        return false;
    for (size_t i = 0; i < tree.used && is_quiet; i++) {
        pid_t pid = tree.pid[i];
        size_t before = tree.used;
        struct process_look process = {.look = {.pipes = pipes,
                                                .npipes = npipes,
                                                .pid = pid,
                                                .blocked = blocked,
                                                .nblocked = nblocked,
                                                .ignore = ignore,
                                                .nignore = nignore,
                                                .seen = seen}};
        char path[64], state;

        if (add_live_children(pid, &tree) < 0) {
            /* ended since its parent was read: that parent may run now */
            is_quiet = false;
            break;
        }
        if (i == 0 && root_exiting)
            continue;
        snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
        if ((pid != getpid() && (process_state(pid, &state) < 0 || is_dead(state))) ||
            each_number(path, look_and_note, &process) != 0)
            is_quiet = false;
        else if (process.waits_for_child ||
                 (!process.look.one_blocked && !process.waits_in_pipe))
            is_quiet = tree.used > before; /* (b): it needs a live child */
        npipes = process.look.npipes;
    }
    is_quiet = is_quiet && pipes_are_theirs(&tree, pipes, npipes);
    free(tree.pid);
    return is_quiet;
}

/* A thread that was seen asleep may be woken by another one before that one is looked at.
 * So all is looked at twice. If each thread sleeps both times and has not given up a
 * processor in between (the kernel counts that), it slept all the time from its first
 * look to its second, and so there was a moment, between the two rounds, at which all
 * slept. */
bool boot_procs_quiet(pid_t root, bool root_exiting, const struct boot_blocked *blocked,
                      size_t nblocked, const pid_t *ignore, size_t nignore)
{
    uint64_t first = 0, second = 0;

    return look_once(root, root_exiting, blocked, nblocked, ignore, nignore, &first) &&
           look_once(root, root_exiting, blocked, nblocked, ignore, nignore, &second) &&
           first == second;
}
