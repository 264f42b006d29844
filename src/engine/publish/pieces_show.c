/*
 * pieces_show.c - a read brings what other nodes have written to a file that is still open
 *
 *   state   of a read, until                        then
 *   WHO     the homes have said who writes it, and  ASKED; nobody else does: over
 *           who has published others' pieces
 *   ASKED   a rank of each such node has sent what  over
 *           it has written since it was asked last
 *           (PIECES), and said so (SHOWN)
 *
 * So bytes are moved where somebody reads, and once for all processes of its node (store/seen.h); the
 * record tells those from what a close gives away, which has to be published (STORE_EXTENTS_SHOWN).
 * An open that meets other writers asks them for nothing: it notes there that they are to ask this
 * node when they read. One that is asked while a process opens the file answers when it is open.
 */
#include "engine/publish/pieces_show.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <utlist.h>

#include "engine/core/joined_writers.h"
#include "engine/core/module.h"
#include "engine/publish/pieces_apply.h"
#include "engine/publish/pieces_send.h"
#include "store/extents.h"
#include "store/fetch.h"
#include "util/clock.h"
#include "util/fd_close.h"
#include "util/log.h"

#define NOTHING UINT64_MAX /* as `after`: of no time */

struct asked {
    uint32_t rank;
    bool answered;
};

struct showing {
    struct showing *prev, *next; /* utlist */
    struct member *member;
    enum engine_role role;
    bool bring;
    struct store_identity identity; /* of the file here; all zero: there is none */
    uint64_t id;
    struct asked *asked;
    unsigned nasked, nleft;
    int status;
    produce_fn fn;
    void *arg;
    char upath[];
};

/* A SHOW that is not answered yet. */
struct answering {
    struct answering *prev, *next; /* utlist */
    struct member *member;
    uint32_t rank;
    uint64_t id, after, but, until;
    bool owner, sends; /* NET_SHOW_OWNER; its pieces are being sent */
    char upath[];
};

struct pieces_shown {
    struct showing *showings;
    struct answering *answerings;
};

/* --- the reader's end --- */

/* Of the node of that rank, on which all ranks have one clock. */
static uint64_t node_of(const struct net_peer *peer)
{
    return pieces_writer(peer->storage_producer) ^ pieces_writer(peer->storage_consumer)
                                                       << 1;
}

static uint64_t seen_until(const struct showing *show, const struct net_peer *peer)
{
    struct store_extents *extents = show->member->dmd[show->role].extents;

    return extents && peer
               ? store_seen_until(store_extents_seen(extents), show->identity.ino,
                                  show->identity.btime, node_of(peer))
               : 0;
}

static void seen_keep(const struct showing *show, uint32_t rank, uint64_t until)
{
    struct store_extents *extents = show->member->dmd[show->role].extents;
    const struct net_peer *peer = net_worker_peer(show->member->worker, rank);

    if (extents && peer && show->identity.ino)
        store_seen_set(store_extents_seen(extents), show->identity.ino,
                       show->identity.btime, node_of(peer), until);
}

static void showing_free(struct showing *show)
{
    DL_DELETE(OWN(show->member, pieces_shown)->showings, show);
    free(show->asked);
    free(show);
}

static void showing_end(struct showing *show)
{
    produce_fn fn = show->fn;
    void *arg = show->arg;
    int status = show->status;

    showing_free(show);
    fn(arg, status);
}

/* False: the file that is read was removed, renamed or replaced here: nothing is put into it. */
static bool has_name(const struct showing *show)
{
    int fd = store_fetch_open_named(show->member->dmd[show->role].dir, show->upath,
                                    O_PATH | O_NOFOLLOW);
    bool has = fd >= 0 && store_identity_is(fd, &show->identity);

    util_fd_close(fd);
    return has;
}

/* `status`: of the rank's answer. ESTALE: the file here is a copy of a version that came after what it has
 * sent, or has been replaced; ENOENT: it has found none of the name. */
static void showing_answered(struct showing *show, struct asked *asked, int status)
{
    asked->answered = true;
    show->nleft--;
    if (status && show->bring && status != ESTALE && (status != ENOENT || has_name(show))) {
        log_warn("what %s has written of \"%s\" cannot be read here: %s",
                 member_describe(show->member, asked->rank), show->upath, strerror(status));
        show->status = EIO;
    }
}

static void fail(struct showing *show, const char *why)
{
    log_warn("what other nodes have written of \"%s\" cannot be read here: %s", show->upath,
             why);
    show->status = EIO;
}

