/*
 * dump_check.c - what all ranks say of each name, put side by side
 *
 * The first pass has two questions, answered by ranks at different times: what do you keep
 * (NET_DUMP_ENTRIES), and what have you published and is it on your disk (NET_DUMP_CHECK).
 * In between files are published, so it only tells which names are suspicious. Each of
 * these is asked for alone, in rounds (NET_DUMP_KEY | NET_DUMP_CHECK): a round begins when
 * the one before has been answered by all.
 *
 * Two rounds that show the same are proof, as far as publishes go. A publish that is under
 * way is seen as "pending" at its owner, or, if the owner had answered before it began, as
 * a version at the owner in the next round that is not the one of this round. If the owner
 * says in the first round that version V is published and nothing is pending, then all
 * homes had acknowledged V before the second round began, and a home without V in that
 * round has lost it. No clock is involved; SAME_ROUNDS more than two are for what is not
 * one step for the owner: between a program's unlink() or chmod() and the message that
 * tells the member of it there is no mark.
 */
#include "dump_check.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <uthash.h>

#include "dump_text.h"
#include "net/msg.h"

#define SAME_ROUNDS   4
#define ROUNDS_MAX    60   /* then it changes all the time, and is not judged */
#define CONFIRMED_MAX 1000 /* names that are asked for alone */

struct part {
    struct part *next;
    json_int_t rank;
    const json_t *entry, *own; /* one of them, of a document */
};

struct name {
    UT_hash_handle hh;
    struct part *parts;
    bool pending;
    char text[]; /* "u" and the upath, or "x" and its bytes as hexadecimal digits */
};

struct rank {
    UT_hash_handle hh;
    json_int_t rank;
    bool kept, checked; /* it answered the first, the second question */
    const char *ended;  /* it has, for good: "left" and so on, of a document; or NULL */
};

/* What was answered, and what can be said of it. */
struct view {
    struct name *names;
    struct rank *ranks;
};

enum verdict { RIGHT, WRONG, UNSETTLED };

