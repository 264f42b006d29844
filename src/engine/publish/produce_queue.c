/*
 * produce_queue.c - the publishes and withdrawals of this member that are under way
 *
 * By name, in the order of their begin. The table (dht/node_publish.c) runs those of one
 * name one after the other; what has to look at the file first, when those before it have
 * ended, waits here (`awaits`).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <uthash.h>
#include <utlist.h>

#include "engine/core/member_impl.h"
#include "engine/core/module.h"
#include "engine/membership/exit_barrier.h"
#include "engine/namespace/directories.h"
#include "engine/publish/produce_impl.h"

/* All for one name. It is there as long as one is: so the end of one needs no memory. */
struct produce_name {
    UT_hash_handle hh; /* by upath */
    struct produce *first;
    char upath[];
};

static struct produce_name *name_find(struct member *member, const char *upath)
{
    struct produce_name *name;

    HASH_FIND_STR(member->produces, upath, name);
    return name;
}

static struct produce *produces_of(struct member *member, const char *upath)
{
    struct produce_name *name = name_find(member, upath);

    return name ? name->first : NULL;
}

static struct produce_name *name_create(struct member *member, const char *upath)
{
    struct produce_name *name = calloc(1, sizeof(*name) + strlen(upath) + 1);

    if (!name)
        return NULL;
    strcpy(name->upath, upath);
    HASH_ADD_STR(member->produces, upath, name);
    if (!name->hh.tbl) {
        free(name);
        return NULL;
    }
    return name;
}

/* 0 or -1: no memory. */
static int produce_link(struct produce *p)
{
    struct produce_name *name = name_find(p->member, p->upath);

    if (!name && !(name = name_create(p->member, p->upath)))
        return -1;
    DL_APPEND(name->first, p);
    return 0;
}

static void produce_unlink(struct produce *p)
{
    struct produce_name *name = name_find(p->member, p->upath);

    DL_DELETE(name->first, p);
    if (name->first)
        return;
    HASH_DEL(p->member->produces, name);
    free(name);
}

struct produce *produce_create(struct member *member, enum engine_role role,
                               const char *upath, produce_fn fn, void *arg)
{
    struct produce *p = calloc(1, sizeof(*p));

    if (!p || !(p->upath = strdup(upath))) {
        free(p);
        errno = ENOMEM;
        return NULL;
    }
    p->member = member;
    p->role = role;
    p->fn = fn;
    p->arg = arg;
    if (produce_link(p) < 0) {
        free(p->upath);
        free(p);
        errno = ENOMEM;
        return NULL;
    }
    exit_barrier_activity(member);
    return p;
}

static void produce_release(struct produce *p)
{
    struct parent *parent, *tmp;

    DL_FOREACH_SAFE(p->parents, parent, tmp)
    {
        directories_leave(&parent->wait);
        free(parent);
    }
    free(p->upath);
    free(p);
}

void produce_free(struct produce *p)
{
    produce_unlink(p);
    produce_release(p);
}

static void end_posted(void *arg)
{
    struct produce *p = arg;
    produce_end(p, p->status);
}

void produce_end_later(struct produce *p, int status)
{
    p->status = status;
    net_loop_post(p->member->loop, &p->post, end_posted, p);
}

/* The next one that waits for the end of those before it goes on; what follows, when that one
 * has ended. */
static void go_on(struct member *member, const char *upath)
{
    struct produce *p;

    DL_FOREACH(produces_of(member, upath), p)
    {
        if (p->awaits) {
            if (p->step(p) < 0)
                produce_end_later(p, errno);
            return;
        }
    }
}

void produce_end(struct produce *p, int status)
{
    struct member *member = p->member;
    produce_fn fn = p->fn;
    void *arg = p->arg;
    char *upath = p->upath;

    if (p->early || p->parents) {
        p->status = status;
        p->ended = true;
        modules_published(member, upath);
        return;
    }
    /* Removed, or a link: nobody tells us of what we do ourselves. */
    bool changes_path = !p->record.entry.mode || S_ISLNK(p->record.entry.mode);
    if (p->answered && status && p->mark)
        store_marks_settle(member->dmd[p->role].marks, p->mark, status);
    produce_unlink(p);
    p->upath = NULL;
    produce_release(p);
    modules_published(member, upath);
    go_on(member, upath);
    if (changes_path)
        modules_path_changed(member, upath);
    free(upath);
    exit_barrier_activity(member);
    if (fn)
        fn(arg, status);
}

bool produce_pending(struct member *member, const char *upath)
{
    struct produce *p;

    DL_FOREACH(produces_of(member, upath), p)
    {
        if (!p->ended)
            return true;
    }
    return false;
}

struct produce *produce_merging(struct member *member, const char *upath)
{
    struct produce *p;

    DL_FOREACH(produces_of(member, upath), p)
    {
        if (!p->ended && p->merges)
            break;
    }
    return p;
}

struct produce *produce_bringing(struct member *member, const char *upath)
{
    struct produce *p;

    DL_FOREACH(produces_of(member, upath), p)
    {
        if (p->brings)
            break;
    }
    return p;
}

/* A publish of the same name is under way, and has looked at the file already. */
bool produce_is_behind(const struct produce *produce)
{
    const struct produce *p;

    DL_FOREACH(produces_of(produce->member, produce->upath), p)
    {
        if (!p->ended && !p->awaits && p != produce)
            return true;
    }
    return false;
}

/* Of dht_node_ops. What is published is older than the file of `newer` if it is the file
 * that lay here before. */
static void overtaken(void *arg, const struct dyad_entry *newer)
{
    struct member *member = arg;
    struct produce *p;

    DL_FOREACH(produces_of(member, newer->upath), p)
    {
        const struct store_identity *is = &p->record.identity, *was = &p->before.identity;
        const struct member_dmd *dmd = &member->dmd[p->role];
        if (!p->ended && p->ahead && p->before.kind && was->ino == is->ino &&
            was->btime == is->btime &&
            dyad_version_cmp(&p->before.entry.version, &newer->version) < 0 &&
            !dyad_storage_equal(newer->storage, store_dir_id(dmd->dir)))
            store_marks_overtaken(dmd->marks, p->mark, is->ino, is->btime, newer);
    }
}

/* Likewise. */
static void written_by_others(void *arg, const char *upath)
{
    struct member *member = arg;
    struct produce *p;

    DL_FOREACH(produces_of(member, upath), p)
    {
        p->others = true;
    }
}

static void produce_destroy(struct member *member)
{
    while (member->produces)
        produce_free(member->produces->first);
}

static bool is_pending(struct member *member)
{
    return member->produces != NULL;
}

/* Marks that closers have left to us, and that would stay as long as their processes: the journal has what they wrote. */
static void void_promises(struct member *member)
{
    struct produce_name *name;
    const struct produce *p;

    for (name = member->produces; name; name = name->hh.next) {
        DL_FOREACH(name->first, p)
        {
            if (p->answered && p->mark)
                store_marks_clear(member->dmd[p->role].marks, p->mark);
        }
    }
}

static int produce_begin_table(struct member *member)
{
    member->table_ops.overtaken = overtaken;
    member->table_ops.written = written_by_others;
    return 0;
}

const struct member_module produce_module = {
    .start = produce_begin_table,
    .pending = is_pending,
    .void_promises = void_promises,
    .destroy = produce_destroy,
};
