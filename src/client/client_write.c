/*
 * client_write.c - from write-open to publish
 *
 * A token is the mark of the description with the role in its top bit. What this process
 * knows beside the mark (the name at the open) is in a table indexed by the mark's slot.
 * Whether the file was written, the mark says (store/marks_written.c), to the process
 * that closes it last, which publishes. A description that no open of ours made counts as
 * written.
 *
 * What could go wrong: another process ends the mark while this one still has a record of
 * it (struct writing); the name has changed since the open, or another process holds the
 * description (client_write_closing()). A signal handler that writes a file may have
 * interrupted the program's malloc, so nothing here calls malloc.
 */
#include "client/client_promoted.h"
#include "client/client_write.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "client/client.h"
#include "client/client_fd_name.h"
#include "client/client_lock.h"
#include "client/client_join.h"
#include "client/client_names.h"
#include "client/client_record.h"
#include "config/probes.h"
#include "store/superseded.h"
#include "util/clock.h"
#include "util/log.h"

#define PUBLISH_TRIES 8

/* A version that has come meanwhile is seen here when its publisher has told all nodes, of which no
 * event tells; and others may try the same at the same time. ns. */
#define NEWER_PAUSE     200000
#define NEWER_PAUSE_MAX (32 * UTIL_NSEC_PER_MSEC)
#define NEWER_WAIT      (5 * UTIL_NSEC_PER_SEC)

/* A slot belongs to one description, so threads that work on different descriptions touch
 * different records, and a fork copies the table as it is right. A record is the
 * description's as long as the mark is, and the mark may end by another process's hand as
 * soon as the descriptor is closed here: so closing empties the record, and what
 * client_write_closed() needs travels in the caller's struct engine_closing. */
struct writing {
    engine_token token;
    char *first_upath; /* at the open; NULL: not known */
    bool waits;        /* as client_write_begin() was told */
    bool absent;       /* it has found no file, and does not empty or need to make it */
    bool noted;        /* of fetch_to_write(), or tell_shared() */
    bool shared;       /* others may write it together with it */
    bool begun;        /* the member knows of which version what is written are changes */
};

/* 65,536 slots a role; pages are touched as slots are used. */
static struct writing table[2][STORE_MARK_SLOTS];

/* A slot comes to another thread by way of a process that ended its last use, which
 * orders the two threads' accesses; this shows that order to compilers and race
 * detectors. */
static _Atomic bool taken_before[2][STORE_MARK_SLOTS];

static enum engine_role token_role(engine_token token)
{
    return token & TOKEN_PRODUCER ? ENGINE_PRODUCER : ENGINE_CONSUMER;
}

static struct writing *writing_of(engine_token token)
{
    return &table[token_role(token)][store_mark_slot(token & ~TOKEN_PRODUCER)];
}

static _Atomic bool *taken_of(engine_token token)
{
    return &taken_before[token_role(token)][store_mark_slot(token & ~TOKEN_PRODUCER)];
}

static void writing_new(engine_token token, const char *upath, bool waits, bool noted,
                        bool shared)
{
    struct writing *w = writing_of(token);

    atomic_load_explicit(taken_of(token), memory_order_acquire);
    client_name_free(
        w->first_upath); /* of a use of the slot whose end another process saw to */
    *w = (struct writing){.token = token,
                          .first_upath = client_name_copy(upath),
                          .waits = waits,
                          .noted = noted,
                          .shared = shared};
}

/* The record of token, whose place is empty afterwards. There is none if the description
 * was inherited. */
static struct writing writing_take(engine_token token)
{
    struct writing *w = writing_of(token), taken = {.token = token};

    if (w->token == token) {
        taken = *w;
        *w = (struct writing){.token = 0};
        atomic_store_explicit(taken_of(token), true, memory_order_release);
    }
    return taken;
}

static struct store_marks *token_marks(engine_token token)
{
    return client_get()->dmd[token_role(token)].marks;
}

/* Others may write it already, each into a file of its own, or do so soon: who reads it asks the
 * homes, which are to know of all of them before any has written. True: others do. *old, if it has to be the
 * newest: the file here is older than what is published. */
static bool tell_shared(struct client *client, enum engine_role role, engine_token token,
                        const char *upath, bool newest, bool waited, bool *old)
{
    struct writing *w = writing_of(token);
    bool met;

    *old = false;
    if (w->noted || client_shared(client, role))
        return false;
    w->noted = client_writing(client, role, upath, token & ~TOKEN_PRODUCER,
                              NET_WRITING_BEGIN | NET_WRITING_JOINED |
                                  (newest ? NET_WRITING_NEWEST : 0) |
                                  (waited ? NET_WRITING_WAITED : 0)) == 0;
    met = !w->noted && errno == EALREADY;
    *old = !w->noted && errno == ESTALE;
    w->noted |= met || *old;
    return met;
}

