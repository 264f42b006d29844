/*
 * fuzz_answers.c - the table of answers that the members of a node share
 *
 * The input is steps, each a byte that says what is done, one that says of which name, and its fields: an answer is put, words
 * of its slot are changed, as a member that was killed or is not in its right mind may leave them, and it is asked for.
 */
#include "store/cache_table.c" /* hash_of(), bucket_of(), is_whole() */

#include "fuzz.h"
#include "util/log.h"

static const char *const names[] = {"a", "run/b", "run/out.0000000017", ""};

static struct store_answers *answers;
static int table_fd = -1;

static void prepare(void)
{
    char boot[STORE_BOOT_LEN + 1], name[64], path[256];
    struct store_dir *dir;

    if (answers)
        return;
    util_log_setup(UTIL_LOG_ALWAYS, NULL, "fuzz");
    FUZZ_CHECK((dir = store_dir_create(fuzz_directory())));
    FUZZ_CHECK((answers = store_answers_create(dir, "session", 7)));
    FUZZ_CHECK(answers->keeper < ANSWERS_KEEPERS &&
               file_name(name, sizeof(name), boot) == 0);
    snprintf(path, sizeof(path), "%s/" STORE_CONTROL_DIR "/%s", fuzz_directory(), name);
    FUZZ_CHECK((table_fd = open(path, O_RDWR | O_CLOEXEC)) >= 0);
    store_dir_destroy(dir);
}

/* As store_answers_create() has left it: our keeper's mutex is held. */
static void fresh(void)
{
    FUZZ_CHECK(mmap(answers->table, sizeof(*answers->table), PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_FIXED, table_fd, 0) == answers->table);
}

static void put(const char *name, struct fuzz_input *in)
{
    struct dyad_answer answer = {.status = fuzz_u8(in) & 1 ? ENOENT : 0,
                                 .keeper = fuzz_u8(in)};

    answer.nhomes = fuzz_u8(in) % (DYAD_ANSWER_HOMES + 2);
    answer.since = fuzz_u8(in);
    answer.until = answer.since + fuzz_u8(in);
    answer.entry.version.counter = fuzz_u64(in);
    answer.entry.state = DYAD_ENTRY_PUBLISHED;
    uint64_t number = store_answers_put(answers, name, &answer);
    FUZZ_CHECK(!number || ANSWER_SLOT(number) < ANSWERS_SLOTS);
    FUZZ_CHECK(!number || answer.nhomes <= DYAD_ANSWER_HOMES);
    if (number && fuzz_u8(in) & 1) {
        struct dyad_answer got;
        store_answers_drop(answers, number);
        FUZZ_CHECK(
            !(atomic_load(&answers->table->slots[ANSWER_SLOT(number)].word) & ANSWER_FULL));
        store_answers_get(answers, name, answer.since, &got);
    }
}

static void change(const char *name, struct fuzz_input *in)
{
    uint64_t hash = hash_of(answers, name, strlen(name));
    struct answer_slot *slot = &bucket_of(answers->table, hash)[fuzz_u8(in) % ANSWERS_WAYS];
    uint8_t what = fuzz_u8(in);
    uint64_t value = fuzz_u64(in);

    switch (what >> 6) {
    case 0:
        atomic_store(&slot->word, value);
        break;
    case 1:
        atomic_store(&slot->data[(what & 63) % ANSWER_WORDS], value);
        break;
    case 2: /* all that must be right, and a word */
        atomic_store(&slot->data[0], hash);
        atomic_store(&slot->data[1], answers->generation);
        atomic_store(&slot->word,
                     ANSWER_WORD(value >> 40, answers->keeper, value, ANSWER_FULL));
        break;
    default:
        atomic_store(&answers->table->keepers[value % 2 ? answers->keeper : 1].generation,
                     value >> 1);
    }
}

static bool found;

static void ask(const char *name, struct fuzz_input *in)
{
    uint64_t now = fuzz_u8(in);
    struct dyad_answer answer;

    if (store_answers_get(answers, name, now, &answer)) {
        found = true;
        FUZZ_CHECK(answer.since <= now && answer.until > now &&
                   answer.nhomes <= DYAD_ANSWER_HOMES);
        FUZZ_CHECK(answer.since >
                   store_answers_heard_at(answers, name, answer.status != 0));
        FUZZ_CHECK(answer.entry.upath == NULL);
    }
    if (fuzz_u8(in) & 1)
        store_answers_heard(answers, name, now, now & 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct fuzz_input in = {data, len};

    prepare();
    fresh();
    found = false;
    while (in.left > 0) {
        uint8_t what = fuzz_u8(&in);
        const char *name = names[what >> 6];
        if (what % 3 == 0)
            put(name, &in);
        else if (what % 3 == 1)
            change(name, &in);
        else
            ask(name, &in);
    }
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        ask(names[i], &in);
    FUZZ_CHECK(is_whole(answers->table, NULL));
    fuzz_taken += found;
    return 0;
}

void fuzz_seeds(void)
{
    /* put: what, ENOENT, keeper, homes, since, life, version, drop; ask: what, now, heard */
    static const uint8_t put_and_ask[] = {0, 0, 1, 2, 10, 50, 3, 0,  0,
                                          0, 0, 0, 0, 0,  0,  2, 20, 0};
    static const uint8_t dropped[] = {0, 1, 1, 2, 10, 50, 3, 0,  0,
                                      0, 0, 0, 0, 0,  1,  2, 20, 0};
    static const uint8_t heard[] = {0, 0, 1, 2, 10, 50, 3, 0, 0,  0, 0,
                                    0, 0, 0, 0, 2,  21, 1, 2, 20, 0};
    static const uint8_t changed[] = {0, 0, 1,       2,  10, 50, 3, 0, 0, 0, 0, 0, 0,  0, 0,
                                      1, 0, 64 + 20, 99, 0,  0,  0, 0, 0, 0, 0, 2, 20, 0};

    fuzz_seed("put", put_and_ask, sizeof(put_and_ask));
    fuzz_seed("dropped", dropped, sizeof(dropped));
    fuzz_seed("heard", heard, sizeof(heard));
    fuzz_seed("changed", changed, sizeof(changed));
}
