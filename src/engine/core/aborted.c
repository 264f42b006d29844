/*
 * aborted.c - the end of a member after a library under the loop has aborted
 * (boot/abort.h)
 *
 * UCX was in the midst of something when it aborted; the loop, the worker and the objects
 * that they would call back stay as they are, unfreed. Either the next incarnation of
 * this rank follows, in this process, with libraries of its own (client_member.c): then
 * all others see this rank as one in exec. Or nothing follows: then others see this rank
 * as one that was killed, and the program goes on without the library.
 *
 * What could go wrong: others use what we no longer stand for; the launcher ends the job;
 * a thread uses a descriptor that is closed. The order in aborted_leave() prevents that.
 * A thread of UCX's own that finds its descriptors gone calls abort(), and sleeps there.
 */
#include "boot/fdtable.h"
#include "engine/core/member_impl.h"
#include "engine/core/module.h"
#include "engine/core/aborted.h"

#include <unistd.h>

#include "boot/member_claim.h"
#include "store/journal.h"

static void journals_close(struct member *member)
{
    struct store_journal *first = member->dmd[0].journal;
    struct store_journal *second = member->dmd[1].journal;

    member->dmd[0].journal = member->dmd[1].journal = NULL;
    store_journal_destroy(first);
    if (second != first)
        store_journal_destroy(second);
}

/* UCX may still read the object, so it is never freed. */
void aborted_keep(void *what)
{
    static void *volatile kept __attribute__((used, unused));
    kept = what;
}

/* If another member follows, the claim stays open, so nobody takes this rank's files
 * over, and a process that connects there waits for the next member. Else a neighbour can
 * take the journal over; the claim stays bound, and refuses connections. In this order:
 * - The answers that we shared are made void before others see us end
 *   (store/cache_table.h).
 * - If nothing follows the claim is shut: a request that waits in its queue fails, and so
 *   does every later one. Nobody can take our place: the claim is still ours, and this
 *   process does not try again.
 * - The pool's threads end, so none is in the midst of a descriptor that goes. What
 *   engine_io_spawn() has made stays, and touches nothing but its own job: its
 *   descriptors fail with EBADF (their numbers are not given out again, as nothing of
 *   ours is opened in this table any more), and it frees itself.
 * - PMIx is finalised, by its own thread, in bounded time; else the launcher would end
 *   the job when this process ends. PMIx needs no turn of the loop for that, but it needs
 *   its descriptors.
 * - The journals are closed, then all descriptors: a member that sees a connection break,
 *   and looks, finds the journals free. If another member follows, the caller closes the
 *   descriptors (boot_fdtable_move()). */
void aborted_leave(struct member *member, bool is_followed)
{
    member->state = MEMBER_LEAVING;
    modules_void_promises(member);
    if (!is_followed && member->claim_fd >= 0)
        boot_member_claim_shut(member->claim_fd);
    engine_iopool_destroy(member->io);
    member->io = NULL;
    boot_pmix_destroy(member->pmix, BOOT_PMIX_END_SOON);
    member->pmix = NULL;
    journals_close(member);
    if (is_followed)
        return;
    boot_fdtable_drop(STDOUT_FILENO);
    boot_fdtable_close_all();
}
