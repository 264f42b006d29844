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
    /* core */       X(sides) X(answers) X(gather)                                      \
    /* membership */ X(links) X(session) X(lost) X(side) X(untold) X(servers) X(within) \
                     X(linger)                                                          \
    /* namespace */  X(dirs) X(list)                                                    \
    /* publish */    X(catch_up) X(shared) X(orphan) X(late) X(produce) X(node_files)   \
    /* promoted */   X(promoted)                                                        \
    /* fetch */      X(serve_other) X(serve) X(transfer) X(consume) X(waits)            \
    /* coherence */  X(node_invalidate) X(restock) X(invalidate) X(revalidate)          \
                     X(lease) X(lease_ask)                                              \
    /* recovery */   X(first_look) X(restore) X(adopt_gone) X(adopt_renames) X(adopt)   \
    /* inspect */    X(dump)
/* clang-format on */

#define DECLARE(name) extern const struct member_module name##_module;
MODULES(DECLARE)

#define ENTRY(name) &name##_module,
const struct member_module *const engine_modules[] = {MODULES(ENTRY) NULL};
