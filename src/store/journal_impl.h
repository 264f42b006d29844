/*
 * store/journal_impl.h - a journal's file, byte by byte; private to store/
 *
 * journal_write.c: writing by its owner. journal_read.c: reading, by the owner and by
 * others. journal_list.c: finding the journals of a DMD.
 */
#ifndef DYAD_STORE_JOURNAL_IMPL_H
#define DYAD_STORE_JOURNAL_IMPL_H

#include <stddef.h>

#include "store/journal.h"

#define MAGIC     "DYADJRN3"
#define MAGIC_LEN 8
#define COUNT_KIND \
    100 /* a count of openings, in place of the fixed part's version.counter */
#define DELETE_KIND 101
#define LABEL_KIND  102 /* the label, in place of the upath */
#define MADE_KIND   103 /* a copy, made_here */

#define DISK_CONFLICT 0x80u /* beside the state */
#define DISK_RECORDED 0x40u
#define DISK_EMPTIED  0x20u
#define DISK_BASE     8 /* above these bits: the kind of the base */

struct disk_record {
    uint32_t len; /* of all of it, the upath (without NUL) at its end */
    uint32_t kind;
    uint64_t checksum; /* of what follows, seeded with len and kind */
    uint64_t counter;
    uint32_t rank, incarnation, owner, state;
    uint8_t storage[DYAD_STORAGE_ID_LEN];
    uint64_t size;
    int64_t mtime_sec;
    uint32_t mtime_nsec, mode, component, unused;
    uint64_t dev, ino, btime, ctime, file_size;
    uint64_t base_size, base_time;
};

#define RECORD_MAX (sizeof(struct disk_record) + DYAD_UPATH_MAX)

/* What is read or written at a time. */
#ifdef DYAD_SANITIZED
#define JOURNAL_BUFFER (1u << 14) /* tests get beyond it, and fresh memory is slow there */
#else
#define JOURNAL_BUFFER (1u << 20)
#endif

static inline size_t record_size(size_t upath_len)
{
    return sizeof(struct disk_record) + upath_len;
}

/* True if a journal may have this name. */
bool journal_name_ok(const char *name);
uint64_t journal_checksum(const struct disk_record *disk, size_t len);
/* Decode all fields but entry.upath. */
void journal_decode(const struct disk_record *disk, struct store_record *record);
/* True if the file begins with the magic of a journal. */
bool journal_magic_ok(int fd);
/* Call fn with each record from *end on, until fn returns non-zero, or up to the first
 * record that is not whole, whose offset *end gets. Returns fn's result, or -1 with
 * errno. */
int journal_walk(int fd, uint64_t *end,
                 int (*fn)(const struct disk_record *disk, void *arg), void *arg);
/* 0 or -1 ENOENT. */
int journal_read_label(int fd, char label[DYAD_UPATH_MAX + 1]);

#endif
