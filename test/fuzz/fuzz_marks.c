/*
 * fuzz_marks.c - the table of the dirty marks, with the lines of members and the renames in it
 *
 * The input is changes of a new table, each a byte for what it changes, and its fields. If the table still counts as whole
 * all that other processes ask of it is asked, and a mark of our own goes its way. Then it is taken for the table of an
 * earlier boot. The mutexes of members are left alone: but for their words, glibc believes them.
 */
#include "store/marks_table.c" /* is_whole(), inherit() */

#include "fuzz.h"
#include "store/lease_table.h"
#include "store/looked.h"
#include "store/marks_slot.h"
#include "store/renames.h"

#define BOOT   "11111111-2222-3333-4444-555555555555"
#define INO(n) (100u + (n) % 4)

static const char *const names[] = {"a", "run/b", "c.h5", "d"};

static struct store_dir *dir;
static struct store_marks marks;
static int table_fd = -1, next_fd = -1, file_fd = -1;

static void prepare(void)
{
    char path[128];

    if (dir)
        return;
    util_log_setup(UTIL_LOG_ALWAYS, NULL, "fuzz");
    FUZZ_CHECK((dir = store_dir_create(fuzz_directory())));
    FUZZ_CHECK((marks.table = store_marks_table_map(dir, BOOT, &marks.path)));
    FUZZ_CHECK((table_fd = open(marks.path, O_RDWR | O_CLOEXEC)) >= 0);
    snprintf(path, sizeof(path), "%s/file", fuzz_directory());
    FUZZ_CHECK((file_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600)) >= 0);
    FUZZ_CHECK((next_fd = memfd_create("next", MFD_CLOEXEC)) >= 0);
    FUZZ_CHECK(ftruncate(next_fd, sizeof(struct marks_table)) == 0);
}

/* The table is as it was made, and what changes in it goes to no file. */
static struct marks_table *fresh(void *at, int fd)
{
    void *map = mmap(at, sizeof(struct marks_table), PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | (at ? MAP_FIXED : 0), fd, 0);

    FUZZ_CHECK(map != MAP_FAILED);
    return map;
}

/* --- changes --- */

static void change_slot(struct fuzz_input *in)
{
    struct marks_table *table = marks.table;
    uint32_t i = fuzz_u8(in) % 24;
    struct marks_slot *slot = &table->slots[i];
    uint8_t which = fuzz_u8(in);

    atomic_store(&slot->word, fuzz_u64(in));
    if (which & 1) {
        uint64_t name = which & 2 ? marks_hash_removal(names[which >> 6])
                                  : marks_hash_name(names[which >> 6]);
        atomic_store(&slot->name, name);
        atomic_fetch_add(&table->names[marks_bucket(name)], 1);
    }
    if (which & 4) {
        atomic_store(&slot->ino, INO(which >> 6));
        atomic_fetch_add(&table->inodes[marks_bucket(INO(which >> 6))], 1);
    }
    if (which & 8)
        atomic_store(&slot->opener, store_proc_self(NULL));
    if (which & 16)
        atomic_store(&slot->detail, MARKS_MAKES);
    if (atomic_load(&table->header.top) <= i)
        atomic_store(&table->header.top, i + 1);
}

/* Any word of what is before the slots, a slot, a look or a rename; not of a mutex. */
static void change_word(struct fuzz_input *in)
{
    struct marks_table *table = marks.table;
    uint8_t what = fuzz_u8(in), n = fuzz_u8(in), at = fuzz_u8(in);
    uint64_t value = fuzz_u64(in);
    struct marks_line *line = &table->header.lines[n % MARKS_LINES];

    switch (what % 8) {
    case 0: /* up to the lines */
        memcpy((char *)table + at * 4 % offsetof(struct marks_header, lines), &value, 4);
        break;
    case 1:
        memcpy((char *)&table->slots[n % 24] + at % 57, &value, 8);
        break;
    case 2:
        memcpy((char *)&table->looks[n % 24] + at % 57, &value, 8);
        break;
    case 3:
        memcpy((char *)&table->renames[n % MARKS_RENAMES] + (at * 4 + (what >> 3)) % 1017,
               &value, 8);
        break;
    case 4:
        atomic_store(&line->rank, value % 3);
        break;
    case 5:
        atomic_store(&line->state, (uint32_t)value);
        break;
    case 6:
        line->life.__data.__lock = (int)(value & 0xffffffff);
        break;
    default:
        atomic_store(&table->header.lease[n % MARKS_LINES], (uint32_t)value);
    }
}

