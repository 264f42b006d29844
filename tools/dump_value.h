/*
 * dump_value.h - values of the document as text
 *
 * What is missing or of another type is "-".
 */
#ifndef DYAD_TOOLS_DUMP_VALUE_H
#define DYAD_TOOLS_DUMP_VALUE_H

#include <stdbool.h>

#include <jansson.h>

#include "dump_text.h"

/* 0: there is none. */
static inline json_int_t dump_number(const json_t *object, const char *key)
{
    return json_integer_value(json_object_get(object, key));
}

bool dump_has_rank(const json_t *array, json_int_t rank);
void dump_add_seconds(struct dump_text *text, double seconds);
void dump_add_value(struct dump_text *text, const json_t *value);
void dump_add_list(struct dump_text *text, const json_t *array, const char *separator);
/* A name that is no UTF-8 comes as hexadecimal digits. */
void dump_add_upath(struct dump_text *text, const json_t *object);
void dump_add_version(struct dump_text *text, const json_t *version);
/* Of a shard. "host/boot id", where the node has no other name: the boot id tells a person
 * nothing. */
void dump_add_host(struct dump_text *text, const json_t *shard);

#endif
