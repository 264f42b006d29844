/*
 * engine/inspect/dump.h - answering dyad-dht-dump
 */
#ifndef DYAD_ENGINE_INSPECT_DUMP_H
#define DYAD_ENGINE_INSPECT_DUMP_H

#include "engine/core/member.h"

/* Ask all ranks for dyad-dht-dump: page() for each page, in any order of ranks; `error`
 * not 0: that rank does not answer. */
typedef void (*dump_page_fn)(void *arg, uint32_t rank, int error, const void *json,
                             size_t len, bool more);
typedef void (*dump_done_fn)(void *arg);
struct dump_request *dump_start(struct member *member, const struct net_msg *ask,
                                dump_page_fn page, dump_done_fn done, void *arg);
void dump_cancel(struct dump_request *dump);
/* dump_check.c; after the pool's threads were joined */
void dump_check_stop(struct member *member);

#endif
