/*
 * test_environ.c - UCX and PMIx come into a program, and the program does not notice
 *
 * - test_environ PLUGIN [SIGNALS [GDS]]: opens the plugin on a thread and compares signal
 *   actions, the first bytes of libc's memory functions and the environment with what they
 *   were. SIGNALS and GDS: what the plugin must find in UCX_ERROR_SIGNALS and PMIX_MCA_gds.
 * - preloaded into bash (built as a library, too): the same from exit().
 */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

extern char **environ;

static const char *const function[] = {"mmap", "munmap", "mremap", "madvise", "brk",
                                       "sbrk", "shmat",  "shmdt",  "malloc",  "free"};
#define FUNCTIONS (sizeof(function) / sizeof(function[0]))

struct look {
    struct sigaction action[65];
    unsigned char code[FUNCTIONS][32];
    char *env[4096]; /* copies */
    size_t nenv;
};

static struct look before, after;
static const char *plugin, *expect_signals = "", *expect_gds = "hash";

static void look(struct look *l, int with_env)
{
    void *libc = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);

    for (int s = 1; s <= 64; s++)
        sigaction(s, NULL, &l->action[s]);
    for (size_t i = 0; i < FUNCTIONS; i++)
        memcpy(l->code[i], dlsym(libc, function[i]), sizeof(l->code[i]));
    for (char **e = environ; with_env && *e && l->nenv < 4096; e++)
        l->env[l->nenv++] = strdup(*e);
}

static int differ(int with_env)
{
    int bad = 0;

    look(&after, with_env);
    for (int s = 1; s <= 64; s++)
        if (before.action[s].sa_handler != after.action[s].sa_handler) {
            fprintf(stderr, "signal %d has another action\n", s);
            bad = 1;
        }
    for (size_t i = 0; i < FUNCTIONS; i++)
        if (memcmp(before.code[i], after.code[i], sizeof(before.code[i])) != 0) {
            fprintf(stderr, "%s is patched\n", function[i]);
            bad = 1;
        }
    for (size_t i = 0; i < before.nenv || i < after.nenv; i++)
        if (i >= before.nenv || i >= after.nenv ||
            strcmp(before.env[i], after.env[i]) != 0) {
            fprintf(stderr, "the environment is changed: %s\n",
                    i < after.nenv ? after.env[i] : before.env[i]);
            bad = 1;
            break;
        }
    return bad;
}

static int flags(void)
{
#ifdef DYAD_SANITIZED
    return RTLD_NOW | RTLD_LOCAL;
#else
    return RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND;
#endif
}

static void *engine(void *arg)
{
    const char *(*check)(const char *, const char *);
    int (*ucx)(void), (*pmix)(int), (*pmix_end)(void), rc;
    void *handle = dlopen(plugin, flags());
    const char *wrong;

    (void)arg;
    if (!handle) {
        fprintf(stderr, "%s\n", dlerror());
        return "dlopen";
    }
    *(void **)&check = dlsym(handle, "plugin_check");
    *(void **)&ucx = dlsym(handle, "plugin_ucx");
    *(void **)&pmix = dlsym(handle, "plugin_pmix");
    *(void **)&pmix_end = dlsym(handle, "plugin_pmix_end");
    if ((wrong = check(expect_signals, expect_gds)))
        return (void *)wrong;
    if ((rc = ucx()) != 0)
        return "ucx";
    if (getenv("PMIX_NAMESPACE")) {
        if (pmix(1) != 0)
            return "PMIx_Init";
        if (pmix_end() != 0)
            return "PMIx_Finalize";
    }
    return NULL;
}

static int run(int with_env)
{
    pthread_t thread;
    sigset_t all, old;
    void *wrong;

    look(&before, with_env);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    if (pthread_create(&thread, NULL, engine, NULL) != 0)
        return 1;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_join(thread, &wrong);
    if (wrong)
        fprintf(stderr, "wrong: %s\n", (char *)wrong);
    return differ(with_env) || wrong;
}

#ifdef PRELOAD
/* Inside bash: from exit(), when its main has run and its environment is its own. The
 * environment that bash gives to its children is checked by the script. */
static void at_exit(void)
{
    if (!plugin)
        return;
    int bad = run(1);
    dprintf(2, "preload: %s\n", bad ? "BAD" : "good");
    if (bad)
        _exit(77);
}

__attribute__((constructor)) static void begin(void)
{
    /* not getenv(): bash's own knows nothing yet */
    for (char **e = environ; e && *e; e++)
        if (strncmp(*e, "TEST_PLUGIN=", 12) == 0)
            plugin = strdup(*e + 12);
    atexit(at_exit);
}
#else
int main(int argc, char **argv)
{
    if (argc < 2)
        return 2;
    plugin = argv[1];
    if (argc > 2)
        expect_signals = argv[2];
    if (argc > 3)
        expect_gds = argv[3];
    return run(1);
}
#endif
