/*
 * wreck.c - a library under the loop has ended itself (boot/abort.h): what is left to do
 *
 * UCX was in the midst of something when it found its fault; the loop, the worker and what
 * was to be called back by them stay as they are, for ever, unfreed. To all others this
 * rank is as one that was killed: its connections break, its journal is free for a
 * neighbour to adopt, and its claim, which stays bound, refuses whoever connects. The
 * program goes on without us. So, in this order:
 *
 * - The answers that we shared are void, before anybody can know (store/answers.h).
 * - The claim is shut: a request that waits in its queue fails, and so does every later
 *   one. Nobody can take our place: the claim is still ours, and this process does not
 *   try again (front_member.c).
 * - The pool's threads end, so none is in the midst of a descriptor that goes. What
 *   engine_io_spawn() has made stays, and touches nothing but its own job: its descriptors
 *   fail with EBADF (their numbers are not given out again, as nothing of ours is opened
 *   any more), and it frees itself.
 * - PMIx is finalised, by its own thread, in bounded time; else the launcher would end the
 *   job when this process ends. It needs no turn of the loop for that, and its descriptors.
 * - The journals are closed, then all descriptors: who sees a connection break, and looks,
 *   finds the journals free.
 *
 * A thread of UCX's own that finds its descriptors gone calls abort(), and sleeps there.
 */
#include "boot/fdtable.h"
#include "engine/member_impl.h"

#include <unistd.h>

#include "boot/claim.h"
#include "store/journal.h"

static void journals_close(struct member *member)
{
    struct store_journal *first = member->side[0].journal;
    struct store_journal *second = member->side[1].journal;

    member->side[0].journal = member->side[1].journal = NULL;
    store_journal_destroy(first);
    if (second != first)
        store_journal_destroy(second);
}

/* Not lost: nobody knows what of it UCX still reads. */
void wreck_keep(void *what)
{
    static void *volatile kept __attribute__((used, unused));
    kept = what;
}

void wreck_leave(struct member *member)
{
    member->state = MEMBER_LEAVING;
    answers_close(member);
    first_look_close(member);
    if (member->claim_fd >= 0)
        boot_claim_shut(member->claim_fd);
    engine_iopool_destroy(member->io);
    member->io = NULL;
    boot_pmix_destroy(member->pmix);
    member->pmix = NULL;
    journals_close(member);
    boot_fdtable_drop(STDOUT_FILENO);
    boot_fdtable_close_all();
}
