/*
 * journal_index.c - a hash table, and a list of what could not be written
 */
#define HASH_FUNCTION(key, len, hash) ((hash) = (unsigned)XXH3_64bits(key, len))
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "store/journal_index.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "store/journal_impl.h"

struct journal_node *journal_index_find(struct store_journal *journal, const char *upath,
                                        size_t len)
{
    struct journal_node *node;
    HASH_FIND(hh, journal->index, upath, len, node);
    return node;
}

struct journal_node *journal_find(struct store_journal *journal, const char *upath)
{
    struct journal_node *node = journal_index_find(journal, upath, strlen(upath));
    return node && !node->deleted ? node : NULL;
}

struct journal_node *journal_node_new(const char *upath, size_t len,
                                      const struct store_record *record)
{
    struct journal_node *node = malloc(sizeof(*node) + len + 1);
    if (!node)
        return NULL;
    node->record = *record;
    node->retired = node->behind = node->deleted = false;
    memcpy(node->upath, upath, len);
    node->upath[len] = '\0';
    node->record.entry.upath = node->upath;
    return node;
}

int journal_index_add(struct store_journal *journal, struct journal_node *node)
{
    size_t len = strlen(node->upath);

    HASH_ADD_KEYPTR(hh, journal->index, node->upath, len, node);
    if (!node->hh.tbl) {
        errno = ENOMEM;
        return -1;
    }
    journal->live += record_size(len);
    return 0;
}

bool journal_has_all(const struct store_journal *journal)
{
    return !journal->behind && !journal->label_behind;
}

void journal_falls_behind(struct store_journal *journal, bool had_all)
{
    if (had_all && journal->fell_behind)
        journal->fell_behind(journal->fell_behind_arg);
}

void journal_behind_set(struct store_journal *journal, struct journal_node *node,
                        bool behind)
{
    bool had_all = journal_has_all(journal);

    if (node->behind == behind)
        return;
    node->behind = behind;
    if (!behind) {
        DL_DELETE2(journal->behind, node, prev, later);
        return;
    }
    DL_APPEND2(journal->behind, node, prev, later);
    journal_falls_behind(journal, had_all);
}

void journal_deleted_set(struct store_journal *journal, struct journal_node *node,
                         bool deleted)
{
    uint64_t size = record_size(strlen(node->upath));

    if (node->deleted == deleted)
        return;
    node->deleted = deleted;
    if (deleted) {
        journal->deleted++;
        journal->live -= size;
    } else {
        journal->deleted--;
        journal->live += size;
    }
}

void journal_index_remove(struct store_journal *journal, struct journal_node *node)
{
    journal_behind_set(journal, node, false);
    journal_deleted_set(journal, node, true);
    journal->deleted--;
    HASH_DEL(journal->index, node);
    free(node);
}

void journal_index_replace(struct store_journal *journal, struct journal_node *node,
                           const struct store_record *record)
{
    node->record = *record;
    node->record.entry.upath = node->upath;
    node->retired = false;
    journal_deleted_set(journal, node, false);
}

int journal_label_keep(struct store_journal *journal, const char *label, size_t len)
{
    char *copy = strndup(label, len);

    if (!copy)
        return -1;
    if (journal->label)
        journal->live -= record_size(strlen(journal->label));
    free(journal->label);
    journal->label = copy;
    journal->live += record_size(len);
    return 0;
}

void journal_index_free(struct journal_node *all)
{
    struct journal_node *node, *next;

    HASH_ITER(hh, all, node, next)
    {
        HASH_DEL(all, node);
        free(node);
    }
}