/* Another node writes it, too: what reads here by way of such a description sees what is written
 * there, and the other way round, from the end of this open on. */
static bool join(struct client *client, enum engine_role role, engine_token token,
                 const char *upath)
{
    store_mark_t mark = token & ~TOKEN_PRODUCER;
    struct writing *w = writing_of(token);

    store_marks_set_joint(client->dmd[role].marks, upath, 0, 0);
    w->begun = client_writing(client, role, upath, mark,
                              NET_WRITING_SHOW | NET_WRITING_JOINED) == 0;
    if (!w->begun && errno != ENOENT && errno != ESTALE)
        log_warn("what other nodes read of \"%s\" may lack what is written here: %m",
                 upath);
    return w->begun || errno != ESTALE;
}

/* The mark ends without a publish: notify the homes, if they were notified of its begin.
 */
static void tell_end(engine_token token, bool noted, const char *upath, uint8_t what)
{
    struct client *client = client_get();
    int saved = errno;

    if ((noted || client_shared(client, token_role(token))) && !client_member_over())
        client_writing(client, token_role(token), upath, token & ~TOKEN_PRODUCER, what);
    errno = saved;
}

/* Nothing is opened with that mark. */
static void give_up(engine_token token)
{
    struct writing w = writing_take(token); /* first: then the slot is anybody's */

    store_marks_abort(token_marks(token), token & ~TOKEN_PRODUCER);
    tell_end(token, w.noted, w.first_upath, NET_WRITING_END);
    client_name_free(w.first_upath);
}

/* 0: ENOSPC; or, unless `as_it_is`, ESTALE: the file was found here, and removed before there was the mark, for a newer one. From
 * now on it stays. */
static store_mark_t take_mark(struct client *client, struct client_dmd *s,
                              const char *upath, int flags, bool as_it_is, struct stat *st)
{
    store_mark_t mark = client_join_only(flags) ? store_marks_begin_joining(s->marks, upath)
                                                : store_marks_begin(s->marks, upath);

    if (!mark) {
        log_error(
            "too many files are open for writing below %s on this node: \"%s\" cannot be "
            "marked",
            s->path, upath);
        errno = ENOSPC;
        return 0;
    }
    store_marks_await_name(s->marks, upath);
    if (!as_it_is && S_ISREG(st->st_mode) && !client_is_here(client, s, upath, flags, st)) {
        store_marks_abort(s->marks, mark);
        errno = ESTALE;
        return 0;
    }
    return mark;
}

/* ESTALE, unless it is the `last` try: what it has found went out of date before all who write it knew of
 * this open. */
static int begin(enum engine_role role, const char *upath, int flags, enum engine_write how,
                 bool last, engine_token *token)
{
    bool part = !(flags & (O_TRUNC | O_EXCL)), met = false, old = false, waits, waited;
    /* Who appends has to know who else writes it. */
    bool absent = part && (flags & O_APPEND);
    struct client *client = client_get();
    struct client_dmd *s = &client->dmd[role];
    int saved = errno, rc = 0;
    struct client_found found = {0};
    store_mark_t mark;

    *token = 0;
    absent &= !(how & ENGINE_WRITE_ONCE);
    waited = how & ENGINE_WRITE_SHARED;
    how &= ~(unsigned)(ENGINE_WRITE_SHARED | ENGINE_WRITE_ONCE);
    waits = how == ENGINE_WRITE_WAITS;
    if (how == ENGINE_WRITE_JOINS)
        flags |= O_CREAT;
    if (!(flags & (O_TRUNC | O_EXCL)) &&
        (rc = client_fetch_to_write(client, role, upath, flags, waits, &found)) < 0) {
        bool busy =
            errno == ESTALE; /* its node has written to it since, or will publish it soon */
        if (busy && (flags & O_APPEND) && !last)
            return -1;
        if (errno != ENOENT && errno != EALREADY && !busy)
            return -1;
        met = errno != ENOENT;
        /* What lies here, if anything, is older, and no version to begin with. */
        part = false;
    }
    /* Of who has found one the homes take no note. */
    found.noted &= !S_ISREG(found.st.st_mode);
    errno = saved;
    if ((flags & O_ACCMODE) == O_RDONLY) /* it may create the file, but cannot write it */
        return 0;
    if (!(mark = take_mark(client, s, upath, flags, last || rc != 0, &found.st)))
        return -1;
    *token = mark | (role == ENGINE_PRODUCER ? TOKEN_PRODUCER : 0);
    if (!(flags & (O_TRUNC | O_EXCL)))
        store_marks_will_look(s->marks, mark);
    if (s->extents && !(flags & (O_TRUNC | O_EXCL)))
        store_marks_may_record(s->marks, mark, how == ENGINE_WRITE_JOINS);
    else if (s->extents)
        store_marks_may_record_later(s->marks, mark);
    /* In case the descriptor is closed behind our back: its name is all that is left then.
     */
    writing_new(*token, upath, waits, found.noted, part && s->extents);
    writing_of(*token)->absent = absent && !S_ISREG(found.st.st_mode);
    if (part && s->extents)
        met = tell_shared(client, role, *token, upath, flags & O_APPEND, waited, &old);
    old |= met && s->extents && !join(client, role, *token, upath);
    if (rc == CLIENT_FETCHED_AHEAD) {
        store_marks_set_ahead(s->marks, mark, &found.ahead);
        old |= !met || client_writing(client, role, upath, mark, NET_WRITING_SHOW) < 0;
    }
    if (old && ((flags & O_APPEND) || rc == CLIENT_FETCHED_AHEAD)) {
        give_up(*token);
        *token = 0;
        if (last)
            log_error(
                "\"%s\" cannot be opened to write it with other nodes: nobody has all that "
                "they have written since they opened it; open it when they have closed "
                "it, or once for all that is written",
                upath);
        errno = last ? EIO : ESTALE;
        return -1;
    }
    /* A member that cannot be reached was logged; the program writes all the same. */
    if (client_shared(client, role))
        client_writing(client, role, upath, mark, NET_WRITING_BEGIN);
    errno = saved;
    return 0;
}

