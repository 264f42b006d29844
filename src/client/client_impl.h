/*
 * client/client_impl.h - between the modules of the client, for nobody else
 */
#ifndef DYAD_CLIENT_CLIENT_IMPL_H
#define DYAD_CLIENT_CLIENT_IMPL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct client;
struct net_msg;

/* --- client_ask.c --- */

/* One page of an answer; NULL: it begins, perhaps anew after a member that went away. 0 or
 * -1 with errno, which ends it. */
typedef int (*front_page_fn)(void *arg, const struct net_msg *page);
/* client_request() for an answer of many pages, each of at most `size` bytes. */
int client_request_pages(struct client *client, const struct net_msg *request,
                         struct net_msg *reply, void *buf, size_t size, front_page_fn page,
                         void *arg);

/* How long somebody waits for an answer to begin: asked again when the time is up. It may
 * keep errno or not. */
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
    void *buf; /* what the reply points into */
    size_t size;
    front_page_fn page; /* NULL: the answer is one message */
    void *arg;
    int *connection;    /* made before, and used up; NULL or -1: none. Not with `apart` */
    bool interruptible; /* by a handler without SA_RESTART: EINTR, not logged */
    bool apart;         /* with a table of descriptors of its own, by client_borrow_fd() */
    bool full;          /* result: nothing was asked, since no descriptor number is free */
    struct client_patience *patience; /* for an open only; NULL: without end */
};

/* 0, or -1 with errno: the answer's status, or why there is none (logged, but for EMFILE
 * and what `patience` ended). From a constructor of a library it ends also where the member
 * is this process's and waits for the dynamic loader: with patience ETIMEDOUT, else
 * EHOSTUNREACH. */
int client_ask(struct client_asking *asking);

/* --- client.c --- */

/* The calling thread wants upath: a GUEST_CONSUME with these flags. The reply's pointers
 * are not valid. With patience also ETIMEDOUT, not logged: it was at its end; NULL: as
 * client_request(). */
int client_consume_patient(struct client *client, const char *upath, uint8_t flags,
                           uint64_t timeout_ms, struct net_msg *reply,
                           struct client_patience *patience);

/* In the child of fork: make client.c's lock new. */
void client_lock_reset(void);

/* --- client_look.c --- */

/* Has this rank no member yet that is done with loading libraries? */
bool client_member_loads(const struct client *client);

/* --- client_member.c --- */

/* Can this process neither join nor find a member, now and later? */
bool client_member_hopeless(void);

/* --- client_library.c --- */

/* dyad/libdyad_member.so, opened; NULL after a log line. `apart`: with libraries of its
 * own, libc included, whatever this process has loaded of them already; what is made there
 * is freed there. Not in two threads at once. */
const struct member_ops *client_member_library(bool apart);
/* Can it be? (glibc 2.34; no sanitizer of ours.) */
bool client_library_may_be_apart(void);
/* Can it be opened at all? Not in a program that has ThreadSanitizer, which can only be a
 * guest, and not be promoted. */
bool client_library_may_be_here(void);

#endif
