/*
 * marks_closed.c - files whose last closer was killed before it had published or given up
 *
 * From CLOSING on no process holds the description, and all has been written. So a mark
 * that became ABANDONED from CLOSING means that the file may or may not have been
 * published, and not that it may be half written. Such a mark has a `closer`, which only
 * a closer writes; a process that gives up a close that has failed makes the mark its own
 * heir. If a closer is killed between its swap and the store of `closer`, its file counts
 * as one that may be half written.
 */
#include "store/marks_slot.h"

/* True if the mark became ABANDONED from CLOSING, which its closer had not given up. (A
 * process that has only just won the close is not in `closer` yet.) */
static bool was_closing(struct marks_slot *slot, uint64_t word, uint32_t index)
{
    return WORD_STATE(word) == STORE_MARK_ABANDONED && atomic_load(&slot->closer) != 0 &&
           atomic_load(&slot->detail) != marks_mark_of(word, index);
}

/* The same, or that holds for the next writer's mark, whose clearing would have freed
 * this one (clear_abandoned()). */
static bool was_closing_or_heir(struct store_marks *marks, struct marks_slot *slot,
                                uint64_t word, uint32_t index)
{
    store_mark_t heir = atomic_load(&slot->detail);
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
