/*
 * client_table.c - the table that the wrapper sees, and the reading half of it
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "boot/libs.h"
#include "client/client_ops.h"
#include "client/client.h"
#include "client/client_promoted.h"
#include "client/client_record.h"
#include "client/client_write.h"
#include "config/probes.h"
#include "store/renames.h"
#include "store/superseded.h"
#include "util/log.h"
#include "util/proc.h"

/* The environment that the wrapper gave; see engine_host. */
static void (*host_thread_enter)(void);
static char *const *host_env;

static int op_setup(const struct engine_host *host)
{
    if (host->abi != ENGINE_ABI) {
        errno = EINVAL;
        return -1;
    }
    host_thread_enter = host->thread_enter;
    host_env = host->env;
    if (client_setup(host_env, host_thread_enter, host->waits) < 0)
        return -1;
    client_get()->run_loader = host->run_loader;
    return 0;
}

static int op_member_run(int claim_fd)
{
    return client_member_run(client_get(), claim_fd);
}

static void op_leave(enum engine_leave how)
{
    if (how == ENGINE_LEAVE_GUEST) {
        client_promoted_leave();
        /* It may have taken a dead member's place. It does not linger: its parent, of the
         * same rank, may wait for its end. */
        if (client_member_here())
            client_member_leave(MEMBER_LEAVE_EXEC, true);
        return;
    }
    if (how == ENGINE_LEAVE_EXEC) {
        client_member_leave(MEMBER_LEAVE_EXEC, true);
        return;
    }
    client_member_leave(boot_libs_in_mpi()           ? MEMBER_LEAVE_IN_MPI
                        : how == ENGINE_LEAVE_FAILED ? MEMBER_LEAVE_FAILED
                                                     : MEMBER_LEAVE_LINGER,
                        true);
    client_member_end();
}

static bool op_shares(enum engine_role role)
{
    const struct client *client = client_get();

    return client && (client_shared(client, role) ||
                      (role == ENGINE_CONSUMER && client_may_be_old(client)));
}

static int op_read_begin(enum engine_role role, const char *upath)
{
    struct client *client = client_get();
    uint64_t timeout = (uint64_t)(client->config.timeout * 1000.0 + 0.5);

    if (!client_waits_for(client, upath))
        return 0;
    return client_shared(client, role) ? client_await_unwritten(client, upath, timeout)
                                       : client_look(client, upath, timeout);
}

static uint32_t op_writes_ended(enum engine_role role)
{
    return store_marks_released(client_get()->dmd[role].marks);
}

static bool op_read_is_plain(enum engine_role role, const char *upath,
                             const struct stat *st)
{
    const struct client *client = client_get();

    return !store_superseded_may(st->st_mode, st->st_nlink) &&
           !probes_glob(client->config.turns, upath) &&
           !store_marks_dirty(client->dmd[role].marks, upath, st->st_ino, 0, NULL);
}

/* writes_ended() says why the links are counted by now. */
static int superseded(struct client *client, enum engine_role role, const char *upath,
                      uint64_t ino)
{
    const char *dir = client->dmd[role].real;

    if (store_superseded(dir, client->renames, upath, STORE_OLD, ino))
        return 1;
    if (store_superseded(dir, client->renames, upath, STORE_UNSETTLED, ino))
        return 2;
    if (!client_waits_for(client, upath) ||
        !store_superseded(dir, client->renames, upath, STORE_PENDING, ino))
        return 0;
    return probes_declared(&client->config, upath) ? 2 : 1;
}

/* True if the publish of this file, which a process of ours has closed, goes on by itself, and nobody of ours has it
 * open: then it is waited for as for any other. */
static bool is_publishing(const struct client *client, struct store_marks *marks,
                          const struct store_mark_info *info)
{
    return client->config.async_publish && info->state == STORE_MARK_CLOSING &&
           !store_marks_any_open(marks, info->ino, info->btime);
}

