/*
 * promoted_member.c - promoted guests, as their member sees them
 *
 * One link per guest: the line, its number and what it is fetching for us. The key of a
 * guest is made of the member's, so that whoever can talk to the member can to the guest,
 * and goes over the line, whose other end is a process of our own user. `redirects` says
 * which guest produced a file: a hint, looked at only after the journal has said that the
 * file is ours and of the version that is asked for.
 */
#include "engine/core/module.h"
#include "engine/promoted/promoted.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uthash.h>
#include <utlist.h>

#include "engine/promoted/promoted_connection.h"
#include "net/auth.h"
#include "util/log.h"

#define REDIRECTS_MAX  65536 /* of one guest; the member serves what is beyond */
#define MEMBER_SHIFT   20    /* incarnations of guests below one of the member */
#define GUESTS_IN_LIFE (1u << MEMBER_SHIFT)

struct promoted_fetch {
    struct promoted_fetch *prev, *next; /* utlist */
    struct promoted_link *link;
    uint64_t id;
    promoted_fetched_fn fn;
    void *arg;
};

struct promoted_link {
    struct promoted_link *prev, *next; /* utlist */
    struct member *member;
    pid_t pid;
    uint32_t id, incarnation;
    struct promoted_connection *line;
    struct promoted_fetch *fetches;
    void *blob; /* what it told of itself, without key; NULL: not up yet */
    size_t blob_len;
    unsigned redirects;
};

struct promoted_redirect {
    UT_hash_handle hh; /* by upath */
    struct promoted_link *link;
    char upath[];
};

struct promoted {
    struct promoted_link *links;         /* utlist */
    struct promoted_redirect *redirects; /* uthash by upath */
    uint32_t count;                      /* of those so far */
};

static struct promoted_link *link_of(struct member *member, pid_t pid)
{
    struct promoted_link *link;

    DL_FOREACH(OWN(member, promoted)->links, link)
    {
        if (link->pid == pid)
            return link;
    }
    return NULL;
}

static void redirect_free(struct member *member, struct promoted_redirect *redirect)
{
    redirect->link->redirects--;
    HASH_DEL(OWN(member, promoted)->redirects, redirect);
    free(redirect);
}

static void link_free(struct promoted_link *link)
{
    struct member *member = link->member;
    struct promoted_redirect *redirect, *tmp;

    DL_DELETE(OWN(member, promoted)->links, link);
    HASH_ITER(hh, OWN(member, promoted)->redirects, redirect, tmp)
    {
        if (link->redirects == 0)
            break;
        if (redirect->link == link)
            redirect_free(member, redirect);
    }
    promoted_connection_destroy(link->line);
    /* Last: the callbacks begin their fetches anew, without this guest. */
    while (link->fetches) {
        struct promoted_fetch *fetch = link->fetches;
        DL_DELETE(link->fetches, fetch);
        fetch->fn(fetch->arg, ECANCELED, -1);
        free(fetch);
    }
    free(link->blob);
    free(link);
}

/* --- joining --- */

static int slot_free(const struct member *member)
{
    const struct promoted_link *link;

    for (uint32_t slot = 0; slot < NET_GUEST_SLOTS; slot++) {
        DL_FOREACH(OWN(member, promoted)->links, link)
        {
            if (link->id == net_guest_id(member->self.rank, slot))
                break;
        }
        if (!link)
            return (int)slot;
    }
    return -1;
}

