/*
 * takeover_copies.c - comparing copies with their homes that no home has known for a
 * while
 *
 * These are copies that a dead rank of the node has left, and those of an earlier member
 * of this rank (takeover.c, restore.c). Each is looked up, which makes us a holder, and
 * is removed if there is a newer version, or if no home knows its version for some time:
 * then we would not get the next version either. As long as its homes cannot be reached
 * it is looked up again (retry_queue.c).
 */
#include <errno.h>

#include "dht/base.h"
#include "engine/coherence/invalidate.h"
#include "engine/coherence/unknown_version.h"
#include "engine/core/member_impl.h"
#include "engine/core/module.h"
#include "engine/core/retry_queue.h"
#include "engine/membership/exit_barrier.h"
#include "engine/recovery/startup_validation.h"
#include "engine/recovery/takeover.h"
#include "engine/recovery/takeover_copies.h"
#include "util/clock.h"
#include "util/log.h"

/* The first pause when they do not know it; they double, up to MEMBER_ASK_AGAIN. */
#define CHECKS_SOON (50 * UTIL_NSEC_PER_MSEC)
#define CHECKS_TICK (CHECKS_SOON / 2)
/* The pause after a look-up that reached no home. When a home returns the copy is looked
 * up as well (revalidate.c). */
#define CHECKS_PAUSE_MAX (60 * UTIL_NSEC_PER_SEC)

struct check {
    struct retry retry;
    enum engine_role role;
    struct dyad_version version;
    struct dyad_base base; /* NONE: it is a copy */
    uint64_t begun;
    struct unknown_version unknown;
};

struct takeover_copies {
    struct retry_queue *retries; /* NULL: there was none yet */
};

/* --- looking them up --- */

/* Still the copy that it was. */
static bool is_wanted(const struct retry *retry)
{
    const struct check *c = (const struct check *)retry;
    const struct member *member = retry_queue_arg(retry);
    const struct store_record *record =
        store_journal_find(member->dmd[c->role].journal, retry->upath);

    return record && record->kind == STORE_RECORD_COPY &&
           dyad_version_cmp(&record->entry.version, &c->version) == 0;
}

/* The homes do not know the copy, or not this version. The owner may be about to publish
 * it again: all ranks that knew it may have left at once, and in a launch that joins as a
 * whole a home may be up before the owner has restored the file. True: the homes are
 * believed. */
static bool is_sure(struct check *c, struct retry_pause *pause)
{
    if (!c->unknown.since)
        c->retry.pause = 0;
    pause->first = CHECKS_SOON;
    pause->most = seconds_ns(MEMBER_ASK_AGAIN);
    if (unknown_version_is_sure(&c->unknown))
        return true;
    pause->by = unknown_version_by(&c->unknown);
    return false;
}

/* That nobody could be asked is no answer. It is asked for on, ever less often once the
 * first look does not wait for it any more (startup_validation.c). */
static void nobody_answers(struct check *c, struct retry_pause *pause)
{
    const struct member *member = retry_queue_arg(&c->retry);
    uint64_t bound =
        seconds_ns(member->config->join_timeout) + seconds_ns(UNKNOWN_VERSION_BOUND);

    c->unknown = (struct unknown_version){0};
    pause->first = pause->most = seconds_ns(MEMBER_ASK_AGAIN);
    if (util_clock_now() - c->begun > bound)
        pause->most = CHECKS_PAUSE_MAX;
}

/* True of a change whose close has not ended: the homes have taken it; or it began from what they have, or from an older version of
 * this node. Else they have refused it, or would have: it goes, as a copy that no home knows. */
static bool is_to_publish(const struct check *c, int status, const struct dyad_entry *entry,
                          int order)
{
    const struct member *member = retry_queue_arg(&c->retry);

    if (c->base.kind == DYAD_BASE_NONE || (status != 0 && status != ENOENT) || order > 0)
        return false;
    return order == 0 || !entry ||
           !dht_base_is_overtaken(&c->base, entry, store_dir_id(member->dmd[c->role].dir));
}

