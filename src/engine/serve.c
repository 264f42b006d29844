/*
 * serve.c - the owner's side of a fetch: one chunk per GET
 *
 * The file is opened anew for each chunk (a few microseconds against a megabyte), so no
 * state is kept for a consumer that may die. Before and after the read it must be the file
 * that was published, and nobody may be writing it; else the answer is ESTALE and the
 * consumer looks up again. At most MEMBER_SERVE_BUFFERS chunks are in memory; more GETs
 * wait in `served`, first come first served.
 *
 * A file that was changed without leaving a mark (by a program that is not preloaded) is
 * published anew.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <utlist.h>

#include "engine/member.h"
#include "util/log.h"

#define CHUNK_MAX (64ull << 20)

enum served_state { SERVED_HELD, SERVED_QUEUED, SERVED_READING, SERVED_SENDING };

struct served {
    struct served *prev, *next; /* utlist */
    struct engine_io io;
    struct member *member;
    struct member_side *side;
    enum served_state state;
    uint32_t rank;
    uint64_t id, offset, length;
    char *upath;
    struct dyad_version version;
    struct store_record record; /* entry.upath is upath */
    void *data;
    int error;
    struct net_post post;
};

static void serve_queue(struct member *member);

static void served_free(struct served *s)
{
    DL_DELETE(s->member->served, s);
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

/* --- on a pool thread --- */

static int read_chunk(struct served *s)
{
    char *p = s->data;
    uint64_t at = s->offset, left = s->length;
    int fd = store_dir_open(s->side->dir, s->upath, O_RDONLY, 0);
    int rc = -1;

    if (fd < 0)
        return -1;
    while (left > 0) {
        ssize_t n = pread(fd, p, left, (off_t)at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            goto done;
        if (n == 0) {
            errno = ESTALE; /* shorter than what was published */
            goto done;
        }
        p += n;
        at += (uint64_t)n;
        left -= (uint64_t)n;
    }
    rc = 0;
done:
    close(fd);
    return rc;
}

static void serve_work(void *arg)
{
    struct served *s = arg;

    s->error = 0;
    if (!produce_still_there(s->side, &s->record)) {
        s->error = ESTALE;
        return;
    }
    if (!(s->data = malloc(s->length ? s->length : 1))) {
        s->error = ENOMEM;
        return;
    }
    if (read_chunk(s) < 0)
        s->error = errno == ENOENT ? ESTALE : errno;
    else if (!produce_still_there(s->side, &s->record))
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
    member->serving--;
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

/* ESTALE although nobody has it open: somebody wrote to it behind our back. */
static void publish_if_changed(struct served *s)
{
    struct member *member = s->member;
    struct store_identity id;
    enum engine_side side =
        s->side == &member->side[ENGINE_PRODUCER] ? ENGINE_PRODUCER : ENGINE_CONSUMER;
    int fd = store_dir_open(s->side->dir, s->upath, O_PATH | O_NOFOLLOW, 0);

    if (fd < 0)
        return;
    if (store_identity_read(fd, &id) == 0 &&
        !store_marks_dirty(s->side->marks, s->upath, id.ino, id.btime, NULL) &&
        !produce_pending(member, s->upath)) {
        log_warn(
            "\"%s\" was changed by a program that does not run under dyad: publishing it "
            "anew",
            s->upath);
        produce_start(member, side, s->upath, 0, NULL, NULL);
    }
    close(fd);
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
        if (s->error == ESTALE)
            publish_if_changed(s);
        member->serving--;
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
    DL_FOREACH(member->served, s)
    {
        if (member->serving >= MEMBER_SERVE_BUFFERS)
            return;
        if (s->state != SERVED_QUEUED)
            continue;
        s->state = SERVED_READING;
        member->serving++;
        engine_io_submit(member->io, &s->io, serve_work, serve_done, s);
    }
}

/* What of ours does the GET mean? 0; or EAGAIN: a publish is under way; or ESTALE. */
static int serve_find(struct served *s)
{
    struct member *member = s->member;

    if (produce_pending(member, s->upath))
        return EAGAIN;
    for (int i = 1; i >= 0; i--) { /* the producer's directory first */
        struct member_side *side = &member->side[i];
        const struct store_record *record;
        if (!side->journal || !(record = store_journal_find(side->journal, s->upath)) ||
            dyad_version_cmp(&record->entry.version, &s->version) != 0)
            continue;
        if (s->length > CHUNK_MAX || s->offset > record->entry.size ||
            s->length > record->entry.size - s->offset)
            return EINVAL;
        s->side = side;
        s->record = *record;
        s->record.entry.upath = s->upath;
        return 0;
    }
    return ESTALE;
}

static void serve_try(struct served *s)
{
    struct member *member = s->member;
    int status = serve_find(s);

    if (status == EAGAIN) {
        s->state = SERVED_HELD;
    } else if (status) {
        served_refuse(s, status);
    } else {
        s->state = SERVED_QUEUED;
        serve_queue(member);
    }
}

void serve_get(struct member *member, const struct net_msg *msg)
{
    struct served *s = calloc(1, sizeof(*s));
    struct net_msg reply = {.type = NET_MSG_ERROR, .id = msg->id, .status = ENOMEM};

    if (!s || !(s->upath = strdup(msg->entry.upath))) {
        free(s);
        member_send(member, msg->source, &reply);
        return;
    }
    s->member = member;
    s->rank = msg->source;
    s->id = msg->id;
    s->offset = msg->offset;
    s->length = msg->length;
    s->version = msg->entry.version;
    DL_APPEND(member->served, s);
    serve_try(s);
}

void serve_published(struct member *member, const char *upath)
{
    struct served *s, *tmp;

    DL_FOREACH_SAFE(member->served, s, tmp)
    {
        if (s->state == SERVED_HELD && strcmp(s->upath, upath) == 0)
            serve_try(s);
    }
}

/* After the pool's threads and the worker are gone. */
void serve_stop(struct member *member)
{
    struct served *s, *tmp;

    DL_FOREACH_SAFE(member->served, s, tmp)
    {
        served_free(s);
    }
}
