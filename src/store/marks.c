/*
 * marks.c - the transitions of the slots
 *
 * A process takes a slot before it opens a file for writing (OPENING) and makes it DIRTY
 * after that; the last closer makes it CLOSING and, after the publish, FREE. A slot's
 * `word` decides, and each transition is one compare-and-swap on it; struct marks_slot
 * (marks_table.h) says who may write the other fields. An OFD lock on the file shows
 * whether the description still exists.
 *
 * What could go wrong: a process is killed between two steps (begin(),
 * store_marks_opened(), begin_closing() and is_freed_by_the_dead() say what it leaves);
 * two processes take themselves for the last closer (store_marks_closed()); a living
 * process is taken for dead (marks_slot.c).
 */
#include "store/marks_slot.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

_Static_assert(STORE_MARK_LOCK_OFFSET == STORE_LOCK_OFFSET, "one place for our locks");

struct store_marks *store_marks_create(const struct store_dir *dir)
{
    struct store_marks *marks = calloc(1, sizeof(*marks));
    if (!marks)
        return NULL;
    marks->table = store_marks_table_map(dir, NULL, &marks->path);
    if (!marks->table) {
        int saved = errno;
        free(marks);
        errno = saved;
        return NULL;
    }
    return marks;
}

void store_marks_destroy(struct store_marks *marks)
{
    if (!marks)
        return;
    store_marks_table_unmap(marks->table);
    free(marks->path);
    free(marks);
}

void store_marks_share(struct store_marks *marks)
{
    atomic_store(&marks->table->header.shared, 1);
}

bool store_marks_shared(const struct store_marks *marks)
{
    return atomic_load_explicit(&marks->table->header.shared, memory_order_relaxed) != 0;
}

uint32_t store_marks_released(const struct store_marks *marks)
{
    return atomic_load(&marks->table->header.released);
}

/* True if the process that set FREEING, a state of nanoseconds, is dead. It does not note
 * its pid namespace, so it counts as one of another namespace.
 *
 * A process that is killed in FREEING leaves fields that are half cleared. They match
 * nothing that is not there, and take_back() ends the slot. The filters (`names` and
 * `inodes` of the table) stay one too high: they are raised before a slot can be found,
 * and lowered after it cannot be found any more. */
static bool is_freed_by_the_dead(struct store_marks *marks, struct marks_slot *slot,
                                 uint64_t word)
{
    return (!marks_are_mixed(marks) || marks_age(&slot->since) >= STORE_PROC_FOREIGN_MAX) &&
           !store_proc_alive((uint64_t)WORD_PID(word) << 32, 0, 0);
}

/* Slots of processes that died where nothing of any file is at stake. Returns how many. */
static unsigned take_back(struct store_marks *marks)
{
    uint32_t top = atomic_load(&marks->table->header.top);
    unsigned count = 0;

    for (uint32_t i = 0; i < top; i++) {
        struct marks_slot *slot = &marks->table->slots[i];
        uint64_t word = atomic_load(&slot->word);
        unsigned state = WORD_STATE(word);

        if (state != MARKS_STATE_FREEING &&
            (state != STORE_MARK_OPENING || atomic_load(&slot->name) ||
             atomic_load(&slot->ino)))
            continue;
        if (state == MARKS_STATE_FREEING ? !is_freed_by_the_dead(marks, slot, word)
                                         : marks_opener_alive(marks, slot, word))
            continue;
        pid_t pid = store_proc_pid(store_proc_self(NULL));
        marks_renew(marks, slot);
        if (atomic_compare_exchange_strong(
                &slot->word, &word, marks_with_state(word, pid, MARKS_STATE_FREEING))) {
            marks_empty(marks, i, WORD_GENERATION(word));
            count++;
        }
    }
    return count;
}

static bool take(struct store_marks *marks, uint32_t index, pid_t pid, uint64_t *taken)
{
    struct marks_slot *slot = &marks->table->slots[index];
    uint64_t word = atomic_load_explicit(&slot->word, memory_order_relaxed);

    if (WORD_STATE(word) != STORE_MARK_FREE)
        return false;
    uint64_t generation = WORD_GENERATION(word) + 1;
    if (generation > WORD_GENERATION_MAX)
        generation = 1;
    *taken = WORD_MAKE(generation, pid, STORE_MARK_OPENING);
    marks_renew(marks, slot);
    return atomic_compare_exchange_strong(&slot->word, &word, *taken);
}

static void raise_to(_Atomic uint32_t *value, uint32_t least)
{
    uint32_t seen = atomic_load(value);
    while (seen < least && !atomic_compare_exchange_weak(value, &seen, least))
        ;
}

