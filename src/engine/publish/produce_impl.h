/*
 * engine/publish/produce_impl.h - private to the modules of a publish, and withdraw.c
 */
#ifndef DYAD_ENGINE_PUBLISH_PRODUCE_IMPL_H
#define DYAD_ENGINE_PUBLISH_PRODUCE_IMPL_H

#include "engine/namespace/directories.h"
#include "engine/publish/produce.h"

struct produce {
    struct produce *prev, *next; /* utlist, of the same name, in the order of their begin */
    struct member *member;
    enum engine_role role;
    char *upath;
    store_mark_t mark;
    produce_fn fn;
    void *arg;
    struct dyad_base
        base; /* without a mark: what the file here was before the change; or the
                              version that gives way to this one */
    struct store_record record;
    struct store_record before; /* the journal's, in case it fails; kind 0: none */
    bool begins; /* produce_publish() is being called: it was looked at a moment ago */
    bool ahead;  /* the record is in the journal, in this version, ... */
    struct dyad_version version;
    int unwritten;              /* ... but not in its file: errno value, or 0 */
    struct dyad_entry other;    /* of another node, ... */
    bool gives_way;             /* ... to which this one, which is empty, gives way */
    bool conflict;              /* ... with which this one is in conflict */
    bool merges;                /* ... to whose owner its pieces are being sent; */
    uint32_t taker;             /* or to another rank of its node, if that is gone; */
    struct dyad_version absent; /* which had not this version (any more) */
    bool brings;                /* what that version has is being brought: it gives way */
    bool unmerged;              /* that has failed, ... */
    uint64_t met, met_length; /* ... because of these bytes; length 0: for another reason */
    bool stopped;             /* it is not published, since another one counts */
    bool removed;             /* ... since the version that it adds to was removed */
    bool joint;               /* other nodes wrote the file, too, or could */
    bool merged;              /* other nodes' pieces are in the file */
    bool others;              /* other nodes still write it */
    struct dht_lookup *lookup;
    struct net_post post;
    int status;
    bool early;      /* answer_early is posted: it must find this object; */
    bool answered;   /* it has come: the closer waits no more */
    bool ended;      /* meanwhile, or before its directories, it ended with `status` */
    bool only_here;  /* withdraw only if the homes say that it lies here */
    bool late_name;  /* published if nobody has: late_names.c */
    bool linked;     /* the file has several names */
    uint64_t looked; /* when, ns; 0: it was being changed by another node */
    bool gone;       /* the last look found no file */
    bool abandoned;  /* so is its mark */
    bool
        unsettled; /* the file was superseded, and is marked until the homes have taken this version */
    bool superseded; /* the file here is older than the version of another node */
    bool awaits;     /* when other operations on this name have ended, ... */
    int (*step)(struct produce *p); /* ... this goes on: 0, or -1 with errno */
    struct parent *parents;         /* directories that are being published for it */
};

struct parent {
    struct parent *prev, *next; /* utlist */
    struct directories_wait wait;
    struct produce *produce;
};

/* --- produce_queue.c --- */

/* Create an operation on a file of that directory; it is under way now. NULL: ENOMEM. */
struct produce *produce_create(struct member *member, enum engine_role role,
                               const char *upath, produce_fn fn, void *arg);
/* Free an operation that was not begun; nothing is called. */
void produce_free(struct produce *p);
/* End the operation and free it: notifies the modules, then calls fn. */
void produce_end(struct produce *p, int status);

/* The same, but not from inside the start. */
void produce_end_later(struct produce *p, int status);
/* True if another operation on that name is under way, which has looked at the file already.
 */
bool produce_is_behind(const struct produce *p);

/* The publish of that name that is sending its pieces to another node, or NULL. */
struct produce *produce_merging(struct member *member, const char *upath);
/* The one that brings what is in the version that gives way to it, or NULL. */
struct produce *produce_bringing(struct member *member, const char *upath);

/* --- produce.c --- */

/* See that the directories above it are published. */
void produce_parents(struct produce *p);
/* Publish p->record, with the bytes of a small file. 0 or -1 with errno. */
int produce_publish(struct produce *p);

/* Publish it again, with the file as it is now: others of this node may have written it, and published that. */
void produce_ask_anew(struct produce *p);
/* It is not published: the mark is taken away, and the homes are told that this description is closed. */
void produce_given_up(struct produce *p);

/* --- produce_merge.c --- */

/* The homes have refused it (p->merges): send its pieces to p->taker, which has p->other. What follows ends the
 * publish, or begins it anew. */
void produce_merge(struct produce *p);

/* --- produce_changed.c --- */

/* As produce_changed(); the file is published also if nobody has published that name. */
int produce_late_name(struct member *member, enum engine_role role, const char *upath,
                      produce_fn fn, void *arg);

/* --- produce_look.c --- */

/* The file as it is now. 0: p->record filled; 1: nothing that could be published; -1 with
 * errno. */
int produce_look(struct produce *p);
/* True if both describe a file of the same size and mtime. */
bool produce_is_same_content(const struct dyad_entry *a, const struct dyad_entry *b);
/* The change that is published began from what `before` says. */
void produce_base(struct produce *p, const struct dyad_entry *before);
/* True if its writer has made the file, or emptied it. */
bool produce_is_anew(const struct produce *p);
/* True if it is empty, and not because a writer of this node has cut it to nothing. */
bool produce_is_unwritten(const struct produce *p);
/* A version was refused, or has waited for another publish: what the table is to do with the next, whose entry
 * may be changed (dht_ahead_fn). */
enum dht_ahead produce_look_again(struct produce *p, struct dyad_entry *entry,
                                  bool refused);

#endif
