/*
 * engine/front_impl.h - between the modules of the front, for nobody else
 */
#ifndef DYAD_ENGINE_FRONT_IMPL_H
#define DYAD_ENGINE_FRONT_IMPL_H

#include <stdbool.h>

/* In the child of fork: make front.c's lock new. */
void front_lock_reset(void);

/* dyad/libdyad_member.so, opened; NULL after a log line. `apart`: with libraries of its
 * own, libc included, whatever this process has loaded of them already; what is made there
 * is freed there. */
const struct member_ops *front_member_library(bool apart);

#endif
