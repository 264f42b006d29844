/*
 * dump_print_key.c - all about one key
 */
#include "dump_print.h"

#include <stdbool.h>
#include <string.h>
#include <time.h>

#include "dump_text.h"
#include "dump_value.h"

#define TIMES 1e15 /* seconds that any calendar has */

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
        dump_add_value(text, json_object_get(waiter, "rank"));
        dump_text_printf(text, " for ");
        dump_add_seconds(text, json_number_value(json_object_get(waiter, "since")));
    }
}

static void add_writers(struct dump_text *text, const json_t *writers)
{
    for (size_t i = 0; i < json_array_size(writers); i++) {
        const json_t *writer = json_array_get(writers, i);
        dump_text_printf(text, "%srank ", i ? ", " : "; written by ");
        dump_add_value(text, json_object_get(writer, "rank"));
        if (json_is_true(json_object_get(writer, "dead")))
            dump_text_printf(text, " (which has died)");
    }
}

static void add_entry(struct dump_text *text, const json_t *entry)
{
    char when[64] = "-";
    const json_t *mtime = json_object_get(entry, "mtime");
    const json_t *mode = json_object_get(entry, "mode");
    double value = json_number_value(mtime);
    bool is_time = json_is_number(mtime) && value > -TIMES && value < TIMES;
    time_t seconds = is_time ? (time_t)value : 0;
    struct tm tm;

    if (is_time && localtime_r(&seconds, &tm))
        strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S %z", &tm);
    dump_add_value(text, json_object_get(entry, "state"));
    dump_text_printf(text, ", owner ");
    dump_add_value(text, json_object_get(entry, "owner"));
    if (json_is_true(json_object_get(entry, "taken_over"))) {
        dump_text_printf(text, " (taken over from rank ");
        dump_add_value(text, json_object_get(json_object_get(entry, "version"), "rank"));
        dump_text_printf(text, ")");
    }
    dump_text_printf(text, ", type ");
    dump_add_value(text, json_object_get(entry, "type"));
    dump_text_printf(text, ", size ");
    dump_add_value(text, json_object_get(entry, "size"));
    if (json_is_integer(mode))
        dump_text_printf(text, ", mode %llo", (unsigned long long)json_integer_value(mode));
    dump_text_printf(text, ", modified %s, version ", when);
    dump_add_version(text, json_object_get(entry, "version"));
    if (json_array_size(json_object_get(entry, "holders"))) {
        dump_text_printf(text, ", copies at ");
        dump_add_list(text, json_object_get(entry, "holders"), ",");
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
    add_writers(text, json_object_get(key, "writers"));
    add_waiters(text, json_object_get(key, "waiters"));
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
        dump_add_value(&text, json_object_get(wait, "pid"));
        dump_text_printf(&text, " of rank ");
        dump_add_value(&text, json_object_get(shard, "rank"));
        dump_text_printf(&text, " on ");
        dump_add_host(&text, shard);
        dump_text_printf(&text, " for ");
        dump_add_seconds(&text, json_number_value(json_object_get(wait, "since")));
        dump_text_printf(&text, ": ");
        dump_add_value(&text, json_object_get(wait, "reason"));
        dump_text_print_line(out, &text, failed);
    }
}

/* The same file, told of by a rank before that one. */
static bool is_told(const json_t *shards, size_t before, const json_t *file)
{
    for (size_t i = 0; i < before; i++) {
        const json_t *key = json_object_get(json_array_get(shards, i), "key");
        const json_t *files = json_object_get(key, "files");
        for (size_t k = 0; k < json_array_size(files); k++)
            if (same_member(json_array_get(files, k), file, "storage"))
                return true;
    }
    return false;
}

static void add_written(struct dump_text *text, const json_t *file)
{
    const json_t *all = json_object_get(file, "written");
    const json_t *here = json_object_get(file, "written_here");

    if (!json_is_object(all) || !dump_number(all, "ranges"))
        return;
    dump_text_printf(text, "; on record: ");
    dump_add_value(text, json_object_get(all, "bytes"));
    dump_text_printf(text, " bytes in ");
    dump_add_value(text, json_object_get(all, "ranges"));
    dump_text_printf(text, " ranges, of this node ");
    dump_add_value(text, json_object_get(here, "bytes"));
    dump_text_printf(text, " bytes");
}

