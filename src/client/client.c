/*
 * client.c - set-up, and the requests that every process can make (client_ask.c: how)
 */
#include "client/client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "boot/claim.h"
#include "boot/environ.h"
#include "client/client_impl.h"
#include "client/client_promoted.h"
#include "store/looked.h"
#include "store/renames.h"
#include "util/env.h"
#include "util/log.h"

/* `lock` orders set-up between threads; `state` is written under it and `ready` is read
 * without it: released after everything else of `front` was written. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static enum { UNSET, READY, FAILED } state;
static int failure;
static struct front instance;
static struct front *ready;

const char *front_below(const char *dmd, const char *path)
{
    size_t n = dmd ? strlen(dmd) : 0;

    while (n > 1 && dmd[n - 1] == '/')
        n--;
    if (n == 0 || strncmp(path, dmd, n) != 0)
        return NULL;
    if (n > 1 && path[n] != '/')
        return NULL;
    path += n;
    while (*path == '/')
        path++;
    return *path ? path : NULL;
}

static int side_setup(struct front_side *side, const char *path, int shared)
{
    struct store_dir *dir;

    if (!path)
        return 0;
    if (!(dir = store_dir_create(path)))
        return -1;
    if (shared >= 0)
        store_dir_set_shared(dir, shared != 0);
    side->shared = store_dir_shared(dir);
    side->path = path;
    snprintf(side->real, sizeof(side->real), "%s", store_dir_real_path(dir));
    side->marks = store_marks_create(dir);
    /* The marks are mapped; no descriptor of ours stays in the program's table. */
    store_dir_destroy(dir);
    return side->marks ? 0 : -1;
}

static int sides_setup(struct front *front)
{
    const struct engine_config *config = &front->config;
    struct front_side *consumer = &front->side[ENGINE_CONSUMER];
    struct front_side *producer = &front->side[ENGINE_PRODUCER];

    if (!config->path_consumer && !config->path_producer) {
        log_error(
            "no managed directory: set DYAD_PATH, or DYAD_PATH_PRODUCER and "
            "DYAD_PATH_CONSUMER, to an absolute path");
        errno = ENOENT;
        return -1;
    }
    if (side_setup(consumer, config->path_consumer, config->shared_storage) < 0)
        return -1;
    if (config->path_consumer && config->path_producer &&
        strcmp(config->path_consumer, config->path_producer) == 0) {
        *producer = *consumer;
        return 0;
    }
    return side_setup(producer, config->path_producer, config->shared_storage);
}

/* A job's name can come again (mpirun makes it of its pid), so what the launcher's server
 * is called, which holds its port, is hashed with it. */
static uint64_t launch_id(const struct boot_identity *identity, char *const env[])
{
    static const char server[] = "PMIX_SERVER_URI";
    uint64_t hash = XXH3_64bits(identity->nspace, strlen(identity->nspace));

    for (; *env; env++) {
        if (strncmp(*env, server, sizeof(server) - 1) == 0)
            hash ^= XXH3_64bits(*env, strlen(*env)); /* in whatever order they stand */
    }
    return hash;
}

/* The claim's name is "dyad/<uid>/<session>/<rank>" behind a NUL. */
static void session_name(struct front *front)
{
    const char *p = front->claim.sun_path + 1;
    const char *slash = strchr(p, '/');

    slash = slash ? strchr(slash + 1, '/') : NULL;
    if (slash)
        snprintf(front->session, sizeof(front->session), "%.*s",
                 (int)strcspn(slash + 1, "/"), slash + 1);
}

