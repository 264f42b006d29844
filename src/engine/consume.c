/*
 * consume.c - make a file present and complete on this node, or say why not
 *
 * A consume goes round these steps until one ends it:
 * - here and complete: done; on storage that nodes share when no other node writes it;
 * - here, but its writer on another node died over it: look up a newer version;
 * - here, being written: wait for its publish (a look-up for a newer version) and for the
 *   writer's descriptions to go (a thread in the kernel's lock wait);
 * - not here: look up, waiting if asked to;
 * - published in a storage that we see: look here again; if it is not complete, wait for a
 *   newer version;
 * - published elsewhere: fetch (transfer.c); a stale answer: look up a newer version.
 *
 * Each round trip back to the look-up asks for a version above the last one seen, so it
 * cannot spin. What is waiting in a look-up ends by DYAD_TIMEOUT, by its process's death,
 * or by the verdict that nobody is left; in a session directory there is no such verdict,
 * and a file whose owner has gone is waited for like one that nobody has published.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utlist.h>

#include "boot/procs.h"
#include "engine/member.h"
#include "util/clock.h"
#include "util/log.h"

#define SAY_AFTER  (10 * UTIL_NSEC_PER_SEC)
#define LOST_AGAIN (UTIL_NSEC_PER_SEC)
/* An owner that comes and goes, or with which no connection holds, does not make a wait
 * endless. */
#define RETURNS_MAX 1
#define LOST_MAX    (5 * UTIL_NSEC_PER_SEC)

struct consume {
    struct consume *prev, *next; /* utlist */
    struct member *member;
    char *upath;
    struct ancestor *ancestor; /* the directories above, if they are not here */
    uint8_t flags;
    uint64_t timeout_ms;
    pid_t pid, tid;
    consume_fn fn;
    void *arg;
    uint64_t since;
    uint64_t say_interval;
    struct net_timer *deadline, *say;
    struct dyad_version seen;         /* look for versions above this one */
    struct dyad_version before_lost;  /* `seen` before the version that is being fetched */
    struct dyad_version lost_version; /* that one, if its owner is gone */
    uint32_t owner;
    struct dht_lookup *lookup;
    struct dht_lookup *check;        /* for the barrier, beside `lookup` */
    struct dht_settle *settle;       /* it is here: does another node write it? */
    struct dht_settle *settle_check; /* for the barrier, beside `settle` */
    bool regular;                    /* what is here is a regular file */
    bool left_by_other;              /* who wrote it on another node is gone: was said */
    bool in_sight;           /* the look-up said that it is published in this storage */
    uint64_t unseen_since;   /* but it is not seen here since then; 0: that was not so */
    struct dyad_entry entry; /* what was found, while `bring` makes its directories */
    struct bring *bring;
    bool stale; /* it is out of date by now */
    struct transfer_wait transfer;
    bool transferring;
    bool abandoned; /* who wrote it here died over it */
    bool
        for_writer; /* NET_LOOKUP_WAIT was not asked for: it is for a writer on this node */
    uint64_t put_off;    /* the deadline came while we were not running: until then; or 0 */
    bool late;           /* the deadline came while it was being fetched: no more waiting */
    uint64_t lost_since; /* the owner is gone since then; 0: it is not */
    uint32_t lost_owner;
    unsigned returns;       /* of lost owners */
    struct net_timer *lost; /* runs while we wait for the owner */
    bool lost_waiting;
    uint64_t lost_interval;
    bool said_alone; /* consume_say_waiting() */
    bool failing;    /* lookup or settle is the last look before it is given up */
    struct writer_watch *watch;
    pid_t writer; /* > 0: it is here and this process has it open for writing */
    struct net_post post;
    bool posted, cancelled;
    int status; /* with `posted`: -1: take a step, else the end */
};

static void consume_step(struct consume *c);

/* --- waiting for a writer on this node: a thread that sleeps in a lock --- */

struct writer_watch { /* freed by the pool if the member is gone first: see
                         engine_io_spawn() */
    struct engine_io io;
    struct store_marks *marks;
    store_mark_t mark;
    int fd;
    struct consume *consume; /* NULL: it has ended meanwhile */
};

static void watch_work(void *arg)
{
    struct writer_watch *w = arg;

    store_marks_wait(w->marks, w->mark, w->fd);
    store_marks_rule(w->marks, w->mark, w->fd);
    store_marks_destroy(w->marks);
    close(w->fd);
}

static void watch_done(void *arg)
{
    struct writer_watch *w = arg;
    struct consume *c = w->consume;

    free(w);
    if (c) {
        c->watch = NULL;
        consume_step(c);
    }
}

