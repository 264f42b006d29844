/*
 * client/client.h - the half of the engine that every process of a rank has
 *
 * libdyad.so.1: configuration, dirty marks, and requests to the rank's member over the
 * claim's socket. No lasting descriptor of its own, and no thread but in a guest that is
 * promoted (client_promoted.h), so it survives fork, and programs that close descriptors
 * they did not open. Internal to libdyad.so.1.
 */
#ifndef DYAD_CLIENT_CLIENT_H
#define DYAD_CLIENT_CLIENT_H

#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "boot/identity.h"
#include "config/config.h"
#include "client/client_ops.h"
#include "engine/core/member_ops.h"
#include "net/msg.h"
#include "store/marks.h"

struct client_dmd {
    const char *path;              /* the DMD as configured; NULL: none */
    char real[PATH_MAX];           /* symbolic links resolved: what /proc/self/fd shows */
    struct store_marks *marks;     /* both roles share one table where they have one DMD */
    struct store_extents *extents; /* likewise; NULL: nothing is recorded */
    bool shared;                   /* with other nodes, as far as this process can tell */
};

struct client {
    char *const *env; /* the argument of client_setup() */
    struct engine_config config;
    struct boot_identity identity;
    struct client_dmd dmd[2]; /* by enum engine_role */
    struct sockaddr_un claim;
    socklen_t claim_len;
    char session[64]; /* as in the claim's name */
    uint64_t renames; /* the session's number, store/renames.h */
    uint64_t launch;  /* distinguishes launches that have the same job name */
    uint64_t rank;    /* store/looked.h */
    void (*thread_enter)(void);
    void (*waits)(bool begins, bool may_cancel); /* as in engine_host; may be NULL */
    void (*run_loader)(void (*load)(void));      /* engine_host's, or NULL */
};

/* Set up once per process from an environment (NULL-terminated; borrowed for the life of
 * the process: a copy, which the program does not know). Later calls return what the first
 * did. 0 or -1 with errno (logged): EINVAL a bad variable, ENOENT no DMD, ENOTCONN no
 * launcher. Thread-safe. */
int client_setup(char *const env[], void (*thread_enter)(void),
                 void (*waits)(bool begins, bool may_cancel));

/* The process's client after client_setup() succeeded, else NULL. */
struct client *client_get(void);

/* Call it in the child of fork, which lacks the parent's member threads. */
void client_fork_child(void);

/* Send a request to the member of this rank; if none lives this process becomes the
 * member. The reply's pointers point into buf (NET_MSG_HEADER_MAX bytes). 0, or -1 with
 * errno: the reply's status, or EHOSTUNREACH when no member can be reached. Blocks.
 * Thread-safe, as all requests below. */
int client_request(struct client *client, const struct net_msg *request,
                   struct net_msg *reply, void *buf);

/* Wait until this rank's member has joined. 0 or -1 with errno. */
int client_ping(struct client *client);
/* Get a published file, by a message to the member. `wait`: 0, NET_LOOKUP_WAIT, or what
 * client_waits_for() returned, with NET_CONSUME_UPDATE or not. timeout_ms 0: no limit. */
int client_consume(struct client *client, const char *upath, uint8_t wait,
                   uint64_t timeout_ms);
/* The same for a program's open: -1 also with EINTR, if a signal handler that was
 * installed without SA_RESTART has run (client_ask.c). */
int client_consume_to_open(struct client *client, const char *upath, uint8_t wait,
                           uint64_t timeout_ms);
/* Let the member bring upath in the background when it is published. */
int client_prefetch(struct client *client, const char *upath);
/* Before an open for writing: fetch upath if it is published and the name does not exist
 * here. Waits neither for a publish nor for another writer. `makes`: the open makes the file if
 * there is none, and the homes are to know; `ahead` (may be NULL): it may be ahead of what is published, as others have it
 * who write it; then it is superseded, -1 with EUCLEAN, and *ahead the version. */
int client_consume_to_write(struct client *client, const char *upath, bool makes,
                            struct dyad_version *ahead);
/* Find out, by DYAD_WAIT and the program of this process, whether an open of upath waits.
 * 0: no. NET_LOOKUP_WAIT: yes; with NET_CONSUME_PROBE: only if the member finds that it
 * will come. May look at /proc and directories, and ask the member; errno is kept. */
