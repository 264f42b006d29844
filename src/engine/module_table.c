/* module_table.c - the table of the member's modules: MEMBER_MODULES() with what they are
 */
#include "engine/module_table.h"

#include <stddef.h>

#include "engine/core/module.h"

#define DECLARE(name) extern const struct member_module name##_module;
MEMBER_MODULES(DECLARE)

#define ENTRY(name) &name##_module,
const struct member_module *const engine_modules[] = {MEMBER_MODULES(ENTRY) NULL};
