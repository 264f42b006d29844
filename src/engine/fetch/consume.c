/*
 * consume.c - make a file present and complete on this node, or say why not
 *
 * step() looks at what is here, at the beginning and when something has come of a state;
 * step_on() goes on from there. The table says what goes on in a state, and what comes of
 * it. LOOK_UP and WRITERS end also by DYAD_TIMEOUT, by their process's death, or by the
 * verdict of the exit barrier.
 *
 * What could go wrong: the owner is gone (OWNER); what is published is not seen here
 * (SIGHT); nobody is left who could publish it (LAST_LOOK). In a session directory there
 * is no verdict, and a file whose owner has gone is waited for like one that nobody has
 * published.
 *
 *   state      what goes on                        what comes of it
 *   HERE       nothing: it is looked at once       as step_on() says
 *   LOOK_UP    the homes are asked; if it is       found in a storage that we see: HERE,
 *              waited for they say when it is      and SIGHT if it is not here; in another:
 *              published                           PARENTS, FETCH. Not: ABOVE, or the end
 *   ABOVE      the homes are asked for             a link: LINK. None: the end
 *              directories above it
 *   LINK       that link is brought here           the end, ESTALE
 *   PARENTS    directories above it are brought    FETCH. A newer version came: HERE
 *   FETCH      its bytes are                       HERE. Its owner is gone: OWNER
 *   OWNER      a pause: its owner is gone          HERE, to look it up again, for a time
 *   SIGHT      a pause: published in our storage,  HERE, the same
 *              and not seen here; or fetched, and
 *              a newer one that is not here known
 *   WRITERS    here and complete, or published;    no: the end, or LOOK_UP for the version that has
 *              does another node write it? The     all, or is newer than a pending file. Who did
 *              homes are asked                     is gone: LOOK_UP for a newer version
 *   LAST_LOOK  nobody is left, is the verdict      published after all: as LOOK_UP. Not:
 *              (consume_wave.c): a last look-up    the end
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "engine/core/module.h"
#include "engine/fetch/bring.h"
#include "engine/fetch/consume_impl.h"
#include "engine/membership/exit_barrier.h"
#include "util/clock.h"
#include "util/log.h"

/* The files of the states answer, or get a function to call. (Two call consume_found().) */
static void step(struct consume *c);
static void step_in_sight(struct consume *c);
static void look_later(struct consume *c);

/* Something is under way by which it goes on, whether it lies here or not. */
static bool goes_on(const struct consume *c)
{
    return c->state >= CONSUME_LINK && c->state <= CONSUME_SIGHT;
}

/* --- DYAD_TIMEOUT --- */

static void time_out(struct consume *c)
{
    consume_say_late(c);
    consume_end(c, ETIMEDOUT);
}

static void deadline_passed(void *arg)
{
    struct consume *c = arg;

    if (!consume_deadline_is_over(c))
        return;
    /* In these states the file was published, and its transfer has bounds of its own. */
    if (c->state != CONSUME_PARENTS && c->state != CONSUME_FETCH)
        time_out(c);
}

/* --- OWNER --- */

/* OWNER, if it is still to be waited for. */
static void await_owner(struct consume *c, uint32_t owner)
{
    int status;

    consume_enter(c, CONSUME_OWNER);
    status = consume_owner_lost(c, owner);
    if (status == ETIMEDOUT)
        time_out(c);
    else if (status)
        consume_end(c, status);
}

/* --- FETCH --- */

static void transferred(void *arg, int status)
{
    struct consume *c = arg;

    consume_enter(c, CONSUME_HERE);
    if ((c->flags & CONSUME_BACKGROUND) && (status == EHOSTUNREACH || status == EEXIST)) {
        consume_end(c, status); /* an open that needs it will wait */
        return;
    }
    if (status == EHOSTUNREACH) {
        consume_unsee(c);
        await_owner(c, c->entry.owner);
        return;
    }
    if ((status == 0 && !c->transfer.ahead) || status == ESTALE || status == EBUSY ||
        status == EEXIST) {
        if (status == EBUSY)
            c->seen = (struct dyad_version){0};
        c->taken = status == EEXIST;
        (c->taken && c->here.unsettled ? look_later : step)(c); /* published by no writer */
        return;
    }
    consume_end(c, status ? status : EUCLEAN);
}