/* False: it is this rank's own node; or, if bytes are to come, a rank of its node is asked. */
static bool is_to_ask(const struct showing *show, uint32_t rank)
{
    struct member *member = show->member;
    const struct net_peer *other, *peer = net_worker_peer(member->worker, rank);

    for (unsigned i = 0; i < show->nasked; i++) {
        other = net_worker_peer(member->worker, show->asked[i].rank);
        if (show->asked[i].rank == rank ||
            (show->bring && peer && other && joined_writers_are_beside(peer, other)))
            return false;
    }
    return rank != member->self.rank &&
           !(peer && joined_writers_are_beside(peer, &member->self));
}

static void who_answered(void *arg, int status, uint32_t owner, const uint32_t *ranks,
                         unsigned n)
{
    struct showing *show = arg;
    struct member *member = show->member;
    const struct net_peer *has;

    if (status == EOWNERDEAD && show->bring)
        fail(show, "a rank that has written it is dead");
    else if (status && status != EOWNERDEAD && show->bring)
        fail(show, strerror(status));
    if ((status && show->bring) ||
        !(show->asked = calloc((size_t)n + 1, sizeof(*show->asked)))) {
        show->status = show->status ? show->status : ENOMEM;
        showing_end(show);
        return;
    }
    has = status == 0 && owner != DYAD_RANK_NONE ? net_worker_peer(member->worker, owner)
                                                 : NULL;
    for (unsigned i = 0; i <= n; i++) {
        uint32_t rank = i < n ? ranks[i] : owner;
        if (i == n && !(has && show->bring))
            break;
        if (is_to_ask(show, rank))
            show->asked[show->nasked++].rank = rank;
    }
    show->nleft = show->nasked;
    for (unsigned i = 0; i < show->nasked; i++) {
        const uint32_t rank = show->asked[i].rank;
        const struct net_peer *peer = net_worker_peer(member->worker, rank);
        struct net_msg msg = {
            .type = NET_MSG_SHOW,
            .flags =
                has && peer && joined_writers_are_beside(peer, has) ? NET_SHOW_OWNER : 0,
            .id = show->id,
            .entry.upath = show->upath,
            .after = show->bring ? seen_until(show, peer) : NOTHING,
            .mark = pieces_writer(store_dir_id(member->dmd[show->role].dir))};
        if (member_send(member, rank, &msg) < 0)
            showing_answered(show, &show->asked[i], errno);
    }
    if (!show->nleft)
        showing_end(show);
}

int pieces_show(struct member *member, enum engine_role role, const char *upath, bool bring,
                produce_fn fn, void *arg)
{
    struct member_dmd *dmd = &member->dmd[role];
    struct showing *show = calloc(1, sizeof(*show) + strlen(upath) + 1);
    int fd;

    if (!show)
        return -1;
    show->member = member;
    show->role = role;
    show->bring = bring;
    show->id = member->next_id += 2;
    show->fn = fn;
    show->arg = arg;
    strcpy(show->upath, upath);
    fd = store_fetch_open_named(dmd->dir, upath, O_PATH | O_NOFOLLOW);
    if (fd >= 0 && store_identity_read(fd, &show->identity) < 0)
        show->identity = (struct store_identity){0};
    util_fd_close(fd);
    DL_APPEND(OWN(member, pieces_shown)->showings, show);
    if (dht_node_who_writes(member->dht, upath, who_answered, show) == 0)
        return 0;
    showing_free(show);
    errno = ENOMEM;
    return -1;
}

static bool shown_received(struct member *member, const struct net_msg *msg, void **payload,
                           size_t len)
{
    struct showing *show;

    (void)payload;
    (void)len;
    DL_FOREACH(OWN(member, pieces_shown)->showings, show)
    {
        if (show->id == msg->id)
            break;
    }
    for (unsigned i = 0; show && i < show->nasked; i++) {
        struct asked *asked = &show->asked[i];
        if (asked->rank != msg->source || asked->answered)
            continue;
        if (msg->status == 0 && show->bring)
            seen_keep(show, asked->rank, msg->after);
        showing_answered(show, asked, msg->status);
        if (!show->nleft)
            showing_end(show);
        break;
    }
    return true;
}

static void rank_gone(struct member *member, uint32_t rank)
{
    struct showing *show, *tmp;

    DL_FOREACH_SAFE(OWN(member, pieces_shown)->showings, show, tmp)
    {
        for (unsigned i = 0; i < show->nasked; i++) {
            if (show->asked[i].rank != rank || show->asked[i].answered)
                continue;
            showing_answered(show, &show->asked[i], EHOSTUNREACH);
            if (!show->nleft)
                showing_end(show);
            break;
        }
    }
}

/* --- the writer's end --- */

static void answering_free(struct answering *a)
{
    DL_DELETE(OWN(a->member, pieces_shown)->answerings, a);
    free(a);
}

static void answer(struct answering *a, int status)
{
    struct net_msg msg = {
        .type = NET_MSG_SHOWN, .id = a->id, .status = status, .after = a->until};

    member_send(a->member, a->rank,
                &msg); /* if it fails the rank is lost, as the reader sees */
    answering_free(a);
}

