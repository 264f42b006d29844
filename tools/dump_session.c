/*
 * dump_session.c - finding the sessions on this node, and choosing one
 *
 * A member's socket shows its user and a hash, whose first half is of the launch and
 * whose second is of the node (boot/member_claim.h); that alone says which are of one
 * job. Names that people know - of the job, the session directory, the managed
 * directories - are in the environments of the processes that listen, if they have not
 * written over them. In a session directory each process that no launcher started, and
 * each launch, has a hash of its own; they are one session all the same, and any of them
 * can be asked.
 *
 * If there are several, --session chooses, or, without it, the path of --key,
 * DYAD_SESSION_DIR or DYAD_PATH. If there is one it is taken in any case.
 */
#include "dump_session.h"

#include <inttypes.h>
#include <limits.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "boot/member_claim.h"
#include "config/config.h"
#include "util/clock.h"

void dump_die(const char *fmt, ...)
{
    va_list ap;

    fputs("dyad-dht-dump: ", stderr);
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fputc('\n', stderr);
    exit(DUMP_EXIT_FAILED);
}

static char **read_environment(pid_t pid)
{
    char path[64], *entry = NULL;
    char **env = NULL, **grown;
    size_t n = 0, size = 0;

    snprintf(path, sizeof(path), "/proc/%d/environ", (int)pid);
    FILE *in = fopen(path, "re");
    if (!in)
        return NULL;
    while (getdelim(&entry, &size, '\0', in) > 0) {
        if (!(grown = realloc(env, (n + 2) * sizeof(*env))))
            dump_die("out of memory");
        env = grown;
        env[n++] = entry;
        env[n] = NULL;
        entry = NULL;
        size = 0;
    }
    free(entry);
    fclose(in);
    return env;
}

static void free_environment(char **env)
{
    for (char **p = env; p && *p; p++)
        free(*p);
    free(env);
}

static const char *find_variable(char **env, const char *name)
{
    size_t len = strlen(name);

    for (; env && *env; env++)
        if (strncmp(*env, name, len) == 0 && (*env)[len] == '=')
            return *env + len + 1;
    return NULL;
}

static void read_comm(pid_t pid, char *comm, size_t size)
{
    char path[64];

    snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
    FILE *in = fopen(path, "re");
    if (!in)
        return;
    if (fgets(comm, (int)size, in))
        comm[strcspn(comm, "\n")] = '\0';
    fclose(in);
}

/* How much of a hash is of the launch; all of what is no such hash. */
static size_t launch_len(const char *session)
{
    size_t len = strlen(session);

    return len == 2 * BOOT_CLAIM_LAUNCH_LEN ? BOOT_CLAIM_LAUNCH_LEN : len;
}

static char *copy_of(const char *text)
{
    char *copy = strdup(text);

    if (!copy)
        dump_die("out of memory");
    return copy;
}

/* Two names of one directory are one text, also of one with a session's name behind it. */
static char *session_directory(const struct engine_config *config)
{
    char real[PATH_MAX], *text;

    if (!config->session_dir)
        return NULL;
    if (asprintf(&text, "%s%s%s",
                 realpath(config->session_dir, real) ? real : config->session_dir,
                 config->kvs_namespace ? "/" : "",
                 config->kvs_namespace ? config->kvs_namespace : "") < 0)
        dump_die("out of memory");
    return text;
}

static void add_managed(struct dump_session *session, const char *dir)
{
    char **grown;

    for (size_t i = 0; dir && i < session->nmanaged; i++)
        if (strcmp(session->managed[i], dir) == 0)
            return;
    if (!dir)
        return;
    grown = realloc(session->managed, (session->nmanaged + 1) * sizeof(*grown));
    if (!grown)
        dump_die("out of memory");
    session->managed = grown;
    session->managed[session->nmanaged++] = copy_of(dir);
}

void dump_session_free(struct dump_session *sessions, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < sessions[i].nmanaged; j++)
            free(sessions[i].managed[j]);
        free(sessions[i].managed);
        free(sessions[i].dir);
    }
    free(sessions);
}

