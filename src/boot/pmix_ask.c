/*
 * pmix_ask.c - Gets of other ranks' blobs
 *
 * Each rank whose blob is wanted has a struct pmix_ask, with a deadline of our own:
 * PMIX_TIMEOUT does not work across nodes, and a Get of a rank that never joins never
 * returns. The session's thread sends the Gets (PMIx_Get_nb) that are due; got() takes
 * the answers. Where the newest blob does not come, one that this node's server has kept
 * may do (give_kept()).
 *
 * What could go wrong: an answer of "not found" is premature (got()); a callback comes
 * after the session or never (struct pmix_ticket, send_get()); this rank ends while its
 * server waits for an answer, which hangs the launcher (boot_pmix_answers_until()).
 */
#include "boot/pmix_impl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <utlist.h>

#include "util/clock.h"
#include "util/log.h"
#include "util/wipe.h"

#define RETRY_FIRST_NS UTIL_NSEC_PER_MSEC
#define RETRY_MAX_NS   (256 * UTIL_NSEC_PER_MSEC)
/* How long an answer is waited for: of a rank that may have ended, from the request on; of
 * one that is there, from when we leave on, and for longer if nobody waits for us. */
#define ANSWER_BOUND_NS       (2 * UTIL_NSEC_PER_SEC)
#define ANSWER_THERE_BOUND_NS (10 * UTIL_NSEC_PER_SEC)
/* What TCP could not deliver it sends again when as much time has passed once more, but for this at
 * most (TCP_RTO_MAX). */
#define RESENT_MAX_NS (120 * UTIL_NSEC_PER_SEC)

void boot_pmix_ask_free(struct boot_pmix *pmix, struct pmix_ask *ask)
{
    HASH_DEL(pmix->asks, ask);
    util_wipe_free(ask->kept, ask->kept_len);
    free(ask);
}

struct pmix_ask *boot_pmix_ask_add(struct boot_pmix *pmix, uint32_t rank,
                                   enum boot_pmix_wanted wanted)
{
    uint64_t now = util_clock_now();
    struct pmix_ask *ask;

    HASH_FIND(hh, pmix->asks, &rank, sizeof(rank), ask);
    if (ask && ask->reported && ask->state == ASK_WANTED) { /* its pause may be long */
        boot_pmix_ask_free(pmix, ask);
        ask = NULL;
    }
    if (!ask) {
        if (!(ask = calloc(1, sizeof(*ask))))
            return NULL;
        ask->rank = rank;
        ask->when = now;
        ask->both = wanted == BOOT_PMIX_BOTH;
        ask->past_cache = wanted == BOOT_PMIX_NEWEST;
        ask->delay = RETRY_FIRST_NS;
        HASH_ADD(hh, pmix->asks, rank, sizeof(ask->rank), ask);
        if (!ask->hh.tbl) {
            free(ask);
            return NULL;
        }
    }
    if (ask->state == ASK_WANTED || ask->reported) {
        /* new, or it was reported absent: count the time anew */
        ask->reported = false;
        ask->deadline = now + pmix->timeout_ns;
    }
    return ask;
}

/* A server knows the newest of its own clients; asked to refresh one of these, it answers
 * with nothing. */
static bool has_cache(const struct boot_pmix *pmix, uint32_t rank)
{
    return pmix->have_job && rank < pmix->job.nranks &&
           pmix->self.rank < pmix->job.nranks &&
           pmix->job.node[rank] != pmix->job.node[pmix->self.rank];
}

/* A Get was answered: on PMIx's progress thread. The value stays PMIx's.
 *
 * An answer of "not found" is asked again after 1 ms, 2 ms, ...: the default store says
 * so when the answer races with the owner's commit, and a server does when the rank had
 * committed something else before (MPI's keys), so the Get is repeated with
 * PMIX_GET_REFRESH_CACHE. It is also when the rank has been reported as absent, joins, and has
 * not committed yet; as it may never commit, the pauses double then without an end. */