static int setup_locked(char *const env[], void (*thread_enter)(void),
                        void (*waits)(bool begins, bool may_cancel))
{
    char err[512];
    char tag[32];
    const char *bad = NULL;
    struct front *front = &instance;

    if (engine_config_read(&front->config, env, err, sizeof(err)) < 0) {
        log_error("%s; files are left to the local file system", err);
        errno = EINVAL;
        return -1;
    }
    if (boot_identity_read(&front->identity, env, &bad) < 0) {
        log_error(
            "the launcher's variable %s is malformed; files are left to the local file "
            "system",
            bad ? bad : "PMIX_RANK");
        errno = EINVAL;
        return -1;
    }
    if (front->identity.launched && !front->identity.solo) /* there all are rank 0 */
        snprintf(tag, sizeof(tag), "rank %u", front->identity.rank);
    util_log_setup((enum util_log_level)front->config.log_level, front->config.log_file,
                   front->identity.launched && !front->identity.solo ? tag : NULL);
    if (!front->identity.launched) {
        if (util_env_get(env, BOOT_SAID_ALONE))
            log_debug("no launcher and no session directory: files are not shared");
        else
            log_warn(
                "this process was not started by a PMIx launcher (mpirun, srun "
                "--mpi=pmix), and DYAD_SESSION_DIR, with which none is needed, is not "
                "set: files below %s stay on this node and are not shared",
                front->config.path_consumer   ? front->config.path_consumer
                : front->config.path_producer ? front->config.path_producer
                                              : "the managed directory");
        errno = ENOTCONN;
        return -1;
    }
    if (sides_setup(front) < 0)
        return -1;
    front->claim_len =
        boot_claim_address(&front->identity, front->config.kvs_namespace, &front->claim);
    session_name(front);
    front->renames = store_renames_session(
        front->config.session_dir ? front->config.session_dir : front->session);
    front->rank = store_looked_rank(&front->claim, front->claim_len);
    front->launch = launch_id(&front->identity, env);
    front->thread_enter = thread_enter;
    front->waits = waits;
    front->env = env;
    __atomic_store_n(&ready, front, __ATOMIC_RELEASE);
    return 0;
}

int front_setup(char *const env[], void (*thread_enter)(void),
                void (*waits)(bool begins, bool may_cancel))
{
    int rc;

    if (__atomic_load_n(&ready, __ATOMIC_ACQUIRE))
        return 0;
    pthread_mutex_lock(&lock);
    if (state == UNSET) {
        if (setup_locked(env, thread_enter, waits) < 0) {
            failure = errno;
            state = FAILED;
        } else {
            state = READY;
        }
    }
    rc = state == READY ? 0 : -1;
    pthread_mutex_unlock(&lock);
    if (rc < 0)
        errno = failure;
    return rc;
}

struct front *front_get(void)
{
    return __atomic_load_n(&ready, __ATOMIC_ACQUIRE);
}

char *const *dyad_environment(void)
{
    const struct front *front = front_get();

    return front ? front->env : NULL;
}

/* --- the requests --- */

/* A request of whose answer the status is all; it may have a connection already (or NULL).
 */
static int request_status(struct front *front, const struct net_msg *request,
                          int *connection)
{
    unsigned char buf[NET_MSG_HEADER_MAX];
    struct net_msg reply;
    struct front_asking a = {.front = front,
                             .request = request,
                             .reply = &reply,
                             .buf = buf,
                             .size = sizeof(buf),
                             .connection = connection};

    return front_ask(&a);
}

int front_ping(struct front *front)
{
    struct net_msg request = {.type = NET_MSG_PING, .entry = {.upath = ""}};

    return request_status(front, &request, NULL);
}

/* `a` says how it is waited for; the rest is filled in here. */
static int ask_consume(struct front *front, const char *upath, uint8_t flags,
                       uint64_t timeout_ms, struct front_asking *a)
{
    unsigned char buf[NET_MSG_HEADER_MAX];
    struct net_msg request = {
        .type = NET_MSG_GUEST_CONSUME,
        .flags = flags,
        .entry = {.upath = upath},
        /* Who is blocked: the member must know when nobody is left who could produce. */
        .offset = (uint64_t)syscall(SYS_gettid),
        .length = timeout_ms,
    };

    a->front = front;
    a->request = &request;
    a->buf = buf;
    a->size = sizeof(buf);
    return front_ask(a);
}

int front_consume_patient(struct front *front, const char *upath, uint8_t flags,
                          uint64_t timeout_ms, struct net_msg *reply,
                          struct front_patience *patience)
{
    struct front_asking a = {.reply = reply, .patience = patience};

