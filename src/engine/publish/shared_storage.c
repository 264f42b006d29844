/*
 * shared_storage.c - storage that several nodes see: reports writers to the table
 *
 * If the managed directory is one storage for several nodes nothing is copied, but the
 * order must be kept: an open for reading of a file that another node writes waits for
 * its close. A node's marks are not seen by other nodes, so while a mark lives the homes
 * of its name know that this rank writes (dht/node_writing.c). docs/engine.md, "One
 * storage for several nodes".
 *
 * What could go wrong: a writer is killed, and nobody says that it does not write any
 * more (shared_wanted()). A rename by a process of another node of a file which this node
 * has open is not seen. A rename on this node is (shared_renamed()), a moment after it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <uthash.h>
#include <utlist.h>

#include "engine/core/completion.h"
#include "engine/core/joined_writers.h"
#include "engine/core/member.h"
#include "engine/core/module.h"
#include "engine/membership/exit_barrier.h"
#include "engine/publish/produce.h"
#include "engine/publish/shared_storage.h"
#include "util/clock.h"
#include "util/log.h"

struct shared_mark {
    struct shared_mark *next;
    store_mark_t mark;
};

/* A file may have several marks, from processes of this rank; the homes are notified of
 * the first and of the last. */
struct shared_file {
    UT_hash_handle hh; /* by key */
    struct member *member;
    enum engine_role role;
    /* Of watch_unknown(): the watch alone says when nobody writes the file any more; else 0. */
    uint64_t ino, btime;
    struct shared_mark *marks; /* LL, not empty */
    struct shared_watch *watch;
    char key[]; /* a letter for the role, then the upath */
};

static const char *upath_of(const struct shared_file *file)
{
    return file->key + 1;
}

static bool same_dmds(const struct member *member)
{
    return member->dmd[0].dir == member->dmd[1].dir;
}

/* A storage is shared if DYAD_SHARED_STORAGE says so; or if its file system is none of
 * those that one kernel has for itself (store/dmd.c); or if a peer on another node shows
 * the same storage id (shared_peer_up()). */
bool shared_storage(const struct member *member, enum engine_role role)
{
    const struct member_dmd *s = &member->dmd[role];

    if (!s->dir || member->config->shared_storage == 0)
        return false;
    return store_dir_shared(s->dir) || store_marks_shared(s->marks);
}

/* The storage id of a peer finds what the other two signs do not, as a node that exports
 * its disk to the others. It is known only when the peer is, and written into the table
 * of marks, so that every process of the node knows it at once after that. */
static void shared_peer_up(struct member *member, const struct net_peer *peer)
{
    static const uint8_t none[DYAD_STORAGE_ID_LEN];

    if (member->config->shared_storage >= 0 || strcmp(peer->node, member->self.node) == 0)
        return;
    for (int s = 0; s < 2; s++) {
        struct member_dmd *dmd = &member->dmd[s];
        const uint8_t *id = dmd->dir ? store_dir_id(dmd->dir) : none;
        if (dyad_storage_equal(id, none) || !net_peer_has_storage(peer, id) ||
            store_marks_shared(dmd->marks))
            continue;
        store_marks_share(dmd->marks);
        log_info(
            "node %s has the same storage below %s: its files are not copied, and who "
            "opens "
            "one waits for writers on other nodes",
            peer->node, store_dir_path(dmd->dir));
    }
}

struct shared {
    struct shared_file *files; /* uthash by role and upath */
    struct shared_tell *tells; /* utlist: what the homes have not acknowledged */
};

/* --- the files, and their marks --- */

static struct shared_file *file_find(struct member *member, enum engine_role role,
                                     const char *upath)
{
    char key[DYAD_UPATH_MAX + 2];
    struct shared_file *file;
    size_t len = strlen(upath);

    if (len > DYAD_UPATH_MAX)
        return NULL;
    key[0] = role == ENGINE_PRODUCER && !same_dmds(member) ? 'p' : 'c';
    memcpy(key + 1, upath, len + 1);
    HASH_FIND(hh, OWN(member, shared)->files, key, len + 1, file);
    return file;
}

static struct shared_file *file_add(struct member *member, enum engine_role role,
                                    const char *upath)
{
    size_t len = strlen(upath);
    struct shared_file *file = calloc(1, sizeof(*file) + len + 2);

    if (!file)
        return NULL;
    file->member = member;
    file->role = role;
    file->key[0] = role == ENGINE_PRODUCER && !same_dmds(member) ? 'p' : 'c';
    memcpy(file->key + 1, upath, len + 1);
    HASH_ADD(hh, OWN(member, shared)->files, key, len + 1, file);
    if (!file->hh.tbl) {
        free(file);
        errno = ENOMEM;
        return NULL;
    }
    return file;
}

