/*
 * consume.c - make a file present and complete on this node, or say why not
 *
 * A consume goes round these steps until one ends it:
 * - here and complete: done; on storage that nodes share when no other node writes it
 *   (consume_settle.c);
 * - here, but its writer on another node died over it: look up a newer version;
 * - here, being written: wait for its publish (a look-up for a newer version) and for the
 *   writer's descriptions to go (consume_writer.c);
 * - not here: look up, waiting if asked to;
 * - published in a storage that we see: look here again; if it is not complete, wait for a
 *   newer version;
 * - published elsewhere: fetch (transfer.c); a stale answer: look up a newer version; the
 *   owner is gone: consume_owner.c.
 *
 * Each round trip back to the look-up asks for a version above the last one seen, so it
 * cannot spin. What is waiting in a look-up ends by DYAD_TIMEOUT, by its process's death,
 * or by the verdict that nobody is left (consume_wave.c); in a session directory there is
 * no such verdict, and a file whose owner has gone is waited for like one that nobody has
 * published.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utlist.h>

#include "engine/core/local_file.h"
#include "engine/core/module.h"
#include "engine/fetch/ancestors.h"
#include "engine/fetch/bring.h"
#include "engine/fetch/consume.h"
#include "engine/fetch/consume_impl.h"
#include "engine/fetch/consume_probe.h"
#include "engine/fetch/transfer.h"
#include "engine/membership/exit_barrier.h"
#include "engine/publish/produce.h"
#include "engine/publish/shared_storage.h"
#include "engine/recovery/takeover.h"
#include "util/clock.h"
#include "util/log.h"

static void step(struct consume *c);

/* --- the end --- */

/* The look-ups of a wave are counted in member->checks. One that is dropped belongs to a
 * wait that ended, which the barrier is told by linger_activity(): whatever is answered
 * then, it is not quiet. */
void consume_check_drop(struct consume *c)
{
    if (c->settle_check) {
        dht_node_settle_cancel(c->member->dht, c->settle_check);
        c->settle_check = NULL;
        c->member->checks--;
    }
    if (c->expected) {
        consume_probe_cancel(c->expected);
        c->expected = NULL;
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
    consume_check_drop(c);
    if (c->ancestor)
        ancestor_stop(c->ancestor);
    if (c->link)
        consume_cancel(c->link);
    if (c->bring)
        bring_cancel(c->bring);
    if (c->transferring)
        transfer_leave(&c->transfer);
    consume_watch_leave(c);
    if (c->deadline)
        net_timer_destroy(c->deadline);
    if (c->say)
        net_timer_destroy(c->say);
    consume_writers_stop(c);
    if (c->lost)
        net_timer_destroy(c->lost);
    free(c->upath);
    free(c);
}

void consume_end(struct consume *c, int status)
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
        step(c);
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

void consume_stop(struct member *member)
{
    while (member->consumes) /* one may have others for what is above it */
        consume_free(member->consumes);
    consume_say_stop(member);
    consume_failed_stop(member);
}

static void deadline_passed(void *arg)
{
    struct consume *c = arg;
    uint64_t now = util_clock_now();
    uint64_t due =
        c->since + c->timeout_ms * UTIL_NSEC_PER_MSEC + c->member->still - c->still;
    uint64_t patience =
        (uint64_t)(c->member->config->peer_timeout * (double)UTIL_NSEC_PER_SEC);

    if (due < c->put_off)
        due = c->put_off;
    if (!c->late && now < due) { /* we were stopped: what is waited for is not late */
        net_timer_start(c->deadline, due);
        return;
    }
    /* Stopped just now, and not for long: the answer may lie unread. */
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
                  c->settle       ? consume_settle_says(c)
                  : c->writer > 0 ? ": it is still being written on this node"
                                  : "");
    consume_end(c, ETIMEDOUT);
}

/* --- steps --- */

/* False: it has ended. */
static bool look_up(struct consume *c)
{
    /* KEEP: an open that does not wait may be one of a loop. */
    uint8_t flags =
        NET_LOOKUP_COPY | NET_LOOKUP_KEEP | (c->late ? 0 : c->flags & NET_LOOKUP_WAIT);

    if (c->lookup)
        return true; /* waits already */
    c->lookup =
        dht_node_lookup(c->member->dht, c->upath, flags, &c->seen, consume_looked_up, c);
    if (!c->lookup) {
        consume_end(c, ENOMEM);
        return false;
    }
    linger_activity(c->member);
    return true;
}

