/*
 * engine/core/retry_queue.h - names that the homes are asked about until their answer will
 * do
 *
 * A queue of questions, each a look-up of one name. A bounded number of them is under way.
 * Who made the queue says of an answer whether it will do; if not the question is put off,
 * for pauses that double, and asked again: also if nothing is heard of the net meanwhile.
 * Loop only.
 */
#ifndef DYAD_ENGINE_CORE_RETRY_QUEUE_H
#define DYAD_ENGINE_CORE_RETRY_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dht/node.h"

struct member;
struct retry_queue;

/* The user's begins with it. */
struct question {
    struct question *prev, *next; /* utlist */
    struct retry_queue *of;
    enum { QUESTION_TODO, QUESTION_ASKED, QUESTION_LATER, QUESTION_NONE } state;
    bool again; /* it is asked once more behind its answer, whatever that is */
    struct dht_lookup *lookup;
    uint64_t pause; /* the last; 0: the next one is the first */
    uint64_t due;
    const char *upath; /* in the same memory */
};

/* What becomes of it. */
enum question_next {
    QUESTION_OVER, /* it is freed */
    QUESTION_PUT_OFF,
    QUESTION_KEPT, /* it has left the queue, and the user frees it with free() */
};

struct question_pause {
    uint64_t first, most; /* each is twice the one before */
    uint64_t by;          /* it is asked then at the latest; 0: no such moment */
};

struct questions_ops {
    size_t size;     /* of the user's struct */
    unsigned window; /* so many are under way at once */
    uint8_t flags;   /* NET_LOOKUP_* */
    uint64_t tick;   /* what is put off becomes due in crowds, at multiples of it */
    struct question_pause pause;
    /* Is it still to be asked? Called before each look-up; no: it is over. NULL: it is. */
    bool (*is_wanted)(const struct question *question);
    /* As dht_lookup_fn; status ENOMEM: it could not be asked. `pause` is as above, and may
     * be changed. May not end another question, nor the queue. */
    enum question_next (*answered)(struct question *question, int status,
                                   const struct dyad_entry *entry,
                                   struct question_pause *pause);
    /* It is about to be freed. NULL: nothing. */
    void (*freed)(struct question *question);
    /* Behind an answer, or when what was put off was due. */
    void (*stepped)(void *arg);
};

/* NULL: ENOMEM. */
struct retry_queue *retry_queue_create(struct member *member,
                                       const struct questions_ops *ops, void *arg);
/* `questions` may be NULL, here and below. What is under way is not answered any more. */
void retry_queue_destroy(struct retry_queue *questions);
void *retry_queue_arg(const struct question *question);

/* A question more, zeroed but for what is above; it is asked by the next
 * retry_queue_go_on(). NULL: ENOMEM. */
void *retry_queue_add(struct retry_queue *questions, const char *upath);
void retry_queue_go_on(struct retry_queue *questions);

/* Something has changed for it: its pauses begin anew; if it is put off it is asked by the
 * next retry_queue_go_on(), if it is under way once more, for the answer may be from
 * before.
 */
void question_again(struct question *question);
/* All that are put off are asked now, and the pauses of all begin anew. */
void retry_queue_again(struct retry_queue *questions);
/* Somebody waits for it: it is the next to be asked, or due, by a timer. */
void question_hurry(struct question *question);
/* It is over, without an answer. Not within its own `answered`. */
void question_drop(struct question *question);

/* One of that name, of several first one that waits to be asked. Looks at all. */
struct question *retry_queue_find(const struct retry_queue *questions, const char *upath);
/* One is under way or about to be; what is put off does not count. */
bool retry_queue_asking(const struct retry_queue *questions);
bool retry_queue_any(const struct retry_queue *questions);

#endif