/* `heir`: MARKS_JOINS or 0.
 *
 * A process that is killed before `name` is stored leaves an OPENING slot without name
 * and inode. It is harmless, and take_back() takes it when slots are short: begin() had
 * not returned, so no file was opened. A process that is killed between begin() and
 * store_marks_opened() leaves OPENING of a dead process: nothing can have been written,
 * only truncated. */
static store_mark_t begin(struct store_marks *marks, uint64_t name, uint64_t heir)
{
    struct marks_table *table = marks->table;
    uint64_t word = 0;
    uint32_t ns, index, limit;
    store_proc_t self = store_proc_self(&ns);
    pid_t pid = store_proc_pid(self);

    for (;;) {
        limit = atomic_load(&table->header.limit);
        uint32_t low = atomic_load(&table->header.low);
        for (index = low; index < limit; index++)
            if (take(marks, index, pid, &word))
                goto taken;
        for (index = 0; index < low && index < limit; index++)
            if (take(marks, index, pid, &word))
                goto taken;
        if (take_back(marks) == 0 &&
            store_marks_table_grow(table, marks->path, limit) < 0) {
            errno = ENOSPC;
            return 0;
        }
    }
taken:;
    struct marks_slot *slot = &table->slots[index];
    uint32_t low = index;
    atomic_compare_exchange_strong(&table->header.low, &low, index + 1);
    raise_to(&table->header.top, index + 1);
    atomic_store(&slot->opener, self);
    atomic_store(&slot->ns, marks_tag(ns, self));
    marks_look_begin(marks, marks_mark_of(word, index));
    atomic_store(&slot->detail, heir); /* who finds the name finds this, too */
    atomic_fetch_add(&table->names[marks_bucket(name)], 1);
    atomic_store(&slot->name, name);
    return marks_mark_of(word, index);
}

store_mark_t store_marks_begin(struct store_marks *marks, const char *upath)
{
    return begin(marks, marks_hash_name(upath), 0);
}

store_mark_t store_marks_begin_joining(struct store_marks *marks, const char *upath)
{
    return begin(marks, marks_hash_name(upath), MARKS_JOINS);
}

store_mark_t store_marks_begin_removal(struct store_marks *marks, const char *upath)
{
    return begin(marks, marks_hash_removal(upath), 0);
}

void store_marks_abort(struct store_marks *marks, store_mark_t mark)
{
    uint64_t word;

    while (marks_find(marks, mark, &word) && WORD_STATE(word) == STORE_MARK_OPENING)
        if (marks_release(marks, marks_index_of(mark), word))
            return;
}

/* What clear_abandoned() does with the ABANDONED marks of a file: free all, free those that
 * `heir` is to free, or make `heir` their heir. */
enum clearing { CLEAR_FREE, CLEAR_INHERITED, CLEAR_LEAVE };

static void clear_abandoned(struct store_marks *marks, uint64_t ino, uint64_t btime,
                            enum clearing how, store_mark_t heir)
{
    struct marks_table *table = marks->table;

    if (!ino || atomic_load(&table->inodes[marks_bucket(ino)]) == 0)
        return;
    uint32_t top = atomic_load(&table->header.top);
    for (uint32_t i = 0; i < top; i++) {
        struct marks_slot *slot = &table->slots[i];
        uint64_t word = atomic_load(&slot->word);

        if (WORD_STATE(word) != STORE_MARK_ABANDONED || !marks_same_file(slot, ino, btime))
            continue;
        if (how == CLEAR_LEAVE)
            atomic_store(&slot->detail, heir);
        else if (how == CLEAR_FREE || atomic_load(&slot->detail) == heir)
            marks_release(marks, i, word);
    }
}

/* Marks of this inode whose writers were killed, and that were not ruled yet, become
 * ABANDONED. `fd`: any description of the file but theirs. Only on file systems with OFD
 * locks. A closer that is merely slow may lose its mark by this: an opener that truncates
 * publishes the file in any case, another one must be sure. */
static void rule_killed(struct store_marks *marks, const struct store_identity *file,
                        int fd, bool truncated)
{
    struct marks_table *table = marks->table;

    if (atomic_load(&table->inodes[marks_bucket(file->ino)]) == 0)
        return;
    uint32_t top = atomic_load(&table->header.top);
    for (uint32_t i = 0; i < top; i++) {
        struct marks_slot *slot = &table->slots[i];
        uint64_t word = atomic_load(&slot->word);

        if (WORD_STATE(word) == STORE_MARK_DIRTY && !(word & WORD_NOLOCK) &&
            marks_same_file(slot, file->ino, file->btime) &&
            (truncated || !marks_opener_alive(marks, slot, word)) &&
            store_lock_test(fd, marks_lock_byte(marks_mark_of(word, i))) == 0)
            marks_swap(marks, slot, word,
                       marks_with_state(word, WORD_PID(word), STORE_MARK_ABANDONED));
    }
}

