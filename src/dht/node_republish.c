/*
 * dht/node_republish.c - our own entries stay where they belong
 *
 * A home that is silent or dead is passed over by a publish. It stays a wanted home as long
 * as it is not known to be dead, so the entry is looked at again after retry_interval, and
 * at every change of membership (the "review"), until every home that all ranks would
 * compute holds it. This is half of why no wait is lost; the other half is in
 * node_lookup_homes.c.
 */
#include "dht/node_module.h"
#include "dht/node_own.h"
#include "dht/node_publish.h"

#define REVIEW_BUDGET 4096 /* entries per round: ~1 ms of the loop */

static bool review_has_step(const struct dht_node *node)
{
    return node->owns->reviewing && node->owns->nrepair < DHT_REPAIR_WINDOW;
}

static void review_step(struct dht_node *node)
{
    for (int i = 0; i < REVIEW_BUDGET && node->owns->reviewing; i++) {
        struct own *own = node->owns->review;
        if (own == NULL) {
            node->owns->reviewing = node->owns->review_again;
            node->owns->review_again = false;
            node->owns->review_all &= node->owns->reviewing;
            node->owns->review = node->owns->by_upath;
            if (node->owns->reviewing) {
                node->owns->nreviews++;
                node_modules_review_begins(node);
            }
            continue;
        }
        if (node->owns->nrepair >= DHT_REPAIR_WINDOW)
            return;
        node->owns->review = own->hh.next;
        if (own->queue != NULL || own->entry.state == DYAD_ENTRY_NONE)
            continue;
        if (node->owns->review_all || !own_is_in_place(node, own))
            publish_repair(node, own);
    }
}

static void review_timer(struct dht_node *node, struct timer *timer)
{
    (void)timer;
    own_review(node, false);
}

static void refresh_timer(struct dht_node *node, struct timer *timer)
{
    own_review(node, true);
    node_timer_start(node, timer, TIMER_REFRESH);
}

static void review_homes_changed(struct dht_node *node, uint32_t rank, bool live)
{
    (void)rank;
    (void)live;
    own_review(node, false);
}

static int review_create(struct dht_node *node)
{
    node->owns->review_timer.fn = review_timer;
    node->owns->refresh_timer.fn = refresh_timer;
    if (node->config.refresh_interval > 0)
        node_timer_start(node, &node->owns->refresh_timer, TIMER_REFRESH);
    return 0;
}

const struct node_module node_republish_module = {
    .create = review_create,
    .homes_changed = review_homes_changed,
    .has_step = review_has_step,
    .step = review_step,
};
