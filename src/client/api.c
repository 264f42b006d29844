/*
 * api.c - the public functions of dyad.h over the client
 *
 * `lock` guards the count of dyad_init()s and the parameters they were made with. The
 * environment that the client reads is a copy, with the caller's parameters put over it,
 * that is kept for the life of the process: the client's configuration points into it.
 */
#include "dyad/dyad.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "client/client.h"
#include "util/log.h"
#include "util/path.h"

#define API __attribute__((visibility("default")))

/* DYAD_TIMEOUT of a call that asks not to wait for ever, at most. */
#define TIMEOUT_MAX_S 1e9

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t atfork_once = PTHREAD_ONCE_INIT;
static unsigned inits;
static bool member_is_ours; /* started by dyad_init(): dyad_finalize() ends it */

extern char **environ;

static const struct {
    int error;
    dyad_rc_t rc;
} errors[] = {
    {ENOENT, DYAD_E_NOT_FOUND},
    {EAGAIN, DYAD_E_AGAIN},
    {ETIMEDOUT, DYAD_E_TIMEOUT},
    {EHOSTUNREACH, DYAD_E_UNREACHABLE},
    {ENOTCONN, DYAD_E_NO_SESSION},
    {ENOSPC, DYAD_E_NO_SPACE},
    {EDQUOT, DYAD_E_NO_SPACE},
    {ENOMEM, DYAD_E_NO_MEMORY},
    {EACCES, DYAD_E_PERMISSION},
    {EPERM, DYAD_E_PERMISSION},
    {EINVAL, DYAD_E_INVALID},
    {EBUSY, DYAD_E_BUSY},
    {EIO, DYAD_E_IO},
};

static dyad_rc_t rc_of(int error)
{
    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
        if (errors[i].error == error)
            return errors[i].rc;
    }
    return DYAD_E_IO;
}

API const char *dyad_strerror(dyad_rc_t rc)
{
    switch (rc) {
    case DYAD_OK:
        return "success";
    case DYAD_E_NOT_INIT:
        return "dyad_init() has not succeeded in this process";
    case DYAD_E_INVALID:
        return "a parameter or a DYAD_ variable has a bad value";
    case DYAD_E_NOT_MANAGED:
        return "the path is not below the managed directory";
    case DYAD_E_NOT_FOUND:
        return "the file is not published, and nobody is left who could publish it";
    case DYAD_E_AGAIN:
        return "the file is not published yet";
    case DYAD_E_TIMEOUT:
        return "the file was not published in time";
    case DYAD_E_UNREACHABLE:
        return "the owner of the file, or this rank's member, cannot be reached";
    case DYAD_E_NO_SESSION:
        return "this process was not started by a PMIx launcher, or could not join";
    case DYAD_E_NO_SPACE:
        return "the local storage is full";
    case DYAD_E_NO_MEMORY:
        return "out of memory";
    case DYAD_E_PERMISSION:
        return "permission denied";
    case DYAD_E_IO:
        return "reading or writing the local storage failed";
    case DYAD_E_BUSY:
        return "the file is still open for writing";
    default:
        return "unknown error code";
    }
}

/* --- the environment with the caller's parameters over it --- */

struct overlay {
    char **env;
    size_t n, size;
};

static int overlay_set(struct overlay *o, const char *name, const char *value)
{
    size_t len = strlen(name);
    char *pair;

    if (!value)
        return 0;
    if (asprintf(&pair, "%s=%s", name, value) < 0)
        return -1;
    for (size_t i = 0; i < o->n; i++) {
        if (strncmp(o->env[i], name, len) == 0 && o->env[i][len] == '=') {
            o->env[i] = pair;
            return 0;
        }
    }
    if (o->n + 1 >= o->size) {
        free(pair);
        return -1;
    }
    o->env[o->n++] = pair;
    o->env[o->n] = NULL;
    return 0;
}

static int overlay_number(struct overlay *o, const char *name, double value)
{
    char text[64];

    if (value < 0)
        return 0;
    snprintf(text, sizeof(text), "%.15g", value);
    return overlay_set(o, name, text);
}

