/*
 * dump_judge.h - the answers by name and rank, and whether they are right
 */
#ifndef DYAD_TOOLS_DUMP_JUDGE_H
#define DYAD_TOOLS_DUMP_JUDGE_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>
#include <uthash.h>

#include "dump_text.h"

struct dump_part {
    struct dump_part *next;
    json_int_t rank;
    const json_t *entry, *own; /* one of them, of a document */
};

struct dump_name {
    UT_hash_handle hh;
    struct dump_part *parts;
    bool pending;
    char text[]; /* "u" and the upath, or "x" and its bytes as hexadecimal digits */
};

struct dump_rank {
    UT_hash_handle hh;
    json_int_t rank;
    bool kept, checked; /* it answered the first, the second question */
    const char *ended;  /* it has, for good: "left" and so on, of a document; or NULL */
};

/* The answers about a name, and the judgement of them. */
struct dump_view {
    struct dump_name *names;
    struct dump_rank *ranks;
};

enum dump_verdict { RIGHT, WRONG, UNSETTLED };

/* A mismatch, and the ranks that it concerns. */
struct dump_finding {
    struct dump_text what;
    json_t *ranks;
};

/* Take what a document has of `flags` (NET_DUMP_*). It must live as long as the view. 0, or
 * -1: no memory. */
int dump_view_take(struct dump_view *view, const json_t *document, uint8_t flags);
void dump_view_free(struct dump_view *view);
/* WRONG: *f gets why. */
enum dump_verdict dump_judge(struct dump_view *view, const struct dump_name *name,
                             struct dump_finding *f);

#endif
