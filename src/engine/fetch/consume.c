/*
 * consume.c - make a file present and complete on this node, or say why not
 *
 * What there is to do is seen by a look at what is here (look_here(), marks included), at
 * the beginning and each time that something has come of a state:
 *
 *   here and complete              done; SETTLE on storage that nodes share
 *   being written by a process of  done for who writes himself; else LOOK_UP, waiting for a
 *   this node, or abandoned        newer version, and beside it a watch over the writer
 *                                  (consume_writer.c), whose end makes it look here again
 *   not here                       LOOK_UP, waiting if asked to; and beside a look-up that
 *                                  waits one for the directories above (ancestors.c)
 *   a link is above it             the end, ESTALE: its name is to be resolved again
 *
 * where PARENTS, FETCH, OWNER, SIGHT and LINK go on unless it is complete. The states:
 *
 *   state      entered when                 left when, for
 *   BEGIN      consume_start()              the loop runs: HERE
 *   HERE       a state is over              at once, as above
 *   LOOK_UP    nothing complete is here     published in a storage that we see: HERE; then
 *                                           SIGHT if it is still not here. Elsewhere:
 *                                           PARENTS, FETCH. Not published: ABOVE, or the
 *                                           end. Its owner is gone, and was before: OWNER
 *   ABOVE      it is not published, and     no directory above is: the end. One is a link:
 *              not waited for               LINK
 *   LINK       a directory above turned     it is here, or not: the end, ESTALE
 *              out to be a link (ABOVE;
 *              LOOK_UP that waits)
 *   PARENTS    what was found lies          they are: FETCH. A newer version came: HERE
 *              elsewhere, and directories
 *              above are not here
 *   FETCH      ... they are                 it is here, out of date, or its name was taken
 *                                           here: HERE. Its owner is gone: OWNER
 *   OWNER      the owner of what was found  its timer, a rank comes up: HERE. A wave of the
 *              is gone (consume_owner.c)    barrier finds it with another: as LOOK_UP. Its
 *                                           bound: the end
 *   SIGHT      published in our storage,    its timer: HERE. Its bound: LOOK_UP
 *              and not seen here
 *              (consume_settle.c)
 *   SETTLE     here and complete (also      nobody does, say the homes: the end. Who did
 *              when a state that goes on    is gone: LOOK_UP for a newer version. It is
 *              is left for it), but         removed, or written here: HERE
 *              another node may write it
 *   LAST_LOOK  the verdict is that nobody   published after all: as LOOK_UP. Else the end
 *              is left (consume_wave.c);
 *              in place of LOOK_UP, SETTLE
 *              or OWNER
 *   OVER       it ends in BEGIN             the loop gives its node back: the end
 *
 * Each round trip back to LOOK_UP asks for a version above the last one seen, so it cannot
 * spin. What is waiting in LOOK_UP or SETTLE ends by DYAD_TIMEOUT, by its process's death,
 * or by the verdict that nobody is left; in a session directory there is no such verdict,
 * and a file whose owner has gone is waited for like one that nobody has published.
 *
 * The files of the states answer consume.c, or get a function to call; they do not call it.
 * The barrier's (consume_wave.c) reads the state and stands above.
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
#include "engine/fetch/bring.h"
#include "engine/fetch/consume_impl.h"
#include "engine/fetch/consume_probe.h"
#include "engine/membership/exit_barrier.h"
#include "engine/publish/shared_storage.h"
#include "util/clock.h"
#include "util/log.h"

static void step(struct consume *c);

/* --- states --- */

void consume_enter(struct consume *c, enum consume_state state)
{
    switch (c->state) {
    case CONSUME_LOOK_UP:
    case CONSUME_SETTLE:
    case CONSUME_LAST_LOOK:
        if (c->lookup)
            dht_node_cancel(c->member->dht, c->lookup);
        c->lookup = NULL;
        if (c->settle)
            dht_node_settle_cancel(c->member->dht, c->settle);
        c->settle = NULL;
        break;
    case CONSUME_LINK:
        if (c->link)
            consume_cancel(c->link);
        c->link = NULL;
        break;
    case CONSUME_PARENTS:
        if (c->bring)
            bring_cancel(c->bring);
        c->bring = NULL;
        c->stale = false;
        break;
    case CONSUME_FETCH:
        transfer_leave(&c->transfer); /* if it has not ended */
        break;
    default:
        break;
    }
    c->state = state;
}

