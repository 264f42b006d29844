/*
 * store/journal.h - the journal: a rank's record, on this DMD, of what it published and
 * fetched
 *
 * `.dyad/owner/NAME`: an append-only file of checksummed records, one writer (the member of
 * one rank), one write(2) per record, so kill -9 at any point loses at most the record that
 * was being written; a torn tail is cut off at the next opening. When superseded records
 * are more than half they are removed by writing a new file and renaming it: compact
 * after 10^6 files. It lets an exec'd, restarted or next member of the node go on serving
 * what was published. Not synced to the disk: it outlives the processes, and a power cut
 * as far as the file system does. If the file is removed while it is open, the next
 * change writes it anew from memory (~270 bytes and the upath for each record). Not
 * thread-safe: one thread at a time.
 */
#ifndef DYAD_STORE_JOURNAL_H
#define DYAD_STORE_JOURNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "store/dmd.h"
#include "util/entry.h"

struct store_journal;

enum store_record_kind {
    STORE_RECORD_ORIGINAL = 1, /* written here, published by this rank */
    STORE_RECORD_COPY,         /* fetched from another storage */
};

struct store_record {
    enum store_record_kind kind;
    bool made_here;                 /* a copy of a name that this node had made before */
    struct dyad_entry entry;        /* entry.upath borrowed until the journal changes */
    struct store_identity identity; /* of the file on disk when it was recorded */
    struct dyad_base
        base; /* kind, size, time: of an original that changed a version, until the homes
                              have taken it; else NONE */
};

/* Open or make the journal of an owner. `name`: [A-Za-z0-9._-]+, at most 200 bytes, not "."
 * or "..". `incarnation` gets the number of times it was opened before (a counter kept in
 * it). NULL with errno: EBUSY another process has it open, EINVAL the name, ENOSPC ...
 * `dir` must outlive the journal. */
struct store_journal *store_journal_create(const struct store_dir *dir, const char *name,
                                           uint32_t *incarnation);
/* Open the journal that another process has left, to take it over; does not count as an
 * opening. When it is locked, and before its records are read, wanted() is called with
 * its label (NULL: none). NULL with errno: EBUSY another process has it open, ECANCELED
 * it is not wanted, ENOENT, EUCLEAN it is no journal. */
struct store_journal *store_journal_open(const struct store_dir *dir, const char *name,
                                         bool (*wanted)(const char *label, void *arg),
                                         void *arg);
/* The label of a journal that another process may have open. 0 or -1: ENOENT there is no
 * such journal, or it has none. */
int store_journal_read_label(const struct store_dir *dir, const char *name,
                             char label[DYAD_UPATH_MAX + 1]);
/* What is asked of another process's journal about one file. */
struct store_look {
    const char *upath;
    void *arg; /* the caller's */
    bool found;
    struct store_record record; /* if found; its upath is `upath` */
};
/* Look records up in a journal that another process may have open and be writing to,
 * without disturbing it. A result was true at some moment since the call, as far as the
 * writer could write it down. Sorts looks[n]. 0, or -1 with errno: ENOENT there is none,
 * EUCLEAN it is no journal, ... Reads the file once: ~1 s for 10^6 records. */
int store_journal_look(const struct store_dir *dir, const char *name,
                       struct store_look *looks, size_t n);
void store_journal_destroy(struct store_journal *journal);
/* The same, and remove the file (the session has ended and nothing needs it). 0 or -1;
 * destroyed in any case. */
int store_journal_remove(struct store_journal *journal);

/* Add or replace the record of entry.upath; it is copied. 0, or -1: ENOMEM, EINVAL,
 * ENAMETOOLONG, ...: the old one stays; ENOSPC, EDQUOT, EIO, EFBIG: the new one is in
 * memory, and goes to the file when that can be written again. */
int store_journal_put(struct store_journal *journal, const struct store_record *record);
/* fn is called when the file begins to lack a change (a put, a deletion or a label): from
 * inside that call, or this one. It must not call back. From then on call
 * store_journal_catch_up() from time to time until it returns true: the file has all
 * changes (a put tries, too). */
void store_journal_on_behind(struct store_journal *journal, void (*fn)(void *arg),
                             void *arg);
bool store_journal_catch_up(struct store_journal *journal);
/* Delete a record, retired or not. 0, or -1: ENOENT there is none; ENOSPC, ...: it is
 * deleted in memory, and stays in the file until that can be written again. */
int store_journal_delete(struct store_journal *journal, const char *upath);
/* Hide a record: store_journal_find() does not find it, but it stays in the file until
 * store_journal_delete(). Its file is being removed, and a process that reads the journal
 * meanwhile, or takes it over when this one is killed, must know the record. A
 * store_journal_put() makes it an ordinary record again. 0, or -1: ENOENT there is none.
 */
int store_journal_retire(struct store_journal *journal, const char *upath);
/* The record of upath, valid until the journal changes; NULL: none. */
const struct store_record *store_journal_find(struct store_journal *journal,
                                              const char *upath);
/* The same; also one that is retired. */
const struct store_record *store_journal_find_any(struct store_journal *journal,
                                                  const char *upath);
/* Forget all records, in one step; the count of openings and the label stay. 0 or -1 with
 * errno: all of them stay. */
int store_journal_clear(struct store_journal *journal);
/* Set the text that says whose journal it is: without NUL, at most DYAD_UPATH_MAX bytes,
 * in the file before the first record. 0 or -1 with errno, as put. */
int store_journal_set_label(struct store_journal *journal, const char *label);
/* Call fn with the name of each journal of the DMD that begins with prefix, until it
 * returns non-zero. Returns that, or -1 with errno. */
int store_journal_list(const struct store_dir *dir, const char *prefix,
                       int (*fn)(const char *name, void *arg), void *arg);
/* True if a journal of the DMD whose name begins with prefix has records; also, perhaps,
 * for a torn one. */
bool store_journal_any(const struct store_dir *dir, const char *prefix);
/* Call fn for each record until it returns non-zero; returns that. fn may delete the
 * record that it is called with, no other. */
int store_journal_foreach(struct store_journal *journal,
                          int (*fn)(const struct store_record *record, void *arg),
                          void *arg);
/* The number of records, retired ones included. */
uint64_t store_journal_count(const struct store_journal *journal);

#endif
