/*
 * config.c - one table of the DYAD_* variables, and what is made of it
 *
 * VARIABLES below is the only place that knows a variable's name, type, default, range and
 * help: reading, error texts, the hints for mistyped names, `dyad-run --help-variables` and
 * the man page all come from it. Numbers are parsed by hand: strtod() follows the host
 * program's locale, in which "1.5" may be no number.
 */
#include "engine/config.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <string.h>

#include "boot/identity.h"
#include "util/log.h"

#define PREFIX     "DYAD_"
#define PREFIX_LEN (sizeof(PREFIX) - 1)

#define KIB      1024.0
#define MIB      (1024.0 * KIB)
#define FOREVER  1e9 /* seconds; as nanoseconds it fits 64 bits */
#define NAME_CAP 64

enum type {
    TYPE_PATH,      /* const char *, absolute */
    TYPE_PATH_BOTH, /* sets path_producer and path_consumer */
    TYPE_STRING,    /* const char *, lo..hi bytes */
    TYPE_BOOL,      /* bool */
    TYPE_INT,       /* int64_t, lo..hi */
    TYPE_BYTES,     /* int64_t, lo..hi, with K, M or G */
    TYPE_SECONDS,   /* double, lo..hi, or one of the words */
    TYPE_ENUM,      /* int: one of the words */
    TYPE_BOOL_WORD, /* int: a boolean, or one of the words */
    TYPE_DTL,       /* const char *: one of the words */
    TYPE_GLOBS,     /* const char *: one of the words, or globs */
};

struct word {
    const char *text;
    int value;
};

static const struct word bool_words[] = {
    {"1", 1},   {"on", 1}, {"yes", 1},   {"true", 1}, {"0", 0},
    {"off", 0}, {"no", 0}, {"false", 0}, {NULL, 0},
};
static const struct word shared_words[] = {{"auto", -1}, {NULL, 0}};
static const struct word linger_words[] = {{"job", -1}, {NULL, 0}};
static const struct word wait_words[] = {{"all", 0}, {"none", 0}, {NULL, 0}};
static const struct word dtl_words[] = {{"UCX", 0}, {NULL, 0}};
static const struct word log_words[] = {
    {"error", UTIL_LOG_ERROR}, {"warn", UTIL_LOG_WARN},    {"info", UTIL_LOG_INFO},
    {"debug", UTIL_LOG_DEBUG}, {"warning", UTIL_LOG_WARN}, {NULL, 0},
};