static void sent(void *arg, int status, uint64_t met, uint64_t met_length)
{
    (void)met;
    (void)met_length;
    answer(arg, status);
}

/* What is here of it, if it is recorded. 0: it is being sent, or was answered; or an errno value. */
static int send_from(struct answering *a, struct member_dmd *dmd)
{
    struct member *member = a->member;
    struct dyad_entry entry = {.state = DYAD_ENTRY_NONE, .owner = member->self.rank};
    struct pieces_out out = {.dmd = dmd,
                             .upath = a->upath,
                             .entry = &entry,
                             .rank = a->rank,
                             .but = a->but,
                             .newer = a->after,
                             .fn = sent,
                             .arg = a};
    int fd = store_fetch_open_named(dmd->dir, a->upath, O_PATH | O_NOFOLLOW), rc;
    struct store_mark_info info;
    bool written;

    rc = fd < 0 ? -1 : store_identity_read(fd, &out.identity);
    util_fd_close(fd);
    if (rc < 0)
        return ENOENT;
    written = store_marks_dirty(dmd->marks, NULL, out.identity.ino, 0, &info);
    if (!dmd->extents ||
        !store_marks_recorded(dmd->marks, 0, out.identity.ino, out.identity.btime))
        return written || a->owner ? EBUSY : ENOENT;
    if (!written && !a->owner)
        return ENOENT;
    memcpy(entry.storage, store_dir_id(dmd->dir), sizeof(entry.storage));
    if (pieces_send(member, &out) < 0)
        return errno;
    a->sends = true;
    return 0;
}

static void answer_later(void *arg, const char *upath);

static void answer_now(struct answering *a)
{
    struct member *member = a->member;
    bool later = joined_writers_is_noted(member, a->upath);
    int rc = ENOENT;

    a->until = util_clock_wall_ns();
    for (int s = 1; s >= 0; s--) {
        struct member_dmd *dmd = &member->dmd[s];
        struct store_mark_info info;
        bool written;
        if (!dmd->dir)
            continue;
        written = joined_writers_find(dmd, a->upath, &info);
        later &= !written;
        store_marks_set_joint(dmd->marks, a->upath, written ? info.ino : 0,
                              written ? info.btime : 0);
        if (rc == ENOENT && a->after != NOTHING)
            rc = send_from(a, dmd);
    }
    if (rc == 0)
        return;
    if (later) /* its process has no mark yet */
        joined_writers_later(member, a->upath, answer_later);
    else
        answer(a, rc == ENOENT ? 0 : rc);
}

static void answer_later(void *arg, const char *upath)
{
    struct member *member = arg;
    struct answering *a, *tmp;

    DL_FOREACH_SAFE(OWN(member, pieces_shown)->answerings, a, tmp)
    {
        if (!a->sends && strcmp(a->upath, upath) == 0)
            answer_now(a);
    }
}

static bool show_received(struct member *member, const struct net_msg *msg, void **payload,
                          size_t len)
{
    struct answering *a = calloc(1, sizeof(*a) + strlen(msg->entry.upath) + 1);

    (void)payload;
    (void)len;
    if (!a) {
        struct net_msg reply = {.type = NET_MSG_SHOWN, .id = msg->id, .status = ENOMEM};
        member_send(member, msg->source, &reply);
        return true;
    }
    a->member = member;
    a->rank = msg->source;
    a->id = msg->id;
    a->after = msg->after;
    a->but = msg->mark;
    a->owner = msg->flags & NET_SHOW_OWNER;
    strcpy(a->upath, msg->entry.upath);
    DL_APPEND(OWN(member, pieces_shown)->answerings, a);
    answer_now(a);
    return true;
}

static void rank_changed(struct member *member, uint32_t rank,
                         enum member_rank_change change)
{
    if (change != MEMBER_RANK_BACK)
        rank_gone(member, rank);
}

/* The table and its answers end with these, and the guests are gone. */
static void stop(struct member *member)
{
    struct pieces_shown *shown = OWN(member, pieces_shown);

    while (shown->showings)
        showing_free(shown->showings);
}

/* After the sendings (pieces_send.c). */
static void destroy(struct member *member)
{
    struct pieces_shown *shown = OWN(member, pieces_shown);

    while (shown->answerings)
        answering_free(shown->answerings);
}

const struct member_module pieces_shown_module = {
    .own = MODULE_OWN(pieces_shown),
    .messages =
        (const struct member_message[]){
            {NET_MSG_SHOW, show_received}, {NET_MSG_SHOWN, shown_received}, {0}},
    .peer_down = rank_gone,
    .rank_changed = rank_changed,
    .stop = stop,
    .destroy = destroy,
};
