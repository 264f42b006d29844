/*
 * dump_judge.c - comparing the answers of all ranks about each name
 *
 * dump_check.c draws the conclusions.
 */
#include "dump_judge.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "dump_value.h"
#include "net/msg.h"

void dump_view_free(struct dump_view *view)
{
    struct dump_name *name, *ntmp;
    struct dump_rank *rank, *rtmp;

    HASH_ITER(hh, view->names, name, ntmp)
    {
        HASH_DEL(view->names, name);
        while (name->parts) {
            struct dump_part *part = name->parts;
            name->parts = part->next;
            free(part);
        }
        free(name);
    }
    HASH_ITER(hh, view->ranks, rank, rtmp)
    {
        HASH_DEL(view->ranks, rank);
        free(rank);
    }
}

static struct dump_rank *view_rank(struct dump_view *view, json_int_t number)
{
    struct dump_rank *rank;

    HASH_FIND(hh, view->ranks, &number, sizeof(number), rank);
    if (!rank && (rank = calloc(1, sizeof(*rank)))) {
        rank->rank = number;
        HASH_ADD(hh, view->ranks, rank, sizeof(rank->rank), rank);
        if (!rank->hh.tbl) {
            free(rank);
            return NULL;
        }
    }
    return rank;
}

static const struct dump_rank *find_rank(struct dump_view *view, json_int_t number)
{
    const struct dump_rank *rank;

    HASH_FIND(hh, view->ranks, &number, sizeof(number), rank);
    return rank;
}

/* It answered all that it was asked. */
static bool answered(struct dump_view *view, json_int_t number)
{
    const struct dump_rank *rank = find_rank(view, number);

    return rank && rank->kept && rank->checked;
}

/* The name of an object; NULL: it has none, or no memory. */
static struct dump_name *view_name(struct dump_view *view, const json_t *object)
{
    const char *plain = json_string_value(json_object_get(object, "upath"));
    const char *hex = json_string_value(json_object_get(object, "upath_hex"));
    struct dump_text text = {0};
    struct dump_name *name;
    size_t len;
    char *key;

    if (!plain && !hex)
        return NULL;
    dump_text_add(&text, plain ? "u" : "x", 1);
    dump_text_add(&text, plain ? plain : hex, strlen(plain ? plain : hex));
    if (!(key = dump_text_take(&text)))
        return NULL;
    len = strlen(key);
    HASH_FIND(hh, view->names, key, len, name);
    if (!name && (name = calloc(1, sizeof(*name) + len + 1))) {
        memcpy(name->text, key, len + 1);
        HASH_ADD_KEYPTR(hh, view->names, name->text, len, name);
        if (!name->hh.tbl) {
            free(name);
            name = NULL;
        }
    }
    free(key);
    return name;
}

/* 0, or -1 ENOMEM. */
static int view_add(struct dump_view *view, const json_t *shard, const json_t *entry,
                    const json_t *own)
{
    const json_t *state = json_object_get(entry, "state");
    struct dump_part *part;
    struct dump_name *name;

    if (entry &&
        strcmp(json_is_string(state) ? json_string_value(state) : "", "awaited") == 0)
        return 0;
    if (!(name = view_name(view, entry ? entry : own)) ||
        !(part = calloc(1, sizeof(*part)))) {
        errno = ENOMEM;
        return -1;
    }
    *part = (struct dump_part){name->parts, dump_number(shard, "rank"), entry, own};
    name->parts = part;
    name->pending |= json_is_true(json_object_get(own, "pending"));
    return 0;
}

static bool is_unreachable(const json_t *document, json_int_t rank)
{
    const json_t *list = json_object_get(document, "unreachable");

    for (size_t i = 0; i < json_array_size(list); i++)
        if (dump_number(json_array_get(list, i), "rank") == rank)
            return true;
    return false;
}

