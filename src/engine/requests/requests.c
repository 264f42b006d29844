/*
 * requests.c - the requests of the rank's processes to their member
 *
 * One table has a function for each request (below). Requests that publish go on when
 * their process has ended; requests that wait end with it.
 */
#include "engine/requests/requests.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/coherence/copy_lease.h"
#include "engine/core/joined_writers.h"
#include "engine/core/local_file.h"
#include "engine/fetch/bring.h"
#include "engine/fetch/consume.h"
#include "engine/fetch/consume_probe.h"
#include "engine/fetch/prefetch.h"
#include "engine/inspect/dump.h"
#include "engine/namespace/listing.h"
#include "engine/promoted/promoted.h"
#include "engine/publish/held_open.h"
#include "engine/publish/late_names.h"
#include "engine/publish/locks.h"
#include "engine/publish/pieces_show.h"
#include "engine/publish/produce.h"
#include "engine/publish/publish_rename.h"
#include "engine/publish/shared_storage.h"
#include "engine/publish/withdraw.h"
#include "engine/recovery/startup_validation.h"
#include "engine/recovery/takeover.h"
#include "engine/requests/guest.h"
#include "store/fetch.h"
#include "util/clock.h"
#include "util/log.h"

/* Of a guest: what it waits for. */
struct request {
    struct startup_validation_wait look;
    struct lease_wait lease;
    struct consume *consume;
    struct consume_probe *probe; /* NET_CONSUME_PROBE, _UPDATE: will it come? */
    bool probed;
    struct dump_request *dump;
    struct list_request *list;
    struct bring *bring;
    struct dht_lookup *lookup;
    struct locks_op *lock;
    int list_status;           /* a page of names could not be queued */
    uint64_t ino, dev;         /* for the answer to a STAT */
    bool looked;               /* for that to a CONSUME, ... */
    struct dyad_version ahead; /* ... and this */
};

static struct request *request_of(const struct guest *guest)
{
    return guest->request;
}

static void request_cancel(struct guest *guest)
{
    struct request *r = guest->request;
    bool fetched = r->consume || r->bring;

    if (r->consume)
        consume_cancel(r->consume);
    if (r->probe)
        consume_probe_cancel(r->probe);
    if (r->dump)
        dump_cancel(r->dump);
    if (r->list)
        list_cancel(r->list);
    if (r->bring)
        bring_cancel(r->bring);
    if (r->lookup)
        dht_node_cancel(guest->member->dht, r->lookup);
    if (r->lock)
        locks_cancel(r->lock);
    if (fetched)
        prefetch_resume(guest->member);
}

static void answer(struct guest *guest, int status, const struct dyad_entry *entry)
{
    const struct request *r = guest->request;
    struct net_msg done = {
        .type = NET_MSG_DONE,
        .flags = r->looked ? NET_DONE_LOOKED : 0,
        .status = status,
        .entry.version = r->ahead,
        .ino = r->ino,
        .dev = r->dev,
    };

    if (entry)
        done.entry = *entry;
    guest_answer(guest, &done);
}

static void published(void *arg, int status)
{
    struct guest *guest = arg;

    guest->pending--;
    answer(guest, status, NULL);
}

/* True if it must be found out first whether the request waits, or joins a writer. */
static bool is_probe(const struct guest *guest)
{
    return (guest->msg.flags & (NET_CONSUME_PROBE | NET_CONSUME_UPDATE)) &&
           !request_of(guest)->probed;
}

static void consume_begin(struct guest *guest);

static void probed(void *arg, unsigned says)
{
    struct guest *guest = arg;

    request_of(guest)->probe = NULL;
    request_of(guest)->probed = true;
    if (guest->msg.flags & NET_CONSUME_UPDATE) {
        if (says & CONSUME_SAYS_JOINS)
            answer(guest, EINPROGRESS, NULL);
        else /* once more: it may have been published before that was asked */
            consume_begin(guest);
        return;
    }
    /* Where it is not known it is waited for. */
    if (says & (CONSUME_SAYS_WRITTEN | CONSUME_SAYS_SERIES | CONSUME_SAYS_UNKNOWN))
        consume_begin(guest);
    else
        answer(guest, ENOENT, NULL);
}