static void watch_start(struct consume *c, struct member_side *side,
                        const struct store_mark_info *info, int fd)
{
    struct writer_watch *w;

    if (c->watch || !(w = calloc(1, sizeof(*w))))
        return;
    /* A mapping of its own: the thread may outlive the member. */
    w->marks = store_marks_create(side->dir);
    w->mark = info->mark;
    w->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    w->consume = c;
    if (!w->marks || w->fd < 0 ||
        engine_io_spawn(c->member->io, &w->io, watch_work, watch_done, w) < 0) {
        log_warn("cannot wait for the writer of \"%s\": %m", c->upath);
        if (w->fd >= 0)
            close(w->fd);
        if (w->marks)
            store_marks_destroy(w->marks);
        free(w);
        return;
    }
    c->watch = w;
}

/* --- the end --- */

/* The look-ups of a wave are counted in member->checks. One that is dropped belongs to a
 * wait that ended, which the barrier is told by linger_activity(): whatever is answered
 * then, it is not quiet. */
static void check_drop(struct consume *c)
{
    if (c->settle_check) {
        dht_node_settle_cancel(c->member->dht, c->settle_check);
        c->settle_check = NULL;
        c->member->checks--;
    }
    if (!c->check)
        return;
    dht_node_cancel(c->member->dht, c->check);
    c->check = NULL;
    c->member->checks--;
}

static void consume_free(struct consume *c)
{
    DL_DELETE(c->member->consumes, c);
    if (c->lookup)
        dht_node_cancel(c->member->dht, c->lookup);
    if (c->settle)
        dht_node_settle_cancel(c->member->dht, c->settle);
    check_drop(c);
    if (c->ancestor)
        ancestor_stop(c->ancestor);
    if (c->bring)
        bring_cancel(c->bring);
    if (c->transferring)
        transfer_leave(&c->transfer);
    if (c->watch)
        c->watch->consume = NULL;
    if (c->deadline)
        net_timer_destroy(c->deadline);
    if (c->say)
        net_timer_destroy(c->say);
    if (c->lost)
        net_timer_destroy(c->lost);
    free(c->upath);
    free(c);
}

static void consume_end(struct consume *c, int status)
{
    struct member *member = c->member;
    consume_fn fn = c->fn;
    void *arg = c->arg;

    if (c->posted) { /* the loop still has our node: end when it comes */
        c->status = status;
        return;
    }
    consume_free(c);
    linger_activity(member);
    fn(arg, status);
}

static void consume_posted(void *arg)
{
    struct consume *c = arg;

    c->posted = false;
    if (c->cancelled)
        consume_free(c);
    else if (c->status >= 0)
        consume_end(c, c->status);
    else
        consume_step(c);
}

void consume_cancel(struct consume *c)
{
    if (c->posted) {
        c->cancelled = true;
        return;
    }
    struct member *member = c->member;
    consume_free(c);
    linger_activity(member);
}

/* --- steps --- */

static void looked_up(void *arg, int status, const struct dyad_entry *entry);
static void deadline_passed(void *arg);

/* False: it has ended. */
static bool look_up(struct consume *c)
{
    /* KEEP: an open that does not wait may be one of a loop. */
    uint8_t flags =
        NET_LOOKUP_COPY | NET_LOOKUP_KEEP | (c->late ? 0 : c->flags & NET_LOOKUP_WAIT);

    if (c->lookup)
        return true; /* waits already */
    c->lookup = dht_node_lookup(c->member->dht, c->upath, flags, &c->seen, looked_up, c);
    if (!c->lookup) {
        consume_end(c, ENOMEM);
        return false;
    }
    linger_activity(c->member);
    return true;
}

static void lost_look(void *arg)
{
    struct consume *c = arg;

    net_timer_stop(c->lost);
    if (!c->lost_waiting) { /* it is here, and was abandoned when it was asked about last */
        consume_step(c);
        return;
    }
    c->lost_waiting = false;
    c->lost_version = c->seen;
    c->seen = c->before_lost;
    consume_step(c);
}

/* A home that was out of reach itself when the version was published which its owner cannot
 * give us now may still say what was so before: that the name had been removed, or never
 * was. It is not so. */
static bool is_overtaken(const struct consume *c, int status,
                         const struct dyad_entry *entry)
{
    return status == ENOENT && c->lost_owner != DYAD_RANK_NONE && c->lost_version.counter &&
           (!entry || dyad_version_cmp(&entry->version, &c->lost_version) < 0);
}

/* In a session directory a process may come to the owner's node that takes the file over:
 * that is waited for, as for a publish. */
static bool waits_for_heir(const struct consume *c)
{
    return c->member->ring && (c->flags & NET_LOOKUP_WAIT) && !c->late;
}

