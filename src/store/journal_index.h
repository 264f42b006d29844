/*
 * store/journal_index.h - what an open journal knows of its file; private to store/
 *
 * The last record of each upath, and what of it the file lacks. Memory only.
 */
#ifndef DYAD_STORE_JOURNAL_INDEX_H
#define DYAD_STORE_JOURNAL_INDEX_H

#include <uthash.h>

#include "store/journal.h"

#define JOURNAL_NAME_MAX 200

struct journal_node {
    UT_hash_handle hh;
    struct store_record record;
    bool retired, behind;              /* `behind`: not in the file, or not this one */
    bool deleted;                      /* but not in the file, so it is behind */
    struct journal_node *prev, *later; /* utlist: journal->behind */
    char upath[];
};

struct store_journal {
    const struct store_dir *dir;
    char name[JOURNAL_NAME_MAX + 1];
    int fd;
    uint32_t openings;
    char *label;         /* NULL: none */
    uint64_t end, live;  /* size of the file; of that, what a rewrite would keep */
    uint64_t compact_at; /* not before the file has this size: a rewrite failed */
    struct journal_node *index;
    uint64_t deleted;            /* of them */
    struct journal_node *behind; /* what the file lacks */
    bool label_behind;           /* and the label */
    bool walked;                 /* no node goes but the one that the caller is at */
    void (*fell_behind)(void *arg);
    void *fell_behind_arg;
};

/* Also one whose deletion could not be written; journal_find(): not that. NULL: none. */
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
/* Nodes that are in no journal any more. */
void journal_index_free(struct journal_node *all);
/* 0 or -1 ENOMEM. */
int journal_label_keep(struct store_journal *journal, const char *label, size_t len);

/* The file lacks nothing. */
bool journal_has_all(const struct store_journal *journal);
/* It may lack something now: tell the owner, if that is new. */
void journal_falls_behind(struct store_journal *journal, bool had_all);
void journal_behind_set(struct store_journal *journal, struct journal_node *node,
                        bool behind);
/* A rewrite leaves it out. */
void journal_deleted_set(struct store_journal *journal, struct journal_node *node,
                         bool deleted);

#endif
