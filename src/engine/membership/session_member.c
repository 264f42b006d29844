/*
 * session_member.c - a member that meets the others in a session directory
 *
 * Its rank is a slot of a ring (boot/session.h). Differences from a PMIx launch: the slot
 * is known late (session_ready()); who joins asks those who are there for the entries of
 * which it is now a home (ask_all()); the directory, messages and connections say who
 * lives (see "liveness"); who leaves for good hands its shard over first
 * (session_leave()).
 *
 * What could go wrong: a member dies, or is silent, before it has brought us its entries
 * (ask_all()); an entry in the directory cannot be read (session_blob()); a slot whose
 * member is dead still has its entry (member_session_peer_down()); we were found dead
 * ourselves, and our place is another's (session_gone()).
 */
#include "engine/core/member_impl.h"
#include "engine/core/module.h"
#include "engine/core/storage.h"
#include "engine/membership/session_member.h"
#include "engine/membership/unreachable.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <utlist.h>

#include "boot/session.h"
#include "util/log.h"
#include "util/wipe.h"

#define LEAVE_BOUND (2 * UTIL_NSEC_PER_SEC)

/* Somebody has joined and waits for our answer. */
struct answer {
    struct answer *prev, *next; /* utlist */
    uint32_t slot;
    uint64_t id, moment, until;
};

struct member_session {
    struct boot_session *boot;
    struct net_timer *timer;
    char id[BOOT_SESSION_ID_LEN + 1];
    uint32_t *entry; /* [slot]: incarnation of its entry in the directory + 1; 0: none */
    uint32_t *down;  /* [slot]: incarnation + 1 of a member that we know to be gone */
    bool *asked;     /* [slot]: has our JOIN and has not answered */
    bool *unread;    /* [slot]: its blob could not be read */
    uint64_t *begun; /* [slot]: when we first tried to connect */
    enum member_end *end; /* [slot]: how its last member ended; of use while none is live */
    uint32_t nasked;
    bool asking;    /* JOINs are being sent */
    uint64_t until; /* end of the wait for their answers, or of leaving */
    struct answer *answers;
    bool leaving, left;
    bool committed; /* our entry is there */
};

static void session_look(void *arg);

/* --- the timer: the bounds of all that is waited for --- */

static void timer_set(struct member *member)
{
    struct member_session *s = member->ring;
    uint64_t when = s->nasked > 0 || s->leaving ? s->until : 0;
    struct answer *answer;

    DL_FOREACH(s->answers, answer)
    {
        if (!when || answer->until < when)
            when = answer->until;
    }
    if (when)
        net_timer_start(s->timer, when);
    else
        net_timer_stop(s->timer);
}

/* --- joining --- */

static void joined(struct member *member)
{
    if (member->state == MEMBER_JOINING)
        member_has_joined(member);
}

static void answered(struct member *member, uint32_t slot)
{
    struct member_session *s = member->ring;

    if (!s->asked || !s->asked[slot])
        return;
    s->asked[slot] = false;
    if (--s->nasked == 0 && !s->asking)
        joined(member);
}

/* Our blob is in the directory, and session_found() has been called for all members that
 * were there before: each of them gets JOIN. It answers (JOINED) when we have
 * acknowledged every entry of its own for which we are a home now; until then a look-up
 * of ours could miss a published file. A member that dies or is silent for
 * DYAD_PEER_TIMEOUT is not waited for; the table notes that it owes us its entries
 * (dht_node_set_unsynced()), and asks when the member is there. Of two that join at once
 * at least one finds the other, as each reads the directory after its own entry is there;
 * no JOIN waits for the receiver to have joined. */
static void ask_all(struct member *member)
{
    struct member_session *s = member->ring;

    s->asking = true;
    s->until = util_clock_now() + seconds_ns(member->config->peer_timeout);
    for (uint32_t r = 0; r < member->job->nranks; r++) {
        struct net_msg join = {.type = NET_MSG_JOIN, .id = member->next_id};
        if (r == member->self.rank || !dht_node_is_live(member->dht, r))
            continue;
        member->next_id += 2;
        s->asked[r] = true; /* the news of a death may come from inside */
        s->nasked++;
        if (member_send(member, r, &join) < 0)
            answered(member, r);
    }
    s->asking = false;
    timer_set(member);
    if (s->nasked == 0)
        joined(member);
}

