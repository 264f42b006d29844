/*
 * dump_key.c - what a member says of one name: as a home, of the file on its node, and of locks
 *
 * Two members of a node tell of the same file; the tool shows it once.
 */
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "engine/core/joined_writers.h"
#include "engine/core/local_file.h"
#include "engine/inspect/dump_impl.h"
#include "engine/publish/locks.h"
#include "engine/publish/produce.h"
#include "store/extents.h"
#include "store/fetch.h"
#include "util/clock.h"
#include "util/fd_close.h"

static void writer_add(void *list, uint32_t rank, bool dead)
{
    json_array_append_new(
        list, json_pack("{s:I, s:b}", "rank", (json_int_t)rank, "dead", (int)dead));
}

static void lock_add(void *list, pid_t pid, const struct lock_range *range, uint64_t since,
                     uint32_t asks)
{
    json_t *o = json_pack(
        "{s:i, s:s, s:I, s:b, s:b}", "pid", (int)pid, "type",
        range->type == NET_LOCK_WRITE ? "write" : "read", "begin", (json_int_t)range->begin,
        "append", (int)(range->begin >= STORE_LOCKS_END), "waits", (int)(since != 0));

    json_object_set_new(
        o, "end",
        range->end < STORE_LOCKS_END ? json_integer((json_int_t)range->end) : json_null());
    if (since)
        json_object_set_new(o, "since",
                            json_real((double)(util_clock_now() - since) / 1e9));
    if (asks != DYAD_RANK_NONE)
        json_object_set_new(o, "asks", json_integer(asks));
    json_array_append_new(list, o);
}

/* The ranges that are on record of the file, and their bytes. */
static void set_written(json_t *o, const char *key, const struct member_dmd *dmd,
                        const struct store_identity *id, uint64_t but)
{
    struct store_extent_list list;
    uint64_t bytes = 0;

    if (!dmd->extents ||
        store_extents_list(dmd->extents, id->ino, id->btime, NULL, 0, but, &list) < 0) {
        json_object_set_new(o, key, json_null());
        return;
    }
    for (size_t i = 0; i < list.n; i++)
        bytes += list.extent[i].length;
    json_object_set_new(
        o, key,
        json_pack("{s:I, s:I}", "ranges", (json_int_t)list.n, "bytes", (json_int_t)bytes));
    store_extent_list_free(&list);
}

/* The file below one directory; NULL: none. */
static json_t *file_json(struct member_dmd *dmd, const char *upath)
{
    int fd = dmd->dir ? store_fetch_open_named(dmd->dir, upath, O_PATH | O_NOFOLLOW) : -1;
    char storage[2 * DYAD_STORAGE_ID_LEN + 1];
    struct store_mark_info info;
    struct store_identity id;
    json_t *o = NULL;
    struct stat st;

    if (fd < 0)
        return NULL;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && store_identity_read(fd, &id) == 0) {
        for (unsigned i = 0; i < DYAD_STORAGE_ID_LEN; i++)
            snprintf(storage + 2 * i, 3, "%02x", store_dir_id(dmd->dir)[i]);
        o = json_pack("{s:s, s:I, s:b}", "storage", storage, "size", (json_int_t)st.st_size,
                      "superseded", (int)local_file_is_superseded(dmd, upath, &st));
        json_object_set_new(
            o, "writer",
            joined_writers_find(dmd, upath, &info) ? json_integer(info.pid) : json_null());
        set_written(o, "written", dmd, &id, 0);
        set_written(o, "written_here", dmd, &id, STORE_EXTENTS_OTHERS);
    }
    util_fd_close(fd);
    return o;
}

static json_t *files_json(struct member *member, const char *upath)
{
    json_t *list = json_array();

    for (int role = 1; role >= 0; role--) {
        json_t *file = file_json(&member->dmd[role], upath), *first;
        first = json_array_get(list, 0);
        if (file && first &&
            json_equal(json_object_get(first, "storage"), json_object_get(file, "storage")))
            json_decref(file);
        else if (file)
            json_array_append_new(list, file);
    }
    return list;
}

json_t *dump_key_json(struct member *member, const char *upath)
{
    struct dht_key key;
    struct dht_record *record;
    json_t *o = json_object(), *writers = json_array(), *locks = json_array();

    dht_node_writers(member->dht, upath, writer_add, writers);
    locks_foreach(member, upath, lock_add, locks);
    json_object_set_new(o, "writers", writers);
    json_object_set_new(o, "locks", locks);
    json_object_set_new(o, "files", files_json(member, upath));
    dht_key_init(&key, upath, member->self.depth);
    record = dht_shard_find(dht_node_shard(member->dht), &key, upath);
    dump_set_name(o, upath);
    dump_set_hashes(member, o, upath);
    json_object_set_new(o, "entry",
                        record && record->entry.state != DYAD_ENTRY_NONE
                            ? dump_entry_json(member, record)
                            : json_null());
    json_object_set_new(
        o, "waiters", record ? dump_waiters_json(record, util_clock_now()) : json_array());
    json_object_set_new(o, "pending",
                        json_boolean(produce_pending(member, upath) ||
                                     dht_node_is_publishing(member->dht, upath)));
    return o;
}
