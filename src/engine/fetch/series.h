/*
 * engine/fetch/series.h - names of one directory that differ in one number: frame.0001, ...
 *
 * Pure arithmetic on names; any thread, one series by one thread at a time.
 */
#ifndef DYAD_ENGINE_FETCH_SERIES_H
#define DYAD_ENGINE_FETCH_SERIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* So many names with one stride are a series. */
#define SERIES_SURE 3

struct series {
    char *upath;    /* of the last name, malloc'ed; NULL: none yet */
    size_t pos;     /* of the number's first digit */
    unsigned width; /* of the number, filled up with zeros; 0: none is */
    uint64_t value; /* of the last name */
    int64_t stride;
    unsigned count; /* names in a row with this stride */
};

/* Begin with this name, in place of what was there. 0, or -1: it has no number in its last
 * component (EINVAL: nothing is changed), or ENOMEM (the series is empty). */
int series_begin(struct series *s, const char *upath);
void series_clear(struct series *s);
/* True if upath follows the last name by the stride: it is the last one now. */
bool series_step(struct series *s, const char *upath);
/* True if upath differs from the last name in one number: it is the last one now, with the
 * stride between them, and count 2. */
bool series_turn(struct series *s, const char *upath);
/* Move the last name to that value, which series_name() has named. */
void series_move(struct series *s, uint64_t value);
/* Write the name that is n strides behind the last one, and its value. False: the number
 * would be negative or too large, or the name does not fit. */
bool series_name(const struct series *s, unsigned n, char *to, size_t size,
                 uint64_t *value);

#endif
