/*
 * engine/publish/pieces_send.h - give what was written here of a file to the node that has it
 *
 * The homes have refused the publish of a file because another node's has come first. What a
 * description of this node has written (store/extents.h) goes to that node, which puts it
 * into its file and publishes that (pieces_take.h).
 */
#ifndef DYAD_ENGINE_PUBLISH_PIECES_SEND_H
#define DYAD_ENGINE_PUBLISH_PIECES_SEND_H

#include "engine/core/member.h"

struct produce;

/* What is sent, and to whom. */
struct pieces_out {
    struct member_dmd *dmd;
    const char *upath; /* copied */
    struct store_identity identity;
    const struct dyad_entry *entry; /* the sender's, copied */
    uint32_t rank;                  /* who takes them */
    store_mark_t mark;              /* by way of that description; 0: for a reader there, */
    uint64_t but, newer;            /* ... as store_extents_list_newer() has it, */
    struct dyad_base base;          /* since that version, if that is known; */
    bool history;           /* or without the bytes, which it has: all from then ... */
    struct dyad_base until; /* ... to that version */
    /* status 0: they are in its file, and, with a mark, published; EHOSTUNREACH: it is gone; or what
     * it has answered (NET_MSG_PIECES_REPLY), with the bytes that both have written; or EIO; or,
     * without a mark, EAGAIN: another file has got the name. */
    void (*fn)(void *arg, int status, uint64_t met, uint64_t met_length);
    void *arg;
};

/* True if the publish p, which `there` has come before, can give its pieces to the owner of
 * `there`. Loop thread. */
bool pieces_may_send(const struct produce *p, const struct dyad_entry *there);
/* Send them. 0: fn will be called, not from inside, unless the member ends; or -1 with errno. Loop
 * thread. */
int pieces_send(struct member *member, const struct pieces_out *out);

#endif
