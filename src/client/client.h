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
    const char *path;          /* the DMD as configured; NULL: none */
    char real[PATH_MAX];       /* symbolic links resolved: what /proc/self/fd shows */
    struct store_marks *marks; /* both roles share one table where they have one DMD */
    bool shared;               /* with other nodes, as far as this process can tell */
};

struct client {
    char *const *env; /* as client_setup() was given it */
    struct engine_config config;
    struct boot_identity identity;
    struct client_dmd dmd[2]; /* by enum engine_role */
    struct sockaddr_un claim;
    socklen_t claim_len;
    char session[64]; /* as in the claim's name */
    uint64_t renames; /* the session's number, store/renames.h */
    uint64_t launch;  /* tells launches apart whose job names are alike */
    uint64_t rank;    /* store/looked.h */
    void (*thread_enter)(void);
    void (*waits)(bool begins, bool may_cancel); /* as in engine_host; may be NULL */
    void (*run_loader)(void (*load)(void *arg), void *arg); /* engine_host's, or NULL */
};

/* Set up once per process from an environment (NULL-terminated; borrowed for the life of
 * the process: a copy, which the program does not know). Later calls return what the first
 * did. 0 or -1 with errno (logged): EINVAL a bad variable, ENOENT no DMD, ENOTCONN no
 * launcher. Thread-safe. */
int client_setup(char *const env[], void (*thread_enter)(void),
                 void (*waits)(bool begins, bool may_cancel));

/* The process's client after client_setup() succeeded, else NULL. */
struct client *client_get(void);

/* In the child of fork: the parent's member threads are not here. */
void client_fork_child(void);

/* Ask the member of this rank; becomes it if none lives. The reply's pointers point into
 * buf (NET_MSG_HEADER_MAX bytes). 0, or -1 with errno: the reply's status, or EHOSTUNREACH
 * when no member can be reached. Blocks. Thread-safe. */
int client_request(struct client *client, const struct net_msg *request,
                   struct net_msg *reply, void *buf);

/* Wait until this rank's member has joined. 0 or -1 with errno. */
int client_ping(struct client *client);
/* Get a published file, by a message to the member. `wait`: 0, NET_LOOKUP_WAIT, or what
 * client_waits_for() returned, with NET_CONSUME_UPDATE or not. timeout_ms 0: no limit. */
int client_consume(struct client *client, const char *upath, uint8_t wait,
                   uint64_t timeout_ms);
/* The same for a program's open: -1 also with EINTR, where a handler that was installed
 * without SA_RESTART has run (client_ask.c). */
int client_consume_to_open(struct client *client, const char *upath, uint8_t wait,
                           uint64_t timeout_ms);
/* Fetch upath if it is published and nothing of that name is here, for who opens it for
 * writing: waits neither for a publish nor for another writer. */
int client_consume_to_write(struct client *client, const char *upath);
/* Does an open of upath wait, by DYAD_WAIT and what is known of this process? 0: no.
 * NET_LOOKUP_WAIT: yes. With NET_CONSUME_PROBE: if the member finds that it will come. May
 * look at /proc and directories, and ask the member; errno is kept. Thread-safe. */
uint8_t client_waits_for(struct client *client, const char *upath);
/* Publish upath, whose `mark` (0: none) the member clears. */
int client_produce(struct client *client, enum engine_role role, const char *upath,
                   uint64_t mark);
/* This process has closed upath, and another still has it open: the member sees to it that
 * somebody publishes it. `fd`: a descriptor of the file. */
int client_watch(struct client *client, enum engine_role role, const char *upath,
                 uint64_t mark, int fd);
/* Is it to be reckoned with that other nodes write to this role's files? A load or two;
 * from anywhere. */
bool client_shared(const struct client *client, enum engine_role role);
/* Then: the homes know that upath (may be NULL, but at a beginning) is being written under
 * this mark, or not any more (NET_WRITING_*). 0 or -1 with errno. */
int client_writing(struct client *client, enum engine_role role, const char *upath,
                   uint64_t mark, uint8_t what);
/* Then: wait until no other node writes upath, if it is here. 0 or -1 with errno. */
int client_settle(struct client *client, const char *upath, uint64_t timeout_ms);
/* May what is complete here be out of date, because this rank's member has not looked yet?
 * Loads only; from anywhere. */
bool client_may_be_old(const struct client *client);
/* Then, before the real open of upath for reading: wait until that is known of it. 0 (also
 * if nobody can be asked, or nobody answers: it is opened as it is), or -1 with errno. */
int client_look(struct client *client, const char *upath, uint64_t timeout_ms);
/* The same before one for writing that keeps what is there: never waits for a publish.
 * ENOENT: it is not here any more, and not published. */
int client_look_to_write(struct client *client, const char *upath);
int client_stat(struct client *client, const char *upath, struct net_msg *reply, void *buf);
/* *connection: as of client_connect(), or -1; it is used up then. NULL: none. */
int client_withdraw(struct client *client, const char *upath, int *connection);
/* A directory or a link was made, a file changed by its name. */
int client_changed(struct client *client, enum engine_role role, const char *upath);
/* NET_BRING_*: the directories above upath, or the tree below it. */
int client_bring(struct client *client, const char *upath, uint8_t what);
/* As engine_ops.list(): all names are here before the first call of fn, so fn may do what
 * it likes. */
int client_list(struct client *client, const char *upath,
                int (*fn)(void *arg, const char *name, unsigned char type), void *arg);
int client_rename(struct client *client, const char *from, const char *to, int *connection);
/* A connection to the member, if one lives: should this process end before it has asked
 * anything on it, or called client_disconnect(), the member looks what it has left. -1:
 * none. */
int client_connect(struct client *client);
void client_disconnect(int connection);

/* Part of a path behind a DMD's path, NULL if it is not below it (or is the DMD itself). */
const char *client_below(const char *dmd, const char *path);

/* Be the member on this thread until client_member_leave(). */
int client_member_run(struct client *client, int claim_fd);
/* Claim membership if nobody has it and serve on a new thread. 0: this process is the
 * member now, or somebody else is. -1 with errno. */
int client_member_start(struct client *client);
/* Ask this process's member, if it has one, to leave, and wait until it has. */
void client_member_leave(enum member_leave how, bool image_ends);
/* Its member has left because the process ends, and none will come after it: what is asked
 * from now on (by the destructors of libraries) fails at once. The claim is open to the
 * end, and nobody accepts there. */
void client_member_end(void);
bool client_member_over(void);
/* The member of this process, or of the one that it was forked off, has ended itself, and
 * none can follow: what nobody can be asked about is not known. Unlike that of a rank that
 * could not join: there a name that is not here is nowhere. False at the process's end. */
bool client_member_lost(void);
/* While this process starts as a member, a thread of ours holds copies of the program's
 * descriptors for a moment: wait until it does not. */
void client_member_table_wait(void);
/* True if this process runs its rank's member. */
bool client_member_here(void);

#endif
