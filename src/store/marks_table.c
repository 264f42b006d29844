/*
 * marks_table.c - make, map and enlarge the table of the dirty marks
 *
 * A table is written in full under a name of its own and gets its final name by a rename
 * that fails if somebody was quicker, so all processes of a boot agree on one file without
 * a lock.
 *
 * Touching a page of a mapping that has no disk block raises SIGBUS when the disk is full,
 * in the middle of the host program. So every slot below `limit` has its blocks beforehand
 * (fallocate, or written zeros), and no other is touched; the rest of the file is a hole. A
 * file system that copies on write could still run out. Somebody who truncates the file
 * kills its users: nobody but the user can.
 *
 * A table that is removed (`rm -r .dyad` under a running job) lives on for those who have
 * mapped it, while later processes make a new one: marks of the two are not seen by each
 * other. Noticing would cost a stat() at every open; don't remove .dyad while a job runs.
 *
 * After a reboot, what the last table of this node still says becomes ABANDONED in the new
 * one; its renames are there as left by nobody who lives.
 */
#include "store/marks_table.h"

#include <dirent.h>
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
#include "util/log.h"

#define PREFIX "marks-"

/* Disk blocks for MARKS_STEP slots from `limit` on. 0 or -1. */
static int reserve_slots(int fd, uint32_t limit, bool looks)
{
    size_t slots = offsetof(struct marks_table, slots) + limit * sizeof(struct marks_slot);

    if (limit == 0) { /* with all that is before them */
        if (store_control_reserve(fd, 0, slots) < 0)
            return -1;
    }
    if (looks &&
        store_control_reserve(
            fd, offsetof(struct marks_table, looks) + limit * sizeof(struct marks_look),
            MARKS_STEP * sizeof(struct marks_look)) < 0)
        return -1;
    return store_control_reserve(fd, slots, MARKS_STEP * sizeof(struct marks_slot));
}

/* The table in a descriptor if it is whole and of this boot (NULL: of any). */
static struct marks_table *map(int fd, const char *boot, int protection)
{
    struct stat st;

    if (fstat(fd, &st) < 0)
        return NULL;
    if ((uint64_t)st.st_size != sizeof(struct marks_table) &&
        (uint64_t)st.st_size != offsetof(struct marks_table, looks) &&
        (uint64_t)st.st_size != offsetof(struct marks_table, renames)) {
        errno = EUCLEAN;
        return NULL;
    }
    struct marks_table *table = mmap(NULL, sizeof(*table), protection, MAP_SHARED, fd, 0);
    if (table == MAP_FAILED)
        return NULL;
    uint32_t limit = atomic_load(&table->header.limit);
    if (table->header.magic != MARKS_MAGIC || limit > MARKS_SLOTS ||
        (table->header.nrenames > 0 &&
         (uint64_t)st.st_size < offsetof(struct marks_table, looks)) ||
        (table->header.nlooks > 0 && (uint64_t)st.st_size != sizeof(*table)) ||
        atomic_load(&table->header.top) > limit ||
        (boot && memcmp(table->header.boot, boot, MARKS_BOOT_LEN) != 0)) {
        store_marks_table_unmap(table);
        errno = EUCLEAN;
        return NULL;
    }
    return table;
}

void store_marks_table_unmap(struct marks_table *table)
{
    munmap(table, sizeof(*table));
}