/* The owner is gone. It may come back (exec, a cut link), or the file with another owner;
 * within a bound, which begins when the rank was lost, or fell silent. It is asked and the
 * file looked up once more in any case, however long ago that was. */
static void owner_lost(struct consume *c, uint32_t owner)
{
    struct member *member = c->member;
    uint64_t now = util_clock_now();
    uint64_t bound = (uint64_t)(member->config->join_timeout * (double)UTIL_NSEC_PER_SEC);
    uint64_t lost = lost_since(member, owner);
    /* Lost since we began to wait: so that it is connected anew (lost_unserved()), perhaps
     * by our own last try. That has to have its chance. */
    bool first = !c->lost_since || c->lost_owner != owner ||
                 (lost > c->lost_since && c->returns < RETURNS_MAX);

    if (c->late && member->ring) { /* the time of its wait is over */
        c->lost_owner = owner;
        deadline_passed(c);
        return;
    }
    if (first) {
        c->lost_since = lost;
        if (!c->lost_since)
            c->lost_since =
                now - (uint64_t)(member->config->peer_timeout * (double)UTIL_NSEC_PER_SEC);
        c->lost_owner = owner;
        c->lost_interval = LOST_AGAIN;
    }
    if (!first && now - c->lost_since >= bound && !waits_for_heir(c)) {
        log_error("\"%s\" cannot be fetched: its owner, %s, has been gone for %.0f s",
                  c->upath, member_describe(member, owner),
                  (double)(now - c->lost_since) / 1e9);
        consume_end(c, EHOSTUNREACH);
        return;
    }
    member_find_again(member, owner);
    lost_ask(member, owner);
    c->lost_waiting = true;
    net_timer_start(c->lost, now + c->lost_interval);
    if (waits_for_heir(c) && (c->lost_interval *= 2) > LOST_MAX)
        c->lost_interval = LOST_MAX;
    linger_activity(member); /* it waits, and does not fetch */
}

void consume_rank_up(struct member *member, uint32_t rank)
{
    struct consume *c, *tmp;

    DL_FOREACH_SAFE(member->consumes, c, tmp)
    {
        if (c->lost_owner == rank) {
            if (c->returns++ < RETURNS_MAX)
                c->lost_since = 0; /* if it goes again, that is another time */
        } else if (!c->lost_waiting || !waits_for_heir(c)) {
            continue;
        }
        c->lost_interval = LOST_AGAIN; /* it may be one that takes the file over */
        if (c->lost_waiting && !c->posted)
            net_timer_start(c->lost,
                            util_clock_now()); /* not from inside the worker's callback */
    }
}

static void transferred(void *arg, int status)
{
    struct consume *c = arg;

    c->transferring = false;
    if (status == EHOSTUNREACH) {
        owner_lost(c, c->owner);
        return;
    }
    if (status == 0 || status == ESTALE || status == EBUSY) {
        if (status == EBUSY)
            c->seen = (struct dyad_version){0};
        consume_step(c);
        return;
    }
    consume_end(c, status);
}

static void fetch(struct consume *c, const struct dyad_entry *entry)
{
    c->transfer.fn = transferred;
    c->transfer.arg = c;
    c->transfer.pid = c->pid;
    if (transfer_start(c->member, entry, &c->transfer) < 0)
        consume_end(c, errno);
    else
        c->transferring = true;
}

/* The directory that it goes to, as it was published: with its permissions. One that nobody
 * has published is made without further ado by the fetch. */
static void parents_brought(void *arg, int status)
{
    struct consume *c = arg;

    c->bring = NULL;
    if (c->stale)
        consume_step(c); /* look up what is newer */
    else if (status == 0 || status == ENOENT)
        fetch(c, &c->entry);
    else
        consume_end(c, status);
}

void consume_invalidate(struct member *member, const struct dyad_entry *newer)
{
    struct consume *c;

    DL_FOREACH(member->consumes, c)
    {
        if (c->bring && strcmp(c->upath, newer->upath) == 0 &&
            dyad_version_cmp(&c->entry.version, &newer->version) < 0)
            c->stale = true;
    }
}

static void looked_above(void *arg, int status)
{
    struct consume *c = arg;

    if (status != EINPROGRESS) {
        consume_end(c, status);
    } else if (c->lookup) { /* it does not wait for a publish any more */
        dht_node_cancel(c->member->dht, c->lookup);
        c->lookup = NULL;
        linger_activity(c->member);
    }
}

