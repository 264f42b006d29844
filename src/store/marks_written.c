/*
 * marks_written.c - whether a file was written while a description of it was open
 *
 * The state of the file at the open is kept beside the mark, for its last closer, in
 * whatever process. A change sets mtime and ctime to the kernel's clock, which advances
 * in ticks of some ms: CLOCK_REALTIME_COARSE shows it. The state at the open decides:
 *
 *  ctime is of an earlier tick          any change will set another: times tell
 *  of this tick, and it is short        times may stay as they are: content is compared
 *  long (or cannot be read), mtime old; the tick's end is waited for; then times tell
 *  or ahead (store_marks_set_ahead())
 *  else                                 it counts as written, at the price of a version
 *
 * What could go wrong: a write that leaves the times as they were is missed; so what
 * cannot be told counts as written (store_marks_look(), store_marks_written()).
 */
#include <errno.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "store/marks_slot.h"

#define CONTENT_MAX   (1u << 20)
#define BUFFER        8192       /* on the stack of a signal handler, perhaps */
#define TICK_MAX      200000000  /* ns; of a machine that is not let run, perhaps */
#define CLOCKS_DIFFER 20000000   /* ns; the times are those of another node's clock */
#define WHOLE_SECONDS 2000000000 /* ns; the file system keeps no finer times */

static struct marks_look *look_of(struct store_marks *marks, store_mark_t mark)
{
    return &marks->table->looks[marks_index_of(mark)];
}

static uint64_t ns(struct timespec ts)
{
    return (uint64_t)ts.tv_sec * UTIL_NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
}

static uint64_t now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_REALTIME_COARSE, &ts);
    return ns(ts);
}

/* By how much a file's times may be behind the clock that says now(). */
static uint64_t slack(const struct store_marks *marks, const struct stat *st)
{
    uint64_t slack = store_marks_shared(marks) ? CLOCKS_DIFFER : 0;

    return st->st_mtim.tv_nsec || st->st_ctim.tv_nsec ? slack : slack + WHOLE_SECONDS;
}

