/*
 * marks_look.c - which files are being written: questions that change nothing
 *
 * A field counts only if the word was the same before and after it was read.
 */
#include "store/marks_slot.h"

#include <stdlib.h>

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
    pid_t but;       /* not those that this process has opened; 0: nobody */
    bool unfinished; /* store_marks_unfinished() */
};

static bool is_wanted(struct store_marks *marks, struct marks_slot *slot, uint64_t word,
                      const struct wanted *wanted)
{
    unsigned state = WORD_STATE(word);

    if (!(wanted->ino && marks_same_file(slot, wanted->ino, wanted->btime)) &&
        !(wanted->name && state == STORE_MARK_OPENING &&
          atomic_load(&slot->name) == wanted->name))
        return false;
    if (wanted->unfinished)
        return state == STORE_MARK_CLOSING || state == STORE_MARK_ABANDONED ||
               (state == STORE_MARK_OPENING && atomic_load(&slot->heir) != MARKS_JOINS) ||
               (state == STORE_MARK_DIRTY && (atomic_load(&slot->heir) == MARKS_MAKES ||
                                              !marks_opener_alive(marks, slot, word)));
    return !wanted->but || state == STORE_MARK_ABANDONED ||
           store_proc_pid(atomic_load(&slot->opener)) != wanted->but;
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
            if ((match = is_wanted(marks, slot, word, wanted)))
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

bool store_marks_dirty_by_others(struct store_marks *marks, const char *upath, uint64_t ino,
                                 uint64_t btime, pid_t pid, struct store_mark_info *info)
{
    struct marks_table *table = marks->table;
    struct wanted wanted = {
        .name = upath ? marks_hash_name(upath) : 0, .ino = ino, .btime = btime, .but = pid};

    if ((!wanted.name || atomic_load(&table->names[marks_bucket(wanted.name)]) == 0) &&
        (!ino || atomic_load(&table->inodes[marks_bucket(ino)]) == 0))
        return false;
    return search(marks, &wanted, info);
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

bool store_marks_dirty(struct store_marks *marks, const char *upath, uint64_t ino,
                       uint64_t btime, struct store_mark_info *info)
{
    return store_marks_dirty_by_others(marks, upath, ino, btime, 0, info);
}

struct held {
    struct {
        uint64_t ino;
        off_t byte;
    } * locks;
    size_t count, room;
};

static int add_held(uint64_t ino, off_t byte, void *arg)
{
    struct held *held = arg;

    if (held->count == held->room) {
        size_t room = held->room ? 2 * held->room : 256;
        void *locks = realloc(held->locks, room * sizeof(*held->locks));
        if (!locks)
            return -1;
        held->locks = locks;
        held->room = room;
    }
    held->locks[held->count].ino = ino;
    held->locks[held->count++].byte = byte;
    return 0;
}

static bool is_held(const struct held *held, const struct store_mark_info *info)
{
    for (size_t i = 0; i < held->count; i++)
        if (held->locks[i].byte == marks_lock_byte(info->mark) &&
            held->locks[i].ino == info->ino)
            return true;
    return false;
}

int store_marks_foreach(struct store_marks *marks,
                        int (*fn)(const struct store_mark_info *info, void *arg), void *arg)
{
    uint32_t top = atomic_load(&marks->table->header.top);
    struct held held = {0};
    int rc = 0;

    store_lock_list(add_held, &held);
    for (uint32_t i = 0; rc == 0 && i < top; i++) {
        struct marks_slot *slot = &marks->table->slots[i];
        struct store_mark_info info;
        uint64_t word = atomic_load(&slot->word);
        unsigned state = WORD_STATE(word);

        if (state == STORE_MARK_FREE || state == MARKS_STATE_FREEING)
            continue;
        describe(slot, word, i, &info);
        if (state == STORE_MARK_CLOSING)
            info.held = marks_closer_alive(marks, slot, word);
        else if (state == STORE_MARK_OPENING || (word & WORD_NOLOCK))
            info.held = marks_opener_alive(marks, slot, word);
        else
            info.held = is_held(&held, &info);
        if (atomic_load(&slot->word) == word)
            rc = fn(&info, arg);
    }
    free(held.locks);
    return rc;
}
