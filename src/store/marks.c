/*
 * marks.c - the transitions of the slots
 *
 * All that may be changed by several processes is in atomics of the shared table; a slot's
 * `word` (state, pid, generation) decides, and each transition is one compare-and-swap on
 * it. Who may write the other fields: in OPENING the opener (and, once it is dead, a ruler:
 * `ino` by compare-and-swap from 0); in CLOSING the closer its own fields; in FREEING the
 * process that made it so; `heir` any opener. Readers take a field for what it is only if
 * the word was the same before and after.
 *
 * Killed at any point:
 *  - before `name` is stored in begin(): an OPENING slot without name and inode, harmless,
 * taken back by reclaim() when slots are short. begin() had not returned, so no file was
 * opened.
 *  - between begin() and opened(): OPENING of a dead process. Nothing can have been
 * written, only truncated.
 *  - between the lock and DIRTY in opened(): the same, the lock died with the process.
 *  - DIRTY: the lock is gone, rule() abandons. If a forked child has the description the
 * lock is not gone.
 *  - after close, before the swap to CLOSING: the same. In CLOSING: rule() sees that the
 * closer is dead.
 *  - in FREEING: fields half cleared; they match nothing that is not there, reclaim() ends
 * it. The filters stay one too high: they are raised before a slot can be found and lowered
 * after it cannot.
 *
 * Two last closers: each tests the lock after its own close, so the one whose close was the
 * last sees it free; both may, and the swap decides. A lock is taken before the slot shows
 * DIRTY, so rule() never finds a live description without one; what it can find is a closer
 * between its close and its swap, and that one wins from ABANDONED.
 */
#include "store/marks.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "store/lock.h"
#include "store/marks_table.h"
#include "store/proc.h"
#include "util/clock.h"

_Static_assert(STORE_MARK_LOCK_OFFSET == STORE_LOCK_OFFSET, "one place for our locks");

/* How long the lock may be free before a closer that should have come is given up. */
#define GRACE_MSEC 1000

static uint64_t hash_name(const char *upath)
{
    uint64_t hash = XXH3_64bits(upath, strlen(upath));
    return hash ? hash : 1;
}

static uint32_t now_seconds(void)
{
    return (uint32_t)(util_clock_now() / UTIL_NSEC_PER_SEC);
}

static store_mark_t mark_of(uint64_t word, uint32_t index)
{
    return WORD_GENERATION(word) << 16 | index;
}

static uint32_t index_of(store_mark_t mark)
{
    return (uint32_t)(mark & (MARKS_SLOTS - 1));
}

static off_t lock_byte(store_mark_t mark)
{
    return STORE_MARK_LOCK_OFFSET + (off_t)mark;
}

/* The slot of a mark and its word, if that use of the slot is not over. */
static struct marks_slot *find(struct store_marks *marks, store_mark_t mark, uint64_t *word)
{
    struct marks_slot *slot = &marks->table->slots[index_of(mark)];

    if (!mark || index_of(mark) >= atomic_load(&marks->table->header.top))
        return NULL;
    *word = atomic_load(&slot->word);
    if (WORD_GENERATION(*word) != mark >> 16 || WORD_STATE(*word) == STORE_MARK_FREE ||
        WORD_STATE(*word) == MARKS_STATE_FREEING)
        return NULL;
    return slot;
}