static void watch_leave(struct shared_file *file);

static void file_free(struct shared_file *file)
{
    struct shared_mark *mark, *mtmp;

    HASH_DEL(OWN(file->member, shared)->files, file);
    watch_leave(file);
    LL_FOREACH_SAFE(file->marks, mark, mtmp)
    {
        free(mark);
    }
    free(file);
}

/* --- notifying the homes --- */

struct shared_tell {
    struct shared_tell *prev, *next; /* utlist */
    struct member *member;
    enum dht_writing what;
    produce_fn fn;
    void *arg;
    char upath[];
};

static void told(void *arg, int status)
{
    struct shared_tell *tell = arg;
    struct member *member = tell->member;
    produce_fn fn = tell->fn;
    void *fn_arg = tell->arg;
    bool begins = tell->what == DHT_WRITING_BEGIN;

    if (status)
        log_warn(
            "no home of \"%s\" can be reached, to be told that it %s: readers on other "
            "nodes may %s",
            tell->upath, begins ? "is being written" : "is not being written any more",
            begins ? "open it before it is complete" : "wait longer than they need to");
    DL_DELETE(OWN(member, shared)->tells, tell);
    free(tell);
    exit_barrier_activity(member);
    if (fn)
        fn(fn_arg, 0);
}

static int tell_homes(struct member *member, const char *upath, enum dht_writing what,
                      uint64_t when, produce_fn fn, void *arg)
{
    size_t len = strlen(upath);
    struct shared_tell *tell = calloc(1, sizeof(*tell) + len + 1);

    if (!tell)
        return -1;
    tell->member = member;
    tell->what = what;
    tell->fn = fn;
    tell->arg = arg;
    memcpy(tell->upath, upath, len + 1);
    if (dht_node_writing(member->dht, upath, what, when, told, tell) < 0) {
        free(tell);
        return -1;
    }
    DL_APPEND(OWN(member, shared)->tells, tell);
    exit_barrier_activity(member);
    return 0;
}

int shared_begin(struct member *member, enum engine_role role, const char *upath,
                 store_mark_t mark, produce_fn fn, void *arg)
{
    struct shared_mark *m;
    struct shared_file *file;

    if (!member->dmd[role].dir) {
        errno = EINVAL;
        return -1;
    }
    if (!(m = calloc(1, sizeof(*m))))
        return -1;
    m->mark = mark;
    if (!(file = file_find(member, role, upath)) && !(file = file_add(member, role, upath)))
        goto free_mark;
    /* Also if they know already: fn is to come later, from the table. */
    if (tell_homes(member, upath, DHT_WRITING_BEGIN, 0, fn, arg) < 0)
        goto free_file;
    LL_PREPEND(file->marks, m);
    return 0;

free_file:
    if (!file->marks)
        file_free(file);
free_mark:
    free(m);
    errno = ENOMEM;
    return -1;
}

static void mark_end(struct shared_file *file, struct shared_mark *mark, bool abandoned,
                     produce_fn fn, void *arg)
{
    struct member *member = file->member;

    LL_DELETE(file->marks, mark);
    free(mark);
    if (file->marks) { /* others of this rank still write it */
        if (fn)
            fn(arg, 0);
        return;
    }
    if (!abandoned && completion_holds(member, upath_of(file))) {
        if (fn)
            fn(arg, 0);
    } else if (!abandoned && file->ino) { /* watch_unknown() */
        joined_writers_closed(member, upath_of(file), fn, arg);
    } else if (tell_homes(member, upath_of(file),
                          abandoned ? DHT_WRITING_ABANDONED
                                    : completion_end(member, upath_of(file)),
                          0, fn, arg) < 0) {
        log_error(
            "out of memory: readers of \"%s\" on other nodes wait longer than they "
            "need to",
            upath_of(file));
        if (fn)
            fn(arg, 0);
    }
    file_free(file);
}

/* Marks that the member does not know (an earlier image of this process was the member)
 * are ended by their closers, which name the file. */
