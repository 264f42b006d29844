/*
 * dump_check.c - ask all ranks, and ask again for what looks wrong
 *
 * The first pass has two questions: what do you keep (NET_DUMP_ENTRIES), and what have
 * you published and is it on your disk (NET_DUMP_CHECK). It only tells which names are
 * suspicious. Each of these is asked for alone, in rounds (NET_DUMP_KEY |
 * NET_DUMP_CHECK): a round begins when the one before has been answered by all, and what
 * several rounds show in the same way is wrong.
 *
 * What could go wrong: ranks answer at different times, and in between files are
 * published. confirm() says why a publish that is under way is not taken for a loss. No
 * clock is involved.
 */
#include "dump_check.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "dump_judge.h"
#include "dump_text.h"
#include "dump_value.h"
#include "net/msg.h"

#define SAME_ROUNDS   4
#define ROUNDS_MAX    60   /* then it changes all the time, and is not judged */
#define CONFIRMED_MAX 1000 /* names that are asked for alone */

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

static void finding_clear(struct dump_finding *f)
{
    free(dump_text_take(&f->what));
    f->what = (struct dump_text){0};
    json_array_clear(f->ranks);
}

/* One round. -1: errno. */
static int round_once(dump_check_ask_fn ask, void *arg, const char *upath,
                      struct dump_finding *f, char **seen)
{
    const uint8_t flags = NET_DUMP_KEY | NET_DUMP_CHECK;
    json_t *document = ask(arg, flags, upath);
    struct dump_view view = {0};
    int verdict = RIGHT;

    if (!document) {
        errno = ENODATA;
        return -1;
    }
    finding_clear(f);
    if (!(*seen = picture(document)) || dump_view_take(&view, document, flags) < 0) {
        errno = ENOMEM;
        verdict = -1;
    } else if (view.names) {
        verdict = (int)dump_judge(&view, view.names, f);
    }
    dump_view_free(&view);
    json_decref(document);
    return verdict;
}

/* Two rounds that show the same are proof, as far as publishes go. A publish that is
 * under way is seen as "pending" at its owner, or, if the owner had answered before it
 * began, as a version at the owner in the next round that is not the one of this round.
 * If the owner says in the first round that version V is published and nothing is
 * pending, then all homes had acknowledged V before the second round began, and a home
 * without V in that round has lost it.
 *
 * SAME_ROUNDS is more than two because of what is not one step for the owner: between a
 * program's unlink() or chmod() and the message that notifies the member of it there is
 * no mark. */
static int confirm(dump_check_ask_fn ask, void *arg, const char *upath,
                   struct dump_finding *f)
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

static int report(json_t *list, const struct dump_name *name, struct dump_finding *f)
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

static int by_text(const struct dump_name *a, const struct dump_name *b)
{
    return strcmp(a->text, b->text);
}

json_t *dump_check(dump_check_ask_fn ask, void *arg)
{
    json_t *kept = ask(arg, NET_DUMP_ENTRIES, NULL);
    json_t *own = kept ? ask(arg, NET_DUMP_CHECK, NULL) : NULL;
    json_t *mismatches = json_array(), *result = NULL;
    struct dump_finding f = {.ranks = json_array()};
    json_int_t unsettled = 0, unconfirmed = 0, asked = 0;
    struct dump_view view = {0};
    struct dump_name *name, *tmp;

    if (!kept || !own) {
        errno = ENODATA;
        goto free_all;
    }
    if (!f.ranks || !mismatches || dump_view_take(&view, kept, NET_DUMP_ENTRIES) < 0 ||
        dump_view_take(&view, own, NET_DUMP_CHECK) < 0) {
        errno = ENOMEM;
        goto free_all;
    }
    HASH_SORT(view.names, by_text);
    HASH_ITER(hh, view.names, name, tmp)
    {
        enum dump_verdict first = dump_judge(&view, name, &f);
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
    dump_view_free(&view);
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
            dump_number(result, "checked"), json_array_size(list));
    if (dump_number(result, "unconfirmed"))
        fprintf(out,
                ", %" JSON_INTEGER_FORMAT " more look wrong and were not looked at again",
                dump_number(result, "unconfirmed"));
    if (dump_number(result, "unsettled"))
        fprintf(out, ", %" JSON_INTEGER_FORMAT " were being published all the time",
                dump_number(result, "unsettled"));
    fputc('\n', out);
    return 0;
}
