/*
 * config_text.c - what people are told of the variables: allowed values, help, man page
 *
 * Nothing here follows the locale.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "config/config_impl.h"

void config_text_add(struct config_text *text, const char *fmt, ...)
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

void config_text_add_value(struct config_text *text, const char *value)
{
    for (unsigned n = 0; *value; value++, n++) {
        unsigned char c = (unsigned char)*value;
        if (n == 80) {
            config_text_add(text, "...");
            break;
        }
        if (c < 0x20 || c == 0x7f)
            config_text_add(text, "\\x%02x", c);
        else
            config_text_add(text, "%c", c);
    }
}

static void text_add_bytes(struct config_text *text, double bytes)
{
    int64_t n = (int64_t)bytes;

    if (n && n % (1 << 20) == 0)
        config_text_add(text, "%" PRId64 "M", n >> 20);
    else if (n && n % (1 << 10) == 0)
        config_text_add(text, "%" PRId64 "K", n >> 10);
    else
        config_text_add(text, "%" PRId64, n);
}

/* One decimal at most: the table has no finer bounds. Not by printf, whose decimal point
 * is the locale's. */
static void text_add_seconds(struct config_text *text, double seconds)
{
    int64_t tenths = (int64_t)(seconds * 10 + 0.5);

    config_text_add(text, "%" PRId64, tenths / 10);
    if (tenths % 10)
        config_text_add(text, ".%" PRId64, tenths % 10);
}

static void text_add_words(struct config_text *text, const struct config_word *words,
                           const char *last)
{
    for (const struct config_word *w = words; w && w->text; w++)
        config_text_add(text, "%s%s",
                        w == words            ? ""
                        : !w[1].text && !last ? " or "
                                              : ", ",
                        w->text);
    if (last)
        config_text_add(text, "%s%s", words ? " or " : "", last);
}

void config_text_add_allowed(struct config_text *text, const struct config_variable *var)
{
    switch (var->type) {
    case CONFIG_PATH:
    case CONFIG_PATH_BOTH:
        config_text_add(text, "an absolute path other than /");
        break;
    case CONFIG_STRING:
        config_text_add(text, "%.0f to %.0f characters, none of them a control character",
                        var->lo, var->hi);
        break;
    case CONFIG_BOOL:
        config_text_add(text, "1, on, yes, true, or 0, off, no, false");
        break;
    case CONFIG_BOOL_WORD:
        text_add_words(text, var->words, NULL);
        config_text_add(text, ", or 1, on, yes, true, or 0, off, no, false");
        break;
    case CONFIG_INT:
        config_text_add(text, "a whole number from %.0f to %.0f", var->lo, var->hi);
        break;
    case CONFIG_BYTES:
        config_text_add(text, "bytes from ");
        text_add_bytes(text, var->lo);
        config_text_add(text, " to ");
        text_add_bytes(text, var->hi);
        config_text_add(text, ", with K, M or G for powers of 1024");
        break;
    case CONFIG_SECONDS:
        text_add_words(text, var->words, var->words ? "seconds from " : NULL);
        config_text_add(text, "%s", var->words ? "" : "seconds from ");
        text_add_seconds(text, var->lo);
        config_text_add(text, " to ");
        text_add_seconds(text, var->hi);
        break;
    case CONFIG_ENUM:
    case CONFIG_DTL:
        text_add_words(text, var->words, NULL);
        break;
    case CONFIG_GLOBS:
        text_add_words(text, var->words, "patterns of relative paths, separated by ':'");
        break;
    }
}

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
    for (size_t i = 0; i < config_nvariables; i++) {
        const struct config_variable *var = &config_variables[i];
        char buf[256];
        struct config_text text = {buf, sizeof(buf), 0};

        config_text_add_allowed(&text, var);
        if (var->value)
            config_text_add(&text, ". Default: %s.", var->value);
        else
            config_text_add(&text, strstr(var->help, "Default:") ? "." : ". No default.");
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