bool takeover_is_to_ask(struct store_record *record)
{
    if (record->base.kind == DYAD_BASE_NONE)
        return false;
    record->kind = STORE_RECORD_COPY;
    record->made_here = true;
    return true;
}

static void publish(struct check *c)
{
    struct member *member = retry_queue_arg(&c->retry);
    struct store_journal *journal = member->dmd[c->role].journal;
    struct store_record record = *store_journal_find(journal, c->retry.upath);

    record.kind = STORE_RECORD_ORIGINAL;
    record.made_here = false;
    record.base.kind = DYAD_BASE_NONE;
    record.entry.upath = c->retry.upath;
    record.entry.owner = member->self.rank;
    if (store_journal_put(journal, &record) < 0)
        log_error("this node's record of \"%s\" could not be written: %m", c->retry.upath);
    if (dht_node_restore(member->dht, &record.entry) < 0)
        log_error("out of memory: \"%s\" is not published again", c->retry.upath);
}

static enum retry_next answered(struct retry *retry, int status,
                                const struct dyad_entry *entry, struct retry_pause *pause)
{
    struct check *c = (struct check *)retry;
    struct member *member = retry_queue_arg(retry);
    int order = entry ? dyad_version_cmp(&entry->version, &c->version) : -1;
    /* An older one is what homes say that have not heard of it again yet. */
    bool known =
        (status == 0 && order >= 0) || (entry && entry->state == DYAD_ENTRY_WITHDRAWN);

    if (!is_wanted(retry))
        return QUESTION_OVER;
    if (is_to_publish(c, status, entry, order)) {
        publish(c);
        return QUESTION_OVER;
    }
    if (!known && status != 0 && status != ENOENT) {
        nobody_answers(c, pause);
        return QUESTION_PUT_OFF;
    }
    if (!known && !is_sure(c, pause))
        return QUESTION_PUT_OFF;
    if (order > 0)
        produce_invalidate(member, entry, 0);
    else if (status != 0 || order != 0)
        unknown_version_drop(member, retry->upath, &c->version);
    return QUESTION_OVER;
}

static void stepped(void *arg)
{
    struct member *member = arg;

    if (!takeover_copies_pending(member))
        exit_barrier_activity(member);
    startup_validation_step(member);
}

static const struct retry_queue_ops ops = {
    .size = sizeof(struct check),
    .window = 64,
    .flags = NET_LOOKUP_COPY,
    .tick = CHECKS_TICK,
    .is_wanted = is_wanted,
    .answered = answered,
    .stepped = stepped,
};

void takeover_check_copy(struct member *member, enum engine_role role,
                         const struct store_record *record)
{
    struct takeover_copies *all = OWN(member, takeover_copies);
    struct check *c;

    if (!all->retries)
        all->retries = retry_queue_create(member, &ops, member);
    if (!(c = retry_queue_add(all->retries, record->entry.upath))) {
        log_error("out of memory: \"%s\" is not compared with what is published",
                  record->entry.upath);
        return;
    }
    c->role = role;
    c->version = record->entry.version;
    c->base = record->base;
    c->begun = util_clock_now();
    retry_queue_go_on(all->retries);
}

bool takeover_copies_undecided(const struct member *member, const char *upath)
{
    const struct retry_queue *copies = OWN(member, takeover_copies)->retries;

    return upath ? retry_queue_find(copies, upath) != NULL : retry_queue_any(copies);
}

void takeover_hurry(struct member *member, const char *upath)
{
    struct retry *retry = retry_queue_find(OWN(member, takeover_copies)->retries, upath);

    if (retry)
        retry_hurry(retry);
}

bool takeover_copies_pending(struct member *member)
{
    return retry_queue_asking(OWN(member, takeover_copies)->retries);
}

static void takeover_copies_destroy(struct member *member)
{
    retry_queue_destroy(OWN(member, takeover_copies)->retries);
}

const struct member_module takeover_copies_module = {
    .own = MODULE_OWN(takeover_copies),
    .destroy = takeover_copies_destroy,
};
