/*
 * engine/requests/guest.h - the connections of the rank's processes to their member
 *
 * One connection, one request, one answer (some are many pages). Loop only.
 */
#ifndef DYAD_ENGINE_REQUESTS_GUEST_H
#define DYAD_ENGINE_REQUESTS_GUEST_H

#include "engine/core/member.h"

struct guest;

/* Callbacks for requests. */
struct guest_ops {
    size_t size; /* of guest->request, all zero at first */
    /* A request has come, and the member has joined (error 0) or cannot (errno value). */
    void (*serve)(struct guest *guest, int error);
    /* Nobody waits for the answer any more: only callbacks counted in `pending` may come.
     */
    void (*cancel)(struct guest *guest);
    /* A process has closed its connection and has asked for nothing. */
    void (*unasked)(struct member *member, pid_t pid);
};

struct guest {
    struct guest *prev, *next; /* utlist */
    struct member *member;
    const struct guest_ops *ops;
    void *request; /* ops->size bytes */
    int fd;
    pid_t pid;
    struct net_watch *watch;
    unsigned char in[4 + NET_MSG_HEADER_MAX + DYAD_UPATH_MAX + 1];
    size_t in_len;
    unsigned char *out; /* of out_len bytes those from out_sent on are still to be sent */
    size_t out_len, out_sent;
    bool asked;       /* the request was read */
    bool answered;    /* nothing more will be queued: close when all is sent */
    bool gone;        /* the process closed it while a publish goes on */
    unsigned pending; /* callbacks that will come with this guest as their argument */
    struct member_joined joined;
    struct net_msg msg; /* the request; points into in[] */
};

/* Accept connections at the member's claim. `ops` is borrowed. 0 or -1 with errno. */
int guest_listen(struct member *member, const struct guest_ops *ops);
/* Close all connections and cancel their requests. */
void guest_stop(struct member *member);
/* Queue a page of an answer; the loop sends it. 0, or -1: it does not fit, or no memory.
 */
int guest_page(struct guest *guest, const struct net_msg *page);
/* Queue the answer, the last message. `done` has no source; its upath may be NULL: that
 * of the request. Frees the guest if the process has gone and no callback is pending. */
void guest_answer(struct guest *guest, struct net_msg *done);
/* Give the connection's descriptor to the caller, and free the guest. -1: it was closed.
 */
int guest_take(struct guest *guest);
/* True if so many processes wait that this one may not: the guest's descriptor is among the last. */
bool guest_too_many(const struct guest *guest);

#endif