int dump_view_take(struct dump_view *view, const json_t *document, uint8_t flags)
{
    const json_t *shards = json_object_get(document, "shards");
    const json_t *ended = json_object_get(document, "ended");

    for (size_t i = 0; i < json_array_size(ended); i++) {
        const json_t *one = json_array_get(ended, i);
        struct dump_rank *rank = view_rank(view, dump_number(one, "rank"));
        if (!rank)
            return -1;
        rank->ended = json_string_value(json_object_get(one, "state"));
    }

    for (size_t i = 0; i < json_array_size(shards); i++) {
        const json_t *shard = json_array_get(shards, i);
        const json_t *entries = json_object_get(shard, "entries");
        const json_t *own = json_object_get(shard, "own");
        const json_t *key = json_object_get(shard, "key");
        const json_t *entry = json_object_get(key, "entry");
        struct dump_rank *rank = view_rank(view, dump_number(shard, "rank"));
        bool whole = !is_unreachable(document, dump_number(shard, "rank"));
        int rc = 0;

        if (!rank)
            return -1;
        if (flags & (NET_DUMP_ENTRIES | NET_DUMP_KEY))
            rank->kept = whole;
        if (flags & NET_DUMP_CHECK) /* one that knows no check gives no "own" */
            rank->checked = whole && json_is_array(own);
        for (size_t j = 0; rc == 0 && j < json_array_size(entries); j++)
            rc = view_add(view, shard, json_array_get(entries, j), NULL);
        for (size_t j = 0; rc == 0 && j < json_array_size(own); j++)
            rc = view_add(view, shard, NULL, json_array_get(own, j));
        if (rc == 0 && json_is_object(entry))
            rc = view_add(view, shard, entry, NULL);
        if (rc == 0 && json_is_true(json_object_get(key, "pending"))) {
            struct dump_name *name = view_name(view, key);
            rc = name ? 0 : -1;
            if (name)
                name->pending = true;
        }
        if (rc < 0)
            return -1;
    }
    return 0;
}

static const json_t *part_version(const struct dump_part *part)
{
    return json_object_get(part->entry ? part->entry : part->own, "version");
}

static int compare(const json_t *a, const json_t *b)
{
    static const char *const keys[] = {"counter", "rank", "incarnation"};

    for (size_t i = 0; i < 3; i++) {
        json_int_t x = dump_number(a, keys[i]), y = dump_number(b, keys[i]);
        if (x != y)
            return x < y ? -1 : 1;
    }
    return 0;
}

static const json_t *part_homes(const struct dump_part *part)
{
    return json_object_get(part->entry ? part->entry : part->own, "homes");
}

/* True if the part counts. A rank that is no home any more may still keep an old entry.
 */
static bool part_counts(const struct dump_part *part)
{
    return part->own || dump_has_rank(part_homes(part), part->rank);
}

static const struct dump_part *find_part(const struct dump_name *name, json_int_t rank,
                                         bool own)
{
    for (const struct dump_part *p = name->parts; p; p = p->next)
        if (p->rank == rank && (p->own != NULL) == own)
            return p;
    return NULL;
}

static void add_version(struct dump_text *text, const json_t *version)
{
    dump_text_printf(
        text, "%" JSON_INTEGER_FORMAT ".%" JSON_INTEGER_FORMAT ".%" JSON_INTEGER_FORMAT,
        dump_number(version, "counter"), dump_number(version, "rank"),
        dump_number(version, "incarnation"));
}

static void concern(struct dump_finding *f, json_int_t rank)
{
    if (f->ranks && !dump_has_rank(f->ranks, rank))
        json_array_append_new(f->ranks, json_integer(rank));
}

static bool home_is_wrong(const struct dump_name *name, const struct dump_part *newest,
                          json_int_t home, struct dump_finding *f)
{
    const struct dump_part *at = find_part(name, home, false);

    if (at && compare(part_version(at), part_version(newest)) == 0)
        return false;
    dump_text_printf(&f->what, "version ");
    add_version(&f->what, part_version(newest));
    dump_text_printf(&f->what,
                     " of rank %" JSON_INTEGER_FORMAT
                     " is not at its home, rank %" JSON_INTEGER_FORMAT ", which has ",
                     newest->rank, home);
    if (at)
        add_version(&f->what, part_version(at));
    else
        dump_text_printf(&f->what, "nothing");
    concern(f, newest->rank);
    concern(f, home);
    return true;
}

