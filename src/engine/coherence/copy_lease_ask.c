/*
 * copy_lease_ask.c - opens of complete files, while a lease is over
 *
 * A process of the rank has found that leases of this node do not cover the file that it
 * opens (client_look.c). If we have a record of the file it decides: an original may be
 * read, a copy is covered by our lease or its homes are asked for a newer version
 * (looks_up()). If not, another member of this node may have fetched the file: it is
 * asked to renew its lease (tell()), or else its journal is read (reads()). If there is a
 * newer version the copy is removed, and the open goes on to fetch that.
 *
 * What could go wrong: a home, or a neighbour, does not answer. The open waits
 * (lease_wait()), and then fails with EHOSTUNREACH; sooner if it is known already that
 * the homes cannot be reached. Without memory to ask it fails, too.
 */
#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <utlist.h>

#include "boot/member_claim.h"
#include "engine/coherence/copy_lease.h"
#include "engine/coherence/copy_lease_impl.h"
#include "engine/coherence/invalidate.h"
#include "engine/core/local_file.h"
#include "engine/core/module.h"
#include "engine/core/storage.h"
#include "engine/coherence/invalidate_by_node.h"
#include "engine/publish/node_files.h"
#include "engine/publish/produce.h"
#include "store/lease_table.h"
#include "store/looked.h"
#include "util/log.h"

/* How long a neighbour may take to renew its lease, and how often that is looked at. */
#define NEIGHBOURS (30 * UTIL_NSEC_PER_MSEC)
#define AGAIN      (3 * UTIL_NSEC_PER_MSEC)

/* Sends PINGs to the neighbours, on a pool thread. Outlives its wait if that is
 * cancelled. */
struct lease_job {
    struct lease_job *prev, *next; /* utlist */
    struct engine_io io;
    struct member *member;
    struct lease_wait *wait; /* NULL: nobody's any more */
    const struct member_dmd *dmd;
    struct store_marks *marks;
    char name[512]; /* of our journal; what begins with as much of it is our session's */
    size_t prefix_len;
};

/* So does this, which node_files.c has: their journals are read. */
struct lease_read {
    struct node_file file;
    struct lease_wait *wait; /* NULL: nobody's any more */
    bool found;
    struct dyad_version version;
    uint32_t whose;
    char upath[];
};

static void go_on(struct lease_wait *wait);

static void set_timer(struct member *member)
{
    struct lease *lease = OWN(member, lease);
    uint64_t now = util_clock_now(), when = UINT64_MAX;
    struct lease_wait *wait;

    DL_FOREACH(lease->waits, wait)
    {
        if (wait->until < when)
            when = wait->until;
        if ((wait->asks == LEASE_NEIGHBOURS || wait->asks == LEASE_REMOVES) &&
            now + AGAIN < when)
            when = now + AGAIN;
    }
    if (when != UINT64_MAX)
        net_timer_start(lease->ask_timer, when);
    else
        net_timer_stop(lease->ask_timer);
}

static void end(struct lease_wait *wait, int error)
{
    struct member *member = wait->member;

    DL_DELETE(OWN(member, lease)->waits, wait);
    if (wait->lookup)
        dht_node_cancel(member->dht, wait->lookup);
    if (wait->job)
        wait->job->wait = NULL;
    if (wait->read)
        wait->read->wait = NULL;
    if (error == EHOSTUNREACH)
        log_warn(
            "whether the copy of \"%s\" on this node is up to date nobody can say: its "
            "homes cannot be reached, or may not know",
            wait->upath);
    wait->fn(wait->arg, error);
    set_timer(member);
}

/* --- its homes are asked --- */

static void looks_up(struct lease_wait *wait);

static void looked_up(void *arg, int status, const struct dyad_entry *entry)
{
    struct lease_wait *wait = arg;
    struct member *member = wait->member;
    uint64_t now = util_clock_now();

    wait->lookup = NULL;
    if (status == EHOSTUNREACH) {
        /* Said at once: that is known. Else it may be soon. */
        if (now - wait->asked_at < seconds_ns(member->config->peer_timeout) / 10 ||
            now >= wait->until)
            end(wait, EHOSTUNREACH);
        else
            looks_up(wait);
        return;
    }
    if (!entry || dyad_version_cmp(&entry->version, &wait->version) <= 0) {
        end(wait, 0);
        return;
    }
    log_info("the copy of \"%s\" is out of date", wait->upath);
    wait->asks = LEASE_REMOVES;
    if (wait->rank == member->self.rank)
        produce_invalidate(member, entry, 0);
    else
        invalidate_by_node(member, entry, wait->rank, 0);
    set_timer(member);
}

/* All homes that are not lost must answer that there is nothing newer (DHT_LOOKUP_SURE),
 * and we must be on the majority: a home that is merely silent may be beyond a cut with a
 * publisher. */
