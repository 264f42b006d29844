/*
 * cache_table.c - answers of look-ups that the members of a node share
 *
 * The members of a node map one file, a table of fixed slots; a upath (with its session)
 * can be in ANSWERS_WAYS of them. No thread waits for a lock, and there is no system call
 * after the start. A change of a slot begins with a compare-and-swap of its word, which
 * never has one value twice. An answer counts as long as its keeper, the member that has
 * put it, lives, and as no home has said otherwise since.
 *
 * What could go wrong: a member is stopped or killed in the midst of a change ("answers"
 * below says why nobody then reads a mixture); an answer outlives its keeper ("keepers");
 * an answer contradicts what a process has seen (heard_of()).
 */
#include "store/answers_table.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "store/life.h"
#include "store/shared_file.h"

#define PREFIX "answers-"

/* ---- keepers ---- */

/* A member that may keep answers takes an entry in `keepers`, and holds the robust mutex
 * in it (store/life.h) as long as it lives. When the member dies the kernel marks the
 * mutex before it closes the descriptors of the process: the mark is there before another
 * rank can see the death by a broken connection and stop waiting for the keeper. So a
 * get looks at the mutex.
 *
 * An entry is used again. Its generation says whose it is, a slot names the generation
 * that it belongs to, and no generation comes twice. A taker first changes the generation
 * (odd: being taken, by exactly one process) and then takes the mutex, so nobody finds
 * the old generation with the new owner's mutex: alive() reads the generation before and
 * after the mutex. A taker that is killed in between leaves an entry that is not used
 * again. */

/* True if this generation of a keeper lives. */
static bool alive(struct answer_keeper *keeper, uint64_t generation)
{
    return atomic_load_explicit(&keeper->generation, memory_order_acquire) == generation &&
           store_life_is_on(&keeper->life) &&
           atomic_load_explicit(&keeper->generation, memory_order_acquire) == generation;
}

/* Take an entry that nobody lives in. False: there is none. */
static bool take(struct store_answers *answers, unsigned i)
{
    struct answers_table *table = answers->table;
    struct answer_keeper *keeper = &table->keepers[i];
    uint64_t old = atomic_load(&keeper->generation), fresh;

    if ((old & 1) != 0 || store_life_is_on(&keeper->life))
        return false;
    fresh = (atomic_fetch_add(&table->generations, 1) + 1) * 2;
    if (!atomic_compare_exchange_strong(&keeper->generation, &old, fresh | 1))
        return false;
    /* A process that sees us in the mutex sees that the generation before is over. */
    __sync_synchronize();
    if (!store_life_begin(&keeper->life))
        return false;
    for (int s = 0; s < 2; s++)
        atomic_store(&keeper->session[s], answers->session[s]);
    atomic_store(&keeper->generation, fresh);
    answers->keeper = i;
    answers->generation = fresh;
    return true;
}

/* ---- answers ---- */

/* A slot is a word and data. The word names one use of the slot: it never has one value
 * twice, since the count in it rises with every change.
 *
 *   put   word: anything -> WRITING, by compare-and-swap; the data; word: -> FULL
 *   drop  word: this put's FULL -> empty, by compare-and-swap
 *   get   word is FULL; the data; word is still the same
 *
 * - Two puts at once: one swaps, the other finds WRITING and gives up, or takes another
 *   slot.
 * - A put during a get: data are stored with release and loaded with acquire, so a get
 *   that has loaded any of the new data then finds the new word, and returns no answer.
 * - A put against the drop of the answer before: whichever swaps first wins. If the put
 *   does, the drop fails, but that answer is gone: WRITING never goes back to the FULL
 *   before it.
 * - A member that is killed in the midst of a put leaves WRITING, which no get takes. The
 *   word says which keeper writes, so the next put takes the slot over once that keeper
 *   is dead; a dead keeper writes no more. A keeper that was stopped and goes on still
 *   has its slot.
 * - Nobody can be killed in the midst of a drop: it is one swap. */

static uint64_t hash_of(const struct store_answers *answers, const char *upath, size_t len)
{
    return XXH3_64bits_withSeed(upath, len, answers->session[0]);
}

