/*
 * dht/node_copies.c - letting all homes know of our copies
 *
 * A rank that looks an entry up to copy it is noted as a holder by the one home that
 * answered, which sends it the next version before that is acknowledged. If only that
 * home knew, the copy would be used on while that home is stopped, since new versions go
 * to the others; and for ever if it has died. So we remember for each copy which homes
 * know, and ask each of the others to note us as well: by a LOOKUP that it answers when
 * it has that version, at once or (EAGAIN, then NOTIFY) as soon as the version reaches
 * it. A home that has a newer one says so instead, and we take that for the INVALIDATE
 * that we have missed. When a home has died, or a rank that joins takes its place, the
 * new home is asked in the same way. Nothing waits for any of this.
 */
#include "dht/node_copies.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "dht/node_module.h"
#include "dht/node_tentative.h"
#include "util/log.h"

/* Copies looked at in one step of a walk (some 0.1 us each), and how often homes that did
 * not answer are asked again: copies_try_again(). */
#define REVIEW_BUDGET 4096
#define TRIES_MAX     12

/* A home that knows of the copy. */
struct place {
    uint32_t rank, epoch; /* the deaths that we knew of when it noted us */
};

enum note_state {
    NOTE_ASKED, /* no answer yet */
    NOTE_WAITS, /* it does not have that version yet, and answers when it has */
    NOTE_AGAIN, /* it was silent, or could not note us; it is asked again */
};

/* A home that is asked to note us as a holder of the copy. */
struct note {
    uint64_t id;
    UT_hash_handle hh; /* copies->notes */
    struct note *next; /* copy->notes */
    struct copy *copy;
    struct timer timer;
    enum note_state state;
    uint32_t rank, epoch; /* deaths that we knew of when it was asked */
};

struct copy {
    struct dyad_version version;
    UT_hash_handle hh;
    struct note *notes;
    const char *upath; /* behind the places */
    uint32_t nplaces;
    struct place place[]; /* as many as there are replicas */
};

struct copies {
    struct copy *by_upath, *next; /* next to be looked at */
    struct note *notes;           /* homes that are to know of one, by id */
    bool reviewing, review_again;
    unsigned nasking, tries;
    struct timer timer;
};

/* A home that is silent, or cannot note us, is asked again every retry interval, a
 * bounded number of times after the last change of membership or new copy; under the same
 * id, so that it keeps one waiter for us, and what it says late counts. */
static void copies_try_again(struct dht_node *node)
{
    if (!node->copies->timer.active && node->copies->tries < TRIES_MAX)
        node_timer_start(node, &node->copies->timer, TIMER_RETRY);
}

static struct copy *copy_find(const struct dht_node *node, const char *upath)
{
    struct copy *copy;

    HASH_FIND_STR(node->copies->by_upath, upath, copy);
    return copy;
}

static void note_set_state(struct dht_node *node, struct note *note, enum note_state state)
{
    node_timer_stop(node, &note->timer);
    node->copies->nasking -= note->state == NOTE_ASKED;
    node->copies->nasking += state == NOTE_ASKED;
    note->state = state;
    if (state == NOTE_ASKED)
        node_timer_start(node, &note->timer, TIMER_LOOKUP);
    else if (state == NOTE_AGAIN)
        copies_try_again(node);
}

static void note_free(struct dht_node *node, struct note *note)
{
    node_timer_stop(node, &note->timer);
    node->copies->nasking -= note->state == NOTE_ASKED;
    HASH_DEL(node->copies->notes, note);
    LL_DELETE(note->copy->notes, note);
    free(note);
}

/* The copy is gone, or the rank is no home of it any more. The home may keep a waiter for
 * the note, also a home that has not answered. */
static void note_cancel(struct dht_node *node, struct note *note)
{
    struct net_msg msg = {.type = NET_MSG_LOOKUP_CANCEL, .id = note->id};

    msg.entry.upath = note->copy->upath;
    if (dht_node_is_live(node, note->rank))
        node_send(node, note->rank, &msg); /* if it fails it is told for nothing, later */
    note_free(node, note);
}

static void note_timeout(struct dht_node *node, struct timer *timer)
{
    struct note *note = (struct note *)((char *)timer - offsetof(struct note, timer));
    uint32_t rank = note->rank;

    note_set_state(node, note, NOTE_AGAIN);
    node_silent(node, rank);
}

static struct note *note_find(struct copy *copy, uint32_t rank)
{
    struct note *note;

    LL_FOREACH(copy->notes, note)
    {
        if (note->rank == rank)
            break;
    }
    return note;
}

