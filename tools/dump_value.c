/*
 * dump_value.c - values of the document as text
 */
#include "dump_value.h"

#include <stdlib.h>
#include <string.h>

bool dump_has_rank(const json_t *array, json_int_t rank)
{
    for (size_t i = 0; i < json_array_size(array); i++)
        if (json_integer_value(json_array_get(array, i)) == rank)
            return true;
    return false;
}

void dump_add_seconds(struct dump_text *text, double seconds)
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

void dump_add_value(struct dump_text *text, const json_t *value)
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

void dump_add_list(struct dump_text *text, const json_t *array, const char *separator)
{
    if (!json_array_size(array))
        dump_text_printf(text, "-");
    for (size_t i = 0; i < json_array_size(array); i++) {
        if (i)
            dump_text_printf(text, "%s", separator);
        dump_add_value(text, json_array_get(array, i));
    }
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

void dump_add_upath(struct dump_text *text, const json_t *object)
{
    const json_t *plain = json_object_get(object, "upath");
    const char *hex = json_string_value(json_object_get(object, "upath_hex"));
    struct dump_text bytes = {0};

    if (json_is_string(plain) || !hex) {
        dump_add_value(text, plain);
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

void dump_add_version(struct dump_text *text, const json_t *version)
{
    dump_add_value(text, json_object_get(version, "counter"));
    dump_text_printf(text, ".");
    dump_add_value(text, json_object_get(version, "rank"));
    dump_text_printf(text, ".");
    dump_add_value(text, json_object_get(version, "incarnation"));
}

void dump_add_host(struct dump_text *text, const json_t *shard)
{
    const json_t *host = json_object_get(shard, "host");
    const char *name = json_string_value(host), *slash = name ? strrchr(name, '/') : NULL;
    size_t uuid = strlen("00000000-0000-0000-0000-000000000000");

    if (slash && slash > name && strspn(slash + 1, "0123456789abcdef-") == uuid &&
        strlen(slash + 1) == uuid)
        dump_text_add_escaped(text, name, (size_t)(slash - name));
    else
        dump_add_value(text, host);
}
