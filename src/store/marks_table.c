/*
 * marks_table.c - make, map and enlarge the table of the dirty marks
 *
 * All processes of a boot agree on one file without a lock (shared_file.h), and map it.
 * The file has disk blocks for some slots at first, and gets more as they are needed.
 * After a reboot, what the last table of this node still says becomes ABANDONED in the
 * new one; its renames are there as left by nobody who lives.
 *
 * What could go wrong: the disk is full (reserve_slots()), and a file system that copies
 * on write could still run out; somebody truncates the file, which kills its users
 * (nobody but the user can); somebody removes the table under a running job
 * (store_marks_table_map()).
 */
#include "store/marks_table.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "store/control.h"
#include "store/life.h"
#include "store/marks.h"
#include "store/shared_file.h"
#include "util/fd_close.h"
#include "util/log.h"

#define PREFIX "marks-"

/* Disk blocks for MARKS_STEP slots from `limit` on. 0 or -1.
 *
 * Touching a page of a mapping that has no disk block raises SIGBUS when the disk is
 * full, in the middle of the host program. So every slot below `limit` has its blocks
 * beforehand (fallocate, or written zeros), and no other slot is touched; the rest of the
 * file is a hole. */
static int reserve_slots(int fd, uint32_t limit)
{
    size_t slots = offsetof(struct marks_table, slots) + limit * sizeof(struct marks_slot);

    if (limit == 0) { /* with all that is before them */
        if (store_control_reserve(fd, 0, slots) < 0)
            return -1;
    }
    if (store_control_reserve(
            fd, offsetof(struct marks_table, looks) + limit * sizeof(struct marks_look),
            MARKS_STEP * sizeof(struct marks_look)) < 0)
        return -1;
    return store_control_reserve(fd, slots, MARKS_STEP * sizeof(struct marks_slot));
}

static bool is_whole(const void *map, const char *boot)
{
    const struct marks_header *header = &((const struct marks_table *)map)->header;
    uint32_t limit = atomic_load(&header->limit);

    return header->magic == MARKS_MAGIC && limit <= MARKS_SLOTS &&
           atomic_load(&header->top) <= limit &&
           (!boot || memcmp(header->boot, boot, MARKS_BOOT_LEN) == 0);
}

void store_marks_table_unmap(struct marks_table *table)
{
    munmap(table, sizeof(*table));
}

/* One slot of an earlier boot: nobody lives that wrote it. */
static void inherit_slot(struct marks_table *table, const struct marks_slot *old)
{
    uint64_t word = atomic_load(&old->word), name = atomic_load(&old->name);
    uint64_t ino = atomic_load(&old->ino);
    uint32_t top = atomic_load(&table->header.top);

    if (WORD_STATE(word) == STORE_MARK_FREE || WORD_STATE(word) == MARKS_STATE_FREEING)
        return;
    if (top == MARKS_SLOTS || (!ino && !name))
        return;
    struct marks_slot *slot = &table->slots[top];
    if (ino) {
        atomic_store(&slot->ino, ino);
        atomic_store(&slot->btime, atomic_load(&old->btime));
        atomic_store(&slot->word, WORD_MAKE(1, 0, STORE_MARK_ABANDONED));
        atomic_fetch_add(&table->inodes[marks_bucket(ino)], 1);
    } else {
        /* Its file may have been truncated: an open of the name has the mark ruled. */
        atomic_store(&slot->name, name);
        atomic_store(&slot->word, WORD_MAKE(1, 0, STORE_MARK_OPENING));
        atomic_fetch_add(&table->names[marks_bucket(name)], 1);
    }
    atomic_store(&table->header.top, top + 1);
}

/* Renames that an earlier boot has cut short. */
static void inherit_renames(struct marks_table *table, const struct marks_table *old)
{
    uint32_t to = 0;

    for (uint32_t i = 0; i < MARKS_RENAMES; i++) {
        const struct marks_rename *left = &old->renames[i];
        if (atomic_load(&left->state) == MARKS_RENAME_EMPTY)
            continue;
        while (to < MARKS_RENAMES && atomic_load(&table->renames[to].owner))
            to++;
        if (to == MARKS_RENAMES)
            return;
        struct marks_rename *place = &table->renames[to];
        atomic_store(&place->session, atomic_load(&left->session));
        place->ino = left->ino;
        memcpy(place->names, left->names, sizeof(place->names));
        atomic_store(&place->state, MARKS_RENAME_WHOLE);
        atomic_store(&place->owner, MARKS_NOBODY);
    }
}

/* Tables of this node's earlier boots are copied to `table`; NULL: they are removed. */
struct earlier {
    const char *node, *boot;
    struct marks_table *table;
    int fd; /* the table's file */
};