static void got(pmix_status_t status, pmix_value_t *value, void *arg)
{
    struct pmix_ticket *ticket = arg;
    struct boot_pmix *pmix = ticket->pmix;
    struct pmix_ask *ask;

    pthread_mutex_lock(&pmix->lock);
    DL_DELETE(pmix->tickets, ticket);
    HASH_FIND(hh, pmix->asks, &ticket->rank, sizeof(ticket->rank), ask);
    if (!ticket->cancelled && ask) {
        void *blob = NULL;
        size_t len = 0;
        if (boot_pmix_error_of(status) == 0 && value && value->type == PMIX_BYTE_OBJECT &&
            value->data.bo.size > 0 && (blob = malloc(value->data.bo.size))) {
            len = value->data.bo.size;
            memcpy(blob, value->data.bo.bytes, len);
        }
        if (blob && ask->both && !ask->reported && has_cache(pmix, ask->rank)) {
            ask->both = false;
            ask->kept = blob;
            ask->kept_len = len;
            ask->past_cache = true;
            ask->state = ASK_WANTED;
            ask->when = util_clock_now();
            ask->kept_at = ask->when + pmix->kept_ns;
        } else if (blob) {
            boot_pmix_result_put(pmix, RESULT_BLOB, ask->rank, 0, blob, len);
            boot_pmix_ask_free(pmix, ask);
        } else {
            ask->state = ASK_WANTED;
            ask->past_cache = true;
            ask->when = util_clock_now() + ask->delay;
            if (ask->reported || ask->delay < RETRY_MAX_NS)
                ask->delay *= 2;
        }
    }
    pthread_cond_broadcast(&pmix->changed);
    free(ticket);
    boot_pmix_unref_unlock(pmix);
}

/* Send the Get of `rank`. The lock is held, and dropped meanwhile: the caller must look
 * at the table anew.
 *
 * Finalize drops pending Gets without calling back, if it is the last; else the callback
 * may come at any later time. So a pending Get is a ticket that holds a reference to
 * struct boot_pmix. */
static void send_get(struct boot_pmix *pmix, struct pmix_ask *ask)
{
    struct pmix_ticket *ticket = calloc(1, sizeof(*ticket));
    uint32_t rank = ask->rank;
    bool past_cache = ask->past_cache && has_cache(pmix, rank);
    pmix_status_t rc;

    if (!ticket) {
        ask->when = util_clock_now() + RETRY_MAX_NS;
        return;
    }
    ticket->pmix = pmix;
    ticket->rank = rank;
    ticket->past_cache = past_cache;
    ticket->sent = util_clock_now();
    DL_APPEND(pmix->tickets, ticket);
    pmix->refs++;
    ask->state = ASK_PENDING;
    pthread_mutex_unlock(&pmix->lock);

    PMIX_LOAD_PROCID(&ticket->proc, pmix->self.nspace, rank);
    PMIX_INFO_LOAD(&ticket->refresh, PMIX_GET_REFRESH_CACHE, NULL, PMIX_BOOL);
    rc = PMIx_Get_nb(&ticket->proc, pmix->key, past_cache ? &ticket->refresh : NULL,
                     past_cache ? 1 : 0, got, ticket);
    if (rc != PMIX_SUCCESS) {
        log_debug("PMIx_Get_nb of rank %u: %s", rank, PMIx_Error_string(rc));
        got(rc, NULL, ticket);
    }
    pthread_mutex_lock(&pmix->lock);
}

/* The newest has not come. Lock held.
 *
 * A Get says nothing of why it is pending: a rank that never joins, and one whose node is
 * cut off, look alike. But the server of this node keeps what it has got once, and
 * answers an ordinary Get with that, whoever of its clients had asked before (seen with
 * Open MPI 4.1.4 and Slurm 22.05; what was asked for beyond a cut they answer, too, some
 * 5 s after it is over). So a member that follows another one of its rank is told by its
 * own server who was there, and where, also beyond a cut (BOOT_PMIX_BOTH). That may be
 * out of date by as much as the other has executed since; so it is only a second best,
 * for when the newest does not come. */
static void give_kept(struct boot_pmix *pmix, struct pmix_ask *ask)
{
    log_debug("rank %u: what the launcher's server on this node has kept of it", ask->rank);
    boot_pmix_result_put(pmix, RESULT_KEPT, ask->rank, 0, ask->kept, ask->kept_len);
    ask->kept = NULL;
}

