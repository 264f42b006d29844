/*
 * serve.c - the owner's end of a fetch: one chunk per GET
 *
 * The file is opened anew for each chunk (a few microseconds against a megabyte), so no
 * state is kept for a consumer that may die. At most MEMBER_SERVE_BUFFERS chunks are in
 * memory; more GETs wait in `served`, first come first served. What another rank of our
 * node has published we serve in its place, if it is dead, or does not answer
 * (serve_absent_owner.c). What we fetch ourselves we pass on as it comes (relay.c).
 *
 * What could go wrong: the file is not the one that was published, or is being written,
 * before or after the read. Then the answer is ESTALE, and the consumer looks up again
 * (serve_work(), serve_refused.c).
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utlist.h>

#include "dht/base.h"
#include "engine/core/local_file.h"
#include "engine/core/module.h"
#include "engine/fetch/prefetch.h"
#include "engine/fetch/relay.h"
#include "engine/fetch/serve.h"
#include "engine/fetch/serve_absent_owner.h"
#include "engine/fetch/serve_refused.h"
#include "engine/fetch/transfer.h"
#include "engine/promoted/promoted.h"
#include "engine/publish/pieces_take.h"
#include "engine/publish/produce.h"
#include "util/crash.h"
#include "store/extents.h"
#include "util/clock.h"
#include "util/digest.h"
#include "util/fd_close.h"
#include "util/log.h"
#include "util/read_at.h"
#include "util/quota.h"

#define CHUNK_MAX (64ull << 20)
#define GETS_MAX  131072u /* of one rank: 64 chunks of each of 2,048 files */

enum served_state {
    SERVED_HELD,     /* until a publish of ours has ended */
    SERVED_COMING,   /* the bytes, in a fetch of ours */
    SERVED_SEARCHED, /* for, in the journals of others */
    SERVED_FOUND,    /* there, or not */
    SERVED_QUEUED,
    SERVED_READING,
    SERVED_SENDING
};

struct served {
    struct served *prev, *next; /* utlist */
    struct engine_io io;
    struct member *member;
    struct member_dmd *dmd;
    enum served_state state;
    uint32_t rank;
    uint8_t flags; /* of the GET */
    uint64_t id, offset, length;
    char *upath;
    struct dyad_entry entry;    /* that is asked for; entry.upath is upath */
    bool ahead;                 /* NET_DATA_AHEAD */
    bool other;                 /* it is another rank's of our node */
    struct store_record record; /* entry.upath is upath */
    int fd; /* of the fetch that has the bytes; -1: the file is opened by its name */
    void *data;
    uint64_t digest; /* of it, or 0 */
    int error;
    struct net_post post;
};

struct serve {
    struct served *served;  /* utlist: GETs being answered or waiting for a buffer */
    unsigned busy;          /* buffers in use */
    struct net_timer *held; /* NULL: none was held yet */
    bool timed;             /* it is set */
    struct util_quota gets;
};

static void serve_queue(struct member *member);
static void serve_try(struct served *s);
static void held_later(struct member *member);

static void served_free(struct served *s)
{
    DL_DELETE(OWN(s->member, serve)->served, s);
    util_quota_return(&OWN(s->member, serve)->gets, s->rank);
    if (s->fd >= 0)
        close(s->fd);
    free(s->data);
    free(s->upath);
    free(s);
}

static void served_refuse(struct served *s, int error)
{
    struct net_msg reply = {.type = NET_MSG_ERROR, .id = s->id, .status = error};

    member_send(s->member, s->rank, &reply);
    served_free(s);
}

/* --- on a pool thread, or the loop's --- */

/* A symbolic link's bytes are its target. */
static int read_link(struct served *s)
{
    char target[PATH_MAX];
    ssize_t n = store_dir_readlink(s->dmd->dir, s->upath, target, sizeof(target));

    if (n < 0)
        return -1;
    if ((uint64_t)n != s->record.entry.size) {
        errno = ESTALE;
        return -1;
    }
    memcpy(s->data, target + s->offset, s->length); /* serve_find() has seen the bounds */
    return 0;
}

static int read_part(struct served *s, int fd)
{
    ssize_t n = util_read_at(fd, s->data, s->length, s->offset);

    if (n < 0 || (uint64_t)n == s->length)
        return n < 0 ? -1 : 0;
    if (!(s->flags & NET_GET_JOINS)) {
        errno = ESTALE; /* shorter than what was published */
        return -1;
    }
    s->ahead = true; /* one that writes it has cut it */
    memset((char *)s->data + n, 0, s->length - (size_t)n);
    return 0;
}

static int read_chunk(struct served *s)
{
    if (S_ISLNK(s->record.entry.mode))
        return read_link(s);

    int fd = store_dir_open(s->dmd->dir, s->upath, O_RDONLY, 0);
    int rc = fd < 0 ? -1 : read_part(s, fd);

    util_fd_close(fd);
    return rc;
}