/* The slot must be known before the journals are opened, whose name holds it; so the disk
 * comes here, and not earlier. */
static void session_ready(void *arg, const struct boot_session_place *place, int error)
{
    struct member *member = arg;
    struct member_session *s = member->ring;
    unsigned char blob[NET_PEER_BLOB_MAX];
    int n;

    if (error || member->state == MEMBER_LEAVING)
        goto failed; /* it was logged */
    strcpy(s->id, place->id);
    member->job = place->job;
    member->self.rank = place->slot;
    s->entry = calloc(place->job->nranks, sizeof(*s->entry));
    s->down = calloc(place->job->nranks, sizeof(*s->down));
    s->asked = calloc(place->job->nranks, sizeof(*s->asked));
    s->unread = calloc(place->job->nranks, sizeof(*s->unread));
    s->begun = calloc(place->job->nranks, sizeof(*s->begun));
    s->end = calloc(place->job->nranks, sizeof(*s->end));
    if (!s->entry || !s->down || !s->asked || !s->unread || !s->begun || !s->end) {
        log_error("cannot join: %s", strerror(ENOMEM));
        goto failed;
    }
    if (storage_open(member) < 0)
        goto failed;
    if (member->self.incarnation < place->incarnation)
        member->self.incarnation = place->incarnation;
    storage_describe(member);
    if (modules_sized(member) < 0)
        goto failed;
    n = net_peer_encode(&member->self, 1, blob, sizeof(blob));
    if (n >= 0 && boot_session_commit(s->boot, blob, (size_t)n) == 0)
        goto wipe;
    log_error("cannot put this process's address into the session directory: %m");
failed:
    member_join_failed(member);
wipe:
    explicit_bzero(blob, sizeof(blob)); /* our key */
}

static void session_committed(void *arg, int status)
{
    struct member *member = arg;

    if (member->state != MEMBER_JOINING)
        return;
    if (status) { /* it was logged */
        member_join_failed(member);
        return;
    }
    member->ring->committed = true;
    ask_all(member);
}

/* --- liveness --- */

/* A member is live if session_found() says so, or a HELLO came; dead if its connection
 * broke or could not be made, or after LEAVE or session_gone(). We report a death that we
 * see to the directory, and session_gone() follows if it is certain. A member whose
 * connection broke becomes live again not by its entry, but by its own message: of a
 * higher incarnation, or of the same one, which was beyond a cut (unreachable.c). */
static void session_found(void *arg, uint32_t slot, uint32_t incarnation)
{
    struct member *member = arg;
    struct member_session *s = member->ring;

    if (!member->dht || slot >= member->job->nranks || slot == member->self.rank)
        return;
    s->entry[slot] = incarnation + 1;
    if (s->down[slot] > incarnation)
        return; /* it is not this one that is new */
    s->end[slot] = MEMBER_NOT_ENDED;
    if (dht_node_is_live(member->dht, slot)) {
        const struct net_peer *peer = net_worker_peer(member->worker, slot);
        if (peer && peer->incarnation < incarnation)
            boot_session_get(s->boot, slot); /* another member follows: its blob says so */
        return;
    }
    if (s->down[slot] || s->unread[slot])
        boot_session_get(s->boot,
                         slot); /* the worker has it, or the one before, for dead */
    else
        member_set_live(member, slot, true);
}

static void session_gone(void *arg, uint32_t slot, uint32_t incarnation)
{
    struct member *member = arg;
    struct member_session *s = member->ring;

    if (!member->dht || slot >= member->job->nranks)
        return;
    if (slot == member->self.rank) { /* we were found dead, and our place is another's */
        log_error("files below the managed directory of this process are no longer shared");
        s->left = true;
        run_of(member)->rc = -1;
        member_stop(member);
        return;
    }
    if (s->entry[slot] > incarnation + 1)
        return;
    s->entry[slot] = 0;
    if (s->end[slot] != MEMBER_LEFT)
        s->end[slot] = s->down[slot] > incarnation ? MEMBER_DIED : MEMBER_ENDED;
    unreachable_gone(member, slot);
    answered(member, slot);
}