static struct answer_slot *bucket_of(struct answers_table *table, uint64_t hash)
{
    return &table->slots[hash % (ANSWERS_SLOTS / ANSWERS_WAYS) * ANSWERS_WAYS];
}

static void load_words(struct answer_slot *slot, size_t from, size_t to,
                       struct answer_data *data)
{
    uint64_t words[ANSWER_WORDS];

    for (size_t i = from; i < to; i++)
        words[i] = atomic_load_explicit(&slot->data[i], memory_order_acquire);
    memcpy((char *)data + from * sizeof(uint64_t), words + from,
           (to - from) * sizeof(uint64_t));
}

static size_t words_for(uint32_t len)
{
    return ANSWER_FIXED + (len + sizeof(uint64_t) - 1) / sizeof(uint64_t);
}

/* The whole content of a slot for this name; false: it is something else, or changing. */
static bool read_slot(struct store_answers *answers, struct answer_slot *slot,
                      uint64_t hash, const char *upath, size_t len,
                      struct answer_data *data)
{
    uint64_t word = atomic_load_explicit(&slot->word, memory_order_acquire);

    if ((word & ANSWER_FULL) == 0)
        return false;
    load_words(slot, 0, ANSWER_FIXED, data);
    if (data->hash != hash || data->len != len)
        return false;
    load_words(slot, ANSWER_FIXED, words_for(data->len), data);
    return atomic_load_explicit(&slot->word, memory_order_acquire) == word &&
           memcmp(data->upath, upath, len) == 0 && data->keeper < ANSWERS_KEEPERS &&
           data->nhomes <= DYAD_ANSWER_HOMES &&
           atomic_load(&answers->table->keepers[data->keeper].session[0]) ==
               answers->session[0] &&
           atomic_load(&answers->table->keepers[data->keeper].session[1]) ==
               answers->session[1] &&
           alive(&answers->table->keepers[data->keeper], data->generation);
}

/* When a home last said that names of this hash are published, or that they are not.
 *
 * An answer and its contradiction are both true while a publish is under way: one home
 * has it, and the keepers of the other have not heard of it. A process that has seen the
 * newer of the two must not see the other afterwards, nor must a process to which it has
 * talked (mkdir says EEXIST, and stat that nothing is there). So each answer of a home is
 * noted with its time, for the whole node, and a kept answer that says otherwise counts
 * only if it was asked for later. Names share places; this costs a request now and then.
 */
static _Atomic uint64_t *heard_of(const struct store_answers *answers, uint64_t hash,
                                  bool published)
{
    return &answers->table->heard[published][hash / ANSWERS_SLOTS % ANSWERS_HEARD];
}

void store_answers_heard(struct store_answers *answers, const char *upath, uint64_t now,
                         bool published)
{
    _Atomic uint64_t *heard =
        heard_of(answers, hash_of(answers, upath, strlen(upath)), published);
    uint64_t before = atomic_load(heard);

    while (before < now && !atomic_compare_exchange_weak(heard, &before, now))
        ;
}

uint64_t store_answers_heard_at(const struct store_answers *answers, const char *upath,
                                bool published)
{
    return atomic_load(
        heard_of(answers, hash_of(answers, upath, strlen(upath)), published));
}

bool store_answers_get(struct store_answers *answers, const char *upath, uint64_t now,
                       struct dyad_answer *answer)
{
    size_t len = strlen(upath);
    struct answer_slot *bucket;
    struct answer_data data;
    uint64_t hash;

    if (len > STORE_ANSWERS_UPATH_MAX)
        return false;
    hash = hash_of(answers, upath, len);
    bucket = bucket_of(answers->table, hash);
    for (unsigned i = 0; i < ANSWERS_WAYS; i++) {
        if (!read_slot(answers, &bucket[i], hash, upath, len, &data) || data.since > now ||
            data.until <= now ||
            data.since <= atomic_load(heard_of(answers, hash, data.status != 0)))
            continue;
        *answer = (struct dyad_answer){
            .status = data.status,
            .entry = {.version = data.version,
                      .owner = data.owner,
                      .state = (enum dyad_entry_state)data.state,
                      .size = data.size,
                      .mode = data.mode,
                      .component = data.component % (1u << DYAD_COMPONENT_BITS),
                      .mtime_sec = data.mtime_sec,
                      .mtime_nsec = data.mtime_nsec},
            .keeper = data.rank,
            .since = data.since,
            .until = data.until,
            .nhomes = data.nhomes,
        };
        memcpy(answer->entry.storage, data.storage, sizeof(data.storage));
        memcpy(answer->homes, data.homes, sizeof(data.homes));
        return true;
    }
    return false;
}

