/*
 * dump_check.c - an owner compares what it has published with its disk (dyad-dht-dump
 * --check)
 *
 * A page of the journals' records is copied on the loop's thread, the files are looked at
 * on the I/O pool, and the answer is made on the loop again, where it is known what is
 * being published. Nobody is kept from changing anything meanwhile. So each item says
 * whether it is *pending*: a publish of it is under way, not all its homes have it yet, a
 * process has the file open for writing, or the record has changed since it was copied. The
 * asker judges only what is not, and twice (tools/dump_check.c).
 *
 * The same way is gone by the request for who has a file open for writing now
 * (NET_DUMP_WRITER): what the marks of the node say of the inode that has the name there.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utlist.h>

#include "boot/procs.h"
#include "engine/inspect/dump.h"
#include "engine/inspect/dump_impl.h"
#include "engine/publish/produce.h"

/* Of the text of a page; one item of any size still fits behind it. */
#define ITEMS_MAX 512

struct item {
    struct member_dmd *dmd;
    struct dyad_entry entry;
    struct store_identity identity;
    char *upath;
    char fault[160]; /* "": none */
    bool written;    /* a live writer has it */
};

struct dump_check {
    struct dump_check *prev, *next; /* utlist */
    struct member *member;
    struct net_msg ask; /* upath: own copy or NULL */
    struct engine_io io;
    struct item *items;
    size_t nitems, bytes;
    uint64_t at;
    bool more;
    /* NET_DUMP_WRITER */
    pid_t writer;    /* 0: nobody */
    bool rank_known; /* of the writer: */
    uint32_t rank;
    char launch[BOOT_NSPACE_MAX + 1];
};

static void check_free(struct dump_check *check)
{
    DL_DELETE(OWN(check->member, dump)->checks, check);
    for (size_t i = 0; i < check->nitems; i++)
        free(check->items[i].upath);
    free(check->items);
    free((char *)check->ask.entry.upath);
    free(check);
}

/* --- on the I/O pool --- */

static const char *type_text(mode_t mode)
{
    return S_ISREG(mode)   ? "a file"
           : S_ISDIR(mode) ? "a directory"
           : S_ISLNK(mode) ? "a symbolic link"
                           : "neither file, directory nor link";
}

#define FAULT(item, ...) snprintf((item)->fault, sizeof((item)->fault), __VA_ARGS__)

static void look_at_file(struct item *item, const struct stat *st,
                         const struct store_identity *id)
{
    const struct dyad_entry *e = &item->entry;

    if ((st->st_mode & S_IFMT) != (e->mode & S_IFMT))
        FAULT(item, "is %s on its disk, published as %s", type_text(st->st_mode),
              type_text(e->mode));
    else if (S_ISREG(st->st_mode) && (uint64_t)st->st_size != e->size)
        FAULT(item, "has %lld bytes on its disk, published with %llu",
              (long long)st->st_size, (unsigned long long)e->size);
    else if (S_ISREG(st->st_mode) && (st->st_mtim.tv_sec != e->mtime_sec ||
                                      (uint32_t)st->st_mtim.tv_nsec != e->mtime_nsec))
        FAULT(item,
              "was modified at %lld.%09ld according to its disk, published as of "
              "%lld.%09u",
              (long long)st->st_mtim.tv_sec, st->st_mtim.tv_nsec, (long long)e->mtime_sec,
              e->mtime_nsec);
    else if (id->ino != item->identity.ino || id->btime != item->identity.btime)
        FAULT(item, "is another one on its disk than was published (inode %llu, not %llu)",
              (unsigned long long)id->ino, (unsigned long long)item->identity.ino);
}

static void look(struct item *item)
{
    struct store_mark_info mark;
    struct store_identity id = {0};
    struct stat st;
    int fd = store_dir_open(item->dmd->dir, item->upath, O_PATH | O_NOFOLLOW, 0);

    if (fd < 0) {
        if (errno == ENOENT)
            FAULT(item, "is not on its disk");
        else
            FAULT(item, "cannot be opened on its disk: %s", strerrordesc_np(errno));
    } else if (fstat(fd, &st) < 0 || store_identity_read(fd, &id) < 0) {
        FAULT(item, "cannot be read on its disk: %s", strerrordesc_np(errno));
    } else {
        look_at_file(item, &st, &id);
    }
    if (store_marks_dirty(item->dmd->marks, item->upath, id.ino, id.btime, &mark)) {
        item->written = mark.state != STORE_MARK_ABANDONED;
        if (!item->written && !item->fault[0])
            FAULT(item, "carries the mark of a writer that died (pid %d)", (int)mark.pid);
    }
    if (fd >= 0)
        close(fd);
}

/* The process that opened the file may have ended, and another hold the descriptor. */
static void look_for_writer(struct dump_check *check)
{
    const char *upath = check->ask.entry.upath;
    struct store_mark_info mark;

    for (int s = 0; s < 2 && check->writer == 0; s++) {
        struct member_dmd *dmd = &check->member->dmd[s];
        struct store_identity id = {0};
        int fd = dmd->dir ? store_dir_open(dmd->dir, upath, O_PATH | O_NOFOLLOW, 0) : -1;
        if (fd < 0)
            continue;
        if (store_identity_read(fd, &id) == 0 &&
            store_marks_dirty(dmd->marks, upath, id.ino, id.btime, &mark) &&
            mark.state != STORE_MARK_ABANDONED)
            check->writer = mark.pid;
        close(fd);
    }
    check->rank_known =
        check->writer > 0 && boot_procs_rank(check->writer, check->launch, &check->rank);
}

