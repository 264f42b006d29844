/*
 * dump_text.c - the buffer grows by doubling; UTF-8 is decoded strictly (RFC 3629)
 */
#include "dump_text.h"

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void dump_text_add(struct dump_text *text, const char *data, size_t len)
{
    if (text->len + len + 1 > text->size) {
        size_t size = 2 * (text->len + len + 1);
        char *grown = text->failed ? NULL : realloc(text->buf, size);
        if (!grown) {
            text->failed = true;
            return;
        }
        text->buf = grown;
        text->size = size;
    }
    memcpy(text->buf + text->len, data, len);
    text->len += len;
    text->buf[text->len] = '\0';
}

void dump_text_printf(struct dump_text *text, const char *fmt, ...)
{
    char buf[256];
    va_list ap;

    va_start(ap, fmt);
    int n = vsnprintf(buf, sizeof(buf), fmt, ap);
    va_end(ap);
    if (n > 0)
        dump_text_add(text, buf, (size_t)n < sizeof(buf) ? (size_t)n : sizeof(buf) - 1);
}

char *dump_text_take(struct dump_text *text)
{
    if (!text->buf && !text->failed)
        dump_text_add(text, "", 0);
    if (!text->failed)
        return text->buf;
    free(text->buf);
    errno = ENOMEM;
    return NULL;
}

/* Bytes of the UTF-8 character at p, its code in *code; 0: there is none. */
static size_t utf8_next(const unsigned char *p, size_t len, uint32_t *code)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t n = *p < 0x80   ? 1
               : *p < 0xc2 ? 0
               : *p < 0xe0 ? 2
               : *p < 0xf0 ? 3
               : *p < 0xf5 ? 4
                           : 0;

    if (n == 0 || n > len)
        return 0;
    *code = n == 1 ? *p : *p & (0xffu >> (n + 1));
    for (size_t i = 1; i < n; i++) {
        if ((p[i] & 0xc0) != 0x80)
            return 0;
        *code = *code << 6 | (p[i] & 0x3f);
    }
    if (*code < least[n] || (*code >= 0xd800 && *code < 0xe000) || *code > 0x10ffff)
        return 0;
    return n;
}

/* C1 controls, line separators, and what turns the direction of text: a name must not be
 * able to make its row look like another. */
static bool is_harmful(uint32_t code)
{
    return (code >= 0x80 && code < 0xa0) || code == 0x061c || code == 0x200e ||
           code == 0x200f || (code >= 0x2028 && code <= 0x202e) ||
           (code >= 0x2066 && code <= 0x2069) || code == 0xfeff;
}

void dump_text_add_escaped(struct dump_text *text, const char *data, size_t len)
{
    const unsigned char *p = (const unsigned char *)data, *end = p + len;

    while (p < end) {
        uint32_t code = 0;
        size_t n = utf8_next(p, (size_t)(end - p), &code);
        if (n == 0) {
            dump_text_printf(text, "\\x%02x", *p++);
            continue;
        }
        if (code == '\n')
            dump_text_printf(text, "\\n");
        else if (code == '\t')
            dump_text_printf(text, "\\t");
        else if (code == '\\')
            dump_text_printf(text, "\\\\");
        else if (code < 0x20 || code == 0x7f)
            dump_text_printf(text, "\\x%02x", code);
        else if (is_harmful(code))
            dump_text_printf(text, "\\u%04x", code);
        else
            dump_text_add(text, (const char *)p, n);
        p += n;
    }
}

void dump_text_print_line(FILE *out, struct dump_text *text, bool *failed)
{
    char *line = dump_text_take(text);

    if (line)
        fprintf(out, "%s\n", line);
    else
        *failed = true;
    free(line);
    *text = (struct dump_text){0};
}
