/*
 * session_slot.c - a slot of a session directory, and the entry in it
 *
 * A process takes a slot by the exclusive creation of one name, slot.N.I, where I is one
 * above the highest that is there: of several that try, one succeeds, in one step. The
 * slot belongs to the highest I. Lower names mean nothing any more, and the new holder
 * removes them when its entry is there, so a kill leaves at worst some names that the
 * next holder removes.
 *
 * What could go wrong: a taker was stopped, and its look is old
 * (session_dir_take_slot()); NFS repeats a request, and says that it failed
 * (create_slot(), move_name()); the clocks of the nodes differ, so ages are told by the
 * times that the server gives.
 */
#include "boot/session_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "boot/member_claim.h"
#include "boot/session_dir_impl.h"
#include "util/fd_close.h"
#include "util/log.h"
#include "util/wipe.h"

#define CLAIM_TRIES 1000 /* each one lost is another's success */
#define SPREAD_MAX  12   /* a taker chooses among up to 2^12 slots */
#define ABANDONED_S 600  /* a claim of another node without an entry */

/* --- liveness --- */

struct holder { /* what a link says */
    uint64_t identity, node, boot, net;
    char claim[64];
};

static bool read_holder(int fd, uint32_t slot, uint32_t inc, struct holder *h)
{
    char name[NAME_CAP], text[TARGET_CAP];

    session_name_print(name, &(struct name){.kind = SLOT, .slot = slot, .inc = inc});
    return session_dir_link(fd, name, text) > 0 &&
           sscanf(text,
                  "%16" SCNx64 ".%16" SCNx64 ".%16" SCNx64 ".%16" SCNx64 ".%*[0-9a-f].%63s",
                  &h->identity, &h->node, &h->boot, &h->net, h->claim) == 5;
}

/* True if no process of ours holds the claim. A member whose queue is full still holds it. */
static bool is_unclaimed(const char *claim)
{
    char name[sizeof(((struct sockaddr_un *)0)->sun_path)];
    struct sockaddr_un address;
    socklen_t len;
    int n = snprintf(name, sizeof(name), "dyad/%u/%s", (unsigned)geteuid(), claim), fd;

    if ((size_t)n >= sizeof(name) || !(len = boot_member_claim_named(name, &address)))
        return false;
    fd = boot_member_claim_connect_now(&address, len);
    if (fd < 0)
        return errno == ECONNREFUSED;
    close(fd);
    return false;
}

static bool is_holder_dead(const struct session_dir *d, const struct holder *h)
{
    if (h->node != d->node || !h->boot || !d->boot)
        return false;
    return h->boot != d->boot || (h->net && h->net == d->net && is_unclaimed(h->claim));
}

static bool is_dead(const struct session_dir *d, int fd, uint32_t slot)
{
    struct holder h;

    return read_holder(fd, slot, d->slots[slot].link, &h) && is_holder_dead(d, &h);
}

bool session_dir_is_dead(struct session_dir *d, uint32_t slot)
{
    bool dead;
    int fd;

    if (slot >= d->ranks || d->slots[slot].live_node != d->node ||
        (fd = session_dir_enter(d)) < 0)
        return false;
    dead = is_dead(d, fd, slot);
    util_fd_close(fd);
    return dead;
}

/* `from` is `to` now, by whomever. NFS repeats a request whose answer was lost, and then
 * says ENOENT of what it has just done: a rename is judged by what is there. */
static int move_name(int fd, const char *from, const char *to)
{
    struct stat st;

    if (renameat(fd, from, fd, to) == 0)
        return 0;
    if (errno != ENOENT)
        return -1;
    return fstatat(fd, to, &st, AT_SYMLINK_NOFOLLOW);
}

static int retire(struct session_dir *d, int fd, uint32_t slot)
{
    struct session_dir_slot *s = &d->slots[slot];
    struct name name = session_live_name(d, slot);
    char from[NAME_CAP], to[NAME_CAP];

    session_name_print(from, &name);
    name.kind = GONE;
    session_name_print(to, &name);
    if (move_name(fd, from, to) < 0)
        return -1;
    s->gone = s->live;
    s->gone_node = s->live_node;
    s->gone_identity = s->live_identity;
    s->live = 0;
    return 0;
}