/* The file as each node has it. */
static void print_files(FILE *out, const json_t *shards, size_t at, bool *failed)
{
    const json_t *shard = json_array_get(shards, at);
    const json_t *files = json_object_get(json_object_get(shard, "key"), "files");
    struct dump_text text = {0};

    for (size_t i = 0; i < json_array_size(files); i++) {
        const json_t *file = json_array_get(files, i);
        if (is_told(shards, at, file))
            continue;
        dump_text_printf(&text, "file: on ");
        dump_add_host(&text, shard);
        dump_text_printf(&text, ": ");
        dump_add_value(&text, json_object_get(file, "size"));
        dump_text_printf(&text, " bytes%s",
                         json_is_true(json_object_get(file, "superseded"))
                             ? ", older than what is published"
                             : "");
        if (json_is_integer(json_object_get(file, "writer"))) {
            dump_text_printf(&text, ", open for writing by pid ");
            dump_add_value(&text, json_object_get(file, "writer"));
        }
        add_written(&text, file);
        dump_text_print_line(out, &text, failed);
    }
}

static void add_lock(struct dump_text *text, const json_t *lock)
{
    const json_t *end = json_object_get(lock, "end");

    if (json_is_true(json_object_get(lock, "append"))) {
        dump_text_printf(text, "the right to append");
    } else {
        dump_text_printf(text, "bytes ");
        dump_add_value(text, json_object_get(lock, "begin"));
        if (json_is_integer(end))
            dump_text_printf(text, " to %lld", (long long)json_integer_value(end) - 1);
        else
            dump_text_printf(text, " to the end");
        dump_text_printf(text, ", to ");
        dump_add_value(text, json_object_get(lock, "type"));
    }
}

static void print_locks(FILE *out, const json_t *shard, bool *failed)
{
    const json_t *locks = json_object_get(json_object_get(shard, "key"), "locks");
    struct dump_text text = {0};

    for (size_t i = 0; i < json_array_size(locks); i++) {
        const json_t *lock = json_array_get(locks, i);
        dump_text_printf(&text, "lock: pid ");
        dump_add_value(&text, json_object_get(lock, "pid"));
        dump_text_printf(&text, " of rank ");
        dump_add_value(&text, json_object_get(shard, "rank"));
        dump_text_printf(&text, " on ");
        dump_add_host(&text, shard);
        if (json_is_true(json_object_get(lock, "waits"))) {
            dump_text_printf(&text, " has waited for ");
            dump_add_seconds(&text, json_number_value(json_object_get(lock, "since")));
            dump_text_printf(&text, " for ");
        } else {
            dump_text_printf(&text, " has ");
        }
        add_lock(&text, lock);
        if (json_is_integer(json_object_get(lock, "asks"))) {
            dump_text_printf(&text, ", asked of rank ");
            dump_add_value(&text, json_object_get(lock, "asks"));
        }
        dump_text_print_line(out, &text, failed);
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
    dump_add_upath(&text, key);
    dump_text_print_line(out, &text, &failed);
    for (size_t i = 0; i < json_array_size(bins); i++) {
        dump_text_printf(&text, "level %zu: hash ", i);
        dump_add_value(&text, json_array_get(hash, i));
        dump_text_printf(&text, ", bin ");
        dump_add_value(&text, json_array_get(bins, i));
        dump_text_printf(&text, " of ");
        dump_add_value(&text, json_object_get(shard, "bins"));
        dump_text_print_line(out, &text, &failed);
    }
    for (size_t i = 0; i < json_array_size(homes); i++) {
        json_int_t rank = json_integer_value(json_array_get(homes, i));
        const json_t *home = shard_of_rank(document, rank);
        dump_text_printf(&text, "home %zu: rank %" JSON_INTEGER_FORMAT, i, rank);
        if (home) {
            dump_text_printf(&text, " on ");
            dump_add_host(&text, home);
            dump_text_printf(&text, ": ");
            add_shard(&text, home);
        } else {
            dump_text_printf(&text, ": no answer");
        }
        dump_text_print_line(out, &text, &failed);
    }
    /* after a change of membership a rank may still keep what it is no home of any more */
    for (size_t i = 0; i < json_array_size(shards); i++) {
        const json_t *other = json_array_get(shards, i);
        json_int_t rank = json_integer_value(json_object_get(other, "rank"));
        if (!dump_has_rank(homes, rank) &&
            json_is_object(json_object_get(json_object_get(other, "key"), "entry"))) {
            dump_text_printf(&text, "also at rank %" JSON_INTEGER_FORMAT ": ", rank);
            add_shard(&text, other);
            dump_text_print_line(out, &text, &failed);
        }
        print_files(out, shards, i, &failed);
        print_locks(out, other, &failed);
        print_local_waits(out, other, key, &failed);
    }
    return failed ? -1 : 0;
}