void store_marks_forget(struct store_marks *marks, uint64_t ino, uint64_t btime)
{
    clear_abandoned(marks, ino, btime, CLEAR_FREE, 0);
}

/* True if a live writer found no whole file at its open: nor does a process that opens
 * now. */
static bool is_being_made(struct store_marks *marks, const struct store_identity *file)
{
    struct store_mark_info info;

    return store_marks_unfinished(marks, NULL, file->ino, file->btime, 0, &info) &&
           info.state != STORE_MARK_ABANDONED;
}

/* The lock is taken before the slot shows DIRTY, so rule() never finds a living
 * description without one. What it can find is a closer between its close and its swap,
 * and that closer wins from ABANDONED. A process that is killed between the lock and
 * DIRTY leaves OPENING, as before the lock, which died with the process. A process that
 * is killed in DIRTY leaves no lock, and rule() abandons the mark; if a forked child has
 * the description the lock is still there. */
int store_marks_opened(struct store_marks *marks, store_mark_t mark, int fd, bool truncated)
{
    struct marks_table *table = marks->table;
    struct store_identity file;
    uint64_t word;
    int saved = errno;

    if (store_identity_read(fd, &file) < 0)
        return -1;
    struct marks_slot *slot = marks_find(marks, mark, &word);
    if (!slot || WORD_STATE(word) != STORE_MARK_OPENING) {
        errno = ESTALE;
        return -1;
    }
    /* Before our own lock is taken, so any lock that shows is another's. A killed writer's
     * mark would keep our publish back until somebody looks at the file. */
    rule_killed(marks, &file, fd, truncated);
    clear_abandoned(marks, file.ino, file.btime,
                    truncated || file.size == 0 ? CLEAR_FREE : CLEAR_LEAVE, mark);

    uint64_t nolock = 0;
    if (store_lock_byte(fd, marks_lock_byte(mark)) < 0) {
        if (errno == EBADF)
            return -1;
        nolock = WORD_NOLOCK;
    }
    bool makes = truncated || file.size == 0 || is_being_made(marks, &file);
    atomic_store(&slot->detail, makes ? MARKS_MAKES : 0);
    atomic_fetch_add(&table->inodes[marks_bucket(file.ino)], 1);
    atomic_store(&slot->btime, file.btime);
    atomic_store(&slot->ino, file.ino);
    if (!marks_swap(marks, slot, word,
                    marks_with_state(word, WORD_PID(word), STORE_MARK_DIRTY) | nolock)) {
        errno = ESTALE;
        return -1;
    }
    /* From here on it is found by its inode. */
    uint64_t name = atomic_exchange(&slot->name, 0);
    if (name)
        atomic_fetch_sub(&table->names[marks_bucket(name)], 1);
    errno = saved;
    return 0;
}

store_mark_t store_marks_of_fd(struct store_marks *marks, int fd)
{
    struct marks_table *table = marks->table;
    struct store_identity file;
    struct stat st;
    store_mark_t found = 0;
    int saved = errno;
    int flags = fcntl(fd, F_GETFL);

    if (flags < 0 || (flags & O_PATH) || (flags & O_ACCMODE) == O_RDONLY ||
        fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || store_identity_read(fd, &file) < 0 ||
        atomic_load(&table->inodes[marks_bucket(file.ino)]) == 0)
        goto out;
    uint32_t ns, top = atomic_load(&table->header.top);
    store_proc_t self = store_proc_self(&ns);
    for (uint32_t i = 0; i < top && !found; i++) {
        struct marks_slot *slot = &table->slots[i];
        uint64_t word = atomic_load(&slot->word), opener = atomic_load(&slot->opener);
        unsigned state = WORD_STATE(word);

        if ((state != STORE_MARK_DIRTY && state != STORE_MARK_ABANDONED) ||
            !marks_same_file(slot, file.ino, file.btime))
            continue;
        /* Without locks: the image before this one was the same process. */
        bool ours = word & WORD_NOLOCK
                        ? opener == self
                        : store_lock_own(fd, marks_lock_byte(marks_mark_of(word, i))) == 1;
        if (!ours || atomic_load(&slot->word) != word)
            continue;
        found = marks_mark_of(word, i);
        /* "Opened by" should name a live process. `ns` may be a closer's by now. */
        uint32_t tag = atomic_load(&slot->ns);
        if (opener == self || marks_opener_alive(marks, slot, word))
            continue;
        marks_renew(marks, slot);
        if (atomic_compare_exchange_strong(&slot->opener, &opener, self))
            atomic_compare_exchange_strong(&slot->ns, &tag, marks_tag(ns, self));
    }
out:
    errno = saved;
    return found;
}

