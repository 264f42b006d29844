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

#include "boot/member_claim.h"
#include "boot/environ.h"
#include "client/client_impl.h"
#include "client/client_promoted.h"
#include "store/extents.h"
#include "store/looked.h"
#include "store/renames.h"
#include "util/env.h"
#include "util/log.h"

/* `lock` orders set-up between threads; `state` is written under it and `ready` is read
 * without it: released after everything else of `client` was written. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static enum { UNSET, READY, FAILED } state;
static int failure;
static struct client instance;
static struct client *ready;

const char *client_below(const char *dmd, const char *path)
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

static int partition_setup(struct client_dmd *dmd, const char *path, int shared)
{
    struct store_dir *dir;

    if (!path)
        return 0;
    if (!(dir = store_dir_create(path)))
        return -1;
    if (shared >= 0)
        store_dir_set_shared(dir, shared != 0);
    dmd->shared = store_dir_shared(dir);
    dmd->path = path;
    snprintf(dmd->real, sizeof(dmd->real), "%s", store_dir_real_path(dir));
    dmd->marks = store_marks_create(dir);
    if (!(dmd->extents = store_extents_create(dir, NULL)))
        log_debug("what is written below %s is not recorded: %m", path);
    /* The marks are mapped; no descriptor of ours stays in the program's table. */
    store_dir_destroy(dir);
    return dmd->marks ? 0 : -1;
}