static void change_look(struct fuzz_input *in)
{
    struct marks_look *look = &marks.table->looks[fuzz_u8(in) % 24];
    uint8_t what = fuzz_u8(in);

    fuzz_take(in, look, 48);
    atomic_store(&look->kind, what % 4);
    atomic_store(&look->base, fuzz_u16(in) & 0x1fff);
}

static void change_rename(struct fuzz_input *in)
{
    struct marks_rename *place = &marks.table->renames[fuzz_u8(in) % 4];

    atomic_store(&place->owner, fuzz_u8(in) & 1 ? MARKS_NOBODY : fuzz_u64(in));
    atomic_store(&place->state, fuzz_u8(in) % 4);
    atomic_store(&place->session, fuzz_u8(in) & 1);
    if (fuzz_u8(in) & 1)
        memset(place->names, 'x', sizeof(place->names));
    fuzz_take(in, place->names, 8);
}

/* --- what is asked --- */

static bool fits(void *arg, const struct dyad_base *base)
{
    return *(uint64_t *)arg == base->size;
}

static bool take_rename(const struct store_rename *rename, store_rename_t place, void *arg)
{
    FUZZ_CHECK(strlen(rename->from) + strlen(rename->to) + 2 <=
               sizeof(marks.table->renames[0].names));
    FUZZ_CHECK(place > 0 && place <= MARKS_RENAMES);
    store_renames_end(&marks, place);
    (*(int *)arg)++;
    return true;
}

static void check_info(const struct store_mark_info *info)
{
    FUZZ_CHECK(store_mark_slot(info->mark) < atomic_load(&marks.table->header.top));
    FUZZ_CHECK(info->state > STORE_MARK_FREE && info->state < MARKS_STATE_FREEING);
}

static void ask_of_file(unsigned n)
{
    struct store_mark_info info = {0};
    uint64_t ino = INO(n), size = n, btime;
    struct dyad_entry newer = {.version = {5, 1, 1}, .size = 9};
    struct dyad_version version;
    struct dyad_base base;

    if (store_marks_dirty(&marks, names[n], ino, 0, &info))
        check_info(&info);
    if (store_marks_unfinished(&marks, names[n], ino, 0, 0, &info))
        check_info(&info);
    store_marks_dirty_beside(&marks, 0, names[n], ino, 0);
    store_marks_any_open(&marks, ino, 0);
    store_marks_undecided(&marks, ino, 0);
    store_marks_any_base(&marks, ino, 0, fits, &size);
    store_marks_overtaken(&marks, 0, ino, 0, &newer);
    store_marks_set_joint(&marks, names[n], ino, 0);
    store_marks_recorded(&marks, 0, ino, 0);
    store_marks_all_begin(&marks, ino, 0);
    for (enum store_marks_step step = STORE_MARKS_LOOK; step <= STORE_MARKS_BEGIN; step++)
        store_marks_record_all(&marks, ino, 0, step);
    store_marks_unrecord_all(&marks, ino, 0);
    if (info.mark) {
        store_marks_base(&marks, info.mark, &base);
        store_marks_ahead(&marks, info.mark, &version);
        store_marks_joint(&marks, info.mark);
        store_marks_file(&marks, info.mark, &ino, &btime);
        store_marks_written(&marks, info.mark, file_fd);
        store_marks_ruling_due(&marks, info.mark, file_fd);
        store_marks_rule(&marks, info.mark, file_fd);
        store_marks_left(&marks, info.mark);
    }
    store_marks_take_closed(&marks, ino, 0);
    store_marks_forget(&marks, ino, 0);
}

/* A writer, from its open to its close, beside whatever is there. */
static void write_file(void)
{
    store_mark_t mark = store_marks_begin(&marks, names[0]);
    struct store_mark_info info;
    struct store_identity file;
    char path[64];

    if (!mark)
        return;
    snprintf(path, sizeof(path), "/proc/self/fd/%d", file_fd);
    int fd = open(path, O_RDWR | O_CLOEXEC); /* a description has one mark */
    FUZZ_CHECK(fd >= 0);
    FUZZ_CHECK(store_mark_slot(mark) < atomic_load(&marks.table->header.top));
    store_marks_may_record(&marks, mark, true);
    FUZZ_CHECK(store_marks_opened(&marks, mark, fd, false) == 0);
    FUZZ_CHECK(store_identity_read(fd, &file) == 0);
    FUZZ_CHECK(store_marks_dirty(&marks, NULL, file.ino, file.btime, &info));
    FUZZ_CHECK(store_marks_of_fd(&marks, fd) != 0);
    close(fd);
    FUZZ_CHECK(store_marks_closed(&marks, mark, file_fd, false));
    store_marks_settle(&marks, mark, 0);
    FUZZ_CHECK(!store_marks_closed(&marks, mark, -1, true));
}

