/*
 * boot/wave.h - the end of a job without a daemon: exit barrier and termination detection
 *
 * A convergecast over a k-ary tree of ranks finds that every rank is quiescent, and a
 * second wave confirms it with equal activity counters (as in Mattern's four-counter
 * method, 1987): nothing was published, and nobody became active between. A rank that never
 * joined or died is replaced in the tree by its children. The root is the lowest live rank.
 * Pure state machine: knows no network and no clock; belongs to the loop; simulated in a
 * unit test. Four messages per rank and verdict. Messages between two ranks must keep their
 * order.
 */
#ifndef DYAD_BOOT_WAVE_H
#define DYAD_BOOT_WAVE_H

#include <stdbool.h>
#include <stdint.h>

#include "net/msg.h"

enum boot_wave_state {                             /* bits, AND-ed over a subtree */
                       BOOT_WAVE_QUIET = 1 << 0,   /* at exit, gone, or all its processes
                                                      blocked in waits of ours */
                       BOOT_WAVE_EXITING = 1 << 1, /* at exit, and no live descendants */
                       BOOT_WAVE_MISSING = 1 << 2, /* OR-ed: it cannot reach a rank that is
                                                      not known to be dead */
                       BOOT_WAVE_OUTER = 1 << 3,   /* quiet, or busy with a launch within it
                                                      (engine/membership/nested.c) */
                       BOOT_WAVE_SCRIPT = 1 << 4,  /* OR-ed: at exit, but what started it is
                                                      of its rank, too, and may go on */
};

enum boot_wave_verdict {
    BOOT_WAVE_ALL_EXIT,    /* every live rank is at exit: leave */
    BOOT_WAVE_NO_PRODUCER, /* every live rank is quiet and some wait: their waits will never
                            * end, unless a rank joins, or one of them fails and its
                            * program goes on (boot_wave_chosen()). A notify may still
                            * be under way: look up once more, without waiting, before a
                            * wait is failed. */
    BOOT_WAVE_NOBODY_IN_REACH, /* the same, but one of them misses a rank that may live, and
                                * may publish */
    BOOT_WAVE_OUTER_BUSY,      /* every live rank is quiet, except ranks that have started a
                                * launch whose ranks are among these */
};

#define BOOT_WAVE_NONE UINT64_MAX

struct boot_wave_ops {
    int (*send)(void *arg, uint32_t rank,
                struct net_msg *msg); /* 0 or -1: counts as dead until told otherwise */
    bool (*live)(void *arg, uint32_t rank); /* false: dead, or known not to have joined */
    /* A wave asks whether this rank is still quiet. True: boot_wave_confirmed() will be
     * called when every wait of it has been looked up once more and found without an
     * answer; if one is found, boot_wave_set() is called instead, with another activity
     * counter. False: there is nothing to look up. NULL: never. Without it the wave could
     * overtake a notify, or the answer to a look-up, that is under way. */
    bool (*confirm)(void *arg, uint64_t number);
    /* The wait of this rank that is best failed, as a number and a hash of the awaited
     * name: the lowest number of all ranks is chosen, of equal ones the lowest name.
     * BOOT_WAVE_NONE: none. Called when all waits were confirmed. NULL: never. */
    uint64_t (*candidate)(void *arg, uint64_t *name);
    /* ALL_EXIT is final. The others are given again when the state has changed (another
     * activity counter: boot_wave_set(), which may be called from inside), or after
     * boot_wave_kick(). Not called in a rank that has become active since. */
    void (*verdict)(void *arg, enum boot_wave_verdict verdict);
};

struct boot_wave;

struct boot_wave *boot_wave_create(uint32_t self, uint32_t nranks,
                                   const struct boot_wave_ops *ops, void *arg);
void boot_wave_destroy(struct boot_wave *wave);

/* This rank's state (BOOT_WAVE_* bits; EXITING implies QUIET, which implies OUTER) and its
 * activity counter: raised by every publish it begins or ends, every wait that begins or
 * ends, every change from quiet to busy; it never falls, so an incarnation's begins at
 * incarnation << 40. Call on each change. A job of one rank has no second wave: set QUIET
 * only after two looks. */
void boot_wave_set(struct boot_wave *wave, uint32_t state, uint64_t activity);
/* See boot_wave_ops.confirm; a number that is over is ignored. */
void boot_wave_confirmed(struct boot_wave *wave, uint64_t number);
/* A NET_MSG_WAVE arrived. */
void boot_wave_receive(struct boot_wave *wave, const struct net_msg *msg);
/* A rank became dead, absent or live again (or a new incarnation of it: say so, too). */
void boot_wave_rank_changed(struct boot_wave *wave, uint32_t rank);
/* The lowest candidate of the last verdict, and its name. False: no rank has one. */
bool boot_wave_chosen(const struct boot_wave *wave, uint64_t *candidate, uint64_t *name);
/* True if a rank reported BOOT_WAVE_SCRIPT, or BOOT_WAVE_MISSING, in the last verdict. */
bool boot_wave_script(const struct boot_wave *wave);
bool boot_wave_missing(const struct boot_wave *wave);
/* No message came for a while (seconds) though this rank is quiet: send the present state
 * once more (lost messages, changed parents, failed sends). */
void boot_wave_kick(struct boot_wave *wave);
/* Call fn for the ranks on whose messages this one depends: its parent and children in
 * the tree. If they are silent they may be out of reach, which fn has to find out. It may
 * call boot_wave_rank_changed(). */
void boot_wave_neighbours(struct boot_wave *wave, void (*fn)(void *arg, uint32_t rank),
                          void *arg);

#endif
