/*
 * run_serve.c - serve a node until something ends it
 *
 * Signals and the process that is waited for are events. The session directory may be on
 * a file system without events for changes by other nodes, so it is looked at now and
 * then, and with it whether the member is still there.
 */
#include "run_serve.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "boot/identity.h"
#include "boot/procs.h"
#include "run_check.h"
#include "run_library.h"

#define LOOK_MSEC 3000

void run_serve_alone(char *const argv[], bool again)
{
    static const char *const others[] = {"PMIX_NAMESPACE", "PMIX_RANK", BOOT_GUEST_OF,
                                         BOOT_OUTER};
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        unsetenv(others[i]);
    if (!again && !getenv("LD_PRELOAD"))
        return;
    unsetenv("LD_PRELOAD");
    execv("/proc/self/exe", argv);
    fprintf(stderr, "dyad-run: cannot execute itself: %s\n", strerror(errno));
    exit(RUN_EXIT_FAILURE);
}

/* As for a shell's background jobs, a signal that the parent ignores stays ignored. */
static int signals_open(void)
{
    static const int ends[] = {SIGTERM, SIGINT, SIGHUP};
    struct sigaction old;
    sigset_t set;

    sigemptyset(&set);
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
        if (sigaction(ends[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
            sigaddset(&set, ends[i]);
    sigprocmask(SIG_BLOCK, &set, NULL);
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* True if it is still the directory of the beginning, or that cannot be found out. */
static bool is_there(const char *dir, const struct stat *first)
{
    struct stat st;

    if (stat(dir, &st) < 0)
        return errno != ENOENT;
    return st.st_dev == first->st_dev && st.st_ino == first->st_ino;
}

/* dyad_init() asks the member for a sign of life. */
static bool is_member(const struct run_library *api)
{
    dyad_rc_t rc = api->init();

    if (rc == DYAD_OK)
        api->finalize(); /* that one */
    else
        fprintf(stderr, "dyad-run: this node is not served any more: %s\n",
                api->strerror(rc));
    return rc == DYAD_OK;
}

static void say_ready(const char *session_dir)
{
    printf("dyad-run: serving this node in the session of %s\n", session_dir);
    fflush(stdout); /* if nobody reads it, nobody waits for it */
}

static int serve(const struct run_library *api, const char *session_dir,
                 struct pollfd ends[2])
{
    struct stat first;
    int n;

    if (stat(session_dir, &first) < 0)
        return 0;
    while ((n = poll(ends, 2, LOOK_MSEC)) <= 0) {
        if (n < 0 && errno != EINTR) {
            fprintf(stderr, "dyad-run: poll: %s\n", strerror(errno));
            return 1;
        }
        if (!is_there(session_dir, &first))
            return 0;
        if (!is_member(api))
            return 1;
    }
    return 0;
}

int run_serve(const char *wrapper, const char *session_dir, pid_t while_pid)
{
    struct pollfd ends[2] = {{.fd = -1, .events = POLLIN}, {.fd = -1, .events = POLLIN}};
    struct run_library api;
    int status;

    if (while_pid && (ends[0].fd = (int)syscall(SYS_pidfd_open, while_pid, 0)) < 0) {
        fprintf(stderr, "dyad-run: --while %d: %s\n", (int)while_pid, strerror(errno));
        return RUN_EXIT_FAILURE;
    }
    if ((ends[1].fd = signals_open()) < 0) {
        fprintf(stderr, "dyad-run: signalfd: %s\n", strerror(errno));
        return RUN_EXIT_FAILURE;
    }
    signal(SIGPIPE, SIG_IGN);
    prctl(PR_SET_NAME, BOOT_PROCS_SERVER);
    setenv(BOOT_SERVES, "1", 1);
    setenv("DYAD_LINGER", "0", 1); /* who is told to end ends */
    if (run_library_join(&api, wrapper) < 0)
        return RUN_EXIT_FAILURE;
    say_ready(session_dir);
    status = serve(&api, session_dir, ends);
    api.finalize();
    return status;
}