/* clang-format off */
/* X(name, type, member, default or NULL, lowest, highest, words, help) */
#define VARIABLES(X)                                                                      \
    X("DYAD_PATH", PATH_BOTH, path_producer, NULL, 0, 0, NULL,                            \
      "The managed directory: what is written below it is published at the last "         \
      "close, and what is read below it and is not here is fetched. The same path "       \
      "on every node, usually node-local (NVMe, tmpfs). It must exist.")                  \
    X("DYAD_PATH_PRODUCER", PATH, path_producer, NULL, 0, 0, NULL,                        \
      "The managed directory for what is written, where it differs from DYAD_PATH.")      \
    X("DYAD_PATH_CONSUMER", PATH, path_consumer, NULL, 0, 0, NULL,                        \
      "The managed directory for what is read, where it differs from DYAD_PATH.")         \
    X("DYAD_PATH_RELATIVE", BOOL, path_relative, "0", 0, 0, NULL,                         \
      "Take a relative path that names nothing in the working directory as relative to "  \
      "the managed directory; the C API takes every relative path so.")                   \
    X("DYAD_TIMEOUT", SECONDS, timeout, "0", 0, FOREVER, NULL,                            \
      "How long an open for reading waits for a file that is not published yet, "         \
      "before it fails with ETIMEDOUT. 0: no limit.")                                     \
    X("DYAD_WAIT", GLOBS, wait, "all", 0, 0, wait_words,                                  \
      "Which files an open for reading waits for. all: every one. none: a file that "     \
      "is not published fails with ENOENT at once. Or patterns of paths relative "        \
      "to the managed directory, separated by ':'; files that match none are not "        \
      "waited for: one that another process of this node is writing is opened as it is. " \
      "Programs that probe for optional files (compilers, git, sqlite) need it.")         \
    X("DYAD_LINGER", SECONDS, linger, "job", 0, FOREVER, linger_words,                    \
      "How long a process at its exit goes on to serve its files. job: until the "        \
      "other processes of the job are at their exit too. 0: leave at once; files "        \
      "that nobody fetched by then are lost to other nodes.")                             \
    X("DYAD_ASYNC_PUBLISH", BOOL, async_publish, "0", 0, 0, NULL,                         \
      "Return from close as soon as the publish is sent, not when it is "                 \
      "acknowledged. A message that overtakes it may then name a file that a reader "     \
      "does not see yet.")                                                                \
    X("DYAD_FSYNC_WRITE", BOOL, fsync_write, "0", 0, 0, NULL,                             \
      "Flush a file to its storage (fsync) before it is published.")                      \
    X("DYAD_SHARED_STORAGE", BOOL_WORD, shared_storage, "auto", 0, 0, shared_words,       \
      "Whether the managed directory is one and the same storage on all nodes, so "       \
      "that nothing is copied and opens are only synchronised. auto: found out by a "     \
      "random id kept in the directory.")                                                 \
    X("DYAD_NODE", STRING, node, NULL, 1, 255, NULL,                                      \
      "Name of this node, where the host name will not do: two directories of one "       \
      "machine stand for two nodes if their processes have different values. "            \
      "Default: host name and boot id.")                                                  \
    X("DYAD_KVS_NAMESPACE", STRING, kvs_namespace, NULL, 1, 128, NULL,                    \
      "Name of the session. Processes of one job that have different names share "        \
      "nothing.")                                                                         \
    X("DYAD_SESSION_DIR", PATH, session_dir, NULL, 0, 0, NULL,                            \
      "A directory on a file system that all nodes share, through which several "         \
      "launches (two srun of one job) meet. Read and checked; without effect in "         \
      "this version.")                                                                    \
    X("DYAD_LISTING", BOOL, listing, "1", 0, 0, NULL,                                     \
      "Whether a directory below the managed directory shows what is published in "       \
      "it on other nodes as well. Reading such a directory asks every rank; writing "     \
      "files costs no message more. Must be the same in the whole session.")              \
    X("DYAD_REPLICAS", INT, replicas, "2", 1, 8, NULL,                                    \
      "How many ranks keep the entry of a file (never more than there are ranks). "       \
      "Must be the same in the whole session.")                                           \
    X("DYAD_KEY_DEPTH", INT, key_depth, "2", 1, 16, NULL,                                 \
      "Levels of the tree in which a rank keeps its entries. Must be the same in "        \
      "the whole session.")                                                               \
    X("DYAD_KEY_BINS", INT, key_bins, "256", 2, 65536, NULL,                              \
      "Bins at each level of that tree. Must be the same in the whole session.")          \
    X("DYAD_CHUNK_SIZE", BYTES, chunk_size, "1M", 64 * KIB, 64 * MIB, NULL,               \
      "Bytes that a fetch asks for at once.")                                             \
    X("DYAD_CHUNKS", INT, chunks, "4", 1, 64, NULL,                                       \
      "Requests that a fetch keeps in flight. Together with DYAD_CHUNK_SIZE this "        \
      "bounds the memory of a fetch.")                                                    \
    X("DYAD_PROMOTE", INT, promote, "100", 0, 1000000000, NULL,                           \
      "After so many files that it had to ask for, a process that is not the first of "   \
      "its rank, and has done so for a second, fetches and serves by itself instead of "  \
      "having its rank's first process do it. 0: never.")                                 \
    X("DYAD_INLINE_MAX", BYTES, inline_max, "4K", 0, 64 * KIB, NULL,                      \
      "Files up to this size may travel with the answer that says where they are. "       \
      "Read and checked; without effect in this version.")                                \
    X("DYAD_JOIN_TIMEOUT", SECONDS, join_timeout, "10", 0.1, 86400, NULL,                 \
      "How long a rank may take to join before the others go on without it. It may "      \
      "still join later.")                                                                \
    X("DYAD_PEER_TIMEOUT", SECONDS, peer_timeout, "5", 0.1, 86400, NULL,                  \
      "How long a rank may leave a request unanswered before it counts as dead.")         \
    X("DYAD_DTL_MODE", DTL, dtl_mode, "UCX", 0, 0, dtl_words,                             \
      "How data move. There is one way.")                                                 \
    X("DYAD_LOG", ENUM, log_level, "warn", 0, 0, log_words,                               \
      "What is reported.")                                                                \
    X("DYAD_LOG_FILE", PATH, log_file, NULL, 0, 0, NULL,                                  \
      "The file that log lines are appended to. Default: standard error.")                \
    X("DYAD_SYNC_DEBUG", BOOL, sync_debug, "0", 0, 0, NULL,                               \
      "The same as DYAD_LOG=debug.")                                                      \
    X("DYAD_STATS", BOOL, stats, "0", 0, 0, NULL,                                         \
      "Report at exit how many files and bytes this process published, fetched and "      \
      "served.")