/* One slot of an earlier boot: nobody lives that wrote it. */
static void inherit_slot(struct marks_table *table, struct marks_slot *old)
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
        /* Its file may have been truncated: whoever opens the name has it ruled upon. */
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

    for (uint32_t i = 0; i < old->header.nrenames && i < MARKS_RENAMES; i++) {
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

/* Call fn-like action on each table of this node's earlier boots: take it over (table), or
 * remove it. */
static int earlier_boots(int control, const char *name, const char *node, const char *boot,
                         struct marks_table *table, int temp)
{
    int fd = openat(control, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    DIR *stream = fdopendir(fd);
    if (!stream) {
        close(fd);
        return -1;
    }
    int rc = 0;
    struct dirent *entry;
    while (rc == 0 && (entry = readdir(stream))) {
        if (strncmp(entry->d_name, PREFIX, strlen(PREFIX)) != 0 ||
            strcmp(entry->d_name, name) == 0)
            continue;
        int file =
            openat(fd, entry->d_name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        if (file < 0)
            continue;
        struct marks_table *old = map(file, NULL, PROT_READ);
        close(file);
        if (!old)
            continue;
        if (strncmp(old->header.node, node, sizeof(old->header.node)) == 0 &&
            memcmp(old->header.boot, boot, MARKS_BOOT_LEN) != 0) {
            uint32_t top = atomic_load(&old->header.top);
            if (!table)
                unlinkat(fd, entry->d_name, 0);
            else
                inherit_renames(table, old);
            for (uint32_t i = 0; table && rc == 0 && i < top; i++) {
                uint32_t limit = atomic_load(&table->header.limit);
                if (atomic_load(&table->header.top) == limit && limit < MARKS_SLOTS) {
                    rc = reserve_slots(temp, limit, true);
                    if (rc == 0)
                        atomic_store(&table->header.limit, limit + MARKS_STEP);
                }
                if (rc == 0)
                    inherit_slot(table, &old->slots[i]);
            }
        }
        store_marks_table_unmap(old);
    }
    int saved = errno;
    closedir(stream);
    errno = saved;
    return rc;
}

static void init_lines(struct marks_header *header)
{
    int rc = 0;

    for (unsigned i = 0; i < MARKS_LINES && rc == 0; i++)
        rc = store_life_init(&header->lines[i].life);
    header->nlines = rc == 0 ? MARKS_LINES : 0;
}

static int make(const struct store_dir *dir, int control, const char *name,
                const char *boot)
{
    char temp[STORE_TEMP_NAME_SIZE], node[65] = "";
    int saved, rc = -1;

    gethostname(node, sizeof(node) - 1);
    int tmpdir = store_control_subdir(dir, "tmp");
    if (tmpdir < 0)
        return -1;
    int fd = store_control_temp(tmpdir, temp);
    if (fd < 0)
        goto out_tmpdir;
    struct stat st;
    if (fstat(fd, &st) < 0 || ftruncate(fd, sizeof(struct marks_table)) < 0 ||
        reserve_slots(fd, 0, true) < 0 ||
        store_control_reserve(fd, offsetof(struct marks_table, renames),
                              sizeof(((struct marks_table *)0)->renames)) < 0)
        goto out_temp;
    struct marks_table *table =
        mmap(NULL, sizeof(*table), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (table == MAP_FAILED)
        goto out_temp;
    table->header.magic = MARKS_MAGIC;
    table->header.ino = st.st_ino;
    memcpy(table->header.boot, boot, MARKS_BOOT_LEN);
    memcpy(table->header.node, node, sizeof(node));
    init_lines(&table->header);
    table->header.nrenames = MARKS_RENAMES;
    table->header.nlooks = MARKS_SLOTS;
    atomic_store(&table->header.limit, MARKS_STEP);
    rc = earlier_boots(control, name, node, boot, table, fd);
    if (rc == 0) {
        rc = store_control_rename_new(tmpdir, temp, control, name);
        if (rc == 0)
            earlier_boots(control, name, node, boot, NULL, -1);
        else if (errno == EEXIST)
            rc = 0;
    }
    store_marks_table_unmap(table);
out_temp:
    saved = errno;
    unlinkat(tmpdir, temp, 0);
    close(fd);
    errno = saved;
out_tmpdir:
    saved = errno;
    close(tmpdir);
    errno = saved;
    return rc;
}

/* The network namespace, as a number that no other has at a time; 0: not known. */
static uint64_t network(void)
{
    struct stat st;

    return stat("/proc/self/ns/net", &st) == 0 ? st.st_ino : 0;
}

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

    int saved, control = store_control_open(dir);
    if (control < 0)
        goto error_log;
    int fd = store_control_open_made(dir, control, name, own, make);
    if (fd >= 0) {
        table = map(fd, own, PROT_READ | PROT_WRITE);
        saved = errno;
        close(fd);
        errno = saved;
    }
    saved = errno;
    close(control);
    errno = saved;
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
            rc = reserve_slots(fd, limit, table->header.nlooks > 0);
        else
            errno = ESTALE;
    }
    if (rc == 0)
        atomic_compare_exchange_strong(&table->header.limit, &limit, limit + MARKS_STEP);
    int saved = errno;
    close(fd);
    errno = saved;
    return rc;
}
