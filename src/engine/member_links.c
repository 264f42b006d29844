/*
 * member_links.c - between the network, the table and the barrier
 *
 * What arrives is handed to whom it concerns; what they send goes to the worker, or, for
 * this rank itself, round through the loop, so that a reply never comes from inside the
 * call that caused it. Here it is also known which ranks are there: the worker says who
 * came and who broke off, and a rank that broke off may be on its way through exec.
 */
#include "engine/member_impl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "util/log.h"

struct self_message {
    struct net_post post;
    struct member *member;
    struct net_msg msg;
    unsigned char buf[];
};

static void dispatch(struct member *member, const struct net_msg *msg, void *payload,
                     size_t len);

static void self_deliver(void *arg)
{
    struct self_message *own = arg;

    dispatch(own->member, &own->msg, NULL, 0);
    free(own);
}

/* A message of ours to ourselves: through the encoder, so that it owns its memory, and the
 * loop. */
static int send_self(struct member *member, struct net_msg *msg)
{
    unsigned char buf[NET_MSG_HEADER_MAX + NET_MSG_BLOB_MAX];
    struct self_message *own;
    int n;

    msg->source = member->self.rank;
    msg->source_incarnation = member->self.incarnation;
    if ((n = net_msg_encode(msg, buf, sizeof(buf))) < 0)
        return -1;
    if (!(own = malloc(sizeof(*own) + (size_t)n)))
        return -1;
    own->member = member;
    memcpy(own->buf, buf, (size_t)n);
    if (net_msg_decode(&own->msg, own->buf, (size_t)n) < 0) {
        free(own);
        return -1;
    }
    net_loop_post(member->loop, &own->post, self_deliver, own);
    return 0;
}

int member_send(struct member *member, uint32_t rank, struct net_msg *msg)
{
    if (rank == member->self.rank)
        return send_self(member, msg);
    return net_worker_send(member->worker, rank, msg, NULL, 0, NULL, NULL);
}

static int table_send(void *arg, uint32_t rank, struct net_msg *msg)
{
    return member_send(arg, rank, msg);
}

static uint64_t table_now(void *arg)
{
    (void)arg;
    return util_clock_now();
}

static void table_set_timer(void *arg, uint64_t when)
{
    struct member *member = arg;

    if (when == UINT64_MAX)
        net_timer_stop(member->dht_timer);
    else
        net_timer_start(member->dht_timer, when);
}

static void table_tick(void *arg)
{
    struct member *member = arg;
    dht_node_tick(member->dht);
}

static void wave_verdict(void *arg, enum boot_wave_verdict verdict)
{
    struct member *member = arg;

    if (verdict == BOOT_WAVE_NO_PRODUCER) {
        consume_fail_waiting(member);
    } else if (member->state == MEMBER_EXITING) {
        member->job_ended = true;
        member_stop(member);
    }
}

/* A rank whose connection broke may be on its way through exec. For so long it counts as
 * there, and busy, in the questions whether all are at exit and whether anybody is left. */
static bool may_return(const struct member *member, uint32_t rank, uint64_t now)
{
    uint64_t since = run_of((struct member *)member)->lost_since[rank];
    return since && now - since < seconds_ns(member->config->join_timeout);
}

static bool wave_live(void *arg, uint32_t rank)
{
    struct member *member = arg;
    return dht_node_is_live(member->dht, rank) ||
           may_return(member, rank, util_clock_now());
}

/* The barrier takes a failed send for a death; what is lost on the way is sent again. */
static int wave_send(void *arg, uint32_t rank, struct net_msg *msg)
{
    if (member_send(arg, rank, msg) == 0 || may_return(arg, rank, util_clock_now()))
        return 0;
    return -1;
}

/* The time of some is over. */
static void lost_look(void *arg)
{
    struct member *member = arg;
    struct member_run *run = run_of(member);
    uint64_t now = util_clock_now(), next = 0;

    for (uint32_t r = 0; r < member->job->nranks; r++) {
        if (!run->lost_since[r])
            continue;
        uint64_t end = run->lost_since[r] + seconds_ns(member->config->join_timeout);
        if (end > now) {
            next = !next || end < next ? end : next;
            continue;
        }
        run->lost_since[r] = 0;
        log_info("rank %u has not come back: going on without it", r);
        boot_wave_rank_changed(member->wave, r);
    }
    if (next)
        net_timer_start(run->lost_timer, next);
}

static void rank_lost(struct member *member, uint32_t rank)
{
    struct member_run *run = run_of(member);
    bool first = true;

    for (uint32_t r = 0; r < member->job->nranks && first; r++)
        first = run->lost_since[r] == 0;
    run->lost_since[rank] = util_clock_now();
    if (first)
        net_timer_start(run->lost_timer,
                        run->lost_since[rank] + seconds_ns(member->config->join_timeout));
}