static void ask_of_members(void)
{
    int line = store_looked_begin(&marks, 7, "session");
    int nrenames = 0;

    FUZZ_CHECK(line >= -1 && line < (int)MARKS_LINES);
    store_looked_set(&marks, line, STORE_LOOKED);
    FUZZ_CHECK(line < 0 || store_looked(&marks, 7));
    store_lease_set(&marks, line, util_clock_now());
    for (uint64_t rank = 1; rank < 3; rank++) {
        store_looked(&marks, rank);
        store_looked_elsewhere(&marks, rank);
        store_lease_holds(&marks, rank, -1, util_clock_now(), 1000);
        store_lease_is_out(&marks, rank, util_clock_now());
    }
    store_looked_others(&marks, line);
    store_lease_matters(&marks);
    store_looked_end(&marks, line);
    store_renames_left(&marks, 1, true, take_rename, &nrenames);
    FUZZ_CHECK(nrenames <= (int)MARKS_RENAMES);
    store_renames_end(
        &marks, store_renames_begin(&marks, 1, &(struct store_rename){1, "from", "to"}));
}

/* After a reboot. */
static void inherit_all(void)
{
    static struct marks_table *table;
    struct earlier earlier = {"", "another boot                        ", NULL, next_fd};

    table = fresh(table, next_fd);
    earlier.table = table;
    FUZZ_CHECK(inherit(&earlier, marks.table) == 0);
    uint32_t top = atomic_load(&table->header.top);
    FUZZ_CHECK(top <= atomic_load(&marks.table->header.top) &&
               top <= atomic_load(&table->header.limit));
    for (uint32_t i = 0; i < top; i++) {
        unsigned state = WORD_STATE(atomic_load(&table->slots[i].word));
        FUZZ_CHECK(state == STORE_MARK_ABANDONED || state == STORE_MARK_OPENING);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static void (*const changes[])(struct fuzz_input *) = {change_slot, change_word,
                                                           change_look, change_rename};
    struct fuzz_input in = {data, len};

    prepare();
    fresh(marks.table, table_fd);
    while (in.left > 0)
        changes[fuzz_u8(&in) % 4](&in);
    if (!is_whole(marks.table, NULL) || atomic_load(&marks.table->header.top) > 4096)
        return 0;
    fuzz_taken++;
    if (len % 4 == 1) /* it costs as much as all the rest */
        inherit_all();
    for (unsigned n = 0; n < 4; n++)
        ask_of_file(n);
    ask_of_members();
    write_file();
    return 0;
}

/* --- seeds --- */

static uint8_t seed[256];
static size_t seed_len;

static void put(const void *bytes, size_t n)
{
    memcpy(seed + seed_len, bytes, n);
    seed_len += n;
}

static void put_slot(uint8_t index, uint8_t which, unsigned state)
{
    const uint8_t head[] = {0, index, which};
    const uint64_t word = WORD_MAKE(1, 1, state);

    put(head, sizeof(head));
    put(&word, sizeof(word));
}

void fuzz_seeds(void)
{
    static const uint8_t look[] = {2, 0, MARKS_LOOK_CONTENT, 1, 2, 3},
                         line[] = {1, 4, 2, 0, 1}, lease[] = {1, 7, 2, 0, 255, 255},
                         name[] = {3, 1, 1, MARKS_RENAME_WHOLE, 1, 0, 'a', 0, 'b'};

    fuzz_seed("empty", "", 0);
    put_slot(0, 1, STORE_MARK_OPENING);
    put_slot(1, 4 | 8 | 64, STORE_MARK_DIRTY);
    put_slot(2, 4 | 128, STORE_MARK_CLOSING);
    put_slot(3, 4 | 16 | 192, STORE_MARK_ABANDONED);
    fuzz_seed("marks", seed, seed_len);
    put(look, sizeof(look));
    fuzz_seed("look", seed, seed_len);
    seed_len = 0;
    put(line, sizeof(line));
    memset(seed + seed_len, 0, 7);
    seed_len += 7;
    put(lease, sizeof(lease));
    fuzz_seed("members", seed, seed_len);
    seed_len = 0;
    put(name, sizeof(name));
    fuzz_seed("rename", seed, seed_len);
}