/* How well a slot would do for a new answer; the lowest is the best. */
static uint64_t slot_worth(struct store_answers *answers, struct answer_slot *slot,
                           uint64_t word, uint64_t hash, uint64_t now)
{
    struct answer_data data;
    struct answer_keeper *keeper;

    /* Under our number it was an earlier one that has died: we are not in the midst of it.
     */
    if (word & ANSWER_WRITING)
        return ANSWER_WRITER(word) != answers->keeper &&
                       store_life_is_on(&answers->table->keepers[ANSWER_WRITER(word)].life)
                   ? UINT64_MAX /* it will be done in a moment */
                   : 1;
    if ((word & ANSWER_FULL) == 0)
        return 1;
    load_words(slot, 0, ANSWER_FIXED, &data);
    if (data.hash == hash)
        return 0; /* the name is in one slot only, if it can be */
    keeper = &answers->table->keepers[data.keeper % ANSWERS_KEEPERS];
    if (data.until <= now || !alive(keeper, data.generation))
        return 1;
    return data.until; /* the oldest */
}

uint64_t store_answers_put(struct store_answers *answers, const char *upath,
                           const struct dyad_answer *answer)
{
    size_t len = strlen(upath);
    uint64_t hash, best = UINT64_MAX, old = 0, count, words[ANSWER_WORDS];
    struct answer_slot *bucket, *slot = NULL;
    struct answer_data data;

    if (len > STORE_ANSWERS_UPATH_MAX || answers->keeper == ANSWERS_KEEPERS ||
        answer->nhomes > DYAD_ANSWER_HOMES)
        return 0;
    hash = hash_of(answers, upath, len);
    bucket = bucket_of(answers->table, hash);
    for (unsigned i = 0; i < ANSWERS_WAYS; i++) {
        uint64_t word = atomic_load(&bucket[i].word);
        uint64_t worth = slot_worth(answers, &bucket[i], word, hash, answer->since);
        if (worth < best) {
            best = worth;
            slot = &bucket[i];
            old = word;
        }
    }
    if (slot == NULL)
        return 0;

    memset(&data, 0, sizeof(data));
    data.hash = hash;
    data.generation = answers->generation;
    data.since = answer->since;
    data.until = answer->until;
    data.version = answer->entry.version;
    data.size = answer->entry.size;
    data.mtime_sec = answer->entry.mtime_sec;
    memcpy(data.storage, answer->entry.storage, sizeof(data.storage));
    memcpy(data.homes, answer->homes, sizeof(data.homes));
    data.nhomes = answer->nhomes;
    data.mtime_nsec = answer->entry.mtime_nsec;
    data.owner = answer->entry.owner;
    data.mode = answer->entry.mode;
    data.component = answer->entry.component;
    data.state = answer->entry.state;
    data.keeper = answers->keeper;
    data.rank = answer->keeper;
    data.status = answer->status;
    data.len = (uint32_t)len;
    memcpy(data.upath, upath, len);
    memcpy(words, &data, sizeof(words));

    unsigned number = (unsigned)(slot - answers->table->slots);
    count = ANSWER_COUNT(old) + 1;
    if (!atomic_compare_exchange_strong(
            &slot->word, &old, ANSWER_WORD(count, answers->keeper, number, ANSWER_WRITING)))
        return 0;
    for (size_t i = 0; i < words_for(data.len); i++)
        atomic_store_explicit(&slot->data[i], words[i], memory_order_release);
    uint64_t full = ANSWER_WORD(count, answers->keeper, number, ANSWER_FULL);
    atomic_store(&slot->word, full);
    return full;
}

void store_answers_drop(struct store_answers *answers, uint64_t put)
{
    struct answer_slot *slot = &answers->table->slots[ANSWER_SLOT(put)];

    atomic_compare_exchange_strong(
        &slot->word, &put,
        ANSWER_WORD(ANSWER_COUNT(put) + 1, ANSWER_WRITER(put), ANSWER_SLOT(put), 0));
}