static void dispatch(struct member *member, const struct net_msg *msg, void *payload,
                     size_t len)
{
    if (member->state == MEMBER_LEAVING || !member->dht)
        goto drop;
    switch (msg->type) {
    case NET_MSG_GET:
        serve_get(member, msg);
        break;
    case NET_MSG_DATA:
    case NET_MSG_REDIRECT:
        if (transfer_receive(member, msg, payload, len))
            return; /* the payload is its own now */
        break;
    case NET_MSG_WAVE:
        boot_wave_receive(member->wave, msg);
        break;
    case NET_MSG_DUMP:
        dump_serve(member, msg);
        break;
    case NET_MSG_DUMP_REPLY:
        dump_receive(member, msg);
        break;
    case NET_MSG_LIST:
        list_serve(member, msg);
        break;
    case NET_MSG_LIST_REPLY:
        list_receive(member, msg);
        break;
    case NET_MSG_PING: {
        struct net_msg pong = {.type = NET_MSG_PONG, .id = msg->id};
        member_send(member, msg->source, &pong);
        break;
    }
    case NET_MSG_ERROR:
        if (!transfer_receive(member, msg, NULL, 0) && !dump_receive(member, msg) &&
            !list_receive(member, msg))
            dht_node_receive(member->dht, msg);
        break;
    default:
        dht_node_receive(member->dht, msg);
        break;
    }
drop:
    free(payload);
}

static void worker_receive(void *arg, const struct net_msg *msg, void *payload, size_t len)
{
    dispatch(arg, msg, payload, len);
}

static void worker_need_peer(void *arg, uint32_t rank)
{
    struct member *member = arg;

    if (member->state == MEMBER_LEAVING)
        return;
    if (boot_pmix_get(member->pmix, rank, member->self.incarnation > 0) < 0)
        net_worker_peer_down(member->worker, rank, ENOMEM);
}

void member_links_set_live(struct member *member, uint32_t rank, bool live)
{
    if (!member->dht || dht_node_is_live(member->dht, rank) == live)
        return;
    dht_node_set_live(member->dht, rank, live);
    boot_wave_rank_changed(member->wave, rank);
}

static void worker_peer_down(void *arg, uint32_t rank, int error)
{
    struct member *member = arg;

    if (member->state == MEMBER_LEAVING)
        return;
    if (net_is_guest(rank)) {
        transfer_peer_down(member, rank);
        return;
    }
    log_info("rank %u on node %s is gone: %s", rank, member_node_name(member, rank),
             strerror(error));
    if (member->dht && dht_node_is_live(member->dht, rank))
        rank_lost(member, rank);
    member_links_set_live(member, rank, false);
    transfer_peer_down(member, rank);
    dump_peer_down(member, rank);
    list_peer_down(member, rank);
}

static void worker_peer_up(void *arg, const struct net_peer *peer)
{
    struct member *member = arg;

    if (member->state == MEMBER_LEAVING || net_is_guest(peer->rank))
        return;
    if (run_of(member)->lost_since)
        run_of(member)->lost_since[peer->rank] = 0;
    member_links_set_live(member, peer->rank, true);
    shared_peer(member, peer);
    consume_rank_up(member, peer->rank);
}

static const struct net_worker_ops worker_ops = {
    .receive = worker_receive,
    .need_peer = worker_need_peer,
    .peer_down = worker_peer_down,
    .peer_up = worker_peer_up,
};

static const struct dht_node_ops table_ops = {
    .send = table_send,
    .now = table_now,
    .set_timer = table_set_timer,
    .invalidate = produce_invalidate,
    .wanted = shared_wanted,
};

static bool wave_confirm(void *arg, uint64_t number)
{
    return consume_confirm(arg, number);
}

static const struct boot_wave_ops wave_ops = {
    .send = wave_send,
    .live = wave_live,
    .confirm = wave_confirm,
    .verdict = wave_verdict,
};

void member_find_again(struct member *member, uint32_t rank)
{
    boot_pmix_get(member->pmix, rank, true);
}

/* The size of the job is known: everything that needs it. */
int member_links_open(struct member *member)
{
    const struct engine_config *config = member->config;
    struct dht_node_config table = {
        .self = member->self.rank,
        .nranks = member->job->nranks,
        .incarnation = member->self.incarnation,
        .depth = member->self.depth,
        .bins = member->self.bins,
        .replicas = member->self.replicas,
        .listing = config->listing,
        .node = member->job->node,
        .request_timeout = seconds_ns(config->peer_timeout),
        .retry_interval = seconds_ns(MEMBER_ASK_AGAIN),
        .invalidate_timeout = seconds_ns(config->peer_timeout) / 2,
        .keep_time = seconds_ns(MEMBER_KEEP),
        .refresh_interval = seconds_ns(MEMBER_REFRESH),
    };

    if (member->self.rank >= member->job->nranks) {
        log_error("the launcher says rank %u of a job of %u ranks", member->self.rank,
                  member->job->nranks);
        errno = EINVAL;
        return -1;
    }
    if (!(member->worker = net_worker_create(member->loop, &member->self,
                                             member->job->nranks, &worker_ops, member)) ||
        !(run_of(member)->lost_since =
              calloc(member->job->nranks, sizeof(*run_of(member)->lost_since))) ||
        !(run_of(member)->lost_timer = net_timer_create(member->loop, lost_look, member)) ||
        !(member->dht_timer = net_timer_create(member->loop, table_tick, member)) ||
        !(member->dht = dht_node_create(&table, &table_ops, member)) ||
        !(member->wave =
              boot_wave_create(member->self.rank, member->job->nranks, &wave_ops, member)))
        return -1;
    return linger_start(member);
}
