/*
 * util/entry.h - the description of one published file
 *
 * The value types that every room shares: the version of a file, the identity of a storage,
 * and the entry that the distributed hash table keeps for a upath.  Plain data, no locking.
 */
#ifndef DYAD_UTIL_ENTRY_H
#define DYAD_UTIL_ENTRY_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Longest upath in bytes, without the final NUL (PATH_MAX less the NUL). */
#define DYAD_UPATH_MAX 4095

/* Largest file in bytes that an entry can be of. What offsets and lengths are added to it fits. */
#define DYAD_SIZE_MAX (1ull << 62)

/* Bytes of a storage id (random, made once per DMD, kept in its control directory). */
#define DYAD_STORAGE_ID_LEN 16

/* No rank: an owner that is not known. */
#define DYAD_RANK_NONE UINT32_MAX

/* Of the number of a component: what an entry has room for beside its flags. */
#define DYAD_COMPONENT_BITS 19

/* A version of a file.  Ordered by counter, then rank, then incarnation, so two writers
 * that chose the same counter are ordered alike at every home.  All zero: no version. */
struct dyad_version {
    uint64_t counter;     /* raised by every publish of the upath */
    uint32_t rank;        /* rank that published it */
    uint32_t incarnation; /* incarnation of that rank (0 for its first member) */
};

enum dyad_entry_state {
    DYAD_ENTRY_NONE = 0,  /* nothing was ever published under this upath */
    DYAD_ENTRY_PUBLISHED, /* complete at its owner */
    DYAD_ENTRY_WITHDRAWN, /* tombstone: it was published and was then removed */
};

struct dyad_entry {
    const char
        *upath; /* NUL-terminated; who owns the memory is said where an entry is passed */
    struct dyad_version version;
    uint32_t owner; /* rank that serves the bytes */
    enum dyad_entry_state state : 8;
    bool conflict : 1; /* PUBLISHED, but lacks what another node wrote: no open gets it */
    bool
        recorded : 1; /* its node knows what was written to it since it was empty, and takes
                          the pieces of others (engine/publish/pieces_take.c) */
    bool
        emptied : 1; /* of 0 bytes, and something is on record of it: it was cut to that. What other
                         nodes wrote before is not to be put into it */
    bool
        change : 1; /* homes refuse it that know of another version than its writer began from, so none
                         gets it but from its publisher, who lives (dht/node_publish_await.h) */
    bool written : 1; /* as a home answers: ranks have it open to write it with others */
    unsigned component
        : DYAD_COMPONENT_BITS; /* whose ranks published it (engine/core/turns.h) */
    uint8_t storage[DYAD_STORAGE_ID_LEN]; /* where the bytes are */
    uint64_t size;                        /* bytes */
    uint32_t mode;                        /* st_mode: type and permission bits */
    uint32_t mtime_nsec;                  /* modification time, since the epoch */
    int64_t mtime_sec;
};

/* What the writer of a version began from, ... */
enum dyad_base_kind {
    DYAD_BASE_NONE,  /* not known, or of no interest */
    DYAD_BASE_FROM,  /* a file of that size, last changed at that time, which it changed in
                        part; a file that the open has made is empty */
    DYAD_BASE_SINCE, /* nothing: its open, at that time, emptied the file or made it */
    DYAD_BASE_OVERTAKEN, /* as FROM, and its node knows of a later version of another */
    DYAD_BASE_VERSION,   /* no other version than that one, which gives way to it */
};

struct dyad_base {
    enum dyad_base_kind kind;
    uint64_t size; /* bytes; of VERSION: rank << 32 | incarnation */
    uint64_t time; /* ns since the epoch; of VERSION: counter */
    /* Whether processes of its node have the file open for writing: none any more; or still, or
     * the close has not completed it (DYAD_COMPLETE_AT_EXIT, ..._AT_CHMOD).
     * Neither: that is not known. */
    bool ends, stays;
    bool
        joint; /* what it has written is of a file that other nodes wrote, too, or could; of a BEGIN:
                   readers wait for it, though a version is published */
    uint64_t looked; /* when `ends` was found, ns, by the node's util_clock_now() */
    bool looks;      /* its publisher can look at the file again (dht_base_is_behind()) */
};

/* Order of two versions: below 0, 0 or above 0, as strcmp. */
static inline int dyad_version_cmp(const struct dyad_version *a,
                                   const struct dyad_version *b)
{
    if (a->counter != b->counter)
        return a->counter < b->counter ? -1 : 1;
    if (a->rank != b->rank)
        return a->rank < b->rank ? -1 : 1;
    if (a->incarnation != b->incarnation)
        return a->incarnation < b->incarnation ? -1 : 1;
    return 0;
}

static inline bool dyad_storage_equal(const uint8_t *a, const uint8_t *b)
{
    return memcmp(a, b, DYAD_STORAGE_ID_LEN) == 0;
}

#endif