static void fetch(struct consume *c)
{
    consume_enter(c, CONSUME_FETCH);
    c->transfer.fn = transferred;
    c->transfer.arg = c;
    c->transfer.pid = c->pid;
    c->transfer.background = (c->flags & CONSUME_BACKGROUND) != 0;
    c->transfer.joins = (c->flags & NET_CONSUME_WRITER) && (c->flags & NET_CONSUME_ANY);
    if (transfer_start(c->member, &c->entry, &c->transfer) < 0)
        consume_end(c, errno);
}

/* --- PARENTS --- */

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

/* --- ABOVE and LINK --- */

static void link_brought(void *arg, int status)
{
    struct consume *c = arg;

    c->link = NULL;
    /* Withdrawn again, or a failure that was logged: the name, resolved again, shows it. */
    (void)status;
    consume_end(c, ESTALE);
}

static void looked_above(void *arg, int status)
{
    struct consume *c = arg;
    struct consume *link;

    if (status != EINPROGRESS) {
        consume_end(c, status);
        return;
    }
    link = consume_start(c->member, ancestor_upath(c->ancestor), 0, 0, c->pid, c->tid,
                         link_brought, c);
    consume_enter(c, CONSUME_LINK);
    c->link = link;
    exit_barrier_activity(c->member); /* it does not wait for a publish any more */
    if (!link)
        consume_end(c, ENOMEM);
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

/* --- LOOK_UP --- */

static void ask_writers(struct consume *c, bool published);
static bool look_up(struct consume *c);

void consume_found(struct consume *c, const struct dyad_entry *entry, void *bytes)
{
    struct member *member = c->member;
    struct member_dmd *dmd = &member->dmd[ENGINE_CONSUMER];

    consume_enter(c, CONSUME_HERE);
    c->lost.before = c->seen;
    c->seen = entry->version;
    c->entry = *entry;
    c->entry.upath = c->upath;
    free(c->transfer.bytes);
    c->transfer.bytes = bytes;
    /* The wait is over, though the program sleeps on: also where it is published in our
     * storage and waits to be seen here, for it will go on by itself. */
    exit_barrier_activity(member);
    if (consume_is_own_turn(c, entry)) {
        look_up(c);
        return;
    }
    if (entry->written && consume_waits_for_others(c)) {
        c->seen = c->lost.before; /* once more, for the version that has all of it */
        ask_writers(c, true);
        return;
    }
    if (entry->conflict) {
        util_log(
            c->pid ? UTIL_LOG_ERROR : UTIL_LOG_DEBUG,
            "\"%s\" cannot be opened: several nodes wrote it at once, %s the last, and no "
            "node has all of it; remove it or make it anew",
            c->upath, member_describe(member, entry->owner));
        consume_end(c, EIO);
        return;
    }
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
    void *bytes = status == 0 ? dht_lookup_take_bytes(c->lookup) : NULL;
    bool met = status == EALREADY; /* another node makes it, too */

    c->lookup = NULL;
    if (status == 0) {
        consume_found(c, entry, bytes);
        return;
    }
    consume_enter(c, CONSUME_HERE);
    status = met ? ENOENT : status;
    if (status == ENOENT && c->deadline.late) {
        time_out(c);
        return;
    }
    if (consume_owner_awaited(c, status, entry)) {
        await_owner(c, c->lost.owner);
        return;
    }
    consume_withdrawn(c, status, entry);
    if (status == ENOENT && !entry &&
        !(c->flags & (NET_LOOKUP_WAIT | NET_CONSUME_WRITER))) {
        consume_enter(c, CONSUME_ABOVE);
        status = look_above(c);
    }
    if (status != EINPROGRESS)
        consume_end(c, !met ? status : c->seen.counter ? ESTALE : EALREADY);
}

/* LOOK_UP, if it does not look already. False: it has ended. */
static bool look_up(struct consume *c)
{
    /* KEEP: an open that does not wait may be one of a loop. */
    uint8_t flags = NET_LOOKUP_COPY |
                    (consume_may_make(c) ? NET_LOOKUP_WRITES : NET_LOOKUP_KEEP) |
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

/* --- WRITERS --- */

static void writers_answered(void *arg, int status, uint32_t by,
                             const struct dyad_version *version)
{
    struct consume *c = arg;
    bool published = c->published;

    c->ask_writers = NULL;
    consume_enter(c, CONSUME_HERE);
    if (status == EBUSY) { /* it was not to wait */
        time_out(c);
        return;
    }
    status = consume_writers_ruling(c, status, by, version);
    c->asks_again = status == EOWNERDEAD && published;
    if (status == 0 && published) {
        look_up(c);
        return;
    }
    if (status == 0 && (c->here.pending || consume_may_be_newer(c)) &&
        consume_look_for_newer(c))
        return;
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

/* The file here is complete as far as this node knows, or was `published` by another, which
 * said that others write it: ask whether they do. */
static void ask_writers(struct consume *c, bool published)
{
    if (c->ask_writers)
        return;
    consume_enter(c, CONSUME_WRITERS);
    c->published = published;
    if (!published)
        consume_wait_for_writer(c);
    c->ask_writers = dht_node_ask_writers(c->member->dht, c->upath, !c->deadline.late,
                                          writers_answered, c);
    if (!c->ask_writers)
        consume_end(c, ENOMEM);
    else
        exit_barrier_activity(c->member);
}

/* --- HERE and SIGHT --- */

/* True if the entry that was found last, and is not waited for any more, is in our
 * storage. */
static bool was_found_here(const struct consume *c)
{
    return c->entry.version.counter && !dyad_version_cmp(&c->entry.version, &c->seen) &&
           dyad_storage_equal(c->entry.storage,
                              store_dir_id(c->member->dmd[ENGINE_CONSUMER].dir));
}

/* The file here is abandoned, but the homes have it: its writer was killed in its close,
 * before the look-up or after it. A member of this node takes it over, and then it is no
 * longer abandoned: no event reports that, so it is polled. */
static void await_takeover(struct consume *c)
{
    bool asked = c->left_closed;

    c->left_closed = c->here.abandoned && was_found_here(c);
    if (!c->left_closed)
        return;
    if (!asked)
        modules_wanted(c->member, &c->entry);
    net_timer_start(c->again, util_clock_now() + CONSUME_LOOK_AGAIN);
}

static void look_later(struct consume *c)
{
    consume_enter(c, CONSUME_SIGHT);
    net_timer_start(c->again, util_clock_now() + CONSUME_LOOK_AGAIN);
}

/* The file was fetched more than once, had to give way each time, and is not here: a writer here makes and
 * removes it, or this node's record is of a newer version, which is gone. Neither is certain to end. */
static void gives_way_again(struct consume *c)
{
    uint64_t now = util_clock_now();

    if (c->deadline.late) {
        time_out(c);
        return;
    }
    if (!c->gives_way_since)
        c->gives_way_since = now;
    if (now - c->gives_way_since <
        (uint64_t)(c->member->config->join_timeout * (double)UTIL_NSEC_PER_SEC)) {
        look_later(c);
        return;
    }
    log_error(
        "\"%s\" is fetched, and cannot be put into place: this node made a newer version "
        "of it, which is gone; remove or write it with the library",
        c->upath);
    consume_end(c, EIO);
}

/* `here` is what consume_look_here() has found. A complete file: the end; but WRITERS on
 * storage that nodes share. A link above it: the end, ESTALE, for its name is to be
 * resolved again. Not here, or written, or abandoned: the state goes on if it is one from
 * LINK to SIGHT (goes_on()), or else it is LOOK_UP, for a version above the last one
 * seen, so it cannot spin. Beside LOOK_UP there is a watch over a writer here
 * (consume_local_writer.c), and the directories above are looked up, too. */
static void step_on(struct consume *c, int here)
{
    struct member *member = c->member;
    const struct store_record *record;

    if (here != ENOENT)
        c->unseen_since = 0;
    if (here == 0 && !c->here.unsettled && consume_must_ask_writers(c)) {
        ask_writers(c, false);
        return;
    }
    if (here == 0 && consume_may_be_newer(c) && consume_look_for_newer(c))
        return;
    if (here == 0 || (here == EAGAIN && (c->flags & NET_CONSUME_WRITER)) ||
        (c->flags & NET_CONSUME_UNWRITTEN)) { /* what is not here: its open will say */
        consume_end(c, 0);
        return;
    }
    if (c->ask_writers) /* it was removed meanwhile, or is being written here */
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
        /* The writer that had the name is gone without a publish: fetch it once more.
         * While it wrote, a fetch would have been in vain. */
        c->taken = false;
        c->seen = (struct dyad_version){0};
        if (c->lookup)
            consume_enter(c, CONSUME_HERE);
        if (here == ENOENT && c->gave_way) {
            gives_way_again(c);
            return;
        }
        c->gave_way = here == ENOENT;
    }
    if (goes_on(c))
        return;
    if (here == EAGAIN) {
        /* Not the version that was here before the writer came. */
        record = store_journal_find(member->dmd[ENGINE_CONSUMER].journal, c->upath);
        if (record && !record->entry.conflict &&
            dyad_version_cmp(&record->entry.version, &c->seen) > 0)
            c->seen = record->entry.version;
    }
    if (here == ENOENT || c->here.abandoned)
        consume_writer_gone(c);
    else
        consume_wait_for_writer(c);
    if (!look_up(c))
        return;
    if (here == EAGAIN)
        await_takeover(c);
    else if ((c->flags & NET_LOOKUP_WAIT) && look_above(c) == ESTALE)
        consume_end(c, ESTALE);
}

static void step(struct consume *c)
{
    step_on(c, consume_look_here(c, step));
}

static void step_in_sight(struct consume *c)
{
    const struct store_dir *dir = c->member->dmd[ENGINE_CONSUMER].dir;
    int here = consume_look_here(c, step);

    if (here == ENOENT && store_dir_shared(dir)) {
        store_dir_refresh(dir, c->upath);
        here = consume_look_here(c, step);
        if (here == ENOENT && !(c->flags & NET_CONSUME_WRITER) && consume_await_sight(c)) {
            look_later(c);
            consume_unsee(c);
            return;
        }
    }
    step_on(c, here);
}

/* Timer `again`: the first look, or one more. A look-up goes on. */
static void look_again(void *arg)
{
    struct consume *c = arg;

    if (c->state == CONSUME_OWNER || c->state == CONSUME_SIGHT)
        consume_enter(c, CONSUME_HERE);
    if (c->asks_again && c->state == CONSUME_LOOK_UP)
        ask_writers(c, true);
    else
        step(c);
}

/* --- interface --- */

static bool is_above(const char *upath, const char *below)
{
    size_t len = strlen(upath);

    return strncmp(below, upath, len) == 0 && below[len] == '/';
}

/* A directory or link was removed here, or a link made: waits for names below it look once
 * more what is above them. */
static void consume_path_changed(struct member *member, const char *upath)
{
    struct consume *c;

    DL_FOREACH(member->consumes, c)
    {
        if (!c->lookup || !(c->flags & NET_LOOKUP_WAIT) || !is_above(upath, c->upath))
            continue;
        if (c->ancestor)
            ancestor_stop(c->ancestor);
        c->ancestor = NULL;
        exit_barrier_activity(member);
        /* Not at once: its end may end others of the list (prefetch.c). */
        net_timer_start(c->again, util_clock_now());
    }
}

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
    if (flags & NET_LOOKUP_WAIT)
        consume_deadline_start(c);
    net_timer_start(c->again, c->since);
    return c;
}

static void consume_stop(struct member *member)
{
    while (member->consumes) /* one may have others for what is above it */
        consume_free(member->consumes);
}

const struct member_module consume_module = {
    .peer_up = consume_peer_up,
    .path_changed = consume_path_changed,
    .destroy = consume_stop,
};