/* 0, or -1: it is too long, or cannot be read. */
static int content(int fd, uint64_t size, uint64_t hash[2])
{
    char buf[BUFFER];
    XXH3_state_t state;
    XXH128_hash_t sum;
    uint64_t at = 0;

    if (size > CONTENT_MAX)
        return -1;
    XXH3_128bits_reset(&state);
    while (at < size) {
        ssize_t n = pread(fd, buf, sizeof(buf), (off_t)at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return -1;
        XXH3_128bits_update(&state, buf, (size_t)n);
        at += (uint64_t)n;
    }
    sum = XXH3_128bits_digest(&state);
    hash[0] = sum.high64;
    hash[1] = sum.low64;
    return 0;
}

/* Until the clock is beyond `when`; false: it takes longer than a tick. No event tells of a
 * tick: timers run on the fine clock. */
static bool await_tick(uint64_t when)
{
    struct timespec pause = {.tv_nsec = 1000000};
    uint64_t until = util_clock_now() + TICK_MAX;

    while (now() <= when && util_clock_now() < until)
        nanosleep(&pause, NULL);
    return now() > when;
}

void marks_look_begin(struct store_marks *marks, store_mark_t mark)
{
    struct marks_look *look = look_of(marks, mark);

    look->begun = now();
    atomic_store(&look->base, MARKS_BASE(mark));
    look->mtime = util_clock_wall_ns();
    atomic_store(&look->kind, MARKS_LOOK_NONE);
}

/* The flags of MARKS_BASE_FLAGS; 0: the slot has another use by now. */
static uint32_t flags_of(struct store_marks *marks, store_mark_t mark)
{
    uint32_t base = atomic_load(&look_of(marks, mark)->base);

    return (base & ~MARKS_BASE_FLAGS) == MARKS_BASE(mark) ? base & MARKS_BASE_FLAGS : 0;
}

/* If that use of the slot is not over, and has the flags `needs`. */
static bool change_base_if(struct store_marks *marks, store_mark_t mark, uint32_t needs,
                           uint32_t set, uint32_t clear)
{
    _Atomic uint32_t *base = &look_of(marks, mark)->base;
    uint32_t flags = atomic_load(base);

    while ((flags & ~MARKS_BASE_FLAGS) == MARKS_BASE(mark) && (flags & needs) == needs)
        if (atomic_compare_exchange_weak(base, &flags, (flags & ~clear) | set))
            return true;
    return false;
}

static void change_base(struct store_marks *marks, store_mark_t mark, uint32_t set,
                        uint32_t clear)
{
    change_base_if(marks, mark, 0, set, clear);
}

/* Of the descriptions of a file that are open for writing, `own` excepted. */
struct writers {
    bool overtaken, decided; /* any of them; any of them, that what it writes is recorded */
    bool undecided;          /* any of them may say so soon */
    bool recorded;           /* each of them */
    bool joint;              /* any of them: store_marks_joint() */
    bool any, same; /* any that may have changed it; any that began as `own` has found it */
    bool ahead;     /* any of them: store_marks_ahead(), ... */
    struct dyad_version version; /* ... of that */
};

static struct dyad_version version_of(const struct marks_look *look)
{
    return (struct dyad_version){.counter = look->hash[0],
                                 .rank = (uint32_t)(look->hash[1] >> 32),
                                 .incarnation = (uint32_t)look->hash[1]};
}

static struct writers look_at_writers(struct store_marks *marks, store_mark_t own,
                                      uint64_t ino, uint64_t btime)
{
    struct marks_table *table = marks->table;
    uint32_t top = atomic_load(&table->header.top);
    struct writers writers = {.recorded = true};
    const struct marks_look *found = own ? look_of(marks, own) : NULL;

    if (atomic_load(&table->inodes[marks_bucket(ino)]) <= (own ? 1 : 0))
        return writers;
    for (uint32_t i = 0; i < top; i++) {
        struct marks_slot *slot = &table->slots[i];
        const struct marks_look *look = &table->looks[i];
        struct dyad_version version;
        store_mark_t mark;
        uint64_t word;
        uint32_t flags;
        bool same, begun_so;

        do {
            word = atomic_load(&slot->word);
            mark = marks_mark_of(word, i);
            same = marks_same_file(slot, ino, btime);
            flags = flags_of(marks, mark);
            version = version_of(look);
            begun_so = (flags & MARKS_BASE_FROM) && !(flags & MARKS_BASE_JOINED) && found &&
                       look->size == found->size && look->mtime == found->mtime;
        } while (atomic_load(&slot->word) != word);
        if (!same || mark == own || WORD_STATE(word) == STORE_MARK_FREE ||
            WORD_STATE(word) == MARKS_STATE_FREEING)
            continue;
        writers.any |= (flags & MARKS_BASE_FROM) != 0; /* else it has not written yet */
        writers.same |= begun_so;
        writers.decided |= (flags & MARKS_BASE_DECIDED) != 0;
        writers.overtaken |= (flags & MARKS_BASE_OVERTAKEN) != 0;
        writers.undecided |= (flags & MARKS_BASE_OPENS) != 0;
        writers.joint |= (flags & MARKS_BASE_JOINT) != 0;
        writers.recorded &= (flags & MARKS_BASE_RECORDED) != 0;
        if (flags & MARKS_BASE_AHEAD) {
            writers.ahead = true;
            writers.version = version;
        }
    }
    return writers;
}

/* The same of the file of `mark`, but for `mark`. */
static struct writers look_beside(struct store_marks *marks, store_mark_t mark)
{
    struct marks_slot *slot = &marks->table->slots[marks_index_of(mark)];

    return look_at_writers(marks, mark, atomic_load(&slot->ino), atomic_load(&slot->btime));
}

/* A copy that was just fetched has the mtime of the original and a ctime of now. A file
 * that this open has made, or emptied, counts as written. */
void store_marks_look(struct store_marks *marks, store_mark_t mark, int fd)
{
    struct marks_look *look = look_of(marks, mark);
    struct writers writers;
    uint64_t word, soon;
    int saved = errno;
    struct stat st;
    bool ahead;

    if (!marks_find(marks, mark, &word) || fstat(fd, &st) < 0)
        goto out;
    look->size = (uint64_t)st.st_size;
    look->mtime = ns(st.st_mtim);
    look->ctime = ns(st.st_ctim);
    atomic_fetch_or(&look->base, MARKS_BASE_FROM);
    writers = look_beside(marks, mark);
    if (writers.overtaken)
        atomic_fetch_or(&look->base, MARKS_BASE_OVERTAKEN);
    if (writers.any && !writers.same)
        atomic_fetch_or(&look->base, MARKS_BASE_JOINED);
    if (writers.ahead)
        store_marks_set_ahead(marks, mark, &writers.version);
    ahead = flags_of(marks, mark) & MARKS_BASE_AHEAD;
    atomic_fetch_and(&look->base, ~MARKS_BASE_LOOKS);
    look->mode = st.st_mode;
    look->nlink = (uint32_t)st.st_nlink;
    soon = slack(marks, &st);
    /* Made by this open, as far as can be told? */
    if (st.st_size == 0 &&
        (store_marks_shared(marks) ||
         (look->mtime == look->ctime && look->ctime + soon >= look->begun)))
        goto out;
    if (look->ctime + soon < now())
        atomic_store(&look->kind, MARKS_LOOK_TIMES);
    else if (!ahead && content(fd, look->size, look->hash) == 0)
        atomic_store(&look->kind, MARKS_LOOK_CONTENT);
    else if (!soon && (ahead || look->mtime < now()) &&
             await_tick(look->ctime > look->mtime ? look->ctime : look->mtime))
        atomic_store(&look->kind, MARKS_LOOK_TIMES);
out:
    errno = saved;
}

void store_marks_set_ahead(struct store_marks *marks, store_mark_t mark,
                           const struct dyad_version *version)
{
    struct marks_look *look = look_of(marks, mark);

    look->hash[0] = version->counter;
    look->hash[1] = (uint64_t)version->rank << 32 | version->incarnation;
    change_base(marks, mark, MARKS_BASE_AHEAD, 0);
}

bool store_marks_ahead(struct store_marks *marks, store_mark_t mark,
                       struct dyad_version *version)
{
    uint64_t word;

    *version = version_of(look_of(marks, mark));
    return marks_find(marks, mark, &word) && (flags_of(marks, mark) & MARKS_BASE_AHEAD);
}

void store_marks_base(struct store_marks *marks, store_mark_t mark, struct dyad_base *base)
{
    struct marks_look *look = look_of(marks, mark);
    uint32_t flags = atomic_load(&look->base);
    uint64_t word;

    *base = (struct dyad_base){.kind = DYAD_BASE_NONE};
    if (!mark || !marks_find(marks, mark, &word))
        return;
    *base = (struct dyad_base){
        .kind = DYAD_BASE_SINCE, .size = look->size, .time = look->mtime};
    if (flags & MARKS_BASE_FROM)
        base->kind = flags & MARKS_BASE_OVERTAKEN ? DYAD_BASE_OVERTAKEN : DYAD_BASE_FROM;
    if (flags & MARKS_BASE_JOINED)
        base->time = 0;
}

bool store_marks_any_base(struct store_marks *marks, uint64_t ino, uint64_t btime,
                          bool (*fits)(void *arg, const struct dyad_base *base), void *arg)
{
    struct marks_table *table = marks->table;
    uint32_t top = atomic_load(&table->header.top);
    struct dyad_base base;

    for (uint32_t i = 0; i < top; i++) {
        struct marks_slot *slot = &table->slots[i];
        uint64_t word = atomic_load(&slot->word);
        unsigned state = WORD_STATE(word);

        if (state == STORE_MARK_FREE || state == MARKS_STATE_FREEING ||
            state == STORE_MARK_OPENING || !marks_same_file(slot, ino, btime) ||
            (flags_of(marks, marks_mark_of(word, i)) & MARKS_BASE_LOOKS))
            continue;
        store_marks_base(marks, marks_mark_of(word, i), &base);
        if (base.kind != DYAD_BASE_NONE && fits(arg, &base))
            return true;
    }
    return false;
}

/* Any other version is not mistaken for what the description began from. Of one that has not been
 * looked at yet it is not known. */
static void set_overtaken(struct store_marks *marks, store_mark_t mark,
                          const struct dyad_entry *newer)
{
    const struct marks_look *look = look_of(marks, mark);
    uint64_t sec = newer ? (uint64_t)newer->mtime_sec * UTIL_NSEC_PER_SEC : 0;

    if (newer && (flags_of(marks, mark) & MARKS_BASE_FROM) &&
        (look->size != newer->size ||
         (look->mtime != sec + newer->mtime_nsec && look->mtime != sec)))
        return;
    change_base(marks, mark, MARKS_BASE_OVERTAKEN, 0);
}

void store_marks_overtaken(struct store_marks *marks, store_mark_t mark, uint64_t ino,
                           uint64_t btime, const struct dyad_entry *newer)
{
    struct marks_table *table = marks->table;
    uint32_t top = atomic_load(&table->header.top);

    if (mark)
        set_overtaken(marks, mark, newer);
    if (!ino || atomic_load(&table->inodes[marks_bucket(ino)]) == 0)
        return;
    for (uint32_t i = 0; i < top; i++) {
        struct marks_slot *slot = &table->slots[i];
        uint64_t word = atomic_load(&slot->word);

        if (WORD_STATE(word) != STORE_MARK_FREE && marks_same_file(slot, ino, btime))
            set_overtaken(marks, marks_mark_of(word, i), newer);
    }
}

/* A file that was mapped for writing counts as written: its times need not change then
 * (tmpfs). */
void store_marks_set_written(struct store_marks *marks, store_mark_t mark)
{
    struct marks_look *look = look_of(marks, mark);
    uint64_t word;

    if (marks_find(marks, mark, &word))
        atomic_store(&look->kind, MARKS_LOOK_NONE);
    store_marks_unrecord(marks, mark);
}

/* The writes to the file are recorded from its first byte on if it is empty, or if one who
 * has it open has found that already, or as changes of a version; and if all of them record what
 * they write. Of several that open it at once none writes before it has decided, so for an empty
 * file, or a version, it suffices that the others may record. */
void store_marks_may_record(struct store_marks *marks, store_mark_t mark, bool joins)
{
    change_base(marks, mark,
                MARKS_BASE_OPENS | MARKS_BASE_RECORDED | (joins ? MARKS_BASE_JOINS : 0), 0);
}

void store_marks_will_look(struct store_marks *marks, store_mark_t mark)
{
    change_base(marks, mark, MARKS_BASE_LOOKS, 0);
}

void store_marks_may_record_later(struct store_marks *marks, store_mark_t mark)
{
    change_base(marks, mark, MARKS_BASE_OPENS, 0);
}

bool store_marks_joins(struct store_marks *marks, store_mark_t mark)
{
    return flags_of(marks, mark) & MARKS_BASE_JOINS;
}

bool store_marks_record(struct store_marks *marks, store_mark_t mark, bool since,
                        bool *later)
{
    uint32_t base = atomic_load(&look_of(marks, mark)->base);
    struct writers writers = look_beside(marks, mark);
    bool empty = look_of(marks, mark)->size == 0;

    /* Who noted it since this mark was made noted it here, too. */
    if (writers.joint)
        change_base(marks, mark, MARKS_BASE_JOINT, 0);
    if ((base & MARKS_BASE_FROM) && (base & MARKS_BASE_RECORDED) && writers.recorded &&
        (empty || writers.decided || since)) {
        change_base(marks, mark, MARKS_BASE_DECIDED, MARKS_BASE_OPENS);
        return true;
    }
    *later = empty && (base & MARKS_BASE_RECORDED);
    change_base(marks, mark, 0, MARKS_BASE_RECORDED);
    return false;
}

void store_marks_unrecord(struct store_marks *marks, store_mark_t mark)
{
    change_base(
        marks, mark, 0,
        MARKS_BASE_RECORDED | MARKS_BASE_DECIDED | MARKS_BASE_LATER | MARKS_BASE_OPENS);
}

void store_marks_record_later(struct store_marks *marks, store_mark_t mark)
{
    look_of(marks, mark)->size = 0; /* as the open leaves the file */
    change_base(marks, mark, MARKS_BASE_LATER, MARKS_BASE_OPENS);
}

void store_marks_set_joint(struct store_marks *marks, const char *upath, uint64_t ino,
                           uint64_t btime)
{
    struct marks_table *table = marks->table;
    uint32_t top = atomic_load(&table->header.top);
    uint64_t name = marks_hash_name(upath);

    for (uint32_t i = 0; i < top; i++) {
        struct marks_slot *slot = &table->slots[i];
        uint64_t word = atomic_load(&slot->word);
        unsigned state = WORD_STATE(word);

        if (state == STORE_MARK_OPENING
                ? atomic_load(&slot->name) == name
                : ino && state == STORE_MARK_DIRTY && marks_same_file(slot, ino, btime))
            change_base(marks, marks_mark_of(word, i), MARKS_BASE_JOINT, 0);
    }
}

bool store_marks_joint(struct store_marks *marks, store_mark_t mark)
{
    uint32_t both = MARKS_BASE_JOINT | MARKS_BASE_RECORDED;

    return (flags_of(marks, mark) & both) == both;
}

bool store_marks_shared_file(struct store_marks *marks, store_mark_t mark)
{
    return flags_of(marks, mark) & MARKS_BASE_JOINT;
}

bool store_marks_undecided(struct store_marks *marks, uint64_t ino, uint64_t btime)
{
    return look_at_writers(marks, 0, ino, btime).undecided;
}

/* The mark in that slot, if it is of an open description of the file, or of one that is being opened or closed. */
static store_mark_t mark_of_file(struct store_marks *marks, uint32_t i, uint64_t ino,
                                 uint64_t btime, unsigned *state)
{
    struct marks_slot *slot = &marks->table->slots[i];
    uint64_t word = atomic_load(&slot->word);

    *state = WORD_STATE(word);
    return *state != STORE_MARK_FREE && *state != MARKS_STATE_FREEING &&
                   marks_same_file(slot, ino, btime)
               ? marks_mark_of(word, i)
               : 0;
}

void store_marks_unrecord_all(struct store_marks *marks, uint64_t ino, uint64_t btime)
{
    uint32_t top = atomic_load(&marks->table->header.top);
    store_mark_t mark;
    unsigned state;

    for (uint32_t i = 0; i < top; i++)
        if ((mark = mark_of_file(marks, i, ino, btime, &state)))
            store_marks_unrecord(marks, mark);
}

/* 1: all of them have the flags `needs`; 0; -1: soon, perhaps. */
static int look_at_all(struct store_marks *marks, uint64_t ino, uint64_t btime,
                       uint32_t needs)
{
    uint32_t top = atomic_load(&marks->table->header.top);
    int all = 0;

    for (uint32_t i = 0; i < top; i++) {
        unsigned state;
        store_mark_t mark = mark_of_file(marks, i, ino, btime, &state);
        uint32_t flags = mark ? flags_of(marks, mark) : 0;

        if (!mark)
            continue;
        if ((state == STORE_MARK_DIRTY || state == STORE_MARK_ABANDONED) &&
            (flags & needs) == needs)
            all = all ? all : 1;
        else if (state == STORE_MARK_OPENING || state == STORE_MARK_CLOSING ||
                 (flags & (MARKS_BASE_OPENS | MARKS_BASE_LATER)))
            all = -1;
        else
            return 0;
    }
    return all;
}

/* The writers look at their marks before each write. One that has looked, and has not written
 * yet, began its write before the other node's open has ended: it is the earlier one. Who opens the
 * file meanwhile, and has looked at the others before, is seen afterwards. */
int store_marks_record_all(struct store_marks *marks, uint64_t ino, uint64_t btime,
                           enum store_marks_step step)
{
    const uint32_t needs =
        MARKS_BASE_LATER | (step == STORE_MARKS_BEGIN ? MARKS_BASE_ASKED : 0);
    uint32_t top = atomic_load(&marks->table->header.top);
    int all = look_at_all(marks, ino, btime, needs);
    unsigned state;

    if (all <= 0 || step == STORE_MARKS_LOOK)
        return all;
    for (uint32_t i = 0; i < top; i++) {
        store_mark_t mark = mark_of_file(marks, i, ino, btime, &state);
        if (mark && step == STORE_MARKS_MEET)
            change_base_if(marks, mark, needs, MARKS_BASE_ASKED, 0);
        else if (mark)
            change_base_if(marks, mark, needs,
                           MARKS_BASE_FROM | MARKS_BASE_RECORDED | MARKS_BASE_DECIDED,
                           MARKS_BASE_LATER);
    }
    if (step == STORE_MARKS_MEET || look_at_writers(marks, 0, ino, btime).recorded)
        return 1;
    store_marks_unrecord_all(marks, ino, btime);
    return 0;
}

bool store_marks_recorded(struct store_marks *marks, store_mark_t mark, uint64_t ino,
                          uint64_t btime)
{
    if (!mark)
        return look_at_writers(marks, 0, ino, btime).recorded;
    return (flags_of(marks, mark) & MARKS_BASE_RECORDED) &&
           look_beside(marks, mark).recorded;
}

bool store_marks_all_begin(struct store_marks *marks, uint64_t ino, uint64_t btime)
{
    struct writers writers = look_at_writers(marks, 0, ino, btime);

    return writers.undecided && writers.recorded && !writers.decided;
}

bool store_marks_file(struct store_marks *marks, store_mark_t mark, uint64_t *ino,
                      uint64_t *btime)
{
    struct marks_slot *slot = &marks->table->slots[marks_index_of(mark)];

    *ino = atomic_load(&slot->ino);
    *btime = atomic_load(&slot->btime);
    return flags_of(marks, mark) & MARKS_BASE_RECORDED;
}

/* A link or a removed name changes the ctime as well, and the count of links: then the
 * other signs tell. */
bool store_marks_written(struct store_marks *marks, store_mark_t mark, int fd)
{
    struct marks_look *look = look_of(marks, mark);
    int kind, saved = errno;
    bool written = true;
    uint64_t hash[2];
    struct stat st;

    if ((kind = (int)atomic_load(&look->kind)) == MARKS_LOOK_NONE || fd < 0 ||
        fstat(fd, &st) < 0 || look->size != (uint64_t)st.st_size ||
        look->mtime != ns(st.st_mtim) || look->mode != st.st_mode)
        goto out;
    if (kind == MARKS_LOOK_TIMES)
        written = look->ctime != ns(st.st_ctim) && look->nlink == st.st_nlink;
    else
        written = content(fd, look->size, hash) < 0 || hash[0] != look->hash[0] ||
                  hash[1] != look->hash[1];
out:
    errno = saved;
    return written;
}
