/*
 * client_look.c - what is complete here, and may be out of date
 *
 * A complete file is opened without a message: the holder of a copy gets an INVALIDATE
 * for a newer version. That is not so on a node where no member lives, or only ranks in
 * exec. So as long as this rank's member has not looked at what was left
 * (startup_validation.c), an open of a complete regular file asks the member, as that of
 * a missing one does, and waits for the member to join. Afterwards it costs some loads
 * (store/looked.h): a member that dies, or leaves for exec, takes its word with it.
 *
 * What could go wrong: the member cannot join, does not answer, or cannot go on before
 * this thread does. The open then goes on with the file as it is (look()).
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>

#include "client/client.h"
#include "client/client_impl.h"
#include "store/journal.h"
#include "store/lease_table.h"
#include "store/looked.h"
#include "store/superseded.h"
#include "util/clock.h"
#include "util/log.h"

/* Added to the time that a join and a first look take at most (startup_validation.c). */
#define SPARE_SECONDS 25.0

/* True for good in a process whose rank has no member to ask, or whose member has no line
 * in the table and has looked. Any thread sets it, always to true. */
static bool asks_no_more;

/* Copies are covered for half of DYAD_PEER_TIMEOUT at most (copy_lease.c): what is left
 * when an open says that it wants more. */
static bool lease_is_over(const struct client *client, const struct store_marks *marks)
{
    double soon = client->config.peer_timeout * (double)UTIL_NSEC_PER_SEC * 0.33;

    return store_lease_matters(marks) &&
           !store_lease_holds(marks, client->rank, -1, util_clock_now(), (uint64_t)soon);
}

bool client_may_be_old(const struct client *client)
{
    const struct client_dmd *dmd = &client->dmd[ENGINE_CONSUMER];

    return !__atomic_load_n(&asks_no_more, __ATOMIC_RELAXED) && dmd->marks &&
           (!store_looked(dmd->marks, client->rank) || lease_is_over(client, dmd->marks));
}

bool client_member_loads(const struct client *client)
{
    const struct store_marks *marks = client->dmd[ENGINE_CONSUMER].marks;

    return !marks || !store_looked(marks, client->rank);
}

/* True if a rank of this launch has a record in a journal on this node. */
static bool launch_has_records(const struct client *client)
{
    struct store_dir *dir = store_dir_create(client->dmd[ENGINE_CONSUMER].path);
    char prefix[sizeof(client->session) + 32];
    bool any;

    if (!dir)
        return true;
    snprintf(prefix, sizeof(prefix), "%s.%016llx.", client->session,
             (unsigned long long)client->launch);
    any = store_journal_any(dir, prefix);
    store_dir_destroy(dir);
    return any;
}

/* Nobody can be asked, nor ever will be. Else (a member that dies while it is asked) the
 * next open asks again. */
static bool is_final(const struct client *client)
{
    return client->identity.guest_only || client_member_hopeless() || client_member_over();
}

static bool is_complete(const struct client_dmd *dmd, const char *upath)
{
    struct store_mark_info info;
    char path[2 * PATH_MAX];
    struct statx stx;
    uint64_t btime = 0;

    snprintf(path, sizeof(path), "%s/%s", dmd->real, upath);
    if (statx(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW, STATX_TYPE | STATX_INO | STATX_BTIME,
              &stx) < 0 ||
        !S_ISREG(stx.stx_mode))
        return false;
    if (stx.stx_mask & STATX_BTIME)
        btime = (uint64_t)stx.stx_btime.tv_sec * 1000000000ull + stx.stx_btime.tv_nsec;
    return !store_marks_dirty(dmd->marks, upath, stx.stx_ino, btime, &info);
}

struct waiting {
    const struct client *client;
    const char *upath;
    uint64_t until; /* when to stop */
};

static int wait_ms(void *arg)
{
    struct waiting *w = arg;
    uint64_t now = util_clock_now();

    if (now >= w->until)
        return is_complete(&w->client->dmd[ENGINE_CONSUMER], w->upath) ? 0 : -1;
    return (int)((w->until - now) / UTIL_NSEC_PER_MSEC) + 1;
}

/* An open does not ask about what somebody is writing (read_check() and the marks know of
 * that), about what DYAD_WAIT leaves out, nor, in a launch without a session directory,
 * about anything as long as no rank of the launch has recorded a file on this node. In a
 * session others may have been here before, and which records are the session's own is
 * known in the directory only.
 *
 * Where the member cannot join, files are plain local ones, and nobody asks again. Where
 * it does not answer (it is stopped, or has bound the claim and is not there) the open
 * goes on after a time in which it would have; and at once, nearly, if the member is this
 * process's and cannot go on before this thread does (client_ask.c). That is for a file
 * that is still here: one that the member has removed is waited for as what is missing.
 */
static int look(struct client *client, const char *upath, uint8_t flags,
                uint64_t timeout_ms)
{
    struct net_msg reply = {.type = 0};
    uint64_t now = util_clock_now();
    struct waiting waiting = {
        .client = client,
        .upath = upath,
        .until = now + (uint64_t)((2 * client->config.join_timeout + SPARE_SECONDS) *
                                  (double)UTIL_NSEC_PER_SEC),
    };
    struct client_patience patience = {.wait_ms = wait_ms, .arg = &waiting};
    int saved = errno, rc;

    if (client_member_over() || !is_complete(&client->dmd[ENGINE_CONSUMER], upath) ||
        (!client->config.session_dir && !launch_has_records(client))) {
        errno = saved;
        return 0;
    }
    rc = client_consume_patient(client, upath, flags, timeout_ms, &reply, &patience);
    if (rc < 0 && reply.type == NET_MSG_DONE && reply.status == errno) {
        if (errno != ESTALE && errno != EMFILE)
            return -1; /* its word: it is not here any more, and cannot be had */
        /* A path that only the open itself can follow; so many wait already. */
    } else if (rc < 0 && errno == EMFILE) {
        return -1; /* as for what is not here */
    } else if (rc < 0 && errno == ETIMEDOUT) {
        log_warn(
            "\"%s\" is opened as it is: whether it is up to date this rank's member does "
            "not say%s",
            upath,
            patience.loader ? ", since it waits for the library that is being loaded here"
                            : "");
    } else if (rc < 0 ? patience.refused || is_final(client)
                      : (reply.flags & NET_DONE_LOOKED) != 0) {
        __atomic_store_n(&asks_no_more, true, __ATOMIC_RELAXED);
    }
    errno = saved;
    return 0;
}

int client_look(struct client *client, const char *upath, uint64_t timeout_ms)
{
    return look(client, upath, NET_LOOKUP_WAIT, timeout_ms);
}

int client_look_to_write(struct client *client, const char *upath)
{
    return look(client, upath, NET_LOOKUP_WAIT | NET_CONSUME_WRITER, 0);
}

bool client_is_here(const struct client *client, const struct client_dmd *dmd,
                    const char *upath, int flags, struct stat *st)
{
    char path[PATH_MAX + DYAD_UPATH_MAX + 2];
    int saved = errno;

    memset(st, 0, sizeof(*st));
    snprintf(path, sizeof(path), "%s/%s", dmd->path, upath);
    bool here =
        fstatat(AT_FDCWD, path, st, flags & O_NOFOLLOW ? AT_SYMLINK_NOFOLLOW : 0) == 0
            ? !(store_superseded_may(st->st_mode, st->st_nlink) &&
                store_superseded(dmd->real, client->renames, upath, STORE_OLD, st->st_ino))
            : errno != ENOENT;
    errno = saved;
    return here;
}