/* A member whose entry cannot be read counts as missing: files that only it knows do not
 * count as unpublished, and the entry is read again. */
static void session_blob(void *arg, uint32_t slot, const void *blob, size_t len, int error)
{
    struct member *member = arg;
    struct member_session *s = member->ring;
    struct net_peer *peer = NULL;
    bool up = false, unread = error && error != ESRCH;

    if (!member->worker || slot >= member->job->nranks || slot == member->self.rank)
        return;
    if (!error && !(peer = malloc(sizeof(*peer))))
        error = ENOMEM;
    if (!error && (net_peer_decode(peer, blob, len) < 0 || peer->rank != slot)) {
        log_error(
            "the entry of slot %u in %s cannot be read: %m; do all processes of the "
            "session run one version of dyad?",
            slot, member->config->session_dir);
        error = EPROTO;
    }
    if (!error && s->down[slot] > peer->incarnation)
        error = ESRCH; /* of one that has gone since */
    if (unread) {
        log_warn("the entry of slot %u in %s cannot be read: %s", slot,
                 member->config->session_dir, strerror(error));
        boot_session_find(s->boot, slot);
    }
    s->unread[slot] = unread;
    s->begun[slot] = util_clock_now();
    /* The blob of one that we have lost is no news: it stays lost, and is asked. */
    bool old = error == ESRCH && peer;
    if (!error && net_worker_set_peer(member->worker, peer) < 0)
        error = errno; /* it was logged, and tells its end itself */
    else if (error)
        net_worker_peer_down(member->worker, slot, error);
    else
        up = true;
    if (up)
        member_set_live(member, slot, true);
    else if (!old && !unread && error != EHOSTUNREACH)
        unreachable_gone(member, slot);
    if (unread && s->asked[slot])
        dht_node_set_unsynced(member->dht, slot, true);
    if (!up)
        answered(member, slot);
    util_wipe_free(peer, sizeof(*peer));
}

static const struct boot_session_ops session_ops = {
    .ready = session_ready,
    .committed = session_committed,
    .found = session_found,
    .gone = session_gone,
    .blob = session_blob,
};

bool member_session_peer_down(struct member *member, uint32_t slot)
{
    struct member_session *s = member->ring;
    const struct net_peer *peer = net_worker_peer(member->worker, slot);
    /* An entry at whose address nobody has listened since we joined was mostly left by a
     * killed member. If that is on its way through exec, its new image will introduce
     * itself. One that is silent may be beyond a cut. */
    bool never_there = s->asked && s->asked[slot] &&
                       net_worker_heard_at(member->worker, slot) == 0 &&
                       unreachable_refused(member, slot, s->begun[slot]);

    if (peer && s->down[slot] <= peer->incarnation)
        s->down[slot] = peer->incarnation + 1;
    /* It may have published what we are home to, and cannot say so. */
    if (s->asked && s->asked[slot] && !never_there)
        dht_node_set_unsynced(member->dht, slot, true);
    if (s->entry[slot] && !s->unread[slot])
        boot_session_lost(s->boot, slot, s->entry[slot] - 1);
    if (s->end && (never_there || s->end[slot] == MEMBER_ENDED))
        s->end[slot] = MEMBER_DIED; /* who leaves says so before its connection breaks */
    answered(member, slot);
    return never_there;
}

void member_session_peer_up(struct member *member, const struct net_peer *peer)
{
    struct member_session *s = member->ring;

    if (s->down && s->down[peer->rank] == peer->incarnation + 1)
        s->down[peer->rank] = 0; /* it was beyond a cut link, or stopped */
    if (s->end)
        s->end[peer->rank] = MEMBER_NOT_ENDED;
    /* If it is killed now, the others of its node must know that they are. */
    if (s->boot)
        boot_session_met(s->boot, peer->rank, peer->node);
}

