/*
 * session_look.c - how the thread looks at the directory, and its changes there
 *
 * A look costs a stat() where nothing has changed, and comes less often the longer that
 * lasts, up to SCAN_SLOWEST times the first interval; a lost member brings the next one
 * forward. A member is believed to have left if its entry is gone.*, or another has its
 * slot. An entry that is only missing proves nothing for MISSING_NS: a person may have
 * emptied the directory, and its members write their entries again, at their second look.
 */
#include "boot/session_impl.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/clock.h"
#include "util/log.h"

#define SCAN_SLOWEST  4
#define SCAN_APART_NS (200 * UTIL_NSEC_PER_MSEC)
#define MISSING_NS    (30 * UTIL_NSEC_PER_SEC)

uint64_t boot_session_scan_ns = 2 * UTIL_NSEC_PER_SEC;

size_t session_node_length(const char *node)
{
    const char *slash = strrchr(node, '/');

    return slash && strlen(slash + 1) == 36 && strspn(slash + 1, "0123456789abcdef-") == 36
               ? (size_t)(slash - node)
               : strlen(node);
}

/* Name of a node without its boot id, or NULL. */
static const char *node_name(struct boot_session *session,
                             const struct session_dir_gone *gone)
{
    unsigned char blob[NET_PEER_BLOB_MAX + 1];
    struct net_peer peer;
    int n;

    for (size_t i = 0; i < session->nnames; i++)
        if (session->names[i].hash == gone->node)
            return session->names[i].name;
    n = session_dir_read_gone(session->dir, gone, blob, sizeof(blob));
    if (n >= 0)
        n = net_peer_decode(&peer, blob, (size_t)n);
    explicit_bzero(blob, sizeof(blob)); /* a key */
    explicit_bzero(peer.key, sizeof(peer.key));
    if (n < 0)
        return NULL;
    peer.node[session_node_length(peer.node)] = '\0';
    size_t i = session->nnames < SESSION_DIR_GONE_MAX ? session->nnames++
                                                      : gone->node % SESSION_DIR_GONE_MAX;
    session->names[i].hash = gone->node;
    strcpy(session->names[i].name, peer.node);
    return session->names[i].name;
}

static bool has_live(const struct boot_session *session, uint64_t node)
{
    const struct session_dir_slot *slots = session_dir_slots(session->dir);

    for (uint32_t i = 0; i < session_dir_ranks(session->dir); i++)
        if (slots[i].live && slots[i].live_node == node)
            return true;
    return false;
}

static void find_empty_nodes(struct boot_session *session)
{
    char text[sizeof(session->empty)] = "";
    const struct session_dir_gone *gone;
    size_t ngone, at = 0, more = 0, shown = 0;
    const char *name;

    gone = session_dir_gone(session->dir, &ngone);
    for (size_t i = 0; i < ngone; i++) {
        if (has_live(session, gone[i].node))
            continue;
        if (shown == SESSION_EMPTY_SHOWN) {
            more++;
        } else if ((name = node_name(session, &gone[i]))) {
            at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%s", at ? ", " : "",
                                   name);
            shown++;
        }
    }
    if (more)
        snprintf(text + at, sizeof(text) - at, " and %zu more", more);
    pthread_mutex_lock(&session->lock);
    strcpy(session->empty, text);
    pthread_mutex_unlock(&session->lock);
}

static void tell_gone(struct boot_session *session, uint32_t slot)
{
    struct session_reported *reported = &session->reported[slot];

    if (session_report(
            session,
            (struct session_result){
                .kind = RESULT_GONE, .slot = slot, .incarnation = reported->incarnation}))
        *reported = (struct session_reported){0};
}

static void tell_found(struct boot_session *session, uint32_t slot)
{
    const struct session_dir_slot *s = &session_dir_slots(session->dir)[slot];

    if (session_report(session, (struct session_result){.kind = RESULT_FOUND,
                                                        .slot = slot,
                                                        .incarnation = s->live,
                                                        .node = s->live_node}))
        session->reported[slot] = (struct session_reported){.incarnation = s->live};
}

/* Tell the loop what the list says that it does not know. True if there was something. */
static bool announce(struct boot_session *session)
{
    const struct session_dir_slot *slots = session_dir_slots(session->dir);
    uint64_t now = util_clock_now();
    bool news = false;

    for (uint32_t i = 0; i < session_dir_ranks(session->dir); i++) {
        const struct session_dir_slot *s = &slots[i];
        struct session_reported *reported = &session->reported[i];
        if (i == session->place.slot)
            continue;
        if (s->live == reported->incarnation) {
            reported->missing_since = 0;
            continue;
        }
        if (reported->incarnation > s->live) {
            if (s->gone < reported->incarnation && s->link <= reported->incarnation) {
                if (!reported->missing_since)
                    reported->missing_since = now;
                session->look_full = true;
                if (now - reported->missing_since < MISSING_NS)
                    continue;
            }
            tell_gone(session, i);
        }
        if (s->live)
            tell_found(session, i);
        news = true;
    }
    return news;
}