static uint64_t with_state(uint64_t word, pid_t pid, unsigned state)
{
    return WORD_MAKE(WORD_GENERATION(word), pid, state) | (word & WORD_NOLOCK);
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

static bool swap(struct store_marks *marks, struct marks_slot *slot, uint64_t from,
                 uint64_t to)
{
    if (!atomic_compare_exchange_strong(&slot->word, &from, to))
        return false;
    wake(marks, slot);
    return true;
}

static void raise_to(_Atomic uint32_t *value, uint32_t least)
{
    uint32_t seen = atomic_load(value);
    while (seen < least && !atomic_compare_exchange_weak(value, &seen, least))
        ;
}

static void lower_to(_Atomic uint32_t *value, uint32_t most)
{
    uint32_t seen = atomic_load(value);
    while (seen > most && !atomic_compare_exchange_weak(value, &seen, most))
        ;
}

/* FREEING, by this process: empty the slot and give it back. */
static void empty(struct store_marks *marks, uint32_t index, uint64_t generation)
{
    struct marks_slot *slot = &marks->table->slots[index];

    atomic_store(&slot->name, 0);
    atomic_store(&slot->ino, 0);
    atomic_store(&slot->btime, 0);
    atomic_store(&slot->opener, 0);
    atomic_store(&slot->closer, 0);
    atomic_store(&slot->heir, 0);
    atomic_store(&slot->word, WORD_MAKE(generation, 0, STORE_MARK_FREE));
    wake(marks, slot);
    lower_to(&marks->table->header.low, index);
}

/* From a state that was just read to FREE; false if somebody else was quicker. */
static bool release(struct store_marks *marks, uint32_t index, uint64_t word)
{
    struct marks_table *table = marks->table;
    struct marks_slot *slot = &table->slots[index];
    pid_t pid = store_proc_pid(store_proc_self(NULL));

    if (!atomic_compare_exchange_strong(&slot->word, &word,
                                        with_state(word, pid, MARKS_STATE_FREEING)))
        return false;
    uint64_t ino = atomic_exchange(&slot->ino, 0);
    uint64_t name = atomic_exchange(&slot->name, 0);
    if (ino)
        atomic_fetch_sub(&table->inodes[marks_bucket(ino)], 1);
    if (name)
        atomic_fetch_sub(&table->names[marks_bucket(name)], 1);
    empty(marks, index, WORD_GENERATION(word));
    return true;
}

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

/* Slots of processes that died where nothing of any file is at stake. Returns how many. */
static unsigned reclaim(struct store_marks *marks)
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
        /* These states last for nanoseconds; no time is kept of them, the pid alone is
         * asked. One of another pid namespace may be cut short here: it then finds its swap
         * refused. */
        if (store_proc_alive((uint64_t)WORD_PID(word) << 32, 0, 0))
            continue;
        pid_t pid = store_proc_pid(store_proc_self(NULL));
        if (atomic_compare_exchange_strong(&slot->word, &word,
                                           with_state(word, pid, MARKS_STATE_FREEING))) {
            empty(marks, i, WORD_GENERATION(word));
            count++;
        }
    }
    return count;
}

static bool claim(struct store_marks *marks, uint32_t index, pid_t pid, uint64_t *claimed)
{
    struct marks_slot *slot = &marks->table->slots[index];
    uint64_t word = atomic_load_explicit(&slot->word, memory_order_relaxed);

    if (WORD_STATE(word) != STORE_MARK_FREE)
        return false;
    uint64_t generation = WORD_GENERATION(word) + 1;
    if (generation > WORD_GENERATION_MAX)
        generation = 1;
    *claimed = WORD_MAKE(generation, pid, STORE_MARK_OPENING);
    return atomic_compare_exchange_strong(&slot->word, &word, *claimed);
}

store_mark_t store_marks_begin(struct store_marks *marks, const char *upath)
{
    struct marks_table *table = marks->table;
    uint64_t name = hash_name(upath), word = 0;
    uint32_t ns, index, limit;
    store_proc_t self = store_proc_self(&ns);
    pid_t pid = store_proc_pid(self);

    for (;;) {
        limit = atomic_load(&table->header.limit);
        uint32_t low = atomic_load(&table->header.low);
        for (index = low; index < limit; index++)
            if (claim(marks, index, pid, &word))
                goto claimed;
        for (index = 0; index < low && index < limit; index++)
            if (claim(marks, index, pid, &word))
                goto claimed;
        if (reclaim(marks) == 0 && store_marks_table_grow(table, marks->path, limit) < 0) {
            errno = ENOSPC;
            return 0;
        }
    }
claimed:;
    struct marks_slot *slot = &table->slots[index];
    uint32_t low = index;
    atomic_compare_exchange_strong(&table->header.low, &low, index + 1);
    raise_to(&table->header.top, index + 1);
    atomic_store(&slot->ns, ns);
    atomic_store(&slot->since, now_seconds());
    atomic_store(&slot->opener, self);
    atomic_fetch_add(&table->names[marks_bucket(name)], 1);
    atomic_store(&slot->name, name);
    return mark_of(word, index);
}

void store_marks_abort(struct store_marks *marks, store_mark_t mark)
{
    uint64_t word;

    while (find(marks, mark, &word) && WORD_STATE(word) == STORE_MARK_OPENING)
        if (release(marks, index_of(mark), word))
            return;
}

static bool same_file(struct marks_slot *slot, uint64_t ino, uint64_t btime)
{
    uint64_t born = atomic_load(&slot->btime);

    return atomic_load(&slot->ino) == ino && (!btime || !born || btime == born);
}

