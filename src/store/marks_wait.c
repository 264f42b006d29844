/*
 * marks_wait.c - waiting for a writer, and finding out that it is dead
 *
 * A live writer holds its lock: a waiting thread sleeps in the kernel until the lock is
 * free, or on the futex of the word while a closer publishes. If no closer took the mark
 * over, a ruler must set ABANDONED: by one compare-and-swap, against a closer that comes
 * late after all, and against other rulers; the loser looks again.
 */
#include "store/marks_slot.h"

#include <errno.h>

/* --- the ruling --- */

/* OPENING, and the process that was opening may be dead. 1 abandoned, 0 not, -1 look again.
 * An open that joins cannot have emptied the file. */
static int rule_opening(struct store_marks *marks, struct marks_slot *slot, uint64_t word,
                        store_mark_t mark, int fd)
{
    struct store_identity file = {0};
    uint64_t none = 0;

    if (marks_opener_alive(marks, slot, word))
        return 0;
    if (fd >= 0) {
        if (store_identity_read(fd, &file) < 0)
            return 0;
        /* Killed in opened() after the lock was taken, and a child has the description. */
        if (store_lock_test(fd, marks_lock_byte(mark)) == 1)
            return 0;
    }
    if (file.size > 0 || fd < 0 || atomic_load(&slot->detail) == MARKS_JOINS)
        return marks_release(marks, marks_index_of(mark), word) ? 0 : -1;

    /* Several rulers may be here, with files that had the name at different times: the
     * first decides. */
    _Atomic uint32_t *count = &marks->table->inodes[marks_bucket(file.ino)];
    atomic_fetch_add(count, 1);
    if (!atomic_compare_exchange_strong(&slot->ino, &none, file.ino))
        atomic_fetch_sub(count, 1);
    else
        atomic_store(&slot->btime, file.btime);
    if (!marks_swap(marks, slot, word,
                    marks_with_state(word, WORD_PID(word), STORE_MARK_ABANDONED)))
        return -1;
    uint64_t name = atomic_exchange(&slot->name, 0);
    if (name)
        atomic_fetch_sub(&marks->table->names[marks_bucket(name)], 1);
    return 1;
}

static int rule_dirty(struct store_marks *marks, struct marks_slot *slot, uint64_t word,
                      store_mark_t mark, int fd)
{
    struct store_identity file;

    if (word & WORD_NOLOCK) {
        if (marks_opener_alive(marks, slot, word))
            return 0;
    } else {
        if (fd < 0 || store_identity_read(fd, &file) < 0 ||
            !marks_same_file(slot, file.ino, file.btime) ||
            store_lock_test(fd, marks_lock_byte(mark)) != 0)
            return 0;
    }
    return marks_swap(marks, slot, word,
                      marks_with_state(word, WORD_PID(word), STORE_MARK_ABANDONED))
               ? 1
               : -1;
}

bool store_marks_rule(struct store_marks *marks, store_mark_t mark, int fd)
{
    struct marks_slot *slot;
    uint64_t word;
    int saved = errno, ruling = -1;

    while (ruling < 0 && (slot = marks_find(marks, mark, &word))) {
        switch (WORD_STATE(word)) {
        case STORE_MARK_OPENING:
            ruling = rule_opening(marks, slot, word, mark, fd);
            break;
        case STORE_MARK_DIRTY:
            ruling = rule_dirty(marks, slot, word, mark, fd);
            break;
        case STORE_MARK_CLOSING:
            ruling = 0;
            if (!marks_closer_alive(marks, slot, word))
                ruling =
                    marks_swap(marks, slot, word,
                               marks_with_state(word, WORD_PID(word), STORE_MARK_ABANDONED))
                        ? 1
                        : -1;
            break;
        default: /* ABANDONED */
            ruling = 1;
        }
    }
    errno = saved;
    return ruling == 1;
}

bool store_marks_ruling_due(struct store_marks *marks, store_mark_t mark, int fd)
{
    struct marks_slot *slot;
    uint64_t word;
    int saved = errno;
    bool due = false;

    if ((slot = marks_find(marks, mark, &word))) {
        switch (WORD_STATE(word)) {
        case STORE_MARK_OPENING:
            due = !marks_opener_alive(marks, slot, word);
            break;
        case STORE_MARK_DIRTY:
            due = word & WORD_NOLOCK ? !marks_opener_alive(marks, slot, word)
                                     : store_lock_test(fd, marks_lock_byte(mark)) == 0;
            break;
        case STORE_MARK_CLOSING:
            due = !marks_closer_alive(marks, slot, word);
            break;
        default:
            break;
        }
    }
    errno = saved;
    return due;
}

/* --- waits --- */

/* An OPENING mark of this process is of another thread: one that its exec has ended, or,
 * if only makers are waited for, one of the program's own. */