int client_write_begin(enum engine_role role, const char *upath, int flags,
                       enum engine_write how, engine_token *token)
{
    uint64_t pause = NEWER_PAUSE, until = 0, now;
    int saved = errno;

    while (begin(role, upath, flags, how, until && util_clock_now() >= until, token) < 0) {
        if (errno != ESTALE)
            return -1;
        now = util_clock_now();
        if (!until)
            until = now + NEWER_WAIT;
        /* Of those that began at once each waits for another time. */
        now = pause + (now ^ (uint64_t)gettid()) % pause;
        nanosleep(&(struct timespec){.tv_nsec = (long)now}, NULL);
        pause = pause < NEWER_PAUSE_MAX ? 2 * pause : NEWER_PAUSE_MAX;
        errno = saved;
    }
    return 0;
}

/* The file may have been made, or emptied, after write_begin() looked. A name that did not
 * fit into memory could not be waited for. */
static bool opened_too_early(engine_token token, int flags, const struct stat *st)
{
    const struct writing *w = writing_of(token);

    return w->waits && w->first_upath &&
           client_join_waits(client_get(), token_role(token), w->first_upath, flags, st,
                             token & ~TOKEN_PRODUCER);
}

/* The file has gone out of date after write_begin() looked. Then who found that has either
 * seen our mark, or set this one before. */
static bool superseded_since(engine_token token, int fd)
{
    const struct client *client = client_get();
    const char *upath = writing_of(token)->first_upath;
    struct stat st;

    return upath && fstat(fd, &st) == 0 && store_superseded_may(st.st_mode, st.st_nlink) &&
           store_superseded(client->dmd[token_role(token)].real, client->renames, upath,
                            STORE_OLD, st.st_ino);
}

int client_write_opened(engine_token token, int fd, int flags)
{
    struct store_marks *marks;
    int saved = errno;
    struct stat st;
    bool regular, early, brought;

    if (!token)
        return 0;
    marks = token_marks(token);
    regular = fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
    early = regular && opened_too_early(token, flags, &st);
    brought = regular && st.st_size > 0 &&
              (writing_of(token)->absent ||
               (writing_of(token)->begun && !client_write_is_known(token, fd)));
    if (!regular || early || brought) {
        give_up(token);
        errno = early ? EINPROGRESS : brought ? ESTALE : saved;
        return early || brought ? -1 : 0;
    }
    if (store_marks_opened(marks, token & ~TOKEN_PRODUCER, fd, (flags & O_TRUNC) != 0) < 0)
        log_error("a file open for writing could not be marked: %m");
    else if (!(flags & (O_TRUNC | O_EXCL))) {
        store_marks_look(marks, token & ~TOKEN_PRODUCER, fd);
        if (superseded_since(token, fd))
            store_marks_overtaken(marks, token & ~TOKEN_PRODUCER, 0, 0, NULL);
    }
    client_write_record_begin(token, !(flags & (O_TRUNC | O_EXCL)),
                              (flags & (O_TRUNC | O_EXCL)) != 0, writing_of(token)->shared,
                              writing_of(token)->begun);
    errno = saved;
    return 0;
}

