/*
 * marks_slot.c - one slot: transitions of its word, and the futex on it
 */
#include "store/marks_slot.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

struct marks_slot *marks_find(struct store_marks *marks, store_mark_t mark, uint64_t *word)
{
    struct marks_slot *slot = &marks->table->slots[marks_index_of(mark)];

    if (!mark || marks_index_of(mark) >= atomic_load(&marks->table->header.top))
        return NULL;
    *word = atomic_load(&slot->word);
    if (WORD_GENERATION(*word) != mark >> 16 || WORD_STATE(*word) == STORE_MARK_FREE ||
        WORD_STATE(*word) == MARKS_STATE_FREEING)
        return NULL;
    return slot;
}

/* Waits look at the half of the word that holds the state. */
static uint32_t *futex_of(struct marks_slot *slot)
{
    uint32_t *half = (uint32_t *)&slot->word;
    return __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? half + 1 : half;
}

/* After a change of the word. `waiters` is raised before a waiter looks at the word, so
 * either it sees the change or it is seen here; both are sequentially consistent. */
static void wake(struct store_marks *marks, struct marks_slot *slot)
{
    if (atomic_load(&marks->table->header.waiters) > 0) {
        int saved = errno;
        syscall(SYS_futex, futex_of(slot), FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
        errno = saved;
    }
}

bool marks_swap(struct store_marks *marks, struct marks_slot *slot, uint64_t from,
                uint64_t to)
{
    if (!atomic_compare_exchange_strong(&slot->word, &from, to))
        return false;
    wake(marks, slot);
    return true;
}

int marks_wait_word(struct store_marks *marks, struct marks_slot *slot, uint64_t word,
                    long msec)
{
    struct timespec timeout = {.tv_sec = msec / 1000, .tv_nsec = msec % 1000 * 1000000};
    _Atomic uint32_t *waiters = &marks->table->header.waiters;
    int rc = 0;

    atomic_fetch_add(waiters, 1);
    if (atomic_load(&slot->word) == word)
        rc = (int)syscall(SYS_futex, futex_of(slot), FUTEX_WAIT, (uint32_t)word, &timeout,
                          NULL, 0);
    int error = errno;
    atomic_fetch_sub(waiters, 1);
    errno = error;
    return rc < 0 && error != EAGAIN ? -1 : 0;
}

static void lower_to(_Atomic uint32_t *value, uint32_t most)
{
    uint32_t seen = atomic_load(value);
    while (seen > most && !atomic_compare_exchange_weak(value, &seen, most))
        ;
}

void marks_empty(struct store_marks *marks, uint32_t index, uint64_t generation)
{
    struct marks_slot *slot = &marks->table->slots[index];

    atomic_store(&slot->name, 0);
    atomic_store(&slot->ino, 0);
    atomic_store(&slot->btime, 0);
    atomic_store(&slot->opener, 0);
    atomic_store(&slot->closer, 0);
    atomic_store(&slot->detail, 0);
    atomic_store(&slot->ns, 0);
    atomic_store(&slot->word, WORD_MAKE(generation, 0, STORE_MARK_FREE));
    wake(marks, slot);
    lower_to(&marks->table->header.low, index);
}

bool marks_release(struct store_marks *marks, uint32_t index, uint64_t word)
{
    struct marks_table *table = marks->table;
    struct marks_slot *slot = &table->slots[index];
    pid_t pid = store_proc_pid(store_proc_self(NULL));

    marks_renew(marks, slot);
    atomic_fetch_add(&table->header.released, 1); /* before it is not found any more */
    if (!atomic_compare_exchange_strong(&slot->word, &word,
                                        marks_with_state(word, pid, MARKS_STATE_FREEING)))
        return false;
    uint64_t ino = atomic_exchange(&slot->ino, 0);
    uint64_t name = atomic_exchange(&slot->name, 0);
    if (ino)
        atomic_fetch_sub(&table->inodes[marks_bucket(ino)], 1);
    if (name)
        atomic_fetch_sub(&table->names[marks_bucket(name)], 1);
    marks_empty(marks, index, WORD_GENERATION(word));
    return true;
}

/* --- who lives --- */

/* Whether a process lives is looked up if the process is of our pid namespace, and else
 * judged by how long ago it came. Neither its namespace nor that time is in the word that
 * is swapped.
 *
 * So `since` is written before the swap, by each process that tries: for the winner it is
 * right, and it does not make the process before it seem older. `ns` is written after the
 * swap, by the winner, and is a hash of its namespace and of itself: as long as `ns` is
 * that of the process before, the winner counts as one of another namespace, which cannot
 * be looked into. If the winner is killed between the two it is found dead after
 * STORE_PROC_FOREIGN_MAX.
 *
 * If all processes that ever wrote to the table are of one pid namespace, as usual, none
 * counts so: a process of another namespace says so in the header before its first swap
 * (announce()). */

bool marks_are_mixed(const struct store_marks *marks)
{
    const struct marks_header *header = &marks->table->header;
    uint32_t own, first;

    if (atomic_load(&header->mixed) != 0)
        return true;
    store_proc_self(&own);
    first = atomic_load(&header->pidns);
    return own != 0 && first != 0 && first != own;
}

/* Call it before the first swap of this process: a process that finds its word finds
 * this, too. */
static void announce(struct store_marks *marks)
{
    struct marks_header *header = &marks->table->header;
    uint32_t ns, first = 0;

    store_proc_self(&ns);
    if (ns == 0 || atomic_load(&header->pidns) == ns ||
        atomic_compare_exchange_strong(&header->pidns, &first, ns) || first == ns)
        return;
    if (atomic_load(&header->mixed) == 0)
        atomic_store(&header->mixed, 1);
}

void marks_renew(struct store_marks *marks, struct marks_slot *slot)
{
    marks_came(&slot->since);
    announce(marks);
}

/* Never 0, which is nobody's. */
uint32_t marks_tag(uint32_t ns, store_proc_t proc)
{
    uint64_t both[2] = {proc, ns};
    uint32_t tag = (uint32_t)XXH3_64bits(both, sizeof(both));

    return tag ? tag : 1;
}

/* Of a process that the slot names. If `ns` is not of it, or not yet: foreign, where there
 * are such. */
static uint32_t ns_of(const struct store_marks *marks, struct marks_slot *slot,
                      store_proc_t proc)
{
    uint32_t own, tag = atomic_load(&slot->ns);

    store_proc_self(&own);
    if (tag == marks_tag(own, proc))
        return own;
    if (tag == marks_tag(0, proc))
        return 0;
    return marks_are_mixed(marks) ? MARKS_NS_FOREIGN : own;
}

bool marks_opener_alive(const struct store_marks *marks, struct marks_slot *slot,
                        uint64_t word)
{
    store_proc_t opener = atomic_load(&slot->opener);

    /* Not stored yet, or begin() was cut short: what the word says is all there is. */
    if (WORD_STATE(word) == STORE_MARK_OPENING && !opener)
        opener = (uint64_t)WORD_PID(word) << 32;
    uint32_t ns = ns_of(marks, slot, opener);
    /* `ns` is of a closer that has abandoned it, and that had the opener's description.
     */
    if (ns == MARKS_NS_FOREIGN && WORD_STATE(word) == STORE_MARK_ABANDONED)
        ns = ns_of(marks, slot, atomic_load(&slot->closer));
    return store_proc_alive(opener, ns, marks_age(&slot->since));
}

bool marks_closer_alive(const struct store_marks *marks, struct marks_slot *slot,
                        uint64_t word)
{
    store_proc_t closer = atomic_load(&slot->closer);

    if (store_proc_pid(closer) != WORD_PID(word))
        closer = (uint64_t)WORD_PID(word) << 32;
    return store_proc_alive(closer, ns_of(marks, slot, closer), marks_age(&slot->since));
}