/* If there is no memory for a note the copy is as if that home had never known of it;
 * copies_try_again() makes another try. */
static struct note *note_create(struct dht_node *node, struct copy *copy, uint32_t rank)
{
    struct note *note = calloc(1, sizeof(*note));

    if (note == NULL)
        return NULL;
    note->id = node_next_id(node);
    note->copy = copy;
    note->rank = rank;
    note->state = NOTE_AGAIN;
    note->timer.fn = note_timeout;
    HASH_ADD(hh, node->copies->notes, id, sizeof(note->id), note);
    if (note->hh.tbl == NULL) {
        free(note);
        return NULL;
    }
    LL_PREPEND(copy->notes, note);
    return note;
}

static void note_send(struct dht_node *node, struct note *note)
{
    struct net_msg msg = {.type = NET_MSG_LOOKUP,
                          .flags = NET_LOOKUP_COPY | NET_LOOKUP_WAIT | NET_LOOKUP_HELD,
                          .id = note->id,
                          .newer_than = note->copy->version};

    msg.entry.upath = note->copy->upath;
    note->epoch = node->epoch;
    if (node_send(node, note->rank, &msg) < 0) {
        note_set_state(node, note, NOTE_AGAIN);
        return;
    }
    note_set_state(node, note, NOTE_ASKED);
    if (note->rank != node->config.self)
        node->stats.asked++;
}

static void copy_free(struct dht_node *node, struct copy *copy)
{
    if (node->copies->next == copy)
        node->copies->next = copy->hh.next;
    HASH_DEL(node->copies->by_upath, copy);
    free(copy);
}

static void copy_cancel_notes(struct dht_node *node, struct copy *copy)
{
    while (copy->notes != NULL)
        note_cancel(node, copy->notes);
}

static bool is_among(const uint32_t *homes, unsigned n, uint32_t rank)
{
    for (unsigned i = 0; i < n; i++)
        if (homes[i] == rank)
            return true;
    return false;
}

static bool copy_is_known_to(const struct dht_node *node, const struct copy *copy,
                             uint32_t rank)
{
    for (uint32_t i = 0; i < copy->nplaces; i++)
        if (copy->place[i].rank == rank)
            return node->death == NULL || node->death[rank] >> 1 <= copy->place[i].epoch;
    return false;
}

/* The rank knows of it since we knew of `epoch` deaths. */
static void copy_set_known(struct dht_node *node, struct copy *copy, uint32_t rank,
                           uint32_t epoch)
{
    uint32_t homes[DHT_REPLICAS_MAX], i = 0;
    unsigned n = dht_node_homes(node, copy->upath, homes);

    while (i < copy->nplaces && copy->place[i].rank != rank)
        i++;
    if (i == node->config.replicas) /* all taken: who is no home any more makes room */
        for (i = 0; i < copy->nplaces && is_among(homes, n, copy->place[i].rank);)
            i++;
    if (i == node->config.replicas)
        return; /* it is no home, either */
    if (i == copy->nplaces)
        copy->nplaces++;
    log_debug("rank %u knows that this one has version %llu of \"%s\"", rank,
              (unsigned long long)copy->version.counter, copy->upath);
    copy->place[i] = (struct place){rank, epoch};
}

/* See that all homes know of it, or have been asked. False: as many as may be are being
 * asked (only with `bounded`). */
static bool copy_tell_homes(struct dht_node *node, struct copy *copy, bool bounded)
{
    uint32_t homes[DHT_REPLICAS_MAX];
    unsigned n = dht_node_homes(node, copy->upath, homes);
    struct note *note, *tmp;

    LL_FOREACH_SAFE(copy->notes, note, tmp)
    {
        if (!is_among(homes, n, note->rank))
            note_cancel(node, note);
    }
    for (unsigned i = 0; i < n; i++) {
        if (copy_is_known_to(node, copy, homes[i]))
            continue;
        note = note_find(copy, homes[i]);
        if (note != NULL && note->state != NOTE_AGAIN)
            continue;
        if (bounded && node->copies->nasking >= DHT_REPAIR_WINDOW)
            return false;
        if (note == NULL)
            note = note_create(node, copy, homes[i]);
        if (note != NULL)
            note_send(node, note);
        else
            copies_try_again(node);
    }
    return true;
}

/* Look at all copies, in portions (copies_step()); messages are sent only for those whose
 * homes have changed. */
static void copies_walk(struct dht_node *node)
{
    if (node->copies->by_upath == NULL)
        return;
    if (node->copies->reviewing) {
        node->copies->review_again = true;
    } else {
        node->copies->reviewing = true;
        node->copies->next = node->copies->by_upath;
    }
}