static int storage_setup(struct client *client)
{
    const struct engine_config *config = &client->config;
    struct client_dmd *consumer = &client->dmd[ENGINE_CONSUMER];
    struct client_dmd *producer = &client->dmd[ENGINE_PRODUCER];

    if (!config->path_consumer && !config->path_producer) {
        log_error(
            "no managed directory: set DYAD_PATH, or DYAD_PATH_PRODUCER and "
            "DYAD_PATH_CONSUMER, to an absolute path");
        errno = ENOENT;
        return -1;
    }
    if (partition_setup(consumer, config->path_consumer, config->shared_storage) < 0)
        return -1;
    if (config->path_consumer && config->path_producer &&
        strcmp(config->path_consumer, config->path_producer) == 0) {
        *producer = *consumer;
        return 0;
    }
    return partition_setup(producer, config->path_producer, config->shared_storage);
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
static void session_name(struct client *client)
{
    const char *p = client->claim.sun_path + 1;
    const char *slash = strchr(p, '/');

    slash = slash ? strchr(slash + 1, '/') : NULL;
    if (slash)
        snprintf(client->session, sizeof(client->session), "%.*s",
                 (int)strcspn(slash + 1, "/"), slash + 1);
}

static int setup_locked(char *const env[], void (*thread_enter)(void),
                        void (*waits)(bool begins, bool may_cancel))
{
    char err[512];
    char tag[32];
    const char *bad = NULL;
    struct client *client = &instance;

    if (engine_config_read(&client->config, env, err, sizeof(err)) < 0) {
        log_error("%s; files are left to the local file system", err);
        errno = EINVAL;
        return -1;
    }
    if (boot_identity_read(&client->identity, env, &bad) < 0) {
        log_error(
            "the launcher's variable %s is malformed; files are left to the local file "
            "system",
            bad ? bad : "PMIX_RANK");
        errno = EINVAL;
        return -1;
    }
    if (client->identity.launched && !client->identity.solo) /* there all are rank 0 */
        snprintf(tag, sizeof(tag), "rank %u", client->identity.rank);
    util_log_setup((enum util_log_level)client->config.log_level, client->config.log_file,
                   client->identity.launched && !client->identity.solo ? tag : NULL);
    if (!client->identity.launched) {
        if (util_env_get(env, BOOT_SAID_ALONE))
            log_debug("no launcher and no session directory: files are not shared");
        else
            log_warn(
                "this process was not started by a PMIx launcher (mpirun, srun "
                "--mpi=pmix), and DYAD_SESSION_DIR, with which none is needed, is not "
                "set: files below %s stay on this node and are not shared",
                client->config.path_consumer   ? client->config.path_consumer
                : client->config.path_producer ? client->config.path_producer
                                               : "the managed directory");
        errno = ENOTCONN;
        return -1;
    }
    if (storage_setup(client) < 0)
        return -1;
    client->claim_len = boot_member_claim_address(
        &client->identity, client->config.kvs_namespace, &client->claim);
    session_name(client);
    client->renames = store_renames_session(
        client->config.session_dir ? client->config.session_dir : client->session);
    client->rank = store_looked_rank(&client->claim, client->claim_len);
    client->launch = launch_id(&client->identity, env);
    client->thread_enter = thread_enter;
    client->waits = waits;
    client->env = env;
    __atomic_store_n(&ready, client, __ATOMIC_RELEASE);
    return 0;
}

int client_setup(char *const env[], void (*thread_enter)(void),
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

struct client *client_get(void)
{
    return __atomic_load_n(&ready, __ATOMIC_ACQUIRE);
}

char *const *dyad_environment(void)
{
    const struct client *client = client_get();

    return client ? client->env : NULL;
}

/* --- the requests --- */

/* Send a request whose answer is only a status, on *connection if there is one (or NULL).
 */
static int request_status(struct client *client, const struct net_msg *request,
                          int *connection)
{
    unsigned char buf[NET_MSG_HEADER_MAX];
    struct net_msg reply;
    struct client_asking a = {.client = client,
                              .request = request,
                              .reply = &reply,
                              .buf = buf,
                              .size = sizeof(buf),
                              .connection = connection};

    return client_ask(&a);
}

int client_ping(struct client *client)
{
    struct net_msg request = {.type = NET_MSG_PING, .entry = {.upath = ""}};

    return request_status(client, &request, NULL);
}

/* `a` says how it is waited for; the rest is filled in here. */
static int ask_consume(struct client *client, const char *upath, uint8_t flags,
                       uint64_t timeout_ms, struct client_asking *a)
{
    unsigned char buf[NET_MSG_HEADER_MAX];
    struct net_msg request = {
        .type = NET_MSG_GUEST_CONSUME,
        .flags = flags,
        .entry = {.upath = upath},
        /* The blocked thread: the member needs it to find that all processes wait. */
        .thread = (int32_t)syscall(SYS_gettid),
        .timeout_ms = timeout_ms,
    };

    a->client = client;
    a->request = &request;
    a->buf = buf;
    a->size = sizeof(buf);
    return client_ask(a);
}

int client_consume_patient(struct client *client, const char *upath, uint8_t flags,
                           uint64_t timeout_ms, struct net_msg *reply,
                           struct client_patience *patience)
{
    struct client_asking a = {.reply = reply, .patience = patience};

    return ask_consume(client, upath, flags, timeout_ms, &a);
}

/* reply: may be NULL. */
static int consume(struct client *client, const char *upath, uint8_t flags,
                   uint64_t timeout_ms, bool interruptible, struct net_msg *reply)
{
    struct net_msg unasked;
    struct client_asking a = {.reply = reply ? reply : &unasked,
                              .interruptible = interruptible};
    int rc = ask_consume(client, upath, flags, timeout_ms, &a);

    if (rc == 0)
        client_promoted_count(client);
    return rc;
}

int client_consume(struct client *client, const char *upath, uint8_t wait,
                   uint64_t timeout_ms)
{
    return consume(client, upath, wait, timeout_ms, false, NULL);
}

int client_consume_to_open(struct client *client, const char *upath, uint8_t wait,
                           uint64_t timeout_ms)
{
    return consume(client, upath, wait, timeout_ms, wait != 0, NULL);
}

int client_prefetch(struct client *client, const char *upath)
{
    struct net_msg request = {
        .type = NET_MSG_GUEST_CONSUME,
        .flags = NET_CONSUME_PREFETCH,
        .entry = {.upath = upath},
    };

    return request_status(client, &request, NULL);
}

int client_consume_to_write(struct client *client, const char *upath, bool makes,
                            struct dyad_version *ahead)
{
    struct net_msg reply;
    int rc = consume(client, upath,
                     NET_CONSUME_WRITER | (makes ? NET_CONSUME_MAKES : 0) |
                         (ahead ? NET_CONSUME_ANY : 0),
                     0, false, &reply);

    if (rc < 0 && errno == EUCLEAN && ahead)
        *ahead = reply.entry.version;
    return rc;
}

int client_produce(struct client *client, enum engine_role role, const char *upath,
                   uint64_t mark)
{
    struct net_msg request = {
        .type = NET_MSG_GUEST_PRODUCE,
        .flags = (uint8_t)role,
        .entry = {.upath = upath},
        .mark = mark,
    };

    return request_status(client, &request, NULL);
}

int client_watch(struct client *client, enum engine_role role, const char *upath,
                 uint64_t mark, int fd)
{
    struct net_msg request = {
        .type = NET_MSG_GUEST_WATCH,
        .flags = (uint8_t)role,
        .entry = {.upath = upath},
        .mark = mark,
        .fd = fd,
    };

    return request_status(client, &request, NULL);
}

bool client_shared(const struct client *client, enum engine_role role)
{
    const struct client_dmd *s = &client->dmd[role];

    if (client->config.shared_storage >= 0)
        return client->config.shared_storage != 0;
    return s->shared || (s->marks && store_marks_shared(s->marks));
}

int client_writing(struct client *client, enum engine_role role, const char *upath,
                   uint64_t mark, uint8_t what)
{
    struct net_msg request = {
        .type = NET_MSG_GUEST_WRITING,
        .flags = (uint8_t)(what | (role == ENGINE_PRODUCER ? NET_WRITING_PRODUCER : 0)),
        .entry = {.upath = upath ? upath : ""},
        .mark = mark,
    };

    return request_status(client, &request, NULL);
}

int client_await_unwritten(struct client *client, const char *upath, uint64_t timeout_ms)
{
    return consume(client, upath, NET_LOOKUP_WAIT | NET_CONSUME_UNWRITTEN, timeout_ms, true,
                   NULL);
}

int client_stat(struct client *client, const char *upath, struct net_msg *reply, void *buf)
{
    struct net_msg request = {.type = NET_MSG_GUEST_STAT, .entry = {.upath = upath}};
    return client_request(client, &request, reply, buf);
}

int client_changed(struct client *client, enum engine_role role, const char *upath)
{
    struct net_msg request = {
        .type = NET_MSG_GUEST_CHANGED, .flags = (uint8_t)role, .entry = {.upath = upath}};

    return request_status(client, &request, NULL);
}

int client_bring(struct client *client, const char *upath, uint8_t what)
{
    struct net_msg request = {
        .type = NET_MSG_GUEST_BRING, .flags = what, .entry = {.upath = upath}};

    return request_status(client, &request, NULL);
}

int client_withdraw(struct client *client, const char *upath, int *connection)
{
    struct net_msg request = {.type = NET_MSG_GUEST_WITHDRAW, .entry = {.upath = upath}};

    return request_status(client, &request, connection);
}

int client_rename(struct client *client, const char *from, const char *to, int *connection)
{
    struct net_msg request = {
        .type = NET_MSG_GUEST_RENAME,
        .entry = {.upath = to},
        .blob = from,
        .blob_len = from ? strlen(from) + 1 : 0,
    };

    return request_status(client, &request, connection);
}

/* Locks that another thread of the parent may have held across the fork are new here. */
void client_lock_reset(void)
{
    pthread_mutex_init(&lock, NULL);
}
