/*
 * store/journal_index.h - the records of an open journal in memory; private to store/
 *
 * The last record of each upath, and whether the file has it.
 */
#ifndef DYAD_STORE_JOURNAL_INDEX_H
#define DYAD_STORE_JOURNAL_INDEX_H

#include <uthash.h>

#include "store/journal.h"

#define JOURNAL_NAME_MAX 200

struct journal_node {
    UT_hash_handle hh;
    struct store_record record;
    bool retired, behind; /* `behind`: the file does not have this record yet */
    bool deleted;         /* but not yet in the file, so it is behind */
    struct journal_node *prev, *later; /* utlist: journal->behind */
    char upath[];
};

struct store_journal {
    const struct store_dir *dir;
    char name[JOURNAL_NAME_MAX + 1];
    int fd;
    uint32_t openings;
    char *label;         /* NULL: none */
    uint64_t end, live;  /* size of the file; bytes of it that a rewrite would keep */
    uint64_t compact_at; /* not before the file has this size: a rewrite failed */
    struct journal_node *index;
    uint64_t deleted;            /* number of deleted nodes in it */
    struct journal_node *behind; /* nodes that the file lacks */
    bool label_behind;           /* the file lacks the label */
    bool walked;                 /* only the node that a walk is at may be freed */
    void (*fell_behind)(void *arg);
    void *fell_behind_arg;
};

/* index_find: also a node whose deletion could not be written; find: not that. NULL:
 * none. */
struct journal_node *journal_index_find(struct store_journal *journal, const char *upath,
                                        size_t len);
struct journal_node *journal_find(struct store_journal *journal, const char *upath);
/* NULL ENOMEM. */
struct journal_node *journal_node_new(const char *upath, size_t len,
                                      const struct store_record *record);
/* 0, or -1 ENOMEM. */
int journal_index_add(struct store_journal *journal, struct journal_node *node);
void journal_index_remove(struct store_journal *journal, struct journal_node *node);
void journal_index_replace(struct store_journal *journal, struct journal_node *node,
                           const struct store_record *record);
/* Free nodes that are in no journal any more. */
void journal_index_free(struct journal_node *all);
/* 0 or -1 ENOMEM. */
int journal_label_keep(struct store_journal *journal, const char *label, size_t len);

/* True if the file has all changes. */
bool journal_has_all(const struct store_journal *journal);
/* The file may lack a change now: call fell_behind() if `had_all` and it does. */
void journal_falls_behind(struct store_journal *journal, bool had_all);
void journal_behind_set(struct store_journal *journal, struct journal_node *node,
                        bool behind);
/* Set `deleted`: a rewrite leaves the node out. */
void journal_deleted_set(struct store_journal *journal, struct journal_node *node,
                         bool deleted);

#endif
