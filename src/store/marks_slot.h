/*
 * store/marks_slot.h - one slot of the table of dirty marks: its word, its waiters
 *
 * Private to the marks. marks.c: a writer's transitions of its own mark; marks_wait.c:
 * waiting for a writer, and finding out that it is dead; marks_closed.c: closers that
 * were killed; marks_look.c: looks. struct marks_slot (marks_table.h) says which process
 * may change what.
 */
#ifndef DYAD_STORE_MARKS_SLOT_H
#define DYAD_STORE_MARKS_SLOT_H

#include <stdbool.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "store/lock.h"
#include "store/marks.h"
#include "store/marks_table.h"
#include "store/alive.h"
#include "util/clock.h"

/* For how long the lock may be free until the closer is taken for dead. */
#define MARKS_GRACE_MSEC 1000
/* No pid namespace has this number. */
#define MARKS_NS_FOREIGN 1u

static inline uint64_t marks_hash_name(const char *upath)
{
    uint64_t hash = XXH3_64bits(upath, strlen(upath));
    return hash ? hash : 1;
}

/* For store_marks_begin_removal(): only store_marks_await_name() looks for it. No seed of
 * XXH3's: for names of up to 16 bytes a seed of few bits is as good as other bytes of the
 * name ("f.5" with seed 1 is "f.4" with seed 0), and the removal of one file would pass
 * for the opening of another. */
static inline uint64_t marks_hash_removal(const char *upath)
{
    uint64_t hash = marks_hash_name(upath) ^ UINT64_C(0x9e3779b97f4a7c15);
    return hash ? hash : 1;
}

static inline uint32_t marks_now_seconds(void)
{
    return (uint32_t)(util_clock_now() / UTIL_NSEC_PER_SEC);
}

/* Seconds since *since; below 0 if that was set after we read the clock. */
static inline int32_t marks_age(const _Atomic uint32_t *since)
{
    return (int32_t)(marks_now_seconds() - atomic_load(since));
}

/* Set *since to now, unless another process has set a later time. */
static inline void marks_came(_Atomic uint32_t *since)
{
    uint32_t seen = atomic_load(since), now = marks_now_seconds();

    while ((int32_t)(now - seen) > 0 && !atomic_compare_exchange_weak(since, &seen, now))
        ;
}

static inline store_mark_t marks_mark_of(uint64_t word, uint32_t index)
{
    return WORD_GENERATION(word) << 16 | index;
}

static inline uint32_t marks_index_of(store_mark_t mark)
{
    return (uint32_t)(mark & (MARKS_SLOTS - 1));
}

static inline off_t marks_lock_byte(store_mark_t mark)
{
    return STORE_MARK_LOCK_OFFSET + (off_t)mark;
}

static inline uint64_t marks_with_state(uint64_t word, pid_t pid, unsigned state)
{
    return WORD_MAKE(WORD_GENERATION(word), pid, state) | (word & WORD_NOLOCK);
}

static inline bool marks_same_file(struct marks_slot *slot, uint64_t ino, uint64_t btime)
{
    uint64_t born = atomic_load(&slot->btime);

    return atomic_load(&slot->ino) == ino && (!btime || !born || btime == born);
}

/* True if a mark other than `own` (0: none), which is OPENING this name, may be OPENING
 * it. */
static inline bool marks_is_opened(struct marks_table *table, uint64_t name,
                                   store_mark_t own)
{
    return name && atomic_load(&table->names[marks_bucket(name)]) > (own ? 1u : 0u);
}

/* The slot of a mark and its word, if that use of the slot is not over. */
struct marks_slot *marks_find(struct store_marks *marks, store_mark_t mark, uint64_t *word);
/* Make one transition; false if the word has changed. Wakes threads that wait for it. */
bool marks_swap(struct store_marks *marks, struct marks_slot *slot, uint64_t from,
                uint64_t to);
/* Wait until the word changes, at most `msec`. 0, or -1: ETIMEDOUT, EINTR. */
int marks_wait_word(struct store_marks *marks, struct marks_slot *slot, uint64_t word,
                    long msec);
/* Empty a slot that this process has set to FREEING, and make it FREE. */
void marks_empty(struct store_marks *marks, uint32_t index, uint64_t generation);
/* Go from a state that was just read to FREE; false if another process was quicker. */
bool marks_release(struct store_marks *marks, uint32_t index, uint64_t word);

/* The open begins; the state of the file is not remembered yet (marks_written.c). */
void marks_look_begin(struct store_marks *marks, store_mark_t mark);

/* The caller becomes responsible for the state now, and may be of another pid namespace
 * than the others. */
void marks_renew(struct store_marks *marks, struct marks_slot *slot);
/* The value of `ns` when `proc`, of this pid namespace, is responsible for the state. */
uint32_t marks_tag(uint32_t ns, store_proc_t proc);
/* True if processes of more than one pid namespace, or of another than ours, have written
 * to this table. */
bool marks_are_mixed(const struct store_marks *marks);
/* True if the opener, or the closer, that the slot names lives. */
bool marks_opener_alive(const struct store_marks *marks, struct marks_slot *slot,
                        uint64_t word);
bool marks_closer_alive(const struct store_marks *marks, struct marks_slot *slot,
                        uint64_t word);
#endif
