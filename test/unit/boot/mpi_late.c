/*
 * mpi_late.c - an MPI program beside a PMIx session of ours
 *
 * mpi_late PLUGIN MODE, under mpirun. The plugin (environ_plugin.c, opened with DEEPBIND)
 * is the engine; the MPI library is opened by the program.
 * - before: MPI_Init is called before ours, as by a program linked with MPI: our PMIx_Init
 * is the second
 * - during: our session is on when the program opens MPI and calls MPI_Init:
 * libevent_proxy.c
 * - after: our session began and ended before
 * - session: all of it through boot/pmix.h, as the member does it, in a program linked with
 *   MPI: it begins before MPI_Init, asks again and ends after MPI_Finalize
 * - later: the same in a program that opens MPI after we began
 */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int (*pmix)(int), (*pmix_end)(void);
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int wanted, done, result;
static int own_table;
static int (*session)(void), (*session_end)(void); /* NULL: pmix and pmix_end */

static void *engine(void *arg)
{
    (void)arg;
    pthread_mutex_lock(&lock);
    for (int step = 1;; step++) {
        while (wanted < step)
            pthread_cond_wait(&changed, &lock);
        pthread_mutex_unlock(&lock);
        int rc = session ? (step == 1 ? session() : session_end())
                         : (step == 1 ? pmix(own_table) : pmix_end());
        pthread_mutex_lock(&lock);
        result = rc;
        done = step;
        pthread_cond_broadcast(&changed);
        if (step == 2)
            break;
    }
    pthread_mutex_unlock(&lock);
    return NULL;
}

static int next_step(void)
{
    pthread_mutex_lock(&lock);
    wanted++;
    pthread_cond_broadcast(&changed);
    while (done < wanted)
        pthread_cond_wait(&changed, &lock);
    int rc = result;
    pthread_mutex_unlock(&lock);
    return rc;
}

static int (*mpi_init)(int *, char ***), (*mpi_finalize)(void);

static void mpi_open(void)
{
    void *mpi = dlopen("libmpi.so.40", RTLD_NOW | RTLD_GLOBAL);
    if (!mpi) {
        fprintf(stderr, "%s\n", dlerror());
        exit(3);
    }
    *(void **)&mpi_init = dlsym(mpi, "MPI_Init");
    *(void **)&mpi_finalize = dlsym(mpi, "MPI_Finalize");
}

static void plugin_open(const char *path, int with_session)
{
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
    if (!handle) {
        fprintf(stderr, "%s\n", dlerror());
        exit(3);
    }
    *(void **)&pmix = dlsym(handle, "plugin_pmix");
    *(void **)&pmix_end = dlsym(handle, "plugin_pmix_end");
    if (with_session) {
        *(void **)&session = dlsym(handle, "plugin_session");
        *(void **)&session_end = dlsym(handle, "plugin_session_end");
    }
}

int main(int argc, char **argv)
{
    const char *mode = argc > 2 ? argv[2] : "";
    pthread_t thread;
    sigset_t all, old;

    if (strcmp(mode, "before") == 0) {
        mpi_open();
        if (mpi_init(&argc, &argv) != 0)
            return 4;
    }
    own_table = strcmp(mode, "before") !=
                0; /* in an MPI program a session uses the program's table */
    if (strcmp(mode, "session") == 0)
        mpi_open();
    plugin_open(argv[1], strcmp(mode, "session") == 0 || strcmp(mode, "later") == 0);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    pthread_create(&thread, NULL, engine, NULL);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (next_step() != 0)
        return 5;
    if (strcmp(mode, "after") == 0 && next_step() != 0)
        return 6;
    if (strcmp(mode, "before") != 0) {
        mpi_open();
        if (mpi_init(&argc, &argv) != 0)
            return 7;
    }
    if (mpi_finalize() != 0)
        return 8;
    if (strcmp(mode, "after") != 0 && next_step() != 0)
        return 9;
    pthread_join(thread, NULL);
    printf("good\n");
    return 0;
}
