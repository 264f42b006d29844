/*
 * lease_table.c - times in the table of the marks
 *
 * The header's page has four bytes left for each line, so a time is a number of 2^24 ns
 * (17 ms), of 31 bits, compared as serial numbers are (it comes round after 417 days; a
 * lease lasts seconds). The lowest bit says that the lease is wanted. 0 is the time of a
 * member without copies, so a table that knows of no leases has none that could be over.
 *
 * What could go wrong: the owner's store and a reader's "wanted" meet
 * (store_lease_holds()); a member is dead, and its lease does not count (is_live()).
 */
#include "store/lease_table.h"

#include "store/life.h"
#include "store/marks_table.h"
#include "util/clock.h"

#define WANTED 1u
#define SHIFT  24
#define TICKS  0x7fffffffu

static uint32_t ticks(uint64_t ns)
{
    return (uint32_t)(ns >> SHIFT) & TICKS;
}

/* Ticks that are left, 0 if it is over. */
static uint32_t left(uint32_t word, uint64_t now)
{
    uint32_t d = ((word >> 1) - ticks(now)) & TICKS;

    return d <= TICKS / 2 ? d : 0;
}

void store_lease_set(struct store_marks *marks, int line, uint64_t until)
{
    uint32_t word = ticks(until) << 1;

    if (line < 0)
        return;
    if (until == STORE_LEASE_OUT)
        word = ((ticks(util_clock_now()) - 1) & TICKS) << 1;
    if (word == 0)
        word = TICKS << 1; /* a tick before: 0 is none */
    if (until == STORE_LEASE_NONE)
        word = 0;
    atomic_store(&marks->table->header.lease[line], word);
}

bool store_lease_wanted(const struct store_marks *marks, int line)
{
    return line >= 0 && (atomic_load(&marks->table->header.lease[line]) & WANTED) != 0;
}

/* The lease of a dead member does not count: what it held is taken over by another, or
 * served by its next image, and the homes notify a neighbour in its place. */
static bool is_live(const struct marks_line *line)
{
    uint64_t rank = atomic_load(&line->rank);

    return rank && store_life_is_on(&line->life) && atomic_load(&line->rank) == rank;
}

static int line_of(const struct marks_header *header, uint64_t rank)
{
    for (uint32_t i = 0; i < header->nlines && i < MARKS_LINES; i++) {
        uint32_t n = (uint32_t)(rank + i) % MARKS_LINES;
        if (atomic_load(&header->lines[n].rank) == rank && is_live(&header->lines[n]))
            return (int)n;
    }
    return -1;
}

bool store_lease_matters(const struct store_marks *marks)
{
    const struct marks_header *header = &marks->table->header;
    uint32_t any = 0;

    for (uint32_t i = 0; i < MARKS_LINES; i++)
        any |= atomic_load_explicit(&header->lease[i], memory_order_relaxed);
    return any != 0;
}

/* The owner's store and a reader's "wanted" may meet. The reader's is a compare-and-swap
 * from what it saw, so it never brings back a time that is gone; a "wanted" that is lost
 * is said again by the next open. */
bool store_lease_holds(const struct store_marks *marks, uint64_t rank, int except,
                       uint64_t now, uint64_t soon)
{
    struct marks_header *header = &marks->table->header;
    uint32_t few = (uint32_t)(soon >> SHIFT);
    bool holds = true;
    int own = -1;

    for (int i = 0; i < (int)MARKS_LINES; i++) {
        uint32_t word = atomic_load_explicit(&header->lease[i], memory_order_acquire);
        const struct marks_line *line = &header->lines[i];
        if (word == 0 || i == except || left(word, now) > few)
            continue;
        /* Only now look for the line of `rank`. */
        if (own < 0 && (own = line_of(header, rank)) < 0)
            return false;
        if (!is_live(line) ||
            atomic_load(&line->session) != atomic_load(&header->lines[own].session))
            continue;
        holds = holds && left(word, now) > 0;
        if (!(word & WANTED))
            atomic_compare_exchange_strong(&header->lease[i], &word, word | WANTED);
    }
    return holds;
}

bool store_lease_is_out(const struct store_marks *marks, uint64_t rank, uint64_t now)
{
    const struct marks_header *header = &marks->table->header;
    int line = line_of(header, rank);
    uint32_t word;

    if (line < 0)
        return false;
    word = atomic_load(&header->lease[line]);
    return word != 0 && left(word, now) == 0;
}