/* Send the guest its peer blob. */
static int link_welcome(struct promoted_link *link)
{
    struct member *member = link->member;
    struct net_peer *info = malloc(sizeof(*info));
    unsigned char blob[NET_PEER_BLOB_MAX];
    int rc = -1, n;

    if (!info)
        return -1;
    *info = member->self;
    info->rank = link->id;
    info->incarnation = link->incarnation;
    info->pid = link->pid;
    info->address_len = 0;
    if (net_auth_derive(member->self.key, link->id, link->incarnation, info->key) == 0 &&
        (n = net_peer_encode(info, 1, blob, sizeof(blob))) >= 0) {
        struct net_msg msg = {.type = NET_MSG_PROMOTED_JOIN,
                              .flags = member->local ? NET_PROMOTED_LOCAL : 0,
                              .nranks = member->job->nranks,
                              .blob = blob,
                              .blob_len = (size_t)n};
        rc = promoted_connection_send(link->line, &msg, -1);
    }
    explicit_bzero(info, sizeof(*info));
    explicit_bzero(blob, sizeof(blob));
    free(info);
    return rc;
}

/* It has a worker, and this is its address. */
static int link_up(struct promoted_link *link, const struct net_msg *msg)
{
    struct net_peer *info = malloc(sizeof(*info));
    int rc = -1;

    if (info && msg->blob && net_peer_decode(info, msg->blob, msg->blob_len) == 0 &&
        info->rank == link->id && info->incarnation == link->incarnation &&
        info->address_len > 0 && !link->blob && (link->blob = malloc(msg->blob_len))) {
        memcpy(link->blob, msg->blob, msg->blob_len);
        link->blob_len = msg->blob_len;
        link->member->stats.promoted++;
        log_info("process %d of this rank fetches and serves by itself now",
                 (int)link->pid);
        rc = 0;
    }
    free(info);
    return rc;
}

static void link_fetched(struct promoted_link *link, const struct net_msg *msg, int fd)
{
    struct promoted_fetch *fetch;

    DL_SEARCH_SCALAR(link->fetches, fetch, id, msg->id);
    if (!fetch) {
        if (fd >= 0)
            close(fd);
        return;
    }
    DL_DELETE(link->fetches, fetch);
    if (msg->status == 0 && fd < 0) {
        fetch->fn(fetch->arg, EPROTO, -1);
    } else if (msg->status && fd >= 0) {
        close(fd);
        fetch->fn(fetch->arg, msg->status, -1);
    } else {
        fetch->fn(fetch->arg, msg->status, fd);
    }
    free(fetch);
}

static void line_receive(void *arg, const struct net_msg *msg, int fd)
{
    struct promoted_link *link = arg;

    if (msg->type == NET_MSG_PROMOTED_FETCHED) {
        link_fetched(link, msg, fd);
        return;
    }
    if (fd >= 0)
        close(fd);
    if (msg->type != NET_MSG_PROMOTED_JOIN || link_up(link, msg) < 0)
        link_free(link);
}

static void line_broken(void *arg)
{
    struct promoted_link *link = arg;

    log_debug("process %d is a promoted guest no more", (int)link->pid);
    link_free(link);
}

static const struct promoted_connection_ops line_ops = {
    .receive = line_receive,
    .broken = line_broken,
};

void promoted_link_accept(struct member *member, int fd, pid_t pid)
{
    struct promoted_link *link = link_of(member, pid);
    int slot;

    if (link) /* an end that we have not read yet */
        link_free(link);
    link = NULL;
    slot = slot_free(member);
    if (pid <= 0 || /* of a process name space that we do not see into */
        member->state != MEMBER_JOINED || member->self.rank >= NET_GUEST_RANKS ||
        slot < 0 || OWN(member, promoted)->count + 1 >= GUESTS_IN_LIFE ||
        member->self.incarnation >= UINT32_MAX >> MEMBER_SHIFT ||
        !(link = calloc(1, sizeof(*link)))) {
        close(fd);
        return;
    }
    link->member = member;
    link->pid = pid;
    link->id = net_guest_id(member->self.rank, (uint32_t)slot);
    link->incarnation =
        member->self.incarnation << MEMBER_SHIFT | ++OWN(member, promoted)->count;
    DL_APPEND(OWN(member, promoted)->links, link);
    if (!(link->line = promoted_connection_create(member->loop, fd, &line_ops, link)) ||
        link_welcome(link) < 0)
        link_free(link);
}