/* Kept for ever once the client has read it; on failure a few strings are lost. */
static char **overlay_build(const struct dyad_params *params)
{
    struct overlay o = {0};

    while (environ && environ[o.n])
        o.n++;
    o.size = o.n + 16;
    if (!(o.env = calloc(o.size, sizeof(*o.env))))
        return NULL;
    for (size_t i = 0; i < o.n; i++) {
        if (!(o.env[i] = strdup(environ[i])))
            return NULL;
    }
    if (!params)
        return o.env;
    if (overlay_set(&o, "DYAD_PATH", params->path) < 0 ||
        overlay_set(&o, "DYAD_PATH_PRODUCER", params->path_producer) < 0 ||
        overlay_set(&o, "DYAD_PATH_CONSUMER", params->path_consumer) < 0 ||
        overlay_set(&o, "DYAD_KVS_NAMESPACE", params->kvs_namespace) < 0 ||
        overlay_number(&o, "DYAD_TIMEOUT", params->timeout) < 0 ||
        overlay_number(&o, "DYAD_KEY_DEPTH", params->key_depth) < 0 ||
        overlay_number(&o, "DYAD_KEY_BINS", params->key_bins) < 0 ||
        overlay_number(&o, "DYAD_REPLICAS", params->replicas) < 0)
        return NULL;
    return o.env;
}

static bool text_differs(const char *asked, const char *is)
{
    return asked && (!is || strcmp(asked, is) != 0);
}

static bool params_differ(const struct dyad_params *p, const struct engine_config *c)
{
    return p &&
           (text_differs(p->path, c->path_consumer) ||
            text_differs(p->path, c->path_producer) ||
            text_differs(p->path_producer, c->path_producer) ||
            text_differs(p->path_consumer, c->path_consumer) ||
            text_differs(p->kvs_namespace, c->kvs_namespace) ||
            (p->timeout >= 0 && (p->timeout > c->timeout || p->timeout < c->timeout)) ||
            (p->key_depth >= 0 && p->key_depth != c->key_depth) ||
            (p->key_bins >= 0 && p->key_bins != c->key_bins) ||
            (p->replicas >= 0 && p->replicas != c->replicas));
}

/* --- init and finalize --- */

/* In the child of a fork the threads that held locks, or were the member, do not exist. The
 * wrapper says so to the client, too, where there is one. */
static void atfork_child(void)
{
    pthread_mutex_init(&lock, NULL);
    member_is_ours = false;
    client_fork_child();
}

static void atfork_register(void)
{
    pthread_atfork(NULL, NULL, atfork_child);
}

static dyad_rc_t init_locked(const struct dyad_params *params)
{
    char **env;
    bool here;

    if (client_get()) {
        if (params_differ(params, &client_get()->config))
            return DYAD_E_INVALID;
    } else {
        if (!(env = overlay_build(params)))
            return DYAD_E_NO_MEMORY;
        if (client_setup(env, NULL, NULL) < 0)
            return errno == ENOENT ? DYAD_E_INVALID : rc_of(errno);
    }
    here = client_member_here();
    if (client_member_start(client_get()) < 0 || client_ping(client_get()) < 0)
        return DYAD_E_NO_SESSION;
    if (!here && client_member_here())
        member_is_ours = true;
    return DYAD_OK;
}

API dyad_rc_t dyad_init_params(const struct dyad_params *params)
{
    dyad_rc_t rc;

    if (params && params->size < sizeof(*params))
        return DYAD_E_INVALID;
    pthread_once(&atfork_once, atfork_register);
    pthread_mutex_lock(&lock);
    rc = init_locked(params);
    if (rc == DYAD_OK)
        inits++;
    pthread_mutex_unlock(&lock);
    return rc;
}

API dyad_rc_t dyad_init(void)
{
    return dyad_init_params(NULL);
}

API dyad_rc_t dyad_finalize(void)
{
    dyad_rc_t rc = DYAD_OK;

    pthread_mutex_lock(&lock);
    if (inits == 0)
        rc = DYAD_E_NOT_INIT;
    else if (--inits == 0 && member_is_ours) {
        client_member_leave(MEMBER_LEAVE_LINGER, false);
        member_is_ours = false;
    }
    pthread_mutex_unlock(&lock);
    return rc;
}

/* --- paths --- */

