/*
 * dump_print.c - tables with aligned columns, out of JSON
 *
 * A table is a list of columns, each of which says where in an object its text comes from;
 * the cells are collected first, because the widths are known only at the end. Names come
 * last in a row: they may be long, and nothing has to be aligned behind them.
 */
#include "dump_print.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "dump_text.h"

/* --- cells --- */

struct row { /* what a cell can be made of */
    const json_t *shard, *object;
};

typedef void (*cell_fn)(struct dump_text *text, const struct row *row, const char *key);

struct column {
    const char *heading;
    const char *key;
    cell_fn fn;
    bool left; /* aligned left; numbers go to the right */
};

static void add_seconds(struct dump_text *text, double seconds)
{
    if (seconds < 0)
        seconds = 0;
    if (seconds < 100)
        dump_text_printf(text, "%.1fs", seconds);
    else if (seconds < 86400)
        dump_text_printf(text, "%d:%02d:%02d", (int)seconds / 3600, (int)seconds / 60 % 60,
                         (int)seconds % 60);
    else
        dump_text_printf(text, "%.1fd", seconds / 86400);
}

static void add_value(struct dump_text *text, const json_t *value)
{
    if (json_is_integer(value))
        dump_text_printf(text, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    else if (json_is_real(value))
        dump_text_printf(text, "%.6g", json_real_value(value));
    else if (json_is_string(value) && json_string_length(value))
        dump_text_add_escaped(text, json_string_value(value), json_string_length(value));
    else if (json_is_boolean(value))
        dump_text_printf(text, json_is_true(value) ? "yes" : "no");
    else
        dump_text_printf(text, "-");
}

static void add_list(struct dump_text *text, const json_t *array, const char *separator)
{
    if (!json_array_size(array))
        dump_text_printf(text, "-");
    for (size_t i = 0; i < json_array_size(array); i++) {
        if (i)
            dump_text_printf(text, "%s", separator);
        add_value(text, json_array_get(array, i));
    }
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* A name that is no UTF-8 comes as hexadecimal digits. */
static void add_upath(struct dump_text *text, const json_t *object)
{
    const json_t *plain = json_object_get(object, "upath");
    const char *hex = json_string_value(json_object_get(object, "upath_hex"));
    struct dump_text bytes = {0};

    if (json_is_string(plain) || !hex) {
        add_value(text, plain);
        return;
    }
    for (; hex[0] && hex[1]; hex += 2) {
        int high = hex_digit(hex[0]), low = hex_digit(hex[1]);
        if (high < 0 || low < 0)
            break;
        dump_text_add(&bytes, (char[]){(char)(high << 4 | low)}, 1);
    }
    char *data = dump_text_take(&bytes);
    if (data)
        dump_text_add_escaped(text, data, bytes.len);
    else
        text->failed = true;
    free(data);
}

static void add_version(struct dump_text *text, const json_t *version)
{
    add_value(text, json_object_get(version, "counter"));
    dump_text_printf(text, ".");
    add_value(text, json_object_get(version, "rank"));
    dump_text_printf(text, ".");
    add_value(text, json_object_get(version, "incarnation"));
}

static void cell_value(struct dump_text *text, const struct row *row, const char *key)
{
    add_value(text, json_object_get(row->object, key));
}

static void cell_shard(struct dump_text *text, const struct row *row, const char *key)
{
    add_value(text, json_object_get(row->shard, key));
}

/* "host/boot id", where the node has no other name: the boot id tells a person nothing. */
static void add_host(struct dump_text *text, const json_t *shard)
{
    const json_t *host = json_object_get(shard, "host");
    const char *name = json_string_value(host), *slash = name ? strrchr(name, '/') : NULL;
    size_t uuid = strlen("00000000-0000-0000-0000-000000000000");

    if (slash && slash > name && strspn(slash + 1, "0123456789abcdef-") == uuid &&
        strlen(slash + 1) == uuid)
        dump_text_add_escaped(text, name, (size_t)(slash - name));
    else
        add_value(text, host);
}

static void cell_host(struct dump_text *text, const struct row *row, const char *key)
{
    (void)key;
    add_host(text, row->shard);
}

static void cell_seconds(struct dump_text *text, const struct row *row, const char *key)
{
    const json_t *value = json_object_get(row->object, key);

    if (json_is_number(value))
        add_seconds(text, json_number_value(value));
    else
        dump_text_printf(text, "-");
}

/* Zero is "no limit". */
static void cell_limit(struct dump_text *text, const struct row *row, const char *key)
{
    const json_t *value = json_object_get(row->object, key);

    if (json_is_number(value) && json_number_value(value) > 0)
        add_seconds(text, json_number_value(value));
    else
        dump_text_printf(text, "-");
}

static void cell_list(struct dump_text *text, const struct row *row, const char *key)
{
    add_list(text, json_object_get(row->object, key), ",");
}

static void cell_path(struct dump_text *text, const struct row *row, const char *key)
{
    add_list(text, json_object_get(row->object, key), "/");
}

static void cell_count(struct dump_text *text, const struct row *row, const char *key)
{
    dump_text_printf(text, "%zu", json_array_size(json_object_get(row->object, key)));
}

static void cell_version(struct dump_text *text, const struct row *row, const char *key)
{
    add_version(text, json_object_get(row->object, key));
}

/* "3 (from 1)": rank 1 published it, rank 3 has taken it over. */
static void cell_owner(struct dump_text *text, const struct row *row, const char *key)
{
    const json_t *version = json_object_get(row->object, "version");

    add_value(text, json_object_get(row->object, key));
    if (json_is_true(json_object_get(row->object, "adopted"))) {
        dump_text_printf(text, " (from ");
        add_value(text, json_object_get(version, "rank"));
        dump_text_printf(text, ")");
    }
}

/* "64a1.3": rank 3 of that launch. */
static void cell_launch(struct dump_text *text, const struct row *row, const char *key)
{
    add_value(text, json_object_get(row->object, key));
    dump_text_printf(text, ".");
    add_value(text, json_object_get(row->object, "launch_rank"));
}

static void cell_upath(struct dump_text *text, const struct row *row, const char *key)
{
    (void)key;
    add_upath(text, row->object);
}

/* --- tables --- */

struct table {
    const struct column *columns;
    size_t ncolumns;
    char **cells;
    size_t ncells, room;
};

/* 0 or -1 ENOMEM. */
static int table_add(struct table *table, const struct row *row)
{
    for (size_t i = 0; i < table->ncolumns; i++) {
        struct dump_text text = {0};

        if (table->ncells == table->room) {
            size_t room = table->room ? 2 * table->room : 64;
            char **grown = realloc(table->cells, room * sizeof(*grown));
            if (!grown) {
                errno = ENOMEM;
                return -1;
            }
            table->cells = grown;
            table->room = room;
        }
        if (row)
            table->columns[i].fn(&text, row, table->columns[i].key);
        else
            dump_text_printf(&text, "%s", table->columns[i].heading);
        char *cell = dump_text_take(&text);
        if (!cell)
            return -1;
        table->cells[table->ncells++] = cell;
    }
    return 0;
}

/* Characters, not bytes: what counts for alignment of host names and the like. */
static size_t display_width(const char *cell)
{
    size_t n = 0;

    for (; *cell; cell++)
        n += (*cell & 0xc0) != 0x80;
    return n;
}

#define COLUMNS_MAX 24

static void table_print(const struct table *table, FILE *out)
{
    size_t width[COLUMNS_MAX] = {0};

    for (size_t i = 0; i < table->ncells; i++) {
        size_t own = display_width(table->cells[i]), c = i % table->ncolumns;
        width[c] = own > width[c] ? own : width[c];
    }
    for (size_t i = 0; i < table->ncells; i++) {
        size_t own = display_width(table->cells[i]), c = i % table->ncolumns;
        const struct column *column = &table->columns[c];
        bool last = c == table->ncolumns - 1;
        int pad = (int)(width[c] - own);

        if (!column->left)
            fprintf(out, "%*s%s", pad, "", table->cells[i]);
        else
            fprintf(out, "%s%*s", table->cells[i], last ? 0 : pad, "");
        fputs(last ? "\n" : "  ", out);
    }
}

static void table_free(struct table *table)
{
    for (size_t i = 0; i < table->ncells; i++)
        free(table->cells[i]);
    free(table->cells);
}

/* A table with a row for each shard (key NULL), or each object in the shards' array of that
 * name. */
static int print_rows(FILE *out, const json_t *document, const char *key,
                      const struct column *columns, size_t ncolumns)
{
    struct table table = {.columns = columns, .ncolumns = ncolumns};
    const json_t *shards = json_object_get(document, "shards");
    int rc = table_add(&table, NULL);

    for (size_t i = 0; rc == 0 && i < json_array_size(shards); i++) {
        struct row row = {.shard = json_array_get(shards, i)};
        const json_t *objects = json_object_get(row.shard, key ? key : "");
        row.object = row.shard;
        if (!key)
            rc = table_add(&table, &row);
        for (size_t j = 0; key && rc == 0 && j < json_array_size(objects); j++) {
            row.object = json_array_get(objects, j);
            rc = table_add(&table, &row);
        }
    }
    if (rc == 0)
        table_print(&table, out);
    table_free(&table);
    return rc;
}

#define PRINT_ROWS(out, document, key, columns)                                            \
    ({                                                                                     \
        _Static_assert(sizeof(columns) / sizeof((columns)[0]) <= COLUMNS_MAX, "too wide"); \
        print_rows(out, document, key, columns, sizeof(columns) / sizeof((columns)[0]));   \
    })

int dump_print_shards(FILE *out, const json_t *document)
{
    const json_t *shards = json_object_get(document, "shards");
    static const struct column columns[] = {
        {"LAUNCH", "launch", cell_launch, true}, /* only where there are several */
        {"RANK", "rank", cell_value, false},
        {"HOST", NULL, cell_host, true},
        {"PID", "pid", cell_value, false},
        {"INC", "incarnation", cell_value, false},
        {"STATE", "state", cell_value, true},
        {"DEPTH", "depth", cell_value, false},
        {"BINS", "bins", cell_value, false},
        {"ENTRIES", "entries_count", cell_value, false},
        {"TOMBS", "tombstones", cell_value, false},
        {"OCCUPIED", "occupied_bins", cell_value, false},
        {"DEEPEST", "deepest_chain", cell_value, false},
        {"WAITERS", "waiters", cell_value, false},
        {"LOOKUPS", "lookups", cell_value, false},
        {"PUBLISHED", "published", cell_value, false},
        {"SERVED", "bytes_served", cell_value, false},
        {"FETCHES", "fetches", cell_value, false},
        {"FETCHED", "bytes_fetched", cell_value, false},
        {"LIVE", "live_ranks", cell_value, false},
        {"UPTIME", "uptime", cell_seconds, false},
    };

    _Static_assert(sizeof(columns) / sizeof(columns[0]) <= COLUMNS_MAX, "too wide");
    size_t skip = 1;
    for (size_t i = 0; i < json_array_size(shards); i++)
        if (json_object_get(json_array_get(shards, i), "launch"))
            skip = 0;
    return print_rows(out, document, NULL, columns + skip,
                      sizeof(columns) / sizeof(columns[0]) - skip);
}

int dump_print_entries(FILE *out, const json_t *document)
{
    static const struct column columns[] = {
        {"RANK", "rank", cell_shard, false},
        {"HASH", "hash", cell_path, true},
        {"BINS", "bins", cell_path, true},
        {"HOMES", "homes", cell_list, true},
        {"OWNER", "owner", cell_owner, true},
        {"TYPE", "type", cell_value, true},
        {"SIZE", "size", cell_value, false},
        {"VERSION", "version", cell_version, true},
        {"STATE", "state", cell_value, true},
        {"HOLDERS", "holders", cell_list, true},
        {"WAITERS", "waiters", cell_count, false},
        {"NAME", NULL, cell_upath, true},
    };

    return PRINT_ROWS(out, document, "entries", columns);
}

int dump_print_waiting(FILE *out, const json_t *document)
{
    static const struct column columns[] = {
        {"RANK", "rank", cell_shard, false},       {"HOST", NULL, cell_host, true},
        {"PID", "pid", cell_value, false},         {"SINCE", "since", cell_seconds, false},
        {"TIMEOUT", "timeout", cell_limit, false}, {"HOME", "home", cell_value, false},
        {"REASON", "reason", cell_value, true},    {"NAME", NULL, cell_upath, true},
    };

    return PRINT_ROWS(out, document, "waiting", columns);
}

/* --- one key --- */

static void print_line(FILE *out, struct dump_text *text, bool *failed)
{
    char *line = dump_text_take(text);

    if (line)
        fprintf(out, "%s\n", line);
    else
        *failed = true;
    free(line);
    *text = (struct dump_text){0};
}

static const json_t *shard_of_rank(const json_t *document, json_int_t rank)
{
    const json_t *shards = json_object_get(document, "shards");

    for (size_t i = 0; i < json_array_size(shards); i++) {
        const json_t *shard = json_array_get(shards, i);
        if (json_integer_value(json_object_get(shard, "rank")) == rank)
            return shard;
    }
    return NULL;
}

static void add_waiters(struct dump_text *text, const json_t *waiters)
{
    for (size_t i = 0; i < json_array_size(waiters); i++) {
        const json_t *waiter = json_array_get(waiters, i);
        dump_text_printf(text, "%srank ", i ? ", " : "; waited for by ");
        add_value(text, json_object_get(waiter, "rank"));
        dump_text_printf(text, " for ");
        add_seconds(text, json_number_value(json_object_get(waiter, "since")));
    }
}

static void add_entry(struct dump_text *text, const json_t *entry)
{
    char when[64] = "-";
    const json_t *mtime = json_object_get(entry, "mtime");
    const json_t *mode = json_object_get(entry, "mode");
    time_t seconds = (time_t)json_number_value(mtime);
    struct tm tm;

    if (json_is_number(mtime) && localtime_r(&seconds, &tm))
        strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S %z", &tm);
    add_value(text, json_object_get(entry, "state"));
    dump_text_printf(text, ", owner ");
    add_value(text, json_object_get(entry, "owner"));
    if (json_is_true(json_object_get(entry, "adopted"))) {
        dump_text_printf(text, " (adopted from rank ");
        add_value(text, json_object_get(json_object_get(entry, "version"), "rank"));
        dump_text_printf(text, ")");
    }
    dump_text_printf(text, ", type ");
    add_value(text, json_object_get(entry, "type"));
    dump_text_printf(text, ", size ");
    add_value(text, json_object_get(entry, "size"));
    if (json_is_integer(mode))
        dump_text_printf(text, ", mode %llo", (unsigned long long)json_integer_value(mode));
    dump_text_printf(text, ", modified %s, version ", when);
    add_version(text, json_object_get(entry, "version"));
    if (json_array_size(json_object_get(entry, "holders"))) {
        dump_text_printf(text, ", copies at ");
        add_list(text, json_object_get(entry, "holders"), ",");
    }
}

/* What one shard has of the key. */
static void add_shard(struct dump_text *text, const json_t *shard)
{
    const json_t *key = json_object_get(shard, "key");
    const json_t *entry = json_object_get(key, "entry");

    if (json_is_object(entry))
        add_entry(text, entry);
    else
        dump_text_printf(text, "not published");
    add_waiters(text, json_object_get(key, "waiters"));
}

static bool has_rank(const json_t *array, json_int_t rank)
{
    for (size_t i = 0; i < json_array_size(array); i++)
        if (json_integer_value(json_array_get(array, i)) == rank)
            return true;
    return false;
}

/* The key's own figures are the same in every shard that answered. */
static const json_t *any_key(const json_t *shards, const json_t **shard)
{
    for (size_t i = 0; i < json_array_size(shards); i++) {
        *shard = json_array_get(shards, i);
        const json_t *key = json_object_get(*shard, "key");
        if (json_is_object(key))
            return key;
    }
    return NULL;
}

/* json_equal() says no of two that are missing. */
static bool same_member(const json_t *a, const json_t *b, const char *key)
{
    const json_t *left = json_object_get(a, key), *right = json_object_get(b, key);

    return left == right || json_equal(left, right);
}

static void print_local_waits(FILE *out, const json_t *shard, const json_t *key,
                              bool *failed)
{
    const json_t *waiting = json_object_get(shard, "waiting");
    struct dump_text text = {0};

    for (size_t i = 0; i < json_array_size(waiting); i++) {
        const json_t *wait = json_array_get(waiting, i);
        if (!same_member(wait, key, "upath") || !same_member(wait, key, "upath_hex"))
            continue;
        dump_text_printf(&text, "waiting: pid ");
        add_value(&text, json_object_get(wait, "pid"));
        dump_text_printf(&text, " of rank ");
        add_value(&text, json_object_get(shard, "rank"));
        dump_text_printf(&text, " on ");
        add_host(&text, shard);
        dump_text_printf(&text, " for ");
        add_seconds(&text, json_number_value(json_object_get(wait, "since")));
        dump_text_printf(&text, ": ");
        add_value(&text, json_object_get(wait, "reason"));
        print_line(out, &text, failed);
    }
}

int dump_print_key(FILE *out, const json_t *document)
{
    const json_t *shards = json_object_get(document, "shards"), *shard = NULL;
    const json_t *key = any_key(shards, &shard);
    const json_t *hash = json_object_get(key, "hash"), *bins = json_object_get(key, "bins");
    const json_t *homes = json_object_get(key, "homes");
    struct dump_text text = {0};
    bool failed = false;

    if (!key) {
        fprintf(out, "no shard explained the key\n");
        return 0;
    }
    dump_text_printf(&text, "name: ");
    add_upath(&text, key);
    print_line(out, &text, &failed);
    for (size_t i = 0; i < json_array_size(bins); i++) {
        dump_text_printf(&text, "level %zu: hash ", i);
        add_value(&text, json_array_get(hash, i));
        dump_text_printf(&text, ", bin ");
        add_value(&text, json_array_get(bins, i));
        dump_text_printf(&text, " of ");
        add_value(&text, json_object_get(shard, "bins"));
        print_line(out, &text, &failed);
    }
    for (size_t i = 0; i < json_array_size(homes); i++) {
        json_int_t rank = json_integer_value(json_array_get(homes, i));
        const json_t *home = shard_of_rank(document, rank);
        dump_text_printf(&text, "home %zu: rank %" JSON_INTEGER_FORMAT, i, rank);
        if (home) {
            dump_text_printf(&text, " on ");
            add_host(&text, home);
            dump_text_printf(&text, ": ");
            add_shard(&text, home);
        } else {
            dump_text_printf(&text, ": no answer");
        }
        print_line(out, &text, &failed);
    }
    /* after a change of membership a rank may still keep what it is no home of any more */
    for (size_t i = 0; i < json_array_size(shards); i++) {
        const json_t *other = json_array_get(shards, i);
        json_int_t rank = json_integer_value(json_object_get(other, "rank"));
        if (!has_rank(homes, rank) &&
            json_is_object(json_object_get(json_object_get(other, "key"), "entry"))) {
            dump_text_printf(&text, "also at rank %" JSON_INTEGER_FORMAT ": ", rank);
            add_shard(&text, other);
            print_line(out, &text, &failed);
        }
        print_local_waits(out, other, key, &failed);
    }
    return failed ? -1 : 0;
}

void dump_print_ended(FILE *out, const json_t *document, const char *state)
{
    const json_t *ended = json_object_get(document, "ended");
    json_int_t first = -1, last = -1;
    bool any = false;

    for (size_t i = 0; i <= json_array_size(ended); i++) {
        const json_t *one = json_array_get(ended, i); /* NULL: the end */
        const char *its = json_string_value(json_object_get(one, "state"));
        json_int_t rank = json_integer_value(json_object_get(one, "rank"));
        if (one && (!its || strcmp(its, state) != 0))
            continue;
        if (one && first >= 0 && rank == last + 1) {
            last = rank;
            continue;
        }
        if (first >= 0) {
            if (any)
                fputs(", ", out);
            else
                fprintf(out, "%s: rank ", state);
            fprintf(out, "%" JSON_INTEGER_FORMAT, first);
            if (last > first)
                fprintf(out, "-%" JSON_INTEGER_FORMAT, last);
            any = true;
        }
        first = last = rank;
    }
    if (any)
        fputc('\n', out);
}

size_t dump_print_unreachable(FILE *out, const json_t *document)
{
    const json_t *ranks = json_object_get(document, "unreachable");
    bool failed = false;

    for (size_t i = 0; i < json_array_size(ranks); i++) {
        struct dump_text text = {0};
        dump_text_printf(&text, "rank ");
        add_value(&text, json_object_get(json_array_get(ranks, i), "rank"));
        dump_text_printf(&text, ": ");
        add_value(&text, json_object_get(json_array_get(ranks, i), "error"));
        print_line(out, &text, &failed);
    }
    return json_array_size(ranks);
}