/* EINPROGRESS: looked_above() will come; else as ancestor_start(). */
static int look_above(struct consume *c)
{
    if (c->ancestor)
        return EINPROGRESS;

    int status = ancestor_start(c->member, c->upath, c->flags & NET_LOOKUP_WAIT, c->pid,
                                c->tid, looked_above, c, &c->ancestor);
    return status == 0 ? EINPROGRESS : status;
}

static bool is_above(const char *upath, const char *below)
{
    size_t len = strlen(upath);

    return strncmp(below, upath, len) == 0 && below[len] == '/';
}

void consume_above_changed(struct member *member, const char *upath)
{
    struct consume *c, *tmp;

    DL_FOREACH_SAFE(member->consumes, c, tmp)
    {
        if (c->posted || c->transferring || c->bring || !c->lookup ||
            !(c->flags & NET_LOOKUP_WAIT) || !is_above(upath, c->upath))
            continue;
        if (c->ancestor)
            ancestor_stop(c->ancestor);
        c->ancestor = NULL;
        linger_activity(member);
        if (look_above(c) == ESTALE)
            consume_end(c, ESTALE);
    }
}

static void looked_up(void *arg, int status, const struct dyad_entry *entry)
{
    struct consume *c = arg;
    struct member *member = c->member;
    struct member_side *side = &member->side[ENGINE_CONSUMER];

    c->lookup = NULL;
    if (status == ENOENT && c->late) {
        deadline_passed(c);
        return;
    }
    if (is_overtaken(c, status, entry)) {
        c->seen = c->lost_version;
        owner_lost(c, c->lost_owner);
        return;
    }
    if (status == ENOENT && !entry && !(c->flags & (NET_LOOKUP_WAIT | NET_CONSUME_WRITER)))
        status = look_above(c);
    if (status == EINPROGRESS)
        return;
    if (status != 0) {
        consume_end(c, status);
        return;
    }
    c->before_lost = c->seen;
    c->seen = entry->version;
    c->owner = entry->owner;
    if (dyad_storage_equal(entry->storage, store_dir_id(side->dir))) {
        c->in_sight = true;
        consume_step(c);
        return;
    }
    if (member->config->shared_storage == 1) {
        log_error(
            "\"%s\" is published by rank %u on node %s, in another storage than that of %s "
            "here, but DYAD_SHARED_STORAGE=1 says that there is one: nothing is copied",
            c->upath, entry->owner, member_node_name(member, entry->owner),
            store_dir_path(side->dir));
        consume_end(c, EIO);
        return;
    }
    linger_activity(member); /* the wait is over, though the program sleeps on */
    if (bring_parent_here(member, c->upath)) {
        fetch(c, entry);
        return;
    }
    c->entry = *entry;
    c->entry.upath = c->upath;
    c->stale = false;
    c->bring = bring_start(member, c->upath, true, c->pid, parents_brought, c);
    if (!c->bring)
        consume_end(c, errno);
}

/* Somebody who does not wait for unpublished files does not read half a one either. */
static void wait_for_writer(struct consume *c)
{
    if (c->flags & NET_LOOKUP_WAIT)
        return;
    c->flags |= NET_LOOKUP_WAIT;
    c->for_writer = true;
    if (c->timeout_ms)
        net_timer_start(c->deadline, c->since + c->timeout_ms * UTIL_NSEC_PER_MSEC);
}

/* Whom he waited for died: nobody else is waited for. */
static void writer_gone(struct consume *c)
{
    if (!c->for_writer)
        return;
    c->flags &= ~NET_LOOKUP_WAIT;
    c->for_writer = false;
    if (c->lookup)
        dht_node_cancel(c->member->dht, c->lookup);
    c->lookup = NULL;
}

/* --- it is here, on storage that other nodes may write to --- */

static void settled(void *arg, int status, uint32_t by, const struct dyad_version *version)
{
    struct consume *c = arg;

    c->settle = NULL;
    if (status != EOWNERDEAD || dyad_version_cmp(&c->seen, version) > 0) {
        /* Or it was published since, which that home has yet to hear of. */
        consume_end(c, status == EOWNERDEAD ? 0 : status);
        return;
    }
    if (!c->left_by_other)
        log_warn(
            "\"%s\" is abandoned: who was writing it, a process of rank %u on node %s, is "
            "gone; process %d waits until it is published anew",
            c->upath, by, member_node_name(c->member, by), (int)c->pid);
    c->left_by_other = true;
    c->seen = *version;
    writer_gone(c);
    /* Asked again, because a rank that was out of reach may come back and end it without a
     * new version. */
    if (look_up(c))
        net_timer_start(
            c->lost, util_clock_now() + (uint64_t)(MEMBER_ASK_AGAIN * UTIL_NSEC_PER_SEC));
}