/* ABANDONED marks of a file: free them (heir 0), or those left to an heir, or name the
 * heir. */
enum settle { SETTLE_FREE, SETTLE_FREE_INHERITED, SETTLE_LEAVE };

static void settle(struct store_marks *marks, uint64_t ino, uint64_t btime, enum settle how,
                   store_mark_t heir)
{
    struct marks_table *table = marks->table;

    if (!ino || atomic_load(&table->inodes[marks_bucket(ino)]) == 0)
        return;
    uint32_t top = atomic_load(&table->header.top);
    for (uint32_t i = 0; i < top; i++) {
        struct marks_slot *slot = &table->slots[i];
        uint64_t word = atomic_load(&slot->word);

        if (WORD_STATE(word) != STORE_MARK_ABANDONED || !same_file(slot, ino, btime))
            continue;
        if (how == SETTLE_LEAVE)
            atomic_store(&slot->heir, heir);
        else if (how == SETTLE_FREE || atomic_load(&slot->heir) == heir)
            release(marks, i, word);
    }
}

static bool opener_alive(struct marks_slot *slot, uint64_t word);

/* Marks of this inode whose writers were killed, and which nobody has ruled yet, become
 * ABANDONED. `fd`: any description of the file but theirs. Only where locks can tell.
 * A closer that is merely slow may lose its mark by this: who truncates publishes the file
 * in any case, who does not must be sure. */
static void rule_orphans(struct store_marks *marks, const struct store_identity *file,
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
            same_file(slot, file->ino, file->btime) &&
            (truncated || !opener_alive(slot, word)) &&
            store_lock_test(fd, lock_byte(mark_of(word, i))) == 0)
            swap(marks, slot, word, with_state(word, WORD_PID(word), STORE_MARK_ABANDONED));
    }
}

void store_marks_forget(struct store_marks *marks, uint64_t ino, uint64_t btime)
{
    settle(marks, ino, btime, SETTLE_FREE, 0);
}

