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

#include "dump_text.h"
#include "dump_value.h"

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

static void cell_value(struct dump_text *text, const struct row *row, const char *key)
{
    dump_add_value(text, json_object_get(row->object, key));
}

static void cell_shard(struct dump_text *text, const struct row *row, const char *key)
{
    dump_add_value(text, json_object_get(row->shard, key));
}

static void cell_host(struct dump_text *text, const struct row *row, const char *key)
{
    (void)key;
    dump_add_host(text, row->shard);
}

static void cell_seconds(struct dump_text *text, const struct row *row, const char *key)
{
    const json_t *value = json_object_get(row->object, key);

    if (json_is_number(value))
        dump_add_seconds(text, json_number_value(value));
    else
        dump_text_printf(text, "-");
}

/* Zero is "no limit". */
static void cell_limit(struct dump_text *text, const struct row *row, const char *key)
{
    const json_t *value = json_object_get(row->object, key);

    if (json_is_number(value) && json_number_value(value) > 0)
        dump_add_seconds(text, json_number_value(value));
    else
        dump_text_printf(text, "-");
}

static void cell_list(struct dump_text *text, const struct row *row, const char *key)
{
    dump_add_list(text, json_object_get(row->object, key), ",");
}

static void cell_path(struct dump_text *text, const struct row *row, const char *key)
{
    dump_add_list(text, json_object_get(row->object, key), "/");
}

static void cell_count(struct dump_text *text, const struct row *row, const char *key)
{
    dump_text_printf(text, "%zu", json_array_size(json_object_get(row->object, key)));
}

static void cell_version(struct dump_text *text, const struct row *row, const char *key)
{
    dump_add_version(text, json_object_get(row->object, key));
}

/* "3 (from 1)": rank 1 published it, rank 3 has taken it over. */
static void cell_owner(struct dump_text *text, const struct row *row, const char *key)
{
    const json_t *version = json_object_get(row->object, "version");

    dump_add_value(text, json_object_get(row->object, key));
    if (json_is_true(json_object_get(row->object, "taken_over"))) {
        dump_text_printf(text, " (from ");
        dump_add_value(text, json_object_get(version, "rank"));
        dump_text_printf(text, ")");
    }
}

/* "64a1.3": rank 3 of that launch. */
static void cell_launch(struct dump_text *text, const struct row *row, const char *key)
{
    dump_add_value(text, json_object_get(row->object, key));
    dump_text_printf(text, ".");
    dump_add_value(text, json_object_get(row->object, "launch_rank"));
}

static void cell_upath(struct dump_text *text, const struct row *row, const char *key)
{
    (void)key;
    dump_add_upath(text, row->object);
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
        dump_add_value(&text, json_object_get(json_array_get(ranks, i), "rank"));
        dump_text_printf(&text, ": ");
        dump_add_value(&text, json_object_get(json_array_get(ranks, i), "error"));
        dump_text_print_line(out, &text, &failed);
    }
    return json_array_size(ranks);
}
