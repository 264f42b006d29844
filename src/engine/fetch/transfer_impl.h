/*
 * engine/fetch/transfer_impl.h - between the modules of a transfer, for nobody else:
 * transfer.c begins it; transfer_copy.c and transfer_chunks.c are the two ways in which the
 * bytes come; transfer_end.c puts the file into place, and ends it.
 *
 * It belongs to the loop's thread. While io_busy, `fetch`, `status` and `identity` are in
 * the hands of a pool thread; so are a chunk and its data from the arrival of the data to
 * chunk_written(), and store_fetch_write() may be called for several at once. What such a
 * thread reads beside (member, upath, entry, local_dmd) does not change meanwhile.
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
    void *data; /* arrived, being written */
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
    struct store_identity identity;
    struct chunk *chunks; /* asked for or being written */
    unsigned nchunks;
    uint64_t next_offset;
    struct net_timer *deadline;
    char *local_dmd;              /* the owner's DMD on this node, or NULL */
    struct promoted_fetch *guest; /* that fetches it for us */
    bool by_guest;                /* it has */
    uint32_t rank;       /* that is asked for it: the owner, or another of its node */
    uint32_t other;      /* the last other that was, or DYAD_RANK_NONE */
    uint32_t source;     /* whom chunks are asked of: `rank`, or a guest that it named */
    bool rank_only;      /* such a guest has failed */
    uint64_t ino, btime; /* of the file, as the guest sees it */
    bool replace;        /* an outdated copy of ours lies there */
    bool made_here;      /* as in struct store_record */
    bool stale;          /* a newer version is out: */
    struct dyad_entry newer;
    struct store_record before; /* the journal's, should that fail; kind 0: none */
    bool is_first;              /* nothing lay there when that began */
    bool committing;            /* it is being put into place */
    int status;                 /* of the first failure */
    bool failing;               /* `status` is set: wait for what is under way, then end */
};

struct transfers {
    struct transfer *by_upath;
    struct chunk *gets; /* by id: that are being asked for */
};

/* --- transfer_end.c --- */

/* Each of these may be the end of it. All bytes are in the temporary file: */
void transfer_commit(struct transfer *t);
/* Run a job of it, on the loop or the pool; io_busy is the caller's. */
void transfer_job(struct transfer *t, void (*work)(void *arg), void (*done)(void *arg));
void transfer_fail(struct transfer *t, int status);
/* As transfer_fail(), and says so: what could not be done here, by a participle. */
void transfer_failed_here(struct transfer *t, const char *what, int error);
/* Without further ado: nothing of it is in anybody's hands. And: nobody is told. */
void transfer_end(struct transfer *t, int status);
void transfer_drop(struct transfer *t);
/* The chunk's answer is here, or not expected any more. */
void transfer_chunk_answered(struct chunk *chunk);
/* The same, and no thread has hold of it: free it. */
void transfer_chunk_free(struct transfer *t, struct chunk *chunk);

/* --- transfer_copy.c --- */

/* The owner's DMD if it is on this node and is the one that the entry means; malloc'ed. */
char *transfer_local_dmd(struct member *member, const struct dyad_entry *entry);
/* From there. */
void transfer_copy(struct transfer *t);

/* --- transfer_chunks.c --- */

/* Ask for what may be asked for; end if all is here. */
void transfer_ask_chunks(struct transfer *t);
/* Timer `deadline`. */
void transfer_silent(void *arg);
/* Whom to ask next, if the one before has it not or is gone; false: nobody else. */
bool transfer_next(struct transfer *t);

#endif