enum member_end member_session_end(const struct member *member, uint32_t slot)
{
    const struct member_session *s = member->ring;

    if (!s || !s->end || slot == member->self.rank || dht_node_is_live(member->dht, slot))
        return MEMBER_NOT_ENDED;
    /* Where nobody is left on its node its entry stays, and only that nobody listens at its
     * address tells a dead one from one that is cut off. */
    if (s->end[slot] == MEMBER_NOT_ENDED && unreachable_has_ended(member, slot))
        return MEMBER_DIED;
    return s->end[slot];
}

void member_session_get(struct member *member, uint32_t slot)
{
    if (boot_session_get(member->ring->boot, slot) < 0)
        net_worker_peer_down(member->worker, slot, ENOMEM);
}

const char *member_session_empty_nodes(struct member *member)
{
    return member->ring ? boot_session_empty_nodes(member->ring->boot) : "";
}

/* --- members that join --- */

/* Status: is all in place that we have of it? */
static void answer_send(struct member *member, struct answer *answer)
{
    struct net_msg msg = {.type = NET_MSG_JOINED, .id = answer->id};
    uint32_t slot = answer->slot;

    msg.status = dht_node_in_place(member->dht, answer->moment) ? 0 : ETIMEDOUT;
    DL_DELETE(member->ring->answers, answer);
    free(answer);
    member_send(member, slot, &msg);
}

static void answers_look(struct member *member)
{
    uint64_t now = util_clock_now();
    struct answer *answer, *tmp;

    DL_FOREACH_SAFE(member->ring->answers, answer, tmp)
    {
        if (now >= answer->until || dht_node_in_place(member->dht, answer->moment))
            answer_send(member, answer);
    }
}

static void join_received(struct member *member, const struct net_msg *msg)
{
    struct member_session *s = member->ring;
    struct answer *answer = calloc(1, sizeof(*answer));

    if (!answer)
        return; /* it goes on without our answer */
    member_set_live(member, msg->source, true);
    dht_node_pass_on(member->dht, msg->source);
    answer->slot = msg->source;
    answer->id = msg->id;
    answer->moment = dht_node_moment(member->dht);
    answer->until = util_clock_now() + seconds_ns(member->config->peer_timeout);
    DL_APPEND(s->answers, answer);
    answers_look(member);
    timer_set(member);
}

static void leave_received(struct member *member, uint32_t slot)
{
    const struct net_peer *peer = net_worker_peer(member->worker, slot);

    log_info("%s has left", member_describe(member, slot));
    if (peer) {
        member->ring->down[slot] = peer->incarnation + 1;
        modules_peer_left(member, peer);
    }
    member->ring->end[slot] = MEMBER_LEFT;
    dht_node_rank_left(member->dht, slot);
    unreachable_gone(member, slot);
    answered(member, slot);
}

static bool session_receive(struct member *member, const struct net_msg *msg,
                            void **payload, size_t len)
{
    (void)payload;
    (void)len;
    if (!member->ring || msg->source == member->self.rank ||
        msg->source >= member->job->nranks)
        return false;
    switch (msg->type) {
    case NET_MSG_JOIN:
        join_received(member, msg);
        return true;
    case NET_MSG_JOINED:
        dht_node_set_unsynced(member->dht, msg->source, msg->status != 0);
        answered(member, msg->source);
        return true;
    case NET_MSG_LEAVE:
        leave_received(member, msg->source);
        return true;
    default:
        return false;
    }
}

/* --- leaving --- */

static void leave_end(struct member *member)
{
    struct member_session *s = member->ring;

    dht_node_retire(member->dht);
    for (uint32_t r = 0; r < member->job->nranks; r++) {
        struct net_msg leave = {.type = NET_MSG_LEAVE};
        if (r != member->self.rank && dht_node_is_live(member->dht, r))
            member_send(member, r, &leave);
    }
    s->left = true;
    member_stop(member);
}