/* True if processes have it open, or are about to, who record what they write, and have not
 * written since it was published, or only behind its end, or the asker joins them: another one that
 * opens it with them needs it. */
static bool is_unwritten(struct served *s)
{
    const struct store_record *record = &s->record;
    const struct store_identity *id = &record->identity;
    const struct dyad_entry *entry = &record->entry;
    const struct dyad_base version = dht_base_from(entry);
    struct store_extent_list list;
    struct stat st;
    bool is;

    if (!s->dmd->extents || !S_ISREG(entry->mode) ||
        !store_marks_recorded(s->dmd->marks, 0, id->ino, id->btime))
        return false;
    if (store_marks_all_begin(s->dmd->marks, id->ino, id->btime) &&
        local_file_is_same(s->dmd, record))
        return true;
    /* What was written by another name of the file, and closed, is not published by this one. */
    if (!store_marks_dirty(s->dmd->marks, NULL, id->ino, id->btime, NULL) ||
        store_extents_list(s->dmd->extents, id->ino, id->btime, &version, 0, 0, &list) < 0)
        return false;
    is = list.ncuts == 0 && (list.n == 0 || list.extent[0].offset >= entry->size);
    store_extent_list_free(&list);
    if (store_dir_stat(s->dmd->dir, s->upath, &st) < 0 || st.st_ino != id->ino)
        return false;
    is = is && (uint64_t)st.st_size >= entry->size;
    s->ahead |= !is;
    return is || (s->flags & NET_GET_JOINS);
}

static bool is_as_published(struct served *s)
{
    return local_file_still_there(s->dmd, &s->record) || is_unwritten(s);
}

static void serve_work(void *arg)
{
    struct served *s = arg;

    s->error = 0;
    if (s->fd < 0 && !is_as_published(s)) {
        s->error = ESTALE;
        return;
    }
    if (!(s->data = malloc(s->length ? s->length : 1))) {
        s->error = ENOMEM;
        return;
    }
    if (s->fd >= 0) {
        s->error = read_part(s, s->fd) < 0 ? errno : 0;
        return;
    }
    if (read_chunk(s) < 0)
        s->error = errno == ENOENT ? ESTALE : errno;
    else if (!is_as_published(s))
        s->error = ESTALE;
    else if (!(s->flags & (NET_GET_RELAY | NET_GET_JOINS)) &&
             relay_is_large(s->member, &s->record.entry))
        s->digest = util_digest(s->data, s->length);
}

/* --- on the loop --- */

static void serve_sent(void *arg, int status)
{
    struct served *s = arg;
    struct member *member = s->member;

    if (status == 0)
        member->stats.bytes_served += s->length;
    served_free(s);
    OWN(member, serve)->busy--;
    serve_queue(member);
}

static void self_sent(void *arg)
{
    serve_sent(arg, 0);
}

/* A rank that fetches from itself (its two DMDs cannot see each other): through memory. */
static void send_to_self(struct served *s, struct net_msg *reply)
{
    reply->source = s->rank;
    if (transfer_receive(s->member, reply, s->data, s->length))
        s->data = NULL;
    net_loop_post(s->member->loop, &s->post, self_sent, s);
}

static void refused(struct served *s)
{
    struct member *member = s->member;
    /* The asker turns to our member, or to the owner, who sees to it. */
    if (member->hands_over || (s->flags & NET_GET_RELAY) ||
        pieces_are_taken(member, s->upath))
        return;
    bool producer = s->dmd == &member->dmd[ENGINE_PRODUCER];

    serve_refused_publish(member, producer ? ENGINE_PRODUCER : ENGINE_CONSUMER, s->upath,
                          &s->entry.version,
                          "was changed, or given other times, after it was closed");
}

/* As the file that it is by now. */
static void read_again(struct served *s)
{
    struct member *member = s->member;

    close(s->fd);
    s->fd = -1;
    free(s->data);
    s->data = NULL;
    OWN(member, serve)->busy--;
    serve_try(s);
    serve_queue(member);
}

static void serve_done(void *arg)
{
    struct served *s = arg;
    struct member *member = s->member;
    struct net_msg reply = {
        .type = NET_MSG_DATA,
        .flags = s->ahead ? NET_DATA_AHEAD : 0,
        .id = s->id,
        .entry = s->record.entry,
        .offset = s->offset,
        .length = s->length,
        .digest = s->flags & NET_GET_RELAY
                      ? relay_digest(member, &s->entry, s->offset, s->length)
                      : s->digest,
    };

    if (s->fd >= 0 &&
        !transfer_is_partial(member, &s->entry, s->fd)) { /* read before that? */
        read_again(s);
        return;
    }
    if (s->error) {
        if (s->error == ESTALE && s->other)
            s->error = EHOSTUNREACH; /* what becomes of it is not for us to say */
        else if (s->error == ESTALE)
            refused(s);
        OWN(member, serve)->busy--;
        served_refuse(s, s->error);
        serve_queue(member);
        return;
    }
    s->state = SERVED_SENDING;
    if (s->rank == member->self.rank)
        send_to_self(s, &reply);
    else if (net_worker_send(member->worker, s->rank, &reply, s->data, s->length,
                             serve_sent, s) < 0)
        serve_sent(s, errno);
}

