/*
 * path_known.c - what is remembered of directories, for a second or two
 *
 * path_find.c says why. All are single words, each of which is right by itself or out of
 * date. The text of a relative path means something only together with a directory: the
 * epoch of the working directory or of a descriptor is hashed with it. A word that
 * outlives a change of directory would lead a path elsewhere: a change of ours raises an
 * epoch or wipes the word; for other changes remembered places, and the words of
 * descriptors, are void after a second or two.
 */
#include <stdatomic.h>

#include "wrapper/path_impl.h"
#include "wrapper/phase.h"

/* What is kept of the working directory itself is one word, (epoch, place). A change of
 * directory by a wrapper of ours raises the epoch after the fact; who computed the word
 * from an older directory fails its compare-and-swap. */
_Atomic uint64_t wrapper_path_cwd;

_Atomic uint64_t wrapper_path_places[PLACES];
_Atomic uint32_t wrapper_path_epoch;

/* By descriptor: | epoch: 40 | second: 22 | place: 2 |, the place UNKNOWN while it is
 * found out. 0: nothing. Epochs below the floor are void.
 *
 * The epoch is one that no other word has. The word is wiped when the descriptor is
 * closed or replaced, and when a call of ours returns the number anew, and is void after
 * a second like all the rest: that is for descriptors that change with no call of ours
 * (raw system calls, threads with a descriptor table of their own). */
_Atomic uint64_t wrapper_path_fds[WRAPPER_PATH_FDS];
static _Atomic uint64_t fd_epoch = 1, fd_floor;

uint64_t wrapper_path_fd_recall(int dirfd)
{
    uint64_t word;

    if ((unsigned)dirfd >= WRAPPER_PATH_FDS)
        return 0;
    word = atomic_load_explicit(&wrapper_path_fds[dirfd], memory_order_acquire);
    if ((word & PLACE_MASK) == PLACE_UNKNOWN || !is_fresh(word) ||
        word >> TAG_SHIFT < atomic_load_explicit(&fd_floor, memory_order_relaxed))
        return 0;
    return word;
}

uint64_t wrapper_path_fd_learn(int dirfd)
{
    uint64_t word;

    /* A child of vfork has descriptors of its own, but not this table. */
    if ((unsigned)dirfd >= WRAPPER_PATH_FDS || !wrapper_owner_is_self())
        return 0;
    word = atomic_fetch_add(&fd_epoch, 1) << TAG_SHIFT | (uint64_t)now() << 2;
    atomic_store(&wrapper_path_fds[dirfd], word);
    return word;
}

uint64_t wrapper_path_fd_learnt(int dirfd, uint64_t word, enum place place)
{
    if (!word || (place != PLACE_FAR && place != PLACE_ABOVE) ||
        !atomic_compare_exchange_strong(&wrapper_path_fds[dirfd], &word, word | place))
        return 0;
    return word | place;
}

/* The words of all descriptors are void. Two of these at once: the higher floor stays. */
void wrapper_path_fds_changed(void)
{
    uint64_t epoch = atomic_fetch_add(&fd_epoch, 1), floor = atomic_load(&fd_floor);

    while (floor < epoch && !atomic_compare_exchange_weak(&fd_floor, &floor, epoch))
        ;
}

void wrapper_path_changed(void)
{
    atomic_fetch_add(&wrapper_path_epoch, 1);
    wrapper_path_fds_changed();
}

void wrapper_path_cwd_changed(void)
{
    uint64_t word = atomic_load(&wrapper_path_cwd);

    while (!atomic_compare_exchange_weak(&wrapper_path_cwd, &word, (word | PLACE_MASK) + 1))
        ;
}