static int inherit(const struct earlier *earlier, const struct marks_table *old)
{
    struct marks_table *table = earlier->table;
    uint32_t top = atomic_load(&old->header.top);

    inherit_renames(table, old);
    for (uint32_t i = 0; i < top; i++) {
        uint32_t limit = atomic_load(&table->header.limit);
        if (atomic_load(&table->header.top) == limit && limit < MARKS_SLOTS) {
            if (reserve_slots(earlier->fd, limit) < 0)
                return -1;
            atomic_store(&table->header.limit, limit + MARKS_STEP);
        }
        inherit_slot(table, &old->slots[i]);
    }
    return 0;
}

static int look_at_other(int control, const char *name, const void *map, void *arg)
{
    const struct marks_table *old = map;
    const struct earlier *earlier = arg;

    if (strncmp(old->header.node, earlier->node, sizeof(old->header.node)) != 0 ||
        memcmp(old->header.boot, earlier->boot, MARKS_BOOT_LEN) == 0)
        return 0;
    if (earlier->table)
        return inherit(earlier, old);
    unlinkat(control, name, 0);
    return 0;
}

static void init_lines(struct marks_header *header)
{
    int rc = 0;

    for (unsigned i = 0; i < MARKS_LINES && rc == 0; i++)
        rc = store_life_init(&header->lines[i].life);
    header->nlines = rc == 0 ? MARKS_LINES : 0;
}

static int reserve(int fd)
{
    return reserve_slots(fd, 0) < 0
               ? -1
               : store_control_reserve(fd, offsetof(struct marks_table, renames),
                                       sizeof(((struct marks_table *)0)->renames));
}

static int fill(const struct store_shared_new *file);
static void made(const struct store_shared_new *file);

static const struct store_shared_kind kind = {
    .size = sizeof(struct marks_table),
    .is_whole = is_whole,
    .reserve = reserve,
    .fill = fill,
    .made = made,
};

static int fill(const struct store_shared_new *file)
{
    struct marks_table *table = file->map;
    struct earlier earlier = {table->header.node, file->boot, table, file->fd};
    struct stat st;

    if (fstat(file->fd, &st) < 0)
        return -1;
    gethostname(table->header.node, sizeof(table->header.node) - 1);
    table->header.magic = MARKS_MAGIC;
    table->header.ino = st.st_ino;
    memcpy(table->header.boot, file->boot, MARKS_BOOT_LEN);
    init_lines(&table->header);
    atomic_store(&table->header.limit, MARKS_STEP);
    return store_shared_each_other(file->control, &kind, PREFIX, file->name, look_at_other,
                                   &earlier);
}

static void made(const struct store_shared_new *file)
{
    const struct marks_table *table = file->map;
    struct earlier earlier = {table->header.node, file->boot, NULL, -1};

    store_shared_each_other(file->control, &kind, PREFIX, file->name, look_at_other,
                            &earlier);
}

/* The network namespace, as a number that no other has at a time; 0: not known. */
static uint64_t network(void)
{
    struct stat st;

    return stat("/proc/self/ns/net", &st) == 0 ? st.st_ino : 0;
}

/* A table that is removed (`rm -r .dyad` under a running job) lives on for those who have
 * mapped it, while later processes make a new one: marks of the two are not seen by each
 * other. Noticing would cost a stat() at every open; don't remove .dyad while a job runs.
 */
struct marks_table *store_marks_table_map(const struct store_dir *dir, const char *boot,
                                          char **path)
{
    char own[MARKS_BOOT_LEN + 1], name[64];
    struct marks_table *table = NULL;

    if (boot)
        snprintf(own, sizeof(own), "%-*s", MARKS_BOOT_LEN, boot);
    else if (store_control_boot(own) < 0)
        goto error_log;
    snprintf(name, sizeof(name), PREFIX "%016llx",
             (unsigned long long)XXH3_64bits_withSeed(
                 own, MARKS_BOOT_LEN, store_dir_shared(dir) ? network() : 0));

    table = store_shared_map(dir, &kind, name, own);
    if (!table)
        goto error_log;
    if (asprintf(path, "%s/" STORE_CONTROL_DIR "/%s", store_dir_real_path(dir), name) < 0) {
        store_marks_table_unmap(table);
        errno = ENOMEM;
        goto error_log;
    }
    return table;

error_log:
    log_error("cannot use the table of open files in %s/" STORE_CONTROL_DIR ": %m%s",
              store_dir_path(dir),
              errno == EUCLEAN ? "; it is damaged: remove " STORE_CONTROL_DIR
                                 " while no job uses it"
                               : "");
    return NULL;
}

int store_marks_table_grow(struct marks_table *table, const char *path, uint32_t limit)
{
    struct stat st;

    if (limit >= MARKS_SLOTS) {
        errno = ENOSPC;
        return -1;
    }
    int fd = open(path, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return -1;
    /* Another table may have taken the name of the one that is mapped. */
    int rc = -1;
    if (fstat(fd, &st) == 0) {
        if (st.st_ino == table->header.ino)
            rc = reserve_slots(fd, limit);
        else
            errno = ESTALE;
    }
    if (rc == 0)
        atomic_compare_exchange_strong(&table->header.limit, &limit, limit + MARKS_STEP);
    util_fd_close(fd);
    return rc;
}
