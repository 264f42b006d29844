/*
 * marks_closed.c - files whose last closer was killed before it could say what became of
 * them
 *
 * From CLOSING on no process holds the description: what was to be written was. So a mark
 * that was ABANDONED then says that nobody knows whether the file was published, and not
 * that it may be half written. It is told from others by its `closer`, which only a closer
 * writes; who gives up a close that has failed names the mark as its own heir. A closer
 * that is killed between its swap and that store is not named, and its file then counts as
 * one that may be half written.
 */
#include "store/marks_slot.h"

/* ABANDONED in the midst of CLOSING, which its closer had not given up. (Who has only just
 * won the close is not named yet.) */
static bool was_closing(struct marks_slot *slot, uint64_t word, uint32_t index)
{
    return WORD_STATE(word) == STORE_MARK_ABANDONED && atomic_load(&slot->closer) != 0 &&
           atomic_load(&slot->heir) != marks_mark_of(word, index);
}

/* Or whoever wrote to it next was, whose clearing would have freed this one (settle()). */
static bool was_closing_or_heir(struct store_marks *marks, struct marks_slot *slot,
                                uint64_t word, uint32_t index)
{
    store_mark_t heir = atomic_load(&slot->heir);
    struct marks_slot *next;
    uint64_t next_word;

    if (WORD_STATE(word) != STORE_MARK_ABANDONED || was_closing(slot, word, index))
        return WORD_STATE(word) == STORE_MARK_ABANDONED;
    return heir != marks_mark_of(word, index) &&
           (next = marks_find(marks, heir, &next_word)) &&
           was_closing(next, next_word, marks_index_of(heir));
}

bool store_marks_take_closed(struct store_marks *marks, uint64_t ino, uint64_t btime)
{
    struct marks_table *table = marks->table;

    if (!ino || atomic_load(&table->inodes[marks_bucket(ino)]) == 0)
        return true;
    uint32_t top = atomic_load(&table->header.top);
    for (int freeing = 0; freeing < 2; freeing++) {
        for (uint32_t i = 0; i < top; i++) {
            struct marks_slot *slot = &table->slots[i];
            uint64_t word = atomic_load(&slot->word);
            unsigned state = WORD_STATE(word);
            bool closed;

            if (state == STORE_MARK_FREE || state == MARKS_STATE_FREEING ||
                !marks_same_file(slot, ino, btime))
                continue;
            closed = freeing || was_closing_or_heir(marks, slot, word, i);
            if (atomic_load(&slot->word) != word) /* it is another by now: look again */
                i--;
            else if (!closed)
                return false;
            else if (freeing && state == STORE_MARK_ABANDONED)
                marks_release(marks, i, word);
        }
    }
    return true;
}
