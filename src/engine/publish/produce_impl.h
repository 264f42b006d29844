/*
 * engine/publish/produce_impl.h - between produce.c and withdraw.c, for nobody else
 */
#ifndef DYAD_ENGINE_PUBLISH_PRODUCE_IMPL_H
#define DYAD_ENGINE_PUBLISH_PRODUCE_IMPL_H

#include "engine/publish/produce.h"

struct produce {
    struct produce *prev, *next; /* utlist, of the same name, in the order of their begin */
    struct member *member;
    enum engine_role role;
    char *upath;
    store_mark_t mark;
    produce_fn fn;
    void *arg;
    struct store_record record;
    struct store_record before; /* the journal's, should it fail; kind 0: none */
    bool ahead;                 /* the record is in the journal ... */
    int unwritten;              /* but not in its file: why */
    struct dht_lookup *lookup;
    struct net_post post;
    int status;
    bool early;      /* answer_early is posted: it must find this object */
    bool ended;      /* meanwhile, or before its directories, it ended with `status` */
    bool only_here;  /* withdrawn only if it is said to lie here */
    bool superseded; /* what is here is older than what another node has published */
    bool awaits;     /* it goes on when what else is under way for this name has ended */
    struct parent *parents; /* directories that are being published for it */
};

struct parent {
    struct parent *prev, *next; /* utlist */
    struct directories_wait wait;
    struct produce *produce;
};

/* Under way from now on, for a file of that directory. NULL: ENOMEM. */
struct produce *produce_create(struct member *member, enum engine_role role,
                               const char *upath, produce_fn fn, void *arg);
/* It was not begun. */
void produce_free(struct produce *p);
/* Its end: tells the modules, then who asked. */
void produce_end(struct produce *p, int status);

#endif
