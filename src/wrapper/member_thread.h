/*
 * wrapper/member_thread.h - this process as the member of its rank: the claim, and the
 * thread that joins
 */
#ifndef DYAD_WRAPPER_MEMBER_THREAD_H
#define DYAD_WRAPPER_MEMBER_THREAD_H

#include <stdbool.h>

/* Once, just before main: if this process is of a launch (boot/identity.h) and its rank has
 * no member yet, claim membership and start the member's thread. Returns true if it is of a
 * launch. */
bool wrapper_member_start(char *const env[]);
/* After that: what makes a child that lacks the launcher's variables a guest of this rank
 * ("DYAD_GUEST_OF=..."), or NULL. `is_solo`: there are no such variables. */
const char *wrapper_member_guest_of(bool *is_solo);

/* The member's thread waits for some milliseconds before it joins: long enough for a
 * wrapper script to exec. This lets it join now. Cheap; any thread. */
void wrapper_member_hurry(void);

/* Is this process the member of its rank, or about to be? */
bool wrapper_member_here(void);
/* At exit: join if that is still to be done (others wait for this rank), linger if `status`
 * is that of a success, leave. Blocks. */
void wrapper_member_exit(int status);

/* Before exec: leave, or do not join; the claim passes to the new image, if
 * env makes it one of this rank. True if this process is a member:
 * after a failed exec it calls wrapper_member_exec_failed(). */
bool wrapper_member_exec(char *const env[]);
void wrapper_member_exec_failed(void);

/* Before this process ends without another word: leave, or do not join. As
 * wrapper_member_exec(), but the claim goes with the process. */
bool wrapper_member_retire(void);

/* In the child of a fork: it is a guest. */
void wrapper_member_fork_child(void);

/* The claim is a descriptor of ours in the program's table. For a thread of the program's
 * close() of it does nothing, as if it were not open... */
bool wrapper_member_is_claim(int fd);
/* The claim's number, or -1. */
int wrapper_member_claim(void);
/* ... and dup2 onto its number finds it elsewhere. -1: it is about to be lost. */
void wrapper_member_claim_yield(int fd);

#endif