int session_dir_retire(struct session_dir *d, uint32_t slot, uint32_t incarnation)
{
    int fd, rc;

    if (slot >= d->ranks || d->slots[slot].live != incarnation) {
        errno = ENOENT;
        return -1;
    }
    if ((fd = session_dir_enter(d)) < 0)
        return -1;
    rc = retire(d, fd, slot);
    util_fd_close(fd);
    return rc;
}

/* The dead of this node go; an earlier life of ours, too. Members of our own launch have
 * been watched by each other. */
static void sweep(struct session_dir *d, int fd)
{
    size_t launch = strcspn(d->claim, "/");

    for (uint32_t i = 0; i < d->ranks; i++) {
        const struct session_dir_slot *s = &d->slots[i];
        struct holder h;
        if (!s->live || s->live_node != d->node)
            continue;
        if (s->live_identity != d->identity &&
            (!read_holder(fd, i, s->link, &h) ||
             (h.boot == d->boot && strncmp(h.claim, d->claim, launch + 1) == 0) ||
             !is_holder_dead(d, &h)))
            continue;
        log_debug("slot %u of the session has an entry of a process that is no more", i);
        (void)!retire(d, fd, i);
    }
}

/* --- a slot --- */

/* A claim of long ago without an entry. By the server's clock. */
static bool is_abandoned(const struct session_dir *d, int fd, uint32_t slot)
{
    char name[NAME_CAP];
    struct stat link, now;

    session_name_print(
        name, &(struct name){.kind = SLOT, .slot = slot, .inc = d->slots[slot].link});
    return fstatat(fd, name, &link, AT_SYMLINK_NOFOLLOW) == 0 && futimens(fd, NULL) == 0 &&
           fstat(fd, &now) == 0 && now.st_mtim.tv_sec - link.st_mtim.tv_sec > ABANDONED_S;
}

enum choice { MINE, FRESH, DEAD_HERE, DEAD, NO_CHOICE };

static bool is_choice(struct session_dir *d, int fd, uint32_t slot, enum choice choice)
{
    const struct session_dir_slot *s = &d->slots[slot];
    bool has_gone = !s->live && s->link && s->gone == s->link;

    switch (choice) {
    case MINE:
        return has_gone && s->gone_identity == d->identity;
    case FRESH:
        return s->link == 0;
    case DEAD_HERE:
        return has_gone ? s->gone_node == d->node
                        : !s->live && s->link && is_dead(d, fd, slot);
    case DEAD:
        return has_gone || (!s->live && s->link && is_abandoned(d, fd, slot));
    default:
        return false;
    }
}

/* One of the first 2^attempt slots that may be had, by chance: many that come at once then
 * do not all go for the same. Low numbers are good for people. */
static bool choose(struct session_dir *d, int fd, unsigned attempt, uint32_t *slot)
{
    uint32_t spread = 1u << (attempt < SPREAD_MAX ? attempt : SPREAD_MAX), random;

    if (getrandom(&random, sizeof(random), 0) != sizeof(random))
        random = (uint32_t)getpid();
    for (enum choice choice = MINE; choice < NO_CHOICE; choice++) {
        uint32_t found = 0, which = random % spread, any = 0;
        for (uint32_t i = 0; i < d->ranks && found <= which; i++) {
            if (!is_choice(d, fd, i, choice))
                continue;
            /* The n-th one; if there are fewer, any of them. */
            if (found++ == 0 || random % found == 0)
                any = i;
            *slot = i;
        }
        if (found == 0)
            continue;
        if (found <= which)
            *slot = any;
        return true;
    }
    return false;
}

/* Ours was the creation of this incarnation? 1, 0: somebody else's; -1 with errno. NFS
 * repeats a request whose answer was lost, and then says EEXIST of what it has just done:
 * the text of a link has a random part, by which it is known. */
static int create_slot(struct session_dir *d, int fd, uint32_t slot, uint32_t inc)
{
    char name[NAME_CAP], text[TARGET_CAP];
    uint32_t nonce;

    if (getrandom(&nonce, sizeof(nonce), 0) != sizeof(nonce))
        return -1;
    snprintf(d->target, sizeof(d->target),
             "%016" PRIx64 ".%016" PRIx64 ".%016" PRIx64 ".%016" PRIx64 ".%08" PRIx32 ".%s",
             d->identity, d->node, d->boot, d->net, nonce, d->claim);
    session_name_print(name, &(struct name){.kind = SLOT, .slot = slot, .inc = inc});
    if (symlinkat(d->target, fd, name) == 0)
        return 1;
    if (errno != EEXIST)
        return -1;
    return session_dir_link(fd, name, text) > 0 && strcmp(text, d->target) == 0;
}

