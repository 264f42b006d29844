/*
 * pmix_init.c - PMIx_Init against a server that does not listen
 *
 * A PMIx server may never read the first request of a client, and PMIx_Init then waits
 * for ever. If its connection is cut it returns an error, and may be called again. So a
 * thread beside it (init_watch()) waits for INIT_BOUND_NS, finds the connection by the
 * address in PMIX_SERVER_URI, and cuts it; PMIx_Init is called INIT_TRIES times at most.
 *
 * What could go wrong: the server is only slow, or stopped, and a cut does harm
 * (cut_connection()). A PMIx_Init that fails counts all the same, and after some
 * failures PMIx_Finalize ends the process with SIGSEGV (undo()).
 */
#include "boot/pmix.h"
#include "boot/pmix_init.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>

#include "util/clock.h"
#include "util/log.h"

/* PMIx_Init takes milliseconds. After this it is taken to hang. */
#define INIT_BOUND_NS (3 * UTIL_NSEC_PER_SEC)
#define INIT_TRIES    4
/* No word of the server: as many bounds as the tries of the other may take. */
#define INIT_SILENT 4

struct watch {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool done;
};

static const char *const name[] = {"PMIX_SERVER_URI41", "PMIX_SERVER_URI4",
                                   "PMIX_SERVER_URI3", "PMIX_SERVER_URI21",
                                   "PMIX_SERVER_URI2"};

bool boot_pmix_server_is_local(void)
{
    bool local = false;

    for (size_t i = 0; i < sizeof(name) / sizeof(name[0]); i++) {
        const char *uri = getenv(name[i]);
        if (uri && !strstr(uri, ";tcp4://127."))
            return false;
        local |= uri != NULL;
    }
    return local;
}

/* True if fd is connected to the address that the launcher put into
 * PMIX_SERVER_URI...="name;tcp4://1.2.3.4:5". */
static bool is_server(int fd)
{
    struct sockaddr_in peer;
    socklen_t len = sizeof(peer);
    char text[INET_ADDRSTRLEN + 32], address[INET_ADDRSTRLEN];

    if (getpeername(fd, (struct sockaddr *)&peer, &len) < 0 || peer.sin_family != AF_INET ||
        !inet_ntop(AF_INET, &peer.sin_addr, address, sizeof(address)))
        return false;
    snprintf(text, sizeof(text), "tcp4://%s:%u", address, ntohs(peer.sin_port));
    for (size_t i = 0; i < sizeof(name) / sizeof(name[0]); i++) {
        const char *uri = getenv(name[i]), *at = uri ? strstr(uri, text) : NULL;
        if (at && (at[strlen(text)] < '0' || at[strlen(text)] > '9'))
            return true;
    }
    return false;
}

/* True if anything has come on fd. False if that cannot be found out (Linux before 4.1).
 */
static bool has_spoken(int fd)
{
    struct tcp_info info = {0};
    socklen_t len = sizeof(info);

    return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) == 0 &&
           info.tcpi_bytes_received > 0;
}

/* A PMIx 4.2.2 server sometimes never reads the first request of a client that connects
 * after another client's Finalize (measured under mpirun, 16 ranks on a node, about one of
 * 1,000 Inits that overlap with a Finalize, and one of 120 that come a second after eight
 * Finalizes at once; the 18 bytes are seen in its receive queue).
 *
 * A connection on which the server has said nothing at all is another matter: the server
 * has more to do, or is stopped, and will take it up. If it is cut, the server (mpirun
 * 4.1.4) takes it up in vain and answers that rank no more; nor does the server end then.
 * So it is left alone for much longer (`also_silent`), and what fails then is not tried
 * again at once. */
static void cut_connection(bool also_silent)
{
    DIR *dir = opendir("/proc/thread-self/fd");
    struct dirent *entry;

    while (dir && (entry = readdir(dir))) {
        int fd = entry->d_name[0] != '.' ? atoi(entry->d_name) : -1;
        if (fd >= 0 && is_server(fd) && (also_silent || has_spoken(fd)))
            shutdown(fd, SHUT_RDWR);
    }
    if (dir)
        closedir(dir);
}

