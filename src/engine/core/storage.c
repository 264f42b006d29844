/*
 * storage.c - the DMDs of a member: directories, marks, journals
 */
#include "engine/core/member_impl.h"
#include "engine/core/module.h"
#include "engine/core/storage.h"
#include "engine/publish/shared_storage.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "boot/member_claim.h"
#include "boot/fdtable.h"
#include "store/extents.h"
#include "store/fetch.h"
#include "store/looked.h"
#include "store/renames.h"
#include "store/superseded.h"
#include "util/clock.h"
#include "util/log.h"

#define JOURNAL_AGAIN 5000000L /* ns, between two attempts to open it */

/* The journal's name: of this rank in this launch, or of this slot of the session. What it
 * has in common with those of others up to the last dot is of the same session. */
size_t storage_journal_name(const struct member *member, char *name, size_t size)
{
    unsigned n = 0;

    if (member->ring)
        snprintf(name, size, "session.%s.%u", member->ring_id, member->self.rank);
    else
        snprintf(name, size, "%s.%016llx.%u", member->session,
                 (unsigned long long)member->launch, member->identity->rank);
    for (char *p = name; *p; p++, n++) {
        if (!((*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') ||
              (*p >= '0' && *p <= '9') || *p == '.' || *p == '-' || *p == '_') ||
            n >= 200)
            *p = n >= 200 ? '\0' : '_';
    }
    return (size_t)(strrchr(name, '.') + 1 - name); /* one part is never cut off */
}

uint64_t storage_rank(const struct member *member)
{
    struct sockaddr_un address;
    socklen_t len = boot_member_claim_address(member->identity,
                                              member->config->kvs_namespace, &address);

    return store_looked_rank(&address, len);
}

/* Set the journal's label, for takeover.c: the claim and the node. */
static int label_set(const struct member *member, struct store_journal *journal)
{
    char claim[sizeof(((struct sockaddr_un *)0)->sun_path)];
    char label[sizeof(claim) + sizeof(member->identity->node) + 1];
    struct sockaddr_un address;
    socklen_t len = boot_member_claim_address(member->identity,
                                              member->config->kvs_namespace, &address);

    boot_member_claim_name(&address, len, claim);
    snprintf(label, sizeof(label), "%s %s", claim, member->identity->node);
    return store_journal_set_label(journal, label);
}

const char *storage_label_read(const char *label, struct sockaddr_un *address,
                               socklen_t *len)
{
    char claim[sizeof(address->sun_path)];
    const char *node = strchr(label, ' ');

    if (!node || (size_t)(node - label) >= sizeof(claim))
        return NULL;
    memcpy(claim, label, (size_t)(node - label));
    claim[node - label] = '\0';
    *len = boot_member_claim_named(claim, address);
    return *len ? node + 1 : NULL;
}

/* The claim is ours. If another process has the journal open it took us for dead
 * (takeover.c), and closes it when it has read it. Or it is this rank's member, in
 * another network namespace, which had no line in the table yet when the client looked
 * (client_member.c). No event covers both: one is the end of a lock, the other a word in
 * shared memory. */
static struct store_journal *journal_open(struct member *member, struct member_dmd *dmd,
                                          const char *path, uint32_t *incarnation)
{
    uint64_t until = util_clock_now() + seconds_ns(member->config->join_timeout);
    struct timespec again = {.tv_nsec = JOURNAL_AGAIN};
    struct store_journal *journal;
    char name[512];

    storage_journal_name(member, name, sizeof(name));
    while (!(journal = store_journal_create(dmd->dir, name, incarnation)) &&
           errno == EBUSY) {
        if (util_clock_now() < until &&
            !store_looked_elsewhere(dmd->marks, storage_rank(member))) {
            nanosleep(&again, NULL);
            continue;
        }
        log_error(
            "another process keeps this rank's record below %s/" STORE_CONTROL_DIR
            ": one that takes it over and is stopped, or the rank's member in another "
            "network namespace (unshare -n)",
            path);
        break;
    }
    return journal;
}

static int dmd_open(struct member *member, struct member_dmd *dmd, const char *path,
                    uint32_t *incarnation)
{
    if (!path)
        return 0;
    if (!(dmd->dir = store_dir_create(path)))
        return -1;
    if (member->config->shared_storage >= 0)
        store_dir_set_shared(dmd->dir, member->config->shared_storage != 0);
    if (!(dmd->marks = store_marks_create(dmd->dir)))
        return -1;
    dmd->extents = store_extents_create(dmd->dir, NULL);
    dmd->journal = journal_open(member, dmd, path, incarnation);
    /* A label that could not be written is as a record that could not be (journal_retry.c).
     */
    if (!dmd->journal || (label_set(member, dmd->journal) < 0 &&
                          (errno == ENOMEM || errno == ENAMETOOLONG))) {
        log_error("cannot open this rank's record below %s/" STORE_CONTROL_DIR ": %m",
                  path);
        return -1;
    }
    store_fetch_clean(dmd->dir, MEMBER_RESERVED_FOR);
    dmd->session = store_renames_session(
        member->config->session_dir ? member->config->session_dir : member->session);
    dmd->brings = dmd == &member->dmd[ENGINE_CONSUMER];
    store_superseded_clean(dmd->dir, dmd->session, false);
    return 0;
}

int storage_open(struct member *member)
{
    const struct engine_config *config = member->config;
    struct member_dmd *consumer = &member->dmd[ENGINE_CONSUMER];
    struct member_dmd *producer = &member->dmd[ENGINE_PRODUCER];
    uint32_t c = 0, p = 0;

    if (dmd_open(member, consumer, config->path_consumer, &c) < 0)
        return -1;
    if (config->path_consumer && config->path_producer &&
        strcmp(config->path_consumer, config->path_producer) == 0)
        *producer = *consumer;
    else if (dmd_open(member, producer, config->path_producer, &p) < 0)
        return -1;
    member->self.incarnation = c > p ? c : p;
    return 0;
}

/* `useless`: what the journal says is of no use to anybody any more. */
static void dmd_close(struct member_dmd *dmd, bool job_ended, bool useless)
{
    if (job_ended && dmd->dir)
        store_fetch_clean(dmd->dir, 0);
    if (useless && dmd->dir)
        store_superseded_clean(dmd->dir, dmd->session, true);
    if (!useless)
        store_journal_destroy(dmd->journal);
    else if (dmd->journal && store_journal_remove(dmd->journal) < 0)
        log_warn("this rank's record below %s cannot be removed: %m",
                 store_dir_path(dmd->dir));
    store_extents_destroy(dmd->extents);
    store_marks_destroy(dmd->marks);
    store_dir_destroy(dmd->dir);
    *dmd = (struct member_dmd){0};
}

void storage_close(struct member *member)
{
    if (member->dmd[0].dir == member->dmd[1].dir)
        member->dmd[1] = (struct member_dmd){0};
    /* The journals are of use after the launch only in a session directory, or to a rank
     * of this node that was passed over: that takes this rank's files over. */
    bool useless =
        member->job_ended && !member->passed_over && !member->config->session_dir;
    dmd_close(&member->dmd[0], member->job_ended, useless);
    dmd_close(&member->dmd[1], member->job_ended, useless);
}

void storage_describe(struct member *member)
{
    const struct engine_config *config = member->config;
    struct net_peer *self = &member->self;

    self->launch_rank = member->identity->rank;
    self->serves = member->identity->serves;
    if (!member->ring)
        self->rank = member->identity->rank;
    self->pid = getpid();
    self->depth = (uint32_t)config->key_depth;
    self->bins = (uint32_t)config->key_bins;
    self->replicas = (uint32_t)config->replicas;
    snprintf(self->node, sizeof(self->node), "%.*s", NET_PEER_NODE_MAX,
             member->identity->node);
    if (member->dmd[ENGINE_CONSUMER].dir) {
        snprintf(self->dmd_consumer, sizeof(self->dmd_consumer), "%s",
                 config->path_consumer);
        memcpy(self->storage_consumer, store_dir_id(member->dmd[ENGINE_CONSUMER].dir),
               DYAD_STORAGE_ID_LEN);
    }
    if (member->dmd[ENGINE_PRODUCER].dir) {
        snprintf(self->dmd_producer, sizeof(self->dmd_producer), "%s",
                 config->path_producer);
        memcpy(self->storage_producer, store_dir_id(member->dmd[ENGINE_PRODUCER].dir),
               DYAD_STORAGE_ID_LEN);
    }
}

static bool is_managed(const char *dmd, const char *path)
{
    char real[PATH_MAX];
    size_t n;

    if (!dmd || !realpath(dmd, real))
        return false;
    n = strlen(real);
    return strncmp(path, real, n) == 0 && path[n] == '/';
}

/* Standard output and error are the program's, in our table too: for UCX and for log lines.
 * If one is a file below a DMD, our copy would keep its description from ever being closed.
 */
void storage_drop_stdio(const struct member *member)
{
    char link[32], path[PATH_MAX];
    struct stat st;

    for (int fd = STDOUT_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
            continue;
        /* thread-self: ours is not the table that /proc/self shows */
        snprintf(link, sizeof(link), "/proc/thread-self/fd/%d", fd);
        ssize_t n = readlink(link, path, sizeof(path) - 1);
        path[n > 0 ? n : 0] = '\0';
        if (n > 0 && !is_managed(member->config->path_consumer, path) &&
            !is_managed(member->config->path_producer, path))
            continue;
        boot_fdtable_drop(fd);
    }
}

/* All members of the node see which rank has looked at what was left there. */
static void storage_joined(struct member *member)
{
    struct store_marks *marks = member->dmd[ENGINE_CONSUMER].marks;
    char session[512];

    if (!marks)
        return;
    session[storage_journal_name(member, session, sizeof(session)) - 1] = '\0';
    member->line = store_looked_begin(marks, storage_rank(member), session);
}

/* From then on the rank's processes ask the next member. */
static void storage_void_promises(struct member *member)
{
    if (member->line >= 0)
        store_looked_end(member->dmd[ENGINE_CONSUMER].marks, member->line);
    member->line = -1;
}

const struct member_module storage_module = {
    .joined = storage_joined,
    .void_promises = storage_void_promises,
};
