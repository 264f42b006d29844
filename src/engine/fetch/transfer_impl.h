/*
 * engine/fetch/transfer_impl.h - private to the modules of a transfer:
 * transfer.c begins it; transfer_copy.c and transfer_chunks.c are the two ways in which the
 * bytes come; transfer_end.c puts the file into place, and ends it.
 *
 * A transfer belongs to the loop's thread. While io_busy, `fetch`, `status` and
 * `identity` belong to a pool thread; so do a chunk and its data from the arrival of the
 * data to chunk_written(), and store_fetch_write() may be called for several at once. The
 * other fields that such a thread reads (member, upath, entry, local_dmd) do not change
 * meanwhile.
 */
#ifndef DYAD_ENGINE_FETCH_TRANSFER_IMPL_H
#define DYAD_ENGINE_FETCH_TRANSFER_IMPL_H

#include <uthash.h>

#include "engine/core/member.h"
#include "engine/fetch/transfer.h"
#include "store/fetch.h"

struct chunk {
    struct chunk *prev, *next; /* utlist */
    UT_hash_handle hh;         /* in `gets`, by id, while `asked` */
    struct engine_io io;
    struct transfer *transfer;
    uint64_t id; /* of the GET */
    uint64_t offset, length;
    bool asked;
    void *data;      /* arrived, being written */
    uint64_t digest; /* that the owner has made of it; 0: none */
    bool by_relay;   /* another reader has sent it */
    bool is_other;   /* than the owner has sent */
    int error;
};

struct transfer {
    UT_hash_handle hh; /* by upath */
    struct member *member;
    char *upath;
    struct dyad_entry entry; /* entry.upath is upath */
    struct transfer_wait *waits;
    struct store_fetch *fetch;
    struct engine_io io; /* begin, copy, commit: one at a time */
    bool io_busy;
    bool waits_for_other; /* another member of this node fetches it */
    struct store_identity identity;
    struct chunk *chunks; /* asked for or being written */
    unsigned nchunks;
    uint64_t next_offset;
    void *bytes;  /* of the whole file, which came with the entry; NULL: written, or none */
    bool inlined; /* they did */
    struct net_timer *deadline;
    char *local_dmd;              /* the owner's DMD on this node, or NULL */
    struct promoted_fetch *guest; /* the promoted guest that fetches it for us */
    bool by_guest;                /* it has fetched the file */
    uint32_t rank;       /* that is asked for it: the owner, or another of its node */
    uint32_t other;      /* the last other that was asked, or DYAD_RANK_NONE */
    uint32_t source;     /* that sends the chunks: `rank`, or a guest that it named */
    bool rank_only;      /* such a guest has failed */
    uint64_t ino, btime; /* of the file, as the guest sees it */
    bool replace;   /* our record names an older one: it goes if it lies there (commit()) */
    bool made_here; /* as in struct store_record */
    bool joins;     /* of its first wait */
    bool ahead;     /* NET_DATA_AHEAD: it is nobody's version */
    bool stale;     /* a newer version is out: */
    struct dyad_entry newer;
    struct store_record before; /* the journal's, in case the commit fails; kind 0: none */
    bool is_first;              /* no file was there when the commit began */
    bool committing;            /* it is being put into place */
    int status;                 /* of the first failure */
    bool failing;               /* `status` is set: wait for what is under way, then end */
};

struct transfers {
    struct transfer *by_upath;
    struct chunk *gets; /* those that are being asked for, by id */
};

/* --- transfer_end.c --- */

/* Each of these may free t. All bytes are in the temporary file: put it into place. */
void transfer_commit(struct transfer *t);
/* Run a job on the loop or the pool; the caller sets and clears io_busy. */
void transfer_job(struct transfer *t, void (*work)(void *arg), void (*done)(void *arg));
void transfer_fail(struct transfer *t, int status);
/* As transfer_fail(), after a log line; `what` could not be done here: a participle. */
void transfer_failed_here(struct transfer *t, const char *what, int error);
/* Free t at once: no thread uses it any more. transfer_end() calls the waits' fn,
 * transfer_drop() does not. */
void transfer_end(struct transfer *t, int status);
void transfer_drop(struct transfer *t);
/* True if nobody waits for it now: all its waits are `background`. */
bool transfer_is_background(const struct transfer *t);
/* The chunk's answer has come, or is not expected any more. */
void transfer_chunk_answered(struct chunk *chunk);
/* Free a chunk that is answered and that no thread uses. */
void transfer_chunk_free(struct transfer *t, struct chunk *chunk);

/* --- transfer_copy.c --- */

/* The owner's DMD, malloc'ed, if it is on this node and is the entry's storage; or NULL.
 */
char *transfer_local_dmd(struct member *member, const struct dyad_entry *entry);
/* Copy the file from that directory. */
void transfer_copy(struct transfer *t);

/* --- transfer_chunks.c --- */

/* Ask for as many chunks as may be under way; commit if all are here. */
void transfer_ask_chunks(struct transfer *t);
/* All bytes came with the entry: write them. */
void transfer_write_inlined(struct transfer *t);
/* Timer `deadline` has expired. */
void transfer_silent(void *arg);
/* Choose the rank to ask next, if the one before lacks the file or is gone; false: none.
 */
bool transfer_next(struct transfer *t);

#endif
