/*
 * libevent_proxy.c - libevent for PMIx, with two descriptor tables in one process
 *
 * For PMIx alone, libevent's functions that may wake a loop are defined here (found first
 * because of RTLD_DEEPBIND, see environ.c): a call from a thread with the program's
 * table, for a base that was made with the private one, is made by a thread of ours with
 * the private table instead (the proxy), while the caller waits.
 *
 * What could go wrong: without the proxy MPI_Init hangs (call()); the proxy hangs if it
 * is a thread that may wait in PMIx (proxy_main()). A PMIx library that the program had
 * loaded before us binds to libevent itself; sessions then run in the program's table and
 * none of this is needed (pmix.c).
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <unistd.h>

#include "util/stack.h"

#include "boot/fdtable.h"
#include "boot/libevent_proxy.h"

#define DYAD_VISIBLE __attribute__((visibility("default")))
#define PROXY_STACK \
    (256 * 1024) /* event_del runs no callbacks, but PMIx logs with stdio below it */

struct event;
struct event_base;

/* The public names, and the signatures, are libevent's; its headers are not needed for
 * more. */
DYAD_VISIBLE struct event_base *event_base_new(void);
DYAD_VISIBLE void event_active(struct event *event, int res, short ncalls);
DYAD_VISIBLE int event_add(struct event *event, const struct timeval *timeout);
DYAD_VISIBLE int event_del(struct event *event);
DYAD_VISIBLE int event_base_loopexit(struct event_base *base,
                                     const struct timeval *timeout);

enum call { CALL_ACTIVE, CALL_ADD, CALL_DEL, CALL_EXIT };

struct request {
    enum call call;
    void *object; /* event or base */
    int res;
    short ncalls;
    const struct timeval *timeout;
    int rc;
};

/* One request at a time; guarded by lock, but for the function pointers, which `once`
 * orders. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool running;
    struct request *wanted;   /* not taken by the proxy yet */
    struct request *answered; /* done */
    bool in_use;
    struct event_base *base; /* the one that was made with the private table */
} proxy = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct {
    struct event_base *(*base_new)(void);
    void (*active)(struct event *, int, short);
    int (*add)(struct event *, const struct timeval *);
    int (*del)(struct event *);
    int (*loopexit)(struct event_base *, const struct timeval *);
    struct event_base *(*base_of)(const struct event *);
} real;

static void *next(const char *name)
{
    void *found = dlsym(RTLD_NEXT, name);

    /* PMIx needs libevent and is loaded, so it is there; nothing can be done without it. */
    if (!found)
        abort();
    return found;
}

static void resolve(void)
{
    *(void **)&real.base_new = next("event_base_new");
    *(void **)&real.active = next("event_active");
    *(void **)&real.add = next("event_add");
    *(void **)&real.del = next("event_del");
    *(void **)&real.base_of = next("event_get_base");
    *(void **)&real.loopexit = next("event_base_loopexit");
}

static int perform(const struct request *r)
{
    switch (r->call) {
    case CALL_ACTIVE:
        real.active(r->object, r->res, r->ncalls);
        return 0;
    case CALL_ADD:
        return real.add(r->object, r->timeout);
    case CALL_DEL:
        return real.del(r->object);
    case CALL_EXIT:
        return real.loopexit(r->object, r->timeout);
    }
    return -1;
}

/* The proxy is started by event_base_new() in the private table, and stays. It must not
 * be the session's thread, which may be inside PMIx, waiting for what the caller holds.
 */
static void *proxy_main(void *arg)
{
    (void)arg;
    prctl(PR_SET_NAME, "dyad-evproxy");
    pthread_mutex_lock(&proxy.lock);
    for (;;) {
        struct request *request;
        while (!proxy.wanted)
            pthread_cond_wait(&proxy.changed, &proxy.lock);
        request = proxy.wanted;
        proxy.wanted = NULL;
        pthread_mutex_unlock(&proxy.lock);
        request->rc = perform(request);
        pthread_mutex_lock(&proxy.lock);
        proxy.answered = request;
        pthread_cond_broadcast(&proxy.changed);
    }
    return NULL;
}

DYAD_VISIBLE struct event_base *event_base_new(void)
{
    struct event_base *base;
    pthread_attr_t attr;
    pthread_t thread;

    pthread_once(&once, resolve);
    base = real.base_new();
    pthread_mutex_lock(&proxy.lock);
    if (boot_fdtable_is_private()) {
        proxy.base = base;
        if (!proxy.running) { /* it inherits the table, and that all signals are blocked */
            pthread_attr_init(&attr);
            util_stack_set(&attr, PROXY_STACK);
            pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
            proxy.running = pthread_create(&thread, &attr, proxy_main, NULL) == 0;
            pthread_attr_destroy(&attr);
        }
    } else if (proxy.base == base) { /* ours was freed, and its memory came back */
        proxy.base = NULL;
    }
    pthread_mutex_unlock(&proxy.lock);
    return base;
}

/* A program may load MPI (python: import mpi4py) and call MPI_Init while a PMIx session
 * of ours is on, whose progress thread and descriptors are those of the private table.
 * PMIx_Init then only counts, and all that MPI asks of PMIx ends in event_active(), which
 * wakes the progress thread by writing to a descriptor: by number, in the wrong table.
 * The progress thread never wakes, and MPI_Init hangs (measured). */
static int call(struct request *request)
{
    struct event_base *base;

    pthread_once(&once, resolve);
    base = request->call == CALL_EXIT ? request->object : real.base_of(request->object);
    pthread_mutex_lock(&proxy.lock);
    if (!proxy.running || base != proxy.base || boot_fdtable_is_private()) {
        pthread_mutex_unlock(&proxy.lock);
        return perform(request);
    }
    __atomic_store_n(&boot_pmix_shared, true, __ATOMIC_RELAXED);
    while (proxy.in_use)
        pthread_cond_wait(&proxy.changed, &proxy.lock);
    proxy.in_use = true;
    proxy.wanted = request;
    pthread_cond_broadcast(&proxy.changed);
    while (proxy.answered != request)
        pthread_cond_wait(&proxy.changed, &proxy.lock);
    proxy.answered = NULL;
    proxy.in_use = false;
    pthread_cond_broadcast(&proxy.changed);
    pthread_mutex_unlock(&proxy.lock);
    return request->rc;
}

DYAD_VISIBLE void event_active(struct event *event, int res, short ncalls)
{
    struct request request = {
        .call = CALL_ACTIVE, .object = event, .res = res, .ncalls = ncalls};
    call(&request);
}

DYAD_VISIBLE int event_add(struct event *event, const struct timeval *timeout)
{
    struct request request = {.call = CALL_ADD, .object = event, .timeout = timeout};
    return call(&request);
}

DYAD_VISIBLE int event_del(struct event *event)
{
    struct request request = {.call = CALL_DEL, .object = event};
    return call(&request);
}

DYAD_VISIBLE int event_base_loopexit(struct event_base *base, const struct timeval *timeout)
{
    struct request request = {.call = CALL_EXIT, .object = base, .timeout = timeout};
    return call(&request);
}
