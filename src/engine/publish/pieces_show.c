/*
 * pieces_show.c - a read brings what other nodes have written to a file that is still open
 *
 *   state   of a read, until                        then
 *   WHO     the homes have said who writes it, and  ASKED; nobody else does: OWNER
 *           who owns what is published of it
 *   ASKED   a rank of each node that writes it, but WHO; of an open: HISTORY
 *           the owner's, has sent what it has
 *           written since it was asked last
 *           (PIECES), and said so (SHOWN)
 *   OWNER   so has the owner                        over
 *   HISTORY the owner has sent what was written     over
 *           since the version with which the others
 *           began, which this node has not seen
 *
 * So bytes are moved where somebody reads, and once for all processes of its node (store/seen.h); the
 * record tells those from what a close gives away, which has to be published (STORE_EXTENTS_SHOWN).
 * An open that meets other writers asks them for nothing: it notes there that they are to ask this
 * node when they read, and learns of which version they write changes: what this node writes are such
 * changes, too, if its file was that version once, or with the HISTORY. pieces_answer.c is the asked one's end.
 */
#include "engine/publish/pieces_show.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <utlist.h>

#include "dht/base.h"
#include "engine/core/joined_writers.h"
#include "engine/core/local_file.h"
#include "engine/core/module.h"
#include "engine/publish/pieces_apply.h"
#include "engine/publish/pieces_send.h"
#include "store/extents.h"
#include "store/fetch.h"
#include "util/clock.h"
#include "util/fd_close.h"
#include "util/log.h"

struct asked {
    uint32_t rank;
    bool answered;
};

struct showing {
    struct showing *prev, *next; /* utlist */
    struct member *member;
    enum engine_role role;
    bool bring, last; /* last: the owner is asked, alone */
    bool all;         /* of a publish: all that one node has, and fn is given its answer */
    bool adopts, rooted;            /* adopts: HISTORY */
    struct store_identity identity; /* of the file here; all zero: there is none */
    /* Of which the others write changes, or what is here; DYAD_BASE_NONE: not known. */
    struct dyad_base root;
    uint32_t owner;
    uint64_t id;
    struct asked *asked;
    unsigned nasked, nleft;
    int status;
    produce_fn fn;
    void *arg;
    char upath[];
};

struct pieces_shown {
    struct showing *showings;
};

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
    /* The open that makes the file here makes it as the others did. */
    const bool makes = !show->identity.ino && !show->root.size && !show->root.time;
    int status = show->status                                 ? show->status
                 : show->bring || show->rooted                ? 0
                 : show->root.kind == DYAD_BASE_NONE || makes ? ENOENT
                                                              : ESTALE;

    showing_free(show);
    fn(arg, status);
}

/* True if the owner is asked: then asked_all() is called again. */
static bool begins_as_others(struct showing *show)
{
    struct member *member = show->member;
    struct member_dmd *dmd = &member->dmd[show->role];
    const struct store_identity *id = &show->identity;
    const bool empty = !show->root.size && !show->root.time;
    const struct net_peer *owner =
        show->owner != DYAD_RANK_NONE ? net_worker_peer(member->worker, show->owner) : NULL;
    struct net_msg msg = {.type = NET_MSG_SHOW,
                          .flags = NET_SHOW_HISTORY,
                          .id = show->id,
                          .entry.upath = show->upath,
                          .base = show->root,
                          .mark = pieces_writer(store_dir_id(dmd->dir))};
    struct store_extent_list list;
    struct dyad_base here;
    bool is_root, ahead;
    struct stat st;

    if (show->adopts || !dmd->extents || !id->ino || show->root.kind != DYAD_BASE_FROM ||
        store_dir_stat(dmd->dir, show->upath, &st) < 0 || st.st_ino != id->ino)
        return false;
    here = dht_base_of(&st);
    msg.offset = here.size;
    msg.length = here.time;
    if (store_extents_list(dmd->extents, id->ino, id->btime, empty ? NULL : &show->root, 0,
                           0, &list) == 0) {
        show->rooted = !empty || list.n || list.ncuts;
        store_extent_list_free(&list);
    }
    is_root = show->root.size == here.size && show->root.time == here.time;
    ahead = is_root && local_file_is_superseded(dmd, show->upath, &st);
    show->rooted |= ahead;
    if (show->rooted && !empty)
        store_extents_add_version(dmd->extents, id->ino, id->btime, &show->root);
    if (is_root && !ahead)
        show->root.kind = DYAD_BASE_NONE; /* the open says so */
    if (show->root.kind == DYAD_BASE_NONE)
        return false;
    if (show->rooted || !owner || joined_writers_are_beside(owner, &member->self) ||
        member_send(member, show->owner, &msg) < 0)
        return false;
    show->asked[0] = (struct asked){.rank = show->owner};
    show->nasked = show->nleft = 1;
    show->adopts = true;
    return true;
}