uint64_t boot_pmix_asks_serve(struct boot_pmix *pmix, bool *idle)
{
    struct pmix_ask *ask, *next;
    uint64_t now, wake;
    bool sent;

    do {
        sent = false;
        wake = 0;
        *idle = true;
        now = util_clock_now();
        HASH_ITER(hh, pmix->asks, ask, next)
        {
            if (!ask->reported && ask->kept &&
                (ask->kept_at <= now || ask->deadline <= now))
                give_kept(pmix, ask);
            if (!ask->reported && ask->deadline <= now) {
                ask->reported = true;
                ask->deadline = UINT64_MAX;
                boot_pmix_result_put(pmix, RESULT_BLOB, ask->rank, EHOSTUNREACH, NULL, 0);
            }
            if (ask->reported && ask->state == ASK_PENDING)
                continue;
            if (!ask->reported)
                *idle = false;
            if (ask->state == ASK_WANTED && ask->when <= now) {
                send_get(pmix, ask);
                sent = true;
                break;
            }
            uint64_t when = ask->deadline;
            if (ask->state == ASK_WANTED && ask->when < when)
                when = ask->when;
            if (ask->kept && ask->kept_at < when)
                when = ask->kept_at;
            if (!wake || when < wake)
                wake = when;
        }
    } while (sent && !pmix->closed);
    return wake;
}

/* Of a rank that is there, or was after the request. */
static uint64_t there_until(const struct boot_pmix *pmix, const struct pmix_ticket *ticket,
                            uint64_t left)
{
    uint64_t pending = left > ticket->sent ? left - ticket->sent : 0;

    if (pmix->how != BOOT_PMIX_END)
        return left + ANSWER_BOUND_NS;
    if (pending > RESENT_MAX_NS)
        pending = RESENT_MAX_NS;
    return left + (pending > ANSWER_THERE_BOUND_NS ? pending : ANSWER_THERE_BOUND_NS);
}

/* A rank must not end while its server waits for what a Get of it has asked another
 * node's server. When the last rank of a node has ended, the server (PMIx 4.2.2) gives up
 * its reference to each such request, and uses it all the same when the answer comes: the
 * launcher then never ends (docs/launchers.md). So a member that leaves waits for its
 * answers first. They take milliseconds, unless the link was cut: then the request is
 * sent again some time after that is over.
 *
 * Not waited for is what no server answers, now or later: the Get of a rank that has not
 * joined. Of one that was heard of since, and has ended, the answer may be on its way; but no
 * server answers for a rank that was the last of its node and had ended before, hence a bound. */
uint64_t boot_pmix_answers_until(const struct boot_pmix *pmix, uint64_t left)
{
    const struct pmix_ticket *ticket;
    uint64_t now = util_clock_now(), last = 0;

    DL_FOREACH(pmix->tickets, ticket)
    {
        uint64_t until = 0;
        if (!has_cache(pmix, ticket->rank))
            continue; /* no other server is asked */
        if (pmix->heard_at[ticket->rank] > ticket->sent)
            until = there_until(pmix, ticket, left);
        else if (ticket->past_cache)
            until = ticket->sent + ANSWER_BOUND_NS;
        if (until > now && until > last)
            last = until;
    }
    return last;
}

void boot_pmix_asks_fail(struct boot_pmix *pmix)
{
    struct pmix_ask *ask, *next;

    HASH_ITER(hh, pmix->asks, ask, next)
    {
        if (ask->kept)
            give_kept(pmix, ask);
        if (!ask->reported)
            boot_pmix_result_put(pmix, RESULT_BLOB, ask->rank, EHOSTUNREACH, NULL, 0);
        boot_pmix_ask_free(pmix, ask);
    }
}

void boot_pmix_tickets_drop(struct boot_pmix *pmix, bool down)
{
    struct pmix_ticket *ticket, *next_ticket;
    struct pmix_ask *ask, *next;

    DL_FOREACH_SAFE(pmix->tickets, ticket, next_ticket)
    {
        ticket->cancelled = true;
        if (down) {
            DL_DELETE(pmix->tickets, ticket);
            free(ticket);
            pmix->refs--; /* the caller has one of its own */
        }
    }
    HASH_ITER(hh, pmix->asks, ask, next)
    {
        if (ask->reported) {
            boot_pmix_ask_free(pmix, ask);
        } else {
            ask->state = ASK_WANTED;
        }
    }
}