/* The upath of a path for one role, in buf[PATH_MAX], or NULL. */
static const char *upath_of(const struct client *client, enum engine_role role,
                            const char *path, char *buf)
{
    const struct client_dmd *s = &client->dmd[role];
    char full[2 * PATH_MAX], cwd[PATH_MAX];
    const char *below;
    bool dir;

    if (!s->path || !path || !*path)
        return NULL;
    if (path[0] == '/') {
        if (strlen(path) >= PATH_MAX)
            return NULL;
        strcpy(full, path);
    } else if (client->config.path_relative) {
        snprintf(full, sizeof(full), "%s/%s", s->path, path);
    } else if (getcwd(cwd, sizeof(cwd))) {
        snprintf(full, sizeof(full), "%s/%s", cwd, path);
    } else {
        return NULL;
    }
    if (util_path_normalise(full, buf, PATH_MAX, &dir) == 0 || dir)
        return NULL;
    if (!(below = client_below(s->path, buf)))
        below = client_below(s->real, buf);
    return below && !util_path_is_control(below) ? below : NULL;
}

static struct client *ready_front(void)
{
    unsigned n;

    pthread_mutex_lock(&lock);
    n = inits;
    pthread_mutex_unlock(&lock);
    return n > 0 ? client_get() : NULL;
}

/* --- verbs --- */

/* The file that is to be published, in name[2 * PATH_MAX] and *mode. */
static dyad_rc_t closed_file(const struct client *client, enum engine_role role,
                             const char *upath, char *name, mode_t *mode)
{
    const struct client_dmd *dmd = &client->dmd[role];
    struct store_mark_info info;
    struct statx stx;

    snprintf(name, 2 * PATH_MAX, "%s/%s", dmd->path, upath);
    if (statx(AT_FDCWD, name, AT_SYMLINK_NOFOLLOW,
              STATX_INO | STATX_BTIME | STATX_TYPE | STATX_MODE, &stx) < 0)
        return rc_of(errno);
    if (!S_ISREG(stx.stx_mode))
        return DYAD_E_INVALID;
    if (store_marks_dirty(
            dmd->marks, upath, stx.stx_ino,
            (uint64_t)stx.stx_btime.tv_sec * 1000000000ull + stx.stx_btime.tv_nsec,
            &info) &&
        info.state != STORE_MARK_ABANDONED)
        return DYAD_E_BUSY;
    *mode = stx.stx_mode & 07777;
    return DYAD_OK;
}

API dyad_rc_t dyad_produce(const char *path)
{
    struct client *client = ready_front();
    char buf[PATH_MAX], name[2 * PATH_MAX];
    const char *upath;
    mode_t mode;
    dyad_rc_t rc;

    if (!client)
        return DYAD_E_NOT_INIT;
    if (!path)
        return DYAD_E_INVALID;
    if (!(upath = upath_of(client, ENGINE_PRODUCER, path, buf)))
        return DYAD_E_NOT_MANAGED;
    if ((rc = closed_file(client, ENGINE_PRODUCER, upath, name, &mode)) != DYAD_OK)
        return rc;
    return client_produce(client, ENGINE_PRODUCER, upath, 0) == 0 ? DYAD_OK : rc_of(errno);
}

static dyad_rc_t consume(const char *path, bool use_config, double seconds)
{
    struct client *client = ready_front();
    char buf[PATH_MAX];
    const char *upath;
    bool wait = true;

    if (!client)
        return DYAD_E_NOT_INIT;
    if (!path)
        return DYAD_E_INVALID;
    if (!(upath = upath_of(client, ENGINE_CONSUMER, path, buf)))
        return DYAD_E_NOT_MANAGED;
    if (use_config)
        seconds = client->config.timeout > 0 ? client->config.timeout : -1;
    if (seconds >= 0 && seconds < 0.001)
        wait = false;
    if (seconds < 0 || seconds > TIMEOUT_MAX_S)
        seconds = 0;
    if (client_consume(client, upath, wait ? NET_LOOKUP_WAIT : 0,
                       (uint64_t)(seconds * 1000.0 + 0.5)) == 0)
        return DYAD_OK;
    return !wait && errno == ENOENT ? DYAD_E_AGAIN : rc_of(errno);
}

API dyad_rc_t dyad_consume(const char *path)
{
    return consume(path, true, 0);
}