static int op_read_check(enum engine_role role, const char *upath, int fd)
{
    struct client *client = client_get();
    struct store_marks *marks = client->dmd[role].marks;
    struct store_mark_info info;
    struct statx stx;
    int saved = errno;
    int dirty = 0;

    if (statx(fd, "", AT_EMPTY_PATH, STATX_TYPE | STATX_NLINK | STATX_INO | STATX_BTIME,
              &stx) == 0 &&
        S_ISREG(stx.stx_mode)) {
        uint64_t btime =
            stx.stx_mask & STATX_BTIME
                ? (uint64_t)stx.stx_btime.tv_sec * 1000000000ull + stx.stx_btime.tv_nsec
                : 0;
        bool marked = store_marks_dirty(marks, upath, stx.stx_ino, btime, &info);
        if (marked)
            /* A program that does not wait for this name shares the node's files as
             * without the library: sqlite reads a database that another process holds
             * locked. */
            dirty = client_waits_for(client, upath) &&
                    (info.state == STORE_MARK_ABANDONED ||
                     !util_proc_is_self_or_ancestor(info.pid));
        if (!dirty && (!marked || is_publishing(client, marks, &info)) &&
            statx(fd, "", AT_EMPTY_PATH, STATX_NLINK, &stx) == 0 &&
            store_superseded_may(S_IFREG, stx.stx_nlink))
            dirty = superseded(client, role, upath, stx.stx_ino);
        if (!dirty && (!marked || is_publishing(client, marks, &info)) &&
            probes_glob(client->config.turns, upath) && client_waits_for(client, upath))
            dirty = 2;
    }
    errno = saved;
    return dirty;
}

static bool op_superseded(enum engine_role role, const char *upath, uint64_t ino)
{
    const struct client *client = client_get();

    return client && client->dmd[role].path &&
           store_superseded(client->dmd[role].real, client->renames, upath, STORE_OLD, ino);
}

static int op_consume(enum engine_role role, const char *upath, enum engine_consume how)
{
    struct client *client = client_get();
    uint64_t timeout = (uint64_t)(client->config.timeout * 1000.0 + 0.5);
    uint8_t wait = how == ENGINE_CONSUME_WAIT || how == ENGINE_CONSUME_UPDATE
                       ? client_waits_for(client, upath)
                       : 0;

    (void)role;
    if (how == ENGINE_CONSUME_NAME)
        return client_consume_to_write(client, upath, false, NULL);
    if (how == ENGINE_CONSUME_UPDATE || how == ENGINE_CONSUME_JOIN)
        wait |= NET_CONSUME_UPDATE;
    if (how == ENGINE_CONSUME_JOIN)
        wait |= NET_CONSUME_ANY;
    return client_consume_to_open(client, upath, wait, timeout);
}

static int op_lookup(enum engine_role role, const char *upath, struct stat *st)
{
    struct client *client = client_get();
    unsigned char buf[NET_MSG_HEADER_MAX];
    struct net_msg reply;

    if (client_stat(client, upath, &reply, buf) < 0) {
        if (errno == EHOSTUNREACH && client_member_lost())
            errno = EIO; /* nobody knows */
        return -1;
    }
    memset(st, 0, sizeof(*st));
    st->st_ino = reply.ino; /* as it will be once it is here */
    st->st_dev = reply.dev;
    if (st->st_ino == 0) { /* of a directory or link nobody can tell: one of its own */
        struct stat dmd;
        st->st_ino = XXH3_64bits(upath, strlen(upath)) | 1;
        st->st_dev = stat(client->dmd[role].path, &dmd) == 0 ? dmd.st_dev : 0;
    }
    st->st_mode = reply.entry.mode & (S_IFMT | 07777);
    st->st_nlink = S_ISDIR(st->st_mode) ? 2 : 1;
    st->st_uid = geteuid();
    st->st_gid = getegid();
    st->st_size = S_ISDIR(st->st_mode) ? 4096 : (off_t)reply.entry.size;
    st->st_blksize = 4096;
    st->st_blocks = (blkcnt_t)((reply.entry.size + 511) / 512);
    st->st_mtim.tv_sec = reply.entry.mtime_sec;
    st->st_mtim.tv_nsec = reply.entry.mtime_nsec;
    st->st_atim = st->st_ctim = st->st_mtim;
    return 0;
}