static void check_work(void *arg)
{
    struct dump_check *check = arg;

    if (check->ask.flags & NET_DUMP_WRITER)
        look_for_writer(check);
    for (size_t i = 0; i < check->nitems; i++)
        look(&check->items[i]);
}

/* --- on the loop --- */

static json_t *item_json(struct member *member, const struct item *item)
{
    const struct store_record *now = store_journal_find(item->dmd->journal, item->upath);
    json_t *o = json_object();
    bool changed = !now || now->kind != STORE_RECORD_ORIGINAL ||
                   dyad_version_cmp(&now->entry.version, &item->entry.version) != 0;

    dump_set_name(o, item->upath);
    dump_set_homes(member, o, item->upath);
    json_object_set_new(o, "version", dump_version_json(&item->entry.version));
    json_object_set_new(o, "fault",
                        item->fault[0] ? json_string(item->fault) : json_null());
    json_object_set_new(
        o, "pending",
        json_boolean(changed || item->written || produce_pending(member, item->upath) ||
                     dht_node_is_publishing(member->dht, item->upath)));
    return o;
}

static json_t *writer_json(const struct dump_check *check)
{
    json_t *o = check->writer > 0 ? json_pack("{s:I}", "pid", (json_int_t)check->writer)
                                  : json_null();

    if (check->rank_known) {
        json_object_set_new(o, "rank", json_integer(check->rank));
        json_object_set_new(o, "launch", json_string(check->launch));
    }
    return o;
}

static void check_done(void *arg)
{
    struct dump_check *check = arg;
    struct member *member = check->member;
    bool more = check->more;
    json_t *o = dump_page_json(member, &check->ask, NULL), *own;

    if (check->ask.flags & NET_DUMP_WRITER)
        json_object_set_new(o, "writer", writer_json(check));
    if (check->ask.flags & NET_DUMP_CHECK) {
        own = json_array();
        for (size_t i = 0; i < check->nitems; i++)
            json_array_append_new(own, item_json(member, &check->items[i]));
        json_object_set_new(o, "own", own);
    }
    dump_reply(member, &check->ask, o, more);
    check_free(check);
}

/* Copy a record. Non-zero: the page is full. */
static int item_add(struct dump_check *check, struct member_dmd *dmd,
                    const struct store_record *record)
{
    struct item *item;

    if (record->kind != STORE_RECORD_ORIGINAL ||
        record->entry.state != DYAD_ENTRY_PUBLISHED || check->at++ < check->ask.after)
        return 0;
    if (check->nitems == ITEMS_MAX || check->bytes >= DUMP_PAGE_MAX / 2) {
        check->more = true;
        return 1;
    }
    item = &check->items[check->nitems];
    if (!(item->upath = strdup(record->entry.upath))) {
        check->more = true;
        return 1;
    }
    item->dmd = dmd;
    item->entry = record->entry;
    item->identity = record->identity;
    check->nitems++;
    /* As JSON, where each byte may be escaped or given in hexadecimal. */
    check->bytes += 2 * strlen(item->upath) + 400;
    return 0;
}

struct collect {
    struct dump_check *check;
    struct member_dmd *dmd;
};

static int collect_one(const struct store_record *record, void *arg)
{
    struct collect *collect = arg;
    return item_add(collect->check, collect->dmd, record);
}

static void collect(struct dump_check *check)
{
    struct member *member = check->member;

    for (int s = 0; s < 2 && !check->more; s++) {
        struct collect collect = {check, &member->dmd[s]};
        const struct store_record *record;
        if (!collect.dmd->journal ||
            (s == 1 && collect.dmd->journal == member->dmd[0].journal))
            continue;
        if (!(check->ask.flags & NET_DUMP_KEY))
            store_journal_foreach(collect.dmd->journal, collect_one, &collect);
        else if ((record = store_journal_find(collect.dmd->journal,
                                              check->ask.entry.upath)) != NULL)
            item_add(check, collect.dmd, record);
    }
}

int dump_check_serve(struct member *member, const struct net_msg *msg)
{
    struct dump_check *check = calloc(1, sizeof(*check));

    if (!check)
        return -1;
    check->member = member;
    check->ask = *msg;
    if (check->ask.flags & NET_DUMP_CHECK)
        check->ask.flags &= NET_DUMP_KEY | NET_DUMP_CHECK;
    check->ask.entry.upath = strdup(msg->entry.upath ? msg->entry.upath : "");
    check->items =
        calloc(msg->flags & NET_DUMP_CHECK ? ITEMS_MAX : 1, sizeof(*check->items));
    DL_APPEND(OWN(member, dump)->checks, check);
    if (!check->ask.entry.upath || !check->items) {
        check_free(check);
        errno = ENOMEM;
        return -1;
    }
    if (check->ask.flags & NET_DUMP_CHECK)
        collect(check);
    engine_io_submit(member->io, &check->io, check_work, check_done, check);
    return 0;
}

void dump_check_stop(struct member *member)
{
    struct dump_check *check, *tmp;

    DL_FOREACH_SAFE(OWN(member, dump)->checks, check, tmp)
    {
        check_free(check);
    }
}