static void looks_up(struct lease_wait *wait)
{
    wait->asks = LEASE_LOOKS_UP;
    wait->asked_at = util_clock_now();
    wait->lookup = dht_node_lookup(wait->member->dht, wait->upath, DHT_LOOKUP_SURE,
                                   &wait->version, looked_up, wait);
    if (!wait->lookup)
        end(wait, ENOMEM);
}

/* --- others of this node --- */

/* True if the leases of all other members of this node hold. */
static bool others_leases_hold(const struct member *member)
{
    const struct store_marks *marks = member->dmd[ENGINE_CONSUMER].marks;

    return store_lease_holds(marks, storage_rank(member), member->line, util_clock_now(),
                             0);
}

/* It is asked to renew its lease, if that is over. An answer is not waited for. */
static int tell_one(const char *name, void *arg)
{
    unsigned char frame[4 + NET_MSG_HEADER_MAX + 1];
    struct net_msg ping = {.type = NET_MSG_PING, .flags = NET_PING_LEASE};
    struct lease_job *job = arg;
    char label[DYAD_UPATH_MAX + 1];
    struct sockaddr_un address;
    socklen_t address_len;
    uint32_t len;
    int fd, n;

    if (strcmp(name, job->name) == 0 ||
        store_journal_read_label(job->dmd->dir, name, label) < 0 ||
        !storage_label_read(label, &address, &address_len) ||
        !store_lease_is_out(job->marks, store_looked_rank(&address, address_len),
                            util_clock_now()) ||
        (n = net_msg_encode(&ping, frame + 4, sizeof(frame) - 4)) < 0 ||
        (fd = boot_member_claim_connect_now(&address, address_len)) < 0)
        return 0;
    len = htole32((uint32_t)n);
    memcpy(frame, &len, 4);
    (void)!send(fd, frame, 4 + (size_t)n, MSG_NOSIGNAL | MSG_DONTWAIT);
    close(fd);
    return 0;
}

static void tell_work(void *arg)
{
    struct lease_job *job = arg;
    char prefix[sizeof(job->name)];

    memcpy(prefix, job->name, job->prefix_len);
    prefix[job->prefix_len] = '\0';
    store_journal_list(job->dmd->dir, prefix, tell_one, job);
}

static void told(void *arg)
{
    struct lease_job *job = arg;
    struct lease_wait *wait = job->wait;

    DL_DELETE(OWN(job->member, lease)->jobs, job);
    free(job);
    if (wait) {
        wait->job = NULL;
        go_on(wait);
    }
}

/* Another member of this node whose lease is over may have fetched the file. As a rule it
 * has not opened anything for a while: it gets a PING (NET_PING_LEASE, to its claim), and
 * renews its lease. Else (it is stopped, or its homes cannot be reached) its journal is
 * read (go_on()). */
static void tell(struct lease_wait *wait)
{
    struct member *member = wait->member;
    struct lease_job *job = calloc(1, sizeof(*job));

    if (!job) {
        end(wait, ENOMEM);
        return;
    }
    wait->asks = LEASE_NEIGHBOURS;
    job->member = member;
    job->wait = wait;
    job->dmd = &member->dmd[ENGINE_CONSUMER];
    job->marks = job->dmd->marks;
    job->prefix_len = storage_journal_name(member, job->name, sizeof(job->name));
    DL_APPEND(OWN(member, lease)->jobs, job);
    wait->job = job;
    engine_io_submit(member->io, &job->io, tell_work, told, job);
}

static void copy_found(struct node_file *file, struct member_dmd *dmd, uint32_t rank,
                       const struct store_record *record)
{
    struct lease_read *read = (struct lease_read *)file;

    if (record->kind != STORE_RECORD_COPY || !local_file_still_there(dmd, record))
        return;
    read->found = true;
    read->version = record->entry.version;
    read->whose = rank;
}

static void was_read(struct member *member, struct node_file *file)
{
    struct lease_read *read = (struct lease_read *)file;
    struct lease_wait *wait = read->wait;

    (void)member;
    if (wait)
        wait->read = NULL;
    if (wait && read->found) {
        wait->version = read->version;
        wait->rank = read->whose;
        looks_up(wait);
    } else if (wait) {
        end(wait, file->failed ? EHOSTUNREACH : 0);
    }
    free(read);
}

/* The homes of a copy in another member's journal are asked as for our own, and the copy
 * is removed in that member's place (invalidate_by_node()). */
