/*
 * client/client_impl.h - private to the modules of the client
 */
#ifndef DYAD_CLIENT_CLIENT_IMPL_H
#define DYAD_CLIENT_CLIENT_IMPL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct client;
struct net_msg;

/* --- client_ask.c --- */

/* Handles one page of an answer; NULL: the answer begins, perhaps anew after the member
 * went away. 0, or -1 with errno, which ends the request. */
typedef int (*front_page_fn)(void *arg, const struct net_msg *page);
/* client_request() for an answer of many pages, each of at most `size` bytes. */
int client_request_pages(struct client *client, const struct net_msg *request,
                         struct net_msg *reply, void *buf, size_t size, front_page_fn page,
                         void *arg);

/* For how long the caller waits for an answer to begin: wait_ms() is called again when
 * that time is over. It need not keep errno. */
struct client_patience {
    int (*wait_ms)(void *arg); /* 0: no longer; -1: for ever */
    void *arg;
    bool refused; /* result: the member is another user's, now and later */
    bool loader;  /* result, with ETIMEDOUT: the member waits for the library that this
                     thread loads */
};

/* A request to the rank's member, and where its answer goes. */
struct client_asking {
    struct client *client;
    const struct net_msg *request;
    struct net_msg *reply;
    void *buf; /* the memory that the reply points into */
    size_t size;
    front_page_fn page; /* NULL: the answer is one message */
    void *arg;
    int *connection;    /* use and close this one; NULL or -1: none. Not with `apart` */
    bool interruptible; /* by a handler without SA_RESTART: EINTR, not logged */
    bool apart;         /* with a table of descriptors of its own, by client_borrow_fd() */
    bool full;          /* result: nothing was sent, since no descriptor number is free */
    struct client_patience *patience; /* for an open only; NULL: without end */
};

/* Send the request. 0, or -1 with errno: the answer's status, or why there is none
 * (logged, except EMFILE and when `patience` was over). From a constructor of a library
 * it ends also if the member is in this process and waits for the dynamic loader: with
 * patience ETIMEDOUT, else EHOSTUNREACH. */
int client_ask(struct client_asking *asking);

/* --- client.c --- */

/* Send a GUEST_CONSUME with these flags for the calling thread. The reply's pointers are
 * not valid. With patience also ETIMEDOUT, not logged: it is over; NULL: as
 * client_request(). */
int client_consume_patient(struct client *client, const char *upath, uint8_t flags,
                           uint64_t timeout_ms, struct net_msg *reply,
                           struct client_patience *patience);

/* In the child of fork: make client.c's lock new. */
void client_lock_reset(void);

/* --- client_look.c --- */

/* True if this rank has no member yet that has finished loading its libraries. */
bool client_member_loads(const struct client *client);

/* --- client_member.c --- */

/* True if this process can neither join nor find a member, now and later. */
bool client_member_hopeless(void);

/* --- client_library.c --- */

/* Open dyad/libdyad_member.so; NULL after a log line. `apart`: with libraries of its own,
 * libc included, whichever of them this process has loaded already; memory that is
 * allocated there must be freed there. Not in two threads at once. */
const struct member_ops *client_member_library(bool apart);
/* True if it can be opened `apart` (glibc 2.34; no sanitizer of ours). */
bool client_library_may_be_apart(void);
/* True if it can be opened at all. Not in a program with ThreadSanitizer, which can only
 * be a guest, and not be promoted. */
bool client_library_may_be_here(void);

#endif