static void serve_queue(struct member *member)
{
    struct served *s;

    if (member->state == MEMBER_LEAVING)
        return;
    DL_FOREACH(OWN(member, serve)->served, s)
    {
        if (OWN(member, serve)->busy >= MEMBER_SERVE_BUFFERS)
            return;
        if (s->state != SERVED_QUEUED)
            continue;
        s->state = SERVED_READING;
        OWN(member, serve)->busy++;
        local_file_job(member, s->dmd, s->length, &s->io, serve_work, serve_done, s);
    }
}

static bool has_range(const struct served *s)
{
    uint64_t size = s->record.entry.size;

    return s->length <= CHUNK_MAX && s->offset <= size && s->length <= size - s->offset;
}

/* Find our own file that the GET means. 0; or EAGAIN: a publish is under way; or ESTALE;
 * or ENOENT: there is none. */
static int find_own(struct served *s)
{
    struct member *member = s->member;
    int status = ENOENT;

    if (produce_pending(member, s->upath) || pieces_are_taken(member, s->upath))
        return EAGAIN;
    for (int i = 1; i >= 0; i--) { /* the producer's directory first */
        struct member_dmd *dmd = &member->dmd[i];
        const struct store_record *record;
        int order;
        if (!dmd->journal || !(record = store_journal_find(dmd->journal, s->upath)))
            continue;
        order = dyad_version_cmp(&record->entry.version, &s->entry.version);
        if (order > 0)
            status = ESTALE;
        if (order != 0)
            continue;
        s->dmd = dmd;
        s->record = *record;
        return 0;
    }
    return status;
}

/* A publish may take long that waits for homes beyond a cut. Who asks for the file would take us for dead. */
static void held_tell(void *arg)
{
    struct member *member = arg;
    struct serve *serve = OWN(member, serve);
    struct served *s;

    serve->timed = false;
    DL_FOREACH(serve->served, s)
    {
        struct net_msg reply = {.type = NET_MSG_ERROR, .id = s->id, .status = EINPROGRESS};
        if (s->state != SERVED_HELD)
            continue;
        member_send(member, s->rank, &reply);
        held_later(member);
    }
}

static void held_later(struct member *member)
{
    struct serve *serve = OWN(member, serve);
    double pause = member->config->peer_timeout / 3;

    if (serve->timed || (!serve->held && !(serve->held = net_timer_create(
                                               member->loop, held_tell, member))))
        return; /* it is asked for again */
    serve->timed = true;
    net_timer_start(serve->held,
                    util_clock_now() + (uint64_t)(pause * (double)UTIL_NSEC_PER_SEC));
}

static bool is_same(const struct dyad_entry *a, const struct dyad_entry *b)
{
    return strcmp(a->upath, b->upath) == 0 &&
           dyad_version_cmp(&a->version, &b->version) == 0;
}

/* As serve_absent_owner_find(); it is searched for once. */
static int find_other(struct served *s)
{
    struct served *before;

    DL_FOREACH(OWN(s->member, serve)->served, before)
    {
        if (before != s && before->state == SERVED_SEARCHED &&
            is_same(&before->entry, &s->entry))
            return EINPROGRESS;
    }
    return serve_absent_owner_find(s->member, &s->entry, &s->dmd, &s->record);
}

static void serve_try(struct served *s)
{
    struct member *member = s->member;
    bool relays = s->flags & NET_GET_RELAY;
    int status = ENOENT;

    if (relays) {
        DYAD_CRASH_POINT("relay-asked");
        status = transfer_part(member, &s->entry, s->offset + s->length, &s->fd);
        s->record.entry = s->entry;
        s->dmd = &member->dmd[ENGINE_CONSUMER];
    }
    if (status == EAGAIN) {
        s->state = SERVED_COMING;
        return;
    }
    if (status == ENOENT && (status = find_own(s)) == EAGAIN) {
        s->state = SERVED_HELD;
        held_later(member);
        return;
    }
    if (status == ENOENT && !relays) {
        s->other = s->entry.owner != member->self.rank;
        status = s->other ? find_other(s) : ESTALE;
    }
    if (status == EINPROGRESS) {
        s->state = SERVED_SEARCHED;
        return;
    }
    s->record.entry.upath = s->upath;
    if (status == 0 && !has_range(s))
        status = EINVAL;
    if (status) {
        served_refuse(s, status);
    } else if (!s->other && !(s->flags & NET_GET_OWNER) &&
               (relay_redirect(member, s->rank, s->id, &s->record.entry) ||
                promoted_redirect(member, s->rank, s->id, &s->record))) {
        served_free(s);
    } else {
        if (relays && s->fd < 0)
            prefetch_is_read(member, s->upath);
        s->state = SERVED_QUEUED;
        serve_queue(member);
    }
}

