/*
 * store/marks_table.h - the shared memory of the dirty marks: its layout and how it comes
 * to be
 *
 * Private to the room (and its tests). `.dyad/marks-BOOT`, one table per boot of a node: a
 * number that is different after each boot is part of the name, so a table of another boot,
 * or of another node that sees the same directory, is never mistaken for ours. On storage
 * that nodes share (store_dir_shared()) the network namespace is part of it, too:
 * processes that can reach the same member have the same table, whatever else the nodes
 * have in common (containers of one kernel, machines started from one image of memory).
 * struct marks_slot says which process may change what.
 */
#ifndef DYAD_STORE_MARKS_TABLE_H
#define DYAD_STORE_MARKS_TABLE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "store/control.h"
#include "store/dmd.h"
#include "store/marks_written.h"

#define MARKS_MAGIC    0x314b52414d594144ull /* "DAYMARK1" */
#define MARKS_SLOTS    65536u
#define MARKS_BUCKETS  16384u
#define MARKS_STEP     4096u /* slots that get their disk blocks at a time */
#define MARKS_BOOT_LEN STORE_BOOT_LEN

/* The word of a slot: state, flag, pid of the process that made the state, generation. */
#define WORD_STATE(word)      ((unsigned)((word)&7))
#define WORD_NOLOCK           8ull /* this description could not be locked: its process decides */
#define WORD_PID(word)        ((pid_t)((word) >> 4 & 0x3fffff))
#define WORD_GENERATION(word) ((word) >> 26)
#define WORD_MAKE(generation, pid, state) \
    ((uint64_t)(generation) << 26 | (uint64_t)(pid) << 4 | (uint64_t)(state))
#define WORD_GENERATION_MAX ((1ull << 38) - 1)

/* States beyond enum store_mark_state: on its way from any state to FREE. */
#define MARKS_STATE_FREEING 7

/* All that several processes may change is in atomics; `word` decides, and each
 * transition is one compare-and-swap on it (but from FREEING to FREE, which is a store).
 * Who may write the other fields: in OPENING the opener (and, once it is dead, a process
 * that rules: `ino` by compare-and-swap from 0); in CLOSING the closer its own fields; in
 * FREEING the process that made it so; `detail` any opener. Readers take a field for what
 * it is only if the word was the same before and after. */
struct marks_slot {
    _Atomic uint64_t word;
    _Atomic uint64_t name;   /* hash of the upath while OPENING; 0: none */
    _Atomic uint64_t ino;    /* 0: not known yet */
    _Atomic uint64_t btime;  /* ns; 0: not known */
    _Atomic uint64_t opener; /* store_proc_t */
    _Atomic uint64_t closer; /* store_proc_t */
    /* ABANDONED: the heir, a mark whose clearing makes the file whole again. OPENING:
     * MARKS_JOINS or 0. DIRTY: MARKS_MAKES or 0. */
    _Atomic uint64_t detail;
    _Atomic uint32_t ns;    /* hash of the state's process and its pid namespace */
    _Atomic uint32_t since; /* CLOCK_MONOTONIC seconds of the last try to change the word */
};

_Static_assert(sizeof(struct marks_slot) == 64, "one cache line");

/* As `detail`: the description found no whole file at its open. No mark has this number. */
#define MARKS_MAKES UINT64_MAX
/* As `detail`: the open under way can neither make nor empty the file. */
#define MARKS_JOINS (UINT64_MAX - 1)

#define MARKS_LINES 64u

/* looked.c */
struct marks_line {
    _Atomic uint64_t rank;    /* 0: the line is free */
    _Atomic uint32_t session; /* hash of its name */
    _Atomic uint32_t state;
    pthread_mutex_t life; /* robust: held as long as the member lives */
};

#define MARKS_RENAMES 128u
#define MARKS_NOBODY  1ull /* as an owner: no process has this number */

enum { MARKS_RENAME_EMPTY, MARKS_RENAME_WHOLE, MARKS_RENAME_TAKEN };

/* renames.c. `state` is the last field to be set and the first to be cleared. So a
 * process that is killed while it fills or empties the place leaves EMPTY, of a dead
 * owner, and anybody gives the place back. A process that is killed afterwards leaves
 * WHOLE, of a dead owner, which store_renames_left() finds. Of several that find it one
 * wins the swap of `owner`; if that one is killed the place is left again. */
struct marks_rename {
    _Atomic uint64_t owner; /* store_proc_t; 0: it is free */
    _Atomic uint32_t state; /* MARKS_RENAME_* */
    _Atomic uint32_t ns;    /* pid namespace of the owner, if `of` is of it */
    _Atomic uint32_t since; /* CLOCK_MONOTONIC seconds */
    _Atomic uint32_t of;
    _Atomic uint64_t session;
    uint64_t ino;
    char names[984]; /* from, NUL, to, NUL */
};

_Static_assert(sizeof(struct marks_rename) == 1024, "whole pages");

struct marks_header {
    uint64_t magic;
    uint64_t ino; /* of the file itself */
    char boot[MARKS_BOOT_LEN + 1], node[65];
    _Alignas(64) _Atomic uint32_t limit; /* slots below it have their disk blocks */
    _Atomic uint32_t top;                /* slots at or above it were never used */
    _Atomic uint32_t waiters; /* threads in a futex wait (too high after a crash) */
    _Atomic uint32_t shared;  /* store_marks_share() */
    uint32_t unused;          /* tables of earlier versions are used as they are */
    _Atomic uint32_t
        pidns; /* pid namespace of the first process that wrote here; 0: none */
    _Atomic uint32_t mixed;            /* a process of another one has written, too */
    _Atomic uint32_t released;         /* how many marks have ended */
    _Alignas(64) _Atomic uint32_t low; /* where to look for a free slot first: a hint */
    uint32_t nlines;                   /* 0: there are no robust mutexes */
    uint32_t unused_too;
    struct marks_line lines[MARKS_LINES];
    _Atomic uint32_t lease[MARKS_LINES]; /* lease_table.c; of the line of that number */
};

_Static_assert(sizeof(struct marks_header) <= 4096, "a page, which always has its block");
/* What another order of the fields would need is another MARKS_MAGIC. */
_Static_assert(offsetof(struct marks_header, mixed) == 152 &&
                   offsetof(struct marks_header, lines) == 208,
               "as in the tables that are there");

struct marks_table {
    union {
        struct marks_header header;
        char page[4096];
    };
    _Atomic uint32_t
        names[MARKS_BUCKETS]; /* how many marks have a name, an inode, of this hash: */
    _Atomic uint32_t inodes[MARKS_BUCKETS]; /* never too low, too high after a crash */
    struct marks_slot slots[MARKS_SLOTS];
    struct marks_rename renames[MARKS_RENAMES];
    struct marks_look looks[MARKS_SLOTS]; /* by slot: marks_written.c */
};

struct store_marks {
    struct marks_table *table;
    char *path; /* of the table, to enlarge it */
};

static inline uint32_t marks_bucket(uint64_t hash)
{
    return (uint32_t)(hash * 0x9e3779b97f4a7c15ull >> 50);
}

/* Map the table of this boot (NULL: the kernel's boot id); make it if there is none.
 * *path gets its absolute name, malloc'ed. */
struct marks_table *store_marks_table_map(const struct store_dir *dir, const char *boot,
                                          char **path);
void store_marks_table_unmap(struct marks_table *table);
/* Give disk blocks to more slots than `limit`. 0 or -1 (ENOSPC: or all have them). */
int store_marks_table_grow(struct marks_table *table, const char *path, uint32_t limit);

#endif
