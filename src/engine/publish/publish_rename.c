/*
 * publish_rename.c - publishing new names of files, or of a whole tree
 *
 * A pool thread finds the files below the new name on disk, or the loop, if that is one
 * file. Then each new name is
 * published, a directory before what is in it, and each old one withdrawn, a directory
 * after what was in it, so that other nodes can make and remove their directories.
 *
 * A file that is still being written is published under its new name by its close; until
 * then other nodes see the earlier file of that name (late_names.c). A file whose writer
 * was killed is not published: the earlier file of its new name, which was replaced, is
 * withdrawn, and copies of that are out of date. (A death just now may not be noticed
 * yet. A process that has closed the file, and not yet reported it, lives.)
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/core/local_file.h"
#include "engine/core/member.h"
#include "engine/publish/late_names.h"
#include "engine/publish/produce.h"
#include "engine/publish/publish_rename.h"
#include "engine/publish/shared_storage.h"
#include "engine/publish/withdraw.h"
#include "store/dmd_walk.h"
#include "util/log.h"

struct rename_op {
    struct engine_io io;
    struct member *member;
    enum engine_role role;
    char *from, *to; /* from "": a link */
    produce_fn fn;
    void *arg;
    char **files; /* parts behind `to`: "" for `to` itself */
    size_t nfiles, next;
    bool withdrawing;
    bool left; /* produce_rename_left() */
    int status;
    struct net_post post;
};

static void rename_free(struct rename_op *op)
{
    for (size_t i = 0; i < op->nfiles; i++)
        free(op->files[i]);
    free(op->files);
    free(op->from);
    free(op->to);
    free(op);
}

static int rename_found(const char *upath, const struct stat *st, void *arg)
{
    struct rename_op *op = arg;
    char **files;

    (void)st;
    if ((op->nfiles & (op->nfiles + 1)) == 0) { /* full at 2^n - 1 */
        files = realloc(op->files, (2 * op->nfiles + 1) * sizeof(*files));
        if (!files)
            return ENOMEM;
        op->files = files;
    }
    if (!(op->files[op->nfiles] = strdup(upath + strlen(op->to))))
        return ENOMEM;
    op->nfiles++;
    return 0;
}

static enum engine_role role_of(const struct rename_op *op, struct stat *st)
{
    const struct store_dir *dir = op->member->dmd[ENGINE_PRODUCER].dir;

    return dir && store_dir_stat(dir, op->to, st) == 0 ? ENGINE_PRODUCER : ENGINE_CONSUMER;
}

/* The directory where it lies, if it is one file on storage that is quick. */
static struct member_dmd *rename_near(const struct rename_op *op)
{
    struct member_dmd *dmd = &op->member->dmd[ENGINE_PRODUCER];
    struct stat st = {.st_mode = S_IFDIR};

    if (!dmd->dir || !store_dir_local(dmd->dir) || !engine_io_is_near(&dmd->near) ||
        role_of(op, &st) != ENGINE_PRODUCER || S_ISDIR(st.st_mode))
        return NULL;
    return dmd;
}

/* The name is missing for a moment if an older file is being taken from it here, which was out of
 * date: then the file is looked for once more. */
static void rename_walk(void *arg)
{
    struct rename_op *op = arg;
    struct member_dmd *dmd;
    struct stat st;

    for (int tries = 0; tries < 2 && op->nfiles == 0 && !op->status; tries++) {
        for (int role = 0; role < 2 && tries > 0; role++)
            if (op->member->dmd[role].marks)
                store_marks_await_name(op->member->dmd[role].marks, op->to);
        op->role = role_of(op, &st);
        dmd = &op->member->dmd[op->role];
        if (!dmd->dir)
            return;
        int rc = store_dir_walk(dmd->dir, op->to, rename_found, op);
        if (rc != 0 && !(rc < 0 && errno == ENOENT))
            op->status = rc < 0 ? errno : rc;
    }
}

static void rename_step(struct rename_op *op);

static void rename_stepped(void *arg, int status)
{
    struct rename_op *op = arg;

    if (status && status != ENOENT && !op->status)
        op->status = status;
    rename_step(op);
}

static void rename_step(struct rename_op *op)
{
    char name[2 * DYAD_UPATH_MAX + 2];

    for (;;) {
        if (op->next == op->nfiles) {
            if (op->withdrawing || !op->from[0]) {
                op->fn(op->arg, op->status);
                rename_free(op);
                return;
            }
            op->withdrawing = true;
            op->next = 0;
            continue;
        }
        /* A directory is made before what is in it, and removed after. */
        const char *behind =
            op->files[op->withdrawing ? op->nfiles - 1 - op->next : op->next];
        op->next++;
        snprintf(name, sizeof(name), "%s%s", op->withdrawing ? op->from : op->to, behind);
        int rc;
        if (op->withdrawing) {
            rc = op->left ? produce_withdraw_left(op->member, name, rename_stepped, op)
                          : produce_withdraw(op->member, name, rename_stepped, op);
        } else if (local_file_being_written(op->member, &op->member->dmd[op->role], name)) {
            late_name_note(op->member, op->role, name);
            shared_named(op->member, op->role, name);
            if (!local_file_is_abandoned(&op->member->dmd[op->role], name))
                continue;
            log_debug("\"%s\" is what a killed process has left: withdrawn", name);
            rc = produce_withdraw(op->member, name, rename_stepped, op);
        } else {
            rc = produce_start(op->member, op->role, name, 0, rename_stepped, op);
        }
        if (rc == 0)
            return;
        if (!op->status)
            op->status = errno;
    }
}

static void rename_walked(void *arg)
{
    struct rename_op *op = arg;

    if (op->from[0])
        shared_renamed(op->member, op->from, op->to);
    rename_step(arg);
}

static int rename_start(struct member *member, const char *from, const char *to, bool left,
                        produce_fn fn, void *arg)
{
    struct rename_op *op = calloc(1, sizeof(*op));
    struct member_dmd *dmd;

    if (!op || !(op->from = strdup(from)) || !(op->to = strdup(to))) {
        if (op)
            rename_free(op);
        errno = ENOMEM;
        return -1;
    }
    op->member = member;
    op->left = left;
    op->fn = fn;
    op->arg = arg;
    dmd = rename_near(op);
    if (dmd)
        local_file_job(member, dmd, 0, &op->io, rename_walk, rename_walked, op);
    else
        engine_io_submit(member->io, &op->io, rename_walk, rename_walked, op);
    return 0;
}

int produce_rename(struct member *member, const char *from, const char *to, produce_fn fn,
                   void *arg)
{
    return rename_start(member, from, to, false, fn, arg);
}

int produce_rename_left(struct member *member, const char *from, const char *to,
                        produce_fn fn, void *arg)
{
    return rename_start(member, from, to, true, fn, arg);
}