static void asked_all(struct showing *show);

/* False: the file that is read was removed, renamed or replaced here: nothing is put into it. */
static bool has_name(const struct showing *show)
{
    int fd = store_fetch_open_named(show->member->dmd[show->role].dir, show->upath,
                                    O_PATH | O_NOFOLLOW);
    bool has = fd >= 0 && store_identity_is(fd, &show->identity);

    util_fd_close(fd);
    return has;
}

/* `status`: of the rank's answer. ESTALE: the file here is a copy of which nothing is on record, or has been
 * replaced; ENOENT: it has found none of the name. Neither matters where the file that is read has the name no more. */
static void showing_answered(struct showing *show, struct asked *asked, int status)
{
    asked->answered = true;
    show->nleft--;
    if (show->all)
        show->status = status;
    else if (status && show->bring &&
             ((status != ESTALE && status != ENOENT) || has_name(show))) {
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

/* True if that rank is of the node of the owner. */
static bool is_of_owner(const struct showing *show, uint32_t rank)
{
    struct net_worker *worker = show->member->worker;
    const struct net_peer *peer, *owner;

    return rank == show->owner ||
           (show->owner != DYAD_RANK_NONE && (peer = net_worker_peer(worker, rank)) &&
            (owner = net_worker_peer(worker, show->owner)) &&
            joined_writers_are_beside(peer, owner));
}

/* True if the file here is ahead (fetch/transfer_end.c), and has nothing that was written here, before or since. */
static bool lacks_own(const struct showing *show)
{
    const struct member_dmd *dmd = &show->member->dmd[show->role];
    const struct store_identity *id = &show->identity;
    struct store_extent_list list;
    struct stat st;
    bool lacks;

    if (!show->bring || !dmd->extents || !id->ino ||
        store_dir_stat(dmd->dir, show->upath, &st) < 0 || st.st_ino != id->ino ||
        !local_file_is_superseded(dmd, show->upath, &st) ||
        store_extents_list(dmd->extents, id->ino, id->btime, NULL, 0, STORE_EXTENTS_OTHERS,
                           &list) < 0)
        return false;
    lacks = !list.n && !list.ncuts;
    store_extent_list_free(&list);
    return lacks;
}

/* Those from that one on. */
static void ask_from(struct showing *show, unsigned first)
{
    struct member *member = show->member;
    const uint64_t but =
        lacks_own(show) ? 0 : pieces_writer(store_dir_id(member->dmd[show->role].dir));

    show->nleft = show->nasked - first;
    for (unsigned i = first; i < show->nasked; i++) {
        const uint32_t rank = show->asked[i].rank;
        const struct net_peer *peer = net_worker_peer(member->worker, rank);
        struct net_msg msg = {
            .type = NET_MSG_SHOW,
            .flags = show->bring && is_of_owner(show, rank) ? NET_SHOW_OWNER : 0,
            .id = show->id,
            .entry.upath = show->upath,
            .base = show->root,
            .after = show->all     ? 0
                     : show->bring ? seen_until(show, peer)
                                   : PIECES_NOTHING,
            .mark = but};
        if (member_send(member, rank, &msg) < 0)
            showing_answered(show, &show->asked[i], errno);
    }
    if (!show->nleft)
        asked_all(show);
}

/* When nobody else is to be asked, the owner is. */
static void who_answered(void *arg, int status, uint32_t owner, const uint32_t *ranks,
                         unsigned n, const struct dyad_base *root)
{
    struct showing *show = arg;
    unsigned first = show->nasked;
    struct asked *asked;

    if (status == EOWNERDEAD && show->bring)
        fail(show, "a rank that has written it is dead");
    else if (status && status != EOWNERDEAD && show->bring)
        fail(show, strerror(status));
    asked = show->status ? NULL : realloc(show->asked, (first + n + 1) * sizeof(*asked));
    if (!asked) {
        show->status = show->status ? show->status : ENOMEM;
        showing_end(show);
        return;
    }
    show->asked = asked;
    show->owner = status == 0 ? owner : DYAD_RANK_NONE;
    if (!show->bring)
        show->root = *root;
    for (unsigned i = 0; i < n; i++)
        if (is_to_ask(show, ranks[i]) && !(show->bring && is_of_owner(show, ranks[i])))
            show->asked[show->nasked++] = (struct asked){.rank = ranks[i]};
    if (show->bring && show->nasked == first) {
        show->last = true;
        show->nasked = first = 0;
        if (show->owner != DYAD_RANK_NONE && is_to_ask(show, show->owner))
            show->asked[show->nasked++] = (struct asked){.rank = show->owner};
    }
    ask_from(show, first);
}

/* Bytes go from who closes the file to who owns it then. So that one is asked last, when it has what others
 * have given away before they were asked; who that is the homes say once more. */
static void asked_all(struct showing *show)
{
    if (!show->bring && begins_as_others(show))
        return;
    if (!show->bring || show->last || show->status) {
        showing_end(show);
    } else if (dht_node_who_writes(show->member->dht, show->upath, who_answered, show) <
               0) {
        show->status = ENOMEM;
        showing_end(show);
    }
}

static struct showing *showing_create(struct member *member, enum engine_role role,
                                      const char *upath, bool bring, produce_fn fn,
                                      void *arg)
{
    struct member_dmd *dmd = &member->dmd[role];
    struct showing *show = calloc(1, sizeof(*show) + strlen(upath) + 1);
    int fd;

    if (!show)
        return NULL;
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
    if (bring && dmd->extents && show->identity.ino &&
        store_extents_version(dmd->extents, show->identity.ino, show->identity.btime,
                              &show->root))
        show->root.kind = DYAD_BASE_FROM;
    DL_APPEND(OWN(member, pieces_shown)->showings, show);
    return show;
}

int pieces_show(struct member *member, enum engine_role role, const char *upath, bool bring,
                produce_fn fn, void *arg)
{
    struct showing *show = showing_create(member, role, upath, bring, fn, arg);

    if (!show)
        return -1;
    if (dht_node_who_writes(member->dht, upath, who_answered, show) == 0)
        return 0;
    showing_free(show);
    errno = ENOMEM;
    return -1;
}

int pieces_show_from(struct member *member, enum engine_role role, const char *upath,
                     uint32_t rank, produce_fn fn, void *arg)
{
    struct showing *show = showing_create(member, role, upath, true, fn, arg);

    if (!show)
        return -1;
    if (!(show->asked = calloc(1, sizeof(*show->asked)))) {
        showing_free(show);
        return -1;
    }
    show->asked[0].rank = show->owner = rank;
    show->nasked = 1;
    show->last = show->all = true;
    ask_from(show, 0);
    return 0;
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
        else if (msg->status == 0 && show->adopts)
            show->rooted = true;
        showing_answered(show, asked, msg->status);
        if (!show->nleft)
            asked_all(show);
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
                asked_all(show);
            break;
        }
    }
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

const struct member_module pieces_shown_module = {
    .own = MODULE_OWN(pieces_shown),
    .messages = (const struct member_message[]){{NET_MSG_SHOWN, shown_received}, {0}},
    .peer_down = rank_gone,
    .rank_changed = rank_changed,
    .stop = stop,
};
