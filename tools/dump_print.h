/*
 * dump_print.h - printing the hash table for people
 *
 * Each function prints the document that dump_client_ask() made (see docs/dht-dump.md).
 * A value that is missing or of another type is shown as "-". Text from other processes
 * is
 * escaped: no control character reaches the terminal.
 */
#ifndef DYAD_TOOLS_DUMP_PRINT_H
#define DYAD_TOOLS_DUMP_PRINT_H

#include <stddef.h>
#include <stdio.h>

#include <jansson.h>

/* 0, or -1 with errno ENOMEM. */
int dump_print_shards(FILE *out, const json_t *document);
int dump_print_entries(FILE *out, const json_t *document);
int dump_print_waiting(FILE *out, const json_t *document);
int dump_print_key(FILE *out, const json_t *document);

/* One line per rank that did not answer; returns how many. */
size_t dump_print_unreachable(FILE *out, const json_t *document);
/* One line with the ranks that have ended and whose state is `state`, or nothing. */
void dump_print_ended(FILE *out, const json_t *document, const char *state);

#endif