uint8_t client_waits_for(struct client *client, const char *upath);
/* Publish upath, whose `mark` (0: none) the member clears. */
int client_produce(struct client *client, enum engine_role role, const char *upath,
                   uint64_t mark);
/* This process has closed upath, and another process still has it open: the member
 * watches that one, so that the file is published. `fd`: a descriptor of the file. */
int client_watch(struct client *client, enum engine_role role, const char *upath,
                 uint64_t mark, int fd);
/* True if other nodes may write to this role's files. A load or two; from anywhere. */
bool client_shared(const struct client *client, enum engine_role role);
/* If so: let the homes know that upath (may be NULL, but not for a BEGIN) is being
 * written under this mark, or not any more (NET_WRITING_*). 0 or -1 with errno. */
int client_writing(struct client *client, enum engine_role role, const char *upath,
                   uint64_t mark, uint8_t what);
/* If so: wait until no other node writes upath, if it is here. 0 or -1 with errno. */
int client_await_unwritten(struct client *client, const char *upath, uint64_t timeout_ms);
/* True if complete files here may be out of date, because this rank's member has not done
 * its startup validation. Loads only; from anywhere. */
bool client_may_be_old(const struct client *client);
/* If so, before the real open of upath for reading: wait until it is validated. 0 (also
 * if no member can be asked, or answers: the file is opened as it is), or -1 with errno.
 */
int client_look(struct client *client, const char *upath, uint64_t timeout_ms);
/* The same before an open for writing that keeps the content: never waits for a publish.
 * ENOENT: it is not here any more, and not published. */
int client_look_to_write(struct client *client, const char *upath);
/* True if upath is on this node's disk, and not superseded, in the program's own view of
 * the path, as its open will have it. *st is all zero if that cannot be found out. */
bool client_is_here(const struct client *client, const struct client_dmd *dmd,
                    const char *upath, int flags, struct stat *st);
int client_stat(struct client *client, const char *upath, struct net_msg *reply, void *buf);
/* Withdraw upath. *connection: from client_connect(), or -1; closed by this. NULL: none.
 */
int client_withdraw(struct client *client, const char *upath, int *connection);
/* A directory or a link was made, or a file was changed by its name. */
int client_changed(struct client *client, enum engine_role role, const char *upath);
/* Bring (NET_BRING_*) the directories above upath, or the tree below it, here. */
int client_bring(struct client *client, const char *upath, uint8_t what);
/* As engine_ops.list(): all names are here before the first call of fn, so fn may make
 * any calls. */
int client_list(struct client *client, const char *upath,
                int (*fn)(void *arg, const char *name, unsigned char type), void *arg);
int client_rename(struct client *client, const char *from, const char *to, int *connection);
/* Connect to the member, if one lives: if this process ends before it has sent a request
 * on the connection, or called client_disconnect(), the member looks for renames that it
 * has left. -1: none. */
int client_connect(struct client *client);
void client_disconnect(int connection);

/* The part of `path` after the DMD's path; NULL if it is not below it, or the DMD itself.
 */
const char *client_below(const char *dmd, const char *path);

/* Run the member on this thread until client_member_leave(). */
int client_member_run(struct client *client, int claim_fd);
/* Claim membership, if that is free, and serve on a new thread. 0: this process is the
 * member now, or another is. -1 with errno. */
int client_member_start(struct client *client);
/* Ask this process's member, if it has one, to leave, and wait until it has. */
void client_member_leave(enum member_leave how, bool image_ends);
/* end: the member of this process has left because the process ends, and none follows:
 * requests from now on (by the destructors of libraries) fail at once. The claim stays
 * open to the end, but connections to it are not accepted. over: true after that. */
void client_member_end(void);
bool client_member_over(void);
/* True if the member of this process, or of the one that it was forked off, was lost when
 * a library of ours aborted, and none can follow: then it is not known whether a name is
 * published. Not so for a rank that could not join: there a name that is not here does
 * not exist. False at the process's end. */
bool client_member_lost(void);
/* When this process starts as a member, a thread of ours holds copies of the program's
 * descriptors for a moment: wait until that is over. */
void client_member_table_wait(void);
/* True if this process runs its rank's member. */
bool client_member_here(void);

#endif