static int op_list(enum engine_role role, const char *upath,
                   int (*fn)(void *arg, const char *name, unsigned char type), void *arg)
{
    (void)role;
    return client_list(client_get(), upath, fn, arg);
}

static int op_bring_parents(enum engine_role role, const char *upath)
{
    (void)role;
    return client_bring(client_get(), upath, NET_BRING_PARENTS);
}

static int op_bring_tree(enum engine_role role, const char *upath)
{
    (void)role;
    return client_bring(client_get(), upath, NET_BRING_TREE);
}

static int op_changed(enum engine_role role, const char *upath)
{
    return client_changed(client_get(), role, upath);
}

static int op_unlinked(enum engine_role role, const char *upath, bool was_here,
                       struct engine_renaming *renaming)
{
    struct client *client = client_get();
    int saved = errno;

    (void)role;
    if (client_withdraw(client, upath, renaming ? &renaming->connection : NULL) < 0) {
        if (!was_here || errno != ENOENT)
            return -1;
    }
    errno = saved;
    return 0;
}

/* The end of a process that is the member itself others see; of any other our member sees
 * by a connection, which the request uses afterwards. */
static void op_renaming(enum engine_role role, const char *from, const char *to,
                        uint64_t ino, struct engine_renaming *renaming)
{
    struct client *client = client_get();
    struct store_rename rename = {.ino = ino, .from = from ? from : "", .to = to ? to : ""};

    if (renaming->place[role])
        return;
    if (renaming->connection < 0 && !client_member_here())
        renaming->connection = client_connect(client);
    renaming->place[role] =
        store_renames_begin(client->dmd[role].marks, client->renames, &rename);
}

static int op_renamed(enum engine_role role, const char *from, const char *to,
                      struct engine_renaming *renaming)
{
    struct client *client = client_get();

    (void)role;
    if (!to)
        return op_unlinked(role, from, true, renaming);
    return client_rename(client, from, to, renaming ? &renaming->connection : NULL);
}

static void op_renaming_over(struct engine_renaming *renaming)
{
    struct client *client = client_get();

    for (int role = 0; role < 2; role++) {
        if (renaming->place[role])
            store_renames_end(client->dmd[role].marks, renaming->place[role]);
        renaming->place[role] = 0;
    }
    client_disconnect(renaming->connection);
    renaming->connection = -1;
}

static const struct engine_ops table = {
    .abi = ENGINE_ABI,
    .setup = op_setup,
    .member_run = op_member_run,
    .leave = op_leave,
    .fork_child = client_fork_child,
    .shares = op_shares,
    .read_begin = op_read_begin,
    .writes_ended = op_writes_ended,
    .read_is_plain = op_read_is_plain,
    .read_check = op_read_check,
    .consume = op_consume,
    .lookup = op_lookup,
    .list = op_list,
    .bring_parents = op_bring_parents,
    .bring_tree = op_bring_tree,
    .write_begin = client_write_begin,
    .write_opened = client_write_opened,
    .write_inherited = client_write_inherited,
    .write_closing = client_write_closing,
    .write_closed = client_write_closed,
    .unlinked = op_unlinked,
    .changed = op_changed,
    .renaming = op_renaming,
    .renamed = op_renamed,
    .renaming_over = op_renaming_over,
    .write_stored = client_write_stored,
    .write_recorded = client_write_recorded,
    .write_record = client_write_record,
    .write_held = client_write_held,
    .write_await = client_write_await,
    .write_record_end = client_write_record_end,
    .write_unrecord = client_write_unrecord,
    .write_joint = client_write_joint,
    .write_shared = client_write_shared,
    .write_show = client_write_show,
    .write_lock = client_write_lock,
    .superseded = op_superseded,
};

__attribute__((visibility("default"))) const struct engine_ops *dyad_engine_ops(
    unsigned abi);

const struct engine_ops *dyad_engine_ops(unsigned abi)
{
    return abi == ENGINE_ABI ? &table : NULL;
}
