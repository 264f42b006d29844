/*
 * client_names.c - two free lists of cells, short and long
 *
 * A cell is its number, then the text; a free one has the number of the next free one where
 * the text was. The head of a list is (count of changes, number): a head that was popped
 * and pushed again meanwhile is another word. Cells live in chunks that are mapped when a
 * list is empty, and are never unmapped: so what a slow popper reads of a cell that is no
 * longer free is readable, and refused by the swap.
 *
 * A thread that a fork leaves out, half way, costs the child a cell.
 */
#include "client/client_names.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "util/entry.h"

#define CHUNK      65536u
#define CHUNKS_MAX 4096u

struct cell {
    uint32_t number; /* 1 + its place; the top bit: a long one */
    _Atomic uint32_t next;
    char text[];
};

#define LONG_CELL  0x80000000u
#define SHORT_SIZE 256u
#define LONG_SIZE  (offsetof(struct cell, text) + DYAD_UPATH_MAX + 1 + 7u)

struct list {
    size_t size; /* of a cell */
    uint32_t flag;
    _Atomic uint64_t head;
    _Atomic uint32_t nchunks;
    _Atomic(char *) chunk[CHUNKS_MAX];
};

static struct list lists[2] = {{.size = SHORT_SIZE, .flag = 0},
                               {.size = LONG_SIZE & ~(size_t)7, .flag = LONG_CELL}};

static struct cell *cell_of(struct list *list, uint32_t number)
{
    uint32_t place = (number & ~LONG_CELL) - 1, per_chunk = CHUNK / (uint32_t)list->size;
    char *chunk = atomic_load(&list->chunk[place / per_chunk]);

    return (struct cell *)(void *)(chunk + place % per_chunk * list->size);
}

static void push(struct list *list, struct cell *cell)
{
    uint64_t head = atomic_load(&list->head), next;

    do {
        atomic_store(&cell->next, (uint32_t)head);
        next = ((head >> 32) + 1) << 32 | cell->number;
    } while (!atomic_compare_exchange_weak(&list->head, &head, next));
}

static struct cell *pop(struct list *list)
{
    uint64_t head = atomic_load(&list->head), next;
    struct cell *cell;

    do {
        if (!(uint32_t)head)
            return NULL;
        cell = cell_of(list, (uint32_t)head);
        next = ((head >> 32) + 1) << 32 | atomic_load(&cell->next);
    } while (!atomic_compare_exchange_weak(&list->head, &head, next));
    return cell;
}

/* A chunk more: its first cell is the caller's. */
static struct cell *grow(struct list *list)
{
    uint32_t per_chunk = CHUNK / (uint32_t)list->size, which;
    struct cell *first = NULL;
    char *chunk =
        mmap(NULL, CHUNK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (chunk == MAP_FAILED)
        return NULL;
    which = atomic_fetch_add(&list->nchunks, 1);
    if (which >= CHUNKS_MAX) {
        atomic_fetch_sub(&list->nchunks, 1);
        munmap(chunk, CHUNK);
        errno = ENOMEM;
        return NULL;
    }
    atomic_store(&list->chunk[which], chunk);
    for (uint32_t i = 0; i < per_chunk; i++) {
        struct cell *cell = (struct cell *)(void *)(chunk + i * list->size);
        cell->number = (which * per_chunk + i + 1) | list->flag;
        if (i == 0)
            first = cell;
        else
            push(list, cell);
    }
    return first;
}

char *client_name_copy(const char *upath)
{
    size_t size = strlen(upath) + 1;
    struct list *list = &lists[size > SHORT_SIZE - offsetof(struct cell, text)];
    struct cell *cell;

    if (size > list->size - offsetof(struct cell, text)) {
        errno = ENAMETOOLONG;
        return NULL;
    }
    if (!(cell = pop(list)) && !(cell = grow(list)))
        return NULL;
    return memcpy(cell->text, upath, size);
}

void client_name_free(char *name)
{
    struct cell *cell;

    if (!name)
        return;
    cell = (struct cell *)(void *)(name - offsetof(struct cell, text));
    push(&lists[(cell->number & LONG_CELL) != 0], cell);
}
