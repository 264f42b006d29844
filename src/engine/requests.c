/*
 * requests.c - the rank's processes ask their member
 *
 * One connection, one request, one answer (a dump: many pages). A connection that closes
 * takes its request with it: a consumer that died is no longer waited for, a publish goes
 * on to its end.
 */
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utlist.h>

#include "boot/claim.h"
#include "engine/coherence/copy_lease.h"
#include "engine/fetch/bring.h"
#include "engine/fetch/consume.h"
#include "engine/fetch/consume_probe.h"
#include "engine/inspect/dump.h"
#include "engine/namespace/listing.h"
#include "engine/promoted/promoted.h"
#include "engine/publish/held_open.h"
#include "engine/publish/late_names.h"
#include "engine/publish/produce.h"
#include "engine/publish/publish_rename.h"
#include "engine/publish/shared_storage.h"
#include "engine/publish/withdraw.h"
#include "engine/recovery/startup_validation.h"
#include "engine/recovery/takeover.h"
#include "engine/requests.h"
#include "store/fetch.h"
#include "util/log.h"

/* Replies queued for a slow reader (dyad-dht-dump) before it is taken for dead. */
#define OUT_MAX (256u << 20)
/* Descriptors that waiting processes may not use up. */
#define FDS_FREE 64

struct guest {
    struct guest *prev, *next; /* utlist */
    struct member *member;
    int fd;
    pid_t pid;
    struct net_watch *watch;
    unsigned char in[4 + NET_MSG_HEADER_MAX + DYAD_UPATH_MAX + 1];
    size_t in_len;
    unsigned char *out; /* of out_len bytes those from out_sent on are still to be sent */
    size_t out_len, out_sent;
    bool asked;       /* the request was read */
    bool answered;    /* nothing more will be queued: close when all is sent */
    bool gone;        /* the process closed it while a publish goes on */
    unsigned pending; /* callbacks that will come with this guest as their argument */
    struct member_joined joined;
    struct first_look_wait look;
    struct lease_wait lease;
    struct net_msg msg; /* points into in[] */
    struct consume *consume;
    struct consume_probe *probe; /* NET_CONSUME_PROBE: will it come? */
    bool probed;
    struct dump_request *dump;
    struct list_request *list;
    struct bring *bring;
    struct dht_lookup *lookup;
    int list_status;   /* a page of names could not be queued */
    uint64_t ino, dev; /* for the answer to a STAT */
};

/* A descriptor has become free. */
static void accept_again(struct member *member)
{
    if (member->claim_full && member->claim_watch &&
        net_watch_modify(member->claim_watch, EPOLLIN) == 0)
        member->claim_full = false;
}

static void guest_free(struct guest *guest)
{
    struct member *member = guest->member;

    DL_DELETE(member->guests, guest);
    if (guest->consume)
        consume_cancel(guest->consume);
    if (guest->probe)
        consume_probe_cancel(guest->probe);
    if (guest->dump)
        dump_cancel(guest->dump);
    if (guest->list)
        list_cancel(guest->list);
    if (guest->bring)
        bring_cancel(guest->bring);
    if (guest->lookup)
        dht_node_cancel(guest->member->dht, guest->lookup);
    if (guest->watch)
        net_watch_destroy(guest->watch);
    if (guest->fd >= 0)
        close(guest->fd);
    free(guest->out);
    free(guest);
    accept_again(member);
}

/* The process is not there any more. */
static void guest_drop(struct guest *guest)
{
    if (guest->pending == 0) {
        guest_free(guest);
        return;
    }
    guest->gone = true;
    net_watch_destroy(guest->watch);
    guest->watch = NULL;
    close(guest->fd);
    guest->fd = -1;
    accept_again(guest->member);
}

/* Send what is queued; false: the guest is gone and freed. */
static bool guest_flush(struct guest *guest)
{
    while (guest->out_sent < guest->out_len) {
        ssize_t n = send(guest->fd, guest->out + guest->out_sent,
                         guest->out_len - guest->out_sent, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            net_watch_modify(guest->watch, EPOLLIN | EPOLLRDHUP | EPOLLOUT);
            return true;
        }
        if (n < 0) {
            guest_drop(guest);
            return false;
        }
        guest->out_sent += (size_t)n;
    }
    guest->out_len = guest->out_sent = 0;
    if (guest->answered) {
        guest_drop(guest);
        return false;
    }
    net_watch_modify(guest->watch, EPOLLIN | EPOLLRDHUP);
    return true;
}

