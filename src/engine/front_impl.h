/*
 * engine/front_impl.h - between the modules of the front, for nobody else
 */
#ifndef DYAD_ENGINE_FRONT_IMPL_H
#define DYAD_ENGINE_FRONT_IMPL_H

/* In the child of fork: make front.c's lock new. */
void front_lock_reset(void);

#endif