/* A member that leaves for good, not for exec, gives its shard to the homes that follow
 * (dht/node_leave.c: handoff); LEAVE goes to all, and only then does the loop end. That
 * is bounded by LEAVE_BOUND. If all members are at exit (`job_ended`) no rank is left to
 * hand over to. */
static bool session_leave(struct member *member, bool for_good)
{
    struct member_session *s = member->ring;

    if (!s || !member->dht || s->left || !for_good || member->state == MEMBER_JOINING)
        return false;
    if (s->leaving)
        return true;
    s->leaving = true;
    s->until = util_clock_now() + LEAVE_BOUND;
    /* Where there is nothing to hand over the table does not change any more. */
    if (member->job_ended || dht_node_hand_over(member->dht) < 0 ||
        dht_node_handed_over(member->dht))
        s->until = util_clock_now();
    timer_set(member);
    return true;
}

/* --- */

static void session_table_changed(struct member *member)
{
    struct member_session *s = member->ring;

    if (!s || !member->dht || member->state == MEMBER_LEAVING)
        return;
    if (s->answers)
        answers_look(member);
    if (s->leaving && !s->left && dht_node_handed_over(member->dht))
        leave_end(member);
}

/* Something that was waited for has not come. */
static void session_look(void *arg)
{
    struct member *member = arg;
    struct member_session *s = member->ring;
    uint64_t now = util_clock_now();

    if (member->state == MEMBER_LEAVING)
        return;
    answers_look(member);
    if (s->leaving && !s->left && now >= s->until) {
        leave_end(member);
        return;
    }
    if (s->nasked > 0 && now >= s->until) {
        for (uint32_t r = 0; r < member->job->nranks; r++) {
            if (s->asked[r])
                log_warn("%s does not answer: joined without it",
                         member_describe(member, r));
            if (s->asked[r])
                dht_node_set_unsynced(member->dht, r, true);
            s->asked[r] = false;
        }
        s->nasked = 0;
        joined(member);
    }
    timer_set(member);
}

int member_session_start(struct member *member)
{
    const struct engine_config *config = member->config;
    struct member_session *s = calloc(1, sizeof(*s));

    if (!s)
        return -1;
    member->ring = s;
    member->ring_id = s->id;
    snprintf(member->self.launch, sizeof(member->self.launch), "%s",
             member->identity->nspace);
    if (!(s->timer = net_timer_create(member->loop, session_look, member)))
        return -1; /* member_session_destroy() frees it */
    s->boot = boot_session_create(member->loop, config->session_dir, config->kvs_namespace,
                                  (uint32_t)config->session_ranks, member->identity,
                                  &session_ops, member);
    if (!s->boot)
        log_error("cannot join the session in %s: %m", config->session_dir);
    return s->boot ? 0 : -1;
}

void member_session_destroy(struct member *member, bool leave)
{
    struct member_session *s = member->ring;
    struct answer *answer, *tmp;

    if (!s)
        return;
    /* A claim without an entry is given back, also before exec: nobody would find it. */
    if (s->boot)
        boot_session_destroy(s->boot, leave || !s->committed);
    DL_FOREACH_SAFE(s->answers, answer, tmp)
    {
        DL_DELETE(s->answers, answer);
        free(answer);
    }
    if (s->timer)
        net_timer_destroy(s->timer);
    free(s->entry);
    free(s->down);
    free(s->asked);
    free(s->unread);
    free(s->begun);
    free(s->end);
    free(s);
    member->ring = NULL;
    member->ring_id = NULL;
}

void member_session_aborted(struct member *member)
{
    if (!member->ring || !member->ring->boot)
        return;
    /* As before exec. */
    boot_session_destroy(member->ring->boot, !member->ring->committed);
    member->ring->boot = NULL;
}

const struct member_module session_module = {
    .messages =
        (const struct member_message[]){
            {NET_MSG_JOIN, session_receive},
            {NET_MSG_JOINED, session_receive},
            {NET_MSG_LEAVE, session_receive},
            {0},
        },
    .leave = session_leave,
    .table_changed = session_table_changed,
};