/* Something is under way by which it goes on, whether it lies here or not. */
static bool goes_on(const struct consume *c)
{
    return c->state == CONSUME_PARENTS || c->state == CONSUME_FETCH ||
           c->state == CONSUME_OWNER || c->state == CONSUME_SIGHT ||
           c->state == CONSUME_LINK;
}

bool consume_is_waiting(const struct consume *c)
{
    bool waits = false;

    switch (c->state) {
    case CONSUME_LOOK_UP:
        waits = true;
        break;
    case CONSUME_SETTLE:
    case CONSUME_LAST_LOOK:
        waits = !c->settle || dht_settle_writer(c->settle) != DYAD_RANK_NONE;
        break;
    case CONSUME_OWNER: /* and for longer than a server on its node needs */
        waits = c->member->ring && c->lost.interval >= CONSUME_LOOK_AGAIN;
        break;
    default:
        break;
    }
    return waits && (c->flags & NET_LOOKUP_WAIT) && !consume_watch_ending(c);
}

/* --- the end --- */

/* The look-ups of a wave are counted in member->checks. One that is dropped belongs to a
 * wait that ended, which the barrier is told by exit_barrier_activity(): whatever is
 * answered then, it is not quiet. */
void consume_check_drop(struct consume *c)
{
    if (c->wave.settle_check) {
        dht_node_settle_cancel(c->member->dht, c->wave.settle_check);
        c->wave.settle_check = NULL;
        c->member->checks--;
    }
    if (c->wave.expected) {
        consume_probe_cancel(c->wave.expected);
        c->wave.expected = NULL;
        c->member->checks--;
    }
    if (!c->wave.check)
        return;
    dht_node_cancel(c->member->dht, c->wave.check);
    c->wave.check = NULL;
    c->member->checks--;
}

static void consume_free(struct consume *c)
{
    DL_DELETE(c->member->consumes, c);
    consume_enter(c, CONSUME_OVER);
    consume_check_drop(c);
    if (c->ancestor)
        ancestor_stop(c->ancestor);
    consume_watch_leave(c);
    if (c->deadline.timer)
        net_timer_destroy(c->deadline.timer);
    if (c->say.timer)
        net_timer_destroy(c->say.timer);
    consume_writers_stop(c);
    if (c->again)
        net_timer_destroy(c->again);
    free(c->upath);
    free(c);
}

static void end(struct consume *c, int status)
{
    struct member *member = c->member;
    consume_fn fn = c->fn;
    void *arg = c->arg;

    consume_free(c);
    exit_barrier_activity(member);
    fn(arg, status);
}

void consume_end(struct consume *c, int status)
{
    if (c->state == CONSUME_OVER)
        return;
    if (c->state != CONSUME_BEGIN) {
        end(c, status);
        return;
    }
    consume_enter(c, CONSUME_OVER); /* the loop has our node: the end comes with it */
    c->begin.status = status;
}

static void begun(void *arg)
{
    struct consume *c = arg;

    if (c->state == CONSUME_BEGIN) {
        consume_enter(c, CONSUME_HERE);
        step(c);
    } else if (c->begin.status >= 0) {
        end(c, c->begin.status);
    } else {
        consume_free(c);
    }
}

void consume_cancel(struct consume *c)
{
    struct member *member = c->member;

    if (c->state == CONSUME_BEGIN || c->state == CONSUME_OVER) {
        consume_enter(c, CONSUME_OVER);
        c->begin.status = -1;
        return;
    }
    consume_free(c);
    exit_barrier_activity(member);
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
    uint64_t due = c->since + c->timeout_ms * UTIL_NSEC_PER_MSEC + c->member->still -
                   c->deadline.still;
    uint64_t patience =
        (uint64_t)(c->member->config->peer_timeout * (double)UTIL_NSEC_PER_SEC);

    if (due < c->deadline.put_off)
        due = c->deadline.put_off;
    /* We were stopped: what is waited for is not late. */
    if (!c->deadline.late && now < due) {
        net_timer_start(c->deadline.timer, due);
        return;
    }
    /* Stopped just now, and not for long: the answer may lie unread. */
    if (!c->deadline.late && now > due + patience / 2) {
        c->deadline.put_off = now + patience;
        net_timer_start(c->deadline.timer, c->deadline.put_off);
        return;
    }
    c->deadline.late = true;
    if (c->state == CONSUME_PARENTS || c->state == CONSUME_FETCH)
        /* It was published: its bytes are on their way, under bounds of their own. */
        return;
    if (c->lost.owner != DYAD_RANK_NONE)
        log_error(
            "\"%s\" could not be fetched within DYAD_TIMEOUT=%g s: its owner, %s, is gone",
            c->upath, (double)c->timeout_ms / 1000.0,
            member_describe(c->member, c->lost.owner));
    else
        log_error("\"%s\" was not published within DYAD_TIMEOUT=%g s%s%s", c->upath,
                  (double)c->timeout_ms / 1000.0, c->settle ? ": " : "",
                  c->settle            ? consume_settle_says(c)
                  : c->here.writer > 0 ? ": it is still being written on this node"
                                       : "");
    consume_end(c, ETIMEDOUT);
}

