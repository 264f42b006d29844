/*
 * store/journal_write.h - a journal's file as its owner reads and writes it; private to
 * store/
 */
#ifndef DYAD_STORE_JOURNAL_WRITE_H
#define DYAD_STORE_JOURNAL_WRITE_H

#include "store/journal_index.h"

/* A rewrite is worth while from this size on. */
#ifdef DYAD_CRASH_POINTS
#define JOURNAL_COMPACT_MIN (1u << 11) /* a test does not write a million bytes for it */
#else
#define JOURNAL_COMPACT_MIN (1u << 20)
#endif

/* Read the file up to the first record that is not whole; journal->end is there. */
int journal_load(struct store_journal *journal, uint64_t size);
/* Write the records of the index to a new file that takes the place of the old one.
 * `only_new`: only if there is no file of that name. */
int journal_rewrite(struct store_journal *journal, bool only_new);
/* `record` may be NULL. */
int journal_append(struct store_journal *journal, uint32_t kind, const char *upath,
                   const struct store_record *record, uint64_t counter);
/* Rewrite the file if it is worth while, after the index was changed. A failure is no
 * error of the change: the old file is whole. */
void journal_compact(struct store_journal *journal);
/* Write the label, at the begin of a new journal; any other journal is written anew. */
int journal_label_write(struct store_journal *journal, bool again);
/* Write some of the records that the file lacks. 0, or -1: it cannot be written yet. */
int journal_catch_up(struct store_journal *journal);

#endif