/* A description that no open of ours made: libc's own, by posix_spawn's file actions, or a
 * process without the preload. It is marked from now on. 0: not a file of ours, or no slot.
 */
static store_mark_t mark_unseen(const struct client_dmd *dmd, const char *upath, int fd)
{
    int flags = fcntl(fd, F_GETFL);
    store_mark_t mark;
    struct stat st;

    if (flags < 0 || (flags & O_PATH) || (flags & O_ACCMODE) == O_RDONLY ||
        fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_nlink == 0)
        return 0;
    mark = store_marks_begin(dmd->marks, upath);
    if (mark && store_marks_opened(dmd->marks, mark, fd, false) < 0) {
        store_marks_abort(dmd->marks, mark);
        mark = 0;
    }
    return mark;
}

engine_token client_write_inherited(enum engine_role role, int fd)
{
    struct client *client = client_get();
    struct store_marks *marks = client->dmd[role].marks;
    char *upath = client_fd_name_now(&client->dmd[role], fd);
    store_mark_t mark;

    client_lock_inherited();
    /* Else it could get a second mark, which nobody clears. */
    if (upath)
        store_marks_await_opened(marks, upath);
    mark = store_marks_of_fd(marks, fd);
    if (!mark && upath && (mark = mark_unseen(&client->dmd[role], upath, fd))) {
        client_write_record_begin(mark | (role == ENGINE_PRODUCER ? TOKEN_PRODUCER : 0),
                                  false, false, false, false);
        if (client_shared(client, role))
            client_writing(client, role, upath, mark, NET_WRITING_BEGIN);
    }
    client_name_free(upath);
    return mark ? mark | (role == ENGINE_PRODUCER ? TOKEN_PRODUCER : 0) : 0;
}

int client_write_lock(engine_token token, int fd, uint64_t offset, uint64_t length,
                      enum engine_lock type, unsigned flags)
{
    const struct writing *w = writing_of(token);
    char *first =
        w->token == token && w->first_upath ? client_name_copy(w->first_upath) : NULL;
    int rc;

    if (flags & ENGINE_LOCK_APPEND) {
        offset = STORE_LOCK_APPEND;
        length = 1;
    }
    rc = client_lock(token_role(token), fd, first, offset, length, type,
                     flags & ~ENGINE_LOCK_APPEND);

    client_name_free(first);
    return rc;
}

void client_write_stored(engine_token token)
{
    client_write_unrecord(token);
    store_marks_set_written(token_marks(token), token & ~TOKEN_PRODUCER);
}

int client_write_show(engine_token token, int fd)
{
    struct client *client = client_get();
    enum engine_role role = token_role(token);
    char *upath = client_fd_name(&client->dmd[role], fd);
    int rc = 0, saved = errno;

    /* Without a name here nothing is put together. A member that cannot be reached was logged. */
    if (upath && !client_member_over())
        rc = client_writing(client, role, upath, token & ~TOKEN_PRODUCER, NET_WRITING_SHOW);
    if (rc < 0 && errno != EHOSTUNREACH) {
        log_error(
            "\"%s\" cannot be read: what other nodes have written of it cannot be had: %m",
            upath);
        client_name_free(upath);
        errno = EIO;
        return -1;
    }
    client_name_free(upath);
    errno = saved;
    return 0;
}

/* The last holder: the mark's OFD lock goes with the description. It is tested through a
 * probe, a new description of the same inode that is opened here, by way of /proc, before
 * the close; so it is right whatever happened to the name. */
