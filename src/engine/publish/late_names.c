/*
 * late_names.c - names that a file got while it was being written
 *
 * The last close of a file publishes one name, the one that the descriptor has then. Any
 * other that a link gave it meanwhile could not be published at once, since the file was
 * not complete; it is kept here until a close has been published after which nobody writes
 * the file any more.
 *
 * The list has no index: it is empty but for the time between such a link and such a
 * close. Names that a killed writer leaves stay in it, so its length is bounded. Another
 * rank's closes are not seen here.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <utlist.h>

#include "engine/core/local_file.h"
#include "engine/core/member.h"
#include "engine/core/module.h"
#include "engine/publish/late_names.h"
#include "engine/publish/produce_impl.h"
#include "util/log.h"

#define LATE_MAX 4096

struct late_name {
    struct late_name *prev, *next; /* utlist */
    enum engine_role role;
    uint64_t ino, btime;
    char upath[];
};

struct late_names {
    struct late_name *all; /* utlist */
};

/* One close with the late names that are published after it. */
struct late_close {
    struct member *member;
    produce_fn fn;
    void *arg;
    int status;
    struct late_name *due; /* utlist */
};

static bool identify(struct member *member, enum engine_role role, const char *upath,
                     struct store_identity *id)
{
    int fd = store_dir_open(member->dmd[role].dir, upath, O_PATH | O_NOFOLLOW, 0);
    bool found = fd >= 0 && store_identity_read(fd, id) == 0;

    if (fd >= 0)
        close(fd);
    return found;
}

static void late_name_free(struct late_name **list, struct late_name *late)
{
    DL_DELETE(*list, late);
    free(late);
}

void late_name_note(struct member *member, enum engine_role role, const char *upath)
{
    struct store_identity id;
    struct late_name *late, *tmp;
    size_t n = 0;

    if (!identify(member, role, upath, &id))
        return;
    DL_FOREACH_SAFE(OWN(member, late_names)->all, late, tmp)
    {
        if (late->role == role && strcmp(late->upath, upath) == 0)
            late_name_free(&OWN(member, late_names)->all, late);
        else
            n++;
    }
    if (n >= LATE_MAX)
        late_name_free(&OWN(member, late_names)->all, OWN(member, late_names)->all);
    if (!(late = malloc(sizeof(*late) + strlen(upath) + 1))) {
        log_error("out of memory: \"%s\" will not be published", upath);
        return;
    }
    late->role = role;
    late->ino = id.ino;
    late->btime = id.btime;
    strcpy(late->upath, upath);
    DL_APPEND(OWN(member, late_names)->all, late);
}

static void publish_due(void *arg, int status)
{
    struct late_close *c = arg;
    struct late_name *late;

    if (status && !c->status)
        c->status = status;
    while ((late = c->due)) {
        int rc = produce_late_name(c->member, late->role, late->upath, publish_due, c);
        int error = errno;

        late_name_free(&c->due, late);
        if (rc == 0)
            return;
        if (!c->status)
            c->status = error;
    }
    c->fn(c->arg, c->status);
    free(c);
}

/* The close is published: which names were waiting for that? */
static void closed(void *arg, int status)
{
    struct late_close *c = arg;
    struct late_name *late, *tmp;

    DL_FOREACH_SAFE(OWN(c->member, late_names)->all, late, tmp)
    {
        struct store_identity id;

        if (!identify(c->member, late->role, late->upath, &id) || id.ino != late->ino ||
            id.btime != late->btime) { /* removed, replaced or renamed since */
            late_name_free(&OWN(c->member, late_names)->all, late);
        } else if (!local_file_being_written(c->member, &c->member->dmd[late->role],
                                             late->upath)) {
            DL_DELETE(OWN(c->member, late_names)->all, late);
            DL_APPEND(c->due, late);
        }
    }
    publish_due(c, status);
}

int produce_closed(struct member *member, enum engine_role role, const char *upath,
                   store_mark_t mark, produce_fn fn, void *arg)
{
    struct late_close *c;
    int rc;

    if (!OWN(member, late_names)->all)
        return produce_start(member, role, upath, mark, fn, arg);
    if (!(c = calloc(1, sizeof(*c))))
        return -1;
    c->member = member;
    c->fn = fn;
    c->arg = arg;
    rc = produce_start(member, role, upath, mark, closed, c);
    if (rc < 0)
        free(c);
    return rc;
}

static void late_name_destroy(struct member *member)
{
    while (OWN(member, late_names)->all)
        late_name_free(&OWN(member, late_names)->all, OWN(member, late_names)->all);
}

const struct member_module late_names_module = {
    .own = MODULE_OWN(late_names),
    .destroy = late_name_destroy,
};
