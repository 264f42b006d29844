/*
 * engine/core/retry_queue.h - names that the homes are asked about until their answer will
 * do
 *
 * A queue of retries, each a look-up of one name. A bounded number of them is under
 * way. The queue's user decides whether an answer will do; if not, the retry is put
 * off, for pauses that double, and asked again, also if no event says that the net has
 * changed. Loop only.
 */
#ifndef DYAD_ENGINE_CORE_RETRY_QUEUE_H
#define DYAD_ENGINE_CORE_RETRY_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dht/node.h"

struct member;
struct retry_queue;

/* The first member of the user's struct. */
struct retry {
    struct retry *prev, *next; /* utlist */
    struct retry_queue *of;
    enum { RETRY_TODO, RETRY_ASKED, RETRY_LATER, RETRY_NONE } state;
    bool again; /* ask it once more after its answer, whatever that is */
    struct dht_lookup *lookup;
    uint64_t pause; /* the last one; 0: the next one is the first */
    uint64_t due;
    const char *upath; /* in the same memory */
};

/* What becomes of a retry. */
enum retry_next {
    QUESTION_OVER,    /* it is freed */
    QUESTION_PUT_OFF, /* it is asked again after its pause */
    QUESTION_KEPT,    /* it leaves the queue, and the user frees it with free() */
};

struct retry_pause {
    uint64_t first, most; /* each pause is twice the one before, up to `most` */
    uint64_t by;          /* it is asked then at the latest; 0: no such moment */
};

struct retry_queue_ops {
    size_t size;     /* of the user's struct */
    unsigned window; /* so many are under way at once */
    uint8_t flags;   /* NET_LOOKUP_* */
    uint64_t tick;   /* retries that are put off become due at multiples of it */
    struct retry_pause pause;
    /* True if it is still to be asked; called before each look-up. False: it is over.
     * NULL: all are. */
    bool (*is_wanted)(const struct retry *retry);
    /* As dht_lookup_fn; status ENOMEM: it could not be asked. *pause is a copy of the one
     * below, which this may change. May not end another retry, nor the queue. */
    enum retry_next (*answered)(struct retry *retry, int status,
                                const struct dyad_entry *entry, struct retry_pause *pause);
    /* The retry is about to be freed. May be NULL. */
    void (*freed)(struct retry *retry);
    /* Called after an answer, and after retries that were put off became due. */
    void (*stepped)(void *arg);
};

/* NULL: ENOMEM. */
struct retry_queue *retry_queue_create(struct member *member,
                                       const struct retry_queue_ops *ops, void *arg);
/* `retries` may be NULL, here and below. Requests that are under way get no answer. */
void retry_queue_destroy(struct retry_queue *retries);
void *retry_queue_arg(const struct retry *retry);

/* Add a retry: ops->size bytes, zero but for struct retry. The next
 * retry_queue_go_on() asks it. NULL: ENOMEM. */
void *retry_queue_add(struct retry_queue *retries, const char *upath);
void retry_queue_go_on(struct retry_queue *retries);

/* Something has changed for the retry: its pauses begin anew. If it is put off, the
 * next retry_queue_go_on() asks it; if it is under way, it is asked once more, for the
 * answer may be from before the change. */
void retry_again(struct retry *retry);
/* Ask all retries that are put off now; the pauses of all begin anew. */
void retry_queue_again(struct retry_queue *retries);
/* Somebody waits for the answer: ask this retry next, by a timer if it is put off. */
void retry_hurry(struct retry *retry);
/* End the retry without an answer. Not from its own `answered`. */
void retry_drop(struct retry *retry);

/* A retry of that name, or NULL; one that waits to be asked comes first. O(n). */
struct retry *retry_queue_find(const struct retry_queue *retries, const char *upath);
/* True if a retry is under way or about to be; those that are put off do not count. */
bool retry_queue_asking(const struct retry_queue *retries);
bool retry_queue_any(const struct retry_queue *retries);

#endif