static void reads(struct lease_wait *wait)
{
    size_t len = strlen(wait->upath);
    struct lease_read *read = calloc(1, sizeof(*read) + len + 1);

    if (!read) {
        end(wait, ENOMEM);
        return;
    }
    wait->asks = LEASE_READS;
    wait->read = read;
    read->wait = wait;
    read->file.upath = memcpy(read->upath, wait->upath, len + 1);
    read->file.rank = DYAD_RANK_NONE;
    read->file.found = copy_found;
    read->file.done = was_read;
    node_files_look(wait->member, &read->file);
}

/* After a time, or when something has ended. */
static void go_on(struct lease_wait *wait)
{
    struct member *member = wait->member;
    struct lease *lease = OWN(member, lease);
    uint64_t now = util_clock_now();

    if (now >= wait->until) {
        end(wait, wait->timeout);
    } else if (wait->asks == LEASE_REMOVES) {
        if (!invalidate_pending(member, wait->upath) &&
            !invalidate_by_node_pending(member, wait->upath))
            end(wait, 0);
    } else if (wait->asks == LEASE_NEIGHBOURS && !wait->job) {
        if (others_leases_hold(member)) {
            end(wait, 0);
        } else if (now >= wait->asked_at + NEIGHBOURS) {
            lease->no_answer = now;
            reads(wait);
        }
    }
}

static void tick(void *arg)
{
    struct member *member = arg;
    struct lease_wait *wait, *tmp, *last = OWN(member, lease)->waits;

    /* What one that ends begins is put behind the last. */
    last = last ? last->prev : NULL;
    DL_FOREACH_SAFE(OWN(member, lease)->waits, wait, tmp)
    {
        bool is_last = wait == last;
        go_on(wait);
        if (is_last)
            break;
    }
    set_timer(member);
}

/* The open waits for as long as it takes to find out which ranks are lost (one home may
 * be after the other) and on which side of a cut we are: as for a file whose owner does
 * not answer. Time in which this process was stopped does not count (resumed()). */
void lease_wait(struct member *member, struct lease_wait *wait, const char *upath,
                uint64_t timeout_ms, void (*fn)(void *arg, int error), void *arg)
{
    const struct member_dmd *dmd = &member->dmd[ENGINE_CONSUMER];
    struct lease *lease = OWN(member, lease);
    const struct store_record *record;
    uint64_t now, patience;
    bool removing;

    if (!lease->timer || !dmd->marks || !dmd->journal || member->state == MEMBER_LEAVING) {
        fn(arg, 0);
        return;
    }
    lease_want(member);
    record = store_journal_find(dmd->journal, upath);
    removing = invalidate_pending(member, upath);
    if (!removing && (record ? record->kind != STORE_RECORD_COPY || lease_is_on(member)
                             : others_leases_hold(member))) {
        fn(arg, 0);
        return;
    }
    now = util_clock_now();
    patience = seconds_ns(member->config->join_timeout + 2 * member->config->peer_timeout);
    *wait = (struct lease_wait){
        .member = member,
        .upath = upath,
        .asked_at = now,
        .until = now + patience,
        .timeout = EHOSTUNREACH,
        .rank = member->self.rank,
        .fn = fn,
        .arg = arg,
    };
    if (timeout_ms && timeout_ms * UTIL_NSEC_PER_MSEC < patience) {
        wait->until = now + timeout_ms * UTIL_NSEC_PER_MSEC;
        wait->timeout = ETIMEDOUT;
    }
    DL_APPEND(lease->waits, wait);
    if (removing) { /* there is no record of it any more, and the file may be there still */
        wait->asks = LEASE_REMOVES;
    } else if (record) {
        wait->version = record->entry.version;
        looks_up(wait);
    } else if (lease->no_answer && lease->no_answer + lease->term > now) {
        reads(wait);
    } else {
        tell(wait);
    }
    set_timer(member);
}

static void resumed(struct member *member, uint64_t ns)
{
    struct lease *lease = OWN(member, lease);
    struct lease_wait *wait;

    if (!lease->waits)
        return;
    DL_FOREACH(lease->waits, wait)
    {
        wait->asked_at += ns;
        wait->until += ns;
    }
    set_timer(member);
}

int lease_ask_start(struct member *member)
{
    OWN(member, lease)->ask_timer = net_timer_create(member->loop, tick, member);
    return OWN(member, lease)->ask_timer ? 0 : -1;
}

static void lease_ask_end(struct member *member)
{
    struct lease *lease = OWN(member, lease);

    while (lease->waits)
        end(lease->waits, ESHUTDOWN);
}

void lease_ask_free(struct member *member)
{
    struct lease *lease = OWN(member, lease);
    struct lease_job *job, *tmp;

    DL_FOREACH_SAFE(lease->jobs, job, tmp)
    {
        free(job);
    }
    net_timer_destroy(lease->ask_timer);
}

const struct member_module lease_ask_module = {
    .resumed = resumed,
    .shut = lease_ask_end,
};