int store_marks_opened(struct store_marks *marks, store_mark_t mark, int fd, bool truncated)
{
    struct marks_table *table = marks->table;
    struct store_identity file;
    uint64_t word;
    int saved = errno;

    if (store_identity_read(fd, &file) < 0)
        return -1;
    struct marks_slot *slot = find(marks, mark, &word);
    if (!slot || WORD_STATE(word) != STORE_MARK_OPENING) {
        errno = ESTALE;
        return -1;
    }
    /* Before our own lock is taken, so any lock that shows is another's. A killed writer's
     * mark would keep our publish back until somebody looks at the file. */
    rule_orphans(marks, &file, fd, truncated);
    settle(marks, file.ino, file.btime,
           truncated || file.size == 0 ? SETTLE_FREE : SETTLE_LEAVE, mark);

    uint64_t nolock = 0;
    if (store_lock_byte(fd, lock_byte(mark)) < 0) {
        if (errno == EBADF)
            return -1;
        nolock = WORD_NOLOCK;
    }
    atomic_fetch_add(&table->inodes[marks_bucket(file.ino)], 1);
    atomic_store(&slot->btime, file.btime);
    atomic_store(&slot->ino, file.ino);
    if (!swap(marks, slot, word,
              with_state(word, WORD_PID(word), STORE_MARK_DIRTY) | nolock)) {
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

/* Is the lock on this byte the one of fd's own description? Without opening the file: the
 * close would end the POSIX locks that the process has on it, which last over exec. */
static bool owns_lock(int fd, uint64_t ino, off_t byte)
{
    int own = store_lock_own(fd, byte);

    if (own >= 0)
        return own;
    /* Its own locks are invisible to it and visible to any other. */
    return store_lock_test(fd, byte) == 0 && store_lock_search(ino, byte) == 1;
}

store_mark_t store_marks_adopt(struct store_marks *marks, int fd)
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
    store_proc_t self = store_proc_self(NULL);
    uint32_t top = atomic_load(&table->header.top);
    for (uint32_t i = 0; i < top && !found; i++) {
        struct marks_slot *slot = &table->slots[i];
        uint64_t word = atomic_load(&slot->word), opener = atomic_load(&slot->opener);
        unsigned state = WORD_STATE(word);

        if ((state != STORE_MARK_DIRTY && state != STORE_MARK_ABANDONED) ||
            !same_file(slot, file.ino, file.btime))
            continue;
        /* Without locks: the image before this one was the same process. */
        bool ours = word & WORD_NOLOCK
                        ? opener == self
                        : owns_lock(fd, file.ino, lock_byte(mark_of(word, i)));
        if (!ours || atomic_load(&slot->word) != word)
            continue;
        found = mark_of(word, i);
        /* "Opened by" should name somebody who lives. */
        if (opener != self && !store_proc_alive(opener, atomic_load(&slot->ns),
                                                now_seconds() - atomic_load(&slot->since)))
            atomic_compare_exchange_strong(&slot->opener, &opener, self);
    }
out:
    errno = saved;
    return found;
}

static bool opener_alive(struct marks_slot *slot, uint64_t word)
{
    store_proc_t opener = atomic_load(&slot->opener);

    /* Not stored yet, or begin() was cut short: what the word says is all there is. */
    if (WORD_STATE(word) == STORE_MARK_OPENING && !opener)
        opener = (uint64_t)WORD_PID(word) << 32;
    return store_proc_alive(opener, atomic_load(&slot->ns),
                            now_seconds() - atomic_load(&slot->since));
}

static bool closer_alive(struct marks_slot *slot, uint64_t word)
{
    store_proc_t closer = atomic_load(&slot->closer);

    if (store_proc_pid(closer) != WORD_PID(word))
        closer = (uint64_t)WORD_PID(word) << 32;
    return store_proc_alive(closer, atomic_load(&slot->ns),
                            now_seconds() - atomic_load(&slot->since));
}

/* After our close: does another process hold the description? `probe`: any other
 * description of the file, -1: none could be had. */
static bool is_held_elsewhere(struct marks_slot *slot, uint64_t word, store_mark_t mark,
                              int probe)
{
    int held;

    if (word & WORD_NOLOCK)
        held = atomic_load(&slot->opener) == store_proc_self(NULL)
                   ? 0
                   : opener_alive(slot, word);
    else if (probe >= 0)
        held = store_lock_test(probe, lock_byte(mark));
    else
        held = store_lock_search(atomic_load(&slot->ino), lock_byte(mark));
    if (held < 0) /* no way to tell: believe that who opened it is who closes it last */
        held = atomic_load(&slot->opener) != store_proc_self(NULL);
    return held > 0;
}

static bool begin_closing(struct store_marks *marks, struct marks_slot *slot, uint64_t word)
{
    uint32_t ns;
    store_proc_t self = store_proc_self(&ns);

    if (!swap(marks, slot, word,
              with_state(word, store_proc_pid(self), STORE_MARK_CLOSING)))
        return false;
    atomic_store(&slot->ns, ns);
    atomic_store(&slot->since, now_seconds());
    atomic_store(&slot->closer, self);
    return true;
}

bool store_marks_closed(struct store_marks *marks, store_mark_t mark, int probe,
                        bool last_anyway)
{
    struct marks_slot *slot;
    uint64_t word;
    int saved = errno;
    bool won = false;

    while (!won && (slot = find(marks, mark, &word))) {
        if (WORD_STATE(word) != STORE_MARK_DIRTY &&
            WORD_STATE(word) != STORE_MARK_ABANDONED)
            break;
        if (!last_anyway && is_held_elsewhere(slot, word, mark, probe))
            break;
        won = begin_closing(marks, slot, word);
    }
    errno = saved;
    return won;
}

void store_marks_clear(struct store_marks *marks, store_mark_t mark)
{
    struct marks_slot *slot;
    uint64_t word;

    while ((slot = find(marks, mark, &word))) {
        uint64_t ino = atomic_load(&slot->ino), btime = atomic_load(&slot->btime);

        if (WORD_STATE(word) != STORE_MARK_CLOSING &&
            WORD_STATE(word) != STORE_MARK_ABANDONED)
            return;
        if (release(marks, index_of(mark), word)) {
            settle(marks, ino, btime, SETTLE_FREE_INHERITED, mark);
            return;
        }
    }
}

void store_marks_abandon(struct store_marks *marks, store_mark_t mark)
{
    struct marks_slot *slot;
    uint64_t word;

    while ((slot = find(marks, mark, &word)) && WORD_STATE(word) == STORE_MARK_CLOSING)
        if (swap(marks, slot, word, with_state(word, WORD_PID(word), STORE_MARK_ABANDONED)))
            return;
}

static void describe(struct marks_slot *slot, uint64_t word, uint32_t index,
                     struct store_mark_info *info)
{
    unsigned state = WORD_STATE(word);

    *info = (struct store_mark_info){
        .mark = mark_of(word, index),
        .state = (enum store_mark_state)state,
        .pid = state == STORE_MARK_DIRTY ? store_proc_pid(atomic_load(&slot->opener))
                                         : WORD_PID(word),
        .ino = atomic_load(&slot->ino),
        .btime = atomic_load(&slot->btime),
    };
}

/* Look at every slot that was ever used; `pid` (0: nobody) does not count. */
static bool search(struct store_marks *marks, uint64_t name, uint64_t ino, uint64_t btime,
                   pid_t pid, struct store_mark_info *info)
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
            match =
                (ino && same_file(slot, ino, btime)) ||
                (name && state == STORE_MARK_OPENING && atomic_load(&slot->name) == name);
            if (match && pid && state != STORE_MARK_ABANDONED &&
                store_proc_pid(atomic_load(&slot->opener)) == pid)
                match = false;
            if (match)
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
    uint64_t name = upath ? hash_name(upath) : 0;

    if ((!name || atomic_load(&table->names[marks_bucket(name)]) == 0) &&
        (!ino || atomic_load(&table->inodes[marks_bucket(ino)]) == 0))
        return false;
    return search(marks, name, ino, btime, pid, info);
}

