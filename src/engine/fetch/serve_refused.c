/*
 * serve_refused.c - publishing a newer version after a GET was refused
 *
 * A consumer that was refused waits for a newer version, so one must come. A writer that
 * has the file open publishes it when it closes, but only if it has changed it: the thread
 * of a `watch` waits for it and sees. If the version that was refused is still the last
 * one, and nobody has the file open for writing, it was changed without leaving a mark (by
 * a program that is not preloaded), and is published anew. Not what was given to another
 * node, whose version is the newer one: such a file is superseded.
 */
#include "engine/fetch/serve_refused.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utlist.h>

#include "engine/core/local_file.h"
#include "engine/core/module.h"
#include "engine/membership/exit_barrier.h"
#include "engine/publish/produce.h"
#include "util/log.h"

struct serve_refused {
    struct serve_watch *watches; /* utlist */
};

struct serve_watch { /* freed by the pool if the member is gone first */
    struct engine_io io;
    struct serve_watch *prev, *next; /* utlist */
    struct member *member;
    struct store_marks *marks;
    store_mark_t mark;
    int fd;
    enum engine_role role;
    struct dyad_version version; /* that was refused */
    char upath[];
};

static void watch_work(void *arg)
{
    struct serve_watch *w = arg;

    store_marks_wait(w->marks, w->mark, w->fd);
    store_marks_destroy(w->marks);
    close(w->fd);
}

static void watch_done(void *arg)
{
    struct serve_watch *w = arg;

    DL_DELETE(OWN(w->member, serve_refused)->watches, w);
    serve_refused_publish(w->member, w->role, w->upath, &w->version, NULL);
    exit_barrier_activity(w->member);
    free(w);
}

/* The thread of such a watch will come back by itself. (It may have closed its descriptor
 * by now; then it is on its way.) */
static bool watches_pending(struct member *member)
{
    const struct serve_watch *w;

    DL_FOREACH(OWN(member, serve_refused)->watches, w)
    {
        struct store_marks *marks = member->dmd[w->role].marks;
        if (!store_marks_stays_dirty(marks, w->mark, 0) ||
            store_marks_ruling_due(marks, w->mark, w->fd))
            return true;
    }
    return false;
}

static void watch_start(struct member *member, enum engine_role role, const char *upath,
                        const struct dyad_version *version, store_mark_t mark)
{
    struct serve_watch *w;

    DL_FOREACH(OWN(member, serve_refused)->watches, w)
    {
        if (w->role == role && strcmp(w->upath, upath) == 0)
            return;
    }
    if (!(w = calloc(1, sizeof(*w) + strlen(upath) + 1)))
        return;
    w->member = member;
    w->role = role;
    w->mark = mark;
    w->version = *version;
    strcpy(w->upath, upath);
    w->fd = store_dir_open(member->dmd[role].dir, upath, O_RDONLY, 0);
    /* A mapping of its own: the thread may outlive the member. */
    w->marks = w->fd >= 0 ? store_marks_create(member->dmd[role].dir) : NULL;
    if (!w->marks || engine_io_spawn(member->io, &w->io, watch_work, watch_done, w) < 0) {
        log_warn("cannot wait for the writer of \"%s\": %m", upath);
        if (w->marks)
            store_marks_destroy(w->marks);
        if (w->fd >= 0)
            close(w->fd);
        free(w);
        return;
    }
    DL_APPEND(OWN(member, serve_refused)->watches, w);
}

void serve_refused_publish(struct member *member, enum engine_role role, const char *upath,
                           const struct dyad_version *version, const char *why)
{
    struct member_dmd *s = &member->dmd[role];
    const struct store_record *record;
    struct store_mark_info info;
    struct store_identity id;
    struct stat st;
    int fd;

    if (member->state == MEMBER_LEAVING || produce_pending(member, upath) ||
        !(record = store_journal_find(s->journal, upath)) ||
        dyad_version_cmp(&record->entry.version, version) != 0 ||
        (fd = store_dir_open(s->dir, upath, O_PATH | O_NOFOLLOW, 0)) < 0)
        return;
    if (store_identity_read(fd, &id) == 0 && fstat(fd, &st) == 0 &&
        !local_file_is_superseded(s, upath, &st)) {
        if (store_marks_dirty(s->marks, upath, id.ino, id.btime, &info)) {
            if (info.state != STORE_MARK_ABANDONED)
                watch_start(member, role, upath, version, info.mark);
        } else {
            /* Another file has the name: as a rule of a rename, of which we hear next. */
            if (why)
                util_log(
                    id.ino == record->identity.ino && id.btime == record->identity.btime
                        ? UTIL_LOG_WARN
                        : UTIL_LOG_INFO,
                    "\"%s\" %s: publishing it anew", upath, why);
            produce_start(member, role, upath, 0, NULL, NULL);
        }
    }
    close(fd);
}

const struct member_module serve_refused_module = {
    .own = MODULE_OWN(serve_refused),
    .pending = watches_pending,
};