/* What was sent makes room for more, but only when it is at least half of all: so each byte
 * is moved at most once on the average, however slow the reader is. */
static void guest_compact(struct guest *guest)
{
    if (guest->out_sent < guest->out_len / 2)
        return;
    guest->out_len -= guest->out_sent;
    memmove(guest->out, guest->out + guest->out_sent, guest->out_len);
    guest->out_sent = 0;
}

/* Queue one frame. 0 or -1: it does not fit, or no memory. */
static int guest_queue(struct guest *guest, const struct net_msg *msg)
{
    static unsigned char buf[NET_MSG_HEADER_MAX + NET_MSG_BLOB_MAX]; /* loop thread only */
    unsigned char *out;
    uint32_t len;
    int n = net_msg_encode(msg, buf, sizeof(buf));

    if (guest->out_sent > 0)
        guest_compact(guest);
    if (n < 0 || guest->out_len - guest->out_sent + 4 + (size_t)n > OUT_MAX ||
        !(out = realloc(guest->out, guest->out_len + 4 + (size_t)n)))
        return -1;
    guest->out = out;
    len = htole32((uint32_t)n);
    memcpy(out + guest->out_len, &len, 4);
    memcpy(out + guest->out_len + 4, buf, (size_t)n);
    guest->out_len += 4 + (size_t)n;
    return 0;
}

static void guest_answer(struct guest *guest, int status, const struct dyad_entry *entry)
{
    struct net_msg done = {.type = NET_MSG_DONE, .status = status};

    done.source = guest->member->self.rank;
    done.source_incarnation = guest->member->self.incarnation;
    done.entry.upath = guest->msg.entry.upath;
    done.offset = guest->ino;
    done.length = guest->dev;
    if (entry) {
        done.entry = *entry;
        if (!done.entry.upath)
            done.entry.upath = guest->msg.entry.upath;
    }
    if (guest->gone) {
        if (guest->pending == 0)
            guest_free(guest);
        return;
    }
    guest->answered = true;
    if (guest_queue(guest, &done) < 0) {
        guest_drop(guest);
        return;
    }
    guest_flush(guest);
}

static void published(void *arg, int status)
{
    struct guest *guest = arg;

    guest->pending--;
    guest_answer(guest, status, NULL);
}

/* Is it not known yet whether it is to be waited for? */
static bool is_probe(const struct guest *guest)
{
    return (guest->msg.flags & NET_CONSUME_PROBE) && !guest->probed;
}

static void consume_begin(struct guest *guest);

static void probed(void *arg, unsigned says)
{
    struct guest *guest = arg;

    guest->probe = NULL;
    guest->probed = true;
    /* Where it is not known it is waited for. */
    if (says & (CONSUME_SAYS_WRITTEN | CONSUME_SAYS_SERIES | CONSUME_SAYS_UNKNOWN))
        consume_begin(guest);
    else
        guest_answer(guest, ENOENT, NULL);
}

static void consumed(void *arg, int status)
{
    struct guest *guest = arg;

    guest->consume = NULL;
    if (status == ENOENT && is_probe(guest) &&
        (guest->probe =
             consume_probe_start(guest->member, guest->msg.entry.upath, probed, guest)))
        return;
    if (first_look_must_tell(guest->member))
        guest->ino = NET_CONSUME_LOOKED; /* the offset */
    guest_answer(guest, status, NULL);
}

