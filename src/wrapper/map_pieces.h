/*
 * wrapper/map_pieces.h - pieces of address space: each is a part of one shared, writable
 * mapping of a tracked description, and has a reference to it
 */
#ifndef DYAD_WRAPPER_MAP_PIECES_H
#define DYAD_WRAPPER_MAP_PIECES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct wrapper_desc;

#define WRAPPER_PIECES 1024

/* The number of pieces. */
extern _Atomic unsigned wrapper_pieces_live;

/* Signals are blocked meanwhile; *mask: what was blocked before. */
void wrapper_pieces_lock(uint64_t *mask);
void wrapper_pieces_unlock(const uint64_t *mask);

/* With the lock. */

/* Takes over the caller's reference to desc. False: no room. */
bool wrapper_pieces_add(uintptr_t start, uintptr_t end, struct wrapper_desc *desc);
/* The description of a piece that has a part of [start, end), or NULL. */
struct wrapper_desc *wrapper_pieces_at(uintptr_t start, uintptr_t end);
/* Cut [start, end) out of all pieces. Whole ones go to gone[], with their
 * references. Returns how many. */
unsigned wrapper_pieces_cut(uintptr_t start, uintptr_t end, struct wrapper_desc *gone[]);
/* A range is about to be unmapped: open the file of the first piece in it that has the
 * last reference to its description. A new descriptor, or -1. */
int wrapper_pieces_reopen_last(uintptr_t start, uintptr_t end);

/* Without the lock. */

/* Drop the references. The engine logs a publish that fails: munmap has no error for it.
 * `fd` is open on the file of one of them, or -1; it is closed. */
void wrapper_pieces_drop(struct wrapper_desc *gone[], unsigned n, int fd);
/* exec and exit end all mappings: settle the descriptions that these hold. */
void wrapper_pieces_settle_all(void);
/* In the child of a fork, before and after wrapper_fd_fork_child(). */
void wrapper_pieces_fork_child_begin(void);
void wrapper_pieces_fork_child_end(void);

#endif
