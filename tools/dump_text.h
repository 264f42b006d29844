/*
 * dump_text.h - text that grows, and the escaping of text that came from elsewhere
 */
#ifndef DYAD_TOOLS_DUMP_TEXT_H
#define DYAD_TOOLS_DUMP_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Begin with {0}; end with dump_text_take(), which also tells of failures before. */
struct dump_text {
    char *buf;
    size_t len, size;
    bool failed; /* no memory */
};

void dump_text_add(struct dump_text *text, const char *data, size_t len);
/* For short text: at most 255 bytes. */
void dump_text_printf(struct dump_text *text, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* With control characters, bytes that are no UTF-8, characters that turn the direction of
 * text, and backslashes escaped: fit for a terminal, and unambiguous. */
void dump_text_add_escaped(struct dump_text *text, const char *data, size_t len);

/* The text, malloc'ed, or NULL with errno ENOMEM. The buffer is not used any more. */
char *dump_text_take(struct dump_text *text);
/* Print it as a line, and begin anew. *failed: there was no memory for it. */
void dump_text_print_line(FILE *out, struct dump_text *text, bool *failed);

#endif
