/*
 * pmix_init.c - PMIx_Init against a server that does not listen
 *
 * A PMIx 4.2.2 server sometimes never reads the first request of a client that connects
 * while another client's connection is being closed (measured under mpirun, 16 ranks on a
 * node, about one of 1,000 Inits that overlap with a Finalize; the 18 bytes are seen in its
 * receive queue). PMIx_Init then waits for ever. If its connection is cut it returns an
 * error, and may be called again after PMIx_Finalize. A thread beside it finds the
 * connection by the address in PMIX_SERVER_URI and cuts it.
 */
#include "boot/pmix_init.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
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

struct watch {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool done;
};

/* Is fd connected to the address that the launcher put into
 * PMIX_SERVER_URI...="name;tcp4://1.2.3.4:5"? */
static bool is_server(int fd)
{
    static const char *const name[] = {"PMIX_SERVER_URI41", "PMIX_SERVER_URI4",
                                       "PMIX_SERVER_URI3", "PMIX_SERVER_URI21",
                                       "PMIX_SERVER_URI2"};
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

static void cut_connection(void)
{
    DIR *dir = opendir("/proc/thread-self/fd");
    struct dirent *entry;

    while (dir && (entry = readdir(dir)))
        if (entry->d_name[0] != '.' && is_server(atoi(entry->d_name)))
            shutdown(atoi(entry->d_name), SHUT_RDWR);
    if (dir)
        closedir(dir);
}

static void *init_watch(void *arg)
{
    struct watch *watch = arg;
    uint64_t when = util_clock_now() + INIT_BOUND_NS;

    prctl(PR_SET_NAME, "dyad-pmix-watch");
    pthread_mutex_lock(&watch->lock);
    while (!watch->done) {
        struct timespec ts = {.tv_sec = (time_t)(when / UTIL_NSEC_PER_SEC),
                              .tv_nsec = (long)(when % UTIL_NSEC_PER_SEC)};
        if (pthread_cond_timedwait(&watch->changed, &watch->lock, &ts) == ETIMEDOUT &&
            !watch->done) {
            cut_connection();
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

int boot_pmix_init(pmix_proc_t *self, bool watched, bool (*stop)(void *arg), void *arg)
{
    pmix_status_t rc;

    for (int i = 1;; i++) {
        uint64_t start = util_clock_now(), took;
        rc = init_once(self, watched);
        took = util_clock_now() - start;
        log_debug("PMIx_Init: %s after %.1f ms", PMIx_Error_string(rc), (double)took / 1e6);
        if (rc == PMIX_SUCCESS || took < INIT_BOUND_NS || i == INIT_TRIES || stop(arg))
            return rc;
        log_info("the launcher's PMIx server did not answer; asking again");
        PMIx_Finalize(NULL, 0);
    }
}