/* What the environment of one of its processes tells. */
static void identify_by(struct dump_session *session, char **env)
{
    const char *job = find_variable(env, "PMIX_NAMESPACE");
    const char *name = find_variable(env, "DYAD_KVS_NAMESPACE");
    struct engine_config config;
    char err[256];

    if (job && !session->job[0])
        snprintf(session->job, sizeof(session->job), "%.250s%s%.250s", job,
                 name && *name ? "/" : "", name ? name : "");
    if (engine_config_read(&config, env, err, sizeof(err)) < 0)
        return;
    if (!session->dir)
        session->dir = session_directory(&config);
    add_managed(session, config.path_producer);
    add_managed(session, config.path_consumer);
}

static void identify(struct dump_session *session)
{
    snprintf(session->name, sizeof(session->name), "%s", session->members->session);
    if (strcmp(session->name, session->members[session->n - 1].session) != 0)
        session->name[launch_len(session->name)] = '\0';
    for (size_t i = 0; i < session->n; i++) {
        pid_t pid = 0;
        int fd = dump_client_connect(&session->members[i], UTIL_NSEC_PER_SEC, &pid);
        if (fd < 0)
            continue;
        close(fd);
        if (!session->pid) {
            session->pid = pid;
            read_comm(pid, session->comm, sizeof(session->comm));
        }
        char **env = read_environment(pid);
        if (env)
            identify_by(session, env);
        free_environment(env);
    }
    if (!session->job[0])
        snprintf(session->job, sizeof(session->job), "%s", session->name);
}

void dump_session_print(FILE *out, const struct dump_session *session)
{
    fprintf(out, "  %s  rank%s ", session->name, session->n > 1 ? "s" : "");
    for (size_t i = 0; i < session->n; i++) {
        if (i == 8) {
            fprintf(out, ",... (%zu)", session->n);
            break;
        }
        fprintf(out, "%s%" PRIu32, i ? "," : "", session->members[i].rank);
    }
    fprintf(out, " here, job %s", session->job);
    if (session->pid)
        fprintf(out, ", process %d (%s)", (int)session->pid, session->comm);
    if (session->dir)
        fprintf(out, ", session directory %s", session->dir);
    for (size_t i = 0; i < session->nmanaged; i++)
        fprintf(out, "%s%s", i ? " and " : ", managed ", session->managed[i]);
    fputc('\n', out);
}

void dump_session_none(const struct dump_member *members, size_t n)
{
    fprintf(stderr, "dyad-dht-dump: no session of yours (uid %u) on this node\n",
            (unsigned)geteuid());
    for (size_t i = 0; i < n; i++) {
        if (i && members[i].uid == members[i - 1].uid)
            continue;
        const struct passwd *user = getpwuid(members[i].uid);
        fprintf(stderr,
                "  user %s (uid %u) has one: no permission, only that user and root may "
                "look\n",
                user ? user->pw_name : "?", (unsigned)members[i].uid);
    }
    fprintf(stderr,
            "Run it on a node of the job, while the job runs, in the same network "
            "name space (container).\n");
    exit(DUMP_EXIT_FAILED);
}

static bool is_same_launch(const struct dump_member *a, const struct dump_member *b)
{
    size_t len = launch_len(a->session);

    return a->uid == b->uid && len == launch_len(b->session) &&
           strncmp(a->session, b->session, len) == 0;
}

size_t dump_session_group(const struct dump_member *members, size_t n,
                          struct dump_session **sessions)
{
    struct dump_session *list = calloc(n ? n : 1, sizeof(*list));
    size_t nsessions = 0;

    if (!list)
        dump_die("out of memory");
    for (size_t i = 0; i < n; i++) {
        if (geteuid() != 0 && members[i].uid != geteuid())
            continue;
        if (nsessions && is_same_launch(&members[i], list[nsessions - 1].members)) {
            list[nsessions - 1].n++;
            continue;
        }
        list[nsessions].members = &members[i];
        list[nsessions].n = 1;
        nsessions++;
    }
    for (size_t i = 0; i < nsessions; i++)
        identify(&list[i]);
    *sessions = list;
    return nsessions;
}