bool store_marks_dirty(struct store_marks *marks, const char *upath, uint64_t ino,
                       uint64_t btime, struct store_mark_info *info)
{
    return store_marks_dirty_by_others(marks, upath, ino, btime, 0, info);
}

/* OPENING, and the process that was opening may be dead. 1 abandoned, 0 not, -1 look again.
 */
static int rule_opening(struct store_marks *marks, struct marks_slot *slot, uint64_t word,
                        store_mark_t mark, int fd)
{
    struct store_identity file = {0};
    uint64_t none = 0;

    if (opener_alive(slot, word))
        return 0;
    if (fd >= 0) {
        if (store_identity_read(fd, &file) < 0)
            return 0;
        /* Killed in opened() after the lock was taken, and a child has the description. */
        if (store_lock_test(fd, lock_byte(mark)) == 1)
            return 0;
    }
    if (file.size > 0 || fd < 0)
        return release(marks, index_of(mark), word) ? 0 : -1;

    /* Several rulers may be here, with files that had the name at different times: the
     * first decides. */
    _Atomic uint32_t *count = &marks->table->inodes[marks_bucket(file.ino)];
    atomic_fetch_add(count, 1);
    if (!atomic_compare_exchange_strong(&slot->ino, &none, file.ino))
        atomic_fetch_sub(count, 1);
    else
        atomic_store(&slot->btime, file.btime);
    if (!swap(marks, slot, word, with_state(word, WORD_PID(word), STORE_MARK_ABANDONED)))
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
        if (opener_alive(slot, word))
            return 0;
    } else {
        if (fd < 0 || store_identity_read(fd, &file) < 0 ||
            !same_file(slot, file.ino, file.btime) ||
            store_lock_test(fd, lock_byte(mark)) != 0)
            return 0;
    }
    return swap(marks, slot, word, with_state(word, WORD_PID(word), STORE_MARK_ABANDONED))
               ? 1
               : -1;
}

