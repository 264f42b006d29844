/*
 * boot/member_claim.h - one member per rank
 *
 * A rank's member holds a listening Unix-domain socket in the abstract name space; binding
 * its name is the claim, it dies with its holder, it is per network namespace (per node),
 * and connecting to it is how a guest reaches its member. Name: NUL "dyad/" uid "/"
 * hash(nspace, DYAD_KVS_NAMESPACE) hash(node) "/" rank: 16 hexadecimal digits each, so the
 * names show which sockets are of one launch. Where another user holds it the claim has
 * another name (claim_names.h): all functions take this one. Peers are checked with
 * SO_PEERCRED. Links libc only: the wrapper makes the claim before main, in some 30 us, so
 * the name exists before the first child does; connections queue until it accepts.
 */
#ifndef DYAD_BOOT_MEMBER_CLAIM_H
#define DYAD_BOOT_MEMBER_CLAIM_H

#include <stdbool.h>
#include <stddef.h>

#include <sys/socket.h>
#include <sys/un.h>

#include "boot/identity.h"

/* The length of the part of a claim's name that is the hash of the launch. */
#define BOOT_CLAIM_LAUNCH_LEN 16

/* Fill the address of the rank's member; returns its length. `kvs` = DYAD_KVS_NAMESPACE or
 * NULL. */
socklen_t boot_member_claim_address(const struct boot_identity *identity, const char *kvs,
                                    struct sockaddr_un *address);
/* The name in an address, without the NUL: text of printable characters and no space.
 * `name` has room for sizeof(address->sun_path) bytes. And back: its length, or 0: no such
 * name. */
void boot_member_claim_name(const struct sockaddr_un *address, socklen_t len, char *name);
socklen_t boot_member_claim_named(const char *name, struct sockaddr_un *address);
/* Try to become the member: a listening, close-on-exec socket at a descriptor >= 256 where
 * the limit allows (never 0-9), or -1: EADDRINUSE a member exists. Waits for others that
 * try, if another user holds the name. A member sees a connection that ends at once. */
int boot_member_claim_bind(const struct sockaddr_un *address, socklen_t len);
/* The same at the start of a process: EADDRINUSE whoever holds the name. So a guest's start costs the member nothing; where
 * another user holds it the first request finds that out, and makes the member. */
int boot_member_claim_bind_first(const struct sockaddr_un *address, socklen_t len);
/* A claim inherited from the image before exec: the lowest descriptor in this process that
 * is a listening socket of that name, or of a fallback name, or -1. */
int boot_member_claim_inherited(const struct sockaddr_un *address, socklen_t len);
/* Connect to the member. A blocking stream socket (close-on-exec), or -1: ECONNREFUSED no
 * member lives; EPERM the name is of another user than this process has now, and so is
 * who listens there. */
int boot_member_claim_connect(const struct sockaddr_un *address, socklen_t len);
/* The same, but -1 EAGAIN if the member does not accept (it is stopped) and connect()
 * would block because the queue is full. */
int boot_member_claim_connect_now(const struct sockaddr_un *address, socklen_t len);
/* The holder of the claim cannot serve: connections that wait, and all later ones, fail
 * at once, for every process. The holder keeps the claim. */
void boot_member_claim_shut(int claim_fd);
/* The process at the other end of fd; 0 if our pid namespace does not show it; -1: it has
 * another effective uid than we have (and is not root). */
pid_t boot_member_claim_peer(int fd);

#endif