/* cp compares the inode that stat told with that of what it opens. */
static void reserve_inode(struct guest *guest)
{
    struct member_side *side = &guest->member->side[ENGINE_CONSUMER];
    struct stat st;

    if (side->dir && store_fetch_reserve(side->dir, guest->msg.entry.upath, &st) == 0) {
        guest->ino = st.st_ino;
        guest->dev = st.st_dev;
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

    guest->bring = NULL;
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
    guest_answer(guest, status, NULL);
}

static void looked_up(void *arg, int status, const struct dyad_entry *entry)
{
    struct guest *guest = arg;
    const char *upath = guest->msg.entry.upath;

    guest->lookup = NULL;
    if (status == ENOENT && !entry && guest->member->side[ENGINE_CONSUMER].dir &&
        !bring_parent_here(guest->member, upath)) {
        guest->bring =
            bring_start(guest->member, upath, true, guest->pid, stat_brought, guest);
        if (guest->bring)
            return;
    }
    if (status == 0 && S_ISREG(entry->mode))
        reserve_inode(guest);
    if (status == EHOSTUNREACH)
        status = nobody_can_say(upath, "its homes cannot be reached");
    guest_answer(guest, status, status == 0 ? entry : NULL);
}

static void dump_page(void *arg, uint32_t rank, int error, const void *json, size_t len,
                      bool more)
{
    struct guest *guest = arg;
    struct net_msg page = {
        .type = NET_MSG_DUMP_REPLY,
        .status = error,
        .flags = more ? NET_DUMP_MORE : 0,
        .entry = {.upath = "", .owner = rank},
        .blob = json,
        .blob_len = len,
    };
    if (guest_queue(guest, &page) < 0)
        log_warn("a page of rank %u's shard was dropped: %m", rank);
    else if (guest->watch)
        net_watch_modify(guest->watch, EPOLLIN | EPOLLRDHUP | EPOLLOUT);
}

static void dump_done(void *arg)
{
    struct guest *guest = arg;

    guest->dump = NULL;
    guest_answer(guest, 0, NULL);
}

static void list_page(void *arg, const void *names, size_t len)
{
    struct guest *guest = arg;
    struct net_msg page = {.type = NET_MSG_LIST_REPLY, .blob = names, .blob_len = len};

    if (guest->list_status)
        return;
    if (guest_queue(guest, &page) < 0)
        guest->list_status = ENOMEM;
    else if (guest->watch)
        net_watch_modify(guest->watch, EPOLLIN | EPOLLRDHUP | EPOLLOUT);
}

static void list_done(void *arg, int status)
{
    struct guest *guest = arg;

    guest->list = NULL;
    guest_answer(guest, status ? status : guest->list_status, NULL);
}

static void brought(void *arg, int status)
{
    struct guest *guest = arg;

    guest->bring = NULL;
    guest_answer(guest, status, NULL);
}

/* Waits are the requests that pile up. The rest of the descriptors is for requests that end
 * by themselves, on which the waits may depend, and for UCX, which aborts the program when
 * it gets none. A new descriptor has the lowest free number, so the guest's tells how many
 * there are. */
static bool too_many_wait(const struct guest *guest)
{
    struct rlimit limit;

    return guest->fd >= 0 && getrlimit(RLIMIT_NOFILE, &limit) == 0 &&
           limit.rlim_cur < INT_MAX && guest->fd + FDS_FREE > (int)limit.rlim_cur;
}

/* The connection is another's from now on. */
static void guest_becomes_peer(struct guest *guest)
{
    struct member *member = guest->member;
    pid_t pid = guest->pid;
    int fd = guest->fd;

    if (guest->watch)
        net_watch_destroy(guest->watch);
    guest->watch = NULL;
    guest->fd = -1;
    guest_free(guest);
    if (fd >= 0)
        peer_link_accept(member, fd, pid);
}

static int guest_writing(struct guest *guest)
{
    const struct net_msg *msg = &guest->msg;
    enum engine_side side =
        msg->flags & NET_WRITING_PRODUCER ? ENGINE_PRODUCER : ENGINE_CONSUMER;
    unsigned what = msg->flags & NET_WRITING_WHAT;

    if ((what == NET_WRITING_BEGIN && !msg->entry.upath) ||
        !guest->member->side[side].dir) {
        errno = EPROTO;
        return -1;
    }
    guest->pending++;
    if (what != NET_WRITING_BEGIN) {
        shared_end(guest->member, side, msg->entry.upath, msg->length,
                   what == NET_WRITING_ABANDONED, published, guest);
        return 0;
    }
    if (shared_begin(guest->member, side, msg->entry.upath, msg->length, published,
                     guest) == 0)
        return 0;
    guest->pending--;
    return -1;
}

static void consume_begin(struct guest *guest)
{
    const struct net_msg *msg = &guest->msg;
    uint8_t flags = msg->flags & (NET_LOOKUP_WAIT | NET_CONSUME_WRITER |
                                  NET_CONSUME_SETTLE | NET_CONSUME_UPDATE);

    if ((flags & NET_CONSUME_WRITER) || is_probe(guest))
        flags &= (uint8_t)~NET_LOOKUP_WAIT;
    guest->consume = consume_start(guest->member, msg->entry.upath, flags, msg->length,
                                   guest->pid, (pid_t)msg->offset, consumed, guest);
    if (!guest->consume)
        guest_answer(guest, errno, NULL);
}

/* What is here of it may be waited for, now that it is known to be right. */
static void guest_consume(void *arg, int error)
{
    struct guest *guest = arg;

    guest->pending--;
    if (guest->gone || error)
        guest_answer(guest, error, NULL);
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
        lease_wait(guest->member, &guest->lease, guest->msg.entry.upath, guest->msg.length,
                   guest_consume, guest);
}

static void guest_serve(void *arg, int error)
{
    struct guest *guest = arg;
    struct member *member = guest->member;
    const struct net_msg *msg = &guest->msg;
    int rc = 0;

    guest->pending--;
    if (guest->gone && msg->type == NET_MSG_GUEST_CONSUME) {
        guest_answer(guest, 0, NULL);
        return;
    }
    if (error) {
        guest_answer(guest, error, NULL);
        return;
    }
    switch (msg->type) {
    case NET_MSG_PEER_JOIN:
        guest_becomes_peer(guest);
        return;
    case NET_MSG_GUEST_PRODUCE:
        peer_produces(member, guest->pid, msg->entry.upath);
        rc = produce_closed(member, msg->flags ? ENGINE_PRODUCER : ENGINE_CONSUMER,
                            msg->entry.upath, msg->length, published, guest);
        guest->pending += rc == 0;
        break;
    case NET_MSG_GUEST_WITHDRAW:
        rc = produce_withdraw(member, msg->entry.upath, published, guest);
        guest->pending += rc == 0;
        break;
    case NET_MSG_GUEST_RENAME:
        /* The decoder has seen that the blob is a upath with its NUL. */
        rc = produce_rename(member, msg->blob_len ? msg->blob : "", msg->entry.upath,
                            published, guest);
        guest->pending += rc == 0;
        break;
    case NET_MSG_GUEST_CONSUME:
        if (too_many_wait(guest)) {
            log_error(
                "process %d cannot wait for \"%s\": so many processes and threads of this "
                "rank do already that descriptors run out; raise their limit (ulimit -n)",
                (int)guest->pid, msg->entry.upath);
            guest_answer(guest, EMFILE, NULL);
            return;
        }
        guest->pending++;
        if ((msg->flags & (NET_LOOKUP_WAIT | NET_CONSUME_SETTLE)) != NET_LOOKUP_WAIT)
            guest_consume(guest, 0);
        else
            first_look_wait(member, &guest->look, msg->entry.upath, msg->length,
                            guest_looked, guest);
        return;
    case NET_MSG_GUEST_WATCH:
        rc = orphan_watch(member, msg->flags ? ENGINE_PRODUCER : ENGINE_CONSUMER,
                          msg->entry.upath, msg->length, guest->pid, (int)msg->offset,
                          published, guest);
        guest->pending += rc == 0;
        break;
    case NET_MSG_GUEST_WRITING:
        rc = guest_writing(guest);
        break;
    case NET_MSG_GUEST_STAT:
        guest->lookup = dht_node_lookup(member->dht, msg->entry.upath, NET_LOOKUP_KEEP,
                                        NULL, looked_up, guest);
        rc = guest->lookup ? 0 : -1;
        break;
    case NET_MSG_GUEST_CHANGED:
        rc = produce_changed(member, msg->flags ? ENGINE_PRODUCER : ENGINE_CONSUMER,
                             msg->entry.upath, published, guest);
        guest->pending += rc == 0;
        break;
    case NET_MSG_GUEST_LIST:
        guest->list = list_start(member, msg->entry.upath ? msg->entry.upath : "", NULL,
                                 list_page, list_done, guest);
        rc = guest->list ? 0 : -1;
        break;
    case NET_MSG_GUEST_BRING:
        guest->bring =
            bring_start(member, msg->entry.upath ? msg->entry.upath : "",
                        (msg->flags & NET_BRING_PARENTS) != 0, guest->pid, brought, guest);
        rc = guest->bring ? 0 : -1;
        break;
    case NET_MSG_PING: /* we have joined: that is the answer */
        if (msg->flags & NET_PING_LEASE)
            lease_want(member);
        guest_answer(guest, 0, NULL);
        return;
    case NET_MSG_GUEST_DUMP:
        guest->dump = dump_start(member, msg, dump_page, dump_done, guest);
        rc = guest->dump ? 0 : -1;
        break;
    default:
        errno = EPROTO;
        rc = -1;
        break;
    }
    if (rc < 0)
        guest_answer(guest, errno, NULL);
}

/* One request is all there is; what comes after is not read. */
static void guest_readable(struct guest *guest)
{
    uint32_t len;
    ssize_t n;

    if (guest->asked) { /* nothing more is expected: the other end closed it */
        char byte;
        n = recv(guest->fd, &byte, 1, MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
            guest_drop(guest);
        return;
    }
    n = recv(guest->fd, guest->in + guest->in_len, sizeof(guest->in) - guest->in_len,
             MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        if (guest->in_len == 0) /* a member of this node, which watches us and we it */
            adopt_watch(guest->member, guest->pid);
        guest_drop(guest);
        return;
    }
    guest->in_len += (size_t)n;
    if (guest->in_len < 4)
        return;
    memcpy(&len, guest->in, 4);
    len = le32toh(len);
    if (len > sizeof(guest->in) - 4) {
        guest_drop(guest);
        return;
    }
    if (guest->in_len < 4 + len)
        return;
    if (net_msg_decode(&guest->msg, guest->in + 4, len) < 0) {
        log_warn("process %d sent a request that cannot be read: is it of another version?",
                 (int)guest->pid);
        guest_drop(guest);
        return;
    }
    guest->asked = true;
    guest->pending++;
    member_when_joined(guest->member, &guest->joined, guest_serve, guest);
}

static void guest_event(void *arg, int fd, uint32_t events)
{
    struct guest *guest = arg;

    (void)fd;
    if (events & EPOLLOUT) {
        if (!guest_flush(guest))
            return;
    }
    if (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR))
        guest_readable(guest);
}

static void claim_event(void *arg, int listen_fd, uint32_t events)
{
    struct member *member = arg;
    struct ucred cred;
    socklen_t len = sizeof(cred);
    struct guest *guest;
    int fd;

    (void)events;
    while ((fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0) {
        if (!boot_claim_peer_ok(fd) ||
            getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0 ||
            !(guest = calloc(1, sizeof(*guest)))) {
            close(fd);
            continue;
        }
        guest->member = member;
        guest->fd = fd;
        guest->pid = cred.pid;
        DL_APPEND(member->guests, guest);
        guest->watch =
            net_loop_watch(member->loop, fd, EPOLLIN | EPOLLRDHUP, guest_event, guest);
        if (!guest->watch)
            guest_free(guest);
    }
    /* No descriptor for one more: those that queue wait until another has gone. */
    if ((errno == EMFILE || errno == ENFILE) && member->guests &&
        net_watch_modify(member->claim_watch, 0) == 0)
        member->claim_full = true;
}

int request_start(struct member *member)
{
    int flags = fcntl(member->claim_fd, F_GETFL);

    if (flags < 0 || fcntl(member->claim_fd, F_SETFL, flags | O_NONBLOCK) < 0)
        return -1;
    member->claim_watch =
        net_loop_watch(member->loop, member->claim_fd, EPOLLIN, claim_event, member);
    return member->claim_watch ? 0 : -1;
}

void request_stop(struct member *member)
{
    struct guest *guest, *tmp;

    if (member->claim_watch)
        net_watch_destroy(member->claim_watch);
    member->claim_watch = NULL;
    DL_FOREACH_SAFE(member->guests, guest, tmp)
    {
        guest_free(guest);
    }
}