static void owner_lost(struct consume *c, uint32_t owner)
{
    int status = consume_owner_lost(c, owner);

    if (status == ETIMEDOUT)
        deadline_passed(c);
    else if (status)
        consume_end(c, status);
}

static void transferred(void *arg, int status)
{
    struct consume *c = arg;

    c->transferring = false;
    if (status == EHOSTUNREACH) {
        owner_lost(c, c->owner);
        return;
    }
    if (status == 0 || status == ESTALE || status == EBUSY || status == EEXIST) {
        if (status == EBUSY)
            c->seen = (struct dyad_version){0};
        c->taken = status == EEXIST;
        step(c);
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
        step(c); /* look up what is newer */
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

static void link_brought(void *arg, int status)
{
    struct consume *c = arg;

    c->link = NULL;
    /* Withdrawn again, or a failure that was logged: who resolves it again will see. */
    (void)status;
    consume_end(c, ESTALE);
}

static void looked_above(void *arg, int status)
{
    struct consume *c = arg;

    if (status != EINPROGRESS) {
        consume_end(c, status);
        return;
    }
    c->link = consume_start(c->member, ancestor_upath(c->ancestor), 0, 0, c->pid, c->tid,
                            link_brought, c);
    if (!c->link) {
        consume_end(c, ENOMEM);
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

    int status = ancestor_start(c->member, c->upath, c->flags & NET_LOOKUP_WAIT,
                                looked_above, c, &c->ancestor);
    return status == 0 ? EINPROGRESS : status;
}

static bool is_above(const char *upath, const char *below)
{
    size_t len = strlen(upath);

    return strncmp(below, upath, len) == 0 && below[len] == '/';
}

/* A directory or link was removed here, or a link made: waits for names below it look once
 * more what is above them. */
static void consume_path_changed(struct member *member, const char *upath)
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

void consume_looked_up(void *arg, int status, const struct dyad_entry *entry)
{
    struct consume *c = arg;
    struct member *member = c->member;
    struct member_side *side = &member->side[ENGINE_CONSUMER];

    c->lookup = NULL;
    if (status == ENOENT && c->late) {
        deadline_passed(c);
        return;
    }
    if (consume_owner_awaited(c, status, entry)) {
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
    /* The wait is over, though the program sleeps on: also where it is published in our
     * storage and waits to be seen here, for it will go on by itself. */
    linger_activity(member);
    if (dyad_storage_equal(entry->storage, store_dir_id(side->dir))) {
        c->in_sight = true;
        c->entry = *entry;
        c->entry.upath = c->upath;
        step(c);
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
    c->entry = *entry;
    c->entry.upath = c->upath;
    if (bring_parent_here(member, c->upath)) {
        fetch(c, entry);
        return;
    }
    c->stale = false;
    c->bring = bring_start(member, c->upath, true, c->pid, parents_brought, c);
    if (!c->bring)
        consume_end(c, errno);
}

/* For an owner that is gone, and for longer than a server on its node needs. */
static bool waits_for_owner(const struct consume *c)
{
    return c->lost_waiting && !c->awaits_sight && c->member->ring &&
           c->lost_interval >= CONSUME_LOOK_AGAIN;
}

bool consume_is_waiting(const struct consume *c)
{
    return !c->posted && !c->transferring && !c->bring && (c->flags & NET_LOOKUP_WAIT) &&
           (c->lookup || waits_for_owner(c) ||
            (c->settle && dht_settle_writer(c->settle) != DYAD_RANK_NONE)) &&
           !consume_watch_ending(c);
}

static void settled(void *arg, int status, uint32_t by, const struct dyad_version *version)
{
    struct consume *c = arg;

    c->settle = NULL;
    status = consume_settle_ruling(c, status, by, version);
    if (status != EOWNERDEAD) {
        consume_end(c, status);
        return;
    }
    /* Asked again, because a rank that was out of reach may come back and end it without a
     * new version. */
    if (look_up(c))
        net_timer_start(
            c->lost, util_clock_now() + (uint64_t)(MEMBER_ASK_AGAIN * UTIL_NSEC_PER_SEC));
}

/* What is here is complete as far as this node knows: does another write it? */
static void settle(struct consume *c)
{
    if (c->settle)
        return;
    if (c->lookup)
        dht_node_cancel(c->member->dht, c->lookup);
    c->lookup = NULL;
    consume_wait_for_writer(c);
    c->settle = dht_node_settle(c->member->dht, c->upath, true, settled, c);
    if (!c->settle)
        consume_end(c, ENOMEM);
    else
        linger_activity(c->member);
}

/* Of whom this consume has to take notice. */
static bool is_written(const struct consume *c, struct store_marks *marks,
                       const struct store_identity *id, struct store_mark_info *info)
{
    if (c->flags & NET_CONSUME_UPDATE)
        return store_marks_unfinished(marks, c->upath, id->ino, id->btime, 0, info);
    return store_marks_dirty(marks, c->upath, id->ino, id->btime, info);
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
    } else if (S_ISREG(st.st_mode) && is_written(c, side->marks, &id, &info)) {
        rc = EAGAIN;
        c->writer = info.state == STORE_MARK_ABANDONED ? 0 : info.pid;
        c->abandoned = info.state == STORE_MARK_ABANDONED;
    } else if (local_file_is_superseded(side, c->upath, &st)) {
        rc = ENOENT; /* what is fetched comes in its place */
    }
    close(fd);
    if (rc == EAGAIN && info.state != STORE_MARK_ABANDONED &&
        !(c->flags & NET_CONSUME_WRITER) &&
        (fd = store_dir_open(side->dir, c->upath, O_RDONLY, 0)) >= 0) {
        consume_watch_start(c, side, &info, fd, step);
        close(fd);
    }
    return rc;
}

/* What lies here is abandoned, but the homes have it: who wrote it was killed in his close.
 * Somebody of this node takes it over, and then it is no longer abandoned: that is looked
 * for, for nobody tells. */
static void await_heir(struct consume *c, bool in_sight)
{
    if (c->abandoned && in_sight && !c->left_closed)
        modules_wanted(c->member, &c->entry);
    c->left_closed = c->abandoned && (in_sight || c->left_closed);
    if (c->left_closed && !c->lost_waiting)
        net_timer_start(c->lost, util_clock_now() + CONSUME_LOOK_AGAIN);
}

static void step(struct consume *c)
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
        if (here == ENOENT && !(c->flags & NET_CONSUME_WRITER) && consume_await_sight(c))
            return;
    }
    if (here != ENOENT)
        c->unseen_since = 0;
    if (here == 0 && consume_must_settle(c)) {
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
    if (c->taken && (here == ENOENT || c->abandoned)) {
        /* Whose name it was is gone without a publish: what had been fetched then is it.
         * As long as he writes, it would only be fetched in vain. */
        c->taken = false;
        c->seen = (struct dyad_version){0};
        if (c->lookup)
            dht_node_cancel(member->dht, c->lookup);
        c->lookup = NULL;
    }
    if (c->transferring || c->bring || c->lost_waiting || c->link)
        return;
    if (here == EAGAIN) {
        /* Not the version that was here before the writer came. */
        record = store_journal_find(member->side[ENGINE_CONSUMER].journal, c->upath);
        if (record && dyad_version_cmp(&record->entry.version, &c->seen) > 0)
            c->seen = record->entry.version;
        if (c->abandoned)
            consume_writer_gone(c);
        else
            consume_wait_for_writer(c);
        await_heir(c, in_sight);
    }
    if (look_up(c) && here == ENOENT && (c->flags & NET_LOOKUP_WAIT) && !c->ancestor &&
        look_above(c) == ESTALE)
        consume_end(c, ESTALE);
}

/* Timer `lost`. */
static void look_again(void *arg)
{
    struct consume *c = arg;

    net_timer_stop(c->lost);
    if (c->lost_waiting)
        consume_owner_look(c);
    step(c);
}

/* --- interface --- */

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
    c->still = member->still;
    c->say_interval = CONSUME_SAY_AFTER;
    c->lost_owner = DYAD_RANK_NONE;
    DL_APPEND(member->consumes, c);
    if (!(c->say = net_timer_create(member->loop, consume_say_still, c)) ||
        !(c->lost = net_timer_create(member->loop, look_again, c)) ||
        !(c->deadline = net_timer_create(member->loop, deadline_passed, c))) {
        consume_free(c);
        errno = ENOMEM;
        return NULL;
    }
    net_timer_start(c->say, c->since + CONSUME_SAY_AFTER);
    if (timeout_ms && (flags & NET_LOOKUP_WAIT))
        net_timer_start(c->deadline, c->since + timeout_ms * UTIL_NSEC_PER_MSEC);
    c->posted = true;
    c->status = -1;
    net_loop_post(member->loop, &c->post, consume_posted, c);
    return c;
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

const struct member_module consume_module = {
    .name = "consume",
    .peer_up = consume_peer_up,
    .path_changed = consume_path_changed,
    .destroy = consume_stop,
};