/* As the node's own marks, this is not for who opens it for writing. */
static bool must_settle(const struct consume *c)
{
    return c->regular && !(c->flags & NET_CONSUME_WRITER) &&
           shared_storage(c->member, ENGINE_CONSUMER);
}

static void settle(struct consume *c)
{
    if (c->settle)
        return;
    if (c->lookup)
        dht_node_cancel(c->member->dht, c->lookup);
    c->lookup = NULL;
    wait_for_writer(c);
    c->settle = dht_node_settle(c->member->dht, c->upath, true, settled, c);
    if (!c->settle)
        consume_end(c, ENOMEM);
    else
        linger_activity(c->member);
}

/* What is here? 0: complete; EAGAIN: being written; ENOENT; or another errno value. */
static int look_here(struct consume *c)
{
    struct member_side *side = &c->member->side[ENGINE_CONSUMER];
    struct store_mark_info info;
    struct store_identity id;
    struct stat st;
    int fd = store_dir_open(side->dir, c->upath, O_PATH | O_NOFOLLOW, 0);
    int rc = 0;

    c->writer = 0;
    c->abandoned = false;
    if (fd < 0) /* ELOOP: a directory above is a symbolic link */
        return errno == ENOTDIR ? ENOENT : errno == ELOOP ? ESTALE : errno;
    c->regular = false;
    if (fstat(fd, &st) < 0 || store_identity_read(fd, &id) < 0) {
        rc = errno;
    } else if ((c->regular = S_ISREG(st.st_mode)) && (c->flags & NET_CONSUME_SETTLE)) {
        rc = 0; /* the marks of this node are the asker's affair */
    } else if (S_ISREG(st.st_mode) &&
               store_marks_dirty(side->marks, c->upath, id.ino, id.btime, &info)) {
        rc = EAGAIN;
        c->writer = info.state == STORE_MARK_ABANDONED ? 0 : info.pid;
        c->abandoned = info.state == STORE_MARK_ABANDONED;
    }
    close(fd);
    if (rc == EAGAIN && info.state != STORE_MARK_ABANDONED &&
        !(c->flags & NET_CONSUME_WRITER) &&
        (fd = store_dir_open(side->dir, c->upath, O_RDONLY, 0)) >= 0) {
        watch_start(c, side, &info, fd);
        close(fd);
    }
    return rc;
}

/* Another node has published it in this storage, and it is not seen here: a network file
 * system may say for a while that a name is not there which it looked up before it was
 * made. Within the bound that a lost owner has; then it has been removed past us. True: it
 * will be looked at again. */
static bool await_sight(struct consume *c)
{
    const struct member *member = c->member;
    uint64_t now = util_clock_now();
    uint64_t bound = (uint64_t)(member->config->join_timeout * (double)UTIL_NSEC_PER_SEC);

    if (!c->unseen_since)
        c->unseen_since = now;
    if (now - c->unseen_since >= bound) {
        log_warn(
            "rank %u on node %s has published \"%s\" in the storage of %s, where it has "
            "not "
            "been seen for %.0f s: it was removed without a word, or this node sees the "
            "directory as it was (mount NFS with lookupcache=positive)",
            c->owner, member_node_name(c->member, c->owner), c->upath,
            store_dir_path(member->side[ENGINE_CONSUMER].dir),
            (double)(now - c->unseen_since) / 1e9);
        c->unseen_since = 0;
        return false;
    }
    c->lost_waiting = true;
    net_timer_start(c->lost, now + LOST_AGAIN);
    return true;
}

static void consume_step(struct consume *c)
{
    struct member *member = c->member;
    const struct store_record *record;
    int here = look_here(c);
    bool in_sight = c->in_sight;

    c->failing = false;
    c->in_sight = false;
    if (here == ENOENT && in_sight && store_dir_shared(member->side[ENGINE_CONSUMER].dir)) {
        store_dir_refresh(member->side[ENGINE_CONSUMER].dir, c->upath);
        here = look_here(c);
        if (here == ENOENT && !(c->flags & NET_CONSUME_WRITER) && await_sight(c))
            return;
    }
    if (here == 0 && must_settle(c)) {
        settle(c);
        return;
    }
    if (here == 0 || (here == EAGAIN && (c->flags & NET_CONSUME_WRITER)) ||
        (c->flags & NET_CONSUME_SETTLE)) { /* what is not here: its open will say */
        consume_end(c, 0);
        return;
    }
    if (c->settle) { /* it was removed meanwhile, or is being written here */
        dht_node_settle_cancel(member->dht, c->settle);
        c->settle = NULL;
    }
    if (here == ESTALE) {
        consume_end(c, ESTALE);
        return;
    }
    if (here != ENOENT && here != EAGAIN) {
        log_error("\"%s\" cannot be looked at below %s: %s", c->upath,
                  store_dir_path(member->side[ENGINE_CONSUMER].dir), strerror(here));
        consume_end(c, here);
        return;
    }
    if (c->transferring || c->bring || c->lost_waiting ||
        (c->ancestor && ancestor_is_link(c->ancestor)))
        return;
    if (here == EAGAIN) {
        /* Not the version that was here before the writer came. */
        record = store_journal_find(member->side[ENGINE_CONSUMER].journal, c->upath);
        if (record && dyad_version_cmp(&record->entry.version, &c->seen) > 0)
            c->seen = record->entry.version;
        if (c->abandoned)
            writer_gone(c);
        else
            wait_for_writer(c);
    }
    if (look_up(c) && here == ENOENT && (c->flags & NET_LOOKUP_WAIT) && !c->ancestor &&
        look_above(c) == ESTALE)
        consume_end(c, ESTALE);
}

