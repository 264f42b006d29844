/*
 * config_value.c - what the text of a variable means
 *
 * Numbers are parsed by hand: strtod() follows the host program's locale, in which "1.5"
 * may be no number.
 */
#include <limits.h>
#include <string.h>

#include "config/config_impl.h"

static const struct config_word bool_words[] = {
    {"1", 1},   {"on", 1}, {"yes", 1},   {"true", 1}, {"0", 0},
    {"off", 0}, {"no", 0}, {"false", 0}, {NULL, 0},
};

static bool same_word(const char *a, const char *b)
{
    while (*a && config_upper(*a) == config_upper(*b))
        a++, b++;
    return !*a && !*b;
}

static const struct config_word *find_word(const struct config_word *words,
                                           const char *value)
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

static const char *parse_int(const struct config_variable *var, const char *value,
                             int64_t *out)
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

static const char *parse_bytes(const struct config_variable *var, const char *value,
                               int64_t *out)
{
    static const struct config_word units[] = {{"", 0},     {"K", 10},   {"M", 20},
                                               {"G", 30},   {"KiB", 10}, {"MiB", 20},
                                               {"GiB", 30}, {NULL, 0}};
    const char *p = value;
    int64_t n;

    if (!parse_digits(&p, &n))
        return "not a number of bytes";
    const struct config_word *unit = find_word(units, p);
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

static const char *parse_seconds(const struct config_variable *var, const char *value,
                                 double *out)
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

static const char *check_string(const struct config_variable *var, const char *value)
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

const char *config_assign(struct engine_config *config, const struct config_variable *var,
                          const char *value)
{
    void *member = (char *)config + var->offset;
    const char *why = NULL;
    const struct config_word *word;

    switch (var->type) {
    case CONFIG_PATH:
    case CONFIG_PATH_BOTH:
        if (value && (why = check_path(value)))
            return why;
        *(const char **)member = value;
        if (var->type == CONFIG_PATH_BOTH)
            config->path_consumer = value;
        return NULL;
    case CONFIG_STRING:
        if (value && (why = check_string(var, value)))
            return why;
        *(const char **)member = value;
        return NULL;
    case CONFIG_BOOL:
        if (!(word = find_word(bool_words, value)))
            return "not a boolean";
        *(bool *)member = word->value;
        return NULL;
    case CONFIG_BOOL_WORD:
        if (!(word = find_word(var->words, value)) &&
            !(word = find_word(bool_words, value)))
            return "not one of the words";
        *(int *)member = word->value;
        return NULL;
    case CONFIG_INT:
        return parse_int(var, value, member);
    case CONFIG_BYTES:
        return parse_bytes(var, value, member);
    case CONFIG_SECONDS:
        if ((word = find_word(var->words, value))) {
            *(double *)member = word->value;
            return NULL;
        }
        return parse_seconds(var, value, member);
    case CONFIG_ENUM:
        if (!(word = find_word(var->words, value)))
            return "not one of the words";
        *(int *)member = word->value;
        return NULL;
    case CONFIG_DTL:
        if (!(word = find_word(var->words, value)))
            return "data move over UCX only here";
        *(const char **)member = word->text;
        return NULL;
    case CONFIG_GLOBS:
        if (value && (word = find_word(var->words, value)))
            value = word->text;
        else if (value && find_word(bool_words, value))
            return "neither one of the words nor a pattern";
        else if (value && (why = check_globs(value)))
            return why;
        *(const char **)member = value;
        return NULL;
    }
    return "of no known type";
}
