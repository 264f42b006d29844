/*
 * test_threads.c - 64 threads open, close, duplicate, rename, look, wait, fork and exec at
 * once, below a managed directory
 *
 * The wrapper is linked into this program, its functions under other names, and loads the
 * real libdyad.so.1. A thread of ours is the member: it brings "far..." files here, knows
 * the size of those, and counts what is published. Made for the thread sanitizer, below
 * which a preloaded library cannot start; right without it.
 */
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "boot/member_claim.h"
#include "net/msg.h"
#include "store/marks.h"
#include "wrapper/core.h"
#include "wrapper/fd.h"
#include "wrapper/member_thread.h"
#include "wrapper/real.h"

#define THREADS  64
#define ROUNDS   6
#define FAR_SIZE 1234

extern char **environ;

static char dmd[256];
static struct store_marks *marks;
static const char *const kinds[] = {"plain", "dup", "over", "stream", "forked"};
#define NKINDS (sizeof(kinds) / sizeof(kinds[0]))
static _Atomic unsigned published[NKINDS], consumed, renamed;
static _Atomic bool over;

#define CHECK(condition)                                                                  \
    do {                                                                                  \
        if (!(condition)) {                                                               \
            fprintf(stderr, "line %d: %s (%s)\n", __LINE__, #condition, strerror(errno)); \
            _exit(1);                                                                     \
        }                                                                                 \
    } while (0)

/* --- the member --- */

static void bring(const char *upath)
{
    static _Atomic unsigned number;
    char temp[512], path[512], bytes[FAR_SIZE];

    memset(bytes, 'f', sizeof(bytes));
    snprintf(temp, sizeof(temp), "%s/.dyad/coming.%u", dmd, atomic_fetch_add(&number, 1));
    snprintf(path, sizeof(path), "%s/%.200s", dmd, upath);
    int fd = open(temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    CHECK(fd >= 0 && write(fd, bytes, sizeof(bytes)) == sizeof(bytes));
    CHECK(close(fd) == 0 && rename(temp, path) == 0);
}

static bool is_far(const char *upath)
{
    return strncmp(upath, "far", 3) == 0;
}

static void answer(const struct net_msg *ask, struct net_msg *done)
{
    switch ((int)ask->type) {
    case NET_MSG_GUEST_PRODUCE:
        store_marks_clear(marks, ask->mark);
        for (size_t i = 0; i < NKINDS; i++)
            if (strncmp(ask->entry.upath, kinds[i], strlen(kinds[i])) == 0)
                atomic_fetch_add(&published[i], 1);
        break;
    case NET_MSG_GUEST_CONSUME:
        done->status = is_far(ask->entry.upath) ? 0 : ENOENT;
        if (done->status == 0)
            bring(ask->entry.upath);
        atomic_fetch_add(&consumed, 1);
        break;
    case NET_MSG_GUEST_STAT:
        done->status = is_far(ask->entry.upath) ? 0 : ENOENT;
        done->entry.state = DYAD_ENTRY_PUBLISHED;
        done->entry.size = FAR_SIZE;
        done->entry.mode = S_IFREG | 0644;
        break;
    case NET_MSG_GUEST_RENAME:
        atomic_fetch_add(&renamed, 1);
        break;
    case NET_MSG_GUEST_WITHDRAW:
        done->status = ENOENT;
        break;
    default:
        break;
    }
}

static void receive_all(int fd, void *buf, size_t len)
{
    CHECK(recv(fd, buf, len, MSG_WAITALL) == (ssize_t)len);
}

static void *serve(void *arg)
{
    int listener = *(int *)arg, fd;

    while ((fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
        unsigned char in[NET_MSG_HEADER_MAX], out[4 + NET_MSG_HEADER_MAX];
        struct net_msg ask, done = {.type = NET_MSG_DONE};
        uint32_t len;
        if (recv(fd, &len, sizeof(len), MSG_WAITALL) != sizeof(len)) {
            close(fd);
            continue;
        }
        len = le32toh(len);
        CHECK(len <= sizeof(in));
        receive_all(fd, in, len);
        CHECK(net_msg_decode(&ask, in, len) == 0);
        done.entry.upath = ask.entry.upath;
        done.entry.owner = DYAD_RANK_NONE;
        answer(&ask, &done);
        int n = net_msg_encode(&done, out + 4, sizeof(out) - 4);
        CHECK(n > 0);
        len = htole32((uint32_t)n);
        memcpy(out, &len, sizeof(len));
        CHECK(send(fd, out, 4 + (size_t)n, MSG_NOSIGNAL) == 4 + n);
        close(fd);
    }
    CHECK(atomic_load(&over));
    return NULL;
}

/* --- what the threads do --- */

static void name_it(char *path, const char *what, int thread, int round)
{
    snprintf(path, 512, "%s/%s.%d.%d", dmd, what, thread, round);
}

static int open_new(const char *path, int flags)
{
    int fd = wrapped_open(path, O_WRONLY | O_CREAT | O_TRUNC | flags, 0600);
    CHECK(fd >= 0);
    CHECK(write(fd, path, strlen(path)) == (ssize_t)strlen(path));
    return fd;
}

static void written(int thread, int round)
{
    char path[512], to[512];
    struct stat st;

    name_it(path, "plain", thread, round);
    name_it(to, "final", thread, round);
    CHECK(wrapped_close(open_new(path, O_CLOEXEC)) == 0);
    CHECK(wrapped_stat(path, &st) == 0 && (size_t)st.st_size == strlen(path));
    CHECK(wrapped_rename(path, to) == 0);
    CHECK(wrapped_stat(path, &st) < 0 && errno == ENOENT);
    CHECK(wrapped_unlink(to) == 0);
}

static void duplicated(int thread, int round)
{
    char path[512], other[512];

    name_it(path, "dup", thread, round);
    name_it(other, "over", thread, round);
    int a = open_new(path, O_CLOEXEC), b = wrapped_dup(a),
        c = wrapped_fcntl(a, F_DUPFD_CLOEXEC, 100), d = open_new(other, O_CLOEXEC);
    CHECK(b >= 0 && c >= 100);
    CHECK(wrapped_close(a) == 0);
    CHECK(wrapped_dup2(b, d) == d); /* the last close of `other` */
    CHECK(wrapped_close(b) == 0 && wrapped_close(c) == 0);
    CHECK(write(d, "x", 1) == 1 && wrapped_close(d) == 0);
}

static void streamed(int thread, int round)
{
    char path[512];

    name_it(path, "stream", thread, round);
    FILE *f = wrapped_fopen(path, "w+e");
    CHECK(f && fputs(path, f) >= 0 && wrapped_fclose(f) == 0);
    CHECK(wrapped_access(path, R_OK) == 0);
}

static void waited(int thread, int round)
{
    char path[512], byte;
    struct stat st;

    name_it(path, "far", thread / 2, round); /* two threads want it */
    CHECK(wrapped_stat(path, &st) == 0 && st.st_size == FAR_SIZE);
    int fd = wrapped_open(path, O_RDONLY | O_CLOEXEC);
    CHECK(fd >= 0 && read(fd, &byte, 1) == 1 && byte == 'f' && wrapped_close(fd) == 0);
    name_it(path, "none", thread, round);
    CHECK(wrapped_open(path, O_RDONLY) < 0 && errno == ENOENT);
    CHECK(wrapped_access(path, F_OK) < 0 && errno == ENOENT);
}

static void forked(int thread, int round)
{
    char path[512];
    int status;

    name_it(path, "forked", thread, round);
    int fd = open_new(path, O_CLOEXEC);
    pid_t pid = wrapped_fork();
    if (pid == 0) {
        char *argv[] = {"true", NULL};
        if (round % 2)
            wrapped_execve("/bin/true", argv, environ);
        wrapped__exit(write(fd, "child", 5) != 5);
    }
    CHECK(pid > 0);
    CHECK(wrapped_close(fd) == 0);
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
}

static void (*const acts[])(int thread, int round) = {written, duplicated, streamed, waited,
                                                      forked};

static void *run(void *arg)
{
    int thread = (int)(long)arg;

    for (int round = 0; round < ROUNDS; round++)
        for (size_t a = 0; a < sizeof(acts) / sizeof(acts[0]); a++)
            acts[(a + (size_t)thread) % (sizeof(acts) / sizeof(acts[0]))](thread, round);
    return NULL;
}

static void again(char **argv)
{
    char name[64];

    snprintf(dmd, sizeof(dmd), "/tmp/dyad-threads.XXXXXX");
    CHECK(mkdtemp(dmd) != NULL);
    snprintf(name, sizeof(name), "0@threads.%d", (int)getpid());
    setenv("DYAD_PATH", dmd, 1);
    setenv("DYAD_WAIT", "all", 1);
    setenv("DYAD_LOG", "warn", 1);
    /* A guest, or the wrapper would take the fake member's socket for its own; and one that
     * is not promoted, since the fake member knows nothing of that. */
    unsetenv("PMIX_NAMESPACE");
    setenv("DYAD_GUEST_OF", name, 1);
    setenv("DYAD_PROMOTE", "0", 1);
    argv[0] = realpath("/proc/self/exe", NULL); /* the wrapper finds the engine by it */
    execv(argv[0], argv);
    CHECK(!"exec");
}

static void tracked(int fd, void *arg)
{
    (void)fd;
    ++*(int *)arg;
}

static void clean(void)
{
    char command[300];

    snprintf(command, sizeof(command), "rm -rf '%s'", dmd);
    CHECK(system(command) == 0);
}

/* The wrapper starts while another process has the claim, so it takes this one for a guest,
 * and the listener to come for none of its own. */
static void start_as_guest(const struct sockaddr_un *address, socklen_t len)
{
    int ready[2], done[2];
    char c;

    CHECK(pipe2(ready, O_CLOEXEC) == 0 && pipe2(done, O_CLOEXEC) == 0);
    pid_t holder = fork();
    CHECK(holder >= 0);
    if (holder == 0) {
        CHECK(boot_member_claim_bind(address, len) >= 0 && write(ready[1], "", 1) == 1);
        close(done[1]);
        _exit(read(done[0], &c, 1) != 0);
    }
    close(ready[1]);
    CHECK(read(ready[0], &c, 1) == 1 && wrapper_active());
    CHECK(wrapper_member_start(environ));
    close(ready[0]);
    close(done[0]);
    close(done[1]);
    CHECK(waitpid(holder, NULL, 0) == holder);
}

int main(int argc, char **argv)
{
    struct boot_identity identity;
    struct sockaddr_un address;
    pthread_t member, thread[THREADS];
    const char *bad = NULL;
    int left = 0;

    (void)argc;
    if (!getenv("DYAD_GUEST_OF") || strncmp(getenv("DYAD_GUEST_OF"), "0@threads.", 10) != 0)
        again(argv);
    snprintf(dmd, sizeof(dmd), "%s", getenv("DYAD_PATH"));
    struct store_dir *dir = store_dir_create(dmd);
    CHECK(dir && (marks = store_marks_create(dir)));
    CHECK(boot_identity_read(&identity, environ, &bad) == 0);
    socklen_t len = boot_member_claim_address(&identity, NULL, &address);
    start_as_guest(&address, len);
    int listener = boot_member_claim_bind(&address, len);
    CHECK(listener >= 0);
    CHECK(listen(listener, 4096) == 0);
    CHECK(fcntl(listener, F_SETFL, fcntl(listener, F_GETFL) & ~O_NONBLOCK) == 0);
    CHECK(pthread_create(&member, NULL, serve, &listener) == 0);

    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&thread[i], NULL, run, (void *)(long)i) == 0);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(thread[i], NULL) == 0);

    wrapper_fd_foreach(tracked, &left);
    CHECK(left == 0);
    for (size_t i = 0; i < NKINDS; i++)
        printf("%s %u, ", kinds[i], atomic_load(&published[i]));
    printf("consumed %u, renamed %u\n", atomic_load(&consumed), atomic_load(&renamed));
    /* Each once. But one that is removed while a child holds it has no name to publish; and
     * what a dup() left open in a program without the library is settled by a member. */
    fflush(stdout);
    for (size_t i = 0; i < NKINDS; i++)
        CHECK(atomic_load(&published[i]) == THREADS * ROUNDS ||
              (i < 2 && atomic_load(&published[i]) < THREADS * ROUNDS));
    CHECK(atomic_load(&renamed) == THREADS * ROUNDS);
    atomic_store(&over, true);
    shutdown(listener, SHUT_RDWR);
    pthread_join(member, NULL);
    close(listener);
    store_marks_destroy(marks);
    store_dir_destroy(dir);
    clean();
    return 0;
}
