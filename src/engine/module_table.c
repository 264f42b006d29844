/*
 * module_table.c - the modules of the member, lowest first
 *
 * Who starts later may call those that are there; in the end it is the other way round.
 */
#include "engine/module_table.h"

#include <stddef.h>

#include "engine/core/module.h"

/* clang-format off */
#define MODULES(X)                                                                      \
    /* core */       X(storage) X(answers) X(gather)                                      \
    /* membership */ X(links) X(session) X(unreachable) X(partition) X(untold) X(servers) X(nested) \
                     X(exit_barrier)                                                          \
    /* namespace */  X(directories) X(list)                                                    \
    /* publish */    X(journal_retry) X(shared) X(held_open) X(late_name) X(produce) X(node_files)   \
    /* promoted */   X(promoted)                                                        \
    /* fetch */      X(serve_other) X(serve) X(transfer) X(consume) X(waits)            \
    /* coherence */  X(node_invalidate) X(restock) X(invalidate) X(revalidate)          \
                     X(lease) X(lease_ask)                                              \
    /* recovery */   X(startup_validation) X(restore) X(takeover_gone) X(takeover_renames) X(takeover)   \
    /* inspect */    X(dump)
/* clang-format on */

#define DECLARE(name) extern const struct member_module name##_module;
MODULES(DECLARE)

#define ENTRY(name) &name##_module,
const struct member_module *const engine_modules[] = {MODULES(ENTRY) NULL};