/* True if it is for an open for reading. */
static bool is_read(const struct guest *guest)
{
    return (guest->msg.flags &
            (NET_CONSUME_WRITER | NET_CONSUME_UNWRITTEN | NET_CONSUME_UPDATE)) == 0;
}

static void consumed(void *arg, int status)
{
    struct guest *guest = arg;
    struct member *member = guest->member;

    request_of(guest)->consume = NULL;
    if (status == ENOENT && is_probe(guest) &&
        (request_of(guest)->probe =
             consume_probe_start(guest->member, guest->msg.entry.upath,
                                 guest->msg.flags & NET_CONSUME_ANY      ? -1
                                 : guest->msg.flags & NET_CONSUME_UPDATE ? guest->pid
                                                                         : 0,
                                 probed, guest)))
        return;
    if ((status == ENOENT || status == EALREADY) && (guest->msg.flags & NET_CONSUME_MAKES))
        joined_writers_noted(guest->member, guest->msg.entry.upath);
    request_of(guest)->looked = startup_validation_must_tell(guest->member);
    if (status == 0 && is_read(guest)) {
        char upath[DYAD_UPATH_MAX + 1];
        strcpy(upath, guest->msg.entry.upath);
        answer(guest, 0, NULL); /* first: the open goes on */
        prefetch_opened(member, upath);
    } else {
        answer(guest, status, NULL);
    }
    prefetch_resume(member);
}

/* cp compares the inode that stat has shown with that of the file that it opens. */
static void reserve_inode(struct guest *guest)
{
    struct member_dmd *dmd = &guest->member->dmd[ENGINE_CONSUMER];
    const char *upath = guest->msg.entry.upath;
    struct stat st;

    /* It may have been brought since the asker has looked. */
    if (dmd->dir && ((store_dir_stat(dmd->dir, upath, &st) == 0 && S_ISREG(st.st_mode) &&
                      !local_file_is_superseded(dmd, upath, &st)) ||
                     store_fetch_reserve(dmd->dir, upath, &st) == 0)) {
        request_of(guest)->ino = st.st_ino;
        request_of(guest)->dev = st.st_dev;
    }
}

/* EHOSTUNREACH is for a process that cannot reach us. */
static int nobody_can_say(const char *upath, const char *why)
{
    log_info("whether \"%s\" is published nobody can say: %s", upath, why);
    return EIO;
}

/* It may be below a link that nobody has followed on this node yet: not found is not known
 * to be true if that is not known. */
static void stat_brought(void *arg, int status)
{
    struct guest *guest = arg;
    const char *upath = guest->msg.entry.upath;

    request_of(guest)->bring = NULL;
    switch (status) {
    case 0: /* they are directories */
        status = ENOENT;
        break;
    case ENOENT:
    case ENOTDIR:
    case ESTALE:
        break;
    case EHOSTUNREACH:
        status = nobody_can_say(upath, "what is above it cannot be reached");
        break;
    default:
        log_warn("the directory of \"%s\" cannot be made here: %s", upath,
                 strerror(status));
        status = EIO;
    }
    answer(guest, status, NULL);
}

static void looked_up(void *arg, int status, const struct dyad_entry *entry)
{
    struct guest *guest = arg;
    const char *upath = guest->msg.entry.upath;

    request_of(guest)->lookup = NULL;
    if (status == ENOENT && !entry && guest->member->dmd[ENGINE_CONSUMER].dir &&
        !bring_parent_here(guest->member, upath)) {
        request_of(guest)->bring =
            bring_start(guest->member, upath, true, guest->pid, stat_brought, guest);
        if (request_of(guest)->bring)
            return;
    }
    if (status == 0 && S_ISREG(entry->mode))
        reserve_inode(guest);
    if (status == EHOSTUNREACH)
        status = nobody_can_say(upath, "its homes cannot be reached");
    answer(guest, status, status == 0 ? entry : NULL);
}

