/*
 * fuzz_journal.c - a journal's file
 *
 * The input is the file behind its magic. The checksum of each record is set right, unless `unused` is odd. What another
 * process finds in it is what the owner does; and what the owner then writes is there when it is opened once more.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fuzz.h"
#include "store/control.h"
#include "store/journal_impl.h"
#include "util/log.h"

#define NAME "fuzz"

static struct store_dir *dir;
static int owner = -1;

static void prepare(void)
{
    if (dir)
        return;
    util_log_setup(UTIL_LOG_ALWAYS, NULL, "fuzz");
    dir = store_dir_create(fuzz_directory());
    FUZZ_CHECK(dir && (owner = store_control_subdir(dir, "owner")) >= 0);
}

static void set_checksums(char *body, size_t len)
{
    _Alignas(8) char copy[RECORD_MAX];
    struct disk_record *disk = (struct disk_record *)copy;

    for (size_t at = 0; len - at >= sizeof(*disk); at += disk->len) {
        memcpy(copy, body + at, sizeof(*disk));
        if (disk->len < sizeof(*disk) || disk->len > RECORD_MAX || disk->len > len - at)
            return;
        memcpy(copy, body + at, disk->len);
        if (!(disk->unused & 1))
            disk->checksum = journal_checksum(disk, disk->len);
        memcpy(body + at, copy, disk->len);
    }
}

static void write_file(const char *body, size_t len)
{
    int fd = openat(owner, NAME, O_RDWR | O_CREAT | O_TRUNC, 0600);

    FUZZ_CHECK(fd >= 0 && write(fd, MAGIC, MAGIC_LEN) == MAGIC_LEN);
    FUZZ_CHECK(write(fd, body, len) == (ssize_t)len);
    close(fd);
}

struct all {
    char *upaths[32];
    size_t n;
};

static int note(const struct store_record *record, void *arg)
{
    struct all *all = arg;

    FUZZ_CHECK(strlen(record->entry.upath) <= DYAD_UPATH_MAX);
    if (all->n < sizeof(all->upaths) / sizeof(all->upaths[0]))
        all->upaths[all->n++] = strdup(record->entry.upath);
    return 0;
}

static bool is_same(const struct store_record *a, const struct store_record *b)
{
    return a->kind == b->kind && a->made_here == b->made_here &&
           dyad_version_cmp(&a->entry.version, &b->entry.version) == 0 &&
           a->entry.size == b->entry.size &&
           store_identity_equal(&a->identity, &b->identity);
}

/* Reading beside the owner finds what the owner has. */
static void check_looks(struct store_journal *journal, const struct all *all)
{
    struct store_look looks[33] = {{.upath = "there/is/none"}};
    size_t n = 1;

    for (size_t i = 0; i < all->n; i++)
        looks[n++].upath = all->upaths[i];
    FUZZ_CHECK(store_journal_look(dir, NAME, looks, n) == 0);
    for (size_t i = 0; i < n; i++) {
        const struct store_record *own = store_journal_find(journal, looks[i].upath);
        FUZZ_CHECK((own != NULL) == looks[i].found);
        FUZZ_CHECK(!own || is_same(own, &looks[i].record));
    }
}

static bool take_any(const char *label, void *arg)
{
    (void)arg;
    FUZZ_CHECK(!label || strlen(label) <= DYAD_UPATH_MAX);
    return true;
}

/* What is written behind the records that were whole is read again. */
static void check_changes(struct store_journal *journal, const struct all *all)
{
    const struct store_record record = {.kind = STORE_RECORD_ORIGINAL,
                                        .entry = {.upath = "new", .version = {9, 1, 1}}};
    uint64_t count;

    FUZZ_CHECK(store_journal_put(journal, &record) == 0);
    if (all->n > 1)
        store_journal_delete(journal, all->upaths[1]);
    FUZZ_CHECK(store_journal_set_label(journal, "label") == 0);
    count = store_journal_count(journal);
    store_journal_destroy(journal);
    FUZZ_CHECK((journal = store_journal_open(dir, NAME, take_any, NULL)) != NULL);
    FUZZ_CHECK(store_journal_count(journal) == count);
    FUZZ_CHECK(store_journal_find(journal, "new") != NULL);
    store_journal_destroy(journal);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct store_journal *journal;
    char *body = malloc(len + 1), label[DYAD_UPATH_MAX + 1];
    struct all all = {.n = 0};
    uint32_t incarnation;

    prepare();
    if (len > 0)
        memcpy(body, data, len);
    set_checksums(body, len);
    write_file(body, len);
    free(body);
    store_journal_any(dir, NAME);
    if (store_journal_read_label(dir, NAME, label) == 0)
        FUZZ_CHECK(strlen(label) <= DYAD_UPATH_MAX);
    FUZZ_CHECK((journal = store_journal_create(dir, NAME, &incarnation)) != NULL);
    store_journal_foreach(journal, note, &all);
    FUZZ_CHECK(all.n == 32 || all.n == store_journal_count(journal));
    fuzz_taken += all.n > 0;
    check_looks(journal, &all);
    check_changes(journal, &all);
    while (all.n > 0)
        free(all.upaths[--all.n]);
    return 0;
}

/* The journal's file as it is now. */
static void seed_of_file(const char *name)
{
    int fd = openat(owner, NAME, O_RDONLY);
    struct stat st;
    char *body;

    FUZZ_CHECK(fd >= 0 && fstat(fd, &st) == 0 && st.st_size > MAGIC_LEN);
    body = malloc((size_t)st.st_size);
    FUZZ_CHECK(read(fd, body, (size_t)st.st_size) == st.st_size);
    fuzz_seed(name, body + MAGIC_LEN, (size_t)st.st_size - MAGIC_LEN);
    free(body);
    close(fd);
}

void fuzz_seeds(void)
{
    struct store_record record = {.kind = STORE_RECORD_ORIGINAL,
                                  .entry = {.upath = "run/a",
                                            .version = {3, 1, 2},
                                            .state = DYAD_ENTRY_PUBLISHED,
                                            .size = 5},
                                  .identity = {1, 2, 3, 4, 5},
                                  .base = {.kind = DYAD_BASE_FROM, .size = 6, .time = 7}};
    uint32_t incarnation;

    prepare();
    struct store_journal *journal = store_journal_create(dir, NAME, &incarnation);
    FUZZ_CHECK(journal && store_journal_set_label(journal, "node/launch") == 0);
    seed_of_file("empty");
    FUZZ_CHECK(store_journal_put(journal, &record) == 0);
    seed_of_file("one");
    record.kind = STORE_RECORD_COPY;
    record.made_here = true;
    record.entry.upath = "b";
    FUZZ_CHECK(store_journal_put(journal, &record) == 0);
    record.made_here = false;
    FUZZ_CHECK(store_journal_put(journal, &record) == 0);
    FUZZ_CHECK(store_journal_delete(journal, "run/a") == 0);
    seed_of_file("changed");
    store_journal_destroy(journal);
}