void client_write_closing(engine_token token, int fd, struct engine_closing *closing)
{
    struct client *client = client_get();
    const struct client_dmd *dmd = &client->dmd[token_role(token)];
    struct writing w = writing_take(token);
    char link[32];
    int saved = errno;

    if (fd < 0) {
        client_lock_closing(token_role(token), token & ~TOKEN_PRODUCER, NULL,
                            w.first_upath);
        *closing = (struct engine_closing){
            .token = token, .upath = w.first_upath, .probe = -1, .noted = w.noted};
        return;
    }
    closing->token = token;
    closing->noted = w.noted;
    snprintf(link, sizeof(link), "/proc/thread-self/fd/%d", fd);
    closing->probe = open(link, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (closing->probe < 0)
        closing->probe = open(link, O_WRONLY | O_CLOEXEC | O_NOCTTY);
    errno = 0;
    closing->upath = client_fd_name(dmd, fd);
    /* ENOENT: no /proc here, after chroot; else the file got its first name later. */
    if (!closing->upath && w.first_upath &&
        (errno == ENOENT || client_fd_name_is(dmd, w.first_upath, fd)))
        closing->upath = w.first_upath;
    else if (!closing->upath && !(closing->upath = client_fd_name_left(dmd, fd)) &&
             w.first_upath && client_fd_name_others(dmd, w.first_upath, fd))
        closing->upath = w.first_upath;
    client_lock_closing(token_role(token), token & ~TOKEN_PRODUCER, closing->upath,
                        w.first_upath);
    /* It has no name any more, by which the close could tell that. */
    if (!closing->upath && client_write_shared(token))
        tell_end(token, true, w.first_upath, NET_WRITING_END);
    if (closing->upath != w.first_upath)
        client_name_free(w.first_upath);
    if (client->config.fsync_write && fsync(fd) < 0)
        log_error("fsync of \"%s\" failed: %m", closing->upath ? closing->upath : "?");
    errno = saved;
}

/* Another process holds the description. If that is one that will not tell us of its end
 * (it has not reached its exec yet, or has no library of ours) the member takes the mark
 * over; it asks for the file behind the probe, so that is open until it has answered. The
 * wait is for a publish that this close has to do with, and else short. */
static void leave_to_others(struct client *client, const struct engine_closing *closing)
{
    enum engine_role role = token_role(closing->token);
    struct store_marks *marks = token_marks(closing->token);
    store_mark_t mark = closing->token & ~TOKEN_PRODUCER;

    if (closing->upath && closing->probe >= 0 && !client_member_over() &&
        store_marks_left(marks, mark))
        client_watch(client, role, closing->upath, mark, closing->probe);
    store_marks_await_closer(marks, mark);
}

/* The member looks for the file by its name, a moment after we did: if it finds none though
 * the file has one, it is told again. 0 or errno value; ENOENT: it has been removed. */
static int publish(struct client *client, struct engine_closing *closing, store_mark_t mark)
{
    enum engine_role role = token_role(closing->token);

    for (int tries = 0; tries < PUBLISH_TRIES; tries++) {
        char *upath;

        if (client_produce(client, role, closing->upath, mark) == 0)
            return 0;
        if (errno != ENOENT)
            return errno;
        if (closing->probe < 0 ||
            !(upath = client_fd_name(&client->dmd[role], closing->probe)))
            return ENOENT;
        client_name_free(closing->upath);
        closing->upath = upath;
    }
    return ENOENT;
}

int client_write_closed(struct engine_closing *closing, int error, bool mapped)
{
    struct client *client = client_get();
    engine_token token = closing->token;
    struct store_marks *marks = token_marks(token);
    store_mark_t mark = token & ~TOKEN_PRODUCER;
    const char *upath = closing->upath;
    int saved = errno;
    int failed = 0;
    bool last = store_marks_closed(marks, mark, closing->probe, mapped), written = false,
         noted;
    uint64_t ino, btime;

    if (!last && (client_member_here() || client_promoted_table_wait())) {
        client_member_table_wait();
        last = store_marks_closed(marks, mark, closing->probe, mapped);
    }
    if (!last && !error)
        leave_to_others(client, closing);

    /* Not before: until then another process may write. */
    if (last && !error && upath)
        written = store_marks_written(marks, mark, closing->probe);
    if (last && error) {
        log_error("\"%s\" is not published: writing it failed: %s", upath ? upath : "?",
                  strerror(error));
        store_marks_abandon(marks, mark);
        tell_end(token, false, upath, NET_WRITING_ABANDONED);
    } else if (last && written) {
        probes_made(upath);
        failed = publish(client, closing, mark);
        if (failed && failed != ENOENT)
            log_error("\"%s\" is %snot published: %s", closing->upath,
                      failed == EIO ? "" : "complete on this node but ", strerror(failed));
        if (failed)
            tell_end(token, closing->noted, closing->upath, NET_WRITING_END);
        /* 0: the member has cleared the mark, or will (DYAD_ASYNC_PUBLISH). */
        if (failed)
            store_marks_settle(marks, mark, failed);
        if (failed == ENOENT)
            failed = 0;
    } else if (last) {
        /* Of one that another program has opened it is not known whether the homes were told. */
        noted = closing->noted || store_marks_file(marks, mark, &ino, &btime);
        store_marks_clear(marks, mark);
        tell_end(token, noted, upath, NET_WRITING_END);
    }
    if (closing->probe >= 0)
        close(closing->probe);
    client_name_free(closing->upath);
    errno = failed ? failed : saved;
    return failed ? -1 : 0;
}