static void dump_page(void *arg, uint32_t rank, int error, const void *json, size_t len,
                      bool more)
{
    struct guest *guest = arg;
    struct net_msg page = {
        .type = NET_MSG_DUMP_REPLY,
        .status = error,
        .flags = more ? NET_DUMP_MORE : 0,
        .rank = rank,
        .blob = json,
        .blob_len = len,
    };
    if (guest_page(guest, &page) < 0)
        log_warn("a page of rank %u's shard was dropped: %m", rank);
}

static void dump_done(void *arg)
{
    struct guest *guest = arg;

    request_of(guest)->dump = NULL;
    answer(guest, 0, NULL);
}

static void list_page(void *arg, const void *names, size_t len)
{
    struct guest *guest = arg;
    struct net_msg page = {.type = NET_MSG_LIST_REPLY, .blob = names, .blob_len = len};

    if (request_of(guest)->list_status)
        return;
    if (guest_page(guest, &page) < 0)
        request_of(guest)->list_status = ENOMEM;
}

static void list_done(void *arg, int status)
{
    struct guest *guest = arg;

    request_of(guest)->list = NULL;
    answer(guest, status ? status : request_of(guest)->list_status, NULL);
}

static void locked(void *arg, int status)
{
    struct guest *guest = arg;

    request_of(guest)->lock = NULL;
    answer(guest, status, NULL);
}

static void brought(void *arg, int status)
{
    struct guest *guest = arg;
    struct member *member = guest->member;

    request_of(guest)->bring = NULL;
    answer(guest, status, NULL);
    prefetch_resume(member);
}

/* With a callback pending that keeps the guest, also when its process has gone. */
static int pends(struct guest *guest, int rc)
{
    guest->pending += rc == 0;
    return rc;
}

static int guest_writing(struct guest *guest)
{
    const struct net_msg *msg = &guest->msg;
    enum engine_role role =
        msg->flags & NET_WRITING_PRODUCER ? ENGINE_PRODUCER : ENGINE_CONSUMER;
    unsigned what = msg->flags & NET_WRITING_WHAT;

    if (((what == NET_WRITING_BEGIN || what == NET_WRITING_SHOW) && !msg->entry.upath) ||
        !guest->member->dmd[role].dir) {
        errno = EPROTO;
        return -1;
    }
    if (what == NET_WRITING_SHOW)
        return pends(guest,
                     pieces_show(guest->member, role, msg->entry.upath,
                                 !(msg->flags & NET_WRITING_JOINED), published, guest));
    if (msg->flags & NET_WRITING_JOINED)
        return pends(guest, joined_writers_begin(guest->member, role, msg->entry.upath,
                                                 msg->flags, published, guest));
    guest->pending++;
    if (what != NET_WRITING_BEGIN && !shared_storage(guest->member, role) &&
        msg->entry.upath) {
        joined_writers_closed(guest->member, msg->entry.upath, published, guest);
        return 0;
    }
    if (what != NET_WRITING_BEGIN) {
        shared_end(guest->member, role, msg->entry.upath, msg->mark,
                   what == NET_WRITING_ABANDONED, published, guest);
        return 0;
    }
    if (shared_begin(guest->member, role, msg->entry.upath, msg->mark, published, guest) ==
        0)
        return 0;
    guest->pending--;
    return -1;
}