    return ask_consume(front, upath, flags, timeout_ms, &a);
}

static int consume(struct front *front, const char *upath, uint8_t flags,
                   uint64_t timeout_ms, bool interruptible)
{
    struct net_msg reply;
    struct front_asking a = {.reply = &reply, .interruptible = interruptible};
    int rc = ask_consume(front, upath, flags, timeout_ms, &a);

    if (rc == 0)
        front_peer_count(front);
    return rc;
}

int front_consume(struct front *front, const char *upath, uint8_t wait, uint64_t timeout_ms)
{
    return consume(front, upath, wait, timeout_ms, false);
}

int front_consume_to_open(struct front *front, const char *upath, uint8_t wait,
                          uint64_t timeout_ms)
{
    return consume(front, upath, wait, timeout_ms, wait != 0);
}

int front_consume_to_write(struct front *front, const char *upath)
{
    return consume(front, upath, NET_CONSUME_WRITER, 0, false);
}

int front_produce(struct front *front, enum engine_side side, const char *upath,
                  uint64_t mark)
{
    struct net_msg request = {
        .type = NET_MSG_GUEST_PRODUCE,
        .flags = (uint8_t)side,
        .entry = {.upath = upath},
        .length = mark,
    };

    return request_status(front, &request, NULL);
}

int front_watch(struct front *front, enum engine_side side, const char *upath,
                uint64_t mark, int fd)
{
    struct net_msg request = {
        .type = NET_MSG_GUEST_WATCH,
        .flags = (uint8_t)side,
        .entry = {.upath = upath},
        .offset = (uint64_t)(uint32_t)fd,
        .length = mark,
    };

    return request_status(front, &request, NULL);
}

bool front_shared(const struct front *front, enum engine_side side)
{
    const struct front_side *s = &front->side[side];

    if (front->config.shared_storage >= 0)
        return front->config.shared_storage != 0;
    return s->shared || (s->marks && store_marks_shared(s->marks));
}

int front_writing(struct front *front, enum engine_side side, const char *upath,
                  uint64_t mark, uint8_t what)
{
    struct net_msg request = {
        .type = NET_MSG_GUEST_WRITING,
        .flags = (uint8_t)(what | (side == ENGINE_PRODUCER ? NET_WRITING_PRODUCER : 0)),
        .entry = {.upath = upath ? upath : ""},
        .length = mark,
    };

    return request_status(front, &request, NULL);
}

int front_settle(struct front *front, const char *upath, uint64_t timeout_ms)
{
    return consume(front, upath, NET_LOOKUP_WAIT | NET_CONSUME_SETTLE, timeout_ms, true);
}

int front_stat(struct front *front, const char *upath, struct net_msg *reply, void *buf)
{
    struct net_msg request = {.type = NET_MSG_GUEST_STAT, .entry = {.upath = upath}};
    return front_request(front, &request, reply, buf);
}

int front_changed(struct front *front, enum engine_side side, const char *upath)
{
    struct net_msg request = {
        .type = NET_MSG_GUEST_CHANGED, .flags = (uint8_t)side, .entry = {.upath = upath}};

    return request_status(front, &request, NULL);
}

int front_bring(struct front *front, const char *upath, uint8_t what)
{
    struct net_msg request = {
        .type = NET_MSG_GUEST_BRING, .flags = what, .entry = {.upath = upath}};

    return request_status(front, &request, NULL);
}

int front_withdraw(struct front *front, const char *upath, int *connection)
{
    struct net_msg request = {.type = NET_MSG_GUEST_WITHDRAW, .entry = {.upath = upath}};

    return request_status(front, &request, connection);
}

int front_rename(struct front *front, const char *from, const char *to, int *connection)
{
    struct net_msg request = {
        .type = NET_MSG_GUEST_RENAME,
        .entry = {.upath = to},
        .blob = from,
        .blob_len = from ? strlen(from) + 1 : 0,
    };

    return request_status(front, &request, connection);
}

/* Locks that another thread of the parent may have held across the fork are new here. */
void front_lock_reset(void)
{
    pthread_mutex_init(&lock, NULL);
}
