/*
 * looked.c - lines of the marks' table by which members tell the processes of their ranks
 *
 * A line is taken, held and lost as a keeper's entry is (cache_table.c): by the life in
 * it (store/life.h), which the member's thread holds as long as it lives. To look at a
 * line is a load.
 *
 * What could go wrong: a line is used again, and a reader finds the rank of a dead member
 * beside the life of the next (take() and store_looked() say why this does not happen); a
 * process loses its life without the kernel's noticing (take_back()).
 */
#include "store/looked.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "store/life.h"
#include "store/marks_table.h"

uint64_t store_looked_rank(const void *name, size_t len)
{
    return XXH3_64bits(name, len) | 1;
}

/* The word `state` of a line: enum store_looked_state, and the low bits of the number of
 * the network namespace, in which namespaces of one kernel differ; 0: not known. */
#define STATE(word)      ((word)&0xff)
#define NET(word)        ((word) & ~0xffu)
#define WORD(net, state) ((net) | (uint32_t)(state))

/* Of the calling thread, as in NET(). */
static uint32_t own_net(void)
{
    int saved = errno;
    struct stat st;
    uint32_t net =
        stat("/proc/thread-self/ns/net", &st) == 0 ? (uint32_t)st.st_ino << 8 : 0;

    errno = saved;
    return net;
}

/* A line is used again. Nobody must find the rank of a dead member beside the life of the
 * next: so a claimer first takes the rank out, by compare-and-swap from what it read
 * while nobody lived there, then takes the mutex, then puts its own rank in.
 *
 * - Two that take at once: at most one has the mutex. The other's swap fails, or the swap
 *   was from 0 to 0 and its trylock fails.
 * - A process that is killed in between leaves rank 0 under a mutex that the kernel has
 *   marked: the line is free.
 * - The state is set to LOOKING before the rank is put in. Beside it, in one word, is the
 *   network namespace, which is written by the same thread only. */
static bool take(struct marks_header *header, uint32_t number, uint64_t rank,
                 uint32_t session)
{
    struct marks_line *line = &header->lines[number];
    uint64_t old = atomic_load(&line->rank);

    if (store_life_is_on(&line->life) ||
        !atomic_compare_exchange_strong(&line->rank, &old, 0))
        return false;
    if (!store_life_begin(&line->life))
        return false;
    atomic_store(&line->state, WORD(own_net(), STORE_LOOKING));
    atomic_store(&line->session, session);
    atomic_store(&header->lease[number], 0);
    atomic_store(&line->rank, rank);
    return true;
}

/* An earlier member's line ends with that member. But a process may lose its list of robust
 * mutexes before the kernel walks it (killed for want of memory, by kernels before 5.18);
 * and a member whose UCX has aborted is followed by another on the same thread. */
static void take_back(struct marks_header *header, uint64_t rank)
{
    for (uint32_t i = 0; i < header->nlines && i < MARKS_LINES; i++) {
        uint64_t old = rank;
        atomic_compare_exchange_strong(&header->lines[i].rank, &old, 0);
    }
}

/* The caller holds its rank's claim, so nobody else puts that rank in: the rank is in no
 * other line once take_back() has gone through them. */
int store_looked_begin(struct store_marks *marks, uint64_t rank, const char *session)
{
    struct marks_header *header = &marks->table->header;
    uint32_t hash = (uint32_t)XXH3_64bits(session, strlen(session));

    take_back(header, rank);
    for (uint32_t i = 0; i < header->nlines && i < MARKS_LINES; i++) {
        uint32_t line = (uint32_t)(rank + i) % MARKS_LINES;
        if (take(header, line, rank, hash))
            return (int)line;
    }
    return -1;
}

void store_looked_set(struct store_marks *marks, int line, enum store_looked_state state)
{
    if (line < 0)
        return;
    _Atomic uint32_t *word = &marks->table->header.lines[line].state;
    atomic_store(word, WORD(NET(atomic_load(word)), state));
}

bool store_looked_others(const struct store_marks *marks, int own)
{
    const struct marks_header *header = &marks->table->header;
    uint32_t session = own >= 0 ? atomic_load(&header->lines[own].session) : 0;

    for (int i = 0; own >= 0 && i < (int)MARKS_LINES; i++) {
        const struct marks_line *line = &header->lines[i];
        uint64_t rank = atomic_load(&line->rank);
        if (i != own && rank && atomic_load(&line->session) == session &&
            STATE(atomic_load(&line->state)) == STORE_LOOKING &&
            store_life_is_on(&line->life) && atomic_load(&line->rank) == rank)
            return true;
    }
    return false;
}

void store_looked_end(struct store_marks *marks, int line)
{
    if (line < 0)
        return;
    atomic_store(&marks->table->header.lines[line].rank, 0);
    store_life_end(&marks->table->header.lines[line].life);
}

/* A reader loads rank, life, state, rank. If the rank is the same twice, the life that it
 * saw was not that of another member, which would have put 0 there before. */
bool store_looked(const struct store_marks *marks, uint64_t rank)
{
    const struct marks_header *header = &marks->table->header;

    for (uint32_t i = 0; i < header->nlines && i < MARKS_LINES; i++) {
        const struct marks_line *line = &header->lines[(uint32_t)(rank + i) % MARKS_LINES];
        if (atomic_load(&line->rank) == rank && store_life_is_on(&line->life) &&
            STATE(atomic_load(&line->state)) == STORE_LOOKED &&
            atomic_load(&line->rank) == rank)
            return true;
    }
    return false;
}

bool store_looked_elsewhere(const struct store_marks *marks, uint64_t rank)
{
    const struct marks_header *header = &marks->table->header;

    for (uint32_t i = 0; i < header->nlines && i < MARKS_LINES; i++) {
        const struct marks_line *line = &header->lines[i];
        uint32_t net = 0, here;
        if (atomic_load(&line->rank) == rank && store_life_is_on(&line->life))
            net = NET(atomic_load(&line->state));
        if (net && atomic_load(&line->rank) == rank && (here = own_net()) && here != net)
            return true;
    }
    return false;
}