static bool owner_is_wrong(struct dump_view *view, const struct dump_name *name,
                           const struct dump_part *entry, struct dump_finding *f)
{
    json_int_t owner = dump_number(entry->entry, "owner");
    const struct dump_part *own = find_part(name, owner, true);
    const char *fault = json_string_value(json_object_get(own ? own->own : NULL, "fault"));

    concern(f, owner);
    if (!answered(view, owner)) {
        const struct dump_rank *rank = find_rank(view, owner);
        const char *ended = rank ? rank->ended : NULL;
        dump_text_printf(&f->what, "rank %" JSON_INTEGER_FORMAT ", its owner, %s", owner,
                         !ended                       ? "does not answer"
                         : strcmp(ended, "left") == 0 ? "has left, and nobody serves it"
                         : strcmp(ended, "dead") == 0 ? "has died, and nobody serves it"
                                                      : "has ended, and nobody serves it");
    } else if (!own || compare(part_version(own), part_version(entry)) != 0) {
        dump_text_printf(&f->what, "rank %" JSON_INTEGER_FORMAT ", its owner, has ", owner);
        if (own) {
            dump_text_printf(&f->what, "version ");
            add_version(&f->what, part_version(own));
            dump_text_printf(&f->what, " in its journal");
        } else {
            dump_text_printf(&f->what, "no record of it in its journal");
        }
        dump_text_printf(&f->what, "; rank %" JSON_INTEGER_FORMAT ", a home, has ",
                         entry->rank);
        add_version(&f->what, part_version(entry));
        concern(f, entry->rank);
    } else if (fault) {
        dump_text_printf(&f->what, "rank %" JSON_INTEGER_FORMAT ", its owner: it ", owner);
        dump_text_add_escaped(&f->what, fault, strlen(fault));
    } else {
        return false;
    }
    return true;
}

/* Of equal ones that of the lower rank, so that all rounds name the same. */
static bool is_newer(const struct dump_part *part, const struct dump_part *than)
{
    int order = than ? compare(part_version(part), part_version(than)) : 1;
    return order > 0 || (order == 0 && part->rank < than->rank);
}

enum dump_verdict dump_judge(struct dump_view *view, const struct dump_name *name,
                             struct dump_finding *f)
{
    const struct dump_part *newest = NULL, *entry = NULL;
    const char *state;
    bool published;

    if (name->pending)
        return UNSETTLED;
    for (const struct dump_part *p = name->parts; p; p = p->next) {
        if (!part_counts(p))
            continue;
        if (is_newer(p, newest))
            newest = p;
        if (p->entry && is_newer(p, entry))
            entry = p;
    }
    if (!newest)
        return RIGHT;
    state = json_string_value(json_object_get(entry ? entry->entry : NULL, "state"));
    published = state && strcmp(state, "published") == 0;
    /* Nobody is left who would bring it to a new home: that is no news then. */
    if (published && !answered(view, dump_number(entry->entry, "owner")))
        return owner_is_wrong(view, name, entry, f) ? WRONG : RIGHT;
    for (const struct dump_part *p = name->parts; p; p = p->next) {
        const json_t *homes = part_homes(p);
        if (!part_counts(p) || compare(part_version(p), part_version(newest)) != 0)
            continue;
        for (size_t i = 0; i < json_array_size(homes); i++) {
            json_int_t home = json_integer_value(json_array_get(homes, i));
            if (answered(view, home) && home_is_wrong(name, newest, home, f))
                return WRONG;
        }
    }
    return published && owner_is_wrong(view, name, entry, f) ? WRONG : RIGHT;
}
