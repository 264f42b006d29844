/*
 * store/marks_written.h - the state of a file at its open, kept to find out whether it
 * was written. Private to the marks.
 */
#ifndef DYAD_STORE_MARKS_WRITTEN_H
#define DYAD_STORE_MARKS_WRITTEN_H

#include <stdatomic.h>
#include <stdint.h>

/* All but `kind` is written by the opener only, before the open returns. */
struct marks_look {
    uint64_t begun; /* when the open began: CLOCK_REALTIME_COARSE, ns */
    uint64_t size, mtime, ctime;
    uint64_t
        hash[2]; /* of the content, with MARKS_LOOK_CONTENT; or, with AHEAD, a version */
    uint32_t mode, nlink;
    _Atomic uint32_t kind; /* enum marks_look_kind */
    _Atomic uint32_t base; /* of the use of the slot (MARKS_BASE()), and flags of these */
};

/* As `base`. Any process may set OVERTAKEN or clear RECORDED, so it says of which use of the
 * slot it is. */
#define MARKS_BASE(mark)     ((uint32_t)((mark) >> 16) << 12)
#define MARKS_BASE_FLAGS     4095u
#define MARKS_BASE_FROM      1u /* `size` and `mtime` are the file's, else the open's time */
#define MARKS_BASE_OVERTAKEN 2u
#define MARKS_BASE_RECORDED  4u /* store_marks_recorded(), ... */
#define MARKS_BASE_DECIDED   8u /* ... and the open has ended; else: unless it is cleared */
#define MARKS_BASE_JOINS     16u   /* store_marks_joins() */
#define MARKS_BASE_LATER     32u   /* not RECORDED, but may be: store_marks_record_all() */
#define MARKS_BASE_OPENS     64u   /* DECIDED, LATER or neither is about to be said */
#define MARKS_BASE_JOINED    128u  /* another one was changing it: it is nobody's version */
#define MARKS_BASE_JOINT     256u  /* store_marks_joint() */
#define MARKS_BASE_LOOKS     512u  /* FROM is about to be said */
#define MARKS_BASE_AHEAD     1024u /* store_marks_set_ahead() */
#define MARKS_BASE_ASKED     2048u /* LATER, and store_marks_record_all() has met it */

enum marks_look_kind {
    MARKS_LOOK_NONE, /* it counts as written */
    MARKS_LOOK_TIMES,
    MARKS_LOOK_CONTENT,
};

_Static_assert(sizeof(struct marks_look) == 64, "one cache line");

#endif