void shared_end(struct member *member, enum engine_role role, const char *upath,
                store_mark_t mark, bool abandoned, produce_fn fn, void *arg)
{
    struct shared_file *file, *tmp;
    bool known = false;

    /* It may have had another name when it was opened, or more names than one. */
    HASH_ITER(hh, OWN(member, shared)->files, file, tmp)
    {
        struct shared_mark *found;
        if (file->ino || (file->role != role && !same_dmds(member)))
            continue;
        LL_SEARCH_SCALAR(file->marks, found, mark, mark);
        if (!found)
            continue;
        mark_end(file, found, abandoned, known ? NULL : fn, arg);
        known = true;
    }
    if (known)
        return;
    if (upath && upath[0] && !file_find(member, role, upath) &&
        shared_storage(member, role) &&
        tell_homes(member, upath, abandoned ? DHT_WRITING_ABANDONED : DHT_WRITING_END, 0,
                   fn, arg) == 0)
        return;
    if (fn)
        fn(arg, 0);
}

/* --- new names --- */

static const char *behind(const char *upath, const char *from)
{
    size_t len = strlen(from);

    return strncmp(upath, from, len) == 0 && (upath[len] == '/' || !upath[len])
               ? upath + len
               : NULL;
}

void shared_renamed(struct member *member, const char *from, const char *to)
{
    struct shared_file *file, *tmp;
    struct shared_mark *mark, *mtmp;

    HASH_ITER(hh, OWN(member, shared)->files, file, tmp)
    {
        char name[2 * DYAD_UPATH_MAX + 2];
        const char *rest = behind(upath_of(file), from);
        /* One that is watched: its homes ask again, or nobody does. */
        if (!rest || file->ino)
            continue;
        snprintf(name, sizeof(name), "%s%s", to, rest);
        LL_FOREACH_SAFE(file->marks, mark, mtmp)
        {
            if (shared_begin(member, file->role, name, mark->mark, NULL, NULL) < 0) {
                log_error(
                    "out of memory: readers on other nodes may open \"%s\" before it "
                    "is complete",
                    name);
                break;
            }
            bool last = !mark->next && file->marks == mark;
            mark_end(file, mark, false, NULL, NULL);
            if (last)
                break; /* the file is gone with it */
        }
    }
}

void shared_named(struct member *member, enum engine_role role, const char *upath)
{
    struct member_dmd *s = &member->dmd[role];
    struct store_mark_info info;
    struct store_identity id;
    int fd;

    if (!shared_storage(member, role) ||
        (fd = store_dir_open(s->dir, upath, O_PATH | O_NOFOLLOW, 0)) < 0)
        return;
    if (store_identity_read(fd, &id) == 0 &&
        store_marks_dirty(s->marks, NULL, id.ino, id.btime, &info) &&
        info.state != STORE_MARK_ABANDONED)
        shared_begin(member, role, upath, info.mark, NULL, NULL);
    close(fd);
}

/* --- somebody waits: is its writer still there? --- */

struct shared_watch { /* freed by the pool if the member is gone first */
    struct engine_io io;
    struct store_marks *marks;
    store_mark_t mark;
    bool abandoned;
    struct shared_file *file; /* NULL: it ended meanwhile */
    char path[];
};

/* Wait until the mark ends, or the name is not that of its file any more, which is the
 * same for ranks that wait for the name. */