static struct copy *copy_create(struct dht_node *node, const char *upath)
{
    size_t places = node->config.replicas * sizeof(struct place), len = strlen(upath);
    struct copy *copy = calloc(1, sizeof(*copy) + places + len + 1);

    if (copy == NULL)
        return NULL;
    copy->upath = memcpy((char *)copy->place + places, upath, len + 1);
    if (node->copies->by_upath == NULL && node->ops->held != NULL)
        node->ops->held(node->arg);
    HASH_ADD_KEYPTR(hh, node->copies->by_upath, copy->upath, len, copy);
    if (copy->hh.tbl == NULL) {
        free(copy);
        return NULL;
    }
    return copy;
}

/* The other homes are asked from the answer on for which the copy is fetched, beside the
 * fetch. Meanwhile a newer version may reach a home that does not know us yet: that home
 * says so when our LOOKUP comes, some message times later. The home that answered first
 * knows us all the while, and a publisher that finds it stopped waits for it for longer
 * than that; only if it is killed in these milliseconds the newer version may be
 * acknowledged before we hear of it. */
void copies_note(struct dht_node *node, const char *upath,
                 const struct dyad_version *version, uint32_t home)
{
    struct copy *copy = copy_find(node, upath);
    struct note *note;

    if (copy == NULL && (copy = copy_create(node, upath)) == NULL) {
        log_warn("out of memory: it is not noted where this rank's copy of %s is known",
                 upath);
        return;
    }
    if (dyad_version_cmp(&copy->version, version) != 0) {
        copy_cancel_notes(node, copy);
        copy->nplaces = 0;
        copy->version = *version;
        node->copies->tries = 0;
    }
    if (home == DYAD_RANK_NONE) {
        copies_try_again(node);
        copies_walk(node);
        return;
    }
    if ((note = note_find(copy, home)) != NULL)
        note_cancel(node, note);
    copy_set_known(node, copy, home, node->epoch);
    copy_tell_homes(node, copy, false);
}

/* All homes that know of a copy send the newer version. That does no harm: the second
 * time nothing older is here. */
bool copies_are_older(const struct dht_node *node, const struct dyad_entry *newer)
{
    const struct copy *copy = copy_find(node, newer->upath);

    return copy != NULL && dyad_version_cmp(&newer->version, &copy->version) > 0;
}

void copies_newer(struct dht_node *node, const struct dyad_entry *newer)
{
    struct copy *copy = copy_find(node, newer->upath);

    if (!copies_are_older(node, newer))
        return;
    /* Of a directory its homes go on to count us: node_invalidate.c. */
    if (newer->state == DYAD_ENTRY_PUBLISHED && S_ISDIR(newer->mode))
        copy->version = newer->version;
    else
        copies_drop(node, newer->upath);
}

void copies_drop(struct dht_node *node, const char *upath)
{
    struct copy *copy = copy_find(node, upath);

    if (copy == NULL)
        return;
    copy_cancel_notes(node, copy);
    copy_free(node, copy);
}

/* An answer to a note's LOOKUP. A home that waits for our version (EAGAIN) sends us a
 * newer one as to a holder (node_invalidate.c), so it counts for a lease, unless it may
 * have missed a newer version (UNSURE): then it is asked again. */
static bool copies_reply(struct dht_node *node, const struct net_msg *msg)
{
    const struct dyad_entry *entry = &msg->entry;
    struct copy *copy;
    struct note *note;

    HASH_FIND(hh, node->copies->notes, &msg->id, sizeof(msg->id), note);
    if (note == NULL)
        return false;
    copy = note->copy;
    if (note->rank != msg->source ||
        (entry->upath != NULL && strcmp(entry->upath, copy->upath) != 0))
        return true;
    if (msg->type == NET_MSG_LOOKUP_REPLY && msg->status == EAGAIN) {
        note_set_state(node, note,
                       (msg->flags & NET_LOOKUP_UNSURE) != 0 ? NOTE_AGAIN : NOTE_WAITS);
    } else if (msg->type == NET_MSG_ERROR || (msg->flags & NET_LOOKUP_UNNOTED) != 0 ||
               entry->upath == NULL || entry->state == DYAD_ENTRY_NONE) {
        note_set_state(node, note, NOTE_AGAIN);
    } else {
        copy_set_known(node, copy, note->rank, note->epoch);
        note_free(node, note);
        if (dyad_version_cmp(&entry->version, &copy->version) > 0)
            node_modules_missed(node, entry);
    }
    return true;
}

