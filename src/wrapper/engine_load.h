/*
 * wrapper/engine_load.h - finding, loading and setting up the engine, with no fork
 * meanwhile
 */
#ifndef DYAD_WRAPPER_ENGINE_LOAD_H
#define DYAD_WRAPPER_ENGINE_LOAD_H

#include <stdbool.h>

#include "client/client_ops.h"

/* Note the place of this library, beside which the engine is. Once, before the phase is
 * ON. */
void wrapper_engine_find(void);

/* The table if the engine is loaded, else NULL. */
const struct engine_ops *wrapper_engine_loaded(void);
/* The same; loads it at the first call. Keeps errno. */
const struct engine_ops *wrapper_engine_load(void);
/* Before that, best effort: load and set the engine up on a thread with a descriptor
 * table of its own. */
void wrapper_engine_preload(void);

/* Around the real fork: no fork while another thread is half way through loading the
 * engine. False: this thread is itself in the engine (a signal handler forks), and nothing
 * was locked. */
bool wrapper_fork_lock(void);
void wrapper_fork_unlock(void);
/* Call it in the child of a fork. */
void wrapper_engine_fork_child(void);

#endif
