/*
 * store/seen.h - what other nodes have shown of files of this node, for all its processes
 *
 * A small table in shared memory (store_extents_seen()), with few places for each of many keys: what is
 * not found in it is shown again. All functions are thread-safe, async-signal-safe and
 * safe between processes, and never wait.
 */
#ifndef DYAD_STORE_SEEN_H
#define DYAD_STORE_SEEN_H

#include <stdint.h>

#define STORE_SEEN_PLACES 1024

/* All zero: nothing was seen. */
struct store_seen {
    struct store_seen_place {
        _Atomic uint64_t lap; /* odd: being written, or its writer was killed */
        _Atomic uint64_t key, until;
    } places[STORE_SEEN_PLACES];
};

/* All that the node `node` (any number) has written to the file of that inode and birth time until
 * then, ns by its clock, is in the file here. An earlier time than what is noted changes nothing. */
void store_seen_set(struct store_seen *seen, uint64_t ino, uint64_t btime, uint64_t node,
                    uint64_t until);
/* What was noted last; 0: nothing, or it is forgotten. */
uint64_t store_seen_until(const struct store_seen *seen, uint64_t ino, uint64_t btime,
                          uint64_t node);
#endif