/* After our close: does another process hold the description? `probe`: any other
 * description of the file, -1: none could be had. */
static bool is_held_elsewhere(const struct store_marks *marks, struct marks_slot *slot,
                              uint64_t word, store_mark_t mark, int probe)
{
    int held;

    if (word & WORD_NOLOCK)
        held = atomic_load(&slot->opener) == store_proc_self(NULL)
                   ? 0
                   : marks_opener_alive(marks, slot, word);
    else if (probe >= 0)
        held = store_lock_test(probe, marks_lock_byte(mark));
    else
        held = store_lock_search(atomic_load(&slot->ino), marks_lock_byte(mark));
    if (held < 0) /* no way to tell: believe that who opened it is who closes it last */
        held = atomic_load(&slot->opener) != store_proc_self(NULL);
    return held > 0;
}

/* Another process with our number may have been its closer, in another pid namespace:
 * until our number is there `closer` names nobody. A process that is killed after its
 * close and before this swap leaves DIRTY without a lock, which rule() abandons. If it is
 * killed in CLOSING rule() sees that the closer is dead. */
static bool begin_closing(struct store_marks *marks, struct marks_slot *slot, uint64_t word)
{
    uint32_t ns;
    store_proc_t self = store_proc_self(&ns), former = atomic_load(&slot->closer);

    /* Else `former` may be of a process that is closing now. */
    if (atomic_load(&slot->word) != word)
        return false;
    if (former)
        atomic_compare_exchange_strong(&slot->closer, &former, 0);
    marks_renew(marks, slot);
    if (!marks_swap(marks, slot, word,
                    marks_with_state(word, store_proc_pid(self), STORE_MARK_CLOSING)))
        return false;
    atomic_store(&slot->closer, self);
    atomic_store(&slot->ns, marks_tag(ns, self));
    return true;
}

/* Two last closers: each tests the lock after its own close, so the one whose close was
 * the last sees that it is free. Both may see that, and the swap decides. */
bool store_marks_closed(struct store_marks *marks, store_mark_t mark, int probe,
                        bool last_anyway)
{
    struct marks_slot *slot;
    uint64_t word;
    int saved = errno;
    bool won = false;

    while (!won && (slot = marks_find(marks, mark, &word))) {
        if (WORD_STATE(word) != STORE_MARK_DIRTY &&
            WORD_STATE(word) != STORE_MARK_ABANDONED)
            break;
        if (!last_anyway && is_held_elsewhere(marks, slot, word, mark, probe))
            break;
        won = begin_closing(marks, slot, word);
    }
    errno = saved;
    return won;
}

void store_marks_take(struct store_marks *marks, store_mark_t mark)
{
    struct marks_slot *slot;
    uint64_t word;

    while ((slot = marks_find(marks, mark, &word)) &&
           WORD_STATE(word) == STORE_MARK_CLOSING && !begin_closing(marks, slot, word))
        ;
}

void store_marks_clear(struct store_marks *marks, store_mark_t mark)
{
    struct marks_slot *slot;
    uint64_t word;

    while ((slot = marks_find(marks, mark, &word))) {
        uint64_t ino = atomic_load(&slot->ino), btime = atomic_load(&slot->btime);

        if (WORD_STATE(word) != STORE_MARK_CLOSING &&
            WORD_STATE(word) != STORE_MARK_ABANDONED)
            return;
        if (marks_release(marks, marks_index_of(mark), word)) {
            clear_abandoned(marks, ino, btime, CLEAR_INHERITED, mark);
            return;
        }
    }
}

void store_marks_abandon(struct store_marks *marks, store_mark_t mark)
{
    struct marks_slot *slot;
    uint64_t word;

    while ((slot = marks_find(marks, mark, &word)) &&
           WORD_STATE(word) == STORE_MARK_CLOSING) {
        /* Before the swap, so that killed between them it is not taken for one that was
         * closed well either. The closer's own: openers write it when it is ABANDONED. */
        atomic_store(&slot->detail, mark);
        if (marks_swap(marks, slot, word,
                       marks_with_state(word, WORD_PID(word), STORE_MARK_ABANDONED)))
            return;
    }
}

void store_marks_settle(struct store_marks *marks, store_mark_t mark, int error)
{
    if (error == EIO)
        store_marks_abandon(marks, mark);
    else
        store_marks_clear(marks, mark);
}
