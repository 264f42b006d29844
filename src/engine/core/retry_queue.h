/*
 * engine/core/retry_queue.h - names that the homes are asked about until their answer will
 * do
 *
 * A queue of questions, each a look-up of one name. A bounded number of them is under
 * way. The queue's user decides whether an answer will do; if not, the question is put
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
struct question {
    struct question *prev, *next; /* utlist */
    struct retry_queue *of;
    enum { QUESTION_TODO, QUESTION_ASKED, QUESTION_LATER, QUESTION_NONE } state;
    bool again; /* ask it once more after its answer, whatever that is */
    struct dht_lookup *lookup;
    uint64_t pause; /* the last one; 0: the next one is the first */
    uint64_t due;
    const char *upath; /* in the same memory */
};

/* What becomes of a question. */
enum question_next {
    QUESTION_OVER,    /* it is freed */
    QUESTION_PUT_OFF, /* it is asked again after its pause */
    QUESTION_KEPT,    /* it leaves the queue, and the user frees it with free() */
};

struct question_pause {
    uint64_t first, most; /* each pause is twice the one before, up to `most` */
    uint64_t by;          /* it is asked then at the latest; 0: no such moment */
};

struct questions_ops {
    size_t size;     /* of the user's struct */
    unsigned window; /* so many are under way at once */
    uint8_t flags;   /* NET_LOOKUP_* */
    uint64_t tick;   /* questions that are put off become due at multiples of it */
    struct question_pause pause;
    /* True if it is still to be asked; called before each look-up. False: it is over.
     * NULL: all are. */
    bool (*is_wanted)(const struct question *question);
    /* As dht_lookup_fn; status ENOMEM: it could not be asked. *pause is a copy of the one
     * below, which this may change. May not end another question, nor the queue. */
    enum question_next (*answered)(struct question *question, int status,
                                   const struct dyad_entry *entry,
                                   struct question_pause *pause);
    /* The question is about to be freed. May be NULL. */
    void (*freed)(struct question *question);
    /* Called after an answer, and after questions that were put off became due. */
    void (*stepped)(void *arg);
};

/* NULL: ENOMEM. */
struct retry_queue *retry_queue_create(struct member *member,
                                       const struct questions_ops *ops, void *arg);
/* `questions` may be NULL, here and below. Questions that are under way get no answer. */
void retry_queue_destroy(struct retry_queue *questions);
void *retry_queue_arg(const struct question *question);

/* Add a question: ops->size bytes, zero but for struct question. The next
 * retry_queue_go_on() asks it. NULL: ENOMEM. */
void *retry_queue_add(struct retry_queue *questions, const char *upath);
void retry_queue_go_on(struct retry_queue *questions);

/* Something has changed for the question: its pauses begin anew. If it is put off, the
 * next retry_queue_go_on() asks it; if it is under way, it is asked once more, for the
 * answer may be from before the change. */
void question_again(struct question *question);
/* Ask all questions that are put off now; the pauses of all begin anew. */
void retry_queue_again(struct retry_queue *questions);
/* Somebody waits for the answer: ask this question next, by a timer if it is put off. */
void question_hurry(struct question *question);
/* End the question without an answer. Not from its own `answered`. */
void question_drop(struct question *question);

/* A question of that name, or NULL; one that waits to be asked comes first. O(n). */
struct question *retry_queue_find(const struct retry_queue *questions, const char *upath);
/* True if a question is under way or about to be; those that are put off do not count. */
bool retry_queue_asking(const struct retry_queue *questions);
bool retry_queue_any(const struct retry_queue *questions);

#endif