static void log_full(const struct session_dir *d)
{
    uint32_t live = 0;

    for (uint32_t i = 0; i < d->ranks; i++)
        live += d->slots[i].live != 0;
    log_error(
        "session directory full: %u slots in %s, %u of them with a member, the others "
        "just being taken; set DYAD_SESSION_RANKS higher, in a new directory",
        d->ranks, d->path, live);
    errno = ENOSPC;
}

/* Our claim ends. In a directory that was emptied since, the name may be another's. */
static void unlink_slot(const struct session_dir *d, int fd)
{
    struct name own = session_own_name(d, SLOT);
    char name[NAME_CAP], text[TARGET_CAP];

    session_name_print(name, &own);
    if (session_dir_link(fd, name, text) > 0 && strcmp(text, d->target) == 0)
        unlinkat(fd, name, 0);
}

/* A taker that was stopped between its look and its creation may create an I that others
 * have used and removed meanwhile: it looks again afterwards, and gives way to a higher
 * one. Those others began before that, so their names are there to be seen. */
int session_dir_take_slot(struct session_dir *d, uint32_t *slot, uint32_t *incarnation)
{
    int fd = -1, rc;

    for (unsigned attempt = 0; attempt < CLAIM_TRIES; attempt++) {
        if (fd >= 0)
            close(fd);
        if ((fd = session_dir_enter(d)) < 0 || session_dir_list(d) < 0)
            goto unreadable;
        if (attempt == 0)
            sweep(d, fd);
        if (!choose(d, fd, attempt, &d->slot)) {
            log_full(d);
            goto fail;
        }
        d->inc = d->slots[d->slot].link + 1;
        if ((rc = create_slot(d, fd, d->slot, d->inc)) < 0) {
            session_dir_log(d, errno);
            goto fail;
        }
        if (rc == 0)
            continue;
        if (session_dir_list(d) < 0)
            goto unreadable;
        if (d->slots[d->slot].link != d->inc) { /* see above */
            unlink_slot(d, fd);
            continue;
        }
        close(fd);
        d->has = true;
        *slot = d->slot;
        *incarnation = d->inc;
        return 0;
    }
    log_error(
        "no slot of the session directory %s could be had in %d tries: others were "
        "faster",
        d->path, CLAIM_TRIES);
    errno = EAGAIN;
    goto fail;

unreadable:
    log_error("session directory %s cannot be read: %m", d->path);
fail:
    util_fd_close(fd);
    return -1;
}

/* --- our entry --- */

