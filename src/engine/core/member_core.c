/*
 * member_core.c - the member as its modules see it: who it is, its state, messages to the
 * others
 *
 * What a rank sends itself goes round through the loop, so that a reply never comes from
 * inside the call that caused it.
 */
#include "engine/core/member_impl.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "boot/fdtable.h"
#include "engine/core/module.h"
#include "util/log.h"

/* --- its state --- */

void member_when_joined(struct member *member, struct member_joined *wait,
                        void (*fn)(void *arg, int error), void *arg)
{
    if (member->state != MEMBER_JOINING) {
        fn(arg, member->state == MEMBER_LEAVING ? ESHUTDOWN : 0);
        return;
    }
    wait->fn = fn;
    wait->arg = arg;
    wait->next = NULL;
    *member->joined_tail = wait;
    member->joined_tail = &wait->next;
}

static void run_joined(struct member *member, int error)
{
    struct member_joined *wait = member->joined;

    member->joined = NULL;
    member->joined_tail = &member->joined;
    while (wait) {
        struct member_joined *next = wait->next;
        wait->fn(wait->arg, error);
        wait = next;
    }
}

/* End the waits for the join. */
void member_joined_waits_end(struct member *member)
{
    run_joined(member, ESHUTDOWN);
}

void member_join_failed(struct member *member)
{
    if (member->state == MEMBER_LEAVING)
        return;
    log_error("rank %u could not join: files below its managed directory are not shared",
              member->identity->rank);
    run_of(member)->rc = -1;
    member_stop(member);
}

/* False for exec, whose new image becomes the next member. */
bool member_leaves_for_good(struct member *member)
{
    struct member_run *run = run_of(member);
    bool for_good;

    pthread_mutex_lock(&run->lock);
    for_good = run->rc < 0 || !run->leave_wanted || run->leave_how != MEMBER_LEAVE_EXEC;
    pthread_mutex_unlock(&run->lock);
    return for_good;
}

void member_stop(struct member *member)
{
    if (member->state == MEMBER_LEAVING ||
        modules_leave(member, member_leaves_for_good(member)))
        return;
    member->state = MEMBER_LEAVING;
    run_joined(member, ESHUTDOWN);
    net_loop_stop(member->loop);
}

const char *member_node_name(struct member *member, uint32_t rank)
{
    static char name[NET_PEER_NODE_MAX + 1];
    const struct net_peer *peer = rank == member->self.rank ? &member->self
                                  : member->worker ? net_worker_peer(member->worker, rank)
                                                   : NULL;

    snprintf(name, sizeof(name), "%s", peer ? peer->node : "unknown");
    name[strcspn(name, "/")] = '\0'; /* without the boot id */
    return name;
}

const char *member_describe(struct member *member, uint32_t rank)
{
    static char text[2][NET_PEER_LAUNCH_MAX + NET_PEER_NODE_MAX + 64];
    static unsigned turn;
    const struct net_peer *peer = rank == member->self.rank ? &member->self
                                  : member->worker ? net_worker_peer(member->worker, rank)
                                                   : NULL;
    char *to = text[turn++ % 2];

    if (!member->ring)
        snprintf(to, sizeof(text[0]), "rank %u on node %s", rank,
                 member_node_name(member, rank));
    else if (peer && strncmp(peer->launch, BOOT_SOLO, strlen(BOOT_SOLO)) == 0)
        snprintf(to, sizeof(text[0]), "process %d on node %s", (int)peer->pid,
                 member_node_name(member, rank));
    else if (peer)
        snprintf(to, sizeof(text[0]), "rank %u of launch %s on node %s", peer->launch_rank,
                 peer->launch, member_node_name(member, rank));
    else
        snprintf(to, sizeof(text[0]), "the process that had place %u of the session", rank);
    return to;
}

static void exit_begin(struct member *member)
{
    if (member->state != MEMBER_JOINED)
        return;
    /* The wrapper lets go of the program's standard output; ours would keep a reader of the
     * pipe waiting as well. Log lines go to standard error. */
    boot_fdtable_drop(STDOUT_FILENO);
    member->state = MEMBER_EXITING;
    modules_exiting(member, false);
}

void member_leave_as_wanted(struct member *member)
{
    struct member_run *run = run_of(member);
    enum member_leave how;

    pthread_mutex_lock(&run->lock);
    how = run->leave_how;
    pthread_mutex_unlock(&run->lock);
    /* Others may wait at our shard or for our address: if we have not joined yet, we do
     * first. Unless the next image does. */
    if (how != MEMBER_LEAVE_EXEC && member->state == MEMBER_JOINING)
        run->exiting = true;
    else if (how == MEMBER_LEAVE_LINGER)
        exit_begin(member);
    else
        modules_exiting(member, true);
}

void member_has_joined(struct member *member)
{
    member->state = MEMBER_JOINED;
    if (member->ring)
        dht_node_joined(member->dht);
    log_info(
        "joined as rank %u of %u on node %s, incarnation %u, key depth %u, bins %u, "
        "replicas %u",
        member->self.rank, member->job->nranks, member_node_name(member, member->self.rank),
        member->self.incarnation, member->self.depth, member->self.bins,
        member->self.replicas);
    modules_joined(member);
    run_joined(member, 0);
    if (run_of(member)->exiting)
        member_leave_as_wanted(member);
}

/* --- messages --- */

struct self_message {
    struct net_post post;
    struct member *member;
    struct net_msg msg;
    unsigned char buf[];
};

void member_receive(struct member *member, const struct net_msg *msg, void *payload,
                    size_t len)
{
    if (member->state != MEMBER_LEAVING && member->dht &&
        !modules_receive(member, msg, &payload, len)) {
        dht_node_receive(member->dht, msg);
        modules_table_changed(member);
    }
    free(payload);
}

static void self_deliver(void *arg)
{
    struct self_message *own = arg;

    member_receive(own->member, &own->msg, NULL, 0);
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

/* --- liveness --- */

void member_set_live(struct member *member, uint32_t rank, bool live)
{
    if (!member->dht || dht_node_is_live(member->dht, rank) == live)
        return;
    dht_node_set_live(member->dht, rank, live);
    boot_wave_rank_changed(member->wave, rank);
}
