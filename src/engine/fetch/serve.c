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
 * (serve_work(), publish_if_same()).
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utlist.h>

#include "engine/core/local_file.h"
#include "engine/core/module.h"
#include "engine/fetch/relay.h"
#include "engine/fetch/serve.h"
#include "engine/fetch/serve_absent_owner.h"
#include "engine/fetch/transfer.h"
#include "engine/membership/exit_barrier.h"
#include "engine/promoted/promoted.h"
#include "engine/publish/produce.h"
#include "util/crash.h"
#include "util/fd_close.h"
#include "util/log.h"

#define CHUNK_MAX (64ull << 20)

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
    bool other;                 /* it is another rank's of our node */
    struct store_record record; /* entry.upath is upath */
    int fd; /* of the fetch that has the bytes; -1: the file is opened by its name */
    void *data;
    int error;
    struct net_post post;
};

struct serve {
    struct served *served;       /* utlist: GETs being answered or waiting for a buffer */
    unsigned busy;               /* buffers in use */
    struct serve_watch *watches; /* utlist */
};

static void serve_queue(struct member *member);

static void served_free(struct served *s)
{
    DL_DELETE(OWN(s->member, serve)->served, s);
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

static int read_part(const struct served *s, int fd)
{
    char *p = s->data;
    uint64_t at = s->offset, left = s->length;

    while (left > 0) {
        ssize_t n = pread(fd, p, left, (off_t)at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        if (n == 0) {
            errno = ESTALE; /* shorter than what was published */
            return -1;
        }
        p += n;
        at += (uint64_t)n;
        left -= (uint64_t)n;
    }
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

static void serve_work(void *arg)
{
    struct served *s = arg;

    s->error = 0;
    if (s->fd < 0 && !local_file_still_there(s->dmd, &s->record)) {
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
    else if (!local_file_still_there(s->dmd, &s->record))
        s->error = ESTALE;
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

/* --- publishing a newer version after a GET was refused --- */

struct serve_watch { /* freed by the pool if the member is gone first */
    struct engine_io io;
    struct serve_watch *prev, *next; /* utlist */
    struct member *member;
    struct store_marks *marks;
    store_mark_t mark;
    int fd;
    enum engine_role role;
    struct dyad_version version; /* that was refused */
    char upath[];
};

static void publish_if_same(struct member *member, enum engine_role role, const char *upath,
                            const struct dyad_version *version, const char *why);

static void watch_work(void *arg)
{
    struct serve_watch *w = arg;

    store_marks_wait(w->marks, w->mark, w->fd);
    store_marks_destroy(w->marks);
    close(w->fd);
}

static void watch_done(void *arg)
{
    struct serve_watch *w = arg;

    DL_DELETE(OWN(w->member, serve)->watches, w);
    publish_if_same(w->member, w->role, w->upath, &w->version, NULL);
    exit_barrier_activity(w->member);
    free(w);
}

/* The thread of such a watch will come back by itself. (It may have closed its descriptor
 * by now; then it is on its way.) */
static bool serve_pending(struct member *member)
{
    const struct serve_watch *w;

    DL_FOREACH(OWN(member, serve)->watches, w)
    {
        struct store_marks *marks = member->dmd[w->role].marks;
        if (!store_marks_stays_dirty(marks, w->mark, 0) ||
            store_marks_ruling_due(marks, w->mark, w->fd))
            return true;
    }
    return false;
}

static void watch_start(struct member *member, enum engine_role role, const char *upath,
                        const struct dyad_version *version, store_mark_t mark)
{
    struct serve_watch *w;

    DL_FOREACH(OWN(member, serve)->watches, w)
    {
        if (w->role == role && strcmp(w->upath, upath) == 0)
            return;
    }
    if (!(w = calloc(1, sizeof(*w) + strlen(upath) + 1)))
        return;
    w->member = member;
    w->role = role;
    w->mark = mark;
    w->version = *version;
    strcpy(w->upath, upath);
    w->fd = store_dir_open(member->dmd[role].dir, upath, O_RDONLY, 0);
    /* A mapping of its own: the thread may outlive the member. */
    w->marks = w->fd >= 0 ? store_marks_create(member->dmd[role].dir) : NULL;
    if (!w->marks || engine_io_spawn(member->io, &w->io, watch_work, watch_done, w) < 0) {
        log_warn("cannot wait for the writer of \"%s\": %m", upath);
        if (w->marks)
            store_marks_destroy(w->marks);
        if (w->fd >= 0)
            close(w->fd);
        free(w);
        return;
    }
    DL_APPEND(OWN(member, serve)->watches, w);
}

/* A consumer that was refused waits for a newer version, so one must come. A writer that
 * has the file open publishes it when it closes, but only if it has changed it: the
 * thread of a `watch` waits for it and sees. If the version that was refused is still the
 * last one, and nobody has the file open for writing, it was changed without leaving a
 * mark (by a program that is not preloaded), and is published anew. `why`: for people, if
 * it is so now. */
static void publish_if_same(struct member *member, enum engine_role role, const char *upath,
                            const struct dyad_version *version, const char *why)
{
    struct member_dmd *s = &member->dmd[role];
    const struct store_record *record;
    struct store_mark_info info;
    struct store_identity id;
    int fd;

    if (member->state == MEMBER_LEAVING || produce_pending(member, upath) ||
        !(record = store_journal_find(s->journal, upath)) ||
        dyad_version_cmp(&record->entry.version, version) != 0 ||
        (fd = store_dir_open(s->dir, upath, O_PATH | O_NOFOLLOW, 0)) < 0)
        return;
    if (store_identity_read(fd, &id) == 0) {
        if (store_marks_dirty(s->marks, upath, id.ino, id.btime, &info)) {
            if (info.state != STORE_MARK_ABANDONED)
                watch_start(member, role, upath, version, info.mark);
        } else {
            if (why)
                log_warn("\"%s\" %s: publishing it anew", upath, why);
            produce_start(member, role, upath, 0, NULL, NULL);
        }
    }
    close(fd);
}

static void refused(struct served *s)
{
    struct member *member = s->member;
    /* The asker turns to our member, or to the owner, who sees to it. */
    if (member->hands_over || (s->flags & NET_GET_RELAY))
        return;
    bool producer = s->dmd == &member->dmd[ENGINE_PRODUCER];

    publish_if_same(member, producer ? ENGINE_PRODUCER : ENGINE_CONSUMER, s->upath,
                    &s->entry.version,
                    "was changed, or given other times, after it was closed");
}

static void serve_done(void *arg)
{
    struct served *s = arg;
    struct member *member = s->member;
    struct net_msg reply = {
        .type = NET_MSG_DATA,
        .id = s->id,
        .entry = s->record.entry,
        .offset = s->offset,
        .length = s->length,
    };

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

    if (produce_pending(member, s->upath))
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
        s->state = SERVED_QUEUED;
        serve_queue(member);
    }
}

static struct served *served_create(struct member *member, const struct net_msg *msg)
{
    struct served *s = calloc(1, sizeof(*s));
    struct net_msg reply = {.type = NET_MSG_ERROR, .id = msg->id, .status = ENOMEM};

    if (!s || !(s->upath = strdup(msg->entry.upath))) {
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
    .pending = serve_pending,
    .destroy = serve_stop,
};