/* Static buffer of the loop's thread. */
static const char *settle_says(const struct consume *c)
{
    static char text[400];
    uint32_t writer = dht_settle_writer(c->settle);

    if (writer == DYAD_RANK_NONE)
        return "its homes do not say whether another node writes it";
    snprintf(text, sizeof(text), "rank %u on node %s has it open for writing", writer,
             member_node_name(c->member, writer));
    return text;
}

static void deadline_passed(void *arg)
{
    struct consume *c = arg;

    /* This process did not run (it was stopped): the answer may lie unread. */
    uint64_t now = util_clock_now();
    uint64_t due = c->put_off ? c->put_off : c->since + c->timeout_ms * UTIL_NSEC_PER_MSEC;
    uint64_t patience =
        (uint64_t)(c->member->config->peer_timeout * (double)UTIL_NSEC_PER_SEC);
    if (!c->late && now > due + patience / 2) {
        c->put_off = now + patience;
        net_timer_start(c->deadline, c->put_off);
        return;
    }
    c->late = true;
    if (c->transferring || c->bring) /* it was published: its bytes are on their way, under
                                        bounds of their own */
        return;
    if (c->lost_owner != DYAD_RANK_NONE)
        log_error(
            "\"%s\" could not be fetched within DYAD_TIMEOUT=%g s: its owner, %s, is gone",
            c->upath, (double)c->timeout_ms / 1000.0,
            member_describe(c->member, c->lost_owner));
    else
        log_error("\"%s\" was not published within DYAD_TIMEOUT=%g s%s%s", c->upath,
                  (double)c->timeout_ms / 1000.0, c->settle ? ": " : "",
                  c->settle       ? settle_says(c)
                  : c->writer > 0 ? ": it is still being written on this node"
                                  : "");
    consume_end(c, ETIMEDOUT);
}

/* Where what is looked for may be: nodes on which nobody of the session runs. */
static const char *say_where(const struct consume *c, char *to, size_t size)
{
    const char *nodes = member_session_empty_nodes(c->member);

    if (c->lost_since && net_worker_peer(c->member->worker, c->lost_owner))
        snprintf(to, size,
                 "it was published by %s, which has ended, and no process of this session "
                 "there serves it: one that is started on that node will",
                 member_describe(c->member, c->lost_owner));
    else if (c->lost_since)
        snprintf(
            to, size,
            "who published it has ended, and no process of this session serves it: one "
            "that is started on its node will%s%s",
            *nodes ? "; such files may lie on " : "", nodes);
    else if (*nodes)
        snprintf(to, size,
                 "nobody has published it; files of ended launches may lie on %s, where no "
                 "process of this session runs",
                 nodes);
    else
        snprintf(to, size, "nobody has published it");
    return to;
}

static void say_waiting(void *arg)
{
    struct consume *c = arg;
    uint64_t now = util_clock_now();
    uint32_t home = c->lookup ? dht_lookup_home(c->lookup) : DYAD_RANK_NONE;
    char where[1024];

    if (c->transferring)
        log_warn("process %d has been waiting for \"%s\" for %llu s: it is being fetched",
                 (int)c->pid, c->upath,
                 (unsigned long long)((now - c->since) / UTIL_NSEC_PER_SEC));
    else if (c->writer > 0)
        log_warn(
            "process %d has been waiting for \"%s\" for %llu s: process %d of this node "
            "has it "
            "open for writing",
            (int)c->pid, c->upath,
            (unsigned long long)((now - c->since) / UTIL_NSEC_PER_SEC), (int)c->writer);
    else if (c->settle)
        log_warn("process %d has been waiting for \"%s\" for %llu s: %s", (int)c->pid,
                 c->upath, (unsigned long long)((now - c->since) / UTIL_NSEC_PER_SEC),
                 settle_says(c));
    else if (c->member->ring)
        log_warn("process %d is still waiting for \"%s\" after %llu s: %s", (int)c->pid,
                 c->upath, (unsigned long long)((now - c->since) / UTIL_NSEC_PER_SEC),
                 say_where(c, where, sizeof(where)));
    else
        log_warn(
            "process %d is still waiting for \"%s\" after %llu s: nobody has published it "
            "(home: "
            "rank %d)",
            (int)c->pid, c->upath,
            (unsigned long long)((now - c->since) / UTIL_NSEC_PER_SEC),
            home == DYAD_RANK_NONE ? -1 : (int)home);
    c->say_interval *= 2;
    net_timer_start(c->say, now + c->say_interval);
}