static void keep(struct boot_session *session)
{
    uint32_t inc = session->place.incarnation;
    const struct session_dir_slot *own =
        &session_dir_slots(session->dir)[session->place.slot];
    bool missed = session->missed;

    /* Not taken for dead, but just not there: somebody may be removing the directory. */
    session->missed = own->live != inc && own->gone < inc;
    if (session->missed && !missed) {
        session->look_full = true;
        session->interval = boot_session_scan_ns / 2;
        return;
    }
    if (session_dir_keep(session->dir) == 0 || errno != ESTALE || session->said_superseded)
        return;
    session->said_superseded = session_report(
        session, (struct session_result){.kind = RESULT_GONE,
                                         .slot = session->place.slot,
                                         .incarnation = session->place.incarnation});
}

void session_look(struct boot_session *session)
{
    bool full = session->look_full || session_dir_changed(session->dir);

    session->look_full = false;
    if (!full) {
        session->interval *= 2;
    } else if (session_dir_list(session->dir) < 0) {
        if (!session->said_unreadable)
            log_warn(
                "the session directory cannot be read: %m; processes that are started "
                "now may not find this one");
        session->said_unreadable = true;
    } else {
        session->said_unreadable = false;
        keep(session);
        if (announce(session)) {
            session->interval = boot_session_scan_ns;
            find_empty_nodes(session);
        } else {
            session->interval *= 2;
        }
    }
    if (session->interval > SCAN_SLOWEST * boot_session_scan_ns)
        session->interval = SCAN_SLOWEST * boot_session_scan_ns;
    session->next_look = util_clock_now() + session->interval;
}

static void do_commit(struct boot_session *session, const struct session_op *op)
{
    int error = 0;

    if (session_dir_commit(session->dir, op->blob, op->len) < 0) {
        error = errno;
    } else {
        announce(session);
        find_empty_nodes(session);
        session->committed = true;
    }
    session_report(session,
                   (struct session_result){.kind = RESULT_COMMITTED, .error = error});
    if (!error)
        session_dir_tidy(session->dir);
    session->interval = boot_session_scan_ns;
    session->next_look = util_clock_now() + session->interval;
}

static void do_get(struct boot_session *session, const struct session_op *op)
{
    unsigned char blob[NET_PEER_BLOB_MAX + 1];
    struct session_result result = {.kind = RESULT_BLOB, .slot = op->slot};
    int n = session_dir_read(session->dir, op->slot, blob, sizeof(blob));

    /* The list may be old. ESTALE: another node replaced what NFS had found. */
    if (n < 0 && (errno == ESRCH || errno == ESTALE) && session_dir_list(session->dir) == 0)
        n = session_dir_read(session->dir, op->slot, blob, sizeof(blob));
    if (n < 0) {
        result.error = errno;
    } else if (!(result.blob = malloc((size_t)n + 1))) {
        result.error = ENOMEM;
    } else {
        memcpy(result.blob, blob, (size_t)n);
        result.len = (size_t)n;
    }
    explicit_bzero(blob, sizeof(blob)); /* a key */
    session_report(session, result);
}

static void do_lost(struct boot_session *session, const struct session_op *op)
{
    uint64_t soon = util_clock_now() + SCAN_APART_NS;
    struct session_reported *reported;

    if (op->slot >= session_dir_ranks(session->dir) || op->slot == session->place.slot)
        return;
    reported = &session->reported[op->slot];
    if (reported->incarnation < op->incarnation) /* the loop knows it from elsewhere */
        *reported = (struct session_reported){.incarnation = op->incarnation};
    if (session_dir_slots(session->dir)[op->slot].live != op->incarnation)
        session_dir_list(session->dir);
    /* Told now: if it lives and puts itself back, it is found again. */
    if (session_dir_is_dead(session->dir, op->slot) &&
        session_dir_retire(session->dir, op->slot, op->incarnation) == 0)
        announce(session);
    session->look_full = true;
    session->interval = boot_session_scan_ns;
    if (session->next_look > soon)
        session->next_look = soon;
}

static void do_find(struct boot_session *session, const struct session_op *op)
{
    uint64_t soon = util_clock_now() + boot_session_scan_ns;

    if (op->slot >= session_dir_ranks(session->dir) || op->slot == session->place.slot)
        return;
    session->reported[op->slot] = (struct session_reported){0};
    session->look_full = true;
    session->interval = boot_session_scan_ns;
    if (session->next_look > soon)
        session->next_look = soon;
}

void session_do_op(struct boot_session *session, const struct session_op *op)
{
    switch (op->kind) {
    case OP_COMMIT:
        do_commit(session, op);
        break;
    case OP_GET:
        do_get(session, op);
        break;
    case OP_LOST:
        do_lost(session, op);
        break;
    case OP_FIND:
        do_find(session, op);
        break;
    }
}