API dyad_rc_t dyad_consume_timeout(const char *path, double seconds)
{
    return consume(path, false, seconds);
}

/* The newest version is brought here first, as for an open for writing, which waits for nobody. By system call: the
 * wrapper's chmod() would tell the member, too. */
API dyad_rc_t dyad_laminate(const char *path)
{
    struct client *client = ready_front();
    enum engine_role role = ENGINE_CONSUMER;
    char buf[PATH_MAX], name[2 * PATH_MAX];
    unsigned char msg[NET_MSG_HEADER_MAX];
    struct net_msg reply;
    const char *upath;
    bool published;
    mode_t mode;
    dyad_rc_t rc;

    if (!client)
        return DYAD_E_NOT_INIT;
    if (!path)
        return DYAD_E_INVALID;
    if (!(upath = upath_of(client, ENGINE_CONSUMER, path, buf)) &&
        !(upath = upath_of(client, role = ENGINE_PRODUCER, path, buf)))
        return DYAD_E_NOT_MANAGED;
    published = client_stat(client, upath, &reply, msg) == 0;
    if (published ? role == ENGINE_CONSUMER &&
                        client_consume_to_write(client, upath, false, NULL) < 0
                  : errno != ENOENT)
        return rc_of(errno);
    if ((rc = closed_file(client, role, upath, name, &mode)) == DYAD_E_NOT_FOUND &&
        role == ENGINE_CONSUMER &&
        (upath = upath_of(client, role = ENGINE_PRODUCER, path, buf)))
        rc = closed_file(client, role, upath, name, &mode);
    if (rc != DYAD_OK)
        return rc;
    if (syscall(SYS_fchmodat, AT_FDCWD, name, mode & ~0222u) < 0 ||
        (published ? client_changed(client, role, upath)
                   : client_produce(client, role, upath, 0)) < 0 ||
        client_stat(client, upath, &reply, msg) < 0)
        return rc_of(errno);
    /* A newer one is elsewhere, or is being written here by now. */
    return reply.entry.mode & 0222 ? DYAD_E_BUSY : DYAD_OK;
}

API dyad_rc_t dyad_prefetch(const char *path)
{
    struct client *client = ready_front();
    char buf[PATH_MAX];
    const char *upath;

    if (!client)
        return DYAD_E_NOT_INIT;
    if (!path)
        return DYAD_E_INVALID;
    if (!(upath = upath_of(client, ENGINE_CONSUMER, path, buf)))
        return DYAD_E_NOT_MANAGED;
    return client_prefetch(client, upath) == 0 ? DYAD_OK : rc_of(errno);
}

API dyad_rc_t dyad_lookup(const char *path, struct dyad_metadata *metadata)
{
    struct client *client = ready_front();
    unsigned char msg[NET_MSG_HEADER_MAX];
    char buf[PATH_MAX];
    struct net_msg reply;
    const char *upath;

    if (!client)
        return DYAD_E_NOT_INIT;
    if (!path || !metadata)
        return DYAD_E_INVALID;
    if (!(upath = upath_of(client, ENGINE_CONSUMER, path, buf)) &&
        !(upath = upath_of(client, ENGINE_PRODUCER, path, buf)))
        return DYAD_E_NOT_MANAGED;
    if (client_stat(client, upath, &reply, msg) < 0)
        return rc_of(errno);
    *metadata = (struct dyad_metadata){
        .size = reply.entry.size,
        .mode = reply.entry.mode & 07777,
        .mtime_sec = reply.entry.mtime_sec,
        .mtime_nsec = reply.entry.mtime_nsec,
        .owner_rank = reply.entry.owner,
        .version = reply.entry.version.counter,
    };
    return DYAD_OK;
}

API dyad_rc_t dyad_withdraw(const char *path)
{
    struct client *client = ready_front();
    char buf[PATH_MAX];
    const char *upath;

    if (!client)
        return DYAD_E_NOT_INIT;
    if (!path)
        return DYAD_E_INVALID;
    if (!(upath = upath_of(client, ENGINE_PRODUCER, path, buf)) &&
        !(upath = upath_of(client, ENGINE_CONSUMER, path, buf)))
        return DYAD_E_NOT_MANAGED;
    return client_withdraw(client, upath, NULL) == 0 ? DYAD_OK : rc_of(errno);
}