/* --- what each state does --- */

static void looked_up(void *arg, int status, const struct dyad_entry *entry);

/* LOOK_UP, if it does not look already. False: it has ended. */
static bool look_up(struct consume *c)
{
    /* KEEP: an open that does not wait may be one of a loop. */
    uint8_t flags = NET_LOOKUP_COPY | NET_LOOKUP_KEEP |
                    (c->deadline.late ? 0 : c->flags & NET_LOOKUP_WAIT);

    if (c->lookup)
        return true;
    consume_enter(c, CONSUME_LOOK_UP);
    c->lookup = dht_node_lookup(c->member->dht, c->upath, flags, &c->seen, looked_up, c);
    if (!c->lookup) {
        consume_end(c, ENOMEM);
        return false;
    }
    exit_barrier_activity(c->member);
    return true;
}

/* OWNER, if it is still to be waited for. */
static void await_owner(struct consume *c, uint32_t owner)
{
    int status;

    consume_enter(c, CONSUME_OWNER);
    status = consume_owner_lost(c, owner);
    if (status == ETIMEDOUT)
        deadline_passed(c);
    else if (status)
        consume_end(c, status);
}

static void transferred(void *arg, int status)
{
    struct consume *c = arg;

    consume_enter(c, CONSUME_HERE);
    if (status == EHOSTUNREACH) {
        await_owner(c, c->entry.owner);
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

static void fetch(struct consume *c)
{
    consume_enter(c, CONSUME_FETCH);
    c->transfer.fn = transferred;
    c->transfer.arg = c;
    c->transfer.pid = c->pid;
    if (transfer_start(c->member, &c->entry, &c->transfer) < 0)
        consume_end(c, errno);
}

/* The directory that it goes to, as it was published: with its permissions. One that nobody
 * has published is made without further ado by the fetch. */
static void parents_brought(void *arg, int status)
{
    struct consume *c = arg;
    bool stale = c->stale;

    c->bring = NULL;
    consume_enter(c, CONSUME_HERE);
    if (stale)
        step(c); /* look up what is newer */
    else if (status == 0 || status == ENOENT)
        fetch(c);
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
    bool had_lookup = c->lookup != NULL;

    if (status != EINPROGRESS) {
        consume_end(c, status);
        return;
    }
    consume_enter(c, CONSUME_LINK);
    c->link = consume_start(c->member, ancestor_upath(c->ancestor), 0, 0, c->pid, c->tid,
                            link_brought, c);
    if (!c->link)
        consume_end(c, ENOMEM);
    else if (had_lookup) /* it does not wait for a publish any more */
        exit_barrier_activity(c->member);
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
        if (!c->lookup || !(c->flags & NET_LOOKUP_WAIT) || !is_above(upath, c->upath))
            continue;
        if (c->ancestor)
            ancestor_stop(c->ancestor);
        c->ancestor = NULL;
        exit_barrier_activity(member);
        if (look_above(c) == ESTALE)
            consume_end(c, ESTALE);
    }
}

static void step_in_sight(struct consume *c);

void consume_found(struct consume *c, const struct dyad_entry *entry)
{
    struct member *member = c->member;
    struct member_dmd *dmd = &member->dmd[ENGINE_CONSUMER];

    consume_enter(c, CONSUME_HERE);
    c->lost.before = c->seen;
    c->seen = entry->version;
    c->entry = *entry;
    c->entry.upath = c->upath;
    /* The wait is over, though the program sleeps on: also where it is published in our
     * storage and waits to be seen here, for it will go on by itself. */
    exit_barrier_activity(member);
    if (dyad_storage_equal(entry->storage, store_dir_id(dmd->dir))) {
        step_in_sight(c);
        return;
    }
    if (member->config->shared_storage == 1) {
        log_error(
            "\"%s\" is published by rank %u on node %s, in another storage than that of %s "
            "here, but DYAD_SHARED_STORAGE=1 says that there is one: nothing is copied",
            c->upath, entry->owner, member_node_name(member, entry->owner),
            store_dir_path(dmd->dir));
        consume_end(c, EIO);
        return;
    }
    if (bring_parent_here(member, c->upath)) {
        fetch(c);
        return;
    }
    consume_enter(c, CONSUME_PARENTS);
    c->bring = bring_start(member, c->upath, true, c->pid, parents_brought, c);
    if (!c->bring)
        consume_end(c, errno);
}

static void looked_up(void *arg, int status, const struct dyad_entry *entry)
{
    struct consume *c = arg;

    c->lookup = NULL;
    if (status == 0) {
        consume_found(c, entry);
        return;
    }
    consume_enter(c, CONSUME_HERE);
    if (status == ENOENT && c->deadline.late) {
        deadline_passed(c);
        return;
    }
    if (consume_owner_awaited(c, status, entry)) {
        await_owner(c, c->lost.owner);
        return;
    }
    if (status == ENOENT && !entry && !(c->flags & (NET_LOOKUP_WAIT | NET_CONSUME_WRITER)))
        status = look_above(c);
    if (status == EINPROGRESS)
        consume_enter(c, CONSUME_ABOVE);
    else
        consume_end(c, status);
}

static void settled(void *arg, int status, uint32_t by, const struct dyad_version *version)
{
    struct consume *c = arg;

    c->settle = NULL;
    consume_enter(c, CONSUME_HERE);
    status = consume_settle_ruling(c, status, by, version);
    if (status != EOWNERDEAD) {
        consume_end(c, status);
        return;
    }
    /* Asked again, because a rank that was out of reach may come back and end it without a
     * new version. */
    if (look_up(c))
        net_timer_start(
            c->again, util_clock_now() + (uint64_t)(MEMBER_ASK_AGAIN * UTIL_NSEC_PER_SEC));
}

/* What is here is complete as far as this node knows: does another write it? */
static void settle(struct consume *c)
{
    if (c->settle)
        return;
    consume_enter(c, CONSUME_SETTLE);
    consume_wait_for_writer(c);
    c->settle = dht_node_settle(c->member->dht, c->upath, true, settled, c);
    if (!c->settle)
        consume_end(c, ENOMEM);
    else
        exit_barrier_activity(c->member);
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
    struct member_dmd *dmd = &c->member->dmd[ENGINE_CONSUMER];
    struct store_mark_info info;
    struct store_identity id;
    struct stat st;
    int fd = store_dir_open(dmd->dir, c->upath, O_PATH | O_NOFOLLOW, 0);
    int rc = 0;

    c->here.writer = 0;
    c->here.abandoned = false;
    if (fd < 0) /* ELOOP: a directory above is a symbolic link */
        return errno == ENOTDIR ? ENOENT : errno == ELOOP ? ESTALE : errno;
    c->here.regular = false;
    if (fstat(fd, &st) < 0 || store_identity_read(fd, &id) < 0) {
        rc = errno;
    } else if ((c->here.regular = S_ISREG(st.st_mode)) && (c->flags & NET_CONSUME_SETTLE)) {
        rc = 0; /* the marks of this node are the asker's affair */
    } else if (S_ISREG(st.st_mode) && is_written(c, dmd->marks, &id, &info)) {
        rc = EAGAIN;
        c->here.writer = info.state == STORE_MARK_ABANDONED ? 0 : info.pid;
        c->here.abandoned = info.state == STORE_MARK_ABANDONED;
    } else if (local_file_is_superseded(dmd, c->upath, &st)) {
        rc = ENOENT; /* what is fetched comes in its place */
    }
    close(fd);
    if (rc == EAGAIN && info.state != STORE_MARK_ABANDONED &&
        !(c->flags & NET_CONSUME_WRITER) &&
        (fd = store_dir_open(dmd->dir, c->upath, O_RDONLY, 0)) >= 0) {
        consume_watch_start(c, dmd, &info, fd, step);
        close(fd);
    }
    return rc;
}

/* What lies here is abandoned, but the homes have it: who wrote it was killed in his close.
 * Somebody of this node takes it over, and then it is no longer abandoned: that is looked
 * for, for nobody tells. */
static void await_heir(struct consume *c, bool in_sight)
{
    if (c->here.abandoned && in_sight && !c->left_closed)
        modules_wanted(c->member, &c->entry);
    c->left_closed = c->here.abandoned && (in_sight || c->left_closed);
    if (c->left_closed)
        net_timer_start(c->again, util_clock_now() + CONSUME_LOOK_AGAIN);
}

/* `here`: look_here(). `in_sight`: the look-up has said that it is published in this
 * storage. */
static void step_on(struct consume *c, int here, bool in_sight)
{
    struct member *member = c->member;
    const struct store_record *record;

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
    if (c->settle) /* it was removed meanwhile, or is being written here */
        consume_enter(c, CONSUME_HERE);
    if (here == ESTALE) {
        consume_end(c, ESTALE);
        return;
    }
    if (here != ENOENT && here != EAGAIN) {
        log_error("\"%s\" cannot be looked at below %s: %s", c->upath,
                  store_dir_path(member->dmd[ENGINE_CONSUMER].dir), strerror(here));
        consume_end(c, here);
        return;
    }
    if (c->taken && (here == ENOENT || c->here.abandoned)) {
        /* Whose name it was is gone without a publish: what had been fetched then is it.
         * As long as he writes, it would only be fetched in vain. */
        c->taken = false;
        c->seen = (struct dyad_version){0};
        if (c->lookup)
            consume_enter(c, CONSUME_HERE);
    }
    if (goes_on(c))
        return;
    if (here == EAGAIN) {
        /* Not the version that was here before the writer came. */
        record = store_journal_find(member->dmd[ENGINE_CONSUMER].journal, c->upath);
        if (record && dyad_version_cmp(&record->entry.version, &c->seen) > 0)
            c->seen = record->entry.version;
        if (c->here.abandoned)
            consume_writer_gone(c);
        else
            consume_wait_for_writer(c);
        await_heir(c, in_sight);
    }
    if (look_up(c) && here == ENOENT && (c->flags & NET_LOOKUP_WAIT) && !c->ancestor &&
        look_above(c) == ESTALE)
        consume_end(c, ESTALE);
}

static void step(struct consume *c)
{
    step_on(c, look_here(c), false);
}

static void step_in_sight(struct consume *c)
{
    const struct store_dir *dir = c->member->dmd[ENGINE_CONSUMER].dir;
    int here = look_here(c);

    if (here == ENOENT && store_dir_shared(dir)) {
        store_dir_refresh(dir, c->upath);
        here = look_here(c);
        if (here == ENOENT && !(c->flags & NET_CONSUME_WRITER) && consume_await_sight(c)) {
            consume_enter(c, CONSUME_SIGHT);
            return;
        }
    }
    step_on(c, here, true);
}

/* Timer `again`. */
static void look_again(void *arg)
{
    struct consume *c = arg;

    if (c->state == CONSUME_OWNER || c->state == CONSUME_SIGHT) {
        consume_owner_look(c);
        consume_enter(c, CONSUME_HERE);
    }
    step(c);
}

/* --- interface --- */

struct consume *consume_start(struct member *member, const char *upath, uint8_t flags,
                              uint64_t timeout_ms, pid_t pid, pid_t tid, consume_fn fn,
                              void *arg)
{
    struct consume *c;

    if (!member->dmd[ENGINE_CONSUMER].dir) {
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
    c->deadline.still = member->still;
    c->say.interval = CONSUME_SAY_AFTER;
    c->lost.owner = DYAD_RANK_NONE;
    DL_APPEND(member->consumes, c);
    if (!(c->say.timer = net_timer_create(member->loop, consume_say_still, c)) ||
        !(c->again = net_timer_create(member->loop, look_again, c)) ||
        !(c->deadline.timer = net_timer_create(member->loop, deadline_passed, c))) {
        consume_free(c);
        errno = ENOMEM;
        return NULL;
    }
    net_timer_start(c->say.timer, c->since + CONSUME_SAY_AFTER);
    if (timeout_ms && (flags & NET_LOOKUP_WAIT))
        net_timer_start(c->deadline.timer, c->since + timeout_ms * UTIL_NSEC_PER_MSEC);
    net_loop_post(member->loop, &c->begin.post, begun, c);
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
            .writer = c->here.writer,
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