static const char *below(const char *path, const char *dir)
{
    size_t len = dir ? strlen(dir) : 0;

    while (len && dir[len - 1] == '/')
        len--;
    return len && strncmp(path, dir, len) == 0 && (path[len] == '/' || !path[len])
               ? path + len
               : NULL;
}

const char *dump_session_below(const char *path, const char *dir)
{
    const char *rest = below(path, dir);
    char real[PATH_MAX];

    return rest || !dir || !realpath(dir, real) ? rest : below(path, real);
}

/* One table: one session directory, or one job. */
static bool is_same_session(const struct dump_session *a, const struct dump_session *b)
{
    if (a->dir || b->dir)
        return a->dir && b->dir && strcmp(a->dir, b->dir) == 0;
    return strcmp(a->job, b->job) == 0;
}

/* --session: the hash or its beginning, the job, or the session directory. */
static bool is_named(const struct dump_session *session, const char *text)
{
    size_t len = strlen(text);
    char real[PATH_MAX];

    if (session->dir && text[0] == '/') {
        const char *dir = realpath(text, real) ? real : text;
        return below(session->dir, dir) != NULL;
    }
    return strcmp(session->job, text) == 0 ||
           strncmp(session->members->session, text, len) == 0;
}

static bool is_several(const struct dump_session *sessions, size_t n)
{
    const struct dump_session *first = NULL;

    for (size_t i = 0; i < n; i++) {
        if (!sessions[i].chosen)
            continue;
        if (first && !is_same_session(first, &sessions[i]))
            return true;
        if (!first)
            first = &sessions[i];
    }
    return false;
}

static bool has_directory(const struct dump_session *session, const void *arg)
{
    return session->dir && strcmp(session->dir, arg) == 0;
}

static bool manages_key(const struct dump_session *session, const void *key)
{
    for (size_t i = 0; i < session->nmanaged; i++)
        if (dump_session_below(key, session->managed[i]))
            return true;
    return false;
}

static bool manages(const struct dump_session *session, const void *dir)
{
    for (size_t i = 0; i < session->nmanaged; i++)
        if (strcmp(session->managed[i], dir) == 0)
            return true;
    return false;
}

/* Of those that are chosen, only those that `fits` says yes of, if there is one. */
static void narrow(struct dump_session *sessions, size_t n,
                   bool (*fits)(const struct dump_session *session, const void *arg),
                   const char *arg)
{
    bool any = false;

    if (!arg || !is_several(sessions, n))
        return;
    for (size_t i = 0; i < n; i++)
        any = any || (sessions[i].chosen && fits(&sessions[i], arg));
    for (size_t i = 0; any && i < n; i++)
        sessions[i].chosen = sessions[i].chosen && fits(&sessions[i], arg);
}

/* What our own environment says, and the path of --key, may tell which is meant. */
static void narrow_by_surroundings(struct dump_session *sessions, size_t n, const char *key)
{
    extern char **environ;
    struct engine_config config;
    char err[256], *dir;

    narrow(sessions, n, manages_key, key && key[0] == '/' ? key : NULL);
    if (engine_config_read(&config, environ, err, sizeof(err)) < 0)
        return;
    dir = session_directory(&config);
    narrow(sessions, n, has_directory, dir);
    free(dir);
    narrow(sessions, n, manages, config.path_producer);
    narrow(sessions, n, manages, config.path_consumer);
}

void dump_session_choose(struct dump_session *sessions, size_t n, const char *name,
                         const char *key)
{
    bool any = false;

    for (size_t i = 0; i < n; i++) {
        sessions[i].chosen = !name || is_named(&sessions[i], name);
        any = any || sessions[i].chosen;
    }
    if (!name)
        narrow_by_surroundings(sessions, n, key);
    if (any && !is_several(sessions, n))
        return;
    if (!any)
        fprintf(stderr, "dyad-dht-dump: no session %s here; there are:\n", name);
    else
        fprintf(stderr, "dyad-dht-dump: several sessions; choose with --session HASH:\n");
    for (size_t i = 0; i < n; i++)
        if (!any || sessions[i].chosen)
            dump_session_print(stderr, &sessions[i]);
    exit(DUMP_EXIT_FAILED);
}
