/*
 * series.c - names of one directory that differ in one number
 *
 * Which of several numbers in a name counts is known from two names: the one in which they
 * differ. Leading zeros fix its width, for names of another width are of another series
 * (9, 10 goes on from 8; 09, 10 from 08; 9 is nothing to 08).
 */
#include "engine/fetch/series.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DIGITS_MAX 18 /* fit a uint64_t with room for a stride */
#define VALUE_MAX  999999999999999999ULL

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static size_t digits(const char *text)
{
    size_t n = 0;

    while (is_digit(text[n]))
        n++;
    return n;
}

static bool is_padded(const char *number, size_t n)
{
    return n > 1 && number[0] == '0';
}

static uint64_t value_of(const char *number, size_t n)
{
    uint64_t value = 0;

    for (size_t i = 0; i < n; i++)
        value = 10 * value + (uint64_t)(number[i] - '0');
    return value;
}

/* The one number, of the last component, in which the names differ: where it begins.
 * SIZE_MAX: they are equal, or differ otherwise. */
static size_t differ(const char *a, const char *b)
{
    size_t pos = 0, na, nb;

    while (a[pos] && a[pos] == b[pos])
        pos++;
    if (a[pos] == b[pos])
        return SIZE_MAX;
    while (pos > 0 && is_digit(a[pos - 1]))
        pos--;
    na = digits(a + pos);
    nb = digits(b + pos);
    if (na == 0 || nb == 0 || na > DIGITS_MAX || nb > DIGITS_MAX ||
        strcmp(a + pos + na, b + pos + nb) != 0 || strchr(a + pos, '/') ||
        (na != nb && (is_padded(a + pos, na) || is_padded(b + pos, nb))))
        return SIZE_MAX;
    return pos;
}

static bool set_last(struct series *s, const char *upath)
{
    char *copy = strdup(upath);

    if (!copy)
        return false;
    free(s->upath);
    s->upath = copy;
    return true;
}

int series_begin(struct series *s, const char *upath)
{
    const char *name = strrchr(upath, '/');

    if (!strpbrk(name ? name : upath, "0123456789")) {
        errno = EINVAL;
        return -1;
    }
    series_clear(s);
    if (!set_last(s, upath)) {
        errno = ENOMEM;
        return -1;
    }
    s->count = 1;
    return 0;
}

void series_clear(struct series *s)
{
    free(s->upath);
    *s = (struct series){0};
}

bool series_name(const struct series *s, unsigned n, char *to, size_t size, uint64_t *value)
{
    size_t behind;
    int64_t v;
    int len;

    if (s->count < 2 || __builtin_mul_overflow(s->stride, (int64_t)n, &v) ||
        v > (int64_t)VALUE_MAX || v < -(int64_t)VALUE_MAX)
        return false;
    v += (int64_t)s->value;
    if (v < 0 || v > (int64_t)VALUE_MAX)
        return false;
    behind = s->pos + digits(s->upath + s->pos);
    len = snprintf(to, size, "%.*s%0*llu%s", (int)s->pos, s->upath, (int)s->width,
                   (unsigned long long)v, s->upath + behind);
    *value = (uint64_t)v;
    return len > 0 && (size_t)len < size;
}

void series_move(struct series *s, uint64_t value)
{
    size_t size = strlen(s->upath) + DIGITS_MAX + 2;
    size_t behind = s->pos + digits(s->upath + s->pos);
    char *name = malloc(size);

    if (!name) { /* it ends here; the next names begin it anew */
        series_clear(s);
        return;
    }
    snprintf(name, size, "%.*s%0*llu%s", (int)s->pos, s->upath, (int)s->width,
             (unsigned long long)value, s->upath + behind);
    free(s->upath);
    s->upath = name;
    s->value = value;
    s->count++;
}

bool series_step(struct series *s, const char *upath)
{
    uint64_t value;
    char *name;
    bool is_next;
    size_t size;

    if (s->count < 2)
        return false;
    size = strlen(s->upath) + DIGITS_MAX + 2;
    name = malloc(size);
    is_next = name && series_name(s, 1, name, size, &value) && strcmp(name, upath) == 0;
    free(name);
    if (is_next)
        series_move(s, value);
    return is_next;
}

bool series_turn(struct series *s, const char *upath)
{
    size_t pos = s->upath ? differ(s->upath, upath) : SIZE_MAX;
    size_t na, nb;
    uint64_t before, value;

    if (pos == SIZE_MAX)
        return false;
    na = digits(s->upath + pos);
    nb = digits(upath + pos);
    before = value_of(s->upath + pos, na);
    value = value_of(upath + pos, nb);
    if (is_padded(s->upath + pos, na) || is_padded(upath + pos, nb))
        s->width = (unsigned)nb;
    else if (pos != s->pos || s->width > nb)
        s->width = 0;
    if (!set_last(s, upath)) {
        series_clear(s);
        return true;
    }
    s->pos = pos;
    s->value = value;
    s->stride = (int64_t)value - (int64_t)before;
    s->count = 2;
    return true;
}