static void *init_watch(void *arg)
{
    struct watch *watch = arg;
    uint64_t when = util_clock_now() + INIT_BOUND_NS;
    int bounds = 0;

    prctl(PR_SET_NAME, "dyad-pmix-watch");
    pthread_mutex_lock(&watch->lock);
    while (!watch->done) {
        struct timespec ts = {.tv_sec = (time_t)(when / UTIL_NSEC_PER_SEC),
                              .tv_nsec = (long)(when % UTIL_NSEC_PER_SEC)};
        if (pthread_cond_timedwait(&watch->changed, &watch->lock, &ts) == ETIMEDOUT &&
            !watch->done) {
            cut_connection(++bounds >= INIT_SILENT);
            when += INIT_BOUND_NS;
        }
    }
    pthread_mutex_unlock(&watch->lock);
    return NULL;
}

static pmix_status_t init_once(pmix_proc_t *self, bool watched)
{
    struct watch watch = {.lock = PTHREAD_MUTEX_INITIALIZER};
    pthread_condattr_t attr;
    pthread_t thread;
    pmix_status_t rc;

    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&watch.changed, &attr);
    pthread_condattr_destroy(&attr);
    watched = watched && pthread_create(&thread, NULL, init_watch, &watch) == 0;

    rc = PMIx_Init(self, NULL, 0);

    pthread_mutex_lock(&watch.lock);
    watch.done = true;
    pthread_cond_signal(&watch.changed);
    pthread_mutex_unlock(&watch.lock);
    if (watched)
        pthread_join(thread, NULL);
    pthread_cond_destroy(&watch.changed);
    return rc;
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* Guarded by lock, which is held across PMIx calls: the thread of a session that hangs may
 * still be here when the next member's begins, and would wait in PMIx otherwise. */
static unsigned held;                         /* Inits that failed and were not finalised */
static pmix_status_t unusable = PMIX_SUCCESS; /* why no call can be made any more */

/* Init has failed with rc. A PMIx_Init that fails counts, and what undoes it depends on
 * how far it came. After the first two of these failures PMIx_Finalize ends the process
 * with SIGSEGV (PMIx 4.2.2; the source of 5.0.0 is alike):
 *
 * - No connection (PMIX_ERR_UNREACH: the launcher has ended, or does not answer).
 *   Finalize takes apart two lists that Init makes only where there is no PMIX_NAMESPACE.
 *   There is nothing to tell a server that was never connected, so such an Init is held.
 *   An Init of a later session then connects, and does no more. Once it has, Finalize is
 *   right again: all are finalised, and Init begins anew.
 * - Its own parts could not be set up (a setting PMIX_MCA_... that names what is not
 *   there). Finalize, and another Init as well, would use what is not there. PMIx is then
 *   left alone as long as the process lives. This failure can be told by the name of the
 *   process, which Init gives as soon as its parts are set up.
 * - After any other error, connected or cut, Finalize is right, and the launcher needs it
 *   if the connection is still there. */
static void undo(pmix_status_t rc, const pmix_proc_t *self)
{
    if (rc == PMIX_ERR_UNREACH || held)
        held++;
    else if (!self->nspace[0])
        unusable = rc;
    else
        PMIx_Finalize(NULL, 0);
}

static pmix_status_t init_locked(pmix_proc_t *self, bool watched, bool again,
                                 bool (*stop)(void *arg), void *arg)
{
    if (held && !again)
        return PMIX_ERR_UNREACH;
    for (int i = 1; unusable == PMIX_SUCCESS; i++) {
        uint64_t start = util_clock_now(), took;
        pmix_status_t rc;

        PMIX_PROC_CONSTRUCT(self);
        rc = init_once(self, watched);
        took = util_clock_now() - start;
        log_debug("PMIx_Init: %s after %.1f ms", PMIx_Error_string(rc), (double)took / 1e6);
        if (rc == PMIX_SUCCESS && !held)
            return rc;
        if (rc == PMIX_SUCCESS) {
            for (; held; held--)
                PMIx_Finalize(NULL, 0);
            PMIx_Finalize(NULL, 0);
            continue;
        }
        undo(rc, self);
        if (held || took < INIT_BOUND_NS || i >= INIT_TRIES || !again || stop(arg))
            return rc;
        log_info("the launcher's PMIx server did not answer; asking again");
    }
    return unusable;
}

int boot_pmix_init(pmix_proc_t *self, bool watched, bool again, bool (*stop)(void *arg),
                   void *arg)
{
    pmix_status_t rc;

    pthread_mutex_lock(&lock);
    rc = init_locked(self, watched, again, stop, arg);
    pthread_mutex_unlock(&lock);
    return rc;
}