static int write_all(int fd, const char *p, size_t len)
{
    while (len > 0) {
        ssize_t n = write(fd, p, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return -1;
        p += n;
        len -= (size_t)n;
    }
    return 0;
}

/* The entry is whole, or not there. The temporary's name is ours, as the claim is. */
static int put_entry(struct session_dir *d, int fd)
{
    struct name temporary = session_own_name(d, NEW), entry = session_own_name(d, LIVE);
    char from[NAME_CAP], to[NAME_CAP];
    int file, rc;

    session_name_print(from, &temporary);
    session_name_print(to, &entry);
    unlinkat(fd, from, 0);
    file = openat(fd, from, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (file < 0)
        return -1;
    rc = write_all(file, d->blob, d->blob_len);
    if (rc == 0)
        rc = fsync(file);
    if (rc < 0) {
        util_fd_close(file);
    } else {
        rc = close(file); /* where NFS says that its disk is full */
    }
    if (rc == 0)
        rc = move_name(fd, from, to);
    if (rc < 0) {
        int error = errno;
        unlinkat(fd, from, 0);
        errno = error;
    }
    return rc;
}

/* A later claim has our slot. */
static int superseded(struct session_dir *d)
{
    if (!d->superseded)
        log_error(
            "slot %u of the session %s was given to another process, because this one had "
            "been found dead; it shares no more files",
            d->slot, d->path);
    d->superseded = true;
    errno = ESTALE;
    return -1;
}

/* 0, or -1 if the list shows that another has our slot. */
static int check_superseded(struct session_dir *d)
{
    return d->slots[d->slot].link <= d->inc ? 0 : superseded(d);
}

int session_dir_commit(struct session_dir *d, const void *blob, size_t len)
{
    int fd;

    if (!(d->blob = malloc(len ? len : 1))) {
        log_error("no memory to join the session");
        return -1;
    }
    memcpy(d->blob, blob, len);
    d->blob_len = len;
    fd = session_dir_enter(d);
    if (fd < 0 || put_entry(d, fd) < 0) {
        int error = errno;
        if (fd >= 0)
            close(fd);
        util_wipe_free(d->blob, len); /* leaving gives the slot back */
        d->blob = NULL;
        session_dir_log(d, error);
        return -1;
    }
    close(fd);
    if (session_dir_list(d) < 0) {
        log_error("session directory %s cannot be read: %m", d->path);
        return -1;
    }
    if (check_superseded(d) < 0) {
        session_dir_leave(d);
        errno = ESTALE;
        return -1;
    }
    return 0;
}

/* Put back the names that make the session and our slot, if somebody has emptied the
 * directory. */
static int restore(struct session_dir *d, int fd)
{
    char name[NAME_CAP], text[TARGET_CAP];
    struct name own = session_own_name(d, SLOT);

    snprintf(text, sizeof(text), "%s", d->id);
    if (session_dir_agree(d, fd, "id", text) < 0)
        return -1;
    if (strcmp(text, d->id) != 0) {
        d->superseded = true;
        log_error(
            "the session directory %s was emptied, and others have begun another "
            "session in it; this process does not see them",
            d->path);
        errno = ESTALE;
        return -1;
    }
    snprintf(text, sizeof(text), "%" PRIu32, d->ranks);
    if (session_dir_agree(d, fd, "ranks", text) < 0)
        return -1;
    session_name_print(name, &own);
    snprintf(text, sizeof(text), "%s", d->target);
    if (session_dir_agree(d, fd, name, text) < 0)
        return -1;
    return strcmp(text, d->target) == 0 ? 0 : superseded(d);
}

int session_dir_keep(struct session_dir *d)
{
    const struct session_dir_slot *s = &d->slots[d->slot];
    struct name gone = session_own_name(d, GONE), live = session_own_name(d, LIVE);
    char from[NAME_CAP], to[NAME_CAP];
    int fd, rc;

    if (!d->blob ||
        (s->live == d->inc && s->live_node == d->node && s->live_identity == d->identity))
        return 0;
    if (d->superseded || check_superseded(d) < 0) {
        errno = ESTALE;
        return -1;
    }
    if ((fd = session_dir_enter(d)) < 0)
        return -1;
    rc = restore(d, fd);
    if (rc == 0) {
        log_info("somebody has removed this process from the session; it goes on");
        session_name_print(from, &gone);
        session_name_print(to, &live);
        if (renameat(fd, from, fd, to) < 0)
            rc = put_entry(d, fd);
    }
    util_fd_close(fd);
    return rc;
}

/* True if an entry of another slot names this node. */
static bool is_known_elsewhere(const struct session_dir *d, uint64_t node)
{
    for (uint32_t i = 0; i < d->ranks; i++)
        if ((d->slots[i].live && d->slots[i].live_node == node) ||
            (i != d->slot && d->slots[i].gone && d->slots[i].gone_node == node))
            return true;
    return false;
}

static void tidy_one(struct session_dir *d, int fd, const struct name *name)
{
    char text[NAME_CAP];

    if (name->slot != d->slot || name->inc >= d->inc ||
        (name->kind == GONE && !is_known_elsewhere(d, name->node)))
        return;
    session_name_print(text, name);
    unlinkat(fd, text, 0);
}

void session_dir_tidy(struct session_dir *d)
{
    int fd = session_dir_enter(d);

    if (fd >= 0)
        session_dir_each(d, fd, tidy_one);
}

void session_dir_leave(struct session_dir *d)
{
    struct name live = session_own_name(d, LIVE), gone = session_own_name(d, GONE);
    char from[NAME_CAP], to[NAME_CAP];
    int fd;

    if (!d->has || (fd = session_dir_enter(d)) < 0)
        return;
    d->has = false;
    session_name_print(from, &live);
    session_name_print(to, &gone);
    if (d->superseded)
        unlinkat(fd, from, 0);
    else if (d->blob)
        move_name(fd, from, to);
    if (!d->blob || d->superseded)
        unlink_slot(d, fd);
    close(fd);
}