/* clang-format on */

struct variable {
    const char *name;
    enum type type;
    size_t offset;
    const char *value; /* the default, as text */
    double lo, hi;
    const struct word *words;
    const char *help;
};

static const struct variable variables[] = {
#define X(name, type, member, value, lo, hi, words, help) \
    {name, TYPE_##type, offsetof(struct engine_config, member), value, lo, hi, words, help},
    VARIABLES(X)
#undef X
};

#define NVARIABLES (sizeof(variables) / sizeof(variables[0]))

/* --- text --- */

struct text {
    char *buf;
    size_t size, len;
};

static void text_add(struct text *text, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

static void text_add(struct text *text, const char *fmt, ...)
{
    va_list ap;

    if (text->len + 1 >= text->size)
        return;
    va_start(ap, fmt);
    int n = vsnprintf(text->buf + text->len, text->size - text->len, fmt, ap);
    va_end(ap);
    if (n > 0)
        text->len += (size_t)n;
    if (text->len >= text->size)
        text->len = text->size - 1;
}

/* A value as the user typed it, made safe for a terminal and not longer than a line. */
static void text_add_value(struct text *text, const char *value)
{
    for (unsigned n = 0; *value; value++, n++) {
        unsigned char c = (unsigned char)*value;
        if (n == 80) {
            text_add(text, "...");
            break;
        }
        if (c < 0x20 || c == 0x7f)
            text_add(text, "\\x%02x", c);
        else
            text_add(text, "%c", c);
    }
}

static void text_add_bytes(struct text *text, double bytes)
{
    int64_t n = (int64_t)bytes;

    if (n && n % (1 << 20) == 0)
        text_add(text, "%" PRId64 "M", n >> 20);
    else if (n && n % (1 << 10) == 0)
        text_add(text, "%" PRId64 "K", n >> 10);
    else
        text_add(text, "%" PRId64, n);
}

/* What is not a whole number has one decimal: the table has no finer bounds. By hand, for
 * the locale. */
static void text_add_seconds(struct text *text, double seconds)
{
    int64_t tenths = (int64_t)(seconds * 10 + 0.5);

    text_add(text, "%" PRId64, tenths / 10);
    if (tenths % 10)
        text_add(text, ".%" PRId64, tenths % 10);
}

static void text_add_words(struct text *text, const struct word *words, const char *last)
{
    for (const struct word *w = words; w && w->text; w++)
        text_add(text, "%s%s",
                 w == words            ? ""
                 : !w[1].text && !last ? " or "
                                       : ", ",
                 w->text);
    if (last)
        text_add(text, "%s%s", words ? " or " : "", last);
}

static void text_add_allowed(struct text *text, const struct variable *var)
{
    switch (var->type) {
    case TYPE_PATH:
    case TYPE_PATH_BOTH:
        text_add(text, "an absolute path other than /");
        break;
    case TYPE_STRING:
        text_add(text, "%.0f to %.0f characters, none of them a control character", var->lo,
                 var->hi);
        break;
    case TYPE_BOOL:
        text_add(text, "1, on, yes, true, or 0, off, no, false");
        break;
    case TYPE_BOOL_WORD:
        text_add_words(text, var->words, NULL);
        text_add(text, ", or 1, on, yes, true, or 0, off, no, false");
        break;
    case TYPE_INT:
        text_add(text, "a whole number from %.0f to %.0f", var->lo, var->hi);
        break;
    case TYPE_BYTES:
        text_add(text, "bytes from ");
        text_add_bytes(text, var->lo);
        text_add(text, " to ");
        text_add_bytes(text, var->hi);
        text_add(text, ", with K, M or G for powers of 1024");
        break;
    case TYPE_SECONDS:
        text_add_words(text, var->words, var->words ? "seconds from " : NULL);
        text_add(text, "%s", var->words ? "" : "seconds from ");
        text_add_seconds(text, var->lo);
        text_add(text, " to ");
        text_add_seconds(text, var->hi);
        break;
    case TYPE_ENUM:
    case TYPE_DTL:
        text_add_words(text, var->words, NULL);
        break;
    case TYPE_GLOBS:
        text_add_words(text, var->words, "patterns of relative paths, separated by ':'");
        break;
    }
}

/* --- values --- */

/* ASCII only: strcasecmp() follows the locale, where 'i' and 'I' need not be a pair. */
static char upper(char c)
{
    return c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c;
}

static bool same_word(const char *a, const char *b)
{
    while (*a && upper(*a) == upper(*b))
        a++, b++;
    return !*a && !*b;
}

static const struct word *find_word(const struct word *words, const char *value)
{
    for (; words && words->text; words++)
        if (same_word(words->text, value))
            return words;
    return NULL;
}

/* Digits at *p, which moves past them. False: none, or too many for any range here. */
static bool parse_digits(const char **p, int64_t *out)
{
    const char *start = *p;
    int64_t n = 0;

    for (; **p >= '0' && **p <= '9'; (*p)++) {
        if (n > INT64_MAX / 10 - 1)
            return false;
        n = n * 10 + (**p - '0');
    }
    *out = n;
    return *p > start;
}

static const char *parse_int(const struct variable *var, const char *value, int64_t *out)
{
    const char *p = value;
    int64_t n;
    bool minus = *p == '-';

    if (minus || *p == '+')
        p++;
    if (!parse_digits(&p, &n) || *p)
        return "not a whole number";
    if (minus)
        n = -n;
    if ((double)n < var->lo || (double)n > var->hi)
        return "out of range";
    *out = n;
    return NULL;
}

static const char *parse_bytes(const struct variable *var, const char *value, int64_t *out)
{
    static const struct word units[] = {{"", 0},     {"K", 10},   {"M", 20},   {"G", 30},
                                        {"KiB", 10}, {"MiB", 20}, {"GiB", 30}, {NULL, 0}};
    const char *p = value;
    int64_t n;

    if (!parse_digits(&p, &n))
        return "not a number of bytes";
    const struct word *unit = find_word(units, p);
    if (!unit)
        return "not a number of bytes";
    if (n > INT64_MAX >> unit->value)
        return "out of range";
    n <<= unit->value;
    if ((double)n < var->lo || (double)n > var->hi)
        return "out of range";
    *out = n;
    return NULL;
}

static const char *parse_seconds(const struct variable *var, const char *value, double *out)
{
    const char *p = value;
    int64_t n = 0;
    double scale = 1, seconds;
    bool digits = parse_digits(&p, &n);

    seconds = (double)n;
    if (*p == '.') {
        for (p++; *p >= '0' && *p <= '9'; p++) {
            scale /= 10;
            seconds += scale * (*p - '0');
            digits = true;
        }
    }
    if (!digits || *p)
        return "not a number of seconds";
    if (seconds < var->lo || seconds > var->hi)
        return "out of range";
    *out = seconds;
    return NULL;
}

static const char *check_path(const char *value)
{
    if (value[0] != '/')
        return "not an absolute path";
    if (value[strspn(value, "/")] == '\0')
        return "the root directory cannot be meant";
    if (strlen(value) >= PATH_MAX)
        return "too long for a path";
    return NULL;
}

static const char *check_string(const struct variable *var, const char *value)
{
    size_t len = strlen(value);

    if ((double)len < var->lo || (double)len > var->hi)
        return "too long";
    for (; *value; value++)
        if ((unsigned char)*value < 0x20 || *value == 0x7f)
            return "it has a control character";
    return NULL;
}

static const char *check_globs(const char *value)
{
    const char *p = value;

    for (;;) {
        size_t len = strcspn(p, ":");
        if (len == 0)
            return "it has an empty pattern";
        if (*p == '/')
            return "a pattern is relative to the managed directory and cannot begin with /";
        p += len;
        if (!*p)
            return NULL;
        p++;
    }
}

/* Put value into *config. NULL, or what is wrong with it. */
static const char *assign(struct engine_config *config, const struct variable *var,
                          const char *value)
{
    void *member = (char *)config + var->offset;
    const char *why = NULL;
    const struct word *word;

    switch (var->type) {
    case TYPE_PATH:
    case TYPE_PATH_BOTH:
        if (value && (why = check_path(value)))
            return why;
        *(const char **)member = value;
        if (var->type == TYPE_PATH_BOTH)
            config->path_consumer = value;
        return NULL;
    case TYPE_STRING:
        if (value && (why = check_string(var, value)))
            return why;
        *(const char **)member = value;
        return NULL;
    case TYPE_BOOL:
        if (!(word = find_word(bool_words, value)))
            return "not a boolean";
        *(bool *)member = word->value;
        return NULL;
    case TYPE_BOOL_WORD:
        if (!(word = find_word(var->words, value)) &&
            !(word = find_word(bool_words, value)))
            return "not one of the words";
        *(int *)member = word->value;
        return NULL;
    case TYPE_INT:
        return parse_int(var, value, member);
    case TYPE_BYTES:
        return parse_bytes(var, value, member);
    case TYPE_SECONDS:
        if ((word = find_word(var->words, value))) {
            *(double *)member = word->value;
            return NULL;
        }
        return parse_seconds(var, value, member);
    case TYPE_ENUM:
        if (!(word = find_word(var->words, value)))
            return "not one of the words";
        *(int *)member = word->value;
        return NULL;
    case TYPE_DTL:
        if (!(word = find_word(var->words, value)))
            return "data move over UCX only here";
        *(const char **)member = word->text;
        return NULL;
    case TYPE_GLOBS:
        if ((word = find_word(var->words, value)))
            value = word->text;
        else if ((why = check_globs(value)))
            return why;
        *(const char **)member = value;
        return NULL;
    }
    return "of no known type";
}

static int apply(struct engine_config *config, const struct variable *var,
                 const char *value, char *err, size_t size)
{
    const char *why = assign(config, var, value && *value ? value : var->value);
    if (!why)
        return 0;

    struct text text = {err, size, 0};
    text_add(&text, "%s=", var->name);
    text_add_value(&text, value ? value : "");
    text_add(&text, ": %s; allowed: ", why);
    text_add_allowed(&text, var);
    errno = EINVAL;
    return -1;
}

/* What follows from several variables together. */
static void settle(struct engine_config *config)
{
    if (config->sync_debug)
        config->log_level = UTIL_LOG_DEBUG;
}

/* --- names --- */

static const struct variable *find_variable(const char *name, size_t len)
{
    for (size_t i = 0; i < NVARIABLES; i++)
        if (strlen(variables[i].name) == len && memcmp(variables[i].name, name, len) == 0)
            return &variables[i];
    return NULL;
}

static unsigned smallest(unsigned a, unsigned b, unsigned c)
{
    unsigned m = a < b ? a : b;
    return m < c ? m : c;
}

/* Letters to add, drop or change between two names (Levenshtein); case does not count. */
static unsigned distance(const char *a, const char *b)
{
    unsigned row[NAME_CAP + 1];
    size_t nb = strnlen(b, NAME_CAP);

    for (unsigned j = 0; j <= nb; j++)
        row[j] = j;
    for (unsigned i = 1; a[i - 1]; i++) {
        unsigned diagonal = row[0];
        row[0] = i;
        for (unsigned j = 1; j <= nb; j++) {
            unsigned above = row[j];
            row[j] = smallest(above + 1, row[j - 1] + 1,
                              diagonal + (upper(a[i - 1]) != upper(b[j - 1])));
            diagonal = above;
        }
    }
    return row[nb];
}

/* The known name that is most like `name`, or NULL. A third of its letters may be wrong; a
 * name that is only the beginning of a known one (DYAD_SESSION) counts as one letter wrong.
 */
static const char *nearest_name(const char *name)
{
    const char *best = NULL;
    unsigned least = UINT_MAX;
    size_t len = strlen(name + PREFIX_LEN);

    for (size_t i = 0; i < NVARIABLES; i++) {
        const char *known = variables[i].name + PREFIX_LEN;
        unsigned d = distance(name + PREFIX_LEN, known);
        if (len >= 3 && strncmp(known, name + PREFIX_LEN, len) == 0 && d > 1)
            d = 1;
        if (d < least && d <= (strlen(known) + 2) / 3) {
            least = d;
            best = variables[i].name;
        }
    }
    return best;
}

bool engine_config_unknown(char *const env[], size_t *pos, char *name, size_t size,
                           const char **nearest)
{
    for (; env && env[*pos]; ++*pos) {
        const char *entry = env[*pos];
        size_t len = strcspn(entry, "=");
        if (len <= PREFIX_LEN || strncmp(entry, PREFIX, PREFIX_LEN) != 0 ||
            find_variable(entry, len) ||
            (len == sizeof(BOOT_GUEST_OF) - 1 && strncmp(entry, BOOT_GUEST_OF, len) == 0))
            continue; /* the last is from one of our processes to another */

        char full[NAME_CAP];
        snprintf(full, sizeof(full), "%.*s", (int)(len < sizeof(full) ? len : sizeof(full)),
                 entry);
        snprintf(name, size, "%s", full);
        *nearest = nearest_name(full);
        ++*pos;
        return true;
    }
    return false;
}

/* --- reading --- */

int engine_config_read(struct engine_config *config, char *const env[], char *err,
                       size_t size)
{
    const char *values[NVARIABLES] = {NULL};

    memset(config, 0, sizeof(*config));
    for (; env && *env; env++) {
        if (strncmp(*env, PREFIX, PREFIX_LEN) != 0)
            continue;
        size_t len = strcspn(*env, "=");
        const struct variable *var = (*env)[len] ? find_variable(*env, len) : NULL;
        /* the first of several counts, as for getenv() */
        if (var && !values[var - variables])
            values[var - variables] = *env + len + 1;
    }
    /* In the table's order: DYAD_PATH before the two that go before it. */
    for (size_t i = 0; i < NVARIABLES; i++) {
        const char *value = values[i] && *values[i] ? values[i] : NULL;
        if (!value && !variables[i].value)
            continue; /* zeroed; or set by DYAD_PATH */
        if (apply(config, &variables[i], value, err, size) < 0)
            return -1;
    }
    settle(config);
    return 0;
}

int engine_config_set(struct engine_config *config, const char *name, const char *value,
                      char *err, size_t size)
{
    const struct variable *var = find_variable(name, strlen(name));

    if (!var) {
        struct text text = {err, size, 0};
        const char *nearest = NULL;
        if (strncmp(name, PREFIX, PREFIX_LEN) == 0)
            nearest = nearest_name(name);
        text_add_value(&text, name);
        text_add(&text, ": no variable of that name%s%s", nearest ? "; is it " : "",
                 nearest ? nearest : "");
        errno = EINVAL;
        return -1;
    }
    if (apply(config, var, value, err, size) < 0)
        return -1;
    settle(config);
    return 0;
}

/* --- help --- */

/* Fill lines of at most `width` columns. */
static void print_wrapped(FILE *out, const char *text, unsigned indent, unsigned width)
{
    unsigned column = 0;

    while (*text) {
        unsigned len = (unsigned)strcspn(text, " ");
        if (column && column + 1 + len > width) {
            fputc('\n', out);
            column = 0;
        }
        column += fprintf(out, "%*s%.*s", column ? 1 : (int)indent, "", (int)len, text);
        text += len;
        text += strspn(text, " ");
    }
    fputc('\n', out);
}

/* A line that begins with a dot or a quote would be a request; '-' would become a hyphen.
 */
static void print_troff(FILE *out, const char *text)
{
    if (*text == '.' || *text == '\'')
        fputs("\\&", out);
    for (; *text; text++) {
        if (*text == '\\')
            fputs("\\e", out);
        else if (*text == '-')
            fputs("\\-", out);
        else
            fputc(*text, out);
    }
    fputc('\n', out);
}

void engine_config_help(FILE *out, bool troff)
{
    for (size_t i = 0; i < NVARIABLES; i++) {
        const struct variable *var = &variables[i];
        char buf[256];
        struct text text = {buf, sizeof(buf), 0};

        text_add_allowed(&text, var);
        if (var->value)
            text_add(&text, ". Default: %s.", var->value);
        else
            text_add(&text, strstr(var->help, "Default:") ? "." : ". No default.");
        if (troff) {
            fprintf(out, ".TP\n.B %s\n", var->name);
            print_troff(out, var->help);
            fputs(".br\nValue: ", out);
            print_troff(out, buf);
        } else {
            fprintf(out, "%s%s\n", i ? "\n" : "", var->name);
            print_wrapped(out, var->help, 4, 78);
            fputs("    Value: ", out);
            print_wrapped(out, buf, 0, 1000);
        }
    }
}