static struct served *served_create(struct member *member, const struct net_msg *msg)
{
    struct util_quota *gets = &OWN(member, serve)->gets;
    bool may = util_quota_take(gets, msg->source, GETS_MAX, "GETs that wait");
    struct served *s = may ? calloc(1, sizeof(*s)) : NULL;
    struct net_msg reply = {.type = NET_MSG_ERROR, .id = msg->id, .status = ENOMEM};

    if (!s || !(s->upath = strdup(msg->entry.upath))) {
        if (may)
            util_quota_return(gets, msg->source);
        free(s);
        member_send(member, msg->source, &reply);
        return NULL;
    }
    s->member = member;
    s->rank = msg->source;
    s->flags = msg->flags;
    s->id = msg->id;
    s->offset = msg->offset;
    s->length = msg->length;
    s->entry = msg->entry;
    s->entry.upath = s->upath;
    s->fd = -1;
    DL_APPEND(OWN(member, serve)->served, s);
    return s;
}

static void serve_get(struct member *member, const struct net_msg *msg)
{
    struct served *s = served_create(member, msg);

    DYAD_CRASH_POINT("serve-asked"); /* UCX is in the midst of its progress */
    if (s)
        serve_try(s);
}

/* Our member has told the asker which file it is; it is compared before and after the
 * read, as a file of the journal is. */
void serve_get_direct(struct member *member, const struct net_msg *msg)
{
    struct served *s = served_create(member, msg);

    if (!s)
        return;
    s->record.entry = msg->entry;
    s->record.entry.upath = s->upath;
    s->record.identity.ino = msg->ino;
    s->record.identity.btime = msg->btime;
    for (int i = 1; i >= 0 && !s->dmd; i--) {
        struct member_dmd *dmd = &member->dmd[i];
        if (dmd->dir && dyad_storage_equal(msg->entry.storage, store_dir_id(dmd->dir)))
            s->dmd = dmd;
    }
    if (!has_range(s)) {
        served_refuse(s, EINVAL);
    } else if (!s->dmd) {
        served_refuse(s, ESTALE);
    } else {
        s->state = SERVED_QUEUED;
        serve_queue(member);
    }
}

static void try_all(struct member *member, enum served_state state, const char *upath)
{
    struct served *s, *tmp;

    DL_FOREACH_SAFE(OWN(member, serve)->served, s, tmp)
    {
        if (s->state == state && strcmp(s->upath, upath) == 0)
            serve_try(s);
    }
}

static void serve_published(struct member *member, const char *upath)
{
    try_all(member, SERVED_HELD, upath);
}

static void serve_fetch_grew(struct member *member, const char *upath)
{
    try_all(member, SERVED_COMING, upath);
}

void serve_searched(struct member *member, const struct dyad_entry *entry, int error)
{
    struct served *s, *tmp;

    /* First: nothing is searched for any more. */
    DL_FOREACH(OWN(member, serve)->served, s)
    {
        if (s->state == SERVED_SEARCHED && is_same(&s->entry, entry))
            s->state = SERVED_FOUND;
    }
    DL_FOREACH_SAFE(OWN(member, serve)->served, s, tmp)
    {
        if (s->state != SERVED_FOUND || !is_same(&s->entry, entry))
            continue;
        if (error)
            served_refuse(s, error);
        else
            serve_try(s);
    }
}

/* After the pool's threads and the worker are gone. */
void serve_stop(struct member *member)
{
    struct served *s, *tmp;

    DL_FOREACH_SAFE(OWN(member, serve)->served, s, tmp)
    {
        served_free(s);
    }
    util_quota_clear(&OWN(member, serve)->gets);
    if (OWN(member, serve)->held)
        net_timer_destroy(OWN(member, serve)->held);
}

static bool get_asked(struct member *member, const struct net_msg *msg, void **payload,
                      size_t len)
{
    (void)payload;
    (void)len;
    serve_get(member, msg);
    return true;
}

const struct member_module serve_module = {
    .own = MODULE_OWN(serve),
    .messages = (const struct member_message[]){{NET_MSG_GET, get_asked}, {0}},
    .published = serve_published,
    .fetch_grew = serve_fetch_grew,
    .destroy = serve_stop,
};
