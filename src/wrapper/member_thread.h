/*
 * wrapper/member_thread.h - this process as the member of its rank: its claim, and its
 * thread
 */
#ifndef DYAD_WRAPPER_MEMBER_THREAD_H
#define DYAD_WRAPPER_MEMBER_THREAD_H

#include <stdbool.h>

/* Once, just before main: if this process belongs to a launch (boot/identity.h) and its
 * rank has no member yet, claim membership and start the member's thread. Returns true if
 * it belongs to a launch. */
bool wrapper_member_start(char *const env[]);
/* After that: the variable that makes a child without the launcher's variables a guest of
 * this rank ("DYAD_GUEST_OF=..."), or NULL. *is_solo: there are no launcher's variables.
 */
const char *wrapper_member_guest_of(bool *is_solo);

/* The member's thread waits for some milliseconds before it joins: long enough for a
 * wrapper script to exec. This lets it join now. Cheap; any thread. */
void wrapper_member_hurry(void);

/* True if this process is the member of its rank, or about to become it. */
bool wrapper_member_here(void);
/* At exit: join if that was not done yet (others wait for this rank), linger if `status`
 * is that of a success, leave. Blocks. */
void wrapper_member_exit(int status);

/* Before exec: leave, or do not join; the claim passes to the new image, if env makes
 * that one of this rank. True if this process is a member: after a failed exec it calls
 * wrapper_member_exec_failed(). */
bool wrapper_member_exec(char *const env[]);
void wrapper_member_exec_failed(void);

/* Before this process ends without exit(): leave, or do not join. As
 * wrapper_member_exec(), but the claim ends with the process. */
bool wrapper_member_retire(void);

/* Call it in the child of a fork, which is a guest. */
void wrapper_member_fork_child(void);

/* The claim is a descriptor of ours in the program's table. True if fd is the claim: then
 * close() by a thread of the program does nothing, as if fd were not open. */
bool wrapper_member_is_claim(int fd);
/* The claim's number, or -1. */
int wrapper_member_claim(void);
/* dup2 onto fd is about to happen: if fd is the claim's number, move the claim to
 * another. -1: the claim is about to be lost. */
void wrapper_member_claim_yield(int fd);

#endif