/* --- fetching --- */

static bool has_key(const struct net_peer *info)
{
    static const uint8_t none[NET_PEER_KEY_LEN];

    return memcmp(info->key, none, sizeof(none)) != 0;
}

struct promoted_fetch *promoted_fetch_start(struct member *member, pid_t pid,
                                            const struct dyad_entry *entry,
                                            promoted_fetched_fn fn, void *arg)
{
    struct promoted_link *link = OWN(member, promoted)->links ? link_of(member, pid) : NULL;
    const struct net_peer *owner;
    struct promoted_fetch *fetch;
    unsigned char blob[NET_PEER_BLOB_MAX];
    int n, rc;

    if (!link || !link->blob || entry->size == 0 || entry->owner == member->self.rank ||
        !(owner = net_worker_peer(member->worker, entry->owner)) || !has_key(owner) ||
        (n = net_peer_encode(owner, 1, blob, sizeof(blob))) < 0)
        return NULL;
    if (!(fetch = calloc(1, sizeof(*fetch))))
        return NULL;
    fetch->link = link;
    fetch->id = member->next_id;
    fetch->fn = fn;
    fetch->arg = arg;
    member->next_id += 2;
    struct net_msg msg = {
        .type = NET_MSG_PROMOTED_FETCH,
        .id = fetch->id,
        .entry = *entry,
        .blob = blob,
        .blob_len = (size_t)n,
    };
    rc = promoted_connection_send(link->line, &msg, -1);
    explicit_bzero(blob, sizeof(blob));
    if (rc < 0) {
        free(fetch);
        return NULL;
    }
    DL_APPEND(link->fetches, fetch);
    return fetch;
}

void promoted_fetch_forget(struct promoted_fetch *fetch)
{
    DL_DELETE(fetch->link->fetches, fetch);
    free(fetch);
}

/* --- serving --- */

void promoted_produces(struct member *member, pid_t pid, const char *upath)
{
    struct promoted_link *link = OWN(member, promoted)->links ? link_of(member, pid) : NULL;
    struct promoted_redirect *redirect = NULL;

    HASH_FIND_STR(OWN(member, promoted)->redirects, upath, redirect);
    if (redirect)
        redirect_free(member, redirect);
    if (!link || link->redirects >= REDIRECTS_MAX ||
        !(redirect = malloc(sizeof(*redirect) + strlen(upath) + 1)))
        return;
    redirect->link = link;
    strcpy(redirect->upath, upath);
    HASH_ADD_STR(OWN(member, promoted)->redirects, upath, redirect);
    if (redirect->hh.tbl)
        link->redirects++;
    else
        free(redirect);
}

bool promoted_redirect(struct member *member, uint32_t rank, uint64_t id,
                       const struct store_record *record)
{
    struct promoted_redirect *redirect = NULL;

    /* One chunk is sent in the time of a redirection. */
    if (!OWN(member, promoted)->redirects ||
        record->entry.size <= (uint64_t)member->config->chunk_size ||
        rank == member->self.rank)
        return false;
    HASH_FIND_STR(OWN(member, promoted)->redirects, record->entry.upath, redirect);
    if (!redirect || !redirect->link->blob || redirect->link->id == rank)
        return false;
    struct net_msg msg = {
        .type = NET_MSG_REDIRECT,
        .id = id,
        .entry.version = record->entry.version,
        .ino = record->identity.ino,
        .btime = record->identity.btime,
        .blob = redirect->link->blob,
        .blob_len = redirect->link->blob_len,
    };
    if (member_send(member, rank, &msg) < 0)
        return false;
    member->stats.redirected++;
    return true;
}

static void links_destroy(struct member *member)
{
    while (OWN(member, promoted)->links)
        link_free(OWN(member, promoted)->links);
}

const struct member_module promoted_module = {
    .own = MODULE_OWN(promoted),
    .destroy = links_destroy,
};
