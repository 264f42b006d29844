/* engine/module_table.h - the table of the member's modules (engine/core/module.h) */
#ifndef DYAD_ENGINE_MODULE_TABLE_H
#define DYAD_ENGINE_MODULE_TABLE_H

struct member_module;

extern const struct member_module *const engine_modules[]; /* NULL ends it */

#endif