static void watch_work(void *arg)
{
    struct shared_watch *watch = arg;
    bool again;

    do {
        /* After the mark was seen to be of an open file: if that has no name, it is gone.
         */
        bool opened = store_marks_stays_dirty(watch->marks, watch->mark, 0);
        int fd =
            open(watch->path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
        again = false;
        if (fd < 0 && opened)
            break;
        if (store_marks_wait(watch->marks, watch->mark, fd) < 0)
            again = errno == EAGAIN || errno == EINTR;
        else
            watch->abandoned = store_marks_rule(watch->marks, watch->mark, fd);
        if (fd >= 0)
            close(fd);
    } while (again);
    store_marks_destroy(watch->marks);
}

static void watch_done(void *arg);

static void watch_start(struct shared_file *file)
{
    struct member_dmd *dmd = &file->member->dmd[file->role];
    const char *real = store_dir_real_path(dmd->dir);
    size_t size = strlen(real) + strlen(upath_of(file)) + 2;
    struct shared_watch *watch = calloc(1, sizeof(*watch) + size);

    if (!watch)
        return; /* asked again: node_writing.c */
    snprintf(watch->path, size, "%s/%s", real, upath_of(file));
    watch->marks = store_marks_create(dmd->dir); /* the thread may outlive the member */
    watch->mark = file->marks->mark;
    watch->file = file;
    if (!watch->marks ||
        engine_io_spawn(file->member->io, &watch->io, watch_work, watch_done, watch) < 0) {
        log_warn("cannot watch the writer of \"%s\": %m", upath_of(file));
        if (watch->marks)
            store_marks_destroy(watch->marks);
        free(watch);
        return;
    }
    file->watch = watch;
}

/* Another description of the file is open for writing here: the homes know of the rank, and not of
 * each. False: none. */
static bool watch_next(struct shared_file *file, bool *abandoned)
{
    store_mark_t *mark = &file->marks->mark;
    struct store_mark_info info;

    if (!store_marks_dirty(file->member->dmd[file->role].marks, NULL, file->ino,
                           file->btime, &info))
        return false;
    *abandoned = info.state == STORE_MARK_ABANDONED;
    if (*abandoned)
        return false;
    if (info.mark != *mark) {
        *mark = info.mark;
        watch_start(file);
    }
    if (!file->watch) /* it has another name: asked again */
        file_free(file);
    return true;
}

static void watch_done(void *arg)
{
    struct shared_watch *watch = arg;
    struct shared_file *file = watch->file;
    struct shared_mark *mark = NULL;

    if (file) {
        file->watch = NULL;
        if (file->ino && !watch->abandoned && watch_next(file, &watch->abandoned)) {
            free(watch);
            return;
        }
        LL_SEARCH_SCALAR(file->marks, mark, mark, watch->mark);
    }
    if (mark && watch->abandoned)
        log_error(
            "\"%s\" is abandoned: a process of this rank died while it wrote it; it is "
            "not complete until somebody writes it again",
            upath_of(file));
    if (mark)
        mark_end(file, mark, watch->abandoned, NULL, NULL);
    free(watch);
}

static void watch_leave(struct shared_file *file)
{
    if (file->watch)
        file->watch->file = NULL;
    file->watch = NULL;
}

static void shared_wanted(void *arg, const char *upath);

/* Each node writes a file of its own, and a home knows that this one does. True: so it is, and its
 * end is watched. */
static bool watch_unknown(struct member *member, const char *upath)
{
    bool soon = joined_writers_is_noted(member, upath);

    for (int s = 0; s < 2; s++) {
        const struct member_dmd *dmd = &member->dmd[s];
        enum engine_role role = (enum engine_role)s;
        struct store_mark_info info;
        struct shared_file *file;
        struct shared_mark *mark;

        if (!dmd->dir || shared_storage(member, role) ||
            !joined_writers_find(dmd, upath, &info))
            continue;
        if ((soon = info.state == STORE_MARK_OPENING))
            break;
        if (!(mark = calloc(1, sizeof(*mark))) || !(file = file_add(member, role, upath))) {
            free(mark);
            return true; /* asked again */
        }
        mark->mark = info.mark;
        file->ino = info.ino;
        file->btime = info.btime;
        LL_PREPEND(file->marks, mark);
        watch_start(file);
        if (!file->watch)
            file_free(file);
        return true;
    }
    if (soon)
        joined_writers_later(member, upath, shared_wanted);
    return soon;
}

/* The lock of a killed writer shows that it is dead, but the lock is watched only if a
 * reader or another writer asks for the file: then a thread sleeps until the mark ends,
 * and if it is abandoned the homes are notified (watch_done()). */
static void shared_wanted(void *arg, const char *upath)
{
    struct member *member = arg;
    uint64_t looked = util_clock_now();
    bool known = completion_holds(member, upath);

    for (int s = 0; s < 2; s++) {
        struct shared_file *file = file_find(member, (enum engine_role)s, upath);
        if (!file)
            continue;
        known = true;
        if (!file->watch)
            watch_start(file);
        if (same_dmds(member))
            break;
    }
    if (!known && !watch_unknown(member, upath))
        tell_homes(member, upath, completion_end(member, upath), looked, NULL, NULL);
}

static bool shared_pending(struct member *member)
{
    return OWN(member, shared)->tells != NULL;
}

static void shared_stop(struct member *member)
{
    struct shared_file *file, *tmp;
    struct shared_tell *tell, *ttmp;

    HASH_ITER(hh, OWN(member, shared)->files, file, tmp)
    {
        file_free(file);
    }
    DL_FOREACH_SAFE(OWN(member, shared)->tells, tell, ttmp)
    {
        DL_DELETE(OWN(member, shared)->tells, tell);
        free(tell); /* its guest is gone, and the table ends next */
    }
}

static int shared_start(struct member *member)
{
    member->table_ops.wanted = shared_wanted;
    return 0;
}

const struct member_module shared_module = {
    .own = MODULE_OWN(shared),
    .start = shared_start,
    .peer_up = shared_peer_up,
    .pending = shared_pending,
    .stop = shared_stop,
};
