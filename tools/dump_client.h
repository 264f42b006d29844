/*
 * dump_client.h - find the members on this node and ask one of them for the table
 *
 * Speaks the guest protocol (net/msg.h): frames of a little-endian u32 length and an
 * encoded message. The answers are put together to one JSON document:
 *   {"session": HASH, "shards": [SHARD...], "unreachable": [{"rank": N, "error": TEXT}...],
 *    "ended": [{"rank": N, "state": "left" | "dead" | "ended"}...]}
 * both arrays in the order of ranks. Single-threaded; blocks.
 */
#ifndef DYAD_TOOLS_DUMP_CLIENT_H
#define DYAD_TOOLS_DUMP_CLIENT_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include <jansson.h>

#include "boot/claim_names.h"

#define DUMP_SESSION_MAX 80

/* A member that listens on this node, as its socket's name tells. */
struct dump_member {
    uid_t uid;
    uint32_t rank;
    char session[DUMP_SESSION_MAX];     /* the hash in the name */
    char tail[BOOT_CLAIM_TAIL_LEN + 1]; /* of a fallback name, or "" (boot/claim_names.h) */
};

/* Members in an open /proc/net/unix, of all users, in the order of uid, session and rank.
 * *members is malloc'ed. 0, or -1 with errno. */
int dump_client_scan(FILE *sockets, struct dump_member **members, size_t *n);

/* Leave out those whose socket another user has than the one that the name says. */
void dump_client_drop_strangers(struct dump_member *members, size_t *n);

/* Connect, within timeout ns. A descriptor, or -1 with errno: ECONNREFUSED it has gone,
 * ETIMEDOUT, EACCES it is not a process of this user. `pid` (may be NULL) gets the
 * member's. */
int dump_client_connect(const struct dump_member *member, uint64_t timeout, pid_t *pid);

struct dump_query {
    uint8_t flags;     /* NET_DUMP_* */
    const char *upath; /* for NET_DUMP_KEY, else NULL */
    uint32_t rank;     /* DYAD_RANK_NONE: all */
    uint64_t first;    /* ns to wait for the first answer */
    uint64_t timeout;  /* ns to wait for each further one */
};

/* Ask over a connection, and close it. Returns the document (also if only some ranks
 * answered: the others are in "unreachable"), or NULL with errno and a message: none did.
 */
json_t *dump_client_ask(int fd, const char *session, const struct dump_query *query,
                        char *err, size_t size);

#endif