static void await_opening(struct store_marks *marks, const char *upath, bool makers,
                          store_mark_t own)
{
    struct marks_table *table = marks->table;
    uint64_t name = marks_hash_name(upath);
    store_proc_t self = store_proc_self(NULL);
    int saved = errno;

    if (!marks_is_opened(table, name, own))
        return;
    uint32_t top = atomic_load(&table->header.top);
    for (uint32_t i = 0; i < top; i++) {
        struct marks_slot *slot = &table->slots[i];
        uint64_t word;
        while (word = atomic_load(&slot->word),
               WORD_STATE(word) == STORE_MARK_OPENING && atomic_load(&slot->name) == name &&
                   !(makers && atomic_load(&slot->detail) == MARKS_JOINS) &&
                   WORD_PID(word) != store_proc_pid(self) &&
                   marks_opener_alive(marks, slot, word))
            marks_wait_word(marks, slot, word, MARKS_GRACE_MSEC);
    }
    errno = saved;
}

void store_marks_await_opened(struct store_marks *marks, const char *upath)
{
    await_opening(marks, upath, false, 0);
}

void store_marks_await_makers(struct store_marks *marks, const char *upath,
                              store_mark_t own)
{
    await_opening(marks, upath, true, own);
}

/* Another thread of this process may take the name, or may have done so when exec ended it: such a
 * mark lasts as long as the process, hence the bound. */
void store_marks_await_name(struct store_marks *marks, const char *upath)
{
    struct marks_table *table = marks->table;
    uint64_t name = marks_hash_removal(upath), until = 0;
    int saved = errno;

    if (!marks_is_opened(table, name, 0))
        return;
    uint32_t top = atomic_load(&table->header.top);
    for (uint32_t i = 0; i < top; i++) {
        struct marks_slot *slot = &table->slots[i];
        uint64_t word;
        while (word = atomic_load(&slot->word),
               WORD_STATE(word) == STORE_MARK_OPENING && atomic_load(&slot->name) == name) {
            uint64_t now = util_clock_now();
            if (!marks_opener_alive(marks, slot, word)) {
                marks_release(marks, i, word); /* if not, another one has */
                continue;
            }
            if (!until)
                until = now + MARKS_GRACE_MSEC * UTIL_NSEC_PER_MSEC;
            if (now >= until)
                break;
            marks_wait_word(marks, slot, word,
                            (long)((until - now) / UTIL_NSEC_PER_MSEC) + 1);
        }
    }
    errno = saved;
}

bool store_marks_left(struct store_marks *marks, store_mark_t mark)
{
    struct marks_slot *slot;
    uint64_t word;

    if (!(slot = marks_find(marks, mark, &word)) || WORD_STATE(word) != STORE_MARK_DIRTY ||
        (word & WORD_NOLOCK))
        return false;
    return atomic_load(&slot->opener) == store_proc_self(NULL) ||
           !marks_opener_alive(marks, slot, word);
}

void store_marks_await_closer(struct store_marks *marks, store_mark_t mark)
{
    store_proc_t self = store_proc_self(NULL);
    struct marks_slot *slot;
    uint64_t word;
    int saved = errno;

    while ((slot = marks_find(marks, mark, &word)) &&
           WORD_STATE(word) == STORE_MARK_CLOSING &&
           WORD_PID(word) != store_proc_pid(self) && marks_closer_alive(marks, slot, word))
        marks_wait_word(marks, slot, word, MARKS_GRACE_MSEC);
    errno = saved;
}

bool store_marks_held(store_mark_t mark, int fd)
{
    return store_lock_test(fd, marks_lock_byte(mark)) == 1;
}

int store_marks_await_release(store_mark_t mark, int fd)
{
    return store_lock_wait_byte(fd, marks_lock_byte(mark));
}

bool store_marks_stays_dirty(struct store_marks *marks, store_mark_t mark, long msec)
{
    uint64_t now = util_clock_now(), until = now + (uint64_t)msec * UTIL_NSEC_PER_MSEC;
    struct marks_slot *slot;
    uint64_t word;

    while ((slot = marks_find(marks, mark, &word)) &&
           WORD_STATE(word) == STORE_MARK_DIRTY) {
        if (now >= until)
            return true;
        marks_wait_word(marks, slot, word, (long)((until - now) / UTIL_NSEC_PER_MSEC) + 1);
        now = util_clock_now();
    }
    return false;
}

int store_marks_wait(struct store_marks *marks, store_mark_t mark, int fd)
{
    struct marks_slot *slot;
    uint64_t word;
    int saved = errno;

    while ((slot = marks_find(marks, mark, &word)) &&
           WORD_STATE(word) != STORE_MARK_ABANDONED) {
        if (WORD_STATE(word) == STORE_MARK_DIRTY && !(word & WORD_NOLOCK)) {
            struct store_identity file;
            if (fd < 0) {
                errno = EAGAIN;
                return -1;
            }
            if (store_identity_read(fd, &file) < 0)
                return -1;
            if (!marks_same_file(slot, file.ino, file.btime)) {
                if (!marks_find(marks, mark, &word))
                    break;
                errno = ESTALE;
                return -1;
            }
            if (store_lock_wait_byte(fd, marks_lock_byte(mark)) < 0)
                return -1;
            if (atomic_load(&slot->word) != word)
                continue;
        }
        if (marks_wait_word(marks, slot, word, MARKS_GRACE_MSEC) == 0)
            continue;
        if (errno != ETIMEDOUT)
            return -1;
        /* Rules what needs a ruling; a live opener or closer, and a file that is not fd's,
         * stay. */
        store_marks_rule(marks, mark, fd);
    }
    errno = saved;
    return 0;
}