/* ---- the file ---- */

/* The file is made in full under another name, and with all its blocks, as the table of
 * the marks is (marks_table.c says why). */

static bool is_whole(const void *map, const char *boot)
{
    const struct answers_table *table = map;

    return table->magic == ANSWERS_MAGIC && table->size == sizeof(*table) &&
           (!boot || memcmp(table->boot, boot, STORE_BOOT_LEN) == 0);
}

static int reserve(int fd)
{
    return store_control_reserve(fd, 0, sizeof(struct answers_table));
}

static int init_keepers(struct answers_table *table)
{
    int rc = 0;

    for (unsigned i = 0; i < ANSWERS_KEEPERS && rc == 0; i++)
        rc = store_life_init(&table->keepers[i].life);
    errno = rc;
    return rc ? -1 : 0;
}

static int fill(const struct store_shared_new *file)
{
    struct answers_table *table = file->map;

    table->magic = ANSWERS_MAGIC;
    table->size = sizeof(*table);
    memcpy(table->boot, file->boot, STORE_BOOT_LEN);
    gethostname(table->node, sizeof(table->node) - 1);
    return init_keepers(table);
}

static void made(const struct store_shared_new *file);

static const struct store_shared_kind kind = {
    .size = sizeof(struct answers_table),
    .is_whole = is_whole,
    .reserve = reserve,
    .fill = fill,
    .made = made,
};

static int remove_earlier(int control, const char *name, const void *map, void *new)
{
    const struct answers_table *old = map, *table = new;

    if (strncmp(old->node, table->node, sizeof(old->node)) == 0 &&
        memcmp(old->boot, table->boot, STORE_BOOT_LEN) != 0)
        unlinkat(control, name, 0);
    return 0;
}

/* The tables of this node's earlier boots go. */
static void made(const struct store_shared_new *file)
{
    store_shared_each_other(file->control, &kind, PREFIX, file->name, remove_earlier,
                            file->map);
}

/* The name of the file has the boot and the time namespace in it (empty where the kernel
 * has none): other nodes may see the directory, and the clock must be the same to all who
 * use the table. */
static int file_name(char *name, size_t size, char boot[STORE_BOOT_LEN + 1])
{
    char id[STORE_BOOT_LEN + 65];
    ssize_t n;

    if (store_control_boot(boot) < 0)
        return -1;
    memcpy(id, boot, STORE_BOOT_LEN);
    n = readlink("/proc/self/ns/time", id + STORE_BOOT_LEN, sizeof(id) - STORE_BOOT_LEN);
    snprintf(name, size, PREFIX "%016llx",
             (unsigned long long)XXH3_64bits(id, STORE_BOOT_LEN + (size_t)(n > 0 ? n : 0)));
    return 0;
}

static struct answers_table *table_map(const struct store_dir *dir)
{
    char name[64], boot[STORE_BOOT_LEN + 1];

    return file_name(name, sizeof(name), boot) < 0
               ? NULL
               : store_shared_map(dir, &kind, name, boot);
}

struct store_answers *store_answers_create(const struct store_dir *dir, const void *session,
                                           size_t len)
{
    struct store_answers *answers = calloc(1, sizeof(*answers));
    XXH128_hash_t hash = XXH3_128bits(session, len);

    if (!answers)
        return NULL;
    answers->session[0] = hash.low64;
    answers->session[1] = hash.high64;
    answers->keeper = ANSWERS_KEEPERS;
    if (!(answers->table = table_map(dir))) {
        int saved = errno;
        free(answers);
        errno = saved;
        return NULL;
    }
    /* A child has no part in it, and need not have it in its memory. */
    madvise(answers->table, sizeof(*answers->table), MADV_DONTFORK);
    for (unsigned i = 0; i < ANSWERS_KEEPERS && !take(answers, i); i++)
        ;
    return answers;
}

void store_answers_destroy(struct store_answers *answers)
{
    if (!answers)
        return;
    if (answers->keeper < ANSWERS_KEEPERS)
        store_life_end(&answers->table->keepers[answers->keeper].life);
    munmap(answers->table, sizeof(*answers->table));
    free(answers);
}