static void view_free(struct view *view)
{
    struct name *name, *ntmp;
    struct rank *rank, *rtmp;

    HASH_ITER(hh, view->names, name, ntmp)
    {
        HASH_DEL(view->names, name);
        while (name->parts) {
            struct part *part = name->parts;
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

static json_int_t number(const json_t *object, const char *key)
{
    return json_integer_value(json_object_get(object, key));
}

static struct rank *view_rank(struct view *view, json_int_t number)
{
    struct rank *rank;

    HASH_FIND(hh, view->ranks, &number, sizeof(number), rank);
    if (!rank && (rank = calloc(1, sizeof(*rank)))) {
        rank->rank = number;
        HASH_ADD(hh, view->ranks, rank, sizeof(rank->rank), rank);
    }
    return rank;
}

static const struct rank *find_rank(struct view *view, json_int_t number)
{
    const struct rank *rank;

    HASH_FIND(hh, view->ranks, &number, sizeof(number), rank);
    return rank;
}

/* It answered all that it was asked. */
static bool answered(struct view *view, json_int_t number)
{
    const struct rank *rank = find_rank(view, number);

    return rank && rank->kept && rank->checked;
}

/* The name of an object; NULL: it has none, or no memory. */
static struct name *view_name(struct view *view, const json_t *object)
{
    const char *plain = json_string_value(json_object_get(object, "upath"));
    const char *hex = json_string_value(json_object_get(object, "upath_hex"));
    struct dump_text text = {0};
    struct name *name;
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
    }
    free(key);
    return name;
}

/* 0, or -1 ENOMEM. */
static int view_add(struct view *view, const json_t *shard, const json_t *entry,
                    const json_t *own)
{
    const json_t *state = json_object_get(entry, "state");
    struct part *part;
    struct name *name;

    if (entry &&
        strcmp(json_is_string(state) ? json_string_value(state) : "", "awaited") == 0)
        return 0;
    if (!(name = view_name(view, entry ? entry : own)) ||
        !(part = calloc(1, sizeof(*part)))) {
        errno = ENOMEM;
        return -1;
    }
    *part = (struct part){name->parts, number(shard, "rank"), entry, own};
    name->parts = part;
    name->pending |= json_is_true(json_object_get(own, "pending"));
    return 0;
}

static bool is_unreachable(const json_t *document, json_int_t rank)
{
    const json_t *list = json_object_get(document, "unreachable");

    for (size_t i = 0; i < json_array_size(list); i++)
        if (number(json_array_get(list, i), "rank") == rank)
            return true;
    return false;
}

/* Take what a document has of `flags`. It must live as long as the view. */
static int view_take(struct view *view, const json_t *document, uint8_t flags)
{
    const json_t *shards = json_object_get(document, "shards");
    const json_t *ended = json_object_get(document, "ended");

    for (size_t i = 0; i < json_array_size(ended); i++) {
        const json_t *one = json_array_get(ended, i);
        struct rank *rank = view_rank(view, number(one, "rank"));
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
        struct rank *rank = view_rank(view, number(shard, "rank"));
        bool whole = !is_unreachable(document, number(shard, "rank"));
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
            struct name *name = view_name(view, key);
            rc = name ? 0 : -1;
            if (name)
                name->pending = true;
        }
        if (rc < 0)
            return -1;
    }
    return 0;
}

/* --- the judgement of one name --- */

static const json_t *part_version(const struct part *part)
{
    return json_object_get(part->entry ? part->entry : part->own, "version");
}

static int compare(const json_t *a, const json_t *b)
{
    static const char *const keys[] = {"counter", "rank", "incarnation"};

    for (size_t i = 0; i < 3; i++) {
        json_int_t x = number(a, keys[i]), y = number(b, keys[i]);
        if (x != y)
            return x < y ? -1 : 1;
    }
    return 0;
}

static const json_t *part_homes(const struct part *part)
{
    return json_object_get(part->entry ? part->entry : part->own, "homes");
}

static bool has_rank(const json_t *array, json_int_t rank)
{
    for (size_t i = 0; i < json_array_size(array); i++)
        if (json_integer_value(json_array_get(array, i)) == rank)
            return true;
    return false;
}

/* Does it count? What a rank keeps that is no home any more is left over. */
static bool part_counts(const struct part *part)
{
    return part->own || has_rank(part_homes(part), part->rank);
}

static const struct part *find_part(const struct name *name, json_int_t rank, bool own)
{
    for (const struct part *p = name->parts; p; p = p->next)
        if (p->rank == rank && (p->own != NULL) == own)
            return p;
    return NULL;
}

static void add_version(struct dump_text *text, const json_t *version)
{
    dump_text_printf(
        text, "%" JSON_INTEGER_FORMAT ".%" JSON_INTEGER_FORMAT ".%" JSON_INTEGER_FORMAT,
        number(version, "counter"), number(version, "rank"),
        number(version, "incarnation"));
}

/* What is wrong, and whom it concerns. */
struct finding {
    struct dump_text what;
    json_t *ranks;
};

static void concern(struct finding *f, json_int_t rank)
{
    if (f->ranks && !has_rank(f->ranks, rank))
        json_array_append_new(f->ranks, json_integer(rank));
}

static bool home_is_wrong(const struct name *name, const struct part *newest,
                          json_int_t home, struct finding *f)
{
    const struct part *at = find_part(name, home, false);

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

static bool owner_is_wrong(struct view *view, const struct name *name,
                           const struct part *entry, struct finding *f)
{
    json_int_t owner = number(entry->entry, "owner");
    const struct part *own = find_part(name, owner, true);
    const char *fault = json_string_value(json_object_get(own ? own->own : NULL, "fault"));

    concern(f, owner);
    if (!answered(view, owner)) {
        const struct rank *rank = find_rank(view, owner);
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
static bool is_newer(const struct part *part, const struct part *than)
{
    int order = than ? compare(part_version(part), part_version(than)) : 1;
    return order > 0 || (order == 0 && part->rank < than->rank);
}

static enum verdict judge(struct view *view, const struct name *name, struct finding *f)
{
    const struct part *newest = NULL, *entry = NULL;
    const char *state;
    bool published;

    if (name->pending)
        return UNSETTLED;
    for (const struct part *p = name->parts; p; p = p->next) {
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
    if (published && !answered(view, number(entry->entry, "owner")))
        return owner_is_wrong(view, name, entry, f) ? WRONG : RIGHT;
    for (const struct part *p = name->parts; p; p = p->next) {
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

/* --- once more, by name --- */

static int digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The upath itself; malloc'ed or NULL. */
static char *name_upath(const char *text)
{
    size_t n = 0;
    char *upath;

    if (text[0] == 'u')
        return strdup(text + 1);
    if (!(upath = malloc(strlen(text) / 2 + 1)))
        return NULL;
    for (const char *p = text + 1; p[0] && p[1]; p += 2)
        upath[n++] = (char)(digit(p[0]) << 4 | digit(p[1]));
    upath[n] = '\0';
    return upath;
}

/* What a round has shown: all parts in the order of ranks, as text. */
static char *picture(const json_t *document)
{
    const json_t *shards = json_object_get(document, "shards");
    json_t *all = json_array();
    char *text;

    for (size_t i = 0; i < json_array_size(shards); i++) {
        const json_t *shard = json_array_get(shards, i);
        json_t *entry = json_object_get(json_object_get(shard, "key"), "entry");
        json_array_append_new(
            all, json_pack("[O?, O?, O?, O?]", json_object_get(shard, "rank"),
                           json_object_get(entry, "version"),
                           json_object_get(entry, "homes"), json_object_get(shard, "own")));
    }
    text = json_dumps(all, JSON_COMPACT | JSON_SORT_KEYS);
    json_decref(all);
    return text;
}

static void finding_clear(struct finding *f)
{
    free(dump_text_take(&f->what));
    f->what = (struct dump_text){0};
    json_array_clear(f->ranks);
}

/* One round. -1: errno. */
static int round_once(dump_check_ask_fn ask, void *arg, const char *upath,
                      struct finding *f, char **seen)
{
    const uint8_t flags = NET_DUMP_KEY | NET_DUMP_CHECK;
    json_t *document = ask(arg, flags, upath);
    struct view view = {0};
    int verdict = RIGHT;

    if (!document) {
        errno = ENODATA;
        return -1;
    }
    finding_clear(f);
    if (!(*seen = picture(document)) || view_take(&view, document, flags) < 0) {
        errno = ENOMEM;
        verdict = -1;
    } else if (view.names) {
        verdict = (int)judge(&view, view.names, f);
    }
    view_free(&view);
    json_decref(document);
    return verdict;
}

static int confirm(dump_check_ask_fn ask, void *arg, const char *upath, struct finding *f)
{
    char *before = NULL, *seen = NULL;
    int verdict = UNSETTLED, same = 0;

    for (int i = 0; i < ROUNDS_MAX && same < SAME_ROUNDS; i++) {
        verdict = round_once(ask, arg, upath, f, &seen);
        if (verdict < 0 || verdict == RIGHT)
            break;
        same = verdict == WRONG && before && strcmp(before, seen) == 0 ? same + 1 : 0;
        free(before);
        before = seen;
        seen = NULL;
    }
    free(before);
    free(seen);
    return verdict == WRONG && same < SAME_ROUNDS ? UNSETTLED : verdict;
}

static int report(json_t *list, const struct name *name, struct finding *f)
{
    char *what = dump_text_take(&f->what);
    json_t *o =
        what ? json_pack("{s:s, s:o, s:s}", name->text[0] == 'u' ? "upath" : "upath_hex",
                         name->text + 1, "ranks", json_deep_copy(f->ranks), "what", what)
             : NULL;

    free(what);
    f->what = (struct dump_text){0};
    return json_array_append_new(list, o);
}

static int by_text(const struct name *a, const struct name *b)
{
    return strcmp(a->text, b->text);
}

json_t *dump_check(dump_check_ask_fn ask, void *arg)
{
    json_t *kept = ask(arg, NET_DUMP_ENTRIES, NULL);
    json_t *own = kept ? ask(arg, NET_DUMP_CHECK, NULL) : NULL;
    json_t *mismatches = json_array(), *result = NULL;
    struct finding f = {.ranks = json_array()};
    json_int_t unsettled = 0, unconfirmed = 0, asked = 0;
    struct view view = {0};
    struct name *name, *tmp;

    if (!kept || !own) {
        errno = ENODATA;
        goto free_all;
    }
    if (!f.ranks || !mismatches || view_take(&view, kept, NET_DUMP_ENTRIES) < 0 ||
        view_take(&view, own, NET_DUMP_CHECK) < 0) {
        errno = ENOMEM;
        goto free_all;
    }
    HASH_SORT(view.names, by_text);
    HASH_ITER(hh, view.names, name, tmp)
    {
        enum verdict first = judge(&view, name, &f);
        char *upath;
        int verdict;

        finding_clear(&f);
        if (first == RIGHT)
            continue;
        if (asked++ >= CONFIRMED_MAX) {
            unconfirmed++;
            continue;
        }
        if (!(upath = name_upath(name->text)))
            goto free_all;
        verdict = confirm(ask, arg, upath, &f);
        free(upath);
        if (verdict < 0 || (verdict == WRONG && report(mismatches, name, &f) < 0))
            goto free_all;
        unsettled += verdict == UNSETTLED;
    }
    result = json_pack(
        "{s:I, s:O, s:I, s:I, s:O?, s:O?}", "checked", (json_int_t)HASH_COUNT(view.names),
        "mismatches", mismatches, "unsettled", unsettled, "unconfirmed", unconfirmed,
        "unreachable",
        json_object_get(json_array_size(json_object_get(own, "unreachable")) ? own : kept,
                        "unreachable"),
        "ended", json_object_get(own, "ended"));
    if (!result)
        errno = ENOMEM;
free_all:
    finding_clear(&f);
    view_free(&view);
    json_decref(f.ranks);
    json_decref(mismatches);
    json_decref(kept);
    json_decref(own);
    return result;
}

int dump_check_print(FILE *out, const json_t *result)
{
    const json_t *list = json_object_get(result, "mismatches");

    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *o = json_array_get(list, i);
        const char *plain = json_string_value(json_object_get(o, "upath"));
        const char *hex = json_string_value(json_object_get(o, "upath_hex"));
        const char *what = json_string_value(json_object_get(o, "what"));
        struct dump_text text = {0};
        char *line, *bytes = NULL;

        if (hex) { /* as name->text */
            dump_text_printf(&text, "x");
            dump_text_add(&text, hex, strlen(hex));
            line = dump_text_take(&text);
            bytes = line ? name_upath(line) : NULL;
            free(line);
            if (!bytes)
                return -1;
            plain = bytes;
            text = (struct dump_text){0};
        }
        dump_text_add_escaped(&text, plain, strlen(plain));
        free(bytes);
        dump_text_printf(&text, ": ");
        dump_text_add(&text, what, strlen(what));
        if (!(line = dump_text_take(&text)))
            return -1;
        fprintf(out, "%s\n", line);
        free(line);
    }
    fprintf(out, "%" JSON_INTEGER_FORMAT " names were checked, %zu are wrong",
            number(result, "checked"), json_array_size(list));
    if (number(result, "unconfirmed"))
        fprintf(out,
                ", %" JSON_INTEGER_FORMAT " more look wrong and were not looked at again",
                number(result, "unconfirmed"));
    if (number(result, "unsettled"))
        fprintf(out, ", %" JSON_INTEGER_FORMAT " were being published all the time",
                number(result, "unsettled"));
    fputc('\n', out);
    return 0;
}