bool store_marks_rule(struct store_marks *marks, store_mark_t mark, int fd)
{
    struct marks_slot *slot;
    uint64_t word;
    int saved = errno, ruling = -1;

    while (ruling < 0 && (slot = find(marks, mark, &word))) {
        switch (WORD_STATE(word)) {
        case STORE_MARK_OPENING:
            ruling = rule_opening(marks, slot, word, mark, fd);
            break;
        case STORE_MARK_DIRTY:
            ruling = rule_dirty(marks, slot, word, mark, fd);
            break;
        case STORE_MARK_CLOSING:
            ruling = 0;
            if (!closer_alive(slot, word))
                ruling = swap(marks, slot, word,
                              with_state(word, WORD_PID(word), STORE_MARK_ABANDONED))
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

    if ((slot = find(marks, mark, &word))) {
        switch (WORD_STATE(word)) {
        case STORE_MARK_OPENING:
            due = !opener_alive(slot, word);
            break;
        case STORE_MARK_DIRTY:
            due = word & WORD_NOLOCK ? !opener_alive(slot, word)
                                     : store_lock_test(fd, lock_byte(mark)) == 0;
            break;
        case STORE_MARK_CLOSING:
            due = !closer_alive(slot, word);
            break;
        default:
            break;
        }
    }
    errno = saved;
    return due;
}

/* Until the word is another, at most `msec`. 0, or -1: ETIMEDOUT, EINTR. */
static int wait_word(struct store_marks *marks, struct marks_slot *slot, uint64_t word,
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

/* An OPENING mark of this process is of a thread that its exec has ended. */
void store_marks_await_opened(struct store_marks *marks, const char *upath)
{
    struct marks_table *table = marks->table;
    uint64_t name = hash_name(upath);
    store_proc_t self = store_proc_self(NULL);
    int saved = errno;

    if (atomic_load(&table->names[marks_bucket(name)]) == 0)
        return;
    uint32_t top = atomic_load(&table->header.top);
    for (uint32_t i = 0; i < top; i++) {
        struct marks_slot *slot = &table->slots[i];
        uint64_t word;
        while (word = atomic_load(&slot->word),
               WORD_STATE(word) == STORE_MARK_OPENING && atomic_load(&slot->name) == name &&
                   WORD_PID(word) != store_proc_pid(self) && opener_alive(slot, word))
            wait_word(marks, slot, word, GRACE_MSEC);
    }
    errno = saved;
}

bool store_marks_left(struct store_marks *marks, store_mark_t mark)
{
    struct marks_slot *slot;
    uint64_t word;

    if (!(slot = find(marks, mark, &word)) || WORD_STATE(word) != STORE_MARK_DIRTY ||
        (word & WORD_NOLOCK))
        return false;
    return atomic_load(&slot->opener) == store_proc_self(NULL) || !opener_alive(slot, word);
}

void store_marks_await_closer(struct store_marks *marks, store_mark_t mark)
{
    store_proc_t self = store_proc_self(NULL);
    struct marks_slot *slot;
    uint64_t word;
    int saved = errno;

    while ((slot = find(marks, mark, &word)) && WORD_STATE(word) == STORE_MARK_CLOSING &&
           WORD_PID(word) != store_proc_pid(self) && closer_alive(slot, word))
        wait_word(marks, slot, word, GRACE_MSEC);
    errno = saved;
}

bool store_marks_held(store_mark_t mark, int fd)
{
    return store_lock_test(fd, lock_byte(mark)) == 1;
}

int store_marks_await_release(store_mark_t mark, int fd)
{
    return store_lock_wait_byte(fd, lock_byte(mark));
}

bool store_marks_stays_dirty(struct store_marks *marks, store_mark_t mark, long msec)
{
    uint64_t now = util_clock_now(), until = now + (uint64_t)msec * UTIL_NSEC_PER_MSEC;
    struct marks_slot *slot;
    uint64_t word;

    while ((slot = find(marks, mark, &word)) && WORD_STATE(word) == STORE_MARK_DIRTY) {
        if (now >= until)
            return true;
        wait_word(marks, slot, word, (long)((until - now) / UTIL_NSEC_PER_MSEC) + 1);
        now = util_clock_now();
    }
    return false;
}

int store_marks_wait(struct store_marks *marks, store_mark_t mark, int fd)
{
    struct marks_slot *slot;
    uint64_t word;
    int saved = errno;

    while ((slot = find(marks, mark, &word)) && WORD_STATE(word) != STORE_MARK_ABANDONED) {
        if (WORD_STATE(word) == STORE_MARK_DIRTY && !(word & WORD_NOLOCK)) {
            struct store_identity file;
            if (fd < 0) {
                errno = EAGAIN;
                return -1;
            }
            if (store_identity_read(fd, &file) < 0)
                return -1;
            if (!same_file(slot, file.ino, file.btime)) {
                if (!find(marks, mark, &word))
                    break;
                errno = ESTALE;
                return -1;
            }
            if (store_lock_wait_byte(fd, lock_byte(mark)) < 0)
                return -1;
            if (atomic_load(&slot->word) != word)
                continue;
        }
        if (wait_word(marks, slot, word, GRACE_MSEC) == 0)
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
        if (held->locks[i].byte == lock_byte(info->mark) && held->locks[i].ino == info->ino)
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
            info.held = closer_alive(slot, word);
        else if (state == STORE_MARK_OPENING || (word & WORD_NOLOCK))
            info.held = opener_alive(slot, word);
        else
            info.held = is_held(&held, &info);
        if (atomic_load(&slot->word) == word)
            rc = fn(&info, arg);
    }
    free(held.locks);
    return rc;
}
