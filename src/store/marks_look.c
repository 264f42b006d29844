/*
 * marks_look.c - which files are being written: looks that change nothing
 *
 * A field counts only if the word was the same before and after it was read.
 */
#include "store/marks_slot.h"

static void describe(struct marks_slot *slot, uint64_t word, uint32_t index,
                     struct store_mark_info *info)
{
    unsigned state = WORD_STATE(word);

    *info = (struct store_mark_info){
        .mark = marks_mark_of(word, index),
        .state = (enum store_mark_state)state,
        .pid = state == STORE_MARK_DIRTY ? store_proc_pid(atomic_load(&slot->opener))
                                         : WORD_PID(word),
        .ino = atomic_load(&slot->ino),
        .btime = atomic_load(&slot->btime),
    };
}

/* Which marks count. */
struct wanted {
    uint64_t name, ino, btime;
    store_mark_t but; /* not this one; 0: all */
    bool unfinished;  /* store_marks_unfinished() */
    bool open;        /* store_marks_any_open() */
};

static bool is_wanted(struct store_marks *marks, struct marks_slot *slot, uint64_t word,
                      const struct wanted *wanted)
{
    unsigned state = WORD_STATE(word);

    if (!(wanted->ino && marks_same_file(slot, wanted->ino, wanted->btime)) &&
        !(wanted->name && state == STORE_MARK_OPENING &&
          atomic_load(&slot->name) == wanted->name))
        return false;
    if (wanted->open)
        return state == STORE_MARK_DIRTY;
    return !wanted->unfinished || state == STORE_MARK_CLOSING ||
           state == STORE_MARK_ABANDONED ||
           (state == STORE_MARK_OPENING && atomic_load(&slot->detail) != MARKS_JOINS) ||
           (state == STORE_MARK_DIRTY && (atomic_load(&slot->detail) == MARKS_MAKES ||
                                          !marks_opener_alive(marks, slot, word)));
}

/* Look at every slot that was ever used. */
static bool search(struct store_marks *marks, const struct wanted *wanted,
                   struct store_mark_info *info)
{
    uint32_t top = atomic_load(&marks->table->header.top);
    bool found = false;

    for (uint32_t i = 0; i < top; i++) {
        struct marks_slot *slot = &marks->table->slots[i];
        struct store_mark_info seen;
        uint64_t word;
        bool match;

        do {
            word = atomic_load(&slot->word);
            unsigned state = WORD_STATE(word);
            if (state == STORE_MARK_FREE || state == MARKS_STATE_FREEING) {
                match = false;
                break;
            }
            if ((match = marks_mark_of(word, i) != wanted->but &&
                         is_wanted(marks, slot, word, wanted)))
                describe(slot, word, i, &seen);
        } while (atomic_load(&slot->word) != word);
        if (!match)
            continue;
        found = true;
        if (info)
            *info = seen;
        if (!info || seen.state != STORE_MARK_ABANDONED)
            break;
    }
    return found;
}

bool store_marks_dirty(struct store_marks *marks, const char *upath, uint64_t ino,
                       uint64_t btime, struct store_mark_info *info)
{
    struct marks_table *table = marks->table;
    struct wanted wanted = {
        .name = upath ? marks_hash_name(upath) : 0, .ino = ino, .btime = btime};

    if ((!wanted.name || atomic_load(&table->names[marks_bucket(wanted.name)]) == 0) &&
        (!ino || atomic_load(&table->inodes[marks_bucket(ino)]) == 0))
        return false;
    return search(marks, &wanted, info);
}

bool store_marks_dirty_beside(struct store_marks *marks, store_mark_t own,
                              const char *upath, uint64_t ino, uint64_t btime)
{
    struct marks_table *table = marks->table;
    struct wanted wanted = {
        .name = upath ? marks_hash_name(upath) : 0, .ino = ino, .btime = btime, .but = own};
    struct marks_slot *slot = &table->slots[marks_index_of(own)];
    bool has_own = own && marks_same_file(slot, ino, btime); /* its name may have changed */

    if (atomic_load(&table->inodes[marks_bucket(ino)]) <= (has_own ? 1 : 0) &&
        (!wanted.name || atomic_load(&table->names[marks_bucket(wanted.name)]) == 0))
        return false;
    return search(marks, &wanted, NULL);
}

bool store_marks_any_open(struct store_marks *marks, uint64_t ino, uint64_t btime)
{
    struct wanted wanted = {.ino = ino, .btime = btime, .open = true};

    return atomic_load(&marks->table->inodes[marks_bucket(ino)]) > 0 &&
           search(marks, &wanted, NULL);
}

bool store_marks_unfinished(struct store_marks *marks, const char *upath, uint64_t ino,
                            uint64_t btime, store_mark_t own, struct store_mark_info *info)
{
    struct marks_table *table = marks->table;
    struct wanted wanted = {.name = upath ? marks_hash_name(upath) : 0,
                            .ino = ino,
                            .btime = btime,
                            .unfinished = true};

    if (!marks_is_opened(table, wanted.name, own) &&
        atomic_load(&table->inodes[marks_bucket(ino)]) == 0)
        return false;
    return search(marks, &wanted, info);
}