static void consume_begin(struct guest *guest)
{
    const struct net_msg *msg = &guest->msg;
    uint8_t flags =
        msg->flags & (NET_LOOKUP_WAIT | NET_CONSUME_WRITER | NET_CONSUME_MAKES |
                      NET_CONSUME_UNWRITTEN | NET_CONSUME_UPDATE | NET_CONSUME_ANY);

    if ((flags & (NET_CONSUME_UPDATE | NET_LOOKUP_WAIT)) == NET_CONSUME_UPDATE)
        flags = NET_CONSUME_WRITER; /* it does not wait */
    if ((flags & NET_CONSUME_WRITER) || is_probe(guest))
        flags &= (uint8_t)~NET_LOOKUP_WAIT;
    if (is_read(guest))
        prefetch_asked(guest->member, msg->entry.upath);
    request_of(guest)->consume =
        consume_start(guest->member, msg->entry.upath, flags, msg->timeout_ms, guest->pid,
                      msg->thread, consumed, guest);
    if (!request_of(guest)->consume)
        answer(guest, errno, NULL);
    else
        consume_set_ahead(request_of(guest)->consume, &request_of(guest)->ahead);
}

/* The copy here, if any, is validated: begin the consume. */
static void guest_consume(void *arg, int error)
{
    struct guest *guest = arg;

    guest->pending--;
    if (guest->gone || error)
        answer(guest, error, NULL);
    else
        consume_begin(guest);
}

/* This rank has looked at what was left: is it covered by a lease? */
static void guest_looked(void *arg, int error)
{
    struct guest *guest = arg;

    if (guest->gone || error)
        guest_consume(guest, error);
    else
        lease_wait(guest->member, &request_of(guest)->lease, guest->msg.entry.upath,
                   guest->msg.timeout_ms, guest_consume, guest);
}

/* --- what is done with each request --- */

static enum engine_role role_of(const struct net_msg *msg)
{
    return msg->flags ? ENGINE_PRODUCER : ENGINE_CONSUMER;
}

/* Handlers answer 0 if it is under way, or was answered; else -1 with errno. */

/* The connection is another's from now on. */
static int serve_promoted_join(struct guest *guest)
{
    struct member *member = guest->member;
    pid_t pid = guest->pid;
    int fd = guest_take(guest);

    if (fd >= 0)
        promoted_link_accept(member, fd, pid);
    return 0;
}

static int serve_produce(struct guest *guest)
{
    const struct net_msg *msg = &guest->msg;

    promoted_produces(guest->member, guest->pid, msg->entry.upath);
    return pends(guest, produce_closed(guest->member, role_of(msg), msg->entry.upath,
                                       msg->mark, published, guest));
}

static int serve_withdraw(struct guest *guest)
{
    return pends(guest,
                 produce_withdraw(guest->member, guest->msg.entry.upath, published, guest));
}

/* The decoder has seen that the blob is a upath with its NUL. */
static int serve_rename(struct guest *guest)
{
    const struct net_msg *msg = &guest->msg;

    return pends(guest, produce_rename(guest->member, msg->blob_len ? msg->blob : "",
                                       msg->entry.upath, published, guest));
}

static int serve_changed(struct guest *guest)
{
    return pends(guest, produce_changed(guest->member, role_of(&guest->msg),
                                        guest->msg.entry.upath, published, guest));
}

static int serve_watch(struct guest *guest)
{
    const struct net_msg *msg = &guest->msg;

    return pends(guest, held_open_watch(guest->member, role_of(msg), msg->entry.upath,
                                        msg->mark, guest->pid, msg->fd, published, guest));
}

static int serve_consume(struct guest *guest)
{
    const struct net_msg *msg = &guest->msg;

    if (guest->gone) {
        answer(guest, 0, NULL);
        return 0;
    }
    if (msg->flags & NET_CONSUME_PREFETCH) {
        answer(guest, prefetch_want(guest->member, msg->entry.upath) < 0 ? errno : 0, NULL);
        return 0;
    }
    if (guest_too_many(guest)) {
        log_error(
            "process %d cannot wait for \"%s\": so many processes and threads of this "
            "rank do already that descriptors run out; raise their limit (ulimit -n)",
            (int)guest->pid, msg->entry.upath);
        errno = EMFILE;
        return -1;
    }
    guest->pending++;
    if ((msg->flags & (NET_LOOKUP_WAIT | NET_CONSUME_UNWRITTEN)) != NET_LOOKUP_WAIT)
        guest_consume(guest, 0);
    else
        startup_validation_wait(guest->member, &request_of(guest)->look, msg->entry.upath,
                                msg->timeout_ms, guest_looked, guest);
    return 0;
}

