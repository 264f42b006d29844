/*
 * engine/publish/pieces_send_impl.h - private to pieces_send.c and pieces_read.c
 */
#ifndef DYAD_ENGINE_PUBLISH_PIECES_SEND_IMPL_H
#define DYAD_ENGINE_PUBLISH_PIECES_SEND_IMPL_H

#include "engine/core/iopool.h"
#include "engine/publish/peer_clock.h"
#include "engine/publish/pieces_send.h"
#include "net/loop.h"
#include "store/extents.h"

struct sending {
    struct engine_io io;
    struct net_post post;
    struct sending *prev, *next; /* utlist */
    struct member *member;
    struct pieces_out out;
    struct dyad_entry entry;
    char *upath;
    uint64_t id;
    int fd;                /* of the file; -1: not opened yet */
    struct dyad_base base; /* the version that they are changes of; size 0: an empty file */
    struct store_extent_list list;
    struct store_extent_list others; /* what others had written here before it was read */
    size_t at;                       /* in the list, writes and cuts */
    uint64_t done;                   /* bytes of that one */
    char *data;                      /* the chunk */
    size_t len;
    uint64_t before; /* bytes of the chunks before */
    bool last;
    int error;  /* of the pool's job */
    bool waits; /* in line */
    bool reading, in_worker, answered;
    bool begun; /* the taker has a part, and waits for the rest */
    int status; /* the answer */
    struct store_extent met;
    /* The taker's file was never `base`, and has said which version it was; none: it was empty. */
    bool rebased;
    bool clock_asked;        /* CLOCK */
    bool closer;             /* ... for the second time: once more would not help */
    struct peer_clock clock; /* the taker's */
};

/* On a pool thread, while the loop lets it alone (`reading`); of a sending. The next chunk; `error`. */
void pieces_read_chunk(void *arg);
/* What of this node is sent by another close may overtake what is sent here: so the newest
 * bytes are to be sent last. Not `last`: once more. */
void pieces_check_again(void *arg);

#endif
