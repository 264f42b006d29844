/*
 * config/config_impl.h - private to the parts of the configuration
 */
#ifndef DYAD_CONFIG_CONFIG_IMPL_H
#define DYAD_CONFIG_CONFIG_IMPL_H

#include <stddef.h>
#include <stdint.h>

#include "config/config.h"

enum config_type {
    CONFIG_PATH,      /* const char *, absolute */
    CONFIG_PATH_BOTH, /* sets path_producer and path_consumer */
    CONFIG_STRING,    /* const char *, lo..hi bytes */
    CONFIG_BOOL,      /* bool */
    CONFIG_INT,       /* int64_t, lo..hi */
    CONFIG_BYTES,     /* int64_t, lo..hi, with K, M or G */
    CONFIG_SECONDS,   /* double, lo..hi, or one of the words */
    CONFIG_ENUM,      /* int: one of the words */
    CONFIG_BOOL_WORD, /* int: a boolean, or one of the words */
    CONFIG_DTL,       /* const char *: one of the words */
    CONFIG_GLOBS,     /* const char *: one of the words, or globs */
};

struct config_word {
    const char *text;
    int value;
};

struct config_variable {
    const char *name;
    enum config_type type;
    size_t offset;
    const char *value; /* the default, as text */
    double lo, hi;
    const struct config_word *words;
    const char *help;
};

/* ASCII only: strcasecmp() follows the locale, where 'i' and 'I' need not be a pair. */
static inline char config_upper(char c)
{
    return c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c;
}

/* config.c */
extern const struct config_variable config_variables[];
extern const size_t config_nvariables;

/* config_value.c: put value into *config. NULL, or what is wrong with it. */
const char *config_assign(struct engine_config *config, const struct config_variable *var,
                          const char *value);

/* config_text.c: text that ends where the buffer does. */
struct config_text {
    char *buf;
    size_t size, len;
};

void config_text_add(struct config_text *text, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* A value as the user typed it, made safe for a terminal and not longer than a line. */
void config_text_add_value(struct config_text *text, const char *value);
/* The values that var takes. */
void config_text_add_allowed(struct config_text *text, const struct config_variable *var);

#endif