static int serve_lock(struct guest *guest)
{
    struct request *r = guest->request;

    if ((guest->msg.flags & NET_LOCK_WAIT) && guest_too_many(guest)) {
        errno = ENOLCK;
        return -1;
    }
    r->lock = locks_start(guest->member, &guest->msg,
                          guest->msg.mark << 32 | (uint64_t)guest->pid, locked, guest);
    if (r->lock || errno)
        return r->lock ? 0 : -1;
    answer(guest, 0, NULL);
    return 0;
}

static int serve_stat(struct guest *guest)
{
    struct request *r = guest->request;

    r->lookup = dht_node_lookup(guest->member->dht, guest->msg.entry.upath, NET_LOOKUP_KEEP,
                                NULL, looked_up, guest);
    return r->lookup ? 0 : -1;
}

static int serve_list(struct guest *guest)
{
    struct request *r = guest->request;
    const char *upath = guest->msg.entry.upath;

    r->list =
        list_start(guest->member, upath ? upath : "", NULL, 0, list_page, list_done, guest);
    return r->list ? 0 : -1;
}

static int serve_bring(struct guest *guest)
{
    struct request *r = guest->request;
    const struct net_msg *msg = &guest->msg;

    r->bring =
        bring_start(guest->member, msg->entry.upath ? msg->entry.upath : "",
                    (msg->flags & NET_BRING_PARENTS) != 0, guest->pid, brought, guest);
    return r->bring ? 0 : -1;
}

/* We have joined: that is the answer. */
static int serve_ping(struct guest *guest)
{
    if (guest->msg.flags & NET_PING_LEASE)
        lease_want(guest->member);
    answer(guest, 0, NULL);
    return 0;
}

static int serve_dump(struct guest *guest)
{
    struct request *r = guest->request;

    r->dump = dump_start(guest->member, &guest->msg, dump_page, dump_done, guest);
    return r->dump ? 0 : -1;
}

static const struct {
    uint8_t type;
    int (*serve)(struct guest *guest);
} requests[] = {
    {NET_MSG_PROMOTED_JOIN, serve_promoted_join},
    {NET_MSG_PING, serve_ping},
    {NET_MSG_GUEST_PRODUCE, serve_produce},
    {NET_MSG_GUEST_WITHDRAW, serve_withdraw},
    {NET_MSG_GUEST_RENAME, serve_rename},
    {NET_MSG_GUEST_CHANGED, serve_changed},
    {NET_MSG_GUEST_CONSUME, serve_consume},
    {NET_MSG_GUEST_BRING, serve_bring},
    {NET_MSG_GUEST_STAT, serve_stat},
    {NET_MSG_GUEST_LIST, serve_list},
    {NET_MSG_GUEST_WATCH, serve_watch},
    {NET_MSG_GUEST_WRITING, guest_writing},
    {NET_MSG_GUEST_LOCK, serve_lock},
    {NET_MSG_GUEST_DUMP, serve_dump},
};

static void request_serve(struct guest *guest, int error)
{
    int (*serve)(struct guest *) = NULL;

    if (error) {
        answer(guest, guest->gone && guest->msg.type == NET_MSG_GUEST_CONSUME ? 0 : error,
               NULL);
        return;
    }
    for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++) {
        if (requests[i].type == guest->msg.type)
            serve = requests[i].serve;
    }
    errno = EPROTO;
    if (!serve || serve(guest) < 0)
        answer(guest, errno, NULL);
}

static const struct guest_ops ops = {
    .size = sizeof(struct request),
    .serve = request_serve,
    .cancel = request_cancel,
    .unasked = takeover_watch, /* a member of this node, which watches us and we it */
};

int request_start(struct member *member)
{
    return guest_listen(member, &ops);
}

void request_stop(struct member *member)
{
    guest_stop(member);
}