struct consume *consume_start(struct member *member, const char *upath, uint8_t flags,
                              uint64_t timeout_ms, pid_t pid, pid_t tid, consume_fn fn,
                              void *arg)
{
    struct consume *c;

    if (!member->side[ENGINE_CONSUMER].dir) {
        errno = EINVAL;
        return NULL;
    }
    if (!(c = calloc(1, sizeof(*c))) || !(c->upath = strdup(upath))) {
        free(c);
        errno = ENOMEM;
        return NULL;
    }
    c->member = member;
    c->flags = flags;
    c->timeout_ms = timeout_ms;
    c->pid = pid;
    c->tid = tid;
    c->fn = fn;
    c->arg = arg;
    c->since = util_clock_now();
    c->say_interval = SAY_AFTER;
    c->lost_owner = DYAD_RANK_NONE;
    DL_APPEND(member->consumes, c);
    if (!(c->say = net_timer_create(member->loop, say_waiting, c)) ||
        !(c->lost = net_timer_create(member->loop, lost_look, c)) ||
        !(c->deadline = net_timer_create(member->loop, deadline_passed, c))) {
        consume_free(c);
        errno = ENOMEM;
        return NULL;
    }
    net_timer_start(c->say, c->since + SAY_AFTER);
    if (timeout_ms && (flags & NET_LOOKUP_WAIT))
        net_timer_start(c->deadline, c->since + timeout_ms * UTIL_NSEC_PER_MSEC);
    c->posted = true;
    c->status = -1;
    net_loop_post(member->loop, &c->post, consume_posted, c);
    return c;
}

/* The last look was in vain. `status`: of it. */
static void nobody_left(struct consume *c, int status)
{
    uint32_t missing = lost_missing(c->member, false);

    if (missing != DYAD_RANK_NONE) {
        log_error(
            "\"%s\": nobody who can be reached could publish it; %s cannot be reached",
            c->upath, member_describe(c->member, missing));
        consume_end(c, EHOSTUNREACH);
        return;
    }
    if (status == EHOSTUNREACH) {
        log_error(
            "\"%s\": nobody is left who could publish it or say whether it is published",
            c->upath);
        consume_end(c, EHOSTUNREACH);
        return;
    }
    log_error(
        "\"%s\": nobody is left who could publish it: all processes of the job have ended "
        "or "
        "wait for files themselves",
        c->upath);
    consume_end(c, ENOENT);
}

static void settle_confirmed(void *arg, int status, uint32_t by,
                             const struct dyad_version *version)
{
    struct consume *c = arg;

    c->failing = false;
    if (status == 0) {
        settled(arg, status, by, version);
        return;
    }
    c->settle = NULL;
    nobody_left(c, status);
}

/* The last look before a wait is given up. */
static void confirmed(void *arg, int status, const struct dyad_entry *entry)
{
    struct consume *c = arg;

    c->failing = false;
    if (status == 0 && dyad_version_cmp(&entry->version, &c->seen) > 0) {
        looked_up(c, 0, entry);
        return;
    }
    c->lookup = NULL;
    nobody_left(c, status);
}

/* The thread that waits for a writer which is dead will come back by itself. (It may have
 * closed its descriptor by now; then it is on its way.) */
static bool is_watch_ending(const struct consume *c)
{
    return c->watch && store_marks_ruling_due(c->member->side[ENGINE_CONSUMER].marks,
                                              c->watch->mark, c->watch->fd);
}

static bool is_waiting(const struct consume *c)
{
    return !c->posted && !c->transferring && !c->bring && (c->flags & NET_LOOKUP_WAIT) &&
           (c->lookup || (c->lost_waiting && c->member->ring) ||
            (c->settle && dht_settle_writer(c->settle) != DYAD_RANK_NONE)) &&
           !is_watch_ending(c);
}