/* A dead rank that comes back does not know that it was asked. */
static void notes_drop_dead(struct dht_node *node)
{
    struct note *note, *tmp;

    HASH_ITER(hh, node->copies->notes, note, tmp)
    {
        if (!dht_node_is_live(node, note->rank))
            note_free(node, note);
    }
}

static void copies_review(struct dht_node *node)
{
    notes_drop_dead(node);
    node->copies->tries = 0;
    copies_walk(node);
}

static void copies_step(struct dht_node *node)
{
    for (int i = 0; i < REVIEW_BUDGET && node->copies->reviewing; i++) {
        struct copy *copy = node->copies->next;
        if (copy == NULL) {
            node->copies->reviewing =
                node->copies->review_again && node->copies->by_upath != NULL;
            node->copies->review_again = false;
            node->copies->next = node->copies->by_upath;
            continue;
        }
        if (!copy_tell_homes(node, copy, true))
            return;
        node->copies->next = copy->hh.next;
    }
}

static void copies_timer(struct dht_node *node, struct timer *timer)
{
    (void)timer;
    node->copies->tries++;
    copies_walk(node);
}

unsigned dht_node_copy_homes(struct dht_node *node, const bool *unsure, bool *home,
                             bool *known)
{
    struct copy *copy, *tmp;

    *known = true;
    memset(home, 0, node->config.nranks * sizeof(*home));
    HASH_ITER(hh, node->copies->by_upath, copy, tmp)
    {
        uint32_t homes[DHT_REPLICAS_MAX];
        unsigned n = dht_node_homes(node, copy->upath, homes);
        bool here = false, sure = false;
        for (unsigned i = 0; i < n; i++) {
            home[homes[i]] = true;
            const struct note *note = note_find(copy, homes[i]);
            here = here || copy_is_known_to(node, copy, homes[i]) ||
                   (note != NULL && note->state == NOTE_WAITS);
            sure = sure ||
                   !(homes[i] == node->config.self ? tentative_is(node) : unsure[homes[i]]);
        }
        if (!here || !sure)
            *known = false;
    }
    return HASH_COUNT(node->copies->by_upath);
}

int dht_node_hold(struct dht_node *node, const char *upath,
                  const struct dyad_version *version)
{
    if (version->counter == 0 || version->counter > DHT_COUNTER_MAX) {
        errno = EINVAL;
        return -1;
    }
    if (copy_find(node, upath) != NULL)
        return 0; /* what was looked up since is as true */
    copies_note(node, upath, version, DYAD_RANK_NONE);
    if (copy_find(node, upath) == NULL) {
        errno = ENOMEM;
        return -1;
    }
    copies_review(node);
    node_rearm(node);
    return 0;
}

void dht_node_forgotten(struct dht_node *node, uint32_t rank)
{
    struct note *note, *tmp;

    HASH_ITER(hh, node->copies->notes, note, tmp)
    {
        if (note->rank == rank && note->state == NOTE_WAITS)
            note_set_state(node, note, NOTE_AGAIN);
    }
    copies_review(node);
    node_rearm(node);
}

void dht_node_let_go(struct dht_node *node, const struct dyad_entry *entry)
{
    copies_newer(node, entry);
    node_rearm(node);
}

static bool copies_have_step(const struct dht_node *node)
{
    return node->copies->reviewing && node->copies->nasking < DHT_REPAIR_WINDOW;
}

static void copies_homes_changed(struct dht_node *node, uint32_t rank, bool live)
{
    (void)rank;
    (void)live;
    copies_review(node);
}

static int copies_create(struct dht_node *node)
{
    node->copies = calloc(1, sizeof(*node->copies));
    if (node->copies == NULL)
        return -1;
    node->copies->timer.fn = copies_timer;
    return 0;
}

static void copies_destroy(struct dht_node *node)
{
    struct copy *copy, *tmp;

    if (node->copies == NULL)
        return;
    HASH_ITER(hh, node->copies->by_upath, copy, tmp)
    {
        while (copy->notes != NULL)
            note_free(node, copy->notes);
        copy_free(node, copy);
    }
    free(node->copies);
}

static const struct node_message messages[] = {
    {NET_MSG_LOOKUP_REPLY, false, copies_reply},
    {NET_MSG_NOTIFY, false, copies_reply},
    {NET_MSG_ERROR, false, copies_reply},
    {0},
};

const struct node_module node_copies_module = {
    .messages = messages,
    .create = copies_create,
    .destroy = copies_destroy,
    .homes_changed = copies_homes_changed,
    .has_step = copies_have_step,
    .step = copies_step,
};