static void checked(void *arg, int status, const struct dyad_entry *entry)
{
    struct consume *c = arg;
    struct member *member = c->member;

    c->check = NULL;
    member->checks--;
    if (status == 0 && dyad_version_cmp(&entry->version, &c->seen) > 0 && is_waiting(c)) {
        if (c->lookup)
            dht_node_cancel(member->dht, c->lookup);
        c->lost_waiting = false;
        net_timer_stop(c->lost);
        looked_up(c, 0, entry); /* raises the activity */
        return;
    }
    /* Not known: no verdict on that ground, unless it has been so for too long. */
    if (status != ENOENT &&
        !(status == EHOSTUNREACH && lost_missing(member, true) != DYAD_RANK_NONE))
        linger_activity(member);
    if (member->checks == 0)
        boot_wave_confirmed(member->wave, member->checking);
}

static void settle_checked(void *arg, int status, uint32_t by,
                           const struct dyad_version *version)
{
    struct consume *c = arg;
    struct member *member = c->member;

    (void)by;
    (void)version;
    c->settle_check = NULL;
    member->checks--;
    if (status != EBUSY) /* the news is on its way, or not known */
        linger_activity(member);
    if (member->checks == 0)
        boot_wave_confirmed(member->wave, member->checking);
}

bool consume_confirm(struct member *member, uint64_t number)
{
    struct consume *c;

    member->checking = number;
    DL_FOREACH(member->consumes, c)
    {
        check_drop(c); /* of an earlier wave */
        if (!is_waiting(c))
            continue;
        if (c->ancestor)
            ancestor_check(c->ancestor);
        if (c->settle) {
            c->settle_check =
                dht_node_settle(member->dht, c->upath, false, settle_checked, c);
            if (c->settle_check)
                member->checks++;
            else
                linger_activity(member);
            continue;
        }
        c->check = dht_node_lookup(member->dht, c->upath, 0, &c->seen, checked, c);
        if (c->check)
            member->checks++;
        else
            linger_activity(member); /* no memory: busy */
    }
    return member->checks > 0;
}

void consume_fail_waiting(struct member *member)
{
    struct consume *c, *tmp;

    DL_FOREACH_SAFE(member->consumes, c, tmp)
    {
        /* Told again while the last look is under way: it goes on, with its own bound. */
        if (!is_waiting(c) || (c->failing && (c->lookup || c->settle)))
            continue;
        c->failing = true;
        if (c->settle) {
            dht_node_settle_cancel(member->dht, c->settle);
            c->settle = dht_node_settle(member->dht, c->upath, false, settle_confirmed, c);
            if (!c->settle)
                consume_end(c, ENOMEM);
            continue;
        }
        if (c->lookup)
            dht_node_cancel(member->dht, c->lookup);
        c->lookup =
            dht_node_lookup(member->dht, c->upath, NET_LOOKUP_COPY, &c->seen, confirmed, c);
        if (!c->lookup)
            consume_end(c, ENOMEM);
    }
}

void consume_say_waiting(struct member *member)
{
    char where[1024];
    struct consume *c;

    DL_FOREACH(member->consumes, c)
    {
        if (c->said_alone || !is_waiting(c))
            continue;
        c->said_alone = true;
        log_warn(
            "process %d waits for \"%s\", and all others of the session wait or are at "
            "their end: only a process that is still to be started can bring it%s; %s",
            (int)c->pid, c->upath, c->timeout_ms ? " (DYAD_TIMEOUT ends the wait)" : "",
            say_where(c, where, sizeof(where)));
    }
}

void consume_stop(struct member *member)
{
    struct consume *c, *tmp;

    DL_FOREACH_SAFE(member->consumes, c, tmp)
    {
        consume_free(c);
    }
}

size_t consume_blocked(struct member *member, struct boot_blocked *blocked, size_t max)
{
    struct consume *c;
    size_t n = 0;

    DL_FOREACH(member->consumes, c)
    {
        if (!is_waiting(c))
            continue;
        if (n < max)
            blocked[n] = (struct boot_blocked){.pid = c->pid, .tid = c->tid};
        n++;
    }
    return n;
}

void consume_foreach(struct member *member,
                     void (*fn)(const struct consume_info *info, void *arg), void *arg)
{
    struct consume *c;

    DL_FOREACH(member->consumes, c)
    {
        struct consume_info info = {
            .upath = c->upath,
            .pid = c->pid,
            .since = c->since,
            .home = c->lookup ? dht_lookup_home(c->lookup) : DYAD_RANK_NONE,
            .timeout_ms = c->timeout_ms,
            .writer = c->writer,
        };
        fn(&info, arg);
    }
}
